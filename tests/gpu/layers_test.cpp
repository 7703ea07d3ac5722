// Layers on GPUs, with every setting that their own tests have: what they give is what they give on CPU
// devices. Operators have tests of their own; here it is the layers' host code that must not touch the memory
// of a GPU, nor use what its stream has not computed yet.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <set>

#include "banyan/io/atomic_file.hpp"
#include "io/hdf5_maker.hpp"
#include "layers/branch_cases.hpp"
#include "layers/ctc_cases.hpp"
#include "layers/every_layer.hpp"
#include "layers/function_cases.hpp"
#include "layers/layer_cases.hpp"
#include "layers/loss_cases.hpp"
#include "layers/small_layer_cases.hpp"
#include "layers/spatial_cases.hpp"
#include "train/run_devices.hpp"

namespace banyan::testing {
namespace {

/// f64: both add up a few hundred terms, in different orders (1e-16 each), and divide by norms and deviations
/// that are at least 1e-2.
constexpr double kTolerance = 1e-11;

struct Group {
  std::string name;
  std::vector<GradientCase> cases;
};
void PrintTo(const Group& group, std::ostream* out) { *out << group.name; }

std::vector<Group> groups() {
  std::vector<GradientCase> spatial;
  for (const spatial_cases::Case& tested : spatial_cases::kCases) spatial.push_back(gradient_case(tested));
  const std::vector<GradientCase> without_inputs = {
      {"continuation_indicator",
       "type: 'ContinuationIndicator' continuation_indicator_param { time_step: 3 batch_size: 2 }",
       {}},
      {"parameter", "type: 'Parameter' parameter_param { shape { dim: 2 dim: 3 } }", {}},
  };
  return {{"Layers", layer_cases::kCases},
          {"Small", small_layer_cases::kCases},
          {"Functions", function_cases::kCases},
          {"Branches", branch_cases::kCases},
          {"Losses", loss_cases::kCases},
          {"Ohem", loss_cases::kOhemCases},
          {"Ctc", ctc_cases::kCases},
          {"Spatial", spatial},
          {"WithoutInputs", without_inputs}};
}

struct Result {
  std::string name;
  Values values;
};

/// Outputs, gradients and parameters after a pass, by their names.
std::vector<Result> results_of(const GradientCase& tested, DeviceKind kind) {
  BenchOptions options;
  options.kind = kind;
  Bench bench = bench_of(tested, options);
  set_values_of(bench, tested);
  bench.zero_parameter_gradients();
  bench.forward();
  std::vector<Result> found;
  std::vector<Values> gradients;
  for (std::size_t o = 0; o < bench.outputs.size(); ++o) {
    found.push_back({cat("output ", o), bench.output(o)});
    gradients.push_back(spread_values(bench.outputs[o]->shape.count(), static_cast<unsigned>(91 + o)));
  }
  const std::vector<Parameter>& parameters = bench.layer().parameters();
  bench.backward(gradients);
  for (std::size_t i = 0; i < bench.inputs.size(); ++i)
    if (bench.layer().traits().differentiable(static_cast<int>(i)))
      found.push_back({cat("gradient of input ", i), bench.input_gradient(i)});
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    found.push_back({cat("parameter ", p), bench.parameter(p)});
    if (parameters[p].grad.defined())
      found.push_back({cat("gradient of parameter ", p), bench.parameter_gradient(p)});
  }
  bench.layer().check_results(bench.context());
  return found;
}

class GpuLayers : public ::testing::TestWithParam<Group> {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  }
};
INSTANTIATE_TEST_SUITE_P(Settings, GpuLayers, ::testing::ValuesIn(groups()),
                         [](const auto& info) { return info.param.name; });

