// The interface between libbanyan and what runs Python, a separate library (libbanyan_pybind11.so). The
// library exports one C function, `banyan_python_backend`, which returns this table.
#pragma once

#include "layers/python_program.hpp"

namespace banyan {

struct PythonBackend {
  /// Counts changes to this struct, to PythonProgram and PythonProgramOptions: a library from another build
  /// is refused, not called.
  static constexpr int kVersion = 1;
  int version;
  std::unique_ptr<PythonProgram> (*make)(const PythonProgramOptions& options);
  /// As why_no_python().
  std::string (*why_not)(const std::string& module);
};

inline constexpr const char* kPythonBackendSymbol = "banyan_python_backend";
/// Type of the exported function: `extern "C" const banyan::PythonBackend* banyan_python_backend();`

}  // namespace banyan
