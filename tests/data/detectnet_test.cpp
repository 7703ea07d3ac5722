// DetectNet's images, boxes and grids. Colours, scaling and rotation against OpenCV's numbers or closed
// forms.

#include "banyan/data/detectnet.hpp"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <set>

#include "data/data_test_tools.hpp"

namespace banyan::data {
namespace {

using testing::HasSubstr;

constexpr const char* kUnchanged =
    "crop_prob: 0 scale_prob: 0 flip_prob: 0 rotation_prob: 0 hue_rotation_prob: 0 desaturation_prob: 0 ";

/// Where they differ, `more` holds.
template <class Message>
Message message_of(const std::string& text, const std::string& more = "") {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(more, &message)) << more;
  return message;
}

/// Without what does not stand in `augmentation`.
DetectNetChanges changes_to(int height, int width, const std::string& augmentation = "",
                            bool training = true) {
  caffe::DetectNetGroundTruthParameter grid;
  grid.set_image_size_y(static_cast<std::uint32_t>(height));
  grid.set_image_size_x(static_cast<std::uint32_t>(width));
  return {message_of<caffe::DetectNetAugmentationParameter>(kUnchanged, augmentation), grid, training,
          "changes"};
}

/// For images that keep their size.
ImageChange same_size(int height, int width) {
  ImageChange how;
  how.height = height, how.width = width;
  return how;
}

/// value(x, y), in the second plane plus 1000, in the third plus 2000.
template <class Value>
Planes planes_of(int height, int width, Value&& value) {
  Planes planes{height, width, {}};
  for (int c = 0; c < 3; ++c)
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x)
        planes.values.push_back(static_cast<float>(value(x, y)) + 1000.0f * static_cast<float>(c));
  return planes;
}
Planes numbered_planes(int height, int width) {
  return planes_of(height, width, [width](int x, int y) { return 1 + x + y * width; });
}

/// Of the first plane.
std::vector<float> first_plane(const Planes& planes) {
  return {planes.values.begin(), planes.values.begin() + std::ptrdiff_t{planes.height} * planes.width};
}
float value_at(const Planes& planes, int x, int y) {
  return planes.values[static_cast<std::size_t>(y) * static_cast<std::size_t>(planes.width) +
                       static_cast<std::size_t>(x)];
}

GridObject only_object(const std::vector<GridObject>& objects) {
  EXPECT_EQ(objects.size(), 1u);
  return objects.empty() ? GridObject{} : objects[0];
}
void expect_object(const GridObject& found, double x, double y, double width, double height) {
  EXPECT_NEAR(found.x, x, 1e-9);
  EXPECT_NEAR(found.y, y, 1e-9);
  EXPECT_NEAR(found.width, width, 1e-9);
  EXPECT_NEAR(found.height, height, 1e-9);
}

TEST(DetectNetChanges, WithoutAnyTheCentreIsCut) {
  const DetectNetChanges changes = changes_to(2, 3);
  const ImageChange how = changes.draw(4, 6, {1, 2, 0}, 3);
  EXPECT_EQ(how.hue, 0);
  EXPECT_EQ(how.saturation, 1);
  EXPECT_FALSE(how.flip);
  EXPECT_EQ(how.rotation, 0);
  EXPECT_EQ(how.height, 4);
  EXPECT_EQ(how.width, 6);
  EXPECT_EQ(how.left, 2);  // half a pixel goes to the right
  EXPECT_EQ(how.top, 1);
  const Planes cut = changes.change(numbered_planes(4, 6), {}, how);
  EXPECT_EQ(cut.height, 2);
  EXPECT_EQ(cut.width, 3);
  EXPECT_EQ(cut.values, (std::vector<float>{9, 10, 11, 15, 16, 17, 1009, 1010, 1011, 1015, 1016, 1017, 2009,
                                            2010, 2011, 2015, 2016, 2017}));
  expect_object(only_object(changes.change({{3, 1, 2, 2, 7}}, 4, 6, how)), 1, 0, 2, 2);
  EXPECT_EQ(changes.change({{3, 1, 2, 2, 7}}, 4, 6, how)[0].kind, 7u);
}

