// Named arrays in files of other programs: safetensors (Hugging Face) and npz (NumPy: a zip of .npy files).
//
// Read are f64, f32, f16, bf16 (safetensors), integers and booleans. Doubles and whole numbers become doubles
// (whole numbers are exact up to 2^53), all else floats. Written are f32 and f64. The readers never read
// outside the bytes that they were given and allocate in proportion to them; they refuse files whose lengths,
// offsets or checksums contradict each other, and arrays that overlap.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "banyan/io/weights.hpp"

namespace banyan::io {

struct NamedArray {
  std::string name;
  BlobData data;  ///< without legacy_shape
};
using NamedArrays = std::vector<NamedArray>;

/// In the order in which the file holds the values. Throws bad_input with the file and the array.
NamedArrays read_safetensors(const std::string& path);
NamedArrays read_npz(const std::string& path);
/// The same from memory; `origin` takes the place of the file name in messages.
NamedArrays parse_safetensors(std::string_view bytes, const std::string& origin);
NamedArrays parse_npz(std::string_view bytes, const std::string& origin);

/// Names must differ. The same arrays give the same bytes. Written through an AtomicFile; throws
/// runtime_failure.
void write_safetensors(const std::string& path, const NamedArrays& arrays);
/// Uncompressed, at most 4 GiB.
void write_npz(const std::string& path, const NamedArrays& arrays);

}  // namespace banyan::io
