// copy_grid: any walk through two memories.
#include "banyan/ops/grid.hpp"

#include <array>

#include "banyan/ops/basic.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

class GridTest : public DeviceTest {};

std::vector<double> counting(std::int64_t count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return values;
}

TEST_P(GridTest, PermutesAxes) {
  const Shape shape{3, 4, 5, 2};
  const Tensor x = make(shape, counting(shape.count()));
  Tensor y = empty({5, 3, 2, 4});
  ops::Grid grid;
  for (const auto& [length, stride] : {std::pair{5, 2}, {3, 40}, {2, 1}, {4, 10}}) {
    static const std::int64_t to[] = {24, 8, 4, 1};
    grid.add(length, stride, to[grid.axes]);
  }
  ops::copy_grid(context(), x, y, grid);
  std::vector<double> expected;
  for (int h = 0; h < 5; ++h)
    for (int n = 0; n < 3; ++n)
      for (int w = 0; w < 2; ++w)
        for (int c = 0; c < 4; ++c) expected.push_back(40 * n + 10 * c + 2 * h + w);
  EXPECT_EQ(values(y), expected);
}

TEST_P(GridTest, ReversesRepeatsAndLeavesTheRest) {
  const Tensor x = make({2, 3}, counting(6));
  Tensor y = empty({2, 3, 2});
  ops::fill(context(), y, -1);
  ops::Grid grid;
  grid.add(2, 3, 6);
  grid.add(2, -1, 2);
  grid.add(2, 0, 1);
  grid.from_offset = 2;
  grid.to_offset = 2;
  ops::copy_grid(context(), x, y, grid);
  EXPECT_EQ(values(y), (std::vector<double>{-1, -1, 2, 2, 1, 1, -1, -1, 5, 5, 4, 4}));
}

TEST_P(GridTest, TakesIndicesInAnyOrder) {
  // Few and many of the fastest index in the target, and a patch that is not full.
  for (const std::int64_t groups : {2, 3, 4, 5, 40}) {
    const std::int64_t pixels = 600, each = 70, count = pixels * groups * each;
    const Tensor x = make({count}, counting(count));
    std::vector<double> expected;
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel)
      for (std::int64_t channel = 0; channel < each; ++channel)
        for (std::int64_t group = 0; group < groups; ++group)
          expected.push_back(static_cast<double>((pixel * groups + group) * each + channel));
    const std::int64_t axes[3][3] = {
        {pixels, groups * each, groups * each}, {each, 1, groups}, {groups, each, 1}};
    for (const auto& order : {std::array{0, 1, 2}, std::array{2, 1, 0}, std::array{1, 0, 2}}) {
      Tensor y = empty({count}), back = empty({count});
      ops::Grid grid;
      for (const int axis : order) grid.add(axes[axis][0], axes[axis][1], axes[axis][2]);
      ops::copy_grid(context(), x, y, grid);
      EXPECT_EQ(values(y), expected);
      ops::copy_grid(context(), y, back, grid.reversed());
      EXPECT_EQ(values(back), values(x));
    }
  }
}

/// Lines that are cut, of which the last piece is short.
TEST_P(GridTest, WeavesAFewLongLines) {
  for (const std::int64_t images : {1, 3})
    for (const std::int64_t lines : {2, 3, 4}) {
      const std::int64_t length = 5000, count = images * lines * length;
      const Tensor x = make({count}, counting(count));
      Tensor y = empty({count}), back = empty({count});
      ops::Grid grid;
      grid.add(images, lines * length, lines * length);
      grid.add(length, 1, lines);
      grid.add(lines, length, 1);
      std::vector<double> expected;
      for (std::int64_t image = 0; image < images; ++image)
        for (std::int64_t i = 0; i < length; ++i)
          for (std::int64_t line = 0; line < lines; ++line)
            expected.push_back(static_cast<double>((image * lines + line) * length + i));
      ops::copy_grid(context(), x, y, grid);
      EXPECT_EQ(values(y), expected);
      ops::copy_grid(context(), y, back, grid.reversed());
      EXPECT_EQ(values(back), values(x));
    }
}

/// As Reorg does: pixels that were neighbours lie far apart.
TEST_P(GridTest, TakesPixelsApartIntoPlanes) {
  for (const std::int64_t stride : {2, 3, 5})
    for (const std::int64_t width : {7, 40}) {
      const std::int64_t planes = 9, height = 31, pixels = height * width;
      const std::int64_t count = planes * stride * stride * pixels;
      const Tensor x = make({count}, counting(count));
      Tensor y = empty({count}), back = empty({count});
      ops::Grid grid;
      grid.add(stride, width * stride, stride * planes * pixels);
      grid.add(stride, 1, planes * pixels);
      grid.add(planes, stride * stride * pixels, pixels);
      grid.add(height, stride * width * stride, width);
      grid.add(width, stride, 1);
      std::vector<double> expected;
      for (std::int64_t t = 0; t < stride; ++t)
        for (std::int64_t u = 0; u < stride; ++u)
          for (std::int64_t row = 0; row < planes * height; ++row)
            for (std::int64_t column = 0; column < width; ++column)
              expected.push_back(static_cast<double>(((row * stride + t) * width + column) * stride + u));
      ops::copy_grid(context(), x, y, grid);
      EXPECT_EQ(values(y), expected);
      ops::copy_grid(context(), y, back, grid.reversed());
      EXPECT_EQ(values(back), values(x));
    }
}

TEST_P(GridTest, TakesEveryTypeAndNothing) {
  for (const DType type : {DType::u8, DType::i32, DType::f32, DType::f64}) {
    const Tensor x = make_as(type, {2, 3}, counting(6));
    Tensor y = make_as(type, {3, 2}, std::vector<double>(6));
    ops::Grid grid;
    grid.add(3, 1, 2);
    grid.add(2, 3, 1);
    ops::copy_grid(context(), x, y, grid);
    EXPECT_EQ(values(y), (std::vector<double>{0, 3, 1, 4, 2, 5}));
    grid.length[0] = 0;
    ops::copy_grid(context(), x, y, grid);
    grid.length[0] = grid.length[1] = 1;
    grid.from_offset = 5;
    ops::copy_grid(context(), x, y, grid);
    EXPECT_EQ(values(y)[0], 5);
  }
}

TEST_P(GridTest, RefusesPlacesOutside) {
  const Tensor x = make({2, 3}, counting(6));
  Tensor y = empty({2, 3});
  ops::Grid grid;
  grid.add(6, 1, 1);
  grid.from_offset = 1;
  EXPECT_THROW(ops::copy_grid(context(), x, y, grid), Error);
  grid.from_offset = 0;
  grid.to_stride[0] = -1;
  EXPECT_THROW(ops::copy_grid(context(), x, y, grid), Error);
  grid.to_offset = 5;
  ops::copy_grid(context(), x, y, grid);
  EXPECT_EQ(values(y), (std::vector<double>{5, 4, 3, 2, 1, 0}));
}

TEST(Strides, FollowTheLayout) {
  EXPECT_EQ(ops::strides_of({2, 3, 4, 5}, Layout::contiguous), (std::vector<std::int64_t>{60, 20, 5, 1}));
  EXPECT_EQ(ops::strides_of({2, 3, 4, 5}, Layout::channels_last), (std::vector<std::int64_t>{60, 1, 15, 3}));
  EXPECT_EQ(ops::strides_of({2, 3}, Layout::channels_last), (std::vector<std::int64_t>{3, 1}));
}

BANYAN_ON_ALL_DEVICES(GridTest);

}  // namespace
}  // namespace banyan
