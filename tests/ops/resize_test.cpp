// Bilinear resizing against its definition in floating point.
#include "banyan/ops/resize.hpp"

#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

class ResizeTest : public DeviceTest {
 protected:
  std::vector<double> run(const ops::ImagePart& part, const Shape& from, const std::vector<double>& x,
                          const Shape& to, Layout layout) {
    const Tensor input = make(from, x, layout);
    Tensor output = empty(to, layout);
    ops::resize_forward(context(), part, input, output);
    return values(output);
  }
};

struct ResizeCase {
  ops::ImagePart part;
  std::int64_t h, w, out_h, out_w;
};
const ResizeCase kResizeCases[] = {
    {{0, 0, 4, 5}, 4, 5, 7, 9},  {{0, 0, 4, 5}, 4, 5, 4, 5}, {{1, 2, 3, 2}, 5, 6, 8, 3},
    {{0, 0, 7, 9}, 7, 9, 3, 2},  {{0, 0, 1, 1}, 1, 1, 5, 3}, {{0, 0, 6, 5}, 6, 5, 1, 1},
    {{2, 0, 1, 4}, 4, 4, 3, 10}, {{0, 1, 5, 1}, 5, 3, 1, 4}, {{0, 0, 5, 5}, 5, 5, 1, 13},
};

double blend(double from, double to, double share) { return share == 0 ? from : from + share * (to - from); }

std::vector<double> expected(const ResizeCase& k, std::int64_t planes, const std::vector<double>& x) {
  std::vector<double> all;
  for (std::int64_t p = 0; p < planes; ++p)
    for (std::int64_t r = 0; r < k.out_h; ++r)
      for (std::int64_t c = 0; c < k.out_w; ++c) {
        const auto place = [](std::int64_t o, std::int64_t length, std::int64_t made) {
          return made > 1 ? static_cast<double>(o * (length - 1)) / static_cast<double>(made - 1) : 0.0;
        };
        const double y = place(r, k.part.height, k.out_h), z = place(c, k.part.width, k.out_w);
        const auto low_y = static_cast<std::int64_t>(y), low_z = static_cast<std::int64_t>(z);
        const auto at = [&](std::int64_t down, std::int64_t right) {
          const std::int64_t row = k.part.top + std::min(low_y + down, k.part.height - 1);
          const std::int64_t column = k.part.left + std::min(low_z + right, k.part.width - 1);
          return x[static_cast<std::size_t>((p * k.h + row) * k.w + column)];
        };
        const double share = z - static_cast<double>(low_z);
        all.push_back(blend(blend(at(0, 0), at(0, 1), share), blend(at(1, 0), at(1, 1), share),
                            y - static_cast<double>(low_y)));
      }
  return all;
}

TEST_P(ResizeTest, FollowsItsDefinition) {
  for (const ResizeCase& k : kResizeCases)
    for (const Layout layout : kLayouts) {
      const Shape from{2, 3, k.h, k.w};
      const std::vector<double> x = rounded(random_values(from.count(), 1));
      expect_near(run(k.part, from, x, {2, 3, k.out_h, k.out_w}, layout), expected(k, 6, x), 16 * epsilon());
    }
}

/// <R x, dy> = <x, R' dy>: R is linear.
TEST_P(ResizeTest, BackwardIsTheTranspose) {
  for (const ResizeCase& k : kResizeCases)
    for (const Layout layout : kLayouts) {
      const Shape from{2, 3, k.h, k.w}, to{2, 3, k.out_h, k.out_w};
      const std::vector<double> dy = rounded(random_values(to.count(), 2));
      const Tensor gradient = make(to, dy, layout);
      Tensor dx = empty(from, layout);
      ops::resize_backward(context(), k.part, gradient, dx);
      std::vector<double> columns;
      for (std::int64_t i = 0; i < from.count(); ++i) {
        std::vector<double> unit(static_cast<std::size_t>(from.count()), 0.0);
        unit[static_cast<std::size_t>(i)] = 1;
        const std::vector<double> column = expected(k, 6, unit);
        double sum = 0;
        for (std::size_t o = 0; o < column.size(); ++o) sum += column[o] * dy[o];
        columns.push_back(sum);
      }
      expect_near(values(dx), columns, 64 * epsilon());
    }
}

TEST_P(ResizeTest, TakesAnEmptyBatchAndRefusesPartsOutside) {
  Tensor x = empty({0, 2, 3, 3}), y = empty({0, 2, 5, 5});
  ops::resize_forward(context(), {0, 0, 3, 3}, x, y);
  ops::resize_backward(context(), {0, 0, 3, 3}, y, x);
  EXPECT_THROW(ops::resize_forward(context(), {1, 0, 3, 3}, x, y), Error);
}

BANYAN_ON_ALL_DEVICES(ResizeTest);

}  // namespace
}  // namespace banyan
