// Groups of weights, and thresholds that draw values to 0, against loops over the elements.
#include "banyan/ops/tiles.hpp"

#include "banyan/ops/soft_threshold.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

class Tiles : public DeviceTest {
 protected:
  static constexpr std::int64_t kRows = 6, kColumns = 8;
  static std::vector<ops::Tiling> tilings() {
    std::vector<ops::Tiling> all;
    for (const auto& [rows, columns] :
         {std::pair{1, 8}, {2, 8}, {6, 1}, {3, 1}, {2, 4}, {3, 2}, {6, 8}, {1, 1}})
      all.push_back({kRows, kColumns, rows, columns});
    return all;
  }
  static std::int64_t tile_of(const ops::Tiling& t, std::int64_t i) {
    return i / t.columns / t.tile_rows * (t.columns / t.tile_columns) + i % t.columns / t.tile_columns;
  }
  static std::vector<double> squares_of(const ops::Tiling& t, const std::vector<double>& w) {
    std::vector<double> squares(static_cast<std::size_t>(t.tiles()), 0);
    for (std::int64_t i = 0; i < std::ssize(w); ++i) squares[tile_of(t, i)] += w[i] * w[i];
    return squares;
  }
};

TEST_P(Tiles, DecayByTheirNorms) {
  std::vector<double> w = rounded(random_values(kRows * kColumns, 1));
  std::fill_n(w.begin(), 2 * kColumns, 0.0);  // two rows
  const std::vector<double> g = rounded(random_values(kRows * kColumns, 2));
  const Tensor weight = make({kRows, kColumns}, w);
  for (const ops::Tiling& tiling : tilings()) {
    SCOPED_TRACE(testing::Message() << tiling.tile_rows << " x " << tiling.tile_columns);
    Tensor squares = make_as(DType::f64, {tiling.tiles()}, std::vector<double>(tiling.tiles(), -1));
    ops::tile_squares(context(), weight, tiling, squares);
    const std::vector<double> norms = squares_of(tiling, w);
    expect_near(values(squares), norms, 1e-14);
    Tensor gradient = make({kRows, kColumns}, g);
    ops::add_tile_decay(context(), 0.25, weight, tiling, squares, gradient);
    std::vector<double> expected = g;
    for (std::int64_t i = 0; i < std::ssize(w); ++i)
      if (const double norm = norms[tile_of(tiling, i)]; norm > 0)
        expected[i] += 0.25 * w[i] / std::sqrt(norm);
    expect_near(values(gradient), expected, 2 * epsilon());
  }
}

TEST_P(Tiles, OfZerosAreCleared) {
  std::vector<double> w = rounded(random_values(kRows * kColumns, 1));
  std::fill_n(w.begin(), 2 * kColumns, 0.0);
  for (std::int64_t row = 0; row < kRows; ++row) w[row * kColumns + 5] = 0;
  const std::vector<double> g = rounded(random_values(kRows * kColumns, 2));
  const Tensor weight = make({kRows, kColumns}, w);
  for (const ops::Tiling& tiling : tilings()) {
    Tensor squares = make_as(DType::f64, {tiling.tiles()}, squares_of(tiling, w));
    Tensor cleared = make({kRows, kColumns}, g);
    ops::clear_empty_tiles(context(), tiling, squares, cleared);
    std::vector<double> expected = g;
    for (std::int64_t i = 0; i < std::ssize(w); ++i)
      if (values(squares)[tile_of(tiling, i)] == 0) expected[i] = 0;
    EXPECT_EQ(values(cleared), expected);
    if (!tiling.of_one()) continue;
    Tensor same = make({kRows, kColumns}, g);
    ops::clear_where_zero(context(), weight, same);
    EXPECT_EQ(values(same), expected);
  }
}

TEST_P(Tiles, TakeTheGradientTimesItsScale) {
  ops::UpdateValues shared;
  shared.gradient_scale = 0.5;
  ops::DeviceValue<ops::UpdateValues> on_device(device());
  on_device.write(context(), shared);
  const Tensor gradient = make({3}, {2, -4, 0});
  Tensor scaled = empty({3});
  ops::times_gradient_scale(context(), on_device.get(), gradient, scaled);
  EXPECT_EQ(values(scaled), (std::vector<double>{1, -2, 0}));
}

BANYAN_ON_ALL_DEVICES(Tiles);

class SoftThreshold : public DeviceTest {};

TEST_P(SoftThreshold, DrawsToZeroFromBothSides) {
  const Tensor x = make({1, 2, 3}, {2, -2, 0.5, 2, -0.25, 0.125}), threshold = make({2}, {0.5, 0.125});
  Tensor y = empty({1, 2, 3});
  const ops::Broadcast over{1, 2, 3};
  ops::soft_threshold_forward(context(), x, threshold, over, y);
  EXPECT_EQ(values(y), (std::vector<double>{1.5, -1.5, 0, 1.875, -0.125, 0}));
  const Tensor dy = make({1, 2, 3}, {1, 2, 4, 8, 16, 32});
  Tensor dx = empty({1, 2, 3}), none, dthreshold = make({2}, {100, 0});
  ops::soft_threshold_backward(context(), y, dy, over, dx, dthreshold);
  EXPECT_EQ(values(dx), (std::vector<double>{1, 2, 0, 8, 16, 0}));
  EXPECT_EQ(values(dthreshold), (std::vector<double>{101, 8}));
  Tensor alone = empty({1, 2, 3}), of_threshold = make({2}, {0, 0});
  ops::soft_threshold_backward(context(), y, dy, over, alone, none);
  ops::soft_threshold_backward(context(), y, dy, over, none, of_threshold);
  EXPECT_EQ(values(alone), values(dx));
  EXPECT_EQ(values(of_threshold), (std::vector<double>{1, 8}));
}

TEST_P(SoftThreshold, KeepsWhatIsNoNumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = make({1}, {nan}), threshold = make({1}, {0.5});
  Tensor y = empty({1});
  ops::soft_threshold_forward(context(), x, threshold, {1, 1, 1}, y);
  EXPECT_TRUE(std::isnan(values(y)[0]));
}

TEST_P(SoftThreshold, GoesWithSignsThatAreAdded) {
  const Tensor signs = make({3}, {-2, 0, 3}), dy = make({3}, {1, 1, 1});
  Tensor added = empty({3});
  ops::add_signs(context(), signs, dy, 0.25, added);
  EXPECT_EQ(values(added), (std::vector<double>{0.75, 1, 1.25}));
}

BANYAN_ON_ALL_DEVICES(SoftThreshold);

}  // namespace
}  // namespace banyan
