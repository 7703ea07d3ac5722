// Products of all elements of two vectors, for each sample; and their sums in a sketch (Tensor Sketch, Pham,
// Pagh 2013).
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// y (N, A, B) = a (N, A) times b (N, B).
struct OuterShape {
  std::int64_t samples = 0, a = 0, b = 0;
};
inline constinit Operator<void(const Tensor& a, const Tensor& b, const OuterShape& shape, Tensor& y)>
    outer_product{"outer_product"};
/// The gradient of a, `other` being b; or, if `second`, that of b, `other` being a.
inline constinit Operator<void(const Tensor& dy, const Tensor& other, const OuterShape& shape, bool second,
                               Tensor& dx)>
    outer_product_backward{"outer_product_backward"};

/// Element (i, j) of the outer product of vectors with A and B elements counts in the sketch at h(i) + g(j)
/// modulo its length, with the sign s(i) t(j). hashes (A + B, i32): 2 h(i) and then 2 g(j), plus 1 where the
/// sign is -1. The elements of each place of the sketch, in ascending order: entries (A B, i32) of which
/// those from starts[place] to starts[place + 1] (i32) belong to it, 2 (i B + j), plus 1 where the sign is
/// -1.
struct Sketch {
  std::int64_t a = 0, b = 0, length = 0;
  double scale = 1;  ///< of products of pixels
};
/// y (length) of one outer product.
inline constinit Operator<void(const Tensor& products, const Tensor& starts, const Tensor& entries,
                               Tensor& y)>
    sketch_products{"sketch_products"};
/// The gradient of the outer product.
inline constinit Operator<void(const Tensor& dy, const Tensor& hashes, const Sketch& sketch,
                               Tensor& dproducts)>
    sketch_products_backward{"sketch_products_backward"};
/// y (N, length, pixels) of the vectors at each pixel of a (N, A, pixels) and b (N, B, pixels).
inline constinit Operator<void(const Tensor& a, const Tensor& b, const Tensor& starts, const Tensor& entries,
                               const Sketch& sketch, std::int64_t pixels, Tensor& y)>
    sketch_pixels{"sketch_pixels"};
/// The gradient of a, `other` being b; or, if `second`, that of b, `other` being a.
inline constinit Operator<void(const Tensor& dy, const Tensor& other, const Tensor& hashes,
                               const Sketch& sketch, std::int64_t pixels, bool second, Tensor& dx)>
    sketch_pixels_backward{"sketch_pixels_backward"};

}  // namespace banyan::ops
