// The types in which a net stores and computes. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "banyan/device/device.hpp"
#include "banyan/layers/layer.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

struct Precision {
  /// Of parameters, their gradients and running statistics, and of the activations of layers that cannot work
  /// with 16 bits. (Sums and batch statistics are f64.)
  DType master = DType::f32;
  DType compute = DType::f32;  ///< of the factors of products; their sums are `master`
  DType storage = DType::f32;  ///< of activations and their gradients where the layers' types allow it
  std::vector<std::string> exceptions;  ///< types of layers that stay with `master` nevertheless

  /// The 16-bit type of a layer's stored activations, if its type allows one (StorageRule); none: they are
  /// `master`. The layer's own setting takes precedence. Throws bad_input if its type cannot comply.
  std::optional<DType> storage_of(const caffe::LayerParameter& layer, const LayerTraits& traits) const;
};

/// Reads a net's `storage` and `storage_exception` and checks the settings of all its layers: throws
/// bad_input for anything unsupported. A net that does not say how it stores does so in the type in which it
/// computes, except with in_place_abn. `dtype`: the type of the run's tensors.
Precision read_precision(const caffe::NetParameter& net, DType dtype, Math math);

}  // namespace banyan
