// The layers of Faster R-CNN: anchors, regions and targets in closed form, samples, and the Python layers
// that they replace.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "layers/anchors.hpp"
#include "layers/bench.hpp"
#include "layers/python_layers.hpp"

namespace banyan::testing {
namespace {

using ::testing::HasSubstr;

TEST(Anchors, OfFasterRcnnAreTheNineThatAreKnown) {
  const std::vector<Box> expected = {{-84, -40, 99, 55}, {-176, -88, 191, 103},  {-360, -184, 375, 199},
                                     {-56, -56, 71, 71}, {-120, -120, 135, 135}, {-248, -248, 263, 263},
                                     {-36, -80, 51, 95}, {-80, -168, 95, 183},   {-168, -344, 183, 359}};
  EXPECT_EQ(base_anchors(16, {0.5, 1, 2}, {8, 16, 32}), expected);
}

TEST(Anchors, ComeByRowColumnAndNumber) {
  const AnchorGrid grid{.base = {{0, 0, 3, 3}, {1, 1, 2, 2}}, .stride = 10, .rows = 2, .columns = 2};
  EXPECT_EQ(grid.all(), (std::vector<Box>{{0, 0, 3, 3},
                                          {1, 1, 2, 2},
                                          {10, 0, 13, 3},
                                          {11, 1, 12, 2},
                                          {0, 10, 3, 13},
                                          {1, 11, 2, 12},
                                          {10, 10, 13, 13},
                                          {11, 11, 12, 12}}));
}

TEST(BoxShifts, FollowTheirFormulas) {
  const Box from{0, 0, 9, 9}, to{5, 0, 24, 9};  // centres 5, 5 and 15, 5
  const BoxShift shift = encoded(from, to, {});
  expect_near({shift.begin(), shift.end()}, {1, 0, std::log(2), 0}, 1e-15);
  const ShiftScale scale{{0.5, 1, 0, 0}, {0.1, 1, 0.2, 1}};
  const BoxShift scaled = encoded(from, to, scale);
  expect_near({scaled.begin(), scaled.end()}, {5, -1, 5 * std::log(2), 0}, 1e-15);
  for (const Box& box : {decoded(from, shift, {}), decoded(from, scaled, scale)})
    expect_near({box.x1, box.y1, box.x2, box.y2}, {5, 0, 25, 10}, 1e-14);
}

TEST(Draws, AreEvenRepeatableAndWithoutRepetition) {
  std::vector<int> all(20);
  for (int i = 0; i < 20; ++i) all[i] = 3 * i;
  std::map<int, int> counts;
  for (std::uint64_t iteration = 0; iteration < 2000; ++iteration) {
    const ops::RandomKey key{7, 5, iteration};
    const std::vector<int> found = drawn(all, 5, key, 1);
    EXPECT_EQ(found, drawn(all, 5, key, 1));
    EXPECT_EQ(std::set<int>(found.begin(), found.end()).size(), 5u);
    for (const int i : found) ++counts[i];
  }
  ASSERT_EQ(counts.size(), 20u);
  for (const auto& [number, count] : counts) {
    EXPECT_EQ(number % 3, 0);
    EXPECT_NEAR(count, 500, 97);  // five standard deviations
  }
  EXPECT_NE(drawn(all, 5, {7, 5, 0}, 1), drawn(all, 5, {7, 5, 0}, 2));
  EXPECT_NE(drawn(all, 5, {7, 5, 0}, 1), drawn(all, 5, {8, 5, 0}, 1));
  EXPECT_EQ(drawn(all, 50, {}, 0).size(), 20u);
}

// One anchor of 10 x 10 pixels per position.
const std::string kSquare = "feat_stride: 10 base_size: 10 ratio: 1 scale: 1 ";
const Shape kInfo{1, 3};

/// A map of 2 x 2 positions of an image of 20 x 20; the scores of objects are .1 .4 .3 .2.
struct Proposals : Bench {
  Proposals(const std::string& settings, const Values& shifts, const Values& info = {20, 20, 1})
      : Bench("type: 'Proposal' proposal_param { " + kSquare + settings + " }",
              {Shape{1, 2, 2, 2}, Shape{1, 4, 2, 2}, Shape{1, static_cast<std::int64_t>(info.size())}}, 2) {
    set_input(0, {.9, .6, .7, .8, .1, .4, .3, .2});
    set_input(1, shifts);
    set_input(2, info);
    forward();
  }
};

TEST(Proposal, SortsClipsAndSuppresses) {
  Values shifts(16);
  const std::string settings = "min_size: 4 post_nms_topn: 4";
  Proposals still(settings, shifts);
  EXPECT_EQ(still.outputs[0]->shape, (Shape{4, 5}));
  // A predicted box ends one pixel further than its anchor; the image's last pixel is 19.
  EXPECT_EQ(still.output(), (Values{0, 10, 0, 19, 10, 0, 0, 10, 10, 19, 0, 10, 10, 19, 19, 0, 0, 0, 10, 10}));
  EXPECT_EQ(still.output(1), (Values{.4, .3, .2, .1}));
  shifts[0] = 0.9;  // the first box now shares 110 of 121 pixels with the second, which is more probable
  Proposals moved(settings, shifts);
  EXPECT_EQ(moved.output(),
            (Values{0, 10, 0, 19, 10, 0, 0, 10, 10, 19, 0, 10, 10, 19, 19, 0, 10, 0, 19, 10}));
  EXPECT_EQ(moved.output(1), (Values{.4, .3, .2, 0}));  // the last row repeats the first
  EXPECT_EQ(Proposals(settings + " nms_thresh: 0.95", shifts).output(1), (Values{.4, .3, .2, .1}));
  EXPECT_EQ(Proposals("min_size: 4 post_nms_topn: 2", shifts).output(1), (Values{.4, .3}));
  EXPECT_EQ(Proposals("min_size: 4 pre_nms_topn: 1", shifts).output(1), Values{.4});
}

TEST(Proposal, DropsSmallBoxesInTheScaleOfTheImage) {
  Values shifts(16);
  shifts[8] = std::log(0.31);  // the first box is 4.1 pixels wide
  const std::string settings = "min_size: 4 post_nms_topn: 0";
  EXPECT_EQ(Proposals(settings, shifts).output(1), (Values{.4, .3, .2, .1}));
  EXPECT_EQ(Proposals(settings, shifts, {20, 20, 1.1}).output(1), (Values{.4, .3, .2, 0}));
  EXPECT_EQ(Proposals(settings, shifts, {20, 20, 1.1, 1}).output(1), (Values{.4, .3, .2, .1}));
  Proposals none(settings, shifts, {20, 20, 10});
  EXPECT_EQ(none.output(), (Values{0, 0, 0, 10, 10, 0, 0, 0, 10, 10, 0, 0, 0, 10, 10, 0, 0, 0, 10, 10}));
  EXPECT_EQ(none.output(1), Values(4));
  shifts[8] = std::nan("");
  EXPECT_EQ(Proposals(settings, shifts).output(1), (Values{.4, .3, .2, 0}));
}

TEST(Proposal, UndoesTheScaleOfShifts) {
  Values shifts(16, 0.1);
  const Values plain = Proposals("min_size: 4", shifts).output();
  for (double& shift : shifts) shift = (shift - 0.5) / 2;
  expect_near(Proposals("min_size: 4 bbox_mean: 0.5 bbox_std: 2", shifts).output(), plain, 1e-14);
}

/// On a map of side x side positions, which the anchors of the image cover.
struct AnchorTargets : Bench {
  AnchorTargets(const std::string& settings, const Values& truth, std::int64_t side = 2,
                std::int64_t draw = 0, std::int64_t sample = 0)
      : Bench("type: 'AnchorTarget' anchor_target_param { " + kSquare + settings + " }",
              {Shape{1, 2, side, side}, Shape{static_cast<std::int64_t>(truth.size()) / 5, 5}, kInfo}, 4) {
    set_input(1, truth);
    set_input(2, {static_cast<double>(10 * side), static_cast<double>(10 * side), 1});
    pass.draw = draw;
    pass.samples.first = sample;
    forward();
  }
};

TEST(AnchorTarget, LabelsAndShiftsAreThoseOfTheNearestBox) {
  // Overlaps: 1 and 0; the second row is not used.
  AnchorTargets exact("", {0, 0, 9, 9, 3, 10, 10, 19, 19, 0});
  EXPECT_EQ(exact.output(0), (Values{1, 0, 0, 0}));
  expect_near(exact.output(1), {0, -1, 0, -1, 0, 0, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0}, 1e-15);
  EXPECT_EQ(exact.output(2), (Values{1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(exact.output(3), Values(16, 0.25));
  // 80 / 120 with the first, 20 / 180 with the second anchor: the most that this box has, and neither.
  AnchorTargets near("negative_overlap: 0.1 positive_weight: 0.25 bbox_inside_weight: 2 bbox_std: 0.1",
                     {2, 0, 11, 9, 1});
  EXPECT_EQ(near.output(0), (Values{1, -1, 0, 0}));
  EXPECT_NEAR(near.output(1)[0], 2, 1e-7);
  EXPECT_EQ(near.output(2)[0], 2);
  const Values weights = near.output(3);
  expect_near({weights.begin(), weights.begin() + 4}, {0.25, 0, 0.375, 0.375}, 1e-15);
  EXPECT_EQ(AnchorTargets("negative_overlap: 0.7 clobber_positives: true", {2, 0, 11, 9, 1}).output(0),
            Values(4));
  EXPECT_EQ(AnchorTargets("", {0, 0, 9, 9, 0}).output(0), Values(4)) << "without boxes all is background";
}

TEST(AnchorTarget, OnlyAnchorsInsideTheImageCount) {
  const auto labels = [](const std::string& settings) {
    Bench bench("type: 'AnchorTarget' anchor_target_param { " + kSquare + settings + " }",
                {Shape{1, 2, 2, 2}, Shape{1, 5}, kInfo}, 4);
    bench.set_input(1, {0, 0, 9, 9, 1});
    bench.set_input(2, {20, 18, 1});
    bench.forward();
    return bench.output();
  };
  EXPECT_EQ(labels(""), (Values{1, -1, 0, -1}));
  EXPECT_EQ(labels("allowed_border: 2"), (Values{1, 0, 0, 0}));
}

TEST(AnchorTarget, DrawsABatch) {
  Values truth;
  for (const double x : {0, 20, 40, 60}) truth.insert(truth.end(), {x, 0, x + 9, 9, 1});
  const auto labels = [&](std::int64_t draw, std::int64_t sample) {
    return AnchorTargets("batch_size: 4 fg_fraction: 0.5", truth, 10, draw, sample).output();
  };
  const Values first = labels(0, 0);
  EXPECT_EQ(std::count(first.begin(), first.end(), 1), 2);
  EXPECT_EQ(std::count(first.begin(), first.end(), 0), 2);
  EXPECT_EQ(labels(0, 0), first);
  EXPECT_NE(labels(1, 0), first);
  EXPECT_NE(labels(0, 1), first);
  // 3 of 100; as a double, the float nearest to 0.03 gives 2.9999999.
  const Values exact = AnchorTargets("batch_size: 100 fg_fraction: 0.03", truth, 10).output();
  EXPECT_EQ(std::count(exact.begin(), exact.end(), 1), 3);
  const Values few = AnchorTargets("batch_size: 50", truth, 10).output();
  EXPECT_EQ(std::count(few.begin(), few.end(), 1), 4);
  EXPECT_EQ(std::count(few.begin(), few.end(), 0), 46);
}

TEST(AnchorTarget, TakesImagesTogetherOrOneByOne) {
  const std::string text = "type: 'AnchorTarget' anchor_target_param { " + kSquare + "batch_size: 3 }";
  Bench both(text, {Shape{2, 2, 3, 3}, Shape{2, 1, 5}, Shape{2, 3}}, 4);
  both.set_input(1, {0, 0, 9, 9, 1, 10, 10, 19, 19, 2});
  both.set_input(2, {30, 30, 1, 30, 20, 1});
  both.forward();
  Bench second(text, {Shape{1, 2, 3, 3}, Shape{1, 5}, kInfo}, 4);
  second.set_input(1, {10, 10, 19, 19, 2});
  second.set_input(2, {30, 20, 1});
  second.pass.samples = {1, 2};  // the second of two devices
  second.forward();
  for (std::size_t i = 0; i < 4; ++i) {
    const Values all = both.output(i);
    EXPECT_EQ(second.output(i), Values(all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end()));
  }
}

/// Of a true box of class 2 from 0, 0 to 9, 9 and these regions.
struct RegionTargets : Bench {
  RegionTargets(const std::string& settings, const Values& rois)
      : Bench("type: 'ProposalTarget' proposal_target_param { " + settings + " }",
              {Shape{static_cast<std::int64_t>(rois.size()) / 5, 5}, Shape{1, 5}}, 5) {
    set_input(0, rois);
    set_input(1, {0, 0, 9, 9, 2});
    forward();
  }
};

/// Half of the box; away from it, twice; above it.
const Values kRois{0, 0, 0, 9, 4, 0, 20, 20, 29, 29, 0, 20, 20, 29, 29, 0, 0, 5, 9, 19};

TEST(ProposalTarget, FollowsItsFormulas) {
  // All regions but the one that comes twice, and the true box itself.
  RegionTargets bench("num_classes: 3 batch_size: 4 fg_fraction: 0.5 fg_thresh: 0.5", kRois);
  EXPECT_EQ(bench.outputs[2]->shape, (Shape{4, 12, 1, 1}));
  const Values rois = bench.output(), labels = bench.output(1), targets = bench.output(2),
               inside = bench.output(3), outside = bench.output(4);
  EXPECT_EQ(labels, (Values{2, 2, 0, 0}));
  std::set<Values> backgrounds;
  for (std::size_t row = 0; row < 4; ++row) {
    const Values roi(rois.begin() + static_cast<std::ptrdiff_t>(5 * row),
                     rois.begin() + static_cast<std::ptrdiff_t>(5 * row + 5));
    Values expected(12), weight(12);
    if (row < 2) {
      const bool half = roi[4] == 4;
      EXPECT_TRUE(half || roi == (Values{0, 0, 0, 9, 9}));
      // The centre moves from 2.5 to 5, by half a height, and the height doubles.
      if (half) expected[9] = 0.5 / 0.1, expected[11] = std::log(2) / 0.2;
      std::fill(weight.begin() + 8, weight.end(), 1);
    } else {
      backgrounds.insert(roi);
    }
    const auto part = [&](const Values& all) {
      return Values(all.begin() + static_cast<std::ptrdiff_t>(12 * row),
                    all.begin() + static_cast<std::ptrdiff_t>(12 * row + 12));
    };
    expect_near(part(targets), expected, 1e-7);
    EXPECT_EQ(part(inside), weight);
    EXPECT_EQ(part(outside), weight);
  }
  EXPECT_EQ(backgrounds, (std::set<Values>{{0, 20, 20, 29, 29}, {0, 0, 5, 9, 19}}));
}

TEST(ProposalTarget, DrawsObjectsUpToTheirFraction) {
  RegionTargets bench("num_classes: 3 batch_size: 4 fg_fraction: 0.25", kRois);
  EXPECT_EQ(bench.output(1), (Values{2, 0, 0, 0}));
  std::set<Values> first;
  for (bench.pass.draw = 0; bench.pass.draw < 20; ++bench.pass.draw) {
    bench.forward();
    const Values rois = bench.output();
    first.insert(Values(rois.begin(), rois.begin() + 5));
    EXPECT_NE(Values(rois.begin() + 10, rois.begin() + 15), Values(rois.begin() + 5, rois.begin() + 10));
    EXPECT_EQ(Values(rois.begin() + 15, rois.end()), Values(rois.begin() + 5, rois.begin() + 10));
  }
  EXPECT_EQ(first.size(), 2u);  // missed by chance: 2^-19
}

TEST(ProposalTarget, RowsBeyondTheSampleRepeatItOrAreIgnored) {
  const std::string settings = "num_classes: 3 batch_size: 8 fg_fraction: 0.5 ";
  EXPECT_EQ(RegionTargets(settings, kRois).output(1), (Values{2, 2, 0, 0, 0, 0, 0, 0}));
  RegionTargets ignored(settings + "ignore_label: -1", kRois);
  EXPECT_EQ(ignored.output(1), (Values{2, 2, 0, 0, -1, -1, -1, -1}));
  const Values outside = ignored.output(4);
  // Losses that divide by 8 rows are those of 4.
  EXPECT_EQ(std::count(outside.begin(), outside.end(), 2), 8);
  EXPECT_EQ(std::count(outside.begin(), outside.end(), 0), 88);
  // bg_thresh_lo leaves the region above the box only: overlap 50 / 200.
  EXPECT_EQ(RegionTargets(settings + "bg_thresh_lo: 0.1 ignore_label: -1", kRois).output(1),
            (Values{2, 2, 0, -1, -1, -1, -1, -1}));
  RegionTargets all("num_classes: 3 batch_size: -1 ignore_label: -1", kRois);
  EXPECT_EQ(all.output(1), (Values{2, 2, 0, 0, -1}));
}

TEST(ProposalTarget, HasOneBoxForAllClassesIfAsked) {
  for (const char* settings :
       {"num_classes: 2 batch_size: 1", "num_classes: 5 agnostic: true batch_size: 1"}) {
    RegionTargets bench(std::string(settings) + " fg_fraction: 1", kRois);
    EXPECT_EQ(bench.output(1), Values{2});
    Values inside = bench.output(3);
    inside.resize(8);
    EXPECT_EQ(inside, (Values{0, 0, 0, 0, 1, 1, 1, 1}));
  }
}

std::string problem(Bench& bench) {
  try {
    bench.layer().check_results(bench.context());
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(ProposalTarget, NamesWhatIsWrongInItsData) {
  RegionTargets fine("num_classes: 3 batch_size: 4", kRois);
  EXPECT_EQ(problem(fine), "");
  RegionTargets classes("num_classes: 2 agnostic: false batch_size: 4", kRois);
  EXPECT_THAT(problem(classes), HasSubstr("a true box has the class 2; there are 2 classes"));
  EXPECT_EQ(problem(classes), "") << "said once";
  RegionTargets images("num_classes: 3 batch_size: 4", {1, 0, 0, 9, 9});
  EXPECT_THAT(problem(images), HasSubstr("region 0 is image 1, 0, 0, 9, 9; the batch has the images 0 to 0"));
  AnchorTargets boxes("", {9, 0, 0, 9, 1});
  EXPECT_THAT(problem(boxes), HasSubstr("true box 0 goes from 9, 0 to 0, 9: it ends before it begins"));
  AnchorTargets endless("", {0, 0, INFINITY, 9, 1});
  EXPECT_THAT(problem(endless), HasSubstr("true box 0 goes from 0, 0 to inf, 9: expected finite corners"));
}

TEST(RegionLayers, RefuseWhatDoesNotFit) {
  const Shape scores{1, 2, 2, 2}, shifts{1, 4, 2, 2}, truth{3, 5};
  const auto expect_part = [](const std::string& text, const std::vector<Shape>& inputs, const char* part) {
    EXPECT_THAT(refusal(text, inputs), HasSubstr(part)) << text;
  };
  const auto proposal = [](const std::string& settings) {
    return "type: 'Proposal' proposal_param { " + kSquare + settings + " }";
  };
  expect_part("type: 'Proposal' proposal_param { feat_stride: 0 }", {scores, shifts, kInfo},
              "feat_stride must be positive");
  expect_part(proposal("scale: 0"), {scores, shifts, kInfo}, "scale must be positive");
  expect_part(proposal("ratio: 1000"), {scores, shifts, kInfo}, "an anchor is empty");
  expect_part(proposal("nms_thresh: 1"), {scores, shifts, kInfo}, "nms_thresh");
  expect_part(proposal("bbox_std: 1 bbox_std: 2"), {scores, shifts, kInfo}, "bbox_std is given 2 times");
  expect_part(proposal("bbox_std: 0"), {scores, shifts, kInfo}, "bbox_std must be positive");
  expect_part(proposal(""), {shifts, shifts, kInfo}, "2 x 1 channels");
  expect_part(proposal(""), {scores, Shape{1, 4, 2, 3}, kInfo}, "same batch, height and width");
  expect_part(proposal(""), {scores, shifts, Shape{1, 2}}, "1 x 3: height, width and scale");
  const auto target = [](const std::string& settings) {
    return "type: 'AnchorTarget' anchor_target_param { " + kSquare + settings + " }";
  };
  expect_part(target("fg_fraction: 2"), {scores, truth, kInfo}, "fg_fraction must be from 0 to 1");
  expect_part(target("positive_weight: 1"), {scores, truth, kInfo}, "positive_weight");
  expect_part(target(""), {scores, Shape{3, 4}, kInfo}, "G x 5");
  expect_part(target(""), {scores, Shape{2, 3, 5}, kInfo}, "boxes of 2 images");
  const auto sample = [](const std::string& settings) {
    return "type: 'ProposalTarget' proposal_target_param { " + settings + " }";
  };
  expect_part(sample(""), {Shape{4, 5}, truth}, "num_classes must be at least 2");
  expect_part(sample("num_classes: 2 batch_size: 0"), {Shape{4, 5}, truth}, "batch_size");
  expect_part(sample("num_classes: 2 bg_thresh_lo: 0.5"), {Shape{4, 5}, truth}, "bg_thresh_hi");
  expect_part(sample("num_classes: 2"), {Shape{4, 4}, truth}, "R x 5");
}

caffe::LayerParameter python(const std::string& module, const std::string& layer,
                             const std::string& settings) {
  caffe::LayerParameter parameter;
  parameter.set_name("p");
  parameter.set_type("Python");
  parameter.mutable_python_param()->set_module(module);
  parameter.mutable_python_param()->set_layer(layer);
  parameter.mutable_python_param()->set_param_str(settings);
  return parameter;
}
caffe::LayerParameter native(const std::string& settings, Phase phase = Phase::train) {
  return native_layer(python("rpn.proposal_layer", "ProposalLayer", settings), phase).value();
}

TEST(PythonLayers, OfOtherProjectsWithTheSameNamesAreProgramsOfTheirOwn) {
  caffe::LayerParameter layer = python("rpn.proposal_layer", "ProposalLayer", "'feat_stride': 16");
  for (int inputs = 1; inputs <= 4; ++inputs) {
    layer.add_bottom("x");
    EXPECT_TRUE(inputs == 3 || !native_layer(layer, Phase::train).has_value()) << inputs;
  }
}

TEST(PythonLayers, BecomeNativeOnes) {
  for (const char* text : {"'feat_stride': 8\n'scales': !!python/tuple [4, 8, 16, 32]\n",
                           "{feat_stride: 8, scales: [4, 8,\n 16, 32,]}",
                           "# anchors\nfeat_stride: 8  # pixels\n\n\"scales\": [4,8,16,32]",
                           "{'feat_stride': 8, 'scales': [4, 8, 16, 32],}"}) {
    const caffe::LayerParameter layer = native(text);
    EXPECT_EQ(layer.type(), "Proposal");
    EXPECT_FALSE(layer.has_python_param());
    const caffe::ProposalParameter& settings = layer.proposal_param();
    EXPECT_EQ(settings.feat_stride(), 8u) << text;
    EXPECT_EQ(Values(settings.scale().begin(), settings.scale().end()), (Values{4, 8, 16, 32})) << text;
    EXPECT_EQ(settings.pre_nms_topn(), 12000u);
    EXPECT_EQ(settings.post_nms_topn(), 2000u);
  }
  EXPECT_EQ(native("", Phase::test).proposal_param().pre_nms_topn(), 6000u);
  EXPECT_EQ(native("", Phase::test).proposal_param().post_nms_topn(), 300u);
  EXPECT_EQ(native("'post_nms_topn': 300").proposal_param().post_nms_topn(), 300u);
  const auto targets = native_layer(python("rpn.anchor_target_layer", "AnchorTargetLayer",
                                           "{positive_weight: -1.0, clobber_positives: True}"),
                                    Phase::train);
  EXPECT_EQ(targets->type(), "AnchorTarget");
  EXPECT_TRUE(targets->anchor_target_param().clobber_positives());
  const auto sample = native_layer(
      python("rpn.proposal_target_layer", "ProposalTargetLayer", "'num_classes': 21"), Phase::train);
  EXPECT_EQ(sample->type(), "ProposalTarget");
  EXPECT_EQ(sample->proposal_target_param().num_classes(), 21u);
  const auto loss = native_layer(python("pyloss", "EuclideanLossLayer", ""), Phase::train);
  EXPECT_EQ(loss->type(), "EuclideanLoss");
  EXPECT_FALSE(loss->has_python_param());
  EXPECT_FALSE(native_layer(python("rpn.proposal_layer", "OtherLayer", ""), Phase::train).has_value());
}

caffe::LayerParameter of_enet(const std::string& settings, Phase phase = Phase::test) {
  return native_layer(python("spatial_dropout", "SpatialDropoutLayer", settings), phase).value();
}

TEST(PythonLayers, ThatOfENetHasThePhaseOfItsString) {
  const caffe::LayerParameter train = of_enet("{'phase': 'TRAIN', 'p': '0.25'}");
  EXPECT_EQ(train.type(), "SpatialDropout");
  EXPECT_EQ(train.phase(), caffe::TRAIN);
  EXPECT_EQ(train.dropout_param().dropout_ratio(), 0.25f);
  const caffe::LayerParameter test = of_enet("{'phase': 'TEST', 'p': '0.2'}", Phase::train);
  EXPECT_EQ(test.type(), "Power");
  EXPECT_FLOAT_EQ(test.power_param().scale(), 1.25f);
  BenchOptions options;
  options.phase = Phase::test;  // where it drops, too, as ENet's does
  Bench bench(
      "type: 'Python' python_param { module: 'spatial_dropout' layer: 'SpatialDropoutLayer' param_str: "
      "\"{'phase': 'TRAIN', 'p': '0.5'}\" }",
      {Shape{10, 10}}, 1, options);
  bench.set_input(0, Values(100, 1));
  bench.forward();
  const Values y = bench.output();
  EXPECT_EQ(std::count(y.begin(), y.end(), 0) + std::count(y.begin(), y.end(), 2), 100);
  EXPECT_NEAR(static_cast<double>(std::count(y.begin(), y.end(), 0)), 50, 25);
  for (const auto& [settings, part] :
       {std::pair("{'phase': 'TRAIN', 'q': 1}", "has the key \"q\"; known are"),
        {"{'phase': 'TRAIN'}", "p between 0 and 1"},
        {"{'phase': 'TRAIN', 'p': '1'}", "p between 0 and 1"},
        {"{'p': '0.1'}", "the phase TRAIN or TEST"},
        {"{'phase': 'TRAIN', 'p': 'x'}", "p cannot be \"x\""}}) {
    try {
      of_enet(settings);
      ADD_FAILURE() << settings;
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr(part));
    }
  }
}

TEST(PythonLayers, SayWhatTheyDoNotUnderstand) {
  const auto expect_part = [](const std::string& settings, const char* part) {
    try {
      native(settings);
      ADD_FAILURE() << settings;
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr(part)) << settings;
    }
  };
  expect_part("'feat_strid': 16", "param_str has the key \"feat_strid\"; known are feat_stride, base_size");
  expect_part("feat_stride 16", "param_str is not understood at \"16\"");
  expect_part("{feat_stride: 16", "param_str is not understood at \"\"");
  expect_part("feat_stride: 16}", "not understood at \"}\"");
  expect_part("scales: (8, 16)", "not understood at \"(8, 16)\"");
  expect_part("feat_stride: 16 scales: [8]", "not understood at \"scales: [8]\"");
  expect_part("scales: [8, 16", "not understood");
  expect_part("feat_stride: 'x'", "feat_stride cannot be \"x\"");
  expect_part("feat_stride: -1", "feat_stride cannot be \"-1\"");
  expect_part("feat_stride: [16]", "feat_stride must be one value");
}

using DimsOfTops = std::vector<std::vector<std::int64_t>>;

/// Of the Input that takes the place of a Python layer without inputs.
DimsOfTops filled_shapes(caffe::LayerParameter data, const std::vector<std::string>& tops,
                         Phase phase = Phase::train) {
  for (const std::string& top : tops) data.add_top(top);
  const caffe::LayerParameter native = native_layer(data, phase).value();
  EXPECT_EQ(native.type(), "Input");
  DimsOfTops found;
  for (const auto& shape : native.input_param().shape())
    found.emplace_back(shape.dim().begin(), shape.dim().end());
  return found;
}

TEST(PythonData, OfSegmentationAndVideosAreFilledByAProgram) {
  const auto segmentation = [](const char* layer) { return python("layers", layer, "{'mean': (1, 2, 3)}"); };
  EXPECT_EQ(filled_shapes(segmentation("SBDDSegDataLayer"), {"data", "label"}),
            (DimsOfTops{{1, 3, 500, 500}, {1, 1, 500, 500}}));
  EXPECT_EQ(filled_shapes(segmentation("SIFTFlowSegDataLayer"), {"data", "sem", "geo"}),
            (DimsOfTops{{1, 3, 256, 256}, {1, 1, 256, 256}, {1, 1, 256, 256}}));
  EXPECT_EQ(filled_shapes(segmentation("NYUDSegDataLayer"), {"color", "depth", "hha", "label"}),
            (DimsOfTops{{1, 3, 425, 560}, {1, 1, 425, 560}, {1, 3, 425, 560}, {1, 1, 425, 560}}));
  caffe::LayerParameter edges = segmentation("VOCSegDataLayer");
  edges.add_top("edges");
  EXPECT_FALSE(native_layer(edges, Phase::train).has_value());
  const std::vector<std::string> tops = {"data", "label", "clip_markers"};
  EXPECT_EQ(filled_shapes(python("sequence_input_layer", "videoReadTrain_RGB", ""), tops),
            (DimsOfTops{{384, 3, 227, 227}, {384}, {384}}));
  EXPECT_EQ(filled_shapes(python("sequence_input_layer", "videoReadTest_flow", ""), tops, Phase::test),
            (DimsOfTops{{48, 3, 227, 227}, {48}, {48}}));
  EXPECT_FALSE(native_layer(python("layers", "DataLayer", ""), Phase::train).has_value());
}

TEST(PythonData, OfDetectionAreFilledByAProgram) {
  const auto shapes = [](const std::vector<std::string>& tops, const char* settings) {
    return filled_shapes(python("roi_data_layer.layer", "RoIDataLayer", settings), tops);
  };
  const std::vector<std::string> faster = {"data", "im_info", "gt_boxes"};
  EXPECT_EQ(shapes(faster, "'num_classes': 21"), (DimsOfTops{{1, 3, 608, 1024}, {1, 3}, {20, 5}}));
  EXPECT_EQ(shapes(faster, "{num_classes: 2, height: 64, width: 96, boxes: 3, images: 2}"),
            (DimsOfTops{{2, 3, 64, 96}, {2, 3}, {3, 5}}));
  EXPECT_EQ(shapes({"data", "rois", "labels", "bbox_targets", "bbox_loss_weights"}, "'num_classes': 21"),
            (DimsOfTops{{2, 3, 608, 1024}, {128, 5}, {128}, {128, 84}, {128, 84}}));
  const auto expect_refused = [&](const std::vector<std::string>& tops, const char* settings,
                                  const char* part) {
    try {
      shapes(tops, settings);
      ADD_FAILURE() << settings;
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr(part)) << settings;
    }
  };
  const auto of_other_blobs = [](const std::vector<const char*>& tops) {
    caffe::LayerParameter other = python("roi_data_layer.layer", "RoIDataLayer", "'num_classes': 21");
    for (const char* top : tops) other.add_top(top);
    return native_layer(other, Phase::train);
  };
  EXPECT_FALSE(of_other_blobs({"data", "gt_windows"}).has_value());  // R-C3D's
  EXPECT_FALSE(of_other_blobs({"data", "im_info", "masks"}).has_value());
  expect_refused({"data", "rois", "bbox_targets"}, "height: 64", "param_str needs num_classes");
  expect_refused({"data", "rois"}, "boxen: 3",
                 "the key \"boxen\"; known are height, images, num_classes, regions, width");
  for (const char* number : {"0", "-3", "3.5", "x", "[3]", "[]", "12345678"})
    expect_refused(faster, ("boxes: " + std::string(number)).c_str(),
                   "param_str: boxes must be a whole number from 1 to 9999999");
}

}  // namespace
}  // namespace banyan::testing
