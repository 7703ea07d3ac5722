// Wire: messages between the processes of a run. What WireUplink needs of MPI, and no more, so that tests can
// put another wire in its place.
//
// A message has a tag; messages from one process to another with the same tag arrive in the order in which
// they were sent, those with different tags in any order. One thread makes the wire and makes all calls.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace banyan::parallel {

class Wire {
 public:
  /// Told when a message is sent, with its size, or received.
  using Done = std::function<void(std::size_t bytes)>;
  /// Told of a process that has ended.
  using Lost = std::function<void(int process)>;
  /// A message has at most so many bytes.
  static constexpr std::size_t kMostBytes = std::size_t{1} << 30;

  /// Does not wait for the other processes: messages under way are lost.
  virtual ~Wire() = default;
  virtual int process() const = 0;
  virtual int processes() const = 0;
  /// Tags are 0 to this number.
  virtual int last_tag() const = 0;
  /// Neither waits. `data` stays as it is until `done` is called, from progress(). A message that is longer
  /// than `bytes` when it arrives is a runtime failure, thrown by progress().
  virtual void send(int to, int tag, const void* data, std::size_t bytes, Done done) = 0;
  virtual void receive(int from, int tag, void* data, std::size_t bytes, Done done) = 0;
  /// Moves messages and calls what is done, which may send and receive; false: nothing was done.
  virtual bool progress() = 0;
  /// Returns when all processes have called it, or at once where the wire outlives them. No message is under
  /// way any more.
  virtual void leave() = 0;

  /// Does the wire notice that a process has ended, and go on among the others?
  virtual bool outlives_processes() const { return false; }
  /// Where it does: `lost` is called from progress(), once for each process that has ended, after what had
  /// come from it. What is on its way to that process, or is sent to it later, is then done as if it had
  /// left; what was to be received from it, or is later, never is: nobody calls its `done`. Without `lost`
  /// such an end is a runtime failure, thrown by progress().
  virtual void on_lost(Lost /*lost*/) {}
};

/// Joins the processes. Throws bad_input or a runtime failure.
using ConnectWire = std::function<std::unique_ptr<Wire>()>;

}  // namespace banyan::parallel
