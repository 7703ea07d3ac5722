// What trains MS-CNN and Cascade R-CNN: DetectionLoss, DetectionGroupLoss, their accuracies,
// BatchProposalTarget, ScaleRoute and BboxAccuracy.
#include <gmock/gmock.h>

#include <numeric>
#include <set>

#include "layers/fake_exchange.hpp"
#include "layers/gradient_checker.hpp"

namespace banyan::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kRows = 3, kColumns = 4, kPositions = kRows * kColumns;
const std::string kField = "field_w: 8 field_h: 12 downsample_rate: 4 ";

/// What `maps` maps shall find: every third position or so one of the classes; at others overlaps in [0, 1).
Values made_up_truth(std::int64_t maps, int classes, unsigned seed) {
  std::mt19937 random(seed);
  const auto number = [&] { return static_cast<double>(random() % 1000) / 1000; };
  Values truth(static_cast<std::size_t>(maps * 6 * kPositions));
  for (std::int64_t m = 0; m < maps; ++m)
    for (std::int64_t at = 0; at < kPositions; ++at) {
      const bool object = random() % 3 == 0;
      const Values numbers{
          object ? 1 + static_cast<double>(random() % static_cast<unsigned>(classes - 1)) : 0.0,
          static_cast<double>(at % kColumns) * 4 + 4 * number(),
          static_cast<double>(at / kColumns) * 4 + 4 * number(),
          5 + 9 * number(),
          1 + 20 * number(),
          number()};
      for (std::size_t k = 0; k < 6; ++k)
        truth[static_cast<std::size_t>(m * 6 + static_cast<std::int64_t>(k)) * kPositions +
              static_cast<std::size_t>(at)] = numbers[k];
    }
  return truth;
}

/// Scores and codes of the same maps, and which positions count.
struct Scene {
  std::int64_t maps;
  int classes;
  Values scores, codes, truth;
  std::vector<char> kept = {};

  Scene(std::int64_t m, int c, unsigned seed)
      : maps(m),
        classes(c),
        scores(spread_values(m * c * kPositions, seed, 2)),
        codes(spread_values(m * 4 * kPositions, seed + 1, 1.5)),
        truth(made_up_truth(m, c, seed + 2)) {}

  /// M x (C + 4) x H x W.
  Values map() const {
    Values all;
    for (std::int64_t m = 0; m < maps; ++m) {
      const auto from = [&](const Values& values, std::int64_t count) {
        const auto begin = values.begin() + m * count;
        all.insert(all.end(), begin, begin + count);
      };
      from(scores, classes * kPositions);
      from(codes, 4 * kPositions);
    }
    return all;
  }
  double of(std::int64_t map, std::int64_t which, std::int64_t at) const {
    return truth[static_cast<std::size_t>((map * 6 + which) * kPositions + at)];
  }
};

struct Formula {
  bool objectness = false, weighs = false, by_overlap = false, smooth = true, of_mscnn = true;
  double multiple = 4, lambda = 1;
  double farthest = 0.5, largest = std::log(2.0);  ///< 0: codes are not limited
  Values mean{0, 0, 0, 0}, deviation{1, 1, 1, 1};
  std::vector<double> widths{8}, heights{12};
  double stride = 4;
};

/// The formula of the branches, position by position.
double plain_loss(const Scene& scene, const Formula& f) {
  double chosen = 0, objects = 0, objects_weigh = 0, background_weighs = 0;
  const auto weight_of = [&](std::int64_t m, std::int64_t at) {
    return f.by_overlap && scene.of(m, 0, at) > 0 ? scene.of(m, 5, at) : 1.0;
  };
  const auto each = [&](const auto& body) {
    for (std::int64_t m = 0; m < scene.maps; ++m)
      for (std::int64_t at = 0; at < kPositions; ++at)
        if (scene.kept[static_cast<std::size_t>(m * kPositions + at)] != 0)
          body(m, at, scene.of(m, 0, at) > 0);
  };
  each([&](std::int64_t m, std::int64_t at, bool object) {
    ++chosen;
    if (object) ++objects;
    (object ? objects_weigh : background_weighs) += weight_of(m, at);
  });
  double class_loss = 0, box_loss = 0;
  each([&](std::int64_t m, std::int64_t at, bool object) {
    double weight = weight_of(m, at);
    const double share = 1 / (1 + f.multiple);
    if (f.weighs && object && objects_weigh != 0) weight *= share * chosen / objects_weigh;
    if (f.weighs && !object && (f.of_mscnn ? objects_weigh : background_weighs) != 0)
      weight *= (1 - share) * chosen / background_weighs;
    double sum = 0;
    for (std::int64_t c = 0; c < scene.classes; ++c)
      sum += std::exp(scene.scores[static_cast<std::size_t>((m * scene.classes + c) * kPositions + at)]);
    const auto label =
        static_cast<std::int64_t>(f.objectness ? std::min(scene.of(m, 0, at), 1.0) : scene.of(m, 0, at));
    class_loss -=
        weight * (scene.scores[static_cast<std::size_t>((m * scene.classes + label) * kPositions + at)] -
                  std::log(sum));
    if (!object) return;
    const std::size_t group = static_cast<std::size_t>(m) % f.widths.size();
    const double x = (static_cast<double>(at % kColumns) + 0.5) * f.stride,
                 y = (static_cast<double>(at / kColumns) + 0.5) * f.stride;
    const Values own{(scene.of(m, 1, at) - x) / f.widths[group], (scene.of(m, 2, at) - y) / f.heights[group],
                     std::log(std::max(scene.of(m, 3, at), 2.0) / f.widths[group]),
                     std::log(std::max(scene.of(m, 4, at), 2.0) / f.heights[group])};
    for (std::size_t k = 0; k < 4; ++k) {
      double code =
          scene.codes[static_cast<std::size_t>((m * 4 + static_cast<std::int64_t>(k)) * kPositions + at)];
      if (f.farthest > 0) {
        const std::size_t first = k / 2 * 2;
        const double most = k < 2 ? f.farthest : f.largest, mean = (f.mean[first] + f.mean[first + 1]) / 2,
                     deviation = std::sqrt(f.deviation[first] * f.deviation[first + 1]);
        code = std::clamp(code, (-most - mean) / deviation, (most - mean) / deviation);
      }
      const double d = code - (own[k] - f.mean[k]) / f.deviation[k];
      box_loss += f.smooth && std::abs(d) >= 1 ? std::abs(d) - 0.5 : d * d / 2;
    }
  });
  return class_loss / std::max(chosen, 1.0) + f.lambda * box_loss / std::max(4 * objects, 1.0);
}

