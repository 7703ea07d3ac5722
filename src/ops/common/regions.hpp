// Pooling over regions of interest: one output element per index forward, one plane of the input backward,
// where regions may overlap.
#pragma once

#include <cfloat>

#include "banyan/ops/regions.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/region_bins.hpp"

namespace banyan::ops {
namespace detail {

template <class T>
struct RegionMaximum {
  Regions over;
  const T *x, *rois;
  T* y;
  std::int32_t* mask;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const PlanePosition at = over.bin(i);
    const T* const roi = rois + at.sample * 5;
    const std::int64_t image = over.image_of(roi), step = over.in.step();
    const BinPixels pixels = rounded_pixels(over, roi, at.row, at.column);
    T best = -FLT_MAX;
    std::int64_t where = -1;
    if (image >= 0) {
      const T* const plane = x + over.input_base(image, at.channel);
      pixels.visit(over.width, [&](std::int64_t pixel) {
        if (!(plane[pixel * step] > best)) return;
        best = plane[pixel * step];
        where = pixel;
      });
    }
    y[i] = image < 0 || pixels.empty() ? T(0) : best;
    mask[i] = static_cast<std::int32_t>(where);
  }
};

template <class T>
struct RegionMaximumBackward {
  Regions over;
  const T *dy, *rois;
  const std::int32_t* mask;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t step = over.in.step();
    gather_regions(over, rois, i, dx, [&](std::int64_t region, std::int64_t channel, T* plane) {
      const std::int64_t from = over.output_base(region, channel);
      for (std::int64_t bin = 0; bin < over.pooled_h * over.pooled_w; ++bin) {
        const std::int64_t where = mask[from + bin * step];
        if (where >= 0) plane[where * step] += dy[from + bin * step];
      }
    });
  }
};

/// `From`: FromBin or FromGrid.
template <class T, class From>
struct RegionSum {
  Regions over;
  const T *x, *rois;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const PlanePosition at = over.bin(i);
    const T* const roi = rois + at.sample * 5;
    const std::int64_t image = over.image_of(roi), step = over.in.step();
    T sum = 0;
    if (image >= 0 && over.height > 0 && over.width > 0) {
      const T* const plane = x + over.input_base(image, at.channel);
      From()(over, roi, at.row, at.column,
             [&](std::int64_t pixel, T weight) { sum += weight * plane[pixel * step]; });
    }
    y[i] = sum;
  }
};

template <class T, class From>
struct RegionSumBackward {
  Regions over;
  const T *dy, *rois;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t step = over.in.step();
    gather_regions(over, rois, i, dx, [&](std::int64_t region, std::int64_t channel, T* plane) {
      const std::int64_t from = over.output_base(region, channel);
      for (std::int64_t bin = 0; bin < over.pooled_h * over.pooled_w; ++bin) {
        const T gradient = dy[from + bin * step];
        From()(over, rois + region * 5, bin / over.pooled_w, bin % over.pooled_w,
               [&](std::int64_t pixel, T weight) { plane[pixel * step] += weight * gradient; });
      }
    });
  }
};

template <class T>
using RegionAverage = RegionSum<T, FromBin>;
template <class T>
using RegionAverageBackward = RegionSumBackward<T, FromBin>;
template <class T>
using RegionGrid = RegionSum<T, FromGrid>;
template <class T>
using RegionGridBackward = RegionSumBackward<T, FromGrid>;

template <class T>
struct RegionVotes {
  Regions over;
  const T *x, *rois;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const PlanePosition at = over.bin(i);
    const T* const roi = rois + at.sample * 5;
    const std::int64_t image = over.image_of(roi), step = over.in.step();
    const BinPixels pixels = vote_pixels(over, roi, at.row, at.column);
    const bool none = image < 0 || pixels.empty();
    T sum = 0;
    if (!none) {
      const std::int64_t channel = (at.channel * over.pooled_h + at.row) * over.pooled_w + at.column;
      const T* const plane = x + over.input_base(image, channel);
      pixels.visit(over.width, [&](std::int64_t pixel) { sum += plane[pixel * step]; });
    }
    y[i] = none ? T(0) : sum / static_cast<T>(pixels.count());
  }
};

template <class T>
struct RegionVotesBackward {
  Regions over;
  const T *dy, *rois;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t bins = over.pooled_h * over.pooled_w, step = over.in.step();
    gather_regions(over, rois, i, dx, [&](std::int64_t region, std::int64_t channel, T* plane) {
      const std::int64_t bin = channel % bins;
      const BinPixels pixels = vote_pixels(over, rois + region * 5, bin / over.pooled_w, bin % over.pooled_w);
      if (pixels.empty()) return;
      const T share = dy[over.output_base(region, channel / bins) + bin * over.out.step()] /
                      static_cast<T>(pixels.count());
      pixels.visit(over.width, [&](std::int64_t pixel) { plane[pixel * step] += share; });
    });
  }
};

}  // namespace detail

