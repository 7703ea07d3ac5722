#include "banyan/io/array_names.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/base/number.hpp"
#include "banyan/base/text.hpp"

namespace banyan::io {
namespace {

using Roles = std::vector<std::string>;

const std::vector<Roles>& known_roles() {
  static const std::vector<Roles> all = {
      {"weight"},
      {"weight", "bias"},
      {"bias"},
      {"running_mean", "running_var", "factor"},
      {"running_mean", "running_var", "factor", "weight", "bias"},
      {"weight", "bias", "running_mean", "running_var"},
      {"weight", "bias", "running_mean", "running_var", "reserve"},
      {"running_mean", "running_var", "factor", "weight"},
  };
  return all;
}

/// Of a layer's blobs; empty: they have numbers.
Roles roles_of(const std::string& type, const std::vector<std::size_t>& counts) {
  static const char* const with_weight[] = {"Convolution",
                                            "Deconvolution",
                                            "DeformableConvolution",
                                            "DepthwiseConvolution",
                                            "ConvolutionDepthwise",
                                            "InnerProduct",
                                            "Embed",
                                            "Scale",
                                            "PReLU",
                                            "Normalize"};
  const std::size_t blobs = counts.size();
  if (blobs == 0) return {};
  if (contains(with_weight, type) && blobs <= 2) return known_roles()[blobs - 1];
  if (type == "Bias" && blobs == 1) return known_roles()[2];
  if (type == "BatchNorm" && blobs == 3) return known_roles()[3];
  if (type == "BatchNorm" && blobs == 4) return known_roles()[7];
  if (type == "BatchNorm" && blobs == 5) return known_roles()[counts[2] == 1 ? 4 : 6];
  if ((type == "BN" || type == "SyncBN") && blobs == 4) return known_roles()[5];
  return {};
}

/// A blob's place: layer, and the blob's number or role.
struct Place {
  std::string layer, role;
  std::optional<std::size_t> index;
};

std::optional<std::size_t> index_of(std::string_view text) {
  const auto index = number_in<std::size_t>(text);
  return index && *index < 1000 ? index : std::nullopt;
}

/// `conv1/0`, `conv1.0` or `conv1.weight`.
std::optional<Place> place_of(const std::string& name) {
  const std::size_t at = name.find_last_of("/.");
  if (at == std::string::npos || at == 0) return std::nullopt;
  Place place{name.substr(0, at), name.substr(at + 1), index_of(name.substr(at + 1))};
  const bool known = std::any_of(known_roles().begin(), known_roles().end(),
                                 [&](const Roles& roles) { return contains(roles, place.role); });
  if (!place.index && (name[at] == '/' || !known)) return std::nullopt;
  return place;
}

/// Blobs of one layer, by number or by role.
using Blobs = std::map<std::string, BlobData>;

/// In the order of the layer's blobs; nothing if the names say none.
std::optional<std::vector<std::string>> order_of(const Blobs& blobs) {
  std::vector<std::string> numbers;
  for (std::size_t i = 0; i < blobs.size(); ++i) numbers.push_back(std::to_string(i));
  const auto same_names = [&](const std::vector<std::string>& names) {
    return names.size() == blobs.size() &&
           std::all_of(names.begin(), names.end(), [&](const auto& name) { return blobs.count(name) != 0; });
  };
  if (same_names(numbers)) return numbers;
  for (const Roles& roles : known_roles())
    if (same_names(roles)) return roles;
  return std::nullopt;
}

/// Collects blobs and makes layers of them.
class Layers {
 public:
  explicit Layers(const std::string& origin) : origin_(origin) {}

  void add(const std::string& layer, const std::string& role, BlobData blob, const std::string& name) {
    const auto [at, is_new] = blobs_.try_emplace(layer);
    if (is_new) order_.push_back(layer);
    if (!at->second.emplace(role, std::move(blob)).second)
      bad_input(origin_, ": ", quoted(name), " is blob ", role, " of layer ", quoted(layer),
                ", which is given twice");
  }

  ModelWeights take() {
    ModelWeights weights;
    for (const std::string& name : order_) {
      Blobs& blobs = blobs_[name];
      const auto order = order_of(blobs);
      if (!order) {
        std::vector<std::string> found;
        for (const auto& [role, blob] : blobs) found.push_back(role);
        bad_input(origin_, ": layer ", quoted(name), " has the blobs ", join(found, ", "),
                  ", which are no layer's; expected numbers from 0 on, or roles such as weight and bias");
      }
      LayerWeights& layer = weights.layers.emplace_back();
      layer.name = name;
      for (const std::string& role : *order) layer.blobs.push_back(std::move(blobs[role]));
    }
    return weights;
  }

