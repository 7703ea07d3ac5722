// Programs run as a user runs them, in a folder of their own.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <sstream>
#include <string>

#include "data/data_test_tools.hpp"

namespace banyan::tools {

struct Result {
  int code = -1;
  std::string output;  ///< both streams
};

class ProgramTest : public data::FolderTest {
 protected:
  /// Runs `command`, a program of ours with its arguments, in the test's folder.
  Result run(const std::string& command, const std::string& environment = "") const {
    Result result;
    const std::string line =
        "cd '" + folder_ + "' && " + environment + " '" BANYAN_BIN "'/" + command + " 2>&1";
    std::FILE* pipe = ::popen(line.c_str(), "r");
    if (pipe == nullptr) return result;
    char buffer[4096];
    while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe))
      result.output.append(buffer, got);
    const int status = ::pclose(pipe);
    if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
    return result;
  }
  void expect_done(const std::string& command) const {
    const Result result = run(command);
    EXPECT_EQ(result.code, 0) << command << "\n" << result.output;
  }
  /// Exit code 2 and `message`, after the program's name.
  void expect_bad_input(const std::string& command, const std::string& message) const {
    expect_failure(command, message, 2);
  }
  void expect_failure(const std::string& command, const std::string& message, int code) const {
    const Result result = run(command);
    EXPECT_EQ(result.code, code) << command << "\n" << result.output;
    EXPECT_THAT(result.output, testing::HasSubstr(message)) << command;
    const std::string program = command.substr(0, command.find(' '));
    EXPECT_THAT(result.output, testing::HasSubstr(program + ": ")) << command;
  }
  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path(name), std::ios::binary).rdbuf();
    return text.str();
  }
  void write(const std::string& name, const std::string& bytes) const { data::write_file(path(name), bytes); }
};

}  // namespace banyan::tools