template <class Backend>
void region_maximum_on(Context& context, const RegionBins& bins, const Tensor& x, const Tensor& rois,
                       Tensor& y, Tensor& mask) {
  maximum_of_regions<Backend, detail::RegionMaximum>("region_maximum", context, bins, x, rois, y, mask);
}

template <class Backend>
void region_maximum_backward_on(Context& context, const RegionBins& bins, const Tensor& dy,
                                const Tensor& rois, const Tensor& mask, Tensor& dx) {
  maximum_of_regions_backward<Backend, detail::RegionMaximumBackward>("region_maximum_backward", context,
                                                                      bins, dy, rois, mask, dx);
}

/// An operator of x and rois: one element of y per index. `votes`: see regions_of.
template <class Backend, template <class> class Functor>
void region_forward(Context& context, const RegionBins& bins, const Tensor& x, const Tensor& rois,
                    std::int64_t votes, Tensor& y) {
  const detail::Regions over = detail::regions_of(bins, x, rois, y, votes);
  dispatch_float(x.dtype(), "pooling over regions", [&]<class T>() {
    Backend::for_each(context, y.count(), Functor<T>{over, x.data<T>(), rois.data<T>(), y.data<T>()});
  });
}

/// Its gradient: one plane of dx per index.
template <class Backend, template <class> class Functor>
void region_backward(Context& context, const RegionBins& bins, const Tensor& dy, const Tensor& rois,
                     std::int64_t votes, Tensor& dx) {
  const detail::Regions over = detail::regions_of(bins, dx, rois, dy, votes);
  dispatch_float(dy.dtype(), "pooling over regions", [&]<class T>() {
    Backend::for_each_long(context, dx.shape().count(0, 2), over.count * bins.pooled_h * bins.pooled_w,
                           Functor<T>{over, dy.data<T>(), rois.data<T>(), dx.data<T>()});
  });
}

template <class Backend>
void region_average_on(Context& context, const RegionBins& bins, const Tensor& x, const Tensor& rois,
                       Tensor& y) {
  region_forward<Backend, detail::RegionAverage>(context, bins, x, rois, 1, y);
}
template <class Backend>
void region_average_backward_on(Context& context, const RegionBins& bins, const Tensor& dy,
                                const Tensor& rois, Tensor& dx) {
  region_backward<Backend, detail::RegionAverageBackward>(context, bins, dy, rois, 1, dx);
}
template <class Backend>
void region_grid_on(Context& context, const RegionBins& bins, const Tensor& x, const Tensor& rois,
                    Tensor& y) {
  region_forward<Backend, detail::RegionGrid>(context, bins, x, rois, 1, y);
}
template <class Backend>
void region_grid_backward_on(Context& context, const RegionBins& bins, const Tensor& dy, const Tensor& rois,
                             Tensor& dx) {
  region_backward<Backend, detail::RegionGridBackward>(context, bins, dy, rois, 1, dx);
}
template <class Backend>
void region_votes_on(Context& context, const RegionBins& bins, const Tensor& x, const Tensor& rois,
                     Tensor& y) {
  region_forward<Backend, detail::RegionVotes>(context, bins, x, rois, bins.pooled_h * bins.pooled_w, y);
}
template <class Backend>
void region_votes_backward_on(Context& context, const RegionBins& bins, const Tensor& dy, const Tensor& rois,
                              Tensor& dx) {
  region_backward<Backend, detail::RegionVotesBackward>(context, bins, dy, rois,
                                                        bins.pooled_h * bins.pooled_w, dx);
}

/// Registers all of the above for a back end.
template <class Backend>
struct DefineRegions {
  DefineRegions() {
    region_maximum.define(Backend::kind, &region_maximum_on<Backend>);
    region_maximum_backward.define(Backend::kind, &region_maximum_backward_on<Backend>);
    region_average.define(Backend::kind, &region_average_on<Backend>);
    region_average_backward.define(Backend::kind, &region_average_backward_on<Backend>);
    region_grid.define(Backend::kind, &region_grid_on<Backend>);
    region_grid_backward.define(Backend::kind, &region_grid_backward_on<Backend>);
    region_votes.define(Backend::kind, &region_votes_on<Backend>);
    region_votes_backward.define(Backend::kind, &region_votes_backward_on<Backend>);
  }
};

}  // namespace banyan::ops