 private:
  const std::string& origin_;
  std::vector<std::string> order_;
  std::map<std::string, Blobs> blobs_;
};

template <class T>
void reverse_channels(const std::vector<std::int64_t>& shape, std::vector<T>& values) {
  if (values.empty()) return;
  const auto channels = static_cast<std::size_t>(shape[1]);
  const std::size_t each = values.size() / (channels * static_cast<std::size_t>(shape[0]));
  for (auto at = values.begin(); at != values.end(); at += channels * each)
    for (std::size_t c = 0; c < channels / 2; ++c)
      std::swap_ranges(at + c * each, at + (c + 1) * each, at + (channels - 1 - c) * each);
}

/// One line of a map.
struct MapLine {
  std::string array, target;
  bool bgr = false;
};

/// Nothing for an empty line.
std::optional<MapLine> read_line(std::string text, const std::string& where) {
  text.resize(std::min(text.size(), text.find('#')));
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  if (words.empty()) return std::nullopt;
  if (words.size() > 3 || words.size() < 2 || (words.size() == 3 && words[2] != "bgr"))
    bad_input(where, ": expected ARRAY LAYER/INDEX, or ARRAY LAYER/INDEX bgr");
  return MapLine{words[0], words[1], words.size() == 3};
}

BlobData number_blob(const std::string& text, const std::string& where) {
  BlobData blob;
  blob.shape = {1};
  const auto value = number_in<float>(std::string_view(text).substr(1));
  if (!value) bad_input(where, ": expected a number after =, found ", quoted(text));
  blob.floats = {*value};
  return blob;
}

}  // namespace

std::vector<std::string> blob_names(const std::string& layer, const std::string& type,
                                    const std::vector<std::size_t>& counts, NameStyle style) {
  const Roles roles = style == NameStyle::torch ? roles_of(type, counts) : Roles();
  const char separator = style == NameStyle::torch ? '.' : '/';
  std::vector<std::string> names;
  for (std::size_t i = 0; i < counts.size(); ++i)
    names.push_back(layer + separator + (roles.empty() ? std::to_string(i) : roles[i]));
  return names;
}

namespace {

/// Such as layers of one name have that share them.
bool have_same_values(const LayerWeights& a, const LayerWeights& b) {
  return std::equal(a.blobs.begin(), a.blobs.end(), b.blobs.begin(), b.blobs.end(),
                    [](const BlobData& one, const BlobData& other) {
                      return one.shape == other.shape && one.floats == other.floats &&
                             one.doubles == other.doubles;
                    });
}

}  // namespace

NamedArrays to_arrays(const ModelWeights& weights, NameStyle style) {
  NamedArrays arrays;
  std::map<std::string, const LayerWeights*> names;
  for (const LayerWeights& layer : weights.layers) {
    if (layer.blobs.empty()) continue;
    if (const auto [first, is_new] = names.emplace(layer.name, &layer); !is_new) {
      if (have_same_values(*first->second, layer)) continue;
      bad_input("two layers with weights are named ", quoted(layer.name), ", and their weights differ");
    }
    std::vector<std::size_t> counts;
    for (const BlobData& blob : layer.blobs) counts.push_back(blob.count());
    const std::vector<std::string> names_of_blobs = blob_names(layer.name, layer.type, counts, style);
    for (std::size_t i = 0; i < layer.blobs.size(); ++i)
      arrays.push_back({names_of_blobs[i], layer.blobs[i]});
  }
  return arrays;
}

ModelWeights from_arrays(NamedArrays arrays, const std::string& origin) {
  Layers layers(origin);
  for (NamedArray& array : arrays) {
    const auto place = place_of(array.name);
    if (!place)
      bad_input(origin, ": the name ", quoted(array.name),
                " says no layer and blob; expected LAYER/0 or LAYER.weight, or a map (--map)");
    layers.add(place->layer, place->role, std::move(array.data), array.name);
  }
  return layers.take();
}

ModelWeights from_arrays_by_map(const NamedArrays& arrays, std::string_view map,
                                const std::string& map_origin) {
  std::map<std::string, const BlobData*> by_name;
  std::vector<std::string> names;
  for (const NamedArray& array : arrays) {
    by_name[array.name] = &array.data;
    names.push_back(array.name);
  }
  Layers layers(map_origin);
  std::set<std::string> used;
  std::istringstream in{std::string(map)};
  int number = 0;
  for (std::string text; std::getline(in, text);) {
    const std::string where = cat(map_origin, ":", ++number);
    const auto line = read_line(text, where);
    if (!line) continue;
    const auto place = place_of(line->target);
    if (!place || !place->index || line->target[place->layer.size()] != '/')
      bad_input(where, ": expected LAYER/INDEX, found ", quoted(line->target));
    BlobData blob;
    if (line->array[0] == '=') {
      blob = number_blob(line->array, where);
    } else {
      const auto found = by_name.find(line->array);
      if (found == by_name.end())
        bad_input(where, ": there is no array ", quoted(line->array), did_you_mean(line->array, names));
      blob = *found->second;
      used.insert(line->array);
    }
    if (line->bgr) {
      if (blob.shape.size() < 2) bad_input(where, ": ", quoted(line->array), " has no channels to reverse");
      reverse_channels(blob.shape, blob.floats);
      reverse_channels(blob.shape, blob.doubles);
    }
    layers.add(place->layer, std::to_string(*place->index), std::move(blob), line->array);
  }
  std::vector<std::string> unused;
  for (const std::string& name : names)
    if (used.count(name) == 0 && !name.ends_with("num_batches_tracked")) unused.push_back(quoted(name));
  if (!unused.empty())
    log_warning(cat(map_origin, " does not name ", unused.size(), " of the arrays: ", join(unused, ", ")));
  return layers.take();
}

}  // namespace banyan::io
