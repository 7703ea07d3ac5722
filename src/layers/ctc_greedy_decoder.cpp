// The labels of the best path (ops/ctc.hpp): of the class with the largest score in each time step, without
// repetitions and blanks. Scores are T x N x C.
//
// CTCGreedyDecoder (ChWick: BVLC/caffe pull request 4681; TextBoxes++). Inputs: scores, marks (T x N: a
// sequence ends before the first 0 after time step 0), perhaps labels (T x N, ended by a negative number).
// Outputs: the labels found (N x T x 1 x 1, filled up with -1), perhaps minus the sum of each path's scores
// (N x 1 x 1 x 1), and with three inputs, as the last of at least two, the accuracy (1 x 1 x 1 x 1): the mean
// of 1 - (edit distance) / (the number of labels of the longer one). Those of caffe_ocr, whose blank is 0
// unless written: scores alone give the labels found; scores and labels (N x L, blanks among them are left
// out) give (1 x 2 x 1 x 1) that accuracy and the share of sequences that are right (those without any labels
// are not).
//
// LabelsequenceAccuracy (warpctc-caffe). Inputs: scores (N x T x C), labels (N x L, blanks are left out).
// Output: the share of sequences that are right.
//
// On several devices accuracies are measured in tests only.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/loss.hpp"
#include "ctc_inputs.hpp"

namespace banyan {
namespace {

class CtcDecodingLayer : public Layer {
 public:
  CtcDecodingLayer(const caffe::LayerParameter& parameter, const LayerOptions& options, const Arity& arity)
      : Layer(parameter, options,
              {.arity = arity,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .differentiable_inputs = 0}) {}

  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 protected:
  void decode(Context& context, const Blob& scores, const Tensor& marks, Tensor& decoded, Tensor& penalties) {
    ops::ctc_best_paths(context, scores.data, of_, marks, rule_, decoded, penalties);
  }
  void measure(Context& context, const Tensor& decoded, const ops::CtcLabels& wanted, bool empty_are_equal) {
    ensure(context, scratch_, Shape{of_.sequences, 2 * wanted.most + 1}, DType::f64);
    ensure(context, sums_, Shape{3}, DType::f64);
    ops::ctc_distances(context, decoded, wanted, rule_.blank, empty_are_equal, scratch_, sums_);
  }
  /// sums_[which] / N.
  void write_mean(Context& context, std::int64_t which, Tensor& value) {
    ops::quotient(context, sums_, sums_, {which, 2, 0}, value);
  }
  void refuse_shares() const {
    if (options().net_phase == Phase::train && options().devices > 1)
      refuse(
          "on several devices accuracies of sequences are measured in tests only; add include { phase: TEST "
          "}");
  }
  void expect(bool fits, const Blob& input, const char* what) const {
    if (!fits)
      refuse("input ", quoted(input.name), " has the shape ", input.shape.to_string(), "; expected ", what,
             ", for ", of_.steps, " time steps of ", of_.sequences, " sequences");
  }

  ops::CtcScores of_{};
  ops::CtcRule rule_;
  Tensor none_;

 private:
  Tensor scratch_, sums_;
};

class CTCGreedyDecoderLayer : public CtcDecodingLayer {
 public:
  CTCGreedyDecoderLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : CtcDecodingLayer(parameter, options, {1, 3, 1, 3}) {}