TEST(DetectNetChanges, ASmallerImageHasZerosAroundIt) {
  const DetectNetChanges changes = changes_to(3, 4);
  const ImageChange how = changes.draw(1, 2, {1, 2, 0}, 3);
  EXPECT_EQ(how.left, -1);
  EXPECT_EQ(how.top, -1);
  EXPECT_EQ(first_plane(changes.change(numbered_planes(1, 2), {}, how)),
            (std::vector<float>{0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0}));
  ImageChange away = how;
  for (const auto& [left, top] : {std::pair{2, 0}, {-4, 0}, {0, 1}, {0, -3}, {1000, -1000}}) {
    away.left = left, away.top = top;
    EXPECT_EQ(changes.change(numbered_planes(1, 2), {}, away).values, std::vector<float>(36, 0))
        << left << ", " << top;
  }
}

TEST(DetectNetChanges, FlipColumnsAndBoxes) {
  const DetectNetChanges changes = changes_to(2, 4);
  ImageChange how = same_size(2, 4);
  how.flip = true;
  EXPECT_EQ(first_plane(changes.change(numbered_planes(2, 4), {}, how)),
            (std::vector<float>{4, 3, 2, 1, 8, 7, 6, 5}));
  // A box goes from its first to its last pixel: from 0 to 2, so from 1 to 3.
  expect_object(only_object(changes.change({{0, 1, 2, 1}}, 2, 4, how)), 1, 1, 2, 1);
}

/// The mean is that of the image as it was.
TEST(DetectNetChanges, SubtractTheMeanAfterTheColoursAndBeforeTheFlip) {
  const DetectNetChanges changes = changes_to(1, 2);
  ImageChange how = same_size(1, 2);
  how.hue = 120;  // red becomes green
  how.flip = true;
  const Planes red{1, 2, {0, 0, 0, 0, 200, 100}};
  EXPECT_EQ(changes.change(red, {10, 20, 30}, how).values, (std::vector<float>{-10, -10, 80, 180, -30, -30}));
  EXPECT_EQ(changes.change(red, {1, 2, 3, 4, 5, 6}, how).values,
            (std::vector<float>{-2, -1, 96, 197, -6, -5}));
}

/// OpenCV's cvtColor to HSV and back, of floats; it adds 1e-7 to what it divides by, and works in f32: 1e-4
/// of a saturation that belongs to values of up to 255.
TEST(DetectNetChanges, TurnHueAndTakeSaturationAsOpenCv) {
  const std::vector<std::array<float, 3>> pixels = {{200, 30, 10}, {13, 77, 200},   {90, 180, 40},
                                                    {0, 0, 0},     {255, 255, 255}, {120, 119, 121},
                                                    {250, 0, 250}};
  struct Case {
    double hue, saturation;
    std::vector<std::array<float, 3>> expected;
  };
  const std::vector<Case> cases = {{25,
                                    1,
                                    {{200, 10.000026f, 69.16673f},
                                     {13.000024f, 154.91669f, 200},
                                     {148.33333f, 180, 40.00002f},
                                     {0, 0, 0},
                                     {255, 255, 255},
                                     {119.16665f, 119, 121},
                                     {145.83327f, 0.0000298f, 250}}},
                                   {-170,
                                    0.6,
                                    {{86.000015f, 200, 192.99997f},
                                     {200, 142.90001f, 87.80002f},
                                     {136.00002f, 96.000015f, 180},
                                     {0, 0, 0},
                                     {255, 255, 255},
                                     {120.600006f, 121, 119.799995f},
                                     {125.000015f, 250, 100.00001f}}},
                                   {0,
                                    0.25,
                                    {{200, 157.49998f, 152.50002f},
                                     {153.25f, 169.25f, 200},
                                     {157.5f, 180, 145},
                                     {0, 0, 0},
                                     {255, 255, 255},
                                     {120.75f, 120.5f, 121},
                                     {249.99997f, 187.5f, 250}}}};
  const auto count = static_cast<int>(pixels.size());
  Planes image{1, count, {}};
  for (std::size_t c = 0; c < 3; ++c)
    for (const auto& pixel : pixels) image.values.push_back(pixel[c]);
  for (const Case& one : cases) {
    ImageChange how = same_size(1, count);
    how.hue = one.hue, how.saturation = one.saturation;
    const Planes changed = changes_to(1, count).change(image, {}, how);
    for (std::size_t i = 0; i < pixels.size(); ++i)
      for (std::size_t c = 0; c < 3; ++c)
        EXPECT_NEAR(changed.values[c * pixels.size() + i], one.expected[i][c], 1e-3)
            << one.hue << ": " << i << ", " << c;
  }
}

