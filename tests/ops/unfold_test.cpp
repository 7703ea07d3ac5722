// im2col and unpooling against loops written from their definitions.
#include "banyan/ops/unfold.hpp"

#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

class UnfoldTest : public DeviceTest {};

struct UnfoldCase {
  ops::ConvolutionGeometry geometry;
  Shape input, output;
};

std::vector<UnfoldCase> unfold_cases() {
  return {{{{3, 2}, {2, 1}, {1, 0}, {1, 2}}, {2, 2, 5, 4}, {2, 12, 3, 2}},
          {{{2}, {3}, {2}, {2}}, {3, 1, 4}, {3, 2, 2}},
          {{{2, 1, 3}, {1, 2, 1}, {0, 1, 1}, {1, 1, 1}}, {1, 2, 3, 2, 4}, {1, 12, 2, 2, 4}},
          // Windows that reach beyond both borders: some lines are all padding.
          {{{3, 4}, {1, 3}, {2, 5}, {1, 3}}, {1, 2, 4, 5}, {1, 24, 6, 2}},
          // Enough for several threads.
          {{{3, 3}, {1, 1}, {1, 1}, {1, 1}}, {2, 5, 24, 20}, {2, 45, 24, 20}},
          {{{3, 3}, {2, 2}, {1, 1}, {1, 1}}, {3, 7, 29, 41}, {3, 63, 15, 21}}};
}

/// For each element of the output: the input's element there, or -1.
std::vector<std::int64_t> sources(const UnfoldCase& k) {
  const int axes = k.geometry.spatial_axes();
  std::vector<std::int64_t> found;
  for (std::int64_t i = 0; i < k.output.count(); ++i) {
    std::vector<std::int64_t> position(static_cast<std::size_t>(axes)), element = position;
    std::int64_t rest = i;
    for (int a = axes; a-- > 0; rest /= k.output[a + 2])
      position[static_cast<std::size_t>(a)] = rest % k.output[a + 2];
    for (int a = axes; a-- > 0;) {
      const std::int64_t length = k.geometry.kernel[static_cast<std::size_t>(a)];
      element[static_cast<std::size_t>(a)] = rest % length;
      rest /= length;
    }
    std::int64_t place = rest;  // sample and channel
    bool inside = true;
    for (std::size_t a = 0; a < position.size(); ++a) {
      const std::int64_t length = k.input[static_cast<int>(a) + 2];
      const std::int64_t at =
          position[a] * k.geometry.stride[a] - k.geometry.pad[a] + element[a] * k.geometry.dilation[a];
      inside = inside && at >= 0 && at < length;
      place = place * length + at;
    }
    found.push_back(inside ? place : -1);
  }
  return found;
}

TEST_P(UnfoldTest, ShowsWhatTheWindowsSeeAndGathersBack) {
  for (const UnfoldCase& k : unfold_cases()) {
    const std::vector<double> x = rounded(random_values(k.input.count(), 1)),
                              dy = rounded(random_values(k.output.count(), 2));
    const Tensor input = make(k.input, x), gradient = make(k.output, dy);
    Tensor output = empty(k.output), dx = empty(k.input);
    ops::unfold_forward(context(), k.geometry, input, output);
    ops::unfold_backward(context(), k.geometry, gradient, dx);
    std::vector<double> seen, gathered(x.size(), 0.0);
    const std::vector<std::int64_t> from = sources(k);
    for (std::size_t i = 0; i < from.size(); ++i) {
      seen.push_back(from[i] < 0 ? 0 : x[static_cast<std::size_t>(from[i])]);
      if (from[i] >= 0) gathered[static_cast<std::size_t>(from[i])] += dy[i];
    }
    EXPECT_EQ(values(output), seen);
    expect_near(values(dx), gathered, 16 * epsilon());
  }
}

TEST_P(UnfoldTest, RefusesShapesThatDoNotFit) {
  const UnfoldCase k = unfold_cases()[0];
  const Tensor x = empty(k.input);
  Tensor wrong = empty({2, 12, 3, 3});
  EXPECT_THROW(ops::unfold_forward(context(), k.geometry, x, wrong), Error);
  Tensor none = empty({0, 2, 5, 4}), y = empty({0, 12, 3, 2});
  ops::unfold_forward(context(), k.geometry, none, y);
  ops::unfold_backward(context(), k.geometry, y, none);
}

TEST_P(UnfoldTest, UnpoolsToTheMasksPixels) {
  for (const Layout layout : kLayouts) {
    const Tensor x = make({1, 2, 1, 3}, {1, 2, 3, 4, 5, 6}, layout);
    const Tensor mask = make({1, 2, 1, 3}, {3, 0, 3, 2, -1, 4}, layout);
    Tensor y = empty({1, 2, 2, 2}, layout), dx = empty({1, 2, 1, 3}, layout);
    ops::unpool_forward(context(), x, mask, y);
    EXPECT_EQ(values(y), (std::vector<double>{2, 0, 0, 3, 0, 0, 4, 0}));  // 3 came after 1
    const Tensor dy = make({1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}, layout);
    ops::unpool_backward(context(), dy, mask, dx);
    EXPECT_EQ(values(dx), (std::vector<double>{4, 1, 4, 7, 0, 0}));
  }
}

class UnpoolTest : public UnfoldTest {
 protected:
  /// To twice the height and width.
  void unpool(const Shape& narrow);
};

void UnpoolTest::unpool(const Shape& narrow) {
  const Shape wide{narrow[0], narrow[1], 2 * narrow[2], 2 * narrow[3]};
  const auto inputs = static_cast<std::size_t>(narrow.count(2)), outputs = 4 * inputs;
  const std::vector<double> x = rounded(random_values(narrow.count(), 1)),
                            dy = rounded(random_values(wide.count(), 2));
  std::vector<double> mask = random_values(narrow.count(), 3, -1, static_cast<double>(outputs)),
                      y(static_cast<std::size_t>(wide.count())), dx;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    mask[i] = std::floor(mask[i]);
    const std::size_t plane = i / inputs * outputs;
    if (mask[i] >= 0) y[plane + static_cast<std::size_t>(mask[i])] = x[i];
    dx.push_back(mask[i] >= 0 ? dy[plane + static_cast<std::size_t>(mask[i])] : 0);
  }
  for (const Layout layout : kLayouts) {
    const Tensor where = make(narrow, mask, layout), from = make(narrow, x, layout),
                 wide_dy = make(wide, dy, layout);
    Tensor wide_y = empty(wide, layout), narrow_dx = empty(narrow, layout);
    ops::unpool_forward(context(), from, where, wide_y);
    EXPECT_EQ(values(wide_y), y);
    ops::unpool_backward(context(), wide_dy, where, narrow_dx);
    EXPECT_EQ(values(narrow_dx), dx);
  }
}

TEST_P(UnpoolTest, ManyPlanes) { unpool({3, 37, 8, 6}); }
/// And enough for several threads, with channels for more than one of the runs that they take.
TEST_P(UnpoolTest, LargePlanes) { unpool({3, 70, 16, 12}); }
/// Of which one image's channels are divided.
TEST_P(UnpoolTest, OneImage) {
  unpool({1, 64, 20, 14});
  unpool({1, 21, 30, 24});
}

BANYAN_ON_ALL_DEVICES(UnfoldTest);
BANYAN_ON_ALL_DEVICES(UnpoolTest);

}  // namespace
}  // namespace banyan
