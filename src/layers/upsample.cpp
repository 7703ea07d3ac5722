// Upsample. With two inputs (SegNet): puts each pixel where the maximum came from that a Pooling layer's
// second output tells, all others are 0. With one (YOLOv3): repeats each pixel.
//
// Each axis becomes upsample_h (upsample_w) long, or scale_h (scale_w, or else scale) times as long, one less
// with pad_out_h (pad_out_w); repeating takes only the factors.
#include "banyan/ops/basic.hpp"
#include "banyan/ops/grid.hpp"
#include "banyan/ops/pooling.hpp"
#include "unpool_layer.hpp"

namespace banyan {
namespace {

class UpsampleLayer : public UnpoolLayer {
 public:
  UpsampleLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : UnpoolLayer(parameter, options, 1) {}

  void read_settings() override {
    const auto& s = settings();
    const bool sized = s.has_upsample_h() || s.has_upsample_w(), scaled = s.has_scale_h() || s.has_scale_w();
    if (sized && !(s.has_upsample_h() && s.has_upsample_w())) refuse("give both upsample_h and upsample_w");
    if (scaled && s.has_scale()) refuse("give either scale or scale_h and scale_w, not both");
    if (scaled && !(s.has_scale_h() && s.has_scale_w())) refuse("give both scale_h and scale_w");
    if (factor(0) < 1 || factor(1) < 1) refuse(scaled ? "scale_h and scale_w" : "scale", " must be positive");
    repeats_ = parameter_.bottom_size() == 1;
    if (repeats_ && (sized || s.pad_out_h() || s.pad_out_w()))
      refuse(
          "upsample_h, upsample_w, pad_out_h and pad_out_w need a second input, the mask of a Pooling layer");
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    if (!repeats_) return UnpoolLayer::forward(pass, inputs, outputs);
    const std::vector<std::int64_t> from = ops::strides_of(inputs[0]->shape, inputs[0]->layout),
                                    to = ops::strides_of(outputs[0]->shape, outputs[0]->layout);
    const Shape& input = inputs[0]->shape;
    ops::Grid grid;
    grid.add(input[0], from[0], to[0]);
    grid.add(input[1], from[1], to[1]);
    for (int axis = 0; axis < 2; ++axis) {
      const auto at = static_cast<std::size_t>(axis + 2);
      grid.add(input[axis + 2], from[at], to[at] * factor(axis));
      grid.add(factor(axis), 0, to[at]);
    }
    ops::copy_grid(*pass.context, inputs[0]->data, outputs[0]->data, grid);
  }

  /// The sum over a pixel's copies is their mean times their number.
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!repeats_) return UnpoolLayer::backward(pass, outputs, propagate, inputs);
    if (!propagate[0]) return;
    Context& context = *pass.context;
    const ops::PoolingGeometry geometry{
        ops::PoolingMethod::average, factor(0), factor(1), factor(0), factor(1), 0, 0};
    Tensor &dx = inputs[0]->grad, none;
    ops::pooling_forward(context, geometry, outputs[0]->grad, false, {}, pass.samples, dx, none);
    ops::axpby(context, static_cast<double>(factor(0) * factor(1)), dx, 0, dx);
  }

 private:
  const caffe::UpsampleParameter& settings() const { return parameter_.upsample_param(); }
  std::int64_t factor(int axis) const {
    const auto& s = settings();
    return s.has_scale_h() ? (axis == 0 ? s.scale_h() : s.scale_w()) : s.scale();
  }
  std::int64_t output_length(int axis, std::int64_t length) const override {
    const auto& s = settings();
    if (s.has_upsample_h()) return axis == 0 ? s.upsample_h() : s.upsample_w();
    return length * factor(axis) - (axis == 0 ? s.pad_out_h() : s.pad_out_w());
  }

  bool repeats_ = false;
};

const RegisterLayer<UpsampleLayer> registered_upsample(
    "Upsample", {"puts pixels where maximum pooling took them from (SegNet), or repeats them (YOLOv3)",
                 "upsample_param",
                 {"scale: 2"},
                 nullptr,
                 {{4, 5, 5}, {4, 5, 5}}});

}  // namespace
}  // namespace banyan
