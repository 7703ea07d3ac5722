// Libraries of this build that are loaded at run time.
#pragma once

#include <string>

#include "banyan/base/error.hpp"

namespace banyan {

/// Path of the library with this file name in the folder of libbanyan.so; "" if there is none.
std::string sibling_library(const std::string& name);

/// Loads the library, `what` in words, for good and for all to see, and returns the address of its function
/// `symbol`; nullptr, with the reason in `why`, if that is impossible.
void* load_sibling(const std::string& name, const char* what, const char* symbol, std::string& why);

/// A back end in a library of its own: the table of its functions.
template <typename Backend>
struct LoadedBackend {
  const Backend* table = nullptr;
  std::string why;  ///< the reason for a null table
};

/// As load_sibling; the function called `symbol` takes nothing and returns the table.
template <typename Backend>
LoadedBackend<Backend> load_backend(const std::string& name, const char* what, const char* symbol) {
  LoadedBackend<Backend> loaded;
  const auto function = reinterpret_cast<const Backend* (*)()>(load_sibling(name, what, symbol, loaded.why));
  if (function == nullptr) return loaded;
  loaded.table = function();
  if (loaded.table == nullptr || loaded.table->version != Backend::kVersion)
    return {nullptr, cat(sibling_library(name), " belongs to another build of Banyan")};
  return loaded;
}

/// As load_backend, for a library that every folder of this build has, so that without it the folder is not
/// complete.
template <typename Backend>
LoadedBackend<Backend> load_part(const std::string& name, const char* what, const char* symbol) {
  if (sibling_library(name).empty())
    return {nullptr, cat(name, " is missing: it belongs into the folder of libbanyan.so")};
  return load_backend<Backend>(name, what, symbol);
}

}  // namespace banyan
