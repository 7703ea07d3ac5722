// Functions of one element, for layers that are nothing else, and the parametric ReLU. Input and output of
// one call have the same count, layout and type; output may be the input (in place). On CPU devices they may
// be bf16; slopes and their gradients are f32 then.
#pragma once

#include "banyan/ops/elementwise.hpp"
#include "banyan/ops/loss.hpp"
#include "banyan/ops/operator.hpp"

namespace banyan::ops {

struct Function {
  enum class Kind : std::uint8_t {
    constant,         ///< a, whatever x is
    affine,           ///< a x + b
    power,            ///< (a x + b)^c
    exponential,      ///< exp(a x + b)
    logarithm,        ///< c log(a x + b)
    absolute,         ///< |x|, with slope 0 at 0
    softplus,         ///< log(1 + exp(x))
    clip,             ///< x within [a, b], with slope 1 at both ends
    swish,            ///< x / (1 + exp(-a x))
    threshold,        ///< x > a ? 1 : 0, with slope 0
    two_slopes,       ///< x < 0 ? a x : b x, with slope b at 0
    hard_swish,       ///< x times x / 6 + 1 / 2 within [0, 1]
    signed_root,      ///< the root of |x|, with the sign of x; its slope is at most 1 / (2 a)
    mish,             ///< x tanh(log(1 + exp(x)))
    negative_square,  ///< -x^2
    affine_part,      ///< x >= a or |x| <= 1e-4 ? 0 : b x + c, with slope 0
    scale_group,      ///< of [1, 12), [12, 36), [36, 80), [80, 200) the number, from 1; else 0; with slope 0
  };
  /// What tells the slope.
  enum class Slope : std::uint8_t { of_neither, of_input, of_output };

  Kind kind = Kind::affine;
  double a = 0, b = 0, c = 0;

  constexpr Slope slope() const {
    switch (kind) {
      case Kind::constant:
      case Kind::affine:
      case Kind::threshold:
      case Kind::affine_part:
      case Kind::scale_group:
        return Slope::of_neither;
      case Kind::exponential:
      case Kind::softplus:
      case Kind::signed_root:
        return Slope::of_output;
      default:
        return Slope::of_input;
    }
  }
};

/// y = f(x).
inline constinit Operator<void(const Tensor& x, const Function& f, Tensor& y)> apply_function{
    "apply_function"};
/// dx = dy * f'. `seen` is x or y, as f.slope() says; any tensor like dy where it says neither.
inline constinit Operator<void(const Tensor& seen, const Tensor& dy, const Function& f, Tensor& dx)>
    apply_slope{"apply_slope"};

/// y = activation(y).
inline void activate(Context& context, const Activation& activation, Tensor& y) {
  switch (activation.kind) {
    case Activation::Kind::none:
      return;
    case Activation::Kind::relu:
      return relu_forward(context, y, activation.slope, y);
    case Activation::Kind::elu:
      return elu_forward(context, y, activation.elu, y);
    case Activation::Kind::clip:
      return apply_function(context, y, {Function::Kind::clip, activation.low, activation.high}, y);
  }
}

/// y = exp(a (x - the largest x of its channels) + b). y may be x.
inline constinit Operator<void(const Tensor& x, const Channels& over, double a, double b, Tensor& y)>
    exp_below_largest{"exp_below_largest"};

/// Rectifiers of x and of -x: of each `block` elements of x, y has those of x, then those of -x, negative
/// ones times slope.
inline constinit Operator<void(const Tensor& x, double slope, std::int64_t block, Tensor& y)> crelu_forward{
    "crelu_forward"};
/// dx = dy of x's rectifier times its slope, minus the same of -x's. The slope at 0 is `slope`.
inline constinit Operator<void(const Tensor& x, const Tensor& dy, double slope, std::int64_t block,
                               Tensor& dx)>
    crelu_backward{"crelu_backward"};

/// y = x > 0 ? x : slope[d] * x.
inline constinit Operator<void(const Tensor& x, const Tensor& slope, const Broadcast& over, Tensor& y)>
    prelu_forward{"prelu_forward"};
/// dx = dy * (x > 0 ? 1 : slope[d]), dslope[d] += sum over outer and inner of dy * min(x, 0), in one pass;
/// one that is undefined is not wanted. dx may be dy.
inline constinit Operator<void(const Tensor& x, const Tensor& dy, const Tensor& slope, const Broadcast& over,
                               Tensor& dx, Tensor& dslope)>
    prelu_backward{"prelu_backward"};

}  // namespace banyan::ops
