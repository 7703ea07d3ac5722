#include "banyan/observe/sampling.hpp"

#include <algorithm>

namespace banyan {

DeviceTracks SpanSampler::own_tracks() {
  static constexpr const char* kNames[kLanes] = {"solver", "compute", "gradients"};
  DeviceTracks tracks;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    if (own_[lane])
      own_[lane]->clear();
    else
      own_[lane] = std::make_unique<Track>(0, kNames[lane], kMostSpans);
    tracks.lanes[lane] = own_[lane].get();
  }
  return tracks;
}

void SpanSampler::begin() {
  before_ = activity_.tracks();
  const bool has_room = before_ && std::none_of(before_->lanes.begin(), before_->lanes.end(),
                                                [](const Track* track) { return track->full(); });
  sampled_ = has_room ? *before_ : own_tracks();
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    first_[lane] = sampled_->lanes[lane]->count();
    dropped_[lane] = sampled_->lanes[lane]->dropped();
  }
  activity_.trace_to(sampled_);
}

void SpanSampler::end() {
  if (!sampled_) return;
  for (std::size_t lane = 0; lane < kLanes; ++lane) last_[lane] = sampled_->lanes[lane]->count();
  activity_.trace_to(before_);
}

std::vector<RecordedSpan> SpanSampler::take() {
  std::vector<RecordedSpan> spans;
  if (!sampled_) return spans;
  bool complete = true;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const Track& track = *sampled_->lanes[lane];
    complete = complete && track.dropped() == dropped_[lane];  // none since begin()
    track.copy(first_[lane], last_[lane], spans);
  }
  sampled_.reset();
  if (!complete) spans.clear();
  return spans;
}

}  // namespace banyan
