// The idx files of MNIST, gzipped or not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace banyan::data {

struct IdxImages {
  int count = 0, height = 0, width = 0;
  std::vector<std::uint8_t> pixels;  ///< count x height x width
};

/// Magic 2051 (bytes, 3 axes). Throws bad_input naming the file if it is missing or truncated, or has another
/// magic number or trailing bytes.
IdxImages read_idx_images(const std::string& path);
/// Magic 2049 (bytes, 1 axis).
std::vector<std::uint8_t> read_idx_labels(const std::string& path);

}  // namespace banyan::data
