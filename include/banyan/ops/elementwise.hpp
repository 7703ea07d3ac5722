// Elementwise operators. Input and output of one call have the same count, layout and type; output may be the
// input (in place). They may be bf16; parameters, per-channel factors and their gradients are then f32, and
// so is all arithmetic.
#pragma once

#include <vector>

#include "banyan/ops/operator.hpp"
#include "banyan/ops/random.hpp"

namespace banyan::ops {

/// y = x > 0 ? x : slope * x.
inline constinit Operator<void(const Tensor& x, double slope, Tensor& y)> relu_forward{"relu_forward"};
/// dx = dy * (x > 0 ? 1 : slope); x may be the output where slope >= 0 (same sign).
inline constinit Operator<void(const Tensor& x, const Tensor& dy, double slope, Tensor& dx)> relu_backward{
    "relu_backward"};
inline constinit Operator<void(const Tensor& x, Tensor& y)> sigmoid_forward{"sigmoid_forward"};
/// dx = dy * y (1 - y).
inline constinit Operator<void(const Tensor& y, const Tensor& dy, Tensor& dx)> sigmoid_backward{
    "sigmoid_backward"};
inline constinit Operator<void(const Tensor& x, Tensor& y)> tanh_forward{"tanh_forward"};
/// dx = dy * (1 - y^2).
inline constinit Operator<void(const Tensor& y, const Tensor& dy, Tensor& dx)> tanh_backward{"tanh_backward"};
/// y = lambda * (x > 0 ? x : alpha * (exp(x) - 1)): ELU (Clevert et al. 2016); with another lambda SELU.
struct EluShape {
  double alpha = 1;   ///< if >= 0, the output has the sign of the input
  double lambda = 1;  ///< > 0
};
inline constinit Operator<void(const Tensor& x, const EluShape& shape, Tensor& y)> elu_forward{"elu_forward"};
/// dx = dy * (y > 0 ? lambda : y + alpha * lambda), from the output of an ELU with alpha >= 0.
inline constinit Operator<void(const Tensor& y, const Tensor& dy, const EluShape& shape, Tensor& dx)>
    elu_backward{"elu_backward"};
/// The same from the input, for any alpha: dx = dy * lambda * (x > 0 ? 1 : alpha * exp(x)).
inline constinit Operator<void(const Tensor& x, const Tensor& dy, const EluShape& shape, Tensor& dx)>
    elu_backward_by_input{"elu_backward_by_input"};
/// A ReLU, an ELU or a clip as the last step of another operator, or none of them. Results are bit-identical
/// to running the two operators one after the other, except that a zero may have the other sign.
struct Activation {
  enum class Kind : std::uint8_t { none, relu, elu, clip };
  Kind kind = Kind::none;
  double slope = 0;  ///< relu
  EluShape elu;
  double low = 0, high = 0;  ///< clip: its bounds

