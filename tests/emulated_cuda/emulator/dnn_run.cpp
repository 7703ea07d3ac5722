#include "dnn_run.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "blas_product.hpp"
#include "dnn_compute.hpp"
#include "rounding.hpp"

namespace emulated::dnn {

Registry<DnnHandle>& handles() {
  static auto* const kHandles = new Registry<DnnHandle>("cuDNN handle");
  return *kHandles;
}

std::shared_ptr<DnnHandle> begin(cudnnHandle_t handle, const char* function, cudnnStatus_t* status) {
  std::shared_ptr<DnnHandle> dnn = handles().find(handle, function);
  const int device = dnn == nullptr ? current_device : dnn->device;
  int code = 0;
  if (fails(function, device, &code)) {
    const cudnnStatus_t usual =
        is_broken(device) ? CUDNN_STATUS_EXECUTION_FAILED : CUDNN_STATUS_INTERNAL_ERROR;
    *status = refuse(code != 0 ? static_cast<cudnnStatus_t>(code) : usual, function,
                     " fails by a setting of the emulated machine");
    return nullptr;
  }
  *status = CUDNN_STATUS_BAD_PARAM;
  return dnn;
}

cudnnStatus_t find_problem(const char* function, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                           cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y,
                           Problem* problem) {
  const auto x_found = tensors().find(x, function), y_found = tensors().find(y, function);
  const auto w_found = filters().find(w, function);
  const auto convolution_found = convolutions().find(convolution, function);
  if (x_found == nullptr || y_found == nullptr || w_found == nullptr || convolution_found == nullptr)
    return refuse(CUDNN_STATUS_BAD_PARAM, function, ": a descriptor does not exist");
  return make_problem(*x_found, *w_found, *convolution_found, *y_found, problem);
}

namespace {

/// One of a call's three arrays.
struct Operand {
  const char* name;
  const void* data;
  TensorDescriptor shape;  ///< a filter's: one axis, all its weights
  bool written;
  std::size_t bytes(const Problem& p) const {
    return static_cast<std::size_t>(extent_of(shape)) * p.element();
  }
};

/// Everything the stream's thread needs.
struct Work {
  Direction direction;
  int algorithm;
  Problem problem;
  double alpha, beta;
  Operand operands[3];  ///< x, w, y
  void* workspace;
  std::size_t workspace_bytes;
};

/// alpha and beta: in host memory, of the compute type. With the other type their values are garbage.
bool read_scale(const char* function, const char* name, const void* scale, cudnnDataType_t type,
                bool may_be_zero, double* value) {
  if (scale == nullptr || is_device_address(scale)) {
    complain(function, ": ", name,
             scale == nullptr ? " is a null pointer" : " has to be in the host's memory");
    return false;
  }
  if (type == CUDNN_DATA_DOUBLE) {
    std::memcpy(value, scale, sizeof(double));
  } else {
    float narrow = 0;
    std::memcpy(&narrow, scale, sizeof(float));
    *value = narrow;
  }
  const bool is_tiny = *value != 0 && std::abs(*value) < 1e-30;
  if (std::isfinite(*value) && !is_tiny && (may_be_zero || *value != 0)) return true;
  complain(function, ": ", name, " is ", *value, ": is it a ", type == CUDNN_DATA_DOUBLE ? "double" : "float",
           "?");
  return false;
}

cudnnStatus_t check_operands(const char* function, const Work& work) {
  const Problem& p = work.problem;
  for (const Operand& operand : work.operands) {
    if (operand.data == nullptr) {
      complain(function, ": ", operand.name, " is a null pointer");
      return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    }
    if (reinterpret_cast<std::uintptr_t>(operand.data) % 16 != 0) {  // cuDNN may read this much at once
      complain(function, ": ", operand.name,
               " is not aligned to 16 bytes: ", Memory::get().describe(operand.data));
      return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
    }
    if (overlap(operand.data, operand.bytes(p), work.workspace, work.workspace_bytes)) {
      complain(function, ": ", operand.name, " lies in the workspace");
      return CUDNN_STATUS_BAD_PARAM;
    }
    for (const Operand& other : work.operands)
      if (operand.written && &other != &operand &&
          overlap(operand.data, operand.bytes(p), other.data, other.bytes(p))) {
        complain(function, ": ", operand.name, " overlaps ", other.name);
        return CUDNN_STATUS_BAD_PARAM;
      }
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_workspace(const char* function, const Call& call, const Problem& problem) {
  const std::size_t needed = workspace_bytes(call.direction, call.algorithm, problem);
  if (call.workspace_bytes < needed) {
    complain(function, ": a workspace of ", call.workspace_bytes, " bytes, ", needed, " are needed");
    return refuse(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "the workspace is too small");
  }
  if (call.workspace_bytes == 0) return CUDNN_STATUS_SUCCESS;
  if (reinterpret_cast<std::uintptr_t>(call.workspace) % 16 != 0) {
    complain(function,
             ": the workspace is not aligned to 16 bytes: ", Memory::get().describe(call.workspace));
    return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
  }
  if (!is_device_address(call.workspace)) {
    complain(function, ": the workspace is no device memory: ", Memory::get().describe(call.workspace));
    return CUDNN_STATUS_BAD_PARAM;
  }
  return CUDNN_STATUS_SUCCESS;
}

/// The handle's stream if the call may be made now, or null after a complaint.
Stream* stream_for(const DnnHandle& dnn, const char* function) {
  if (dnn.device != current_device) {
    complain(function, ": a cuDNN handle of gpu:", dnn.device, " while gpu:", current_device, " is current");
    return nullptr;
  }
  Stream* stream = stream_of(dnn.stream, function);
  if (stream == nullptr || stream->device == dnn.device) return stream;
  complain(function, ": a cuDNN handle of gpu:", dnn.device, " with a stream of gpu:", stream->device);
  return nullptr;
}

/// Calls visit(first element, number) for each contiguous piece of a tensor's memory.
template <class Visit>
void for_each_piece(const TensorDescriptor& tensor, Visit&& visit) {
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // stride, length
  for (std::size_t axis = 0; axis < tensor.dims.size(); ++axis)
    if (tensor.dims[axis] > 1) axes.emplace_back(tensor.strides[axis], tensor.dims[axis]);
  std::sort(axes.begin(), axes.end());
  std::int64_t length = 1, pieces = 1;
  std::size_t first = 0;
  for (; first < axes.size() && axes[first].first == length; ++first) length *= axes[first].second;
  for (std::size_t axis = first; axis < axes.size(); ++axis) pieces *= axes[axis].second;
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    std::int64_t at = 0, rest = piece;
    for (std::size_t axis = first; axis < axes.size(); ++axis) {
      at += rest % axes[axis].second * axes[axis].first;
      rest /= axes[axis].second;
    }
    visit(at, length);
  }
}

/// The process's address of an operand, after all checks; null after a complaint.
char* real_address(Running& r, const Work& work, const Operand& operand) {
  const std::size_t element = work.problem.element();
  const std::string what = std::string(name_of(work.direction)) + ", " + operand.name;
  const auto* begin = static_cast<const char*>(operand.data);
  bool allowed = true;
  for_each_piece(operand.shape, [&](std::int64_t at, std::int64_t length) {
    const char* piece = begin + static_cast<std::size_t>(at) * element;
    const std::size_t bytes = static_cast<std::size_t>(length) * element;
    if (!operand.written || work.beta != 0)
      allowed = allowed && r.read(piece, bytes, what.c_str()) != nullptr;
    if (operand.written)
      allowed = allowed && r.write(const_cast<char*>(piece), bytes, what.c_str()) != nullptr;
  });
  return allowed ? Memory::get().real(begin) : nullptr;
}

/// Are factors rounded to TF32?
bool rounds_to_tf32(const Problem& p) {
  return p.type == CUDNN_DATA_FLOAT && p.math != CUDNN_FMA_MATH && has_tf32();
}

/// An operand as it is computed with: a converted copy, or its own memory.
template <class T>
Sum<T>* as_computed(const Work& work, const Operand& operand, T* real, std::vector<Sum<T>>* copy) {
  const auto copy_with = [&](auto convert) {
    copy->resize(static_cast<std::size_t>(extent_of(operand.shape)));
    if (!operand.written || work.beta != 0)
      for_each_piece(operand.shape, [&](std::int64_t at, std::int64_t length) {
        std::transform(real + at, real + at + length, copy->begin() + at, convert);
      });
    return copy->data();
  };
  if constexpr (std::is_same_v<T, Bf16>) {
    return copy_with(as_float);
  } else {
    if constexpr (std::is_same_v<T, float>)
      if (rounds_to_tf32(work.problem) && !operand.written) return copy_with(as_tf32);
    return real;
  }
}

/// Elements of type T.
template <class T>
void compute_with(const Work& work, char* const (&real)[3]) {
  const Problem& p = work.problem;
  Sum<T>* data[3];
  std::vector<Sum<T>> copies[3];
  for (int i = 0; i < 3; ++i)
    data[i] = as_computed(work, work.operands[i], reinterpret_cast<T*>(real[i]), &copies[i]);
  compute<Sum<T>>(work.direction, p, static_cast<Sum<T>>(work.alpha), static_cast<Sum<T>>(work.beta),
                  {data[0], data[1], data[2]});
  const Way way(work.direction, work.algorithm, p.channels_last, p.batch, p.in_channels, p.out_channels,
                p.groups, p.inputs(), p.positions(), p.weights());
  for (int i = 0; i < 3; ++i)
    if (work.operands[i].written)
      for_each_piece(work.operands[i].shape, [&](std::int64_t at, std::int64_t length) {
        round_otherwise(data[i] + at, static_cast<std::size_t>(length), way);
        if constexpr (std::is_same_v<T, Bf16>)
          std::transform(data[i] + at, data[i] + at + length, reinterpret_cast<T*>(real[i]) + at, as_bf16);
      });
}

void run_on_stream(Running& r, const Work& work) {
  if (work.workspace_bytes > 0) {
    char* workspace = r.write(work.workspace, work.workspace_bytes, "a convolution's workspace");
    if (workspace == nullptr) return;
    fill_with_garbage(workspace, work.workspace_bytes);
  }
  char* real[3];
  std::uint64_t bytes = 0;
  for (int i = 0; i < 3; ++i) {
    real[i] = real_address(r, work, work.operands[i]);
    if (real[i] == nullptr) return;
    bytes += work.operands[i].bytes(work.problem);
  }
  const Quiet quiet;
  if (work.problem.type == CUDNN_DATA_DOUBLE)
    compute_with<double>(work, real);
  else if (work.problem.type == CUDNN_DATA_BFLOAT16)
    compute_with<Bf16>(work, real);
  else
    compute_with<float>(work, real);
  count("cudnn calls");
  count("cudnn flops", work.problem.flops());
  count("cudnn bytes", bytes);
}

}  // namespace

cudnnStatus_t run(const Call& call) {
  const char* const function = name_of(call.direction);
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  const std::shared_ptr<DnnHandle> dnn = begin(call.handle, function, &status);
  if (dnn == nullptr) return status;
  Problem problem;
  status = find_problem(function, call.x, call.w, call.convolution, call.y, &problem);
  if (status == CUDNN_STATUS_SUCCESS) status = check_support(call.direction, call.algorithm, problem);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (is_refused_when_run(call.direction, call.algorithm, problem))
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the emulated machine is set to cudnn=", settings().cudnn);
  const TensorDescriptor weights{true, problem.type, {problem.weights()}, {1}};
  auto work =
      std::make_shared<Work>(Work{call.direction,
                                  call.algorithm,
                                  problem,
                                  1,
                                  0,
                                  {{call.direction == Direction::backward_data ? "dx" : "x", call.x_data,
                                    problem.x, call.direction == Direction::backward_data},
                                   {call.direction == Direction::backward_filter ? "dw" : "w", call.w_data,
                                    weights, call.direction == Direction::backward_filter},
                                   {call.direction == Direction::forward ? "y" : "dy", call.y_data, problem.y,
                                    call.direction == Direction::forward}},
                                  call.workspace_bytes == 0 ? nullptr : call.workspace,
                                  call.workspace_bytes});
  if (!read_scale(function, "alpha", call.alpha, problem.type, false, &work->alpha) ||
      !read_scale(function, "beta", call.beta, problem.type, true, &work->beta))
    return CUDNN_STATUS_BAD_PARAM;
  status = check_workspace(function, call, problem);
  if (status == CUDNN_STATUS_SUCCESS) status = check_operands(function, *work);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  Stream* stream = stream_for(*dnn, function);
  if (stream == nullptr) return CUDNN_STATUS_EXECUTION_FAILED;
  if (rounds_to_tf32(problem))
    note(std::string(function) + ": the math type allows TF32 (CUDNN_FMA_MATH does not)");
  enqueue(*stream, std::string(function) + " (" + name_of(call.direction, call.algorithm) + ")",
          [work](Running& r) { run_on_stream(r, *work); });
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace emulated::dnn
