// Convolution by cuDNN and cuBLAS, f32, f64 and bf16, one to three spatial axes (cuDNN computes one as an
// image of height 1).
//
// cuDNN requires activations and weights in the same memory order, and does not support every order for every
// shape. So a call works through a list of attempts (see convolution_plan.hpp); a tensor not stored in the
// attempt's order, or not aligned, is converted to or from scratch memory. Our weights are contiguous (O, I,
// spatial); channels-last attempts get an (O, spatial, I) copy where that is another order. A call's scratch
// block holds, in this order: cuDNN's workspace or unfolded images, weights, input, output.
//
// Factors are multiplied in bf16 where the device is to (Math::bf16), else in the parameters' type; tensors
// of another type are converted like those in another order. Gradients of weights are f32 all the same, but
// with many groups, where they are cuDNN's, in bf16.
//
// Only deterministic algorithms, TF32 only where the device is to use it (Math::tf32). Where those of cuDNN
// are slow, or there are none, the convolution is a matrix product over unfolded images. Weight gradients
// that are to be added to others are computed into scratch memory and added by our own kernel, so that no
// algorithm needs to support accumulation.
#include "banyan/ops/convolution.hpp"

#include <cudnn.h>

#include <cstdint>
#include <map>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"
#include "ops/common/convolution_check.hpp"
#include "ops/cuda/convolution_columns.hpp"
#include "ops/cuda/convolution_plan.hpp"
#include "ops/cuda/handles.hpp"
#include "ops/cuda/transpose.hpp"

namespace banyan::ops {

namespace {

/// Is the tensor's memory in this order? (True for both if there is no difference.)
bool is_in_order(const Tensor& tensor, bool channels_last) {
  return channels_last ? tensor.layout() == Layout::channels_last || tensor.shape()[1] == 1 ||
                             tensor.shape().count(2) == 1
                       : tensor.is_contiguous();
}

/// cuDNN's kernels read up to 16 bytes at once; views into the flat parameter buffer may start anywhere.
bool is_aligned(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory) % 16 == 0; }

/// How a library reads and writes activations.
struct Form {
  DType dtype;
  bool channels_last;
};

/// Can it use the tensor's own memory?
bool is_usable(const Tensor& tensor, const Form& form) {
  return tensor.dtype() == form.dtype && is_in_order(tensor, form.channels_last) && is_aligned(tensor.raw());
}

std::size_t bytes_of(const Tensor& tensor, DType dtype) {
  return static_cast<std::size_t>(tensor.count()) * size_of(dtype);
}

/// Copies a tensor to scratch memory in this form.
void stage(Context& context, const Tensor& tensor, void* scratch, const Form& form) {
  const std::int64_t channels = tensor.shape()[1], inner = tensor.shape().count(2);
  if (is_in_order(tensor, form.channels_last))
    move_on_cuda(context, tensor.dtype(), tensor.raw(), form.dtype, scratch, tensor.count(), false);
  else
    transpose_on_cuda(context, tensor.dtype(), tensor.raw(), form.dtype, scratch, tensor.shape()[0],
                      form.channels_last ? channels : inner, form.channels_last ? inner : channels, false);
}

/// The reverse.
void unstage(Context& context, const void* scratch, Tensor& tensor, const Form& form) {
  const std::int64_t channels = tensor.shape()[1], inner = tensor.shape().count(2);
  if (is_in_order(tensor, form.channels_last))
    move_on_cuda(context, form.dtype, scratch, tensor.dtype(), tensor.raw(), tensor.count(), false);
  else
    transpose_on_cuda(context, form.dtype, scratch, tensor.dtype(), tensor.raw(), tensor.shape()[0],
                      form.channels_last ? inner : channels, form.channels_last ? channels : inner, false);
}

/// Memory of y as outer x channel x inner.
Broadcast over_channels(const Tensor& y) {
  const ChannelView view = channel_view(y);
  if (view.channels_last) return {view.batch * view.inner, view.channels, 1};
  return {view.batch, view.channels, view.inner};
}

/// Hands out pieces of one scratch block: all are reserved first, then the block is allocated.
class Scratch {
 public:
  std::size_t reserve(std::size_t bytes) {
    const std::size_t at = bytes_;
    bytes_ += (bytes + 255) / 256 * 256;
    return at;
  }
  void make(Context& context) {
    if (bytes_ > 0) base_ = static_cast<char*>(context.workspace(bytes_));
  }
  /// A piece; null if nothing at all was reserved. Must not be used if its reservation was 0 bytes.
  void* at(std::size_t offset) const { return base_ == nullptr ? nullptr : base_ + offset; }

