// Operators on rows: contiguous memory seen as rows of `length` elements.
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// What is added up of a row: x, |x| or x^2.
enum class RowSum : std::uint8_t { values, magnitudes, squares };
/// y[row] = factor * (sum over the row) / divisor[0]; 0 where the divisor (f64, 1) is 0. As many rows as y
/// has elements.
inline constinit Operator<void(const Tensor& x, RowSum what, double factor, const Tensor& divisor, Tensor& y)>
    reduce_rows{"reduce_rows"};
/// dx = dy[row] * (slope of what is added up) * factor / divisor[0].
inline constinit Operator<void(const Tensor& x, const Tensor& dy, RowSum what, double factor,
                               const Tensor& divisor, Tensor& dx)>
    reduce_rows_backward{"reduce_rows_backward"};

/// y has each row of x `tiles` times, one after the other.
inline constinit Operator<void(const Tensor& x, std::int64_t length, std::int64_t tiles, Tensor& y)>
    tile_rows{"tile_rows"};
/// dx = the sum of the copies' gradients, in order.
inline constinit Operator<void(const Tensor& dy, std::int64_t length, std::int64_t tiles, Tensor& dx)>
    tile_rows_backward{"tile_rows_backward"};

/// Row i of y is row indices[i] (a float tensor of integers) of `table`, which has `rows` of them; zeros
/// where there is no such row, see note_outside.
inline constinit Operator<void(const Tensor& table, std::int64_t rows, const Tensor& indices, Tensor& y)>
    gather_rows{"gather_rows"};
/// y[row] += factor * x[row] / (1 + counts[row]); counts: f64, one per row.
inline constinit Operator<void(const Tensor& x, const Tensor& counts, double factor, Tensor& y)>
    add_divided_rows{"add_divided_rows"};
/// Adds row i of dy to row indices[i] of dtable, in ascending order of i.
inline constinit Operator<void(const Tensor& dy, const Tensor& indices, std::int64_t rows, Tensor& dtable)>
    add_to_rows{"add_to_rows"};

/// noted (2, f64): the first of the values x[0], x[step], x[2 step] ... in memory order that is no integer in
/// [0, limit), as 1 + its number, and the value; written only where noted[0] is 0, so that the record of one
/// pass stays until it is read and cleared.
inline constinit Operator<void(const Tensor& x, std::int64_t step, std::int64_t limit, Tensor& noted)>
    note_outside{"note_outside"};

}  // namespace banyan::ops
