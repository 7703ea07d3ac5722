// Layers in Python: what pycaffe promises them, and what they get to hear.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "banyan/data/image_codec.hpp"
#include "layers/gradient_checker.hpp"
#include "layers/python_batches.hpp"
#include "layers/python_case.hpp"

namespace banyan::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class LayersInPython : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_test_layers(); !why.empty()) GTEST_SKIP() << why;
  }
};

/// Fills inputs with ordinary values, and ends with a pass in both directions.
std::string failure_of(const std::string& text, ErrorKind kind) {
  try {
    Bench bench(text, {Shape{2, 2}}, 1);
    bench.set_input(0, {1, 2, 3, 4});
    bench.forward();
    bench.backward(Values(4, 1));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.message();
    return error.message();
  }
  return "works";
}

TEST_F(LayersInPython, HaveGradientsAndParameters) {
  Bench bench(python_text("Swish", R"({"slope": 1.5})"), {Shape{2, 3, 2, 2}}, 1);
  const Values x = spread_values(24, 1, 3);
  bench.set_input(0, x);
  ASSERT_EQ(bench.layer().parameters().size(), 1u);
  EXPECT_EQ(bench.layer().parameters()[0].shape, Shape{3});
  EXPECT_THAT(bench.layer().parameters()[0].first_values, ElementsAre(1.5, 1.5, 1.5));
  bench.set_parameter(0, {0.5, 1, -2});
  GradientChecker(bench).run();
  bench.set_input(0, x);
  bench.forward();
  Values expected;
  const Values w = bench.parameter(0);
  for (std::size_t i = 0; i < x.size(); ++i) expected.push_back(x[i] / (1 + std::exp(-w[i / 4 % 3] * x[i])));
  expect_near(bench.output(), expected, 1e-15);  // a few roundings
}

TEST_F(LayersInPython, AddToTheGradientsOfParameters) {
  Bench bench(python_text("Swish"), {Shape{2, 3}}, 1);
  bench.set_input(0, spread_values(6, 1));
  bench.set_parameter(0, {1, 1, 1});
  bench.zero_parameter_gradients();
  bench.forward();
  bench.backward(Values(6, 1));
  const Values once = bench.parameter_gradient(0);
  bench.forward();
  bench.backward(Values(6, 1));
  const Values twice = bench.parameter_gradient(0);
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_DOUBLE_EQ(twice[i], 2 * once[i]);
  EXPECT_NE(once[0], 0);
}

TEST_F(LayersInPython, TakeOtherShapesAndEmptyBatches) {
  Bench bench(python_text("Swish"), {Shape{2, 3}}, 1);
  bench.set_parameter(0, {1, 1, 1});
  for (const std::int64_t samples : {5, 0, 1}) {
    bench.reshape({Shape{samples, 3}});
    EXPECT_EQ(bench.outputs[0]->shape, (Shape{samples, 3}));
    bench.set_input(0, Values(static_cast<std::size_t>(3 * samples), 2));
    bench.forward();
    bench.backward(Values(static_cast<std::size_t>(3 * samples), 1));
    expect_near(bench.output(), Values(static_cast<std::size_t>(3 * samples), 2 / (1 + std::exp(-2.0))),
                1e-15);
  }
}

TEST_F(LayersInPython, KeepRunningStatistics) {
  const std::string text = python_text("Running") + "param { lr_mult: 0 }";
  Bench bench(text, {Shape{2, 2}}, 1);
  EXPECT_EQ(bench.layer().parameters()[0].kind, ParameterKind::statistic);
  bench.set_parameter(0, {4});
  bench.set_input(0, {1, 2, 3, 6});
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{-2.5, -1.5, -0.5, 2.5}));
  EXPECT_EQ(bench.parameter(0), Values{3.5});
  bench.pass.update_statistics = false;  // leaves no trace
  bench.forward();
  EXPECT_EQ(bench.parameter(0), Values{3.5});
  Bench learning(python_text("Running"), {Shape{2, 2}}, 1);
  EXPECT_EQ(learning.layer().parameters()[0].kind, ParameterKind::learnable);
  Bench shared(python_text("Running") + "param { name: 'm' lr_mult: 0 }", {Shape{2, 2}}, 1);
  EXPECT_EQ(shared.layer().parameters()[0].kind, ParameterKind::learnable);
}

