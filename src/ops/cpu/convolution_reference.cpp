// Convolution as im2col + GEMM, for any number of spatial axes and either layout: for f64, where oneDNN has
// no fast kernel, and as the tests' reference.
//
// For one sample and group, with K = in_channels / group * kernel volume and S = output positions:
//   columns (K x S) = im2col(input)
//   output (O x S)  = weight (O x K) * columns             channels-last: the transposed product
//   grad columns    = weight^T * grad output, then col2im adds them into grad input
//   grad weight    += grad output * columns^T
// Samples are divided statically among the threads, each with its own columns (and partial weight gradient);
// the partial gradients are added in thread order. OpenBLAS itself never starts a team.
#include <cblas.h>
#include <omp.h>

#include <algorithm>

#include "banyan/ops/convolution.hpp"
#include "ops/common/convolution_check.hpp"
#include "ops/common/optional_data.hpp"
#include "ops/cpu/openmp_threads.hpp"

namespace banyan::ops {

namespace {

void gemm(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t lda,
          const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans,
              static_cast<blasint>(m), static_cast<blasint>(n), static_cast<blasint>(k), 1.0f, a,
              static_cast<blasint>(lda), b, static_cast<blasint>(ldb), beta, c, static_cast<blasint>(ldc));
}

void gemm(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, const double* a, std::int64_t lda,
          const double* b, std::int64_t ldb, double beta, double* c, std::int64_t ldc) {
  cblas_dgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans,
              static_cast<blasint>(m), static_cast<blasint>(n), static_cast<blasint>(k), 1.0, a,
              static_cast<blasint>(lda), b, static_cast<blasint>(ldb), beta, c, static_cast<blasint>(ldc));
}

/// Sizes for one call; plain values, copied into the enqueued work.
struct Lowering {
  std::vector<std::int64_t> kernel, stride, pad, dilation, in_dims, out_dims;
  std::int64_t batch = 0, group = 1, in_per_group = 0, out_per_group = 0;
  std::int64_t in_positions = 1, out_positions = 1, kernel_volume = 1;
  bool in_channels_last = false, out_channels_last = false;

  Lowering(const ConvolutionGeometry& g, const Tensor& input, const Tensor& output)
      : kernel(g.kernel), stride(g.stride), pad(g.pad), dilation(g.dilation) {
    batch = input.shape()[0];
    group = g.group;
    in_per_group = g.in_channels / g.group;
    out_per_group = g.out_channels / g.group;
    for (int axis = 0; axis < g.spatial_axes(); ++axis) {
      in_dims.push_back(input.shape()[axis + 2]);
      out_dims.push_back(output.shape()[axis + 2]);
      in_positions *= in_dims.back();
      out_positions *= out_dims.back();
      kernel_volume *= kernel[axis];
    }
    in_channels_last = input.layout() == Layout::channels_last;
    out_channels_last = output.layout() == Layout::channels_last;
  }

  std::int64_t depth() const { return in_per_group * kernel_volume; }
  std::int64_t columns_count() const { return depth() * out_positions; }
  std::int64_t in_count() const { return group * in_per_group * in_positions; }
  std::int64_t out_count() const { return group * out_per_group * out_positions; }
  std::int64_t weight_count() const { return out_per_group * depth(); }
  /// Offset of a group's first element within a sample, and the distance of its rows (see Product).
  std::int64_t out_offset(std::int64_t g) const {
    return out_channels_last ? g * out_per_group : g * out_per_group * out_positions;
  }
  std::int64_t out_stride() const { return out_channels_last ? group * out_per_group : out_positions; }
};

/// Advances an odometer over the first `dims.size() - skip` axes; false when it wraps around.
bool advance(std::vector<std::int64_t>& index, const std::vector<std::int64_t>& dims, std::size_t skip) {
  for (std::size_t axis = dims.size() - skip; axis-- > 0;) {
    if (++index[axis] < dims[axis]) return true;
    index[axis] = 0;
  }
  return false;
}

