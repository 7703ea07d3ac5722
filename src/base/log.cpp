#include "banyan/base/log.hpp"

#include <atomic>
#include <iostream>

namespace banyan {
namespace {

std::atomic<LogSink> the_sink{nullptr};

void report(Severity severity, const std::string& message, const std::source_location& where) {
  if (const LogSink sink = the_sink)
    sink(severity, message, where);
  else
    std::cerr << message + "\n";
}

}  // namespace

void set_log_sink(LogSink sink) { the_sink = sink; }

void log_info(const std::string& message, const std::source_location& where) {
  report(Severity::info, message, where);
}
void log_warning(const std::string& message, const std::source_location& where) {
  report(Severity::warning, message, where);
}
void log_error(const std::string& message, const std::source_location& where) {
  report(Severity::error, message, where);
}

}  // namespace banyan
