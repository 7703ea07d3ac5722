// Batch normalization on CPU devices, close to memory speed: statistics in small blocks (see
// normalization_blocks.hpp), application with each channel's terms computed once.
//
// Only the sizes determine how work is divided into tasks, and results are merged in ascending order, so they
// are bit-identical for any number of threads and any assignment of tasks.
#include "ops/common/normalization.hpp"

#include "ops/common/checks.hpp"
#include "ops/common/output_statistics.hpp"
#include "ops/cpu/cpu_backend.hpp"
#include "ops/cpu/normalization_blocks.hpp"

namespace banyan::ops {
namespace {

constexpr std::int64_t kMostTasks = 32;
constexpr std::int64_t kTaskElements = 32768;

/// How a tensor is divided. Rows of adjacent channels (inner == 1): ranges of rows, each with all channels.
/// Otherwise planes: ranges of samples times single channels.
struct Cut {
  Broadcast over;
  bool rows;
  std::int64_t ranges;  ///< of over.outer

  explicit Cut(const Broadcast& of) : over(of), rows(of.inner == 1) {
    const std::int64_t wanted = over.outer * over.dim * over.inner / kTaskElements;
    const std::int64_t per_range = rows ? 1 : over.dim;  // tasks
    const std::int64_t most = std::clamp<std::int64_t>(wanted, 1, kMostTasks);
    ranges = std::clamp<std::int64_t>((most + per_range - 1) / per_range, 1,
                                      std::max<std::int64_t>(over.outer, 1));
  }
  std::int64_t tasks() const { return rows ? ranges : ranges * over.dim; }
  Lanes lanes() const { return Lanes(rows ? over.dim : 1); }
  std::int64_t begin(std::int64_t range) const { return over.outer * range / ranges; }
  /// Calls body(first element, count) for the blocks of a task.
  template <class Body>
  void for_each_block(std::int64_t task, std::int64_t block, const Body& body) const {
    const std::int64_t range = task % ranges, channel = task / ranges;  // channel: 0 for rows
    if (rows) return blocks(begin(range) * over.dim, begin(range + 1) * over.dim, block, body);
    for (std::int64_t n = begin(range); n < begin(range + 1); ++n) {
      const std::int64_t plane = (n * over.dim + channel) * over.inner;
      blocks(plane, plane + over.inner, block, body);
    }
  }

