// The CPU's launches for the functors of src/ops/common (see backend.hpp).
//
// Reductions are bit-identical in every run. Elements are divided into chunks by a rule that depends only on
// the sizes (and, beyond 16 threads, on their number); within a chunk, element j goes to SIMD lane j mod
// kLanes, so that additions are independent and vectorize; lanes, then chunks, are merged in ascending order.
// Which thread takes which chunk does not matter.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "banyan/ops/basic.hpp"
#include "ops/common/backend.hpp"
#include "ops/cpu/transpose_16.hpp"

namespace banyan::ops {

/// Below this many elements a second thread costs more than it gains (waking a team takes 2 to 10 us).
inline constexpr std::int64_t kSerialElements = 32768;

class CpuBackend {
 public:
  static constexpr DeviceKind kind = DeviceKind::cpu;

  template <class F>
  static void for_each(Context& context, std::int64_t n, F f) {
    const int threads = threads_for(context, n);
    context.run([=] { loop(threads, n, f); });
  }

  template <class F>
  static void for_each_long(Context& context, std::int64_t n, std::int64_t elements, F f) {
    const int threads = threads_for(context, n * elements);
    context.run([=] { loop(threads, n, f); });
  }

  template <class Make>
  static void for_each_made(Context& context, std::int64_t n, Make make) {
    const int threads = threads_for(context, n);
    context.run([=] { loop(threads, n, make()); });
  }

  template <class Make>
  static void for_each_made(Context& context, std::int64_t count, std::int64_t columns, Make make) {
    const int threads = threads_for(context, count * columns);
    context.run([=] {
      const auto f = make();
      rows(threads, count, columns, [&](std::int64_t row, std::int64_t first, std::int64_t last) {
        row_stretch(row, first, last, f);
      });
    });
  }

  template <class F>
  static void for_each_channel(Context& context, const Broadcast& over, F f) {
    const int threads = threads_for(context, over.outer * over.dim * over.inner);
    context.run([=] {
      if (over.inner == 1)
        // Rows of neighbouring channels.
        rows(threads, over.outer, over.dim, [&](std::int64_t row, std::int64_t first, std::int64_t last) {
          channels_stretch(row * over.dim, first, last, f);
        });
      else
        // Rows of one channel.
        rows(threads, over.outer * over.dim, over.inner,
             [&](std::int64_t row, std::int64_t first, std::int64_t last) {
               run_stretch(row * over.inner + first, row * over.inner + last, row % over.dim, f);
             });
    });
  }

  template <class R>
  static void reduce_channels(Context& context, const Broadcast& over, R r) {
    const int threads = threads_for(context, over.outer * over.dim * over.inner);
    const std::int64_t tasks = (context.device().threads() + kTasks - 1) / kTasks * kTasks;
    context.run([=] {
      if (over.dim == 0) return;
      if (over.inner == 1 && over.dim > 1)
        reduce_columns(threads, tasks, 1, over, r);
      else
        reduce_rows(threads, tasks, over, r);
    });
  }

  template <class R>
  static void reduce_all(Context& context, std::int64_t n, R r) {
    reduce_channels(context, {1, 1, n}, r);
  }

  template <class R>
  static void reduce_columns_of_samples(Context& context, std::int64_t samples, std::int64_t rows,
                                        std::int64_t columns, R r) {
    const int threads = threads_for(context, samples * rows * columns);
    const std::int64_t tasks = (context.device().threads() + kTasks - 1) / kTasks * kTasks;
    context.run([=] { reduce_columns(threads, tasks, samples, {rows, columns, 1}, r); });
  }

  template <class From, class To>
  static void transpose(Context& context, std::int64_t batch, std::int64_t rows, std::int64_t columns,
                        const From* from, To* to) {
    const int threads = threads_for(context, batch * rows * columns);
    context.run([=] {
      const std::int64_t strips = (rows + kStrip - 1) / kStrip, column_tiles = (columns + kTile - 1) / kTile;
      for_tasks(threads, batch * strips * column_tiles, [&](std::int64_t task) {
        const std::int64_t c = task % column_tiles * kTile, of_batch = task / column_tiles;
        const std::int64_t first = of_batch % strips * kStrip, start = of_batch / strips * rows * columns;
        const std::int64_t end = std::min(first + kStrip, rows);
        for (std::int64_t r = first; r < end; r += kTile)
          transpose_tile(std::min(kTile, end - r), std::min(kTile, columns - c), rows, columns,
                         from + start + r * columns + c, to + start + c * rows + r);
      });
    });
  }

  template <class Element>
  static void copy_blocks(Context& context, const Element* from, Element* to, const BlockCopy& what) {
    copy_streams<Element>(
        context, what.blocks,
        {{from + what.from_offset, to + what.to_offset, what.length, what.from_stride, what.to_stride}});
  }

