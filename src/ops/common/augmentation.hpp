// Augmentation of images and flows for every back end (see backend.hpp): one pixel of the result per index.
#pragma once

#include <cmath>

#include "ops/common/augmentation_rows.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/pass_key.hpp"

namespace banyan::ops {
namespace detail {

template <class T>
BANYAN_HOST_DEVICE inline T color_coordinate(const ColorAxes& axes, int which, const T* rgb) {
  const double* const axis = axes.at + 3 * which;
  return static_cast<T>(axis[0]) * rgb[0] + static_cast<T>(axis[1]) * rgb[1] +
         static_cast<T>(axis[2]) * rgb[2];
}

template <class T>
struct ColorMoments {
  struct State {
    double pixels, sum[3], largest[3];
  };
  ColorAxes axes;
  std::int64_t plane;
  int rank;
  const T* x;
  double* message;

  BANYAN_HOST_DEVICE State identity() const { return {0, {0, 0, 0}, {0, 0, 0}}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t) const {
    const T* const pixel = x + i / plane * 3 * plane + i % plane;
    const double rgb[3] = {static_cast<double>(pixel[0]), static_cast<double>(pixel[plane]),
                           static_cast<double>(pixel[2 * plane])};
    s.pixels += 1;
    for (int c = 0; c < 3; ++c) {
      s.sum[c] += rgb[c];
      s.largest[c] = std::fmax(s.largest[c], std::fabs(color_coordinate(axes, c, rgb)));
    }
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const {
    into.pixels += later.pixels;
    for (int c = 0; c < 3; ++c) {
      into.sum[c] += later.sum[c];
      into.largest[c] = std::fmax(into.largest[c], later.largest[c]);
    }
  }
  BANYAN_HOST_DEVICE void store(std::int64_t, const State& s) const {
    message[0] = s.pixels;
    for (int c = 0; c < 3; ++c) {
      message[1 + c] = s.sum[c];
      message[4 + 3 * rank + c] = s.largest[c];
    }
  }
};

/// What counts as nothing among colours.
constexpr double kLeastColor = 1e-2;

struct FinishColors {
  ColorAxes axes;
  std::int64_t devices;
  const double* message;
  double* space;  ///< 0: means of the channels; 3, 6: of the coordinates, their largest; 9: length of these

  BANYAN_HOST_DEVICE void operator()(std::int64_t) const {
    double square = 0;
    for (int c = 0; c < 3; ++c) {
      space[c] = message[1 + c] / std::fmax(message[0], 1.0);
      double largest = 0;
      for (std::int64_t d = 0; d < devices; ++d) largest = std::fmax(largest, message[4 + 3 * d + c]);
      space[6 + c] = largest;
      square += largest * largest;
    }
    for (int c = 0; c < 3; ++c) {
      const double mean = color_coordinate(axes, c, space);
      space[3 + c] = space[6 + c] > kLeastColor ? mean / space[6 + c] : mean;
    }
    space[9] = std::sqrt(square);
  }
};

template <class T>
BANYAN_HOST_DEVICE inline T signed_power(T value, T power) {
  return std::copysign(std::pow(std::fabs(value), power), value);
}

template <class T>
struct AugmentImages {
  std::int64_t channels, height, width, cut_height, cut_width;
  ColorLimits limits;
  RandomKey key;
  SampleIndex samples;
  const double *table, *space;
  const T* x;
  T* y;

  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t plane = cut_height * cut_width, image = i / plane, pixel = i % plane;
    const std::int64_t row = pixel / cut_width, column = pixel % cut_width;
    const double* const of_sample = table + image * augmentation::kRow;
    T* const to = y + image * channels * plane + pixel;
    cut(PixelMap(of_sample), image, row, column, to);
    if (channels != 3) return;
    const bool colors = of_sample[kOfColors] > 0 && space != nullptr, contrast = of_sample[kOfContrast] > 0,
               effects = of_sample[kOfEffects] > 0;
    if (!colors && !contrast && !effects) return;
    const double* const how = of_sample + augmentation::kMatrix;
    T rgb[3] = {to[0], to[plane], to[2 * plane]};
    if (colors) change_colors(how, rgb);
    if (contrast) change_contrast(how, rgb);
    if (effects) add_effects(how, image, pixel, rgb);
    for (int c = 0; c < 3; ++c) to[c * plane] = rgb[c];
  }

 private:
  BANYAN_HOST_DEVICE static T within(T value, T least, T most) {
    return std::fmax(least, std::fmin(value, most));
  }
  BANYAN_HOST_DEVICE T most() const { return static_cast<T>(limits.most); }

