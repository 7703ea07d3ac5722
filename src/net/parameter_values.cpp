#include "banyan/net/parameter_values.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <set>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/base/text.hpp"
#include "banyan/layers/batch_norm.hpp"
#include "banyan/layers/filler.hpp"
#include "banyan/tensor/values.hpp"

namespace banyan {
namespace {

/// The first layer of that name, or -1.
int index_of(const std::vector<std::unique_ptr<Layer>>& layers, const std::string& name) {
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (layers[i]->name() == name) return static_cast<int>(i);
  return -1;
}

/// The weights of an InnerProduct over a whole map and those of a Convolution whose window is the map are the
/// same numbers in the same order (net surgery makes detectors and segmenters of classifiers so).
bool same_rows(const io::BlobData& blob, const std::string& from, const Shape& wanted,
               const std::string& to) {
  if (!(from == "InnerProduct" && to == "Convolution") && !(from == "Convolution" && to == "InnerProduct"))
    return false;
  const bool padded = from == "InnerProduct" && blob.legacy_shape && blob.shape.size() == 4;
  if (blob.shape.size() < 2 || wanted.axes() < 2) return false;
  return blob.shape[padded ? 2 : 0] == wanted[0] && blob.count() == static_cast<std::size_t>(wanted.count());
}

/// `from`: the file's layer, whose blobs these are. What is skipped becomes nullptr.
void check_shapes(std::vector<const io::BlobData*>& blobs, const io::LayerWeights& from, const Layer& target,
                  OtherShapes other_shapes = OtherShapes::refuse) {
  for (std::size_t i = 0; i < blobs.size(); ++i) {
    const std::vector<std::int64_t>& wanted = target.parameters()[i].shape.dims();
    if (blobs[i] == nullptr || io::shapes_compatible(*blobs[i], wanted)) continue;
    if (i == 0 && same_rows(*blobs[i], from.type, target.parameters()[i].shape, target.type()))
      log_info(cat("layer ", quoted(target.name()), " (", target.type(), ") takes the weights of an ",
                   from.type, ", ", io::shape_text(blobs[i]->shape), " as ", io::shape_text(wanted)));
    else {
      const std::string differ =
          cat("layer ", quoted(target.name()), " (", target.type(), "), blob ", i, ": the net needs shape ",
              io::shape_text(wanted), ", the file has shape ", io::shape_text(blobs[i]->shape));
      if (other_shapes == OtherShapes::refuse) bad_input(differ);
      log_warning(differ + "; it is left out (ignore_shape_mismatch)");
      blobs[i] = nullptr;
    }
  }
}

template <class T>
void encode(Context& context, const Tensor& tensor, caffe::BlobProto& blob) {
  std::vector<T> values(static_cast<std::size_t>(tensor.count()));
  copy_to_host(context, tensor, values.data());
  blob = io::encode_blob(tensor.shape().dims(), values.data());
}

void encode_gradient(Context& context, const Tensor& tensor, DType dtype, caffe::BlobProto& blob) {
  caffe::BlobProto encoded;
  dispatch_float(dtype, "a snapshot", [&]<class T>() { encode<T>(context, tensor, encoded); });
  blob.mutable_diff()->Swap(encoded.mutable_data());
  blob.mutable_double_diff()->Swap(encoded.mutable_double_data());
}

}  // namespace

void fill_parameters(Net& net) {
  ParameterStore& store = net.parameter_store();
  Context& context = net.context();
  std::size_t largest = 0;
  for (const LearnableParameter& entry : store.parameters) largest = std::max(largest, entry.value.bytes());
  // One buffer for all: new memory for each parameter would be cleared page by page every time.
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(largest);
  for (std::size_t l = 0; l < net.layers().size(); ++l) {
    Layer& layer = *net.layers()[l];
    for (std::size_t s = 0; s < layer.parameters().size(); ++s) {
      const LearnableParameter& entry = store.owner_of(static_cast<int>(l), s);
      if (entry.layer != layer.name() || entry.slot != static_cast<int>(s))
        continue;  // shares another's
                   // parameter
      Parameter& parameter = layer.parameters()[s];
      if (!parameter.first_values.empty()) {
        set_values(context, parameter.first_values, parameter.value);
        continue;
      }
      try {
        dispatch_float(net.options().dtype, "a filler", [&]<class T>() {
          T* values = reinterpret_cast<T*>(buffer.get());
          fill_values(parameter.filler, parameter.shape, {net.options().seed, entry.layer, entry.slot},
                      context.device().threads(), values);
          copy_from_host(context, values, parameter.value);
        });
      } catch (Error& error) {
        error.add_context(
            cat("while filling blob ", s, " of layer ", quoted(layer.name()), " (", layer.type(), ")"));
        throw;
      }
    }
    net.activity().beat();
  }
}

void share_parameters(Net& net, Net& other, bool share_statistics) {
  ParameterStore& store = net.parameter_store();
  for (const auto& from : other.layers()) {
    const int to = index_of(net.layers(), from->name());
    if (to < 0) continue;
    const std::vector<Parameter>& given = from->parameters();
    const std::vector<Parameter>& wanted = net.layers()[to]->parameters();
    if (given.size() != wanted.size())
      bad_input("layer ", quoted(from->name()), " has ", wanted.size(), " parameters in one net and ",
                given.size(), " in the net whose parameters it should use");
    for (std::size_t s = 0; s < given.size(); ++s) {
      if (!(given[s].shape == wanted[s].shape))
        bad_input("blob ", s, " of layer ", quoted(from->name()), " has shape ", wanted[s].shape.to_string(),
                  " in one net and ", given[s].shape.to_string(),
                  " in the net whose parameters it should use");
      LearnableParameter& entry = store.owner_of(to, s);
      if (entry.is_statistic && !share_statistics) continue;
      entry.value = given[s].value;
    }
  }
  bool own_values = false, own_statistics = false;
  for (std::size_t l = 0; l < net.layers().size(); ++l)
    for (std::size_t s = 0; s < store.owner[l].size(); ++s) {
      const LearnableParameter& entry = store.owner_of(static_cast<int>(l), s);
      Parameter& parameter = net.layers()[l]->parameters()[s];
      parameter.value = entry.value.reshaped(parameter.shape);
      const Tensor& home = entry.is_statistic ? store.statistics : store.flat_values;
      const bool own = entry.offset >= 0 && home.defined() &&
                       entry.value.raw() == home.slice(entry.offset, Shape{entry.count}).raw();
      (entry.is_statistic ? own_statistics : own_values) |= own;
    }
  // Memory that is no longer used.
  if (!own_values) store.flat_values = Tensor();
  if (!own_statistics) store.statistics = Tensor();
}

namespace {

/// The file's layer with the blobs that it shares with earlier layers: they are stored with their owners.
io::LayerWeights with_shared_blobs(const Net& net, int target, const io::LayerWeights& source,
                                   const io::ModelWeights& weights) {
  const Layer& layer = *net.layers()[target];
  io::LayerWeights whole = source;
  const auto stored_with_owner = [&](std::size_t slot) -> const io::BlobData* {
    if (slot >= layer.parameters().size()) return nullptr;
    const ParameterStore& store = net.parameter_store();
    const LearnableParameter& owner = store.parameters[store.owner[target][slot]];
    const io::LayerWeights* from = owner.layer != layer.name() ? weights.find(owner.layer) : nullptr;
    const auto place = static_cast<std::size_t>(owner.slot);
    const bool found = from != nullptr && place < from->blobs.size() && !from->blobs[place].missing;
    return found ? &from->blobs[place] : nullptr;
  };
  for (std::size_t s = 0; s < whole.blobs.size(); ++s) {
    if (!whole.blobs[s].missing) continue;
    const io::BlobData* shared = stored_with_owner(s);
    if (shared == nullptr)
      bad_input("layer ", quoted(layer.name()), " (", layer.type(), "): blob ", s, " is missing in the file");
    whole.blobs[s] = *shared;
  }
  while (const io::BlobData* shared = stored_with_owner(whole.blobs.size())) whole.blobs.push_back(*shared);
  return whole;
}

}  // namespace

std::set<int> load_weights(Net& net, const io::ModelWeights& weights, const std::string& origin,
                           OtherShapes other_shapes) {
  std::set<int> filled;
  std::vector<std::string> not_finite;
  for (const io::LayerWeights& source : weights.layers) {
    const int target = index_of(net.layers(), source.name);
    if (target < 0) {
      log_info("Ignoring source layer " + source.name);
      continue;
    }
    try {
      Layer& to = *net.layers()[target];
      const io::LayerWeights whole =
          weights.shared_once ? with_shared_blobs(net, target, source, weights) : io::LayerWeights();
      std::vector<const io::BlobData*> blobs = to.match_blobs(weights.shared_once ? whole : source);
      check_shapes(blobs, source, to, other_shapes);
      bool finite = true;
      for (std::size_t s = 0; s < blobs.size(); ++s) {
        if (blobs[s] == nullptr) continue;
        Tensor& value = to.parameters()[s].value;
        dispatch_float(net.options().dtype, "a weights file", [&]<class T>() {
          std::vector<T> values(blobs[s]->count());
          blobs[s]->copy_to(values.data());
          finite = finite && std::all_of(values.begin(), values.end(), [](T x) { return std::isfinite(x); });
          copy_from_host(net.context(), values.data(), value);
        });
        filled.insert(net.parameter_store().owner[target][s]);
      }
      if (!finite) not_finite.push_back(quoted(source.name));
    } catch (Error& error) {
      error.add_context(cat("while reading weights from ", origin));
      throw;
    }
  }
  // A result need not show it: oneDNN's ReLU makes 0 of what is not a number.
  if (!not_finite.empty())
    log_warning(cat(origin, ": weights that are not finite in layer ", not_finite[0],
                    not_finite.size() > 1 ? cat(" and ", not_finite.size() - 1, " more") : std::string()));
  return filled;
}

void warn_of_missing_statistics(const Net& net) {
  std::vector<std::string> without;
  for (const auto& layer : net.layers()) {
    const auto* normalization = dynamic_cast<const BatchNormalization*>(layer.get());
    if (normalization == nullptr) continue;
    const int slot = normalization->dialect().factor;
    if (!normalization->uses_stored() || slot < 0) continue;
    const Tensor& factor = layer->parameters()[static_cast<std::size_t>(slot)].value;
    if (values_of(net.context(), factor).values[0] == 0) without.push_back(layer->name());
  }
  if (without.empty()) return;
  log_warning(cat("layer ", quoted(without[0]),
                  without.size() > 1 ? cat(" and ", without.size() - 1, " more") : std::string(),
                  ": use_global_stats normalizes with stored statistics, and there are none: --weights with "
                  "a file that has them, or use_global_stats: false"));
}

void add_shared_blobs(const Net& net, io::ModelWeights& weights) {
  if (!weights.shared_once) return;
  std::vector<io::LayerWeights> whole;
  for (const io::LayerWeights& source : weights.layers) {
    const int target = index_of(net.layers(), source.name);
    whole.push_back(target < 0 ? source : with_shared_blobs(net, target, source, weights));
  }
  weights.layers = std::move(whole);
  weights.shared_once = false;
}

void check_weights(const Net& net, io::ModelWeights& weights, const std::string& origin) {
  std::vector<std::string> names;
  for (const auto& layer : net.layers()) {
    names.push_back(layer->name());
    const io::LayerWeights* source = weights.find(layer->name());
    if (!layer->parameters().empty() && (source == nullptr || source->blobs.empty()))
      bad_input(origin, ": weights of layer ", quoted(layer->name()), " (", layer->type(), ") are missing");
  }
  for (io::LayerWeights& source : weights.layers) {
    if (source.blobs.empty()) continue;
    const int target = index_of(net.layers(), source.name);
    if (target < 0)
      bad_input(origin, ": the net has no layer ", quoted(source.name), did_you_mean(source.name, names));
    const Layer& layer = *net.layers()[target];
    try {
      std::vector<const io::BlobData*> blobs = layer.match_blobs(source);
      check_shapes(blobs, source, layer);
    } catch (const Error& error) {
      throw Error(error.kind(), origin + ": " + error.message());
    }
    source.type = layer.type();
  }
}

caffe::NetParameter to_proto(Net& net, bool with_gradients) {
  caffe::NetParameter proto;
  proto.set_name(net.name());
  for (const auto& each : net.layers()) {
    caffe::LayerParameter* out = proto.add_layer();
    *out = each->parameter();
    out->clear_blobs();
    for (const Parameter& parameter : each->parameters()) {
      caffe::BlobProto& blob = *out->add_blobs();
      dispatch_float(net.options().dtype, "a snapshot",
                     [&]<class T>() { encode<T>(net.context(), parameter.value, blob); });
      if (with_gradients && parameter.grad.defined())
        encode_gradient(net.context(), parameter.grad, net.options().dtype, blob);
    }
  }
  return proto;
}

}  // namespace banyan
