#include "device/sibling_library.hpp"

#include <dlfcn.h>
#include <unistd.h>

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

}  // namespace banyan
