// noise_param (SSD): OpenCV's results, what is drawn, where it comes among the other changes, several
// devices.

#include "data/noise.hpp"

#include <cmath>
#include <map>
#include <tuple>

#include "banyan/io/prototxt.hpp"
#include "data/colour_spaces.hpp"
#include "data/data_test_tools.hpp"
#include "data/distortion.hpp"
#include "data/image_filters.hpp"

namespace banyan::data {
namespace {

using testing::HasSubstr;
using Pixels = std::vector<std::uint8_t>;

/// Slopes that begin anew at 256, and something rough over them.
Image picture(int channels, int height, int width) {
  Image image{channels, height, width, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c)
        image.pixels.push_back(static_cast<std::uint8_t>(3 * x + 5 * y * (c + 1) +
                                                         (x * x * (c + 2) + 3 * y * y + x * y) / 8 +
                                                         (7919 * x + 104729 * y + 1299709 * c) % 23));
  return image;
}

Image changed(const std::string& noise, Image image, std::uint64_t item = 0) {
  caffe::NoiseParameter settings;
  io::parse_text(noise, "test", settings);
  ItemDraws draws({1, 2, 0}, item);
  add_noise(settings, draws, image);
  return image;
}

struct Made {
  const char* noise;
  int channels, height, width;
  std::uint32_t all;        ///< sum of all bytes, each times a power of 31; 0: not the same
  std::vector<int> sample;  ///< a dozen of them
};

/// What the functions of OpenCV 4.10 and 5.0, one after the other as in SSD, make of picture().
const Made kMade[] = {
    {"decolorize: true", 3, 37, 53, 624588000u, {2, 76, 189, 116, 54, 181, 228, 188, 133, 137, 194, 170}},
    {"gauss_blur: true", 3, 37, 53, 4192026159u, {20, 59, 136, 142, 116, 152, 161, 142, 130, 153, 139, 117}},
    {"hist_eq: true", 3, 37, 53, 3909435410u, {0, 16, 171, 232, 0, 255, 253, 255, 235, 236, 189, 153}},
    {"clahe: true", 3, 37, 53, 1596473399u, {13, 104, 168, 255, 0, 254, 233, 255, 242, 255, 193, 158}},
    {"jpeg: 20", 3, 37, 53, 1462843901u, {0, 60, 146, 160, 66, 206, 239, 153, 123, 224, 132, 154}},
    {"jpeg: 97", 3, 37, 53, 1844925203u, {0, 55, 150, 162, 43, 203, 225, 188, 145, 182, 192, 136}},
    {"erode: true", 3, 37, 53, 2399046214u, {0, 50, 130, 4, 0, 188, 189, 34, 22, 178, 99, 67}},
    {"posterize: true", 3, 37, 53, 2518289184u, {32, 32, 160, 224, 32, 224, 224, 224, 224, 224, 160, 96}},
    {"inverse: true", 3, 37, 53, 4204248831u, {255, 205, 125, 16, 255, 32, 27, 6, 26, 31, 107, 136}},
    {"convert_to_hsv: true", 3, 37, 53, 3098025029u, {15, 15, 15, 135, 255, 217, 4, 189, 229, 224, 240, 245}},
    {"convert_to_lab: true", 3, 37, 53, 0u, {1, 82, 196, 126, 187, 82, 128, 72, 106, 97, 195, 91}},
    {"gauss_blur: true hist_eq: true clahe: true jpeg: 50 erode: true inverse: true convert_to_hsv: true",
     3,
     37,
     53,
     3798434795u,
     {120, 91, 178, 47, 33, 113, 66, 17, 220, 230, 143, 118}},
    {"decolorize: true clahe: true erode: true posterize: true inverse: true",
     3,
     37,
     53,
     993351679u,
     {223, 95, 159, 159, 223, 95, 31, 223, 159, 159, 223, 159}},
    {"gauss_blur: true", 1, 37, 53, 3206428512u, {20, 81, 197, 142, 123, 167, 131, 153, 115, 119, 148, 110}},
    {"hist_eq: true", 1, 37, 53, 6269515u, {0, 69, 196, 142, 124, 193, 251, 147, 118, 124, 217, 55}},
    {"clahe: true", 1, 37, 53, 1558232420u, {15, 102, 165, 129, 117, 193, 253, 153, 124, 146, 221, 63}},
    {"jpeg: 20", 1, 37, 53, 3127566767u, {12, 78, 199, 161, 125, 152, 182, 168, 106, 136, 224, 81}},
    {"erode: true", 1, 37, 53, 4022040795u, {0, 70, 194, 116, 92, 156, 6, 135, 80, 82, 172, 31}},
    {"posterize: true inverse: true",
     1,
     37,
     53,
     1059580383u,
     {223, 159, 31, 95, 159, 95, 31, 95, 159, 159, 31, 223}},
    {"clahe: true", 1, 100, 144, 1040852000u, {2, 228, 192, 6, 171, 115, 177, 42, 187, 228, 78, 167}},
    {"clahe: true", 1, 96, 100, 2040229342u, {3, 123, 249, 227, 20, 134, 65, 70, 138, 27, 238, 12}},
    {"clahe: true", 1, 64, 80, 2780590608u, {6, 141, 84, 67, 37, 98, 217, 66, 54, 239, 177, 53}},
    {"gauss_blur: true clahe: true erode: true",
     1,
     2,
     3,
     3248813984u,
     {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}},
};

TEST(Noise, MakesOfAPictureWhatOpenCVMakes) {
  for (const Made& made : kMade) {
    const std::string what = cat(made.noise, " of ", made.channels, " x ", made.height, " x ", made.width);
    const Image image = changed(made.noise, picture(made.channels, made.height, made.width));
    ASSERT_EQ(image.channels, made.channels) << what;
    ASSERT_EQ(image.height, made.height) << what;
    ASSERT_EQ(image.width, made.width) << what;
    const std::size_t count = image.pixels.size();
    ASSERT_EQ(count, static_cast<std::size_t>(made.channels * made.height * made.width)) << what;
    std::uint32_t all = 0;
    for (const std::uint8_t value : image.pixels) all = all * 31 + value;
    // Of all colours' L*a*b*, one value of 30 000 is 1 away: an entry of OpenCV's tables is rounded
    // otherwise.
    if (made.all > 0) {
      EXPECT_EQ(all, made.all) << what;
    }
    for (std::size_t k = 0; k < made.sample.size(); ++k)
      EXPECT_NEAR(image.pixels[(k * count / 12 + 5 * k) % count], made.sample[k], made.all > 0 ? 0 : 1)
          << what << ", " << k;
  }
}

/// Blue, green, red; then OpenCV's.
TEST(Noise, ColoursInOtherSpaces) {
  const Pixels colours{0, 0, 0,   255, 255, 255, 255, 0, 0, 0,  255, 0,
                       0, 0, 255, 128, 128, 128, 3,   2, 1, 20, 200, 90};
  const auto all = [&](void (*change)(Image&)) {
    Image image{3, 1, 8, colours};
    change(image);
    return image.pixels;
  };
  EXPECT_EQ(all(hsv_from_bgr), (Pixels{0, 0,   0,   0, 0, 255, 120, 255, 255, 60, 255, 255,
                                       0, 255, 255, 0, 0, 128, 105, 170, 3,   48, 229, 200}));
  EXPECT_EQ(all(lab_from_bgr), (Pixels{0,   128, 128, 255, 128, 128, 82, 207, 20,  224, 42, 211,
                                       136, 208, 195, 137, 128, 128, 1,  128, 127, 184, 70, 197}));
  EXPECT_EQ(all(ycrcb_from_bgr), (Pixels{0,  128, 128, 255, 128, 128, 29, 107, 255, 150, 21, 43,
                                         76, 255, 85,  128, 128, 128, 2,  127, 129, 147, 87, 56}));
  EXPECT_EQ(all(bgr_from_ycrcb), (Pixels{0,   135, 0, 255, 121, 255, 28, 255, 75, 0, 0, 178,
                                         225, 48,  0, 128, 128, 128, 0,  137, 0,  0, 0, 121}));
}

TEST(Noise, OneValueStaysOneValue) {
  for (const char* noise : {"gauss_blur: true", "hist_eq: true", "erode: true", "jpeg: 90"})
    for (const auto& [height, width] : {std::pair{1, 1}, {1, 9}, {9, 1}, {3, 2}})
      for (const int channels : {1, 3}) {
        const Pixels same(static_cast<std::size_t>(channels * height * width), 93);
        EXPECT_EQ(changed(noise, {channels, height, width, same}).pixels, same) << noise;
      }
}

/// In tiles of more than 256 pixels, each byte gets a share of what is above the limit; the values are
/// OpenCV's.
TEST(Noise, TilesOfOneValueStayMuchTheSame) {
  for (const auto& [side, value, becomes] : {std::tuple{136, 93, 97}, {136, 200, 204}, {256, 93, 98}}) {
    const Image flat{1, side, side,
                     Pixels(static_cast<std::size_t>(side * side), static_cast<std::uint8_t>(value))};
    EXPECT_THAT(changed("clahe: true", flat).pixels, testing::Each(becomes)) << side << " " << value;
  }
}

TEST(Noise, SaltAndPepperLieAnywhere) {
  const std::string noise = "saltpepper: true saltpepper_param { fraction: ";
  std::map<std::size_t, int> places;
  const int items = 400, pixels = 2 * 15;
  for (std::uint64_t item = 0; item < items; ++item) {
    const Image image = changed(noise + "0.1 value: 9.7 }", {3, 2, 15, Pixels(90, 50)}, item);
    std::size_t count = 0;
    for (std::size_t i = 0; i < 90; i += 3) {
      if (image.pixels[i] == 50) continue;
      EXPECT_EQ(Pixels(image.pixels.begin() + static_cast<std::ptrdiff_t>(i),
                       image.pixels.begin() + static_cast<std::ptrdiff_t>(i + 3)),
                Pixels(3, 9));
      ++count;
      ++places[i];
    }
    EXPECT_GE(count, 1U);
    EXPECT_LE(count, 3U) << "a tenth of 30";
  }
  EXPECT_EQ(places.size(), static_cast<std::size_t>(pixels));
  for (const auto& [place, count] : places)
    EXPECT_NEAR(count, items * (1 - std::pow(1 - 1.0 / pixels, 3)), 32)
        << place;  // 5 of sqrt(400 x 0.1 x 0.9)
  EXPECT_EQ(changed(noise + "1 value: [1, 2, 255] }", {3, 1, 1, {7, 7, 7}}).pixels, (Pixels{1, 2, 255}));
  EXPECT_EQ(changed(noise + "0.99 value: 0 }", {1, 1, 1, {7}}).pixels, Pixels{7}) << "whole pixels";
}

TEST(Noise, AnImageIsChangedByTheProb) {
  int inverted = 0;
  for (std::uint64_t item = 0; item < 1000; ++item)
    inverted += changed("prob: 0.3 inverse: true", {1, 1, 1, {5}}, item).pixels[0] == 250;
  EXPECT_NEAR(inverted, 300, 60);  // 4 of sqrt(1000 x 0.3 x 0.7)
  for (std::uint64_t item = 0; item < 100; ++item) {
    EXPECT_EQ(changed("inverse: true", {1, 1, 1, {5}}, item).pixels[0], 250) << "without prob, always";
    EXPECT_EQ(changed("prob: 1 inverse: true", {1, 1, 1, {5}}, item).pixels[0], 250);
    EXPECT_EQ(changed("prob: 0 inverse: true", {1, 1, 1, {5}}, item).pixels[0], 5);
  }
}

TEST(Noise, ChannelsMustFit) {
  const auto refusal = [](const std::string& noise, int channels) {
    const Image image{channels, 1, 1, Pixels(static_cast<std::size_t>(channels), 5)};
    return bad_input_of([&] { changed(noise, image); });
  };
  for (const char* noise : {"decolorize: true", "convert_to_hsv: true", "prob: 0 convert_to_lab: true"})
    for (const int channels : {1, 2, 4})
      EXPECT_THAT(refusal(noise, channels), HasSubstr("of noise_param need 3 (force_color)")) << noise;
  EXPECT_THAT(refusal("decolorize: true", 1), HasSubstr("the image has 1 channel; decolorize"));
  for (const char* noise :
       {"hist_eq: true", "clahe: true", "jpeg: 5", "saltpepper: true saltpepper_param { value: 1 }"})
    EXPECT_THAT(refusal(noise, 2),
                HasSubstr("the image has 2 channels; hist_eq, clahe, jpeg and saltpepper"));
  EXPECT_THAT(refusal("saltpepper: true saltpepper_param { value: [1, 2, 3] }", 1),
              HasSubstr("saltpepper_param has 3 values (expected 1 or one per channel)"));
  EXPECT_EQ(changed("gauss_blur: true erode: true posterize: true inverse: true", {2, 1, 1, {5, 70}}).pixels,
            (Pixels{223, 159}));
}

}  // namespace
}  // namespace banyan::data
