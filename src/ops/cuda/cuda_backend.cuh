// CUDA's launches for the functors of src/ops/common (see backend.hpp).
//
// Reductions are bit-identical in every run and on every GPU: the division of elements into blocks and
// threads depends only on the sizes. A thread adds its elements in ascending order, a block merges its
// threads in a fixed tree, and if several blocks share a state, a second kernel merges their partial states
// in a fixed tree. No atomics.
//
// Nothing here waits for the GPU; memory is allocated only while the reductions' scratch memory is still
// growing.
#pragma once

#include <algorithm>
#include <cstdint>

#include "banyan/ops/basic.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/pack.hpp"
#include "ops/cuda/handles.hpp"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/limits.hpp"

namespace banyan::ops {

namespace kernels {

inline constexpr int kThreads = 256;  ///< per block; a power of two
inline constexpr int kMergeThreads = 128;
/// Elements whose loads a thread has under way at once: one at a time would leave most of the bandwidth
/// unused.
inline constexpr int kLoadsAtOnce = 8;
inline constexpr int kPacksAtOnce = 4;

/// body(i) for i = first, first + step, ... below `end`, in this order; kLoadsAtOnce of them without a branch
/// between, so that what they load need not wait for the others' results.
template <class Index, class Body>
__device__ void in_batches(Index first, Index end, Index step, const Body& body) {
  Index i = first;
  for (; i + (kLoadsAtOnce - 1) * step < end; i += kLoadsAtOnce * step)
    for (int k = 0; k < kLoadsAtOnce; ++k) body(i + k * step);
  for (; i < end; i += step) body(i);
}

/// The same for body.store(i, body.value(i)): all values of a batch before the first store, which might
/// change what the others load.
template <class Index, class Value, class Store>
__device__ void in_batches(Index first, Index end, Index step, const Value& value, const Store& store) {
  Index i = first;
  for (; i + (kLoadsAtOnce - 1) * step < end; i += kLoadsAtOnce * step) {
    decltype(value(i)) values[kLoadsAtOnce];
    for (int k = 0; k < kLoadsAtOnce; ++k) values[k] = value(i + k * step);
    for (int k = 0; k < kLoadsAtOnce; ++k) store(i + k * step, values[k]);
  }
  for (; i < end; i += step) store(i, value(i));
}

template <class F>
__global__ void __launch_bounds__(kThreads) for_each_kernel(std::int64_t n, F f) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < n; i += step)
    f(i);
}

/// f(i) for kWidth neighbours at a time; see pack.hpp. `aligned`: for packs. The first threads do what is
/// left.
template <int kWidth, class F>
__global__ void __launch_bounds__(kThreads) for_each_pack_kernel(std::int64_t n, bool aligned, F f) {
  using T = typename F::Element;
  const std::int64_t packs = n / kWidth, step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (std::int64_t pack = thread; pack < packs; pack += step) {
    PackOfReads<F, kWidth> read;
    read.load(f, pack * kWidth, aligned);
    F of_pack = read.functor(f);
    Pack<T, kWidth> result;
    of_pack.each_write([&](T*& to) { to = result.values; });
    BANYAN_UNROLLED
    for (int w = 0; w < kWidth; ++w) of_pack(w);
    f.each_write([&](T*& to) { store_pack(result, to + pack * kWidth, aligned); });
  }
  if (thread < n - packs * kWidth) f(packs * kWidth + thread);
}

/// make()(i); each thread makes its own.
template <class Make>
__global__ void __launch_bounds__(kThreads) for_each_made_kernel(std::int64_t n, Make make) {
  const auto f = make();
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (; i < n; i += static_cast<std::int64_t>(gridDim.x) * kThreads) f(i);
}

/// make()(row, column) for n elements in rows of `columns`. Index: as below.
template <class Index, class Make>
__global__ void __launch_bounds__(kThreads) for_each_made_rows_kernel(Index n, Index columns, Make make) {
  const auto f = make();
  const Index step = static_cast<Index>(gridDim.x) * kThreads;
  for (Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x; i < n; i += step) {
    const Index row = i / columns;
    f(static_cast<std::int64_t>(row), static_cast<std::int64_t>(i - row * columns));
  }
}