  /// Bilinear; what is outside is as the nearest pixel inside.
  BANYAN_HOST_DEVICE void cut(const PixelMap& map, std::int64_t image, std::int64_t row, std::int64_t column,
                              T* to) const {
    const auto px = static_cast<double>(column), py = static_cast<double>(row);
    const double across = std::fmax(0.0, std::fmin(map.column(px, py), static_cast<double>(width - 1))),
                 down = std::fmax(0.0, std::fmin(map.row(px, py), static_cast<double>(height - 1)));
    const auto left = static_cast<std::int64_t>(across), top = static_cast<std::int64_t>(down);
    const T right_part = static_cast<T>(across - static_cast<double>(left)),
            lower_part = static_cast<T>(down - static_cast<double>(top));
    const std::int64_t right = right_part > T(0) ? 1 : 0, below = lower_part > T(0) ? width : 0;
    for (std::int64_t c = 0; c < channels; ++c) {
      const T* const corner = x + ((image * channels + c) * height + top) * width + left;
      const T upper = (T(1) - right_part) * corner[0] + right_part * corner[right];
      const T lower = (T(1) - right_part) * corner[below] + right_part * corner[below + right];
      to[c * cut_height * cut_width] = (T(1) - lower_part) * upper + lower_part * lower;
    }
  }

  /// A coefficient of the sample.
  struct Numbers {
    const double* row;
    BANYAN_HOST_DEVICE T operator()(int place) const { return static_cast<T>(row[place]); }
  };

  BANYAN_HOST_DEVICE void change_colors(const double* how, T* rgb) const {
    using namespace augmentation;
    const T least = static_cast<T>(kLeastColor);
    const Numbers number{how};
    T largest[3], at[3];
    for (int c = 0; c < 3; ++c) rgb[c] -= static_cast<T>(space[c]);
    for (int c = 0; c < 3; ++c) {
      largest[c] = static_cast<T>(space[6 + c]);
      at[c] = color_coordinate(limits.axes, c, rgb);
      if (largest[c] > least)
        at[c] = (signed_power(at[c] / largest[c], number(pow_around + c)) + number(add_around + c)) *
                number(mult_around + c);
    }
    for (int c = 0; c < 3; ++c) at[c] += static_cast<T>(space[3 + c]);
    if (largest[0] > least)
      at[0] = (signed_power(at[0], number(pow_whole)) + number(add_whole)) * number(mult_whole);
    const T saturation = std::sqrt(at[1] * at[1] + at[2] * at[2]);
    T wanted = saturation;
    if (saturation > least)
      wanted = std::fmax(std::pow(saturation, number(pow_whole + 1)) + number(add_whole + 1), T(0)) *
               number(mult_whole + 1);
    if (how[color_angle] != 0) {
      const T cosine = std::cos(number(color_angle)), sine = std::sin(number(color_angle));
      const T second = cosine * at[1] - sine * at[2];
      at[2] = sine * at[1] + cosine * at[2];
      at[1] = second;
    }
    for (int c = 0; c < 3; ++c)
      if (largest[c] > least) at[c] *= largest[c];
    const T whole = static_cast<T>(space[9]);
    const T before = length(at) / std::fmax(whole, least);
    if (saturation > least)
      for (int c = 1; c < 3; ++c) at[c] = at[c] / saturation * wanted;
    if (whole > least) {
      const T now = length(at);
      const T light = std::fmax(std::pow(before, number(light_pow)) + number(light_add), T(0)) *
                      number(light_mult) * whole;
      for (int c = 0; c < 3 && now > least; ++c) at[c] = std::fmin(at[c] / now * light, largest[c]);
    }
    for (int c = 0; c < 3; ++c) {
      const double* const axes = limits.axes.at + c;
      const T value =
          static_cast<T>(axes[0]) * at[0] + static_cast<T>(axes[3]) * at[1] + static_cast<T>(axes[6]) * at[2];
      rgb[c] = within(value, T(0), most());
    }
  }
  BANYAN_HOST_DEVICE static T length(const T* at) {
    return std::sqrt(at[0] * at[0] + at[1] * at[1] + at[2] * at[2]);
  }

  BANYAN_HOST_DEVICE void change_contrast(const double* how, T* rgb) const {
    using namespace augmentation;
    T before = 0, after = 0;
    for (int c = 0; c < 3; ++c) {
      before += rgb[c];
      rgb[c] *= static_cast<T>(how[color + c]);
      after += rgb[c];
    }
    const T keeps = before / (after + T(0.01));
    for (int c = 0; c < 3; ++c) {
      T value = std::pow(within(rgb[c] * keeps, T(0), T(1)), static_cast<T>(how[gamma]));
      value += static_cast<T>(how[brightness]);
      value = T(0.5) + (value - T(0.5)) * static_cast<T>(how[contrast]);
      rgb[c] = within(value, T(0), most());
    }
  }

