#include "base/sibling_library.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include "banyan/base/error.hpp"

namespace banyan {

std::string sibling_library(const std::string& name) {
  Dl_info self;
  if (dladdr(reinterpret_cast<const void*>(&sibling_library), &self) == 0 || self.dli_fname == nullptr)
    return "";
  const std::string ours = self.dli_fname;
  const auto slash = ours.rfind('/');
  const std::string file = (slash == std::string::npos ? std::string() : ours.substr(0, slash + 1)) + name;
  return access(file.c_str(), R_OK) == 0 ? file : "";
}

void* load_sibling(const std::string& name, const char* what, const char* symbol, std::string& why) {
  const std::string file = sibling_library(name);
  if (file.empty()) {
    why = cat("this build has no ", what, " (", name, ")");
    return nullptr;
  }
  // Global, so that its copies of inline variables, such as the operators, are the program's. Never unloaded:
  // what it registered stays.
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    why = cat("cannot load the ", what, ": ", dlerror());
    return nullptr;
  }
  void* function = dlsym(library, symbol);
  if (function == nullptr) why = cat(file, " is not a ", what, ": it lacks ", symbol);
  return function;
}

}  // namespace banyan
