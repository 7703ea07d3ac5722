// Random valid nets of most layer types, small enough for hundreds of them to run within seconds.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "banyan/base/text.hpp"

namespace banyan {

/// The seeds a test draws its nets with: from BANYAN_RANDOM_FIRST (0) on, BANYAN_RANDOM_NETS of them or as
/// many as usual.
struct Seeds {
  unsigned first = 0, end = 0;
};
inline Seeds random_seeds(unsigned usual) {
  const auto wished = [](const char* name, unsigned otherwise) {
    const char* const text = std::getenv(name);
    return text != nullptr ? static_cast<unsigned>(std::atoi(text)) : otherwise;
  };
  const unsigned first = wished("BANYAN_RANDOM_FIRST", 0);
  return {first, first + wished("BANYAN_RANDOM_NETS", usual)};
}

/// The samples of a batch: first, first + step... of one that `devices` devices divide.
struct Share {
  int first = 0, step = 1, devices = 1;
};

/// What a net may hold.
struct Allowed {
  bool kinks = true;  ///< layers whose gradient jumps, is stopped, or is not that of the loss (CenterLoss)
};

/// Maps (N x C x H x W) go through layers that keep, change or restore their size; vectors (N x C) branch off
/// them; 1 to 3 losses of any kind end the net. A blob that a layer works on in place is not read again under
/// its old name, so the same net can be written with and without in-place layers.
class WideRandomNet {
 public:
  explicit WideRandomNet(unsigned seed, Allowed allowed = {}) : random_(seed), allowed_(allowed) {
    for (int i = 5 + below(12); i > 0; --i) add_layer();
    for (int i = 1 + below(3); i > 0; --i) add_loss();
  }

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
      const double drawn[] = {2 * unit - 1, 0.25 + unit / 2, std::floor(2 * unit), std::floor(5 * unit)};
      double value = 0;
      switch (fed.kind) {
        case Kind::neighbour:
          value = (local / share.devices ^ 1) * share.devices + local % share.devices;
          break;
        case Kind::region:  // corners in the upper left and the lower right
          value = at[1] == 0 ? local : at[1] < 3 ? 2 * unit : 3 + 2 * unit;
          break;
        default:
          value = drawn[static_cast<std::size_t>(fed.kind)];
      }
      values.push_back(value);
      std::size_t axis = at.size();
      while (axis > 0 && ++at[axis - 1] == (fed.dims[axis - 1] == 0 ? batch : fed.dims[axis - 1]))
        at[--axis] = 0;
      if (axis == 0) return values;
    }
  }

 private:
  /// Values: -1 to 1, 1/4 to 3/4, 0 or 1, 0 to 4, the number of another sample, image and corners.
  enum class Kind : std::uint8_t { wide, share, flag, label, neighbour, region };
  struct Fed {
    std::string name;
    std::vector<int> dims;  ///< 0: the batch
    Kind kind = Kind::wide;
  };
  inline static const Fed kFed[] = {
      {"data", {0, 4, 6, 6}, Kind::wide},    {"label", {0}, Kind::label},
      {"label_map", {0, 6, 6}, Kind::label}, {"target", {0, 5}, Kind::share},
      {"weights", {0, 5}, Kind::share},      {"flag", {0}, Kind::flag},
      {"neighbour", {0}, Kind::neighbour},   {"gain", {5, 5}, Kind::share},
      {"cont", {6, 0}, Kind::flag},          {"regions", {0, 5}, Kind::region},
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
  std::size_t vector_of(std::size_t from, int made) {
    const Form& f = form(from);
    return add({"InnerProduct",
                cat("inner_product_param { num_output: ", made, " ", kFillers, " }",
                    shared(cat("ip_", f.c * std::max(1, f.h * f.w), "_", made), 2)),
                {from}},
               {made, 0, 0});
  }

  void add_layer() {
    switch (below(10)) {
      case 0:
      case 1:
        return add_function(pick(below(5) != 0));
      case 2:
        return add_normalization(pick());
      case 3:
      case 4:
        return add_convolution(pick());
      case 5:
        return add_join(pick(below(5) != 0));
      case 6:
      case 7:
        return add_resizing(pick());
      case 8:
        return add_vectors();
      default:
        return add_order(pick());
    }
  }

  void add_function(std::size_t from) {
    struct Function {
      const char *type, *settings;
      bool kinks;
    };
    static const Function kFunctions[] = {
        {"ReLU", "", true},
        {"ReLU", "relu_param { negative_slope: 0.3 }", true},
        {"ReLU", "relu_param { negative_slope: -0.25 }", true},
        {"ReLU", "", true},
        {"PReLU", "", true},
        {"PReLU", "prelu_param { channel_shared: true filler { value: 0.4 } }", true},
        {"Clip", "clip_param { min: -0.5 max: 0.75 }", true},
        {"Clip", "clip_param { min: -0.25 max: 2 }", true},
        {"AbsVal", "", true},
        {"Threshold", "threshold_param { threshold: 0.1 }", true},
        {"ELU", "elu_param { alpha: 0.5 }", true},
        {"ELU", "elu_param { alpha: 1.67 lambda: 1.05 }", true},
        {"ELU", "", false},
        {"Swish", "", false},
        {"Swish", "swish_param { beta: 1.5 }", false},
        {"Sigmoid", "", false},
        {"TanH", "", false},
        {"BNLL", "", false},
        {"Exp", "exp_param { base: 2 scale: 0.25 shift: -0.5 }", false},
        {"Power", "power_param { scale: 0.5 shift: 0.25 }", false},
        {"Power", "power_param { power: 2 scale: 0.5 shift: -0.125 }", false},
        {"Dropout", "dropout_param { dropout_ratio: 0.25 }", false},
        {"Scale", "scale_param { bias_term: true filler { type: 'uniform' min: 0.5 max: 1.5 } }", false},
        {"Scale", "scale_param { filler { type: 'uniform' min: 0.5 max: 1.5 } }", false},
        {"Bias", "bias_param { filler { type: 'uniform' min: -0.5 max: 0.5 } }", false},
        {"Log", "log_param { shift: 0.5 }", false},
    };
    const Function& drawn = kFunctions[random_() % std::size(kFunctions)];
    if (drawn.kinks && !allowed_.kinks) return add_function(from);
    if (drawn.type == std::string("Log")) from = add_elementwise(from, "Sigmoid");
    const std::size_t made = add_elementwise(from, drawn.type, drawn.settings);
    if (drawn.type == std::string("ReLU") && below(3) == 0) add_elementwise(made, "Dropout");
  }

  void add_normalization(std::size_t from) {
    const Form f = form(from);
    const std::string fillers =
        "slope_filler { type: 'uniform' min: 0.5 max: 1.5 } bias_filler { type: 'uniform' min: -0.5 max: 0.5 "
        "}";
    switch (below(8)) {
      case 0:
      case 1: {
        from = add_elementwise(from, "BatchNorm",
                               one_of("", "", "batch_norm_param { use_global_stats: true eps: 1 }"));
        from = add_elementwise(
            from, "Scale", "scale_param { bias_term: true filler { type: 'uniform' min: 0.5 max: 1.5 } }");
        if (below(2) == 0) add_elementwise(from, allowed_.kinks ? one_of("ReLU", "ELU") : "ELU");
        return;
      }
      case 2:
        add_elementwise(from, "BN", cat("bn_param { ", fillers, " }"));
        return;
      case 3:
        from = add_elementwise(from, "SyncBN", cat("bn_param { ", fillers, " }"));
        if (below(2) == 0) add_elementwise(from, allowed_.kinks ? one_of("ReLU", "AbsVal", "ELU") : "ELU");
        return;
      case 4:
        add({"LRN",
             one_of("lrn_param { local_size: 3 alpha: 0.5 }",
                    "lrn_param { local_size: 3 alpha: 0.7 norm_region: WITHIN_CHANNEL }",
                    "lrn_param { local_size: 5 alpha: 0.1 beta: 0.5 k: 2 }"),
             {from}},
            f);
        return;
      case 5:
        if (f.h * f.w < 9) return;  // deviations of few values amplify rounding
        add({"MVN",
             one_of("mvn_param { eps: 0.01 }", "mvn_param { normalize_variance: false }",
                    "mvn_param { across_channels: true eps: 0.01 }"),
             {from}},
            f);
        return;
      case 6:
        add({"Normalize",
             one_of("norm_param { across_spatial: true eps: 0.01 scale_filler { value: 2 } }",
                    "norm_param { across_spatial: false channel_shared: false eps: 0.01 scale_filler { "
                    "value: 1.5 } }",
                    "norm_param { across_spatial: false eps: 0.01 }"),
             {from}},
            f);
        return;
      default:
        add({"Softmax", one_of("", "softmax_param { axis: 2 }"), {from}}, f);
    }
  }

  void add_convolution(std::size_t from) {
    const Form f = form(from);
    switch (below(6)) {
      case 0:
        if (f.h <= 6) {
          const std::size_t up =
              add({"Deconvolution",
                   cat("convolution_param { num_output: 3 kernel_size: 4 stride: 2 pad: 1 ", kFillers, " }"),
                   {from}},
                  {3, 2 * f.h, 2 * f.w});
          if (below(2) == 0) add_function(up);
          return;
        }
        [[fallthrough]];
      case 1:
        add({one_of("DepthwiseConvolution", "ConvolutionDepthwise"),
             cat("convolution_param { num_output: ", f.c, " kernel_size: 3 pad: 1 ", kFillers, " }"),
             {from}},
            f);
        return;
      case 2:
        if (f.c % 2 == 0) {
          add({"Convolution",
               cat("convolution_param { num_output: 4 group: 2 kernel_size: 3 pad: 2 dilation: 2 bias_term: "
                   "false ",
                   kFillers, " }"),
               {from}},
              {4, f.h, f.w});
          return;
        }
        [[fallthrough]];
      default: {
        const std::size_t made = convolution(from, below(4) == 0 ? 8 : 4, below(2) == 0 ? 1 : 3);
        if (below(2) == 0 && allowed_.kinks) add_elementwise(made, one_of("ReLU", "PReLU"));
      }
    }
  }

  void add_join(std::size_t from) {
    const Form f = form(from);
    const std::size_t other = like(from);
    switch (below(10)) {
      case 0:
      case 1:
        add({"Eltwise", one_of("", "", "eltwise_param { coeff: 1 coeff: -0.5 }"), {from, other}}, f);
        return;
      case 2:
        add({"Eltwise",
             one_of("eltwise_param { operation: PROD }",
                    allowed_.kinks ? "eltwise_param { operation: MAX }" : ""),
             {from, other}},
            f);
        return;
      case 3:
        if (f.c % 2 == 0 && f.c >= 4) {
          const std::size_t half = add({"Slice", "", {from}, {}, 2}, {f.c / 2, f.h, f.w});
          if (below(3) == 0) add({"Silence", "", {half + 1}, {}, 0}, f);
          return;
        }
        [[fallthrough]];
      case 4:
        if (f.c <= 8) add({"Concat", "", {from, other}}, {2 * f.c, f.h, f.w});
        return;
      case 5: {
        if (f.h == 0) return;
        // A factor for each channel of each sample, as in squeeze and excitation.
        std::size_t factor =
            add({"Pooling", "pooling_param { pool: AVE global_pooling: true }", {from}}, {f.c, 1, 1});
        factor = add_elementwise(factor, "Sigmoid");
        if (below(2) == 0) {
          add({"Axpy", "", {factor, from, other}}, f);
        } else {
          factor = add({"Flatten", "", {factor}}, {f.c, 0, 0});
          add({"Scale", "scale_param { axis: 0 }", {from, factor}}, f);
        }
        return;
      }
      case 6:
        add({"Eltwise", "", {from, other, like(from)}}, f);
        return;
      case 7:
        if (f.h == 0) return;
        add({"Convolution",
             cat("convolution_param { num_output: 4 kernel_size: 1 ", kFillers, " }"),
             {from, other},
             {},
             2},
            {4, f.h, f.w});
        return;
      case 8: {
        const std::size_t added = vector_of(from, f.c);
        add({"Bias", "bias_param { axis: 0 }", {from, added}}, f);
        return;
      }
      default:
        add({"BatchReindex", "", {from}, {"neighbour"}}, f);
    }
  }

  void add_resizing(std::size_t from) {
    const Form f = form(from);
    switch (below(12)) {
      case 0: {
        if (f.h < 2 || f.w < 2 || !allowed_.kinks) break;
        const Form half{f.c, (f.h + 1) / 2, (f.w + 1) / 2};
        const std::size_t pooled =
            add({"Pooling", "pooling_param { kernel_size: 2 stride: 2 }", {from}, {}, 2}, half);
        blobs_[pooled + 1].readable = false;
        std::size_t small = pooled;
        if (below(3) != 0) small = convolution(pooled, f.c, 3);
        const bool segnet = below(2) == 0;
        add({segnet ? "Upsample" : "Unpooling",
             cat(segnet ? "upsample_param { upsample_h: " : "unpooling_param { unpool_h: ", f.h,
                 segnet ? " upsample_w: " : " unpool_w: ", f.w, " }"),
             {small, pooled + 1}},
            f);
        return;
      }
      case 1:
        if (f.h > 6) break;
        add({"Upsample", "", {from}}, {f.c, 2 * f.h, 2 * f.w});
        return;
      case 2: {
        const Form made{f.c, 3 + below(4), 3 + below(4)};
        add({"Interp", cat("interp_param { height: ", made.h, " width: ", made.w, " }"), {from}}, made);
        return;
      }
      case 3: {
        const std::size_t small = pick();
        const Form to = form(small);
        if (to.h > f.h || to.w > f.w) break;
        add({"Crop", cat("crop_param { offset: ", f.h - to.h, " offset: 0 }"), {from, small}},
            {f.c, to.h, to.w});
        return;
      }
      case 4:
        if (f.h % 2 == 0 && f.w % 2 == 0 && f.c == 4) {
          add({"Reorg", "reorg_param { stride: 2 }", {from}}, {4 * f.c, f.h / 2, f.w / 2});
        } else if (f.c % 4 == 0 && f.h <= 6) {
          add({"Reorg", "reorg_param { stride: 2 reverse: true }", {from}}, {f.c / 4, 2 * f.h, 2 * f.w});
        }
        return;
      case 5:
        if (f.c * f.w * f.h > 300) break;
        if (below(2) == 0) {
          add({"Tile", "tile_param { axis: 1 tiles: 2 }", {from}}, {2 * f.c, f.h, f.w});
        } else {
          add({"Tile", "tile_param { axis: -1 tiles: 2 }", {from}}, {f.c, f.h, 2 * f.w});
        }
        return;
      case 6:
        if (f.h < 3 || f.w < 3) break;
        add({"Im2col", "convolution_param { kernel_size: 2 stride: 2 }", {from}},
            {4 * f.c, (f.h - 2) / 2 + 1, (f.w - 2) / 2 + 1});
        if (f.c > 4) convolution(blobs_.size() - 1, 4, 1);
        return;
      case 7:
        if (f.h > 6 || f.w > 6) break;
        add({"Unpooling", "unpooling_param { unpool: FIXED kernel_size: 3 stride: 2 pad: 1 }", {from}},
            {f.c, 2 * f.h - 1, 2 * f.w - 1});
        return;
      case 8: {
        if (f.h < 3 || f.w < 3) break;
        const std::string type = allowed_.kinks ? one_of("ROIPooling", "ROIAlign") : "ROIAlign";
        add({type,
             cat(type == "ROIAlign" ? "roi_align_param" : "roi_pooling_param",
                 " { pooled_h: 2 pooled_w: 3 }"),
             {from},
             {"regions"}},
            {f.c, 2, 3});
        return;
      }
      case 9:
        if (f.c % 4 != 0) break;
        add({"PSROIPooling",
             cat("psroi_pooling_param { output_dim: ", f.c / 4, " group_size: 2 spatial_scale: 1 }"),
             {from},
             {"regions"}},
            {f.c / 4, 2, 2});
        return;
      default:
        break;
    }
    const std::string how = allowed_.kinks ? one_of("MAX", "AVE", "STOCHASTIC", "AVE") : "AVE";
    const bool half = f.h >= 3 && f.w >= 3 && f.h * f.w > 36;
    if (how == "STOCHASTIC") {  // of values that are not negative
      if (f.h % 2 != 0 || f.w % 2 != 0) return;
      from = add_elementwise(from, "Sigmoid");
      add({"Pooling", "pooling_param { kernel_size: 2 stride: 2 pool: STOCHASTIC }", {from}},
          {f.c, f.h / 2, f.w / 2});
    } else if (half) {
      add({"Pooling", cat("pooling_param { kernel_size: 2 stride: 2 pool: ", how, " }"), {from}},
          {f.c, (f.h + 1) / 2, (f.w + 1) / 2});
    } else {
      add({"Pooling", cat("pooling_param { kernel_size: 3 pad: 1 pool: ", how, " }"), {from}}, f);
    }
  }

  void add_order(std::size_t from) {
    const Form f = form(from);
    switch (below(7)) {
      case 0:
        add({"ShuffleChannel", cat("shuffle_channel_param { group: ", f.c % 2 == 0 ? 2 : 1, " }"), {from}},
            f);
        return;
      case 1:
        add({"Flip", one_of("", "flip_param { flip_height: true }"), {from}}, f);
        return;
      case 2: {
        const std::size_t turned =
            add({"Permute", "permute_param { order: [0, 1, 3, 2] }", {from}}, {f.c, f.w, f.h});
        if (below(2) == 0) add_function(turned);
        return;
      }
      case 3: {
        // There and back, with something between.
        std::size_t at = add({"Permute", "permute_param { order: [0, 2, 3, 1] }", {from}}, {f.h, f.w, f.c});
        if (below(2) == 0) at = add({"Softmax", "softmax_param { axis: 3 }", {at}}, {f.h, f.w, f.c});
        add({"Permute", "permute_param { order: [0, 3, 1, 2] }", {at}}, f);
        return;
      }
      case 4: {
        std::size_t at = add({"Flatten", "", {from}}, {f.c * f.h * f.w, 0, 0});
        if (below(2) == 0) at = add_elementwise(at, one_of("TanH", "Swish"));
        add({"Reshape",
             cat("reshape_param { shape { dim: 0 dim: ", f.c, " dim: -1 dim: ", f.w, " } }"),
             {at}},
            f);
        return;
      }
      case 5: {
        if (f.h != 6) return;
        // The rows as time steps.
        std::vector<std::size_t> fixed;
        if (below(2) == 0) fixed.push_back(vector_of(pick(), 4));
        std::size_t at = add({"Permute", "permute_param { order: [2, 0, 1, 3] }", {from}}, {});
        blobs_[at].readable = false;
        at = add({one_of("LSTM", "RNN"),
                  "recurrent_param { num_output: 3 weight_filler { type: 'uniform' min: -0.5 max: 0.5 } "
                  "bias_filler { "
                  "type: 'uniform' min: -0.5 max: 0.5 } }",
                  {at},
                  {"cont"},
                  1,
                  false,
                  fixed},
                 {});
        blobs_[at].readable = false;
        at = add({"Permute", "permute_param { order: [1, 2, 0] }", {at}}, {});
        blobs_[at].readable = false;
        add({"Reshape", "reshape_param { shape { dim: 0 dim: 3 dim: 2 dim: 3 } }", {at}}, {3, 2, 3});
        return;
      }
      default: {
        const std::size_t half =
            f.w >= 2
                ? add({"Slice", cat("slice_param { axis: 3 slice_point: ", f.w / 2, " }"), {from}, {}, 2},
                      {f.c, f.h, f.w / 2})
                : 0;
        if (half == 0) return;
        blobs_[half + 1].form.w = f.w - f.w / 2;
        if (below(2) == 0) add_function(half);
        add({"Concat",
             "concat_param { axis: 3 }",
             {blobs_.size() - 1 > half + 1 ? blobs_.size() - 1 : half, half + 1}},
            f);
      }
    }
  }

  void add_vectors() {
    const std::size_t from = pick();
    const Form f = form(from);
    switch (below(8)) {
      case 0:
        if (f.h < 2 || f.w < 2) return;
        add({"SPP",
             cat("spp_param { pyramid_height: 2 pool: ", allowed_.kinks ? one_of("MAX", "AVE") : "AVE", " }"),
             {from}},
            {5 * f.c, 0, 0});
        return;
      case 1:
        add({"Reduction",
             cat("reduction_param { axis: 2 operation: ",
                 allowed_.kinks ? one_of("SUM", "MEAN", "SUMSQ", "ASUM") : one_of("SUM", "MEAN", "SUMSQ"),
                 " coeff: 0.125 }"),
             {from}},
            {f.c, 0, 0});
        return;
      case 2:
        add({"Embed",
             "embed_param { num_output: 4 input_dim: 5 weight_filler { type: 'uniform' } bias_filler { type: "
             "'uniform' } }",
             {},
             {"label"}},
            {4, 0, 0});
        return;
      case 4:
        add({"BatchReduction",
             cat("batch_reduction_param { level: 1 level: 2 reduction_param { axis: 1 operation: ",
                 allowed_.kinks ? one_of("TOPK k: 1", "SUM", "MEAN") : "MEAN", " } }"),
             {vector_of(from, 5)}},
            {2, 0, 0});
        return;
      case 5:
        if (!allowed_.kinks) return;
        blobs_[add({"ArgMax", "argmax_param { axis: 1 }", {from}}, f)].readable = false;
        return;
      case 3:
        add({"Pooling", "pooling_param { pool: AVE global_pooling: true }", {from}}, {f.c, 1, 1});
        add({"Flatten", "", {blobs_.size() - 1}}, {f.c, 0, 0});
        return;
      default: {
        const std::size_t made = vector_of(from, below(2) == 0 ? 6 : 5);
        if (below(2) == 0) add_function(made);
      }
    }
  }

  std::string normalization() {
    return one_of("", "", "normalization: FULL", "normalization: BATCH_SIZE", "normalization: VALID",
                  "normalization: NONE");
  }
  std::size_t scores() { return vector_of(pick(below(3) != 0), 5); }
  void add_loss() {
    const std::string weight = one_of("", "", " loss_weight: 0.3");
    const int outputs = below(4) == 0 ? 2 : 1;
    const auto loss = [&](const std::string& type, const std::string& settings,
                          std::vector<std::size_t> inputs, std::vector<std::string> fed) {
      const bool shows = type == "SoftmaxWithLoss" || type == "InfogainLoss" || type == "SoftmaxWithLossOHEM";
      const std::size_t made = add(
          {type, settings + weight, std::move(inputs), std::move(fed), shows && weight.empty() ? outputs : 1},
          {});
      for (std::size_t blob = made; blob < blobs_.size(); ++blob) blobs_[blob].readable = false;
    };
    const auto softmax = [&](const std::string& more) {
      return cat("loss_param { ", normalization(), " ", more, " }");
    };
    switch (below(18)) {
      case 0:
        return loss("SoftmaxWithLoss", softmax(one_of("", "label_smoothing: 0.1", "ignore_label: 2")),
                    {scores()}, {"label"});
      case 1: {
        std::size_t from = pick();
        if (form(from).h != 6 || form(from).w != 6)
          from = add({"Interp", "interp_param { height: 6 width: 6 }", {from}}, {form(from).c, 6, 6});
        from = convolution(from, 5, 1);
        if (below(3) == 0)
          from = add({"BiasChannel", "bias_channel_param { label_type: PIXEL }", {from}, {"label_map"}},
                     {5, 6, 6});
        return loss("SoftmaxWithLoss",
                    softmax(one_of("ignore_label: 2", "label_smoothing: 0.1 ignore_label: 1")), {from},
                    {"label_map"});
      }
      case 2:
        return loss("InfogainLoss", softmax(one_of("", "ignore_label: 3")), {scores()}, {"label", "gain"});
      case 3:
        if (!allowed_.kinks) return add_loss();
        return loss("HingeLoss", one_of("", "hinge_loss_param { norm: L2 }"), {scores()}, {"label"});
      case 4: {
        const std::size_t first = scores();
        return loss("EuclideanLoss", "", {first, scores()}, {});
      }
      case 5:
        return loss("EuclideanLoss", "", {scores()}, {"target"});
      case 6:
        if (!allowed_.kinks) return add_loss();
        return loss("L1Loss", "", {scores()}, {"target"});
      case 7:
        return loss("SmoothL1Loss", "smooth_l1_loss_param { sigma: 0.5 }", {scores()},
                    below(2) == 0 ? std::vector<std::string>{"target"}
                                  : std::vector<std::string>{"target", "weights", "weights"});
      case 8:
        return loss("SigmoidCrossEntropyLoss", softmax(""), {scores()}, {"target"});
      case 9: {
        const std::size_t shares = add({"Softmax", "", {scores()}}, {5, 0, 0});
        return loss("MultinomialLogisticLoss", "", {shares}, {"label"});
      }
      case 10: {
        if (!allowed_.kinks) return add_loss();
        const std::size_t first = scores();
        return loss("ContrastiveLoss",
                    one_of("", "contrastive_loss_param { margin: 3 legacy_version: true }"),
                    {first, scores()}, {"flag"});
      }
      case 11: {
        if (!allowed_.kinks) return add_loss();
        const std::size_t first = scores(), second = scores();
        return loss("TripletLoss", "", {first, second, scores()}, {});
      }
      case 12:
        if (!allowed_.kinks) return add_loss();
        return loss("CenterLoss", "center_loss_param { num_output: 5 center_filler { type: 'uniform' } }",
                    {scores()}, {"label"});
      case 13: {
        if (!allowed_.kinks) return add_loss();
        const std::size_t made = add(
            {"MarginInnerProduct",
             cat("margin_inner_product_param { num_output: 5 weight_filler { type: 'xavier' } type: ",
                 one_of("SINGLE", "DOUBLE", "QUADRUPLE"), " base: 10 gamma: 0.5 power: 1 lambda_min: 1 }"),
             {scores()},
             {"label"}},
            {5, 0, 0});
        return loss("SoftmaxWithLoss", "", {made}, {"label"});
      }
      case 14: {
        const std::size_t from = pick(below(2) == 0);
        const std::size_t made =
            add({"Reduction",
                 cat("reduction_param { axis: ", below(2), " operation: ", one_of("SUMSQ", "MEAN"),
                     " coeff: 0.01 } loss_weight: 0.5"),
                 {from}},
                {});
        blobs_[made].readable = false;
        return;
      }
      case 15: {
        const std::size_t first = scores();
        const std::size_t made = add({"CosineSimilarity", "loss_weight: 0.25", {first, scores()}}, {});
        blobs_[made].readable = false;
        return;
      }
      case 16: {
        if (!allowed_.kinks) return add_loss();
        const std::size_t made = scores();
        loss("SoftmaxWithLossOHEM", softmax(""), {made}, {"label"});
        return loss("Accuracy", "", {made}, {"label"});
      }
      default: {
        const std::size_t vector = scores();
        loss("SoftmaxWithLoss", "", {vector}, {"label"});
        return loss("SmoothL1LossOHEM", "", {vector}, {"target"});
      }
    }
  }

  std::mt19937 random_;
  Allowed allowed_;
  std::vector<DrawnBlob> blobs_{{{}, true}};
  std::vector<Drawn> layers_;
  std::set<std::string> used_{"data"};
};

}  // namespace banyan
