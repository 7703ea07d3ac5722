// The command line as a manual page (roff, macros of man(7)).
#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "command_line.hpp"

namespace banyan::tools {
namespace {

/// Text that roff prints as it is: a hyphen would become a typographic one, a dot or quote at the beginning
/// of a line a request.
std::string plain(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else if (c == '\n')
      result += "\n.br\n";
    else
      result += c;
  }
  return result.starts_with('.') || result.starts_with('\'') ? "\\&" + result : result;
}

std::string bold(const std::string& text) { return "\\fB" + plain(text) + "\\fR"; }

/// In italics what stands for something else.
std::string term_of(const FlagRow& flag) {
  std::string value = plain(flag.value.text());
  const std::size_t at = flag.value.what.empty() ? std::string::npos : value.rfind(plain(flag.value.what));
  if (at != std::string::npos)
    value = value.substr(0, at) + "\\fI" + plain(flag.value.what) + "\\fB" +
            value.substr(at + plain(flag.value.what).size());
  return "\\fB" + plain("--" + flag.name) + value + "\\fR";
}

std::string entry(const std::string& term, const std::string& text) {
  return ".TP\n" + term + "\n" + plain(text) + "\n";
}

}  // namespace

std::string man_page(const CommandLine& line, const std::string& version) {
  std::string title = line.program;
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  // Justified lines and hyphenation spoil names.
  std::string page = cat(".TH ", title, " 1 \"\" \"Banyan ", version, "\" \"User Commands\"\n.nh\n.ad l\n");
  page += ".SH NAME\n" + plain(line.program) + " \\- " + plain(line.about) + "\n";
  page += ".SH SYNOPSIS\n" + bold(line.program) + " [\\fIcommand\\fR] [\\fIarguments\\fR] [\\fIflags\\fR]\n";
  page += ".SH DESCRIPTION\nWithout a command it does what " + bold(line.commands[0].name) +
          " does. A flag is\n" + bold("--name=value") + ", " + bold("--name value") +
          " or the same with one dash, and may stand anywhere; one that is on or off\nis " + bold("--name") +
          " or " + bold("--noname") + ".\n";
  page += ".SH COMMANDS\n";
  for (const auto& command : line.commands) {
    const std::string arguments =
        command.arguments.empty() ? "" : " \\fI" + plain(command.arguments) + "\\fR";
    page += entry(bold(command.name) + arguments,
                  command.about + (command.details.empty() ? "" : ". " + command.details));
  }
  page += ".SH OPTIONS\n";
  for (const auto& [group, flags] : groups_of(line)) {
    page += ".SS " + plain(group) + "\n";
    for (const FlagRow* flag : flags) {
      const auto info = info_of(*flag);
      const bool shown = !flag->value.is_switch() && !info.default_value.empty();
      page +=
          entry(term_of(*flag), info.description + (shown ? cat(" (default ", info.default_value, ")") : ""));
    }
  }
  page += ".SS all commands, from glog\n";
  for (const auto& flag : line.library_flags) page += entry(term_of(flag), info_of(flag).description);
  page += ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : line.exit_codes) page += entry(bold(std::to_string(code)), meaning);
  page += ".SH EXAMPLES\n.nf\n";
  for (const auto& example : line.examples) page += plain(example) + "\n";
  return page + ".fi\n";
}

}  // namespace banyan::tools
