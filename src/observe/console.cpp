#include "banyan/observe/console.hpp"

#include <glog/logging.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <iomanip>
#include <sstream>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan {

namespace {

constexpr const char* kEraseLine = "\r\x1b[K";

int terminal_width(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/// `I1231 23:59:59.999999 12345 file.cpp:12] `. Four columns, and no year: log parsers count on it. (glog's
/// own formatting for sinks writes the year whatever its flag says.)
std::string prefix(google::LogSeverity severity, const char* file, int line,
                   const google::LogMessageTime& time) {
  std::ostringstream out;
  out << google::GetLogSeverityName(severity)[0] << std::setfill('0') << std::setw(2) << time.month() + 1
      << std::setw(2) << time.day() << ' ' << std::setw(2) << time.hour() << ':' << std::setw(2) << time.min()
      << ':' << std::setw(2) << time.sec() << '.' << std::setw(6) << time.usec() << ' ' << std::setfill(' ')
      << std::setw(5) << ::syscall(SYS_gettid) << ' ' << file << ':' << line << "] ";
  return out.str();
}

/// `2026-12-31T23:59:59.999999Z`
std::string utc(std::time_t seconds, int microseconds) {
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[48];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + length, sizeof text - length, ".%06dZ", microseconds);
  return text;
}

std::string json_line(const std::string& time, const char* severity, const char* file, int line,
                      std::string_view text) {
  return cat("{\"time\": ", json_string(time), ", \"severity\": ", json_string(severity),
             ", \"thread\": ", ::syscall(SYS_gettid), ", \"file\": ", json_string(file), ", \"line\": ", line,
             ", \"text\": ", json_string(text), "}");
}

const char* name_of(google::LogSeverity severity) {
  constexpr const char* kNames[] = {"info", "warning", "error", "fatal"};
  return kNames[severity];
}

google::LogSeverity level_of(Severity severity) {
  return severity == Severity::info      ? google::GLOG_INFO
         : severity == Severity::warning ? google::GLOG_WARNING
                                         : google::GLOG_ERROR;
}

/// A message of the rooms that do not use glog, with their place in the code.
void to_glog(Severity severity, const std::string& message, const std::source_location& where) {
  google::LogMessage(where.file_name(), static_cast<int>(where.line()), level_of(severity)).stream()
      << message;
}

std::atomic<bool> captured{false};

/// glog's own output goes to a sink only; writing from here keeps log lines and the status line apart.
class ConsoleSink : public LogRoute, google::LogSink {
 public:
  ConsoleSink(Console& console, LogFormat format) : console_(console), format_(format) {
    FLAGS_logtostderr = false;
    FLAGS_alsologtostderr = false;
    FLAGS_log_year_in_prefix = false;
    google::SetStderrLogging(google::NUM_SEVERITIES);
    if (FLAGS_log_dir.empty())
      for (int severity = 0; severity < google::NUM_SEVERITIES; ++severity)
        google::SetLogDestination(severity, "");
    google::AddLogSink(this);
    set_log_sink(&to_glog);
  }
  ~ConsoleSink() override {
    set_log_sink(nullptr);
    google::RemoveLogSink(this);
  }

  void send(google::LogSeverity severity, const char*, const char* file, int line,
            const google::LogMessageTime& time, const char* message, std::size_t length) override {
    if (captured) return;
    if (format_ == LogFormat::json) {
      console_.print(json_line(utc(time.timestamp(), time.usec()), name_of(severity), file, line,
                               console_.origin() + std::string(message, length)) +
                     "\n");
      return;
    }
    std::string text = prefix(severity, file, line, time) + console_.origin();
    text.append(message, length);
    if (console_.is_terminal() && severity > google::GLOG_INFO)
      text = (severity == google::GLOG_WARNING ? "\x1b[33m" : "\x1b[31m") + text + "\x1b[m";
    console_.print(text + "\n");
  }

 private:
  Console& console_;
  LogFormat format_;
};

}  // namespace

Console::Console(ProgressMode mode, int file_descriptor, int width)
    : fd_(file_descriptor),
      width_(width),
      terminal_(::isatty(file_descriptor) == 1),
      shows_status_(mode == ProgressMode::on || (mode == ProgressMode::automatic && terminal_)) {}

Console::~Console() { clear_status(); }

void Console::write_out(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // a closed terminal must not end the training
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string Console::drawn() const {
  const int width = width_ > 0 ? width_ : terminal_width(fd_);
  return status_.substr(0, static_cast<std::size_t>(std::max(width - 1, 1)));
}

void Console::print(std::string_view lines) {
  const std::lock_guard lock(mutex_);
  if (status_.empty()) {
    write_out(lines);
    return;
  }
  std::string bytes = kEraseLine;
  bytes += lines;
  bytes += drawn();
  write_out(bytes);
}

void Console::set_status(const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (!shows_status()) return;
  if (line.empty() && status_.empty()) return;
  status_ = line;
  write_out(kEraseLine + drawn());
}

void Console::set_panel(bool present) {
  const std::lock_guard lock(mutex_);
  if (present && !status_.empty()) write_out(kEraseLine);
  status_.clear();
  has_panel_ = present;
}

void Console::write(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  write_out(bytes);
}

std::string json_log_line(Severity severity, const std::string& text, const std::source_location& where) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  const std::string file = where.file_name();
  return json_line(utc(microseconds / 1000000, static_cast<int>(microseconds % 1000000)),
                   name_of(level_of(severity)), file.substr(file.rfind('/') + 1).c_str(),
                   static_cast<int>(where.line()), text);
}

class LogCapture::Sink : public google::LogSink {
 public:
  Sink() {
    captured = true;
    google::AddLogSink(this);
  }
  ~Sink() override {
    google::RemoveLogSink(this);
    captured = false;
  }
  void send(google::LogSeverity severity, const char*, const char*, int, const google::LogMessageTime&,
            const char* message, std::size_t length) override {
    if (severity == google::GLOG_INFO) return;
    const std::lock_guard lock(mutex_);
    std::string text(message, length);
    if (std::find(texts_.begin(), texts_.end(), text) == texts_.end()) texts_.push_back(std::move(text));
  }
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(texts_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> texts_;
};

LogCapture::LogCapture() : sink_(std::make_unique<Sink>()) {}
LogCapture::~LogCapture() = default;
std::vector<std::string> LogCapture::take() { return sink_->take(); }

std::unique_ptr<LogRoute> route_logs(const char* program, Console& console, LogFormat format) {
  google::InitGoogleLogging(program);
  return std::make_unique<ConsoleSink>(console, format);
}

}  // namespace banyan
