// MultiBoxLoss (SSD): the loss of boxes that a net predicts relative to prior boxes.
//
// Inputs: locations N x (P L 4), confidences N x (P C), priors 1 x 2 x 4P, ground truth ... x 8 with rows
// (item, label, instance, xmin, ymin, xmax, ymax, difficult). L is 1 with share_location, else the number of
// classes C. RefineDet's second step has two more inputs, of what its first one predicts: confidences N x 2P
// (no object, an object), below objectness_score of which a prior is not mined, and locations N x 4P, which
// move each image's priors before all else. Neither gets a gradient. The item is the image's place in the
// device's own part of the batch; rows of item -1 are empty.
//
// Priors are matched with ground truth. Matched ones add the loss of their locations against the code of
// their ground truth, times loc_weight; these and the negatives that mining chose (without mining all) add
// the loss of their confidences. The sum is divided as loss_param says, VALID being the matches of all
// devices.
//
// Matching and mining are decided on the host, which waits for the device: such a pass cannot be captured
// into a graph. Losses and gradients are computed on the device.
#include <cmath>
#include <utility>

#include "banyan/base/log.hpp"
#include "banyan/layers/loss.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/class_loss.hpp"
#include "banyan/ops/rows.hpp"
#include "banyan/ops/target_loss.hpp"
#include "banyan/tensor/values.hpp"
#include "layers/multibox_targets.hpp"

namespace banyan {
namespace {

using Settings = caffe::MultiBoxLossParameter;
using Kind = ops::TargetLoss::Kind;

class MultiBoxLossLayer : public LossLayer {
 public:
  MultiBoxLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : LossLayer(parameter, options,
                  {.arity = {4, 6, 1, 1}, .backward_reads_outputs = false, .differentiable_inputs = 2}),
        settings_(parameter_.multibox_loss_param()) {}

