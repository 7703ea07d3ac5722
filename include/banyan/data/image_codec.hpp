// JPEG and PNG to and from 8-bit pixels (libjpeg-turbo, libpng), from WebP and BMP (libwebp, stb_image), and
// resizing. Colour is B, G, R as in Caffe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace banyan::data {

/// height x width x channels bytes, channel innermost: 1 (gray) or 3 (B, G, R).
struct Image {
  int channels = 0, height = 0, width = 0;
  std::vector<std::uint8_t> pixels;
};

/// labels: one channel, the numbers that a file stores for its pixels: a PNG's indices into its palette, or
/// its gray values, which are neither spread over 8 bits nor cut off to them. Colours are gray if B = G = R.
enum class ColorMode : std::uint8_t { as_stored, bgr, gray, labels };

/// A size that a decoder may scale down to; {0, 0}: the stored size.
struct LeastSize {
  int height = 0, width = 0;
};

/// Decodes a JPEG, PNG, still WebP or BMP file held in memory. With a `least` size a JPEG is decoded at 1/2,
/// 1/4 or 1/8 of its size, the smallest that is not below `least` in either direction: the mean of each block
/// comes directly from the transform's low frequencies, and the rest is not computed. Alpha is dropped;
/// 16-bit samples keep their upper byte (labels: must fit into the lower one). Gray from colour is BT.601
/// luma. Throws bad_input for any other format and for a damaged or truncated image.
void decode_image(const std::uint8_t* bytes, std::size_t size, ColorMode mode, Image& image,
                  LeastSize least = {});

/// `type` is "jpg", "jpeg" or "png" (any case); bad_input otherwise. JPEG has quality 95 and 4:2:0 chroma.
std::vector<std::uint8_t> encode_image(const Image& image, const std::string& type);

/// Bilinear, pixel centres at half-integers, border pixels repeated; no smoothing when downscaling, except to
/// half of both sizes (means of 2 x 2 pixels). Rounded as OpenCV's cv::resize does, with which Caffe's tools
/// and layers resize: the same bytes.
void resize_bilinear(const Image& from, int height, int width, Image& to);

}  // namespace banyan::data
