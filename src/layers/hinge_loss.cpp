// HingeLoss: the sum over all classes of max(0, 1 - t x), or with norm L2 of its square, where t is 1 for the
// label's class and -1 for the others; divided by the number of samples.
#include "class_loss_layer.hpp"

namespace banyan {
namespace {

class HingeLossLayer : public ClassLossLayer {
 public:
  HingeLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : ClassLossLayer(parameter, options),
        squared_(parameter.hinge_loss_param().norm() == caffe::HingeLossParameter::L2) {}

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::hinge_loss_backward(*pass.context, inputs[0]->data, inputs[1]->data, over_, squared_,
                               outputs[0]->grad, divisor_, inputs[0]->grad);
  }

 protected:
  void add_up(Context& context, const Tensor& scores, const Tensor& labels) override {
    ops::hinge_loss_forward(context, scores, labels, over_, squared_, partial_, note_.on(context));
  }

 private:
  bool squared_;
};

const RegisterLayer<HingeLossLayer> registered_hinge_loss(
    "HingeLoss", {"hinge loss of one against all classes", "hinge_loss_param", {"", "norm: L2"}});

}  // namespace
}  // namespace banyan
