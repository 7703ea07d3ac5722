#include "banyan/base/companion.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include "banyan/base/error.hpp"

namespace banyan {
namespace {

std::string path_of(const Companion& companion) {
  Dl_info self;
  if (dladdr(reinterpret_cast<const void*>(&has_companion), &self) == 0 || self.dli_fname == nullptr)
    return "";
  std::string path = self.dli_fname;
  const auto slash = path.rfind('/');
  path = (slash == std::string::npos ? std::string() : path.substr(0, slash + 1)) + companion.file;
  return access(path.c_str(), R_OK) == 0 ? path : "";
}

}  // namespace

bool has_companion(const Companion& companion) { return !path_of(companion).empty(); }

void* load_companion(const Companion& companion, const char* symbol, std::string& why) {
  const std::string path = path_of(companion);
  if (path.empty()) {
    why = cat("this build has no ", companion.what, " (", companion.file, ")");
    return nullptr;
  }
  // Global, so that its copies of inline variables, such as the operators, are the program's. Never unloaded:
  // what it registered stays.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    why = cat("cannot load the ", companion.what, ": ", dlerror());
    return nullptr;
  }
  void* function = dlsym(library, symbol);
  if (function == nullptr) why = cat(path, " is not a ", companion.what, ": it lacks ", symbol);
  return function;
}

}  // namespace banyan