/// A layer that has computed loss and gradients of the scene; fills in which positions count, by their
/// gradients.
struct Trained : Bench {
  Trained(Scene& scene, const std::string& text, bool of_groups, std::int64_t draw = 3)
      : Bench(text,
              of_groups ? std::vector<Shape>{{scene.maps, scene.classes, kRows, kColumns},
                                             {scene.maps, 4, kRows, kColumns},
                                             {scene.maps, 6, kRows, kColumns}}
                        : std::vector<Shape>{{scene.maps, scene.classes + 4, kRows, kColumns},
                                             {scene.maps, 6, kRows, kColumns}},
              1) {
    pass.draw = draw;
    set_input(0, of_groups ? scene.scores : scene.map());
    if (of_groups) set_input(1, scene.codes);
    set_input(of_groups ? 2 : 1, scene.truth);
    forward();
    backward(Values{1});
    const Values gradient = input_gradient(0);
    const std::int64_t sample = (scene.classes + (of_groups ? 0 : 4)) * kPositions;
    scene.kept.clear();
    for (std::int64_t m = 0; m < scene.maps; ++m)
      for (std::int64_t at = 0; at < kPositions; ++at)
        scene.kept.push_back(gradient[static_cast<std::size_t>(m * sample + at)] != 0 ? 1 : 0);
  }
};

std::string detection_loss(const std::string& settings, const std::string& more = "") {
  return "type: 'DetectionLoss' detection_loss_param { " + kField + settings + " } " + more;
}
std::string group_loss(const std::string& settings, const std::string& more = "") {
  return "type: 'DetectionGroupLoss' detection_group_loss_param { field_w: 8 field_w: 16 field_h: 12 "
         "field_h: 10 "
         "stride: 4 " +
         settings + " } " + more;
}

std::int64_t count_of(const Scene& scene, std::int64_t first_map, std::int64_t maps, bool objects) {
  std::int64_t count = 0;
  for (std::int64_t m = first_map; m < first_map + maps; ++m)
    for (std::int64_t at = 0; at < kPositions; ++at)
      if (scene.kept[static_cast<std::size_t>(m * kPositions + at)] != 0 &&
          (scene.of(m, 0, at) > 0) == objects)
        ++count;
  return count;
}
/// Objects, and positions that may be background.
std::pair<std::int64_t, std::int64_t> candidates(const Scene& scene, std::int64_t first_map,
                                                 std::int64_t maps, double threshold) {
  std::pair<std::int64_t, std::int64_t> found;
  for (std::int64_t m = first_map; m < first_map + maps; ++m)
    for (std::int64_t at = 0; at < kPositions; ++at)
      if (scene.of(m, 0, at) > 0)
        ++found.first;
      else if (scene.of(m, 5, at) < threshold)
        ++found.second;
  return found;
}
void expect_right_choice(const Scene& scene, double threshold) {
  for (std::int64_t m = 0; m < scene.maps; ++m)
    for (std::int64_t at = 0; at < kPositions; ++at) {
      const bool kept = scene.kept[static_cast<std::size_t>(m * kPositions + at)] != 0;
      EXPECT_TRUE(!kept || scene.of(m, 0, at) > 0 || scene.of(m, 5, at) < threshold) << m << " " << at;
    }
}

