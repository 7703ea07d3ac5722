// Local response normalization on CPU devices, of channels-last tensors in the functors' order of additions.
// Across channels it goes row by row, from a row of terms with zeros at both ends (adding zeros changes
// nothing); within a channel it adds up pixels, many channels at a time.
#include "ops/common/lrn.hpp"

#include <cstring>

#include "ops/cpu/channel_blocks.hpp"
#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

/// windows[c] = sum of the n terms around c, whose own is terms[half + c].
template <class T>
void sum_windows(std::int64_t channels, std::int64_t n, const T* terms, T* windows) {
  std::fill_n(windows, channels, T(0));
  for (std::int64_t j = 0; j < n; ++j) {
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) windows[c] += terms[c + j];
  }
}

template <class T>
struct Rows {
  using A = Arithmetic<T>;
  std::int64_t rows, channels, size;
  detail::LrnTerms<A> terms;
  int threads;

  /// body(first element of the row, padded terms, window sums); each thread has its own buffers.
  template <class Body>
  void each(const Body& body) const {
#pragma omp parallel num_threads(threads)
    {
      std::vector<A> padded(channels + size - 1, A(0));
      std::vector<A> windows(channels);
#pragma omp for schedule(static)
      for (std::int64_t row = 0; row < rows; ++row) body(row * channels, padded.data(), windows.data());
    }
  }
};

/// scale^-beta for one beta known outside the loops: a loop that might need pow would not vectorize.
template <class T>
struct UsualPower {
  T operator()(T scale) const { return detail::inverse_power(scale, T(0.75)); }
};
template <class T>
struct AnyPower {
  T beta;
  T operator()(T scale) const { return std::pow(scale, -beta); }
};

/// body(UsualPower or AnyPower)
template <class T, class Body>
void with_power(T beta, const Body& body) {
  if (beta == T(0.75))
    body(UsualPower<T>{});
  else
    body(AnyPower<T>{beta});
}

template <class T, class Power>
void forward_rows(const Rows<T>& r, Power power, const T* x_data, Arithmetic<T>* scale_data, T* y_data) {
  using A = Arithmetic<T>;
  const std::int64_t channels = r.channels;
  const A k = r.terms.k, alpha_over_n = r.terms.alpha_over_n;
  r.each([&, channels, k, alpha_over_n](std::int64_t first, A* padded, A* windows) {
    const T* x = x_data + first;
    A *scale = scale_data + first, *squares = padded + r.size / 2;
    T* y = y_data + first;
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) squares[c] = x[c] * x[c];
    sum_windows(channels, r.size, padded, windows);
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) {
      const A s = k + alpha_over_n * windows[c];
      scale[c] = s;
      y[c] = narrowed<T>(x[c] * power(s));
    }
  });
}

template <class T, class Power>
void backward_rows(const Rows<T>& r, Power power, const detail::LrnBackward<T>& f) {
  using A = Arithmetic<T>;
  const std::int64_t channels = r.channels;
  const A alpha_over_n = r.terms.alpha_over_n, beta = r.terms.beta;
  r.each([&, channels, alpha_over_n, beta](std::int64_t first, A* padded, A* windows) {
    const T *x = f.x + first, *y = f.y + first, *dy = f.dy + first;
    const A* scale = f.scale + first;
    T* dx = f.dx + first;
    A* ratios = padded + r.size / 2;
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) ratios[c] = dy[c] * y[c] / scale[c];
    sum_windows(channels, r.size, padded, windows);
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c)
      dx[c] = narrowed<T>(dy[c] * power(scale[c]) - A(2) * alpha_over_n * beta * x[c] * windows[c]);
  });
}

/// Images of channels-last pixels with square windows of 2 half + 1.
template <class T>
struct Images {
  using A = Arithmetic<T>;
  std::int64_t count, rows, columns, channels, half;
  detail::LrnTerms<A> terms;
  int threads;

  std::int64_t length() const { return columns * channels; }
  std::int64_t begin(std::int64_t at) const { return detail::LrnWindow::begin(at, half); }
  std::int64_t end(std::int64_t at, std::int64_t of) const { return detail::LrnWindow::end(at, half, of); }

  /// body(first element of the image, its first row, end of its rows, sums of one row) for a few rows at a
  /// time, with windows that overlap; each thread has its own buffer.
  template <class Body>
  void each(const Body& body) const {
    const std::int64_t few = 8 * (half + 1), parts = (rows + few - 1) / few;
#pragma omp parallel num_threads(threads)
    {
      std::vector<A> sums(static_cast<std::size_t>(length()));
#pragma omp for schedule(static)
      for (std::int64_t part = 0; part < count * parts; ++part) {
        const std::int64_t first = part % parts * few;
        body(part / parts * rows * length(), first, std::min(first + few, rows), sums.data());
      }
    }
  }

  /// Over the window of each element of a row. `values`: of rows from `origin` on.
  template <bool kSquares, class From>
  void sum(std::int64_t row, const From* values, std::int64_t origin, A* sums) const {
    const std::int64_t top = begin(row) - origin, bottom = end(row, rows) - origin;
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::int64_t left = begin(column), right = end(column, columns);
      for_channel_blocks<From>(channels, [&]<class Block>(std::int64_t first, Block) {
        typename Block::Values value, total{};
        for (std::int64_t r = top; r < bottom; ++r)
          for (std::int64_t c = left; c < right; ++c) {
            Block::load(values + (r * columns + c) * channels + first, value);
            if constexpr (kSquares)
              total += value * value;
            else
              total += value;
          }
        std::memcpy(sums + column * channels + first, &total, sizeof(total));
      });
    }
  }
};