/// f(i, d) for all elements i of outer x dim x inner memory. Index: unsigned where n fits (64-bit division is
/// slow on GPUs).
template <class Index, class F>
__global__ void __launch_bounds__(kThreads) for_each_channel_kernel(Index n, Index dim, Index inner, F f) {
  const Index step = static_cast<Index>(gridDim.x) * kThreads;
  for (Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x; i < n; i += step) {
    const Index d = (inner == 1 ? i : i / inner) % dim;
    f(static_cast<std::int64_t>(i), static_cast<std::int64_t>(d));
  }
}

/// See copy_blocks in banyan/ops/basic.hpp; n = blocks * length.
template <class Index, class Element>
__global__ void __launch_bounds__(kThreads)
    copy_blocks_kernel(Index n, BlockCopy what, const Element* from, Element* to) {
  const Index length = static_cast<Index>(what.length), step = static_cast<Index>(gridDim.x) * kThreads;
  for (Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x; i < n; i += step) {
    const Index number = i / length;
    const auto block = static_cast<std::int64_t>(number),
               rest = static_cast<std::int64_t>(i - number * length);
    to[what.to_offset + block * what.to_stride + rest] =
        from[what.from_offset + block * what.from_stride + rest];
  }
}

/// For inner == 1; each thread stays in one column: f.terms(d) once, then f.store(i, f.value(terms, i)).
/// Block and grid as in reduce_columns_kernel.
template <class F>
__global__ void __launch_bounds__(kThreads)
    columns_with_terms_kernel(std::int64_t rows, std::int64_t dim, F f) {
  const std::int64_t d = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (d >= dim) return;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * blockDim.y;
  const auto terms = f.terms(d);
  in_batches(
      static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y, rows, step,
      [&](std::int64_t row) { return f.value(terms, row * dim + d); },
      [&](std::int64_t row, auto value) { f.store(row * dim + d, value); });
}

/// The same for kWidth neighbouring columns a thread; kWidth divides `dim`. `aligned`: for packs. Block and
/// grid as in reduce_column_packs_kernel.
template <int kWidth, class F>
__global__ void __launch_bounds__(kThreads)
    column_packs_with_terms_kernel(std::int64_t rows, std::int64_t dim, bool aligned, F f) {
  using T = typename F::Element;
  const std::int64_t d = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kWidth;
  if (d >= dim) return;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * blockDim.y;
  decltype(f.terms(d)) terms[kWidth];
  BANYAN_UNROLLED
  for (int w = 0; w < kWidth; ++w) terms[w] = f.terms(d + w);
  const auto put = [&](std::int64_t first, const PackOfReads<F, kWidth>& read) {
    const F of_pack = read.functor(f);
    Pack<T, kWidth> result;
    BANYAN_UNROLLED
    for (int w = 0; w < kWidth; ++w) result.values[w] = of_pack.value(terms[w], w);
    f.each_write([&](T*& to) { store_pack(result, to + first, aligned); });
  };
  std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
  for (; row + (kPacksAtOnce - 1) * step < rows; row += kPacksAtOnce * step) {
    PackOfReads<F, kWidth> reads[kPacksAtOnce];
    BANYAN_UNROLLED
    for (int k = 0; k < kPacksAtOnce; ++k) reads[k].load(f, (row + k * step) * dim + d, aligned);
    BANYAN_UNROLLED
    for (int k = 0; k < kPacksAtOnce; ++k) put((row + k * step) * dim + d, reads[k]);
  }
  for (; row < rows; row += step) {
    PackOfReads<F, kWidth> read;
    read.load(f, row * dim + d, aligned);
    put(row * dim + d, read);
  }
}

/// The same for runs of `inner` neighbours; grid as in reduce_runs_kernel.
template <class Index, class F>
__global__ void __launch_bounds__(kThreads) runs_with_terms_kernel(Broadcast over, F f) {
  const std::int64_t d = blockIdx.x;
  const Index inner = static_cast<Index>(over.inner);
  const Index positions = static_cast<Index>(over.outer * over.inner);
  const Index step = static_cast<Index>(gridDim.y) * kThreads;
  const auto terms = f.terms(d);
  const auto index_of = [&](Index at) {
    const Index outer = at / inner, rest = at - outer * inner;
    return (static_cast<std::int64_t>(outer) * over.dim + d) * over.inner + static_cast<std::int64_t>(rest);
  };
  in_batches(
      static_cast<Index>(static_cast<Index>(blockIdx.y) * kThreads + threadIdx.x), positions, step,
      [&](Index at) { return f.value(terms, index_of(at)); },
      [&](Index at, auto value) { f.store(index_of(at), value); });
}

