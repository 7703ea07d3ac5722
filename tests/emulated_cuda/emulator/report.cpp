#include "report.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>

#include "machine.hpp"

namespace emulated {

namespace {

std::atomic<std::uint64_t> violations_so_far{0};

std::string demangled(const char* symbol) {
  int status = 0;
  char* text = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  std::string name = status == 0 ? text : symbol;
  std::free(text);
  return name;
}

}  // namespace

std::vector<void*> take_stack() {
  const Quiet quiet;
  std::vector<void*> frames(32);
  frames.resize(static_cast<std::size_t>(backtrace(frames.data(), static_cast<int>(frames.size()))));
  return frames;
}

std::string describe_stack(const std::vector<void*>& stack) {
  std::ostringstream out;
  for (void* frame : stack) {
    Dl_info info{};
    const bool found = dladdr(frame, &info) != 0;
    std::string file = found && info.dli_fname != nullptr ? info.dli_fname : "?";
    file = file.substr(file.rfind('/') + 1);
    out << "    " << file << ": ";
    if (found && info.dli_sname != nullptr)
      out << demangled(info.dli_sname) << " + "
          << static_cast<char*>(frame) - static_cast<char*>(info.dli_saddr) << "\n";
    else
      out << (found ? static_cast<char*>(frame) - static_cast<char*>(info.dli_fbase) : 0) << "\n";
  }
  return out.str();
}

std::string name_of_function(const void* function) {
  const Quiet quiet;
  static auto* const mutex = new std::mutex;
  static auto* const known = new std::map<const void*, std::string>;
  const std::lock_guard<std::mutex> lock(*mutex);
  std::string& name = (*known)[function];
  if (name.empty()) {
    Dl_info info{};
    name = dladdr(function, &info) != 0 && info.dli_sname != nullptr ? demangled(info.dli_sname)
                                                                     : "a kernel without a symbol";
    // "void banyan::ops::kernels::f<A>(long, A)": only the name.
    if (name.rfind("void ", 0) == 0) name.erase(0, 5);
    int depth = 0;
    for (std::size_t i = 0; i < name.size(); ++i) {
      depth += name[i] == '<' ? 1 : name[i] == '>' ? -1 : 0;
      if (name[i] == '(' && depth == 0 && name.compare(i, 21, "(anonymous namespace)") != 0) {
        name.resize(i);
        break;
      }
    }
  }
  return name;
}

void violation(const std::string& what) {
  const Quiet quiet;
  ++violations_so_far;
  std::ostringstream out;
  out << "\nEMULATED CUDA VIOLATION: " << what << "\n";
  if (running != nullptr) {
    const Operation& operation = *running->operation();
    out << "  while running: " << operation.name << ", number " << operation.number << " of stream "
        << operation.stream->actor << " of gpu:" << operation.gpu << "\n";
    if (!operation.stack.empty()) out << "  enqueued by:\n" << describe_stack(operation.stack);
  } else {
    out << "  called by (gpu:" << current_device << " is current):\n" << describe_stack(take_stack());
  }
  std::fputs(out.str().c_str(), stderr);
  std::fflush(stderr);
  if (!settings().report) std::abort();
}

std::uint64_t violations() { return violations_so_far.load(); }

void note(const std::string& text) {
  if (!settings().notes) return;
  const Quiet quiet;
  static auto* const mutex = new std::mutex;
  static auto* const told = new std::set<std::string>;
  const std::lock_guard<std::mutex> lock(*mutex);
  if (told->insert(text).second) std::fprintf(stderr, "EMULATED CUDA note: %s\n", text.c_str());
}

}  // namespace emulated
