// Local: a convolution with weights of its own at each position of its output, as in BVLC's pull request 1271
// and branches with it; LocallyConnected and LocalWeightedConvolution are the same with other names.
//
// Input N x C x H x W, output N x M x h x w. Weights M x 1 x (C kernel_h kernel_w) x (h w), bias 1 x 1 x M x
// (h w), or 1 x 1 x 1 x M with shared_bias. The weights are for one size of images.
#include "banyan/ops/local.hpp"

#include <algorithm>

#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"
#include "banyan/ops/unfold.hpp"

namespace banyan {
namespace {

class LocalLayer : public Layer {
 public:
  LocalLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.by_sample = true, .backward_reads_outputs = false, .overwrites_gradients = true}) {}

  void read_settings() override {
    const auto& s = settings();
    require_num_output(s.has_num_output(), s.num_output());
    const auto both = [&](const char* field, bool once, bool h, bool w) {
      if (once && (h || w)) refuse("give either ", field, " or its _h and _w forms, not both");
      if (h != w) refuse(field, " needs both its _h and _w forms");
    };
    both("kernel_size", s.has_kernel_size(), s.has_kernel_h(), s.has_kernel_w());
    both("stride", s.has_stride(), s.has_stride_h(), s.has_stride_w());
    both("pad", s.has_pad(), s.has_pad_h(), s.has_pad_w());
    if (!s.has_kernel_size() && !s.has_kernel_h()) refuse("no kernel_size is given");
    const ops::ConvolutionGeometry windows = geometry();
    for (int axis = 0; axis < 2; ++axis) {
      if (windows.kernel[axis] < 1) refuse("kernel_size must be positive");
      if (windows.stride[axis] < 1) refuse("stride must be positive");
      if (windows.pad[axis] > kMostPad) refuse("pad must be at most ", kMostPad);
    }
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    geometry_ = geometry();
    image_ = image_shape(*inputs[0]);
    outputs_ = settings().num_output();
    for (int axis = 0; axis < 2; ++axis) {
      length_[axis] = geometry_.output_length(axis, image_[axis + 2]);
      if (length_[axis] < 1)
        refuse("input ", quoted(inputs[0]->name), " of shape ", image_.to_string(),
               " is smaller than the kernel: spatial axis ", axis, " would have the output length ",
               length_[axis]);
    }
    places_ = length_[0] * length_[1];
    seen_ = image_[1] * geometry_.kernel[0] * geometry_.kernel[1];
    declare(Shape{outputs_, 1, seen_, places_}, settings().weight_filler());
    if (!settings().bias_term()) return;
    declare(settings().shared_bias() ? Shape{1, 1, 1, outputs_} : Shape{1, 1, outputs_, places_},
            settings().bias_filler());
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& image = image_shape(*inputs[0]);
    if (image.count(1) != image_.count(1) || image[1] != image_[1] || image[2] != image_[2])
      refuse("input ", quoted(inputs[0]->name), " is ", image.to_string(), "; the weights are for images of ",
             image_[1], " x ", image_[2], " x ", image_[3]);
    set_output(*outputs[0], Shape{image[0], outputs_, length_[0], length_[1]});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    Tensor& y = outputs[0]->data;
    for_parts(y.shape()[0], [&](std::int64_t first, std::int64_t count) {
      Tensor part = samples(y, first, count);
      const Tensor& windows = unfold(context, samples(inputs[0]->data, first, count));
      ops::place_products(
          context, {count, outputs_, seen_, places_, seen_ * places_, places_, seen_ * places_, places_},
          windows, parameters_[0].value, 0, part);
    });
    if (parameters_.size() > 1 && y.count() > 0)
      ops::scale_bias(context, y, none_, parameters_[1].value, over_bias(y), {}, y);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    const Tensor &x = inputs[0]->data, &dy = outputs[0]->grad;
    Tensor& dw = parameters_[0].grad;
    if (parameters_.size() > 1 && parameters_[1].grad.defined()) {
      if (pass.is_fresh(1)) ops::fill(context, parameters_[1].grad, 0);
      if (dy.count() > 0) ops::scale_backward(context, none_, dy, over_bias(dy), parameters_[1].grad);
    }
    if (dw.defined() && pass.is_fresh(0) && dy.count() == 0) ops::fill(context, dw, 0);
    for_parts(dy.shape()[0], [&](std::int64_t first, std::int64_t count) {
      const Tensor of_outputs = samples(dy, first, count);
      if (dw.defined())
        ops::place_products(
            context, {outputs_, seen_, count, places_, places_, outputs_ * places_, places_, seen_ * places_},
            of_outputs, unfold(context, samples(x, first, count)), first == 0 && pass.is_fresh(0) ? 0 : 1,
            dw);
      if (!propagate[0]) return;
      Tensor& windows = buffer(context, count, dy.dtype());
      ops::place_products(
          context, {count, seen_, outputs_, places_, outputs_ * places_, places_, places_, seen_ * places_},
          of_outputs, parameters_[0].value, 0, windows);
      Tensor dx = samples(inputs[0]->grad, first, count);
      ops::unfold_backward(context, geometry_, windows, dx);
    });
  }

