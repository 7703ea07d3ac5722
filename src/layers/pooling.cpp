// Pooling over 2-D windows: MAX, AVE, STOCHASTIC.
//
// Output length per axis: round((in + 2 pad - kernel) / stride) + 1, rounded up unless round_mode is FLOOR
// (or ceil_mode false); when any axis is padded, a last window that would start beyond in + pad is dropped.
// With MAX a second output holds the position h * W + w of each maximum. Whatever `engine` says, averages
// divide by the window clipped at in + pad (BVLC's CPU).
#include "banyan/ops/pooling.hpp"

#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"

namespace banyan {
namespace {

class PoolingLayer : public Layer {
 public:
  PoolingLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {1, 1, 1, parameter.pooling_param().pool() == caffe::PoolingParameter::MAX ? 2 : 1},
               .layout = LayoutRule::follows,
               .storage = StorageRule::sixteen_bits,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false}) {}

  void setup(const Blobs& inputs, const Blobs& outputs) override;
  void reshape(const Blobs& inputs, const Blobs& outputs) override;

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    if (geometry_.method != ops::PoolingMethod::average)
      ensure(context, mask_, outputs[0]->shape, DType::i32, outputs[0]->layout);
    ops::pooling_forward(context, geometry_, inputs[0]->data, options().phase == Phase::train,
                         random_key(pass), pass.samples, outputs[0]->data, mask_);
    if (outputs.size() > 1) ops::copy(context, mask_, outputs[1]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::pooling_backward(*pass.context, geometry_, outputs[0]->grad, mask_, inputs[0]->grad);
  }

  double forward_flops(const Blobs&, const Blobs& outputs) const override {
    return static_cast<double>(outputs[0]->shape.count()) *
           static_cast<double>(geometry_.kernel_h * geometry_.kernel_w);
  }

 private:
  const caffe::PoolingParameter& settings() const { return parameter_.pooling_param(); }
  bool rounds_up() const {
    return settings().has_ceil_mode() ? settings().ceil_mode()
                                      : settings().round_mode() == caffe::PoolingParameter::CEIL;
  }
  void read_kernel();
  void read_pad_and_stride();
  std::int64_t output_length(const char* axis, std::int64_t input, std::int64_t kernel, std::int64_t stride,
                             std::int64_t pad) const;

  ops::PoolingGeometry geometry_;
  Tensor mask_;
};

void PoolingLayer::read_kernel() {
  const auto& s = settings();
  if (s.global_pooling()) {
    if (s.has_kernel_size() || s.has_kernel_h() || s.has_kernel_w())
      refuse(
          "global_pooling takes its kernel from the input; kernel_size, kernel_h and kernel_w must be "
          "absent");
    return;
  }
  const bool both = s.has_kernel_h() && s.has_kernel_w();
  if (s.has_kernel_size() ? s.has_kernel_h() || s.has_kernel_w() : !both)
    refuse("give either kernel_size or both kernel_h and kernel_w");
  geometry_.kernel_h = s.has_kernel_size() ? s.kernel_size() : s.kernel_h();
  geometry_.kernel_w = s.has_kernel_size() ? s.kernel_size() : s.kernel_w();
  if (geometry_.kernel_h < 1 || geometry_.kernel_w < 1) refuse("the kernel must be at least 1 x 1");
}