 private:
  template <class Body>
  static void blocks(std::int64_t from, std::int64_t to, std::int64_t block, const Body& body) {
    for (; from < to; from += block) body(from, std::min(block, to - from));
  }
};

template <class T>
void moments_of(int threads, const Cut& cut, const T* x, double* moments) {
  const Lanes lanes = cut.lanes();
  std::vector<ChannelMoments> partial(cut.tasks(), ChannelMoments(lanes.channels));
#pragma omp parallel num_threads(threads)
  {
    BlockMoments<T> block(lanes);
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < cut.tasks(); ++task)
      cut.for_each_block(task, lanes.block(), [&](std::int64_t first, std::int64_t count) {
        block.add(x + first, count, partial[task]);
      });
  }
  const std::int64_t dim = cut.over.dim;
  moments[0] = static_cast<double>(cut.over.outer * cut.over.inner);
  for (std::int64_t group = 0; group * cut.ranges < cut.tasks(); ++group) {
    ChannelMoments all(lanes.channels);
    for (std::int64_t range = 0; range < cut.ranges; ++range) {
      const ChannelMoments& part = partial[group * cut.ranges + range];
      all.merge(part.count, part.mean.data(), part.m2.data());
    }
    std::copy(all.mean.begin(), all.mean.end(), moments + 1 + group);
    std::copy(all.m2.begin(), all.m2.end(), moments + 1 + dim + group);
  }
}

template <class T, class End>
void backward_sums_of(int threads, const Cut& cut, const detail::NormalizeForward<T, End>& f, const T* dy,
                      double* sums) {
  const Lanes lanes = cut.lanes();
  const std::int64_t dim = cut.over.dim, width = 2 * lanes.channels;
  std::vector<double> partial(cut.tasks() * width);
#pragma omp parallel num_threads(threads)
  {
    BlockSums<T, End> block(lanes, f.end);
#pragma omp for schedule(static)
    for (std::int64_t task = 0; task < cut.tasks(); ++task) {
      double* to = partial.data() + task * width;
      block.set_terms([&](std::int64_t c) { return f.terms(task / cut.ranges + c); });  // rows: from 0 on
      cut.for_each_block(task, lanes.block(), [&](std::int64_t first, std::int64_t count) {
        block.add(f.x + first, dy + first, End::by_output ? f.output + first : nullptr, count, to,
                  to + lanes.channels);
      });
    }
  }
  std::fill_n(sums, 2 * dim, 0.0);
  for (std::int64_t task = 0; task < cut.tasks(); ++task)
    for (std::int64_t c = 0; c < lanes.channels; ++c) {
      sums[task / cut.ranges + c] += partial[task * width + c];
      sums[dim + task / cut.ranges + c] += partial[task * width + lanes.channels + c];
    }
  for (std::int64_t c = 0; c < dim; ++c) sums[dim + c] *= f.mean_inv_std[dim + c];
}

/// Calls rows(first, count) for runs of at most `width` elements of neighbouring channels, or
/// plane(channel, first) for the planes of one channel each.
template <class Rows, class Plane>
void apply(int threads, const Broadcast& over, const Lanes& lanes, const Rows& rows, const Plane& plane) {
  const std::int64_t count = over.outer * over.dim * over.inner;
  if (over.inner == 1) {
    const std::int64_t runs = (count + lanes.width - 1) / lanes.width;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (std::int64_t run = 0; run < runs; ++run)
      rows(run * lanes.width, std::min(lanes.width, count - run * lanes.width));
  } else {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (std::int64_t p = 0; p < over.outer * over.dim; ++p) plane(p % over.dim, p * over.inner);
  }
}

template <bool kAdd, class T, class End>
void apply_forward(int threads, const Broadcast& over, const detail::NormalizeForward<T, End>& f) {
  using A = Arithmetic<T>;
  const Lanes lanes(over.dim);
  const auto size = static_cast<std::size_t>(over.inner == 1 ? lanes.width : 0);
  Row<A> high(size), low(size), scale(size), bias(size);
  for (std::size_t j = 0; j < size; ++j) {
    const detail::ForwardTerms<A> t = f.terms(static_cast<std::int64_t>(j) % over.dim);
    high[j] = t.high, low[j] = t.low, scale[j] = t.scale, bias[j] = t.bias;
  }
  const A *h = high.data(), *l = low.data(), *s = scale.data(), *b = bias.data();
  // By value: what no store can alias stays in registers.
  const auto finish = [end = f.end](A value, const T* addend, std::int64_t j) {
    if constexpr (kAdd) value = stored<T>(value) + addend[j];
    return static_cast<T>(end(value));
  };
  apply(
      threads, over, lanes,
      [&](std::int64_t first, std::int64_t used) {
        const T *x = f.x + first, *addend = kAdd ? f.addend + first : nullptr;
        T* y = f.y + first;
        const auto own = finish;
#pragma omp simd
        for (std::int64_t j = 0; j < used; ++j) y[j] = own(((x[j] - h[j]) - l[j]) * s[j] + b[j], addend, j);
      },
      [&](std::int64_t c, std::int64_t first) {
        const detail::ForwardTerms<A> t = f.terms(c);
        const T *x = f.x + first, *addend = kAdd ? f.addend + first : nullptr;
        T* y = f.y + first;
        const auto own = finish;
#pragma omp simd
        for (std::int64_t j = 0; j < over.inner; ++j) y[j] = own(t.apply(x[j]), addend, j);
      });
}

template <class T, class End>
void apply_backward(int threads, const Broadcast& over, const detail::NormalizeBackward<T, End>& f) {
  using A = Arithmetic<T>;
  const Lanes lanes(over.dim);
  const auto size = static_cast<std::size_t>(over.inner == 1 ? lanes.width : 0);
  Row<A> high(size), low(size), scale(size), bias(size), mean_dy(size), slant(size);
  for (std::size_t j = 0; j < size; ++j) {
    const detail::BackwardTerms<A> t = f.terms(static_cast<std::int64_t>(j) % over.dim);
    high[j] = t.high, low[j] = t.low, scale[j] = t.scale, mean_dy[j] = t.mean_dy, slant[j] = t.slant;
    bias[j] = f.forward.terms(static_cast<std::int64_t>(j) % over.dim).bias;
  }
  const A *h = high.data(), *l = low.data(), *s = scale.data(), *m = mean_dy.data(), *k = slant.data();
  const A* b = bias.data();
  apply(
      threads, over, lanes,
      [&](std::int64_t first, std::int64_t used) {
        const T *x = f.forward.x + first, *dy = f.dy + first;
        const T* y = End::by_output ? f.forward.output + first : nullptr;
        T* dx = f.dx + first;
        const End end = f.forward.end;  // by value, as above
#pragma omp simd
        for (std::int64_t j = 0; j < used; ++j) {
          const A deviation = (x[j] - h[j]) - l[j];
          A gradient;
          if constexpr (End::by_output)
            gradient = end.gradient_by_output(y[j], dy[j]);
          else
            gradient = end.gradient(deviation * s[j] + b[j], dy[j]);
          dx[j] = narrowed<T>(s[j] * ((gradient - m[j]) - deviation * k[j]));
        }
      },
      [&](std::int64_t c, std::int64_t first) {
        const detail::ForwardTerms<A> before = f.forward.terms(c);
        const detail::BackwardTerms<A> t = f.terms(c);
        const T *x = f.forward.x + first, *dy = f.dy + first;
        const T* y = End::by_output ? f.forward.output + first : nullptr;
        T* dx = f.dx + first;
        const End end = f.forward.end;
#pragma omp simd
        for (std::int64_t j = 0; j < over.inner; ++j) {
          A gradient;
          if constexpr (End::by_output)
            gradient = end.gradient_by_output(y[j], dy[j]);
          else
            gradient = end.gradient(before.apply(x[j]), dy[j]);
          dx[j] = narrowed<T>(t.apply(x[j], gradient));
        }
      });
}

void batch_moments_on_cpu(Context& context, const Tensor& x, Tensor& moments) {
  const Cut cut(channel_broadcast(x));
  require_count("batch_moments", moments, 1 + 2 * cut.over.dim);
  dispatch_storage(x.dtype(), "batch_moments", [&]<class T>() {
    const T* from = x.data<T>();
    double* to = moments.data<double>();
    const int threads = CpuBackend::threads_for(context, x.count());
    context.run([=] { moments_of(threads, cut, from, to); });
  });
}

/// Here an ELU's gradient is taken from its output.
void require_output(const char* op, const Tensor& x, const Affine& affine) {
  if (affine.activation.kind != Activation::Kind::elu) return;
  if (!affine.output.defined()) runtime_failure(op, ": the output of the ELU is needed");
  require_alike(op, x, affine.output);
}

void normalize_backward_sums_on_cpu(Context& context, const Tensor& x, const Tensor& dy,
                                    const Tensor& mean_inv_std, const Affine& affine, Tensor& sums) {
  const Cut cut(channel_broadcast(x));
  require_alike("normalize_backward_sums", x, dy);
  require_output("normalize_backward_sums", x, affine);
  require_count("normalize_backward_sums", sums, 2 * cut.over.dim);
  dispatch_storage(x.dtype(), "normalize_backward_sums", [&]<class T>() {
    const T* gradient = dy.data<T>();
    double* to = sums.data<double>();
    const int threads = CpuBackend::threads_for(context, x.count());
    detail::with_forward_functor<T>(x, mean_inv_std, affine, nullptr, [&](const auto& f) {
      context.run([=] { backward_sums_of(threads, cut, f, gradient, to); });
    });
  });
}

template <bool kAdd>
void run_forward(Context& context, const Tensor& x, const Tensor& mean_inv_std, const Affine& affine,
                 const Tensor& addend, Tensor& y) {
  const Broadcast over = channel_broadcast(x);
  require_alike("normalize_forward", x, y);
  if (kAdd) require_alike("normalize_and_add", x, addend);
  require_count("normalize_forward", mean_inv_std, 2 * over.dim);
  dispatch_storage(x.dtype(), "normalize_forward", [&]<class T>() {
    const int threads = CpuBackend::threads_for(context, x.count());
    detail::with_forward_functor<T>(x, mean_inv_std, affine, y.data<T>(), [&](auto f) {
      if (kAdd) f.addend = addend.data<T>();
      context.run([=] { apply_forward<kAdd>(threads, over, f); });
    });
  });
}

void normalize_forward_on_cpu(Context& context, const Tensor& x, const Tensor& mean_inv_std,
                              const Affine& affine, Tensor& y) {
  run_forward<false>(context, x, mean_inv_std, affine, {}, y);
}

void normalize_backward_on_cpu(Context& context, const Tensor& x, const Tensor& dy,
                               const Tensor& mean_inv_std, const Affine& affine, const Tensor& sums,
                               const Tensor& moments, Tensor& dx) {
  const Broadcast over = channel_broadcast(x);
  require_alike("normalize_backward", x, dy);
  require_alike("normalize_backward", x, dx);
  require_output("normalize_backward", x, affine);
  dispatch_storage(x.dtype(), "normalize_backward", [&]<class T>() {
    const int threads = CpuBackend::threads_for(context, x.count());
    detail::with_backward_functor<T>(x, dy, mean_inv_std, affine, sums, moments, dx, [&](const auto& f) {
      context.run([=] { apply_backward(threads, over, f); });
    });
  });
}

constexpr DeviceKind kCpu = DeviceKind::cpu;
const Define define_batch_moments(batch_moments, kCpu, &batch_moments_on_cpu);
const Define define_merge_moments(merge_moments, kCpu, &merge_moments_on<CpuBackend>);
const Define define_finish_moments(finish_moments, kCpu, &finish_moments_on<CpuBackend>);
const Define define_update_running(update_running, kCpu, &update_running_on<CpuBackend>);
const Define define_stored_statistics(stored_statistics, kCpu, &stored_statistics_on<CpuBackend>);
const Define define_normalize_forward(normalize_forward, kCpu, &normalize_forward_on_cpu);
const Define define_normalize_and_add(normalize_and_add, kCpu, &run_forward<true>);
const Define define_normalize_backward_sums(normalize_backward_sums, kCpu, &normalize_backward_sums_on_cpu);
const Define define_normalize_backward(normalize_backward, kCpu, &normalize_backward_on_cpu);
const Define define_add_affine_gradients(add_affine_gradients, kCpu, &add_affine_gradients_on<CpuBackend>);
const Define define_output_statistics(output_statistics, kCpu, &output_statistics_on<CpuBackend>);

}  // namespace
}  // namespace banyan::ops