TEST_P(GpuLayers, ComputeWhatTheyDoOnCpuDevices) {
  for (const GradientCase& tested : GetParam().cases) {
    SCOPED_TRACE(tested.name);
    try {
      const std::vector<Result> expected = results_of(tested, DeviceKind::cpu),
                                found = results_of(tested, DeviceKind::cuda);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i)
        expect_near(found[i].values, expected[i].values, kTolerance, expected[i].name);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

/// Those without a gradient, too.
TEST(EveryGpuLayer, ComputesWhatItDoesOnCpuDevices) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  for (AnyBatch tested : every_layer()) {
    SCOPED_TRACE(tested.text);
    // Their masks name pixels twice here; among the cases above they do not.
    const std::string type = layer_from_text(tested.text).type();
    if (type == "Upsample" || type == "Unpooling") continue;
    // Of whole numbers two classes would score the same, and the last bit of a softmax would choose.
    if (type == "YoloDetectionOutput" || type == "Yolov3DetectionOutput") tested.whole_numbers = false;
    const auto run = [&](DeviceKind kind) {
      BenchOptions options;
      options.kind = kind;
      Bench bench(tested.text, tested.shapes(2), tested.outputs, options);
      std::vector<Values> results;
      for (const std::int64_t batch : {2, 0, 3}) {
        bench.reshape(tested.shapes(batch));
        for (Values& values : run_batch(bench, tested, batch)) results.push_back(std::move(values));
      }
      return results;
    };
    try {
      const std::vector<Values> expected = run(DeviceKind::cpu), found = run(DeviceKind::cuda);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i)
        expect_near(found[i], expected[i], kTolerance, cat("result ", i));
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

#ifdef BANYAN_WITH_HDF5
TEST(GpuHdf5Output, WritesWhatTheGpuHolds) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  const std::string file = cat(::testing::TempDir(), "banyan_gpu_output_", getpid(), ".h5");
  const Shape rows{3, 2, 2}, labels{3};
  BenchOptions options;
  options.kind = DeviceKind::cuda;
  {
    Bench bench("type: 'HDF5Output' hdf5_output_param { file_name: '" + file + "' }", {rows, labels}, 0,
                options);
    bench.set_input(0, spread_values(rows.count(), 1));
    bench.set_input(1, {2, 0, 1});
    bench.forward();
  }
  EXPECT_EQ(hdf5_values(file, "data"), spread_values(rows.count(), 1));
  EXPECT_EQ(hdf5_values(file, "label"), (Values{2, 0, 1}));
  std::remove(file.c_str());
}
#endif

TEST(GpuFloWriter, WritesWhatTheGpuHolds) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  const std::string file = cat(::testing::TempDir(), "banyan_gpu_flow_", getpid(), ".flo");
  BenchOptions options;
  options.kind = DeviceKind::cuda;
  Bench bench("type: 'FLOWriter' writer_param { file: '" + file + "' }", {{1, 2, 1, 2}}, 0, options);
  bench.set_input(0, {1, 2, 3, 4});
  bench.forward();
  const float pixels[] = {1, 3, 2, 4};
  EXPECT_EQ(io::read_file(file, 100).substr(12), std::string(reinterpret_cast<const char*>(pixels), 16));
  std::remove(file.c_str());
}

/// What they remember: the cases of other layers leave no trace.
TEST(GpuOnlineMatching, MovesItsTableAndItsQueue) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  BenchOptions options;
  options.kind = DeviceKind::cuda;
  Bench labeled("type: 'LabeledMatching' labeled_matching_param { num_classes: 3 momentum: 0.25 }",
                {Shape{4, 2}, Shape{4}}, 2, options);
  labeled.set_parameter(0, {1, 0, 0, 1, 2, 2});
  labeled.set_parameter(1, {5, 5, 5});
  labeled.set_input(0, {1, 2, 3, 4, 5, 6, 7, 8});
  labeled.set_input(1, {1, 3, 1, -1});
  labeled.forward();
  EXPECT_EQ(labeled.parameter(0), (Values{1, 0, 3.9375, 4.9375, 2, 2}));
  EXPECT_EQ(labeled.parameter(1), (Values{6, 0, 6}));
  Bench unlabeled("type: 'UnlabeledMatching' unlabeled_matching_param { queue_size: 3 }",
                  {Shape{7, 1}, Shape{7}}, 1, options);
  unlabeled.set_parameter(0, {10, 20, 30});
  unlabeled.set_parameter(1, {2});
  unlabeled.set_input(0, {1, 2, 3, 4, 5, 6, 7});
  unlabeled.set_input(1, {-1, 0, -1, 5, -1, -1, -1});
  unlabeled.forward();
  EXPECT_EQ(unlabeled.parameter(0), (Values{7, 5, 6}));
  EXPECT_EQ(unlabeled.parameter(1), Values{1});
}

