// Boxes of the cells of YOLO's maps, against their formulas.
#include "banyan/ops/cell_boxes.hpp"

#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

class CellBoxes : public DeviceTest {};

constexpr std::int64_t kBoxesOfCells = 6, kClassesOfCells = 3, kCells = 35;
constexpr std::int64_t kOfCells = kBoxesOfCells * (5 + kClassesOfCells) * kCells;

TEST_P(CellBoxes, AreSigmoidsExceptSizesAndExclusiveClasses) {
  const std::vector<double> values_of_x = random_values(kOfCells, 1, -3, 3),
                            values_of_dy = random_values(kOfCells, 2);
  const Tensor x = make({2, 24, 5, 7}, values_of_x), dy = make({2, 24, 5, 7}, values_of_dy);
  Tensor y = empty({2, 24, 5, 7}), dx = empty({2, 24, 5, 7});
  for (const bool exclusive : {false, true}) {
    const ops::CellBoxes over{kBoxesOfCells, kClassesOfCells, kCells, exclusive};
    std::vector<double> expected_y(kOfCells), expected_dx(kOfCells);
    for (std::int64_t i = 0; i < kOfCells; ++i) {
      const std::int64_t channel = i / kCells % 8;
      const double one = values_of_x[i], sigmoid = 1 / (1 + std::exp(-one));
      double sum = 0;
      for (std::int64_t c = 5; c < 8; ++c) sum += std::exp(values_of_x[i + (c - channel) * kCells]);
      const bool plain = channel == 2 || channel == 3, softmax = channel > 4 && exclusive;
      expected_y[i] = plain ? one : softmax ? std::exp(one) / sum : sigmoid;
      expected_dx[i] = values_of_dy[i] * (plain || softmax ? 1 : sigmoid * (1 - sigmoid));
    }
    ops::cell_boxes_forward(context(), x, over, y);
    expect_near(values(y), expected_y, 8 * epsilon());
    ops::cell_boxes_slopes(context(), y, dy, over, dx);
    expect_near(values(dx), expected_dx, 8 * epsilon());
    Tensor in_place = make({2, 24, 5, 7}, values_of_dy);
    ops::cell_boxes_slopes(context(), y, in_place, over, in_place);
    EXPECT_EQ(values(in_place), values(dx));
  }
  Tensor none = empty({0, 24, 5, 7}), none_too = empty({0, 24, 5, 7});
  ops::cell_boxes_forward(context(), none, {0, 3, 35, true}, none_too);
  EXPECT_THROW(ops::cell_boxes_forward(context(), x, {5, 3, 35, true}, y), Error);
  EXPECT_THROW(ops::cell_boxes_slopes(context(), y, none, {6, 3, 35, true}, dx), Error);
}

BANYAN_ON_ALL_DEVICES(CellBoxes);

}  // namespace
}  // namespace banyan
