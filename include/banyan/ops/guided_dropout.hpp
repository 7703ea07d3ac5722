// Dropout of channels by what a second blob says of them (Xiao et al. 2016).
#pragma once

#include "banyan/ops/operator.hpp"
#include "banyan/ops/random.hpp"

namespace banyan::ops {

struct Guidance {
  bool drawn = false;
  double threshold = 0;  ///< not drawn: the channels above it are kept
  double scale = 1;      ///< drawn: one is kept with the probability sigmoid(scale * guidance)
};
/// factors[n, c] = C / sums[n] where channel c of sample n is kept, else 0. sums (f64) are those of a
/// sample's probabilities, 1 and 0 if nothing is drawn. Guidance and factors hold N x C numbers of one type,
/// without regard to layouts. The draws are dropout's of such a blob.
inline constinit Operator<void(const Tensor& guidance, const Guidance& how, const PassKey& key,
                               const SampleIndex& samples, Tensor& sums, Tensor& factors)>
    guided_factors{"guided_factors"};

}  // namespace banyan::ops
