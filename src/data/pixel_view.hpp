// Parts of images, mirrored or not, in the memory of the whole. Internal to the room.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "banyan/data/image_codec.hpp"
#include "banyan/tensor/tensor.hpp"

namespace banyan::data {

/// Pixels in memory, with the steps from one to its neighbours.
struct PixelView {
  const std::uint8_t* first = nullptr;
  int channels = 0, height = 0, width = 0;
  std::ptrdiff_t channel = 0, row = 0, column = 0;

  std::uint8_t at(int c, int y, int x) const { return first[c * channel + y * row + x * column]; }
  void cut(int top, int left, int new_height, int new_width) {
    first += top * row + left * column;
    height = new_height;
    width = new_width;
  }
  void turn_upside_down() {
    first += (height - 1) * row;
    row = -row;
  }
  void mirror() {
    first += (width - 1) * column;
    column = -column;
  }
};

inline PixelView view_of(const std::uint8_t* pixels, int channels, int height, int width, bool interleaved) {
  if (interleaved) return {pixels, channels, height, width, 1, std::ptrdiff_t{width} * channels, channels};
  return {pixels, channels, height, width, std::ptrdiff_t{height} * width, width, 1};
}

inline Image image_of(const PixelView& view) {
  Image image{view.channels, view.height, view.width, {}};
  image.pixels.reserve(static_cast<std::size_t>(view.channels) * static_cast<std::size_t>(view.height) *
                       static_cast<std::size_t>(view.width));
  for (int y = 0; y < view.height; ++y)
    for (int x = 0; x < view.width; ++x)
      for (int c = 0; c < view.channels; ++c) image.pixels.push_back(view.at(c, y, x));
  return image;
}

/// Coordinate `at` of [0, length) or beyond it, where the image is mirrored without its last line.
inline int mirrored_inside(int at, int length) {
  if (length == 1) return 0;
  const int period = 2 * (length - 1);
  const int phase = std::abs(at) % period;
  return std::min(phase, period - phase);
}

/// What each of a channel's bytes becomes: factor * byte + shift.
struct PixelLine {
  double factor = 1, shift = 0;
  /// Another one after it.
  void append(double its_factor, double its_shift) {
    factor *= its_factor;
    shift = shift * its_factor + its_shift;
  }
};

/// By the line of each channel.
template <class T>
void write_lines(const PixelView& view, const PixelLine* lines, Layout layout, T* to) {
  const bool last = layout == Layout::channels_last;
  const std::ptrdiff_t plane = std::ptrdiff_t{view.height} * view.width;
  for (int c = 0; c < view.channels; ++c) {
    std::array<T, 256> values;
    for (std::size_t byte = 0; byte < values.size(); ++byte)
      values[byte] = static_cast<T>(lines[c].factor * static_cast<double>(byte) + lines[c].shift);
    T* next = last ? to + c : to + c * plane;
    for (int y = 0; y < view.height; ++y)
      for (int x = 0; x < view.width; ++x, next += last ? view.channels : 1) *next = values[view.at(c, y, x)];
  }
}

}  // namespace banyan::data
