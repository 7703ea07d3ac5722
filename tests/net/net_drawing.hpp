// What random nets are drawn with: blobs, layers, and the text and inputs of the net they make.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "banyan/base/text.hpp"
#include "net/random_seeds.hpp"

namespace banyan {

/// The samples of a batch: first, first + step... of one that `devices` devices divide.
struct Share {
  int first = 0, step = 1, devices = 1;
};

/// What a net may hold.
struct Allowed {
  bool kinks = true;  ///< layers whose gradient jumps, is stopped, or is not that of the loss (CenterLoss)
  /// Layers that train on one device only, or whose results depend on which samples a device has.
  bool alone = false;
};

/// A net while it is drawn. A blob that a layer works on in place is not read again under its old name, so
/// the same net can be written with and without in-place layers.
class NetDrawing {
 public:
  NetDrawing(unsigned seed, Allowed allowed) : random_(seed), allowed_(allowed) {}

  std::string text(int batch, bool in_place, const std::string& settings = "") const {
    std::string text = settings + "\n";
    for (const Fed& fed : kFed)
      if (used_.count(fed.name) > 0) {
        text += cat("layer { name: 'in_", fed.name, "' type: 'Input' top: '", fed.name,
                    "' input_param { shape {");
        for (const int dim : fed.dims) text += cat(" dim: ", dim == 0 ? batch : dim);
        text += " } } }\n";
      }
    std::vector<std::string> names{"data"};
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const Drawn& layer = layers_[l];
      text += cat("layer { name: 'l", l, "' type: '", layer.type, "' ");
      for (const std::size_t input : layer.inputs) text += cat("bottom: '", names[input], "' ");
      for (const std::string& input : layer.fed) text += cat("bottom: '", input, "' ");
      for (const std::size_t input : layer.last) text += cat("bottom: '", names[input], "' ");
      for (int o = 0; o < layer.outputs; ++o) {
        names.push_back(in_place && layer.in_place ? names[layer.inputs[0]] : cat("b", names.size()));
        text += cat("top: '", names.back(), "' ");
      }
      text += layer.settings + " }\n";
    }
    return text;
  }

  /// Number of layers, Inputs not counted.
  std::size_t layers() const { return layers_.size(); }

  /// Names of the Inputs.
  const std::set<std::string>& fed() const { return used_; }
  /// The values of an Input for a batch.
  static std::vector<double> values(const std::string& name, int batch, const Share& share = {}) {
    const Fed& fed =
        *std::find_if(std::begin(kFed), std::end(kFed), [&](const Fed& one) { return one.name == name; });
    std::vector<double> values;
    std::vector<int> at(fed.dims.size(), 0);
    while (true) {
      auto hash = static_cast<std::uint32_t>(&fed - kFed);
      int local = 0;
      for (std::size_t axis = 0; axis < at.size(); ++axis) {
        const bool samples = fed.dims[axis] == 0;
        if (samples) local = at[axis];
        hash += static_cast<std::uint32_t>(samples ? share.first + local * share.step : at[axis]) + 1;
        hash = hash * 2654435761U ^ hash * 40503U >> 15;
      }
      const double unit = (hash * 2246822519U >> 8) / 16777216.0;
      values.push_back(fed.kind <= Kind::label ? plain_value(fed.kind, unit)
                                               : placed_value(fed.kind, at, unit, local, share));
      std::size_t axis = at.size();
      while (axis > 0 && ++at[axis - 1] == (fed.dims[axis - 1] == 0 ? batch : fed.dims[axis - 1]))
        at[--axis] = 0;
      if (axis == 0) return values;
    }
  }

