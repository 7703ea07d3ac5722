// Operators on rows on CPU devices; indices are looked at by vectors, because all of them are valid nearly
// always.
#include "ops/common/rows.hpp"

#include <algorithm>

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

constexpr std::int64_t kStretch = 1024;  ///< elements that are looked at before one of them is looked for

/// The first element that is no index below `limit`, or `count`.
template <class T>
std::int64_t first_outside(int threads, const T* x, std::int64_t step, std::int64_t count,
                           std::int64_t limit) {
  std::int64_t found = count;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(min : found)
  for (std::int64_t begin = 0; begin < count; begin += kStretch) {
    const std::int64_t end = std::min(begin + kStretch, count);
    int outside = 0;
#pragma omp simd reduction(| : outside)
    for (std::int64_t i = begin; i < end; ++i) outside |= detail::index_below(x[i * step], limit) < 0 ? 1 : 0;
    if (outside == 0 || begin > found) continue;
    for (std::int64_t i = end; i-- > begin;)
      if (detail::index_below(x[i * step], limit) < 0) found = std::min(found, i);
  }
  return found;
}

void note_outside_on_cpu(Context& context, const Tensor& x, std::int64_t step, std::int64_t limit,
                         Tensor& noted) {
  require_count("note_outside", noted, 2);
  const std::int64_t count = x.count() / step;
  const int threads = CpuBackend::threads_for(context, count);
  dispatch_float(x.dtype(), "note_outside", [&]<class T>() {
    const detail::FindOutside<T> find{{noted.data<double>(), 0}, step, limit, x.data<T>()};
    context.run([=] {
      auto state = find.identity();
      const std::int64_t first = first_outside(threads, find.x, step, count, limit);
      if (first < count) find.add(state, first, 0);
      find.store(0, state);
    });
  });
}

struct Definitions : DefineRows<CpuBackend> {
  Definitions() { note_outside.define(DeviceKind::cpu, &note_outside_on_cpu); }
};
const Definitions define_rows;

}  // namespace
}  // namespace banyan::ops
