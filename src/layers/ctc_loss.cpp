// Connectionist temporal classification (Graves et al. 2006; ops/ctc.hpp): minus the sum of the logarithms of
// the likelihoods that the scores' softmax gives to the labels of N sequences. Inputs: scores (T x N x C),
// and
//   CTCLoss (ChWick: BVLC/caffe pull request 4681; TextBoxes++): marks (T x N: a sequence ends before the first
//     0 after time step 0), labels (T x N, ended by a negative number). Labels for which there are too few time
//     steps cost infinitely much, with the softmax as gradient; more labels than time steps are an error. A
//     sequence of one time step without labels does not count.
//   WarpCTCLoss (ChWick, caffe_ocr): labels (N x L, blanks among them are left out); or N numbers of time
//     steps, N numbers of labels, labels (L x N). Three inputs are refused: branches disagree about which class
//     label 0 is.
//   CtcLoss (warpctc-caffe, crnn.caffe): labels as the first form of WarpCTCLoss.
// In the latter two, as in Baidu's warp-ctc, labels for which there are too few time steps cost nothing and
// have no gradient.
//
// As in the branches, the loss that is shown is divided by N, and its gradient is not. With loss_param {
// normalization: BATCH_SIZE } both are, with NONE neither is; N is that of all devices.
#include "banyan/layers/index_note.hpp"
#include "banyan/layers/loss.hpp"
#include "ctc_inputs.hpp"

namespace banyan {
namespace {

class AnyCtcLossLayer : public LossLayer {
 public:
  AnyCtcLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options, int least_inputs,
                  int most_inputs)
      : LossLayer(parameter, options,
                  {.arity = {least_inputs, most_inputs, 1, 1},
                   .backward_reads_outputs = false,
                   .differentiable_inputs = 1,
                   .label_input = parameter.bottom_size() - 1}) {}

  void read_settings() override {
    const auto& loss = parameter_.loss_param();
    normalization_ = read_normalization(Normalization::batch_size);
    if (normalization_ != Normalization::batch_size && normalization_ != Normalization::none)
      refuse("normalization must be BATCH_SIZE or NONE: there are no positions to count");
    if (loss.has_ignore_label()) refuse("ignore_label is not supported: a label is one of a sequence");
    divides_gradient_ = loss.has_normalization() || loss.has_normalize();
    traits_.meets = meets_for(normalization_);
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    sizes_ = ctc_sizes(*inputs[0], [&](const auto&... why) { refuse(why...); });
    rule_.blank = blank();
    sizes_.labels = most_labels(inputs);
    set_output(*outputs[0], Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const auto [steps, sequences, classes, labels] = sizes_;
    const Shape states{sequences, steps, 2 * labels + 1};
    ensure(context, partial_, Shape{2}, DType::f64);
    ensure(context, state_.targets, Shape{sequences, labels}, DType::i32);
    ensure(context, state_.lengths, Shape{sequences, 2}, DType::i32);
    ensure(context, state_.norms, Shape{steps, sequences}, DType::f64);
    ensure(context, state_.alpha, states, DType::f64);
    ensure(context, state_.likelihoods, Shape{sequences}, DType::f64);
    ops::ctc_targets(context, input_of(inputs), sizes_, rule_, state_, note_.on(context));
    ops::ctc_loss_forward(context, inputs[0]->data, sizes_, rule_, state_, partial_);
    find_divisor(pass, normalization_, sequences, sequences);
    write_loss(pass, *outputs[0]);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    Context& context = *pass.context;
    ensure(context, state_.beta, state_.alpha.shape(), DType::f64);
    ensure(context, one_, Shape{1}, DType::f64);
    ops::fill(context, one_, 1);
    ops::ctc_loss_backward(context, inputs[0]->data, sizes_, rule_, state_, outputs[0]->grad,
                           divides_gradient_ ? divisor_ : one_, inputs[0]->grad);
  }

  void check_results(Context& context) override {
    note_.check(context, [&](const IndexNote::Found& found) {
      const std::int64_t sequence = found.number / (sizes_.labels + 1),
                         label = found.number % (sizes_.labels + 1);
      if (label == sizes_.labels) refuse("sequence ", sequence, " has ", found.value, " labels; ", fitting());
      refuse("label ", label, " of sequence ", sequence, " is ", found.value, "; expected a class, 0 to ",
             sizes_.classes - 1, ", but not the blank, ", rule_.blank);
    });
  }

 protected:
  const caffe::CTCLossParameter& settings() const { return parameter_.ctc_loss_param(); }
  template <class... Parts>
  void expect(bool fits, const Blob& input, const Parts&... what) const {
    if (!fits)
      refuse("input ", quoted(input.name), " has the shape ", input.shape.to_string(), "; expected ",
             what...);
  }
  void refuse_settings_of_ctc_loss() const {
    const auto& s = settings();
    if (s.has_alphabet_size() || s.has_time_step() || s.has_blank_label())
      refuse(
          "alphabet_size, time_step and blank_label are settings of CtcLoss; the blank here is blank_index");
  }
  void expect_rows_of_labels(const Blobs& inputs) const {
    const Shape& labels = inputs[1]->shape;
    expect(labels.axes() >= 1 && labels[0] == sizes_.sequences, *inputs[1], "the labels of ",
           sizes_.sequences, " sequences, sequences x labels");
  }

  ops::CtcSizes sizes_{};
  ops::CtcRule rule_;

 private:
  /// Of sizes_.classes.
  virtual std::int64_t blank() const = 0;
  /// Checks the shapes of the inputs.
  virtual std::int64_t most_labels(const Blobs& inputs) const = 0;
  virtual ops::CtcInput input_of(const Blobs& inputs) const = 0;
  /// What lengths must be.
  virtual const char* fitting() const { return ""; }

  ops::CtcState state_;
  Tensor one_;
  Normalization normalization_ = Normalization::batch_size;
  bool divides_gradient_ = false;
  IndexNote note_;
};

class CTCLossLayer : public AnyCtcLossLayer {
 public:
  CTCLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : AnyCtcLossLayer(parameter, options, 3, 3) {}