/// OpenCV's resize of floats with INTER_CUBIC. A few roundings of f32 in weights and sums of values up to
/// 280.
TEST(DetectNetChanges, ScaleByOpenCvsCubicInterpolation) {
  const std::vector<float> from = {12, 200, 31, 90, 255, 0, 64, 128, 7, 77, 177, 250};
  Planes image{3, 4, {}};
  for (int c = 0; c < 3; ++c) image.values.insert(image.values.end(), from.begin(), from.end());
  struct Case {
    int height, width;
    std::vector<float> expected;
  };
  const std::vector<Case> cases = {
      {5, 7, {-34.200195f, 78.99159f,   214.84981f,  139.64178f, 22.34061f,  54.642952f, 92.158134f,
              124.86268f,  126.650925f, 121.022964f, 69.92675f,  35.36744f,  70.42301f,  101.94196f,
              280.3001f,   164.17459f,  11.6337595f, 2.09375f,   70.6181f,   110.12829f, 134.34985f,
              129.45062f,  84.413445f,  33.00985f,   69.328255f, 144.27852f, 187.91547f, 212.3321f,
              -26.848661f, 11.31288f,   73.82295f,   138.68274f, 196.85304f, 242.90565f, 269.04056f}},
      {2, 3, {88.75009f, 94.77881f, 83.69602f, 67.23718f, 94.07129f, 215.2226f}}};
  for (const Case& one : cases) {
    const Planes scaled =
        changes_to(one.height, one.width).change(image, {}, same_size(one.height, one.width));
    ASSERT_EQ(scaled.values.size(), 3 * one.expected.size());
    for (std::size_t i = 0; i < scaled.values.size(); ++i)
      EXPECT_NEAR(scaled.values[i], one.expected[i % one.expected.size()], 2e-4) << i;
  }
  expect_object(only_object(changes_to(5, 7).change({{1, 2, 2, 1}}, 3, 4, same_size(5, 7))), 1.75, 10. / 3,
                3.5, 5. / 3);
}

/// By 90 degrees the centre (3, 2) of 6 x 4 pixels stays, and what is left of it comes above it: pixel x, y
/// becomes 5 - y, x - 1, in the coordinates of the image, of which 1, -1 is the rotated image's corner.
/// Pixels at the border have no neighbours on all sides, without which nothing is drawn.
TEST(DetectNetChanges, RotateClockwise) {
  ImageChange how = same_size(4, 6);
  how.rotation = 90;
  const DetectNetChanges changes = changes_to(7, 5);
  const Planes rotated = changes.change(numbered_planes(4, 6), {}, how);
  EXPECT_EQ(rotated.height, 7);
  EXPECT_EQ(rotated.width, 5);
  for (int y = 1; y < 3; ++y)
    for (int x = 1; x < 5; ++x)
      EXPECT_NEAR(value_at(rotated, 4 - y, x), 1 + x + 6 * y, 1e-4) << x << ", " << y;
  // Its centre was 2, 1.5.
  expect_object(only_object(changes.change({{1, 0, 2, 3}}, 4, 6, how)), 4 - 1.5 - 1, 2 - 1.5, 2, 3);
  how.rotation = -90;  // pixel x, y becomes y + 1, 5 - x, and 1, -1 is the corner
  const Planes back = changes.change(numbered_planes(4, 6), {}, how);
  for (int y = 1; y < 3; ++y)
    for (int x = 1; x < 5; ++x) EXPECT_NEAR(value_at(back, y, 6 - x), 1 + x + 6 * y, 1e-4) << x << ", " << y;
}

