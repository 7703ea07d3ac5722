// SegAccuracy (DeepLab, PSPNet): of the classes with the highest score at each pixel (of equal ones the
// last), the share that is right, the mean recall of the classes that occur, and the mean intersection over
// union, 1 for a class that neither occurs nor is predicted. Inputs: scores (N, C, ...), one label per pixel.
// Output: (1, 1, 1, 3). Pixels with an ignore_label do not count. All three are those of the whole batch on
// any number of devices.
//
// With reset: false the counts of all batches so far are added up: of the run, or of a test, which starts
// from zero.
#include "banyan/base/log.hpp"
#include "banyan/layers/loss.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/selection.hpp"
#include "label_list.hpp"

namespace banyan {
namespace {

class SegAccuracyLayer : public Layer {
 public:
  SegAccuracyLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 2, 1, 1},
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .repeatable = false,
               .differentiable_inputs = 0,
               .label_input = 1,
               .meets = options.net_phase == Phase::train ? Meets::forward : Meets::never}) {}

  void read_settings() override {
    if (!settings().reset() && options().net_phase == Phase::test && options().devices > 1)
      refuse("reset: false adds up the batches of a test, but ", options().devices,
             " devices take turns with them; test on one device, or without reset: false");
    ignored_ = label_list(settings().ignore_label(), name(), "ignore_label");
    if (settings().has_metric() && options().rank == 0)
      log_warning(cat("layer ", quoted(name()), " (", type(),
                      "): metric has no effect: the output holds all three values"));
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &scores = inputs[0]->shape, &labels = inputs[1]->shape;
    if (scores.axes() < 2 || scores[1] < 1 || labels.count() != scores[0] * scores.count(2))
      refuse("expected one label for each pixel of the scores ", scores.to_string(), "; ",
             quoted(inputs[1]->name), " is ", labels.to_string());
    over_ = {scores[0], scores[1], scores.count(2)};
    set_output(*outputs[0], Shape{1, 1, 1, 3});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Tensor& labels = inputs[1]->data;
    ensure(context, predicted_, Shape{over_.outer, over_.inner}, labels.dtype());
    ensure(context, counts_, Shape{3 * over_.channels}, DType::f64);
    Tensor none;
    ops::largest(context, inputs[0]->data, over_, 1, over_.inner, predicted_, none);
    ops::count_agreement(context, predicted_, labels, over_, ignored_, counts_, note_.on(context));
    if (!settings().reset())
      add_earlier(context, pass.update_statistics || options().net_phase == Phase::test);
    sum_over_devices(pass, counts_, {name().c_str(), "forward"});
    ops::agreement(context, counts_, outputs[0]->data);
  }

  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

  void check_results(Context& context) override { note_.check(context, name(), over_); }

  std::vector<Tensor*> carried() override {
    return settings().reset() ? std::vector<Tensor*>() : std::vector<Tensor*>{&earlier_};
  }

 private:
  const caffe::SegAccuracyParameter& settings() const { return parameter_.seg_accuracy_param(); }

  /// This device's own; more than one row if more devices saved theirs.
  void add_earlier(Context& context, bool keeps) {
    const std::int64_t width = 2 * counts_.count();
    if (!earlier_.defined() || earlier_.shape()[0] == 0) {
      earlier_ = Tensor(context.device(), Shape{1, width}, dtype());
      ops::fill(context, earlier_, 0);
    }
    if (earlier_.shape()[1] != width)
      refuse("the counts that were restored are those of ", earlier_.shape()[1] / 6, " classes, not ",
             width / 6);
    ops::add_earlier_counts(context, counts_, keeps, earlier_);
  }

  ops::LabelList ignored_;
  ops::Channels over_{};
  Tensor predicted_, counts_;
  Tensor earlier_;  ///< rows x 6 classes (ops::add_earlier_counts)
  LabelNote note_;
};

const RegisterLayer<SegAccuracyLayer> registered_seg_accuracy(
    "SegAccuracy", {"pixel accuracy, mean recall and mean intersection over union (DeepLab, PSPNet)",
                    "seg_accuracy_param",
                    {"", "ignore_label: 1 ignore_label: 255", "reset: false"}});

}  // namespace
}  // namespace banyan
