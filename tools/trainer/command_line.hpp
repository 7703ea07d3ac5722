// The trainer's command line as one table. --help, the shells' completion and the man page are made from it,
// and it decides which words a flag takes and which commands it goes with. Type, default and description of a
// flag are gflags'.
#pragma once

#include <gflags/gflags.h>

#include <string>
#include <vector>

namespace banyan::tools {

/// What a flag or an argument may be.
struct ValueForm {
  std::string what = {};                ///< in capitals, as in --solver=FILE; "": see words
  std::vector<std::string> words = {};  ///< words with a meaning; nothing else is taken if `what` is ""
  std::vector<std::string> endings =
      {};             ///< of the files that it takes; {""}: any file; none: it takes no files
  bool list = false;  ///< several, with commas between them

  bool words_only() const { return what.empty() && !words.empty(); }
  bool is_switch() const { return what.empty() && words.empty(); }
  /// As --help shows it after `--name`: "", "=FILE", "=latest|FILE", "=on|off".
  std::string text() const;
};
/// On or off: takes no value.
ValueForm toggle();
ValueForm one_of(std::vector<std::string> words);
/// A number, a name, a list.
ValueForm some(const std::string& what, std::vector<std::string> words = {});
ValueForm file(std::vector<std::string> endings, std::vector<std::string> words = {});
ValueForm files(std::vector<std::string> endings);

struct FlagRow {
  std::string name;
  ValueForm value;
  std::vector<std::string> commands = {};  ///< that it goes with; none: all
};

struct CommandRow {
  std::string name, arguments, about;
  std::size_t least = 0, most = 0;  ///< arguments after the command
  ValueForm argument = {};          ///< what each of them may be
  std::string details = {};         ///< sentences for those who ask about this command
};

struct CommandLine {
  std::string program, about;
  std::vector<CommandRow> commands;  ///< the first is the default
  std::vector<FlagRow> flags;
  std::vector<FlagRow> library_flags;  ///< of libraries; they go with all commands
  std::vector<std::string> examples;
  std::vector<std::pair<int, std::string>> exit_codes;
};

gflags::CommandLineFlagInfo info_of(const FlagRow& flag);
bool goes_with(const FlagRow& flag, const std::string& command);
/// The command of that name; throws bad_input with the nearest ones.
const CommandRow& command_named(const CommandLine& line, const std::string& name);
/// The row of a flag. A runtime failure if there is none: the table lacks it.
const FlagRow& flag_named(const CommandLine& line, const std::string& name);
/// Throws bad_input for flags that were given and do not go with the command, for words that a flag does not
/// know, and for too few or too many arguments.
void check_usage(const CommandLine& line, const CommandRow& command,
                 const std::vector<std::string>& arguments);
/// The flags by the commands that they go with: `train, time` and theirs.
std::vector<std::pair<std::string, std::vector<const FlagRow*>>> groups_of(const CommandLine& line);

/// Of all commands, or of one.
std::string help_text(const CommandLine& line);
std::string help_text(const CommandLine& line, const CommandRow& command);
/// In roff, for man.
std::string man_page(const CommandLine& line, const std::string& version);
/// What bash or zsh reads to complete the program's command lines.
std::string bash_completion(const CommandLine& line);
std::string zsh_completion(const CommandLine& line);

}  // namespace banyan::tools