/// On a plane that rises evenly, linear interpolation is exact: what stands at a box's new centre is what
/// stood at the old one.
TEST(DetectNetChanges, BoxesFollowThePixels) {
  const auto rise = [](double x, double y) { return 100 + 3 * x + 7 * y; };
  const DetectNetChanges changes = changes_to(24, 32,
                                              std::string(kUnchanged) +
                                                  "flip_prob: 0.5 rotation_prob: 0.8 max_rotate_degree: 40 "
                                                  "crop_prob: 0.5 shift_x: 6 shift_y: 4");
  int inside = 0;
  for (std::uint64_t item = 0; item < 60; ++item) {
    const ImageChange how = changes.draw(30, 40, {5, 6, 0}, item);
    const Planes image = changes.change(planes_of(30, 40, rise), {}, how);
    for (const auto& [x, y, width, height] :
         {std::array<double, 4>{10, 8, 4, 6}, {25.5, 14.25, 3, 2}, {18, 3, 8, 20}}) {
      const GridObject box = only_object(changes.change({{x, y, width, height}}, 30, 40, how));
      const double to_x = box.x + box.width / 2, to_y = box.y + box.height / 2;
      if (to_x < 0 || to_y < 0 || to_x >= 31 || to_y >= 23) continue;
      const int left = static_cast<int>(to_x), top = static_cast<int>(to_y);
      double sum = 0;
      for (int k = 0; k < 4; ++k)
        sum += (1 - std::abs(to_x - left - k % 2)) * (1 - std::abs(to_y - top - k / 2)) *
               value_at(image, left + k % 2, top + k / 2);
      EXPECT_NEAR(sum, rise(x + width / 2, y + height / 2), 1e-3) << item;
      ++inside;
    }
  }
  EXPECT_GT(inside, 90);
}

TEST(DetectNetChanges, ScaledBoxesStayWithinHalfAPixelOfTheirObjects) {
  // One bright square, whose centre of mass is found again.
  const Planes image =
      planes_of(40, 40, [](int x, int y) { return x >= 12 && x < 18 && y >= 20 && y < 28 ? 200 : 0; });
  for (const int size : {30, 52, 80}) {
    const DetectNetChanges changes = changes_to(size, size);
    const ImageChange how = same_size(size, size);
    const Planes scaled = changes.change(image, {}, how);
    double sum = 0, sum_x = 0, sum_y = 0;
    for (int y = 0; y < size; ++y)
      for (int x = 0; x < size; ++x) {
        sum += value_at(scaled, x, y);
        sum_x += x * value_at(scaled, x, y), sum_y += y * value_at(scaled, x, y);
      }
    const GridObject box = only_object(changes.change({{12, 20, 6, 8}}, 40, 40, how));
    EXPECT_NEAR(sum_x / sum + 0.5, box.x + box.width / 2, 0.1) << size;
    EXPECT_NEAR(sum_y / sum + 0.5, box.y + box.height / 2, 0.1) << size;
  }
}

TEST(DetectNetChanges, InTestsOnlyTheSizeChanges) {
  const DetectNetChanges changes = changes_to(
      6, 9, "flip_prob: 1 scale_prob: 1 rotation_prob: 1 hue_rotation_prob: 1 desaturation_prob: 1", false);
  for (std::uint64_t item = 0; item < 20; ++item) {
    const ImageChange how = changes.draw(3, 4, {1, 2, 0}, item);
    EXPECT_EQ(how.hue, 0);
    EXPECT_EQ(how.saturation, 1);
    EXPECT_FALSE(how.flip);
    EXPECT_EQ(how.rotation, 0);
    EXPECT_EQ(how.left, 0);
    EXPECT_EQ(how.top, 0);
    EXPECT_EQ(how.height, 6);
    EXPECT_EQ(how.width, 9);
  }
  const ImageChange how = changes.draw(3, 4, {1, 2, 0}, 0);
  EXPECT_EQ(changes.change(numbered_planes(3, 4), {}, how).values,
            resized(numbered_planes(3, 4), 6, 9).values);
  expect_object(only_object(changes.change({{1, 1, 2, 2}}, 3, 4, how)), 2.25, 2, 4.5, 4);
}

using DrawnNumbers = std::array<double, 8>;
DrawnNumbers drawn_by(const DetectNetChanges& changes, const ops::RandomKey& key, std::uint64_t item) {
  const ImageChange how = changes.draw(40, 60, key, item);
  return {how.hue,
          how.saturation,
          how.flip ? 1.0 : 0.0,
          static_cast<double>(how.height),
          static_cast<double>(how.width),
          how.rotation,
          static_cast<double>(how.left),
          static_cast<double>(how.top)};
}

