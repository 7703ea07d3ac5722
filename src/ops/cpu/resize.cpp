// Bilinear resizing on CPU devices: where the points of an axis lie is worked out once, because it takes
// divisions; channels-last tensors have vector loops over the channels. Backward adds up rows, then columns.
#include "ops/common/resize.hpp"

#include <cstring>
#include <vector>

#include "ops/cpu/channel_blocks.hpp"
#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

using detail::Between;
using detail::ResizeAxis;
using detail::ResizePlanes;

template <class A>
std::vector<Between<A>> points_of(const ResizeAxis& axis) {
  std::vector<Between<A>> points;
  for (std::int64_t o = 0; o < axis.output; ++o) points.push_back(axis.point<A>(o));
  return points;
}

/// Forward, of one output row. `above`, `below`: the input rows at the part's first column.
template <class T, class A>
void blend_row(const std::vector<Between<A>>& columns, A share, const T* above, const T* below, T* y) {
  for (std::size_t o = 0; o < columns.size(); ++o) {
    const Between<A> at = columns[o];
    const std::int64_t right = at.low + (at.fraction > 0 ? 1 : 0);
    const A upper = (1 - at.fraction) * above[at.low] + at.fraction * above[right];
    const A lower = (1 - at.fraction) * below[at.low] + at.fraction * below[right];
    y[o] = static_cast<T>((1 - share) * upper + share * lower);
  }
}

/// The same of channels-last pixels.
template <class T, class A>
void blend_pixels(std::int64_t channels, const std::vector<Between<A>>& columns, A share, const T* above,
                  const T* below, T* y) {
  for (const Between<A>& at : columns) {
    const T* const a = above + at.low * channels;
    const T* const b = below + at.low * channels;
    const std::int64_t right = at.fraction > 0 ? channels : 0;
    for_channel_blocks<T>(channels, [&]<class Block>(std::int64_t first, Block) {
      typename Block::Values from, to, upper, lower;
      Block::load(a + first, from);
      Block::load(a + right + first, to);
      upper = (1 - at.fraction) * from + at.fraction * to;
      Block::load(b + first, from);
      Block::load(b + right + first, to);
      lower = (1 - at.fraction) * from + at.fraction * to;
      upper = (1 - share) * upper + share * lower;
      Block::store(upper, y + first);
    });
    y += channels;
  }
}

/// `images`: samples of channels-last tensors, planes of contiguous ones.
template <class T>
void forward_rows(int threads, const ResizePlanes& p, std::int64_t images, const T* x, T* y) {
  using A = Arithmetic<T>;
  const ResizeAxis &h = p.h, &w = p.w;
  const std::vector<Between<A>> rows = points_of<A>(h), columns = points_of<A>(w);
  const std::int64_t step = p.step();
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t r = 0; r < images * h.output; ++r) {
    const Between<A> row = rows[r % h.output];
    const T* const above = x + ((r / h.output * h.input + h.begin + row.low) * w.input + w.begin) * step;
    const T* const below = above + (row.fraction > 0 ? w.input * step : 0);
    T* const to = y + r * w.output * step;
    if (p.channels_last)
      blend_pixels(step, columns, row.fraction, above, below, to);
    else
      blend_row(columns, row.fraction, above, below, to);
  }
}

/// What each pixel of an axis contributes to which outputs.
template <class A>
class Readers {
 public:
  struct Run {
    std::int64_t first, last;  ///< outputs
    std::int64_t weights;
  };
  explicit Readers(const ResizeAxis& axis) {
    for (std::int64_t i = 0; i < axis.length; ++i) {
      runs_.push_back(
          {axis.first_output(i), axis.last_output(i), static_cast<std::int64_t>(weights_.size())});
      for (std::int64_t o = runs_.back().first; o < runs_.back().last; ++o)
        weights_.push_back(axis.weight<A>(i, o));
    }
  }
  const std::vector<Run>& runs() const { return runs_; }
  /// That of output run.first comes first.
  const A* weights(const Run& run) const { return weights_.data() + run.weights; }