/// Merges the states of `count` threads (a power of two), `stride` apart, into that of thread 0, which alone
/// may use the states until the block's next barrier. `rank`: the calling thread's number among them. All
/// threads of the block take part. A binary tree, two levels of it between barriers.
template <class R>
__device__ void merge_tree(const R& r, typename R::State* mine, int rank, int count, int stride) {
  __syncthreads();
  for (int rest = count; rest > 1;) {
    const int first_half = rest / 2;
    rest = rest > 4 ? rest / 4 : 1;
    if (rank < rest) {
      for (int half = first_half; half >= rest; half /= 2)
        for (int i = 0; i < half; i += rest) r.merge(mine[i * stride], mine[(i + half) * stride]);
    }
    if (rest > 1) __syncthreads();
  }
}

/// inner == 1: rows of `dim` neighbouring states. Block: (columns, rows); grid: (columns, slices of rows).
/// Thread (x, y) adds the rows y, y + slices * blockDim.y, ... of column x: neighbours read neighbours.
template <class R>
__global__ void __launch_bounds__(kThreads)
    reduce_columns_kernel(std::int64_t rows, std::int64_t dim, R r, typename R::State* partial) {
  using State = typename R::State;
  BANYAN_SHARED_ARRAY(State, states, kThreads);
  const std::int64_t d = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * blockDim.y;
  State state = r.identity();
  if (d < dim) {
    in_batches(static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y, rows, step,
               [&](std::int64_t row) { r.add(state, row * dim + d, d); });
  }
  State* mine = states + threadIdx.y * blockDim.x + threadIdx.x;
  *mine = state;
  merge_tree(r, mine, static_cast<int>(threadIdx.y), static_cast<int>(blockDim.y),
             static_cast<int>(blockDim.x));
  if (threadIdx.y != 0 || d >= dim) return;
  if (gridDim.y == 1)
    r.store(d, *mine);
  else
    partial[blockIdx.y * dim + d] = *mine;
}

/// The same for kWidth neighbouring columns a thread; kWidth divides `dim`. `aligned`: for packs; what is
/// added in which order does not depend on it. Block: (packs of columns, rows); grid: (packs, slices of
/// rows).
template <int kWidth, class R>
__global__ void __launch_bounds__(kThreads)
    reduce_column_packs_kernel(std::int64_t rows, std::int64_t dim, bool aligned, R r,
                               typename R::State* partial) {
  using State = typename R::State;
  BANYAN_SHARED_ARRAY(State, states, kThreads);
  const std::int64_t d = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kWidth;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * blockDim.y;
  State mine[kWidth];
  BANYAN_UNROLLED
  for (int w = 0; w < kWidth; ++w) mine[w] = r.identity();
  if (d < dim) {
    const auto add = [&](const PackOfReads<R, kWidth>& read) {
      const R of_pack = read.functor(r);
      BANYAN_UNROLLED
      for (int w = 0; w < kWidth; ++w) of_pack.add(mine[w], w, d + w);
    };
    std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
    for (; row + (kPacksAtOnce - 1) * step < rows; row += kPacksAtOnce * step) {
      PackOfReads<R, kWidth> reads[kPacksAtOnce];
      BANYAN_UNROLLED
      for (int k = 0; k < kPacksAtOnce; ++k) reads[k].load(r, (row + k * step) * dim + d, aligned);
      BANYAN_UNROLLED
      for (int k = 0; k < kPacksAtOnce; ++k) add(reads[k]);
    }
    for (; row < rows; row += step) {
      PackOfReads<R, kWidth> read;
      read.load(r, row * dim + d, aligned);
      add(read);
    }
  }
  State* here = states + threadIdx.y * blockDim.x + threadIdx.x;
  BANYAN_UNROLLED
  for (int w = 0; w < kWidth; ++w) {
    if (w > 0) __syncthreads();
    *here = mine[w];
    merge_tree(r, here, static_cast<int>(threadIdx.y), static_cast<int>(blockDim.y),
               static_cast<int>(blockDim.x));
    if (threadIdx.y != 0 || d >= dim) continue;
    if (gridDim.y == 1)
      r.store(d + w, *here);
    else
      partial[blockIdx.y * dim + d + w] = *here;
  }
}