TEST(DetectionLoss, IsTheFormulaOfTheChosenPositions) {
  const std::string scale = "bbox_reg_param { bbox_mean: [0.1, 0, 0.2, -0.1] bbox_std: [0.5, 0.25, 0.5, 1] }";
  struct Case {
    std::string settings, more;
    Formula formula;
  };
  std::vector<Case> cases;
  for (const char* mode : {"random", "bootstrap", "mixture", "all"}) {
    const std::string common = cat("cls_num: 3 bg_threshold: 0.7 sample_mode: '", mode, "' ");
    Formula formula;
    cases.push_back({common, "", formula});
    formula.weighs = true;
    formula.multiple = 2;
    cases.push_back({common + "pos_neg_weighted: true bg_multiple: 2", "", formula});
    formula.by_overlap = true;
    formula.lambda = 0.5;
    formula.smooth = false;
    cases.push_back(
        {common + "pos_neg_weighted: true bg_multiple: 2 iou_weighted: true lambda: 0.5 bb_smooth: false", "",
         formula});
    formula.mean = {0.1F, 0, 0.2F, -0.1F};
    formula.deviation = {0.5, 0.25, 0.5, 1};
    formula.farthest = 0.25;
    formula.largest = std::log(4.0);
    cases.push_back(
        {common + "pos_neg_weighted: true bg_multiple: 2 iou_weighted: true lambda: 0.5 bb_smooth: false "
                  "field_xyr: 4 field_whr: 4",
         scale, formula});
  }
  for (const Case& c : cases) {
    Scene scene(3, 3, 5);
    Trained trained(scene, detection_loss(c.settings, c.more), false);
    expect_right_choice(scene, 0.7);
    for (std::int64_t m = 0; m < 3; ++m)
      EXPECT_EQ(count_of(scene, m, 1, true), candidates(scene, m, 1, 0.7).first) << c.settings;
    EXPECT_NEAR(trained.output()[0], plain_loss(scene, c.formula), 1e-12) << c.settings;
  }
  Scene one(2, 2, 9);
  for (double& value : one.truth) value = std::min(value, 5.0);
  Trained trained(one, detection_loss("cls_num: 2 objectness: true sample_mode: 'all'"), false);
  Formula formula;
  formula.objectness = true;
  EXPECT_NEAR(trained.output()[0], plain_loss(one, formula), 1e-12);
}

TEST(DetectionLoss, ChoosesBackgroundAsItsModeSays) {
  Scene scene(1, 3, 21);
  // Objects at 0 (class 1) and 1 (class 2); all else is background, but 2, which overlaps too much.
  for (std::int64_t at = 0; at < kPositions; ++at) {
    scene.truth[static_cast<std::size_t>(at)] = at == 0 ? 1 : at == 1 ? 2 : 0;
    scene.truth[static_cast<std::size_t>(5 * kPositions + at)] = at == 2 ? 0.5 : 0.25;
    scene.scores[static_cast<std::size_t>(kPositions + at)] = static_cast<double>(at);
    scene.scores[static_cast<std::size_t>(2 * kPositions + at)] = -static_cast<double>(at);
  }
  const auto kept = [&](const std::string& settings, std::int64_t draw = 3) {
    Trained trained(scene, detection_loss("cls_num: 3 " + settings), false, draw);
    std::string places;
    for (std::size_t at = 0; at < scene.kept.size(); ++at)
      if (scene.kept[at] != 0) places += cat(at, " ");
    return places;
  };
  EXPECT_EQ(kept("sample_mode: 'all'"), "0 1 3 4 5 6 7 8 9 10 11 ");
  // The highest scores of class 1 are at the end, those of class 2 at the beginning; at least 4 of each.
  EXPECT_EQ(kept("sample_mode: 'bootstrap' bg_multiple: 1"), "0 1 3 4 5 6 8 9 10 11 ");
  EXPECT_EQ(kept("sample_mode: 'bootstrap' bg_multiple: 5"), "0 1 3 4 5 6 7 8 9 10 11 ");
  const std::string drawn = kept("bg_multiple: 1");
  EXPECT_EQ(kept("bg_multiple: 1"), drawn);
  std::set<std::string> others;
  for (std::int64_t draw = 0; draw < 5; ++draw) others.insert(kept("bg_multiple: 1", draw));
  EXPECT_GT(others.size(), 3u);
}

TEST(DetectionLoss, GradientPassesAsIfCodesHadNoLimits) {
  Scene scene(1, 2, 3);
  for (double& code : scene.codes) code = 40;
  for (double& value : scene.truth) value = 0;
  scene.truth[0] = 1;  // a box of 2 x 2 around (0, 0)
  Trained trained(scene, detection_loss("cls_num: 2 sample_mode: 'all'"), false);
  const Values gradient = trained.input_gradient(0);
  // Codes are taken as 0.5 and log 2; those of the box are -2 / 8, -2 / 12, log(2 / 8), log(2 / 12).
  const Values expected{0.75 / 4, (0.5 + 1.0 / 6) / 4, 1.0 / 4, 1.0 / 4};
  for (std::size_t k = 0; k < 4; ++k) EXPECT_NEAR(gradient[(2 + k) * kPositions], expected[k], 1e-14) << k;
}

TEST(DetectionLoss, GradientsAreThoseOfTheLoss) {
  for (const char* settings : {"sample_mode: 'all' bg_threshold: 0.8", "pos_neg_weighted: true lambda: 2",
                               "iou_weighted: true bb_smooth: false bg_multiple: 1"}) {
    Scene scene(2, 3, 13);
    Trained trained(scene, detection_loss(cat("cls_num: 3 field_xyr: 0.1 field_whr: 1e6 ", settings)), false);
    GradientChecker(trained).run();
  }
  for (const char* settings :
       {"", "batch_size: 6 bg_multiple: 1 pos_neg_weighted: true", "bbox_loss_type: 'Euclidean_L2'"}) {
    Scene scene(4, 3, 13);
    Trained trained(scene, group_loss(cat("cls_num: 3 ", settings)), true);
    GradientChecker(trained).run();
  }
}

