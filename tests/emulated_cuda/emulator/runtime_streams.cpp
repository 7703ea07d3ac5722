// The CUDA runtime: streams and events.
#include <thread>

#include "capture.hpp"
#include "runtime.hpp"

using namespace emulated;

namespace {

cudaStream_t handle_of(Stream* stream) { return reinterpret_cast<cudaStream_t>(stream); }

/// The token of an event's latest record.
std::shared_ptr<Token> token_of(const Event& event) {
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(Machine::get().mutex);
  return event.token;
}

bool is_captured(const Stream& stream) {
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(Machine::get().mutex);
  return stream.capture != nullptr;
}
bool is_captured(const Event& event) {
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(Machine::get().mutex);
  return event.capture != nullptr;
}

/// Ends the whole capture that a call on a captured stream or event breaks.
template <class Thing>
cudaError_t invalidate(const Thing& thing, cudaError_t status) {
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(Machine::get().mutex);
  if (thing.capture != nullptr) thing.capture->valid = false;
  return result(status);
}

bool is_reached(const Token& token) {
  const Quiet quiet;
  return token.reached.load();
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned flags) {
  EMULATED_CALL(cudaStreamCreateWithFlags, cudaErrorUnknown);
  if (flags != cudaStreamNonBlocking && flags != cudaStreamDefault) return result(cudaErrorInvalidValue);
  *handle = handle_of(make_stream(current_device, flags == cudaStreamDefault));
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* handle) {
  return cudaStreamCreateWithFlags(handle, cudaStreamDefault);
}

/// Does not wait: the stream's thread ends after its work.
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  EMULATED_END(cudaStreamDestroy);
  Stream* stream = handle != nullptr ? stream_of(handle, "cudaStreamDestroy") : nullptr;
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (is_captured(*stream)) {
    complain("cudaStreamDestroy of a stream that is being captured");
    return invalidate(*stream, cudaErrorStreamCaptureUnsupported);
  }
  bool busy = false;
  {
    const Quiet quiet;
    Machine& m = Machine::get();
    const std::lock_guard<std::mutex> lock(m.mutex);
    m.streams.erase(stream);
    m.destroyed_streams.push_back(stream);
    ++m.ending[stream->device];
    const std::lock_guard<std::mutex> own(stream->mutex);
    busy = stream->done < stream->latest_work;  // what runs is no longer in the queue
    stream->ending = true;
  }
  stream->changed.notify_all();
  if (busy && !is_broken(stream->device))
    complain("cudaStreamDestroy of stream ", stream->actor, " of gpu:", stream->device,
             ", which has work to do");
  return ended_with;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  EMULATED_CALL(cudaStreamSynchronize, cudaErrorUnknown);
  Stream* stream = stream_of(handle, "cudaStreamSynchronize");
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (is_captured(*stream)) return invalidate(*stream, cudaErrorStreamCaptureUnsupported);
  wait_for(mark(*stream, "cudaStreamSynchronize"));
  return is_lost(stream->device) ? result(kSticky) : cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  EMULATED_CALL(cudaStreamQuery, cudaErrorUnknown);
  Stream* stream = stream_of(handle, "cudaStreamQuery");
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (is_captured(*stream)) return invalidate(*stream, cudaErrorStreamCaptureUnsupported);
  bool idle = false;
  {
    const Quiet quiet;
    const std::lock_guard<std::mutex> lock(stream->mutex);
    idle = stream->done == stream->enqueued;
  }
  const auto token = mark(*stream, "cudaStreamQuery");
  demand(*token);
  while (idle && !is_reached(*token)) std::this_thread::yield();
  if (!is_reached(*token)) return result(cudaErrorNotReady);
  host_learns(*token);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned flags) {
  EMULATED_CALL(cudaStreamWaitEvent, cudaErrorUnknown);
  Stream* stream = stream_of(handle, "cudaStreamWaitEvent");
  Event* event = event_of(event_handle, "cudaStreamWaitEvent");
  if (stream == nullptr || event == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (flags != 0) return result(cudaErrorInvalidValue);
  count("event waits");
  cudaError_t status = cudaSuccess;
  if (wait_captured(*stream, *event, &status)) return result(status);
  const auto token = token_of(*event);
  if (token != nullptr) wait_on_stream(*stream, token, "cudaStreamWaitEvent");
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned flags) {
  EMULATED_CALL(cudaEventCreateWithFlags, cudaErrorUnknown);
  if ((flags & ~unsigned{cudaEventDisableTiming}) != 0) return result(cudaErrorInvalidValue);
  const Quiet quiet;
  auto* event = new Event;  // never deleted: a handle is not used twice
  event->device = current_device;
  event->timing = (flags & cudaEventDisableTiming) == 0;
  Machine& m = Machine::get();
  const std::lock_guard<std::mutex> lock(m.mutex);
  m.events.insert(event);
  *handle = reinterpret_cast<cudaEvent_t>(event);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* handle) {
  return cudaEventCreateWithFlags(handle, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  EMULATED_END(cudaEventDestroy);
  Event* event = event_of(handle, "cudaEventDestroy");
  if (event == nullptr) return result(cudaErrorInvalidResourceHandle);
  bool busy = false;
  {
    const Quiet quiet;
    Machine& m = Machine::get();
    const std::lock_guard<std::mutex> lock(m.mutex);
    m.events.erase(event);
    m.destroyed_events.push_back(event);
    busy = event->token != nullptr && !event->token->reached.load();
    event->token.reset();
    event->capture.reset();
  }
  if (busy && !is_broken(event->device))
    complain("cudaEventDestroy of an event of gpu:", event->device, " that has not been reached");
  return ended_with;
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  EMULATED_CALL(cudaEventRecord, cudaErrorUnknown);
  Stream* stream = stream_of(stream_handle, "cudaEventRecord");
  Event* event = event_of(handle, "cudaEventRecord");
  if (stream == nullptr || event == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (stream->device != event->device) {
    complain("cudaEventRecord: an event of gpu:", event->device, " on a stream of gpu:", stream->device);
    return result(cudaErrorInvalidResourceHandle);
  }
  count("event records");
  if (record_captured(*stream, *event)) return cudaSuccess;
  auto token = mark(*stream, "cudaEventRecord");
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(Machine::get().mutex);
  event->token = std::move(token);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  EMULATED_CALL(cudaEventSynchronize, cudaErrorUnknown);
  Event* event = event_of(handle, "cudaEventSynchronize");
  if (event == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (is_captured(*event)) return invalidate(*event, cudaErrorCapturedEvent);
  const auto token = token_of(*event);
  if (token != nullptr) wait_for(token);
  return is_lost(event->device) ? result(kSticky) : cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  EMULATED_CALL(cudaEventQuery, cudaErrorUnknown);
  Event* event = event_of(handle, "cudaEventQuery");
  if (event == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (is_captured(*event)) return invalidate(*event, cudaErrorCapturedEvent);
  if (capture_forbids("cudaEventQuery")) return result(cudaErrorStreamCaptureUnsupported);
  if (is_lost(event->device)) return result(kSticky);
  const auto token = token_of(*event);
  if (token == nullptr) return cudaSuccess;
  demand(*token);
  if (!is_reached(*token)) return result(cudaErrorNotReady);
  host_learns(*token);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t second) {
  EMULATED_CALL(cudaEventElapsedTime, cudaErrorUnknown);
  Event *a = event_of(first, "cudaEventElapsedTime"), *b = event_of(second, "cudaEventElapsedTime");
  if (a == nullptr || b == nullptr) return result(cudaErrorInvalidResourceHandle);
  const auto begin = token_of(*a), end = token_of(*b);
  if (!a->timing || !b->timing || begin == nullptr || end == nullptr || a->device != b->device) {
    complain(
        "cudaEventElapsedTime: an event without timing, never recorded, or of another GPU than the other");
    return result(cudaErrorInvalidResourceHandle);
  }
  if (!is_reached(*begin) || !is_reached(*end)) return result(cudaErrorNotReady);
  const Quiet quiet;
  *milliseconds = static_cast<float>(end->milliseconds - begin->milliseconds);
  return cudaSuccess;
}

}  // extern "C"
