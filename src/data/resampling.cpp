#include "data/resampling.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace banyan::data {

namespace {

using Mode = caffe::ResizeParameter;

/// What one output coordinate is made of.
struct Taps {
  std::vector<int> from;
  std::vector<float> weights;  // their sum is 1
};

double cubic(double x) {
  constexpr double kA = -0.75;
  x = std::abs(x);
  if (x <= 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  return x < 2 ? ((x - 5) * x + 8) * x * kA - 4 * kA : 0;
}

double lanczos4(double x) {
  if (std::abs(x) < 1e-9) return 1;
  if (std::abs(x) >= 4) return 0;
  const double angle = std::numbers::pi * x;
  return 4 * std::sin(angle) * std::sin(angle / 4) / (angle * angle);
}

void normalize(Taps& taps) {
  float sum = 0;
  for (const float weight : taps.weights) sum += weight;
  for (float& weight : taps.weights) weight /= sum;
}

/// The share of each input in [at * step, (at + 1) * step).
Taps area_taps(int at, double step, int length) {
  Taps taps;
  const double begin = at * step, end = std::min<double>((at + 1) * step, length);
  const int first = static_cast<int>(begin);
  for (int i = first; i == first || i < end; ++i) {
    taps.from.push_back(std::min(i, length - 1));
    taps.weights.push_back(static_cast<float>(std::min<double>(i + 1, end) - std::max<double>(i, begin)));
  }
  normalize(taps);
  return taps;
}

Taps kernel_taps(int at, double step, int length, int radius, double (*kernel)(double)) {
  Taps taps;
  const double centre = (at + 0.5) * step - 0.5;
  const int low = static_cast<int>(std::floor(centre));
  for (int i = low - radius + 1; i <= low + radius; ++i) {
    taps.from.push_back(std::clamp(i, 0, length - 1));
    taps.weights.push_back(static_cast<float>(kernel(centre - i)));
  }
  normalize(taps);
  return taps;
}

std::vector<Taps> taps_of(int length, int new_length, Mode::Interp_mode how) {
  const double step = static_cast<double>(length) / new_length;
  std::vector<Taps> taps;
  for (int at = 0; at < new_length; ++at)
    taps.push_back(how == Mode::AREA    ? area_taps(at, step, length)
                   : how == Mode::CUBIC ? kernel_taps(at, step, length, 2, cubic)
                                        : kernel_taps(at, step, length, 4, lanczos4));
  return taps;
}

void store(float value, std::uint8_t& to) {
  to = static_cast<std::uint8_t>(std::lround(std::clamp(value, 0.0f, 255.0f)));
}
void store(float value, float& to) { to = value; }

/// Rows first, then columns.
template <class Value>
void resize_with(const Value* from, int channels, int height, int width, const std::vector<Taps>& rows,
                 const std::vector<Taps>& columns, Value* to) {
  const std::size_t pitch = columns.size() * static_cast<std::size_t>(channels);
  std::vector<float> wide(pitch * static_cast<std::size_t>(height)), sums(pitch);
  float* next = wide.data();
  for (int y = 0; y < height; ++y) {
    const Value* row = from + std::ptrdiff_t{y} * width * channels;
    for (const Taps& taps : columns)
      for (int c = 0; c < channels; ++c) {
        float sum = 0;
        for (std::size_t k = 0; k < taps.from.size(); ++k)
          sum += taps.weights[k] * static_cast<float>(row[taps.from[k] * channels + c]);
        *next++ = sum;
      }
  }
  for (const Taps& taps : rows) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (std::size_t k = 0; k < taps.from.size(); ++k) {
      const float* row = wide.data() + static_cast<std::size_t>(taps.from[k]) * pitch;
      for (std::size_t i = 0; i < pitch; ++i) sums[i] += taps.weights[k] * row[i];
    }
    for (const float sum : sums) store(sum, *to++);
  }
}

}  // namespace

Image cut(const Record& record, const PixelBox& part) {
  Image image{record.channels, part.height, part.width, {}};
  image.pixels.reserve(static_cast<std::size_t>(record.channels) * static_cast<std::size_t>(part.height) *
                       static_cast<std::size_t>(part.width));
  const std::ptrdiff_t plane = std::ptrdiff_t{record.height} * record.width;
  for (int y = part.top; y < part.top + part.height; ++y) {
    const std::ptrdiff_t first = std::ptrdiff_t{y} * record.width + part.left;
    if (record.interleaved) {
      const std::uint8_t* row = record.bytes + first * record.channels;
      image.pixels.insert(image.pixels.end(), row, row + std::ptrdiff_t{part.width} * record.channels);
      continue;
    }
    for (int x = 0; x < part.width; ++x)
      for (int c = 0; c < record.channels; ++c) image.pixels.push_back(record.bytes[c * plane + first + x]);
  }
  return image;
}

void resize_nearest(const Image& from, int height, int width, Image& to) {
  to = {from.channels, height, width, {}};
  to.pixels.resize(static_cast<std::size_t>(from.channels) * static_cast<std::size_t>(height) *
                   static_cast<std::size_t>(width));
  std::uint8_t* next = to.pixels.data();
  const auto source = [](int at, int length, int of) {
    return static_cast<int>((2 * std::int64_t{at} + 1) * of / (2 * std::int64_t{length}));
  };
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      const std::ptrdiff_t at =
          std::ptrdiff_t{source(y, height, from.height)} * from.width + source(x, width, from.width);
      next = std::copy_n(from.pixels.data() + at * from.channels, from.channels, next);
    }
}

void resize_image(const Image& from, int height, int width, Mode::Interp_mode how, Image& to) {
  if (how == Mode::NEAREST) {
    resize_nearest(from, height, width, to);
  } else if (how == Mode::LINEAR) {
    resize_bilinear(from, height, width, to);
  } else {
    to = {from.channels, height, width, {}};
    to.pixels.resize(static_cast<std::size_t>(from.channels) * static_cast<std::size_t>(height) *
                     static_cast<std::size_t>(width));
    resize_with(from.pixels.data(), from.channels, from.height, from.width, taps_of(from.height, height, how),
                taps_of(from.width, width, how), to.pixels.data());
  }
}

void resize_cubic(const float* from, int height, int width, int new_height, int new_width, float* to) {
  resize_with(from, 1, height, width, taps_of(height, new_height, Mode::CUBIC),
              taps_of(width, new_width, Mode::CUBIC), to);
}

}  // namespace banyan::data
