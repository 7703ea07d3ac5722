// Bilinear resizing on CPU devices: where the points of an axis lie is worked out once, because it takes
// divisions; channels-last tensors have vector loops over the channels. Backward adds up rows, then columns.
#include "ops/common/resize.hpp"

#include <vector>

#include "ops/cpu/axis_weights.hpp"
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

/// What each pixel of an axis gets from which outputs; one outside of the part, from none.
template <class A>
AxisWeights<A> readers_of(const ResizeAxis& axis) {
  AxisWeights<A> readers;
  for (std::int64_t pixel = 0; pixel < axis.input; ++pixel) {
    const std::int64_t i = axis.in_part(pixel);
    const std::int64_t first = i < 0 ? 0 : axis.first_output(i), last = i < 0 ? 0 : axis.last_output(i);
    readers.begin(first);
    for (std::int64_t o = first; o < last; ++o) readers.add(axis.weight<A>(i, o));
  }
  return readers;
}

void resize_forward_on_cpu(Context& context, const ImagePart& part, const Tensor& x, Tensor& y) {
  const ResizePlanes planes = detail::resize_planes(part, x, y);
  const int threads = CpuBackend::threads_for(context, y.count());
  dispatch_storage(x.dtype(), "resize_forward", [&]<class T>() {
    context.run([=, images = planes.images(x), from = x.data<T>(), to = y.data<T>()] {
      forward_rows(threads, planes, images, from, to);
    });
  });
}

void resize_backward_on_cpu(Context& context, const ImagePart& part, const Tensor& dy, Tensor& dx) {
  const ResizePlanes planes = detail::resize_planes(part, dx, dy);
  const int threads = CpuBackend::threads_for(context, dy.count());
  dispatch_storage(dy.dtype(), "resize_backward", [&]<class T>() {
    context.run([=, images = planes.images(dx), from = dy.data<T>(), to = dx.data<T>()] {
      using A = Arithmetic<T>;
      weigh_planes(threads, images, planes.step(), readers_of<A>(planes.h), readers_of<A>(planes.w),
                   planes.h.output, planes.w.output, from, to);
    });
  });
}

const Define define_resize_forward(resize_forward, DeviceKind::cpu, &resize_forward_on_cpu);
const Define define_resize_backward(resize_backward, DeviceKind::cpu, &resize_backward_on_cpu);

}  // namespace
}  // namespace banyan::ops
