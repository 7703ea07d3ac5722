// What a worker's differences travel to a parameter server as: all values, or the largest ones only; in their
// own type, or in 16 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "banyan/tensor/dtype.hpp"

namespace banyan::parallel {

struct Compression {
  std::optional<DType> narrow;  ///< bf16 or f16, for f32 values
  double top = 1;               ///< the share of the values that is sent: the largest ones; 1: all
};

/// For one piece of the parameters. With `top` it feeds back what it did not send: that is added to the next
/// difference, so that nothing is lost, only late (Seide et al. 2014; Stich et al. 2018).
class DifferenceEncoder {
 public:
  DifferenceEncoder(std::int64_t count, DType type, const Compression& compression);
  /// Appends the encoded values to `out`.
  void encode(const char* values, std::vector<char>& out);
  /// At most so many bytes are appended.
  std::size_t most_bytes() const;

 private:
  template <class T>
  void encode_top(const T* values, std::vector<char>& out);
  std::int64_t count_, kept_;
  DType type_;
  Compression compression_;
  std::vector<double> left_;  ///< of earlier differences; empty: everything is sent
};

/// values = what was encoded, of `count` values of `type`. Runtime failure if it is not that.
void decode_difference(const char* data, std::size_t bytes, std::int64_t count, DType type, char* values);

}  // namespace banyan::parallel