  void read_settings() override {
    AnyCtcLossLayer::read_settings();
    refuse_settings_of_ctc_loss();
    if (settings().output_delay() != 0)
      refuse("output_delay is not supported (in the branch it is untested); found ",
             settings().output_delay());
  }

  void setup(const Blobs& inputs, const Blobs& outputs) override {
    AnyCtcLossLayer::setup(inputs, outputs);
    rule_.merge = settings().ctc_merge_repeated();
  }

 private:
  std::int64_t blank() const override {
    return blank_class("blank_index", settings().has_blank_index() ? settings().blank_index() : -1,
                       sizes_.classes, [&](const auto&... why) { refuse(why...); });
  }
  std::int64_t most_labels(const Blobs& inputs) const override {
    for (const Blob* input : {inputs[1], inputs[2]})
      expect(is_table(*input, sizes_.steps, sizes_.sequences), *input, sizes_.steps, " time steps x ",
             sizes_.sequences, " sequences");
    return sizes_.steps;
  }
  ops::CtcInput input_of(const Blobs& inputs) const override {
    return {.from = labels_in_columns(*inputs[2]),
            .marks = inputs[1]->data,
            .steps = {},
            .counts = {},
            .collapse = settings().preprocess_collapse_repeated()};
  }
  const char* fitting() const override {
    return "there must be as many time steps, and no more than one without labels";
  }
};

class WarpCTCLossLayer : public AnyCtcLossLayer {
 public:
  WarpCTCLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : AnyCtcLossLayer(parameter, options, 2, 4) {
    rule_.impossible_is_infinite = false;
  }

  void read_settings() override {
    AnyCtcLossLayer::read_settings();
    refuse_settings_of_ctc_loss();
    const auto& s = settings();
    if (s.output_delay() != 0 || s.preprocess_collapse_repeated() || !s.ctc_merge_repeated())
      refuse("output_delay, preprocess_collapse_repeated and ctc_merge_repeated are settings of CTCLoss");
    if (s.blank_index() < 0)
      refuse("blank_index must be a class; found ", s.blank_index(), " (in CTCLoss it is the last one)");
  }

