// TripletLoss (Schroff, Kalenichenko, Philbin 2015; as in happynear/caffe-windows): max(0, margin + |a - p|^2
// - |a - n|^2) summed over the samples and divided by 2 N, N being their number over all devices. Inputs:
// anchors a, positives p (of the anchor's class), negatives n (of another); all get gradients.
#include "banyan/layers/loss.hpp"
#include "banyan/ops/distance_loss.hpp"

namespace banyan {
namespace {

class TripletLossLayer : public LossLayer {
 public:
  TripletLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : LossLayer(parameter, options,
                  {.arity = {3, 3, 1, 1}, .backward_reads_outputs = false, .meets = Meets::forward}),
        margin_(parameter.triplet_loss_param().margin()) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &a = inputs[0]->shape, &p = inputs[1]->shape, &n = inputs[2]->shape;
    if (a.axes() < 1 || !(a == p) || !(a == n))
      refuse("anchors, positives and negatives must have one shape; found ", a.to_string(), ", ",
             p.to_string(), " and ", n.to_string());
    set_output(*outputs[0], Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const std::int64_t samples = inputs[0]->shape[0];
    for (Tensor* tensor : {&near_, &far_, &factors_}) ensure(context, *tensor, Shape{samples}, DType::f64);
    ensure(context, partial_, Shape{2}, DType::f64);
    ops::squared_distances(context, inputs[0]->data, inputs[1]->data, near_);
    ops::squared_distances(context, inputs[0]->data, inputs[2]->data, far_);
    ops::triplet_loss(context, near_, far_, margin_, factors_, partial_);
    find_divisor(pass, Normalization::batch_size, samples, samples);
    write_loss(pass, *outputs[0]);
  }

  /// Half the gradient of |a - p|^2 - |a - n|^2: n - p for a, p - a for p, a - n for n.
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    constexpr std::size_t kTerms[3][2] = {{2, 1}, {1, 0}, {0, 2}};
    for (std::size_t i = 0; i < 3; ++i)
      if (propagate[i])
        ops::pair_backward(*pass.context, inputs[kTerms[i][0]]->data, inputs[kTerms[i][1]]->data, factors_,
                           outputs[0]->grad, divisor_, inputs[i]->grad);
  }

 private:
  double margin_;
  Tensor near_, far_, factors_;
};

const RegisterLayer<TripletLossLayer> registered_triplet_loss(
    "TripletLoss", {.about = "pulls anchors to positives and away from negatives",
                    .message = "triplet_loss_param",
                    .inputs = {{4}, {4}, {4}}});

}  // namespace
}  // namespace banyan
