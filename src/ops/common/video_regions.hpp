// Pooling over parts of videos: one output element per index forward, one channel of a video backward, where
// parts may overlap.
#pragma once

#include <cfloat>

#include "banyan/ops/video_regions.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/region_bins.hpp"

namespace banyan::ops {
namespace detail {

struct VideoParts {
  std::int64_t count, videos, channels, length, height, width;
  VideoBins bins;

  BANYAN_HOST_DEVICE std::int64_t elements() const { return length * height * width; }
  BANYAN_HOST_DEVICE std::int64_t bins_of_part() const {
    return bins.pooled_l * bins.pooled_h * bins.pooled_w;
  }
  template <class T>
  BANYAN_HOST_DEVICE Span steps(const T* part, std::int64_t bin) const {
    return rounded_bin(part[1], part[2], static_cast<T>(bins.scale), bin, bins.pooled_l, length);
  }
  /// Bin number `bin` of `of` of a whole axis.
  BANYAN_HOST_DEVICE static Span whole(std::int64_t bin, std::int64_t of, std::int64_t size) {
    return {bin * size / of, ((bin + 1) * size + of - 1) / of};
  }
};

template <class T>
struct VideoMaximum {
  VideoParts over;
  const T *x, *parts;
  T* y;
  std::int32_t* mask;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const VideoBins& bins = over.bins;
    const std::int64_t w = i % bins.pooled_w, h = i / bins.pooled_w % bins.pooled_h;
    const std::int64_t l = i / (bins.pooled_w * bins.pooled_h) % bins.pooled_l;
    const std::int64_t plane = i / over.bins_of_part();
    const T* const part = parts + plane / over.channels * 3;
    const std::int64_t video = index_below(part[0], over.videos);
    const Span steps = over.steps(part, l), rows = VideoParts::whole(h, bins.pooled_h, over.height),
               columns = VideoParts::whole(w, bins.pooled_w, over.width);
    T best = -FLT_MAX;
    std::int64_t where = -1;
    if (video >= 0) {
      const T* const from = x + (video * over.channels + plane % over.channels) * over.elements();
      for (std::int64_t step = steps.begin; step < steps.end; ++step)
        for (std::int64_t row = rows.begin; row < rows.end; ++row)
          for (std::int64_t column = columns.begin; column < columns.end; ++column) {
            const std::int64_t at = (step * over.height + row) * over.width + column;
            if (!(from[at] > best)) continue;
            best = from[at];
            where = at;
          }
    }
    const bool none = video < 0 || steps.empty() || rows.empty() || columns.empty();
    y[i] = none ? T(0) : best;
    mask[i] = static_cast<std::int32_t>(where);
  }
};

template <class T>
struct VideoMaximumBackward {
  VideoParts over;
  const T *dy, *parts;
  const std::int32_t* mask;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t video = i / over.channels, channel = i % over.channels, bins = over.bins_of_part();
    T* const to = dx + i * over.elements();
    for (std::int64_t element = 0; element < over.elements(); ++element) to[element] = T(0);
    for (std::int64_t part = 0; part < over.count; ++part) {
      if (index_below(parts[part * 3], over.videos) != video) continue;
      const std::int64_t from = (part * over.channels + channel) * bins;
      for (std::int64_t bin = from; bin < from + bins; ++bin)
        if (mask[bin] >= 0) to[mask[bin]] += dy[bin];
    }
  }
};

inline VideoParts video_parts(const VideoBins& bins, const Tensor& x, const Tensor& parts, const Tensor& y) {
  const Shape &in = x.shape(), &out = y.shape();
  if (in.axes() != 5 || out.axes() != 5 || parts.count() != 3 * out[0] || in[1] != out[1] ||
      out[2] != bins.pooled_l || out[3] != bins.pooled_h || out[4] != bins.pooled_w || !x.is_contiguous() ||
      !y.is_contiguous() || !parts.is_contiguous())
    runtime_failure("video_maximum: ", in.to_string(), ", parts ", parts.shape().to_string(), " and ",
                    out.to_string(), " do not match");
  return {out[0], in[0], in[1], in[2], in[3], in[4], bins};
}

}  // namespace detail

template <class Backend>
void video_maximum_on(Context& context, const VideoBins& bins, const Tensor& x, const Tensor& parts,
                      Tensor& y, Tensor& mask) {
  const detail::VideoParts over = detail::video_parts(bins, x, parts, y);
  require_alike("video_maximum", y, mask);
  dispatch_float(x.dtype(), "video_maximum", [&]<class T>() {
    Backend::for_each(
        context, y.count(),
        detail::VideoMaximum<T>{over, x.data<T>(), parts.data<T>(), y.data<T>(), mask.data<std::int32_t>()});
  });
}

template <class Backend>
void video_maximum_backward_on(Context& context, const VideoBins& bins, const Tensor& dy, const Tensor& parts,
                               const Tensor& mask, Tensor& dx) {
  const detail::VideoParts over = detail::video_parts(bins, dx, parts, dy);
  require_alike("video_maximum_backward", dy, mask);
  dispatch_float(dy.dtype(), "video_maximum_backward", [&]<class T>() {
    Backend::for_each_long(context, over.videos * over.channels,
                           over.elements() + over.count * over.bins_of_part(),
                           detail::VideoMaximumBackward<T>{over, dy.data<T>(), parts.data<T>(),
                                                           mask.data<std::int32_t>(), dx.data<T>()});
  });
}

template <class Backend>
struct DefineVideoRegions {
  DefineVideoRegions() {
    video_maximum.define(Backend::kind, &video_maximum_on<Backend>);
    video_maximum_backward.define(Backend::kind, &video_maximum_backward_on<Backend>);
  }
};

}  // namespace banyan::ops
