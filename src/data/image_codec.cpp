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

/// For each output coordinate: the two input coordinates and their weights, in parts of 2048.
struct Tap {
  int low, high, low_weight, high_weight;
};

/// Beyond the border a column is the last one alone, a row the last one twice, which may round otherwise.
enum class Of : std::uint8_t { rows, columns };

std::vector<Tap> taps(Of of, int from, int to) {
  std::vector<Tap> result(static_cast<std::size_t>(to));
  const double step = static_cast<double>(from) / to;
  for (int i = 0; i < to; ++i) {
    const auto center = static_cast<float>((i + 0.5) * step - 0.5);
    int low = static_cast<int>(std::floor(center));
    float weight = center - static_cast<float>(low);
    if (of == Of::columns && (low < 0 || low >= from - 1)) {
      low = std::clamp(low, 0, from - 1);
      weight = 0;
    }
    const auto parts = [](float share) { return static_cast<int>(std::lrint(share * 2048)); };
    result[static_cast<std::size_t>(i)] = {std::clamp(low, 0, from - 1), std::clamp(low + 1, 0, from - 1),
                                           parts(1 - weight), parts(weight)};
  }
  return result;
}

/// The mean of 2 x 2 pixels.
void halve(const Image& from, Image& to) {
  const std::size_t channels = static_cast<std::size_t>(from.channels),
                    pitch = static_cast<std::size_t>(from.width) * channels;
  std::uint8_t* out = to.pixels.data();
  for (int y = 0; y < to.height; ++y) {
    const std::uint8_t* row = from.pixels.data() + 2 * static_cast<std::size_t>(y) * pitch;
    for (int x = 0; x < to.width; ++x, row += 2 * channels)
      for (std::size_t c = 0; c < channels; ++c)
        *out++ = static_cast<std::uint8_t>(
            (row[c] + row[c + channels] + row[c + pitch] + row[c + pitch + channels] + 2) >> 2);
  }
}

}  // namespace

void resize_bilinear(const Image& from, int height, int width, Image& to) {
  if (height < 1 || width < 1 || from.height < 1 || from.width < 1)
    bad_input("cannot resize an image from ", from.height, " x ", from.width, " to ", height, " x ", width);
  const auto channels = static_cast<std::size_t>(from.channels);
  to.channels = from.channels;
  to.height = height;
  to.width = width;
  const std::size_t pitch = static_cast<std::size_t>(from.width) * channels,
                    new_pitch = static_cast<std::size_t>(width) * channels;
  to.pixels.resize(static_cast<std::size_t>(height) * new_pitch);
  if (from.height == 2 * height && from.width == 2 * width) return halve(from, to);
  const std::vector<Tap> rows = taps(Of::rows, from.height, height),
                         columns = taps(Of::columns, from.width, width);
  // Input rows at the new width, in parts of 128, made when they are first needed.
  std::vector<int> wide[2];
  int made[2] = {-1, -1};
  const auto widened = [&](int y) -> const int* {
    std::vector<int>& sums = wide[y & 1];
    if (made[y & 1] == y) return sums.data();
    made[y & 1] = y;
    sums.resize(new_pitch);
    const std::uint8_t* row = from.pixels.data() + static_cast<std::size_t>(y) * pitch;
    int* out = sums.data();
    for (const Tap& column : columns) {
      const std::uint8_t *low = row + static_cast<std::size_t>(column.low) * channels,
                         *high = row + static_cast<std::size_t>(column.high) * channels;
      for (std::size_t c = 0; c < channels; ++c)
        *out++ = (low[c] * column.low_weight + high[c] * column.high_weight) >> 4;
    }
    return sums.data();
  };
  std::uint8_t* out = to.pixels.data();
  for (const Tap& row : rows) {
    const int *upper = widened(row.low), *lower = widened(row.high);
    for (std::size_t i = 0; i < new_pitch; ++i)
      *out++ = static_cast<std::uint8_t>(
          ((row.low_weight * upper[i] >> 16) + (row.high_weight * lower[i] >> 16) + 2) >> 2);
  }
}

}  // namespace banyan::data
