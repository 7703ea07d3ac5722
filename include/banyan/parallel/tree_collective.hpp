// TreeCollective: reduce up, broadcast down, for many segments at once.
//
// A collective works on segments, pieces of memory that are summed and sent back independently of each other,
// so that the levels of the tree work at the same time and every segment may have a root of its own. Per
// segment and round, on every device:
//
//   local part ready -> add the children's parts, in tree order, never in arrival order -> send up to the
//   parent
//                       (root: merged with other processes where there are any, then `at_root`, for gradients
//                       the update) -> receive from the parent -> copy -> send down to the children
//
// A leaf's parts go up as soon as they are ready. The rest of the work stays within a window of segments
// behind the first unfinished one, so that a segment that comes back down is still in the caches it was added
// in. (The first segment unfinished anywhere is in every device's window, so somebody can always go on.)
// While roots are held nothing finishes, and there is no window.
//
// Nothing blocks the host but finish(): progress() does what can be done now. Why no acknowledgements are
// needed within a round: a device's part is overwritten only after the answer from above came down, which the
// parent sent after reading the part. The result of a round may be overwritten by the caller only after the
// children have copied it; callers whose next round implies that (parameters: the children's next gradients
// come after their copies) use finish(), others finish_and_release().
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "banyan/device/context.hpp"
#include "banyan/parallel/device_tree.hpp"

namespace banyan::parallel {

struct Segment {
  int root = 0;
  Tensor up;    ///< this device's part; sums are accumulated in place
  Tensor down;  ///< the root's holds the result, the others' receive it; may be `up`, then on every device
};

class TreeCollective {
 public:
  /// The same segments in the same order on every device; the tree needs slots for segments + 1. `context` is
  /// the lane's own.
  TreeCollective(DeviceTree& tree, int node, Context& context, std::vector<Segment> segments);

  /// What the root of a segment does between the sum and its way down (on the lane's context). Default:
  /// nothing.
  void set_at_root(std::function<void(int segment)> at_root) { at_root_ = std::move(at_root); }
  /// Sums wait at their roots until release_roots().
  void hold_roots() { roots_held_ = true; }
  void release_roots() { roots_held_ = false; }
  /// Every segment rooted here is summed (in the streams' order), and every other one sent up: nobody waits
  /// for this device's part in any sum.
  bool all_reduced() const;
  bool all_done() const { return first_ == segments_.size(); }

  /// Begins a round: no segment is ready.
  void start();
  /// The local part of a segment is complete once `stream` has done what is enqueued on it now.
  void make_ready(int segment, Stream& stream);
  /// Moves every segment as far as messages allow; true when all are done. Throws as Pipe::arrived.
  bool progress();
  void finish();
  /// finish(), and waits until the children have copied the results.
  void finish_and_release();
  /// Waits for all_reduced(); for rounds with held roots.
  void finish_reduction();
  std::uint64_t round() const { return round_; }

 private:
  enum class State : std::uint8_t { local, adding, above, sent, done };
  struct Progress {
    State state = State::local;
    std::size_t added = 0;            ///< children
    const Tensor* written = nullptr;  ///< the last child's tensor, if the sum is there already
    TimeSpan* flight = nullptr;       ///< its climb, then its descent, where a timeline is kept
  };
  struct Route {
    int parent;
    std::vector<int> children;
  };
  bool finished(std::size_t segment) const { return progress_[segment].state == State::done; }
  void wait_until(bool (TreeCollective::*reached)() const);
  void summed(int segment);
  void send_up(int segment);
  bool advance(int segment);
  bool add_children(int segment);
  bool completes_both(std::size_t segment) const;
  bool merge_above(int segment);
  bool receive_result(int segment);
  void send_down(int segment);
  const Tensor& readable(int neighbour, const Tensor& message);
  Meeting meeting(int segment, const char* phase) const;
  Activity& activity() const { return *tree_.member(node_).activity; }
  void begin_flight(int segment, SpanKind kind);
  void end_flight(int segment);

  DeviceTree& tree_;
  int node_;
  Context& context_;
  std::vector<Segment> segments_;
  std::vector<Route> routes_;
  std::vector<Progress> progress_;
  std::function<void(int)> at_root_;
  std::unique_ptr<Event> local_ready_;
  Tensor staging_, staged_;
  std::uint64_t round_ = 0;
  std::size_t first_ = 0;    ///< unfinished segment
  std::uint64_t steps_ = 0;  ///< counts what was done
  bool roots_held_ = false;
};

/// A size for the segments of a buffer of `bytes`: so many that all devices add at the same time and every
/// level of the tree has work, none so small that its messages (a microsecond) cost more than its bytes, none
/// so large that it leaves the caches between its way up and its way down.
std::size_t segment_bytes(std::size_t bytes, int devices, DeviceKind kind);
/// Cuts `buffer` (contiguous, the same on every device) into pieces of about `bytes` with roots taken in
/// turn.
std::vector<Segment> cut_segments(const Tensor& buffer, std::size_t bytes, int devices);

}  // namespace banyan::parallel