TEST(DetectNetChanges, DependOnKeyAndItemOnly) {
  const std::string all_but_two = "flip_prob: 0.5 scale_prob: 1 desaturation_prob: 1 shift_x: 9 ",
                    all = all_but_two + "crop_prob: 1 rotation_prob: 1 hue_rotation_prob: 1";
  const DetectNetChanges changes = changes_to(32, 48, all), same = changes_to(32, 48, all);
  std::set<DrawnNumbers> different;
  for (std::uint64_t item = 0; item < 50; ++item) {
    const DrawnNumbers drawn = drawn_by(changes, {1, 2, 0}, item);
    EXPECT_EQ(drawn, drawn_by(same, {1, 2, 0}, item));
    different.insert(drawn);
    different.insert(drawn_by(changes, {2, 2, 0}, item));
    different.insert(drawn_by(changes, {1, 3, 0}, item));
  }
  EXPECT_EQ(different.size(), 150u);
  // What one setting makes of its numbers is not what another one gets.
  const DrawnNumbers with = drawn_by(changes, {1, 2, 0}, 7),
                     without = drawn_by(changes_to(32, 48, all_but_two), {1, 2, 0}, 7);
  EXPECT_EQ(without[0], 0);
  EXPECT_EQ(without[5], 0);
  for (const std::size_t i : {1, 2, 3, 4}) EXPECT_EQ(with[i], without[i]);
}

TEST(DetectNetChanges, StayWithinTheirBounds) {
  constexpr int kItems = 2000;
  const DetectNetChanges changes = changes_to(
      32, 48,
      "crop_prob: 0.5 shift_x: 9 shift_y: 4 scale_prob: 0.25 scale_min: 0.9 scale_max: 1.2 flip_prob: "
      "0.25 rotation_prob: 0 hue_rotation_prob: 0.5 hue_rotation: 300 desaturation_prob: 0.75 "
      "desaturation_max: 0.4");
  int hues = 0, pale = 0, flips = 0, scaled = 0, moved = 0, plain = 0;
  double least_hue = 0, most_hue = 0, least_saturation = 1;
  std::set<int> lefts, tops;
  for (std::uint64_t item = 0; item < kItems; ++item) {
    const ImageChange how = changes.draw(40, 60, {8, 9, 0}, item);
    hues += how.hue != 0 ? 1 : 0;
    least_hue = std::min(least_hue, how.hue), most_hue = std::max(most_hue, how.hue);
    pale += how.saturation != 1 ? 1 : 0;
    least_saturation = std::min(least_saturation, how.saturation);
    EXPECT_LE(how.saturation, 1);
    flips += how.flip ? 1 : 0;
    const bool is_scaled = how.height != 40 || how.width != 60;
    scaled += is_scaled ? 1 : 0;
    EXPECT_TRUE(how.height >= 36 && how.height <= 48 && how.width >= 54 && how.width <= 72);
    EXPECT_NEAR(how.width, how.height * 1.5, 1.25);  // both are rounded
    if (is_scaled) continue;
    ++plain;
    moved += how.left != 6 || how.top != 4 ? 1 : 0;
    lefts.insert(how.left), tops.insert(how.top);
  }
  // Six standard deviations of a share of 2000: 19 or 22 each.
  EXPECT_NEAR(hues, 1000, 134);
  EXPECT_NEAR(pale, 1500, 116);
  EXPECT_NEAR(flips, 500, 116);
  EXPECT_NEAR(scaled, 500, 130);  // a factor near 1 may change nothing
  EXPECT_NEAR(moved, plain / 2, 134);
  EXPECT_TRUE(least_hue >= -180 && least_hue < -170 && most_hue <= 180 && most_hue > 170);
  EXPECT_TRUE(least_saturation >= 0.6 && least_saturation < 0.62);
  // round(u * (60 - 48 + 9) - 4) and round(u * (40 - 32 + 4) - 2)
  EXPECT_EQ(*lefts.begin(), -4);
  EXPECT_EQ(*lefts.rbegin(), 17);
  EXPECT_EQ(lefts.size(), 22u);
  EXPECT_EQ(*tops.begin(), -2);
  EXPECT_EQ(*tops.rbegin(), 10);
}

