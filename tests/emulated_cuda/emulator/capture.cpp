#include "capture.hpp"

#include "runtime.hpp"

namespace emulated {

namespace {

/// A node's number in its branch comes from the branch's own clock entry.
void place(Capture& capture, Stream& stream, Node& node) {
  VectorClock& clock = capture.streams[&stream];
  node.branch = stream.actor;
  node.after = clock;
  node.number = clock.of(stream.actor) + 1;
  clock.advance(stream.actor, node.number);
}

}  // namespace

void add_node(Capture& capture, Stream& stream, std::shared_ptr<Operation> operation) {
  Node node;
  node.operation = std::move(operation);
  place(capture, stream, node);
  capture.nodes.push_back(std::move(node));
}

bool record_captured(Stream& stream, Event& event) {
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(Machine::get().mutex);
  event.capture = stream.capture;
  if (event.capture == nullptr) return false;
  event.token.reset();
  event.captured = event.capture->streams[&stream];
  return true;
}

bool wait_captured(Stream& stream, Event& event, cudaError_t* status) {
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(Machine::get().mutex);
  if (event.capture == nullptr && stream.capture == nullptr) return false;
  *status = cudaSuccess;
  if (event.capture == nullptr) {
    stream.capture->valid = false;
    *status = cudaErrorStreamCaptureIsolation;
  } else if (stream.capture != nullptr && stream.capture != event.capture) {
    stream.capture->valid = event.capture->valid = false;
    *status = cudaErrorStreamCaptureMerge;
  } else {
    stream.capture = event.capture;
    event.capture->streams[&stream].join(event.captured);
  }
  return true;
}

bool capture_forbids(const char*) {
  const Quiet quiet;
  Machine& m = Machine::get();
  const std::lock_guard<std::mutex> lock(m.mutex);
  bool any = false;
  for (const auto& capture : m.captures) {
    const bool cares =
        capture->mode == cudaStreamCaptureModeGlobal ||
        (capture->mode == cudaStreamCaptureModeThreadLocal && capture->thread == std::this_thread::get_id());
    if (!cares) continue;
    capture->valid = false;
    any = true;
  }
  return any;
}

namespace {

/// Runs a graph's nodes in capture order; the order visible to others is the graph's own.
void run_graph(const ExecutableGraph& graph, std::uint64_t launch, Running& now) {
  const auto number_of = [&](Actor branch, std::uint64_t number) {
    return launch * graph.lengths.at(branch) + number;
  };
  for (const Node& node : graph.nodes) {
    auto operation = std::make_shared<Operation>(*node.operation);
    operation->stream = now.operation()->stream;
    operation->actor = graph.actors.at(node.branch);
    operation->number = number_of(node.branch, node.number);
    VectorClock clock = now.clock();
    for (const auto& [branch, actor] : graph.actors)
      if (const std::uint64_t number = node.after.of(branch); number > 0)
        clock.advance(actor, number_of(branch, number));
    clock.advance(operation->actor, operation->number);
    Running node_now(operation, clock);
    running = &node_now;
    operation->run(node_now);
    running = &now;
    operation->run = nullptr;
  }
  for (const auto& [branch, actor] : graph.actors)
    now.clock().advance(actor, number_of(branch, graph.lengths.at(branch)));
}

}  // namespace

}  // namespace emulated

using namespace emulated;

namespace {

Graph* of(cudaGraph_t graph) { return reinterpret_cast<Graph*>(graph); }

}  // namespace

