#include "data/colour_spaces.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace banyan::data {

namespace {

std::uint8_t byte_of(int value) { return static_cast<std::uint8_t>(std::clamp(value, 0, 255)); }

/// Of a number in parts of 2^bits, rounded.
constexpr int whole(int parts, int bits) { return (parts + (1 << (bits - 1))) >> bits; }

template <class Change>
void change_pixels(Image& image, Change&& change) {
  for (std::size_t i = 0; i + 2 < image.pixels.size(); i += 3) change(&image.pixels[i]);
}

/// numerator / n in parts of 2^kHueBits.
constexpr int kHueBits = 12;
std::array<int, 256> fractions(double numerator) {
  std::array<int, 256> table{};
  for (int n = 1; n < 256; ++n)
    table[static_cast<std::size_t>(n)] = static_cast<int>(std::lrint(numerator * (1 << kHueBits) / n));
  return table;
}

/// OpenCV's: light in 8ths of a 255th, of which tables hold the roots in parts of 2^15, and a matrix in parts
/// of 2^12.
struct LabTables {
  static constexpr int kMostLight = 255 * 8, kRootBits = 15, kMatrixBits = 12;
  std::array<int, 256> light{};                 ///< that a byte of sRGB stands for
  std::array<int, kMostLight * 3 / 2> roots{};  ///< cubic ones; near black, a line
  int matrix[3][3]{};                           ///< X, Y, Z, divided by those of white, from B, G, R

  LabTables() {
    constexpr double kWhite[3] = {0.950456, 1, 1.088754};
    constexpr double kFromRgb[3][3] = {
        {0.412453, 0.357580, 0.180423}, {0.212671, 0.715160, 0.072169}, {0.019334, 0.119193, 0.950227}};
    const auto rounded = [](double value) { return static_cast<int>(std::lrint(value)); };
    for (std::size_t v = 0; v < light.size(); ++v) {
      const double part = static_cast<double>(v) / 255;
      light[v] =
          rounded(kMostLight * (part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4)));
    }
    for (std::size_t v = 0; v < roots.size(); ++v) {
      const double part = static_cast<double>(v) / kMostLight;
      roots[v] = rounded((1 << kRootBits) * (part < 0.008856 ? 7.787 * part + 16.0 / 116 : std::cbrt(part)));
    }
    for (int k = 0; k < 3; ++k)
      for (int c = 0; c < 3; ++c) matrix[k][c] = rounded((1 << kMatrixBits) * kFromRgb[k][2 - c] / kWhite[k]);
  }
};

}  // namespace

void decolorize(Image& image) {
  change_pixels(image, [](std::uint8_t* p) {
    p[0] = p[1] = p[2] = byte_of(whole(p[0] * 3735 + p[1] * 19235 + p[2] * 9798, 15));
  });
}

// In parts of 2^14: BT.601's weights, 0.713 and 0.564.
void ycrcb_from_bgr(Image& image) {
  change_pixels(image, [](std::uint8_t* p) {
    const int luma = whole(p[0] * 1868 + p[1] * 9617 + p[2] * 4899, 14);
    const int red = whole((p[2] - luma) * 11682 + (128 << 14), 14);
    const int blue = whole((p[0] - luma) * 9241 + (128 << 14), 14);
    p[0] = byte_of(luma);
    p[1] = byte_of(red);
    p[2] = byte_of(blue);
  });
}

// In parts of 2^14: 1.773, 0.344, 0.714 and 1.403.
void bgr_from_ycrcb(Image& image) {
  change_pixels(image, [](std::uint8_t* p) {
    const int luma = p[0], red = p[1] - 128, blue = p[2] - 128;
    p[0] = byte_of(luma + whole(blue * 29049, 14));
    p[1] = byte_of(luma + whole(blue * -5636 + red * -11698, 14));
    p[2] = byte_of(luma + whole(red * 22987, 14));
  });
}

void hsv_from_bgr(Image& image) {
  static const std::array<int, 256> saturations = fractions(255), hues = fractions(180.0 / 6);
  change_pixels(image, [](std::uint8_t* p) {
    const int b = p[0], g = p[1], r = p[2];
    const int most = std::max({b, g, r}), chroma = most - std::min({b, g, r});
    const int sixths = most == r ? g - b : most == g ? b - r + 2 * chroma : r - g + 4 * chroma;
    const int hue = whole(sixths * hues[static_cast<std::size_t>(chroma)], kHueBits);
    p[0] = byte_of(hue < 0 ? hue + 180 : hue);
    p[1] = byte_of(whole(chroma * saturations[static_cast<std::size_t>(most)], kHueBits));
    p[2] = byte_of(most);
  });
}

void lab_from_bgr(Image& image) {
  static const LabTables tables;
  constexpr int kBits = LabTables::kRootBits, kMiddle = 128 << kBits;
  // 116 and 16 percent of 255, rounded.
  constexpr int kTimes = (116 * 255 + 50) / 100, kLess = (16 * 255 * (1 << kBits) + 50) / 100;
  change_pixels(image, [](std::uint8_t* p) {
    const int b = tables.light[p[0]], g = tables.light[p[1]], r = tables.light[p[2]];
    int root[3];
    for (int k = 0; k < 3; ++k) {
      const auto& row = tables.matrix[k];
      root[k] = tables.roots[static_cast<std::size_t>(
          whole(row[0] * b + row[1] * g + row[2] * r, LabTables::kMatrixBits))];
    }
    p[0] = byte_of(whole(kTimes * root[1] - kLess, kBits));
    p[1] = byte_of(whole(500 * (root[0] - root[1]) + kMiddle, kBits));
    p[2] = byte_of(whole(200 * (root[1] - root[2]) + kMiddle, kBits));
  });
}

}  // namespace banyan::data
