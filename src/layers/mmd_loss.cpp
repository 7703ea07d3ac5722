// MMDLoss (Long et al. 2015) and JMMDLoss (Long et al. 2017), of Xlearn: how far samples of a source (Ns x
// ...) and of a target (Nt x ...) differ in their distribution. k(a, b) is the sum of kernel_num kernels of
// Gauss, each kernel_mul times as narrow as the one before; the middle one's width is the mean squared
// distance of two samples, without a gradient. Each pass draws max(Ns, Nt) times two samples s, s' of the
// source and t, t' of the target, and the loss is the mean of k(s, s') + k(t, t') - k(s, t') - k(s', t); 0
// where a side has fewer than two samples. (The branch shows the sum, and of JMMDLoss nothing.)
//
// JMMDLoss multiplies each k by the same kernels of the samples' probabilities, its inputs 2 and 3, where the
// middle width is sigma, with auto_sigma their mean squared distance; with label_back_propagate these get a
// gradient. A fifth input, the labels, is not read. Of two outputs with the loss, the weight of the first
// counts for the samples, that of the second for their probabilities.
#include <algorithm>
#include <cmath>

#include "banyan/ops/basic.hpp"
#include "banyan/ops/discrepancy.hpp"
#include "whole_batch_loss.hpp"

namespace banyan {
namespace {

class DiscrepancyLossLayer : public WholeBatchLossLayer {
 public:
  DiscrepancyLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : WholeBatchLossLayer(parameter, options, {.arity = {2, 2, 1, 1}, .backward_reads_outputs = false}) {
    if (!is_joint()) return;
    traits_.arity = {4, 5, 1, 2};
    traits_.differentiable_inputs = joint().label_back_propagate() ? 4 : 2;
    traits_.differentiable_outputs = 2;
    traits_.shares = 2;
  }

  void read_settings() override {
    const bool fixed = is_joint() ? joint().fix_gamma() : plain().fix_gamma();
    if (fixed)
      refuse("fix_gamma: true is not supported: the width would be that of the first batch of a run");
    check_kernels("kernel_num", count(), "kernel_mul", ratio());
    if (!is_joint()) return;
    if (joint().label_kernel_mode() != caffe::JMMDParameter::PROB_RBF)
      refuse("label_kernel_mode must be PROB_RBF; the others compare labels and have no gradient");
    if (!joint().auto_sigma() && !(joint().sigma() > 0))
      refuse("sigma must be positive, or auto_sigma true; found ", joint().sigma());
    check_kernels("label_kernel_num", joint().label_kernel_num(), "label_kernel_mul",
                  joint().label_kernel_mul());
  }

