// Division of indices by lengths that are known before a kernel starts.
#pragma once

#include <bit>
#include <cstdint>

#include "banyan/ops/random.hpp"  // BANYAN_HOST_DEVICE

namespace banyan::ops {

/// Divides numbers that are not negative. A GPU divides in software, 64-bit numbers slowly; a dividend below
/// 2^31 is divided by a product and a shift (Granlund and Montgomery 1994). Index: std::uint32_t, with
/// dividends below 2^31 only, or std::int64_t.
template <class Index>
class Divisor {
 public:
  explicit Divisor(std::int64_t value = 1) : value_(static_cast<Index>(value)) {
    // The factor of 1 would have 33 bits; where a length is 0, there is nothing to be divided.
    if (value <= 1 || value >= kEnd) return;
    const int bits = std::bit_width(static_cast<std::uint64_t>(value - 1));
    factor_ = static_cast<std::uint32_t>(
        ((std::uint64_t{1} << (31 + bits)) + static_cast<std::uint64_t>(value) - 1) /
        static_cast<std::uint64_t>(value));
    shift_ = bits - 1;
  }
  BANYAN_HOST_DEVICE Index quotient(Index of) const {
    if (value_ == 1) return of;
    if constexpr (sizeof(Index) > 4) {
      if (factor_ == 0 || of >= kEnd) return of / value_;
    }
    return static_cast<Index>((static_cast<std::uint64_t>(of) * factor_) >> 32) >> shift_;
  }
  BANYAN_HOST_DEVICE Index value() const { return value_; }

 private:
  static constexpr std::int64_t kEnd = std::int64_t{1} << 31;
  Index value_;
  std::uint32_t factor_ = 0;
  int shift_ = 0;
};

/// Quotient and rest.
template <class Index>
struct Split {
  Index quotient, rest;
  BANYAN_HOST_DEVICE Split(Index value, const Divisor<Index>& by)
      : quotient(by.quotient(value)), rest(value - quotient * by.value()) {}
  BANYAN_HOST_DEVICE Split(Index value, Index by) : quotient(value / by), rest(value - quotient * by) {}
};

}  // namespace banyan::ops
