// CenterLoss (Wen et al. 2016): half the squared distances of samples to the centers of their classes, summed
// and divided by N, their number over all devices. Inputs: features (N, ...), labels (N). The centers are a
// parameter (num_output, features per sample).
//
// The centers do not follow the gradient of the loss but Caffe's rule, whatever the loss weight: their
// gradient is the sum of (center - sample) over a class's samples on all devices, divided by 1 + the number
// of these.
#include "banyan/layers/index_note.hpp"
#include "banyan/layers/loss.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/rows.hpp"

namespace banyan {
namespace {

class CenterLossLayer : public LossLayer {
 public:
  CenterLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : LossLayer(parameter, options,
                  {.arity = {2, 2, 1, 1},
                   .backward_reads_inputs = true,
                   .backward_reads_outputs = false,
                   .differentiable_inputs = 1,
                   .meets = Meets::forward}) {}

  void setup(const Blobs& inputs, const Blobs&) override {
    const auto& settings = parameter_.center_loss_param();
    classes_ = settings.num_output();
    if (classes_ == 0) refuse("num_output, the number of classes, must be positive");
    if (inputs[0]->shape.axes() < 1 || inputs[0]->shape.canonical_axis(settings.axis()) != 1)
      refuse("axis must be 1: a sample has one label; found ", settings.axis());
    length_ = inputs[0]->shape.count(1);
    declare(Shape{classes_, length_}, settings.center_filler());
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &features = inputs[0]->shape, &labels = inputs[1]->shape;
    if (features.axes() < 1 || labels.count() != features[0])
      refuse("expected one label for each sample of ", quoted(inputs[0]->name), ", which is ",
             features.to_string(), "; ", quoted(inputs[1]->name), " is ", labels.to_string());
    if (features.count(1) != length_)
      refuse("input ", quoted(inputs[0]->name), " of shape ", features.to_string(),
             " does not fit centers of ", length_, " values");
    set_output(*outputs[0], Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Tensor &x = inputs[0]->data, &labels = inputs[1]->data;
    ensure(context, center_, x.shape(), x.dtype());
    ensure(context, difference_, x.shape(), x.dtype());
    ensure(context, partial_, Shape{2}, DType::f64);
    ops::note_outside(context, labels, 1, classes_, note_.on(context));
    ops::gather_rows(context, parameters_[0].value, classes_, labels, center_);
    ops::euclidean_forward(context, x, center_, difference_, partial_);
    const std::int64_t samples = x.shape()[0];
    find_divisor(pass, Normalization::batch_size, samples, samples);
    write_loss(pass, *outputs[0]);
    if (parameters_[0].grad.defined()) count_classes(pass, labels);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    if (propagate[0])
      ops::euclidean_backward(context, difference_, 1, outputs[0]->grad, divisor_, inputs[0]->grad);
    Tensor& gradient = parameters_[0].grad;
    if (!gradient.defined()) return;
    ensure(context, sums_, gradient.shape(), gradient.dtype());
    ops::fill(context, sums_, 0);
    ops::add_to_rows(context, difference_, inputs[1]->data, classes_, sums_);
    ops::add_divided_rows(context, sums_, counts_, -1, gradient);
  }

  void check_results(Context& context) override { note_.check(context, name(), classes_); }

 private:
  /// counts_ of all devices.
  void count_classes(Pass& pass, const Tensor& labels) {
    Context& context = *pass.context;
    ensure(context, ones_, Shape{labels.count(), 1}, labels.dtype());
    ensure(context, local_counts_, Shape{classes_, 1}, labels.dtype());
    ensure(context, counts_, Shape{classes_, 1}, DType::f64);
    ops::fill(context, ones_, 1);
    ops::fill(context, local_counts_, 0);
    ops::add_to_rows(context, ones_, labels, classes_, local_counts_);
    ops::copy(context, local_counts_, counts_);
    sum_over_devices(pass, counts_, {name().c_str(), "forward"});
  }

  std::int64_t classes_ = 0, length_ = 0;
  Tensor center_, difference_, sums_;    ///< of each sample; x - center_; of the differences of each class
  Tensor ones_, local_counts_, counts_;  ///< samples of each class, on all devices in f64
  IndexNote note_;
};

const RegisterLayer<CenterLossLayer> registered_center_loss(
    "CenterLoss", {"pulls samples to the centers of their classes (Wen et al. 2016)",
                   "center_loss_param",
                   {"num_output: 4 center_filler { value: 0.5 }"}});

}  // namespace
}  // namespace banyan
