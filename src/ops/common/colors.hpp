// Images in other colour spaces, for every back end (see backend.hpp). sRGB (IEC 61966-2-1) and CIE 1976.
#pragma once

#include <cmath>

#include "banyan/ops/colors.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"

namespace banyan::ops {
namespace detail {

/// One pixel.
template <class T>
struct Color {
  T a, b, c;
};

/// The curve between linear light and values of 0 to 1.
template <class T>
BANYAN_HOST_DEVICE inline T light_of(T v) {
  return v <= T(0.04045) ? v / T(12.92) : std::pow((v + T(0.055)) / T(1.055), T(2.4));
}
template <class T>
BANYAN_HOST_DEVICE inline T value_of(T light) {
  return light <= T(0.0031308) ? light * T(12.92) : T(1.055) * std::pow(light, T(1 / 2.4)) - T(0.055);
}

template <class T>
BANYAN_HOST_DEVICE inline Color<T> xyz_of_rgb(const Color<T>& rgb) {
  const T r = light_of(rgb.a / T(255)), g = light_of(rgb.b / T(255)), b = light_of(rgb.c / T(255));
  return {T(0.4124564) * r + T(0.3575761) * g + T(0.1804375) * b,
          T(0.2126729) * r + T(0.7151522) * g + T(0.0721750) * b,
          T(0.0193339) * r + T(0.1191920) * g + T(0.9503041) * b};
}
template <class T>
BANYAN_HOST_DEVICE inline Color<T> rgb_of_xyz(const Color<T>& xyz) {
  const T r = T(3.2404542) * xyz.a - T(1.5371385) * xyz.b - T(0.4985314) * xyz.c;
  const T g = -T(0.9692660) * xyz.a + T(1.8760108) * xyz.b + T(0.0415560) * xyz.c;
  const T b = T(0.0556434) * xyz.a - T(0.2040259) * xyz.b + T(1.0572252) * xyz.c;
  return {value_of(r) * T(255), value_of(g) * T(255), value_of(b) * T(255)};
}

/// White of the illuminant D65, as that branch has it; Y is 1.
constexpr double kWhiteX = 0.95074, kWhiteZ = 1.08883;

/// The curve of lightness.
template <class T>
BANYAN_HOST_DEVICE inline T lightness_of(T v) {
  return v > T(0.008867) ? std::cbrt(v) : (T(903.3) * v + T(16)) / T(116);
}
template <class T>
BANYAN_HOST_DEVICE inline T share_of_white(T v) {
  return v > T(0.206896) ? v * v * v : (T(116) * v - T(16)) / T(903.3);
}

template <class T>
BANYAN_HOST_DEVICE inline Color<T> lab_of_xyz(const Color<T>& xyz) {
  const T x = lightness_of(xyz.a / T(kWhiteX)), y = lightness_of(xyz.b), z = lightness_of(xyz.c / T(kWhiteZ));
  return {T(116) * y - T(16), T(500) * (x - y), T(200) * (y - z)};
}
template <class T>
BANYAN_HOST_DEVICE inline Color<T> xyz_of_lab(const Color<T>& lab) {
  const T y = (lab.a + T(16)) / T(116);
  return {share_of_white(y + lab.b / T(500)) * T(kWhiteX), share_of_white(y),
          share_of_white(y - lab.c / T(200)) * T(kWhiteZ)};
}

template <class T>
struct ConvertColors {
  ColorConversion what;
  std::int64_t from_channels, to_channels;
  const T* x;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t sample = i / what.pixels, pixel = i - sample * what.pixels;
    const T* const from = x + sample * from_channels * what.pixels + pixel;
    const bool gray = what.from == Colors::gray;
    Color<T> color{from[0], from[gray ? 0 : what.pixels], from[gray ? 0 : 2 * what.pixels]};
    if (what.from == Colors::bgr) color = {color.c, color.b, color.a};
    if (what.from != what.to) color = converted(color);
    T* const to = y + sample * to_channels * what.pixels + pixel;
    if (what.to == Colors::bgr) color = {color.c, color.b, color.a};
    to[0] = color.a;
    if (what.to == Colors::gray) return;
    to[what.pixels] = color.b;
    to[2 * what.pixels] = color.c;
  }

 private:
  /// Of red, green, blue or of XYZ or L*a*b*.
  BANYAN_HOST_DEVICE Color<T> converted(Color<T> color) const {
    const bool from_light = what.from == Colors::xyz || what.from == Colors::lab;
    const bool to_light = what.to == Colors::xyz || what.to == Colors::lab;
    if (what.from == Colors::lab) color = xyz_of_lab(color);
    if (from_light && !to_light) color = rgb_of_xyz(color);
    if (!from_light && to_light) color = xyz_of_rgb(color);
    if (what.to == Colors::lab) color = lab_of_xyz(color);
    if (what.to == Colors::gray)
      color.a = T(0.2126729) * color.a + T(0.7151522) * color.b + T(0.0721750) * color.c;
    return color;
  }
};

}  // namespace detail

template <class Backend>
void convert_colors_on(Context& context, const Tensor& x, const ColorConversion& what, Tensor& y) {
  const std::int64_t from = channels_of(what.from), to = channels_of(what.to);
  if (x.count() == 0) return;
  const std::int64_t samples = x.count() / (from * what.pixels);
  require_count("convert_colors", x, samples * from * what.pixels);
  require_count("convert_colors", y, samples * to * what.pixels);
  dispatch_float(x.dtype(), "convert_colors", [&]<class T>() {
    Backend::for_each_long(context, samples * what.pixels, 8,
                           detail::ConvertColors<T>{what, from, to, x.data<T>(), y.data<T>()});
  });
}

template <class Backend>
struct DefineColors {
  DefineColors() { convert_colors.define(Backend::kind, &convert_colors_on<Backend>); }
};

}  // namespace banyan::ops