  void setup(const Blobs& inputs, const Blobs& outputs) override {
    rule_.merge = parameter_.ctc_decoder_param().ctc_merge_repeated();
    if (outputs.size() > inputs.size())
      refuse("with ", inputs.size(), " inputs there are at most ", inputs.size(), " outputs; found ",
             outputs.size());
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const ops::CtcSizes sizes = ctc_sizes(*inputs[0], [&](const auto&... why) { refuse(why...); });
    const auto [steps, sequences, classes, labels] = sizes;
    of_ = {steps, sequences, classes, sequences * classes, classes};
    has_marks_ = inputs.size() > 2 || (inputs.size() == 2 && marks(*inputs[1], outputs.size()));
    const auto& s = parameter_.ctc_decoder_param();
    const std::int64_t absent = has_marks_ ? -1 : 0;
    rule_.blank = blank_class("blank_index", s.has_blank_index() ? s.blank_index() : absent, classes,
                              [&](const auto&... why) { refuse(why...); });
    if (inputs.size() > 2) {
      expect(is_table(*inputs[1], steps, sequences), *inputs[1], "marks, time steps x sequences");
      expect(is_table(*inputs[2], steps, sequences), *inputs[2], "labels, time steps x sequences");
    }
    measures_ = inputs.size() == 2 ? !has_marks_ : inputs.size() > 2 && outputs.size() > 1;
    if (measures_) refuse_shares();
    if (inputs.size() == 2 && measures_) return set_output(*outputs[0], Shape{1, 2, 1, 1});
    set_output(*outputs[0], Shape{sequences, steps, 1, 1});
    if (gives_penalties(outputs)) set_output(*outputs[1], Shape{sequences, 1, 1, 1});
    if (measures_) set_output(*outputs.back(), Shape{1, 1, 1, 1});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const bool alone = measures_ && !has_marks_;
    if (alone) ensure(context, decoded_, Shape{of_.sequences, of_.steps}, dtype());
    Tensor& decoded = alone ? decoded_ : outputs[0]->data;
    decode(context, *inputs[0], has_marks_ ? inputs[1]->data : none_, decoded,
           gives_penalties(outputs) ? outputs[1]->data : none_);
    if (!measures_) return;
    if (alone) {
      ops::CtcLabels wanted = labels_in_rows(*inputs[1]);
      wanted.ends_at_negative = true;
      measure(context, decoded, wanted, false);
    } else {
      measure(context, decoded, labels_in_columns(*inputs[2]), true);
    }
    Tensor first = outputs.back()->data.slice(0, Shape{1});
    write_mean(context, 0, first);
    if (!alone) return;
    Tensor second = outputs[0]->data.slice(1, Shape{1});
    write_mean(context, 1, second);
  }

 private:
  /// Whether the second of two inputs holds marks, not labels.
  bool marks(const Blob& second, std::size_t outputs) const {
    const bool as_marks = is_table(second, of_.steps, of_.sequences);
    const bool as_labels = second.shape.axes() >= 1 && second.shape[0] == of_.sequences;
    expect(as_marks || as_labels, second, "marks (time steps x sequences) or labels (sequences x labels)");
    if (outputs > 1) expect(as_marks, second, "marks, time steps x sequences");
    if (as_marks && as_labels && outputs == 1 && of_.sequences > 0)
      refuse("input ", quoted(second.name),
             " may hold marks (time steps x sequences) or labels (sequences x "
             "labels): both would have the shape ",
             second.shape.to_string(), "; use another number of sequences");
    return as_marks;
  }
  bool gives_penalties(const Blobs& outputs) const {
    return outputs.size() > 2 || (outputs.size() == 2 && !measures_);
  }

  bool has_marks_ = false, measures_ = false;
  Tensor decoded_;
};

class LabelsequenceAccuracyLayer : public CtcDecodingLayer {
 public:
  LabelsequenceAccuracyLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : CtcDecodingLayer(parameter, options, {2, 2, 1, 1}) {
    traits_.label_input = 1;
  }

  void read_settings() override {
    refuse_shares();
    if (blank() < 0) refuse("blank_label must be a class; found ", blank());
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &scores = inputs[0]->shape, &labels = inputs[1]->shape;
    if (scores.axes() < 3 || scores.count(3) != 1 || scores[2] < 1)
      refuse("input ", quoted(inputs[0]->name), " has the shape ", scores.to_string(),
             "; expected sequences x time steps x classes");
    of_ = {scores[1], scores[0], scores[2], scores[2], scores.count(1)};
    rule_.blank = blank_class("blank_label", blank(), scores[2], [&](const auto&... why) { refuse(why...); });
    expect(labels.axes() >= 1 && labels[0] == scores[0], *inputs[1], "sequences x labels");
    set_output(*outputs[0], Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    ensure(context, decoded_, Shape{of_.sequences, of_.steps}, dtype());
    decode(context, *inputs[0], none_, decoded_, none_);
    measure(context, decoded_, labels_in_rows(*inputs[1]), true);
    write_mean(context, 1, outputs[0]->data);
  }

 private:
  std::int64_t blank() const { return parameter_.labelsequence_accuracy_param().blank_label(); }

  Tensor decoded_;
};

const RegisterLayer<CTCGreedyDecoderLayer> registered_ctc_greedy_decoder(
    "CTCGreedyDecoder",
    {.about = "the labels of the largest score of each time step (CTC), and their accuracy",
     .message = "ctc_decoder_param",
     .examples = {}});
const RegisterLayer<LabelsequenceAccuracyLayer> registered_labelsequence_accuracy(
    "LabelsequenceAccuracy", {.about = "the share of sequences whose labels are all right (CTC)",
                              .message = "labelsequence_accuracy_param",
                              .examples = {}});

}  // namespace
}  // namespace banyan