  void setup(const Blobs& inputs, const Blobs& outputs) override {
    if (inputs.size() == 3)
      refuse(
          "branches disagree about which class label 0 is where the second of three inputs marks the time "
          "steps; give two inputs: the scores, and labels as sequences x labels, filled up with blanks");
    AnyCtcLossLayer::setup(inputs, outputs);
  }

 private:
  std::int64_t blank() const override {
    return blank_class("blank_index", settings().blank_index(), sizes_.classes,
                       [&](const auto&... why) { refuse(why...); });
  }
  std::int64_t most_labels(const Blobs& inputs) const override {
    if (inputs.size() == 2) {
      expect_rows_of_labels(inputs);
      return inputs[1]->shape.count(1);
    }
    for (const Blob* input : {inputs[1], inputs[2]})
      expect(input->shape.count() == sizes_.sequences, *input, "a number for each of ", sizes_.sequences,
             " sequences");
    const Shape& labels = inputs[3]->shape;
    expect(labels.axes() >= 2 && labels[1] == sizes_.sequences && labels.count(2) == 1, *inputs[3],
           "labels x ", sizes_.sequences, " sequences");
    return labels[0];
  }
  ops::CtcInput input_of(const Blobs& inputs) const override {
    if (inputs.size() == 2)
      return {.from = labels_in_rows(*inputs[1]), .marks = {}, .steps = {}, .counts = {}};
    ops::CtcLabels labels = labels_in_columns(*inputs[3]);
    labels.ends_at_negative = false;
    return {.from = labels, .marks = {}, .steps = inputs[1]->data, .counts = inputs[2]->data};
  }
  const char* fitting() const override {
    return "there must be no more than the last input holds, and from one time step to as many as there are";
  }
};

class CtcLossLayer : public AnyCtcLossLayer {
 public:
  CtcLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : AnyCtcLossLayer(parameter, options, 2, 2) {
    rule_.impossible_is_infinite = false;
  }

  void read_settings() override {
    AnyCtcLossLayer::read_settings();
    const auto& s = settings();
    if (s.has_output_delay() || s.has_blank_index() || s.has_preprocess_collapse_repeated() ||
        s.has_ctc_merge_repeated() || s.has_loss_calculation_t())
      refuse(
          "output_delay, blank_index, preprocess_collapse_repeated, ctc_merge_repeated and "
          "loss_calculation_t are settings of CTCLoss; the blank here is blank_label");
    if (s.alphabet_size() == 0 || s.time_step() == 0)
      refuse("alphabet_size and time_step must be given and positive");
    if (s.blank_label() < 0) refuse("blank_label must be a class; found ", s.blank_label());
  }

 private:
  std::int64_t blank() const override {
    if (settings().alphabet_size() != sizes_.classes || settings().time_step() != sizes_.steps)
      refuse("alphabet_size ", settings().alphabet_size(), " and time_step ", settings().time_step(),
             " must be those of the scores, which have ", sizes_.classes, " classes in ", sizes_.steps,
             " time steps");
    return blank_class("blank_label", settings().blank_label(), sizes_.classes,
                       [&](const auto&... why) { refuse(why...); });
  }
  std::int64_t most_labels(const Blobs& inputs) const override {
    expect_rows_of_labels(inputs);
    return inputs[1]->shape.count(1);
  }
  ops::CtcInput input_of(const Blobs& inputs) const override {
    return {.from = labels_in_rows(*inputs[1]), .marks = {}, .steps = {}, .counts = {}};
  }
};

constexpr const char* kAboutCtc = "labels of sequences without their places (CTC, Graves et al. 2006)";
const RegisterLayer<CTCLossLayer> registered_ctc_loss("CTCLoss", {.about = kAboutCtc,
                                                                  .message = "ctc_loss_param",
                                                                  .examples = {}});
const RegisterLayer<WarpCTCLossLayer> registered_warp_ctc_loss("WarpCTCLoss", {.about = kAboutCtc,
                                                                               .message = "ctc_loss_param",
                                                                               .examples = {}});
const RegisterLayer<CtcLossLayer> registered_ctc_loss_of_rows("CtcLoss", {.about = kAboutCtc,
                                                                          .message = "ctc_loss_param",
                                                                          .examples = {}});

}  // namespace
}  // namespace banyan
