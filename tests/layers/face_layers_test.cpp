// What caffe-windows adds for nets that recognize faces (NormFace, AM-Softmax): values against closed forms
// and plain loops, gradients, refusals.
#include "layers/gradient_checker.hpp"

namespace banyan::testing {
namespace {

Bench given_rows(const std::string& settings, bool with_bias, const std::string& type = "InnerProduct") {
  std::string text =
      cat("type: '", type, "' bottom: 'x' bottom: 'w' ", with_bias ? "bottom: 'b' " : "", settings);
  std::vector<Shape> shapes{Shape{2, 3, 2}, Shape{4, 6}};
  if (with_bias) shapes.push_back(Shape{4});
  return Bench(text, shapes, 1);
}

TEST(InnerProduct, TakesItsWeightsFromFurtherInputs) {
  const Values x = spread_values(12, 1), w = spread_values(24, 2), b = spread_values(4, 3),
               dy = spread_values(8, 4);
  for (const bool with_bias : {false, true}) {
    Bench given = given_rows(with_bias ? "" : "inner_product_param { bias_term: false }", with_bias);
    Bench stored(cat("type: 'InnerProduct' inner_product_param { num_output: 4 bias_term: ",
                     with_bias ? "true" : "false", " }"),
                 {Shape{2, 3, 2}}, 1);
    EXPECT_TRUE(given.layer().parameters().empty());
    for (Bench* bench : {&given, &stored}) bench->set_input(0, x);
    given.set_input(1, w);
    stored.set_parameter(0, w);
    if (with_bias) given.set_input(2, b), stored.set_parameter(1, b);
    for (Bench* bench : {&given, &stored}) bench->forward(), bench->backward(dy);
    EXPECT_EQ(given.output(), stored.output());
    EXPECT_EQ(given.input_gradient(0), stored.input_gradient(0));
    EXPECT_EQ(given.input_gradient(1), stored.parameter_gradient(0));
    if (with_bias) {
      EXPECT_EQ(given.input_gradient(2), stored.parameter_gradient(1));
    }
    GradientChecker(given).run();
    std::vector<Shape> empty{Shape{0, 3, 2}, Shape{4, 6}};
    if (with_bias) empty.push_back(Shape{4});
    given.reshape(empty);
    given.forward();
    given.backward(Values());
    EXPECT_EQ(given.input_gradient(1), Values(24, 0));
  }
}

TEST(InnerProduct, DividesStoredRowsByTheirLengths) {
  const std::string text = "type: 'InnerProduct' inner_product_param { bias_term: false num_output: 2 ";
  Bench bench(text + "normalize: true }", {Shape{2, 2}}, 1), plain(text + "}", {Shape{2, 2}}, 1);
  const Values x{1, 2, -1, 0.5}, w{3, 4, 0, 0.5}, dy{1, -2, 0.25, 3};
  const double a = 1 / std::sqrt(25 + 1e-6), b = 1 / std::sqrt(0.25 + 1e-6);
  const Values unit{3 * a, 4 * a, 0, 0.5 * b};
  bench.set_parameter(0, w);
  plain.set_parameter(0, unit);
  for (Bench* each : {&bench, &plain}) each->set_input(0, x), each->forward(), each->backward(dy);
  expect_near(bench.output(), plain.output(), 1e-15);
  expect_near(bench.input_gradient(), plain.input_gradient(), 1e-15);
  expect_near(bench.parameter_gradient(0), plain.parameter_gradient(0), 1e-15);
  // The update begins from the rows of length 1; the pass itself writes nothing.
  EXPECT_EQ(bench.parameter(0), w);
  const Parameter& rows = bench.layer().parameters()[0];
  EXPECT_TRUE(rows.adjusted);
  expect_near(get_values(bench.context(), rows.used), unit, 1e-15);
  bench.reshape({Shape{0, 2}});  // a device may own rows that it has no samples for
  bench.set_parameter(0, {0, 2, 1, 0});
  bench.forward();
  EXPECT_NEAR(get_values(bench.context(), rows.used)[1], 1, 1e-6);
}

TEST(InnerProduct, RefusesRowsThatDoNotFit) {
  const std::string start = "type: 'InnerProduct' bottom: 'x' bottom: 'w' inner_product_param { ";
  const std::vector<Shape> two{Shape{2, 3}, Shape{4, 3}};
  EXPECT_NE(refusal(start + "}", two).find("bias_term: false means that there is none"), std::string::npos);
  EXPECT_NE(refusal(start + "bias_term: false num_output: 3 }", two).find("has 4 rows"), std::string::npos);
  EXPECT_NE(refusal(start + "bias_term: false transpose: true }", two).find("transpose"), std::string::npos);
  EXPECT_NE(refusal(start + "bias_term: false normalize: true }", two).find("stored weights"),
            std::string::npos);
  EXPECT_NE(refusal(start + "bias_term: false }", {Shape{2, 3}, Shape{4, 2}}).find("4 rows of 3 values"),
            std::string::npos);
  EXPECT_NE(refusal("type: 'InnerProduct' bottom: 'x' bottom: 'w' bottom: 'b'", {two[0], two[1], Shape{3}})
                .find("bias of 4 values"),
            std::string::npos);
  EXPECT_NE(
      refusal("type: 'InnerProduct' inner_product_param { num_output: 1 normalize: true transpose: true }",
              {Shape{2, 3}})
          .find("exclude"),
      std::string::npos);
  EXPECT_NE(
      refusal("type: 'InnerProduct' inner_product_param { num_output: 1 distance_type: 'L2' }", {Shape{2, 3}})
          .find("InnerDistance"),
      std::string::npos);
}

TEST(InnerDistance, IsTheSumOfSquaresOrOfAbsoluteValues) {
  const Values x{1, 2, 0, -1}, w{0, 0, 1, 3, 2, 2};
  const auto of = [&](const std::string& settings) {
    Bench bench("type: 'InnerDistance' inner_distance_param { num_output: 3 " + settings + " }",
                {Shape{2, 2}}, 1);
    bench.set_input(0, x);
    bench.set_parameter(0, w);
    if (bench.layer().parameters().size() > 1) bench.set_parameter(1, {10, 20, 30});
    bench.forward();
    return bench.output();
  };
  EXPECT_EQ(of("bias_term: false"), (Values{5, 1, 1, 1, 17, 13}));
  EXPECT_EQ(of("bias_term: false distance_type: 'L1'"), (Values{3, 1, 1, 1, 5, 5}));
  EXPECT_EQ(of(""), (Values{15, 21, 31, 11, 37, 43}));
  const Values unit = of("bias_term: false normalize: true");
  EXPECT_NEAR(unit[1], std::pow(1 - 1 / std::sqrt(10), 2) + std::pow(2 - 3 / std::sqrt(10), 2), 1e-6);
  // As a late caffe-windows, whose InnerDistance has no bias, writes it.
  Bench given("type: 'InnerDistance'", {Shape{2, 2}, Shape{3, 2}}, 1);
  given.set_input(0, x);
  given.set_input(1, w);
  given.forward();
  EXPECT_EQ(given.output(), (Values{5, 1, 1, 1, 17, 13}));
  // As an early caffe-windows writes it.
  Bench early(
      "type: 'InnerDistance' inner_product_param { num_output: 3 bias_term: false distance_type: 'L1' }",
      {Shape{2, 2}}, 1);
  early.set_input(0, x);
  early.set_parameter(0, w);
  early.forward();
  EXPECT_EQ(early.output(), (Values{3, 1, 1, 1, 5, 5}));
}

TEST(InnerDistance, HasTheGradientsOfDistances) {
  for (const std::string type : {"L1", "L2"}) {
    for (const bool with_bias : {false, true}) {
      SCOPED_TRACE(cat(type, " ", with_bias));
      const std::string settings = cat("inner_distance_param { distance_type: '", type,
                                       "' bias_term: ", with_bias ? "true" : "false", " }");
      Bench given = given_rows(settings, with_bias, "InnerDistance");
      given.set_input(0, spread_values(12, 1));
      given.set_input(1, spread_values(24, 2, 1.1));
      if (with_bias) given.set_input(2, spread_values(4, 3));
      GradientChecker(given).run();
    }
  }
  // A gradient is added to what is there.
  for (const std::string type : {"L1", "L2"}) {
    Bench bench(
        cat("type: 'InnerDistance' inner_distance_param { num_output: 1 bias_term: false distance_type: '",
            type, "' }"),
        {Shape{1, 2}}, 1);
    bench.set_input(0, {1, 2});
    bench.set_parameter(0, {4, 0});
    bench.forward();
    for (int pass = 1; pass <= 2; ++pass) {
      bench.backward(Values{0.5});
      const double slope = type == "L1" ? 1 : 6, other = type == "L1" ? -1 : -4;
      EXPECT_EQ(bench.parameter_gradient(0), (Values{0.5 * slope * pass, 0.5 * other * pass}));
    }
  }
}

TEST(InnerDistance, RefusesWhatItDoesNotKnow) {
  const auto refused = [](const std::string& settings) {
    return refusal("type: 'InnerDistance' " + settings, {Shape{2, 3}});
  };
  EXPECT_NE(refused("").find("num_output is missing"), std::string::npos);
  EXPECT_NE(refused("inner_distance_param { num_output: 2 distance_type: 'cos' }").find("L1 and L2 are"),
            std::string::npos);
  for (const char* setting : {"transpose: true", "update_center_only: true"})
    EXPECT_NE(refused(cat("inner_distance_param { num_output: 2 ", setting, " }")).find("not supported"),
              std::string::npos);
  EXPECT_NE(refused("inner_distance_param { num_output: 2 } inner_product_param { }").find("not both"),
            std::string::npos);
}

TEST(Scale, BringsItsFactorsWithinLimits) {
  Bench stored("type: 'Scale' scale_param { num_axes: 0 min_value: 0.5 max_value: 2 bias_term: true }",
               {Shape{2, 2}}, 1);
  EXPECT_LT(stored.layer().traits().channel_slope, 0);
  const Values x{1, 2, 3, 4}, dy{1, 0, -1, 2};
  for (const double factor : {0.25, 1.5, 7.0}) {
    const double within = std::clamp(factor, 0.5, 2.0);
    stored.set_parameter(0, {factor});
    stored.set_parameter(1, {0.125});
    stored.set_input(0, x);
    stored.zero_parameter_gradients();
    stored.forward();
    stored.backward(dy);
    EXPECT_EQ(stored.output(),
              (Values{within + 0.125, 2 * within + 0.125, 3 * within + 0.125, 4 * within + 0.125}));
    EXPECT_EQ(stored.input_gradient(), (Values{within, 0, -within, 2 * within}));
    EXPECT_EQ(stored.parameter_gradient(0), (Values{1 - 3 + 8}));  // as without limits
    EXPECT_EQ(stored.parameter(0), (Values{factor}));
    EXPECT_EQ(get_values(stored.context(), stored.layer().parameters()[0].used), (Values{within}));
  }
  Bench channels("type: 'Scale' scale_param { min_value: 0.5 }", {Shape{1, 2, 1, 1}}, 1);
  EXPECT_LT(channels.layer().traits().channel_slope, 0);  // a normalization before it cannot take its place
  Bench given("type: 'Scale' scale_param { axis: 0 max_value: 2 }", {Shape{2, 2}, Shape{2}}, 1);
  given.set_input(0, x);
  given.set_input(1, {-3, 5});
  given.forward();
  given.backward(dy);
  EXPECT_EQ(given.output(), (Values{-3, -6, 6, 8}));
  EXPECT_EQ(given.input_gradient(0), (Values{-3, 0, -2, 4}));
  EXPECT_EQ(given.input_gradient(1), (Values{1, 5}));
  EXPECT_NE(refusal("type: 'Scale' scale_param { min_value: 2 max_value: 1 }", {Shape{2, 2}}).find("exceeds"),
            std::string::npos);
}

TEST(ChannelScale, MultipliesTheChannelsOfEachPosition) {
  for (const bool in_place : {false, true}) {
    BenchOptions options;
    options.in_place = in_place;
    Bench bench("type: 'ChannelScale'", {Shape{2, 2, 2}, Shape{2, 1, 2}}, 1, options);
    bench.set_input(0, {1, 2, 3, 4, 5, 6, 7, 8});
    bench.set_input(1, {10, 20, 30, 40});
    bench.forward();
    EXPECT_EQ(bench.output(), (Values{10, 40, 30, 80, 150, 240, 210, 320}));
  }
  for (const Shape& factors : {Shape{2, 20}, Shape{2, 1, 4, 5}}) {
    Bench bench("type: 'ChannelScale'", {Shape{2, 3, 4, 5}, factors}, 1);
    bench.set_input(0, spread_values(120, 1));
    bench.set_input(1, spread_values(40, 2));
    GradientChecker(bench).run();
  }
  Bench vectors("type: 'ChannelScale'", {Shape{3, 4}, Shape{3}}, 1);
  vectors.set_input(0, spread_values(12, 1));
  vectors.set_input(1, spread_values(3, 2));
  GradientChecker(vectors).run();
  const Bench frozen("type: 'ChannelScale' channel_scale_param { do_backward_scale: false }",
                     {Shape{3, 4}, Shape{3}}, 1);
  EXPECT_FALSE(const_cast<Bench&>(frozen).layer().traits().differentiable(1));
}

TEST(ChannelScale, RefusesFactorsThatDoNotFit) {
  const std::string type = "type: 'ChannelScale' ";
  for (const std::vector<Shape>& shapes :
       {std::vector<Shape>{Shape{2, 3, 4}, Shape{2, 3}}, {Shape{2, 3}, Shape{3}}, {Shape{2}, Shape{2}}})
    EXPECT_NE(refusal(type, shapes).find("one factor for each of their positions"), std::string::npos);
  const std::vector<Shape> fit{Shape{2, 3}, Shape{2}};
  EXPECT_NE(refusal(type + "channel_scale_param { global_scale: true }", fit).find("Scale with num_axes: 0"),
            std::string::npos);
  for (const char* setting : {"do_forward", "do_backward_feature"})
    EXPECT_NE(refusal(cat(type, "channel_scale_param { ", setting, ": false }"), fit).find("not supported"),
              std::string::npos);
}

TEST(LabelSpecificAdd, ChangesItsBiasWithTheIterationOfTheRun) {
  const auto expect_bias = [](Bench& bench, double bias) {
    bench.set_input(0, {1, 2});
    bench.set_input(1, {1});
    bench.forward();
    EXPECT_NEAR(bench.output(1)[0], bias, 1e-12);
    expect_near(bench.output(), {1, 2 + bias}, 1e-12);
  };
  const std::vector<Shape> shapes{Shape{1, 2}, Shape{1}};
  const std::string start = "type: 'LabelSpecificAdd' label_specific_add_param { ";
  // Exact in binary: file's numbers are floats.
  Bench bench(start + "bias_base: -0.125 bias_gamma: -0.0625 bias_min: -0.5 bias_max: 0 iteration: 1 }",
              shapes, 2);
  bench.pass.passes = 2;
  for (const int iteration : {0, 1, 2, 5, 100})
    for (const int sub : {0, 1}) {
      bench.pass.draw = 2 * iteration + sub;
      expect_bias(bench, std::max(-0.5, -0.125 - 0.0625 * (iteration + 1)));
    }
  Bench powers(start + "bias_base: 0.5 bias_gamma: 3 bias_power: -1 bias_min: -9 bias_max: 0.25 }", shapes,
               2);
  expect_bias(powers, 0.25);  // 0.5 + 1 - 1, limited
  powers.pass.draw = 1;
  expect_bias(powers, 0.5 + 0.25 - 1);
  BenchOptions tests;
  tests.phase = Phase::test;
  Bench test(start + "bias_base: -1 bias: -0.5 bias_min: -1 }", shapes, 2, tests);
  test.set_input(0, {1, 2});
  test.set_input(1, {1});
  test.forward();
  EXPECT_EQ(test.output(), (Values{1, 2}));
  EXPECT_EQ(test.output(1), (Values{-0.5}));
  EXPECT_NE(refusal(start + "bias_gamma: 1 }", shapes).find("need bias_base"), std::string::npos);
  EXPECT_NE(refusal(start + "bias_base: 1 bias_min: 1 }", shapes).find("exceeds bias_max 0"),
            std::string::npos);
}

TEST(LabelSpecificRescale, MultipliesTheLabelsScoreAndTheOthers) {
  const std::vector<Shape> shapes{Shape{2, 3}, Shape{2}};
  const Values x{1, 2, 3, 4, 5, 6};
  const std::string start = "type: 'LabelSpecificRescale' label_specific_rescale_param { ";
  const auto run = [&](const std::string& settings, Phase phase, std::int64_t iteration = 0) {
    BenchOptions options;
    options.phase = phase;
    Bench bench(start + settings + " }", shapes, 2, options);
    bench.set_input(0, x);
    bench.set_input(1, {2, 0});
    bench.pass.passes = 2;
    bench.pass.draw = 2 * iteration + 1;
    bench.forward();
    bench.layer().check_results(bench.context());
    Values found = bench.output();
    found.push_back(bench.output(1)[0]);
    if (phase == Phase::train) GradientChecker(bench).run();
    return found;
  };
  const std::string factors = "positive_weight: 0.5 negative_weight: -2";
  EXPECT_EQ(run(factors, Phase::train), (Values{-2, -4, 1.5, 2, -10, -12, 0.5}));
  EXPECT_EQ(run(factors, Phase::test), (Values{1, 2, 3, 4, 5, 6, 0.5}));
  EXPECT_EQ(run(factors + " rescale_test: true", Phase::test), (Values{-2, -4, 1.5, 2, -10, -12, 0.5}));
  // 8 / (1 + 0.5 i) with i = 1 in the first iteration
  const std::string changing = "positive_weight_base: 8 gamma: 0.5 iteration: 1 ";
  EXPECT_EQ(run(changing, Phase::train), (Values{1, 2, 12, 16, 5, 6, 4}));
  EXPECT_EQ(run(changing, Phase::train, 4), (Values{1, 2, 6, 8, 5, 6, 2}));
  EXPECT_EQ(run(changing + "positive_weight_min: 3", Phase::train, 4).back(), 3);
  EXPECT_EQ(run(changing + "positive_weight_max: 1", Phase::train, 4).back(), 1);
  EXPECT_EQ(run(changing + "power: 0", Phase::train, 4).back(), 8);
  EXPECT_EQ(run(changing, Phase::test).back(), 1);
  Bench bench(start + "}", shapes, 1);
  bench.set_input(0, x);
  bench.set_input(1, {3, 0});
  bench.forward();
  EXPECT_THROW(bench.layer().check_results(bench.context()), Error);
  for (const char* setting : {"bias_fix: true", "power_on_positive: true"})
    EXPECT_NE(refusal(start + setting + " }", shapes).find("not supported"), std::string::npos);
  EXPECT_NE(refusal(start + "gamma: 1 }", shapes).find("need positive_weight_base"), std::string::npos);
  EXPECT_NE(refusal(start + "positive_weight_base: 1 positive_weight_min: 2 positive_weight_max: 1 }", shapes)
                .find("exceeds"),
            std::string::npos);
}

TEST(GeneralContrastiveLoss, AddsUpWhatExceedsTheMargins) {
  const std::string start = "type: 'GeneralContrastiveLoss' general_contrastive_loss_param { ";
  const std::vector<Shape> shapes{Shape{2, 3}, Shape{2}};
  const Values d{0.75, 0.25, 2, 6, 0.5, 3}, labels{0, 0};
  const auto expect = [&](const std::string& settings, double loss, const Values& gradient,
                          const Values& means) {
    SCOPED_TRACE(settings);
    Bench bench(start + settings + " }", shapes, 2);
    bench.set_input(0, d);
    bench.set_input(1, labels);
    bench.forward();
    bench.backward({{0.5}, {7, 7}});
    EXPECT_NEAR(bench.output()[0], loss, 1e-14);
    Values halves = gradient;  // times the loss's gradient, by 2 samples
    for (double& value : halves) value *= 0.5 / 2;
    expect_near(bench.input_gradient(), halves, 1e-14);
    expect_near(bench.output(1), means, 1e-14);
  };
  // Labels: 0.75 and 6, of which 4 count; others below 1: 0.25 and 0.5.
  expect("", (0.75 + 4 + 0.75 + 0.5) / 2, {1, -1, 0, 0, -1, 0}, {4.75 / 2, 1.25 / 2 / 2});
  expect(
      "positive_margin: 0.25 positive_weight: 2 negative_weight: 3 negative_margin: 0.5 "
      "positive_outlier_thresh: 8",
      (2 * (0.5 + 5.75) + 3 * 0.25) / 2, {2, -3, 0, 2, 0, 0}, {6.25 / 2, 0.25 / 2 / 2});
  const double near = std::exp(-0.25), far = std::exp(-0.5);
  expect("exp_negative_weight: true", (4.75 + near + far) / 2, {1, -near, 0, 0, -far, 0},
         {4.75 / 2, 1.25 / 2 / 2});
}

TEST(GeneralContrastiveLoss, RefusesWhatIsNotDescribed) {
  const std::vector<Shape> shapes{Shape{2, 3}, Shape{2}};
  const std::string type = "type: 'GeneralContrastiveLoss' ";
  for (const char* setting :
       {"normalize_negative: 0", "square: true", "max_negative_only: true", "max_positive_only: true",
        "positive_first: true", "positive_upper_bound: 2", "add_intra_mae: true", "max_negative_margin: 1"})
    EXPECT_NE(
        refusal(cat(type, "general_contrastive_loss_param { ", setting, " }"), shapes).find("not supported"),
        std::string::npos);
  EXPECT_NE(refusal(type + "bottom: 'd' bottom: 'l' bottom: 'c'", {shapes[0], shapes[1], shapes[0]})
                .find("third input"),
            std::string::npos);
  EXPECT_NE(refusal(type, {Shape{2, 3}, Shape{3}}).find("one label for each sample"), std::string::npos);
  Bench defaults(type +
                     "general_contrastive_loss_param { positive_upper_bound: 1 "
                     "max_negative_margin: 1.2 }",
                 shapes, 1);
  defaults.set_input(1, {0, 3});
  defaults.forward();
  EXPECT_THROW(defaults.layer().check_results(defaults.context()), Error);
}

struct Triplets {
  double margin = 0;
  bool center = true, hardest = false;
  double positive = 1, negative = 1;