/// Calls line(column, base, first): for a run of output positions along the last axis, `column` is the index
/// of the first column element, the input elements are base + position * step (base < 0: all in the padding),
/// position = first + o * stride of the last axis.
template <class Line>
void for_each_line(const Lowering& l, std::int64_t group, Line line) {
  const std::size_t axes = l.kernel.size();
  const std::int64_t channels = l.group * l.in_per_group;
  const std::int64_t step = l.in_channels_last ? channels : 1;
  const std::int64_t last_out = axes == 0 ? 1 : l.out_dims[axes - 1];
  const std::int64_t last_in = axes == 0 ? 1 : l.in_dims[axes - 1];
  std::int64_t column = 0;
  for (std::int64_t c = 0; c < l.in_per_group; ++c) {
    const std::int64_t channel = group * l.in_per_group + c;
    const std::int64_t channel_base = l.in_channels_last ? channel : channel * l.in_positions;
    std::vector<std::int64_t> k(axes, 0);
    do {
      std::vector<std::int64_t> out(axes, 0);
      do {
        std::int64_t row = 0;
        bool inside = true;
        for (std::size_t axis = 0; axis + 1 < axes; ++axis) {
          const std::int64_t position = out[axis] * l.stride[axis] - l.pad[axis] + k[axis] * l.dilation[axis];
          inside = inside && position >= 0 && position < l.in_dims[axis];
          row = row * l.in_dims[axis] + position;
        }
        const std::int64_t first = axes == 0 ? 0 : k[axes - 1] * l.dilation[axes - 1] - l.pad[axes - 1];
        line(column, inside ? channel_base + row * last_in * step : -1, first);
        column += last_out;
      } while (axes > 0 && advance(out, l.out_dims, 1));
    } while (advance(k, l.kernel, 0));
  }
}

struct LastAxis {
  std::int64_t out, in, stride, step;
  explicit LastAxis(const Lowering& l)
      : out(l.out_dims.empty() ? 1 : l.out_dims.back()),
        in(l.in_dims.empty() ? 1 : l.in_dims.back()),
        stride(l.stride.empty() ? 1 : l.stride.back()),
        step(l.in_channels_last ? l.group * l.in_per_group : 1) {}
};

template <class T>
void im2col(const Lowering& l, std::int64_t group, const T* image, T* columns) {
  const LastAxis last(l);
  for_each_line(l, group, [&](std::int64_t column, std::int64_t base, std::int64_t first) {
    for (std::int64_t o = 0; o < last.out; ++o) {
      const std::int64_t position = first + o * last.stride;
      const bool inside = base >= 0 && position >= 0 && position < last.in;
      columns[column + o] = inside ? image[base + position * last.step] : T(0);
    }
  });
}

template <class T>
void col2im(const Lowering& l, std::int64_t group, const T* columns, T* image) {
  const LastAxis last(l);
  for_each_line(l, group, [&](std::int64_t column, std::int64_t base, std::int64_t first) {
    if (base < 0) return;
    for (std::int64_t o = 0; o < last.out; ++o) {
      const std::int64_t position = first + o * last.stride;
      if (position >= 0 && position < last.in) image[base + position * last.step] += columns[column + o];
    }
  });
}

template <class T>
void forward_sample(const Lowering& l, const T* input, const T* weight, const T* bias, T* columns,
                    T* output) {
  const std::int64_t o = l.out_per_group, s = l.out_positions, k = l.depth();
  if (bias != nullptr) {
    const std::int64_t channels = l.group * o;
    for (std::int64_t i = 0; i < channels * s; ++i)
      output[i] = bias[l.out_channels_last ? i % channels : i / s];
  }
  const T beta = bias != nullptr ? T(1) : T(0);
  for (std::int64_t g = 0; g < l.group; ++g) {
    im2col(l, g, input, columns);
    const T* w = weight + g * l.weight_count();
    T* out = output + l.out_offset(g);
    if (l.out_channels_last)
      gemm(true, true, s, o, k, columns, s, w, k, beta, out, l.out_stride());
    else
      gemm(false, false, o, s, k, w, k, columns, s, beta, out, l.out_stride());
  }
}

