// LiftedStructSimilaritySoftmaxLoss (Song et al. 2016): features x (N x ...), labels (N). Of each two samples
// i and j of one label, with d the distance of samples, and k those of other labels:
//   J = d(i, j) + log(sum over k of exp(margin - d(i, k)) + exp(margin - d(j, k)))
// The loss is half the mean of max(0, J)^2 over all such pairs; a pair without a k has none, and where there
// are no pairs the loss is 0. Samples at one place have no gradient between them. Every device compares the
// whole batch, so N devices equal one.
#include "banyan/ops/distance_loss.hpp"
#include "weighed_samples_loss.hpp"

namespace banyan {
namespace {

class LiftedStructureLossLayer : public WeighedSamplesLossLayer {
 public:
  LiftedStructureLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : WeighedSamplesLossLayer(parameter, options),
        margin_(parameter.lifted_struct_sim_softmax_loss_param().margin()) {}

  void read_settings() override {
    if (!std::isfinite(margin_)) refuse("margin must be finite; found ", margin_);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    gather(pass, inputs, 2);
    const std::int64_t total = samples(0);
    Batch batch{values_of(context, whole(1)).values, distances(context), {}};
    batch.others = others(batch);
    std::vector<double> weights(batch.distances.size(), 0);
    double loss = 0, pairs = 0;
    for (std::int64_t i = 0; i < total; ++i)
      for (std::int64_t j = i + 1; j < total; ++j) {
        if (batch.labels[i] != batch.labels[j]) continue;
        loss += add_pair(batch, i, j, weights);
        pairs += 1;
      }
    for (std::int64_t i = 0; i < total; ++i)
      for (std::int64_t k = 0; k < total; ++k)
        if (const Others& of = batch.others[i]; of.slope > 0 && batch.labels[k] != batch.labels[i])
          add_weight(batch, i, k, -of.slope * std::exp(of.nearest - batch.distances[i * total + k]), weights);
    finish(pass, *outputs[0], loss / 2, std::move(weights), batch.distances, pairs);
  }

 private:
  /// Of a sample, the distances d of those of other labels.
  struct Others {
    double nearest = std::numeric_limits<double>::infinity();
    double sum = 0;    ///< of exp(nearest - d)
    double slope = 0;  ///< how fast half the squares of all J grow with -d, over exp(nearest - d)
  };
  struct Batch {
    std::vector<double> labels, distances;  ///< distances: of all samples
    std::vector<Others> others;
  };

  std::vector<double> distances(Context& context) {
    const Tensor& all = whole(0);
    const std::int64_t total = samples(0);
    if (all.count() == 0) return std::vector<double>(static_cast<std::size_t>(total * total), 0);
    ensure(context, squares_, Shape{total, total}, dtype());
    ops::distances_to_rows(context, all, all, false, all.count() / total, squares_);
    std::vector<double> found = values_of(context, squares_).values;
    for (double& value : found) value = std::sqrt(value);
    return found;
  }

  static std::vector<Others> others(const Batch& batch) {
    const std::int64_t total = std::ssize(batch.labels);
    std::vector<Others> found(batch.labels.size());
    for (std::int64_t i = 0; i < total; ++i) {
      const auto for_others = [&](const auto& body) {
        for (std::int64_t k = 0; k < total; ++k)
          if (batch.labels[k] != batch.labels[i]) body(batch.distances[i * total + k]);
      };
      Others& of = found[i];
      for_others([&](double distance) { of.nearest = std::min(of.nearest, distance); });
      for_others([&](double distance) { of.sum += std::exp(of.nearest - distance); });
    }
    return found;
  }

  /// The square of max(0, J); adds half of its slopes to the weights and to what the others have.
  double add_pair(Batch& batch, std::int64_t i, std::int64_t j, std::vector<double>& weights) const {
    Others &first = batch.others[i], &second = batch.others[j];
    const double nearest = std::min(first.nearest, second.nearest);
    if (!std::isfinite(nearest)) return 0;
    const double of_first = std::exp(nearest - first.nearest), of_second = std::exp(nearest - second.nearest);
    const double sum = of_first * first.sum + of_second * second.sum;
    const double value =
        batch.distances[i * std::ssize(batch.labels) + j] + margin_ - nearest + std::log(sum);
    if (!(value > 0)) return 0;
    add_weight(batch, i, j, value, weights);
    first.slope += value * of_first / sum;
    second.slope += value * of_second / sum;
    return value * value;
  }

  /// Of a slope in the distance of a and b.
  static void add_weight(const Batch& batch, std::int64_t a, std::int64_t b, double slope,
                         std::vector<double>& weights) {
    const std::int64_t total = std::ssize(batch.labels);
    const double distance = batch.distances[a * total + b];
    if (!(distance > 0)) return;
    const double weight = slope / distance;
    weights[a * total + a] += weight;
    weights[b * total + b] += weight;
    weights[a * total + b] -= weight;
    weights[b * total + a] -= weight;
  }

  double margin_;
  Tensor squares_;
};

const RegisterLayer<LiftedStructureLossLayer> registered_lifted_structure_loss(
    "LiftedStructSimilaritySoftmaxLoss",
    {.about = "pulls samples of a label together, away from all others (Song et al. 2016)",
     .message = "lifted_struct_sim_softmax_loss_param",
     .examples = {"", "margin: 2"}});

}  // namespace
}  // namespace banyan
