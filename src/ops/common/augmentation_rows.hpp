// Coefficients of augmentation and what follows from them: one sample per index.
#pragma once

#include <cmath>

#include "banyan/ops/augmentation.hpp"
#include "ops/common/backend.hpp"

namespace banyan::ops::detail {

/// A factor or a power: rows hold its logarithm.
BANYAN_HOST_DEVICE inline bool is_factor(int place) {
  using namespace augmentation;
  return place == zoom_x || place == zoom_y || place == gamma || (place >= contrast && place < add_around) ||
         (place >= mult_around && place < add_whole) || (place >= mult_whole && place <= light_pow) ||
         place == light_mult;
}

BANYAN_HOST_DEVICE inline bool is_shadow(int place) {
  return place >= augmentation::shadow_angle && place <= augmentation::shadow_strength;
}

/// Two independent normal numbers (Box and Muller 1958).
struct NormalPair {
  double first, second;
};
BANYAN_HOST_DEVICE inline NormalPair normal_pair(std::uint32_t a, std::uint32_t b) {
  const double radius = std::sqrt(-2 * std::log((a + 0.5) * 0x1p-32));
  const double turn = 6.283185307179586 * ((b + 0.5) * 0x1p-32);
  return {radius * std::cos(turn), radius * std::sin(turn)};
}

/// From a pixel of the result to a place in the image.
struct PixelMap {
  double xx, xy, x, yx, yy, y;

  /// `row`: coefficients as they are, not as logarithms.
  BANYAN_HOST_DEVICE PixelMap(const double* row, const AugmentationTable& how) {
    using namespace augmentation;
    const auto width = static_cast<double>(how.cut_width), height = static_cast<double>(how.cut_height);
    const double cosine = std::cos(row[angle]), sine = std::sin(row[angle]);
    const double sign = row[mirror] != 0 ? -1 : 1;
    xx = sign * cosine / row[zoom_x];
    xy = -sine / row[zoom_x];
    yx = sign * sine / row[zoom_y];
    yy = cosine / row[zoom_y];
    x = -xx * width / 2 - xy * height / 2 + row[shift_x] * width / row[zoom_x] +
        static_cast<double>(how.width) / 2;
    y = -yx * width / 2 - yy * height / 2 + row[shift_y] * height / row[zoom_y] +
        static_cast<double>(how.height) / 2;
  }
  BANYAN_HOST_DEVICE explicit PixelMap(const double* matrix)
      : xx(matrix[0]), xy(matrix[1]), x(matrix[2]), yx(matrix[3]), yy(matrix[4]), y(matrix[5]) {}
  BANYAN_HOST_DEVICE void store(double* matrix) const {
    matrix[0] = xx, matrix[1] = xy, matrix[2] = x, matrix[3] = yx, matrix[4] = yy, matrix[5] = y;
  }
  BANYAN_HOST_DEVICE double column(double px, double py) const { return xx * px + xy * py + x; }
  BANYAN_HOST_DEVICE double row(double px, double py) const { return yx * px + yy * py + y; }
};

/// One sample's row.
template <class T>
struct DrawAugmentation {
  bool spatial;
  RandomKey key;
  SampleIndex samples;
  const T* from;
  T* to;
  AugmentationDraws how;  // last: see AugmentationDraw

  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    using namespace augmentation;
    using Mode = AugmentationDraws::Mode;
    const std::int64_t sample = samples.first + i * samples.stride;
    double row[kNumbers];
    for (int k = 0; k < kNumbers; ++k) {
      const bool from_zero = from == nullptr || how.mode == Mode::regenerate ||
                             (how.mode == Mode::replace && spatial && k < kSpatial);
      row[k] = from_zero ? 0 : static_cast<double>(from[i * kNumbers + k]);
    }
    const double strength = factor();
    if (spatial) move(sample, strength, row);
    for (int k = kSpatial; k < kNumbers; ++k) {
      // The second and third coordinates have one saturation.
      const bool follows = k == pow_whole + 2 || k == add_whole + 2 || k == mult_whole + 2;
      const int drawn = follows ? k - 1 : k;
      if (how.places[drawn].kind == AugmentationDraw::Kind::none) continue;
      const double number = draw(sample, drawn, 0, strength);
      row[k] = how.mode == Mode::add ? row[k] + number : number;
    }
    for (int k = 0; k < kNumbers; ++k) to[i * kNumbers + k] = static_cast<T>(row[k]);
  }

 private:
  static constexpr int kTries = 50;

  BANYAN_HOST_DEVICE double factor() const {
    const auto iteration = static_cast<double>(key.iteration / static_cast<std::uint64_t>(how.passes) + 1);
    return how.first + (how.last - how.first) * (2 / (1 + std::exp(-1.0986 * iteration / how.half_life)) - 1);
  }

