// Synthetic digits: a data set that needs no download.
#pragma once

#include <cstdint>

namespace banyan::data {

inline constexpr int kDigitSide = 28;  ///< pixels

/// Which digit image `index` of the set (`seed`, `stream`) shows: each of 0-9 equally likely.
int digit_label(std::uint64_t seed, std::uint32_t stream, std::uint64_t index);

/// Draws the image: strokes with random control points under a random affine map and shift, of random width
/// and brightness, over clutter and noise. `pixels` receives 28 x 28 bytes, 0 is dark. Depends only on its
/// arguments.
void draw_digit(std::uint64_t seed, std::uint32_t stream, std::uint64_t index, std::uint8_t* pixels);

}  // namespace banyan::data
