// Products of matrices that differ from place to place.
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// At each place a product of two matrices. Places are neighbours in memory; steps are between the elements
/// of the matrices.
struct PlaceProducts {
  std::int64_t rows = 0, columns = 0, terms = 0, places = 0;
  std::int64_t a_row = 0, a_term = 0;     ///< steps in a
  std::int64_t b_column = 0, b_term = 0;  ///< steps in b
};

/// c (rows, columns, places) = beta c + sum over t of a[row a_row + t a_term + place] b[column b_column + t
/// b_term + place]; beta 0 or 1. All contiguous.
inline constinit Operator<void(const PlaceProducts& over, const Tensor& a, const Tensor& b, double beta,
                               Tensor& c)>
    place_products{"place_products"};

}  // namespace banyan::ops