 protected:
  /// Values: -1 to 1, 1/4 to 3/4, 0 or 1, 0 to 4, the number of another sample, image and corners; corners
  /// and class (0: none); size of the images; SSD's row of image, class, object, corners, difficult; two
  /// labels 0 to 3 and then -1, along the first axis; class (0: none), centre, size and overlap, along the
  /// second axis; image, corners, class and two zeros; the number of two objects, and then their boxes and
  /// classes.
  enum class Kind : std::uint8_t {
    wide,
    share,
    flag,
    label,
    neighbour,
    region,
    box,
    info,
    truth,
    columns,
    field,
    target,
    object
  };
  static double plain_value(Kind kind, double unit) {
    const double drawn[] = {2 * unit - 1, 0.25 + unit / 2, std::floor(2 * unit), std::floor(5 * unit)};
    return drawn[static_cast<std::size_t>(kind)];
  }
  /// `at`: the place in the blob; `local`: the number of the sample on its device.
  static double placed_value(Kind kind, const std::vector<int>& at, double unit, int local,
                             const Share& share) {
    switch (kind) {
      case Kind::neighbour:
        return (local / share.devices ^ 1) * share.devices + local % share.devices;
      case Kind::region:  // corners in the upper left and the lower right
        return at[1] == 0 ? local : at[1] < 3 ? 2 * unit : 3 + 2 * unit;
      case Kind::box:
        return at[2] < 2 ? 2 * unit : at[2] < 4 ? 3 + 2 * unit : std::floor(3 * unit);
      case Kind::info:
        return at[1] < 2 ? 6 : 1;
      case Kind::truth:
        return at[3] == 0   ? local
               : at[3] == 1 ? 1 + std::floor(2 * unit)
               : at[3] < 3  ? 0
               : at[3] < 5  ? unit / 2
               : at[3] < 7  ? 0.5 + unit / 2
                            : 0;
      case Kind::columns:
        return at[0] < 2 ? std::floor(4 * unit) : -1;
      case Kind::field: {
        const double of_channel[] = {
            std::max(0.0, std::floor(8 * unit) - 5), 12 * unit, 12 * unit, 3 + 3 * unit, 3 + 3 * unit, unit};
        return of_channel[at[1] % 6];
      }
      case Kind::target: {
        const double of_column[] = {
            static_cast<double>(local), 4 * unit, 4 * unit, 5 + 6 * unit, 5 + 6 * unit,
            1 + std::floor(2 * unit)};
        return at[2] < 6 ? of_column[at[2]] : 0;
      }
      default: {
        const double first_row[] = {2, 16},
                     of_object[] = {2 * unit, 2 * unit, 2 + 2 * unit, 2 + 2 * unit, 0, 1};
        return at[2] == 0 ? (at[3] < 2 ? first_row[at[3]] : 0) : at[3] < 6 ? of_object[at[3]] : 0;
      }
    }
  }
  struct Fed {
    std::string name;
    std::vector<int> dims;  ///< 0: the batch
    Kind kind = Kind::wide;
  };
  inline static const Fed kFed[] = {
      {"data", {0, 4, 6, 6}, Kind::wide},
      {"label", {0}, Kind::label},
      {"label_map", {0, 6, 6}, Kind::label},
      {"target", {0, 5}, Kind::share},
      {"weights", {0, 5}, Kind::share},
      {"flag", {0}, Kind::flag},
      {"neighbour", {0}, Kind::neighbour},
      {"gain", {5, 5}, Kind::share},
      {"cont", {6, 0}, Kind::flag},
      {"regions", {0, 5}, Kind::region},
      {"cont_1", {1, 0}, Kind::flag},
      {"boxes", {0, 2, 5}, Kind::box},
      {"info", {0, 3}, Kind::info},
      {"truth", {1, 1, 0, 8}, Kind::truth},
      {"colours", {0, 3, 6, 6}, Kind::share},
      {"flow", {0, 2, 6, 6}, Kind::wide},
      {"theta", {0, 6}, Kind::share},
      {"sizes", {0, 2}, Kind::info},
      {"columns", {6, 0}, Kind::columns},
      {"words", {0, 3}, Kind::label},
      {"classes", {0, 5}, Kind::flag},
      {"fields", {0, 6, 6, 6}, Kind::field},
      {"two_fields", {0, 12, 6, 6}, Kind::field},
      {"targets", {0, 2, 8}, Kind::target},
      {"objects", {0, 1, 3, 16}, Kind::object},
  };
  struct Drawn {
    std::string type, settings;
    std::vector<std::size_t> inputs;
    std::vector<std::string> fed = {};  ///< after the inputs
    int outputs = 1;
    bool in_place = false;
    std::vector<std::size_t> last = {};  ///< inputs after those
  };
  struct Form {
    int c = 4, h = 6, w = 6;  ///< a vector: h = 0
    bool operator==(const Form&) const = default;
  };
  struct DrawnBlob {
    Form form;
    bool readable = true;
  };

