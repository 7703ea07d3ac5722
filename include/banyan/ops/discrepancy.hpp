// How far two sets of samples, the rows of a and b, differ in their distribution: the maximum mean
// discrepancy of drawn samples (Long et al. 2015), by kernels of Gauss. `partial` and `grad_loss` as in
// loss.hpp.
#pragma once

#include "banyan/ops/operator.hpp"
#include "banyan/ops/random.hpp"

namespace banyan::ops {

/// picks (draws x 4, i32): two different rows of a and two different rows of b, which have a_rows and b_rows
/// (at least 2). Each draw compares four pairs: both of a, both of b (these count 1), and twice one of a with
/// one of b (-1).
inline constinit Operator<void(const PassKey& key, std::int64_t a_rows, std::int64_t b_rows, Tensor& picks)>
    draw_rows{"draw_rows"};
/// squares (4 draws, f64): the squared distances of these pairs.
inline constinit Operator<void(const Tensor& a, const Tensor& b, const Tensor& picks, Tensor& squares)>
    picked_distances{"picked_distances"};
/// deviations (as many as a row has numbers, f64): of each column over all rows, the sum of squared distances
/// from its mean.
inline constinit Operator<void(const Tensor& a, const Tensor& b, Tensor& deviations)> column_deviations{
    "column_deviations"};

/// The sum of exp(-w square) over `count` factors w: `first` and each `ratio` times the one before. If
/// `rows` > 0, all are divided by the mean squared distance of two different rows, whose deviations add up to
/// `deviation` (f64, 1); 0 where that is 0.
struct GaussianKernels {
  std::int64_t count = 1;
  double first = 1, ratio = 2;
  std::int64_t rows = 0;
};
/// values and slopes (by the square): f64, as squares.
inline constinit Operator<void(const Tensor& squares, const GaussianKernels& kernels, const Tensor& deviation,
                               Tensor& values, Tensor& slopes)>
    gaussian_kernels{"gaussian_kernels"};
/// partial[0]: the mean over the draws of the sum of values * others (undefined: 1), with their signs.
inline constinit Operator<void(const Tensor& values, const Tensor& others, Tensor& partial)> mean_discrepancy{
    "mean_discrepancy"};

/// A part of the matrix that gives the gradients of the rows of a and then of b as its product with these
/// rows.
struct MatrixPart {
  std::int64_t a_rows, first_row, rows, first_column, columns;
};
/// With the slopes of the kernels and the values of `others` (undefined: 1).
inline constinit Operator<void(const Tensor& picks, const Tensor& slopes, const Tensor& others,
                               const Tensor& grad_loss, const MatrixPart& part, Tensor& matrix)>
    discrepancy_matrix{"discrepancy_matrix"};

}  // namespace banyan::ops
