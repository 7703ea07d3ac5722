// MalisLoss (Turaga et al. 2009, as in BVLC's opencl branch): how well affinities, weights of the edges
// between pixels, keep the parts of an image apart.
//
// Inputs: predicted and true affinities (N, E, (Z, Y,) X), of E edges from each pixel; the number of the part
// that each pixel belongs to, 0 for none (N, 1, ...), or with two channels the numbers for negative pairs,
// then those for positive ones; and perhaps the edges (E, 3): steps along Z, Y and X. Without these they are
// the steps of 1 along the last E of the axes.
//
// A pair of pixels is as near as the least weight on the path between them whose least weight is the largest,
// w; that edge is the pair's. Loss of a sample:
//
//   1/2 mean of (1 - w)^2 over pairs of one part, the weights being min(predicted, true)
//   + 1/2 mean of w^2 over pairs of two parts, the weights being max(predicted, true)
//
// of which the layer gives the mean over the batch. Kruskal's algorithm finds the pairs of each edge, on the
// host: edges join sets of pixels in the order of their weights.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "banyan/layers/loss.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"
#include "banyan/tensor/values.hpp"

namespace banyan {
namespace {

using Steps = std::array<std::int64_t, 3>;  ///< along Z, Y and X

/// Sets of pixels, and how many of each part are in them.
class PixelSets {
 public:
  explicit PixelSets(const double* parts, std::int64_t pixels)
      : parents_(static_cast<std::size_t>(pixels)), numbered_(parents_.size()), counts_(parents_.size()) {
    std::iota(parents_.begin(), parents_.end(), std::int64_t{0});
    for (std::size_t i = 0; i < counts_.size(); ++i)
      if (parts[i] != 0) numbered_[i] = 1, counts_[i].emplace(parts[i], 1);
  }

  std::int64_t find(std::int64_t pixel) {
    while (parents_[pixel] != pixel) pixel = parents_[pixel] = parents_[parents_[pixel]];
    return pixel;
  }
  struct Pairs {
    std::int64_t same, others;  ///< of pixels of one part, of two
  };
  /// Of one pixel in each of the two sets, which become one.
  Pairs join(std::int64_t a, std::int64_t b) {
    if (counts_[a].size() < counts_[b].size()) std::swap(a, b);
    Pairs pairs{0, numbered_[a] * numbered_[b]};
    numbered_[a] += numbered_[b];
    for (const auto& [part, count] : counts_[b]) {
      std::int64_t& together = counts_[a][part];
      pairs.same += together * count;
      together += count;
    }
    pairs.others -= pairs.same;
    counts_[b].clear();
    parents_[b] = a;
    return pairs;
  }

 private:
  std::vector<std::int64_t> parents_;
  std::vector<std::int64_t> numbered_;  ///< pixels that belong to a part
  std::vector<std::map<double, std::int64_t>> counts_;
};

class MalisLossLayer : public LossLayer {
 public:
  MalisLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : LossLayer(parameter, options,
                  {.arity = {3, 4, 1, 1},
                   .backward_reads_inputs = false,
                   .backward_reads_outputs = false,
                   .differentiable_inputs = 1,
                   .label_input = 2,
                   .meets = Meets::forward}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &predicted = inputs[0]->shape, &parts = inputs[2]->shape;
    if (predicted.axes() < 3 || predicted.axes() > 5)
      refuse("the affinities ", quoted(inputs[0]->name), " are ", predicted.to_string(),
             "; expected 3 to 5 axes: N, edges and pixels");
    if (inputs[1]->shape != predicted)
      refuse("the true affinities ", quoted(inputs[1]->name), " are ", inputs[1]->shape.to_string(),
             "; expected ", predicted.to_string(), ", as ", quoted(inputs[0]->name), " is");
    if (parts.axes() < 3 || parts[0] != predicted[0] || parts[1] < 1 || parts[1] > 2 ||
        !std::equal(parts.dims().begin() + 2, parts.dims().end(), predicted.dims().begin() + 2,
                    predicted.dims().end()))
      refuse("the parts ", quoted(inputs[2]->name), " are ", parts.to_string(),
             "; expected one channel, or two, with the pixels of ", predicted.to_string());
    const std::int64_t edges = predicted[1];
    if (inputs.size() == 4 && (inputs[3]->shape.count() != 3 * edges || inputs[3]->shape.dim(-1) != 3))
      refuse("the edges ", quoted(inputs[3]->name), " are ", inputs[3]->shape.to_string(), "; expected ",
             edges, " x 3: steps along Z, Y and X");
    if (inputs.size() == 3 && (edges < 1 || edges > 3))
      refuse("without a list of edges there are 1 to 3; ", quoted(inputs[0]->name), " has ", edges);
    for (int axis = 0; axis < 3; ++axis) {
      const int own = predicted.axes() - 3 + axis;
      lengths_[axis] = own >= 2 ? predicted[own] : 1;
    }
    set_output(*outputs[0], Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Shape& shape = inputs[0]->shape;
    ensure(context, partial_, Shape{2}, DType::f64);
    ensure(context, slopes_, shape, dtype());
    double loss = 0;
    if (shape.count() > 0) {
      const EdgeSteps steps = read_steps(context, inputs);
      const std::vector<double> predicted = values_of(context, inputs[0]->data).values,
                                targets = values_of(context, inputs[1]->data).values,
                                parts = values_of(context, inputs[2]->data).values;
      std::vector<double> slopes(predicted.size(), 0);
      const std::int64_t pixels = shape.count(2), each = shape.count(1), maps = inputs[2]->shape[1];
      for (std::int64_t n = 0; n < shape[0]; ++n)
        for (const bool positive : {false, true}) {
          const double* const own = parts.data() + (n * maps + (positive ? maps - 1 : 0)) * pixels;
          const Sample sample{predicted.data() + n * each, targets.data() + n * each, own, positive};
          loss += add_sample(sample, steps, slopes.data() + n * each);
        }
      set_values(context, slopes, slopes_);
    }
    set_values(context, {loss, 0}, partial_);
    find_divisor(pass, Normalization::batch_size, shape[0], shape[0]);
    write_loss(pass, *outputs[0]);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0] || inputs[0]->shape.count() == 0) return;
    Tensor& dx = inputs[0]->grad;
    ops::scale_bias(*pass.context, slopes_, exact_scale(pass, *outputs[0]), none_, {1, 1, dx.count()}, {},
                    dx);
  }

