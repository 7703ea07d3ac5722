// Largest values and sums along an axis on CPU devices: of many positions at a time where the largest alone
// is wanted or all channels are summed; else each position's channels are gathered and sorted as far as
// needed.
#include "ops/common/selection.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

/// Positions that are looked at together, whose sums or largest values stay in the L1 cache.
constexpr std::int64_t kTogether = 512;

/// body(outer index, first position inside, how many)
template <class Body>
void for_stretches(int threads, std::int64_t outer, std::int64_t inner, const Body& body) {
  const std::int64_t stretches = (inner + kTogether - 1) / kTogether;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t task = 0; task < outer * stretches; ++task) {
    const std::int64_t first = task % stretches * kTogether;
    body(task / stretches, first, std::min(kTogether, inner - first));
  }
}

/// The first channels of a line in order (Line::before).
template <class T>
class Sorted {
 public:
  /// `channels` of them, `stride` apart.
  void sort(const T* x, std::int64_t stride, std::int64_t channels, std::int64_t k) {
    values_.resize(static_cast<std::size_t>(channels));
    order_.resize(static_cast<std::size_t>(channels));
    for (std::int64_t c = 0; c < channels; ++c) values_[static_cast<std::size_t>(c)] = x[c * stride];
    std::iota(order_.begin(), order_.end(), std::int64_t{0});
    const detail::Line<T> line{values_.data(), 1, 0, channels};
    std::partial_sort(order_.begin(), order_.begin() + k, order_.end(),
                      [&](std::int64_t a, std::int64_t b) { return line.before(a, b); });
  }
  std::int64_t operator[](std::int64_t rank) const { return order_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<T> values_;
  std::vector<std::int64_t> order_;
};

/// body(position, sorted), one `sorted` for each thread.
template <class T, class Body>
void for_sorted(int threads, std::int64_t positions, const Body& body) {
#pragma omp parallel num_threads(threads)
  {
    Sorted<T> sorted;
#pragma omp for schedule(static)
    for (std::int64_t position = 0; position < positions; ++position) body(position, sorted);
  }
}

/// The largest of each position. Places: where they are wanted, nullptr for none; so values.
template <class T>
void find_largest(int threads, const Channels& over, std::int64_t stride, const T* x, T* places, T* values) {
  for_stretches(threads, over.outer, over.inner, [&](std::int64_t o, std::int64_t first, std::int64_t count) {
    T best[kTogether];
    T place[kTogether];
    const T* row = x + o * over.channels * over.inner + first;
    std::copy_n(row, count, best);
    std::fill_n(place, count, T(0));
    for (std::int64_t c = 1; c < over.channels; ++c) {
      row += over.inner;
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) {
        const bool comes_first = row[i] >= best[i] || row[i] != row[i];
        best[i] = comes_first ? row[i] : best[i];
        place[i] = comes_first ? static_cast<T>(c) : place[i];
      }
    }
    if (places != nullptr) std::copy_n(place, count, places + o * stride + first);
    if (values != nullptr) std::copy_n(best, count, values + o * stride + first);
  });
}

void largest_on_cpu(Context& context, const Tensor& x, const Channels& over, int k, std::int64_t stride,
                    Tensor& places, Tensor& values) {
  detail::require_largest(x, over, k, stride, places, values);
  const int threads = CpuBackend::threads_for(context, x.count());
  dispatch_float(x.dtype(), "largest", [&]<class T>() {
    context.run([=, from = x.data<T>(), to_places = detail::optional_data<T>(places),
                 to_values = detail::optional_data<T>(values)] {
      if (k == 1 && over.inner > 1) return find_largest(threads, over, stride, from, to_places, to_values);
      for_sorted<T>(threads, over.outer * over.inner, [&](std::int64_t position, Sorted<T>& sorted) {
        const T* const line = from + detail::first_class(over, position);
        sorted.sort(line, over.inner, over.channels, k);
        for (int rank = 0; rank < k; ++rank) {
          const std::int64_t to = position / over.inner * stride + rank * over.inner + position % over.inner;
          if (to_places != nullptr) to_places[to] = static_cast<T>(sorted[rank]);
          if (to_values != nullptr) to_values[to] = line[sorted[rank] * over.inner];
        }
      });
    });
  });
}