TEST_F(LayersInPython, AreNotAskedForShapesWithoutSamples) {
  Bench bench(python_text("Running"), {Shape{3, 2}}, 1);
  bench.reshape({Shape{0, 2}});
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{0, 2}));
  bench.forward();
  bench.backward(Values{});
  bench.reshape({Shape{5, 2}});
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{5, 2}));
}

TEST_F(LayersInPython, LearnNothingFromAnEmptyBatch) {
  Bench bench(python_text("TimesSum"), {Shape{1, 2}, Shape{3}}, 1);
  bench.set_input(0, {1, 2});
  bench.set_input(1, {3, 4, 5});
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{12, 24}));
  bench.backward(Values{1, 1});
  EXPECT_EQ(bench.input_gradient(1), (Values{3, 3, 3}));
  bench.reshape({Shape{0, 2}, Shape{3}});
  ops::fill(bench.context(), bench.inputs[1]->grad, 7);
  bench.forward();
  bench.backward(Values());
  EXPECT_EQ(bench.input_gradient(1), (Values{0, 0, 0}));
}

TEST_F(LayersInPython, WorkInSinglePrecision) {
  BenchOptions options;
  options.dtype = DType::f32;
  Bench bench(python_text("Swish"), {Shape{1, 2}}, 1, options);
  bench.set_parameter(0, {1, 1});
  bench.set_input(0, {0.5, -3});
  bench.forward();
  // A rounding of 2^-24 in each of four steps.
  expect_near(bench.output(), {0.5 / (1 + std::exp(-0.5)), -3 / (1 + std::exp(3.0))}, 4e-7);
}

TEST_F(LayersInPython, CountOnceInALossOfSeveralDevices) {
  const Values x = {1, 2, 3, 4}, y = {0, 0, 1, 1};
  for (const int devices : {1, 4}) {
    BenchOptions options;
    options.devices = devices;
    Bench bench(python_text("MeanSquares") + "loss_weight: 3", {Shape{2, 2}, Shape{2, 2}}, 1, options);
    EXPECT_EQ(bench.layer().traits().shares, 1);
    bench.set_input(0, x);
    bench.set_input(1, y);
    bench.forward();
    EXPECT_DOUBLE_EQ(bench.output()[0], (1. + 4 + 4 + 9) / 4 / devices);
    bench.backward(Values{3});
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_DOUBLE_EQ(bench.input_gradient(0)[i], (x[i] - y[i]) / 2 / devices);
      EXPECT_DOUBLE_EQ(bench.input_gradient(1)[i], (y[i] - x[i]) / 2 / devices);
    }
  }
}

/// What is shown beside a loss is a mean over the devices as well.
TEST_F(LayersInPython, LearnTheirShareOfALossOfSeveralDevices) {
  for (const int devices : {1, 4}) {
    BenchOptions options;
    options.devices = devices;
    Bench bench(python_text("ScaledMean") + "loss_weight: 3", {Shape{2, 2}}, 1, options);
    EXPECT_EQ(bench.layer().parameters()[0].shape, Shape{});
    bench.set_parameter(0, {5});
    bench.set_input(0, {1, 2, 3, 6});
    bench.forward();
    EXPECT_DOUBLE_EQ(bench.output()[0], 15. / devices);
    bench.zero_parameter_gradients();
    bench.backward(Values{3});
    EXPECT_DOUBLE_EQ(bench.parameter_gradient(0)[0], 9. / devices);
    for (const double gradient : bench.input_gradient()) EXPECT_DOUBLE_EQ(gradient, 3.75 / devices);
  }
}

TEST_F(LayersInPython, ShowMeansBesideALossOfSeveralDevices) {
  for (const int devices : {1, 4}) {
    BenchOptions options;
    options.devices = devices;
    Bench bench(python_text("FarthestAndMean") + "loss_weight: 0 loss_weight: 3", {Shape{2, 2}, Shape{2, 2}},
                2, options);
    EXPECT_EQ(bench.layer().traits().shares, 2);
    bench.set_input(0, {1, 2, 3, 4});
    bench.set_input(1, {0, 0, 1, 1});
    bench.forward();
    EXPECT_DOUBLE_EQ(bench.output(0)[0], 3. / devices);
    EXPECT_DOUBLE_EQ(bench.output(1)[0], (1. + 4 + 4 + 9) / 4 / devices);
    bench.backward(std::vector<Values>{{0}, {3}});
    EXPECT_DOUBLE_EQ(bench.input_gradient(0)[3], 1.5 / devices);
  }
}

