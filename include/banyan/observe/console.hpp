// The terminal: log lines that stay, and below them one status line that is redrawn in place, or a panel
// (panel.hpp).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/base/log.hpp"

namespace banyan {

/// `--progress`: automatic shows the status line where the output is a terminal.
enum class ProgressMode : std::uint8_t { automatic, on, off };

/// All members may be called by several threads at once.
class Console {
 public:
  /// `width` in characters; 0 asks the terminal each time (80 if it does not know).
  explicit Console(ProgressMode mode, int file_descriptor = 2, int width = 0);
  /// Removes the status line.
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Begins every log line's text from now on: "[process 2 on host b] ". Call it while one thread runs.
  void set_origin(std::string origin) { origin_ = std::move(origin); }
  const std::string& origin() const { return origin_; }

  bool is_terminal() const { return terminal_; }
  bool shows_status() const { return shows_status_ && !has_panel_; }
  /// Writes whole lines (ending in a newline) above the status line.
  void print(std::string_view lines);
  /// Replaces the status line; truncated to one character less than the width, so that it never wraps. Does
  /// nothing if no status line is shown.
  void set_status(const std::string& line);
  void clear_status() { set_status(""); }

 private:
  friend class Panel;
  /// From here on there is no status line; or again one.
  void set_panel(bool present);
  void write(std::string_view bytes);
  void write_out(std::string_view bytes);
  std::string drawn() const;

  int fd_;
  int width_;
  bool terminal_;
  const bool shows_status_;
  std::atomic<bool> has_panel_{false};
  std::string origin_;
  std::mutex mutex_;
  std::string status_;
};

/// `--log_format`. text: Caffe's prefix (`I1231 23:59:59.999999 12345 file.cpp:12] `), in colour where that
/// is a terminal. json: each message is one line with one object, whatever the message contains.
enum class LogFormat : std::uint8_t { text, json };

/// `{"time": "2026-12-31T23:59:59.999999Z", "severity": "info", "thread": 12345, "file": "file.cpp", "line":
/// 12, "text": "..."}`, of now and this thread, without a newline.
std::string json_log_line(Severity severity, const std::string& text,
                          const std::source_location& where = std::source_location::current());

/// Sets up glog for a program, and makes it the sink of base/log.hpp: every message goes to `console`; log
/// files (which have glog's form) are written only if glog's flag log_dir is set. In effect as long as the
/// returned object exists.
class LogRoute {
 public:
  virtual ~LogRoute() = default;
};
std::unique_ptr<LogRoute> route_logs(const char* program, Console& console,
                                     LogFormat format = LogFormat::text);

/// While it exists, messages to the log are neither written by a LogRoute nor lost: warnings and errors are
/// kept here. One at a time.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
  /// Those since the last call, each once.
  std::vector<std::string> take();

 private:
  class Sink;
  std::unique_ptr<Sink> sink_;
};

}  // namespace banyan
