#include "banyan/train/updater.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "train/part_bench.hpp"

namespace banyan {
namespace {

/// Two steps of SGD with rate 0.5, momentum 0.5 and decay 0.25 x 2, for a weight of -4 whose gradient is 1.
/// All numbers have few bits: there is nothing to round.
std::vector<double> after_each_step(bool l1, bool decoupled, bool disabled = false) {
  PartBench bench;
  LearnableParameter parameter;
  parameter.offset = 0;
  parameter.count = 1;
  parameter.lr_mult = 1;
  parameter.decay_mult = 2;
  Tensor value = bench.scalar(-4);
  const Tensor gradient = bench.scalar(1);
  const std::vector<parallel::Bucket> buckets = {{0, 1, 0, 0}};
  const std::vector<LearnableParameter> parameters = {parameter};
  SolverSettings solver;
  solver.update.momentum = 0.5;
  solver.update.weight_decay = 0.25;
  solver.update.l1 = l1;
  solver.update.decoupled = decoupled;
  solver.update.disabled = disabled;
  Updater updater(bench.context, solver, parameters, buckets, 0, value, gradient);
  std::vector<double> values;
  for (int iteration = 0; iteration < 2; ++iteration) {
    updater.begin(bench.context, iteration, 0.5);
    updater.update(bench.context, 0);
    copy_to_host(bench.context, value, &values.emplace_back());
  }
  if (disabled) copy_to_host(bench.context, updater.histories_of_bucket(0)[0], &values.emplace_back());
  return values;
}

TEST(Updater, DecaysAsTheRegularizationSays) {
  // h = 0.5 (1 - 2), then 0.5 h + 0.5 (1 - 1.75)
  EXPECT_THAT(after_each_step(false, false), testing::ElementsAre(-3.5, -2.875));
  // h = 0.5 (1 - 0.5), then 0.5 h + 0.5 (1 - 0.5)
  EXPECT_THAT(after_each_step(true, false), testing::ElementsAre(-4.25, -4.625));
  // h = 0.5, then 0.5 h + 0.5; besides, a quarter of the weight
  EXPECT_THAT(after_each_step(false, true), testing::ElementsAre(-3.5, -3.375));
}

TEST(Updater, LeavesParametersAndHistoryWhereUpdatesAreDisabled) {
  for (const bool decoupled : {false, true})
    EXPECT_THAT(after_each_step(false, decoupled, true), testing::ElementsAre(-4, -4, 0));
}

/// Four steps by the formulas, the rate of each in plain numbers.
struct Turbo {
  bool sag;
  static constexpr double kEta = 0.5, kRate = 0.25, kMomentum = 0.75, kDecay = 0.0625;
  std::vector<double> w{3, 4, -1}, h{0, 0, 0};
  double c = 0;
  static double dot(const std::vector<double>& a, const std::vector<double>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  }
  /// Of gradient and history.
  double cosine(const std::vector<double>& g) const {
    const double norms = std::sqrt(dot(g, g) * dot(h, h));
    return norms > 0 ? dot(g, h) / norms : 0;
  }
  void step(int iteration, const std::vector<double>& g) {
    if (!sag || iteration >= 2) c = 0.95 * c + 0.05 * cosine(g);
    const double of = std::sqrt(sag ? dot(h, h) : dot(g, g)), norm = std::sqrt(dot(w, w));
    double local = of > 0 ? (sag ? 1 : 1 - kMomentum) * kEta * norm / of : 1;
    local = sag ? local * (1 - 0.9 * c) : local - 0.9 * c;
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double decayed = g[i] + kDecay * w[i];
      h[i] = kMomentum * h[i] + (sag ? 1 - kMomentum : kRate * local) * decayed;
      w[i] -= sag ? kRate * local * h[i] : h[i];
    }
  }
};

/// A quarter of each gradient counts (iter_size).
TEST(Updater, FollowsTheCosinesOfLarcTurbo) {
  const std::vector<std::vector<double>> gradients = {{1, 2, 2}, {2, 1, 2}, {-1, 3, 1}, {0, -2, 5}};
  for (const bool sag : {false, true}) {
    PartBench bench;
    LearnableParameter parameter;
    parameter.offset = 0;
    parameter.count = 3;
    Tensor value(*bench.device, Shape{3}, DType::f64), gradient(*bench.device, Shape{3}, DType::f64);
    Turbo expected{sag};
    set_values(bench.context, expected.w, value);
    parameter.value = value;
    SolverSettings solver;
    solver.iter_size = 4;
    solver.update.rule = sag ? ops::UpdateRule::sag : ops::UpdateRule::sgd;
    solver.update.momentum = Turbo::kMomentum;
    solver.update.weight_decay = Turbo::kDecay;
    solver.update.layer_wise = LayerWise::larc_scale;
    solver.update.layer_wise_eta = Turbo::kEta;
    solver.update.larc_turbo = true;
    const std::vector<LearnableParameter> parameters = {parameter};
    Updater updater(bench.context, solver, parameters, {{0, 3, 0, 0}}, 0, value, gradient);
    for (int iteration = 0; iteration < 4; ++iteration) {
      std::vector<double> four = gradients[static_cast<std::size_t>(iteration)];
      expected.step(iteration, four);
      for (double& each : four) each *= 4;
      set_values(bench.context, four, gradient);
      updater.begin(bench.context, iteration, Turbo::kRate);
      updater.update(bench.context, 0);
      const std::vector<double> found = values_of(bench.context, value).values;
      for (std::size_t i = 0; i < 3; ++i)  // a few roundings of numbers below 10
        EXPECT_NEAR(found[i], expected.w[i], 1e-14) << "SAG: " << sag << ", iteration " << iteration;
    }
    EXPECT_NE(expected.c, 0);
    std::vector<double> cosines{0};
    updater.save_cosines(bench.context, cosines);
    EXPECT_NEAR(cosines[0], expected.c, 1e-15);
    // What is restored goes on; a state without cosines begins at 0, one of another net is refused.
    caffe::SolverState state;
    for (auto& blob : prepare_history(parameters, solver.update.rule, DType::f64))
      *state.add_history() = blob;
    state.mutable_banyan()->add_larc_cosine(0.5);
    updater.restore(bench.context, state, "state");
    updater.save_cosines(bench.context, cosines);
    EXPECT_EQ(cosines[0], 0.5);
    state.mutable_banyan()->add_larc_cosine(0.5);
    EXPECT_THAT([&] { updater.restore(bench.context, state, "state"); },
                testing::ThrowsMessage<Error>(testing::HasSubstr(
                    "state: the solver state holds 2 cosines of larc_turbo, this net has 1 parameters")));
  }
}

/// From where the pass computed, not from where the weights are stored.
TEST(Updater, BeginsFromTheValuesThatThePassUsed) {
  for (const bool disabled : {false, true}) {
    PartBench bench;
    const Tensor used = bench.scalar(2);
    LearnableParameter parameter;
    parameter.offset = 0;
    parameter.count = 1;
    parameter.used = &used;
    Tensor value = bench.scalar(-4);
    SolverSettings solver;
    solver.update.weight_decay = 0.25;
    solver.update.disabled = disabled;
    const std::vector<parallel::Bucket> buckets = {{0, 1, 0, 0}};
    const std::vector<LearnableParameter> parameters = {parameter};
    Updater updater(bench.context, solver, parameters, buckets, 0, value, bench.scalar(1));
    updater.begin(bench.context, 0, 0.5);
    updater.update(bench.context, 0);
    double found = 0;
    copy_to_host(bench.context, value, &found);
    EXPECT_EQ(found, disabled ? -4 : 2 - 0.5 * (1 + 0.25 * 2));
  }
}

}  // namespace
}  // namespace banyan
