#include "command_line.hpp"

#include <algorithm>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan::tools {
namespace {

constexpr std::size_t kLeftColumn = 27;

bool given(const FlagRow& flag) { return !info_of(flag).is_default; }

/// `  --solver=FILE  the solver (.prototxt)`
std::string help_line(const FlagRow& flag) {
  const auto info = info_of(flag);
  std::string line = "  --" + flag.name + flag.value.text();
  line.resize(std::max(line.size() + 2, kLeftColumn), ' ');
  line += info.description;
  if (!flag.value.is_switch() && !info.default_value.empty())
    line += cat(" (default ", info.default_value, ")");
  return line + "\n";
}

std::string exit_codes_line(const CommandLine& line) {
  std::vector<std::string> items;
  for (const auto& [code, meaning] : line.exit_codes) items.push_back(cat(code, " ", meaning));
  return "Exit codes: " + join(items, ", ") + ".\n";
}

void check_words(const FlagRow& flag, const std::string& value) {
  const auto& words = flag.value.words;
  if (!flag.value.words_only() || contains(words, value)) return;
  if (value.empty() && info_of(flag).default_value.empty()) return;
  bad_input("--", flag.name, "=", value, ": expected ", join(words, ", "), did_you_mean(value, words));
}

}  // namespace

std::string ValueForm::text() const {
  constexpr std::size_t kMostShown = 8;
  if (is_switch()) return "";
  std::vector<std::string> choices;
  if (what.empty() || words.size() <= kMostShown) choices = words;
  if (!what.empty()) choices.push_back(list ? what + ",..." : what);
  return "=" + join(choices, "|");
}

ValueForm toggle() { return {}; }
ValueForm one_of(std::vector<std::string> words) { return {.words = std::move(words)}; }
ValueForm some(const std::string& what, std::vector<std::string> words) {
  return {.what = what, .words = std::move(words)};
}
ValueForm file(std::vector<std::string> endings, std::vector<std::string> words) {
  return {.what = "FILE", .words = std::move(words), .endings = std::move(endings)};
}
ValueForm files(std::vector<std::string> endings) {
  return {.what = "FILE", .endings = std::move(endings), .list = true};
}

gflags::CommandLineFlagInfo info_of(const FlagRow& flag) {
  return gflags::GetCommandLineFlagInfoOrDie(flag.name.c_str());
}

bool goes_with(const FlagRow& flag, const std::string& command) {
  return flag.commands.empty() || contains(flag.commands, command);
}

const CommandRow& command_named(const CommandLine& line, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& command : line.commands) {
    if (name == command.name) return command;
    names.push_back(command.name);
  }
  bad_input("unknown command ", quoted(name),
            "; commands, nearest first: ", join(nearest_first(name, names), ", "), "; see ", line.program,
            " --help");
}

const FlagRow& flag_named(const CommandLine& line, const std::string& name) {
  for (const auto* rows : {&line.flags, &line.library_flags})
    for (const auto& row : *rows)
      if (row.name == name) return row;
  runtime_failure("--", name, " is not in the table of the command line");
}

void check_usage(const CommandLine& line, const CommandRow& command,
                 const std::vector<std::string>& arguments) {
  for (const auto& flag : line.flags) {
    if (!given(flag)) continue;
    if (!goes_with(flag, command.name))
      bad_input("--", flag.name, " does not go with ", command.name, "; it goes with ",
                join(flag.commands, ", "));
    check_words(flag, info_of(flag).current_value);
  }
  if (arguments.size() < command.least || arguments.size() > command.most)
    bad_input("expected ", command.name, command.arguments.empty() ? "" : " ", command.arguments, ", found ",
              arguments.size(), arguments.size() == 1 ? " argument" : " arguments", " after it; see ",
              line.program, " ", command.name, " --help");
  const std::vector<std::string>& words = command.argument.words;
  for (const std::string& argument : arguments)
    if (command.argument.words_only() && !contains(words, argument))
      bad_input(command.name, " ", argument, ": expected ", join(words, ", "), did_you_mean(argument, words));
}

std::vector<std::pair<std::string, std::vector<const FlagRow*>>> groups_of(const CommandLine& line) {
  std::vector<std::pair<std::string, std::vector<const FlagRow*>>> groups;
  for (const auto& flag : line.flags) {
    const std::string title = flag.commands.empty() ? "all commands" : join(flag.commands, ", ");
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](const auto& one) { return one.first == title; });
    if (group == groups.end()) group = groups.insert(groups.end(), {title, {}});
    group->second.push_back(&flag);
  }
  // What goes with all commands is read last.
  std::stable_partition(groups.begin(), groups.end(),
                        [](const auto& group) { return !group.second[0]->commands.empty(); });
  return groups;
}

std::string help_text(const CommandLine& line) {
  std::string text = cat("Usage: ", line.program, " [command] [flags]\n\nCommands:\n");
  for (const auto& command : line.commands) {
    std::string name = command.name;
    name.resize(16, ' ');
    text += "  " + name + command.about + "\n";
  }
  for (const auto& [title, flags] : groups_of(line)) {
    text += "\nFlags: " + title + "\n";
    for (const FlagRow* flag : flags) text += help_line(*flag);
  }
  text += "\nFlags of glog: ";
  std::vector<std::string> names;
  for (const auto& flag : line.library_flags) names.push_back("--" + flag.name);
  text += join(names, ", ") + "\n\nExamples:\n";
  for (const auto& example : line.examples) text += "  " + example + "\n";
  return text + exit_codes_line(line);
}

std::string help_text(const CommandLine& line, const CommandRow& command) {
  std::string text = cat("Usage: ", line.program, " ", command.name, command.arguments.empty() ? "" : " ",
                         command.arguments, " [flags]\n\n", command.name, ": ", command.about, "\n");
  if (!command.details.empty()) text += "\n" + command.details + "\n";
  for (const bool of_all : {false, true}) {
    bool first = true;
    for (const auto& flag : line.flags) {
      if (!goes_with(flag, command.name) || flag.commands.empty() != of_all) continue;
      if (first) text += of_all ? "\nFlags of all commands:\n" : "\nFlags:\n";
      first = false;
      text += help_line(flag);
    }
  }
  std::string examples;
  for (const auto& example : line.examples)
    if (example.starts_with(cat(line.program, " ", command.name, " "))) examples += "  " + example + "\n";
  if (!examples.empty()) text += "\nExamples:\n" + examples;
  return text + exit_codes_line(line);
}

}  // namespace banyan::tools