/// Runs of `inner` neighbours with one state. Grid: (states, slices of their outer * inner positions). Index:
/// unsigned where the positions of one state fit.
template <class Index, class R>
__global__ void __launch_bounds__(kThreads)
    reduce_runs_kernel(Broadcast over, R r, typename R::State* partial) {
  using State = typename R::State;
  BANYAN_SHARED_ARRAY(State, states, kThreads);
  const std::int64_t d = blockIdx.x;
  const Index inner = static_cast<Index>(over.inner);
  const Index positions = static_cast<Index>(over.outer * over.inner);
  const Index step = static_cast<Index>(gridDim.y) * kThreads;
  State state = r.identity();
  in_batches(static_cast<Index>(static_cast<Index>(blockIdx.y) * kThreads + threadIdx.x), positions, step,
             [&](Index at) {
               const Index outer = at / inner, rest = at - outer * inner;
               r.add(state,
                     (static_cast<std::int64_t>(outer) * over.dim + d) * over.inner +
                         static_cast<std::int64_t>(rest),
                     d);
             });
  State* mine = states + threadIdx.x;
  *mine = state;
  merge_tree(r, mine, static_cast<int>(threadIdx.x), kThreads, 1);
  if (threadIdx.x != 0) return;
  if (gridDim.y == 1)
    r.store(d, *mine);
  else
    partial[blockIdx.y * over.dim + d] = *mine;
}

/// One block per state merges its `slices` partial states (slices x dim) and stores the result.
template <class R>
__global__ void __launch_bounds__(kMergeThreads)
    merge_partial_kernel(std::int64_t slices, std::int64_t dim, R r, const typename R::State* partial) {
  using State = typename R::State;
  BANYAN_SHARED_ARRAY(State, states, kMergeThreads);
  const std::int64_t d = blockIdx.x;
  State state = r.identity();
  for (std::int64_t slice = threadIdx.x; slice < slices; slice += kMergeThreads)
    r.merge(state, partial[slice * dim + d]);
  State* mine = states + threadIdx.x;
  *mine = state;
  merge_tree(r, mine, static_cast<int>(threadIdx.x), kMergeThreads, 1);
  if (threadIdx.x == 0) r.store(d, *mine);
}

}  // namespace kernels

class CudaBackend {
 public:
  static constexpr DeviceKind kind = DeviceKind::cuda;

  template <class F>
  static void for_each(Context& context, std::int64_t n, F f) {
    if (n <= 0) return;
    constexpr const char* kWhat = "launch of an elementwise kernel";
    if constexpr (ReadsAtItsIndex<F>) {
      constexpr int kWidth = 16 / sizeof(typename F::Element);
      launch_checked(context, kWhat, kernels::for_each_pack_kernel<kWidth, F>,
                     blocks_for((n + kWidth - 1) / kWidth), kernels::kThreads, n,
                     is_aligned_for_packs<kWidth>(f), f);
    } else {
      launch_checked(context, kWhat, kernels::for_each_kernel<F>, blocks_for(n), kernels::kThreads, n, f);
    }
  }

  template <class F>
  static void for_each_long(Context& context, std::int64_t n, std::int64_t, F f) {
    for_each(context, n, f);
  }

  /// No more blocks than fill a GPU: making f may take longer than an element.
  template <class Make>
  static void for_each_made(Context& context, std::int64_t n, Make make) {
    if (n <= 0) return;
    const unsigned blocks = std::min<unsigned>(blocks_for(n), kFullGpu);
    launch_checked(context, "launch of an elementwise kernel", kernels::for_each_made_kernel<Make>, blocks,
                   kernels::kThreads, n, make);
  }

  template <class Make>
  static void for_each_made(Context& context, std::int64_t rows, std::int64_t columns, Make make) {
    const std::int64_t n = rows * columns;
    if (n <= 0) return;
    const unsigned blocks = std::min<unsigned>(blocks_for(n), kFullGpu);
    with_index(n, [&]<class Index>() {
      launch_checked(context, "launch of an elementwise kernel",
                     kernels::for_each_made_rows_kernel<Index, Make>, blocks, kernels::kThreads,
                     static_cast<Index>(n), static_cast<Index>(columns), make);
    });
  }

