#include "data/image_filters.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <vector>

#include "data/pixel_view.hpp"

namespace banyan::data {

namespace {

using Table = std::array<std::uint8_t, 256>;  ///< what each byte becomes
using Counts = std::array<int, 256>;

std::uint8_t to_byte(float value) {
  return static_cast<std::uint8_t>(std::clamp(std::lrint(value), 0L, 255L));
}

PixelView view_of(const Image& image) {
  return data::view_of(image.pixels.data(), image.channels, image.height, image.width, true);
}

/// Calls change(c, y, x) for each value of a copy's, in the order of memory, and takes what it returns.
template <class Change>
void change_values(Image& image, Change&& change) {
  std::uint8_t* to = image.pixels.data();
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x)
      for (int c = 0; c < image.channels; ++c) *to++ = change(c, y, x);
}

constexpr int kTiles = 8;  // in each direction

/// The rectangle of one of the tiles; the last ones reach into the mirrored image where sides do not divide.
struct Tile {
  int height, width;
  explicit Tile(const Image& image) : height(image.height / kTiles), width(image.width / kTiles) {
    // As there: a side that divides grows by a pixel, too, if the other does not.
    if (image.height % kTiles == 0 && image.width % kTiles == 0) return;
    ++height;
    ++width;
  }
};

/// What is above the limit is cut off and spread over all bytes.
void limit(int most, Counts& counts) {
  int over = 0;
  for (int& count : counts) {
    over += std::max(count - most, 0);
    count = std::min(count, most);
  }
  const int rest = over % 256, step = rest > 0 ? std::max(256 / rest, 1) : 1;
  for (int& count : counts) count += over / 256;
  for (int k = 0; k < rest; ++k) ++counts[static_cast<std::size_t>(k * step)];
}

Table equalizer_of_tile(const PixelView& view, const Tile& tile, int row, int column) {
  constexpr int kMostContrast = 4;
  Counts counts{};
  for (int y = 0; y < tile.height; ++y)
    for (int x = 0; x < tile.width; ++x)
      ++counts[view.at(0, mirrored_inside(row * tile.height + y, view.height),
                       mirrored_inside(column * tile.width + x, view.width))];
  const int pixels = tile.height * tile.width;
  limit(std::max(kMostContrast * pixels / 256, 1), counts);
  Table bytes{};
  const float scale = 255.0F / static_cast<float>(pixels);
  int sum = 0;
  for (std::size_t v = 0; v < 256; ++v) {
    sum += counts[v];
    bytes[v] = to_byte(static_cast<float>(sum) * scale);
  }
  return bytes;
}

/// Between the centres of which two tiles a pixel lies, and the share of the second one.
struct Between {
  int first, second;
  float share;
  Between(int at, float inverse_length) {
    const float place = static_cast<float>(at) * inverse_length - 0.5F;
    const int low = static_cast<int>(std::floor(place));
    share = place - static_cast<float>(low);
    first = std::max(low, 0);
    second = std::min(low + 1, kTiles - 1);
  }
};

}  // namespace

void blur(Image& image) {
  constexpr int kWeights[] = {9, 29, 55, 70, 55, 29, 9};  // in parts of 256
  constexpr int kReach = 3;
  const auto channels = static_cast<std::size_t>(image.channels);
  const std::size_t pitch = static_cast<std::size_t>(image.width) * channels;
  std::vector<int> sums(image.pixels.size());  // along rows, in parts of 256
  std::vector<std::uint8_t> row;               // with its mirrored pixels on both sides
  for (int y = 0; y < image.height; ++y) {
    row.clear();
    const std::uint8_t* const from = image.pixels.data() + static_cast<std::size_t>(y) * pitch;
    for (int x = -kReach; x < image.width + kReach; ++x) {
      const std::uint8_t* const pixel = from + mirrored_inside(x, image.width) * image.channels;
      row.insert(row.end(), pixel, pixel + channels);
    }
    int* const to = sums.data() + static_cast<std::size_t>(y) * pitch;
    for (std::size_t k = 0; k < std::size(kWeights); ++k)
      for (std::size_t i = 0; i < pitch; ++i) to[i] += kWeights[k] * row[k * channels + i];
  }
  std::vector<int> total(pitch);
  for (int y = 0; y < image.height; ++y) {
    std::fill(total.begin(), total.end(), 1 << 15);
    for (int k = -kReach; k <= kReach; ++k) {
      const int* const from =
          sums.data() + static_cast<std::size_t>(mirrored_inside(y + k, image.height)) * pitch;
      for (std::size_t i = 0; i < pitch; ++i) total[i] += kWeights[k + kReach] * from[i];
    }
    std::transform(total.begin(), total.end(), image.pixels.begin() + y * static_cast<std::ptrdiff_t>(pitch),
                   [](int sum) { return static_cast<std::uint8_t>(sum >> 16); });
  }
}

void erode(Image& image) {
  const Image from = image;
  const PixelView view = view_of(from);
  change_values(image, [&](int c, int y, int x) {
    std::uint8_t least = view.at(c, y, x);
    if (y > 0) least = std::min(least, view.at(c, y - 1, x));
    if (x > 0) least = std::min(least, view.at(c, y, x - 1));
    if (y + 1 < view.height) least = std::min(least, view.at(c, y + 1, x));
    if (x + 1 < view.width) least = std::min(least, view.at(c, y, x + 1));
    return least;
  });
}

void equalize(Image& image) {
  const auto channels = static_cast<std::size_t>(image.channels);
  Counts counts{};
  for (std::size_t i = 0; i < image.pixels.size(); i += channels) ++counts[image.pixels[i]];
  std::size_t first = 0;
  while (first < 255 && counts[first] == 0) ++first;
  const int others = static_cast<int>(image.pixels.size() / channels) - counts[first];
  if (others == 0) return;
  Table bytes{};
  const float scale = 255.0F / static_cast<float>(others);
  int sum = 0;
  for (std::size_t v = first + 1; v < 256; ++v) {
    sum += counts[v];
    bytes[v] = to_byte(static_cast<float>(sum) * scale);
  }
  for (std::size_t i = 0; i < image.pixels.size(); i += channels) image.pixels[i] = bytes[image.pixels[i]];
}

void equalize_tiles(Image& image) {
  const PixelView view = view_of(image);
  const Tile tile(image);
  std::array<std::array<Table, kTiles>, kTiles> tiles;
  for (int row = 0; row < kTiles; ++row)
    for (int column = 0; column < kTiles; ++column)
      tiles[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)] =
          equalizer_of_tile(view, tile, row, column);
  const float over_height = 1.0F / static_cast<float>(tile.height),
              over_width = 1.0F / static_cast<float>(tile.width);
  std::vector<Between> columns;
  for (int x = 0; x < image.width; ++x) columns.emplace_back(x, over_width);
  std::uint8_t* pixel = image.pixels.data();
  for (int y = 0; y < image.height; ++y) {
    const Between down(y, over_height);
    const auto &upper = tiles[static_cast<std::size_t>(down.first)],
               &lower = tiles[static_cast<std::size_t>(down.second)];
    for (const Between& right : columns) {
      const auto mixed = [&](const auto& row) {
        return static_cast<float>(row[static_cast<std::size_t>(right.first)][*pixel]) * (1 - right.share) +
               static_cast<float>(row[static_cast<std::size_t>(right.second)][*pixel]) * right.share;
      };
      *pixel = to_byte(mixed(upper) * (1 - down.share) + mixed(lower) * down.share);
      pixel += image.channels;
    }
  }
}

}  // namespace banyan::data