 private:
  std::size_t bytes_ = 0;
  char* base_ = nullptr;
};

class CudnnConvolution final : public Convolution {
 public:
  /// `dtype`: of parameters; `factors`: what is multiplied.
  CudnnConvolution(ConvolutionGeometry geometry, DType dtype, DType factors)
      : geometry_(std::move(geometry)), dtype_(dtype), factors_(factors) {}

  void forward(Context& context, const Tensor& input, const Tensor& weight, const Tensor& bias,
               Tensor& output) override {
    check(input, weight, output);
    if (output.count() == 0) return;
    run(context, ConvolutionDirection::forward, input, output,
        [&](const Attempt& attempt) { return with_output(attempt, input, weight, output); });
    if (bias.defined()) scale_bias(context, output, Tensor(), bias, over_channels(output), {}, output);
  }

  void backward_data(Context& context, const Tensor& grad_output, const Tensor& weight,
                     Tensor& grad_input) override {
    check(grad_input, weight, grad_output);
    if (grad_input.count() == 0) return;
    run(context, ConvolutionDirection::backward_data, grad_input, grad_output,
        [&](const Attempt& attempt) { return with_grad_input(attempt, grad_output, weight, grad_input); });
  }

  void backward_weight(Context& context, const Tensor& input, const Tensor& grad_output, Tensor& grad_weight,
                       Tensor& grad_bias) override {
    find_grad_weight(context, input, grad_output, true, grad_weight, grad_bias);
  }

  void first_backward_weight(Context& context, const Tensor& input, const Tensor& grad_output,
                             Tensor& grad_weight, Tensor& grad_bias) override {
    if (grad_output.count() == 0) context.stream().zero(grad_weight.raw(), grad_weight.bytes());
    if (grad_bias.defined()) context.stream().zero(grad_bias.raw(), grad_bias.bytes());
    find_grad_weight(context, input, grad_output, false, grad_weight, grad_bias);
  }

  KernelChoices kernel_choices() const override {
    KernelChoices choices;
    for (const auto& [key, plan] : plans_)
      for (const auto direction : {ConvolutionDirection::forward, ConvolutionDirection::backward_data,
                                   ConvolutionDirection::backward_weight})
        if (const ConvolutionAttempt* attempt = plan->settled(direction))
          choices[cat(name_of(direction), " of ", Shape(key.first).to_string(),
                      key.second ? " channels-last" : "")] =
              attempt->algorithm == kColumnsAlgorithm
                  ? cat("a product of cuBLAS ", cublas_version())
                  : cat("cuDNN's algorithm ", attempt->algorithm, ", ",
                        attempt->format->channels_last ? "channels-last" : "contiguous");
    return choices;
  }

 private:
  struct Attempt {
    Context& context;
    cudnnHandle_t handle;
    cudnnConvolutionDescriptor_t convolution;
    const ConvolutionFormat& format;
    int algorithm;
    std::size_t workspace_bytes;
    const void* one;  ///< scale factors in the compute type: f64 for f64, else f32
    const void* zero;
  };

  void check(const Tensor& input, const Tensor& weight, const Tensor& output) const {
    check_convolution(geometry_, input, weight, output);
    const auto fits = [this](const Tensor& tensor) {
      return tensor.dtype() == dtype_ || (tensor.dtype() == DType::bf16 && dtype_ == DType::f32);
    };
    if (!fits(input) || weight.dtype() != dtype_ || !fits(output))
      runtime_failure("convolution made for ", name_of(dtype_), " tensors: input ", name_of(input.dtype()),
                      ", weight ", name_of(weight.dtype()), ", output ", name_of(output.dtype()));
  }

  ConvolutionPlan& plan_for(Context& context, const Tensor& input, const Tensor& output) {
    // Where only one of them is channels-last, the other is converted.
    const bool both_contiguous = is_in_order(input, false) && is_in_order(output, false);
    const bool channels_last = !both_contiguous || (is_in_order(input, true) && is_in_order(output, true));
    // The output's shape follows from the input's (checked).
    std::unique_ptr<ConvolutionPlan>& plan = plans_[{input.shape().dims(), channels_last}];
    if (plan == nullptr)
      plan = std::make_unique<ConvolutionPlan>(context.device(), geometry_, factors_, input.shape(),
                                               output.shape(), channels_last);
    return *plan;
  }

