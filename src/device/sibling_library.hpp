// Libraries of this build that are loaded at run time.
#pragma once

#include <string>

namespace banyan {

/// Path of the library with this file name in the folder of libbanyan.so; "" if there is none.
std::string sibling_library(const std::string& name);

/// Loads the library, `what` in words, for good and for all to see, and returns the address of its function
/// `symbol`; nullptr, with the reason in `why`, if that is impossible.
void* load_sibling(const std::string& name, const char* what, const char* symbol, std::string& why);

}  // namespace banyan
