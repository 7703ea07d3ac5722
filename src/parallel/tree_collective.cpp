#include "banyan/parallel/tree_collective.hpp"

#include <algorithm>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/ops/basic.hpp"

namespace banyan::parallel {

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

void TreeCollective::start() {
  ++round_;
  std::fill(progress_.begin(), progress_.end(), Progress{});
}

void TreeCollective::make_ready(int segment, Stream& stream) {
  if (&stream != &context_.stream()) {
    stream.record(*local_ready_);
    context_.stream().wait(*local_ready_);
  }
  progress_[static_cast<std::size_t>(segment)].state = State::adding;
}

const Tensor& TreeCollective::readable(int neighbour, const Tensor& message) {
  if (tree_.reads_in_place(node_, neighbour)) return message;
  if (!staging_.defined() || staging_.dtype() != message.dtype())
    staging_ = Tensor(context_.device(), message.shape(), message.dtype());
  if (staging_.count() < message.count()) {
    context_.synchronize();
    staging_.resize(message.shape());
  }
  context_.stream().copy(staging_.raw(), message.raw(), message.bytes());
  staged_ = staging_.slice(0, message.shape());
  return staged_;
}

bool TreeCollective::add_children(int segment) {
  const auto s = static_cast<std::size_t>(segment);
  const Meeting here = meeting(segment, "up");
  for (auto& added = progress_[s].added; added < routes_[s].children.size(); ++added) {
    const int child = routes_[s].children[added];
    const Pipe& pipe = tree_.pipe(child, node_);
    if (!pipe.arrived(segment, here)) return false;
    tree_.member(node_).activity->enter(Stage::reduce, "bucket");
    const Tensor& part = pipe.receive(segment, context_.stream());
    ops::axpby(context_, 1.0, readable(child, part), 1.0, segments_[s].up);
  }
  return true;
}

void TreeCollective::send_down(int segment) {
  const auto s = static_cast<std::size_t>(segment);
  for (const int child : routes_[s].children)
    tree_.pipe(node_, child).send(segment, segments_[s].down, meeting(segment, "down"), context_.stream());
  progress_[s].state = State::done;
}

bool TreeCollective::receive_result(int segment) {
  const auto s = static_cast<std::size_t>(segment);
  const Pipe& pipe = tree_.pipe(routes_[s].parent, node_);
  if (!pipe.arrived(segment, meeting(segment, "down"))) return false;
  tree_.member(node_).activity->enter(Stage::broadcast, "bucket");
  const Tensor& result = pipe.receive(segment, context_.stream());
  context_.stream().copy(segments_[s].down.raw(), result.raw(), result.bytes());
  return true;
}

bool TreeCollective::advance(int segment) {
  const auto s = static_cast<std::size_t>(segment);
  Progress& at = progress_[s];
  if (at.state == State::adding) {
    if (!add_children(segment)) return false;
    if (routes_[s].parent >= 0) {
      tree_.pipe(node_, routes_[s].parent)
          .send(segment, segments_[s].up, meeting(segment, "up"), context_.stream());
    }
    at.state = State::sent;
  }
  if (at.state == State::sent) {
    if (routes_[s].parent >= 0) {
      if (!receive_result(segment)) return false;
    } else {
      if (roots_held_) return false;
      if (at_root_) at_root_(segment);
    }
    send_down(segment);
  }
  return at.state == State::done;
}

bool TreeCollective::progress() {
  bool all = true;
  for (int segment = 0; segment < static_cast<int>(segments_.size()); ++segment)
    if (progress_[static_cast<std::size_t>(segment)].state != State::done) all = advance(segment) && all;
  return all;
}

bool TreeCollective::all_reduced() const {
  for (std::size_t s = 0; s < segments_.size(); ++s)
    if (routes_[s].parent < 0 && progress_[s].state < State::sent) return false;
  return true;
}

void TreeCollective::finish() {
  tree_.bell(node_).wait(*tree_.member(node_).activity, [this] { return progress(); });
}

void TreeCollective::finish_reduction() {
  tree_.bell(node_).wait(*tree_.member(node_).activity, [this] {
    progress();
    return all_reduced();
  });
}

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
