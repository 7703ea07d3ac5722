// A library of ours that is loaded on request, so that programs start without what it depends on.
#pragma once

#include <string>

namespace banyan {

struct Companion {
  const char* what;  ///< "CUDA back end"
  const char* file;  ///< "libbanyan_cuda.so", in the folder of libbanyan
};

/// Was it built and installed?
bool has_companion(const Companion& companion);

/// Loads it for good and returns the address of its function `symbol`; nullptr, with the reason in `why`, if
/// that is impossible.
void* load_companion(const Companion& companion, const char* symbol, std::string& why);

}  // namespace banyan
