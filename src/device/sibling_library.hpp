// Libraries of this build that are loaded at run time.
#pragma once

#include <string>

namespace banyan {

/// Path of the library with this file name in the folder of libbanyan.so; "" if there is none.
std::string sibling_library(const std::string& name);

}  // namespace banyan
