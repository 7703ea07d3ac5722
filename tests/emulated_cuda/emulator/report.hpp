// Violations of CUDA's rules, notes, and their stacks.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

namespace emulated {

struct Operation;

/// Return addresses of the calling thread, innermost first.
std::vector<void*> take_stack();
/// "library(function+offset)" per line, demangled.
std::string describe_stack(const std::vector<void*>& stack);

/// Prints what is wrong, the operation that the calling thread is running (with kernel, GPU, stream, CUDA
/// thread, and the host's stack when it was enqueued) and the calling thread's own stack; then aborts, unless
/// on_violation=report.
void violation(const std::string& what);
/// Violations so far (on_violation=report).
std::uint64_t violations();

template <class... Parts>
[[gnu::noinline]] void complain(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  violation(out.str());
}

/// Something allowed that deserves a look; printed once per text.
void note(const std::string& text);

/// A kernel's name: its demangled symbol.
std::string name_of_function(const void* function);

}  // namespace emulated
