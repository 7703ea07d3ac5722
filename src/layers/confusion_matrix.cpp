// ConfusionMatrix (two branches of Caffe): how often samples of each class (row) are taken for each class
// (column), that with the highest score, of equal ones the first. Inputs: scores, one label per position.
// Positions with ignore_label do not count.
//
// With one output, K x K, each row is divided by its positions; a class that has none is 0. With two, the
// first holds the numbers, and the second, 1 x positions x 2 x 2, of each position that is taken for a wrong
// class label and its score, predicted class and its score; of others -1.
//
// In training on several devices the matrix is the device's share: its own positions, divided by those of all
// devices.
#include "banyan/layers/loss.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/label_maps.hpp"
#include "softmax_axes.hpp"

namespace banyan {
namespace {

class ConfusionMatrixLayer : public Layer {
 public:
  ConfusionMatrixLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 2, without_outputs(parameter) ? 0 : 1, 2},
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .repeatable = false,
               .differentiable_inputs = 0,
               .label_input = 1,
               .shares = options.net_phase == Phase::train && options.devices > 1 ? 1 : 0}) {
    if (options.net_phase == Phase::train && parameter.top_size() == 1) traits_.meets = Meets::forward;
  }

  void read_settings() override {
    if (without_outputs(parameter_))
      refuse(
          "it has no output; give it one, for the shares of each class, or two, for numbers and the wrong "
          "samples (the branch whose layer has none prints its matrix at the end of a test)");
    if (settings().has_ignore_label()) ignored_ = {1, {static_cast<double>(settings().ignore_label())}};
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    over_ = channels_along(inputs[0]->shape, settings().axis());
    const std::int64_t positions = over_.outer * over_.inner;
    if (inputs[1]->shape.count() != positions)
      refuse("expected one label for each of ", over_.outer, " x ", over_.inner, " positions of the scores ",
             inputs[0]->shape.to_string(), "; ", quoted(inputs[1]->name), " is ",
             inputs[1]->shape.to_string());
    set_output(*outputs[0], Shape{over_.channels, over_.channels});
    if (outputs.size() > 1) set_output(*outputs[1], Shape{1, positions, 2, 2});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Tensor &scores = inputs[0]->data, &labels = inputs[1]->data;
    ensure(context, predicted_, Shape{over_.outer, over_.inner}, scores.dtype());
    ensure(context, counts_, outputs[0]->shape, DType::f64);
    ensure(context, totals_, Shape{over_.channels}, DType::f64);
    ops::predicted_classes(context, scores, over_, predicted_);
    ops::confusion_counts(context, predicted_, labels, over_, ignored_, counts_, totals_, note_.on(context));
    if (outputs.size() > 1) {
      ops::copy(context, counts_, outputs[0]->data);
      ops::wrong_positions(context, scores, predicted_, labels, over_, ignored_, outputs[1]->data);
      return;
    }
    sum_over_devices(pass, totals_, {name().c_str(), "samples"});
    ops::row_shares(context, counts_, totals_, outputs[0]->data);
  }

  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

  void check_results(Context& context) override {
    note_.check(context, name(), over_, "confusion_matrix_param");
  }

 private:
  const caffe::ConfusionMatrixParameter& settings() const { return parameter_.confusion_matrix_param(); }
  /// In a net: what is asked without inputs is how many there may be.
  static bool without_outputs(const caffe::LayerParameter& parameter) {
    return parameter.bottom_size() > 0 && parameter.top_size() == 0;
  }

  ops::LabelList ignored_;
  ops::Channels over_{};
  Tensor predicted_, counts_, totals_;
  LabelNote note_;
};

const RegisterLayer<ConfusionMatrixLayer> registered_confusion_matrix(
    "ConfusionMatrix", {.about = "which classes are taken for which (branches)",
                        .message = "confusion_matrix_param",
                        .examples = {"", "ignore_label: 1"}});

}  // namespace
}  // namespace banyan
