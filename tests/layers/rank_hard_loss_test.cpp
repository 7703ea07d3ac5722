// RankHardLoss: values of a batch worked out by hand, its draws, its gradient, several devices.
#include <set>

#include "layers/fake_exchange.hpp"
#include "layers/gradient_case.hpp"

namespace banyan::testing {
namespace {

std::string rank_text(const std::string& settings) {
  return "type: 'RankHardLoss' rank_param { pair_size: 2 " + settings + " }";
}

TEST(RankHardLoss, FollowsItsFormula) {
  Bench bench(rank_text("neg_num: 2"), {Shape{4, 2}, Shape{4}}, 1);
  bench.set_input(0, {1, 0, 0.5, 0, 0.25, 1, 0, 0});
  bench.set_input(1, {7, 7, 3, 3});
  bench.forward();
  // Pair 0, 1 and sample 2: 0.25 + 0.125 (3 is no candidate). Pair 2, 3 and 0: 0.75 + 0.5; and 1: 0.625 +
  // 0.5.
  EXPECT_EQ(bench.output(), Values{2.75 / 8});
  bench.backward(Values{2});
  EXPECT_EQ(bench.input_gradient(), (Values{-0.125, 0.5, -0.375, 0.5, 0.75, 0, 0.125, -1}));
}

TEST(RankHardLoss, HasTheGradientOfItsLoss) {
  for (const char* const settings :
       {"neg_num: 20", "neg_num: 3 hard_ratio: 1", "neg_num: 4 hard_ratio: 0.5 rand_ratio: 0.5 margin: 1",
        "neg_num: 20 margin: 0.1"})
    for (const Shape& features : {Shape{10, 5}, Shape{8, 2, 3}})
      check_gradients({"rank", rank_text(settings), {features, Shape{features[0]}}, 1, 3});
}

/// Sample 0 is anchor, 1 its positive, 2 to 7 are negatives: 2 the nearest. Only their products with the pair
/// differ, so that the loss tells which of them were chosen.
struct OneAnchor {
  explicit OneAnchor(const std::string& settings)
      : bench("type: 'RankHardLoss' rank_param { pair_size: 8 margin: 1 " + settings + " }",
              {Shape{8, 1}, Shape{8}}, 1) {
    bench.set_input(0, {1, 0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625});
    bench.set_input(1, {1, 1, 0, 2, 3, 4, 5, 6});
  }
  double loss(int draw = 0) {
    bench.pass.draw = draw;
    bench.forward();
    return bench.output().at(0);
  }
  Bench bench;
};

TEST(RankHardLoss, TakesTheNearestByHardRatio) {
  EXPECT_EQ(OneAnchor("neg_num: 6").loss(), (12 + 1 - 0.015625) / 12);
  EXPECT_EQ(OneAnchor("neg_num: 1 hard_ratio: 1").loss(), 2.5 / 2);
  EXPECT_EQ(OneAnchor("neg_num: 2 hard_ratio: 1").loss(), (2.5 + 2.25) / 4);
  EXPECT_EQ(OneAnchor("neg_num: 2").loss(), 0);
}

TEST(RankHardLoss, DrawsTheOthersByRandRatio) {
  OneAnchor anchor("neg_num: 2 hard_ratio: 0.5 rand_ratio: 0.5");
  std::set<double> seen;
  int with_nearest = 0;
  for (int draw = 0; draw < 300; ++draw) {
    const double loss = anchor.loss(draw), chosen = loss * 4 - 4;  // the sum of two products
    seen.insert(chosen);
    EXPECT_TRUE(chosen >= 0.25 + 0.015625) << chosen;  // one of the two nearest, or both
    with_nearest += chosen > 0.5;
    EXPECT_EQ(anchor.loss(draw), loss);
  }
  EXPECT_EQ(seen.size(), 9u);                // 2 with each of 5, 3 with each of the other 4
  EXPECT_NEAR(with_nearest, 300 * 0.6, 60);  // 1/2 + 1/2 x 1/5
}

TEST(RankHardLoss, EveryDeviceComparesTheWholeBatch) {
  const std::int64_t total = 14, length = 3;
  const std::string text = rank_text("neg_num: 4 hard_ratio: 0.5 rand_ratio: 0.5 margin: 1");
  const Values features = spread_values(total * length, 1), labels = integers(total, 4, 2);
  struct Part {
    Values loss, gradient;
  };
  const auto run = [&](Bench& bench) {
    const auto [first, stride] = bench.pass.samples;
    Values own, own_labels;
    for (std::int64_t i = first; i < total; i += stride) {
      own.insert(own.end(), features.begin() + i * length, features.begin() + (i + 1) * length);
      own_labels.push_back(labels[i]);
    }
    bench.set_input(0, own);
    bench.set_input(1, own_labels);
    bench.pass.draw = 5;
    bench.forward();
    bench.backward(Values{0.7});
    return Part{bench.output(), bench.input_gradient()};
  };
  const auto shapes = [&](std::int64_t batch) {
    return std::vector<Shape>{Shape{batch, length}, Shape{batch}};
  };
  Bench alone(text, shapes(total), 1);
  const Part whole = run(alone);
  for (const int devices : {2, 3, 4}) {
    const std::vector<Part> parts = run_dealt(text, 1, devices, total, shapes, run);
    double loss = 0;
    for (const Part& part : parts) loss += part.loss.at(0);
    EXPECT_NEAR(loss, whole.loss[0], 1e-15);
    for (std::int64_t i = 0; i < total; ++i)
      for (std::int64_t k = 0; k < length; ++k)
        EXPECT_NEAR(parts[i % devices].gradient.at(i / devices * length + k), whole.gradient[i * length + k],
                    1e-15);
  }
}

TEST(RankHardLoss, ShowsWhatIsNoNumber) {
  Bench bench(rank_text("neg_num: 2"), {Shape{4, 1}, Shape{4}}, 1);
  bench.set_input(0, {1, 2, std::nan(""), 4});
  bench.set_input(1, {0, 0, 1, 1});
  bench.forward();
  EXPECT_TRUE(std::isnan(bench.output()[0]));
  bench.backward(Values{1});
  for (const double value : bench.input_gradient()) EXPECT_TRUE(std::isnan(value));
}

TEST(RankHardLoss, RefusesWhatHasNoMeaning) {
  const auto refusal = [](const std::string& settings, const std::vector<Shape>& shapes) -> std::string {
    try {
      Bench("type: 'RankHardLoss' rank_param { " + settings + " }", shapes, 1);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  const std::vector<Shape> shapes{Shape{4, 2}, Shape{4}};
  for (const auto& [settings, part] : std::vector<std::pair<std::string, std::string>>{
           {"", "pair_size must be at least 2"},
           {"pair_size: 2 neg_num: 0", "neg_num must be positive"},
           {"pair_size: 2 hard_ratio: -1", "hard_ratio must be a number >= 0; found -1"},
           {"pair_size: 2 rand_ratio: nan", "rand_ratio must be"},
           {"pair_size: 2 margin: inf", "margin must be finite"}})
    EXPECT_NE(refusal(settings, shapes).find(part), std::string::npos) << refusal(settings, shapes);
  EXPECT_NE(refusal("pair_size: 2", {Shape{4, 2}, Shape{3}}).find("one label for each sample"),
            std::string::npos);
  EXPECT_NE(refusal("pair_size: 2", {Shape{4, 2}, Shape{1, 4}}).find("one label for each sample"),
            std::string::npos);
  EXPECT_EQ(refusal("pair_size: 2", {Shape{4, 2}, Shape{4, 1, 1, 1}}), "accepted");
}

}  // namespace
}  // namespace banyan::testing
