// BatchReduction (yjxiong): divides an axis into parts, one per level, and reduces each to one value: its
// SUM, MEAN, or with TOPK the mean of its k largest. A level l has l^2 entries, in order; the parts make up
// the axis. A single level 1 (the default) reduces the whole axis, which then goes.
//
// pos reduces the diagonal of the axis and the next one, which are equally long: SUM or MEAN of the entries
// (i, i). The next axis goes.
#include "banyan/base/log.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/selection.hpp"
#include "softmax_axes.hpp"

namespace banyan {
namespace {

class BatchReductionLayer : public Layer {
 public:
  BatchReductionLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options, {.backward_reads_outputs = false}) {}

  void read_settings() override {
    const auto& reduction = settings().reduction_param();
    switch (reduction.operation()) {
      case caffe::ReductionParameter::SUM:
        kind_ = ops::PartReduction::Kind::sum;
        break;
      case caffe::ReductionParameter::MEAN:
        kind_ = ops::PartReduction::Kind::mean;
        break;
      case caffe::ReductionParameter::TOPK:
        kind_ = ops::PartReduction::Kind::largest;
        if (reduction.k() < 1) refuse("k must be positive; found ", reduction.k());
        break;
      default:
        refuse("takes the operations SUM, MEAN and TOPK");
    }
    traits_.backward_reads_inputs = kind_ == ops::PartReduction::Kind::largest;
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    const auto& reduction = settings().reduction_param();
    axis_ = inputs[0]->shape.canonical_axis(reduction.axis());
    if (axis_ == 0 && options().devices > 1 && options().net_phase == Phase::train)
      refuse("axis 0 is the batch, which the devices share; reduce another axis or train on one device");
    if (reduction.coeff() != 1 && options().rank == 0)
      log_warning(
          cat("layer ", quoted(name()), " (", type(), "): coeff has no effect here, as in yjxiong's branch"));
    if (settings().pos()) check_diagonal(inputs[0]->shape);
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = inputs[0]->shape;
    over_ = channels_along(input, axis_);
    parts_.clear();
    length_ = over_.channels;
    if (settings().pos()) {
      check_diagonal(input);
      over_.channels *= length_;
      over_.inner /= length_;
    }
    if (is_whole()) {
      add_part(length_);
    } else {
      for (const std::int64_t level : settings().level()) {
        if (level < 1) refuse("levels must be positive; found ", level);
        add_part(level * level);
      }
    }
    const std::int64_t covered = parts_.back().first + parts_.back().count;
    if (covered != length_) refuse("the levels cover ", covered, " entries; axis ", axis_, " has ", length_);
    for (ops::PartReduction& part : parts_) part.parts = static_cast<std::int64_t>(parts_.size());
    if (settings().pos()) parts_.front().step = length_ + 1;
    std::vector<std::int64_t> dims = input.dims();
    if (settings().pos()) dims.erase(dims.begin() + axis_ + 1);
    if (is_whole())
      dims.erase(dims.begin() + axis_);
    else
      dims[static_cast<std::size_t>(axis_)] = static_cast<std::int64_t>(parts_.size());
    set_output(*outputs[0], Shape(dims));
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    for (const ops::PartReduction& part : parts_)
      ops::reduce_part(*pass.context, inputs[0]->data, over_, part, outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    // Sums and means have slopes that do not depend on x, whose memory may hold something else by now.
    const Tensor& x = traits_.backward_reads_inputs ? inputs[0]->data : inputs[0]->grad;
    if (settings().pos()) ops::fill(*pass.context, inputs[0]->grad, 0);
    for (const ops::PartReduction& part : parts_)
      ops::reduce_part_backward(*pass.context, x, outputs[0]->grad, over_, part, inputs[0]->grad);
  }

 private:
  const caffe::BatchReductionParameter& settings() const { return parameter_.batch_reduction_param(); }
  bool is_whole() const {
    return settings().level_size() == 0 || (settings().level_size() == 1 && settings().level(0) == 1);
  }
  void check_diagonal(const Shape& input) const {
    if (settings().level_size() > 1) refuse("pos takes one level; found ", settings().level_size());
    if (settings().reduction_param().operation() == caffe::ReductionParameter::TOPK)
      refuse("pos does not go with TOPK, which in yjxiong's branch reads other entries than the diagonal's");
    if (axis_ + 1 >= input.axes() || input[axis_] != input[axis_ + 1])
      refuse("pos needs an axis as long as axis ", axis_, " after it; the input is ", input.to_string());
  }
  void add_part(std::int64_t count) {
    ops::PartReduction part;
    part.kind = kind_;
    part.k = settings().reduction_param().k();
    part.first = parts_.empty() ? 0 : parts_.back().first + parts_.back().count;
    part.count = count;
    part.part = static_cast<std::int64_t>(parts_.size());
    parts_.push_back(part);
  }

  int axis_ = 0;
  std::int64_t length_ = 0;  ///< of the axis
  ops::PartReduction::Kind kind_ = ops::PartReduction::Kind::sum;
  ops::Channels over_{};
  std::vector<ops::PartReduction> parts_;
};

const RegisterLayer<BatchReductionLayer> registered_batch_reduction(
    "BatchReduction", {"reduces an axis in parts (yjxiong)",
                       "batch_reduction_param",
                       {"reduction_param { axis: 1 operation: MEAN }",
                        "level: 1 level: 2 reduction_param { axis: 2 operation: TOPK k: 2 }"}});

}  // namespace
}  // namespace banyan
