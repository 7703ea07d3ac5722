#include "layers/python_program.hpp"

#include "base/sibling_library.hpp"
#include "layers/python_backend.hpp"

namespace banyan {
namespace {

const LoadedBackend<PythonBackend>& python_backend() {
  constexpr const char* kLibrary = "libbanyan_pybind11.so";
  static const auto loaded =
      load_part<PythonBackend>(kLibrary, "part for Python (libbanyan_pybind11.so)", kPythonBackendSymbol);
  return loaded;
}

#ifdef BANYAN_WITH_PYBIND11
constexpr bool kHasPython = true;
#else
constexpr bool kHasPython = false;
#endif

}  // namespace

std::unique_ptr<PythonProgram> make_python_program(const PythonProgramOptions& options) {
  if (const std::string why = why_no_python(options.module); !why.empty())
    bad_input("layer ", quoted(options.name), " (Python, module ", quoted(options.module), ", layer ",
              quoted(options.layer), "): ", why);
  return python_backend().table->make(options);
}

std::string why_no_python(const std::string& module) {
  if (!kHasPython)
    return "this build of Banyan runs no Python: install python3-dev, pybind11-dev and python3-numpy, and "
           "build "
           "again";
  if (python_backend().table == nullptr) return python_backend().why;
  return python_backend().table->why_not(module);
}

}  // namespace banyan