/// Shared with the launches that have not run yet.
struct CUgraphExec_st {
  std::shared_ptr<ExecutableGraph> graph;
};

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  EMULATED_CALL(cudaStreamBeginCapture, cudaErrorUnknown);
  if (handle == nullptr) return result(cudaErrorStreamCaptureUnsupported);
  Stream* stream = stream_of(handle, "cudaStreamBeginCapture");
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  const Quiet quiet;
  Machine& m = Machine::get();
  const std::lock_guard<std::mutex> lock(m.mutex);
  if (stream->capture != nullptr) return result(cudaErrorInvalidValue);
  auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->streams[stream];
  stream->capture = capture;
  m.captures.insert(std::move(capture));
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  EMULATED_CALL(cudaStreamEndCapture, cudaErrorUnknown);
  *graph = nullptr;
  Stream* stream = handle != nullptr ? stream_of(handle, "cudaStreamEndCapture") : nullptr;
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  const Quiet quiet;
  Machine& m = Machine::get();
  const std::lock_guard<std::mutex> lock(m.mutex);
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return result(cudaErrorInvalidValue);
  if (capture->origin != stream) {
    capture->valid = false;
    return result(cudaErrorStreamCaptureUnmatched);
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id())
    return result(cudaErrorStreamCaptureWrongThread);
  cudaError_t status = capture->valid ? cudaSuccess : cudaErrorStreamCaptureInvalidated;
  const VectorClock& last = capture->streams[stream];
  for (auto& [other, clock] : capture->streams) {
    if (status == cudaSuccess && last.of(other->actor) < clock.of(other->actor))
      status = cudaErrorStreamCaptureUnjoined;
    other->capture.reset();
  }
  m.captures.erase(capture);
  for (Event* event : m.events)
    if (event->capture == capture) event->capture.reset();
  if (status != cudaSuccess) return result(status);
  ++m.graphs;
  *graph = reinterpret_cast<cudaGraph_t>(new Graph{std::move(capture->nodes)});
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  EMULATED_CALL(cudaStreamIsCapturing, cudaErrorUnknown);
  Stream* stream = stream_of(handle, "cudaStreamIsCapturing");
  if (stream == nullptr) return result(cudaErrorInvalidResourceHandle);
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(Machine::get().mutex);
  *status = stream->capture == nullptr ? cudaStreamCaptureStatusNone
            : stream->capture->valid   ? cudaStreamCaptureStatusActive
                                       : cudaStreamCaptureStatusInvalidated;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  EMULATED_CALL(cudaGraphInstantiate, cudaErrorMemoryAllocation);
  if (graph == nullptr || flags != 0) return result(cudaErrorInvalidValue);
  auto made = std::make_shared<ExecutableGraph>();
  made->nodes = of(graph)->nodes;
  const Quiet quiet;
  Machine& m = Machine::get();
  const std::lock_guard<std::mutex> lock(m.mutex);
  for (const Node& node : made->nodes) {
    if (!made->actors.contains(node.branch)) made->actors[node.branch] = static_cast<Actor>(++m.streams_made);
    made->lengths[node.branch] = std::max(made->lengths[node.branch], node.number);
  }
  ++m.executables;
  *executable = new CUgraphExec_st{std::move(made)};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  EMULATED_CALL(cudaGraphLaunch, cudaErrorUnknown);
  Stream* stream = stream_of(handle, "cudaGraphLaunch");
  if (stream == nullptr || executable == nullptr) return result(cudaErrorInvalidResourceHandle);
  const std::shared_ptr<ExecutableGraph> graph = executable->graph;
  for (const Node& node : graph->nodes)
    if (node.operation->gpu != stream->device)
      note("a graph with nodes of another GPU than the stream that it is launched on");
  count("graph launches");
  const std::uint64_t launch = graph->launches++;
  enqueue(*stream, "a graph of " + std::to_string(graph->nodes.size()) + " nodes",
          [graph, launch](Running& now) { run_graph(*graph, launch, now); });
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  EMULATED_CALL(cudaGraphExecDestroy, cudaErrorUnknown);
  if (executable == nullptr) return result(cudaErrorInvalidValue);
  delete executable;
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(Machine::get().mutex);
  --Machine::get().executables;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  EMULATED_CALL(cudaGraphDestroy, cudaErrorUnknown);
  if (graph == nullptr) return result(cudaErrorInvalidValue);
  delete of(graph);
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(Machine::get().mutex);
  --Machine::get().graphs;
  return cudaSuccess;
}

}  // extern "C"
