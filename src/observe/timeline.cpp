#include "banyan/observe/timeline.hpp"

#include <algorithm>

namespace banyan {

const char* name_of(SpanKind kind) {
  static constexpr const char* kNames[kSpanKinds] = {
      "iteration", "forward", "backward", "recompute", "exchange", "data", "wait",    "climb",
      "descent",   "reduce",  "update",   "broadcast", "prefetch", "test", "snapshot"};
  const auto index = static_cast<std::size_t>(kind);
  return index < kSpanKinds ? kNames[index] : "unknown";
}

Track::~Track() {
  for (auto& chunk : chunks_) delete[] chunk.load();
}

TimeSpan* Track::open(SpanKind kind, std::string_view name, const char* detail, std::int64_t number,
                      std::int64_t iteration) {
  const std::int64_t at = count_.load(std::memory_order_relaxed);
  if (at >= most_) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  auto& chunk = chunks_[at / kChunk];
  if (chunk.load(std::memory_order_relaxed) == nullptr) chunk.store(new TimeSpan[kChunk]);
  auto known = names_.find(name);
  if (known == names_.end()) known = names_.emplace(name).first;
  TimeSpan& span = chunk.load(std::memory_order_relaxed)[at % kChunk];
  span.begin.store(0, std::memory_order_relaxed);
  span.end.store(0, std::memory_order_relaxed);
  span.name = &*known;
  span.detail = detail;
  span.number = number;
  span.iteration = iteration;
  span.kind = kind;
  count_.store(at + 1, std::memory_order_release);
  return &span;
}

void Track::for_each(const std::function<void(const TimeSpan&)>& visit) const {
  const std::int64_t end = count();
  for (std::int64_t i = 0; i < end; ++i) visit(at(i));
}

void Track::copy(std::int64_t first, std::int64_t last, std::vector<RecordedSpan>& to) const {
  for (std::int64_t i = first; i < last; ++i) {
    const TimeSpan& span = at(i);
    const std::int64_t begin = span.begin.load(std::memory_order_relaxed);
    const std::int64_t end = span.end.load(std::memory_order_relaxed);
    if (begin != 0 && end != 0)
      to.push_back({begin, end, span.name, span.detail, span.number, span.iteration, span.kind});
  }
}

Timeline::Timeline(std::int64_t spans_per_track)
    : most_(std::min(spans_per_track, kMostSpans)), start_(steady_nanoseconds()) {}

DeviceTracks Timeline::add_device(const std::string& name) {
  const int device = static_cast<int>(devices_.size());
  devices_.push_back(name);
  return {{&open_track(device, "solver"), &open_track(device, "compute"), &open_track(device, "gradients")}};
}

Track& Timeline::open_track(int device, const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  tracks_.push_back(std::make_unique<Track>(device, name, most_));
  return *tracks_.back();
}

std::vector<const Track*> Timeline::tracks() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<const Track*> all;
  for (const auto& track : tracks_) all.push_back(track.get());
  return all;
}

std::int64_t Timeline::dropped() const {
  std::int64_t dropped = 0;
  for (const Track* track : tracks()) dropped += track->dropped();
  return dropped;
}

}  // namespace banyan
