// TripletLoss (Schroff, Kalenichenko, Philbin 2015; as in happynear/caffe-windows): max(0, margin + |a - p|^2
// - |a - n|^2) summed over the samples and divided by 2 N, N being their number over all devices. Inputs:
// anchors a, positives p (of the anchor's class), negatives n (of another); all get gradients.
//
// losstype (a branch for descriptors of objects and their poses, Wohlhart and Lepetit 2015): 1 is max(0, 1 -
// |a - n|^2 / (|a - p|^2 + margin)), 2 the same of e to the power of both distances.
//
// With two inputs (that branch, later) the first holds sets of samples one after the other: an anchor, a
// positive and num_triplets negatives. The losses of a set's triplets and |a - p|^2 are summed over the sets
// and divided by twice their number; with num_negatives, an earlier name, |a - p|^2 is added only with
// use_pair: 1. The values of the second input are not read. Every device compares the
// whole batch, because a set's samples are dealt to several.
#include <utility>

#include "banyan/layers/loss.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/distance_loss.hpp"
#include "whole_batch_loss.hpp"

namespace banyan {
namespace {

class TripletLossLayer : public WholeBatchLossLayer {
 public:
  TripletLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : WholeBatchLossLayer(parameter, options, {.arity = {2, 3, 1, 1}, .backward_reads_outputs = false}),
        margin_{static_cast<ops::TripletMargin::Kind>(settings().losstype()), settings().margin()} {}

  void read_settings() override {
    if (settings().losstype() > 2) refuse("losstype must be 0, 1 or 2; found ", settings().losstype());
    check_margin(static_cast<int>(settings().losstype()));
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    of_sets_ = inputs.size() == 2;
    if (!of_sets_) {
      for (const auto& [field, set] : {std::pair{"num_triplets", settings().has_num_triplets()},
                                       {"num_negatives", settings().has_num_negatives()},
                                       {"use_pair", settings().has_use_pair()}})
        if (set) refuse(field, " is for two bottoms, sets of samples; found ", inputs.size());
      return;
    }
    if (settings().has_num_triplets() && (early() || settings().has_use_pair()))
      refuse("num_triplets does not go with num_negatives and use_pair, of an earlier version of the branch");
    constexpr std::uint32_t kMost = 1 << 20;
    if (negatives() < 1 || negatives() > kMost)
      refuse(negatives_field(), ", the negatives of each set, must be 1 to ", kMost, "; found ", negatives());
    if (settings().use_pair() > 1) refuse("use_pair must be 0 or 1; found ", settings().use_pair());
    if (settings().losstype() > 1)
      refuse("with two bottoms losstype must be 0 or 1; found ", settings().losstype());
    if (!settings().has_losstype()) margin_.kind = ops::TripletMargin::Kind::ratio;
    check_margin(static_cast<int>(margin_.kind));
    sets_ = {2 + std::int64_t{negatives()}, margin_, !early() || settings().use_pair() == 1};
    traits_.differentiable_inputs = 1;
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& a = inputs[0]->shape;
    if (of_sets_) {
      const Shape& unread = inputs[1]->shape;
      if (a.axes() < 1 || unread.axes() < 1 || a[0] != unread[0])
        refuse("the inputs must have the same batch; ", quoted(inputs[0]->name), " is ", a.to_string(), ", ",
               quoted(inputs[1]->name), " is ", unread.to_string());
      if (unread.count(1) != 1)
        refuse("with two bottoms the second has one number for each sample, and samples are in sets; ",
               quoted(inputs[1]->name), " is ", unread.to_string(),
               "; anchors, positives and negatives are three bottoms");
      if (options().devices == 1) check_sets(a[0]);
    } else if (a.axes() < 1 || !(a == inputs[1]->shape) || !(a == inputs[2]->shape)) {
      refuse("anchors, positives and negatives must have one shape; found ", a.to_string(), ", ",
             inputs[1]->shape.to_string(), " and ", inputs[2]->shape.to_string());
    }
    set_output(*outputs[0], Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    ensure(context, partial_, Shape{2}, DType::f64);
    if (of_sets_) {
      gather(pass, inputs, 1);
      check_sets(samples(0));
      ensure(context, factors_, Shape{samples(0)}, DType::f64);
      ensure(context, count_, Shape{1}, DType::f64);
      ops::triplet_sets_loss(context, whole(0), sets_, factors_, partial_);
      ops::fill(context, count_, static_cast<double>(samples(0) / sets_.size));
      return write_share(pass, *outputs[0], count_);
    }
    const std::int64_t triplets = inputs[0]->shape[0];
    for (Tensor* tensor : {&near_, &far_, &to_near_, &to_far_})
      ensure(context, *tensor, Shape{triplets}, DType::f64);
    ops::squared_distances(context, inputs[0]->data, inputs[1]->data, near_);
    ops::squared_distances(context, inputs[0]->data, inputs[2]->data, far_);
    ops::triplet_loss(context, near_, far_, margin_, to_near_, to_far_, partial_);
    find_divisor(pass, Normalization::batch_size, triplets, triplets);
    write_loss(pass, *outputs[0]);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    const Tensor& dy = outputs[0]->grad;
    if (of_sets_) {
      if (propagate[0])
        write_gradient(pass, 0, *inputs[0], [&](Tensor& dx) {
          ops::triplet_sets_backward(context, whole(0), sets_, factors_, dy, count_, dx);
        });
      return;
    }
    const Tensor &a = inputs[0]->data, &p = inputs[1]->data, &n = inputs[2]->data;
    if (propagate[0])
      ops::triplet_backward(context, a, p, n, to_near_, to_far_, dy, divisor_, inputs[0]->grad);
    if (propagate[1]) ops::pair_backward(context, p, a, to_near_, dy, divisor_, inputs[1]->grad);
    if (propagate[2]) ops::pair_backward(context, a, n, to_far_, dy, divisor_, inputs[2]->grad);
  }

 private:
  const caffe::TripletLossParameter& settings() const { return parameter_.triplet_loss_param(); }
  bool early() const { return settings().has_num_negatives() || settings().has_use_pair(); }
  const char* negatives_field() const { return early() ? "num_negatives" : "num_triplets"; }
  std::uint32_t negatives() const { return early() ? settings().num_negatives() : settings().num_triplets(); }
  void check_margin(int losstype) const {
    if (losstype > 0 && !(settings().margin() > 0))
      refuse("losstype: ", losstype, " divides by what margin is a part of, which must be positive; found ",
             settings().margin());
  }
  void check_sets(std::int64_t total) const {
    if (total % sets_.size != 0)
      refuse("with ", negatives_field(), ": ", negatives(), " a set has ", sets_.size,
             " samples, an anchor, a positive and negatives; the whole batch has ", total,
             ", which is no multiple");
  }

  ops::TripletMargin margin_;
  ops::TripletSets sets_;
  bool of_sets_ = false;
  Tensor near_, far_, to_near_, to_far_;
  Tensor factors_, count_;  ///< of sets: of each sample; their number, over all devices
};

const RegisterLayer<TripletLossLayer> registered_triplet_loss(
    "TripletLoss", {.about = "pulls anchors to positives and away from negatives",
                    .message = "triplet_loss_param",
                    .inputs = {{4}, {4}, {4}}});

}  // namespace
}  // namespace banyan