  /// Adds to grad_weight or overwrites it; adds to grad_bias, where defined.
  void find_grad_weight(Context& context, const Tensor& input, const Tensor& grad_output, bool add,
                        Tensor& grad_weight, Tensor& grad_bias) {
    check(input, grad_weight, grad_output);
    if (grad_output.count() == 0) return;
    run(context, ConvolutionDirection::backward_weight, input, grad_output, [&](const Attempt& attempt) {
      return with_grad_weight(attempt, input, grad_output, add, grad_weight);
    });
    if (grad_bias.defined())
      scale_backward(context, Tensor(), grad_output, over_channels(grad_output), grad_bias);
  }

  /// Works through the attempts until cuDNN accepts one. `body` returns cuDNN's status.
  template <class Body>
  void run(Context& context, ConvolutionDirection direction, const Tensor& input, const Tensor& output,
           const Body& body) {
    static constexpr float kOne = 1, kZero = 0;
    static constexpr double kOne64 = 1, kZero64 = 0;
    const bool wide = dtype_ == DType::f64;
    const cudnnHandle_t handle = cuda_handles(context).cudnn();
    ConvolutionPlan& plan = plan_for(context, input, output);
    ConvolutionAttempts& attempts = plan.attempts(handle, direction);
    for (; attempts.current < attempts.list.size(); ++attempts.current) {
      const ConvolutionAttempt& chosen = attempts.list[attempts.current];
      if (chosen.algorithm == kColumnsAlgorithm && !attempts.reported) {
        log_warning(cat(context.device().name(), ": cuDNN has no reproducible algorithm for a convolution (",
                        name_of(direction), ") of ", name_of(factors_), " ", input.shape().to_string(),
                        " to ", output.shape().to_string(),
                        "; it is computed as a product over unfolded images"));
        attempts.reported = true;
      }
      const Attempt attempt{context,
                            handle,
                            plan.convolution(),
                            *chosen.format,
                            chosen.algorithm,
                            chosen.workspace_bytes,
                            wide ? static_cast<const void*>(&kOne64) : &kOne,
                            wide ? static_cast<const void*>(&kZero64) : &kZero};
      const cudnnStatus_t status = body(attempt);
      if (status == CUDNN_STATUS_SUCCESS) {
        attempts.settled = true;
        return;
      }
      // Only "not supported" leads to the next attempt, since every such GPU will report it; a temporary
      // condition such as lack of memory must not make one device use other kernels. The whole result is
      // overwritten.
      if (attempts.settled || CUDNN_STATUS_CATEGORY(status) != CUDNN_STATUS_NOT_SUPPORTED)
        cudnn_check(status,
                    cat("cuDNN's convolution (", name_of(direction), ", algorithm ", chosen.algorithm, ")"),
                    context.device());
      static_cast<void>(cudaGetLastError());
    }
  }

  static const char* name_of(ConvolutionDirection direction) {
    constexpr const char* kNames[] = {"forward", "backward to data", "backward to weights"};
    return kNames[static_cast<std::size_t>(direction)];
  }
  static const char* name_of(DType dtype) { return banyan::name_of(dtype); }

  std::int64_t weights_per_output() const {
    std::int64_t positions = 1;
    for (const std::int64_t length : geometry_.kernel) positions *= length;
    return geometry_.in_channels / geometry_.group * positions;
  }

  /// Is (O, I, spatial) another order of the weights than (O, spatial, I)?
  bool turns() const {
    const std::int64_t in = geometry_.in_channels / geometry_.group;
    return in > 1 && weights_per_output() > in;
  }

  /// Copies the weights to scratch memory as factors; turned: (O, I, spatial) -> (O, spatial, I).
  void stage_weight(Context& context, const Tensor& weight, void* scratch, bool turned) const {
    const std::int64_t in = geometry_.in_channels / geometry_.group;
    if (turned)
      transpose_on_cuda(context, dtype_, weight.raw(), factors_, scratch, geometry_.out_channels, in,
                        weights_per_output() / in, false);
    else
      move_on_cuda(context, dtype_, weight.raw(), factors_, scratch, weight.count(), false);
  }

