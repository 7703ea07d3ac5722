// InfogainLoss: -sum over classes c of H[label, c] log(max(p[c], 1e-20)), p being the softmax of the scores
// along `axis`; summed over the positions whose label is not ignore_label, divided as loss_param says (VALID
// unless given). Inputs: scores, labels, and the matrix H, unless `source` names a file with it (a
// BlobProto). A second output holds the probabilities. Branches older than `axis` took probabilities as the
// first input: there, drop the Softmax layer before it.
#include "banyan/io/binary_proto.hpp"
#include "banyan/layers/loss.hpp"
#include "banyan/ops/class_loss.hpp"
#include "softmax_axes.hpp"

namespace banyan {
namespace {

class InfogainLossLayer : public LossLayer {
 public:
  InfogainLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : LossLayer(parameter, options, {.arity = {2, 3, 1, 2}, .differentiable_inputs = 1}) {}

  void setup(const Blobs& inputs, const Blobs&) override {
    const auto& loss = parameter_.loss_param();
    if (loss.has_normalize()) refuse("takes normalization, not the old normalize");
    normalization_ = read_normalization(Normalization::valid);
    traits_.meets = meets_for(normalization_);
    ignore_ = {loss.has_ignore_label(), loss.ignore_label()};
    if (inputs.size() > 2) return;
    const std::string& source = parameter_.infogain_loss_param().source();
    if (source.empty()) refuse("give the matrix as a third input or as source, a file");
    file_ = io::decode_blob(io::read_binary_proto<caffe::BlobProto>(source), source);
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    over_ = channels_along(inputs[0]->shape, parameter_.infogain_loss_param().axis());
    if (inputs[1]->shape.count() != over_.outer * over_.inner)
      refuse("expected one label for each of ", over_.outer, " x ", over_.inner, " positions of the scores ",
             inputs[0]->shape.to_string(), "; ", quoted(inputs[1]->name), " is ",
             inputs[1]->shape.to_string());
    const std::int64_t found =
        inputs.size() > 2 ? inputs[2]->shape.count() : static_cast<std::int64_t>(file_.count());
    if (found != over_.channels * over_.channels)
      refuse("the matrix must have ", over_.channels, " x ", over_.channels, " values; found ", found);
    set_output(*outputs[0], Shape{});
    if (outputs.size() > 1) set_output(*outputs[1], inputs[0]->shape);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    if (outputs.size() < 2) ensure(context, probabilities_, inputs[0]->shape, dtype());
    Tensor& probabilities = probabilities_of(outputs);
    ensure(context, partial_, Shape{2}, DType::f64);
    ops::softmax_forward(context, inputs[0]->data, over_, probabilities);
    ops::infogain_loss_forward(context, probabilities, inputs[1]->data, gains(context, inputs), over_,
                               ignore_, partial_, note_.on(context));
    find_divisor(pass, normalization_, over_.outer * over_.inner, over_.outer);
    write_loss(pass, *outputs[0]);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::infogain_loss_backward(*pass.context, probabilities_of(outputs), inputs[1]->data,
                                  gains(*pass.context, inputs), over_, ignore_, outputs[0]->grad, divisor_,
                                  inputs[0]->grad);
  }

  void check_results(Context& context) override { note_.check(context, name(), over_); }

 private:
  Tensor& probabilities_of(const Blobs& outputs) {
    return outputs.size() > 1 ? outputs[1]->data : probabilities_;
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

  Normalization normalization_ = Normalization::valid;
  ops::IgnoreLabel ignore_;
  ops::Channels over_{};
  io::BlobData file_;
  Tensor probabilities_, gains_;
  LabelNote note_;
};

const RegisterLayer<InfogainLossLayer> registered(
    "InfogainLoss", {.about = "softmax loss with a gain for each pair of classes",
                     .message = "infogain_loss_param",
                     .examples = {}});

}  // namespace
}  // namespace banyan
