#include "device/cuda/cuda_device.hpp"

#include <algorithm>
#include <utility>

#include "banyan/base/error.hpp"
#include "device/cuda/cuda_check.hpp"

namespace banyan {
namespace {

std::string name_of_device(int ordinal, int replica) {
  return replica == 0 ? cat("gpu:", ordinal) : cat("gpu:", ordinal, "#", replica);
}

/// As the capture left it.
struct CapturedGraph {
  CapturedGraph() = default;
  ~CapturedGraph() {
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
  }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
  cudaGraph_t graph = nullptr;
};

}  // namespace

// --- device ---

CudaDevice::CudaDevice(int ordinal, int replica, Math math)
    : Device(DeviceKind::cuda, ordinal, name_of_device(ordinal, replica), 1, math) {
  // Unconditionally: this also creates the GPU's context, so an unusable GPU fails here.
  cuda_check(cudaSetDevice(ordinal), name(), "cudaSetDevice");
}

void CudaDevice::make_current() {
  int current = -1;
  // Where the thread's present GPU is lost this call may fail, too: it must not keep others from being used.
  if (cudaGetDevice(&current) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    current = -1;
  }
  if (current != ordinal()) cuda_check(cudaSetDevice(ordinal()), name(), "cudaSetDevice");
}

std::unique_ptr<Stream> CudaDevice::create_stream(const std::string& name) {
  return std::make_unique<CudaStream>(*this, name);
}

std::unique_ptr<Event> CudaDevice::create_event() { return std::make_unique<CudaEvent>(*this); }

std::shared_ptr<void> CudaDevice::allocate_host(std::size_t bytes) {
  make_current();
  void* data = nullptr;
  cuda_check(cudaHostAlloc(&data, std::max<std::size_t>(bytes, 1), cudaHostAllocPortable), name(),
             "cudaHostAlloc of ", bytes, " bytes of pinned host memory");
  return std::shared_ptr<void>(data, [](void* memory) { static_cast<void>(cudaFreeHost(memory)); });
}

void* CudaDevice::raw_allocate(std::size_t bytes) {
  make_current();
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, std::max<std::size_t>(bytes, 1));
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    return nullptr;
  }
  cuda_check(status, name(), "cudaMalloc of ", bytes, " bytes");
  return data;
}

void CudaDevice::raw_release(void* data) noexcept {
  // The next checked call reports errors of earlier kernels; at the end of the process the driver may be
  // gone.
  if (cudaSetDevice(ordinal()) == cudaSuccess) static_cast<void>(cudaFree(data));
}

// --- event ---

CudaEvent::CudaEvent(CudaDevice& device) : device_(&device) {
  device.make_current();
  cuda_check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), device.name(),
             "cudaEventCreateWithFlags");
}

CudaEvent::~CudaEvent() { static_cast<void>(cudaEventDestroy(event_)); }

void CudaEvent::synchronize() {
  cuda_check(cudaEventSynchronize(event_), device_->name(), "cudaEventSynchronize");
}

bool CudaEvent::done() {
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // not a failure: the check of a later launch must not find it
    return false;
  }
  cuda_check(status, device_->name(), "cudaEventQuery");
  return true;
}

// --- graph ---

CudaGraph::CudaGraph(Device& device, cudaGraph_t captured) : device_(&device) {
  device.make_current();
  cuda_check(cudaGraphInstantiate(&executable_, captured, 0), device.name(), "cudaGraphInstantiate");
}

CudaGraph::~CudaGraph() { static_cast<void>(cudaGraphExecDestroy(executable_)); }

void CudaGraph::replay(Stream& stream) {
  if (stream.device().kind() != DeviceKind::cuda || stream.device().ordinal() != device_->ordinal())
    runtime_failure("a graph captured on ", device_->name(), " cannot run on ", stream.device().name());
  device_->make_current();
  cuda_check(cudaGraphLaunch(executable_, static_cast<CudaStream&>(stream).native()), device_->name(),
             "cudaGraphLaunch");
}

// --- stream ---

CudaStream::CudaStream(CudaDevice& device, std::string name) : Stream(device), name_(std::move(name)) {
  device.make_current();
  cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), device.name(),
             "cudaStreamCreateWithFlags");
}

CudaStream::~CudaStream() { static_cast<void>(cudaStreamDestroy(stream_)); }

void CudaStream::record(Event& event) {
  device().make_current();
  cuda_check(cudaEventRecord(static_cast<CudaEvent&>(event).native(), stream_), device().name(),
             "cudaEventRecord");
}

void CudaStream::wait(const Event& event) {
  device().make_current();
  cuda_check(cudaStreamWaitEvent(stream_, static_cast<const CudaEvent&>(event).native(), 0), device().name(),
             "cudaStreamWaitEvent");
}

void CudaStream::synchronize() {
  const auto wait = [this] {
    device().make_current();
    cuda_check(cudaStreamSynchronize(stream_), device().name(), "the work of stream \"", name_, "\"");
  };
  try {
    wait();
  } catch (const Error&) {
    // Whoever waits gives away memory next that the stream's work may still use, above all where it leaves by
    // this failure. A call that has failed but once is made up for; a GPU that is lost does nothing any more.
    try {
      wait();
    } catch (const Error&) {  // the first failure says where
    }
    throw;
  }
  if (clock_) clock_->settle();
}

std::unique_ptr<ExecutableGraph> CudaStream::capture(const std::function<void()>& work) {
  device().make_current();
  // Of this thread: others allocate for their own GPUs meanwhile.
  cuda_check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), device().name(),
             "cudaStreamBeginCapture");
  CapturedGraph captured;
  try {
    work();
  } catch (...) {
    static_cast<void>(cudaStreamEndCapture(stream_, &captured.graph));
    static_cast<void>(cudaGetLastError());  // of a capture that is invalid by now: `work` has told why
    throw;
  }
  cuda_check(cudaStreamEndCapture(stream_, &captured.graph), device().name(), "the capture of stream \"",
             name_, "\"");
  return std::make_unique<CudaGraph>(device(), captured.graph);
}

void CudaStream::stamp(std::atomic<std::int64_t>& nanoseconds) {
  device().make_current();
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cuda_check(cudaStreamIsCapturing(stream_, &status), device().name(), "cudaStreamIsCapturing");
  if (status != cudaStreamCaptureStatusNone) return;
  if (!clock_) clock_ = std::make_unique<CudaClock>();
  clock_->stamp(stream_, nanoseconds);
}

void CudaStream::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  device().make_current();
  cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), device().name(),
             "cudaMemcpyAsync of ", bytes, " bytes");
}

void CudaStream::zero(void* to, std::size_t bytes) {
  if (bytes == 0) return;
  device().make_current();
  cuda_check(cudaMemsetAsync(to, 0, bytes, stream_), device().name(), "cudaMemsetAsync of ", bytes, " bytes");
}

}  // namespace banyan
