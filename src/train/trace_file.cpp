#include "banyan/train/trace_file.hpp"

#include <glog/logging.h>

#include <cstdio>
#include <filesystem>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/atomic_file.hpp"

namespace banyan {
namespace {

/// Viewers give the number 0 a special meaning.
int process_of(int device) { return device + 1; }

/// 1234567 ns as 1234.567
std::string microseconds(std::int64_t nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%s%lld.%03lld", nanoseconds < 0 ? "-" : "",
                static_cast<long long>(std::abs(nanoseconds) / 1000),
                static_cast<long long>(std::abs(nanoseconds) % 1000));
  return text;
}

/// "conv1 forward", "bn1 exchange forward", "bucket 3 climb", "test"
std::string title_of(const TimeSpan& span) {
  std::string title = *span.name;
  const auto append = [&title](const std::string& word) { title += (title.empty() ? "" : " ") + word; };
  if (span.number >= 0) append(std::to_string(span.number));
  append(name_of(span.kind));
  if (*span.detail != 0) append(span.detail);
  return title;
}

class Writer {
 public:
  Writer(const Timeline& timeline, const std::string& path)
      : file_(path), origin_(timeline.start()), now_(steady_nanoseconds()) {
    text_ = cat("{\"displayTimeUnit\": \"ms\", \"otherData\": {\"program\": \"Banyan ", BANYAN_VERSION,
                "\", \"dropped_spans\": ", timeline.dropped(), "}, \"traceEvents\": [");
  }
  void finish() {
    text_ += "\n]}\n";
    file_.write(text_);
    file_.commit();
  }
  void name(const char* what, int process, int thread, const std::string& name) {
    event(cat("{\"ph\": \"M\", \"pid\": ", process, ", \"tid\": ", thread, ", \"name\": \"", what,
              "\", \"args\": {\"name\": ", json_string(name), "}}"));
  }
  void order(const char* what, int process, int thread) {
    event(cat("{\"ph\": \"M\", \"pid\": ", process, ", \"tid\": ", thread, ", \"name\": \"", what,
              "\", \"args\": {\"sort_index\": ", thread, "}}"));
  }
  void span(const TimeSpan& span, int process, int thread) {
    const std::int64_t begin = span.begin.load(std::memory_order_relaxed);
    std::int64_t end = span.end.load(std::memory_order_relaxed);
    if (begin == 0) return;
    const bool unfinished = end == 0;
    if (unfinished) end = now_;
    const bool bucket = overlaps_others(span.kind);
    const std::string what =
        cat("\"pid\": ", process, ", \"tid\": ", thread, ", \"name\": ", json_string(title_of(span)),
            ", \"cat\": \"", bucket ? "bucket" : name_of(span.kind), "\", \"ts\": ");
    const std::string arguments = arguments_of(span, unfinished);
    if (!bucket) {
      event(cat("{\"ph\": \"X\", ", what, microseconds(begin - origin_),
                ", \"dur\": ", microseconds(end - begin), ", ", arguments, "}"));
      return;
    }
    const std::string id = cat("\"id\": \"", process, ".", span.number, "\", ");
    event(cat("{\"ph\": \"b\", ", id, what, microseconds(begin - origin_), ", ", arguments, "}"));
    event(cat("{\"ph\": \"e\", ", id, what, microseconds(end - origin_), "}"));
  }

 private:
  static std::string arguments_of(const TimeSpan& span, bool unfinished) {
    std::string text = "\"args\": {";
    if (span.iteration >= 0) text += cat("\"iteration\": ", span.iteration, ", ");
    if (!span.name->empty()) text += cat("\"of\": ", json_string(*span.name), ", ");
    if (span.number >= 0) text += cat("\"number\": ", span.number, ", ");
    if (unfinished) text += "\"unfinished\": true, ";
    if (text.ends_with(", ")) text.resize(text.size() - 2);
    return text + "}";
  }
  void event(const std::string& json) {
    text_ += cat(first_ ? "" : ",", "\n", json);
    first_ = false;
    constexpr std::size_t kPiece = 1 << 20;
    if (text_.size() < kPiece) return;
    file_.write(text_);
    text_.clear();
  }

  io::AtomicFile file_;
  std::int64_t origin_, now_;
  std::string text_;
  bool first_ = true;
};

}  // namespace

void check_trace_path(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    bad_input("--trace=", path, ": expected a file, found a folder");
  try {
    const io::AtomicFile trial(path);  // removed again
  } catch (const Error& error) {
    bad_input("--trace=", path, ": ", error.message());
  }
}

void write_trace(const Timeline& timeline, const std::string& path) {
  Writer writer(timeline, path);
  for (std::size_t device = 0; device < timeline.devices().size(); ++device) {
    const int process = process_of(static_cast<int>(device));
    writer.name("process_name", process, 0, timeline.devices()[device]);
    writer.order("process_sort_index", process, process);
  }
  int thread = 0;
  for (const Track* track : timeline.tracks()) {
    const int process = process_of(track->device());
    ++thread;
    writer.name("thread_name", process, thread, track->name());
    writer.order("thread_sort_index", process, thread);
    track->for_each([&](const TimeSpan& span) { writer.span(span, process, thread); });
  }
  writer.finish();
}

void with_trace(const std::string& path, const std::function<void(const std::shared_ptr<Timeline>&)>& body) {
  if (path.empty()) return body(nullptr);
  check_trace_path(path);
  const auto timeline = std::make_shared<Timeline>();
  try {
    body(timeline);
  } catch (...) {
    try {
      write_trace(*timeline, path);
    } catch (const std::exception& error) {  // what ended the run matters more
      LOG(ERROR) << "No trace: " << error.what();
    }
    throw;
  }
  write_trace(*timeline, path);
  LOG(INFO) << "Trace of the run: " << path;
  LOG_IF(WARNING, timeline->dropped() > 0)
      << "The trace is full: it holds the first " << Timeline::kMostSpans << " spans of each track, "
      << timeline->dropped() << " later ones were dropped";
}

}  // namespace banyan
