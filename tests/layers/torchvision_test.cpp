// The detection operators against torchvision's: bins of regions, forward and backward, the boxes that
// DetectionOutput decodes and keeps, SSD's default boxes and loss, and Faster R-CNN's anchors with their
// targets, regions and loss of boxes.
#include <unistd.h>

#include <filesystem>

#include "banyan/base/text.hpp"
#include "banyan/io/arrays.hpp"
#include "layers/bench.hpp"
#include "python_script.hpp"

namespace banyan::testing {
namespace {

class Torchvision : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "banyan_torchvision_" + std::to_string(::getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void keep(const std::string& name, const std::vector<std::int64_t>& shape, const Values& values) {
    io::NamedArray& array = arrays_.emplace_back();
    array.name = name;
    array.data.shape = shape;
    array.data.doubles = values;
  }
  void write(const std::string& name) {
    io::write_npz(folder_ + "/" + name + ".npz", arrays_);
    arrays_.clear();
  }

  /// Regions of all sizes, some beyond the images and some smaller than a pixel. `inside`: between whole
  /// numbers, and some way from the images' ends.
  Values regions(int count, int images, double side, bool inside) {
    std::uniform_real_distribution<double> place(inside ? 0 : -0.2 * side, inside ? 16.9 : 1.2 * side);
    Values rois;
    for (int i = 0; i < count; ++i) {
      double x1 = place(random_), x2 = place(random_), y1 = place(random_), y2 = place(random_);
      if (i % 8 == 0) x2 = x1 + 0.1;
      if (x2 < x1) std::swap(x1, x2);
      if (y2 < y1) std::swap(y1, y2);
      rois.push_back(i % images);
      for (const double value : {x1, y1, x2, y2}) rois.push_back(inside ? std::floor(value) : value);
    }
    return rois;
  }

  /// An operator's output and, where it has one, the gradient of its input.
  void regions_case(const std::string& file, const std::string& text, const Shape& input, double scale,
                    int points, bool inside) {
    constexpr int kRegions = 40;
    BenchOptions options;
    options.dtype = DType::f32;
    Bench bench(text, {input, Shape{kRegions, 5}}, 1, options);
    const Values x = spread_values(input.count(), 1), rois = regions(kRegions, 2, 20 / scale, inside);
    bench.set_input(0, x);
    bench.set_input(1, rois);
    bench.forward();
    const Shape output = bench.outputs[0]->shape;
    const Values y = bench.output(), dy = spread_values(output.count(), 2);
    bench.backward(dy);
    keep("x", input.dims(), x);
    keep("rois", {kRegions, 5}, rois);
    keep("y", output.dims(), y);
    keep("dy", output.dims(), dy);
    keep("dx", input.dims(), bench.input_gradient());
    keep("scale", {1}, {scale});
    keep("points", {1}, {static_cast<double>(points)});
    write(file);
  }

  /// Boxes of one image: priors, what is said of them, and the rows that are kept.
  void detections_case(const std::string& file, bool center_size, double threshold) {
    constexpr int kPriors = 60, kClasses = 4;
    BenchOptions options;
    options.dtype = DType::f32;
    options.phase = Phase::test;
    Bench bench(cat("type: 'DetectionOutput' detection_output_param { num_classes: ", kClasses,
                    " share_location: true background_label_id: 0 confidence_threshold: 0.2 keep_top_k: ",
                    kPriors * (kClasses - 1), " code_type: ", center_size ? "CENTER_SIZE" : "CORNER",
                    " nms_param { nms_threshold: ", threshold, " top_k: ", kPriors, " } }"),
                {Shape{1, 4 * kPriors}, Shape{1, kClasses * kPriors}, Shape{1, 2, 4 * kPriors}}, 1, options);
    std::uniform_real_distribution<double> place(0.1, 0.6), size(0.1, 0.3), shift(-0.5, 0.5);
    Values priors, variances, shifts;
    for (int i = 0; i < kPriors; ++i) {
      const double x = place(random_), y = place(random_);
      for (const double value : {x, y, x + size(random_), y + size(random_)}) priors.push_back(value);
      for (const double value : {0.1, 0.1, 0.2, 0.2}) variances.push_back(value);
      for (int k = 0; k < 4; ++k) shifts.push_back(shift(random_));
    }
    Values both = priors;
    both.insert(both.end(), variances.begin(), variances.end());
    Values scores = spread_values(kClasses * kPriors, 3, 0.5);  // no two are equal
    for (double& score : scores) score += 0.5;
    bench.set_input(0, shifts);
    bench.set_input(1, scores);
    bench.set_input(2, both);
    bench.forward();
    keep("priors", {kPriors, 4}, priors);
    keep("shifts", {kPriors, 4}, shifts);
    keep("scores", {kPriors, kClasses}, scores);
    keep("center_size", {1}, {center_size ? 1.0 : 0.0});
    keep("threshold", {1}, {threshold});
    keep("kept", {bench.outputs[0]->shape.count() / 7, 7}, bench.output());
    write(file);
  }

  /// The boxes of PriorBox; without a step positions divide the image evenly.
  void priors_case(const std::string& file, int step) {
    BenchOptions options;
    options.dtype = DType::f32;
    Bench bench(cat("type: 'PriorBox' prior_box_param { min_size: 20 max_size: 45 aspect_ratio: 2 "
                    "aspect_ratio: 3 flip: true ",
                    step > 0 ? cat("step: ", step) : "", " }"),
                {Shape{1, 1, 5, 7}, Shape{1, 3, 96, 96}}, 1, options);
    bench.forward();
    Values boxes = bench.output();
    boxes.resize(boxes.size() / 2);  // variances follow
    keep("lengths", {4}, {5, 7, 96, 96});
    keep("step", {1}, {static_cast<double>(step)});
    keep("sizes", {2}, {20, 45});
    keep("ratios", {2}, {2, 3});
    keep("boxes", {static_cast<std::int64_t>(boxes.size()) / 4, 4}, boxes);
    write(file);
  }

  /// Anchors, which AnchorBoxes shows with shifts of 0, and what AnchorTarget makes of them. Sides are whole
  /// and even, since torchvision rounds the halves of anchors and Faster R-CNN the sides of the first scale.
  void anchors_case(const std::string& file) {
    constexpr int kRows = 10, kColumns = 12, kHeight = 80, kWidth = 96, kAnchors = 9;
    const std::string grid =
        "base_size: 16 feat_stride: 8 ratio: 0.25 ratio: 1 ratio: 4 scale: 1 scale: 2 scale: 3 ";
    BenchOptions options;
    options.dtype = DType::f32;
    const Shape scores{1, 2 * kAnchors, kRows, kColumns}, shifts{1, 4 * kAnchors, kRows, kColumns};
    Bench boxes(cat("type: 'AnchorBoxes' proposal_param { ", grid, " }"),
                {scores, Shape{1, 2, kAnchors * kRows, kColumns}, shifts}, 2, options);
    const std::vector<std::int64_t> rows{kAnchors * kRows * kColumns, 4};
    for (const bool moved : {false, true}) {
      const Values given = moved ? spread_values(shifts.count(), 4, 0.5) : Values(shifts.count());
      boxes.set_input(2, given);
      boxes.forward();
      keep(moved ? "moved" : "anchors", rows, boxes.output());
      if (moved) keep("shifts", shifts.dims(), given);
    }
    // All that have a label count.
    Bench targets(
        cat("type: 'AnchorTarget' anchor_target_param { ", grid, " batch_size: 10000 fg_fraction: 1 }"),
        {scores, Shape{5, 5}, Shape{1, 3}}, 4, options);
    const Values truth = {3,  2, 30, 40, 1,  20, 50, 79, 68, 2,  26, 16, 74,
                          62, 1, 6,  44, 25, 78, 3,  60, 14, 71, 55, 2};
    targets.set_input(1, truth);
    targets.set_input(2, {kHeight, kWidth, 1});
    targets.forward();
    keep("truth", {5, 5}, truth);
    keep("labels", targets.outputs[0]->shape.dims(), targets.output(0));
    keep("targets", shifts.dims(), targets.output(1));
    keep("lengths", {4}, {kRows, kColumns, kHeight, kWidth});
    keep("sizes", {3}, {16, 32, 48});
    keep("ratios", {3}, {0.25, 1, 4});
    keep("middle", {1}, {8});
    write(file);
  }

  /// The regions of two images, of the same anchors. With a low threshold too few are left: the other rows
  /// repeat the first region.
  void proposal_case(const std::string& file, double threshold) {
    constexpr int kRows = 10, kColumns = 12, kHeight = 80, kWidth = 96, kAnchors = 9, kMinSize = 12;
    constexpr int kBefore = 100, kAfter = 40;
    BenchOptions options;
    options.dtype = DType::f32;
    const Shape scores{2, 2 * kAnchors, kRows, kColumns}, shifts{2, 4 * kAnchors, kRows, kColumns};
    Bench bench(
        cat("type: 'Proposal' proposal_param { base_size: 16 feat_stride: 8 ratio: [0.25, 1, 4] scale: "
            "[1, 2, 3] min_size: ",
            kMinSize, " pre_nms_topn: ", kBefore, " post_nms_topn: ", kAfter, " nms_thresh: ", threshold,
            " }"),
        {scores, shifts, Shape{2, 3}}, 2, options);
    Values objectness = spread_values(scores.count(), 5, 0.5);  // no two are equal
    for (double& score : objectness) score += 0.5;
    const Values moves = spread_values(shifts.count(), 6, 0.7),
                 infos = {kHeight, kWidth, 1, kHeight - 9, kWidth - 20, 1.5};
    bench.set_input(0, objectness);
    bench.set_input(1, moves);
    bench.set_input(2, infos);
    bench.forward();
    keep("scores", scores.dims(), objectness);
    keep("shifts", shifts.dims(), moves);
    keep("infos", {2, 3}, infos);
    keep("rois", bench.outputs[0]->shape.dims(), bench.output(0));
    keep("probabilities", {2 * kAfter}, bench.output(1));
    keep("lengths", {4}, {kRows, kColumns, kHeight, kWidth});
    keep("sizes", {3}, {16, 32, 48});
    keep("ratios", {3}, {0.25, 1, 4});
    keep("middle", {1}, {8});
    keep("limits", {4}, {kMinSize, kBefore, threshold, kAfter});
    write(file);
  }

  /// SmoothL1Loss and its gradients, with both weights or without.
  void smooth_l1_case(const std::string& file, int sigma, bool weighted) {
    BenchOptions options;
    options.dtype = DType::f32;
    const Shape shape{4, 6, 5, 3};
    Bench bench(cat("type: 'SmoothL1Loss' smooth_l1_loss_param { sigma: ", sigma, " }"),
                std::vector<Shape>(weighted ? 4 : 2, shape), 1, options);
    const char* const names[] = {"a", "b", "inside", "outside"};
    for (std::size_t i = 0; i < bench.inputs.size(); ++i) {
      Values values = spread_values(shape.count(), static_cast<unsigned>(7 + i), sigma == 1 ? 1.5 : 0.7);
      for (double& value : values)
        if (i == 3) value = std::abs(value);  // or the terms of the loss would cancel
      bench.set_input(i, values);
      keep(names[i], shape.dims(), values);
    }
    bench.forward();
    bench.backward(Values{1});
    keep("sigma", {1}, {static_cast<double>(sigma)});
    keep("loss", {1}, bench.output());
    keep("da", shape.dims(), bench.input_gradient(0));
    keep("db", shape.dims(), bench.input_gradient(1));
    write(file);
  }

  /// Rows of ground truth of three images, the second without any, near some of these priors.
  Values objects_near(const Values& priors) {
    std::uniform_real_distribution<double> shift(-0.02, 0.02);
    Values rows;
    for (const int image : {0, 0, 0, 2, 2}) {
      const std::size_t near = random_() % (priors.size() / 4);
      rows.insert(rows.end(), {static_cast<double>(image), 1.0 + static_cast<double>(random_() % 3), 0});
      for (std::size_t k = 0; k < 4; ++k) rows.push_back(priors[4 * near + k] + shift(random_));
      rows.push_back(0);
    }
    return rows;
  }

  /// SSD's loss and its gradients.
  void multibox_case(const std::string& file) {
    constexpr int kImages = 3, kPriors = 80, kClasses = 4;
    BenchOptions options;
    options.dtype = DType::f32;
    Bench bench(cat("type: 'MultiBoxLoss' multibox_loss_param { num_classes: ", kClasses,
                    " code_type: CENTER_SIZE loc_loss_type: SMOOTH_L1 conf_loss_type: SOFTMAX mining_type: "
                    "MAX_NEGATIVE neg_pos_ratio: 3 overlap_threshold: 0.5 }"),
                {Shape{kImages, 4 * kPriors}, Shape{kImages, kClasses * kPriors}, Shape{1, 2, 4 * kPriors},
                 Shape{1, 1, 5, 8}},
                1, options);
    std::uniform_real_distribution<double> place(0, 0.7), size(0.1, 0.3);
    Values priors, variances;
    for (int i = 0; i < kPriors; ++i) {
      const double x = place(random_), y = place(random_);
      priors.insert(priors.end(), {x, y, x + size(random_), y + size(random_)});
      variances.insert(variances.end(), {0.1, 0.1, 0.2, 0.2});
    }
    const Values truth = objects_near(priors), shifts = spread_values(kImages * kPriors * 4, 11, 2),
                 scores = spread_values(kImages * kPriors * kClasses, 12, 3);  // no two are equal
    Values both = priors;
    both.insert(both.end(), variances.begin(), variances.end());
    bench.set_input(0, shifts);
    bench.set_input(1, scores);
    bench.set_input(2, both);
    bench.set_input(3, truth);
    bench.forward();
    bench.backward(Values{1});
    keep("priors", {kPriors, 4}, priors);
    keep("truth", {5, 8}, truth);
    keep("shifts", {kImages, kPriors, 4}, shifts);
    keep("scores", {kImages, kPriors, kClasses}, scores);
    keep("loss", {1}, bench.output());
    keep("dshifts", {kImages, kPriors, 4}, bench.input_gradient(0));
    keep("dscores", {kImages, kPriors, kClasses}, bench.input_gradient(1));
    write(file);
  }

  /// Compares what the cases have written. Once per test.
  void compare() {
    const ScriptRun run =
        run_python("layers/torchvision_compare.py", "'" + folder_ + "'", folder_ + "/report");
    if (run.lacks_modules) GTEST_SKIP() << "needs Python with torchvision (BANYAN_PYTHON): " << run.report;
    EXPECT_EQ(run.code, 0) << run.report;
  }

  std::string folder_;
  std::mt19937 random_{5};
  io::NamedArrays arrays_;
};

TEST_F(Torchvision, ComputesTheSame) {
  const Shape map{2, 6, 20, 18};
  regions_case("roi_pool_half",
               "type: 'ROIPooling' roi_pooling_param { pooled_h: 3 pooled_w: 4 spatial_scale: 0.5 }", map,
               0.5, 0, false);
  regions_case("roi_pool_whole", "type: 'ROIPooling' roi_pooling_param { pooled_h: 5 pooled_w: 2 }", map, 1,
               0, false);
  regions_case(
      "roi_align_points",
      "type: 'ROIAlign' roi_align_param { pooled_h: 3 pooled_w: 4 spatial_scale: 0.25 sampling_ratio: 2 }",
      map, 0.25, 2, false);
  regions_case("roi_align_pixels",
               "type: 'ROIAlign' roi_align_param { pooled_h: 2 pooled_w: 3 spatial_scale: 0.5 }", map, 0.5,
               -1, false);
  // torchvision has no pixel at the far corner: it gets that one more, which only whole corners make the
  // same.
  regions_case("ps_roi_pool",
               "type: 'PSROIPooling' psroi_pooling_param { output_dim: 2 group_size: 3 spatial_scale: 1 }",
               Shape{2, 18, 20, 18}, 1, 0, true);
  for (const bool center_size : {false, true})
    for (const double threshold : {0.3, 0.6})
      detections_case(cat("detections_", center_size, "_", static_cast<int>(10 * threshold)), center_size,
                      threshold);
  priors_case("priors_step", 16);
  priors_case("priors_even", 0);
  anchors_case("anchors");
  for (const double threshold : {0.7, 0.2})
    proposal_case(cat("proposal_", static_cast<int>(10 * threshold)), threshold);
  compare();
}

TEST_F(Torchvision, HasTheSameLosses) {
  for (const int sigma : {1, 3})
    for (const bool weighted : {false, true})
      smooth_l1_case(cat("smooth_", sigma, weighted ? "_weighted" : ""), sigma, weighted);
  for (const char* file : {"multibox_1", "multibox_2", "multibox_3"}) multibox_case(file);
  compare();
}

}  // namespace
}  // namespace banyan::testing