  template <class F>
  static void for_each_channel(Context& context, const Broadcast& over, F f) {
    const std::int64_t n = over.outer * over.dim * over.inner;
    if (n <= 0) return;
    with_index(n, [&]<class Index>() {
      launch_checked(context, "launch of a per-channel kernel", kernels::for_each_channel_kernel<Index, F>,
                     blocks_for(n), kernels::kThreads, static_cast<Index>(n), static_cast<Index>(over.dim),
                     static_cast<Index>(over.inner), f);
    });
  }

  template <class Element>
  static void copy_blocks(Context& context, const Element* from, Element* to, const BlockCopy& what) {
    const std::int64_t n = what.blocks * what.length;
    if (n <= 0) return;
    with_index(n, [&]<class Index>() {
      launch_checked(context, "launch of a block copy", kernels::copy_blocks_kernel<Index, Element>,
                     blocks_for(n), kernels::kThreads, static_cast<Index>(n), what, from, to);
    });
  }

  /// to[b][column][row] = from[b][row][column]; defined in transpose.cuh.
  template <class From, class To>
  static void transpose(Context& context, std::int64_t batch, std::int64_t rows, std::int64_t columns,
                        const From* from, To* to);

  /// f.store(i, f.value(f.terms(d), i)) for all elements i of outer x dim x inner memory; the terms of d are
  /// computed once per thread, not per element. A value may depend on elements i only.
  template <class F>
  static void for_each_with_terms(Context& context, const Broadcast& over, F f) {
    const std::int64_t positions = over.outer * over.inner;
    if (positions <= 0 || over.dim <= 0) return;
    constexpr const char* kWhat = "launch of a kernel with terms per channel";
    if (over.inner == 1) {
      constexpr int kWidth = kColumnsOfAPack<typename F::Element>;
      if (over.dim % kWidth == 0) {
        const ColumnShape shape(over, kWidth);
        launch_checked(context, kWhat, kernels::column_packs_with_terms_kernel<kWidth, F>, shape.grid,
                       shape.block, over.outer, over.dim, is_aligned_for_packs<kWidth>(f), f);
        return;
      }
      const ColumnShape shape(over);
      launch_checked(context, kWhat, kernels::columns_with_terms_kernel<F>, shape.grid, shape.block,
                     over.outer, over.dim, f);
      return;
    }
    const dim3 grid(static_cast<unsigned>(over.dim),
                    static_cast<unsigned>(slices_for(positions, kernels::kThreads, over.dim)));
    with_index(positions, [&]<class Index>() {
      launch_checked(context, kWhat, kernels::runs_with_terms_kernel<Index, F>, grid, kernels::kThreads, over,
                     f);
    });
  }

  template <class R>
  static void reduce_channels(Context& context, const Broadcast& over, R r) {
    if (over.dim <= 0) return;
    if (over.inner == 1)
      reduce_columns(context, over, r);
    else
      reduce_runs(context, over, r);
  }

  template <class R>
  static void reduce_all(Context& context, std::int64_t n, R r) {
    reduce_channels(context, Broadcast{1, 1, n}, r);
  }

  /// A launch on the context's stream. `what` appears in the error.
  template <class... Parameters, class... Arguments>
  static void launch_checked(Context& context, const char* what, void (*kernel)(Parameters...),
                             const dim3& grid, const dim3& block, const Arguments&... arguments) {
    launch(kernel, grid, block, cuda_stream(context), arguments...);
    cuda_check(cudaGetLastError(), context.device().name(), what);
  }

  /// body<Index>() with the index type for n elements: 32 bits if adding a grid's step cannot overflow.
  template <class Body>
  static void with_index(std::int64_t n, const Body& body) {
    if (n < small_index_limit())
      body.template operator()<std::uint32_t>();
    else
      body.template operator()<std::int64_t>();
  }

 private:
  static constexpr std::int64_t kMostBlocks = 1 << 16;
  /// Blocks that fill the largest GPU (132 multiprocessors, 8 blocks each).
  static constexpr unsigned kFullGpu = 1056;
  /// Blocks of a reduction: enough for the largest GPU, and the same on every GPU.
  static constexpr std::int64_t kReductionBlocks = 1024;
  /// Of a thread that has several columns: more would need too many registers.
  template <class T>
  static constexpr int kColumnsOfAPack = sizeof(T) == 8 ? 2 : 4;
  static constexpr std::int64_t kElementsPerThread =
      8;  ///< minimum before a state is spread over more blocks

