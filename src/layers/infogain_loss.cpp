// InfogainLoss: -sum over classes c of H[label, c] log(max(p[c], 1e-20)), p being the softmax of the scores
// along `axis`; inputs, divisor and second output: softmaxed_loss_layer.hpp. The third input is the matrix H,
// unless `source` names a file with it (a BlobProto). Branches older than `axis` took probabilities as the
// first input: there, drop the Softmax layer before it.
#include "banyan/io/binary_proto.hpp"
#include "banyan/ops/class_loss.hpp"
#include "softmaxed_loss_layer.hpp"

namespace banyan {
namespace {

class InfogainLossLayer : public SoftmaxedLossLayer {
 public:
  InfogainLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : SoftmaxedLossLayer(parameter, options, 3) {}

  void read_settings() override {
    if (parameter_.loss_param().has_normalize()) refuse("takes normalization, not the old normalize");
    SoftmaxedLossLayer::read_settings();
    refuse_label_smoothing();
    refuse_thresh_ratio();
    if (parameter_.bottom_size() < 3 && parameter_.infogain_loss_param().source().empty())
      refuse("give the matrix as a third input or as source, a file");
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    if (inputs.size() > 2) return;
    const std::string& source = parameter_.infogain_loss_param().source();
    file_ = io::decode_blob(io::read_binary_proto<caffe::BlobProto>(source), source);
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    SoftmaxedLossLayer::reshape(inputs, outputs);
    const std::int64_t found =
        inputs.size() > 2 ? inputs[2]->shape.count() : static_cast<std::int64_t>(file_.count());
    if (found != over_.channels * over_.channels)
      refuse("the matrix must have ", over_.channels, " x ", over_.channels, " values; found ", found);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::infogain_loss_backward(*pass.context, probabilities_of(outputs), inputs[1]->data,
                                  gains(*pass.context, inputs), over_, ignore_, outputs[0]->grad, divisor_,
                                  inputs[0]->grad);
  }

 private:
  int axis() const override { return parameter_.infogain_loss_param().axis(); }

  void add_up(Context& context, const Tensor& probabilities, const Blobs& inputs) override {
    ops::infogain_loss_forward(context, probabilities, inputs[1]->data, gains(context, inputs), over_,
                               ignore_, partial_, note_.on(context));
  }

  const Tensor& gains(Context& context, const Blobs& inputs) {
    if (inputs.size() > 2) return inputs[2]->data;
    if (!gains_.defined()) {
      gains_ = Tensor(context.device(), Shape{over_.channels, over_.channels}, dtype());
      dispatch_float(dtype(), "infogain matrix", [&]<class T>() {
        std::vector<T> values(file_.count());
        file_.copy_to(values.data());
        copy_from_host(context, values.data(), gains_);
      });
    }
    return gains_;
  }

  io::BlobData file_;
  Tensor gains_;
};

const RegisterLayer<InfogainLossLayer> registered_infogain_loss(
    "InfogainLoss", {.about = "softmax loss with a gain for each pair of classes",
                     .message = "infogain_loss_param",
                     .examples = {}});

}  // namespace
}  // namespace banyan
