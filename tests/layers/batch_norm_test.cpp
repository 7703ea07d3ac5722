// The batch-norm family against closed forms: dialects, arithmetic, running statistics, difficult batches.
#include "layers/bench.hpp"

namespace banyan::testing {
namespace {

/// Per-channel mean and sum of squared deviations of x in (N, C, inner) order, in long double.
struct Reference {
  Reference(const Values& x, const Shape& shape) {
    channels = shape.axes() == 1 ? 1 : static_cast<std::size_t>(shape[1]);
    inner = shape.axes() > 2 ? static_cast<std::size_t>(shape.count(2)) : 1;
    count = static_cast<double>(x.size() / channels);
    std::vector<long double> sums(channels, 0), squares(channels, 0);
    for (std::size_t i = 0; i < x.size(); ++i) sums[channel(i)] += x[i];
    for (std::size_t c = 0; c < channels; ++c) mean.push_back(static_cast<double>(sums[c] / count));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const long double deviation = x[i] - sums[channel(i)] / count;
      squares[channel(i)] += deviation * deviation;
    }
    for (std::size_t c = 0; c < channels; ++c) m2.push_back(static_cast<double>(squares[c]));
  }
  std::size_t channel(std::size_t i) const { return i / inner % channels; }
  double variance(std::size_t c, bool unbiased) const {
    return m2[c] / (unbiased && count > 1 ? count - 1 : count);
  }
  Values variances(bool unbiased) const {
    Values all;
    for (std::size_t c = 0; c < channels; ++c) all.push_back(variance(c, unbiased));
    return all;
  }
  Values normalized(const Values& x, bool unbiased, double eps) const {
    Values y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      y[i] = (x[i] - mean[channel(i)]) / std::sqrt(variance(channel(i), unbiased) + eps);
    return y;
  }
  std::size_t channels, inner;
  double count;
  Values mean, m2;
};

const Shape kShape{3, 4, 2, 5};
constexpr double kEps = static_cast<double>(1e-5f);  // the message's float
constexpr double kTight = 1e-12;                     // f64 rounding over some hundred operations

Values scaled(Values values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}
Values sum(Values a, const Values& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

struct Arithmetic {
  const char* name;
  bool normalizes_unbiased, keeps_unbiased;
};
const Arithmetic kArithmetics[] = {
    {"STANDARD", false, true}, {"UNBIASED", true, true}, {"BIASED", false, false}};

TEST(BatchNorm, NormalizesAndSumsStatistics) {
  for (const Arithmetic& arithmetic : kArithmetics) {
    Bench bench(cat("type: 'BatchNorm' batch_norm_param { moving_average_fraction: 0.75 variance: ",
                    arithmetic.name, " }"),
                {kShape}, 1);
    const Values first = spread_values(kShape.count(), 1, 4), second = spread_values(kShape.count(), 2, 2);
    for (const Values& x : {first, second}) {
      bench.set_input(0, x);
      bench.forward();
      expect_near(bench.output(), Reference(x, kShape).normalized(x, arithmetic.normalizes_unbiased, kEps),
                  kTight, arithmetic.name);
    }
    const Reference a(first, kShape), b(second, kShape);
    expect_near(bench.parameter(0), sum(scaled(a.mean, 0.75), b.mean), kTight);
    expect_near(
        bench.parameter(1),
        sum(scaled(a.variances(arithmetic.keeps_unbiased), 0.75), b.variances(arithmetic.keeps_unbiased)),
        kTight);
    expect_near(bench.parameter(2), {1.75}, kTight);
  }
}

TEST(BatchNorm, PartsOfABatchHaveStatisticsOfTheirOwn) {
  // Five samples in parts of two: the last part has one.
  const Shape whole{5, 4, 2, 5};
  const Values x = spread_values(whole.count(), 1, 4);
  Bench bench("type: 'BatchNorm' batch_norm_param { moving_average_fraction: 0.75 stats_batch_size: 2 }",
              {whole}, 1);
  bench.set_input(0, x);
  bench.forward();
  Values y, mean(4, 0), variance(4, 0);
  double factor = 0;
  for (const auto& [first, count] : {std::pair{0, 2}, std::pair{2, 2}, std::pair{4, 1}}) {
    Shape shape = whole;
    shape.set_dim(0, count);
    const auto begin = x.begin() + first * whole.count(1);
    const Values part(begin, begin + shape.count());
    const Reference reference(part, shape);
    const Values normalized = reference.normalized(part, false, kEps);
    y.insert(y.end(), normalized.begin(), normalized.end());
    mean = sum(scaled(mean, 0.75), reference.mean);
    variance = sum(scaled(variance, 0.75), reference.variances(true));
    factor = 0.75 * factor + 1;
  }
  expect_near(bench.output(), y, kTight);
  expect_near(bench.parameter(0), mean, kTight);
  expect_near(bench.parameter(1), variance, kTight);
  expect_near(bench.parameter(2), {factor}, kTight);
}

TEST(BatchNorm, PartsDoNotGoWithSynchronization) {
  try {
    const Bench bench("type: 'BatchNorm' batch_norm_param { stats_batch_size: 2 sync: true }", {kShape}, 1);
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("stats_batch_size"), std::string::npos) << error.what();
  }
}

TEST(BatchNorm, UsesSumsDividedByTheFactorInTests) {
  BenchOptions options;
  options.phase = Phase::test;
  Bench bench("type: 'BatchNorm'", {Shape{2, 2}}, 1, options);
  bench.set_parameter(0, {2, 4});
  bench.set_parameter(1, {8, 18});
  bench.set_parameter(2, {2});
  bench.set_input(0, {1, 2, 5, 8});
  bench.forward();
  const double a = std::sqrt(4 + kEps), b = std::sqrt(9 + kEps);
  expect_near(bench.output(), {0, 0, 4 / a, 6 / b}, kTight);
  EXPECT_EQ(bench.parameter(0), (Values{2, 4}));
  bench.set_parameter(2, {0});  // never trained: all statistics are 0
  bench.forward();
  expect_near(bench.output(),
              {1 / std::sqrt(kEps), 2 / std::sqrt(kEps), 5 / std::sqrt(kEps), 8 / std::sqrt(kEps)}, kTight);
}

TEST(BatchNorm, UseGlobalStatsDecidesInBothPhases) {
  const Values x = spread_values(kShape.count(), 3);
  for (const bool use : {false, true}) {
    for (const Phase phase : {Phase::train, Phase::test}) {
      BenchOptions options;
      options.phase = phase;
      Bench bench(
          cat("type: 'BatchNorm' batch_norm_param { use_global_stats: ", use ? "true" : "false", " }"),
          {kShape}, 1, options);
      bench.set_parameter(1, {1, 1, 1, 1});
      bench.set_parameter(2, {1});
      bench.set_input(0, x);
      bench.forward();
      expect_near(bench.output(),
                  use ? scaled(x, 1 / std::sqrt(1 + kEps)) : Reference(x, kShape).normalized(x, false, kEps),
                  kTight);
      const bool updates = !use && phase == Phase::train;
      EXPECT_EQ(bench.parameter(2)[0] != 1, updates);
    }
  }
}

TEST(BatchNorm, LeavesNoTraceWhenAskedTo) {
  Bench bench("type: 'BatchNorm'", {kShape}, 1);
  bench.pass.update_statistics = false;
  bench.set_input(0, spread_values(kShape.count(), 3));
  bench.forward();
  EXPECT_EQ(bench.parameter(0), Values(4, 0));
  EXPECT_EQ(bench.parameter(2), Values(1, 0));
}

TEST(BatchNorm, DeclaresTheDialectsBlobs) {
  const auto shapes = [](const std::string& text) {
    Bench bench(text, {kShape}, 1);
    std::vector<Shape> all;
    for (const Parameter& p : bench.layer().parameters()) all.push_back(p.shape);
    return all;
  };
  const Shape c{4}, one{1}, bn{1, 4, 1, 1};
  EXPECT_EQ(shapes("type: 'BatchNorm'"), (std::vector<Shape>{c, c, one}));
  const std::vector<Shape> five{c, c, one, c, c};
  EXPECT_EQ(shapes("type: 'BatchNorm' batch_norm_param { scale_bias: true }"), five);
  EXPECT_EQ(shapes("type: 'BatchNorm' batch_norm_param { scale_filler { value: 1 } }"), five);
  EXPECT_EQ(shapes("type: 'BatchNorm' batch_norm_param { engine: MKLDNN }"), five);
  EXPECT_EQ(shapes("type: 'BatchNorm' batch_norm_param { engine: MKLDNN use_weight_bias: false }").size(),
            3u);
  EXPECT_EQ(shapes("type: 'BatchNorm' batch_norm_param { bias_filler { } use_weight_bias: false }").size(),
            3u);
  EXPECT_EQ(shapes("type: 'BatchNorm' batch_norm_param { engine: MKLDNN bias_term: false }"),
            (std::vector<Shape>{c, c, one, c}));
  EXPECT_EQ(shapes("type: 'BatchNorm' batch_norm_param { engine: MKLDNN bias_filler { } bias_term: false }"),
            (std::vector<Shape>{c, c, one, c}));
  EXPECT_EQ(shapes("type: 'SyncBN'"), (std::vector<Shape>{bn, bn, bn, bn}));
}

TEST(BatchNorm, TakesTheFillerOfIntelWhereverItLearnsSlopes) {
  for (const char* more : {"engine: MKLDNN", "bias_filler { }", "scale_bias: true"}) {
    Bench bench(std::string("type: 'BatchNorm' batch_norm_param { filler { value: 3 } ") + more + " }",
                {kShape}, 1);
    EXPECT_EQ(bench.layer().parameters()[3].filler.value(), 3) << more;
  }
}

TEST(BatchNorm, HasSlopesWithoutBiasesAsIntel) {
  for (const Phase phase : {Phase::train, Phase::test}) {
    BenchOptions options;
    options.phase = phase;
    Bench bench("type: 'BatchNorm' batch_norm_param { engine: MKL2017 bias_term: false }", {kShape}, 1,
                options);
    bench.set_parameter(1, {1, 1, 1, 1});
    bench.set_parameter(2, {1});
    EXPECT_EQ(bench.parameter(3), Values(4, 1));
    bench.set_parameter(3, {1, 2, 3, 4});
    const Values x = spread_values(kShape.count(), 3);
    bench.set_input(0, x);
    bench.forward();
    const Reference batch(x, kShape);
    Values y = phase == Phase::train ? batch.normalized(x, false, kEps) : scaled(x, 1 / std::sqrt(1 + kEps));
    for (std::size_t i = 0; i < y.size(); ++i) y[i] *= static_cast<double>(batch.channel(i) + 1);
    expect_near(bench.output(), y, kTight);
  }
}

TEST(BatchNorm, FixesMultipliers) {
  Bench nvidia(
      "type: 'BatchNorm' batch_norm_param { scale_bias: true } param { lr_mult: 3 } param { lr_mult: 3 } "
      "param { lr_mult: 3 } param { lr_mult: 3 } param { decay_mult: 0 }",
      {kShape}, 1);
  for (std::size_t p = 0; p < 5; ++p) {
    EXPECT_EQ(nvidia.layer().parameters()[p].forced_mult, p < 3 ? 0 : 1);
    EXPECT_EQ(nvidia.layer().parameters()[p].kind,
              p < 3 ? ParameterKind::statistic : ParameterKind::learnable);
  }
  Bench frozen("type: 'BN' bn_param { frozen: true }", {kShape}, 1);
  for (const Parameter& p : frozen.layer().parameters()) EXPECT_EQ(p.forced_mult, 0);
  Bench plain("type: 'BN' param { lr_mult: 3 name: 's' }", {kShape}, 1);
  EXPECT_EQ(plain.layer().parameters()[0].lr_mult, 3);
  EXPECT_EQ(plain.layer().parameters()[0].share_name, "s");
  EXPECT_EQ(plain.layer().parameters()[0].forced_mult, -1);
}

TEST(BatchNormOfNvidia, TakesTheFirstBatchWholeAndAveragesLater) {
  Bench bench(
      "type: 'BatchNorm' batch_norm_param { scale_bias: true moving_average_fraction: 0.75 use_global_stats: "
      "true }",
      {kShape}, 1);
  bench.set_parameter(3, {1, 2, 3, 4});
  bench.set_parameter(4, {5, 6, 7, 8});
  Values mean(4, 0), variance(4, 0);
  for (unsigned step = 0; step < 3; ++step) {
    const Values x = spread_values(kShape.count(), step, 1 + step);
    bench.set_input(0, x);
    bench.forward();
    const Reference batch(x, kShape);
    const double keep = step == 0 ? 0 : 0.75;
    mean = sum(scaled(mean, keep), scaled(batch.mean, 1 - keep));
    variance = sum(scaled(variance, keep), scaled(batch.variances(true), 1 - keep));
    expect_near(bench.parameter(0), mean, kTight);
    expect_near(bench.parameter(1), variance, kTight);
    EXPECT_EQ(bench.parameter(2), Values{1});
    Values y = batch.normalized(x, false, kEps);  // use_global_stats has no effect
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] = y[i] * static_cast<double>(batch.channel(i) + 1) + static_cast<double>(batch.channel(i) + 5);
    expect_near(bench.output(), y, kTight);
  }
}

