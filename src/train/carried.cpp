#include "carried.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/io/weights.hpp"
#include "banyan/tensor/values.hpp"

namespace banyan {
namespace {

/// The states of this device's samples; undefined if there are none.
Tensor dealt(Context& context, DType dtype, const std::map<int, io::BlobData>& of_devices, int saved_devices,
             int device, int devices) {
  std::vector<double> values;
  std::int64_t rows = 0, width = 0;
  for (std::int64_t sample = device;; sample += devices, ++rows) {
    const auto found = of_devices.find(static_cast<int>(sample % saved_devices));
    const std::int64_t row = sample / saved_devices;
    if (found == of_devices.end() || row >= found->second.shape[0]) break;
    width = found->second.shape[1];
    for (std::int64_t i = 0; i < width; ++i)
      values.push_back(found->second.at(static_cast<std::size_t>(row * width + i)));
  }
  if (rows == 0) return {};
  Tensor state(context.device(), Shape{rows, width}, dtype);
  set_values(context, values, state);
  return state;
}

}  // namespace

CarriedStates read_carried(const Net& net, Context& context, int device) {
  CarriedStates states;
  for (const auto& layer : net.layers()) {
    int index = 0;
    for (const Tensor* tensor : layer->carried()) {
      const int number = index++;
      if (!tensor->defined() || tensor->count() == 0) continue;
      caffe::BanyanState::CarriedState& state = states.emplace_back();
      state.set_layer(layer->name());
      state.set_index(number);
      state.set_device(device);
      *state.mutable_blob() =
          io::encode_blob(tensor->shape().dims(), banyan::values_of(context, *tensor).values.data());
    }
  }
  return states;
}

void restore_carried(const Net& net, Context& context, const caffe::BanyanState& saved, int device,
                     int devices) {
  context.synchronize();  // memory is freed
  for (const auto& layer : net.layers()) {
    int index = 0;
    for (Tensor* tensor : layer->carried()) {
      std::map<int, io::BlobData> of_devices;
      for (const auto& state : saved.carried()) {
        if (state.layer() != layer->name() || state.index() != index) continue;
        io::BlobData blob = io::decode_blob(state.blob(), "the carried state of layer " + state.layer());
        if (blob.shape.size() != 2 ||
            (!of_devices.empty() && of_devices.begin()->second.shape[1] != blob.shape[1]))
          bad_input("the carried state of layer ", state.layer(), " is damaged");
        of_devices[state.device()] = std::move(blob);
      }
      *tensor =
          dealt(context, net.options().dtype, of_devices, std::max(1, saved.devices()), device, devices);
      ++index;
    }
  }
}

}  // namespace banyan