  void read_settings() override {
    decisions_.emplace(settings_, start_of_messages(*this));
    location_loss_ = {settings_.loc_loss_type() == Settings::L2 ? Kind::squared : Kind::smooth_absolute,
                      1,
                      {true, MultiBoxTargets::kNoTarget}};
    if (const auto& loss = parameter_.loss_param(); loss.has_ignore_label() || loss.label_smoothing() != 0)
      refuse(
          "has neither ignore_label nor label_smoothing: background_label_id says which label is no object");
    normalization_ = read_normalization(Normalization::valid);
    traits_.meets = meets_for(normalization_);
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override;
  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override;
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override;

 private:
  bool softmax() const { return settings_.conf_loss_type() == Settings::SOFTMAX; }
  std::int64_t classes() const { return settings_.num_classes(); }
  void write(Context& context, const std::vector<double>& values, Tensor& to) const {
    ensure(context, to, Shape{static_cast<std::int64_t>(values.size())}, dtype());
    set_values(context, values, to);
  }
  static bool has_rows(const Shape& truth) { return truth.axes() > 0 && truth[-1] == 8; }
  void check_truth(const Blob& truth);
  std::vector<double> first_rows(std::vector<double> numbers) const;
  void match(Context& context, const Blobs& inputs);
  void find_labels(Context& context, const Tensor& confidences);
  void write_one_hot(Context& context);
  ops::Targets locations(const Blobs& inputs) const {
    return {inputs[0]->data, location_targets_, location_weights_, {}};
  }
  ops::Targets confidences(const Blobs& inputs) const { return {inputs[1]->data, one_hot_, {}, {}}; }
  ops::IgnoreLabel unused() const { return {true, static_cast<int>(decisions_->unused())}; }

  static constexpr ops::TargetLoss kLogistic{Kind::sigmoid_cross_entropy, 1, {true, -1}};

  const Settings& settings_;
  std::optional<MultiBoxTargets> decisions_;
  Normalization normalization_ = Normalization::valid;
  ops::TargetLoss location_loss_;
  std::int64_t items_ = 0;
  std::int64_t rows_ = 0;  ///< taken from other ground truth
  ops::Channels over_{};   ///< positions x classes
  Tensor labels_, probabilities_, losses_;
  Tensor table_, one_hot_;  ///< LOGISTIC: targets of each class, of none, of unused() (-1); of the positions
  Tensor location_targets_, location_weights_, location_partial_;
  LabelNote note_;
};

void MultiBoxLossLayer::reshape(const Blobs& inputs, const Blobs& outputs) {
  const std::int64_t boxes = settings_.share_location() ? 1 : classes();
  const auto [items, priors] = check_predictions(inputs, boxes, classes(), start_of_messages(*this));
  check_truth(*inputs[3]);
  check_first_step(inputs, 4, {items, priors}, start_of_messages(*this));
  items_ = items;
  over_ = {items * priors, classes(), 1};
  set_output(*outputs[0], Shape{});
}

/// SSD's branch takes as many rows as the third of four axes is long, whatever the others are, and whole
/// numbers of their fractions: benchmarks of Intel's Caffe give it random images.
void MultiBoxLossLayer::check_truth(const Blob& truth) {
  const Shape& shape = truth.shape;
  if (has_rows(shape)) return;
  if (shape.axes() != 4 || shape[1] * shape[2] * shape[3] < 8 * shape[2])
    refuse("expected ground truth in rows of 8 (item, label, instance, xmin, ymin, xmax, ymax, difficult); ",
           quoted(truth.name), " is ", shape.to_string());
  if (std::exchange(rows_, shape[2]) != shape[2] && options().rank == 0)
    log_warning(cat(start_of_messages(*this), quoted(truth.name), " is ", shape.to_string(),
                    ", no ground truth in rows of 8; as in SSD's branch its first ", 8 * rows_,
                    " numbers are taken for ", rows_, " rows"));
}

std::vector<double> MultiBoxLossLayer::first_rows(std::vector<double> numbers) const {
  numbers.resize(static_cast<std::size_t>(8 * rows_));
  for (auto row = numbers.begin(); row != numbers.end(); row += 8) {
    row[0] = std::trunc(row[0]) + 0.0;  // no -0
    row[1] = std::trunc(row[1]) + 0.0;
    if (row[0] >= static_cast<double>(items_)) row[0] = -1;
  }
  return numbers;
}

void MultiBoxLossLayer::match(Context& context, const Blobs& inputs) {
  const auto values = [&](int i) { return values_of(context, inputs[i]->data).values; };
  decisions_->match(items_, values(2), has_rows(inputs[3]->shape) ? values(3) : first_rows(values(3)),
                    decisions_->reads_locations() ? values(0) : std::vector<double>(),
                    FirstStep::read(context, inputs, 4));
}

/// labels_, after mining.
void MultiBoxLossLayer::find_labels(Context& context, const Tensor& confidences) {
  write(context, decisions_->labels(), labels_);
  if (!decisions_->mines()) return;
  ensure(context, losses_, labels_.shape(), dtype());
  ops::position_losses(context, softmax() ? probabilities_ : confidences, labels_, over_, {}, !softmax(),
                       losses_);
  write(context, decisions_->mined_labels(values_of(context, losses_).values), labels_);
}

void MultiBoxLossLayer::write_one_hot(Context& context) {
  const std::int64_t n = classes();
  if (!table_.defined()) {
    std::vector<double> rows(static_cast<std::size_t>(n * (n + 2)), 0);
    for (std::int64_t c = 0; c < n; ++c) rows[c * n + c] = 1;
    std::fill(rows.end() - n, rows.end(), kLogistic.ignore.label);
    write(context, rows, table_);
  }
  ensure(context, one_hot_, Shape{over_.outer, n}, dtype());
  ops::gather_rows(context, table_, n + 2, labels_, one_hot_);
}

void MultiBoxLossLayer::forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) {
  Context& context = *pass.context;
  const Tensor& scores = inputs[1]->data;
  match(context, inputs);
  ensure(context, partial_, Shape{2}, DType::f64);
  ensure(context, location_partial_, Shape{2}, DType::f64);
  if (softmax()) {
    ensure(context, probabilities_, scores.shape(), dtype());
    ops::softmax_forward(context, scores, over_, probabilities_);
  }
  find_labels(context, scores);
  if (softmax()) {
    ops::softmax_loss_forward(context, probabilities_, labels_, over_, unused(), partial_, note_.on(context));
  } else {
    write_one_hot(context);
    ops::target_loss_forward(context, confidences(inputs), kLogistic, partial_);
  }

  write(context, decisions_->location_targets(), location_targets_);
  if (settings_.encode_variance_in_target())
    write(context, decisions_->location_weights(), location_weights_);
  ops::target_loss_forward(context, locations(inputs), location_loss_, location_partial_);
  Tensor sum = partial_.slice(0, Shape{1}), count = partial_.slice(1, Shape{1});
  ops::axpby(context, settings_.loc_weight(), location_partial_.slice(0, Shape{1}), 1, sum);
  ops::fill(context, count, static_cast<double>(decisions_->matches()));
  find_divisor(pass, normalization_, over_.outer, items_);
  write_loss(pass, *outputs[0]);
}

void MultiBoxLossLayer::backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                                 const Blobs& inputs) {
  Context& context = *pass.context;
  const Tensor& grad_loss = outputs[0]->grad;
  if (propagate[0])
    ops::target_loss_backward(context, locations(inputs), location_loss_, settings_.loc_weight(), grad_loss,
                              divisor_, inputs[0]->grad);
  if (!propagate[1]) return;
  if (softmax())
    ops::softmax_loss_backward(context, probabilities_, labels_, over_, unused(), grad_loss, divisor_,
                               inputs[1]->grad);
  else
    ops::target_loss_backward(context, confidences(inputs), kLogistic, 1, grad_loss, divisor_,
                              inputs[1]->grad);
}

// No examples: boxes of ground truth belong to one image each (tests/layers/multibox_loss_test.cpp).
const RegisterLayer<MultiBoxLossLayer> registered_multibox_loss(
    "MultiBoxLoss", {.about = "loss of boxes and their classes relative to prior boxes (SSD)",
                     .message = "multibox_loss_param",
                     .examples = {}});

}  // namespace
}  // namespace banyan
