// Upsample: puts each pixel where the maximum came from that a Pooling layer's second output tells, all
// others are 0 (SegNet).
//
// Each axis becomes upsample_h (upsample_w) long, or scale_h (scale_w, or else scale) times as long, one less
// with pad_out_h (pad_out_w).
#include "banyan/layers/index_note.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/ops/rows.hpp"
#include "banyan/ops/unfold.hpp"

namespace banyan {
namespace {

class UpsampleLayer : public Layer {
 public:
  UpsampleLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 2, 1, 1},
               .layout = LayoutRule::follows,
               .backward_reads_outputs = false,
               .differentiable_inputs = 1}) {}

  void setup(const Blobs&, const Blobs&) override {
    const auto& s = settings();
    const bool sized = s.has_upsample_h() || s.has_upsample_w(), scaled = s.has_scale_h() || s.has_scale_w();
    if (sized && !(s.has_upsample_h() && s.has_upsample_w())) refuse("give both upsample_h and upsample_w");
    if (scaled && s.has_scale()) refuse("give either scale or scale_h and scale_w, not both");
    if (scaled && !(s.has_scale_h() && s.has_scale_w())) refuse("give both scale_h and scale_w");
    if (!scaled && s.scale() < 1) refuse("scale must be positive");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = image_shape(*inputs[0]);
    if (!(inputs[1]->shape == input))
      refuse("the mask ", quoted(inputs[1]->name), " of shape ", inputs[1]->shape.to_string(),
             " must have the shape of ", quoted(inputs[0]->name), ", ", input.to_string());
    const auto& s = settings();
    const bool scaled = s.has_scale_h();
    const std::int64_t h = s.has_upsample_h() ? static_cast<std::int64_t>(s.upsample_h())
                                              : input[2] * (scaled ? s.scale_h() : s.scale()) - s.pad_out_h();
    const std::int64_t w = s.has_upsample_w() ? static_cast<std::int64_t>(s.upsample_w())
                                              : input[3] * (scaled ? s.scale_w() : s.scale()) - s.pad_out_w();
    if (h < 1 || w < 1) refuse("the output would have ", h, " x ", w, " pixels");
    shape_ = Shape{input[0], input[1], h, w};
    set_output(*outputs[0], shape_, inputs[0]->layout);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    ops::note_outside(context, inputs[1]->data, 1, shape_.count(2), note_.on(context));
    ops::unpool_forward(context, inputs[0]->data, inputs[1]->data, outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0]) ops::unpool_backward(*pass.context, outputs[0]->grad, inputs[1]->data, inputs[0]->grad);
  }

  void check_results(Context& context) override {
    note_.check(context, [&](const IndexNote::Found& found) {
      refuse("the mask holds ", found.value, ", which is no pixel of the ", shape_[2], " x ", shape_[3],
             " of the output; it must be the second output of the Pooling layer that made the input smaller");
    });
  }

 private:
  const caffe::UpsampleParameter& settings() const { return parameter_.upsample_param(); }

  Shape shape_;
  IndexNote note_;
};

const RegisterLayer<UpsampleLayer> registered("Upsample", {"puts pixels where maximum pooling took them from",
                                                           "upsample_param",
                                                           {"scale: 2"},
                                                           nullptr,
                                                           {{4, 5, 5}, {4, 5, 5}}});

}  // namespace
}  // namespace banyan