  template <class Element>
  static void copy_streams(Context& context, std::int64_t blocks,
                           const std::vector<BlockStream<Element>>& streams) {
    std::int64_t length = 0;
    for (const BlockStream<Element>& s : streams) length += s.length;
    const int threads = threads_for(context, blocks * length);
    context.run([=] {
      const auto move = [](const BlockStream<Element>& s, std::int64_t block) {
        std::copy_n(s.from + block * s.from_stride, s.length, s.to + block * s.to_stride);
      };
      const auto count = static_cast<std::int64_t>(streams.size());
      if (blocks >= 4 * threads)
        for_tasks(threads, blocks, [&](std::int64_t block) {
          for (const BlockStream<Element>& s : streams) move(s, block);
        });
      else
        for_tasks(threads, blocks * count, [&](std::int64_t task) {
          move(streams[static_cast<std::size_t>(task % count)], task / count);
        });
    });
  }

  /// Threads to use for `n` elements of ordinary cost.
  static int threads_for(Context& context, std::int64_t n) {
    return n < kSerialElements ? 1 : context.device().threads();
  }

 private:
  static constexpr std::int64_t kTasks = 16;
  static constexpr std::int64_t kLanes = 16;
  static constexpr std::int64_t kTile = 16;
  static constexpr std::int64_t kStrip = 64;  ///< rows of tiles after each other: neighbours in the target
  static constexpr std::int64_t kTaskElements = 8192;  ///< approximate minimum size of a task

