// One BlobProto from the wire, in the encodings of every branch.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "banyan/io/weights.hpp"
#include "wire_reader.hpp"

namespace banyan::io {

/// `message`: the bytes of a BlobProto inside the file of `origin`, whose place names the blob.
BlobData read_blob(std::string_view message, const WireOrigin& origin);

/// Caffe allows 32 axes.
constexpr std::size_t kMostAxes = 32;

/// IEEE half precision to single.
float half_to_float(std::uint16_t half);

/// Product of the shape; false if an axis is negative or the product does not fit 63 bits.
bool element_count(const std::vector<std::int64_t>& shape, std::uint64_t& count);

}  // namespace banyan::io
