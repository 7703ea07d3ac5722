// Timeline: what ran when, on every device. Threads record spans during a run; afterwards the spans become a
// trace file or the shares of an iteration (overlap.hpp).
//
// Each device has three tracks: `solver` holds what its host thread does, by the host's clock; `compute` and
// `gradients` hold what its two streams do, by the times at which the streams reach it (device/stamp.hpp). On
// a CPU device whose streams run inline the three are the same thread. Other threads (prefetching) open
// tracks for themselves. Only one thread writes a track, so that recording takes no lock; without a timeline
// a span costs one pointer test.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace banyan {

enum class SpanKind : std::uint8_t {
  iteration,  ///< compute: from the first forward until the new parameters are there
  forward,    ///< a layer
  backward,   ///< a layer
  recompute,  ///< a layer's forward again, before its backward
  exchange,   ///< a message with a layer's statistics, there and back
  data,       ///< solver: waiting for a batch
  wait,       ///< solver: waiting for another device's thread
  climb,      ///< a bucket: from the gradients' completion here to the end of this device's part in their sum
  descent,    ///< a bucket: from there until its new parameters are here and sent on
  reduce,     ///< adding one child's bucket
  update,     ///< the optimizer on one bucket
  broadcast,  ///< a copy of parameters or statistics from the parent
  prefetch,   ///< making a batch
  test,
  snapshot
};
inline constexpr int kSpanKinds = 15;
const char* name_of(SpanKind kind);
/// Buckets in flight overlap each other; spans of all other kinds nest within their track.
inline bool overlaps_others(SpanKind kind) { return kind == SpanKind::climb || kind == SpanKind::descent; }

struct TimeSpan {
  /// Nanoseconds of the steady clock; 0: not reached. Streams write them after the span is opened.
  std::atomic<std::int64_t> begin{0}, end{0};
  const std::string* name = nullptr;  ///< layer or source; the track's
  const char* detail = "";            ///< of an exchange: "forward", "backward", "divisor"; a literal
  std::int64_t number = -1;           ///< of a bucket or batch
  std::int64_t iteration = 0;
  SpanKind kind = SpanKind::forward;
};

/// A span as it was when it was copied from its track.
struct RecordedSpan {
  std::int64_t begin = 0, end = 0;
  const std::string* name = nullptr;  ///< the track's
  const char* detail = "";
  std::int64_t number = -1, iteration = 0;
  SpanKind kind = SpanKind::forward;
};

inline std::int64_t steady_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class Track {
 public:
  Track(int device, std::string name, std::int64_t most)
      : device_(device), name_(std::move(name)), most_(most) {}
  ~Track();
  Track(const Track&) = delete;
  Track& operator=(const Track&) = delete;

  int device() const { return device_; }
  const std::string& name() const { return name_; }
  /// A span without times yet, at a fixed address; nullptr when the track is full. One thread only.
  TimeSpan* open(SpanKind kind, std::string_view name, const char* detail, std::int64_t number,
                 std::int64_t iteration);
  /// Spans in the order of opening; any thread.
  void for_each(const std::function<void(const TimeSpan&)>& visit) const;
  /// Appends those of the numbers [first, last) that have begun and ended; any thread.
  void copy(std::int64_t first, std::int64_t last, std::vector<RecordedSpan>& to) const;
  std::int64_t count() const { return count_.load(std::memory_order_acquire); }
  bool full() const { return count() >= most_; }
  /// Begins again with no spans, in the same memory; names stay. Only while nothing is recorded, no stream
  /// has a time left to write and nobody reads.
  void clear() { count_.store(0, std::memory_order_release); }
  std::int64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::int64_t kChunk = 4096, kChunks = 64;
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  friend class Timeline;
  const TimeSpan& at(std::int64_t number) const {
    return chunks_[number / kChunk].load(std::memory_order_relaxed)[number % kChunk];
  }
  int device_;
  std::string name_;
  std::int64_t most_;
  std::unordered_set<std::string, Hash, std::equal_to<>> names_;
  std::array<std::atomic<TimeSpan*>, kChunks> chunks_{};
  std::atomic<std::int64_t> count_{0}, dropped_{0};
};

/// The tracks that every device has.
enum class DeviceTrack : std::uint8_t { solver, compute, gradients };
inline constexpr int kLanes = 3;
struct DeviceTracks {
  std::array<Track*, kLanes> lanes{};
};

class Timeline {
 public:
  /// Most spans that a track keeps, about 15 MB: the first ones. Later ones are counted and dropped.
  static constexpr std::int64_t kMostSpans = Track::kChunk * Track::kChunks;
  explicit Timeline(std::int64_t spans_per_track = kMostSpans);

  /// Devices are numbered from 0 in the order of these calls, which come before any recording.
  DeviceTracks add_device(const std::string& name);
  /// For another thread. May be called at any time; the track lives as long as the timeline.
  Track& open_track(int device, const std::string& name);

  const std::vector<std::string>& devices() const { return devices_; }
  /// As they are now.
  std::vector<const Track*> tracks() const;
  std::int64_t dropped() const;
  std::int64_t start() const { return start_; }  ///< nanoseconds of the steady clock

 private:
  const std::int64_t most_, start_;
  std::vector<std::string> devices_;
  mutable std::mutex mutex_;  ///< guards tracks_
  std::vector<std::unique_ptr<Track>> tracks_;
};

/// Where a thread that works for a device records.
struct Tracing {
  std::shared_ptr<Timeline> timeline;  ///< nullptr: nowhere
  int device = 0;
};

}  // namespace banyan