TEST(DetectionGroupLoss, IsTheFormulaOfTheChosenPositions) {
  Formula formula;
  formula.of_mscnn = false;
  formula.widths = {8, 16};
  formula.heights = {12, 10};
  for (const char* mining : {"random", "bootstrap", "mixture"})
    for (const std::int64_t batch : {-1, 6, 10, 100})
      for (const bool limited : {false, true}) {
        Scene scene(6, 3, 31);
        Formula f = formula;
        f.weighs = limited;
        f.multiple = 2;
        f.farthest = limited ? 0.25 : 0;
        f.largest = std::log(3.0);
        Trained trained(scene,
                        group_loss(cat("cls_num: 3 bg_multiple: 2 bg_threshold: 0.6 neg_mining_type: '",
                                       mining, "' batch_size: ", batch,
                                       limited ? " pos_neg_weighted: true field_xyr: 4 field_whr: 3" : "")),
                        true);
        expect_right_choice(scene, 0.6);
        for (std::int64_t image = 0; image < 3; ++image) {
          const auto [objects, background] = candidates(scene, 2 * image, 2, 0.6);
          std::int64_t of_objects = objects, rest = std::max<std::int64_t>(2 * objects, 5);
          if (batch > 0) {
            of_objects = std::min<std::int64_t>(objects, std::lround(static_cast<double>(batch) / 3));
            rest = batch - of_objects;
          }
          EXPECT_EQ(count_of(scene, 2 * image, 2, true), of_objects) << mining << batch;
          EXPECT_EQ(count_of(scene, 2 * image, 2, false), std::min(rest, background)) << mining << batch;
        }
        EXPECT_NEAR(trained.output()[0], plain_loss(scene, f), 1e-12) << mining << batch;
      }
}

TEST(DetectionGroupLoss, MinesWhatLooksLeastLikeBackground) {
  for (const char* ranking : {"conf_loss", "conf_prob"}) {
    Scene scene(2, 2, 17);
    for (double& value : scene.truth) value = 0;
    for (std::int64_t at = 0; at < kPositions; ++at)
      for (std::int64_t m = 0; m < 2; ++m) {
        scene.scores[static_cast<std::size_t>(2 * m * kPositions + at)] = 0;
        scene.scores[static_cast<std::size_t>((2 * m + 1) * kPositions + at)] =
            0.1 * static_cast<double>(2 * at + m);
      }
    Trained trained(
        scene,
        group_loss(
            cat("cls_num: 2 min_num_neg: 3 neg_mining_type: 'bootstrap' neg_ranking_type: '", ranking, "'")),
        true);
    std::vector<char> expected(2 * kPositions, 0);
    expected[11] = expected[2 * kPositions - 2] = expected[2 * kPositions - 1] = 1;
    EXPECT_EQ(scene.kept, expected) << ranking;
  }
}

/// Sums over devices, each with every second image, against one device.
struct Part {
  std::string text;
  bool of_groups;
};

Values image_of(const Values& values, std::int64_t image, std::int64_t images) {
  const auto each = static_cast<std::ptrdiff_t>(values.size()) / images;
  return {values.begin() + image * each, values.begin() + (image + 1) * each};
}

TEST(FieldLosses, TwoDevicesAreOne) {
  const std::int64_t images = 4, groups = 2;
  for (const Part& part :
       {Part{detection_loss("cls_num: 3 sample_mode: 'mixture' pos_neg_weighted: true iou_weighted: true"),
             false},
        Part{detection_loss("cls_num: 3"), false},
        Part{group_loss("cls_num: 3 batch_size: 7 bg_multiple: 1 pos_neg_weighted: true"), true},
        Part{group_loss("cls_num: 3 neg_mining_type: 'mixture'"), true}}) {
    const std::int64_t maps = part.of_groups ? images * groups : images;
    Scene scene(maps, 3, 41);
    // The first image and the third, of the first device, have no objects.
    for (std::int64_t m = 0; m < maps; ++m)
      if (m * images / maps % 2 == 0)
        for (std::int64_t at = 0; at < kPositions; ++at)
          scene.truth[static_cast<std::size_t>(m * 6 * kPositions + at)] = 0;
    Trained one(scene, part.text, part.of_groups);
    const Values expected = one.input_gradient(0),
                 expected_codes = part.of_groups ? one.input_gradient(1) : Values();
    MeetingPoint point(2);
    Values losses(2);
    run_replicas(point, [&](int rank) {
      std::vector<Shape> shapes;
      for (const Blob* input : one.inputs) {
        shapes.push_back(input->shape);
        shapes.back().set_dim(0, maps / 2);
      }
      BenchOptions options;
      options.rank = rank;
      options.devices = 2;
      Bench bench(part.text, shapes, 1, options);
      FakeExchange exchange(point, rank);
      bench.pass.exchange = &exchange;
      bench.pass.draw = one.pass.draw;
      bench.pass.samples = {rank, 2};
      const auto own = [&](const Values& all) {
        Values mine = image_of(all, rank, images);
        const Values second = image_of(all, rank + 2, images);
        mine.insert(mine.end(), second.begin(), second.end());
        return mine;
      };
      bench.set_input(0, own(part.of_groups ? scene.scores : scene.map()));
      if (part.of_groups) bench.set_input(1, own(scene.codes));
      bench.set_input(part.of_groups ? 2 : 1, own(scene.truth));
      bench.forward();
      bench.backward(Values{1});
      losses[static_cast<std::size_t>(rank)] = bench.output()[0];
      expect_near(bench.input_gradient(0), own(expected), 1e-13, part.text);
      if (part.of_groups) expect_near(bench.input_gradient(1), own(expected_codes), 1e-13, part.text);
    });
    EXPECT_NEAR(losses[0] + losses[1], one.output()[0], 1e-13) << part.text;
  }
}