TEST_F(LayersInPython, HaveOneBlobForAnInputAndAnOutputOfTheSameName) {
  Bench bench(python_text("Twice") + "bottom: 'a' top: 'a'", {Shape{2, 2}}, 1);
  ASSERT_EQ(bench.layer().parameters().size(), 1u);  // which reshape() adds
  bench.set_input(0, {1, 2, 3, 4});
  bench.set_parameter(0, {0, 0});
  bench.zero_parameter_gradients();
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{2, 4, 6, 8}));
  bench.backward(Values{1, 10, 100, 1000});
  EXPECT_EQ(bench.input_gradient(0), (Values{2, 20, 200, 2000}));
  EXPECT_EQ(bench.parameter_gradient(0), (Values{101, 1010}));
}

TEST_F(LayersInPython, DecideHowManySamplesThereAre) {
  Bench bench(python_text("Positive", "", "max_samples: 3"), {Shape{4, 2}}, 2);
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{3, 2}));
  EXPECT_EQ(bench.outputs[1]->shape, Shape{3});
  bench.set_input(0, {1, 2, -1, 3, 4, 5, -6, -7});
  bench.forward();
  EXPECT_EQ(bench.output(0), (Values{1, 2, 4, 5}));
  EXPECT_EQ(bench.output(1), (Values{0, 2}));
  bench.backward(std::vector<Values>{{10, 20, 30, 40}, {0, 0}});
  EXPECT_EQ(bench.input_gradient(0), (Values{10, 20, 0, 0, 30, 40, 0, 0}));
  bench.set_input(0, {-1, 2, -1, 3, -4, 5, -6, -7});
  bench.forward();
  EXPECT_EQ(bench.output(0), Values());
  bench.set_input(0, Values(8, 1));
  try {
    bench.forward();
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("its outputs are 4 2 (8) and 4 (4); with max_samples: 3"));
  }
}

TEST_F(LayersInPython, BringBatchesOfTheirOwnShapes) {
  Bench bench(python_text("Numbers", R"({"batch": 1, "different": true})") + "top: 'x' top: 'y'", {}, 2);
  EXPECT_TRUE(bench.layer().traits().source);
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{1, 3}));
  const auto next = [&] {
    bench.layer().prepare(bench.pass, bench.outputs);
    for (Blob* output : bench.outputs)
      output->data = Tensor(bench.context().device(), output->shape, output->dtype);
    bench.forward();
    return bench.output();
  };
  for (int batch = 0; batch < 4; ++batch) {
    Values expected;
    for (int i = 0; i < 3 * (1 + batch % 2); ++i) expected.push_back(std::sin(100. * batch + i));
    expect_near(next(), expected, 1e-15, cat("batch ", batch));  // two libraries' sines
  }
}

/// Of a layer without inputs and with two outputs.
PythonProgramOptions source_options(const std::string& layer) {
  PythonProgramOptions options;
  options.name = "data";
  options.module = "layers_of_tests";
  options.layer = layer;
  options.settings = R"({"batch": 1})";
  options.dtype = DType::f64;
  options.outputs = {-1, -1};
  return options;
}

/// Of three devices, two are here: what the third one would get is made and dropped.
TEST_F(LayersInPython, MakeBatchesForOtherProcessesToo) {
  PythonBatches batches(source_options("Numbers"), 3);
  batches.join(0);
  batches.join(2);
  const auto first_of = [&](std::uint64_t number) {
    const PythonBatches::Batch batch = batches.take(number);
    double value = 0;
    std::memcpy(&value, batch.at(0).values.data(), sizeof value);
    return value;
  };
  const auto expected = [](int number) { return std::sin(100. * number); };
  EXPECT_NEAR(first_of(2), expected(2), 1e-15);  // two libraries' sines
  EXPECT_NEAR(first_of(0), expected(0), 1e-15);
  EXPECT_THROW(first_of(1), Error);  // nobody's here
  EXPECT_THROW(first_of(2), Error);  // has been taken
  // A test pass of 4 batches, of which rank 2 leaves the last out.
  batches.begin_turns(5);
  EXPECT_NEAR(first_of(5), expected(5), 1e-15);
  EXPECT_NEAR(first_of(8), expected(8), 1e-15);
  EXPECT_THROW(first_of(6), Error);  // rank 1's
  batches.skip(2, 9);
  EXPECT_THROW(first_of(7), Error);
  batches.begin_turns(9);
  EXPECT_NEAR(first_of(11), expected(11), 1e-15);
  EXPECT_NEAR(first_of(9), expected(9), 1e-15);
  EXPECT_THROW(first_of(10), Error);
}