template <class T>
void backward_data_sample(const Lowering& l, const T* grad_output, const T* weight, T* columns,
                          T* grad_input) {
  const std::int64_t o = l.out_per_group, s = l.out_positions, k = l.depth();
  std::fill_n(grad_input, l.in_count(), T(0));
  for (std::int64_t g = 0; g < l.group; ++g) {
    const T* dy = grad_output + l.out_offset(g);
    gemm(true, l.out_channels_last, k, s, o, weight + g * l.weight_count(), k, dy, l.out_stride(), T(0),
         columns, s);
    col2im(l, g, columns, grad_input);
  }
}

template <class T>
void backward_weight_sample(const Lowering& l, const T* input, const T* grad_output, T* columns,
                            T* grad_weight) {
  const std::int64_t o = l.out_per_group, s = l.out_positions, k = l.depth();
  for (std::int64_t g = 0; g < l.group; ++g) {
    im2col(l, g, input, columns);
    gemm(l.out_channels_last, true, o, k, s, grad_output + l.out_offset(g), l.out_stride(), columns, s, T(1),
         grad_weight + g * l.weight_count(), k);
  }
}

template <class T>
void add_bias_gradient(const Lowering& l, const T* grad_output, int threads, Arithmetic<T>* grad_bias) {
  const std::int64_t channels = l.group * l.out_per_group, s = l.out_positions;
  const std::int64_t channel_step = l.out_channels_last ? 1 : s, step = l.out_channels_last ? channels : 1;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t c = 0; c < channels; ++c) {
    double sum = 0;
    for (std::int64_t n = 0; n < l.batch; ++n)
      for (std::int64_t i = 0; i < s; ++i)
        sum += static_cast<double>(grad_output[n * channels * s + c * channel_step + i * step]);
    grad_bias[c] += static_cast<Arithmetic<T>>(sum);
  }
}

/// A sample's activations in the type of the arithmetic: themselves, or a copy in `buffer`.
template <class T>
const Arithmetic<T>* read_sample(const T* sample, std::int64_t count, Arithmetic<T>* buffer) {
  if constexpr (std::is_same_v<T, Arithmetic<T>>) {
    return sample;
  } else {
    std::copy_n(sample, count, buffer);
    return buffer;
  }
}
/// Where to write a sample's activations before write_sample().
template <class T>
Arithmetic<T>* sample_to_write(T* sample, Arithmetic<T>* buffer) {
  if constexpr (std::is_same_v<T, Arithmetic<T>>)
    return sample;
  else
    return buffer;
}
template <class T>
void write_sample(const Arithmetic<T>* from, std::int64_t count, T* sample) {
  if constexpr (!std::is_same_v<T, Arithmetic<T>>)
    std::transform(from, from + count, sample, [](Arithmetic<T> value) { return static_cast<T>(value); });
}

class ReferenceConvolution final : public Convolution {
 public:
  explicit ReferenceConvolution(const ConvolutionGeometry& geometry) : geometry_(geometry) {}

  void forward(Context& context, const Tensor& input, const Tensor& weight, const Tensor& bias,
               Tensor& output) override {
    check_convolution(geometry_, input, weight, output);
    if (output.count() == 0) return;
    dispatch_storage(input.dtype(), "convolution", [&]<class T>() {
      using A = Arithmetic<T>;
      const int threads = context.device().threads();
      const Lowering l(geometry_, input, output);
      const std::int64_t scratch = l.columns_count() + sample_buffers<T>(l);
      A* buffers = context.workspace_of<A>(threads * scratch);
      const T* x = input.data<T>();
      const A *w = weight.data<A>(), *b = detail::optional_data<A>(bias);
      T* y = output.data<T>();
      context.run([=] {
        const OpenMpThreads serial_blas(1);
#pragma omp parallel for num_threads(threads) schedule(static)
        for (std::int64_t n = 0; n < l.batch; ++n) {
          A* columns = buffers + omp_get_thread_num() * scratch;
          A *in = columns + l.columns_count(),
            *to = sample_to_write(y + n * l.out_count(), in + l.in_count());
          forward_sample(l, read_sample(x + n * l.in_count(), l.in_count(), in), w, b, columns, to);
          write_sample(to, l.out_count(), y + n * l.out_count());
        }
      });
    });
  }

