// Filter by itself: which samples pass, where gradients go, what is refused.
#include <gmock/gmock.h>

#include <limits>

#include "layers/bench.hpp"

namespace banyan::testing {
namespace {

using ::testing::HasSubstr;

const std::string kFilter = "type: 'Filter'";

TEST(Filter, PassesWhatTheSelectorDoesNotSetToZero) {
  Bench bench(kFilter, {Shape{5, 2}, Shape{5}, Shape{5, 1}}, 2);
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{5, 2}));  // planned for all
  bench.set_input(0, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  bench.set_input(1, {10, 20, 30, 40, 50});
  bench.set_input(2, {0, -0.5, 0, std::numeric_limits<double>::quiet_NaN(), 2});
  bench.forward();
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{3, 2}));
  EXPECT_EQ(bench.outputs[1]->shape, (Shape{3}));
  EXPECT_EQ(bench.output(0), (Values{3, 4, 7, 8, 9, 10}));
  EXPECT_EQ(bench.output(1), (Values{20, 40, 50}));
  bench.backward(std::vector<Values>{{1, 2, 3, 4, 5, 6}, {7, 8, 9}});
  EXPECT_EQ(bench.input_gradient(0), (Values{0, 0, 1, 2, 0, 0, 3, 4, 5, 6}));
  EXPECT_EQ(bench.input_gradient(1), (Values{0, 7, 0, 8, 9}));
  EXPECT_FALSE(bench.layer().traits().differentiable(2));
}

TEST(Filter, PassesAllOneOrNoneAndMoreAgain) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    BenchOptions options;
    options.dtype = dtype;
    Bench bench(kFilter, {Shape{3, 2}, Shape{3, 1, 1}}, 1, options);
    bench.set_input(0, {1, 2, 3, 4, 5, 6});
    const auto check = [&](const Values& selector, const Values& expected, const Values& gradient) {
      bench.set_input(1, selector);
      bench.forward();
      EXPECT_EQ(bench.output(), expected);
      EXPECT_EQ(bench.outputs[0]->shape, (Shape{std::ssize(expected) / 2, 2}));
      bench.backward(Values(expected.size(), 7));
      EXPECT_EQ(bench.input_gradient(), gradient);
    };
    check({1, 1, 1}, {1, 2, 3, 4, 5, 6}, Values(6, 7));
    check({0, 1, 0}, {3, 4}, {0, 0, 7, 7, 0, 0});
    check({0, 0, 0}, {}, Values(6, 0));
    check({1, 0, 1}, {1, 2, 5, 6}, {7, 7, 0, 0, 7, 7});
  }
}

TEST(Filter, KeepsTheLayoutOfImages) {
  const Shape shape{3, 2, 2, 3};
  const Values values = spread_values(shape.count(), 1);
  BenchOptions options;
  options.dtype = DType::f32;
  options.input_layout = Layout::channels_last;
  Bench bench(kFilter, {shape, Shape{3}}, 1, options);
  bench.set_input(0, values);
  const Values stored = get_values(bench.context(), bench.inputs[0]->data);
  bench.set_input(1, {0, 1, 1});
  bench.forward();
  EXPECT_EQ(bench.outputs[0]->layout, Layout::channels_last);
  EXPECT_EQ(bench.output(), Values(stored.begin() + shape.count(1), stored.end()));
}

TEST(Filter, RefusesWhatDoesNotFit) {
  const auto refused = [](const std::vector<Shape>& inputs, int outputs, const std::string& more = "") {
    try {
      const Bench bench(kFilter + more, inputs, outputs);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      return error.message();
    }
    return std::string("accepted");
  };
  const Shape x{4, 2}, selector{4};
  EXPECT_EQ(refused({x, selector}, 1), "accepted");
  EXPECT_EQ(refused({x, x, selector}, 1),
            "layer \"tested\" (Filter): expected one output for each input but the last, which selects "
            "samples; found 3 inputs and 1 outputs");
  EXPECT_EQ(refused({x, Shape{3}}, 1),
            "layer \"tested\" (Filter): input \"input0\" is 4 2 (8); expected 3 samples, as many as the "
            "selector \"input1\" has");
  EXPECT_THAT(refused({Shape{}, selector}, 1), HasSubstr("expected 4 samples"));
  for (const Shape& wrong : {Shape{4, 2}, Shape{4, 1, 3}, Shape{}})
    EXPECT_THAT(refused({x, wrong}, 1), HasSubstr("expected one value for each sample: N or N x 1"));
  EXPECT_EQ(refused({x, selector}, 1, " propagate_down: true propagate_down: true"),
            "layer \"tested\" (Filter): propagate_down asks for the gradient of the selector \"input1\", "
            "which has none");
  EXPECT_EQ(refused({x, selector}, 1, " propagate_down: true propagate_down: false"), "accepted");
}

}  // namespace
}  // namespace banyan::testing
