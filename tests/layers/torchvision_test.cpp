// The detection operators against torchvision's: bins of regions, forward and backward, and the boxes that
// DetectionOutput decodes and keeps.
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

  const ScriptRun run = run_python("layers/torchvision_compare.py", "'" + folder_ + "'", folder_ + "/report");
  if (run.lacks_modules) GTEST_SKIP() << "needs Python with torchvision (BANYAN_PYTHON): " << run.report;
  EXPECT_EQ(run.code, 0) << run.report;
}

}  // namespace
}  // namespace banyan::testing
