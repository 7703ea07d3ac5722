// A layer on its own device, with blobs bound as a Net would bind them.
#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "banyan/device/cuda_devices.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/device_value.hpp"

namespace banyan::testing {

using Values = std::vector<double>;

inline caffe::LayerParameter layer_from_text(const std::string& text) {
  caffe::LayerParameter parameter;
  if (!google::protobuf::TextFormat::ParseFromString(text, &parameter))
    ADD_FAILURE() << "not a layer: " << text;
  if (!parameter.has_name()) parameter.set_name("tested");
  return parameter;
}

inline void set_values(Context& context, Tensor& tensor, const Values& values) {
  ASSERT_EQ(static_cast<std::size_t>(tensor.count()), values.size());
  if (values.empty()) return;
  dispatch_storage(tensor.dtype(), "test", [&]<class T>() {
    const std::vector<T> typed(values.begin(), values.end());
    copy_from_host(context, typed.data(), tensor);
  });
}

inline Values get_values(Context& context, const Tensor& tensor) {
  Values values(static_cast<std::size_t>(tensor.count()));
  if (values.empty()) return values;
  dispatch_storage(tensor.dtype(), "test", [&]<class T>() {
    std::vector<T> typed(values.size());
    copy_to_host(context, tensor, typed.data());
    std::copy(typed.begin(), typed.end(), values.begin());
  });
  return values;
}

/// `count` different values in (-size, size), none near 0 or near each other (so that small steps meet no
/// kink of ReLU or MAX), in an order chosen by `seed`.
inline Values spread_values(std::int64_t count, unsigned seed, double size = 1) {
  Values values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] =
        size * (2 * static_cast<double>(i) + 1 - static_cast<double>(count)) / static_cast<double>(count) +
        (count % 2 == 1 ? size / (2 * static_cast<double>(count)) : 0);
  std::shuffle(values.begin(), values.end(), std::mt19937(seed));
  return values;
}

inline Values integers(std::int64_t count, int below, unsigned seed) {
  std::mt19937 random(seed);
  Values values(static_cast<std::size_t>(count));
  for (double& value : values) value = static_cast<double>(random() % static_cast<unsigned>(below));
  return values;
}

struct BenchOptions {
  DeviceKind kind = DeviceKind::cpu;  ///< cuda: the first GPU
  Phase phase = Phase::train;
  DType dtype = DType::f64;
  std::optional<DType> storage;              ///< of inputs and outputs, if different
  Layout input_layout = Layout::contiguous;  ///< of inputs with 4 axes
  bool three_axes = false;                   ///< and of those with 3
  bool channels_last = false;
  bool in_place = false;
  bool asynchronous = false;  ///< the stream runs on its own thread, with random delays
  int rank = 0, devices = 1;
  SyncBatchNorm sync_batch_norm = SyncBatchNorm::as_written;
};

inline constexpr Layout kBothLayouts[] = {Layout::contiguous, Layout::channels_last};
inline BenchOptions in_layout(Layout layout, DType dtype = DType::f64) {
  BenchOptions options;
  options.input_layout = layout;
  options.dtype = dtype;
  return options;
}

class Bench {
 public:
  Bench(caffe::LayerParameter parameter, const std::vector<Shape>& input_shapes, int output_count,
        const BenchOptions& options = {})
      : options_(options),
        device_(options.kind == DeviceKind::cuda ? make_cuda_device(0, options.rank)
                                                 : make_cpu_device(options.rank, device_options(options))),
        context_(*device_) {
    device_->make_current();
    LayerOptions layer_options;
    layer_options.phase = layer_options.net_phase = options.phase;
    layer_options.dtype = options.dtype;
    layer_options.channels_last = options.channels_last;
    layer_options.rank = options.rank;
    layer_options.devices = options.devices;
    layer_options.sync_batch_norm = options.sync_batch_norm;
    for (auto i = static_cast<std::size_t>(parameter.bottom_size()); i < input_shapes.size(); ++i)
      parameter.add_bottom(cat("input", i));
    for (int i = parameter.top_size(); i < output_count; ++i) parameter.add_top(cat("output", i));
    layer_ = make_layer(parameter, layer_options);
    for (std::size_t i = 0; i < input_shapes.size(); ++i) inputs.push_back(new_blob(cat("input", i)));
    for (int i = 0; i < output_count; ++i)
      outputs.push_back(options.in_place && i == 0 ? inputs[0] : new_blob(cat("output", i)));
    set_input_shapes(input_shapes);
    layer_->read_settings();
    layer_->setup(inputs, outputs);
    for (Parameter& p : layer_->parameters()) {
      p.value = Tensor(*device_, p.shape, options.dtype);
      ops::fill(context_, p.value, p.filler.value());
      if (p.kind != ParameterKind::learnable || p.lr_mult == 0) continue;
      p.grad = Tensor(*device_, p.shape, options.dtype);
      ops::fill(context_, p.grad, 0);
    }
    layer_->reshape(inputs, outputs);
    bind();
    pass.context = &context_;
    pass.seed = 7;
  }
  Bench(const std::string& text, const std::vector<Shape>& input_shapes, int output_count,
        const BenchOptions& options = {})
      : Bench(layer_from_text(text), input_shapes, output_count, options) {}