  constexpr bool on() const { return kind != Kind::none; }
  /// Does the output determine its gradient? Not that of a ReLU with a negative slope, nor at a clip's
  /// bounds.
  constexpr bool shows_gradient() const { return kind == Kind::relu ? slope >= 0 : kind != Kind::clip; }
  constexpr bool invertible() const {
    return (kind == Kind::relu && slope > 0) || (kind == Kind::elu && elu.alpha > 0);
  }
};
constexpr Activation relu_activation(double slope = 0) { return {Activation::Kind::relu, slope, {}, 0, 0}; }
constexpr Activation elu_activation(const EluShape& shape) { return {Activation::Kind::elu, 0, shape, 0, 0}; }
constexpr Activation clip_activation(double low, double high) {
  return {Activation::Kind::clip, 0, {}, low, high};
}
/// The x from which an invertible activation made y, to a few roundings of y; x may be y. If an ELU's y is as
/// close to its lower bound as rounding allows, x is the logarithm of the data type's epsilon (-15.9 in f32,
/// -36 in f64).
inline constinit Operator<void(const Tensor& y, const Activation& activation, Tensor& x)> invert_activation{
    "invert_activation"};
/// y = x * keep / (1 - ratio). Element e (logical order within its sample) of local sample i is kept when
/// philox(key, sample-global index, e) >= ratio, so the mask depends on neither device nor layout. The
/// gradient is the same operator applied to dy. Axis 0 is the batch.
inline constinit Operator<void(const Tensor& x, double ratio, const PassKey& key, const SampleIndex& samples,
                               Tensor& y)>
    dropout{"dropout"};
/// y = dropout(activation(x + bias)); bias has a value for each position on the last axis of a contiguous x,
/// undefined: 0.
inline constinit Operator<void(const Tensor& x, const Tensor& bias, const Activation& activation,
                               double ratio, const PassKey& key, const SampleIndex& samples, Tensor& y)>
    activate_and_drop{"activate_and_drop"};
/// The gradient of dropout(relu(x)), slope >= 0, from its output y: dx = dropout(dy) * (y > 0 ? 1 : slope).
inline constinit Operator<void(const Tensor& y, const Tensor& dy, double slope, double ratio,
                               const PassKey& key, const SampleIndex& samples, Tensor& dx)>
    activate_and_drop_backward{"activate_and_drop_backward"};
/// What negative values are divided by.
struct Divisors {
  double least = 1, most = 1;  ///< 0 < least <= most
};
/// y = x where sign > 0, else x / a, with a drawn uniformly from the divisors for each element, by its
/// numbers of the dropout above. A randomized leaky ReLU where sign is x; with its input or its output as
/// sign, the gradient is the same operator applied to dy. y may be either of the two.
inline constinit Operator<void(const Tensor& sign, const Tensor& x, const Divisors& divisors,
                               const PassKey& key, const SampleIndex& samples, Tensor& y)>
    divide_negatives{"divide_negatives"};
/// A term of a sum that is kept or left out as a whole, on all devices alike: y = x, or y += x if `adds`,
/// with the probability `keep`; otherwise y = 0, or y as it is. Draw number `draw` of the pass. The gradient
/// is the same operator applied to dy, without `adds`.
inline constinit Operator<void(const Tensor& x, double keep, const PassKey& key, int draw, bool adds,
                               Tensor& y)>
    keep_term{"keep_term"};
/// y = activation(sum of factors[k] * terms[k]), added in order; y may be one of the terms.
inline constinit Operator<void(const std::vector<const Tensor*>& terms, const std::vector<double>& factors,
                               const Activation& activation, Tensor& y)>
    weighted_sum{"weighted_sum"};
/// relu_backward or elu_backward of the sum of terms, the gradients from several readers of the activation's
/// output y; dx may be one of the terms.
inline constinit Operator<void(const std::vector<const Tensor*>& terms, const Tensor& y,
                               const Activation& activation, Tensor& dx)>
    activation_backward_of_sum{"activation_backward_of_sum"};
/// y = a * b.
inline constinit Operator<void(const Tensor& a, const Tensor& b, Tensor& y)> multiply{"multiply"};
/// dx = dy * y / x, Caffe's unstable gradient of a product (stable_prod_grad: false).
inline constinit Operator<void(const Tensor& x, const Tensor& y, const Tensor& dy, Tensor& dx)>
    product_backward_by_quotient{"product_backward_by_quotient"};
/// y = max(a, b); mask (i32, same count) holds the winner's index: `index_of_b` where b wins, otherwise what
/// it held before (`first`: index_of_b - 1). Ties: the later input wins in the first pair (first == true),
/// the earlier one against the third and later ones (Caffe).
inline constinit Operator<void(const Tensor& a, const Tensor& b, int index_of_b, bool first, Tensor& y,
                               Tensor& mask)>
    maximum{"maximum"};
/// dx = mask == index ? dy : 0.
inline constinit Operator<void(const Tensor& dy, const Tensor& mask, int index, Tensor& dx)> maximum_backward{
    "maximum_backward"};

/// Broadcast over memory seen as outer x dim x inner (for channels-last and axis 1: outer = N * spatial, dim
/// = C, inner = 1).
struct Broadcast {
  std::int64_t outer, dim, inner;
};
/// y = activation(x * scale[d] + bias[d]); an undefined tensor stands for "none", for one of the two. Scale
/// and bias, and dscale below, may be bf16 where x is.
inline constinit Operator<void(const Tensor& x, const Tensor& scale, const Tensor& bias,
                               const Broadcast& over, const Activation& activation, Tensor& y)>
    scale_bias{"scale_bias"};
/// dscale[d] += sum over outer and inner of dy * x. An undefined x stands for ones: the gradient of a bias.
inline constinit Operator<void(const Tensor& x, const Tensor& dy, const Broadcast& over, Tensor& dscale)>
    scale_backward{"scale_backward"};

/// y = x * factors[n, c] + addend on channel c of sample n, x being (N, C, ...) in either layout; an
/// undefined addend is 0. The factors and their gradient may be bf16 where x is.
inline constinit Operator<void(const Tensor& x, const Tensor& factors, const Tensor& addend, Tensor& y)>
    scale_planes{"scale_planes"};
/// dfactors[n, c] = sum of x * dy over a plane, dx = dy * factors[n, c], where defined. dx may be dy.
inline constinit Operator<void(const Tensor& x, const Tensor& dy, const Tensor& factors, Tensor& dx,
                               Tensor& dfactors)>
    scale_planes_backward{"scale_planes_backward"};

}  // namespace banyan::ops