  void setup(const Blobs&, const Blobs&) override {
    sides_[0].kernels = {count(), 1 / middle(ratio(), count()), ratio(), 0};
    sides_[0].by_distance = true;
    if (!is_joint()) return;
    const double mul = joint().label_kernel_mul();
    sides_[1].by_distance = joint().auto_sigma();
    sides_[1].kernels = {
        joint().label_kernel_num(),
        middle(mul, joint().label_kernel_num()) / (joint().auto_sigma() ? 1 : joint().sigma()), 1 / mul, 0};
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    for (std::size_t i = 0; i + 1 < inputs.size(); i += 2) {
      const Shape &a = inputs[i]->shape, &b = inputs[i + 1]->shape;
      if (a.axes() < 1 || b.axes() < 1 || a.count(1) != b.count(1) || a[0] != inputs[0]->shape[0] ||
          b[0] != inputs[1]->shape[0])
        refuse("samples of source and target must have the same count; ", quoted(inputs[i]->name), " is ",
               a.to_string(), ", ", quoted(inputs[i + 1]->name), " is ", b.to_string());
    }
    for (Blob* output : outputs) set_output(*output, Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    gather(pass, inputs, is_joint() ? 4 : 2);
    ensure(context, partial_, Shape{2}, DType::f64);
    if (comparable()) {
      ensure(context, picks_, Shape{std::max(samples(0), samples(1)), 4}, DType::i32);
      ops::draw_rows(context, random_key(pass), samples(0), samples(1), picks_);
      for (std::size_t side = 0; side < (is_joint() ? 2 : 1); ++side) compare(context, side);
      ops::mean_discrepancy(context, sides_[0].values, sides_[1].values, partial_);
    } else {
      ops::fill(context, partial_, 0);
    }
    for (Blob* output : outputs) write_share(pass, *output);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    for (std::size_t i = 0; i < 4 && i < inputs.size(); ++i) {
      if (!propagate[i]) continue;
      const Tensor& grad_loss = outputs[i < 2 ? 0 : outputs.size() - 1]->grad;
      if (comparable() && grad_loss.defined())
        write_gradient(pass, i, *inputs[i], [&](Tensor& dx) { find_gradient(context, i, grad_loss, dx); });
      else
        ops::fill(context, inputs[i]->grad, 0);
    }
  }

 private:
  /// The kernels of samples, or of their probabilities, for each pair that is compared.
  struct Side {
    ops::GaussianKernels kernels;
    bool by_distance = false;  ///< the middle width is the mean squared distance
    Tensor squares, values, slopes, deviations, deviation;
  };

  bool is_joint() const { return type() == "JMMDLoss"; }
  const caffe::MMDParameter& plain() const { return parameter_.mmd_param(); }
  const caffe::JMMDParameter& joint() const { return parameter_.jmmd_param(); }
  std::int64_t count() const { return is_joint() ? joint().kernel_num() : plain().kernel_num(); }
  double ratio() const { return is_joint() ? joint().kernel_mul() : plain().kernel_mul(); }
  /// The middle kernel's factor over that of the first.
  static double middle(double ratio, std::int64_t count) {
    return std::pow(ratio, static_cast<double>(count / 2));
  }
  void check_kernels(const char* number, std::int64_t count, const char* factor, double ratio) const {
    if (count < 1 || count > 100) refuse(number, " must be 1 to 100; found ", count);
    if (!(ratio > 0) || !std::isfinite(ratio)) refuse(factor, " must be positive; found ", ratio);
  }

  bool comparable() const { return samples(0) > 1 && samples(1) > 1; }

  void compare(Context& context, std::size_t which) {
    Side& side = sides_[which];
    const Tensor &a = whole(2 * which), &b = whole(2 * which + 1);
    for (Tensor* tensor : {&side.squares, &side.values, &side.slopes})
      ensure(context, *tensor, picks_.shape(), DType::f64);
    ops::picked_distances(context, a, b, picks_, side.squares);
    if (side.by_distance) {
      side.kernels.rows = samples(0) + samples(1);
      ensure(context, side.deviations, Shape{a.shape().count(1)}, DType::f64);
      ensure(context, side.deviation, Shape{1}, DType::f64);
      ops::column_deviations(context, a, b, side.deviations);
      ops::sum(context, side.deviations, side.deviation);
    }
    ops::gaussian_kernels(context, side.squares, side.kernels, side.deviation, side.values, side.slopes);
  }

  /// That of input i: a matrix times its own samples, and one times those of the other domain.
  void find_gradient(Context& context, std::size_t i, const Tensor& grad_loss, Tensor& dx) {
    if (dx.count() == 0) return;
    const std::size_t other = i % 2 == 0 ? i + 1 : i - 1;
    const std::int64_t sources = samples(0), rows = samples(i), others = samples(other);
    const std::int64_t length = dx.count() / rows;
    const std::int64_t first = i % 2 == 0 ? 0 : sources, first_other = sources - first;
    const Side &mine = sides_[i / 2], &factor = sides_[1 - i / 2];
    ensure(context, matrix_, Shape{rows, rows}, dx.dtype());
    ops::discrepancy_matrix(context, picks_, mine.slopes, factor.values, grad_loss,
                            {sources, first, rows, first, rows}, matrix_);
    ops::gemm(context, {false, false, rows, length, rows}, 1, matrix_, whole(i), 0, dx);
    ensure(context, matrix_, Shape{rows, others}, dx.dtype());
    ops::discrepancy_matrix(context, picks_, mine.slopes, factor.values, grad_loss,
                            {sources, first, rows, first_other, others}, matrix_);
    ops::gemm(context, {false, false, rows, length, others}, 1, matrix_, whole(other), 1, dx);
  }

  Side sides_[2];
  Tensor picks_, matrix_;
};

const RegisterLayer<DiscrepancyLossLayer> registered_mmd_loss(
    "MMDLoss", {.about = "how far two sets of samples differ in their distribution (Long et al. 2015)",
                .message = "mmd_param",
                .examples = {"", "kernel_num: 2 kernel_mul: 3"},
                .inputs = {{4}, {4}}});
const RegisterLayer<DiscrepancyLossLayer> registered_jmmd_loss(
    "JMMDLoss",
    {.about = "how far two sets of samples and their probabilities differ (Long et al. 2017)",
     .message = "jmmd_param",
     .examples = {"label_kernel_mode: PROB_RBF sigma: 1.3 label_kernel_num: 1 label_back_propagate: true"},
     .inputs = {{4}, {4}, {3}, {3}}});

}  // namespace
}  // namespace banyan
