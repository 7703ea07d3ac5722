#include "data/image_resize.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "data/distortion.hpp"
#include "data/pixel_view.hpp"
#include "data/range_check.hpp"
#include "data/resampling.hpp"
#include "data/weighted_choice.hpp"

namespace banyan::data {

namespace {

using Resize = caffe::ResizeParameter;

/// Coordinate `at` of [0, length) or beyond it, where a border repeats the image: mirrored or its nearest
/// pixel.
int inside(int at, int length, Resize::Pad_mode border) {
  return border == Resize::REPEAT_NEAREST ? std::clamp(at, 0, length - 1) : mirrored_inside(at, length);
}

}  // namespace

void check_resize(const Resize& resize, const std::string& layer) {
  const RangeCheck check{layer, "transform_param.resize_param"};
  constexpr int kMost = 1 << 15;
  check("height", resize.height(), 1, kMost);
  check("width", resize.width(), 1, kMost);
  check("prob", resize.prob(), 0, 1);
  check("height_scale", resize.height_scale(), 0, kMost);
  check("width_scale", resize.width_scale(), 0, kMost);
  const auto refuse = [&](const auto&... why) {
    bad_input("layer ", quoted(layer), ": transform_param.resize_param.", why...);
  };
  if (resize.center_object())
    refuse("center_object: true is not supported: cut images to their objects before they are stored");
  if (resize.max_angle() != 0)
    refuse("max_angle must be 0, not ", resize.max_angle(), ": images are not rotated at random");
}

const Resize* draw_resize(const ResizeList& choices, ItemDraws& draws) {
  if (choices.size() < 2) return choices.empty() ? nullptr : &choices[0];
  std::vector<double> weights;
  for (const Resize& choice : choices) weights.push_back(choice.prob());
  return &choices[static_cast<int>(weighted_choice(weights, draws.next()))];
}

Resize::Interp_mode draw_interpolation(const Resize& resize, ItemDraws& draws) {
  const int mode = draws.below(std::max(resize.interp_mode_size(), 1));
  return resize.interp_mode_size() > 0 ? resize.interp_mode(mode) : Resize::LINEAR;
}

Image framed(const Image& image, const Frame& frame) {
  if (frame.height == image.height && frame.width == image.width) return image;
  Image result{image.channels, frame.height, frame.width, {}};
  result.pixels.reserve(static_cast<std::size_t>(image.channels) * static_cast<std::size_t>(frame.height) *
                        static_cast<std::size_t>(frame.width));
  std::vector<std::uint8_t> fill(static_cast<std::size_t>(image.channels), 0);
  for (std::size_t c = 0; c < fill.size() && !frame.values.empty(); ++c)
    fill[c] = static_cast<std::uint8_t>(
        std::lround(std::clamp(frame.values[std::min(c, frame.values.size() - 1)], 0.0f, 255.0f)));
  for (int y = 0; y < frame.height; ++y)
    for (int x = 0; x < frame.width; ++x) {
      int row = y - frame.top, column = x - frame.left;
      const bool outside = row < 0 || row >= image.height || column < 0 || column >= image.width;
      if (outside && frame.border == Resize::CONSTANT) {
        result.pixels.insert(result.pixels.end(), fill.begin(), fill.end());
        continue;
      }
      row = inside(row, image.height, frame.border);
      column = inside(column, image.width, frame.border);
      const std::uint8_t* pixel =
          image.pixels.data() + (std::ptrdiff_t{row} * image.width + column) * image.channels;
      result.pixels.insert(result.pixels.end(), pixel, pixel + image.channels);
    }
  return result;
}

void resize_and_pad(const Resize& resize, const Resized& to, Resize::Interp_mode how, Image& image,
                    Image& scratch) {
  const PixelBox& inner = to.inner;
  if (resize.pad_value_size() > 1 && resize.pad_value_size() != image.channels)
    bad_input("resize_param has ", resize.pad_value_size(),
              " values of pad_value (expected 1 or one per channel), but the image has ", image.channels,
              " channels");
  resize_image(image, inner.height, inner.width, how, scratch);
  if (to.height == inner.height && to.width == inner.width) return std::swap(image, scratch);
  image = framed(scratch, {to.height,
                           to.width,
                           inner.top,
                           inner.left,
                           resize.pad_mode(),
                           {resize.pad_value().begin(), resize.pad_value().end()}});
}

}  // namespace banyan::data