  BANYAN_HOST_DEVICE void add_effects(const double* how, std::int64_t image, std::int64_t pixel,
                                      T* rgb) const {
    using namespace augmentation;
    const auto right = static_cast<double>(pixel % cut_width - cut_width / 2),
               down = static_cast<double>(pixel / cut_width - cut_height / 2);
    const bool dark =
        right * std::cos(how[shadow_angle]) + down * std::sin(how[shadow_angle]) > how[shadow_distance];
    for (int c = 0; c < 3; ++c)
      rgb[c] = within(rgb[c] - (dark ? static_cast<T>(how[shadow_strength]) : T(0)), T(0), most());
    if (!(how[noise] > 0)) return;
    const Philox4 bits = random_quad(key, samples.first + image * samples.stride, pixel);
    const NormalPair two = normal_pair(bits.v[0], bits.v[1]), other = normal_pair(bits.v[2], bits.v[3]);
    rgb[0] += static_cast<T>(how[noise] * two.first);
    rgb[1] += static_cast<T>(how[noise] * two.second);
    rgb[2] += static_cast<T>(how[noise] * other.first);
  }
};

template <class T>
struct AugmentFlow {
  std::int64_t height, width, cut_height, cut_width;
  const double *first, *second;
  const T* x;
  T* y;

  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t plane = cut_height * cut_width, image = i / plane, pixel = i % plane;
    const auto px = static_cast<double>(pixel % cut_width), py = static_cast<double>(pixel / cut_width);
    const PixelMap from(first + image * augmentation::kRow), into(second + image * augmentation::kRow);
    const double column = from.column(px, py), row = from.row(px, py);
    const T* const flow =
        x + image * 2 * height * width + nearest(row, height) * width + nearest(column, width);
    const double right = column + static_cast<double>(flow[0]) - into.x,
                 down = row + static_cast<double>(flow[height * width]) - into.y;
    const double area = into.xx * into.yy - into.xy * into.yx;
    T* const to = y + image * 2 * plane + pixel;
    to[0] = static_cast<T>((into.yy * right - into.xy * down) / area - px);
    to[plane] = static_cast<T>((into.xx * down - into.yx * right) / area - py);
  }

 private:
  BANYAN_HOST_DEVICE static std::int64_t nearest(double value, std::int64_t length) {
    return static_cast<std::int64_t>(
        std::fmax(0.0, std::fmin(std::floor(value + 0.5), static_cast<double>(length - 1))));
  }
};

template <class T>
struct RunningMean {
  std::int64_t most;
  const double* moments;
  const T* count;
  T* mean;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const auto before = static_cast<double>(count[0]);
    if (moments[0] > 0 && before < static_cast<double>(most))
      mean[i] = static_cast<T>((before * static_cast<double>(mean[i]) + moments[1 + i]) / (before + 1));
  }
};

template <class T>
struct CountOneMore {
  const double* moments;
  T* count;
  BANYAN_HOST_DEVICE void operator()(std::int64_t) const {
    if (moments[0] > 0) count[0] += T(1);
  }
};

inline std::int64_t augmentation_rows(const char* op, const Tensor& rows, int length) {
  const std::int64_t count = rows.count() / length;
  require_count(op, rows, count * length);
  return count;
}

inline void require_images(const char* op, const Tensor& x, const Tensor& y) {
  const Shape &from = x.shape(), &to = y.shape();
  if (from.axes() != 4 || to.axes() != 4 || from[0] != to[0] || from[1] != to[1] || !x.is_contiguous() ||
      !y.is_contiguous())
    runtime_failure(op, ": ", from.to_string(), " and ", to.to_string(), " do not match");
}

}  // namespace detail

template <class Backend>
void draw_augmentation_on(Context& context, const AugmentationDraws& how, const PassKey& key,
                          const SampleIndex& samples, const Tensor& from, Tensor& to) {
  const std::int64_t count = detail::augmentation_rows("draw_augmentation", to, augmentation::kNumbers);
  if (from.defined()) require_alike("draw_augmentation", from, to);
  dispatch_float(to.dtype(), "draw_augmentation", [&]<class T>() {
    const detail::DrawAugmentation<T> functor{how.spatial(), {key.seed, key.stream, 0},
                                              samples,       from.defined() ? from.data<T>() : nullptr,
                                              to.data<T>(),  how};
    Backend::for_each_made(context, count, MakeDrawing<detail::DrawAugmentation<T>>{functor, key.iteration});
  });
}

