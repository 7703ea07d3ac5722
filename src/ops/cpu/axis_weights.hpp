// Images whose pixels are weighted sums of another image's: weights along each axis, worked out once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ops/cpu/channel_blocks.hpp"

namespace banyan::ops {

/// For each pixel along an axis, the neighbouring pixels of another image that it is made of, and their
/// weights.
template <class A>
class AxisWeights {
 public:
  struct Run {
    std::int64_t first, last;  ///< pixels of the other image; equal for none
    std::int64_t weights;
  };

  /// Starts the next pixel's run at pixel `first`; add() appends its weights.
  void begin(std::int64_t first) {
    runs_.push_back({first, first, static_cast<std::int64_t>(weights_.size())});
  }
  void add(A weight) {
    weights_.push_back(weight);
    ++runs_.back().last;
  }
  const std::vector<Run>& runs() const { return runs_; }
  /// That of run.first comes first.
  const A* weights(const Run& run) const { return weights_.data() + run.weights; }

  /// What each of the other image's `length` pixels gives to which pixels. Runs must begin and end in order.
  AxisWeights transposed(std::int64_t length) const {
    AxisWeights result;
    std::size_t begin = 0, end = 0;
    for (std::int64_t pixel = 0; pixel < length; ++pixel) {
      while (begin < runs_.size() && runs_[begin].last <= pixel) ++begin;
      end = std::max(end, begin);
      while (end < runs_.size() && runs_[end].first <= pixel) ++end;
      result.begin(static_cast<std::int64_t>(begin));
      for (std::size_t o = begin; o < end; ++o) result.add(weights(runs_[o])[pixel - runs_[o].first]);
    }
    return result;
  }

 private:
  std::vector<Run> runs_;
  std::vector<A> weights_;
};

/// The weighted sum of the rows of a run, of `n` numbers each.
template <class T, class A>
void weigh_rows(const AxisWeights<A>& rows, const typename AxisWeights<A>::Run& row, std::int64_t n,
                const T* x, A* sum) {
  std::fill_n(sum, n, A(0));
  const A* const shares = rows.weights(row);
  for (std::int64_t r = row.first; r < row.last; ++r) {
    const A share = shares[r - row.first];
    const T* const from = x + r * n;
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) sum[i] += share * from[i];
  }
}

/// Each pixel of a row of y: the weighted sum of a run of the pixels in `sums`.
template <class T, class A>
void weigh_columns(std::int64_t channels, const AxisWeights<A>& columns, const A* sums, T* y) {
  for (const auto& column : columns.runs()) {
    const A* const weights = columns.weights(column);
    for_channel_blocks<T>(channels, [&]<class Block>(std::int64_t first, Block) {
      typename Block::Values sum{};
      for (std::int64_t c = column.first; c < column.last; ++c) {
        typename Block::Values value;
        std::memcpy(&value, sums + c * channels + first, sizeof(value));
        sum += weights[c - column.first] * value;
      }
      Block::store(sum, y + first);
    });
    y += channels;
  }
}

/// Images y from images x of `height` x `width` pixels with so many channels each (1 for planes). Rows first,
/// so that each row of x is read once for every row of y that it is part of.
template <class T, class A>
void weigh_planes(int threads, std::int64_t images, std::int64_t channels, const AxisWeights<A>& rows,
                  const AxisWeights<A>& columns, std::int64_t height, std::int64_t width, const T* x, T* y) {
  const auto row_count = static_cast<std::int64_t>(rows.runs().size());
  const std::int64_t length = width * channels;
  const std::int64_t out_length = static_cast<std::int64_t>(columns.runs().size()) * channels;
#pragma omp parallel num_threads(threads)
  {
    std::vector<A> sums(static_cast<std::size_t>(length));
#pragma omp for schedule(static)
    for (std::int64_t r = 0; r < images * row_count; ++r) {
      const auto& row = rows.runs()[static_cast<std::size_t>(r % row_count)];
      T* const to = y + r * out_length;
      if (row.first == row.last) {
        std::fill_n(to, out_length, T(0));
        continue;
      }
      weigh_rows(rows, row, length, x + r / row_count * height * length, sums.data());
      weigh_columns(channels, columns, sums.data(), to);
    }
  }
}

}  // namespace banyan::ops