 private:
  std::vector<Run> runs_;
  std::vector<A> weights_;
};

/// Backward: the weighted sum of the output rows that an input row contributes to. `n`: numbers in a row.
template <class T, class A>
void sum_rows(const Readers<A>& rows, const typename Readers<A>::Run& row, std::int64_t n, const T* dy,
              A* sum) {
  std::fill_n(sum, n, A(0));
  const A* const shares = rows.weights(row);
  for (std::int64_t r = row.first; r < row.last; ++r) {
    const A share = shares[r - row.first];
    const T* const from = dy + r * n;
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) sum[i] += share * from[i];
  }
}

/// And the weighted sum of its columns for each pixel of the input row inside the part.
template <class T, class A>
void sum_columns(std::int64_t channels, const Readers<A>& columns, const A* sums, T* dx) {
  for (const auto& column : columns.runs()) {
    const A* const weights = columns.weights(column);
    for_channel_blocks<T>(channels, [&]<class Block>(std::int64_t first, Block) {
      typename Block::Values sum{};
      for (std::int64_t c = column.first; c < column.last; ++c) {
        typename Block::Values g;
        std::memcpy(&g, sums + c * channels + first, sizeof(g));
        sum += weights[c - column.first] * g;
      }
      Block::store(sum, dx + first);
    });
    dx += channels;
  }
}

/// Rows first, so that every gradient is read once for each of two input rows.
template <class T>
void backward_rows(int threads, const ResizePlanes& p, std::int64_t images, const T* dy, T* dx) {
  using A = Arithmetic<T>;
  const ResizeAxis &h = p.h, &w = p.w;
  const Readers<A> rows(h), columns(w);
  const std::int64_t step = p.step(), length = w.output * step;
#pragma omp parallel num_threads(threads)
  {
    std::vector<A> sums(static_cast<std::size_t>(length));
#pragma omp for schedule(static)
    for (std::int64_t r = 0; r < images * h.input; ++r) {
      const std::int64_t row = r % h.input - h.begin;
      T* const to = dx + r * w.input * step;
      if (row < 0 || row >= h.length || w.length < w.input) std::fill_n(to, w.input * step, T(0));
      if (row < 0 || row >= h.length) continue;
      sum_rows(rows, rows.runs()[row], length, dy + r / h.input * h.output * length, sums.data());
      sum_columns(step, columns, sums.data(), to + w.begin * step);
    }
  }
}

std::int64_t images_of(const ResizePlanes& planes, const Tensor& x) {
  return x.shape()[0] * (planes.channels_last ? 1 : planes.channels);
}

void resize_forward_on_cpu(Context& context, const ImagePart& part, const Tensor& x, Tensor& y) {
  const ResizePlanes planes = detail::resize_planes(part, x, y);
  const int threads = CpuBackend::threads_for(context, y.count());
  dispatch_storage(x.dtype(), "resize_forward", [&]<class T>() {
    context.run([=, images = images_of(planes, x), from = x.data<T>(), to = y.data<T>()] {
      forward_rows(threads, planes, images, from, to);
    });
  });
}

void resize_backward_on_cpu(Context& context, const ImagePart& part, const Tensor& dy, Tensor& dx) {
  const ResizePlanes planes = detail::resize_planes(part, dx, dy);
  const int threads = CpuBackend::threads_for(context, dy.count());
  dispatch_storage(dy.dtype(), "resize_backward", [&]<class T>() {
    context.run([=, images = images_of(planes, dx), from = dy.data<T>(), to = dx.data<T>()] {
      backward_rows(threads, planes, images, from, to);
    });
  });
}

const Define define_resize_forward(resize_forward, DeviceKind::cpu, &resize_forward_on_cpu);
const Define define_resize_backward(resize_backward, DeviceKind::cpu, &resize_backward_on_cpu);

}  // namespace
}  // namespace banyan::ops
