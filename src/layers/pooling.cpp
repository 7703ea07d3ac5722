// Pooling over windows of any number of spatial axes: MAX, AVE, STOCHASTIC (images only).
//
// Output length per axis: round((in + 2 pad - kernel) / stride) + 1, rounded up unless round_mode is FLOOR
// (or ceil_mode false); when any axis is padded, or the kernel is 1 along one (Intel's rule), a last window
// that would start beyond in + pad is dropped.
// With MAX a second output holds the position h * W + w of each maximum (not with more than two spatial
// axes). Whatever `engine` says, averages divide by the window clipped at in + pad (BVLC's CPU), with
// avg_include_pad: false by the number of pixels inside.
//
// The operators know images. Maxima and averages of more axes are those over the last two, then over one axis
// more at a time.
#include "banyan/ops/pooling.hpp"

#include <google/protobuf/repeated_field.h>

#include <algorithm>

#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"

namespace banyan {
namespace {

using Field = google::protobuf::RepeatedField<google::protobuf::uint32>;

/// One axis of the windows.
struct PoolingWindow {
  std::int64_t kernel = 1, stride = 1, pad = 0;
};

/// One call of the operators.
struct PoolingStage {
  ops::PoolingGeometry geometry;
  Shape input, output;          ///< as images
  Tensor mask, made, gradient;  ///< of the output; the last two only where another stage follows
};

class PoolingLayer : public Layer {
 public:
  PoolingLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {1, 1, 1, parameter.pooling_param().pool() == caffe::PoolingParameter::MAX ? 2 : 1},
               .layout = LayoutRule::follows,
               .storage = StorageRule::sixteen_bits,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .differentiable_outputs = 1}) {}

  void read_settings() override;
  void setup(const Blobs& inputs, const Blobs& outputs) override;
  void reshape(const Blobs& inputs, const Blobs& outputs) override;
  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override;
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override;

  double forward_flops(const Blobs&, const Blobs& outputs) const override {
    double product = static_cast<double>(outputs[0]->shape.count());
    for (const PoolingWindow& window : windows_) product *= static_cast<double>(window.kernel);
    return product;
  }

 private:
  const caffe::PoolingParameter& settings() const { return parameter_.pooling_param(); }
  bool has_stride_of_sides() const { return settings().has_stride_h() || settings().has_stride_w(); }
  bool rounds_up() const {
    return settings().has_ceil_mode() ? settings().ceil_mode()
                                      : settings().round_mode() == caffe::PoolingParameter::CEIL;
  }
  std::vector<std::int64_t> per_axis(const char* field, const Field& repeated, std::int64_t absent) const;
  void read_windows();
  std::int64_t output_length(std::size_t axis, std::int64_t input) const;
  bool padded() const {
    return std::any_of(windows_.begin(), windows_.end(), [](const auto& window) { return window.pad > 0; });
  }
  bool has_points() const {
    return std::any_of(windows_.begin(), windows_.end(),
                       [](const auto& window) { return window.kernel == 1; });
  }
  ops::PoolingMethod method() const;
  /// Of a stage's mask that only the backward pass reads.
  DType mask_type(const PoolingStage& stage, const Tensor& output) const {
    const bool maximum = method() == ops::PoolingMethod::maximum;
    // Without vectors of channels a place in a window costs divisions.
    return maximum && output.layout() == Layout::channels_last ? ops::smallest_mask(stage.geometry)
                                                               : DType::i32;
  }
  void make_stages(Layout layout, const Shape& input, const Shape& output);

  std::vector<PoolingWindow> windows_;  ///< one per spatial axis
  std::vector<PoolingStage> stages_;
};

/// `field` once, once for each spatial axis, or absent.
std::vector<std::int64_t> PoolingLayer::per_axis(const char* field, const Field& repeated,
                                                 std::int64_t absent) const {
  const auto axes = windows_.size(), given = static_cast<std::size_t>(repeated.size());
  if (given > 1 && given != axes)
    refuse(field, " is given ", given, " times; expected once or once for each of ", axes, " spatial axes");
  std::vector<std::int64_t> lengths(axes, absent);
  for (std::size_t i = 0; i < axes && given > 0; ++i)
    lengths[i] = repeated.Get(given == 1 ? 0 : static_cast<int>(i));
  return lengths;
}