TEST(BatchNormOfNvidia, GoesOnFromStoredStatisticsOfAnyScale) {
  Bench bench("type: 'BatchNorm' batch_norm_param { scale_bias: true moving_average_fraction: 0.5 }",
              {Shape{2, 1}}, 1);
  bench.set_parameter(0, {40});
  bench.set_parameter(1, {8});
  bench.set_parameter(2, {4});
  bench.set_input(0, {0, 2});
  bench.forward();
  expect_near(bench.parameter(0), {40 * 0.5 + 4 * 0.5 * 1}, kTight);
  expect_near(bench.parameter(1), {8 * 0.5 + 4 * 0.5 * 2}, kTight);
  EXPECT_EQ(bench.parameter(2), Values{4});
}

TEST(Bn, KeepsAverages) {
  for (const char* type : {"BN", "SyncBN"}) {
    for (const Arithmetic& arithmetic : kArithmetics) {
      Bench bench(
          cat("type: '", type,
              "' bn_param { slope_filler { value: 2 } bias_filler { value: -1 } momentum: 0.75 variance: ",
              arithmetic.name, " }"),
          {kShape}, 1);
      const Values x = spread_values(kShape.count(), 1, 4);
      bench.set_input(0, x);
      bench.forward();
      const Reference batch(x, kShape);
      Values y = scaled(batch.normalized(x, arithmetic.normalizes_unbiased, kEps), 2);
      for (double& value : y) value -= 1;
      expect_near(bench.output(), y, kTight);
      expect_near(bench.parameter(2), scaled(batch.mean, 0.25), kTight);
      expect_near(bench.parameter(3), scaled(batch.variances(arithmetic.keeps_unbiased), 0.25), kTight);
      bench.forward();
      expect_near(bench.parameter(2), scaled(batch.mean, 0.25 * 0.75 + 0.25), kTight);
    }
  }
}

