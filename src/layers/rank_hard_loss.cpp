// RankHardLoss (Wang, Gupta 2015; as in xiaolonw/caffe-video_triplet): features x (N x ...), labels (N). The
// first two samples of every pair_size ones are a pair, i and p = i + 1. With d(a, b) = -a . b, candidates
// are the samples j of another label than i's with d(i, p) - d(i, j) + margin > 0. At most neg_num of them
// all count, of more a draw: neg_num * hard_ratio of the neg_num nearest to i, and neg_num * rand_ratio of
// those that are left. Loss:
//   sum over i and its j of max(0, d(i, p) - d(i, j) + margin) + max(0, d(i, p) - d(p, j) + margin)
// by 2 neg_num N / pair_size. Every device compares the whole batch, so N devices equal one.
#include "weighed_samples_loss.hpp"

namespace banyan {
namespace {

class RankHardLossLayer : public WeighedSamplesLossLayer {
 public:
  using WeighedSamplesLossLayer::WeighedSamplesLossLayer;

  void read_settings() override {
    if (settings().pair_size() < 2)
      refuse("pair_size must be at least 2: a pair is a sample and the next one; found ",
             settings().pair_size());
    if (settings().neg_num() < 1) refuse("neg_num must be positive; found 0");
    for (const auto& [field, ratio] :
         {std::pair{"hard_ratio", settings().hard_ratio()}, std::pair{"rand_ratio", settings().rand_ratio()}})
      if (!(ratio >= 0) || !std::isfinite(ratio)) refuse(field, " must be a number >= 0; found ", ratio);
    if (!std::isfinite(settings().margin())) refuse("margin must be finite; found ", settings().margin());
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    gather(pass, inputs, 2);
    const std::int64_t total = samples(0);
    const Batch batch{values_of(context, whole(1)).values, products_of(context)};
    std::vector<double> weights(batch.products.size(), 0);
    double loss = 0;
    for (std::int64_t i = 0; i + 1 < total; i += settings().pair_size())
      loss += add_pair(pass, batch, i, weights);
    const std::int64_t pairs = std::int64_t{settings().neg_num()} * total / settings().pair_size();
    finish(pass, *outputs[0], loss, std::move(weights), batch.products, 2 * static_cast<double>(pairs));
  }

 private:
  struct Batch {
    std::vector<double> labels, products;  ///< products: x_a . x_b of all samples
  };

  const caffe::RankParameter& settings() const { return parameter_.rank_param(); }

  std::vector<double> products_of(Context& context) {
    const Tensor& all = whole(0);
    const std::int64_t total = samples(0);
    if (all.count() == 0) return std::vector<double>(static_cast<std::size_t>(total * total), 0);
    ensure(context, products_, Shape{total, total}, dtype());
    ops::gemm(context, {false, true, total, total, all.count() / total}, 1, all, all, 0, products_);
    return values_of(context, products_).values;
  }

  /// Pair i's loss; adds to the weights of the products that it consists of, both of (a, b) and (b, a).
  double add_pair(const Pass& pass, const Batch& batch, std::int64_t i, std::vector<double>& weights) const {
    const std::int64_t total = std::ssize(batch.labels), p = i + 1;
    const auto add = [&](std::int64_t a, std::int64_t b, double weight) {
      weights[a * total + b] += weight;
      weights[b * total + a] += weight;
    };
    double sum = 0;
    for (const std::int64_t j : chosen(pass, batch, i))
      for (const std::int64_t from : {i, p}) {
        const double loss =
            batch.products[from * total + j] - batch.products[i * total + p] + settings().margin();
        if (!(loss > 0)) continue;
        sum += loss;
        add(from, j, 1);
        add(i, p, -1);
      }
    return sum;
  }

  std::vector<std::int64_t> chosen(const Pass& pass, const Batch& batch, std::int64_t i) const {
    const std::int64_t total = std::ssize(batch.labels);
    const double* const of_i = batch.products.data() + i * total;
    std::vector<std::int64_t> found;
    for (std::int64_t j = 0; j < total; ++j)
      if (batch.labels[j] != batch.labels[i] && of_i[j] - of_i[i + 1] + settings().margin() > 0)
        found.push_back(j);
    const std::int64_t most = settings().neg_num();
    if (std::ssize(found) <= most) return found;
    std::stable_sort(found.begin(), found.end(),
                     [&](std::int64_t a, std::int64_t b) { return of_i[a] > of_i[b]; });
    const auto part = [&](float ratio) {
      return static_cast<std::int64_t>(std::min(static_cast<float>(most) * ratio, float{1 << 30}));
    };
    const std::int64_t hard = std::min(part(settings().hard_ratio()), most);
    const std::int64_t random = std::min(part(settings().rand_ratio()), std::ssize(found) - hard);
    const ops::RandomKey key{pass.seed, ops::stream_of(name().c_str()),
                             static_cast<std::uint64_t>(pass.draw)};
    // Draws move to the front: from the nearest first, then from all that are left.
    for (std::int64_t k = 0; k < hard + random; ++k) {
      const std::int64_t end = k < hard ? most : std::ssize(found);
      const ops::Philox4 bits = ops::philox(
          key.key(), key.iteration, static_cast<std::uint64_t>(i) << 32 | static_cast<std::uint64_t>(k));
      std::swap(found[k], found[k + bits.v[0] % static_cast<std::uint64_t>(end - k)]);
    }
    found.resize(hard + random);
    return found;
  }

  Tensor products_;
};

const RegisterLayer<RankHardLossLayer> registered_rank_hard_loss(
    "RankHardLoss",
    {.about = "pulls pairs together, away from near samples of other labels (Wang, Gupta 2015)",
     .message = "rank_param",
     .examples = {"pair_size: 2 neg_num: 3 hard_ratio: 0.5 rand_ratio: 0.5"}});

}  // namespace
}  // namespace banyan