  int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }
  template <class... Texts>
  std::string one_of(Texts... texts) {
    const std::vector<std::string> all{texts...};
    return all[random_() % all.size()];
  }
  const Form& form(std::size_t blob) const { return blobs_[blob].form; }

  /// A readable blob of maps, or of vectors, preferring late ones; there are always maps.
  std::size_t pick(bool maps = true) {
    std::vector<std::size_t> all;
    for (std::size_t b = 0; b < blobs_.size(); ++b)
      if (blobs_[b].readable && (form(b).h > 0) == maps) all.push_back(b);
    if (all.empty()) return vector_of(pick(), 5);
    const int late = std::min(2, static_cast<int>(all.size()));
    return all[all.size() - 1 -
               static_cast<std::size_t>(below(below(4) == 0 ? static_cast<int>(all.size()) : late))];
  }
  std::size_t like(std::size_t blob) {
    for (int i = 0; i < 20; ++i)
      if (const std::size_t other = pick(form(blob).h > 0); form(other) == form(blob)) return other;
    return blob;
  }

  /// The first output.
  std::size_t add(Drawn layer, Form form) {
    for (int o = 0; o < layer.outputs; ++o) blobs_.push_back({form, true});
    if (layer.in_place) blobs_[layer.inputs[0]].readable = false;
    used_.insert(layer.fed.begin(), layer.fed.end());
    const auto outputs = static_cast<std::size_t>(layer.outputs);
    layers_.push_back(std::move(layer));
    return blobs_.size() - outputs;
  }
  std::size_t add_elementwise(std::size_t from, const std::string& type, const std::string& settings = "") {
    const bool in_place = from != 0 && below(3) != 0;
    const std::string weight = !in_place && below(16) == 0 ? " loss_weight: 0.01" : "";
    return add({type, settings + weight, {from}, {}, 1, in_place}, form(from));
  }
  static constexpr const char* kFillers =
      "weight_filler { type: 'msra' } bias_filler { type: 'uniform' min: -0.1 max: 0.1 }";
  /// Parameters of one size are shared now and then, or do not learn.
  std::string shared(const std::string& name, int parameters) {
    std::string text;
    if (below(12) == 0) return " param { lr_mult: 0 }";
    if (below(12) == 0 && allowed_.kinks) return " propagate_down: false";
    if (below(4) == 0)
      for (int i = 0; i < parameters; ++i) text += cat(" param { name: '", name, "_", i, "' }");
    return text;
  }
  std::size_t convolution(std::size_t from, int made, int kernel) {
    const Form& f = form(from);
    return add({"Convolution",
                cat("convolution_param { num_output: ", made, " kernel_size: ", kernel, " pad: ", kernel / 2,
                    " ", kFillers, " }", shared(cat("conv_", f.c, "_", made, "_", kernel), 2)),
                {from}},
               {made, f.h, f.w});
  }
  bool is_six_by_six(std::size_t from) const { return form(from).h == 6 && form(from).w == 6; }
  std::size_t six_by_six(std::size_t from) {
    if (is_six_by_six(from)) return from;
    return add({"Interp", "interp_param { height: 6 width: 6 }", {from}}, {form(from).c, 6, 6});
  }
  /// For inputs that only certain layers can take.
  std::size_t add_unreadable(Drawn layer) {
    const std::size_t made = add(std::move(layer), {});
    for (std::size_t blob = made; blob < blobs_.size(); ++blob) blobs_[blob].readable = false;
    return made;
  }
  /// An Input that layers read as they read other blobs.
  std::size_t fed_blob(const std::string& name) { return add_unreadable({"Power", "", {}, {name}}); }
  std::size_t vector_of(std::size_t from, int made) {
    const Form& f = form(from);
    return add({"InnerProduct",
                cat("inner_product_param { num_output: ", made, " ", kFillers, " }",
                    shared(cat("ip_", f.c * std::max(1, f.h * f.w), "_", made), 2)),
                {from}},
               {made, 0, 0});
  }

  std::mt19937 random_;
  Allowed allowed_;
  std::vector<DrawnBlob> blobs_{{{}, true}};
  std::vector<Drawn> layers_;
  std::set<std::string> used_{"data"};
};

}  // namespace banyan