TEST_F(LayersInPython, AreToldWhereTheyAreWrong) {
  for (const char* method : {"setup", "reshape"})
    EXPECT_THAT(
        failure_of(python_text("Broken", method), ErrorKind::bad_input),
        AllOf(HasSubstr(cat("layer \"tested\" (Python, layers_of_tests.Broken) in ", method,
                            "(): ValueError: this is wrong in ", method, ", in ", method, " (")),
              HasSubstr(", in raise_in ("), HasSubstr("/tests/layers/python/layers_of_tests.py, line ")));
  for (const char* method : {"forward", "backward"})
    EXPECT_THAT(failure_of(python_text("Broken", method), ErrorKind::runtime),
                HasSubstr(cat("in ", method, "(): ValueError: this is wrong in ", method)));
  EXPECT_THAT(
      failure_of(python_text("Broken", "grow"), ErrorKind::runtime),
      AllOf(HasSubstr("output \"output0\" has the shape 7 2 (14) after forward(), and had 2 2 (4) when"),
            HasSubstr("max_samples: N")));
  EXPECT_THAT(
      failure_of(python_text("Broken", "net"), ErrorKind::runtime),
      HasSubstr("NotImplementedError: Banyan has no caffe.Net: of pycaffe there is what layers need"));
  EXPECT_EQ(failure_of(python_text("Broken"), ErrorKind::runtime), "works");
}

TEST_F(LayersInPython, MayDoWhatNobodyExpects) {
  EXPECT_THAT(failure_of(python_text("Odd", "path"), ErrorKind::bad_input),
              HasSubstr("in setup(): ValueError: nothing can be imported, in setup ("));
  EXPECT_THAT(
      failure_of(python_text("Odd", "silent"), ErrorKind::bad_input),
      HasSubstr(
          "layer \"tested\" (Python, layers_of_tests.Odd) in setup(): Unspeakable: (what its __str__ says "
          "cannot be shown), in setup ("));
  EXPECT_THAT(failure_of(python_text("Odd", "surrogate"), ErrorKind::bad_input),
              HasSubstr("in setup(): ValueError: file \\udcff is not here, in setup ("));
  EXPECT_THAT(failure_of(python_text("Odd", "exit"), ErrorKind::bad_input),
              HasSubstr("in setup(): SystemExit"));
  EXPECT_THAT(failure_of(python_text("Odd", "pop"), ErrorKind::runtime),
              HasSubstr("in forward(): AttributeError: 'tuple' object has no attribute 'pop'"));
  EXPECT_THAT(failure_of(python_text("Odd", "replace"), ErrorKind::runtime),
              HasSubstr("in forward(): TypeError: "));
  EXPECT_THAT(failure_of(python_text("Odd", "\\377"), ErrorKind::bad_input),
              HasSubstr("(Python, layers_of_tests.Odd) cannot be made: UnicodeDecodeError: "));
  EXPECT_EQ(failure_of(python_text("Odd"), ErrorKind::runtime), "works");  // and has its path again
}

TEST_F(LayersInPython, FailForEachDeviceByItself) {
  PythonBatches batches(source_options("Ending"), 2);
  for (const int rank : {0, 1}) batches.join(rank);
  EXPECT_EQ(batches.take(3).size(), 2u);
  for (const std::uint64_t number : {5, 4}) try {
      batches.take(number);
      ADD_FAILURE();
    } catch (Error& error) {
      EXPECT_THAT(error.message(), HasSubstr("in forward(): ValueError: there is no batch 4"));
      EXPECT_EQ(error.what(), error.message());  // no place of the other device
      error.add_context("while running here");
    }
}

/// The program's handler of SIGTERM is not theirs.
TEST_F(LayersInPython, EndTheirProcesses) {
  const auto before = std::signal(SIGTERM, [](int) {});
  Bench bench(python_text("WithProcess", "end"), {Shape{2}}, 1);
  bench.set_input(0, {1, 2});
  bench.forward();
  std::signal(SIGTERM, before);
  EXPECT_EQ(bench.output(), (Values{2, 3}));
}