/// Its margin, which the cases of other layers do not move, and norms in place of its factor.
TEST(GpuGlobalLSEMargin, FollowsTheBatchesAsOnCpuDevices) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  for (const bool norms : {false, true}) {
    const auto run = [&](DeviceKind kind) {
      BenchOptions options;
      options.kind = kind;
      std::vector<Shape> shapes{Shape{40, 300}, Shape{40}};
      if (norms) shapes.push_back(Shape{40, 1});
      Bench bench("type: 'GlobalLSEMargin' scale_param { filler { value: 4 } }", shapes, 2, options);
      std::vector<Values> found;
      for (unsigned pass = 0; pass < 3; ++pass) {
        const Values labels = integers(40, 300, pass);
        Values x = spread_values(40 * 300, pass);
        for (std::size_t n = 0; n < labels.size(); ++n)
          x[n * 300 + static_cast<std::size_t>(labels[n])] += 2.5;
        bench.set_input(0, x);
        bench.set_input(1, labels);
        if (norms) {
          Values lengths = spread_values(40, 7 + pass);
          for (double& length : lengths) length += 4;
          bench.set_input(2, lengths);
        }
        bench.zero_parameter_gradients();
        bench.forward();
        bench.backward({spread_values(40 * 300, 20 + pass), Values(5, 1)});
        for (Values values : {bench.output(0), bench.output(1), bench.parameter(1), bench.input_gradient(0),
                              norms ? bench.input_gradient(2) : bench.parameter_gradient(0)})
          found.push_back(std::move(values));
      }
      return found;
    };
    const std::vector<Values> expected = run(DeviceKind::cpu), found = run(DeviceKind::cuda);
    EXPECT_GT(expected[2][0], 0);
    for (std::size_t i = 0; i < expected.size(); ++i)
      expect_near(found[i], expected[i], kTolerance, cat("result ", i, norms ? ", with norms" : ""));
  }
}

/// So many classes that several blocks look for the largest cost; of equal ones the first. With a factor for
/// each sample.
TEST(GpuGeneralTripletLoss, ComparesTheLabelsDistanceWithMany) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  const std::int64_t samples = 3, classes = 20000;
  for (const char* settings : {"margin: 0.25", "margin: 0.25 hardest_only: true add_center_loss: false"}) {
    SCOPED_TRACE(settings);
    const auto run = [&](DeviceKind kind) {
      BenchOptions options;
      options.kind = kind;
      Bench bench(cat("type: 'GeneralTripletLoss' general_triplet_loss_param { ", settings, " }"),
                  {Shape{samples, classes}, Shape{samples}, Shape{samples}}, 2, options);
      Values d = spread_values(samples * classes, 1);
      for (const std::int64_t equal : {7777, 7778, 19999}) d[static_cast<std::size_t>(classes + equal)] = -5;
      bench.set_input(0, d);
      bench.set_input(1, {19998, 0, 17});
      bench.set_input(2, {0.5, 2, -1});
      bench.forward();
      bench.backward({{0.7}, {7, 7}});
      return std::vector<Values>{bench.output(0), bench.output(1), bench.input_gradient()};
    };
    const std::vector<Values> expected = run(DeviceKind::cpu), found = run(DeviceKind::cuda);
    for (std::size_t i = 0; i < expected.size(); ++i)
      expect_near(found[i], expected[i], kTolerance, cat("result ", i));
  }
}

/// With one output it is another operator than with the two of its examples.
TEST(GpuConfusionMatrix, HasTheSharesOfEachClass) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  BenchOptions options;
  options.kind = DeviceKind::cuda;
  Bench bench("type: 'ConfusionMatrix'", {Shape{4, 3}, Shape{4}}, 1, options);
  bench.set_input(0, {5, 1, 2, 0, 1, 3, 0, 9, 1, 4, 4, 2});
  bench.set_input(1, {0, 0, 1, 1});
  bench.forward();
  expect_near(bench.output(), {0.5, 0, 0.5, 0.5, 0.5, 0, 0, 0, 0}, 1e-15);
}

/// A new type needs an example (LayerInfo), a case, or a test on GPUs of its own.
TEST(GpuLayerTypes, AreTested) {
  std::set<std::string> tested{
      "FLOWriter", "HDF5Output",                               // above
      "DetectionEvaluate", "DetectionOutput", "MultiBoxLoss",  // detection_test.cpp
      "EvalDetection",                                         // eval_detection_gpu_test.cpp
      "SqueezeDetLoss",                                        // squeezedet_gpu_test.cpp
      "Data", "DummyData",                                     // training_test.cpp, detection_test.cpp
      "Python",                                                // train/python_training_test.cpp
      // Their batches travel as those of Data do (source_layer.hpp), or the program fills them.
      "AnnotatedData", "BboxData", "CPMData", "CustomData", "DataHeatmap", "DenseImageData", "DetectionData",
      "DocData", "EvalData", "HDF5Data", "ImageData", "ImageGtData", "ImageLabelData", "ImageSegData",
      "Input", "MemoryData", "SegData", "SelectSegBinary", "VideoData", "WindowData", "WindowSegData",
      "FrcnnRoiData", "SequenceData", "VideoSegmentationData", "VideoWithVoxelTruthData"};
  for (const Group& group : groups())
    for (const GradientCase& each : group.cases) tested.insert(layer_from_text(each.text).type());
  for (const AnyBatch& each : every_layer()) tested.insert(layer_from_text(each.text).type());
  for (const std::string& type : registered_layer_types()) EXPECT_TRUE(tested.contains(type)) << type;
}

}  // namespace
}  // namespace banyan::testing