  /// Must the weights be copied for this?
  bool stages_weight(const Tensor& weight, bool turned) const {
    return turned || factors_ != dtype_ || !is_aligned(weight.raw());
  }

  ColumnsProblem problem(const Tensor& input, const Tensor& output) const {
    return {geometry_, factors_, input.shape(), output.shape()};
  }

  // The computation itself, on memory in the order of the attempt's format. Results are overwritten.

  static cudnnStatus_t compute_forward(const Attempt& a, const ColumnsProblem& problem, const void* input,
                                       const void* weight, void* output, void* workspace) {
    if (a.algorithm == kColumnsAlgorithm) {
      columns_forward(a.context, problem, input, weight, output, workspace);
      return CUDNN_STATUS_SUCCESS;
    }
    return cudnnConvolutionForward(a.handle, a.one, a.format.input.get(), input, a.format.weight.get(),
                                   weight, a.convolution, static_cast<cudnnConvolutionFwdAlgo_t>(a.algorithm),
                                   workspace, a.workspace_bytes, a.zero, a.format.output.get(), output);
  }
  static cudnnStatus_t compute_backward_data(const Attempt& a, const ColumnsProblem& problem,
                                             const void* grad_output, const void* weight, void* grad_input,
                                             void* workspace) {
    if (a.algorithm == kColumnsAlgorithm) {
      columns_backward_data(a.context, problem, grad_output, weight, grad_input, workspace);
      return CUDNN_STATUS_SUCCESS;
    }
    return cudnnConvolutionBackwardData(a.handle, a.one, a.format.weight.get(), weight, a.format.output.get(),
                                        grad_output, a.convolution,
                                        static_cast<cudnnConvolutionBwdDataAlgo_t>(a.algorithm), workspace,
                                        a.workspace_bytes, a.zero, a.format.input.get(), grad_input);
  }
  static cudnnStatus_t compute_backward_weight(const Attempt& a, const ColumnsProblem& problem,
                                               const void* input, const void* grad_output, void* grad_weight,
                                               void* workspace) {
    if (a.algorithm == kColumnsAlgorithm) {
      columns_backward_weight(a.context, problem, input, grad_output, grad_weight, workspace);
      return CUDNN_STATUS_SUCCESS;
    }
    return cudnnConvolutionBackwardFilter(
        a.handle, a.one, a.format.input.get(), input, a.format.output.get(), grad_output, a.convolution,
        static_cast<cudnnConvolutionBwdFilterAlgo_t>(a.algorithm), workspace, a.workspace_bytes, a.zero,
        a.format.weight.get(), grad_weight);
  }

  cudnnStatus_t with_output(const Attempt& a, const Tensor& input, const Tensor& weight,
                            Tensor& output) const {
    const Form form{factors_, a.format.channels_last};
    const bool turned = form.channels_last && turns(), stage_w = stages_weight(weight, turned);
    const bool stage_x = !is_usable(input, form), stage_y = !is_usable(output, form);
    Scratch scratch;
    const std::size_t work = scratch.reserve(a.workspace_bytes),
                      w = scratch.reserve(stage_w ? bytes_of(weight, factors_) : 0),
                      x = scratch.reserve(stage_x ? bytes_of(input, factors_) : 0),
                      y = scratch.reserve(stage_y ? bytes_of(output, factors_) : 0);
    scratch.make(a.context);
    if (stage_w) stage_weight(a.context, weight, scratch.at(w), turned);
    if (stage_x) stage(a.context, input, scratch.at(x), form);
    const cudnnStatus_t status = compute_forward(
        a, problem(input, output), stage_x ? scratch.at(x) : input.raw(),
        stage_w ? scratch.at(w) : weight.raw(), stage_y ? scratch.at(y) : output.raw(), scratch.at(work));
    if (stage_y && status == CUDNN_STATUS_SUCCESS) unstage(a.context, scratch.at(y), output, form);
    return status;
  }

