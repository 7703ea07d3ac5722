// The command line as scripts from which bash and zsh complete it.
#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "command_line.hpp"

namespace banyan::tools {
namespace {

/// The rows that a command takes, in the order of the table.
std::vector<const FlagRow*> flags_of(const CommandLine& line, const CommandRow& command) {
  std::vector<const FlagRow*> flags;
  for (const auto& flag : line.flags)
    if (goes_with(flag, command.name)) flags.push_back(&flag);
  for (const auto& flag : line.library_flags) flags.push_back(&flag);
  return flags;
}

std::vector<const FlagRow*> all_flags(const CommandLine& line) {
  std::vector<const FlagRow*> flags;
  for (const auto* rows : {&line.flags, &line.library_flags})
    for (const auto& row : *rows) flags.push_back(&row);
  return flags;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// As one word of a shell.
std::string shell_quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

// --- bash

/// The calls that find the words and files that a value may be; "" if nothing is known about it.
std::string bash_values(const ValueForm& value) {
  std::vector<std::string> calls;
  if (value.list) calls.emplace_back("_PROGRAM_last_of_list");
  if (!value.words.empty()) calls.push_back("_PROGRAM_words " + shell_quoted(join(value.words, " ")));
  if (!value.endings.empty()) {
    std::string call = "_PROGRAM_files";
    for (const auto& ending : value.endings) call += " " + shell_quoted(ending);
    calls.push_back(call);
  }
  return join(calls, "; ");
}

constexpr const char* kBashFunctions = R"bash(
# What follows adds to `found` what may stand in place of `begun`, each with `lead` before it.
_PROGRAM_words() {
  local one
  for one in $1; do
    [[ $one == "$begun"* ]] && found+=("$lead$one")
  done
}

# Folders, and files whose names end in one of the arguments.
_PROGRAM_files() {
  local path ending
  compopt -o filenames 2> /dev/null
  [[ $begun == '~/'* ]] && begun=$HOME/${begun:2}
  while IFS= read -r path; do
    if [[ -d $path ]]; then
      found+=("$lead$path/")
      continue
    fi
    for ending; do
      if [[ $path == *"$ending" ]]; then
        found+=("$lead$path")
        break
      fi
    done
  done < <(compgen -f -- "$begun")
}

# Only what follows the last comma is still to be found.
_PROGRAM_last_of_list() {
  local last=${begun##*,}
  lead+=${begun%"$last"}
  begun=$last
}

# The name of a flag, as the program reads it.
_PROGRAM_name() {
  local name=${1%%=*}
  name=${name#-}
  name=${name#-}
  printf '%s' "${name//-/_}"
}
)bash";

constexpr const char* kBashMain = R"bash(
_PROGRAM() {
  # COMP_WORDS is split at = and :, so the words are taken from the line. What is replaced in it is the end of
  # the last word, from `kept` on: after a character of COMP_WORDBREAKS or an opening quote.
  local line=${COMP_LINE:0:COMP_POINT} word='' quote='' inside='' kept=0 char i
  local -a words=()
  for ((i = 0; i < ${#line}; i++)); do
    char=${line:i:1}
    if [[ -n $quote ]]; then
      if [[ $char == "$quote" ]]; then quote=''; else word+=$char; fi
    elif [[ $char == [[:blank:]] ]]; then
      [[ -n $inside ]] && words+=("$word")
      word='' inside='' kept=0
      continue
    elif [[ $char == [\'\"] ]]; then
      quote=$char kept=${#word}
    elif [[ $char == \\ ]]; then
      i=$((i + 1))
      word+=${line:i:1}
    else
      word+=$char
      [[ $COMP_WORDBREAKS == *"$char"* ]] && kept=${#word}
    fi
    inside=1
  done

  local command='' flag='' part
  for part in "${words[@]:1}"; do
    if [[ -n $flag ]]; then
      flag=''  # this was its value
    elif [[ $part == -* ]]; then
      if [[ $part != *=* ]]; then
        flag=$(_PROGRAM_name "$part")
        _PROGRAM_takes_value "$flag" || flag=''
      fi
    elif [[ -z $command ]]; then
      command=$part
    fi
  done

  local lead='' begun=$word
  local -a found=()
  if [[ -n $flag ]]; then
    _PROGRAM_values "$flag"
  elif [[ $word == -*=* ]]; then
    lead=${word%%=*}= begun=${word#*=}
    _PROGRAM_values "$(_PROGRAM_name "$word")"
  elif [[ $word == -* ]]; then
    _PROGRAM_flags "$command"
  elif [[ -z $command ]]; then
    _PROGRAM_words "$_PROGRAM_commands"
  else
    _PROGRAM_arguments "$command"
  fi
  COMPREPLY=()
  for part in "${found[@]}"; do
    COMPREPLY+=("${part:kept}")
  done
  # A value or the rest of a path is still to come.
  [[ ${#found[@]} -eq 1 && ${found[0]} == *[=/] ]] && compopt -o nospace 2> /dev/null
  return 0
}

complete -F _PROGRAM PROGRAM
)bash";

std::string bash_case(const std::string& labels, const std::string& body) {
  return "    " + labels + ") " + body + " ;;\n";
}

// --- zsh

constexpr const char* kZshCommand = R"zsh(  )
  local command='' word name valued='' argument='*: : '
  for word in ${words[2,CURRENT-1]}; do
    name=${${${word#-}#-}//-/_}
    if [[ -n $valued ]]; then
      valued=''
    elif [[ $word == -*=* ]]; then
      continue
    elif [[ $word == -* ]]; then
      [[ ${about[$name]} == --$name=* ]] && valued=1
    else
      command=$word
      break
    fi
  done
  case $command in
)zsh";

/// In a description or a name of _arguments and _describe.
std::string zsh_escaped(std::string text) {
  for (const char* special : {"\\", "[", "]", ":"})
    text = replaced(text, special, std::string("\\") + special);
  return replaced(text, "\n", " ");
}

/// The function that completes a value; "" if nothing is known about it.
std::string zsh_function(const std::string& name, const ValueForm& value) {
  std::vector<std::string> ways;
  if (!value.words.empty()) ways.push_back(shell_quoted("words:word:(" + join(value.words, " ") + ")"));
  if (!value.endings.empty()) {
    std::vector<std::string> patterns;
    for (const auto& ending : value.endings) patterns.push_back("*" + ending);
    const std::string pattern = patterns.size() == 1 ? patterns[0] : "(" + join(patterns, "|") + ")";
    ways.push_back(
        shell_quoted(cat("files:file:_files ", value.list ? "-S \"\" " : "", "-g \"", pattern, "(-.)\"")));
  }
  if (ways.empty()) return "";
  // A list is completed after its last comma.
  return cat(name, "() {\n", value.list ? "  compset -P '*,'\n" : "", "  _alternative ", join(ways, " "),
             "\n}\n");
}

std::string zsh_spec(const FlagRow& flag) {
  const std::string about = "[" + zsh_escaped(info_of(flag).description) + "]";
  if (flag.value.is_switch()) return "--" + flag.name + about;
  const std::string what = flag.value.what.empty() ? "value" : flag.value.what;
  const bool known = !flag.value.words.empty() || !flag.value.endings.empty();
  return cat("--", flag.name, "=", about, ":", zsh_escaped(what), ":",
             known ? "_PROGRAM_value_" + flag.name : " ");
}

}  // namespace

std::string bash_completion(const CommandLine& line) {
  std::vector<std::string> commands, switches;
  for (const auto& command : line.commands) commands.push_back(command.name);
  std::string text =
      "# Completion of PROGRAM's command lines in bash, written by `PROGRAM completion bash`.\n\n";
  text += "_PROGRAM_commands=" + shell_quoted(join(commands, " ")) + "\n";
  text += kBashFunctions;

  text += "\n_PROGRAM_takes_value() {\n  case $1 in\n";
  for (const FlagRow* flag : all_flags(line))
    if (!flag->value.is_switch()) switches.push_back(flag->name);
  text += bash_case(join(switches, " | "), "return 0") + "  esac\n  return 1\n}\n";

  text += "\n_PROGRAM_values() {\n  case $1 in\n";
  for (const FlagRow* flag : all_flags(line)) {
    const std::string calls = bash_values(flag->value);
    if (!calls.empty()) text += bash_case(flag->name, calls);
  }
  text += "  esac\n}\n";

  // Without a command it is the first one.
  text += "\n_PROGRAM_flags() {\n  case $1 in\n";
  for (const auto& command : line.commands) {
    std::vector<std::string> names = {"--help"};
    for (const FlagRow* flag : flags_of(line, command))
      names.push_back("--" + flag->name + (flag->value.is_switch() ? "" : "="));
    const bool is_default = &command == &line.commands[0];
    text += bash_case(command.name + (is_default ? " | ''" : ""),
                      "_PROGRAM_words " + shell_quoted(join(names, " ")));
  }
  text += "  esac\n}\n";

  text += "\n_PROGRAM_arguments() {\n  case $1 in\n";
  for (const auto& command : line.commands) {
    const std::string calls = bash_values(command.argument);
    if (!calls.empty()) text += bash_case(command.name, calls);
  }
  text += "  esac\n}\n";
  text += kBashMain;
  return replaced(text, "PROGRAM", line.program);
}

std::string zsh_completion(const CommandLine& line) {
  std::string text =
      "#compdef PROGRAM\n# Completion of PROGRAM's command lines in zsh, written by `PROGRAM completion "
      "zsh`.\n\n";
  for (const FlagRow* flag : all_flags(line))
    text += zsh_function("_PROGRAM_value_" + flag->name, flag->value);
  for (const auto& command : line.commands)
    text += zsh_function("_PROGRAM_argument_" + command.name, command.argument);

  text += "\n_PROGRAM() {\n  local -A about\n  about=(\n";
  for (const FlagRow* flag : all_flags(line))
    text += "    " + flag->name + " " + shell_quoted(zsh_spec(*flag)) + "\n";
  text += "  )\n  local -a commands flags names\n  commands=(\n";
  for (const auto& command : line.commands)
    text += "    " + shell_quoted(command.name + ":" + zsh_escaped(command.about)) + "\n";
  text += kZshCommand;
  for (const auto& command : line.commands) {
    std::vector<std::string> names;
    for (const FlagRow* flag : flags_of(line, command)) names.push_back(flag->name);
    const bool is_default = &command == &line.commands[0];
    const bool known = !command.argument.words.empty() || !command.argument.endings.empty();
    text +=
        bash_case(command.name + (is_default ? "|''" : ""),
                  cat(known ? "argument=" + shell_quoted("*: :_PROGRAM_argument_" + command.name) + "; " : "",
                      "names=(", join(names, " "), ")"));
  }
  text +=
      "  esac\n  for word in $names; do\n    flags+=(\"${about[$word]}\")\n  done\n"
      "  if [[ -z $command ]]; then\n"
      "    _arguments -S '--help[this command line]' $flags '1: :{_describe command commands}'\n"
      "  else\n"
      "    _arguments -S '--help[this command line]' $flags '1: : ' $argument\n"
      "  fi\n}\n\n_PROGRAM \"$@\"\n";
  return replaced(text, "PROGRAM", line.program);
}

}  // namespace banyan::tools