TEST(DetectNetChanges, RefuseWhatMakesNoSense) {
  for (const auto& [settings, part] :
       {std::pair{"flip_prob: 1.5", "detectnet_augmentation_param.flip_prob must be in [0, 1], not 1.5"},
        {"crop_prob: -1", "crop_prob"},
        {"scale_prob: nan", "scale_prob"},
        {"rotation_prob: 2", "rotation_prob"},
        {"hue_rotation_prob: 2", "hue_rotation_prob"},
        {"desaturation_prob: 2", "desaturation_prob"},
        {"desaturation_max: 2", "desaturation_max"},
        {"scale_min: 0", "scale_min"},
        {"scale_min: 1.5", "scale_max must be in [1.5, 100], not 1"},
        {"max_rotate_degree: 200", "max_rotate_degree"},
        {"hue_rotation: -1", "hue_rotation must be at least 0, not -1"},
        {"shift_x: 70000", "shift_x"},
        {"shift_y: 70000", "shift_y"}})
    EXPECT_THAT(bad_input_of([&] { changes_to(8, 8, settings); }), HasSubstr(part)) << settings;
}

/// Of an image of 64 x 48 pixels: 3 rows of 4 cells, unless the settings say otherwise.
CoverageGrid grid_of(const std::string& settings) {
  return {message_of<caffe::DetectNetGroundTruthParameter>("image_size_x: 64 image_size_y: 48 stride: 16",
                                                           settings),
          "grid"};
}
/// Values of the channels, in the cells that are not all zeros, by their row and column.
using CellValues = std::map<std::pair<int, int>, std::vector<double>>;
CellValues cells_of(const CoverageGrid& grid, const std::vector<GridObject>& objects) {
  const auto cells = static_cast<std::size_t>(grid.rows() * grid.columns());
  std::vector<double> values(static_cast<std::size_t>(grid.channels()) * cells, 77);
  grid.write(objects, values.data());
  CellValues found;
  for (std::size_t cell = 0; cell < cells; ++cell) {
    std::vector<double> here;
    for (std::size_t i = cell; i < values.size(); i += cells) here.push_back(values[i]);
    const auto columns = static_cast<std::size_t>(grid.columns());
    if (here != std::vector<double>(here.size(), 0))
      found[{static_cast<int>(cell / columns), static_cast<int>(cell % columns)}] = here;
  }
  return found;
}
CellValues cells_of(const std::string& settings, const std::vector<GridObject>& objects) {
  return cells_of(grid_of(settings), objects);
}

TEST(CoverageGrid, HasTheCellsOfTheImage) {
  const auto size = [](const std::string& settings) {
    const CoverageGrid grid(message_of<caffe::DetectNetGroundTruthParameter>(settings), "grid");
    return std::array<std::int64_t, 3>{grid.channels(), grid.rows(), grid.columns()};
  };
  EXPECT_EQ(size(""), (std::array<std::int64_t, 3>{9, 96, 312}));
  EXPECT_EQ(size("image_size_x: 1248 image_size_y: 352 stride: 16"),
            (std::array<std::int64_t, 3>{9, 22, 78}));
  // Rounded, halves to the even number.
  EXPECT_EQ(size("image_size_x: 40 image_size_y: 56 stride: 16"), (std::array<std::int64_t, 3>{9, 4, 2}));
  EXPECT_EQ(size("image_size_x: 30 image_size_y: 38 stride: 16"), (std::array<std::int64_t, 3>{9, 2, 2}));
  EXPECT_EQ(size("object_class { src: 9 dst: 2 } object_class { src: 3 dst: 0 }")[0], 11);
}

/// The covered part is half as wide and half as high: from 18, 12 to 38, 28.
TEST(CoverageGrid, CoversTheMiddleOfABox) {
  const auto values = [](double x, double y, double norm) {
    return std::vector<double>{1, 8 - x, 4 - y, 48 - x, 36 - y, 1. / 40, 1. / 32, norm, 1};
  };
  const std::vector<GridObject> objects = {{8, 4, 40, 32, 1}};
  const auto expected = [&](double norm) {
    return CellValues{{{0, 1}, values(16, 0, norm)},
                      {{0, 2}, values(32, 0, norm)},
                      {{1, 1}, values(16, 16, norm)},
                      {{1, 2}, values(32, 16, norm)}};
  };
  EXPECT_EQ(cells_of("", objects), expected(1));
  EXPECT_EQ(cells_of("obj_norm: true", objects), expected(256. / 320));
}

