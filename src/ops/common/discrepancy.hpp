// The maximum mean discrepancy, for every back end (see backend.hpp).
#pragma once

#include <cmath>

#include "banyan/ops/discrepancy.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/pass_key.hpp"

namespace banyan::ops {
namespace detail {

struct DrawRows {
  RandomKey key;
  std::int64_t a_rows, b_rows;
  std::int32_t* picks;
  BANYAN_HOST_DEVICE void operator()(std::int64_t draw) const {
    const Philox4 bits = random_quad(key, draw, 0);
    pick(bits.v[0], bits.v[1], a_rows, picks + 4 * draw);
    pick(bits.v[2], bits.v[3], b_rows, picks + 4 * draw + 2);
  }

 private:
  BANYAN_HOST_DEVICE static void pick(std::uint32_t first, std::uint32_t second, std::int64_t rows,
                                      std::int32_t* to) {
    const auto count = static_cast<std::uint32_t>(rows);
    const std::uint32_t one = first % count, other = second % (count - 1);
    to[0] = static_cast<std::int32_t>(one);
    to[1] = static_cast<std::int32_t>(other < one ? other : other + 1);
  }
};

/// Pair number `index` of all draws, as rows of a followed by b.
struct PickedPair {
  std::int64_t first, second;
  double sign;
  BANYAN_HOST_DEVICE PickedPair(const std::int32_t* picks, std::int64_t index, std::int64_t a_rows) {
    const std::int32_t* const drawn = picks + index / 4 * 4;
    const std::int64_t which = index % 4;
    // a a, b b, a b, a b
    first = which == 1 ? a_rows + drawn[2] : which == 3 ? drawn[1] : drawn[0];
    second = which == 0 ? drawn[1] : which == 3 ? a_rows + drawn[2] : a_rows + drawn[3];
    sign = which < 2 ? 1 : -1;
  }
};

/// Reduces over memory seen as 1 x pairs x length.
template <class T>
struct PickedDistance {
  struct State {
    double sum;
  };
  std::int64_t a_rows, length;
  const T *a, *b;
  const std::int32_t* picks;
  double* squares;
  BANYAN_HOST_DEVICE State identity() const { return {0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t index) const {
    const PickedPair pair(picks, index, a_rows);
    const std::int64_t k = i - index * length;
    const double d = value(pair.first, k) - value(pair.second, k);
    s.sum += d * d;
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const { into.sum += later.sum; }
  BANYAN_HOST_DEVICE void store(std::int64_t index, const State& s) const { squares[index] = s.sum; }

 private:
  BANYAN_HOST_DEVICE double value(std::int64_t row, std::int64_t k) const {
    return static_cast<double>(row < a_rows ? a[row * length + k] : b[(row - a_rows) * length + k]);
  }
};

template <class T>
struct ColumnDeviation {
  std::int64_t a_rows, b_rows, length;
  const T *a, *b;
  double* deviations;
  BANYAN_HOST_DEVICE void operator()(std::int64_t k) const {
    double sum = 0, squares = 0;
    for (std::int64_t row = 0; row < a_rows; ++row) sum += static_cast<double>(a[row * length + k]);
    for (std::int64_t row = 0; row < b_rows; ++row) sum += static_cast<double>(b[row * length + k]);
    const double mean = sum / static_cast<double>(a_rows + b_rows);
    for (std::int64_t row = 0; row < a_rows; ++row) {
      const double d = static_cast<double>(a[row * length + k]) - mean;
      squares += d * d;
    }
    for (std::int64_t row = 0; row < b_rows; ++row) {
      const double d = static_cast<double>(b[row * length + k]) - mean;
      squares += d * d;
    }
    deviations[k] = squares;
  }
};

struct GaussianSum {
  GaussianKernels kernels;
  const double *squares, *deviation;
  double *values, *slopes;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    double factor = kernels.first;
    if (kernels.rows > 0)  // squared distances of all pairs: rows times the deviation
      factor *= deviation[0] > 0 ? static_cast<double>(kernels.rows - 1) / (2 * deviation[0]) : 0;
    double value = 0, slope = 0;
    for (std::int64_t k = 0; k < kernels.count; ++k, factor *= kernels.ratio) {
      const double kernel = std::exp(-factor * squares[i]);
      value += kernel;
      slope -= factor * kernel;
    }
    values[i] = value;
    slopes[i] = slope;
  }
};

struct MeanDiscrepancy {
  struct State {
    double sum;
  };
  double draws;
  const double *values, *others;
  double* partial;
  BANYAN_HOST_DEVICE State identity() const { return {0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t) const {
    const double value = others == nullptr ? values[i] : values[i] * others[i];
    s.sum += i % 4 < 2 ? value : -value;
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const { into.sum += later.sum; }
  BANYAN_HOST_DEVICE void store(std::int64_t, const State& s) const {
    partial[0] = s.sum / draws;
    partial[1] = 0;
  }
};

template <class T>
struct DiscrepancyMatrix {
  MatrixPart part;
  std::int64_t pairs;
  const std::int32_t* picks;
  const double *slopes, *others;
  const T* grad_loss;
  T* matrix;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = part.first_row + i / part.columns, column = part.first_column + i % part.columns;
    double sum = 0;
    for (std::int64_t p = 0; p < pairs; ++p) {
      const PickedPair pair(picks, p, part.a_rows);
      const bool is_first = pair.first == row, is_second = pair.second == row;
      if (!is_first && !is_second) continue;
      const double slope = pair.sign * (others == nullptr ? slopes[p] : slopes[p] * others[p]);
      if (row == column)
        sum += slope;
      else if ((is_first ? pair.second : pair.first) == column)
        sum -= slope;
    }
    // Twice: the slope of a square.
    matrix[i] =
        static_cast<T>(2 * sum * static_cast<double>(grad_loss[0]) / (static_cast<double>(pairs) / 4));
  }
};

inline const double* values_or_none(const Tensor& values) {
  return values.defined() ? values.data<double>() : nullptr;
}

}  // namespace detail

template <class Backend>
void draw_rows_on(Context& context, const PassKey& key, std::int64_t a_rows, std::int64_t b_rows,
                  Tensor& picks) {
  if (a_rows < 2 || b_rows < 2) runtime_failure("draw_rows: two rows of ", a_rows, " and ", b_rows);
  const detail::DrawRows functor{{key.seed, key.stream, 0}, a_rows, b_rows, picks.data<std::int32_t>()};
  Backend::for_each_made(context, picks.count() / 4, MakeDrawing<detail::DrawRows>{functor, key.iteration});
}

template <class Backend>
void picked_distances_on(Context& context, const Tensor& a, const Tensor& b, const Tensor& picks,
                         Tensor& squares) {
  require_count("picked_distances", squares, picks.count());
  const std::int64_t length = a.shape().count(1);
  dispatch_float(a.dtype(), "picked_distances", [&]<class T>() {
    Backend::reduce_channels(context, Broadcast{1, squares.count(), length},
                             detail::PickedDistance<T>{a.shape()[0], length, a.data<T>(), b.data<T>(),
                                                       picks.data<std::int32_t>(), squares.data<double>()});
  });
}

template <class Backend>
void column_deviations_on(Context& context, const Tensor& a, const Tensor& b, Tensor& deviations) {
  const std::int64_t length = deviations.count(), a_rows = a.shape()[0], b_rows = b.shape()[0];
  require_count("column_deviations", a, a_rows * length);
  require_count("column_deviations", b, b_rows * length);
  dispatch_float(a.dtype(), "column_deviations", [&]<class T>() {
    Backend::for_each_long(context, length, 2 * (a_rows + b_rows),
                           detail::ColumnDeviation<T>{a_rows, b_rows, length, a.data<T>(), b.data<T>(),
                                                      deviations.data<double>()});
  });
}

template <class Backend>
void gaussian_kernels_on(Context& context, const Tensor& squares, const GaussianKernels& kernels,
                         const Tensor& deviation, Tensor& values, Tensor& slopes) {
  require_alike("gaussian_kernels", squares, values);
  require_alike("gaussian_kernels", squares, slopes);
  Backend::for_each_long(
      context, squares.count(), kernels.count,
      detail::GaussianSum{kernels, squares.data<double>(), detail::values_or_none(deviation),
                          values.data<double>(), slopes.data<double>()});
}

template <class Backend>
void mean_discrepancy_on(Context& context, const Tensor& values, const Tensor& others, Tensor& partial) {
  require_count("mean_discrepancy, partial", partial, 2);
  Backend::reduce_all(context, values.count(),
                      detail::MeanDiscrepancy{static_cast<double>(values.count()) / 4, values.data<double>(),
                                              detail::values_or_none(others), partial.data<double>()});
}

template <class Backend>
void discrepancy_matrix_on(Context& context, const Tensor& picks, const Tensor& slopes, const Tensor& others,
                           const Tensor& grad_loss, const MatrixPart& part, Tensor& matrix) {
  require_count("discrepancy_matrix", matrix, part.rows * part.columns);
  dispatch_float(matrix.dtype(), "discrepancy_matrix", [&]<class T>() {
    Backend::for_each_long(
        context, matrix.count(), slopes.count(),
        detail::DiscrepancyMatrix<T>{part, slopes.count(), picks.data<std::int32_t>(), slopes.data<double>(),
                                     detail::values_or_none(others), grad_loss.data<T>(), matrix.data<T>()});
  });
}

template <class Backend>
struct DefineDiscrepancy {
  DefineDiscrepancy() {
    draw_rows.define(Backend::kind, &draw_rows_on<Backend>);
    picked_distances.define(Backend::kind, &picked_distances_on<Backend>);
    column_deviations.define(Backend::kind, &column_deviations_on<Backend>);
    gaussian_kernels.define(Backend::kind, &gaussian_kernels_on<Backend>);
    mean_discrepancy.define(Backend::kind, &mean_discrepancy_on<Backend>);
    discrepancy_matrix.define(Backend::kind, &discrepancy_matrix_on<Backend>);
  }
};

}  // namespace banyan::ops
