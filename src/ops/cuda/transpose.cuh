// The kernel for batched transposition, with conversion of the element type.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/cuda/cuda_backend.cuh"

namespace banyan::ops {

namespace kernels {

inline constexpr int kTile = 32;
inline constexpr int kPitch = kTile + 1;
inline constexpr int kTileRows = 8;  ///< blockDim.y: each thread moves kTile / kTileRows elements of a tile

template <bool kAdd, class From, class To>
__device__ void put(From value, To& target) {
  if constexpr (kAdd)
    target += static_cast<To>(value);
  else
    target = static_cast<To>(value);
}

/// A block moves tiles of 32 x 32 through shared memory, so that reads and writes are both coalesced; a tile
/// row has kPitch elements, one more than needed, which spreads a column over all banks.
template <class From, class To, bool kAdd>
__global__ void __launch_bounds__(kTile* kTileRows)
    transpose_kernel(const From* from, To* to, std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  BANYAN_SHARED_ARRAY(From, tile, kTile * kPitch);
  const std::int64_t row_tiles = (rows + kTile - 1) / kTile;
  const std::int64_t column_tiles = (columns + kTile - 1) / kTile;
  for (std::int64_t number = blockIdx.x; number < batch * row_tiles * column_tiles; number += gridDim.x) {
    const std::int64_t first_column = number % column_tiles * kTile;
    const std::int64_t first_row = number / column_tiles % row_tiles * kTile;
    const std::int64_t base = number / (column_tiles * row_tiles) * rows * columns;
    for (int j = static_cast<int>(threadIdx.y); j < kTile; j += kTileRows) {
      const std::int64_t row = first_row + j, column = first_column + threadIdx.x;
      if (row < rows && column < columns)
        tile[j * kPitch + threadIdx.x] = from[base + row * columns + column];
    }
    __syncthreads();
    for (int j = static_cast<int>(threadIdx.y); j < kTile; j += kTileRows) {
      const std::int64_t row = first_row + threadIdx.x, column = first_column + j;
      if (row < rows && column < columns) {
        put<kAdd>(tile[threadIdx.x * kPitch + j], to[base + column * rows + row]);
      }
    }
    __syncthreads();
  }
}

/// The same where `columns` are few, such as a filter's taps: tiles of as many whole rows as fill the block's
/// memory, which is read as one run. kTurned: the other way round, where `rows` are few.
template <class From, class To, bool kAdd, bool kTurned>
__global__ void __launch_bounds__(kTile* kTileRows)
    transpose_narrow_kernel(const From* from, To* to, std::int64_t batch, std::int64_t length, int width) {
  BANYAN_SHARED_ARRAY(From, tile, kTile * kPitch);
  const int threads = kTile * kTileRows, thread = static_cast<int>(threadIdx.y * kTile + threadIdx.x);
  const int most = kTile * kTile / width;  // of the long side in a tile
  const std::int64_t tiles = (length + most - 1) / most;
  for (std::int64_t number = blockIdx.x; number < batch * tiles; number += gridDim.x) {
    const std::int64_t first = number % tiles * most, base = number / tiles * length * width;
    const int count = static_cast<int>(length - first < most ? length - first : most);
    // The long side's neighbours are neighbours in `wide`, those of a narrow row in `narrow` memory.
    const auto wide = [&](int e) { return base + e / count * length + first + e % count; };
    const auto narrow = [&](int e) { return base + first * width + e; };
    for (int e = thread; e < count * width; e += threads) tile[e] = from[kTurned ? wide(e) : narrow(e)];
    __syncthreads();
    for (int e = thread; e < count * width; e += threads) {
      const int at = kTurned ? e % width * count + e / width : e % count * width + e / count;
      put<kAdd>(tile[at], to[kTurned ? narrow(e) : wide(e)]);
    }
    __syncthreads();
  }
}

}  // namespace kernels

template <class From, class To, bool kAdd>
void launch_transpose(Context& context, const From* from, To* to, std::int64_t batch, std::int64_t rows,
                      std::int64_t columns) {
  using kernels::kTile;
  constexpr std::int64_t kNarrow = kTile / 2;
  const std::int64_t tiles = batch * ((rows + kTile - 1) / kTile) * ((columns + kTile - 1) / kTile);
  if (tiles == 0) return;
  const dim3 block(kTile, kernels::kTileRows);
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(tiles, 1 << 16));
  if (const std::int64_t width = std::min(rows, columns), length = std::max(rows, columns);
      width <= kNarrow && length > width) {
    const auto kernel = rows > columns ? &kernels::transpose_narrow_kernel<From, To, kAdd, false>
                                       : &kernels::transpose_narrow_kernel<From, To, kAdd, true>;
    CudaBackend::launch_checked(context, "launch of a transposition", kernel, blocks, block, from, to, batch,
                                length, static_cast<int>(width));
    return;
  }
  CudaBackend::launch_checked(context, "launch of a transposition", kernels::transpose_kernel<From, To, kAdd>,
                              blocks, block, from, to, batch, rows, columns);
}

template <class From, class To>
void CudaBackend::transpose(Context& context, std::int64_t batch, std::int64_t rows, std::int64_t columns,
                            const From* from, To* to) {
  launch_transpose<From, To, false>(context, from, to, batch, rows, columns);
}

}  // namespace banyan::ops
