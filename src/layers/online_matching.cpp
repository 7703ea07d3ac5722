// LabeledMatching and UnlabeledMatching (person_search; Xiao et al. 2017): x . w of each sample (x: M x ...)
// with each row w of a memory of samples that training has seen: M x rows. Inputs: x, labels (M).
//
// LabeledMatching has a row for each of num_classes classes; a second output, if any, has the labels, -1 for
// those of no class. Training makes the row of each sample's class momentum * w + (1 - momentum) * x, sample
// by sample. Blobs: rows, and how many passes ago each was changed. UnlabeledMatching has a queue of the
// queue_size last samples whose label is -1. Blobs: rows, and which one is written next.
//
// A pass compares with the memory as it found it, and then adds the samples of all devices, so that N devices
// equal one (the branch does so in its backward pass). With lr_mult 0 the memory stays as it is.
#include <cmath>

#include "banyan/ops/basic.hpp"
#include "banyan/ops/matching.hpp"
#include "whole_batch_loss.hpp"

namespace banyan {
namespace {

class MatchingLayer : public WholeBatchLossLayer {
 public:
  MatchingLayer(const caffe::LayerParameter& parameter, const LayerOptions& options, int outputs)
      : WholeBatchLossLayer(parameter, options,
                            {.arity = {2, 2, 1, outputs},
                             .backward_reads_inputs = false,
                             .backward_reads_outputs = false,
                             .differentiable_inputs = 1,
                             .label_input = 1}) {
    traits_.loss = false;
    traits_.shares = 0;
    learns_ = options.phase == Phase::train && has_rate(0);
    if (!learns_) traits_.meets = Meets::never;
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    require_label_each(inputs);
    const Shape& x = inputs[0]->shape;
    if (x.count(1) != length_)
      refuse("input ", quoted(inputs[0]->name), " of shape ", x.to_string(), " does not fit rows of ",
             length_, " values");
    set_output(*outputs[0], Shape{x[0], rows_});
    if (outputs.size() > 1) set_output(*outputs[1], inputs[1]->shape);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Tensor &x = inputs[0]->data, &memory = parameters_[0].value;
    const bool learns = learns_ && pass.update_statistics;
    if (learns) {
      ensure(context, found_, memory.shape(), memory.dtype());
      ops::copy(context, memory, found_);
    }
    compared_ = learns ? &found_ : &memory;
    if (x.shape()[0] > 0)
      ops::gemm(context, {false, true, x.shape()[0], rows_, length_}, 1, x, memory, 0, outputs[0]->data);
    if (outputs.size() > 1) ops::known_labels(context, inputs[1]->data, rows_, outputs[1]->data);
    if (!learns) return;
    gather(pass, inputs, 2);
    add_samples(context, whole(0), whole(1));
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    const std::int64_t samples = inputs[0]->shape[0];
    if (!propagate[0] || samples == 0) return;
    ops::gemm(*pass.context, {false, false, samples, length_, rows_}, 1, outputs[0]->grad, *compared_, 0,
              inputs[0]->grad);
  }

  double forward_flops(const Blobs& inputs, const Blobs&) const override {
    return static_cast<double>(inputs[0]->shape[0]) * static_cast<double>(rows_ * length_);
  }

 protected:
  bool has_rate(int blob) const {
    return parameter_.param_size() <= blob || parameter_.param(blob).lr_mult() != 0;
  }
  void declare_memory(const Blob& x, std::uint32_t rows, const char* field, std::int64_t notes) {
    if (rows == 0) refuse(field, " must be given and positive");
    if (x.shape.axes() < 1 || x.shape.count(1) == 0)
      refuse("input ", quoted(x.name), " of shape ", x.shape.to_string(), " has no values of samples");
    rows_ = rows;
    length_ = x.shape.count(1);
    declare(Shape{rows_, length_}, {}, ParameterKind::statistic);
    declare(Shape{notes}, {}, ParameterKind::statistic);
  }
  /// To the memory, parameters_[0].
  virtual void add_samples(Context& context, const Tensor& x, const Tensor& labels) = 0;

 private:
  std::int64_t rows_ = 0, length_ = 0;
  bool learns_ = true;
  Tensor found_;                      ///< the memory before this pass's samples
  const Tensor* compared_ = nullptr;  ///< what this pass compares with
};

class LabeledMatchingLayer : public MatchingLayer {
 public:
  LabeledMatchingLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : MatchingLayer(parameter, options, 2) {
    traits_.differentiable_outputs = 1;
    if (has_rate(0) != has_rate(1))
      refuse("its two blobs change together or not at all; of their lr_mult one is 0 and one is not");
  }

  void read_settings() override {
    if (!std::isfinite(settings().momentum()))
      refuse("momentum must be finite; found ", settings().momentum());
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    declare_memory(*inputs[0], settings().num_classes(), "num_classes", settings().num_classes());
  }

 private:
  const caffe::LabeledMatchingParameter& settings() const { return parameter_.labeled_matching_param(); }

  void add_samples(Context& context, const Tensor& x, const Tensor& labels) override {
    ops::follow_rows(context, x, labels, settings().momentum(), parameters_[0].value);
    ops::count_ages(context, labels, parameters_[1].value);
  }
};

class UnlabeledMatchingLayer : public MatchingLayer {
 public:
  UnlabeledMatchingLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : MatchingLayer(parameter, options, 1) {}

  void setup(const Blobs& inputs, const Blobs&) override {
    declare_memory(*inputs[0], parameter_.unlabeled_matching_param().queue_size(), "queue_size", 1);
  }

  /// The branch stores rows only: then the first one is written next.
  std::vector<const io::BlobData*> match_blobs(const io::LayerWeights& source) const override {
    if (source.blobs.size() == 1) return {&source.blobs[0], nullptr};
    return MatchingLayer::match_blobs(source);
  }

 private:
  void add_samples(Context& context, const Tensor& x, const Tensor& labels) override {
    ops::enqueue_rows(context, x, labels, parameters_[0].value, parameters_[1].value);
  }
};

const RegisterLayer<LabeledMatchingLayer> registered_labeled_matching(
    "LabeledMatching", {.about = "products with a remembered sample of each class (person_search)",
                        .message = "labeled_matching_param",
                        .examples = {"num_classes: 4 momentum: 0.3"}});
const RegisterLayer<UnlabeledMatchingLayer> registered_unlabeled_matching(
    "UnlabeledMatching", {.about = "products with the last samples of no class (person_search)",
                          .message = "unlabeled_matching_param",
                          .examples = {"queue_size: 3"}});

}  // namespace
}  // namespace banyan