TEST(CoverageGrid, ATouchedCellIsNotCovered) {
  // The covered part goes from 16 to 32 in both directions.
  const CellValues found = cells_of("obj_norm: true", {{8, 8, 32, 32, 1}});
  EXPECT_EQ(found.size(), 1u);
  EXPECT_EQ(found.begin()->first, (std::pair{1, 1}));
  EXPECT_EQ(found.begin()->second[7], 1);
}

std::set<std::pair<int, int>> covered_by(const std::string& settings, const GridObject& object) {
  std::set<std::pair<int, int>> covered;
  for (const auto& [place, values] : cells_of(settings, {object})) covered.insert(place);
  return covered;
}
using CellPlaces = std::set<std::pair<int, int>>;

TEST(CoverageGrid, GridboxMaxLimitsTheCoveredPart) {
  const GridObject large{2, 2, 60, 44, 1};  // its middle: 17 to 47, 13 to 35
  EXPECT_EQ(covered_by("", large), (CellPlaces{{0, 1}, {0, 2}, {1, 1}, {1, 2}, {2, 1}, {2, 2}}));
  // 32 - 10 to 32 + 10, 24 - 10 to 24 + 10
  EXPECT_EQ(covered_by("max_cvg_len: 20", large),
            (CellPlaces{{0, 1}, {0, 2}, {1, 1}, {1, 2}, {2, 1}, {2, 2}}));
  // 32 - 4 to 32 + 4, 24 - 4 to 24 + 4
  EXPECT_EQ(covered_by("max_cvg_len: 8", large), (CellPlaces{{1, 1}, {1, 2}}));
  EXPECT_EQ(cells_of("max_cvg_len: 8", {large}).begin()->second[7], 4);
  // A factor above 1 covers more than the box.
  EXPECT_EQ(covered_by("scale_cvg: 3", {34, 18, 12, 12, 1}).size(), 9u);
  EXPECT_TRUE(covered_by("scale_cvg: 0", large).empty());
}

