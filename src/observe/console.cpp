#include "banyan/observe/console.hpp"

#include <glog/logging.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iomanip>
#include <sstream>

#include "banyan/base/log.hpp"

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

/// A message of the rooms that do not use glog, with their place in the code.
void to_glog(Severity severity, const std::string& message, const std::source_location& where) {
  const google::LogSeverity level = severity == Severity::info      ? google::GLOG_INFO
                                    : severity == Severity::warning ? google::GLOG_WARNING
                                                                    : google::GLOG_ERROR;
  google::LogMessage(where.file_name(), static_cast<int>(where.line()), level).stream() << message;
}

/// glog's own output goes to a sink only; writing from here keeps log lines and the status line apart.
class ConsoleSink : public LogRoute, google::LogSink {
 public:
  explicit ConsoleSink(Console& console) : console_(console) {
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
    std::string text = prefix(severity, file, line, time) + console_.origin();
    text.append(message, length);
    if (console_.is_terminal() && severity > google::GLOG_INFO)
      text = (severity == google::GLOG_WARNING ? "\x1b[33m" : "\x1b[31m") + text + "\x1b[m";
    console_.print(text + "\n");
  }

 private:
  Console& console_;
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
  if (!shows_status_) return;
  const std::lock_guard lock(mutex_);
  if (line.empty() && status_.empty()) return;
  status_ = line;
  write_out(kEraseLine + drawn());
}

std::unique_ptr<LogRoute> route_logs(const char* program, Console& console) {
  google::InitGoogleLogging(program);
  return std::make_unique<ConsoleSink>(console);
}

}  // namespace banyan
