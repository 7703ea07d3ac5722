// DeformableConvolution (Dai et al. 2017; Deformable R-FCN): a convolution of images each of whose windows
// sees points that are moved. Inputs: images (N, C, H, W) and offsets (N, 2 * deformable_group * kernel, h,
// w), h x w being the size of the output: for each group of channels and each point of the window, row by
// row, how far it moves down and to the right in pixels. Between pixels values are bilinear; points outside
// of the image see 0. Weights (num_output, C / group, kernel), bias (num_output).
//
// It is computed for one image after the other: what the windows see becomes channels, as in Im2col, which a
// 1 x 1 convolution joins.
#include "banyan/ops/basic.hpp"
#include "banyan/ops/deform.hpp"
#include "convolution_base.hpp"

namespace banyan {
namespace {

class DeformableConvolutionLayer : public WindowLayer {
 public:
  DeformableConvolutionLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : WindowLayer(parameter, options, {.arity = {2, 2, 1, 1}, .backward_reads_outputs = false}) {}

  void read_settings() override {
    check_window_settings();
    if (settings().deformable_group() == 0) refuse("deformable_group must be positive");
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    read_windows(inputs[0]->shape);
    if (!is_image_)
      refuse("expected images (N, C, H, W) with axis: 1; ", quoted(inputs[0]->name), " is ",
             inputs[0]->shape.to_string());
    traits_.layout = LayoutRule::contiguous;
    const std::int64_t channels = inputs[0]->shape[1], outputs = settings().num_output();
    const std::int64_t group = settings().group(), kernel = geometry_.kernel[0] * geometry_.kernel[1];
    deformation_ = {geometry_, settings().deformable_group()};
    geometry_.group = group;
    check_group(channels, outputs);
    if (channels % deformation_.groups != 0)
      refuse("deformable_group ", deformation_.groups, " must divide the ", channels, " input channels");
    declare(Shape{outputs, channels / group, geometry_.kernel[0], geometry_.kernel[1]},
            settings().weight_filler());
    if (settings().bias_term()) declare(Shape{outputs}, settings().bias_filler());
    channels_ = channels;
    join_ = {{1, 1}, {1, 1}, {0, 0}, {1, 1}, group, channels * kernel, outputs};
    weight_ = Shape{outputs, channels / group * kernel, 1, 1};
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    check_axes(*inputs[0]);
    const Shape &image = inputs[0]->shape, &offsets = inputs[1]->shape;
    check_channels(*inputs[0], channels_);
    const std::int64_t rows = convolved_length(0, *inputs[0]), columns = convolved_length(1, *inputs[0]);
    const std::int64_t kernel = join_.in_channels / channels_;
    const Shape wanted{image[0], 2 * deformation_.groups * kernel, rows, columns};
    if (offsets != wanted)
      refuse("the offsets ", quoted(inputs[1]->name), " have the shape ", offsets.to_string(), "; expected ",
             wanted.to_string());
    columns_shape_ = Shape{1, join_.in_channels, rows, columns};
    set_output(*outputs[0], Shape{image[0], settings().num_output(), rows, columns});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Tensor weight = parameters_[0].value.reshaped(weight_);
    ensure(context, columns_, columns_shape_, dtype());
    for (std::int64_t n = 0; n < inputs[0]->shape[0]; ++n) {
      Tensor y = sample(outputs[0]->data, n);
      ops::deform_forward(context, deformation_, sample(inputs[0]->data, n), sample(inputs[1]->data, n),
                          columns_);
      join(context).forward(context, columns_, weight, bias(), y);
    }
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    const Tensor weight = parameters_[0].value.reshaped(weight_);
    ensure(context, columns_, columns_shape_, dtype());
    ensure(context, rows_, Shape{deformation_.groups * join_.in_channels / channels_, columns_shape_[2], 2},
           DType::i32);
    for (std::int64_t n = 0; n < inputs[0]->shape[0]; ++n) {
      const Tensor x = sample(inputs[0]->data, n), offsets = sample(inputs[1]->data, n);
      const Tensor dy = sample(outputs[0]->grad, n);
      parameter_gradients(context, x, offsets, dy);
      if (!propagate[0] && !propagate[1]) continue;
      join(context).backward_data(context, dy, weight, columns_);
      if (propagate[0]) {
        Tensor dx = sample(inputs[0]->grad, n);
        ops::deform_backward(context, deformation_, columns_, offsets, rows_, dx);
      }
      if (propagate[1]) {
        Tensor doffsets = sample(inputs[1]->grad, n);
        ops::deform_offsets_backward(context, deformation_, x, offsets, columns_, doffsets);
      }
    }
  }

  void parameters_replaced() override {
    if (join_operator_ && options().parameters_stay) join_operator_->weights_stay();
  }
  ops::KernelChoices kernel_choices() const override {
    return join_operator_ ? join_operator_->kernel_choices() : ops::KernelChoices();
  }

  double forward_flops(const Blobs&, const Blobs& outputs) const override {
    const auto positions = static_cast<double>(columns_shape_[2] * columns_shape_[3]);
    const double seen = static_cast<double>(outputs[0]->shape[0] * join_.in_channels) * positions;
    return seen * (4 + static_cast<double>(settings().num_output()) / static_cast<double>(join_.group));
  }

 private:
  static Tensor sample(const Tensor& all, std::int64_t n) {
    Shape shape = all.shape();
    shape.set_dim(0, 1);
    return all.slice(n * shape.count(), shape);
  }
  const Tensor& bias() const { return parameters_.size() > 1 ? parameters_[1].value : none_; }

  ops::Convolution& join(Context& context) {
    if (!join_operator_) {
      join_operator_ = ops::make_convolution(context, join_, dtype());
      parameters_replaced();
    }
    return *join_operator_;
  }

  void parameter_gradients(Context& context, const Tensor& x, const Tensor& offsets, const Tensor& dy) {
    Tensor no_bias;
    Tensor& grad_bias = parameters_.size() > 1 ? parameters_[1].grad : no_bias;
    if (parameters_[0].grad.defined()) {
      Tensor grad_weight = parameters_[0].grad.reshaped(weight_);
      ops::deform_forward(context, deformation_, x, offsets, columns_);
      join(context).backward_weight(context, columns_, dy, grad_weight, grad_bias);
    } else if (grad_bias.defined()) {
      ops::scale_backward(context, none_, dy, {1, dy.shape()[1], dy.shape().count(2)}, grad_bias);
    }
  }

  ops::Deformation deformation_;
  ops::ConvolutionGeometry join_;  ///< of the 1 x 1 convolution
  std::int64_t channels_ = 0;
  Shape weight_, columns_shape_;
  std::unique_ptr<ops::Convolution> join_operator_;
  Tensor columns_, rows_, none_;
};

const RegisterLayer<DeformableConvolutionLayer> registered_deformable_convolution(
    "DeformableConvolution",
    {.about = "convolution whose windows see points that are moved (Deformable R-FCN)",
     .message = "convolution_param",
     .examples =
         {"num_output: 2 kernel_size: 2 stride: 2 weight_filler { value: 1 }",
          "num_output: 4 kernel_size: 2 stride: 2 group: 2 bias_term: false weight_filler { value: 1 }"},
     .inputs = {{4, 5, 5}, {8, 2, 2}}});

}  // namespace
}  // namespace banyan