  cudnnStatus_t with_grad_input(const Attempt& a, const Tensor& grad_output, const Tensor& weight,
                                Tensor& grad_input) const {
    const Form form{factors_, a.format.channels_last};
    const bool turned = form.channels_last && turns(), stage_w = stages_weight(weight, turned);
    const bool stage_dx = !is_usable(grad_input, form), stage_dy = !is_usable(grad_output, form);
    Scratch scratch;
    const std::size_t work = scratch.reserve(a.workspace_bytes),
                      w = scratch.reserve(stage_w ? bytes_of(weight, factors_) : 0),
                      dx = scratch.reserve(stage_dx ? bytes_of(grad_input, factors_) : 0),
                      dy = scratch.reserve(stage_dy ? bytes_of(grad_output, factors_) : 0);
    scratch.make(a.context);
    if (stage_w) stage_weight(a.context, weight, scratch.at(w), turned);
    if (stage_dy) stage(a.context, grad_output, scratch.at(dy), form);
    const cudnnStatus_t status = compute_backward_data(
        a, problem(grad_input, grad_output), stage_dy ? scratch.at(dy) : grad_output.raw(),
        stage_w ? scratch.at(w) : weight.raw(), stage_dx ? scratch.at(dx) : grad_input.raw(),
        scratch.at(work));
    if (stage_dx && status == CUDNN_STATUS_SUCCESS) unstage(a.context, scratch.at(dx), grad_input, form);
    return status;
  }

  cudnnStatus_t with_grad_weight(const Attempt& a, const Tensor& input, const Tensor& grad_output, bool add,
                                 Tensor& grad_weight) const {
    const Form form{factors_, a.format.channels_last};
    const DType found = a.algorithm == kColumnsAlgorithm ? dtype_ : factors_;
    const bool turned = form.channels_last && turns();
    const bool stage_dw = add || turned || found != dtype_ || !is_aligned(grad_weight.raw());
    const bool stage_x = !is_usable(input, form), stage_dy = !is_usable(grad_output, form);
    Scratch scratch;
    const std::size_t work = scratch.reserve(a.workspace_bytes),
                      dw = scratch.reserve(stage_dw ? bytes_of(grad_weight, found) : 0),
                      x = scratch.reserve(stage_x ? bytes_of(input, factors_) : 0),
                      dy = scratch.reserve(stage_dy ? bytes_of(grad_output, factors_) : 0);
    scratch.make(a.context);
    if (stage_x) stage(a.context, input, scratch.at(x), form);
    if (stage_dy) stage(a.context, grad_output, scratch.at(dy), form);
    const cudnnStatus_t status =
        compute_backward_weight(a, problem(input, grad_output), stage_x ? scratch.at(x) : input.raw(),
                                stage_dy ? scratch.at(dy) : grad_output.raw(),
                                stage_dw ? scratch.at(dw) : grad_weight.raw(), scratch.at(work));
    if (status != CUDNN_STATUS_SUCCESS || !stage_dw) return status;
    // (O, spatial, I) -> (O, I, spatial), or one long row.
    const std::int64_t in = geometry_.in_channels / geometry_.group, per_output = weights_per_output();
    if (turned)
      transpose_on_cuda(a.context, found, scratch.at(dw), dtype_, grad_weight.raw(), geometry_.out_channels,
                        per_output / in, in, add);
    else
      move_on_cuda(a.context, found, scratch.at(dw), dtype_, grad_weight.raw(), grad_weight.count(), add);
    return status;
  }

  ConvolutionGeometry geometry_;
  DType dtype_, factors_;
  std::map<std::pair<std::vector<std::int64_t>, bool>, std::unique_ptr<ConvolutionPlan>> plans_;
};

std::unique_ptr<Convolution> make_cudnn_convolution(Context& context, const ConvolutionGeometry& geometry,
                                                    DType dtype) {
  if (geometry.spatial_axes() < 1 || geometry.spatial_axes() > 3)
    runtime_failure("convolution on ", context.device().name(), " supports 1 to 3 spatial axes, not ",
                    geometry.spatial_axes());
  if (dtype != DType::f32 && dtype != DType::f64)
    runtime_failure("convolution on ", context.device().name(), " does not support ", banyan::name_of(dtype),
                    " tensors (f32 and f64 only)");
  const bool narrow = dtype == DType::f32 && context.device().math() == Math::bf16;
  return std::make_unique<CudnnConvolution>(geometry, dtype, narrow ? DType::bf16 : dtype);
}

const bool defined = (define_convolution(DeviceKind::cuda, &make_cudnn_convolution), true);

}  // namespace

}  // namespace banyan::ops
