// What Convolution, Deconvolution and Im2col have in common: convolution_param's windows, blobs with any
// number of batch and spatial axes as operators see them, and one set of weights for several inputs.
#pragma once

#include <google/protobuf/repeated_field.h>

#include <memory>
#include <vector>

#include "banyan/layers/layer.hpp"
#include "banyan/ops/convolution.hpp"
#include "banyan/ops/elementwise.hpp"

namespace banyan {

/// Axes of a blob: (batch axes..., C, spatial...); every axis before `axis` counts as batch.
class WindowLayer : public Layer {
 protected:
  using Layer::Layer;
  const caffe::ConvolutionParameter& settings() const { return parameter_.convolution_param(); }
  /// Sets axis_, no_spatial_, is_image_, is_volume_ and geometry_'s kernel, stride, pad and dilation.
  void read_windows(const Shape& input);
  /// read_settings() of layers that fuse nothing.
  void check_window_settings() const;
  /// Throws bad_input unless the group divides both.
  void check_group(std::int64_t inputs, std::int64_t outputs) const;
  /// Throws bad_input unless the blob has so many channels.
  void check_channels(const Blob& input, std::int64_t channels) const;
  /// Throws bad_input unless the blob has as many axes as setup() saw.
  void check_axes(const Blob& input) const;
  /// Of one spatial axis of a convolution's output; throws bad_input unless it is positive.
  std::int64_t convolved_length(int axis, const Blob& input) const;
  /// (N, C, spatial...) with one spatial axis of length 1 where there is none.
  Shape seen_by_operator(const Shape& shape) const;
  Tensor seen_by_operator(const Tensor& tensor) const;

  int axis_ = 1;
  bool is_image_ = false;    ///< (N, C, H, W)
  bool is_volume_ = false;   ///< (N, C, D, H, W); the layout of both may be channels-last
  bool no_spatial_ = false;  ///< the channel is the last axis: the operator sees one spatial axis of length 1
  ops::ConvolutionGeometry geometry_;

 private:
  using Field = google::protobuf::RepeatedField<google::protobuf::uint32>;
  std::vector<std::int64_t> per_axis(const char* field, const Field& repeated, std::int64_t absent,
                                     bool has_h, bool has_w, std::int64_t h, std::int64_t w) const;
};

/// Weights (out_channels of the operator, in_channels / group, kernel...), bias (num_output).
class ConvolutionBase : public WindowLayer {
 public:
  ConvolutionBase(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : WindowLayer(parameter, options,
                    {.arity = {1, -1, 1, -1, true},
                     .layout = LayoutRule::channels_last,
                     .storage = StorageRule::sixteen_bits,
                     .backward_reads_outputs = false,
                     .overwrites_gradients = true,
                     .fuses_activation = ActivationFusion::forward}) {}

  void read_settings() override;
  void reshape(const Blobs& inputs, const Blobs& outputs) override;
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override;
  void parameters_replaced() override;
  ops::KernelChoices kernel_choices() const override {
    return convolution_ ? convolution_->kernel_choices() : ops::KernelChoices();
  }

 protected:
  /// Declares weight and bias for a geometry that is complete.
  void declare_parameters();
  ops::Convolution& convolution(Context& context);
  Tensor weight_for_operator(const Tensor& weight) const;
  const Tensor& bias() const { return parameters_.size() > 1 ? parameters_[1].value : none_; }
  /// Of one spatial axis; throws bad_input unless it is positive.
  virtual std::int64_t output_length(int axis, const Blob& input) const = 0;
  /// The number of channels in the layer's input.
  virtual std::int64_t input_channels() const = 0;
  /// Adds to the gradients of weight and, where defined, bias; `first`: overwrites them.
  virtual void backward_parameters(Context& context, const Tensor& input, const Tensor& grad_output,
                                   bool first, Tensor& grad_weight, Tensor& grad_bias) = 0;
  virtual void backward_input(Context& context, const Tensor& grad_output, const Tensor& weight,
                              Tensor& grad_input) = 0;
  /// The places of an operator's channels in memory.
  static ops::Broadcast over_channels(const Tensor& tensor);

  Tensor none_;

 private:
  std::unique_ptr<ops::Convolution> convolution_;
};

}  // namespace banyan
