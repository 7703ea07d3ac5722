// PNG through libpng. Internal to the room.
#pragma once

#include "banyan/data/image_codec.hpp"

namespace banyan::data {

void decode_png(const std::uint8_t* bytes, std::size_t size, ColorMode mode, Image& image);
std::vector<std::uint8_t> encode_png(const Image& image);

}  // namespace banyan::data