TEST(Bn, FrozenUsesStoredStatisticsInTraining) {
  Bench bench("type: 'BN' bn_param { frozen: true slope_filler { value: 3 } }", {Shape{2, 2}}, 1);
  EXPECT_EQ(bench.parameter(3), (Values{1, 1}));
  bench.set_parameter(2, {1, 2});
  bench.set_parameter(3, {4, 9});
  bench.set_input(0, {1, 2, 5, 8});
  bench.forward();
  const double a = 3 / std::sqrt(4 + kEps), b = 3 / std::sqrt(9 + kEps);
  expect_near(bench.output(), {0, 0, 4 * a, 6 * b}, kTight);
  bench.backward({1, 2, 3, 4});
  expect_near(bench.input_gradient(), {a, 2 * b, 3 * a, 4 * b}, kTight);
  EXPECT_FALSE(bench.layer().parameters()[0].grad.defined());
  EXPECT_EQ(bench.parameter(2), (Values{1, 2}));
}

TEST(SyncBn, KnowsNoFrozen) {
  Bench bench("type: 'SyncBN' bn_param { frozen: true slope_filler { value: 1 } }", {Shape{2, 1}}, 1);
  EXPECT_EQ(bench.parameter(3), Values{0});
  bench.set_input(0, {1, 3});
  bench.forward();
  expect_near(bench.output(), {-1 / std::sqrt(1 + kEps), 1 / std::sqrt(1 + kEps)}, kTight);
}

