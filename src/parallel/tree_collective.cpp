#include "banyan/parallel/tree_collective.hpp"

#include <algorithm>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/observe/spans.hpp"
#include "banyan/ops/basic.hpp"

namespace banyan::parallel {
namespace {

constexpr std::size_t kLine = 64;  // bytes; chunks begin at cache lines as far as their segments do

/// Elements of a chunk: whole cache lines, and equal ones, because a short last one costs a message too.
std::int64_t chunk_elements(const Tensor& segment, std::size_t chunk_bytes) {
  const auto element = size_of(segment.dtype());
  const auto chunks = static_cast<std::int64_t>(
      TreeCollective::chunks_of(static_cast<std::size_t>(segment.count()) * element, chunk_bytes));
  const auto line = static_cast<std::int64_t>(kLine / element);
  return ((segment.count() + chunks - 1) / chunks + line - 1) / line * line;
}

}  // namespace

TreeCollective::TreeCollective(DeviceTree& tree, int node, Context& context, std::vector<Segment> segments,
                               std::size_t chunk_bytes)
    : tree_(tree), node_(node), context_(context), segments_(std::move(segments)) {
  for (const Segment& segment : segments_) {
    Route route;
    route.parent = tree_.tree().parent(node_, segment.root);
    route.children = tree_.tree().children(node_, segment.root);
    route.ready = context.device().create_event();
    routes_.push_back(std::move(route));
  }
  flat_ = std::all_of(segments_.begin(), segments_.end(),
                      [&](const Segment& segment) { return tree_.tree().depth(segment.root) <= 1; });
  parts_.reserve(ops::kMostParts);
  cut(chunk_bytes);
}

/// The chunks in the order of work: wave by wave, in a wave first every segment's first chunk.
void TreeCollective::cut(std::size_t chunk_bytes) {
  for (std::size_t first = 0, end = 0; first < segments_.size(); first = end) {
    while (end < segments_.size() && segments_[end].wave == segments_[first].wave) ++end;
    const std::size_t before = chunks_.size();
    bool more = true;
    for (std::int64_t piece = 0; more; ++piece) {
      more = false;
      for (std::size_t s = first; s < end; ++s) {
        const Segment& segment = segments_[s];
        const std::int64_t size = chunk_elements(segment.up, chunk_bytes), at = piece * size;
        if (at >= segment.up.count()) continue;
        const Shape shape{std::min(size, segment.up.count() - at)};
        routes_[s].chunks.push_back(chunks_.size());
        chunks_.push_back({s, segment.up.slice(at, shape), segment.down.slice(at, shape)});
        more = true;
      }
    }
    largest_wave_ = std::max(largest_wave_, chunks_.size() - before);
  }
}

std::size_t TreeCollective::chunks_of(std::size_t bytes, std::size_t chunk_bytes) {
  const std::size_t size = std::max(kLine, chunk_bytes);
  return std::max<std::size_t>(1, (bytes + size / 2) / size);
}

int TreeCollective::slots_for(const std::vector<std::size_t>& segment_bytes, std::size_t chunk_bytes) {
  std::size_t slots = 1;  // for the release
  for (const std::size_t bytes : segment_bytes) slots += chunks_of(bytes, chunk_bytes);
  return static_cast<int>(slots);
}

/// Chunks in work at a time: one for each device to add, and some for the levels of small trees. All, where
/// nothing is copied: no cache to keep to, and devices that share a core need not take turns.
std::size_t TreeCollective::window() const {
  if (flat_ && only_sums()) return chunks_.size();
  const auto turns = static_cast<std::size_t>(std::max(4, tree_.size()));
  return at_root_ || tree_.uplink() != nullptr ? turns * largest_wave_ : turns;
}

Meeting TreeCollective::meeting(std::size_t chunk, const char* phase) const {
  return {"bucket", phase, static_cast<std::int64_t>(chunk), round_};
}

void TreeCollective::begin_flight(std::size_t segment, SpanKind kind, Stream& stream) {
  TimeSpan*& flight = routes_[segment].flight;
  flight = activity().open_span(DeviceTrack::gradients, kind, "bucket", "", static_cast<int>(segment));
  if (flight != nullptr) stamp(stream, flight->begin);
}

void TreeCollective::end_flight(std::size_t segment, Stream& stream) {
  TimeSpan*& flight = routes_[segment].flight;
  if (flight != nullptr) stamp(stream, flight->end);
  flight = nullptr;
}

/// This device's part in one more of the segment's chunks is done.
void TreeCollective::part_is_in(std::size_t segment, Stream& stream) {
  Route& route = routes_[segment];
  if (++route.summed < route.chunks.size()) return;
  end_flight(segment, stream);
  begin_flight(segment, SpanKind::descent, context_.stream());
}

void TreeCollective::start() {
  ++round_;
  first_ = 0;
  for (Chunk& chunk : chunks_) {
    chunk.state = State::local;
    chunk.added = chunk.written = 0;
  }
  for (Route& route : routes_) {
    route.waits = false;
    route.summed = route.done = 0;
    route.merging = false;
  }
}

/// A leaf's parts leave from `stream`; elsewhere the lane waits for the local part only when it has something
/// to add to it, so that what is enqueued before is not held up.
void TreeCollective::make_ready(int segment, Stream& stream) {
  Route& route = routes_[static_cast<std::size_t>(segment)];
  const bool leaf = route.children.empty() && route.parent >= 0;
  if (!leaf && &stream != &context_.stream()) {
    stream.record(*route.ready);
    route.waits = true;
  }
  begin_flight(static_cast<std::size_t>(segment), SpanKind::climb, leaf ? stream : context_.stream());
  for (const std::size_t chunk : route.chunks) {
    chunks_[chunk].state = State::adding;
    if (leaf) send_up(chunk, stream);
  }
}

void TreeCollective::send_up(std::size_t c, Stream& stream) {
  Chunk& chunk = chunks_[c];
  tree_.pipe(node_, routes_[chunk.segment].parent)
      .send(static_cast<int>(c), chunk.up, meeting(c, "up"), stream);
  chunk.state = State::sent;
  part_is_in(chunk.segment, stream);
}

const Tensor& TreeCollective::readable(int neighbour, const Tensor& message) {
  if (tree_.reads_in_place(node_, neighbour)) return message;
  if (!staging_.defined() || staging_.dtype() != message.dtype())
    staging_ = Tensor(context_.device(), message.shape(), message.dtype());
  if (staging_.count() < message.count()) {
    context_.synchronize();
    staging_.resize(message.shape());
  }
  staged_ = staging_.slice(0, message.shape());
  tree_.copy(node_, neighbour, context_.stream(), staged_, message);
  return staged_;
}

/// Takes the next children's parts, in the tree's order: as many as can be added in one pass, a staged one by
/// itself. False while one of them is missing: what is there already would have to be passed over twice.
bool TreeCollective::take_parts(std::size_t c) {
  const Chunk& chunk = chunks_[c];
  const Route& route = routes_[chunk.segment];
  const Meeting here = meeting(c, "up");
  parts_.clear();
  for (std::size_t k = chunk.added; k < route.children.size() && parts_.size() < ops::kMostParts; ++k) {
    const int child = route.children[k];
    const Pipe& pipe = tree_.pipe(child, node_);
    const bool in_place = tree_.reads_in_place(node_, child);
    if (!in_place && !parts_.empty()) break;
    if (!pipe.arrived(static_cast<int>(c), here)) return false;
    parts_.push_back(pipe.receive(static_cast<int>(c), context_.stream()));
    if (!in_place) break;
  }
  return true;
}

/// Nothing happens to a sum at its root, so that on CPU devices it can be written where it belongs as soon as
/// it is complete.
bool TreeCollective::only_sums() const {
  return !at_root_ && tree_.uplink() == nullptr && !context_.is_cuda();
}

/// The last addition at the root of a plain sum completes it: where the children's memory is at hand the sum
/// is written there as well, while it is in the registers. A child learns of it by getting its own tensor
/// back.
bool TreeCollective::completes_all(const Chunk& chunk) const {
  const Route& route = routes_[chunk.segment];
  return route.parent < 0 && only_sums() && chunk.added + parts_.size() == route.children.size() &&
         chunk.up.same_memory(chunk.down) && tree_.reads_in_place(node_, route.children.back());
}

bool TreeCollective::add_children(std::size_t c) {
  Chunk& chunk = chunks_[c];
  Route& route = routes_[chunk.segment];
  while (chunk.added < route.children.size()) {
    if (!take_parts(c)) return false;
    activity().enter(Stage::reduce, "bucket");
    const StreamSpan span(activity(), DeviceTrack::gradients, context_.stream(), SpanKind::reduce, "bucket",
                          "", static_cast<int>(chunk.segment));
    if (std::exchange(route.waits, false)) context_.stream().wait(*route.ready);
    if (completes_all(chunk)) {
      ops::add_to_all(context_, parts_, chunk.up);
      chunk.written = parts_.size();
    } else {
      if (parts_.size() == 1) parts_[0] = readable(route.children[chunk.added], parts_[0]);
      ops::add_parts(context_, parts_, chunk.up);
    }
    chunk.added += parts_.size();
    ++steps_;
  }
  if (std::exchange(route.waits, false)) context_.stream().wait(*route.ready);  // one device, no children
  return true;
}

/// Root: merges the segment with those of other processes once all of it is summed; true when that is done.
/// Whole segments, because other processes may have measured other chunks.
bool TreeCollective::merge_above(std::size_t s) {
  Uplink* uplink = tree_.uplink();
  Route& route = routes_[s];
  if (route.summed < route.chunks.size()) return false;
  const int slot = Uplink::kFirstBucket + static_cast<int>(s);
  if (!std::exchange(route.merging, true)) {
    uplink->begin(slot, segments_[s].up, UplinkMerge::sum, meeting(s, "above"), context_, tree_.bell(node_));
    ++steps_;
  }
  if (!uplink->done(slot, context_)) return false;
  for (const std::size_t chunk : route.chunks) chunks_[chunk].state = State::sent;
  ++steps_;
  return true;
}

void TreeCollective::send_down(std::size_t c) {
  Chunk& chunk = chunks_[c];
  Route& route = routes_[chunk.segment];
  const int slot = static_cast<int>(c);
  for (std::size_t k = 0; k < route.children.size(); ++k) {
    const int child = route.children[k];
    const bool written = k + chunk.written >= route.children.size();
    const Tensor& result = written ? tree_.pipe(child, node_).receive(slot, context_.stream()) : chunk.down;
    tree_.pipe(node_, child).send(slot, result, meeting(c, "down"), context_.stream());
  }
  chunk.state = State::done;
  if (++route.done == route.chunks.size()) end_flight(chunk.segment, context_.stream());
  ++steps_;
}

bool TreeCollective::receive_result(std::size_t c) {
  Chunk& chunk = chunks_[c];
  const int parent = routes_[chunk.segment].parent;
  const Pipe& pipe = tree_.pipe(parent, node_);
  if (!pipe.arrived(static_cast<int>(c), meeting(c, "down"))) return false;
  activity().enter(Stage::broadcast, "bucket");
  const StreamSpan span(activity(), DeviceTrack::gradients, context_.stream(), SpanKind::broadcast, "bucket",
                        "", static_cast<int>(chunk.segment));
  const Tensor& result = pipe.receive(static_cast<int>(c), context_.stream());
  if (!result.same_memory(chunk.down)) tree_.copy(node_, parent, context_.stream(), chunk.down, result);
  return true;
}

/// Segments go down as a whole once all of it is summed: for `at_root`, and where no device passes on
/// and all read in place, because then the sums are where they belong already and nobody needs to be told of
/// each.
bool TreeCollective::leaves_whole() const { return at_root_ || (flat_ && only_sums()); }

/// A summed chunk at its root: on its way down, or the whole segment once all of it is summed.
bool TreeCollective::leave_root(std::size_t c) {
  const std::size_t s = chunks_[c].segment;
  const Route& route = routes_[s];
  if (roots_held_) return false;
  if (!leaves_whole()) {
    send_down(c);
    return true;
  }
  if (route.summed < route.chunks.size()) return false;
  if (at_root_) at_root_(static_cast<int>(s));
  for (const std::size_t chunk : route.chunks) send_down(chunk);
  return true;
}

bool TreeCollective::advance(std::size_t c) {
  Chunk& chunk = chunks_[c];
  Route& route = routes_[chunk.segment];
  const bool root = route.parent < 0;
  if (chunk.state == State::adding) {
    if (!add_children(c)) return false;
    if (root) {
      chunk.state = tree_.uplink() == nullptr ? State::sent : State::summed;
      part_is_in(chunk.segment, context_.stream());
    } else {
      send_up(c, context_.stream());
    }
  }
  if (chunk.state == State::summed && !merge_above(chunk.segment)) return false;
  if (chunk.state != State::sent) return chunk.state == State::done;
  if (root) return leave_root(c);
  if (!receive_result(c)) return false;
  send_down(c);
  return true;
}

bool TreeCollective::progress() {
  const std::size_t count = chunks_.size(), most = window();
  for (std::size_t c = first_; c < (roots_held_ ? count : std::min(count, first_ + most)); ++c) {
    if (chunks_[c].state != State::done) advance(c);
    while (first_ < count && chunks_[first_].state == State::done) ++first_;
  }
  return all_done();
}

bool TreeCollective::all_reduced() const {
  return std::all_of(chunks_.begin(), chunks_.end(),
                     [](const Chunk& chunk) { return chunk.state >= State::sent; });
}

/// Every step forward starts the wait anew, so that a device that is busy does not fall asleep in between.
void TreeCollective::wait_until(bool (TreeCollective::*reached)() const) {
  while (!(this->*reached)())
    tree_.bell(node_).wait(*tree_.member(node_).activity, [&] {
      const std::uint64_t before = steps_;
      progress();
      return steps_ != before || (this->*reached)();
    });
}

void TreeCollective::finish() { wait_until(&TreeCollective::all_done); }

void TreeCollective::finish_reduction() { wait_until(&TreeCollective::all_reduced); }

void TreeCollective::finish_and_release() {
  finish();
  // The copies of every segment come before this message in each stream; the edges are the same for all
  // roots.
  const int slot = static_cast<int>(chunks_.size());
  const Meeting here{"bucket", "release", slot, round_};
  for (const int neighbour : tree_.tree().neighbours(node_))
    tree_.pipe(node_, neighbour).send(slot, segments_.front().down, here, context_.stream());
  for (const int neighbour : tree_.tree().neighbours(node_)) {
    const Pipe& pipe = tree_.pipe(neighbour, node_);
    tree_.bell(node_).wait(*tree_.member(node_).activity, [&] { return pipe.arrived(slot, here); });
    pipe.receive(slot, context_.stream());
  }
}

std::vector<Segment> cut_segments(const Tensor& buffer, int devices) {
  constexpr std::int64_t kSmallest = 64 << 10;  // bytes
  const std::int64_t total = buffer.count();
  const auto element = static_cast<std::int64_t>(size_of(buffer.dtype()));
  const std::int64_t owners =
      std::clamp<std::int64_t>(total * element / kSmallest, 1, static_cast<std::int64_t>(devices));
  const std::int64_t line = static_cast<std::int64_t>(kLine) / element;
  const std::int64_t share = ((total + owners - 1) / owners + line - 1) / line * line;
  std::vector<Segment> segments;
  for (std::int64_t offset = 0; offset < total; offset += share) {
    const Tensor part = buffer.slice(offset, Shape{std::min(share, total - offset)});
    segments.push_back({static_cast<int>(segments.size()), 0, part, part});
  }
  return segments;
}

}  // namespace banyan::parallel
