// Resizing by SSD's interp_mode, and distort_param.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "data/distortion.hpp"
#include "data/resampling.hpp"

namespace banyan::data {
namespace {

using Mode = caffe::ResizeParameter;
constexpr Mode::Interp_mode kModes[] = {Mode::LINEAR, Mode::AREA, Mode::NEAREST, Mode::CUBIC, Mode::LANCZOS4};

/// Rows and columns rise by `step`.
Image ramp(int height, int width, int step) {
  Image image{1, height, width, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) image.pixels.push_back(static_cast<std::uint8_t>(step * (x + y)));
  return image;
}

TEST(ResizeImage, TheSameSizeChangesNothing) {
  const Image image = ramp(5, 9, 11);
  for (const auto mode : kModes) {
    Image same;
    resize_image(image, 5, 9, mode, same);
    EXPECT_EQ(same.pixels, image.pixels) << mode;
  }
}

TEST(ResizeImage, AConstantStaysConstant) {
  const Image image{3, 7, 5, std::vector<std::uint8_t>(105, 93)};
  for (const auto mode : kModes)
    for (const auto& [height, width] : {std::pair{3, 11}, std::pair{16, 2}, std::pair{1, 1}}) {
      Image to;
      resize_image(image, height, width, mode, to);
      EXPECT_EQ(to.height, height);
      EXPECT_EQ(to.width, width);
      EXPECT_EQ(to.pixels, std::vector<std::uint8_t>(3 * height * width, 93)) << mode;
    }
}

/// Halved, every new centre lies between two old ones in each direction: kernels of any width, being
/// symmetric, give the mean of the four pixels around it. Near the borders the wide ones see repeated pixels.
TEST(ResizeImage, ARampIsHalvedExactlyInside) {
  const Image image = ramp(24, 24, 5);
  for (const auto mode : {Mode::LINEAR, Mode::AREA, Mode::CUBIC, Mode::LANCZOS4}) {
    Image half;
    resize_image(image, 12, 12, mode, half);
    for (int y = 2; y < 10; ++y)
      for (int x = 2; x < 10; ++x)
        EXPECT_EQ(half.pixels[static_cast<std::size_t>(12 * y + x)], 5 * (2 * x + 2 * y + 1)) << mode;
  }
}

TEST(ResizeImage, AreaWeighsPixelsByTheirShare) {
  const Image image{1, 1, 3, {0, 90, 210}};
  Image to;
  resize_image(image, 1, 2, Mode::AREA, to);  // 1 and 1/2 pixels each
  EXPECT_EQ(to.pixels, (std::vector<std::uint8_t>{30, 170}));
  resize_image(image, 2, 6, Mode::AREA, to);
  EXPECT_EQ(to.pixels, (std::vector<std::uint8_t>{0, 0, 90, 90, 210, 210, 0, 0, 90, 90, 210, 210}));
  resize_image(Image{1, 1, 2, {0, 120}}, 1, 3, Mode::AREA, to);  // the middle one is half of each
  EXPECT_EQ(to.pixels, (std::vector<std::uint8_t>{0, 60, 120}));
}

TEST(ResizeImage, WideKernelsOvershootAndEndAtWhite) {
  const Image edge{1, 1, 8, {0, 0, 0, 0, 255, 255, 255, 255}};
  for (const auto mode : {Mode::CUBIC, Mode::LANCZOS4}) {
    Image to;
    resize_image(edge, 1, 24, mode, to);
    EXPECT_EQ(to.pixels[11 - 3], 0);
    EXPECT_EQ(to.pixels[12 + 3], 255);
    EXPECT_EQ(to.pixels[11] + to.pixels[12], 255);
  }
}

using Pixels = std::vector<std::uint8_t>;

Pixels distorted(const Distortion& distortion, const Pixels& pixels) {
  Image image{3, 1, static_cast<int>(pixels.size() / 3), pixels};
  distort(distortion, image);
  return image.pixels;
}

TEST(Distort, BrightnessAndContrast) {
  Distortion d;
  d.brightness = -20;
  EXPECT_EQ(distorted(d, {10, 100, 255}), (Pixels{0, 80, 235}));
  d.contrast = 1.5;
  EXPECT_EQ(distorted(d, {10, 100, 255}), (Pixels{0, 120, 255}));
}

/// B, G, R: hue turns by 2 degrees per unit.
TEST(Distort, HueTurns) {
  Distortion d;
  d.hue = 60;  // red -> green -> blue -> red
  EXPECT_EQ(distorted(d, {0, 0, 200, 0, 200, 0, 200, 0, 0}), (Pixels{0, 200, 0, 200, 0, 0, 0, 0, 200}));
  EXPECT_EQ(distorted(d, {70, 70, 70}), (Pixels{70, 70, 70}));
  d.hue = -30;  // red -> magenta, halfway to blue
  EXPECT_EQ(distorted(d, {10, 10, 210}), (Pixels{210, 10, 210}));
  d.hue = 180;
  EXPECT_EQ(distorted(d, {13, 77, 200}), (Pixels{13, 77, 200}));
}

TEST(Distort, SaturationKeepsTheBrightestChannel) {
  Distortion d;
  d.saturation = 0.5;
  EXPECT_EQ(distorted(d, {100, 0, 200}), (Pixels{150, 100, 200}));
  d.saturation = 0;
  EXPECT_EQ(distorted(d, {100, 0, 200}), (Pixels{200, 200, 200}));
  d.saturation = 10;  // ends where the darkest channel is black
  EXPECT_EQ(distorted(d, {150, 100, 200}), (Pixels{100, 0, 200}));
}

TEST(Distort, ContrastFirstOrLast) {
  Distortion d;
  d.contrast = 2;
  d.saturation = 0.5;
  EXPECT_EQ(distorted(d, {100, 0, 200}), (Pixels{228, 128, 255}));  // 200 0 255, then towards 255
  d.contrast_first = false;
  EXPECT_EQ(distorted(d, {100, 0, 200}), (Pixels{255, 200, 255}));
}

TEST(Distort, DrawsStayWithinTheirBounds) {
  caffe::DistortionParameter settings;
  const ops::RandomKey key{1, 2, 0};
  for (std::uint64_t item = 0; item < 50; ++item) {
    ItemDraws draws(key, item);
    const Distortion d = draw_distortion(settings, draws);
    EXPECT_FALSE(d.needs_colours());
    EXPECT_EQ(d.brightness, 0);
    EXPECT_EQ(d.contrast, 1);
  }
  settings.set_brightness_prob(0.5);
  settings.set_brightness_delta(32);
  settings.set_contrast_prob(1);
  settings.set_contrast_lower(0.5);
  settings.set_contrast_upper(1.5);
  settings.set_random_order_prob(1);
  int bright = 0, first = 0;
  double least = 32, most = -32;
  std::map<std::array<int, 3>, int> orders;
  constexpr int kItems = 1200;
  for (std::uint64_t item = 0; item < kItems; ++item) {
    ItemDraws draws(key, item);
    const Distortion d = draw_distortion(settings, draws);
    bright += d.brightness != 0 ? 1 : 0;
    first += d.contrast_first ? 1 : 0;
    least = std::min(least, d.brightness);
    most = std::max(most, d.brightness);
    EXPECT_TRUE(d.contrast >= 0.5 && d.contrast <= 1.5 && d.hue == 0 && d.saturation == 1);
    EXPECT_EQ((std::set<int>(d.order.begin(), d.order.end())), (std::set<int>{0, 1, 2}));
    ++orders[d.order];
  }
  // Six standard deviations: sqrt(1200) / 2 = 17 for a coin, sqrt(1200 * 5 / 36) = 13 for a die.
  EXPECT_NEAR(bright, 600, 104);
  EXPECT_NEAR(first, 600, 104);
  EXPECT_TRUE(least >= -32 && least < -28 && most <= 32 && most > 28);
  ASSERT_EQ(orders.size(), 6u);
  for (const auto& [order, count] : orders) EXPECT_NEAR(count, 200, 78);
}

TEST(Distort, ChannelsChangePlaces) {
  Distortion d;
  d.order = {2, 0, 1};
  EXPECT_EQ(distorted(d, {1, 2, 3}), (Pixels{2, 3, 1}));
}

}  // namespace
}  // namespace banyan::data
