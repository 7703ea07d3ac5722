// Factors of guided dropout, for every back end (see backend.hpp).
#pragma once

#include "banyan/ops/guided_dropout.hpp"
#include "ops/common/elementwise.hpp"
#include "ops/common/sums.hpp"

namespace banyan::ops {
namespace detail {

// The probability that a channel of a sample is kept.

template <class A>
struct ChanceAboveThreshold {
  const A* guidance;
  A threshold;
  BANYAN_HOST_DEVICE A operator[](std::int64_t i) const { return guidance[i] > threshold ? A(1) : A(0); }
};
template <class A>
struct ChanceBySigmoid {
  const A* guidance;
  A scale;
  BANYAN_HOST_DEVICE A operator[](std::int64_t i) const { return Sigmoid<A>{}(scale * guidance[i]); }
};

/// What the kept channels of a sample are multiplied by.
template <class A>
struct ScalesOfKept {
  const double* sums;
  double channels;
  BANYAN_HOST_DEVICE A operator[](std::int64_t sample) const {
    return sums[sample] > 0 ? static_cast<A>(channels / sums[sample]) : A(0);
  }
};

template <class A>
struct GuidedFactors {
  ChanceAboveThreshold<A> chances;
  ScalesOfKept<A> scales;
  A* factors;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t sample) const {
    factors[i] = chances[i] * scales[sample];
  }
};
template <class A, DrawOrder kOrder>
struct DrawnFactors : Drawing<kOrder> {
  ChanceBySigmoid<A> chances;
  ScalesOfKept<A> scales;
  A* factors;
  BANYAN_HOST_DEVICE void operator()(std::int64_t sample, std::int64_t column) const {
    this->each(sample, column, [this, sample](std::int64_t at, std::int64_t, std::uint32_t bits) {
      factors[at] = uniform01(bits) < chances[at] ? scales[sample] : A(0);
    });
  }
};

}  // namespace detail

template <class Backend>
void guided_factors_on(Context& context, const Tensor& guidance, const Guidance& how, const PassKey& key,
                       const SampleIndex& samples, Tensor& sums, Tensor& factors) {
  constexpr const char* kName = "guided_factors";
  if (factors.shape().axes() != 2 || !factors.is_contiguous())
    runtime_failure(kName, ": the factors must be N x C, contiguous");
  const std::int64_t batch = factors.shape()[0], channels = factors.shape()[1];
  require_count(kName, guidance, factors.count());
  require_type(kName, factors, guidance.dtype());
  require_count(kName, sums, batch);
  require_type(kName, sums, DType::f64);
  if (factors.count() == 0) return;
  dispatch_float(guidance.dtype(), kName, [&]<class A>() {
    const Broadcast of_samples{1, batch, channels};
    const auto add_up = [&](const auto& chances) {
      Backend::reduce_channels(
          context, of_samples,
          SumOf<std::decay_t<decltype(chances)>, Identity>{chances, sums.data<double>()});
    };
    const detail::ScalesOfKept<A> scales{sums.data<double>(), static_cast<double>(channels)};
    A* const to = factors.data<A>();
    if (how.drawn) {
      const detail::ChanceBySigmoid<A> chances{guidance.data<A>(), static_cast<A>(how.scale)};
      add_up(chances);
      draw_numbers<Backend>(context, factors, key, samples, [&]<DrawOrder kOrder>(const Drawing<kOrder>& d) {
        return detail::DrawnFactors<A, kOrder>{d, chances, scales, to};
      });
    } else {
      const detail::ChanceAboveThreshold<A> chances{guidance.data<A>(), static_cast<A>(how.threshold)};
      add_up(chances);
      Backend::for_each_channel(context, of_samples, detail::GuidedFactors<A>{chances, scales, to});
    }
  });
}

/// Registers it for a back end.
template <class Backend>
struct DefineGuidedDropout {
  DefineGuidedDropout() { guided_factors.define(Backend::kind, &guided_factors_on<Backend>); }
};

}  // namespace banyan::ops