TEST(SyncBn, UnbiasedBackwardDividesByTheCount) {
  // dx = slope inv_std (dy - (xhat a + b) / m): the correction factor of the variance is not differentiated.
  const Shape shape{5, 1};
  Bench bench("type: 'SyncBN' bn_param { variance: UNBIASED slope_filler { value: 2 } }", {shape}, 1);
  const Values x{1, 2, 4, 8, 16}, dy{0.5, -1, 2, 0, 1};
  bench.set_input(0, x);
  bench.forward();
  bench.backward(dy);
  const Reference batch(x, shape);
  const Values xhat = batch.normalized(x, true, kEps);
  const double inv_std = 1 / std::sqrt(batch.variance(0, true) + kEps);
  double a = 0, b = 0;
  for (std::size_t i = 0; i < 5; ++i) a += dy[i] * xhat[i], b += dy[i];
  Values dx;
  for (std::size_t i = 0; i < 5; ++i) dx.push_back(2 * inv_std * (dy[i] - (xhat[i] * a + b) / 5));
  expect_near(bench.input_gradient(), dx, kTight);
  expect_near(bench.parameter_gradient(0), {a}, kTight);
  expect_near(bench.parameter_gradient(1), {b}, kTight);
}

TEST(BatchNormFamily, LosesNoDigitsToALargeMean) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    BenchOptions options;
    options.dtype = dtype;
    Bench bench("type: 'SyncBN' bn_param { slope_filler { value: 1 } momentum: 0 }", {kShape}, 1, options);
    Values x = spread_values(kShape.count(), 1);
    for (double& value : x) value += 1000;
    bench.set_input(0, x);
    x = get_values(bench.context(), bench.inputs[0]->data);  // as rounded to dtype
    bench.forward();
    const Reference batch(x, kShape);
    // f32: the deviations are exact, then a few roundings of 6e-8. f64: the reference's own rounding of the
    // mean.
    const double tolerance = dtype == DType::f32 ? 1e-6 : 1e-11;
    expect_near(bench.output(), batch.normalized(x, false, kEps), tolerance);
    expect_near(bench.parameter(3), batch.variances(true), tolerance);
    expect_near(bench.parameter(2), batch.mean, 1e-7);
  }
}

