// Converts images to matrices of the terms of each output, and back.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "dnn_problem.hpp"

namespace emulated::dnn {

/// Outputs [begin, end) of an axis whose inputs for one tap are inside the image.
struct Inside {
  std::int64_t begin, end;
  std::int64_t first;  ///< input of output 0, which may be outside
};
inline Inside inside(const Axis& axis, std::int64_t tap, bool flipped) {
  const std::int64_t first = (flipped ? axis.kernel - 1 - tap : tap) * axis.dilation - axis.pad;
  const auto up = [&](std::int64_t length) {
    return length <= 0 ? 0 : (length + axis.stride - 1) / axis.stride;
  };
  const std::int64_t end = std::clamp<std::int64_t>(up(axis.in - first), 0, axis.out);
  return {std::min(up(-first), end), end, first};
}

/// Walks the rows of the matrix (channel, tap) x output positions: row(place in the matrix, count, place in
/// the image of the first) for adjacent outputs whose inputs, a stride apart, are in the image;
/// padding(place, count) for the others.
template <class Row, class Padding>
void for_each_row(const Problem& p, std::int64_t channels, Row&& row, Padding&& padding) {
  const Axis &depth = p.axes[0], &height = p.axes[1], &width = p.axes[2];
  std::int64_t at = 0;  // in the matrix
  for (std::int64_t channel = 0; channel < channels; ++channel)
    for (std::int64_t kd = 0; kd < depth.kernel; ++kd)
      for (std::int64_t kh = 0; kh < height.kernel; ++kh)
        for (std::int64_t kw = 0; kw < width.kernel; ++kw) {
          const Inside d = inside(depth, kd, p.flipped), h = inside(height, kh, p.flipped),
                       w = inside(width, kw, p.flipped);
          for (std::int64_t od = 0; od < depth.out; ++od) {
            if (od < d.begin || od >= d.end) {
              padding(at, height.out * width.out);
              at += height.out * width.out;
              continue;
            }
            const std::int64_t plane = (channel * depth.in + od * depth.stride + d.first) * height.in;
            padding(at, h.begin * width.out);
            for (std::int64_t oh = h.begin; oh < h.end; ++oh) {
              const std::int64_t to = at + oh * width.out;
              padding(to, w.begin);
              if (w.end > w.begin)
                row(to + w.begin, w.end - w.begin,
                    (plane + oh * height.stride + h.first) * width.in + w.begin * width.stride + w.first);
              padding(to + w.end, width.out - w.end);
            }
            padding(at + h.end * width.out, (height.out - h.end) * width.out);
            at += height.out * width.out;
          }
        }
}

/// From packed channels x spatial axes to (channel, tap) x output positions.
template <class T>
void unfold(const Problem& p, std::int64_t channels, const T* image, T* matrix) {
  const std::int64_t stride = p.axes[2].stride;
  for_each_row(
      p, channels,
      [&](std::int64_t to, std::int64_t count, std::int64_t from) {
        if (stride == 1) {
          std::copy_n(image + from, count, matrix + to);
        } else {
          for (std::int64_t i = 0; i < count; ++i) matrix[to + i] = image[from + i * stride];
        }
      },
      [&](std::int64_t to, std::int64_t count) { std::fill_n(matrix + to, count, T(0)); });
}

/// The reverse: adds each element of the matrix to the element of the image that it came from.
template <class T>
void fold(const Problem& p, std::int64_t channels, const T* matrix, T* image) {
  const std::int64_t stride = p.axes[2].stride;
  for_each_row(
      p, channels,
      [&](std::int64_t from, std::int64_t count, std::int64_t to) {
        for (std::int64_t i = 0; i < count; ++i) image[to + i * stride] += matrix[from + i];
      },
      [](std::int64_t, std::int64_t) {});
}

/// Likewise with the channel innermost: the matrix is output positions x (tap, channel of the group), the
/// image spatial axes x channels. visit(place in the matrix, place in the image) for a group's channels,
/// which are adjacent in both.
template <class Visit, class Padding>
void for_each_tap(const Problem& p, Visit&& visit, Padding&& padding) {
  const Axis &depth = p.axes[0], &height = p.axes[1], &width = p.axes[2];
  const std::int64_t channels = p.in_per_group(), taps = p.taps();
  for (std::int64_t kd = 0, tap = 0; kd < depth.kernel; ++kd)
    for (std::int64_t kh = 0; kh < height.kernel; ++kh)
      for (std::int64_t kw = 0; kw < width.kernel; ++kw, ++tap) {
        const Inside d = inside(depth, kd, p.flipped), h = inside(height, kh, p.flipped),
                     w = inside(width, kw, p.flipped);
        std::int64_t position = 0;
        for (std::int64_t od = 0; od < depth.out; ++od)
          for (std::int64_t oh = 0; oh < height.out; ++oh) {
            const bool in_image = od >= d.begin && od < d.end && oh >= h.begin && oh < h.end;
            const std::int64_t row =
                ((od * depth.stride + d.first) * height.in + oh * height.stride + h.first) * width.in +
                w.first;
            for (std::int64_t ow = 0; ow < width.out; ++ow, ++position) {
              const std::int64_t at = (position * taps + tap) * channels;
              if (in_image && ow >= w.begin && ow < w.end)
                visit(at, (row + ow * width.stride) * p.in_channels);
              else
                padding(at);
            }
          }
      }
}

template <class T>
void unfold_channels_last(const Problem& p, const T* image, T* matrix) {
  const std::int64_t channels = p.in_per_group();
  for_each_tap(
      p, [&](std::int64_t to, std::int64_t from) { std::copy_n(image + from, channels, matrix + to); },
      [&](std::int64_t to) { std::fill_n(matrix + to, channels, T(0)); });
}

template <class T>
void fold_channels_last(const Problem& p, const T* matrix, T* image) {
  const std::int64_t channels = p.in_per_group();
  for_each_tap(
      p,
      [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t i = 0; i < channels; ++i) image[to + i] += matrix[from + i];
      },
      [](std::int64_t) {});
}

}  // namespace emulated::dnn
