// Shared by the data-set tools: flags (gflags, with errors that end in exit code 2 and a readable --help),
// exit codes and a progress line on a terminal.
#pragma once

#include <gflags/gflags.h>
#include <glog/logging.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <iterator>
#include <new>
#include <string>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan::tools {

struct Tool {
  std::string name;       ///< convert_mnist
  std::string arguments;  ///< IMAGES LABELS DB
  std::string about;      ///< one paragraph
  std::string example;
  std::size_t least = 0, most = 0;  ///< positional arguments
  std::function<void(const std::vector<std::string>&)> run;
  std::vector<std::string> other_flags = {};  ///< flags of libraries that are accepted too (glog's)
};

/// Flags that the tool's own file defines.
inline std::vector<gflags::CommandLineFlagInfo> own_flags(const Tool& tool) {
  std::vector<gflags::CommandLineFlagInfo> all, own;
  gflags::GetAllFlags(&all);
  for (const auto& flag : all) {
    const std::string file = flag.filename.substr(flag.filename.find_last_of('/') + 1);
    if (file == tool.name + ".cpp") own.push_back(flag);
  }
  return own;
}

inline void print_help(const Tool& tool) {
  std::cout << "Usage: " << tool.name << " [flags] " << tool.arguments << "\n\n"
            << tool.about << "\n\nFlags:\n";
  for (const auto& flag : own_flags(tool)) {
    std::string left = "  --" + flag.name;
    if (flag.type != "bool") left += "=" + (flag.type == "string" ? std::string("TEXT") : std::string("N"));
    left.resize(std::max<std::size_t>(left.size() + 2, 26), ' ');
    std::cout << left << flag.description;
    if (flag.type != "bool" && !flag.default_value.empty())
      std::cout << " (default " << flag.default_value << ")";
    std::cout << "\n";
  }
  std::cout << "  --help                  this text\n\nExample: " << tool.example
            << "\nExit codes: 0 done, 1 failed while running, 2 bad input or usage.\n";
}

/// Sets the flags and returns the positional arguments; throws bad_input. Flags may stand anywhere before
/// "--", and be written with - for _. After --help nothing more is set or checked.
inline std::vector<std::string> parse(const Tool& tool, int argc, char** argv, bool& help) {
  std::vector<std::string> positional, names;
  for (const auto& flag : own_flags(tool)) names.push_back(flag.name);
  names.insert(names.end(), tool.other_flags.begin(), tool.other_flags.end());
  const auto known = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--") {
      positional.insert(positional.end(), argv + i + 1, argv + argc);
      break;
    }
    if (argument.size() < 2 || argument[0] != '-') {
      positional.push_back(argument);
      continue;
    }
    const std::size_t equals = argument.find('=');
    std::string name = argument.substr(argument[1] == '-' ? 2 : 1), value;
    if (equals != std::string::npos) {
      value = argument.substr(equals + 1);
      name.resize(name.find('='));
    }
    std::replace(name.begin(), name.end(), '-', '_');
    if (name == "help" || name == "h") {
      help = true;
      std::copy_if(argv + i + 1, argv + argc, std::back_inserter(positional),
                   [](const char* word) { return word[0] != '-'; });
      return positional;
    }
    bool has_value = equals != std::string::npos;
    if (!known(name) && name.rfind("no", 0) == 0 && known(name.substr(2)) && !has_value) {
      name = name.substr(2);
      value = "false";
      has_value = true;
    }
    if (!known(name))
      bad_input("unknown flag --", name, did_you_mean(name, names), "; see ", tool.name, " --help");
    if (!has_value && gflags::GetCommandLineFlagInfoOrDie(name.c_str()).type == "bool")
      value = "true";
    else if (!has_value && ++i == argc)
      bad_input("flag --", name, " needs a value");
    else if (!has_value)
      value = argv[i];
    if (gflags::SetCommandLineOption(name.c_str(), value.c_str()).empty())
      bad_input("flag --", name, " cannot be ", banyan::quoted(value));
  }
  if (positional.size() < tool.least || positional.size() > tool.most)
    bad_input("expected ", tool.arguments, ", found ", positional.size(), " arguments; see ", tool.name,
              " --help");
  return positional;
}

inline int run_tool(int argc, char** argv, const Tool& tool) {
  FLAGS_logtostderr = true;
  FLAGS_log_year_in_prefix = false;  // the prefix that Caffe log parsers expect
  google::InitGoogleLogging(argv[0]);
  try {
    bool help = false;
    const std::vector<std::string> arguments = parse(tool, argc, argv, help);
    if (help)
      print_help(tool);
    else
      tool.run(arguments);
    return 0;
  } catch (const Error& error) {
    std::cerr << tool.name << ": " << error.what() << "\n";
    return exit_code(error.kind());
  } catch (const std::bad_alloc&) {
    std::cerr << tool.name << ": out of memory\n";
  } catch (const std::exception& error) {
    std::cerr << tool.name << ": " << error.what() << "\n";
  }
  return 1;
}

/// An output file that exists, the input itself included, is kept.
inline void expect_absent(const std::string& path, bool overwrite) {
  if (!overwrite && std::filesystem::exists(path))
    bad_input(banyan::quoted(path), " exists; remove it, or pass --overwrite");
}

/// `12000 of 60000` on a terminal's stderr, redrawn a few times per second; nothing elsewhere.
class Progress {
 public:
  Progress(std::string what, std::uint64_t all)
      : what_(std::move(what)), all_(all), shown_(isatty(STDERR_FILENO) == 1) {}
  ~Progress() {
    if (drawn_) std::fprintf(stderr, "\r\033[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void step() {
    ++done_;
    if (!shown_) return;
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(200)) return;
    last_ = now;
    drawn_ = true;
    std::fprintf(stderr, "\r\033[K%s: %llu of %llu", what_.c_str(), static_cast<unsigned long long>(done_),
                 static_cast<unsigned long long>(all_));
    std::fflush(stderr);
  }

 private:
  std::string what_;
  std::uint64_t all_, done_ = 0;
  bool shown_, drawn_ = false;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// 00000017
inline std::string eight_digits(std::uint64_t number) {
  std::string text = std::to_string(number);
  return text.size() < 8 ? std::string(8 - text.size(), '0') + text : text;
}

}  // namespace banyan::tools