TEST(BatchNormFamily, TakesOneSampleAndConstantChannels) {
  for (const char* text : {"type: 'BatchNorm'", "type: 'BN' bn_param { slope_filler { value: 1 } }",
                           "type: 'SyncBN' bn_param { slope_filler { value: 1 } variance: UNBIASED }"}) {
    Bench one(text, {Shape{1, 3}}, 1);
    one.set_input(0, {5, -2, 1000});
    one.forward();
    EXPECT_EQ(one.output(), Values(3, 0)) << text;
    one.backward({1, 2, 3});
    expect_near(one.input_gradient(), {0, 0, 0}, 1e-9, text);  // 1 / sqrt(eps) times rounding
    const std::size_t variance = one.layer().type() == "BatchNorm" ? 1 : 3;
    EXPECT_EQ(one.parameter(variance), Values(3, 0)) << text;  // factor 1, not 1 / 0

    Bench constant(text, {Shape{4, 1, 3}}, 1);
    constant.set_input(0, Values(12, 7.3));
    constant.forward();
    EXPECT_EQ(constant.output(), Values(12, 0)) << text;
    constant.backward(spread_values(12, 1));
    for (const double value : constant.input_gradient()) EXPECT_TRUE(std::isfinite(value)) << text;
  }
}

TEST(BatchNormFamily, AnEmptyBatchChangesNothing) {
  for (const char* text :
       {"type: 'BatchNorm'", "type: 'BatchNorm' batch_norm_param { scale_bias: true }", "type: 'SyncBN'"}) {
    Bench bench(text, {kShape}, 1);
    const Values x = spread_values(kShape.count(), 1);
    bench.reshape({Shape{0, 4, 2, 5}});
    bench.forward();  // before the very first sample
    bench.backward(Values());
    bench.reshape({kShape});
    bench.set_input(0, x);
    bench.forward();
    std::vector<Values> statistics;
    for (std::size_t p = 0; p < bench.layer().parameters().size(); ++p)
      statistics.push_back(bench.parameter(p));
    Bench plain(text, {kShape}, 1);
    plain.set_input(0, x);
    plain.forward();
    bench.reshape({Shape{0, 4, 2, 5}});
    bench.forward();
    for (std::size_t p = 0; p < statistics.size(); ++p) {
      EXPECT_EQ(bench.parameter(p), statistics[p]) << text << ", blob " << p;
      EXPECT_EQ(plain.parameter(p), statistics[p]) << text << ", blob " << p;
    }
  }
}

}  // namespace
}  // namespace banyan::testing