  static unsigned blocks_for(std::int64_t n) {
    return static_cast<unsigned>(
        std::min<std::int64_t>((n + kernels::kThreads - 1) / kernels::kThreads, kMostBlocks));
  }

  static std::int64_t slices_for(std::int64_t elements, std::int64_t threads, std::int64_t blocks_per_slice,
                                 std::int64_t most_blocks = kReductionBlocks) {
    const std::int64_t useful =
        (elements + threads * kElementsPerThread - 1) / (threads * kElementsPerThread);
    const std::int64_t most = std::max<std::int64_t>(most_blocks / blocks_per_slice, 1);
    return std::clamp<std::int64_t>(useful, 1, most);
  }

  /// For inner == 1: a block is as wide as dim needs, up to a warp, and uses all threads. A thread that has
  /// several columns loads more at once, so that half of the blocks are enough.
  struct ColumnShape {
    explicit ColumnShape(const Broadcast& over, int columns_of_a_thread = 1) {
      unsigned width = 1;
      const std::int64_t packs = over.dim / columns_of_a_thread;
      while (width < 32 && width < packs) width *= 2;
      block = dim3(width, kernels::kThreads / width);
      const std::int64_t column_blocks = (packs + width - 1) / width;
      slices = slices_for(over.outer, block.y, column_blocks,
                          columns_of_a_thread == 1 ? kReductionBlocks : kReductionBlocks / 2);
      grid = dim3(static_cast<unsigned>(column_blocks), static_cast<unsigned>(slices));
    }
    dim3 block, grid;
    std::int64_t slices;
  };

  template <class R>
  static typename R::State* partial_states(Context& context, std::int64_t slices, std::int64_t dim) {
    if (slices == 1) return nullptr;
    const auto count = static_cast<std::size_t>(slices * dim);
    return static_cast<typename R::State*>(
        cuda_handles(context).reduction_scratch(count * sizeof(typename R::State)));
  }

  template <class R>
  static void reduce_columns(Context& context, const Broadcast& over, const R& r) {
    constexpr const char* kWhat = "launch of a per-channel reduction";
    if constexpr (ReadsAtItsIndex<R>) {
      constexpr int kWidth = kColumnsOfAPack<typename R::Element>;
      if (over.dim % kWidth == 0) {
        const ColumnShape shape(over, kWidth);
        typename R::State* partial = partial_states<R>(context, shape.slices, over.dim);
        launch_checked(context, kWhat, kernels::reduce_column_packs_kernel<kWidth, R>, shape.grid,
                       shape.block, over.outer, over.dim, is_aligned_for_packs<kWidth>(r), r, partial);
        if (shape.slices > 1) merge(context, shape.slices, over.dim, r, partial);
        return;
      }
    }
    const ColumnShape shape(over);
    typename R::State* partial = partial_states<R>(context, shape.slices, over.dim);
    launch_checked(context, kWhat, kernels::reduce_columns_kernel<R>, shape.grid, shape.block, over.outer,
                   over.dim, r, partial);
    if (shape.slices > 1) merge(context, shape.slices, over.dim, r, partial);
  }

  template <class R>
  static void reduce_runs(Context& context, const Broadcast& over, const R& r) {
    const std::int64_t positions = over.outer * over.inner;
    const std::int64_t slices = slices_for(positions, kernels::kThreads, over.dim);
    typename R::State* partial = partial_states<R>(context, slices, over.dim);
    const dim3 grid(static_cast<unsigned>(over.dim), static_cast<unsigned>(slices));
    with_index(positions, [&]<class Index>() {
      launch_checked(context, "launch of a reduction", kernels::reduce_runs_kernel<Index, R>, grid,
                     kernels::kThreads, over, r, partial);
    });
    if (slices > 1) merge(context, slices, over.dim, r, partial);
  }

  template <class R>
  static void merge(Context& context, std::int64_t slices, std::int64_t dim, const R& r,
                    const typename R::State* partial) {
    launch_checked(context, "launch of the merge of a reduction", kernels::merge_partial_kernel<R>,
                   static_cast<unsigned>(dim), kernels::kMergeThreads, slices, dim, r, partial);
  }
};

}  // namespace banyan::ops