TEST(CoverageGrid, GridboxMinCoversAtLeastSoMuchOfABox) {
  const std::string settings = "gridbox_type: GRIDBOX_MIN scale_cvg: 0.4 min_cvg_len: 20 obj_norm: true ";
  // 12 wide: all of it, from 10 to 22. 40 high: 20 of it, from 12 to 32.
  CellValues found = cells_of(settings, {{10, 2, 12, 40, 1}});
  EXPECT_EQ(covered_by(settings, {10, 2, 12, 40, 1}), (CellPlaces{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
  EXPECT_NEAR(found.begin()->second[7], 256. / (12 * 20), 1e-12);
  // 60 wide: 24 of it (0.4 is a float).
  found = cells_of(settings, {{2, 2, 60, 40, 1}});
  EXPECT_NEAR(found.begin()->second[7], 256. / (24 * 20), 1e-6);
}

TEST(CoverageGrid, BoxesEndWithTheImageUnlessTheyShallNot) {
  // What remains goes from 0 to 20 and from 40 to 48; its middle from 5 to 15 and from 42 to 46.
  const GridObject beyond{-20, 40, 40, 40, 1};
  const CellValues cut = cells_of("", {beyond});
  ASSERT_EQ(cut.size(), 1u);
  EXPECT_EQ(cut.begin()->first, (std::pair{2, 0}));
  EXPECT_EQ(cut.begin()->second, (std::vector<double>{1, 0, 8, 20, 16, 0.05, 0.125, 256. / 40, 1}));
  EXPECT_TRUE(cells_of("crop_bboxes: false", {beyond}).empty()) << "its middle is below the image";
  const CellValues whole = cells_of("crop_bboxes: false", {{-20, 20, 40, 20, 1}});
  EXPECT_EQ(whole.size(), 2u);
  EXPECT_EQ(whole.at({1, 0}), (std::vector<double>{1, -20, 4, 20, 24, 1. / 40, 1. / 20, 256. / 200, 1}));
  for (const char* settings : {"", "crop_bboxes: false"}) {
    EXPECT_TRUE(cells_of(settings, {{64, 0, 20, 20, 1}}).empty());
    EXPECT_TRUE(cells_of(settings, {{-20, 0, 20, 20, 1}}).empty());
    EXPECT_TRUE(cells_of(settings, {{10, 10, 0, 20, 1}}).empty());
    EXPECT_TRUE(cells_of(settings, {{10, 10, -5, -5, 1}}).empty());
    for (const double far : {1e30, -1e30}) {
      EXPECT_TRUE(cells_of(settings, {{far, 10, 20, 20, 1}}).empty()) << far;
      EXPECT_TRUE(cells_of(settings, {{10, far, 20, 20, 1}}).empty()) << far;
    }
  }
}

TEST(CoverageGrid, KnowsTheClassesThatAreMapped) {
  const GridObject car{8, 8, 32, 32, 1}, other{8, 8, 32, 32, 2};
  EXPECT_EQ(cells_of("", {car}).size(), 1u);
  EXPECT_TRUE(cells_of("", {other}).empty());
  const std::string mapped = "object_class { src: 2 dst: 2 } object_class { src: 7 dst: 0 }";
  EXPECT_TRUE(cells_of(mapped, {car}).empty());
  const CellValues found = cells_of(mapped, {other});
  const std::vector<double>& values = found.begin()->second;
  EXPECT_EQ(std::vector<double>(values.begin() + 8, values.end()), (std::vector<double>{0, 0, 1}));
}

TEST(CoverageGrid, TheLastObjectHasTheCell) {
  const std::string mapped = "object_class { src: 1 dst: 0 } object_class { src: 2 dst: 1 }";
  const GridObject first{8, 8, 32, 32, 1}, second{0, 0, 64, 48, 2};
  const CellValues found = cells_of(mapped, {first, second}), other = cells_of(mapped, {second, first});
  EXPECT_EQ(found.at({1, 1}), (std::vector<double>{1, -16, -16, 48, 32, 1. / 64, 1. / 48, 1, 0, 1}));
  EXPECT_EQ(other.at({1, 1}), (std::vector<double>{1, -8, -8, 24, 24, 1. / 32, 1. / 32, 1, 1, 0}));
  EXPECT_EQ(other.at({1, 2}), found.at({1, 2}));
}

/// Numbers from a file of floats: every cell that an object covers says the same of its corners, after f32
/// too.
TEST(CoverageGrid, AllCellsAgreeOnABox) {
  const CoverageGrid grid(
      message_of<caffe::DetectNetGroundTruthParameter>(
          "image_size_x: 1248 image_size_y: 352 stride: 16 scale_cvg: 1 max_cvg_len: 500"),
      "grid");
  std::set<std::array<double, 4>> boxes;
  const CellValues cells = cells_of(grid, {{599.41f, 156.4f, 233.84f, 130.15f, 1}});
  for (const auto& [place, values] : cells) {
    const double x = 16 * place.second, y = 16 * place.first;
    boxes.insert({static_cast<float>(values[1]) + x, static_cast<float>(values[2]) + y,
                  static_cast<float>(values[3]) + x, static_cast<float>(values[4]) + y});
  }
  EXPECT_GT(cells.size(), 100u);
  EXPECT_EQ(boxes.size(), 1u);
}

TEST(CoverageGrid, RefusesWhatMakesNoSense) {
  for (const auto& [settings, part] :
       {std::pair{"image_size_x: 0", "detectnet_groundtruth_param.image_size_x must be in [1, 65535], not 0"},
        {"image_size_y: 70000", "image_size_y"},
        {"stride: 0", "stride"},
        {"scale_cvg: -1", "scale_cvg must be at least 0"},
        {"stride: 200", "a stride of 200 leaves no cell of an image of 64 x 48"},
        {"object_class { src: 1 }", "object_class of detectnet_groundtruth_param needs src and dst"},
        {"object_class { src: 1 dst: 70000 }", "dst"}})
    EXPECT_THAT(bad_input_of([&] { grid_of(settings); }), HasSubstr(part)) << settings;
}

}  // namespace
}  // namespace banyan::data