  /// As it stands in a row.
  BANYAN_HOST_DEVICE double draw(std::int64_t sample, int place, int attempt, double strength) const {
    using Kind = AugmentationDraw::Kind;
    const AugmentationDraw& d = how.places[place];
    if (d.kind == Kind::none) return 0;
    const Philox4 bits = random_quad(key, sample, attempt * 64 + place);
    const bool happens = static_cast<double>(uniform01(bits.v[0])) < static_cast<double>(d.chance);
    const double spread = d.scheduled ? d.spread * strength : d.spread;
    double value = d.mean;
    if (d.kind == Kind::coin) {
      value = happens ? 1 : 0;
    } else if (d.by_chance && !happens) {
      if (place < augmentation::kSpatial || is_shadow(place)) return 0;
      value = 0;
    } else if (spread > 0 && d.kind == Kind::uniform) {
      value += spread * (2 * ((bits.v[1] + 0.5) * 0x1p-32) - 1);
    } else if (spread > 0) {
      value += spread * normal_pair(bits.v[1], bits.v[2]).first;
    }
    if (d.exponential && d.kind != Kind::coin) value = std::exp(value);
    if (d.whole) value = std::round(value);
    value *= d.factor;
    if (place == augmentation::mirror) return value != 0 ? 1 : 0;
    return is_factor(place) ? std::log(value) : value;
  }

  BANYAN_HOST_DEVICE void move(std::int64_t sample, double strength, double* row) const {
    using namespace augmentation;
    for (int attempt = 0; attempt < kTries; ++attempt) {
      double tried[kSpatial];
      for (int k = 0; k < zoom_x; ++k) tried[k] = row[k] + draw(sample, k, attempt, strength);
      const double zoom = draw(sample, zoom_x, attempt, strength),
                   squeeze = draw(sample, zoom_y, attempt, strength);
      tried[zoom_x] = row[zoom_x] + zoom + squeeze;
      tried[zoom_y] = row[zoom_y] + zoom - squeeze;
      if (!fits(tried)) continue;
      for (int k = 0; k < kSpatial; ++k) row[k] = tried[k];
      return;
    }
  }

  /// Are the corners of the result inside of the image?
  BANYAN_HOST_DEVICE bool fits(const double* tried) const {
    using namespace augmentation;
    double row[kSpatial];
    for (int k = 0; k < kSpatial; ++k) row[k] = is_factor(k) ? std::exp(tried[k]) : tried[k];
    const PixelMap map(row, {how.height, how.width, how.cut_height, how.cut_width});
    for (int corner = 0; corner < 4; ++corner) {
      const auto px = static_cast<double>(corner % 2 == 0 ? 0 : how.cut_width - 1),
                 py = static_cast<double>(corner / 2 == 0 ? 0 : how.cut_height - 1);
      const double x = map.column(px, py), y = map.row(px, py);
      if (!(x >= 0 && x < static_cast<double>(how.width - 1) && y >= 0 &&
            y < static_cast<double>(how.height - 1)))
        return false;
    }
    return true;
  }
};

/// Places in a row of a table.
constexpr int kOfColors = augmentation::kMatrix + augmentation::kNumbers;
constexpr int kOfContrast = kOfColors + 1, kOfEffects = kOfColors + 2, kImpossible = kOfColors + 3;

template <class T>
struct FillAugmentationTable {
  AugmentationTable how;
  const T* rows;
  double* table;

  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    using namespace augmentation;
    double* const to = table + i * kRow;
    double* const row = to + kMatrix;
    for (int k = 0; k < kNumbers; ++k) {
      const auto value = static_cast<double>(rows[i * kNumbers + k]);
      row[k] = is_factor(k) ? std::exp(value) : value;
      // What is next to nothing changes no colours.
      if (k >= kSpatial && std::fabs(row[k] - (is_factor(k) ? 1 : 0)) < 1e-3) row[k] = is_factor(k) ? 1 : 0;
    }
    PixelMap(row, how).store(to);
    to[kOfColors] = changes(row, pow_around, color_angle) ? 1 : 0;
    to[kOfContrast] = changes(row, gamma, color + 2) ? 1 : 0;
    to[kOfEffects] = row[shadow_strength] > 0 || row[noise] > 0 ? 1 : 0;
    const bool any = to[kOfColors] + to[kOfContrast] + to[kOfEffects] > 0;
    to[kImpossible] = any && !how.colors ? 1 : to[kOfColors] > 0 && !how.coordinates ? 2 : 0;
  }

 private:
  BANYAN_HOST_DEVICE static bool changes(const double* row, int from, int to) {
    for (int k = from; k <= to; ++k)
      if (row[k] != (is_factor(k) ? 1 : 0)) return true;
    return false;
  }
};

}  // namespace banyan::ops::detail