  std::string text() const {
    return cat("type: 'GeneralTripletLoss' general_triplet_loss_param { margin: ", margin,
               " add_center_loss: ", center ? "true" : "false", " hardest_only: ", hardest ? "true" : "false",
               " positive_weight: ", positive, " negative_weight: ", negative, " }");
  }
};

/// The layer's results by definition, for N samples. Gradients: for a gradient of 0.5 of the loss.
struct TripletResults {
  double loss = 0;
  Values means{0, 0}, gradient;
  TripletResults(const Triplets& with, const Values& d, const Values& labels, const Values& factors)
      : gradient(d.size(), 0) {
    const std::size_t samples = labels.size(), classes = d.size() / samples;
    const double all = static_cast<double>(samples);
    for (std::size_t n = 0; n < samples; ++n) {
      const auto y = static_cast<std::size_t>(labels[n]);
      const auto cost = [&](std::size_t j) { return d[n * classes + y] + with.margin - d[n * classes + j]; };
      std::vector<std::size_t> counting;
      for (std::size_t j = 0; j < classes; ++j) {
        if (j == y) continue;
        means[1] += d[n * classes + j] / (all * static_cast<double>(classes - 1));
        if (cost(j) <= 0) continue;
        if (!with.hardest)
          counting.push_back(j);
        else if (counting.empty() || cost(j) > cost(counting[0]))
          counting.assign(1, j);
      }
      means[0] += d[n * classes + y] / all;
      const double scale = 0.5 / all * (factors.empty() ? 1 : factors[n]);
      for (const std::size_t j : counting) {
        loss += with.negative * cost(j) / all;
        gradient[n * classes + j] = -with.negative * scale;
      }
      if (with.center || !counting.empty()) gradient[n * classes + y] = with.positive * scale;
    }
  }
};

TEST(GeneralTripletLoss, ComparesTheLabelsDistanceWithAllOthers) {
  const std::int64_t samples = 7, classes = 6;
  const Values d = spread_values(samples * classes, 3, 2), labels = integers(samples, classes, 3),
               factors = spread_values(samples, 5);
  for (const bool weighted : {false, true})
    for (const Triplets& with :
         {Triplets{}, Triplets{0.5}, Triplets{-1.5, false}, Triplets{0.5, false}, Triplets{0.5, true, true},
          Triplets{-1.5, false, true}, Triplets{-9, true}, Triplets{-9, false, true},
          Triplets{0.25, true, false, 0.5, 2}, Triplets{0.25, false, true, -3, 0.5}}) {
      SCOPED_TRACE(cat(with.text(), weighted ? ", with factors" : ""));
      std::vector<Shape> shapes{Shape{samples, 3, 2}, Shape{samples}};
      if (weighted) shapes.push_back(Shape{samples, 1});
      Bench bench(with.text(), shapes, 2);
      bench.set_input(0, d);
      bench.set_input(1, labels);
      if (weighted) bench.set_input(2, factors);
      bench.forward();
      bench.backward({{0.5}, {7, 7}});
      const TripletResults expected(with, d, labels, weighted ? factors : Values());
      EXPECT_NEAR(bench.output()[0], expected.loss, 1e-14);
      expect_near(bench.output(1), expected.means, 1e-14);
      expect_near(bench.input_gradient(), expected.gradient, 1e-15);
    }
}

/// By hand. In the branch the second sample would have a gradient at class 0.
TEST(GeneralTripletLoss, CountsTheFirstOfTheLargestCosts) {
  Bench bench(
      "type: 'GeneralTripletLoss' general_triplet_loss_param { hardest_only: true add_center_loss: false }",
      {Shape{3, 4}, Shape{3}}, 1);
  bench.set_input(0, {3, 1, 5, 1, 2, 0.5, 1, 3, 2, 2, 2, 2});
  bench.set_input(1, {0, 1, 3});
  bench.forward();
  bench.backward(Values{3});
  EXPECT_NEAR(bench.output()[0], 2.0 / 3, 1e-15);
  EXPECT_EQ(bench.input_gradient(), (Values{1, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

/// So many classes that several threads and lanes look for the largest cost.
TEST(GeneralTripletLoss, FindsTheLargestCostOfManyClasses) {
  const std::int64_t samples = 3, classes = 40000;
  for (const bool hardest : {false, true}) {
    const Triplets with{0.25, false, hardest};
    Bench bench(with.text(), {Shape{samples, classes}, Shape{samples}}, 1);
    Values d = spread_values(samples * classes, 1);
    for (const std::int64_t equal : {7777, 7778, 39999}) d[static_cast<std::size_t>(classes + equal)] = -5;
    const Values labels{39998, 0, 17};
    bench.set_input(0, d);
    bench.set_input(1, labels);
    bench.forward();
    bench.backward(Values{0.5});
    const TripletResults expected(with, d, labels, {});
    EXPECT_NEAR(bench.output()[0], expected.loss, 1e-11 * (1 + expected.loss));
    expect_near(bench.input_gradient(), expected.gradient, 1e-15);
  }
}

TEST(GeneralTripletLoss, LeavesOutLabelsOfNoClassAndShowsThem) {
  const Triplets with{0.5};
  Bench bench(with.text(), {Shape{3, 2}, Shape{3}}, 2);
  bench.set_input(0, {1, 2, 3, 4, 6, 5});
  bench.set_input(1, {0, 2, 0});
  bench.forward();
  EXPECT_NEAR(bench.output()[0], 1.5 / 3, 1e-15);
  expect_near(bench.output(1), {7.0 / 3, 7.0 / 3}, 1e-15);
  bench.backward({{3}, {7, 7}});
  EXPECT_EQ(bench.input_gradient(), (Values{1, 0, 0, 0, 1, -1}));
  EXPECT_THROW(bench.layer().check_results(bench.context()), Error);
  bench.set_input(1, {0, 1, 0});
  bench.forward();
  bench.layer().check_results(bench.context());
}

TEST(GeneralTripletLoss, HasALossThatIsNoNumberWhereADistanceIsNone) {
  for (const bool hardest : {false, true}) {
    const Triplets with{0.5, true, hardest};
    for (const std::size_t place : {0, 1, 2}) {
      Bench bench(with.text(), {Shape{1, 3}, Shape{1}}, 1);
      Values d{1, 2, 0};
      d[place] = std::nan("");
      bench.set_input(0, d);
      bench.set_input(1, {0});
      bench.forward();
      EXPECT_TRUE(std::isnan(bench.output()[0])) << place << hardest;
    }
  }
}

TEST(GeneralTripletLoss, OfOneClassIsNothing) {
  Bench bench(Triplets{}.text(), {Shape{2, 1}, Shape{2}}, 2);
  bench.set_input(0, {3, 4});
  bench.set_input(1, {0, 0});
  bench.forward();
  bench.backward({{1}, {7, 7}});
  EXPECT_EQ(bench.output(), Values{0});
  EXPECT_EQ(bench.output(1), (Values{3.5, 0}));
  EXPECT_EQ(bench.input_gradient(), (Values{0.5, 0.5}));
}

TEST(GeneralTripletLoss, RefusesWhatTheBranchDoesNotRead) {
  const std::vector<Shape> shapes{Shape{2, 3}, Shape{2}};
  const std::string type = "type: 'GeneralTripletLoss' ";
  for (const char* setting : {"positive_first: true", "positive_upper_bound: 2"})
    EXPECT_NE(refusal(cat(type, "general_triplet_loss_param { ", setting, " }"), shapes)
                  .find("positive_first and positive_upper_bound are not supported"),
              std::string::npos);
  EXPECT_EQ(
      refusal(type + "general_triplet_loss_param { positive_first: false positive_upper_bound: 1 }", shapes),
      "accepted");
  EXPECT_NE(refusal(type, {Shape{2, 3}, Shape{3}}).find("one label for each sample"), std::string::npos);
  EXPECT_NE(refusal(type, {Shape{2, 3}, Shape{2}, Shape{3}}).find("one factor for each of 2 samples"),
            std::string::npos);
  // In the other loss of NormFace these settings have no effect.
  EXPECT_EQ(
      refusal("type: 'GeneralContrastiveLoss' general_triplet_loss_param { positive_first: true }", shapes),
      "accepted");
}

TEST(Accuracy, MayPreferTheSmallestScores) {
  Bench bench("type: 'Accuracy' accuracy_param { min_is_better: true }", {Shape{3, 3}, Shape{3}}, 1);
  bench.set_input(0, {1, 2, 3, 3, 1, 2, 1, 1, 5});
  bench.set_input(1, {0, 0, 1});  // the last is one of two
  bench.forward();
  EXPECT_NEAR(bench.output()[0], 1.0 / 3, 1e-15);
}

TEST(SoftmaxParam, KnowsOnlyTheSoftmax) {
  for (const char* type : {"Softmax", "SoftmaxWithLoss", "FocalLoss"}) {
    const std::string start = cat("type: '", type, "' softmax_param { normalize_type: ");
    std::vector<Shape> shapes{Shape{2, 3}};
    if (std::string(type) != "Softmax") shapes.push_back(Shape{2});
    EXPECT_EQ(refusal(start + "'Softmax' }", shapes), "accepted");
    EXPECT_NE(refusal(start + "'L2' }", shapes).find("a Normalize layer divides by lengths"),
              std::string::npos);
  }
  EXPECT_EQ(refusal("type: 'Normalize' softmax_param { normalize_type: 'L2' }", {Shape{2, 3}}), "accepted");
}

}  // namespace
}  // namespace banyan::testing
