// A timeline as a file in the trace-event format, which Perfetto and Chrome's tracing page show.
//
// One process per device, one thread per track; spans are complete events ("X"). A bucket's climb and
// descent, which overlap those of other buckets, are asynchronous events ("b", "e") with the bucket's number
// as id. Times are microseconds since the timeline's start.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "banyan/observe/timeline.hpp"

namespace banyan {

/// Throws bad_input if no file can be created at `path`.
void check_trace_path(const std::string& path);
/// The file appears completely or not at all. Spans that never began are left out; those that never ended get
/// the argument "unfinished". Runtime failure if it cannot be written.
void write_trace(const Timeline& timeline, const std::string& path);

/// Runs `body` with a timeline and writes it to `path` when body has ended, even if it throws. An empty path:
/// body gets nullptr.
void with_trace(const std::string& path, const std::function<void(const std::shared_ptr<Timeline>&)>& body);

}  // namespace banyan