  double forward_flops(const Blobs&, const Blobs& outputs) const override {
    return static_cast<double>(outputs[0]->shape.count()) * static_cast<double>(seen_);
  }

 private:
  static constexpr std::int64_t kMostPad = 1 << 15;
  /// Of the windows of the samples that are computed at once.
  static constexpr std::int64_t kMostWindows = 1 << 24;

  const caffe::LocalParameter& settings() const { return parameter_.local_param(); }

  ops::ConvolutionGeometry geometry() const {
    const auto& s = settings();
    const auto pair = [](bool each, std::int64_t once, std::int64_t h, std::int64_t w) {
      return each ? std::vector<std::int64_t>{h, w} : std::vector<std::int64_t>{once, once};
    };
    ops::ConvolutionGeometry geometry;
    geometry.kernel = pair(s.has_kernel_h(), s.kernel_size(), s.kernel_h(), s.kernel_w());
    geometry.stride = pair(s.has_stride_h(), s.stride(), s.stride_h(), s.stride_w());
    geometry.pad = pair(s.has_pad_h(), s.pad(), s.pad_h(), s.pad_w());
    geometry.dilation = {1, 1};
    return geometry;
  }

  /// body(first sample, number) for all samples.
  template <class Body>
  void for_parts(std::int64_t batch, const Body& body) const {
    const std::int64_t most =
        std::max<std::int64_t>(kMostWindows / std::max<std::int64_t>(seen_ * places_, 1), 1);
    for (std::int64_t first = 0; first < batch; first += most) body(first, std::min(most, batch - first));
  }
  static Tensor samples(const Tensor& tensor, std::int64_t first, std::int64_t count) {
    Shape shape = tensor.shape();
    shape.set_dim(0, count);
    return tensor.slice(first * tensor.shape().count(1), shape);
  }
  Tensor& buffer(Context& context, std::int64_t count, DType dtype) {
    ensure(context, windows_, Shape{count, seen_, length_[0], length_[1]}, dtype);
    return windows_;
  }
  const Tensor& unfold(Context& context, const Tensor& images) {
    Tensor& windows = buffer(context, images.shape()[0], images.dtype());
    ops::unfold_forward(context, geometry_, images, windows);
    return windows;
  }
  ops::Broadcast over_bias(const Tensor& y) const {
    return settings().shared_bias() ? ops::Broadcast{y.shape()[0], outputs_, places_}
                                    : ops::Broadcast{y.shape()[0], outputs_ * places_, 1};
  }

  ops::ConvolutionGeometry geometry_;
  Shape image_;                                       ///< of the input when the weights were made
  std::int64_t outputs_ = 0, places_ = 0, seen_ = 0;  ///< channels; positions; what a window holds
  std::int64_t length_[2] = {};                       ///< of the output's spatial axes
  Tensor windows_, none_;
};

const RegisterLayer<LocalLayer> registered_local(
    "Local", {.about = "a convolution with weights of its own at each position",
              .message = "local_param",
              .examples = {"num_output: 3 kernel_size: 3 weight_filler { type: 'gaussian' }",
                           "num_output: 2 kernel_h: 2 kernel_w: 3 stride: 2 pad: 1 shared_bias: true "
                           "weight_filler { type: 'gaussian' }",
                           "num_output: 2 kernel_size: 5 bias_term: false"}});

}  // namespace
}  // namespace banyan