TEST(FieldLosses, RefuseWhatDoesNotFit) {
  const std::vector<Shape> maps{{2, 7, 3, 4}, {2, 6, 3, 4}};
  const auto refused = [&](const std::string& settings, const std::string& more = "") {
    return refusal(detection_loss(settings, more), maps);
  };
  EXPECT_EQ(refused("cls_num: 3"), "accepted");
  EXPECT_THAT(refused("cls_num: 4"), HasSubstr("expected 8 channels, the scores of 4 classes"));
  EXPECT_THAT(refused("cls_num: 1"), HasSubstr("cls_num must be at least 2"));
  EXPECT_THAT(refused("cls_num: 3 objectness: true"),
              HasSubstr("cls_num must be 2 with objectness; found 3"));
  EXPECT_THAT(refused("cls_num: 3 coord_num: 5"), HasSubstr("coord_num must be 4"));
  EXPECT_THAT(refused("cls_num: 3 field_xyr: 0"), HasSubstr("field_xyr must be positive"));
  EXPECT_THAT(refused("cls_num: 3 lambda: -1"), HasSubstr("lambda must not be negative"));
  EXPECT_THAT(refused("cls_num: 3", "loss_param { ignore_label: 1 }"), HasSubstr("have no meaning here"));
  EXPECT_THAT(refused("cls_num: 3", "bbox_reg_param { bbox_std: 1 }"), HasSubstr("expected four times"));
  EXPECT_THAT(
      refusal("type: 'DetectionLoss' detection_loss_param { cls_num: 3 field_w: 4 downsample_rate: 2 }",
              maps),
      HasSubstr("must be positive; found 4, 0 and 2"));
  EXPECT_THAT(refusal(detection_loss("cls_num: 3"), {{2, 7, 3, 4}, {2, 6, 3, 5}}),
              HasSubstr("expected 2 6 3 4"));

  const auto group = [&](const std::string& settings, std::int64_t items = 4) {
    return refusal(group_loss(settings), {{items, 3, 3, 4}, {items, 4, 3, 4}, {items, 6, 3, 4}});
  };
  EXPECT_EQ(group("cls_num: 3"), "accepted");
  EXPECT_THAT(group("cls_num: 3", 3), HasSubstr("expected 2 maps of each image, one for each field"));
  EXPECT_THAT(group("cls_num: 2"), HasSubstr("expected 4 2 3 4"));
  EXPECT_THAT(group("cls_num: 3 field_w: 4"), HasSubstr("given equally often, at least once; found 3 and 2"));
  EXPECT_THAT(group("cls_num: 3 batch_size: 0"), HasSubstr("batch_size must be positive, or -1"));
  EXPECT_THAT(group("cls_num: 3 neg_mining_type: 'some'"), HasSubstr("neg_mining_type"));
  EXPECT_THAT(group("cls_num: 3 neg_ranking_type: 'some'"), HasSubstr("neg_ranking_type"));
  EXPECT_THAT(group("cls_num: 3 bbox_loss_type: 'L1'"), HasSubstr("\"Smooth_L1\" or \"Euclidean_L2\""));

  Scene scene(1, 3, 5);
  scene.truth[7] = 3;
  Trained trained(scene, detection_loss("cls_num: 3"), false);
  try {
    trained.layer().check_results(trained.context());
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(),
                HasSubstr("position 7 of sample 0 has the class 3; there are 3 classes, 0 to 2"));
  }
}

TEST(FieldAccuracies, CountClassesAndOverlaps) {
  // One row of four fields of 8 x 8: an object that is found, one that is not, background, and a field that
  // is neither.
  const Values scores{0, 2, 1, 9, 1, 0, 0, 0, 0, 1, 0, 0}, codes(16, 0);
  Values truth(24, 0);
  truth[0] = 1, truth[1] = 2;
  for (const std::size_t at : {0, 1}) {
    truth[4 + at] = 8 * static_cast<double>(at) + 4;  // x
    truth[8 + at] = at == 0 ? 4 : 8;                  // y: the second one lies half below
    truth[12 + at] = truth[16 + at] = 8;
  }
  truth[20] = truth[21] = 0.9, truth[22] = 0.4, truth[23] = 0.5;
  Values map = scores;
  map.insert(map.end(), codes.begin(), codes.end());
  const std::string settings = "{ cls_num: 3 field_w: 8 field_h: 8 ";
  Bench plain("type: 'DetectionAccuracy' detection_accuracy_param " + settings + " downsample_rate: 8 }",
              {{1, 7, 1, 4}, {1, 6, 1, 4}}, 2);
  plain.set_input(0, map);
  plain.set_input(1, truth);
  plain.forward();
  expect_near(plain.output(0), {2.0 / 3, 1.0 / 2}, 1e-15);
  expect_near(plain.output(1), {(1 + 1.0 / 3) / 2}, 1e-15);

  Bench group("type: 'DetectionGroupAccuracy' detection_group_accuracy_param " + settings + " stride: 8 }",
              {{1, 3, 1, 4}, {1, 4, 1, 4}, {1, 6, 1, 4}}, 2);
  group.set_input(0, scores);
  group.set_input(1, codes);
  group.set_input(2, truth);
  group.forward();
  EXPECT_EQ(group.output(0), plain.output(0));
  EXPECT_EQ(group.output(1), plain.output(1));
  group.set_input(2, Values(24, 0));
  group.forward();
  expect_near(group.output(0), {0.75, -1}, 1e-15);  // classes 1, 0, 0, 0 have the highest scores
  EXPECT_EQ(group.output(1), Values{-1});
}

