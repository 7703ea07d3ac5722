// Softmax, losses and accuracy on CPU devices. A softmax over neighbouring elements (inner == 1) divides its
// rows among the threads by their work and takes maximum and sum in vector lanes; the rest are the shared
// functors.
#include "ops/common/loss.hpp"

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

constexpr DeviceKind kCpu = DeviceKind::cpu;

template <class T>
void softmax_row(std::int64_t channels, const T* x, T* y) {
  T most = x[0];
#pragma omp simd reduction(max : most)
  for (std::int64_t c = 0; c < channels; ++c) most = x[c] > most ? x[c] : most;
  for (std::int64_t c = 0; c < channels; ++c) y[c] = std::exp(x[c] - most);
  double sum = 0;  // lanes are the compiler's choice: fixed for one program
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < channels; ++c) sum += static_cast<double>(y[c]);
  const T scale = static_cast<T>(1 / sum);
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c) y[c] *= scale;
}

void softmax_forward_on_cpu(Context& context, const Tensor& x, const Channels& over, Tensor& y) {
  if (over.inner != 1 || x.count() == 0) return softmax_forward_on<CpuBackend>(context, x, over, y);
  require_count("softmax_forward", x, over.outer * over.channels);
  require_alike("softmax_forward", x, y);
  dispatch_float(x.dtype(), "softmax_forward", [&]<class T>() {
    const T* from = x.data<T>();
    T* to = y.data<T>();
    const int threads = CpuBackend::threads_for(context, 8 * x.count());  // an exponential per element
    context.run([=] {
#pragma omp parallel for num_threads(threads) schedule(static)
      for (std::int64_t row = 0; row < over.outer; ++row)
        softmax_row(over.channels, from + row * over.channels, to + row * over.channels);
    });
  });
}

const Define define_softmax_forward(softmax_forward, kCpu, &softmax_forward_on_cpu);
const Define define_softmax_backward(softmax_backward, kCpu, &softmax_backward_on<CpuBackend>);
const Define define_softmax_loss_forward(softmax_loss_forward, kCpu, &softmax_loss_forward_on<CpuBackend>);
const Define define_softmax_loss_backward(softmax_loss_backward, kCpu, &softmax_loss_backward_on<CpuBackend>);
const Define define_euclidean_forward(euclidean_forward, kCpu, &euclidean_forward_on<CpuBackend>);
const Define define_euclidean_backward(euclidean_backward, kCpu, &euclidean_backward_on<CpuBackend>);
const Define define_quotient(quotient, kCpu, &quotient_on<CpuBackend>);
const Define define_accuracy_counts(accuracy_counts, kCpu, &accuracy_counts_on<CpuBackend>);

}  // namespace
}  // namespace banyan::ops
