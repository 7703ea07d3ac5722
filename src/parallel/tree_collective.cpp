#include "banyan/parallel/tree_collective.hpp"

#include <algorithm>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/observe/spans.hpp"
#include "banyan/ops/basic.hpp"

namespace banyan::parallel {
namespace {

/// Segments in work at a time: one for each device to add, and some for the levels of small trees.
std::size_t window_of(int devices) { return static_cast<std::size_t>(std::max(4, devices)); }

}  // namespace

TreeCollective::TreeCollective(DeviceTree& tree, int node, Context& context, std::vector<Segment> segments)
    : tree_(tree),
      node_(node),
      context_(context),
      segments_(std::move(segments)),
      local_ready_(context.device().create_event()) {
  for (const Segment& segment : segments_)
    routes_.push_back({tree_.tree().parent(node_, segment.root), tree_.tree().children(node_, segment.root)});
  progress_.resize(segments_.size());
}

Meeting TreeCollective::meeting(int segment, const char* phase) const {
  return {"bucket", phase, segment, round_};
}

void TreeCollective::begin_flight(int segment, SpanKind kind) {
  TimeSpan*& flight = progress_[static_cast<std::size_t>(segment)].flight;
  flight = activity().open_span(DeviceTrack::gradients, kind, "bucket", "", segment);
  if (flight != nullptr) stamp(context_.stream(), flight->begin);
}

void TreeCollective::end_flight(int segment) {
  TimeSpan*& flight = progress_[static_cast<std::size_t>(segment)].flight;
  if (flight != nullptr) stamp(context_.stream(), flight->end);
  flight = nullptr;
}

void TreeCollective::start() {
  ++round_;
  first_ = 0;
  std::fill(progress_.begin(), progress_.end(), Progress{});
}

void TreeCollective::make_ready(int segment, Stream& stream) {
  if (&stream != &context_.stream()) {
    stream.record(*local_ready_);
    context_.stream().wait(*local_ready_);
  }
  const auto s = static_cast<std::size_t>(segment);
  progress_[s].state = State::adding;
  begin_flight(segment, SpanKind::climb);
  if (routes_[s].children.empty() && routes_[s].parent >= 0) send_up(segment);
}

/// This device's part in the sum is done.
void TreeCollective::summed(int segment) {
  progress_[static_cast<std::size_t>(segment)].state = State::sent;
  end_flight(segment);
  begin_flight(segment, SpanKind::descent);
}

void TreeCollective::send_up(int segment) {
  const auto s = static_cast<std::size_t>(segment);
  tree_.pipe(node_, routes_[s].parent)
      .send(segment, segments_[s].up, meeting(segment, "up"), context_.stream());
  summed(segment);
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

/// The last addition at the root of a plain sum completes it: where the child's memory is at hand the sum is
/// written there as well, while it is in the registers. The child learns of it by getting its own tensor
/// back.
bool TreeCollective::completes_both(std::size_t s) const {
  const Route& route = routes_[s];
  return route.parent < 0 && !at_root_ && tree_.uplink() == nullptr &&
         progress_[s].added + 1 == route.children.size() && segments_[s].up.same_memory(segments_[s].down) &&
         !context_.is_cuda() && tree_.reads_in_place(node_, route.children.back());
}

bool TreeCollective::add_children(int segment) {
  const auto s = static_cast<std::size_t>(segment);
  const Meeting here = meeting(segment, "up");
  for (auto& added = progress_[s].added; added < routes_[s].children.size(); ++added) {
    const int child = routes_[s].children[added];
    const Pipe& pipe = tree_.pipe(child, node_);
    if (!pipe.arrived(segment, here)) return false;
    activity().enter(Stage::reduce, "bucket");
    const StreamSpan span(activity(), DeviceTrack::gradients, context_.stream(), SpanKind::reduce, "bucket",
                          "", segment);
    const Tensor& part = pipe.receive(segment, context_.stream());
    if (completes_both(s)) {
      Tensor target = part;
      ops::add_to_both(context_, segments_[s].up, target);
      progress_[s].written = &part;
    } else {
      ops::axpby(context_, 1.0, readable(child, part), 1.0, segments_[s].up);
    }
    ++steps_;
  }
  return true;
}

/// Root: merges the sum with those of other processes; true when that is done.
bool TreeCollective::merge_above(int segment) {
  Uplink* uplink = tree_.uplink();
  if (uplink == nullptr) return true;
  const auto s = static_cast<std::size_t>(segment);
  const int slot = Uplink::kFirstBucket + segment;
  if (progress_[s].state == State::adding) {
    uplink->begin(slot, segments_[s].up, UplinkMerge::sum, meeting(segment, "above"), context_,
                  tree_.bell(node_));
    progress_[s].state = State::above;
    ++steps_;
  }
  return uplink->done(slot, context_);
}

void TreeCollective::send_down(int segment) {
  const auto s = static_cast<std::size_t>(segment);
  for (const int child : routes_[s].children) {
    const bool written = progress_[s].written != nullptr && child == routes_[s].children.back();
    tree_.pipe(node_, child)
        .send(segment, written ? *progress_[s].written : segments_[s].down, meeting(segment, "down"),
              context_.stream());
  }
  progress_[s].state = State::done;
  end_flight(segment);
  ++steps_;
}

bool TreeCollective::receive_result(int segment) {
  const auto s = static_cast<std::size_t>(segment);
  const Pipe& pipe = tree_.pipe(routes_[s].parent, node_);
  if (!pipe.arrived(segment, meeting(segment, "down"))) return false;
  activity().enter(Stage::broadcast, "bucket");
  const StreamSpan span(activity(), DeviceTrack::gradients, context_.stream(), SpanKind::broadcast, "bucket",
                        "", segment);
  const Tensor& result = pipe.receive(segment, context_.stream());
  if (!result.same_memory(segments_[s].down))
    tree_.copy(node_, routes_[s].parent, context_.stream(), segments_[s].down, result);
  return true;
}

bool TreeCollective::advance(int segment) {
  const auto s = static_cast<std::size_t>(segment);
  const bool root = routes_[s].parent < 0;
  if (progress_[s].state == State::adding) {
    if (!add_children(segment)) return false;
    if (!root) send_up(segment);
  }
  if (root && (progress_[s].state == State::adding || progress_[s].state == State::above)) {
    if (!merge_above(segment)) return false;
    summed(segment);
  }
  if (progress_[s].state == State::sent) {
    if (root ? roots_held_ : !receive_result(segment)) return false;
    if (root && at_root_) at_root_(segment);
    send_down(segment);
  }
  return progress_[s].state == State::done;
}

bool TreeCollective::progress() {
  const std::size_t count = segments_.size(), window = window_of(tree_.size());
  for (std::size_t s = first_; s < (roots_held_ ? count : std::min(count, first_ + window)); ++s) {
    if (!finished(s)) advance(static_cast<int>(s));
    while (first_ < count && finished(first_)) ++first_;
  }
  return all_done();
}

bool TreeCollective::all_reduced() const {
  return std::all_of(progress_.begin(), progress_.end(),
                     [](const Progress& segment) { return segment.state >= State::sent; });
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
  const int slot = static_cast<int>(segments_.size());
  const Meeting here{"bucket", "release", slot, round_};
  for (const int neighbour : tree_.tree().neighbours(node_))
    tree_.pipe(node_, neighbour).send(slot, segments_.front().down, here, context_.stream());
  for (const int neighbour : tree_.tree().neighbours(node_)) {
    const Pipe& pipe = tree_.pipe(neighbour, node_);
    tree_.bell(node_).wait(*tree_.member(node_).activity, [&] { return pipe.arrived(slot, here); });
    pipe.receive(slot, context_.stream());
  }
}

std::size_t segment_bytes(std::size_t bytes, int devices, DeviceKind kind) {
  const auto n = static_cast<std::size_t>(devices);
  const std::size_t share = bytes / (4 * n);
  // CPU: as many segments as there are devices are in work, in as many copies each, and all should stay in
  // caches of some MiB. GPUs: a launch should cost little beside its bytes (5 us are 250 KiB on a PCIe link).
  constexpr std::size_t kCaches = std::size_t{2} << 20, kKi = 1024;
  const std::size_t wanted = kind == DeviceKind::cpu
                                 ? std::clamp(std::min(share, kCaches / (n * n)), 64 * kKi, 512 * kKi)
                                 : std::clamp(share, 256 * kKi, 4096 * kKi);
  return wanted & ~std::size_t{63};
}

std::vector<Segment> cut_segments(const Tensor& buffer, std::size_t bytes, int devices) {
  const std::int64_t total = buffer.count();
  const auto piece = std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes / size_of(buffer.dtype())));
  std::vector<Segment> segments;
  for (std::int64_t offset = 0; offset < total; offset += piece) {
    const Tensor part = buffer.slice(offset, Shape{std::min(piece, total - offset)});
    segments.push_back({static_cast<int>(segments.size()) % devices, part, part});
  }
  return segments;
}

}  // namespace banyan::parallel
