#include "data/noise.hpp"

#include <cmath>
#include <cstddef>
#include <vector>

#include "banyan/base/error.hpp"
#include "data/colour_spaces.hpp"
#include "data/distortion.hpp"
#include "data/image_filters.hpp"
#include "data/jpeg.hpp"
#include "data/range_check.hpp"

namespace banyan::data {

namespace {

using Noise = caffe::NoiseParameter;

bool needs_colours(const Noise& noise) {
  return noise.decolorize() || noise.convert_to_hsv() || noise.convert_to_lab();
}

void check_channels(const Noise& noise, const Image& image) {
  const auto refuse = [&](const auto&... why) {
    bad_input("the image has ", image.channels, image.channels == 1 ? " channel; " : " channels; ", why...);
  };
  if (image.channels != 3 && needs_colours(noise))
    refuse("decolorize, convert_to_hsv and convert_to_lab of noise_param need 3 (force_color)");
  const bool gray_or_colours = noise.hist_eq() || noise.clahe() || noise.jpeg() > 0 || noise.saltpepper();
  if (image.channels != 1 && image.channels != 3 && gray_or_colours)
    refuse("hist_eq, clahe, jpeg and saltpepper of noise_param need 1 or 3");
  const int values = noise.saltpepper_param().value_size();
  if (noise.saltpepper() && values != 1 && values != image.channels)
    refuse("saltpepper_param has ", values, " values (expected 1 or one per channel)");
}

/// Of a colour image the luma only.
template <class Change>
void change_light(Image& image, Change&& change) {
  if (image.channels == 3) ycrcb_from_bgr(image);
  change(image);
  if (image.channels == 3) bgr_from_ycrcb(image);
}

/// What is left of the image as a JPEG file.
void compress(int quality, Image& image) {
  const std::vector<std::uint8_t> bytes = encode_jpeg(image, {quality, true});
  decode_jpeg(bytes.data(), bytes.size(), ColorMode::as_stored, image, {});
}

template <class Change>
void change_values(Image& image, Change&& change) {
  for (std::uint8_t& value : image.pixels) value = static_cast<std::uint8_t>(change(value));
}

/// So many pixels, perhaps one several times, get these values.
void season(const caffe::SaltPepperParameter& from, ItemDraws& draws, Image& image) {
  const auto count = static_cast<std::int64_t>(
      std::floor(from.fraction() * static_cast<float>(image.width) * static_cast<float>(image.height)));
  for (std::int64_t k = 0; k < count; ++k) {
    const int column = draws.below(image.width), row = draws.below(image.height);
    std::uint8_t* const pixel =
        &image.pixels[(static_cast<std::size_t>(row) * static_cast<std::size_t>(image.width) +
                       static_cast<std::size_t>(column)) *
                      static_cast<std::size_t>(image.channels)];
    for (int c = 0; c < image.channels; ++c)
      pixel[c] = static_cast<std::uint8_t>(from.value(from.value_size() == 1 ? 0 : c));
  }
}

}  // namespace

void check_noise(const Noise& noise, const std::string& layer) {
  const RangeCheck check{layer, "transform_param.noise_param"};
  check("prob", noise.prob(), 0, 1);
  if (!(noise.jpeg() <= 0)) check("jpeg", noise.jpeg(), 1, 100);
  const caffe::SaltPepperParameter& pixels = noise.saltpepper_param();
  const RangeCheck check_pixels{layer, "transform_param.noise_param.saltpepper_param"};
  check_pixels("fraction", pixels.fraction(), 0, 1);
  for (const float value : pixels.value()) check_pixels("value", value, 0, 255);
  const auto refuse = [&](const auto&... why) {
    bad_input("layer ", quoted(layer), ": transform_param.noise_param.", why...);
  };
  if (noise.saltpepper() && pixels.value_size() != 1 && pixels.value_size() != 3)
    refuse("saltpepper needs one value in saltpepper_param, or three (blue, green, red), not ",
           pixels.value_size());
  if (noise.convert_to_hsv() && noise.convert_to_lab())
    refuse("convert_to_hsv and convert_to_lab exclude each other");
}

bool has_noise(const Noise& noise) {
  return needs_colours(noise) || noise.gauss_blur() || noise.hist_eq() || noise.clahe() || noise.jpeg() > 0 ||
         noise.erode() || noise.posterize() || noise.inverse() || noise.saltpepper();
}

void add_noise(const Noise& noise, ItemDraws& draws, Image& image) {
  check_channels(noise, image);
  const bool drawn = draws.next() < noise.prob();
  if (noise.has_prob() && !drawn) return;
  if (noise.decolorize()) decolorize(image);
  if (noise.gauss_blur()) blur(image);
  if (noise.hist_eq()) change_light(image, equalize);
  if (noise.clahe()) change_light(image, equalize_tiles);
  if (noise.jpeg() > 0) compress(static_cast<int>(noise.jpeg()), image);
  if (noise.erode()) erode(image);
  if (noise.posterize()) change_values(image, [](int value) { return value / 64 * 64 + 32; });
  if (noise.inverse()) change_values(image, [](int value) { return 255 - value; });
  if (noise.saltpepper()) season(noise.saltpepper_param(), draws, image);
  if (noise.convert_to_hsv()) hsv_from_bgr(image);
  if (noise.convert_to_lab()) lab_from_bgr(image);
}

}  // namespace banyan::data