 private:
  using EdgeSteps = std::vector<Steps>;
  struct Sample {
    const double *predicted, *targets, *parts;
    bool positive;
  };

  EdgeSteps read_steps(Context& context, const Blobs& inputs) const {
    const std::int64_t edges = inputs[0]->shape[1];
    EdgeSteps steps(static_cast<std::size_t>(edges), Steps{});
    if (inputs.size() < 4) {
      for (std::int64_t edge = 0; edge < edges; ++edge) steps[edge][3 - edges + edge] = 1;
      return steps;
    }
    const std::vector<double> list = values_of(context, inputs[3]->data).values;
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!(std::abs(list[i]) <= 1e9) || list[i] != std::trunc(list[i]))
        refuse("a step of an edge must be a whole number; found ", list[i]);
      steps[i / 3][i % 3] = static_cast<std::int64_t>(list[i]);
    }
    return steps;
  }

  /// Half the mean over the sample's pairs of one kind; adds its slopes.
  double add_sample(const Sample& sample, const EdgeSteps& steps, double* slopes) const {
    const std::int64_t pixels = lengths_[0] * lengths_[1] * lengths_[2];
    const auto edges = static_cast<std::int64_t>(steps.size()) * pixels;
    std::vector<double> weights(static_cast<std::size_t>(edges));
    bool finite =
        std::all_of(sample.parts, sample.parts + pixels, [](double part) { return std::isfinite(part); });
    for (std::int64_t edge = 0; edge < edges; ++edge) {
      const double a = sample.predicted[edge], b = sample.targets[edge];
      finite = finite && std::isfinite(a) && std::isfinite(b);
      weights[edge] = sample.positive ? std::min(a, b) : std::max(a, b);
    }
    const double wanted = static_cast<double>(count_pairs(sample.parts, pixels, sample.positive));
    if (!finite) {
      std::fill_n(slopes, edges, std::numeric_limits<double>::quiet_NaN());
      return std::numeric_limits<double>::quiet_NaN();
    }
    if (wanted == 0) return 0;
    PixelSets sets(sample.parts, pixels);
    double sum = 0;
    for (const std::int64_t edge : in_order(weights, steps)) {
      const std::int64_t from = edge % pixels;
      const std::int64_t a = sets.find(from), b = sets.find(from + offset(steps[edge / pixels]));
      if (a == b) continue;
      const PixelSets::Pairs pairs = sets.join(a, b);
      const double share = static_cast<double>(sample.positive ? pairs.same : pairs.others) / wanted;
      const double far = sample.positive ? weights[edge] - 1 : weights[edge];
      sum += far * far * share / 2;
      if (weights[edge] == sample.predicted[edge]) slopes[edge] += far * share;
    }
    return sum;
  }

  /// Edges within the image, the largest weight first.
  std::vector<std::int64_t> in_order(const std::vector<double>& weights, const EdgeSteps& steps) const {
    std::vector<std::int64_t> order;
    std::int64_t edge = 0;
    for (const Steps& step : steps)
      for (std::int64_t z = 0; z < lengths_[0]; ++z)
        for (std::int64_t y = 0; y < lengths_[1]; ++y)
          for (std::int64_t x = 0; x < lengths_[2]; ++x, ++edge) {
            const Steps to{z + step[0], y + step[1], x + step[2]};
            bool inside = true;
            for (int axis = 0; axis < 3; ++axis)
              inside = inside && to[axis] >= 0 && to[axis] < lengths_[axis];
            if (inside) order.push_back(edge);
          }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return weights[a] > weights[b]; });
    return order;
  }

  std::int64_t offset(const Steps& step) const {
    return (step[0] * lengths_[1] + step[1]) * lengths_[2] + step[2];
  }

  /// Of one part, or of two.
  static std::int64_t count_pairs(const double* parts, std::int64_t pixels, bool same) {
    std::map<double, std::int64_t> counts;
    std::int64_t numbered = 0, within = 0;
    for (std::int64_t i = 0; i < pixels; ++i) {
      if (parts[i] == 0 || !std::isfinite(parts[i])) continue;
      within += counts[parts[i]]++;
      ++numbered;
    }
    return same ? within : numbered * (numbered - 1) / 2 - within;
  }

  Steps lengths_{};
  Tensor slopes_, none_;
};

const RegisterLayer<MalisLossLayer> registered_malis_loss(
    "MalisLoss", {.about = "keeps parts apart by the affinities of pixels (BVLC's opencl branch)",
                  .message = "",
                  .inputs = {{2, 4, 5}, {2, 4, 5}, {1, 4, 5}}});

}  // namespace
}  // namespace banyan
