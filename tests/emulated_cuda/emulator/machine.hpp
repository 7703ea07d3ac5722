// Streams (one thread each), events, and the work that runs on them.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "memory.hpp"
#include "report.hpp"
#include "settings.hpp"
#include "tsan.hpp"
#include "vector_clock.hpp"

namespace emulated {

struct Stream;
struct Capture;
class Running;

/// One piece of a stream's work.
struct Operation {
  std::string name;
  Stream* stream = nullptr;
  int gpu = 0;
  Actor actor = 0;                          ///< the stream's, or a branch's of a graph
  std::uint64_t number = 0;                 ///< its place in the actor's work, from 1
  std::vector<void*> stack;                 ///< of the host's call
  std::shared_ptr<const VectorClock> host;  ///< what the host knew to be done when it enqueued this
  std::function<void(Running&)> run;        ///< may run several times if part of a graph
  bool work = true;                         ///< not a wait or a mark
};

/// The operation that a stream's thread runs, and its access to memory.
class Running {
 public:
  Running(std::shared_ptr<const Operation> operation, VectorClock& clock)
      : operation_(std::move(operation)), clock_(&clock) {}
  const std::shared_ptr<const Operation>& operation() const { return operation_; }
  VectorClock& clock() { return *clock_; }
  int gpu() const { return operation_->gpu; }
  /// The process's address of `bytes` bytes that the operation reads (or overwrites), after all checks; null
  /// after a complaint. A copy may use any GPU's memory; everything else only its own, its peers' and pinned
  /// memory.
  const char* read(const void* address, std::size_t bytes, const char* what, bool copy = false);
  char* write(void* address, std::size_t bytes, const char* what, bool copy = false);
  /// Checks only the order among streams; the rest was checked elsewhere.
  void order(const void* address, std::size_t bytes, bool write);

 private:
  char* use(const void* address, std::size_t bytes, const char* what, bool copy, bool write);
  std::shared_ptr<const Operation> operation_;
  VectorClock* clock_;
};

extern thread_local int current_device;
extern thread_local Running* running;  ///< null on host threads

/// A point in a stream's work.
struct Token {
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  std::atomic<bool> reached{false};  ///< set under the mutex
  double milliseconds = 0;           ///< when
  VectorClock clock;                 ///< what comes before it
  Stream* stream = nullptr;
  std::uint64_t position = 0;
};

struct Stream {
  int device = 0;
  Actor actor = 0;
  bool blocking = false;    ///< ordered with the GPU's default stream
  bool is_default = false;  ///< the GPU's; created again when it is repaired
  std::uint64_t life = 0;   ///< of the GPU, when the stream was created
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Operation>> queue;
  std::uint64_t enqueued = 0, done = 0, demanded = 0;
  std::uint64_t latest_work = 0;  ///< the number of the last operation that is not a wait or a mark; 0: none
  bool ending = false;
  std::mt19937 random;
  VectorClock clock;                 ///< of the stream's thread
  std::shared_ptr<Capture> capture;  ///< under the machine's mutex
};

struct Event {
  int device = 0;
  bool timing = true;
  std::shared_ptr<Token> token;      ///< of the latest record
  std::shared_ptr<Capture> capture;  ///< where it was recorded while that was captured
  VectorClock captured;              ///< what came before it there
};

/// The streams and events that exist. Never destroyed: streams' threads may outlive main.
class Machine {
 public:
  static Machine& get();
  std::mutex mutex;
  std::condition_variable ended_all;  ///< a destroyed stream has ended
  std::set<Stream*> streams;
  std::vector<Stream*> destroyed_streams;  ///< never deleted: their handles stay recognizable
  std::set<Event*> events;
  std::vector<Event*> destroyed_events;         ///< the same
  std::vector<Stream*> default_streams;         ///< by GPU; null until used
  std::vector<int> ending;                      ///< by GPU: destroyed streams that still have work
  std::vector<VectorClock> ended;               ///< by GPU: work of those that have none left
  std::set<std::shared_ptr<Capture>> captures;  ///< in progress
  std::uint64_t streams_made = 0, graphs = 0, executables = 0, handles = 0;  ///< the last three: alive
  /// Streams that are gone and whose work the host has waited for, numbered as they went: it precedes
  /// everything that is enqueued from then on, so clocks do not grow with the number of streams in the
  /// process.
  std::map<Actor, std::uint64_t> retired;
  std::shared_ptr<const VectorClock> host =
      std::make_shared<VectorClock>();  ///< what the host knows to be done; see wait_for

 private:
  Machine();
};

Stream* make_stream(int device, bool blocking);
/// The stream of a handle (null: the current device's default stream), or null after a complaint.
Stream* stream_of(cudaStream_t handle, const char* function);
Event* event_of(cudaEvent_t handle, const char* function);

/// `name` appears in messages. Adds to the graph if the stream is being captured. `work`: not for waits and
/// marks. Returns the operation's number in the stream's work; 0 if it was captured, or if another thread is
/// destroying the stream, which accepts no more work.
std::uint64_t enqueue(Stream& stream, std::string name, std::function<void(Running&)> run, bool work = true);
/// A point after all work so far. Never reached if enqueue() returns 0: then its position is 0 too.
std::shared_ptr<Token> mark(Stream& stream, const char* name);
/// The stream continues after the token.
void wait_on_stream(Stream& stream, const std::shared_ptr<Token>& token, const char* name);
/// The calling thread waits. All host threads count as one that knows what any of them has waited for: what
/// one host thread tells another is not seen here (ThreadSanitizer sees it).
void wait_for(const std::shared_ptr<Token>& token);
/// The host has seen the token reached.
void host_learns(const Token& token);
/// Lazy streams run up to there.
void demand(const Token& token);
void wait_for_gpu(int device);
/// For a call that capture forbids: ends all captures in a mode that forbids it; true if there were any.
bool capture_forbids(const char* function);

// --- failing calls (failure.cpp) ---

/// Does this call fail because of a setting, or because its GPU has failed for good (see is_lost)? Counts the
/// call.
bool fails(const char* function, int gpu, int* code);
/// Has the GPU failed for good?
bool is_broken(int gpu);
/// The same, for a call that reports it to the host: whatever the GPU's streams were running has ended by
/// then, so the host may do anything with the memory.
bool is_lost(int gpu);
/// Number of times the GPU has been repaired (configure); what was begun before does nothing more.
std::uint64_t life_of(int gpu);
/// Around a kernel or copy of a stream created in that life; false: its GPU does nothing more.
bool begin_work(int gpu, std::uint64_t life);
void end_work(int gpu);

// --- counts (counts.cpp) ---

/// Adds to a named count of the process ("launches", "kernel bytes read", ...).
void count(const std::string& name, std::uint64_t amount = 1);
std::string counts_as_json();

#if defined(EMULATED_CUDA_CHECK)
/// Have these bytes of a GPU's memory (real addresses) all been written? Complains if not.
void check_written(const char* real, std::size_t bytes, const char* what);
void note_written(char* real, std::size_t bytes);
/// After a copy the target is as fully written as the source was.
void copy_written(const char* from, char* to, std::size_t bytes);
#endif

}  // namespace emulated
