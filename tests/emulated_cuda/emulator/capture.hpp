// Work that is recorded instead of run: stream capture and the resulting graphs.
#pragma once

#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "machine.hpp"

namespace emulated {

/// A graph's nodes are kept in capture order, which satisfies all dependencies.
struct Node {
  std::shared_ptr<Operation> operation;
  Actor branch = 0;          ///< the captured stream
  std::uint64_t number = 0;  ///< its place there, from 1
  VectorClock after;         ///< the nodes that it comes after, by branch
};

/// An ongoing capture. Guarded by the machine's mutex.
struct Capture {
  Stream* origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool valid = true;
  std::vector<Node> nodes;
  std::map<Stream*, VectorClock> streams;  ///< that take part, and the nodes that their next one comes after
};

struct Graph {
  std::vector<Node> nodes;
};

struct ExecutableGraph {
  std::vector<Node> nodes;
  std::map<Actor, Actor> actors;           ///< of its branches when it runs
  std::map<Actor, std::uint64_t> lengths;  ///< of its branches
  std::uint64_t launches = 0;
};

/// Adds work of a captured stream.
void add_node(Capture& capture, Stream& stream, std::shared_ptr<Operation> operation);
/// For cudaEventRecord and cudaStreamWaitEvent if a capture is involved, in which case they set the status;
/// false: none is.
bool record_captured(Stream& stream, Event& event);
bool wait_captured(Stream& stream, Event& event, cudaError_t* status);

}  // namespace emulated
