// Initial values of parameters and of dummy data (FillerParameter), from counter-based random numbers: a
// value depends only on the seed, the layer's name, the parameter's slot and the element, so it is the same
// on every device and in every dtype.
#pragma once

#include <cstdint>
#include <string>

#include "banyan/tensor/shape.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

/// Whose values these are.
struct FillerIdentity {
  std::uint64_t seed = 0;
  std::string layer;
  int slot = 0;
};

/// Do they come from random numbers?
bool draws_values(const caffe::FillerParameter& filler);

/// Throws bad_input if the filler's type is unknown, cannot fill this shape, or is not gaussian though
/// `sparse` is given.
void check_filler(const caffe::FillerParameter& filler, const Shape& shape);

/// Writes shape.count() values in row-major order, computed in double, with up to `threads` threads. Types:
/// constant, uniform, gaussian (Box-Muller; `sparse` keeps each value with probability sparse / shape[0]),
/// positive_unitball, xavier (Glorot and Bengio 2010), msra (He et al. 2015), bilinear (Caffe's upsampling
/// kernel), those of branches (FillerParameter). A `file` is read here. T: float or double.
template <class T>
void fill_values(const caffe::FillerParameter& filler, const Shape& shape, const FillerIdentity& identity,
                 int threads, T* values);

}  // namespace banyan
