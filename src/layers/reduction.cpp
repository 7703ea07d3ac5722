// Reduction of the axes from `axis` on to one value: coeff times the sum (SUM), the sum of magnitudes (ASUM)
// or of squares (SUMSQ), or the mean (MEAN).
//
// With axis 0 the batch is reduced too. In training on several devices the output is then a device's share of
// the value for the whole batch, as that of a loss: MEAN divides by the elements of all devices.
#include "banyan/layers/loss.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/rows.hpp"

namespace banyan {
namespace {

class ReductionLayer : public Layer {
 public:
  ReductionLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options, {.backward_reads_outputs = false}) {}

  void read_settings() override {
    const auto& settings = parameter_.reduction_param();
    mean_ = settings.operation() == caffe::ReductionParameter::MEAN;
    switch (settings.operation()) {
      case caffe::ReductionParameter::ASUM:
        what_ = ops::RowSum::magnitudes;
        break;
      case caffe::ReductionParameter::SUMSQ:
        what_ = ops::RowSum::squares;
        break;
      case caffe::ReductionParameter::TOPK:
        refuse("operation TOPK is for BatchReduction only");
      default:
        traits_.backward_reads_inputs = false;
    }
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    axis_ = inputs[0]->shape.canonical_axis(parameter_.reduction_param().axis());
    // What is added up is then all of a sample, or of the batch: in any order.
    if (axis_ <= 1) traits_.layout = LayoutRule::follows;
    if (axis_ > 0 || options().net_phase == Phase::test || options().devices == 1) return;
    traits_.shares = 1;
    if (!mean_) return;
    traits_.meets = Meets::forward;
    traits_.repeatable = false;
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = inputs[0]->shape;
    set_output(*outputs[0],
               Shape(std::vector<std::int64_t>(input.dims().begin(), input.dims().begin() + axis_)));
    length_ = input.count(axis_);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    ensure(context, divisor_, Shape{1}, DType::f64);
    ops::fill(context, divisor_, mean_ ? static_cast<double>(length_) : 1);
    if (traits_.meets == Meets::forward) sum_over_devices(pass, divisor_, {name().c_str(), "divisor"});
    ops::reduce_rows(context, inputs[0]->data, what_, parameter_.reduction_param().coeff(), divisor_,
                     outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    // A sum's slope does not depend on x, whose memory may hold something else by now.
    const Tensor& x = traits_.backward_reads_inputs ? inputs[0]->data : inputs[0]->grad;
    ops::reduce_rows_backward(*pass.context, x, outputs[0]->grad, what_, parameter_.reduction_param().coeff(),
                              divisor_, inputs[0]->grad);
  }

 private:
  int axis_ = 0;
  bool mean_ = false;
  ops::RowSum what_ = ops::RowSum::values;
  std::int64_t length_ = 0;
  Tensor divisor_;
};

const RegisterLayer<ReductionLayer> registered_reduction(
    "Reduction", {"sum, sum of magnitudes or squares, or mean over the last axes",
                  "reduction_param",
                  {"", "operation: MEAN axis: 1", "operation: SUMSQ axis: -1 coeff: 2"}});

}  // namespace
}  // namespace banyan
