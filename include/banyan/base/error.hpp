// Banyan's only exception type. A message says what was expected and what was found; as it propagates, each
// part of the program adds its place. The kind decides the exit code of the tools.
#pragma once

#include <exception>
#include <sstream>
#include <string>

namespace banyan {

enum class ErrorKind {
  bad_input,  ///< the user's files, flags or data are wrong
  runtime,    ///< something failed while running (memory, disk, device)
  aborted,    ///< another device failed first; carries no information
};

inline int exit_code(ErrorKind kind) { return kind == ErrorKind::bad_input ? 2 : 1; }

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message);

  ErrorKind kind() const { return kind_; }
  /// The message only, without the places added by add_context.
  const std::string& message() const { return message_; }
  /// Message followed by one indented line for each context, innermost first.
  const char* what() const noexcept override { return full_.c_str(); }
  /// Adds a place, such as `while running layer "conv2" forward on cpu:1, iteration 37`.
  void add_context(const std::string& where);

 private:
  ErrorKind kind_;
  std::string message_;
  std::string full_;
};

/// Concatenates anything that can be streamed.
template <class... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class... Parts>
[[noreturn]] void bad_input(const Parts&... parts) {
  throw Error(ErrorKind::bad_input, cat(parts...));
}

template <class... Parts>
[[noreturn]] void runtime_failure(const Parts&... parts) {
  throw Error(ErrorKind::runtime, cat(parts...));
}

}  // namespace banyan