  void reshape(const std::vector<Shape>& input_shapes) {
    set_input_shapes(input_shapes);
    layer_->reshape(inputs, outputs);
    bind();
  }

  Layer& layer() { return *layer_; }
  Context& context() { return context_; }

  void set_input(std::size_t i, const Values& values) { set_values(context_, inputs[i]->data, values); }
  void set_parameter(std::size_t i, const Values& values) {
    set_values(context_, layer_->parameters()[i].value, values);
  }
  Values output(std::size_t i = 0) { return get_values(context_, outputs[i]->data); }
  Values input_gradient(std::size_t i = 0) { return get_values(context_, inputs[i]->grad); }
  Values parameter(std::size_t i) { return get_values(context_, layer_->parameters()[i].value); }
  Values parameter_gradient(std::size_t i) { return get_values(context_, layer_->parameters()[i].grad); }

  void forward() {
    draw_.write(context_, static_cast<std::uint64_t>(pass.draw));
    pass.draw_on_device = draw_.get();
    if (layer_->traits().chooses_samples) {
      const std::int64_t samples = layer_->choose_samples(pass, inputs);
      for (Blob* output : outputs) output->shape.set_dim(0, samples);
      bind_outputs();
    }
    layer_->forward(pass, inputs, outputs);
  }
  /// Forward with the output gradients set (in place: after forward, since the gradient's memory is shared).
  void backward(const std::vector<Values>& output_gradients) {
    for (std::size_t i = 0; i < outputs.size(); ++i)
      set_values(context_, outputs[i]->grad, output_gradients[i]);
    std::vector<bool> propagate;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      propagate.push_back(layer_->traits().differentiable(static_cast<int>(i)));
    layer_->backward(pass, outputs, propagate, inputs);
  }
  void backward(const Values& output_gradient) { backward(std::vector<Values>{output_gradient}); }
  void zero_parameter_gradients() {
    for (Parameter& p : layer_->parameters())
      if (p.grad.defined()) ops::fill(context_, p.grad, 0);
  }

  Blobs inputs, outputs;
  Pass pass;

 private:
  static CpuDeviceOptions device_options(const BenchOptions& options) {
    CpuDeviceOptions device;
    device.asynchronous = options.asynchronous;
    device.max_delay_us = 100;
    return device;
  }
  Blob* new_blob(const std::string& name) {
    blobs_.push_back(std::make_unique<Blob>());
    blobs_.back()->name = name;
    blobs_.back()->dtype = options_.storage.value_or(options_.dtype);
    return blobs_.back().get();
  }
  void set_input_shapes(const std::vector<Shape>& shapes) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      inputs[i]->shape = shapes[i];
      inputs[i]->layout = shapes[i].axes() == 4 || (options_.three_axes && shapes[i].axes() == 3)
                              ? options_.input_layout
                              : Layout::contiguous;
    }
  }
  void bind() {
    for (Blob* blob : inputs) {
      blob->data = Tensor(*device_, blob->shape, blob->dtype, blob->layout);
      blob->grad = Tensor(*device_, blob->shape, blob->dtype, blob->layout);
    }
    bind_outputs();
  }
  void bind_outputs() {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      Blob& blob = *outputs[i];
      if (options_.in_place && i == 0) continue;
      const View shown = layer_->traits().view;
      const auto view = [&](const Tensor& of) {
        return blob.layout == Layout::contiguous ? of.reshaped(blob.shape) : of;
      };
      blob.data =
          shown != View::none ? view(inputs[0]->data) : Tensor(*device_, blob.shape, blob.dtype, blob.layout);
      blob.grad = shown == View::data_and_gradient ? view(inputs[0]->grad)
                                                   : Tensor(*device_, blob.shape, blob.dtype, blob.layout);
    }
  }

  BenchOptions options_;
  std::unique_ptr<Device> device_;
  ops::DeviceValue<std::uint64_t> draw_{*device_};
  Context context_;
  std::unique_ptr<Layer> layer_;
  std::vector<std::unique_ptr<Blob>> blobs_;
};

inline Shape with_batch(std::int64_t batch, const Shape& sample) {
  std::vector<std::int64_t> dims{batch};
  dims.insert(dims.end(), sample.dims().begin(), sample.dims().end());
  return Shape(dims);
}

/// The message with which the layer refuses its settings or inputs, which must be the user's mistake.
inline std::string refusal(const std::string& text, const std::vector<Shape>& inputs) {
  try {
    const Bench bench(text, inputs, 1);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input) << text;
    EXPECT_EQ(error.message().find("layer \"tested\""), 0u) << error.message();
    return error.message();
  }
  return "accepted";
}

/// Largest difference, relative to the larger of 1 and the expected size.
inline void expect_near(const Values& found, const Values& expected, double tolerance,
                        const std::string& what = "") {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
        << what << " at " << i;
}

}  // namespace banyan::testing
