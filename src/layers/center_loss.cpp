// CenterLoss (Wen et al. 2016): half the squared distances of samples to the centers of their classes, summed
// and divided by N, their number over all devices. Inputs: features (N, ...), labels (N). The centers are a
// parameter (num_output, features per sample).
//
// CenterCosLoss (Mycaffe): minus the cosine of the angle between a sample and the center of its class, 0
// where one of them is 0; summed and divided likewise.
//
// The centers do not follow the gradient of the loss but Caffe's rule, whatever the loss weight: their
// gradient is the sum over a class's samples on all devices, of (center - sample) or of the slope of minus
// the cosine, divided by 1 + the number of these.
#include "banyan/layers/index_note.hpp"
#include "banyan/layers/loss.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/distance_loss.hpp"
#include "banyan/ops/norms.hpp"
#include "banyan/ops/rows.hpp"

namespace banyan {
namespace {

class LossOfCenters : public LossLayer {
 public:
  LossOfCenters(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : LossLayer(parameter, options,
                  {.arity = {2, 2, 1, 1},
                   .backward_reads_inputs = true,
                   .backward_reads_outputs = false,
                   .differentiable_inputs = 1,
                   .label_input = 1,
                   .meets = Meets::forward}) {}

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
    ops::note_outside(context, labels, 1, classes_, note_.on(context));
    ops::gather_rows(context, parameters_[0].value, classes_, labels, center_);
    compare(context, x);
    const std::int64_t samples = x.shape()[0];
    find_divisor(pass, Normalization::batch_size, samples, samples);
    show(pass, *outputs[0]);
    if (parameters_[0].grad.defined()) count_classes(pass, labels);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    if (propagate[0]) write_gradient(context, outputs[0]->grad, *inputs[0]);
    Tensor& gradient = parameters_[0].grad;
    if (!gradient.defined()) return;
    find_difference(context, inputs[0]->data);
    ensure(context, sums_, gradient.shape(), gradient.dtype());
    ops::fill(context, sums_, 0);
    ops::add_to_rows(context, difference_, inputs[1]->data, classes_, sums_);
    ops::add_divided_rows(context, sums_, counts_, -1, gradient);
  }

  void check_results(Context& context) override { note_.check(context, name(), classes_); }

 protected:
  void declare_centers(const Blob& features, std::uint32_t classes, std::int32_t axis,
                       const caffe::FillerParameter& filler) {
    classes_ = classes;
    if (classes_ == 0) refuse("num_output, the number of classes, must be positive");
    if (features.shape.axes() < 1 || features.shape.canonical_axis(axis) != 1)
      refuse("axis must be 1: a sample has one label; found ", axis);
    length_ = features.shape.count(1);
    declare(Shape{classes_, length_}, filler);
  }
  /// Each sample with its center_.
  virtual void compare(Context& context, const Tensor& x) = 0;
  virtual void show(Pass& pass, Blob& loss) = 0;
  virtual void write_gradient(Context& context, const Tensor& grad_loss, Blob& features) = 0;
  /// difference_, unless compare() has left it.
  virtual void find_difference(Context&, const Tensor&) {}

  Tensor center_, difference_;  ///< of each sample: its class's; the way on which its center comes nearer

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
  Tensor sums_;                          ///< of the differences of each class
  Tensor ones_, local_counts_, counts_;  ///< samples of each class, on all devices in f64
  IndexNote note_;
};

class CenterLossLayer : public LossOfCenters {
 public:
  using LossOfCenters::LossOfCenters;
  void setup(const Blobs& inputs, const Blobs&) override {
    const auto& settings = parameter_.center_loss_param();
    declare_centers(*inputs[0], settings.num_output(), settings.axis(), settings.center_filler());
  }

 private:
  void compare(Context& context, const Tensor& x) override {
    ensure(context, partial_, Shape{2}, DType::f64);
    ops::euclidean_forward(context, x, center_, difference_, partial_);
  }
  void show(Pass& pass, Blob& loss) override { write_loss(pass, loss); }
  void write_gradient(Context& context, const Tensor& grad_loss, Blob& features) override {
    ops::euclidean_backward(context, difference_, 1, grad_loss, divisor_, features.grad);
  }
};

class CenterCosLossLayer : public LossOfCenters {
 public:
  using LossOfCenters::LossOfCenters;
  void setup(const Blobs& inputs, const Blobs&) override {
    const auto& settings = parameter_.center_cos_loss_param();
    declare_centers(*inputs[0], settings.num_output(), settings.axis(), settings.center_cos_filler());
  }

 private:
  void compare(Context& context, const Tensor& x) override {
    const std::int64_t samples = x.shape()[0];
    const ops::Channels over{samples, x.shape().count(1), 1};
    for (Tensor* tensor : {&products_, &squares_, &center_squares_})
      ensure(context, *tensor, Shape{samples}, DType::f64);
    ensure(context, cosines_, Shape{samples}, x.dtype());
    ensure(context, slope_, Shape{samples}, x.dtype());
    ops::dot_products(context, x, center_, over, 0, products_);
    ops::dot_products(context, x, x, over, 0, squares_);
    ops::dot_products(context, center_, center_, over, 0, center_squares_);
    ops::cosines(context, products_, squares_, center_squares_, cosines_);
  }
  void show(Pass& pass, Blob& loss) override {
    ops::reduce_rows(*pass.context, cosines_, ops::RowSum::values, -1, divisor_, loss.data);
  }
  void write_gradient(Context& context, const Tensor& grad_loss, Blob& features) override {
    ops::reduce_rows_backward(context, cosines_, grad_loss, ops::RowSum::values, -1, divisor_, slope_);
    ops::cosines_backward(context, features.data, center_, products_, squares_, center_squares_, slope_,
                          features.grad);
  }
  void find_difference(Context& context, const Tensor& x) override {
    ops::fill(context, slope_, 1);
    ops::cosines_backward(context, center_, x, products_, center_squares_, squares_, slope_, difference_);
  }

  Tensor products_, squares_, center_squares_, cosines_, slope_;  ///< of each sample
};

const RegisterLayer<CenterLossLayer> registered_center_loss(
    "CenterLoss", {"pulls samples to the centers of their classes (Wen et al. 2016)",
                   "center_loss_param",
                   {"num_output: 4 center_filler { value: 0.5 }"}});

const RegisterLayer<CenterCosLossLayer> registered_center_cos_loss(
    "CenterCosLoss", {"turns samples to the centers of their classes",
                      "center_cos_loss_param",
                      {"num_output: 4 center_cos_filler { value: 0.5 }"}});

}  // namespace
}  // namespace banyan
