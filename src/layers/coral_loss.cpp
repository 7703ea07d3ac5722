// CORALLoss (Sun, Saenko 2016): how far samples of a source (N x ...) and of a target (M x ...) differ in
// their covariances: the sum of the squared differences of C and D over 4 d^2, d being the values of a
// sample. C = X' X / (N - 1), X being the source's samples less their mean, and D likewise. 0 where a side
// has fewer than two samples. dX = X (C - D) / (d^2 (N - 1)). Every device compares the whole batch.
#include "centred_batch_loss.hpp"

namespace banyan {
namespace {

class CoralLossLayer : public CentredBatchLossLayer {
 public:
  CoralLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : CentredBatchLossLayer(parameter, options, {.arity = {2, 2, 1, 1}, .backward_reads_outputs = false}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &x = inputs[0]->shape, &y = inputs[1]->shape;
    if (x.axes() < 1 || y.axes() < 1 || x.count(1) != y.count(1))
      refuse("samples of source and target must have the same count; ", quoted(inputs[0]->name), " is ",
             x.to_string(), ", ", quoted(inputs[1]->name), " is ", y.to_string());
    set_output(*outputs[0], Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    gather(pass, inputs, 2);
    ensure(context, partial_, Shape{2}, DType::f64);
    ops::fill(context, partial_, 0);
    if (comparable()) {
      ensure(context, difference_, Shape{features(), features()}, whole(0).dtype());
      for (std::size_t i = 0; i < 2; ++i) {
        centre(context, i);
        ops::gemm(context, {true, false, features(), features(), samples(i)}, sign(i) / freedom(i),
                  centred(i), centred(i), i == 0 ? 0 : 1, difference_);
      }
      Tensor loss = partial_.slice(0, Shape{1});
      ops::sum_of_squares(context, difference_, loss);
      ops::axpby(context, 0.25 / squared_features(), loss, 0, loss);
    }
    write_share(pass, *outputs[0]);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    const Tensor slopes =
        comparable() ? scaled(context, difference_, 1 / squared_features(), outputs[0]->grad) : Tensor();
    for (std::size_t i = 0; i < 2; ++i) {
      if (!propagate[i]) continue;
      if (comparable())
        write_gradient(pass, i, *inputs[i], [&](Tensor& dx) {
          ops::gemm(context, {false, false, samples(i), features(), features()}, sign(i) / freedom(i),
                    centred(i), slopes, 0, dx);
        });
      else
        ops::fill(context, inputs[i]->grad, 0);
    }
  }

 private:
  static double sign(std::size_t i) { return i == 0 ? 1 : -1; }
  double freedom(std::size_t i) const { return static_cast<double>(samples(i) - 1); }
  std::int64_t features() const { return whole(0).shape().count(1); }
  double squared_features() const {
    return static_cast<double>(features()) * static_cast<double>(features());
  }
  bool comparable() const { return samples(0) > 1 && samples(1) > 1 && features() > 0; }

  Tensor difference_;
};

const RegisterLayer<CoralLossLayer> registered_coral_loss(
    "CORALLoss", {.about = "how far two sets of samples differ in their covariances (Sun, Saenko 2016)",
                  .message = "",
                  .inputs = {{4}, {4}}});

}  // namespace
}  // namespace banyan
