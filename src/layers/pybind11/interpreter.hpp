// The interpreter of this process, its module `caffe`, and what Python raises, in words.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

namespace banyan {

/// Starts Python, once. Throws bad_input if that fails, again each time.
void ensure_python();

/// "ValueError: ..., in setup (file.py, line 3), in helper (other.py, line 8)". Needs the lock.
std::string text_of(pybind11::error_already_set& raised);

}  // namespace banyan
