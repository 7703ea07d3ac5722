#include "banyan/train/learning_rate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "banyan/base/error.hpp"

namespace banyan {
namespace {

using testing::HasSubstr;

// Rates are computed in double from settings stored as float: 0.1f differs from 0.1 by 1.5e-9.
constexpr double kFloatSettings = 1e-7;

caffe::SolverParameter solver_with(const std::string& policy) {
  caffe::SolverParameter solver;
  solver.set_net("net.prototxt");
  solver.set_lr_policy(policy);
  solver.set_base_lr(0.1F);
  solver.set_gamma(0.5F);
  solver.set_power(2);
  solver.set_stepsize(10);
  solver.set_max_iter(100);
  return solver;
}

LearningRate rate_of(const caffe::SolverParameter& solver, double scale = 1) {
  return LearningRate(solver_settings(solver, "made.prototxt"), scale, false);
}
double rate_at(const caffe::SolverParameter& solver, std::int64_t iteration) {
  return rate_of(solver).rate(iteration);
}

template <class Body>
std::string rate_refusal(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

TEST(LearningRate, ClosedFormsOfThePolicies) {
  EXPECT_NEAR(rate_at(solver_with("fixed"), 77), 0.1, kFloatSettings);
  EXPECT_NEAR(rate_at(solver_with("step"), 9), 0.1, kFloatSettings);
  EXPECT_NEAR(rate_at(solver_with("step"), 10), 0.05, kFloatSettings);
  EXPECT_NEAR(rate_at(solver_with("step"), 25), 0.025, kFloatSettings);
  EXPECT_NEAR(rate_at(solver_with("exp"), 3), 0.1 / 8, kFloatSettings);
  EXPECT_NEAR(rate_at(solver_with("inv"), 2), 0.1 / 4, kFloatSettings);
  EXPECT_NEAR(rate_at(solver_with("poly"), 50), 0.1 / 4, kFloatSettings);
  EXPECT_NEAR(rate_at(solver_with("sigmoid"), 10), 0.05, kFloatSettings);
  EXPECT_NEAR(rate_at(solver_with("sigmoid"), 12), 0.1 / (1 + std::exp(-1.0)), kFloatSettings);
  EXPECT_NEAR(rate_at(solver_with("exp10"), 20), 0.001, kFloatSettings);
  EXPECT_NEAR(rate_at(solver_with("cosine"), 0), 0.1, kFloatSettings);
  EXPECT_NEAR(rate_at(solver_with("cosine"), 50), 0.05, kFloatSettings);
  EXPECT_NEAR(rate_at(solver_with("cosine"), 100), 0, kFloatSettings);
}

TEST(LearningRate, ClassicLenetValues) {
  auto solver = solver_with("inv");
  solver.set_base_lr(0.01F);
  solver.set_gamma(0.0001F);
  solver.set_power(0.75F);
  // The values in Caffe's log of its LeNet example, to its 6 digits.
  EXPECT_NEAR(rate_at(solver, 100), 0.00992565, 5e-9);
  EXPECT_NEAR(rate_at(solver, 9900), 0.00596843, 5e-9);
}

TEST(LearningRate, UnsetGammaAndPowerActAsZero) {
  auto solver = solver_with("poly");
  solver.clear_power();
  EXPECT_NEAR(rate_at(solver, 60), 0.1, kFloatSettings);
  solver = solver_with("step");
  solver.clear_gamma();
  EXPECT_NEAR(rate_at(solver, 0), 0.1, kFloatSettings);
  EXPECT_EQ(rate_at(solver, 10), 0);
}

TEST(LearningRate, MinimumRate) {
  auto solver = solver_with("poly");
  solver.set_min_lr(0.02F);
  EXPECT_NEAR(rate_at(solver, 50), 0.08 / 4 + 0.02, kFloatSettings);
  EXPECT_NEAR(rate_at(solver, 100), 0.02, kFloatSettings);
  EXPECT_NEAR(rate_at(solver, 150), 0.02, kFloatSettings);
  solver.set_lr_policy("cosine");
  EXPECT_NEAR(rate_at(solver, 100), 0.02, kFloatSettings);
}

TEST(LearningRate, MultistepTakesOneStepPerIteration) {
  auto solver = solver_with("multistep");
  for (int value : {3, 3, 6}) solver.add_stepvalue(value);
  LearningRate rate = rate_of(solver);
  const double expected[] = {1, 1, 1, 0.5, 0.25, 0.25, 0.125, 0.125};
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(rate.rate(i), 0.1 * expected[i], kFloatSettings) << i;
  EXPECT_EQ(rate.current_step(), 3);
}

TEST(LearningRate, CurrentStepSurvivesASnapshot) {
  auto solver = solver_with("multistep");
  solver.add_stepvalue(3);
  LearningRate before = rate_of(solver);
  for (int i = 0; i < 5; ++i) before.rate(i);
  caffe::SolverState state;
  before.save(state);
  EXPECT_EQ(state.current_step(), 1);
  LearningRate after = rate_of(solver);
  after.restore(state);
  EXPECT_EQ(after.rate(5), before.rate(5));
}

/// As Caffe saves it, though only multistep reads it again.
TEST(LearningRate, StepsAreSaved) {
  auto solver = solver_with("step");
  solver.set_stepsize(3);
  LearningRate rate = rate_of(solver);
  for (int i = 0; i < 8; ++i) rate.rate(i);
  caffe::SolverState state;
  rate.save(state);
  EXPECT_EQ(state.current_step(), 2);
}

TEST(LearningRate, PlateauStepsWithoutNewMinimum) {
  auto solver = solver_with("plateau");
  solver.add_plateau_winsize(3);
  solver.add_plateau_winsize(2);
  const double losses[] = {5, 4, 4.5, 4.5, 4.5, 4.5, 4.5, 4.5, 4.5};
  const double expected[] = {1, 1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25};  // minimum at 1, steps at 4 and 6
  LearningRate whole = rate_of(solver), first = rate_of(solver), second = rate_of(solver);
  for (int i = 0; i < 9; ++i) {
    whole.note_loss(i, losses[i]);
    const double rate = whole.rate(i);
    EXPECT_NEAR(rate, 0.1 * expected[i], kFloatSettings) << i;
    LearningRate& part = i < 5 ? first : second;
    if (i == 5) {
      caffe::SolverState state;
      first.save(state);
      second.restore(state);
    }
    part.note_loss(i, losses[i]);
    EXPECT_EQ(part.rate(i), rate) << i;
  }
}

TEST(LearningRate, Multifixed) {
  auto solver = solver_with("multifixed");
  for (float rate : {0.5F, 0.25F}) solver.add_stagelr(rate);
  for (int end : {10, 20}) solver.add_stageiter(end);
  EXPECT_EQ(rate_at(solver, 10), 0.5);
  EXPECT_EQ(rate_at(solver, 11), 0.25);
  EXPECT_EQ(rate_at(solver, 99), 0.25);
}

TEST(LearningRate, Triangular) {
  for (const bool halves : {false, true}) {
    auto solver = solver_with(halves ? "triangular2" : "triangular");
    solver.set_stepsize(10);
    solver.set_max_lr(0.5F);
    solver.set_start_lr_policy(3);
    for (const int i : {0, 3, 23, 43}) EXPECT_NEAR(rate_at(solver, i), 0.1, kFloatSettings) << i;
    EXPECT_NEAR(rate_at(solver, 8), 0.3, kFloatSettings);
    EXPECT_NEAR(rate_at(solver, 13), 0.5, kFloatSettings);
    EXPECT_NEAR(rate_at(solver, 18), 0.3, kFloatSettings);
    EXPECT_NEAR(rate_at(solver, 33), halves ? 0.3 : 0.5, kFloatSettings);
    EXPECT_NEAR(rate_at(solver, 53), halves ? 0.2 : 0.5, kFloatSettings);
    EXPECT_NEAR(LearningRate(rate_of(solver, 4)).rate(13), 2, kFloatSettings);
  }
}

TEST(LearningRate, LinearWarmUpDoesNotShiftTheSchedule) {
  auto solver = solver_with("step");
  solver.set_warmup_iter(20);
  solver.set_warmup_start_lr(0.02F);
  EXPECT_NEAR(rate_at(solver, 0), 0.02, kFloatSettings);
  EXPECT_NEAR(rate_at(solver, 5), 0.04, kFloatSettings);
  EXPECT_NEAR(rate_at(solver, 19), 0.02 + 0.08 * 19 / 20, kFloatSettings);
  EXPECT_NEAR(rate_at(solver, 20), 0.025, kFloatSettings);
}

TEST(LearningRate, QuadraticRampUp) {
  auto solver = solver_with("fixed");
  solver.set_rampup_interval(10);
  EXPECT_EQ(rate_at(solver, 0), 0);
  EXPECT_NEAR(rate_at(solver, 5), 0.1 / 4, kFloatSettings);
  EXPECT_NEAR(rate_at(solver, 10), 0.1, kFloatSettings);
}

TEST(LearningRate, ScaleGoesToTheTargetOfTheWarmUp) {
  auto solver = solver_with("fixed");
  solver.set_warmup_iter(10);
  solver.set_warmup_start_lr(0.1F);
  LearningRate rate = rate_of(solver, 4);
  EXPECT_NEAR(rate.rate(0), 0.1, kFloatSettings);
  EXPECT_NEAR(rate.rate(5), 0.25, kFloatSettings);
  EXPECT_NEAR(rate.rate(10), 0.4, kFloatSettings);
}

TEST(LearningRate, LinearScalingRule) {
  const auto scale = [](const caffe::SolverParameter& solver, std::int64_t batch) {
    return learning_rate_scale(solver_settings(solver, "made.prototxt"), 8, batch);
  };
  auto solver = solver_with("fixed");
  EXPECT_EQ(scale(solver, 16), 1);
  solver.set_lr_scaling(caffe::SolverParameter::LINEAR);
  EXPECT_THAT(rate_refusal([&] { scale(solver, 16); }), HasSubstr("base_batch_size"));
  solver.set_base_batch_size(64);
  solver.set_iter_size(2);
  EXPECT_EQ(scale(solver, 16), 4);
  EXPECT_THAT(rate_refusal([&] { scale(solver, 0); }), HasSubstr("how many samples a batch has"));
}

TEST(LearningRate, MomentumPolicies) {
  UpdateSettings update;
  update.momentum = 0.5;
  EXPECT_EQ(momentum_at(update, 7, 10, 0.04), 0.5);
  update.momentum_policy = MomentumPolicy::poly;
  update.max_momentum = 0.9;
  update.momentum_power = 2;
  EXPECT_EQ(momentum_at(update, 0, 10, 0.04), 0.5);
  EXPECT_DOUBLE_EQ(momentum_at(update, 5, 10, 0.04), 0.5 + 0.4 * 0.25);
  EXPECT_DOUBLE_EQ(momentum_at(update, 12, 10, 0.04), 0.9);
  update.momentum_policy = MomentumPolicy::opt;
  EXPECT_DOUBLE_EQ(momentum_at(update, 5, 10, 0.04), 0.81);  // (1 - 0.2 / 2)^2
  EXPECT_DOUBLE_EQ(momentum_at(update, 5, 10, 1e-6), 0.9);
  update.max_momentum.reset();
  EXPECT_NEAR(momentum_at(update, 5, 10, 1e-6), 0.999, 1e-5);
}

TEST(LearningRate, WeightDecayPolicies) {
  UpdateSettings update;
  update.weight_decay = 0.001;
  update.max_weight_decay = 0.005;
  EXPECT_EQ(weight_decay_at(update, 5, 10), 0.001);
  update.weight_decay_grows = true;
  EXPECT_DOUBLE_EQ(weight_decay_at(update, 5, 10), 0.003);
  update.weight_decay_power = 3;
  EXPECT_DOUBLE_EQ(weight_decay_at(update, 5, 10), 0.0015);
  EXPECT_DOUBLE_EQ(weight_decay_at(update, 10, 10), 0.005);
}

TEST(LearningRate, RefusesWhatItCannotCompute) {
  EXPECT_THAT(rate_refusal([] { rate_at(solver_with("Step"), 0); }), HasSubstr("did you mean \"step\"?"));
  EXPECT_THAT(rate_refusal([] { rate_at(solver_with(""), 0); }), HasSubstr("lr_policy is missing"));
  auto solver = solver_with("step");
  solver.clear_stepsize();
  EXPECT_THAT(rate_refusal([&] { rate_at(solver, 0); }), HasSubstr("stepsize > 0"));
  solver = solver_with("fixed");
  solver.clear_base_lr();
  EXPECT_THAT(rate_refusal([&] { rate_at(solver, 0); }), HasSubstr("base_lr is missing"));
  solver = solver_with("cosine");
  solver.set_max_iter(0);
  EXPECT_THAT(rate_refusal([&] { rate_at(solver, 0); }), HasSubstr("max_iter > 0"));
  solver = solver_with("fixed");
  solver.set_warmup_iter(5);
  solver.set_rampup_interval(5);
  EXPECT_THAT(rate_refusal([&] { rate_at(solver, 0); }), HasSubstr("exclude each other"));
  EXPECT_THAT(rate_refusal([] { rate_of(solver_with("fixed"), 0); }), HasSubstr("scale must be > 0"));
}

}  // namespace
}  // namespace banyan