  /// Each thread works on its own copy of `f`, which no store can alias, so its members stay in registers and
  /// the loop vectorizes.
  template <class F>
  static void loop(int threads, std::int64_t n, const F& f) {
    if (threads > 1) {
#pragma omp parallel num_threads(threads)
      {
        const std::int64_t thread = omp_get_thread_num(), team = omp_get_num_threads();
        stretch(n * thread / team, n * (thread + 1) / team, f);
      }
    } else {
      stretch(0, n, f);
    }
  }
  /// Not inlined: otherwise GCC 12 dropped the whole loop (seen with functors that call expf or hold an
  /// array).
  template <class F>
  [[gnu::noinline]] static void stretch(std::int64_t begin, std::int64_t end, F f) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) f(i);
  }

  template <class F>
  [[gnu::noinline]] static void channels_stretch(std::int64_t start, std::int64_t begin, std::int64_t end,
                                                 F f) {
#pragma omp simd
    for (std::int64_t d = begin; d < end; ++d) f(start + d, d);
  }
  template <class F>
  [[gnu::noinline]] static void run_stretch(std::int64_t begin, std::int64_t end, std::int64_t d, F f) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) f(i, d);
  }
  template <class F>
  [[gnu::noinline]] static void row_stretch(std::int64_t row, std::int64_t begin, std::int64_t end, F f) {
#pragma omp simd
    for (std::int64_t column = begin; column < end; ++column) f(row, column);
  }

  /// body(row, first, last) for all rows; if there are few, long ones are split into pieces.
  template <class Body>
  static void rows(int threads, std::int64_t count, std::int64_t length, const Body& body) {
    const std::int64_t pieces =
        count >= 4 * threads ? 1 : std::clamp<std::int64_t>(length / 4096, 1, 4 * threads);
    for_tasks(threads, count * pieces, [&](std::int64_t task) {
      const std::int64_t row = task / pieces, piece = task % pieces;
      body(row, length * piece / pieces, length * (piece + 1) / pieces);
    });
  }

  /// A tile goes through a buffer, or registers, so that both sides are accessed in memory order.
  template <class From, class To>
  static void transpose_tile(std::int64_t tile_rows, std::int64_t tile_columns, std::int64_t rows,
                             std::int64_t columns, const From* from, To* to) {
    if (tile_rows == kTile && tile_columns == kTile) {
      if constexpr (kTransposedInRegisters<From, To>) return transpose_16(from, columns, to, rows);
      To tile[kTile][kTile];
      for (std::int64_t r = 0; r < kTile; ++r)
        for (std::int64_t c = 0; c < kTile; ++c) tile[c][r] = static_cast<To>(from[r * columns + c]);
      for (std::int64_t c = 0; c < kTile; ++c)
        for (std::int64_t r = 0; r < kTile; ++r) to[c * rows + r] = tile[c][r];
    } else {
      for (std::int64_t r = 0; r < tile_rows; ++r)
        for (std::int64_t c = 0; c < tile_columns; ++c)
          to[c * rows + r] = static_cast<To>(from[r * columns + c]);
    }
  }

  /// body(task) for all tasks, in any order.
  template <class Body>
  static void for_tasks(int threads, std::int64_t tasks, const Body& body) {
    if (threads > 1 && tasks > 1) {
#pragma omp parallel for schedule(static) num_threads(threads)
      for (std::int64_t task = 0; task < tasks; ++task) body(task);
    } else {
      for (std::int64_t task = 0; task < tasks; ++task) body(task);
    }
  }

  static std::int64_t tasks_wanted(std::int64_t tasks, std::int64_t elements) {
    return std::clamp<std::int64_t>(elements / kTaskElements, 1, tasks);
  }

  /// inner == 1: rows of `dim` neighbouring states, for each sample others. A task is a block of a sample's
  /// rows times a block of columns.
  template <class R>
  static void reduce_columns(int threads, std::int64_t most_tasks, std::int64_t samples,
                             const Broadcast& over, const R& r) {
    using State = typename R::State;
    if (samples == 0) return;
    const std::int64_t all = tasks_wanted(most_tasks, samples * over.outer * over.dim);
    const std::int64_t wanted = (all + samples - 1) / samples;
    const std::int64_t row_blocks = std::clamp<std::int64_t>(over.outer / 8, 1, wanted);
    const std::int64_t column_blocks =
        std::clamp<std::int64_t>(over.dim / 64, 1, (wanted + row_blocks - 1) / row_blocks);
    std::vector<State> partial(samples * row_blocks * over.dim, r.identity());
    for_tasks(threads, samples * row_blocks * column_blocks, [&](std::int64_t task) {
      const std::int64_t block = task / column_blocks, column_block = task % column_blocks;
      const std::int64_t sample = block / row_blocks, row_block = block % row_blocks;
      const std::int64_t first = over.dim * column_block / column_blocks;
      const std::int64_t last = over.dim * (column_block + 1) / column_blocks;
      State* states = partial.data() + block * over.dim;
      const std::int64_t begin = sample * over.outer, states_before = sample * over.dim;
      const std::int64_t end = begin + over.outer * (row_block + 1) / row_blocks;
      for (std::int64_t row = begin + over.outer * row_block / row_blocks; row < end; ++row) {
#pragma omp simd
        for (std::int64_t d = first; d < last; ++d) r.add(states[d], row * over.dim + d, states_before + d);
      }
    });
    for (std::int64_t d = 0; d < samples * over.dim; ++d) {
      const State* states = partial.data() + d / over.dim * row_blocks * over.dim + d % over.dim;
      State state = states[0];
      for (std::int64_t block = 1; block < row_blocks; ++block) r.merge(state, states[block * over.dim]);
      r.store(d, state);
    }
  }

  /// Runs of `inner` neighbours with one state. A task is a range of the outer * inner positions of one d.
  template <class R>
  static void reduce_rows(int threads, std::int64_t most_tasks, const Broadcast& over, const R& r) {
    using State = typename R::State;
    const std::int64_t positions = over.outer * over.inner;
    const std::int64_t wanted = tasks_wanted(most_tasks, positions * over.dim);
    const std::int64_t blocks =
        std::clamp<std::int64_t>(positions / kTaskElements, 1, (wanted + over.dim - 1) / over.dim);
    std::vector<State> partial(over.dim * blocks);
    for_tasks(threads, over.dim * blocks, [&](std::int64_t task) {
      const std::int64_t d = task / blocks, block = task % blocks;
      partial[task] = reduce_range(positions * block / blocks, positions * (block + 1) / blocks, d, over, r);
    });
    for (std::int64_t d = 0; d < over.dim; ++d) {
      State state = partial[d * blocks];
      for (std::int64_t block = 1; block < blocks; ++block) r.merge(state, partial[d * blocks + block]);
      r.store(d, state);
    }
  }

  template <class R>
  static typename R::State reduce_range(std::int64_t begin, std::int64_t end, std::int64_t d,
                                        const Broadcast& over, const R& r) {
    typename R::State lanes[kLanes];
    for (auto& lane : lanes) lane = r.identity();
    while (begin < end) {
      const std::int64_t outer = begin / over.inner, from = begin % over.inner;
      const std::int64_t length = std::min(over.inner - from, end - begin);
      const std::int64_t start = (outer * over.dim + d) * over.inner + from;
      std::int64_t i = 0;
      for (; i + kLanes <= length; i += kLanes) {
#pragma omp simd
        for (std::int64_t lane = 0; lane < kLanes; ++lane) r.add(lanes[lane], start + i + lane, d);
      }
      for (std::int64_t lane = 0; i + lane < length; ++lane) r.add(lanes[lane], start + i + lane, d);
      begin += length;
    }
    for (std::int64_t lane = 1; lane < kLanes; ++lane) r.merge(lanes[0], lanes[lane]);
    return lanes[0];
  }
};

}  // namespace banyan::ops
