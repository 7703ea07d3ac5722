// Local response normalization on CPU devices; across the channels of channels-last tensors it goes row by
// row, from a row of terms with zeros at both ends, in the functors' order of additions (adding zeros changes
// nothing).
#include "ops/common/lrn.hpp"

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

template <class T>
Rows<T> rows_of(Context& context, const LrnParameters& parameters, const Tensor& x) {
  const ChannelView view = channel_view(x);
  return {view.batch * view.inner, view.channels, parameters.size,
          detail::lrn_terms<Arithmetic<T>>(parameters), CpuBackend::threads_for(context, x.count())};
}

bool in_rows(const LrnParameters& parameters, const Tensor& x) {
  return !parameters.within_channel && channel_view(x).channels_last && x.count() > 0;
}

void lrn_forward_on_cpu(Context& context, const LrnParameters& parameters, const Tensor& x, Tensor& scale,
                        Tensor& y) {
  if (!in_rows(parameters, x)) return lrn_forward_on<CpuBackend>(context, parameters, x, scale, y);
  require_alike("lrn_forward", x, scale);
  require_alike("lrn_forward", x, y);
  detail::lrn_window(parameters, x);  // rejects an even size
  dispatch_activations<CpuBackend>(x.dtype(), "lrn_forward", [&]<class T>() {
    const Rows<T> rows = rows_of<T>(context, parameters, x);
    const T* from = x.data<T>();
    auto* to_scale = scale.data<Arithmetic<T>>();
    T* to = y.data<T>();
    context.run([=] {
      with_power(rows.terms.beta, [&](auto power) { forward_rows(rows, power, from, to_scale, to); });
    });
  });
}

void lrn_backward_on_cpu(Context& context, const LrnParameters& parameters, const Tensor& x, const Tensor& y,
                         const Tensor& scale, const Tensor& dy, Tensor& dx) {
  if (!in_rows(parameters, x)) return lrn_backward_on<CpuBackend>(context, parameters, x, y, scale, dy, dx);
  for (const Tensor* other : {&y, &scale, &dy}) require_alike("lrn_backward", x, *other);
  require_alike("lrn_backward", x, dx);
  const detail::LrnWindow window = detail::lrn_window(parameters, x);
  dispatch_activations<CpuBackend>(x.dtype(), "lrn_backward", [&]<class T>() {
    const Rows<T> rows = rows_of<T>(context, parameters, x);
    const detail::LrnBackward<T> tensors{window,      rows.terms,   x.data<T>(),
                                         y.data<T>(), dy.data<T>(), scale.data<Arithmetic<T>>(),
                                         dx.data<T>()};
    context.run(
        [=] { with_power(rows.terms.beta, [&](auto power) { backward_rows(rows, power, tensors); }); });
  });
}

const Define define_forward(lrn_forward, DeviceKind::cpu, &lrn_forward_on_cpu);
const Define define_backward(lrn_backward, DeviceKind::cpu, &lrn_backward_on_cpu);

}  // namespace
}  // namespace banyan::ops
