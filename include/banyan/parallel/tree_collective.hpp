// TreeCollective: reduce up, broadcast down, for many segments at once.
//
// A segment is a piece of memory with its own root: it is summed up the tree to that root, the root makes a
// result of the sum (for gradients: it updates the parameters), and the result is sent back down. Segments
// are cut into chunks, so that the levels of the tree work at the same time. The segments' roots alone decide
// what is added to what; the chunk size changes no bit of any sum. Per chunk and round, on every device:
//
//   local part ready -> add the children's parts, in tree order, never in order of arrival
//                    -> send up to the parent
//                       (root: once the segment's last chunk is summed, merge with other processes, if any,
//                       then `at_root`)
//                    -> receive from the parent -> copy -> send down to the children
//
// A leaf's parts go up as soon as they are ready. The rest of the work stays within a window of chunks from
// the first unfinished one on, so that a chunk that comes back down is still in the caches it was added in.
// (The first chunk unfinished anywhere is in every device's window, so one device can always proceed.) While
// roots are held, or wait above for all segments, nothing finishes, and there is no window.
//
// Only finish() blocks the host; progress() does what can be done now. No acknowledgements are needed: within
// a round a device's part is overwritten only after the answer has come down, which the parent sent after
// reading the part; and a root makes its next result only after adding the children's next parts, which they
// make ready after copying the previous one. (Where `down` is `up`, adding overwrites the previous result:
// then all devices must have finished a round before the next one starts.)
//
// The tensors that a device sends are read by its neighbours: a TreeCollective lives until all devices have
// finished their last round.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "banyan/device/context.hpp"
#include "banyan/parallel/device_tree.hpp"
#include "banyan/tensor/tensor.hpp"

namespace banyan::parallel {

struct Segment {
  int root = 0;
  int wave = 0;  ///< ascending; chunks of one wave's segments take turns, so that all their roots have work
  Tensor up;     ///< this device's part; sums are accumulated in place
  Tensor down;   ///< the root's holds the result, the others' receive it; may be `up`, see above
};

class TreeCollective {
 public:
  /// The same segments in the same order, and the same `chunk_bytes`, on every device; the tree needs
  /// slots_for() slots. `context` is the lane's. `at_root` makes a segment's `down` of its summed `up` at the
  /// segment's root, on `context`.
  TreeCollective(DeviceTree& tree, int node, Context& context, std::vector<Segment> segments,
                 std::function<void(int segment)> at_root, std::size_t chunk_bytes);
  /// The number of equal chunks of about `chunk_bytes` that a segment of `bytes` is cut into.
  static std::size_t chunks_of(std::size_t bytes, std::size_t chunk_bytes);
  /// Slots for segments of these sizes in bytes.
  static int slots_for(const std::vector<std::size_t>& segment_bytes, std::size_t chunk_bytes);

  /// Sums wait at their roots until release_roots().
  void hold_roots() { roots_held_ = true; }
  void release_roots() { roots_held_ = false; }
  /// Every segment rooted here is summed (in stream order) and every other one sent up: no device waits for
  /// this one's part of any sum.
  bool all_reduced() const;
  bool all_done() const { return first_ == chunks_.size(); }

  /// Begins a round: no segment is ready.
  void start();
  /// The local part of a segment is complete once `stream` has done what is enqueued on it now.
  void make_ready(int segment, Stream& stream);
  /// Moves every segment as far as messages allow; true when all are done. Throws as Pipe::arrived.
  bool progress();
  void finish();
  /// Waits for all_reduced(); for rounds with held roots.
  void finish_reduction();
  std::uint64_t round() const { return round_; }

 private:
  enum class State : std::uint8_t { local, adding, summed, sent, done };
  struct Chunk {
    std::size_t segment;
    Tensor up, down;  ///< parts of the segment's
    State state = State::local;
    std::size_t added = 0;  ///< children
  };
  /// A segment's path through the tree, and how far this device has got with it.
  struct Route {
    int parent;
    std::vector<int> children;
    std::vector<std::size_t> chunks;
    std::unique_ptr<Event> ready;  ///< the local part
    bool waits = false;            ///< the lane's stream has not yet been told to wait for it
    std::size_t summed = 0;        ///< chunks that hold or have sent this device's part
    std::size_t done = 0;          ///< chunks
    bool merging = false;          ///< with other processes, at the root
    TimeSpan* flight = nullptr;    ///< its climb, then its descent, where a timeline is kept
  };
  void cut(std::size_t chunk_bytes);
  void wait_until(bool (TreeCollective::*reached)() const);
  void send_up(std::size_t chunk, Stream& stream);
  bool advance(std::size_t chunk);
  bool add_children(std::size_t chunk);
  bool take_parts(std::size_t chunk);
  bool merge_above(std::size_t segment);
  bool receive_result(std::size_t chunk);
  bool leave_root(std::size_t segment);
  void send_down(std::size_t chunk);
  std::size_t window() const;
  const Tensor& readable(int neighbour, const Tensor& message);
  Meeting meeting(std::size_t chunk, const char* phase) const;
  Activity& activity() const { return *tree_.member(node_).activity; }
  void begin_flight(std::size_t segment, SpanKind kind, Stream& stream);
  void end_flight(std::size_t segment, Stream& stream);
  void part_is_in(std::size_t segment, Stream& stream);

  DeviceTree& tree_;
  int node_;
  Context& context_;
  std::vector<Segment> segments_;
  std::vector<Route> routes_;     ///< of the segments
  std::vector<std::size_t> own_;  ///< segments whose root this device is
  std::vector<Chunk> chunks_;     ///< in the order of work
  std::size_t largest_wave_ = 0;  ///< chunks
  std::function<void(int)> at_root_;
  Tensor staging_, staged_;
  std::vector<Tensor> parts_;  ///< children's, added together
  std::uint64_t round_ = 0;
  std::size_t first_ = 0;        ///< unfinished chunk
  std::size_t begun_above_ = 0;  ///< of own_: how many are being merged with other processes
  std::uint64_t steps_ = 0;      ///< taken so far
  bool roots_held_ = false;
};

}  // namespace banyan::parallel
