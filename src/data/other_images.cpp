#include "data/other_images.hpp"

#include <webp/decode.h>

#include <climits>
#include <cstring>
#include <memory>
#include <utility>

#include "banyan/base/error.hpp"
#include "data/jpeg.hpp"

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_BMP
#define STBI_NO_STDIO
#define STBI_MAX_DIMENSIONS 65536  // as for PNG
#include <stb/stb_image.h>

namespace banyan::data {

bool is_webp(const std::uint8_t* bytes, std::size_t size) {
  return size >= 12 && std::memcmp(bytes, "RIFF", 4) == 0 && std::memcmp(bytes + 8, "WEBP", 4) == 0;
}

void decode_webp(const std::uint8_t* bytes, std::size_t size, ColorMode mode, Image& image) {
  int width = 0, height = 0;
  if (!WebPGetInfo(bytes, size, &width, &height)) bad_input("damaged WebP image");
  constexpr std::int64_t kMostPixels = std::int64_t{1} << 25;  // a few damaged bytes can claim 16383 x 16383
  if (std::int64_t{width} * height > kMostPixels)
    bad_input("a WebP image of ", height, " x ", width, " pixels; at most ", kMostPixels, " are read");
  const std::unique_ptr<std::uint8_t, void (*)(void*)> bgr(WebPDecodeBGR(bytes, size, &width, &height),
                                                           WebPFree);
  if (!bgr) bad_input("damaged WebP image, or an animated one");
  image.channels = 3;
  image.height = height;
  image.width = width;
  image.pixels.assign(bgr.get(), bgr.get() + static_cast<std::size_t>(3) * width * height);
  if (mode == ColorMode::gray) gray_from_bgr(image);
}

bool is_bmp(const std::uint8_t* bytes, std::size_t size) {
  return size >= 2 && bytes[0] == 'B' && bytes[1] == 'M';
}

void decode_bmp(const std::uint8_t* bytes, std::size_t size, ColorMode mode, Image& image) {
  if (size > INT_MAX) bad_input("a BMP image of ", size, " bytes");
  int width = 0, height = 0, stored = 0;
  const auto length = static_cast<int>(size);
  const auto number = [bytes, size](std::size_t at, int width) {
    std::uint32_t value = 0;
    for (int i = width; i-- > 0;) value = value << 8 | (at + i < size ? bytes[at + i] : 0U);
    return std::size_t{value};
  };
  // Its own check of sizes negates this height, which has no negation.
  if (number(22, 4) == std::size_t{1} << 31) bad_input("damaged BMP image");
  // An image whose file could not hold it is refused before its memory is asked for: a bit a pixel is the
  // least.
  if (!stbi_info_from_memory(bytes, length, &width, &height, &stored) ||
      static_cast<std::size_t>(width) * height / 8 > size)
    bad_input("damaged BMP image");
  // stb_image takes what is missing at the end for black.
  const std::size_t bits = number(14, 4) == 12 ? number(24, 2) : number(28, 2), pixels = number(10, 4);
  const std::size_t row = (static_cast<std::size_t>(width) * bits + 7) / 8, pitch = (row + 3) / 4 * 4;
  if (pixels + pitch * (static_cast<std::size_t>(height) - 1) + row > size)
    bad_input("damaged BMP image: the file ends too early");
  const std::unique_ptr<stbi_uc, void (*)(void*)> rgb(
      stbi_load_from_memory(bytes, length, &width, &height, &stored, 3), stbi_image_free);
  if (!rgb) bad_input("damaged BMP image: ", stbi_failure_reason());
  image.channels = 3;
  image.height = height;
  image.width = width;
  image.pixels.assign(rgb.get(), rgb.get() + static_cast<std::size_t>(3) * width * height);
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) std::swap(image.pixels[i], image.pixels[i + 2]);
  if (mode == ColorMode::gray) gray_from_bgr(image);
}

}  // namespace banyan::data