template <class Backend>
void augmentation_table_on(Context& context, const AugmentationTable& how, const Tensor& rows,
                           Tensor& table) {
  const std::int64_t count = detail::augmentation_rows("augmentation_table", rows, augmentation::kNumbers);
  require_count("augmentation_table", table, count * augmentation::kRow);
  dispatch_float(rows.dtype(), "augmentation_table", [&]<class T>() {
    Backend::for_each(context, count,
                      detail::FillAugmentationTable<T>{how, rows.data<T>(), table.data<double>()});
  });
}

template <class Backend>
void color_moments_on(Context& context, const Tensor& x, const ColorAxes& axes, int rank, Tensor& message) {
  const Shape& shape = x.shape();
  if (shape.axes() != 4 || shape[1] != 3 || !x.is_contiguous() || message.count() < 7 + 3 * rank)
    runtime_failure("color_moments: ", shape.to_string());
  const std::int64_t plane = shape[2] * shape[3];
  if (x.count() == 0) return;
  dispatch_float(x.dtype(), "color_moments", [&]<class T>() {
    Backend::reduce_all(context, shape[0] * plane,
                        detail::ColorMoments<T>{axes, plane, rank, x.data<T>(), message.data<double>()});
  });
}

template <class Backend>
void finish_colors_on(Context& context, const Tensor& message, const ColorAxes& axes, Tensor& space) {
  require_count("finish_colors", space, 10);
  Backend::for_each(
      context, 1,
      detail::FinishColors{axes, (message.count() - 4) / 3, message.data<double>(), space.data<double>()});
}

template <class Backend>
void augment_images_on(Context& context, const Tensor& x, const Tensor& table, const Tensor& space,
                       const ColorLimits& limits, const PassKey& noise, const SampleIndex& samples,
                       Tensor& y) {
  detail::require_images("augment_images", x, y);
  const Shape &from = x.shape(), &to = y.shape();
  require_count("augment_images", table, from[0] * augmentation::kRow);
  dispatch_float(x.dtype(), "augment_images", [&]<class T>() {
    const detail::AugmentImages<T> functor{from[1],
                                           from[2],
                                           from[3],
                                           to[2],
                                           to[3],
                                           limits,
                                           {noise.seed, noise.stream, 0},
                                           samples,
                                           table.data<double>(),
                                           space.defined() ? space.data<double>() : nullptr,
                                           x.data<T>(),
                                           y.data<T>()};
    Backend::for_each_made(context, to[0] * to[2] * to[3],
                           MakeDrawing<detail::AugmentImages<T>>{functor, noise.iteration});
  });
}

template <class Backend>
void augment_flow_on(Context& context, const Tensor& x, const Tensor& first, const Tensor& second,
                     Tensor& y) {
  detail::require_images("augment_flow", x, y);
  const Shape &from = x.shape(), &to = y.shape();
  require_count("augment_flow, channels", y, to[0] * 2 * to[2] * to[3]);
  require_count("augment_flow, first", first, from[0] * augmentation::kRow);
  require_count("augment_flow, second", second, from[0] * augmentation::kRow);
  dispatch_float(x.dtype(), "augment_flow", [&]<class T>() {
    Backend::for_each(context, to[0] * to[2] * to[3],
                      detail::AugmentFlow<T>{from[2], from[3], to[2], to[3], first.data<double>(),
                                             second.data<double>(), x.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void running_mean_on(Context& context, const Tensor& moments, std::int64_t most, Tensor& mean,
                     Tensor& count) {
  require_count("running_mean", moments, 1 + 2 * mean.count());
  require_count("running_mean, count", count, 1);
  dispatch_float(mean.dtype(), "running_mean", [&]<class T>() {
    Backend::for_each(context, mean.count(),
                      detail::RunningMean<T>{most, moments.data<double>(), count.data<T>(), mean.data<T>()});
    Backend::for_each(context, 1, detail::CountOneMore<T>{moments.data<double>(), count.data<T>()});
  });
}

template <class Backend>
struct DefineAugmentation {
  DefineAugmentation() {
    draw_augmentation.define(Backend::kind, &draw_augmentation_on<Backend>);
    augmentation_table.define(Backend::kind, &augmentation_table_on<Backend>);
    color_moments.define(Backend::kind, &color_moments_on<Backend>);
    finish_colors.define(Backend::kind, &finish_colors_on<Backend>);
    augment_images.define(Backend::kind, &augment_images_on<Backend>);
    augment_flow.define(Backend::kind, &augment_flow_on<Backend>);
    running_mean.define(Backend::kind, &running_mean_on<Backend>);
  }
};

}  // namespace banyan::ops
