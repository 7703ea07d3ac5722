// Fast loops for the common images: 8-bit pixels of 1 or 3 channels to floats. What varies from image to
// image (where the channels are, mirroring, a mean image) is a template argument, so that each loop is
// vectorized; the values are bit-identical to those of the general loop in augmenter.cpp. Internal to the
// room.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace banyan::data {

/// One row of the window, inside the image. Channel c of pixel x is in[c * in_plane + x] (in[x * C + c] where
/// pixels are interleaved) and becomes out[c * out_plane + x] (out[x * C + c] where channels are last); a
/// mirrored row goes backwards from `out`.
struct PixelRow {
  const std::uint8_t* in = nullptr;
  std::ptrdiff_t in_plane = 0, out_plane = 0, mean_plane = 0, pixels = 0;
  const float* mean_image = nullptr;  ///< mean_image[c * mean_plane + x], or nullptr: mean[c]
  std::array<float, 3> mean{};
  float scale = 1;
  float* out = nullptr;
};

template <int C, bool Interleaved, bool Last, bool Mirror, bool MeanImage>
void convert_row(const PixelRow& row) {
  const std::uint8_t* const in = row.in;
  float* const out = row.out;
  const float scale = row.scale;
  for (int plane = 0; plane < (Last ? 1 : C); ++plane) {
    const std::ptrdiff_t pixels = row.pixels, in_plane = row.in_plane;
    const float* const mean_image = row.mean_image;
    const std::ptrdiff_t mean_plane = row.mean_plane;
    const std::array<float, 3> means = row.mean;
    float* const plane_out = out + plane * row.out_plane;
#pragma omp simd
    for (std::ptrdiff_t x = 0; x < pixels; ++x) {
      for (int k = 0; k < (Last ? C : 1); ++k) {
        const int c = Last ? k : plane;
        const float mean = MeanImage ? mean_image[c * mean_plane + x] : means[c];
        const std::uint8_t pixel = in[Interleaved ? x * C + c : c * in_plane + x];
        plane_out[(Mirror ? -x : x) * (Last ? C : 1) + k] = (static_cast<float>(pixel) - mean) * scale;
      }
    }
  }
}

using ConvertRow = void (*)(const PixelRow&);

/// The loop for such rows; nullptr: there is none, use the general one.
inline ConvertRow row_converter(int channels, bool interleaved, bool last, bool mirror, bool mean_image) {
  // One channel is the same in every order.
  const auto with = [&](auto c, auto in, auto out, auto backwards) -> ConvertRow {
    return mean_image ? convert_row<c(), in(), out(), backwards(), true>
                      : convert_row<c(), in(), out(), backwards(), false>;
  };
  using No = std::false_type;
  using Yes = std::true_type;
  const auto order = [&](auto c, auto in, auto out) {
    return mirror ? with(c, in, out, Yes{}) : with(c, in, out, No{});
  };
  if (channels == 1) return order(std::integral_constant<int, 1>{}, No{}, No{});
  if (channels != 3) return nullptr;
  constexpr std::integral_constant<int, 3> kThree;
  if (interleaved) return last ? order(kThree, Yes{}, Yes{}) : order(kThree, Yes{}, No{});
  return last ? order(kThree, No{}, Yes{}) : order(kThree, No{}, No{});
}

}  // namespace banyan::data
