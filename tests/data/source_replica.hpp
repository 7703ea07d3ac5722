// A layer that reads data, on one CPU device and without a net around it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "banyan/data/batch_source.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/layers/layer.hpp"

namespace banyan::data {

/// One layer on one device, with the memory a net would bind.
class Replica {
 public:
  Replica(const std::string& text, int rank = 0, int devices = 1, Phase phase = Phase::train,
          bool channels_last = false, DType dtype = DType::f32)
      : device_(make_cpu_device(rank)), context_(std::make_unique<Context>(*device_)) {
    caffe::LayerParameter parameter;
    io::parse_text(text, "test", parameter);
    LayerOptions options;
    options.phase = options.net_phase = phase;
    options.dtype = dtype;
    options.channels_last = channels_last;
    options.rank = rank;
    options.devices = devices;
    options.seed = 11;
    layer = make_layer(parameter, options);
    for (int i = 0; i < parameter.top_size(); ++i) {
      blobs_.push_back(std::make_unique<Blob>());
      blobs_.back()->dtype = dtype;
      outputs.push_back(blobs_.back().get());
    }
    pass_.context = context_.get();
    layer->read_settings();
    layer->setup({}, outputs);
    layer->reshape({}, outputs);
  }
  BatchSource& source() { return dynamic_cast<BatchSource&>(*layer); }
  /// Runs one pass; returns the resulting labels.
  std::vector<int> step() {
    layer->prepare(pass_, outputs);
    for (Blob* blob : outputs) blob->data = Tensor(*device_, blob->shape, blob->dtype, blob->layout);
    layer->forward(pass_, {}, outputs);
    context_->synchronize();
    std::vector<int> labels;
    for (const double value : values(outputs.size() - 1)) labels.push_back(static_cast<int>(value));
    return labels;
  }
  std::vector<double> values(std::size_t output) {
    Tensor& data = outputs[output]->data;
    std::vector<double> result(data.count());
    if (data.dtype() == DType::f64) {
      copy_to_host(*context_, data, result.data());
    } else {
      std::vector<float> floats(result.size());
      copy_to_host(*context_, data, floats.data());
      result.assign(floats.begin(), floats.end());
    }
    return result;
  }

  // Layers must be destroyed before their device, because their threads use it.
 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Context> context_;
  std::vector<std::unique_ptr<Blob>> blobs_;
  Pass pass_;

 public:
  std::unique_ptr<Layer> layer;
  Blobs outputs;
};

/// Output `k` of a batch of all devices is what `devices` have, which the items are dealt to in turn.
inline void expect_dealt(Replica& alone, const std::vector<Replica*>& devices, std::size_t k) {
  const std::vector<double> all = alone.values(k);
  const auto items = static_cast<std::size_t>(alone.outputs[k]->shape[0]);
  const std::size_t each = all.size() / items, count = devices.size();
  std::vector<std::vector<double>> dealt;
  for (Replica* device : devices) dealt.push_back(device->values(k));
  for (std::size_t item = 0; item < items; ++item)
    for (std::size_t i = 0; i < each; ++i)
      EXPECT_EQ(all[item * each + i], dealt[item % count][item / count * each + i]);
}

}  // namespace banyan::data
