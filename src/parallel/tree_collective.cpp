#include "banyan/parallel/tree_collective.hpp"

#include <algorithm>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/observe/spans.hpp"
#include "banyan/ops/basic.hpp"

namespace banyan::parallel {
namespace {

constexpr std::size_t kLine = 64;  // bytes; chunks begin at cache lines if their segments do

/// Elements of a chunk: whole cache lines, and chunks of equal size, because a short last one costs a message
/// too.
std::int64_t chunk_elements(const Tensor& segment, std::size_t chunk_bytes) {
  const auto element = size_of(segment.dtype());
  const auto chunks = static_cast<std::int64_t>(
      TreeCollective::chunks_of(static_cast<std::size_t>(segment.count()) * element, chunk_bytes));
  const auto line = static_cast<std::int64_t>(kLine / element);
  return ((segment.count() + chunks - 1) / chunks + line - 1) / line * line;
}

}  // namespace

TreeCollective::TreeCollective(DeviceTree& tree, int node, Context& context, std::vector<Segment> segments,
                               std::function<void(int)> at_root, std::size_t chunk_bytes)
    : tree_(tree),
      node_(node),
      context_(context),
      segments_(std::move(segments)),
      at_root_(std::move(at_root)) {
  for (const Segment& segment : segments_) {
    Route route;
    route.parent = tree_.tree().parent(node_, segment.root);
    route.children = tree_.tree().children(node_, segment.root);
    route.ready = context.device().create_event();
    if (route.parent < 0) own_.push_back(routes_.size());
    routes_.push_back(std::move(route));
  }
  parts_.reserve(ops::kMostParts);
  cut(chunk_bytes);
}

/// The chunks in processing order: wave by wave, and within a wave every segment's first chunk, then every
/// second one, and so on.
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
  std::size_t slots = 0;
  for (const std::size_t bytes : segment_bytes) slots += chunks_of(bytes, chunk_bytes);
  return static_cast<int>(slots);
}

/// Chunks in progress at a time: one for each device to add, and some for the levels of small trees. None of
/// a segment's chunks comes back before all are summed, hence whole waves.
std::size_t TreeCollective::window() const {
  return static_cast<std::size_t>(std::max(4, tree_.size())) * largest_wave_;
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

/// This device's part of one more of the segment's chunks is done.
void TreeCollective::part_is_in(std::size_t segment, Stream& stream) {
  Route& route = routes_[segment];
  if (++route.summed < route.chunks.size()) return;
  end_flight(segment, stream);
  begin_flight(segment, SpanKind::descent, context_.stream());
}

void TreeCollective::start() {
  ++round_;
  first_ = begun_above_ = 0;
  for (Chunk& chunk : chunks_) {
    chunk.state = State::local;
    chunk.added = 0;
  }
  for (Route& route : routes_) {
    route.waits = false;
    route.summed = route.done = 0;
    route.merging = false;
  }
}

/// A leaf's parts leave from `stream`; elsewhere the lane waits for the local part only when there is
/// something to add to it, so that work enqueued earlier is not delayed.
void TreeCollective::make_ready(int segment, Stream& stream) {
  Route& route = routes_[segment];
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

/// Takes the next children's parts, in tree order: as many as one operator can add, a staged one by itself.
/// False while one of them is missing: adding those that have arrived now would read the sum twice.
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

bool TreeCollective::add_children(std::size_t c) {
  Chunk& chunk = chunks_[c];
  Route& route = routes_[chunk.segment];
  while (chunk.added < route.children.size()) {
    if (!take_parts(c)) return false;
    activity().enter(Stage::reduce, "bucket");
    const StreamSpan span(activity(), DeviceTrack::gradients, context_.stream(), SpanKind::reduce, "bucket",
                          "", static_cast<int>(chunk.segment));
    if (std::exchange(route.waits, false)) context_.stream().wait(*route.ready);
    if (parts_.size() == 1) parts_[0] = readable(route.children[chunk.added], parts_[0]);
    ops::add_parts(context_, parts_, chunk.up);
    chunk.added += parts_.size();
    ++steps_;
  }
  if (std::exchange(route.waits, false)) context_.stream().wait(*route.ready);  // one device, no children
  return true;
}

/// Root: merges the segment with those of other processes once all of it is summed, and after this device's
/// earlier ones have begun; true when that is done. Whole segments, because other processes may have measured
/// other chunks.
bool TreeCollective::merge_above(std::size_t s) {
  RootParent* uplink = tree_.uplink();
  Route& route = routes_[s];
  if (route.summed < route.chunks.size()) return false;
  const int slot = Uplink::kFirstBucket + static_cast<int>(s);
  if (!route.merging) {
    if (own_[begun_above_] != s) return false;
    ++begun_above_;
    route.merging = true;
    uplink->begin(slot, segments_[s].up, UplinkMerge::sum, meeting(s, "above"), uplink->place().everybody(),
                  context_, tree_.bell(node_));
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
  for (const int child : route.children)
    tree_.pipe(node_, child).send(static_cast<int>(c), chunk.down, meeting(c, "down"), context_.stream());
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
  tree_.copy(node_, parent, context_.stream(), chunk.down, result);
  return true;
}

/// The whole segment goes down once all of it is summed and `at_root` has run.
bool TreeCollective::leave_root(std::size_t s) {
  const Route& route = routes_[s];
  if (roots_held_ || route.summed < route.chunks.size()) return false;
  at_root_(static_cast<int>(s));
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
  if (root) return leave_root(chunk.segment);
  if (!receive_result(c)) return false;
  send_down(c);
  return true;
}

bool TreeCollective::progress() {
  const std::size_t count = chunks_.size(), most = window();
  const bool all = roots_held_ || (tree_.uplink() != nullptr && tree_.uplink()->needs_all());
  for (std::size_t c = first_; c < (all ? count : std::min(count, first_ + most)); ++c) {
    if (chunks_[c].state != State::done) advance(c);
    while (first_ < count && chunks_[first_].state == State::done) ++first_;
  }
  return all_done();
}

bool TreeCollective::all_reduced() const {
  return std::all_of(chunks_.begin(), chunks_.end(),
                     [](const Chunk& chunk) { return chunk.state >= State::sent; });
}

/// Every step forward restarts the wait, so that a busy device does not fall asleep between steps.
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

}  // namespace banyan::parallel
