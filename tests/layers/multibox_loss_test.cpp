// MultiBoxLoss against its definition in loops, its gradients, several devices, and what it refuses.
#include <random>

#include "layers/box_matching.hpp"
#include "layers/fake_exchange.hpp"
#include "layers/gradient_checker.hpp"
#include "layers/ssd_scene.hpp"

namespace banyan::testing {
namespace {

struct Case {
  std::string name, settings;
  bool share_location = true;
  int classes = 4;
  int first_step = 0;  ///< inputs of RefineDet's first step
};
void PrintTo(const Case& tested, std::ostream* out) { *out << tested.name; }

std::string text_of(const std::string& settings, int classes = 4) {
  return cat("type: 'MultiBoxLoss' multibox_loss_param { num_classes: ", classes, " ", settings, " }");
}

const std::vector<Case> kCases = {
    {"as_in_ssd", "code_type: CENTER_SIZE"},
    {"none", "mining_type: NONE"},
    {"corner", "mining_type: MAX_NEGATIVE do_neg_mining: true loc_weight: 1.5"},
    {"corner_size", "code_type: CORNER_SIZE neg_pos_ratio: 1.5 neg_overlap: 0.25"},
    {"bipartite", "match_type: BIPARTITE code_type: CENTER_SIZE"},
    {"threshold", "overlap_threshold: 0.25 neg_overlap: 0.25 code_type: CENTER_SIZE"},
    {"l2", "loc_loss_type: L2 code_type: CENTER_SIZE loc_weight: 0.5"},
    {"variance_in_target", "encode_variance_in_target: true code_type: CENTER_SIZE"},
    {"variance_in_target_corner", "encode_variance_in_target: true loc_loss_type: L2"},
    {"logistic", "conf_loss_type: LOGISTIC"},
    {"logistic_none", "conf_loss_type: LOGISTIC mining_type: NONE"},
    {"logistic_no_background", "conf_loss_type: LOGISTIC background_label_id: 4"},
    {"other_background", "background_label_id: 0 overlap_threshold: 0.5"},
    {"easy_only", "use_difficult_gt: false code_type: CENTER_SIZE"},
    {"inside", "bp_inside: true code_type: CORNER_SIZE mining_type: NONE"},
    {"no_crossing", "ignore_cross_boundary_bbox: true code_type: CENTER_SIZE"},
    {"no_crossing_none", "ignore_cross_boundary_bbox: true mining_type: NONE"},
    {"ignore_difficult", "ignore_difficult_gt: true code_type: CENTER_SIZE"},
    {"ignore_difficult_none", "ignore_difficult_gt: true mining_type: NONE"},
    {"ignore_difficult_bipartite", "ignore_difficult_gt: true match_type: BIPARTITE"},
    {"ignore_difficult_hard", "ignore_difficult_gt: true mining_type: HARD_EXAMPLE sample_size: 7"},
    {"ignore_difficult_predictions",
     "ignore_difficult_gt: true use_prior_for_matching: false overlap_threshold: 0.25"},
    {"ignore_difficult_per_class",
     "ignore_difficult_gt: true share_location: false mining_type: NONE use_prior_for_matching: false",
     false},
    {"agnostic", "map_object_to_agnostic: true", true, 2},
    {"agnostic_logistic", "map_object_to_agnostic: true conf_loss_type: LOGISTIC", true, 2},
    {"predictions_match", "use_prior_for_matching: false code_type: CENTER_SIZE overlap_threshold: 0.25"},
    {"predictions_match_inside", "use_prior_for_matching: false bp_inside: true overlap_threshold: 0.25"},
    {"hard", "mining_type: HARD_EXAMPLE sample_size: 7 code_type: CENTER_SIZE"},
    {"hard_l2", "mining_type: HARD_EXAMPLE sample_size: 5 loc_loss_type: L2 encode_variance_in_target: true"},
    {"hard_inside", "mining_type: HARD_EXAMPLE sample_size: 5 bp_inside: true"},
    {"hard_priors_nms",
     "mining_type: HARD_EXAMPLE sample_size: 6 use_prior_for_nms: true nms_param { nms_threshold: 0.25 }"},
    {"hard_nms", "mining_type: HARD_EXAMPLE sample_size: 6 nms_param { nms_threshold: 0.25 }"},
    {"negatives_nms", "nms_param { nms_threshold: 0.125 } use_prior_for_nms: true code_type: CENTER_SIZE"},
    {"per_class", "share_location: false mining_type: NONE code_type: CENTER_SIZE", false},
    {"per_class_predictions", "share_location: false mining_type: NONE use_prior_for_matching: false", false},
    {"per_class_logistic", "share_location: false mining_type: NONE conf_loss_type: LOGISTIC", false},
    {"first_step", "objectness_score: 0.01 code_type: CENTER_SIZE", true, 2},
    {"second_step", "objectness_score: 0.5 code_type: CENTER_SIZE", true, 4, 2},
    {"second_step_by_default", "", true, 4, 2},
    {"second_step_rates_only", "objectness_score: 0.5 code_type: CENTER_SIZE", true, 4, 1},
    {"second_step_none", "mining_type: NONE code_type: CORNER_SIZE bp_inside: true", true, 4, 2},
    {"second_step_variance_in_target", "objectness_score: 0.5 encode_variance_in_target: true", true, 4, 2},
    {"second_step_predictions_match",
     "use_prior_for_matching: false bp_inside: true overlap_threshold: 0.25 objectness_score: 0.75", true, 4,
     2},
    {"second_step_hard",
     "mining_type: HARD_EXAMPLE sample_size: 6 objectness_score: 0.5 use_prior_for_nms: true nms_param { "
     "nms_threshold: 0.25 } code_type: CENTER_SIZE",
     true, 4, 2},
    {"second_step_per_class", "share_location: false mining_type: NONE code_type: CENTER_SIZE", false, 4, 2}};

class MultiBoxLoss : public ::testing::TestWithParam<Case> {
 protected:
  Scene scene(unsigned seed, int items = 3) const {
    Scene made(seed, items, GetParam().classes, GetParam().share_location);
    if (GetParam().first_step > 0) made.add_first_step(GetParam().first_step > 1, seed + 3);
    return made;
  }
  std::string text() const { return text_of(GetParam().settings, GetParam().classes); }
};

TEST_P(MultiBoxLoss, IsThatOfItsDefinition) {
  int matches = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Scene made = scene(seed);
    Bench bench(text(), made.shapes(), 1);
    made.feed(bench);
    bench.forward();
    EXPECT_TRUE(bench.layer().traits().loss);
    const NaiveLoss expected = naive_multibox_loss(made, bench.layer().parameter().multibox_loss_param());
    matches += expected.matches;
    EXPECT_NEAR(bench.output()[0] * std::max(1, expected.matches), expected.sum, 1e-11 * expected.sum)
        << seed;
  }
  EXPECT_GT(matches, 40);  // the scenes test something
}

TEST_P(MultiBoxLoss, HasTheGradientsOfDifferences) {
  const Scene made = scene(3);
  Bench bench(text(), made.shapes(), 1);
  made.feed(bench);
  GradientChecker(bench).run();
}

TEST_P(MultiBoxLoss, OfSeveralDevicesIsThatOfOne) {
  const Scene made = scene(5, 5);
  const Values weight{0.7};
  Bench whole(text(), made.shapes(), 1);
  made.feed(whole);
  whole.forward();
  whole.backward(weight);
  for (const std::vector<int>& cuts : {std::vector<int>{0, 2, 5}, {0, 1, 2, 3, 4, 5}, {0, 0, 4, 5}}) {
    const int devices = static_cast<int>(cuts.size()) - 1;
    MeetingPoint point(devices);
    std::vector<Values> losses(cuts.size() - 1), gradients[2] = {losses, losses};
    run_replicas(point, [&](int rank) {
      const int first = cuts[rank], end = cuts[rank + 1];
      BenchOptions options;
      options.rank = rank;
      options.devices = devices;
      Bench bench(text(), made.shapes(first, end), 1, options);
      FakeExchange exchange(point, rank);
      bench.pass.exchange = &exchange;
      made.feed(bench, first, end);
      bench.forward();
      bench.backward(weight);
      losses[rank] = bench.output();
      for (std::size_t i = 0; i < 2; ++i) gradients[i][rank] = bench.input_gradient(i);
    });
    double loss = 0;
    Values all[2];
    for (std::size_t rank = 0; rank < losses.size(); ++rank) {
      loss += losses[rank].at(0);
      for (std::size_t i = 0; i < 2; ++i)
        all[i].insert(all[i].end(), gradients[i][rank].begin(), gradients[i][rank].end());
    }
    EXPECT_NEAR(loss, whole.output()[0], 1e-12 * loss);
    for (std::size_t i = 0; i < 2; ++i) expect_near(all[i], whole.input_gradient(i), 1e-13);
  }
}

TEST_P(MultiBoxLoss, HasTheSameBitsOnAnAsynchronousStreamAndAfterOtherBatches) {
  std::vector<Values> expected;
  for (const bool asynchronous : {false, true}) {
    BenchOptions options;
    options.asynchronous = asynchronous;
    options.dtype = DType::f32;
    const Scene four = scene(8, 4), one = scene(9, 1);
    Bench bench(text(), four.shapes(), 1, options);
    std::vector<Values> found;
    for (const Scene* made : {&four, &one, &four}) {
      bench.reshape(made->shapes());
      made->feed(bench);
      bench.forward();
      bench.backward(Values{1});
      for (const Values& values : {bench.output(), bench.input_gradient(0), bench.input_gradient(1)})
        found.push_back(values);
    }
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(found[i], found[6 + i]);
    if (!expected.empty()) {
      EXPECT_EQ(found, expected);
    }
    expected = found;
    bench.reshape(four.shapes(0, 0));
    four.feed(bench, 0, 0);
    bench.forward();
    bench.backward(Values{1});
    EXPECT_EQ(bench.output(), Values{0});
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, MultiBoxLoss, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(MultiBoxLossDivisor, FollowsLossParam) {
  const Scene made(2);
  const auto loss = [&](const std::string& settings) {
    Bench bench(text_of("") + " loss_param { " + settings + " }", made.shapes(), 1);
    made.feed(bench);
    bench.forward();
    return bench.output()[0];
  };
  const double sum = loss("normalization: NONE"), each = static_cast<double>(made.prior_count());
  Bench bench(text_of(""), made.shapes(), 1);
  const NaiveLoss expected = naive_multibox_loss(made, bench.layer().parameter().multibox_loss_param());
  EXPECT_NEAR(sum, expected.sum, 1e-12 * sum);
  for (const auto& [settings, divisor] :
       std::vector<std::pair<std::string, double>>{{"", expected.matches},
                                                   {"normalize: true", expected.matches},
                                                   {"normalize: false", 3},
                                                   {"normalization: BATCH_SIZE", 3},
                                                   {"normalization: FULL", 3 * each},
                                                   {"normalization: PRE_FIXED pre_fixed_normalizer: 8", 8}})
    EXPECT_NEAR(loss(settings), sum / divisor, 1e-13 * sum) << settings;
}

TEST(MultiBoxLossWithoutObjects, IsZeroUnlessAllPriorsCount) {
  Scene made(4);
  made.objects.clear();
  for (const bool mines : {true, false}) {
    Bench bench(text_of(mines ? "" : "mining_type: NONE"), made.shapes(), 1);
    made.feed(bench);
    bench.forward();
    bench.backward(Values{1});
    const NaiveLoss expected = naive_multibox_loss(made, bench.layer().parameter().multibox_loss_param());
    EXPECT_NEAR(bench.output()[0], expected.sum, 1e-12 * expected.sum);
    EXPECT_EQ(expected.sum == 0, mines);
    EXPECT_EQ(bench.input_gradient(0), Values(made.locations.size(), 0));
  }
}

/// The first step has two classes, the ground truth more.
TEST(MultiBoxLossFirstStep, TakesObjectsOfAllClassesForOne) {
  const Scene made(7, 3, 2);
  const auto loss = [&](const std::string& settings, Scene scene) {
    for (std::size_t i = 0; i < scene.objects.size(); ++i)
      if (settings != "") scene.objects[i].label = 1 + static_cast<int>(i % 20);
    Bench bench(text_of(settings, 2), scene.shapes(), 1);
    scene.feed(bench);
    bench.forward();
    return bench.output()[0];
  };
  EXPECT_EQ(loss("objectness_score: 0.01", made), loss("", made));
  EXPECT_EQ(loss("map_object_to_agnostic: true", made), loss("", made));
}

/// Benchmarks of Intel's Caffe: a DummyData layer makes random images in the place of the ground truth.
TEST(MultiBoxLossRows, AreTakenFromABlobOfAnotherShape) {
  Scene made(1);
  const std::string text = text_of("");
  Bench plain(text, made.shapes(), 1);
  made.feed(plain);
  plain.forward();
  std::vector<Shape> shapes = made.shapes();
  Values rows = made.truth_values(0, made.items);
  const auto count = static_cast<std::int64_t>(rows.size() / 8);
  // An object of no item of the batch, and fractions.
  rows.insert(rows.end(), {static_cast<double>(made.items), 99, 0, 0, 0, 1, 1, 0});
  for (std::size_t r = 0; r < rows.size(); r += 8)
    if (rows[r] >= 0) rows[r] += 0.5, rows[r + 1] += 0.25;
  shapes[3] = {made.items, 3, count + 1, 5};
  rows.resize(static_cast<std::size_t>(shapes[3].count()), 7);
  Bench other(text, shapes, 1);
  other.set_input(0, made.locations);
  other.set_input(1, made.confidences);
  other.set_input(2, made.prior_values());
  other.set_input(3, rows);
  other.forward();
  EXPECT_EQ(other.output(0), plain.output(0));
}

TEST(MultiBoxLossRefuses, SettingsThatContradict) {
  Scene made(1);
  const auto expect_part = [&](const std::string& settings, const std::string& part, int classes = 4) {
    EXPECT_NE(refusal(text_of(settings, classes), made.shapes()).find(part), std::string::npos)
        << settings << ": " << refusal(text_of(settings, classes), made.shapes());
  };
  expect_part("", "num_classes must be given", 0);
  expect_part("background_label_id: 4", "must be below num_classes 4");
  expect_part("map_object_to_agnostic: true", "num_classes 2");
  expect_part("do_neg_mining: false", "contradicts mining_type MAX_NEGATIVE");
  expect_part("mining_type: NONE do_neg_mining: true", "contradicts mining_type NONE");
  expect_part("share_location: false", "needs share_location");
  expect_part("overlap_threshold: 1.5", "overlap_threshold must be from 0 to 1");
  expect_part("neg_pos_ratio: -1", "neg_pos_ratio");
  expect_part("neg_pos_ratio: inf", "neg_pos_ratio must not be negative and must be finite");
  expect_part("mining_type: HARD_EXAMPLE sample_size: 0", "sample_size");
  expect_part("loc_weight: inf", "loc_weight");
  expect_part("nms_param { nms_threshold: -1 }", "nms_threshold");
  expect_part("nms_param { eta: 0 }", "eta");
  made.add_first_step(true, 2);
  for (const auto& [input, shape, part] : std::vector<std::tuple<std::size_t, Shape, std::string>>{
           {0, Shape{3, 71}, "expected 3 x 72"},
           {1, Shape{2, 72}, "4 numbers for each of 18"},
           {2, Shape{1, 1, 72}, "prior boxes 1 x 2 x 4P"},
           {3, Shape{1, 1, 4, 7}, "rows of 8"},
           {4, Shape{3, 72}, "expected 3 x 36, 2 numbers for each of 18"},
           {5, Shape{2, 72}, "expected 3 x 72, 4 numbers"}}) {
    std::vector<Shape> shapes = made.shapes();
    shapes[input] = shape;
    EXPECT_NE(refusal(text_of(""), shapes).find(part), std::string::npos) << part;
  }
}

TEST(MultiBoxLossRefuses, DataThatMakesNoSense) {
  const auto message = [](const std::function<void(Scene&)>& spoil, double item = 0) -> std::string {
    Scene made(1);
    spoil(made);
    Bench bench(text_of("code_type: CENTER_SIZE"), made.shapes(), 1);
    made.feed(bench);
    Values rows = made.truth_values(0, made.items);
    rows[8] = item;
    bench.set_input(3, rows);
    try {
      bench.forward();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      EXPECT_EQ(error.message().find("layer \"tested\" (MultiBoxLoss): "), 0u) << error.message();
      return error.message();
    }
    return "accepted";
  };
  const auto nothing = [](Scene&) {};
  EXPECT_EQ(message(nothing), "accepted");
  for (const double item : {3.0, 0.5, -2.0})
    EXPECT_NE(message(nothing, item)
                  .find(cat("row 1 of the ground truth belongs to item ", item, "; the batch has 3")),
              std::string::npos)
        << message(nothing, item);
  EXPECT_NE(
      message([](Scene& s) { s.objects[2].label = 4; }).find("row 3 of the ground truth has the label 4"),
      std::string::npos);
  EXPECT_NE(message([](Scene& s) { s.objects[0].label = 0; }).find("other than the background, 0"),
            std::string::npos);
  EXPECT_NE(message([](Scene& s) { s.variances[2] = 0; }).find("variances of prior box 0 must be positive"),
            std::string::npos);
  EXPECT_NE(message([](Scene& s) { s.priors[5][2] = s.priors[5][0]; }).find("prior box 5"),
            std::string::npos);
}

/// Boxes between the lines of a coarse grid: many are equal, and so are many overlaps.
TEST(MatchBoxes, TakesTheBestOfAllPairsAgainAndAgain) {
  std::mt19937 random(1);
  const auto box = [&] {
    const double x = random() % 6 / 10.0, y = random() % 6 / 10.0;
    return Box{x, y, x + (1 + random() % 4) / 10.0, y + (1 + random() % 4) / 10.0};
  };
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    std::vector<Box> boxes(random() % 40);
    std::vector<GroundTruth> truth(random() % 12);
    for (Box& one : boxes) one = box();
    const bool ignores = round % 2 == 1;
    for (GroundTruth& one : truth) one.box = box(), one.difficult = random() % 4 == 0;
    struct Pair {
      std::size_t box, truth;
    };
    std::vector<Pair> pairs;
    const auto of = [&](const Pair& pair) { return overlap(boxes[pair.box], truth[pair.truth].box); };
    for (std::size_t b = 0; b < boxes.size(); ++b)
      for (std::size_t t = 0; t < truth.size(); ++t)
        if (of({b, t}) > 1e-6) pairs.push_back({b, t});
    std::stable_sort(pairs.begin(), pairs.end(),
                     [&](const Pair& a, const Pair& b) { return rank_of(of(a)) > rank_of(of(b)); });
    std::vector<int> expected(boxes.size(), Matches::kNone);
    std::vector<bool> taken(truth.size(), false);
    for (const Pair& pair : pairs) {
      if (taken[pair.truth] || expected[pair.box] != Matches::kNone) continue;
      const bool ignored = ignores && truth[pair.truth].difficult;
      taken[pair.truth] = !ignored;
      expected[pair.box] = ignored ? Matches::kLeftOut : static_cast<int>(pair.truth);
    }
    EXPECT_EQ(match_boxes(boxes, truth, -1, {.each_box = false, .ignore_difficult = ignores}).truth,
              expected);
  }
}

TEST(Mine, TakesTheLargestLossesAndAmongEqualOnesTheFirst) {
  std::mt19937 random(2);
  const std::vector<Box> boxes(50);
  for (int matched = 0; matched < 20; ++matched) {
    std::vector<double> losses(boxes.size());
    for (double& loss : losses) loss = static_cast<double>(random() % 5);
    losses[7] = std::nan("");  // as if it were the smallest
    Matches matches{std::vector<int>(boxes.size(), Matches::kNone), std::vector<double>(boxes.size(), 0)};
    std::vector<int> others;
    for (int b = 0; b < 50; ++b)
      if (b < matched)
        matches.truth[static_cast<std::size_t>(b)] = 0;
      else
        others.push_back(b);
    std::vector<int> expected = by_score(others, losses);
    expected.resize(std::min(expected.size(), static_cast<std::size_t>(3 * matched)));
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(mine(
                  losses, boxes, {}, [](std::size_t) { return true; }, matches),
              expected)
        << matched;
  }
}

}  // namespace
}  // namespace banyan::testing
