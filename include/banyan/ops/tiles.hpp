// Tiles of a matrix: groups of weights that are decayed, or kept at 0, together (SSL: Wen et al. 2016).
#pragma once

#include "banyan/ops/update.hpp"

namespace banyan::ops {

/// A matrix divided into tiles, which have no remainder. Rows of it: 1 x columns; columns: rows x 1.
struct Tiling {
  std::int64_t rows = 0, columns = 0;            ///< of the matrix
  std::int64_t tile_rows = 1, tile_columns = 1;  ///< of a tile
  std::int64_t tiles() const { return rows / tile_rows * (columns / tile_columns); }
  bool of_one() const { return tile_rows * tile_columns == 1; }
};

/// out = gradient * values->gradient_scale, `values` in device memory.
inline constinit Operator<void(const UpdateValues* values, const Tensor& gradient, Tensor& out)>
    times_gradient_scale{"times_gradient_scale"};
/// squares[t] (f64) = the sum of the squares of tile t.
inline constinit Operator<void(const Tensor& weight, const Tiling& tiling, Tensor& squares)> tile_squares{
    "tile_squares"};
/// gradient += decay * weight / |tile|, where that is not 0; `squares` as above.
inline constinit Operator<void(double decay, const Tensor& weight, const Tiling& tiling,
                               const Tensor& squares, Tensor& gradient)>
    add_tile_decay{"add_tile_decay"};
/// values = 0 in all tiles where squares[t] is 0.
inline constinit Operator<void(const Tiling& tiling, const Tensor& squares, Tensor& values)>
    clear_empty_tiles{"clear_empty_tiles"};
/// values[i] = 0 where weight[i] is 0.
inline constinit Operator<void(const Tensor& weight, Tensor& values)> clear_where_zero{"clear_where_zero"};

}  // namespace banyan::ops
