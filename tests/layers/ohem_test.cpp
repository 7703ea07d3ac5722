// R-FCN's online hard example mining.
#include <gmock/gmock.h>

#include <map>

#include "layers/loss_cases.hpp"

namespace banyan::testing {
namespace {

using ::testing::HasSubstr;
using namespace loss_cases;

class OhemGradient : public ::testing::TestWithParam<GradientCase> {};
TEST_P(OhemGradient, EqualsCentralDifferences) { check_gradients(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Losses, OhemGradient, ::testing::ValuesIn(kOhemCases),
                         [](const auto& info) { return info.param.name; });

TEST(SoftmaxWithLossOhem, ShowsTheLossOfEachPosition) {
  Bench bench("type: 'SoftmaxWithLossOHEM' loss_param { ignore_label: -1 }", {Shape{3, 2}, Shape{3, 1, 1, 1}},
              3);
  EXPECT_EQ(bench.outputs[2]->shape, (Shape{3, 1, 1, 1}));
  bench.set_input(0, {0, std::log(3), 0, 0, 0, 0});
  bench.set_input(1, {1, 0, -1});
  bench.forward();
  const double first = -std::log(0.75), second = -std::log(0.5);
  expect_near(bench.output(2), {first, second, 0}, 1e-15);
  expect_near(bench.output(0), {(first + second) / 2}, 1e-15);
  EXPECT_THAT(
      refusal("type: 'SoftmaxWithLossOHEM' loss_param { label_smoothing: 0.1 }", {Shape{3, 2}, Shape{3}}),
      HasSubstr("label_smoothing"));
  EXPECT_THAT(
      refusal("type: 'SoftmaxWithLossOHEM' loss_param { thresh_ratio: 0.5 }", {Shape{3, 2}, Shape{3}}),
      HasSubstr("thresh_ratio"));
}

TEST(SmoothL1LossOhem, ShowsTheLossOfEachPosition) {
  const auto run = [](const std::string& settings) {
    Bench bench("type: 'SmoothL1LossOHEM' loss_param { " + settings + " }",
                {Shape{2, 2, 1, 2}, Shape{2, 2, 1, 2}, Shape{2, 2, 1, 2}}, 2);
    EXPECT_EQ(bench.outputs[1]->shape, (Shape{2, 1, 1, 2}));
    bench.set_input(0, {1, 2, 3, 4, 0.5, 1, 1, 1});
    bench.set_input(1, Values(8));
    bench.set_input(2, {1, 1, 1, 0, 1, 0, 1, 2});
    bench.forward();
    // |d| - 1/2 from 1 on: .5, 1.5, 2.5, 0; then .125, 0, .5, 1.5
    EXPECT_EQ(bench.output(1), (Values{3, 1.5, 0.625, 1.5}));
    return bench.output()[0];
  };
  EXPECT_DOUBLE_EQ(run(""), 6.625 / 4);
  EXPECT_DOUBLE_EQ(run("normalization: FULL"), 6.625 / 4);
  EXPECT_DOUBLE_EQ(run("normalization: BATCH_SIZE"), 6.625 / 2);
  EXPECT_DOUBLE_EQ(run("normalization: NONE"), 6.625);
  EXPECT_DOUBLE_EQ(run("normalization: PRE_FIXED pre_fixed_normalizer: 128"), 6.625 / 128);
  EXPECT_THAT(refusal("type: 'SmoothL1LossOHEM' loss_param { ignore_label: 1 }", {kMaps, kMaps}),
              HasSubstr("ignore_label"));
  // Of vectors too it has four axes, to be added to what SoftmaxWithLossOHEM shows.
  EXPECT_EQ(Bench("type: 'SmoothL1LossOHEM'", {Shape{3, 8}, Shape{3, 8}}, 2).outputs[1]->shape,
            (Shape{3, 1, 1, 1}));
}

TEST(BoxAnnotatorOhem, KeepsTheLargestLossesOfEachImage) {
  constexpr std::int64_t kRegions = 40, kWeights = 8;
  for (const std::int64_t inner : {1, 3}) {
    const std::int64_t all = kRegions * inner;
    Bench bench("type: 'BoxAnnotatorOHEM' box_annotator_ohem_param { roi_per_img: 5 ignore_label: -2 }",
                {Shape{kRegions, 5, inner, 1}, Shape{kRegions, 1, inner, 1}, Shape{kRegions, 1, inner, 1},
                 Shape{kRegions, kWeights, inner, 1}},
                2);
    Values rois = spread_values(5 * all, 1, 100);
    const Values losses = spread_values(all, 2), labels = integers(all, 4, 3),
                 weights = spread_values(kWeights * all, 4);
    const auto at = [&](std::int64_t outer, std::int64_t number, std::int64_t numbers, std::int64_t place) {
      return static_cast<std::size_t>((outer * numbers + number) * inner + place);
    };
    for (std::int64_t outer = 0; outer < kRegions; ++outer)
      for (std::int64_t place = 0; place < inner; ++place) {
        // The last ten are the first ten again.
        for (std::int64_t i = 0; outer >= 30 && i < 5; ++i)
          rois[at(outer, i, 5, place)] = rois[at(outer - 30, i, 5, place)];
        rois[at(outer, 0, 5, place)] = static_cast<double>(outer % 2);
      }
    bench.set_input(0, rois);
    bench.set_input(1, losses);
    bench.set_input(2, labels);
    bench.set_input(3, weights);
    bench.forward();
    const Values found_labels = bench.output(0), found_weights = bench.output(1);
    int kept = 0;
    for (std::int64_t outer = 0; outer < kRegions; ++outer)
      for (std::int64_t place = 0; place < inner; ++place) {
        // How many others of the image come before this region, each counted where its loss is largest.
        const auto twin = [&](std::int64_t o) { return o >= 30 ? o - 30 : o < 10 ? o + 30 : o; };
        const auto largest = [&](std::int64_t o, std::int64_t p) {
          return std::max(losses[at(o, 0, 1, p)], losses[at(twin(o), 0, 1, p)]);
        };
        int before = 0;
        for (std::int64_t o = outer % 2; o < 30; o += 2)
          for (std::int64_t p = 0; p < inner; ++p) before += largest(o, p) > largest(outer, place) ? 1 : 0;
        const bool keeps = before < 5 && losses[at(outer, 0, 1, place)] == largest(outer, place);
        kept += keeps ? 1 : 0;
        EXPECT_EQ(found_labels[at(outer, 0, 1, place)], keeps ? labels[at(outer, 0, 1, place)] : -2);
        for (std::int64_t i = 0; i < kWeights; ++i)
          EXPECT_EQ(found_weights[at(outer, i, kWeights, place)],
                    keeps ? weights[at(outer, i, kWeights, place)] : 0);
      }
    EXPECT_EQ(kept, 10);
  }
}

TEST(BoxAnnotatorOhem, RefusesWhatDoesNotFit) {
  const std::string text = "type: 'BoxAnnotatorOHEM' box_annotator_ohem_param { roi_per_img: 5 }";
  const Shape rois{4, 5}, one{4}, weights{4, 8};
  EXPECT_THAT(refusal("type: 'BoxAnnotatorOHEM'", {rois, one, one, weights}), HasSubstr("roi_per_img"));
  EXPECT_THAT(refusal(text, {Shape{4, 4}, one, one, weights}), HasSubstr("R x 5"));
  EXPECT_THAT(refusal(text, {rois, one, Shape{3}, weights}), HasSubstr("one number for each of 4 regions"));
  EXPECT_THAT(refusal(text, {rois, one, one, Shape{3, 8}}), HasSubstr("weights of 4 regions"));
}

}  // namespace
}  // namespace banyan::testing