TEST(BboxAccuracy, ComparesShiftedRegionsWithTheirBoxes) {
  const Values regions{0, 0, 0, 9, 9, 0, 0, 0, 9, 9, 1, 0, 0, 9, 9, 0, 5, 5, 9, 9};
  // An object that its shift (of class 2) moves onto its box, one that stays half right; a box that is its
  // own region, and background, which do not count.
  const Values truth{2, 5, 0, 14, 9, 1.0 / 3, 1, 0, 5, 9, 14, 1.0 / 3, 1, 0, 0, 9, 9, 1, 0, 0, 0, 0, 0, 0};
  Values shifts(4 * 12, 0);
  shifts[8] = 5;
  const std::string scale = "bbox_std: [0.1, 0.1, 0.2, 0.2] ";
  Bench bench("type: 'BboxAccuracy' bbox_reg_param { " + scale + "}", {{4, 12}, {4, 5, 1, 1}, {4, 6, 1, 1}},
              2);
  bench.set_input(0, shifts);
  bench.set_input(1, regions);
  bench.set_input(2, truth);
  bench.forward();
  expect_near(bench.output(0), {(1 + 1.0 / 3) / 2}, 1e-7);
  expect_near(bench.output(1), {1.0 / 3}, 1e-15);

  Bench one("type: 'BboxAccuracy' bbox_reg_param { cls_aware: false " + scale + "}", {{4, 8}, {4, 5}, {4, 6}},
            1);
  Values of_all(32, 0);
  of_all[4] = 5;
  one.set_input(0, of_all);
  one.set_input(1, regions);
  one.set_input(2, truth);
  one.forward();
  EXPECT_EQ(one.output(0), bench.output(0));
  one.set_input(2, Values(24, 0));
  one.forward();
  EXPECT_EQ(one.output(0), Values{-1});
  EXPECT_THAT(refusal("type: 'BboxAccuracy' bbox_reg_param { cls_aware: false }", {{4, 12}, {4, 5}, {4, 6}}),
              HasSubstr("expected R x 8, as cls_aware is false"));
}

TEST(FieldAccuracies, SharesOfDevicesAddUp) {
  Scene scene(2, 3, 51);
  const std::string text = "type: 'DetectionAccuracy' detection_accuracy_param { cls_num: 3 " + kField + " }";
  Bench one(text, {{2, 7, kRows, kColumns}, {2, 6, kRows, kColumns}}, 2);
  one.set_input(0, scene.map());
  one.set_input(1, scene.truth);
  one.forward();
  for (const bool objects : {true, false}) {
    if (!objects) {
      for (std::int64_t m = 0; m < 2; ++m)
        for (std::int64_t at = 0; at < kPositions; ++at)
          scene.truth[static_cast<std::size_t>(m * 6 * kPositions + at)] = 0;
      one.set_input(1, scene.truth);
      one.forward();
      EXPECT_EQ(one.output(1), Values{-1});
    }
    MeetingPoint point(2);
    std::vector<Values> shares(2);
    run_replicas(point, [&](int rank) {
      BenchOptions options;
      options.rank = rank;
      options.devices = 2;
      Bench bench(text, {{1, 7, kRows, kColumns}, {1, 6, kRows, kColumns}}, 2, options);
      FakeExchange exchange(point, rank);
      bench.pass.exchange = &exchange;
      bench.set_input(0, image_of(scene.map(), rank, 2));
      bench.set_input(1, image_of(scene.truth, rank, 2));
      bench.forward();
      shares[static_cast<std::size_t>(rank)] = bench.output(0);
      shares[static_cast<std::size_t>(rank)].push_back(bench.output(1)[0]);
    });
    for (std::size_t k = 0; k < 3; ++k)
      EXPECT_NEAR(shares[0][k] + shares[1][k], k < 2 ? one.output(0)[k] : one.output(1)[0], 1e-14);
  }
}