void PoolingLayer::read_settings() {
  const auto& s = settings();
  if (!s.avg_include_pad() && s.pool() != caffe::PoolingParameter::AVE)
    refuse("avg_include_pad: false is for pool: AVE only");
  if (s.pool() == caffe::PoolingParameter::MIN)
    refuse(
        "pool: MIN is read as Power, Pooling with MAX and Power where a Pooling has one bottom and one top");
  if (s.axis() != 1) refuse("pooling_param.axis other than 1 is not supported");
  for (const auto* gaps : {&s.dilation(), &s.kstride()})
    if (std::count(gaps->begin(), gaps->end(), 1) != gaps->size())
      refuse(gaps == &s.dilation() ? "dilation" : "kstride",
             " other than 1 is not supported: windows have no gaps");
  if (s.has_round_mode() && rounds_up() != (s.round_mode() == caffe::PoolingParameter::CEIL))
    refuse("ceil_mode and round_mode contradict each other; give one of them");
  const bool both = s.has_kernel_h() && s.has_kernel_w(), either = s.has_kernel_h() || s.has_kernel_w(),
             list = s.kernel_size_size() > 0;
  if (s.global_pooling() && (list || either))
    refuse(
        "global_pooling takes its kernel from the input; kernel_size, kernel_h and kernel_w must be "
        "absent");
  if (!s.global_pooling() && (list ? either : !both))
    refuse("give either kernel_size or both kernel_h and kernel_w");
  if ((s.has_pad_h() || s.has_pad_w()) && (s.pad_size() > 0 || !s.has_pad_h() || !s.has_pad_w()))
    refuse("give either pad or both pad_h and pad_w");
  if (has_stride_of_sides() && (s.stride_size() > 0 || !s.has_stride_h() || !s.has_stride_w()))
    refuse("give either stride or both stride_h and stride_w");
  if (std::count(s.kernel_size().begin(), s.kernel_size().end(), 0) > 0 ||
      (both && (s.kernel_h() == 0 || s.kernel_w() == 0)))
    refuse("the kernel must be at least 1 along each axis: kernel_size is 0");
  if (std::count(s.stride().begin(), s.stride().end(), 0) > 0 ||
      (has_stride_of_sides() && (s.stride_h() == 0 || s.stride_w() == 0)))
    refuse("stride must be positive");
}

/// The windows along each spatial axis.
void PoolingLayer::read_windows() {
  const auto& s = settings();
  const bool kernels = s.has_kernel_h(), pads = s.has_pad_h(), strides = has_stride_of_sides();
  if ((kernels || pads || strides) && windows_.size() != 2)
    refuse("kernel_h, kernel_w, pad_h, pad_w, stride_h and stride_w need 2 spatial axes; there are ",
           windows_.size());
  using Lengths = std::vector<std::int64_t>;
  const Lengths kernel =
      kernels ? Lengths{s.kernel_h(), s.kernel_w()} : per_axis("kernel_size", s.kernel_size(), 1);
  const Lengths pad = pads ? Lengths{s.pad_h(), s.pad_w()} : per_axis("pad", s.pad(), 0);
  const Lengths stride = strides ? Lengths{s.stride_h(), s.stride_w()} : per_axis("stride", s.stride(), 1);
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    windows_[i] = {kernel[i], stride[i], pad[i]};
    if (s.global_pooling() && (pad[i] > 0 || stride[i] != 1))
      refuse("global_pooling needs pad 0 and stride 1");
  }
  if (padded() && s.pool() == caffe::PoolingParameter::STOCHASTIC)
    refuse("STOCHASTIC pooling cannot be padded: pad must be 0");
  for (const PoolingWindow& window : windows_)
    if (padded() && window.pad >= window.kernel)
      refuse("pad must be smaller than the kernel (kernel_size, kernel_h, kernel_w)");
}

ops::PoolingMethod PoolingLayer::method() const {
  switch (settings().pool()) {
    case caffe::PoolingParameter::AVE:
      return ops::PoolingMethod::average;
    case caffe::PoolingParameter::STOCHASTIC:
      return ops::PoolingMethod::stochastic;
    default:
      return ops::PoolingMethod::maximum;
  }
}

void PoolingLayer::setup(const Blobs& inputs, const Blobs& outputs) {
  const int axes = inputs[0]->shape.axes();
  if (axes < 3)
    refuse("input ", quoted(inputs[0]->name), " has ", axes,
           " axes; expected at least 3 (N, C, then spatial)");
  windows_.resize(static_cast<std::size_t>(axes - 2));
  read_windows();
  if (axes != 4 && axes != 5) traits_.layout = LayoutRule::contiguous;
  const bool draws = method() == ops::PoolingMethod::stochastic && options().phase == Phase::train;
  traits_.by_sample = axes == 4 && outputs.size() == 1 && !draws;
  if (axes > 4 && method() == ops::PoolingMethod::stochastic)
    refuse("STOCHASTIC pooling needs at most 2 spatial axes; there are ", axes - 2);
  if (axes > 4 && outputs.size() > 1)
    refuse("a second output (the positions of maxima) needs at most 2 spatial axes; there are ", axes - 2);
}

std::int64_t PoolingLayer::output_length(std::size_t axis, std::int64_t input) const {
  const auto& [kernel, stride, pad] = windows_[axis];
  const std::int64_t room = input + 2 * pad - kernel;
  const bool up = rounds_up();
  // C++ division truncates towards zero: up if room is negative, down if it is positive.
  std::int64_t length = room / stride + 1;
  if (up && room > 0 && room % stride != 0) ++length;
  if (!up && room < 0 && room % stride != 0) --length;
  if ((padded() || has_points()) && (length - 1) * stride >= input + pad) --length;
  if (length < 1)
    refuse("spatial axis ", axis, " of length ", input, " with pad ", pad, " is too small for the kernel ",
           kernel);
  return length;
}