  void backward_data(Context& context, const Tensor& grad_output, const Tensor& weight,
                     Tensor& grad_input) override {
    check_convolution(geometry_, grad_input, weight, grad_output);
    if (grad_input.count() == 0) return;
    dispatch_storage(grad_input.dtype(), "convolution", [&]<class T>() {
      using A = Arithmetic<T>;
      const int threads = context.device().threads();
      const Lowering l(geometry_, grad_input, grad_output);
      const std::int64_t scratch = l.columns_count() + sample_buffers<T>(l);
      A* buffers = context.workspace_of<A>(threads * scratch);
      const T* dy = grad_output.data<T>();
      const A* w = weight.data<A>();
      T* dx = grad_input.data<T>();
      context.run([=] {
        const OpenMpThreads serial_blas(1);
#pragma omp parallel for num_threads(threads) schedule(static)
        for (std::int64_t n = 0; n < l.batch; ++n) {
          A* columns = buffers + omp_get_thread_num() * scratch;
          A *out = columns + l.columns_count(),
            *to = sample_to_write(dx + n * l.in_count(), out + l.out_count());
          backward_data_sample(l, read_sample(dy + n * l.out_count(), l.out_count(), out), w, columns, to);
          write_sample(to, l.in_count(), dx + n * l.in_count());
        }
      });
    });
  }

  void backward_weight(Context& context, const Tensor& input, const Tensor& grad_output, Tensor& grad_weight,
                       Tensor& grad_bias) override {
    check_convolution(geometry_, input, grad_weight, grad_output);
    if (input.count() == 0) return;
    dispatch_storage(input.dtype(), "convolution", [&]<class T>() {
      using A = Arithmetic<T>;
      const int threads = context.device().threads();
      const Lowering l(geometry_, input, grad_output);
      const std::int64_t weights = grad_weight.count();
      const std::int64_t scratch = l.columns_count() + sample_buffers<T>(l);
      A* buffers = context.workspace_of<A>(threads * (scratch + weights));
      A* partial = buffers + threads * scratch;
      const T *x = input.data<T>(), *dy = grad_output.data<T>();
      A *dw = grad_weight.data<A>(), *db = detail::optional_data<A>(grad_bias);
      context.run([=] {
        const OpenMpThreads serial_blas(1);
        std::fill_n(partial, threads * weights, A(0));
#pragma omp parallel for num_threads(threads) schedule(static)
        for (std::int64_t n = 0; n < l.batch; ++n) {
          const int thread = omp_get_thread_num();
          A* columns = buffers + thread * scratch;
          A *in = columns + l.columns_count(), *out = in + l.in_count();
          backward_weight_sample(l, read_sample(x + n * l.in_count(), l.in_count(), in),
                                 read_sample(dy + n * l.out_count(), l.out_count(), out), columns,
                                 partial + thread * weights);
        }
        for (int thread = 0; thread < threads; ++thread)
          for (std::int64_t i = 0; i < weights; ++i) dw[i] += partial[thread * weights + i];
        if (db != nullptr) add_bias_gradient(l, dy, threads, db);
      });
    });
  }

 private:
  /// Elements per thread for one sample of input and one of output.
  template <class T>
  static std::int64_t sample_buffers(const Lowering& l) {
    return std::is_same_v<T, Arithmetic<T>> ? 0 : l.in_count() + l.out_count();
  }

  ConvolutionGeometry geometry_;
};

}  // namespace

std::unique_ptr<Convolution> make_reference_convolution(const ConvolutionGeometry& geometry) {
  return std::make_unique<ReferenceConvolution>(geometry);
}

}  // namespace banyan::ops