template <class T, class Power>
void forward_images(const Images<T>& p, Power power, const T* x_data, Arithmetic<T>* scale_data, T* y_data) {
  using A = Arithmetic<T>;
  const std::int64_t length = p.length();
  const A k = p.terms.k, alpha_over_n = p.terms.alpha_over_n;
  p.each([&, length, k, alpha_over_n](std::int64_t image, std::int64_t begin, std::int64_t end, A* sums) {
    for (std::int64_t row = begin; row < end; ++row) {
      p.template sum<true>(row, x_data + image, 0, sums);
      const T* x = x_data + image + row * length;
      A* scale = scale_data + image + row * length;
      T* y = y_data + image + row * length;
#pragma omp simd
      for (std::int64_t i = 0; i < length; ++i) {
        const A s = k + alpha_over_n * sums[i];
        scale[i] = s;
        y[i] = narrowed<T>(x[i] * power(s));
      }
    }
  });
}

template <class T, class Power>
void backward_images(const Images<T>& p, Power power, const detail::LrnBackward<T>& f) {
  using A = Arithmetic<T>;
  const std::int64_t length = p.length();
  const A alpha_over_n = p.terms.alpha_over_n, beta = p.terms.beta;
  p.each([&, length, alpha_over_n, beta](std::int64_t image, std::int64_t begin, std::int64_t end, A* sums) {
    thread_local std::vector<A> buffer;
    const std::int64_t top = p.begin(begin), bottom = p.end(end - 1, p.rows), from = image + top * length;
    buffer.resize(static_cast<std::size_t>((bottom - top) * length));
    A* ratios = buffer.data();
    const T *y = f.y + from, *dy_above = f.dy + from;
    const A* scale_above = f.scale + from;
#pragma omp simd
    for (std::int64_t i = 0; i < (bottom - top) * length; ++i)
      ratios[i] = dy_above[i] * y[i] / scale_above[i];
    for (std::int64_t row = begin; row < end; ++row) {
      p.template sum<false>(row, ratios, top, sums);
      const T *x = f.x + image + row * length, *dy = f.dy + image + row * length;
      const A* scale = f.scale + image + row * length;
      T* dx = f.dx + image + row * length;
#pragma omp simd
      for (std::int64_t i = 0; i < length; ++i)
        dx[i] = narrowed<T>(dy[i] * power(scale[i]) - A(2) * alpha_over_n * beta * x[i] * sums[i]);
    }
  });
}

template <class T>
Images<T> images_of(Context& context, const LrnParameters& parameters, const Tensor& x) {
  const Shape& shape = x.shape();
  return {shape[0],
          shape[2],
          shape[3],
          shape[1],
          parameters.size / 2,
          detail::lrn_terms<Arithmetic<T>>(parameters),
          CpuBackend::threads_for(context, x.count())};
}

template <class T>
Rows<T> rows_of(Context& context, const LrnParameters& parameters, const Tensor& x) {
  const ChannelView view = channel_view(x);
  return {view.batch * view.inner, view.channels, parameters.size,
          detail::lrn_terms<Arithmetic<T>>(parameters), CpuBackend::threads_for(context, x.count())};
}

bool pixel_by_pixel(const Tensor& x) { return channel_view(x).channels_last && x.count() > 0; }

void lrn_forward_on_cpu(Context& context, const LrnParameters& parameters, const Tensor& x, Tensor& scale,
                        Tensor& y) {
  if (!pixel_by_pixel(x)) return lrn_forward_on<CpuBackend>(context, parameters, x, scale, y);
  require_alike("lrn_forward", x, scale);
  require_alike("lrn_forward", x, y);
  detail::lrn_window(parameters, x);  // rejects an even size
  dispatch_storage(x.dtype(), "lrn_forward", [&]<class T>() {
    const T* from = x.data<T>();
    auto* to_scale = scale.data<Arithmetic<T>>();
    T* to = y.data<T>();
    const auto run = [&](const auto& over, const auto& forward) {
      context.run([=] {
        with_power(over.terms.beta, [&](auto power) { forward(over, power, from, to_scale, to); });
      });
    };
    if (parameters.within_channel)
      run(images_of<T>(context, parameters, x), [](auto&&... all) { forward_images(all...); });
    else
      run(rows_of<T>(context, parameters, x), [](auto&&... all) { forward_rows(all...); });
  });
}

void lrn_backward_on_cpu(Context& context, const LrnParameters& parameters, const Tensor& x, const Tensor& y,
                         const Tensor& scale, const Tensor& dy, Tensor& dx) {
  if (!pixel_by_pixel(x)) return lrn_backward_on<CpuBackend>(context, parameters, x, y, scale, dy, dx);
  for (const Tensor* other : {&y, &scale, &dy}) require_alike("lrn_backward", x, *other);
  require_alike("lrn_backward", x, dx);
  const detail::LrnWindow window = detail::lrn_window(parameters, x);
  dispatch_storage(x.dtype(), "lrn_backward", [&]<class T>() {
    const auto run = [&](const auto& over, const auto& backward) {
      const detail::LrnBackward<T> tensors{window,      over.terms,   x.data<T>(),
                                           y.data<T>(), dy.data<T>(), scale.data<Arithmetic<T>>(),
                                           dx.data<T>()};
      context.run([=] { with_power(over.terms.beta, [&](auto power) { backward(over, power, tensors); }); });
    };
    if (parameters.within_channel)
      run(images_of<T>(context, parameters, x), [](auto&&... all) { backward_images(all...); });
    else
      run(rows_of<T>(context, parameters, x), [](auto&&... all) { backward_rows(all...); });
  });
}

const Define define_forward(lrn_forward, DeviceKind::cpu, &lrn_forward_on_cpu);
const Define define_backward(lrn_backward, DeviceKind::cpu, &lrn_backward_on_cpu);

}  // namespace
}  // namespace banyan::ops