void PoolingLayer::reshape(const Blobs& inputs, const Blobs& outputs) {
  const Shape& input = inputs[0]->shape;
  const auto axes = static_cast<std::size_t>(input.axes());
  if (axes != windows_.size() + 2)
    refuse("input ", quoted(inputs[0]->name), " has ", axes, " axes; expected ", windows_.size() + 2);
  Shape output = input;
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    const int axis = static_cast<int>(i) + 2;
    if (settings().global_pooling()) windows_[i].kernel = input[axis];
    if (windows_[i].kernel < 1) refuse("global_pooling of an image without pixels");
    output.set_dim(axis, output_length(i, input[axis]));
  }
  make_stages(inputs[0]->layout, input, output);
  for (Blob* blob : outputs) set_output(*blob, output, inputs[0]->layout);
  if (outputs.size() > 1) outputs[1]->dtype = dtype();  // positions need more than 16 bits
}

void PoolingLayer::make_stages(Layout layout, const Shape& input, const Shape& output) {
  const int axes = input.axes(), stages = std::max(axes - 3, 1);
  stages_.resize(static_cast<std::size_t>(stages));
  for (int i = 0; i < stages; ++i) {
    PoolingStage& stage = stages_[static_cast<std::size_t>(i)];
    const int axis =
        std::max(axes - 2 - i, 2);  // the image's rows; its columns are one axis, or what is done
    const PoolingWindow rows = axes == 3 ? PoolingWindow() : windows_[static_cast<std::size_t>(axis - 2)];
    const PoolingWindow columns = i > 0 ? PoolingWindow() : windows_.back();
    stage.geometry = {method(),       rows.kernel, columns.kernel, rows.stride,
                      columns.stride, rows.pad,    columns.pad,    settings().avg_include_pad()};
    // The axes before are channels too, or with channels last images too.
    const bool last = layout == Layout::channels_last;
    const std::int64_t before = axes == 3 ? 1 : input.count(2, axis);
    const std::int64_t images = last ? input[0] * before : input[0];
    const std::int64_t planes = last ? input[1] : input[1] * before;
    const std::int64_t width = i > 0 ? output.count(axis + 1) : input[axes - 1];
    stage.input = {images, planes, axes == 3 ? 1 : input[axis], width};
    stage.output = {images, planes, axes == 3 ? 1 : output[axis], i > 0 ? width : output[axes - 1]};
  }
}

void PoolingLayer::forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) {
  Context& context = *pass.context;
  const bool image = inputs[0]->shape.axes() == 4;  // perhaps some samples only
  Tensor from = inputs[0]->data;
  for (PoolingStage& stage : stages_) {
    const bool last = &stage == &stages_.back();
    if (!last) ensure(context, stage.made, stage.output, from.dtype(), from.layout());
    Tensor to = last ? outputs[0]->data : stage.made;
    if (!image) {
      from = from.slice(0, stage.input, from.layout());
      to = to.slice(0, stage.output, to.layout());
    }
    if (method() != ops::PoolingMethod::average)
      ensure(context, stage.mask, to.shape(), outputs.size() > 1 ? DType::i32 : mask_type(stage, to),
             to.layout());
    ops::pooling_forward(context, stage.geometry, from, options().phase == Phase::train, random_key(pass),
                         pass.samples, to, stage.mask);
    from = to;
  }
  if (outputs.size() > 1) {
    Tensor positions = image ? outputs[1]->data : outputs[1]->data.reshaped(stages_[0].output);
    ops::copy(context, stages_[0].mask, positions);
  }
}

void PoolingLayer::backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                            const Blobs& inputs) {
  if (!propagate[0]) return;
  Context& context = *pass.context;
  const bool image = inputs[0]->shape.axes() == 4;
  Tensor from = outputs[0]->grad;
  for (std::size_t i = stages_.size(); i-- > 0;) {
    const PoolingStage& stage = stages_[i];
    if (i > 0) ensure(context, stages_[i - 1].gradient, stages_[i - 1].output, from.dtype(), from.layout());
    Tensor to = i > 0 ? stages_[i - 1].gradient : inputs[0]->grad;
    if (!image) {
      from = from.slice(0, stage.output, from.layout());
      to = to.slice(0, stage.input, to.layout());
    }
    ops::pooling_backward(context, stage.geometry, from, stage.mask, to);
    from = to;
  }
}

const RegisterLayer<PoolingLayer> registered_pooling("Pooling", {"maximum, average or stochastic pooling",
                                                                 "pooling_param",
                                                                 {"kernel_size: 2 stride: 2",
                                                                  "pool: AVE kernel_size: 3 stride: 2",
                                                                  "pool: AVE kernel_size: 3 stride: 2 pad: 1 "
                                                                  "avg_include_pad: false"}});

}  // namespace
}  // namespace banyan
