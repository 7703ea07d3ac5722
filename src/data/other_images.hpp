// WebP through libwebp, BMP through stb_image. Internal to the room.
#pragma once

#include "banyan/data/image_codec.hpp"

namespace banyan::data {

bool is_webp(const std::uint8_t* bytes, std::size_t size);
/// Still images only; an animated one is refused.
void decode_webp(const std::uint8_t* bytes, std::size_t size, ColorMode mode, Image& image);

bool is_bmp(const std::uint8_t* bytes, std::size_t size);
void decode_bmp(const std::uint8_t* bytes, std::size_t size, ColorMode mode, Image& image);

}  // namespace banyan::data