TEST(ScaleRoute, PassesOnRegionsOfItsSizes) {
  // Of 10 x 10, 20 x 20, 40 x 10 and 30 x 30 pixels.
  const Values regions{0, 0, 0, 9, 9, 1, 0, 0, 19, 19, 2, 0, 0, 39, 9, 3, 1, 1, 30, 30};
  const auto routed = [&](const std::string& settings, std::size_t output) {
    Bench bench("type: 'ScaleRoute' scale_route_param { " + settings + " }", {{4, 5, 1, 1}, {4, 2}}, 2);
    bench.set_input(0, regions);
    bench.set_input(1, {1, 2, 3, 4, 5, 6, 7, 8});
    bench.forward();
    return bench.output(output);
  };
  EXPECT_EQ(routed("", 1), (Values{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(routed("high_scale: 20", 1), (Values{1, 2}));
  EXPECT_EQ(routed("low_scale: 20", 1), (Values{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(routed("low_scale: 20 high_scale: 30", 0), (Values{1, 0, 0, 19, 19, 2, 0, 0, 39, 9}));
  EXPECT_EQ(routed("low_scale: 22 high_scale: 25", 1), (Values{3, 4}));  // none: the nearest one
  EXPECT_EQ(routed("low_scale: 100", 1), (Values{7, 8}));
  EXPECT_THAT(refusal("type: 'ScaleRoute' scale_route_param { low_scale: 9 high_scale: 9 }", {{4, 5}}),
              HasSubstr("high_scale 9 must be above low_scale 9"));
  EXPECT_THAT(refusal("type: 'ScaleRoute'", {{4, 4}}), HasSubstr("R x 5"));
}

struct Sampled : Bench {
  Sampled(const std::string& settings, const Values& regions, const Values& boxes,
          const std::string& more = "", std::int64_t draw = 0)
      : Bench(
            "type: 'BatchProposalTarget' proposal_target_param { cls_num: 3 img_width: 200 img_height: 100 " +
                settings + " } " + more,
            {{std::ssize(regions) / 5, 5}, {1, 1, std::ssize(boxes) / 8, 8}}, 7) {
    pass.draw = draw;
    set_input(0, regions);
    set_input(1, boxes);
    forward();
  }
  std::int64_t rows() const { return outputs[0]->shape[0]; }
};

/// Two images: a box of class 2 and one that is ignored in the first, one of class 1 in the second; and a row
/// that is not used.
const Values kBoxes{0, 0,  0, 9,  9, 2, 0, 0, 0,  50, 0,  59, 9,  1,  1,  0,
                    1, 20, 0, 29, 9, 1, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1};
/// Overlaps: 0.8 and 0.25 with the first box, 0.8 with the ignored one, 0 (the other image's), 1 of the last.
const Values kRegions{0, 0, 0, 7, 9, 0, 6, 0, 15, 9, 0, 50, 0, 57, 9, 1, 0, 0, 9, 9, 1, 20, 0, 29, 9};

TEST(BatchProposalTarget, WritesRegionsAndTheirTargets) {
  Sampled all(
      "batch_size: -1 append_gtbox: false bg_thr_lw: 0.2 bg_thr_hg: 0.4 pickup_discard: false iou_weighted: "
      "true",
      kRegions, kBoxes, "bbox_reg_param { bbox_std: [0.5, 0.5, 0.25, 0.25] }");
  // Objects first: regions 0 and 4, then background: 1.
  EXPECT_EQ(all.output(0), (Values{0, 0, 0, 7, 9, 1, 20, 0, 29, 9, 0, 6, 0, 15, 9}));
  EXPECT_EQ(all.output(1), (Values{2, 1, 0}));
  EXPECT_EQ(all.outputs[2]->shape, (Shape{3, 12, 1, 1}));
  Values shifts(36, 0), weights(36, 0);
  shifts[8] = 1.0 / 8 / 0.5, shifts[10] = std::log(10.0 / 8) / 0.25;
  for (const std::size_t k : {8, 9, 10, 11, 16, 17, 18, 19}) weights[k] = 1;
  expect_near(all.output(2), shifts, 1e-14);
  EXPECT_EQ(all.output(3), weights);
  EXPECT_EQ(all.output(4), weights);
  expect_near(all.output(5), {2, 0, 0, 9, 9, 0.8, 1, 20, 0, 29, 9, 1, 0, 0, 0, 0, 0, 0}, 1e-15);
  // Objects weigh 0.8 and 1, in all a quarter of 3 rows, the background the rest.
  expect_near(all.output(6), {0.8 * 0.75 / 1.8, 0.75 / 1.8, 2.25}, 1e-14);

  Sampled agnostic(
      "batch_size: -1 append_gtbox: false bg_thr_lw: 0.2 bg_thr_hg: 0.4 pickup_discard: false bbox_thr_hg: "
      "0.9",
      kRegions, kBoxes, "bbox_reg_param { cls_aware: false }");
  EXPECT_EQ(agnostic.outputs[3]->shape, (Shape{3, 8, 1, 1}));
  Values one(24, 0);
  for (const std::size_t k : {4, 5, 6, 7}) one[k] = 1;  // the second overlaps more than 0.9
  EXPECT_EQ(agnostic.output(3), one);
  EXPECT_NEAR(agnostic.output(2)[4], 1.0 / 8, 1e-15);
}

TEST(BatchProposalTarget, DrawsFromTheWholeBatch) {
  // 12 regions of the background, in two images, 2 objects, and with append_gtbox two more.
  Values regions = kRegions;
  for (int k = 0; k < 12; ++k) {
    const Values more{static_cast<double>(k % 2), k % 2 == 0 ? 5.0 : 25.0, static_cast<double>(k) / 8,
                      k % 2 == 0 ? 14.0 : 34.0, 9};
    regions.insert(regions.end(), more.begin(), more.end());
  }
  Sampled sampled("batch_size: 8 fg_fraction: 0.25", regions, kBoxes);
  EXPECT_EQ(sampled.rows(), 8);
  const Values labels = sampled.output(1);
  EXPECT_EQ(std::count_if(labels.begin(), labels.end(), [](double label) { return label > 0; }), 2);
  EXPECT_EQ(Sampled("batch_size: 8", regions, kBoxes).output(0), sampled.output(0));
  std::set<Values> others;
  for (std::int64_t draw = 0; draw < 6; ++draw)
    others.insert(Sampled("batch_size: 8", regions, kBoxes, "", draw).output(0));
  EXPECT_GT(others.size(), 4u);
  // Where there are too few, others are picked up, or not: 4 objects, 1 + 12 of the background, 1 that
  // overlaps none.
  EXPECT_EQ(Sampled("batch_size: 40 fg_fraction: 0.5", regions, kBoxes).rows(), 18);
  EXPECT_EQ(Sampled("batch_size: 40 fg_fraction: 0.5 pickup_discard: false", regions, kBoxes).rows(), 17);
  EXPECT_EQ(Sampled("batch_size: 40 fg_fraction: 0.5 append_gtbox: false", regions, kBoxes).rows(), 16);
}

TEST(BatchProposalTarget, MakesUpABackgroundWhereThereIsNothing) {
  const Values ignored{1, 50, 0, 57, 9}, box{1, 50, 0, 59, 9, 1, 1, 0};
  for (std::int64_t draw = 0; draw < 20; ++draw) {
    Sampled sampled("batch_size: 8", ignored, box, "", draw);
    ASSERT_EQ(sampled.rows(), 1);
    const Values region = sampled.output(0);
    EXPECT_EQ(region[0], 1);
    EXPECT_TRUE(region[1] >= 0 && region[3] < 200 && region[3] - region[1] >= 31)
        << region[1] << " " << region[3];
    EXPECT_TRUE(region[2] >= 0 && region[4] < 100 && region[4] - region[2] >= 31)
        << region[2] << " " << region[4];
    EXPECT_EQ(sampled.output(1), Values{0});
    EXPECT_EQ(sampled.output(5), Values(6, 0));
    EXPECT_EQ(sampled.output(6), Values{1});
  }
}

TEST(BatchProposalTarget, RefusesWhatDoesNotFit) {
  const auto refused = [](const std::string& settings, const Shape& boxes = {2, 7}) {
    return refusal("type: 'BatchProposalTarget' proposal_target_param { " + settings + " }", {{3, 5}, boxes});
  };
  // One output only is bound here, so what is accepted cannot be tried.
  EXPECT_THAT(refused("cls_num: 1"), HasSubstr("cls_num must be at least 2"));
  EXPECT_THAT(refused("cls_num: 3 batch_size: 0"), HasSubstr("batch_size must be positive, or -1"));
  EXPECT_THAT(refused("cls_num: 3 fg_thr: 0.4"), HasSubstr("fg_thr 0.4 must not be below bg_thr_hg 0.5"));
  EXPECT_THAT(refused("cls_num: 3", Shape{2, 5}), HasSubstr("expected rows of 7 or more"));
  for (const auto& [regions, boxes, problem] :
       {std::tuple{Values{4, 0, 0, 9, 9}, kBoxes, "region 0 is image 4"},
        {Values{0, 9, 0, 0, 9}, kBoxes, "it ends before it begins"},
        {Values{0, 0, 0, std::nan(""), 9}, kBoxes, "expected finite numbers"},
        {Values{0, 0, 0, 9, 9}, Values{0, 0, 0, 9, 9, 3, 0, 0},
         "a true box has the class 3; there are 3 classes"}}) {
    Sampled sampled("", regions, boxes);
    try {
      sampled.layer().check_results(sampled.context());
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr(problem));
    }
  }
}

TEST(BatchProposalTarget, TakesRegionsSmallerThanAPixel) {
  // BoxGroupOutput makes such where the codes say so.
  Sampled sampled("batch_size: -1 append_gtbox: false bg_thr_lw: 0", {0, 80, 9, 79.5, 8.5}, kBoxes);
  EXPECT_NO_THROW(sampled.layer().check_results(sampled.context()));
  EXPECT_EQ(sampled.output(0), (Values{0, 80, 9, 79.5, 8.5}));
}

TEST(FieldLosses, ADeviceMayHaveNoSamples) {
  for (const bool of_groups : {false, true}) {
    Scene none(0, 3, 1);
    Trained trained(none, of_groups ? group_loss("cls_num: 3") : detection_loss("cls_num: 3"), of_groups);
    EXPECT_EQ(trained.output(), Values{0});
  }
}

TEST(DecodeBBox, DropsRegionsThatOverlappedTheirBoxes) {
  Bench bench("type: 'DecodeBBox' decode_bbox_param { gt_iou_thr: 0.9 }",
              {{2, 8}, {2, 5, 1, 1}, {2, 6, 1, 1}}, 1);
  bench.set_input(0, Values(16, 0));
  bench.set_input(1, {0, 0, 0, 9, 9, 1, 5, 5, 9, 9});
  bench.set_input(2, {1, 0, 0, 9, 9, 0.95, 1, 5, 5, 9, 9, 0.5});
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{1, 5, 5, 9, 9}));
}

}  // namespace
}  // namespace banyan::testing
