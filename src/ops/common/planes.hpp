// A plane is one channel of one sample, an N x C x rows x columns tensor in either layout: its pixel p lies
// at base + p * step in memory.
#pragma once

#include "banyan/tensor/tensor.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/divisor.hpp"

namespace banyan::ops::detail {

/// Where element i of an N x C x rows x columns tensor lies.
struct PlanePosition {
  std::int64_t sample, channel, row, column;
};

struct Planes {
  std::int64_t channels;
  bool channels_last;

  BANYAN_HOST_DEVICE PlanePosition locate(std::int64_t i, std::int64_t rows, std::int64_t columns) const {
    return locate(i, rows, columns, channels);
  }
  /// Lengths: numbers, or their divisors.
  template <class Length>
  BANYAN_HOST_DEVICE PlanePosition locate(std::int64_t i, const Length& rows, const Length& columns,
                                          const Length& of_channels) const {
    using Parts = Split<std::int64_t>;
    if (channels_last) {
      const Parts pixel(i, of_channels), row(pixel.quotient, columns), sample(row.quotient, rows);
      return {sample.quotient, pixel.rest, sample.rest, row.rest};
    }
    const Parts row(i, columns), plane(row.quotient, rows), sample(plane.quotient, of_channels);
    return {sample.quotient, sample.rest, plane.rest, row.rest};
  }
  /// Memory index of pixel 0 of a plane with `pixels` pixels.
  BANYAN_HOST_DEVICE std::int64_t base(const PlanePosition& at, std::int64_t pixels) const {
    return channels_last ? at.sample * pixels * channels + at.channel
                         : (at.sample * channels + at.channel) * pixels;
  }
  BANYAN_HOST_DEVICE std::int64_t step() const { return channels_last ? channels : 1; }
  /// How many images lie one after another, with pixels of step() numbers: samples, or planes if contiguous.
  std::int64_t images(const Tensor& x) const { return x.shape()[0] * (channels_last ? 1 : channels); }
  /// From a pixel to that of the next channel.
  BANYAN_HOST_DEVICE std::int64_t next(std::int64_t pixels) const { return channels_last ? 1 : pixels; }
};

/// Contiguous, and channels-last would be a different order.
inline bool fixed_contiguous(const Tensor& x) {
  const ChannelView view = channel_view(x);
  return x.layout() == Layout::contiguous && view.channels > 1 && view.inner > 1 && x.count() > 0;
}

/// Of two N x C x H x W tensors that differ in their pixels only. Checks what is read and written through raw
/// pointers.
inline Planes planes_of(const char* op, const Tensor& a, const Tensor& b) {
  // A tensor with one channel or one pixel fits either layout: then the other tensor's counts.
  const bool channels_last = !a.is_contiguous() || !b.is_contiguous();
  const Shape &first = a.shape(), &second = b.shape();
  if (first.axes() != 4 || second.axes() != 4 || first[0] != second[0] || first[1] != second[1] ||
      (channels_last && (fixed_contiguous(a) || fixed_contiguous(b))))
    runtime_failure(op, ": ", first.to_string(), " ", name_of(a.layout()), " and ", second.to_string(), " ",
                    name_of(b.layout()), " do not match");
  return {first[1], channels_last};
}

}  // namespace banyan::ops::detail
