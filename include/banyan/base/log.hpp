// Messages for the person who runs the program, from rooms that do not know how it logs.
#pragma once

#include <cstdint>
#include <source_location>
#include <string>

namespace banyan {

enum class Severity : std::uint8_t { info, warning, error };

/// May be called by several threads at once. `where` is the line of code that reports.
using LogSink = void (*)(Severity severity, const std::string& message, const std::source_location& where);

/// Where all messages go from now on. nullptr (the initial state): to standard error, one per line.
void set_log_sink(LogSink sink);

void log_info(const std::string& message,
              const std::source_location& where = std::source_location::current());
void log_warning(const std::string& message,
                 const std::source_location& where = std::source_location::current());
void log_error(const std::string& message,
               const std::source_location& where = std::source_location::current());

}  // namespace banyan
