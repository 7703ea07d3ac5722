// Scripts that compare with programs in Python. BANYAN_PYTHON names the Python (default python3).
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace banyan {

struct ScriptRun {
  bool lacks_modules = false;  ///< or there is no Python
  int code = 0;                ///< with which it has exited
  std::string report;          ///< what it has written
};

/// Runs SCRIPT of tests/ with `arguments`, as they are in a shell; `log` is a file for what it writes. Such a
/// script exits with 77 where a module is missing.
inline ScriptRun run_python(const std::string& script, const std::string& arguments, const std::string& log) {
  const char* python = std::getenv("BANYAN_PYTHON");
  const int status =
      std::system(("'" + std::string(python != nullptr ? python : "python3") +
                   "' -B '" BANYAN_SOURCE "/tests/" + script + "' " + arguments + " > '" + log + "' 2>&1")
                      .c_str());
  constexpr int kNoModule = 77, kNoPython = 127;
  ScriptRun run;
  run.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  run.lacks_modules = run.code == kNoModule || run.code == kNoPython;
  std::ostringstream report;
  report << std::ifstream(log).rdbuf();
  run.report = report.str();
  return run;
}

}  // namespace banyan
