// Sampling: the spans of single iterations of one device, again and again in the same memory. Without a
// sample under way a span costs one pointer test, so a run can be looked at from time to time as long as it
// lasts.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "banyan/observe/activity.hpp"

namespace banyan {

/// Belongs to the device's thread. If the activity records for a timeline anyway, the sample is a stretch of
/// its tracks. Outlives the device's streams, which write times into it.
class SpanSampler {
 public:
  /// Most spans of a track in one sample; an iteration with more is not sampled completely.
  static constexpr std::int64_t kMostSpans = 1 << 16;

  explicit SpanSampler(Activity& activity) : activity_(activity) {}
  SpanSampler(const SpanSampler&) = delete;
  SpanSampler& operator=(const SpanSampler&) = delete;

  /// While no span is open and, except for the first time, after the streams have been synchronized since
  /// end().
  void begin();
  void end();
  /// The spans of the last sample, once the streams have been synchronized; empty if there was none since the
  /// last call, or if some are missing. Their names live as long as the tracks.
  std::vector<RecordedSpan> take();

 private:
  DeviceTracks own_tracks();
  Activity& activity_;
  std::array<std::unique_ptr<Track>, kLanes> own_;
  std::optional<DeviceTracks> sampled_;                ///< during a sample and until it is taken
  std::array<std::int64_t, kLanes> first_{}, last_{};  ///< of the sample's spans; one past the last
  std::array<std::int64_t, kLanes> dropped_{};         ///< before it
  std::optional<DeviceTracks> before_;                 ///< what the activity records for otherwise
};

}  // namespace banyan
