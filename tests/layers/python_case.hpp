// Layers in Python for tests: those of tests/layers/python.
#pragma once

#include <cstdlib>
#include <string>

#include "banyan/base/text.hpp"
#include "layers/python_program.hpp"

namespace banyan {

/// Before any test: the first layer in Python starts it, whoever makes that.
inline const int kTestLayersAreFound =
    setenv("PYTHONPATH", BANYAN_SOURCE "/tests/layers/python", 1) + setenv("PYTHONDONTWRITEBYTECODE", "1", 1);

/// Why the layers cannot run, or "".
inline std::string why_no_test_layers() {
  const std::string why = why_no_python("layers_of_tests");
  return why.find("there is no module") == std::string::npos ? why : "";
}

/// Type and settings; `more` goes into python_param.
inline std::string python_text(const std::string& layer, const std::string& settings = "",
                               const std::string& more = "", const std::string& module = "layers_of_tests") {
  return cat("type: 'Python' python_param { module: '", module, "' layer: '", layer, "' param_str: '",
             settings, "' ", more, " } ");
}

}  // namespace banyan
