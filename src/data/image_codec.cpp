#include "banyan/data/image_codec.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "data/jpeg.hpp"
#include "data/other_images.hpp"
#include "data/png.hpp"

namespace banyan::data {

void gray_from_bgr(Image& image) {
  const std::size_t count = image.pixels.size() / 3;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* p = &image.pixels[3 * i];
    // BT.601 luma in 14-bit fixed point, rounded.
    image.pixels[i] = static_cast<std::uint8_t>((p[0] * 1868 + p[1] * 9617 + p[2] * 4899 + 8192) >> 14);
  }
  image.pixels.resize(count);
  image.channels = 1;
}

namespace {

/// One channel of three equal ones.
void gray_from_equal(Image& image) {
  const std::size_t count = image.pixels.size() / 3;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* p = &image.pixels[3 * i];
    if (p[0] != p[1] || p[0] != p[2])
      bad_input("expected a number for each pixel, a gray value or an index into a palette, found colours");
    image.pixels[i] = p[0];
  }
  image.pixels.resize(count);
  image.channels = 1;
}

}  // namespace

void decode_image(const std::uint8_t* bytes, std::size_t size, ColorMode mode, Image& image,
                  LeastSize least) {
  constexpr std::uint8_t kPng[] = {0x89, 'P', 'N', 'G'};
  if (size >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff)
    decode_jpeg(bytes, size, mode, image, least);
  else if (size >= 8 && std::memcmp(bytes, kPng, sizeof kPng) == 0)
    decode_png(bytes, size, mode, image);
  else if (is_webp(bytes, size))
    decode_webp(bytes, size, mode, image);
  else if (is_bmp(bytes, size))
    decode_bmp(bytes, size, mode, image);
  else if (size == 0)
    bad_input("expected a JPEG, PNG, WebP or BMP image, found no bytes");
  else
    bad_input("expected a JPEG, PNG, WebP or BMP image, found ", size, " bytes that begin with ",
              banyan::quoted({reinterpret_cast<const char*>(bytes), std::min<std::size_t>(size, 8)}));
  if (mode == ColorMode::labels && image.channels == 3) gray_from_equal(image);
}

std::vector<std::uint8_t> encode_image(const Image& image, const std::string& type) {
  std::string lower = type;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower == "jpg" || lower == "jpeg") return encode_jpeg(image);
  if (lower == "png") return encode_png(image);
  bad_input("cannot encode images as ", banyan::quoted(type), ": jpg, jpeg and png are supported");
}

namespace {

/// For each output coordinate: the two input coordinates and the weight of the second.
struct Tap {
  int low, high;
  float weight;
};

std::vector<Tap> taps(int from, int to) {
  std::vector<Tap> result(to);
  const double step = static_cast<double>(from) / to;
  for (int i = 0; i < to; ++i) {
    const double center = std::max((i + 0.5) * step - 0.5, 0.0);
    const int low = std::min(static_cast<int>(center), from - 1);
    result[i] = {low, std::min(low + 1, from - 1), static_cast<float>(center - low)};
  }
  return result;
}

}  // namespace

void resize_bilinear(const Image& from, int height, int width, Image& to) {
  if (height < 1 || width < 1 || from.height < 1 || from.width < 1)
    bad_input("cannot resize an image from ", from.height, " x ", from.width, " to ", height, " x ", width);
  const int channels = from.channels;
  to.channels = channels;
  to.height = height;
  to.width = width;
  to.pixels.resize(static_cast<std::size_t>(channels) * static_cast<std::size_t>(height) *
                   static_cast<std::size_t>(width));
  const std::vector<Tap> rows = taps(from.height, height), columns = taps(from.width, width);
  const std::size_t pitch = static_cast<std::size_t>(from.width) * static_cast<std::size_t>(channels);
  std::uint8_t* out = to.pixels.data();
  for (const Tap& row : rows) {
    const std::uint8_t* a = from.pixels.data() + static_cast<std::size_t>(row.low) * pitch;
    const std::uint8_t* b = from.pixels.data() + static_cast<std::size_t>(row.high) * pitch;
    for (const Tap& column : columns) {
      for (int c = 0; c < channels; ++c) {
        const int l = column.low * channels + c, h = column.high * channels + c;
        const float upper = static_cast<float>(a[l]) + column.weight * static_cast<float>(a[h] - a[l]);
        const float lower = static_cast<float>(b[l]) + column.weight * static_cast<float>(b[h] - b[l]);
        *out++ = static_cast<std::uint8_t>(std::lround(upper + row.weight * (lower - upper)));
      }
    }
  }
}

}  // namespace banyan::data
