// Convolutions by plain loops on the host, for tests to compare against.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dnn_algorithms.hpp"

namespace emulated::dnn {

using Lengths = std::vector<int>;

/// One convolution, as described by a test.
struct Case {
  std::string name = {};
  int batch = 2, in_channels = 3, out_channels = 4;
  Lengths in = {6, 5}, kernel = {3, 3}, pad = {0, 0}, stride = {1, 1}, dilation = {1, 1};
  int groups = 1;
  bool channels_last = false, flipped = false;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  Lengths x_strides = {}, y_strides = {};  ///< empty: packed in the filter's order

  Lengths out() const {
    Lengths lengths;
    for (std::size_t i = 0; i < in.size(); ++i)
      lengths.push_back((in[i] + 2 * pad[i] - (kernel[i] - 1) * dilation[i] - 1) / stride[i] + 1);
    return lengths;
  }
  Lengths dims(int first, int second, const Lengths& spatial) const {
    Lengths all{first, second};
    all.insert(all.end(), spatial.begin(), spatial.end());
    return all;
  }
  Lengths x() const { return dims(batch, in_channels, in); }
  Lengths y() const { return dims(batch, out_channels, out()); }
  Lengths w() const { return dims(out_channels, in_channels / groups, kernel); }
};

inline Lengths packed_strides(const Lengths& dims, bool channels_last) {
  Lengths strides(dims.size());
  int step = channels_last ? dims[1] : 1;
  for (std::size_t axis = dims.size() - 1; axis >= 2; --axis) {
    strides[axis] = step;
    step *= dims[axis];
  }
  strides[1] = channels_last ? 1 : step;
  strides[0] = channels_last ? step : step * dims[1];
  return strides;
}

/// A tensor with its strides, on the host.
struct Array {
  Lengths dims, strides;
  std::vector<double> values;
  Array(Lengths lengths, Lengths steps, int seed) : dims(std::move(lengths)), strides(std::move(steps)) {
    std::size_t reach = 1;
    for (std::size_t axis = 0; axis < dims.size(); ++axis)
      reach += static_cast<std::size_t>((dims[axis] - 1) * strides[axis]);
    for (std::size_t i = 0; i < reach; ++i)
      values.push_back(static_cast<double>((i * 29 + static_cast<std::size_t>(seed) * 13) % 17) / 8 - 1);
  }
  double& at(const Lengths& index) {
    std::size_t place = 0;
    for (std::size_t axis = 0; axis < dims.size(); ++axis)
      place += static_cast<std::size_t>(index[axis] * strides[axis]);
    return values[place];
  }
};

inline void for_each_index(const Lengths& dims, const std::function<void(const Lengths&)>& visit) {
  Lengths index(dims.size(), 0);
  while (true) {
    visit(index);
    std::size_t axis = dims.size();
    while (axis > 0 && ++index[axis - 1] == dims[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

/// Adds alpha times the convolution to the array that the direction writes.
inline void convolve(const Case& c, Direction direction, double alpha, Array& x, Array& w, Array& y) {
  const int out_of_group = c.out_channels / c.groups, in_of_group = c.in_channels / c.groups;
  const Array from_x = x, from_w = w, from_y = y;
  for_each_index(y.dims, [&](const Lengths& out) {
    for_each_index(w.dims, [&](const Lengths& tap) {
      if (tap[0] != out[1]) return;
      Lengths in{out[0], out[1] / out_of_group * in_of_group + tap[1]};
      for (std::size_t i = 0; i < c.in.size(); ++i) {
        const int place = c.flipped ? c.kernel[i] - 1 - tap[i + 2] : tap[i + 2];
        in.push_back(out[i + 2] * c.stride[i] - c.pad[i] + place * c.dilation[i]);
        if (in.back() < 0 || in.back() >= c.in[i]) return;
      }
      Array &xs = const_cast<Array&>(from_x), &ws = const_cast<Array&>(from_w),
            &ys = const_cast<Array&>(from_y);
      if (direction == Direction::forward) y.at(out) += alpha * xs.at(in) * ws.at(tap);
      if (direction == Direction::backward_data) x.at(in) += alpha * ys.at(out) * ws.at(tap);
      if (direction == Direction::backward_filter) w.at(tap) += alpha * xs.at(in) * ys.at(out);
    });
  });
}

}  // namespace emulated::dnn
