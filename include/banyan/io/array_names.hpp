// Weights as named arrays, and back.
//
// Blob i of a layer is `LAYER/i`, as in Caffe's HDF5 models, or has a name as in PyTorch's state dicts,
// `LAYER.ROLE`:
//
//   weight, bias                                       Convolution, Deconvolution, InnerProduct, Embed, Scale,
//                                                      PReLU, Normalize; bias alone: Bias
//   running_mean, running_var, factor[, weight, bias]  BatchNorm (Caffe's sums: divide by the factor)
//   weight, bias, running_mean, running_var[, reserve] BN, SyncBN, BatchNorm of NVIDIA 0.15
//   the blob's number                                  all other types
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "banyan/io/arrays.hpp"

namespace banyan::io {

enum class NameStyle : std::uint8_t { index, torch };

/// Of a layer's blobs, which have these numbers of elements.
std::vector<std::string> blob_names(const std::string& layer, const std::string& type,
                                    const std::vector<std::size_t>& counts, NameStyle style);

/// In the order of layers and blobs. Throws bad_input where two layers with blobs have one name.
NamedArrays to_arrays(const ModelWeights& weights, NameStyle style);

/// Layers in the order in which they first occur, without types. Names may be of both styles. Throws
/// bad_input, with `origin`, for a name or a set of names that says no blob's place.
ModelWeights from_arrays(NamedArrays arrays, const std::string& origin);

/// Layers from arrays by a map, a text with lines `ARRAY LAYER/INDEX`; ARRAY may be a number written `=1`,
/// for a blob of one element. A third word `bgr` reverses the channels (axis 1) of a first convolution that
/// was trained on RGB. `#` begins a comment. Arrays that no line names are logged as a warning, but for
/// PyTorch's num_batches_tracked. Throws bad_input with `map_origin` and the line.
ModelWeights from_arrays_by_map(const NamedArrays& arrays, std::string_view map,
                                const std::string& map_origin);

}  // namespace banyan::io