TEST_F(LayersInPython, MustBeThere) {
  EXPECT_THAT(
      failure_of(python_text("X", "", "", "no_such.module"), ErrorKind::bad_input),
      HasSubstr("(Python, module \"no_such.module\", layer \"X\"): there is no module \"no_such.module\": it "
                "is looked for in the folders of PYTHONPATH, and in the working folder"));
  EXPECT_THAT(failure_of(python_text("X"), ErrorKind::bad_input),
              HasSubstr("module \"layers_of_tests\" has no class \"X\""));
  EXPECT_THAT(failure_of(python_text("NoLayer"), ErrorKind::bad_input),
              HasSubstr("\"NoLayer\" is not a class derived from caffe.Layer"));
  EXPECT_THAT(failure_of(python_text("WithoutForward"), ErrorKind::bad_input),
              HasSubstr("the class has no method forward(bottom, top)"));
  EXPECT_THAT(failure_of(python_text("Old", "", "", "two_seven"), ErrorKind::bad_input),
              AllOf(HasSubstr("SyntaxError: "), HasSubstr("two_seven.py"),
                    HasSubstr("code for Python 2 must be converted")));
  EXPECT_THAT(failure_of("type: 'Python'", ErrorKind::bad_input),
              HasSubstr("layer \"tested\" (Python): python_param.module is missing"));
  EXPECT_THAT(failure_of(python_text("Swish", "", "max_samples: 0"), ErrorKind::bad_input),
              HasSubstr("python_param.max_samples must be at least 1"));
}

TEST_F(LayersInPython, OfOtherKindsHaveWhatTheyNeed) {
  EXPECT_EQ(why_no_python("json"), "");
  EXPECT_EQ(why_no_python("xml.dom"), "");
  EXPECT_THAT(why_no_python("json.no_such.module"), HasSubstr("there is no module \"json.no_such.module\""));
  EXPECT_THAT(why_no_python("two_seven"), Not(HasSubstr("Syntax")));  // it is not run
}

TEST_F(LayersInPython, ReadImagesAndMessages) {
  if (const std::string why = why_no_python("google.protobuf"); !why.empty())
    GTEST_SKIP() << "needs the Python package protobuf: " << why;
  data::Image image{3, 3, 4, {}};  // B, G, R
  for (int row = 0; row < 3; ++row)
    for (int column = 0; column < 4; ++column)
      for (const int value : {2, 1, 10 * row + column})
        image.pixels.push_back(static_cast<std::uint8_t>(value));
  const std::string path = ::testing::TempDir() + cat("/layers_in_python_", getpid(), ".png");
  const std::vector<std::uint8_t> png = data::encode_image(image, "png");
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(png.data()), static_cast<std::streamsize>(png.size()));
  const Bench bench(python_text("Files", path), {}, 1);
  std::remove(path.c_str());
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{1, 3, 3, 4}));
}

/// The thread that starts Python need not be the first to use it.
TEST(PythonStart, MayBeInAnyThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // Python starts once in a process
  const auto use_at_once = [] {
    {
      std::vector<std::jthread> threads;
      for (int thread = 0; thread < 8; ++thread)
        threads.emplace_back([] {
          for (int use = 0; use < 50; ++use) static_cast<void>(why_no_python("json"));
        });
    }
    std::exit(0);
  };
  EXPECT_EXIT(use_at_once(), ::testing::ExitedWithCode(0), "");
}

/// One that looks for NumPy's functions keeps no other from going on with the lock.
TEST(PythonStart, IsDoneWithNumpyBeforeTheFirstLayer) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  if (const std::string why = why_no_test_layers(); !why.empty()) GTEST_SKIP() << why;
  const auto run_at_once = [] {
    alarm(60);  // instead of waiting for ever
    {
      std::vector<std::jthread> threads;
      for (int thread = 0; thread < 4; ++thread)
        threads.emplace_back([] {
          Bench bench(python_text("Same", "", "", "slow_numpy"), {Shape{2}}, 1);
          bench.set_input(0, {1, 2});
          bench.forward();
        });
    }
    std::exit(0);
  };
  EXPECT_EXIT(run_at_once(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace banyan::testing
