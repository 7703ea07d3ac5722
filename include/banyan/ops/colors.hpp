// Images in other colour spaces.
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// Channels of 0 to 255 (bgr, rgb, gray), XYZ with Y up to 1, or CIE L*a*b* with L up to 100, white D65.
enum class Colors : std::uint8_t { bgr, rgb, xyz, lab, gray };
constexpr std::int64_t channels_of(Colors colors) { return colors == Colors::gray ? 1 : 3; }

/// x (N, channels_of(from), pixels) to y (N, channels_of(to), pixels), both contiguous. Gray is the luminance
/// of the values as they are; from gray all three channels are the same.
struct ColorConversion {
  Colors from = Colors::bgr, to = Colors::bgr;
  std::int64_t pixels = 1;
};
inline constinit Operator<void(const Tensor& x, const ColorConversion& what, Tensor& y)> convert_colors{
    "convert_colors"};

}  // namespace banyan::ops