/// Sums of all channels of a part.
template <class T>
void sum_part(int threads, const Channels& over, const PartReduction& what, double each, const T* x, T* y) {
  for_stretches(threads, over.outer, over.inner, [&](std::int64_t o, std::int64_t first, std::int64_t count) {
    double sums[kTogether];
    std::fill_n(sums, count, 0.0);
    for (std::int64_t c = 0; c < what.count; ++c) {
      const T* const row = x + (o * over.channels + what.first + c * what.step) * over.inner + first;
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) sums[i] += static_cast<double>(row[i]);
    }
    T* const to = y + (o * what.parts + what.part) * over.inner + first;
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(sums[i] * each);
  });
}

void reduce_part_on_cpu(Context& context, const Tensor& x, const Channels& over, const PartReduction& what,
                        Tensor& y) {
  detail::require_part("reduce_part", x, y, over, what);
  const detail::PartShare share = detail::share_of(what);
  const int threads = CpuBackend::threads_for(context, over.outer * what.count * over.inner);
  dispatch_float(x.dtype(), "reduce_part", [&]<class T>() {
    context.run([=, from = x.data<T>(), to = y.data<T>()] {
      if (share.count == what.count) return sum_part(threads, over, what, share.each, from, to);
      for_sorted<T>(threads, over.outer * over.inner, [&](std::int64_t position, Sorted<T>& sorted) {
        const T* const line = from + detail::first_class(over, position) + what.first * over.inner;
        const std::int64_t stride = over.inner * what.step;
        sorted.sort(line, stride, what.count, share.count);
        double sum = 0;
        for (std::int64_t rank = 0; rank < share.count; ++rank)
          sum += static_cast<double>(line[sorted[rank] * stride]);
        to[(position / over.inner * what.parts + what.part) * over.inner + position % over.inner] =
            static_cast<T>(sum * share.each);
      });
    });
  });
}

void reduce_part_backward_on_cpu(Context& context, const Tensor& x, const Tensor& dy, const Channels& over,
                                 const PartReduction& what, Tensor& dx) {
  detail::require_part("reduce_part_backward", x, dy, over, what);
  require_alike("reduce_part_backward", x, dx);
  const detail::PartShare share = detail::share_of(what);
  const int threads = CpuBackend::threads_for(context, over.outer * what.count * over.inner);
  dispatch_float(x.dtype(), "reduce_part_backward", [&]<class T>() {
    context.run([=, input = x.data<T>(), from = dy.data<T>(), to = dx.data<T>()] {
      const T each = static_cast<T>(share.each);
      const auto channel = [&](std::int64_t o, std::int64_t c) {
        return (o * over.channels + what.first + c * what.step) * over.inner;
      };
      const bool all = share.count == what.count;
      for_stretches(threads, over.outer, over.inner,
                    [&](std::int64_t o, std::int64_t first, std::int64_t count) {
                      const T* const gradient = from + (o * what.parts + what.part) * over.inner + first;
                      for (std::int64_t c = 0; c < what.count; ++c) {
                        T* const row = to + channel(o, c) + first;
#pragma omp simd
                        for (std::int64_t i = 0; i < count; ++i) row[i] = all ? gradient[i] * each : T(0);
                      }
                    });
      if (all) return;
      for_sorted<T>(threads, over.outer * over.inner, [&](std::int64_t position, Sorted<T>& sorted) {
        const std::int64_t o = position / over.inner, inside = position % over.inner;
        sorted.sort(input + channel(o, 0) + inside, over.inner * what.step, what.count, share.count);
        const T gradient = from[(o * what.parts + what.part) * over.inner + inside] * each;
        for (std::int64_t rank = 0; rank < share.count; ++rank)
          to[channel(o, sorted[rank]) + inside] = gradient;
      });
    });
  });
}

const Define define_largest(largest, DeviceKind::cpu, &largest_on_cpu);
const Define define_keep_places(keep_places, DeviceKind::cpu, &keep_places_on<CpuBackend>);
const Define define_reduce_part(reduce_part, DeviceKind::cpu, &reduce_part_on_cpu);
const Define define_reduce_part_backward(reduce_part_backward, DeviceKind::cpu, &reduce_part_backward_on_cpu);

}  // namespace
}  // namespace banyan::ops
