// XCovLoss (Cheung et al. 2015): half the sum of the squared covariances of two sets of features, N x d and N
// x e (further axes count as one), over the batch: C = X0' Y0 / N of X and Y less their means; dX = Y0 C' /
// N, dY = X0 C / N.
#include "centred_batch_loss.hpp"

namespace banyan {
namespace {

class XCovLossLayer : public CentredBatchLossLayer {
 public:
  XCovLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : CentredBatchLossLayer(parameter, options, {.arity = {2, 2, 1, 1}, .backward_reads_outputs = false}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &x = inputs[0]->shape, &y = inputs[1]->shape;
    if (x.axes() < 1 || y.axes() < 1 || x[0] != y[0])
      refuse("the inputs must have the same batch; ", quoted(inputs[0]->name), " is ", x.to_string(), ", ",
             quoted(inputs[1]->name), " is ", y.to_string());
    set_output(*outputs[0], Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    gather(pass, inputs, 2);
    ensure(context, partial_, Shape{2}, DType::f64);
    ops::fill(context, partial_, 0);
    if (samples(0) > 0) {
      for (std::size_t i = 0; i < 2; ++i) centre(context, i);
      ensure(context, covariances_, Shape{features(0), features(1)}, whole(0).dtype());
      ops::gemm(context, {true, false, features(0), features(1), samples(0)}, share(), centred(0), centred(1),
                0, covariances_);
      Tensor loss = partial_.slice(0, Shape{1});
      ops::sum_of_squares(context, covariances_, loss);
      ops::axpby(context, 0.5, loss, 0, loss);
    }
    write_share(pass, *outputs[0]);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (samples(0) == 0) return;
    Context& context = *pass.context;
    const Tensor& slopes = scaled(context, covariances_, share(), outputs[0]->grad);
    for (std::size_t i = 0; i < 2; ++i)
      if (propagate[i])
        write_gradient(pass, i, *inputs[i], [&](Tensor& dx) {
          ops::gemm(context, {false, i == 0, samples(0), features(i), features(1 - i)}, 1, centred(1 - i),
                    slopes, 0, dx);
        });
  }

 private:
  double share() const { return 1.0 / static_cast<double>(samples(0)); }
  std::int64_t features(std::size_t i) const { return whole(i).shape().count(1); }

  Tensor covariances_;
};

const RegisterLayer<XCovLossLayer> registered_xcov_loss(
    "XCovLoss", {.about = "how much two sets of features vary together (Cheung et al. 2015)",
                 .message = "",
                 .inputs = {{4}, {3}}});

}  // namespace
}  // namespace banyan
