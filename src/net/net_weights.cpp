// Values of a Net's parameters: fillers, sharing with another net, reading and writing of weights.
#include <glog/logging.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <set>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/layers/filler.hpp"
#include "banyan/net/adapt_weights.hpp"
#include "banyan/net/net.hpp"

namespace banyan {
namespace {

/// The first layer of that name, or -1.
int index_of(const std::vector<std::unique_ptr<Layer>>& layers, const std::string& name) {
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (layers[i]->name() == name) return static_cast<int>(i);
  return -1;
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

void Net::fill_parameters() {
  std::size_t largest = 0;
  for (const LearnableParameter& entry : store_.parameters) largest = std::max(largest, entry.value.bytes());
  // One buffer: memory that is new for each parameter would be cleared page by page for each.
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(largest);
  for (int l = 0; l < steps(); ++l) {
    const std::vector<int>& owner = store_.owner[static_cast<std::size_t>(l)];
    for (std::size_t s = 0; s < owner.size(); ++s) {
      LearnableParameter& entry = store_.parameters[static_cast<std::size_t>(owner[s])];
      if (entry.layer != layer(l).name() || entry.slot != static_cast<int>(s)) continue;  // a sharer
      Parameter& parameter = layer(l).parameters()[s];
      try {
        dispatch_float(options_.dtype, "a filler", [&]<class T>() {
          T* values = reinterpret_cast<T*>(buffer.get());
          fill_values(parameter.filler, parameter.shape, {options_.seed, entry.layer, entry.slot},
                      context_->device().threads(), values);
          copy_from_host(*context_, values, parameter.value);
        });
      } catch (Error& error) {
        error.add_context(
            cat("while filling blob ", s, " of layer ", quoted(layer(l).name()), " (", layer(l).type(), ")"));
        throw;
      }
    }
    activity_->beat();
  }
}

void Net::share_parameters(Net& other, bool share_statistics) {
  for (int from = 0; from < other.steps(); ++from) {
    const int to = index_of(layers_, other.layer(from).name());
    if (to < 0) continue;
    const std::vector<Parameter>& given = other.layer(from).parameters();
    const std::vector<Parameter>& wanted = layer(to).parameters();
    if (given.size() != wanted.size())
      bad_input("layer ", quoted(layer(to).name()), " has ", wanted.size(), " parameters in one net and ",
                given.size(), " in the net whose parameters it shall use");
    for (std::size_t s = 0; s < given.size(); ++s) {
      if (!(given[s].shape == wanted[s].shape))
        bad_input("blob ", s, " of layer ", quoted(layer(to).name()), " has shape ",
                  wanted[s].shape.to_string(), " in one net and ", given[s].shape.to_string(),
                  " in the net whose parameters it shall use");
      const int index = store_.owner[static_cast<std::size_t>(to)][s];
      LearnableParameter& entry = store_.parameters[static_cast<std::size_t>(index)];
      if (entry.is_statistic && !share_statistics) continue;
      entry.value = given[s].value;
    }
  }
  bool own_values = false, own_statistics = false;
  for (std::size_t l = 0; l < layers_.size(); ++l)
    for (std::size_t s = 0; s < store_.owner[l].size(); ++s) {
      const LearnableParameter& entry = store_.parameters[static_cast<std::size_t>(store_.owner[l][s])];
      Parameter& parameter = layers_[l]->parameters()[s];
      parameter.value = entry.value.reshaped(parameter.shape);
      const Tensor& home = entry.is_statistic ? store_.statistics : store_.flat_values;
      const bool own = entry.offset >= 0 && home.defined() &&
                       entry.value.raw() == home.slice(entry.offset, Shape{entry.count}).raw();
      (entry.is_statistic ? own_statistics : own_values) |= own;
    }
  // Memory that nothing uses any more.
  if (!own_values) store_.flat_values = Tensor();
  if (!own_statistics) store_.statistics = Tensor();
}

void Net::load_weights(const io::ModelWeights& weights, const std::string& origin) {
  for (const io::LayerWeights& source : weights.layers) {
    const int target = index_of(layers_, source.name);
    if (target < 0) {
      LOG(INFO) << "Ignoring source layer " << source.name;
      continue;
    }
    try {
      Layer& to = layer(target);
      const std::vector<const io::BlobData*> blobs = match_blobs(source, to);
      for (std::size_t s = 0; s < blobs.size(); ++s) {
        if (blobs[s] == nullptr) continue;
        Tensor& value = to.parameters()[s].value;
        dispatch_float(options_.dtype, "a weights file", [&]<class T>() {
          std::vector<T> values(blobs[s]->count());
          blobs[s]->copy_to(values.data());
          copy_from_host(*context_, values.data(), value);
        });
      }
    } catch (Error& error) {
      error.add_context(cat("while reading weights from ", origin));
      throw;
    }
  }
}

caffe::NetParameter Net::to_proto(bool with_gradients) {
  caffe::NetParameter net;
  net.set_name(name_);
  for (const auto& each : layers_) {
    caffe::LayerParameter* out = net.add_layer();
    *out = each->parameter();
    out->clear_blobs();
    for (const Parameter& parameter : each->parameters()) {
      caffe::BlobProto& blob = *out->add_blobs();
      dispatch_float(options_.dtype, "a snapshot",
                     [&]<class T>() { encode<T>(*context_, parameter.value, blob); });
      if (with_gradients && parameter.grad.defined())
        encode_gradient(*context_, parameter.grad, options_.dtype, blob);
    }
  }
  return net;
}

}  // namespace banyan
