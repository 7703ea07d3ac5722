// JPEG through libjpeg-turbo's TurboJPEG interface. Internal to the room.
#pragma once

#include "banyan/data/image_codec.hpp"

namespace banyan::data {

void decode_jpeg(const std::uint8_t* bytes, std::size_t size, ColorMode mode, Image& image, LeastSize least);
struct JpegSettings {
  int quality = 95;       ///< 1 to 100
  bool accurate = false;  ///< with the slow transform of whole numbers, which OpenCV takes for any quality
};
std::vector<std::uint8_t> encode_jpeg(const Image& image, const JpegSettings& settings = {});

/// Turns B, G, R pixels into gray ones in place.
void gray_from_bgr(Image& image);

}  // namespace banyan::data
