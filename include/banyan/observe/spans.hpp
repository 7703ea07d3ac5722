// Spans that last as long as a scope. Without a timeline one costs one pointer test.
#pragma once

#include "banyan/device/stamp.hpp"
#include "banyan/observe/activity.hpp"

namespace banyan {

/// What the device's host thread does while this exists, by the host's clock; on the track `solver`.
class HostSpan {
 public:
  HostSpan(Activity& activity, SpanKind kind, std::string_view name = {}, const char* detail = "")
      : span_(activity.open_span(DeviceTrack::solver, kind, name, detail)) {
    if (span_ != nullptr) span_->begin = steady_nanoseconds();
  }
  ~HostSpan() {
    if (span_ != nullptr) span_->end = steady_nanoseconds();
  }
  HostSpan(const HostSpan&) = delete;
  HostSpan& operator=(const HostSpan&) = delete;

 private:
  TimeSpan* span_;
};

/// A HostSpan in which the device has no batch. Its length counts even if no span is recorded.
class DataSpan {
 public:
  DataSpan(Activity& activity, std::string_view source)
      : activity_(activity), begin_(steady_nanoseconds()), span_(activity, SpanKind::data, source) {}
  ~DataSpan() { activity_.add_wait_for_data(steady_nanoseconds() - begin_); }
  DataSpan(const DataSpan&) = delete;
  DataSpan& operator=(const DataSpan&) = delete;

 private:
  Activity& activity_;
  std::int64_t begin_;
  HostSpan span_;
};

/// What is enqueued on `stream` while this exists, by the times at which the stream reaches it. `lane` is the
/// stream's track.
class StreamSpan {
 public:
  StreamSpan(Activity& activity, DeviceTrack lane, Stream& stream, SpanKind kind, std::string_view name = {},
             const char* detail = "", std::int64_t number = -1)
      : stream_(stream), span_(activity.open_span(lane, kind, name, detail, number)) {
    if (span_ != nullptr) stamp(stream_, span_->begin);
  }
  ~StreamSpan() {
    if (span_ != nullptr) stamp(stream_, span_->end);
  }
  StreamSpan(const StreamSpan&) = delete;
  StreamSpan& operator=(const StreamSpan&) = delete;

 private:
  Stream& stream_;
  TimeSpan* span_;
};

}  // namespace banyan
