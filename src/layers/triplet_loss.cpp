// TripletLoss (Schroff, Kalenichenko, Philbin 2015; as in happynear/caffe-windows): max(0, margin + |a - p|^2
// - |a - n|^2) summed over the samples and divided by 2 N, N being their number over all devices. Inputs:
// anchors a, positives p (of the anchor's class), negatives n (of another); all get gradients.
//
// losstype (a branch for descriptors of objects and their poses, Wohlhart and Lepetit 2015): 1 is max(0, 1 -
// |a - n|^2 / (|a - p|^2 + margin)), 2 the same of e to the power of both distances.
#include "banyan/layers/loss.hpp"
#include "banyan/ops/distance_loss.hpp"

namespace banyan {
namespace {

class TripletLossLayer : public LossLayer {
 public:
  TripletLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : LossLayer(parameter, options,
                  {.arity = {3, 3, 1, 1}, .backward_reads_outputs = false, .meets = Meets::forward}),
        margin_{static_cast<ops::TripletMargin::Kind>(parameter.triplet_loss_param().losstype()),
                parameter.triplet_loss_param().margin()} {}

  void check_settings() const override {
    const auto& s = parameter_.triplet_loss_param();
    if (s.losstype() > 2) refuse("losstype must be 0, 1 or 2; found ", s.losstype());
    if (s.losstype() > 0 && !(s.margin() > 0))
      refuse("losstype: ", s.losstype(),
             " divides by what margin is a part of, which must be positive; found ", s.margin());
  }
  void setup(const Blobs&, const Blobs&) override { check_settings(); }

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
    for (Tensor* tensor : {&near_, &far_, &to_near_, &to_far_})
      ensure(context, *tensor, Shape{samples}, DType::f64);
    ensure(context, partial_, Shape{2}, DType::f64);
    ops::squared_distances(context, inputs[0]->data, inputs[1]->data, near_);
    ops::squared_distances(context, inputs[0]->data, inputs[2]->data, far_);
    ops::triplet_loss(context, near_, far_, margin_, to_near_, to_far_, partial_);
    find_divisor(pass, Normalization::batch_size, samples, samples);
    write_loss(pass, *outputs[0]);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    const Tensor &a = inputs[0]->data, &p = inputs[1]->data, &n = inputs[2]->data, &dy = outputs[0]->grad;
    if (propagate[0])
      ops::triplet_backward(context, a, p, n, to_near_, to_far_, dy, divisor_, inputs[0]->grad);
    if (propagate[1]) ops::pair_backward(context, p, a, to_near_, dy, divisor_, inputs[1]->grad);
    if (propagate[2]) ops::pair_backward(context, a, n, to_far_, dy, divisor_, inputs[2]->grad);
  }

 private:
  ops::TripletMargin margin_;
  Tensor near_, far_, to_near_, to_far_;
};

const RegisterLayer<TripletLossLayer> registered_triplet_loss(
    "TripletLoss", {.about = "pulls anchors to positives and away from negatives",
                    .message = "triplet_loss_param",
                    .inputs = {{4}, {4}, {4}}});

}  // namespace
}  // namespace banyan