void PoolingLayer::read_pad_and_stride() {
  const auto& s = settings();
  if ((s.has_pad_h() || s.has_pad_w()) && (s.has_pad() || !s.has_pad_h() || !s.has_pad_w()))
    refuse("give either pad or both pad_h and pad_w");
  if ((s.has_stride_h() || s.has_stride_w()) && (s.has_stride() || !s.has_stride_h() || !s.has_stride_w()))
    refuse("give either stride or both stride_h and stride_w");
  geometry_.pad_h = s.has_pad_h() ? s.pad_h() : s.pad();
  geometry_.pad_w = s.has_pad_w() ? s.pad_w() : s.pad();
  geometry_.stride_h = s.has_stride_h() ? s.stride_h() : s.stride();
  geometry_.stride_w = s.has_stride_w() ? s.stride_w() : s.stride();
  if (geometry_.stride_h < 1 || geometry_.stride_w < 1) refuse("stride must be positive");
  const bool padded = geometry_.pad_h > 0 || geometry_.pad_w > 0;
  if (s.global_pooling() && (padded || geometry_.stride_h != 1 || geometry_.stride_w != 1))
    refuse("global_pooling needs pad 0 and stride 1");
  if (padded && s.pool() == caffe::PoolingParameter::STOCHASTIC)
    refuse("STOCHASTIC pooling cannot be padded");
  if (padded && (geometry_.pad_h >= geometry_.kernel_h || geometry_.pad_w >= geometry_.kernel_w))
    refuse("pad must be smaller than the kernel");
}

void PoolingLayer::setup(const Blobs&, const Blobs&) {
  if (!settings().avg_include_pad()) refuse("avg_include_pad: false is not supported");
  if (settings().axis() != 1) refuse("pooling_param.axis other than 1 is not supported");
  if (settings().has_round_mode() &&
      rounds_up() != (settings().round_mode() == caffe::PoolingParameter::CEIL))
    refuse("ceil_mode and round_mode contradict each other; give one of them");
  switch (settings().pool()) {
    case caffe::PoolingParameter::MAX:
      geometry_.method = ops::PoolingMethod::maximum;
      break;
    case caffe::PoolingParameter::AVE:
      geometry_.method = ops::PoolingMethod::average;
      break;
    case caffe::PoolingParameter::STOCHASTIC:
      geometry_.method = ops::PoolingMethod::stochastic;
      break;
  }
  read_kernel();
  read_pad_and_stride();
}

std::int64_t PoolingLayer::output_length(const char* axis, std::int64_t input, std::int64_t kernel,
                                         std::int64_t stride, std::int64_t pad) const {
  const std::int64_t room = input + 2 * pad - kernel;
  const bool up = rounds_up();
  // C++ division truncates towards zero: up if room is negative, down if it is positive.
  std::int64_t length = room / stride + 1;
  if (up && room > 0 && room % stride != 0) ++length;
  if (!up && room < 0 && room % stride != 0) --length;
  if ((geometry_.pad_h > 0 || geometry_.pad_w > 0) && (length - 1) * stride >= input + pad) --length;
  if (length < 1)
    refuse("the ", axis, " ", input, " with pad ", pad, " is too small for the kernel ", kernel);
  return length;
}

void PoolingLayer::reshape(const Blobs& inputs, const Blobs& outputs) {
  const Shape& input = inputs[0]->shape;
  if (input.axes() != 4)
    refuse("input ", quoted(inputs[0]->name), " has ", input.axes(), " axes; expected 4 (N, C, H, W)");
  if (settings().global_pooling()) {
    geometry_.kernel_h = input[2];
    geometry_.kernel_w = input[3];
    if (input[2] < 1 || input[3] < 1) refuse("global_pooling of an image without pixels");
  }
  const Shape output{
      input[0], input[1],
      output_length("height", input[2], geometry_.kernel_h, geometry_.stride_h, geometry_.pad_h),
      output_length("width", input[3], geometry_.kernel_w, geometry_.stride_w, geometry_.pad_w)};
  for (Blob* blob : outputs) set_output(*blob, output, inputs[0]->layout);
  if (outputs.size() > 1) outputs[1]->dtype = dtype();  // positions need more than 16 bits
}

const RegisterLayer<PoolingLayer> registered("Pooling", {"maximum, average or stochastic pooling",
                                                         "pooling_param",
                                                         {"kernel_size: 2 stride: 2",
                                                          "pool: AVE kernel_size: 3 stride: 2"}});

}  // namespace
}  // namespace banyan
