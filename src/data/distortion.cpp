#include "data/distortion.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "data/range_check.hpp"

namespace banyan::data {

namespace {

std::uint8_t to_byte(double value) {
  return static_cast<std::uint8_t>(std::lround(std::clamp(value, 0.0, 255.0)));
}

/// Every value v becomes factor * v + offset.
void apply_linear(double factor, double offset, Image& image) {
  if (factor == 1 && offset == 0) return;
  std::array<std::uint8_t, 256> table{};
  for (int v = 0; v < 256; ++v) table[static_cast<std::size_t>(v)] = to_byte(factor * v + offset);
  for (std::uint8_t& pixel : image.pixels) pixel = table[pixel];
}

template <class Change>
void change_pixels(Image& image, Change&& change) {
  for (std::size_t i = 0; i + 2 < image.pixels.size(); i += 3) {
    std::uint8_t* const at = &image.pixels[i];
    const Pixel to = change(Pixel{double(at[0]), double(at[1]), double(at[2])});
    for (std::size_t c = 0; c < 3; ++c) at[c] = to_byte(to[c]);
  }
}

}  // namespace

// The largest channel stays, the others move away from it or towards it.
Pixel saturated(const Pixel& pixel, double factor) {
  const auto [least, most] = std::minmax({pixel[0], pixel[1], pixel[2]});
  if (most == least) return pixel;
  const double f = std::min(factor, most / (most - least));
  return {most - (most - pixel[0]) * f, most - (most - pixel[1]) * f, most - (most - pixel[2]) * f};
}

Pixel turned(const Pixel& pixel, double turn) {
  const auto [b, g, r] = pixel;
  const auto [least, most] = std::minmax({b, g, r});
  const double chroma = most - least;
  if (chroma == 0) return pixel;
  const double hue = most == r ? (g - b) / chroma : most == g ? 2 + (b - r) / chroma : 4 + (r - g) / chroma;
  const auto channel = [&, value = most](double offset) {
    double k = std::fmod(offset + hue + turn, 6);
    if (k < 0) k += 6;
    return value - chroma * std::clamp(std::min(k, 4 - k), 0.0, 1.0);
  };
  return {channel(1), channel(3), channel(5)};
}

void check_distortion(const caffe::DistortionParameter& d, const std::string& layer) {
  const RangeCheck check{layer, "transform_param.distort_param"};
  check("brightness_prob", d.brightness_prob(), 0, 1);
  check("contrast_prob", d.contrast_prob(), 0, 1);
  check("saturation_prob", d.saturation_prob(), 0, 1);
  check("hue_prob", d.hue_prob(), 0, 1);
  check("random_order_prob", d.random_order_prob(), 0, 1);
  check("brightness_delta", d.brightness_delta(), 0);
  check("hue_delta", d.hue_delta(), 0);
  check("contrast_lower", d.contrast_lower(), 0);
  check("contrast_upper", d.contrast_upper(), d.contrast_lower());
  check("saturation_lower", d.saturation_lower(), 0);
  check("saturation_upper", d.saturation_upper(), d.saturation_lower());
}

Distortion draw_distortion(const caffe::DistortionParameter& settings, ItemDraws& draws) {
  Distortion drawn;
  drawn.contrast_first = draws.next() >= 0.5;
  draws.maybe(settings.brightness_prob(), -settings.brightness_delta(), settings.brightness_delta(),
              drawn.brightness);
  draws.maybe(settings.contrast_prob(), settings.contrast_lower(), settings.contrast_upper(), drawn.contrast);
  draws.maybe(settings.saturation_prob(), settings.saturation_lower(), settings.saturation_upper(),
              drawn.saturation);
  draws.maybe(settings.hue_prob(), -settings.hue_delta(), settings.hue_delta(), drawn.hue);
  const bool reordered = draws.next() < settings.random_order_prob();
  const int first = draws.below(3), second = draws.below(2);
  if (reordered) {
    std::swap(drawn.order[0], drawn.order[static_cast<std::size_t>(first)]);
    std::swap(drawn.order[1], drawn.order[static_cast<std::size_t>(1 + second)]);
  }
  return drawn;
}

double ItemDraws::normal(double deviation) {
  const double radius = std::sqrt(-2 * std::log(1 - next()));
  return deviation * radius * std::cos(2 * std::numbers::pi * next());
}

std::array<double, 3> draw_lighting(double noise, ItemDraws& draws) {
  // Of colours in [0, 1]; one component per row, its entries for R, G, B.
  constexpr double kEigenvalues[3] = {0.2175, 0.0188, 0.0045};
  constexpr double kComponents[3][3] = {
      {-0.5675, -0.5808, -0.5836}, {0.7192, -0.0045, -0.6948}, {0.4009, -0.8140, 0.4203}};
  std::array<double, 3> light{};
  for (int k = 0; k < 3; ++k) {
    const double number = draws.normal(1);
    for (int c = 0; c < 3; ++c)
      light[static_cast<std::size_t>(2 - c)] += 255 * noise * number * kEigenvalues[k] * kComponents[k][c];
  }
  return light;
}

void add_light(const std::array<double, 3>& light, Image& image) {
  change_pixels(image, [&](const Pixel& pixel) {
    return Pixel{pixel[0] + light[0], pixel[1] + light[1], pixel[2] + light[2]};
  });
}

void distort(const Distortion& d, Image& image) {
  apply_linear(1, d.brightness, image);
  if (d.contrast_first) apply_linear(d.contrast, 0, image);
  if (image.channels == 3) {
    if (d.saturation != 1) change_pixels(image, [&](const Pixel& p) { return saturated(p, d.saturation); });
    if (d.hue != 0) change_pixels(image, [&](const Pixel& p) { return turned(p, d.hue / 30); });
  }
  if (!d.contrast_first) apply_linear(d.contrast, 0, image);
  if (image.channels == 3 && d.order != std::array{0, 1, 2})
    change_pixels(image, [&](const Pixel& p) {
      Pixel to{};
      for (std::size_t c = 0; c < 3; ++c) to[static_cast<std::size_t>(d.order[c])] = p[c];
      return to;
    });
}

}  // namespace banyan::data
