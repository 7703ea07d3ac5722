// The trainer's command line: one table of commands and flags, from which --help, the man page and both
// completions are made. Each flag that is defined and each command must be in all of them.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <regex>
#include <set>

#include "tools/program_test.hpp"

namespace banyan::tools {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::UnorderedElementsAre;

std::string file_text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// Every flag that tools/trainer.cpp defines.
std::vector<std::string> defined_flags() {
  const std::string source = file_text(BANYAN_SOURCE "/tools/trainer.cpp");
  const std::regex definition(R"(\nDEFINE_(?:string|int32|bool|double|int64|uint32|uint64)\((\w+),)");
  std::vector<std::string> names;
  for (auto at = std::sregex_iterator(source.begin(), source.end(), definition); at != std::sregex_iterator();
       ++at)
    names.push_back((*at)[1]);
  return names;
}

class CommandLine : public ProgramTest {
 protected:
  std::vector<std::string> commands() const {
    std::vector<std::string> names;
    bool in_list = false;
    for (const std::string& line : lines_of(run("trainer --help").output)) {
      if (in_list && line.empty()) break;
      if (in_list) names.push_back(line.substr(2, line.find(' ', 2) - 2));
      in_list = in_list || line == "Commands:";
    }
    return names;
  }
  std::string script(const std::string& shell) const { return run("trainer completion " + shell).output; }

  /// What bash finds for a line with the cursor at its end; each reply replaces the part of the last word
  /// after the last character that bash splits words at.
  std::vector<std::string> completed(const std::string& line) const {
    write("completion.bash", script("bash"));
    write("ask.bash",
          "source completion.bash\nCOMP_WORDBREAKS=$' \\t\\n\"\\'><=;|&(:'\nCOMP_LINE=$1\n"
          "COMP_POINT=${#COMP_LINE}\n_trainer\n"
          "for one in \"${COMPREPLY[@]}\"; do printf '%s\\n' \"$one\"; done\n");
    write("line", line);
    // The shell drops newlines at the end of a substitution, not blanks; X keeps the line as it is.
    const std::string asked =
        "cd '" + folder_ + "' && line=$(cat line; printf X) && bash --norc ask.bash \"${line%X}\" 2>&1";
    std::FILE* pipe = ::popen(("bash -c " + quoted_for_shell(asked)).c_str(), "r");
    std::string text;
    char buffer[4096];
    while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, got);
    EXPECT_EQ(::pclose(pipe), 0) << text;
    return lines_of(text);
  }
  static std::string quoted_for_shell(const std::string& text) {
    std::string result = "'";
    for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return result + "'";
  }
};

bool has_program(const std::string& name) {
  return std::system(("command -v " + name + " > /dev/null 2>&1").c_str()) == 0;
}

TEST_F(CommandLine, EachFlagIsInTheHelpTheManPageAndBothCompletions) {
  const std::vector<std::string> flags = defined_flags();
  ASSERT_GT(flags.size(), 30u) << "the definitions are not found";
  const std::string help = run("trainer --help").output, man = run("trainer man").output,
                    bash = script("bash"), zsh = script("zsh");
  for (const std::string& flag : flags) {
    const std::regex in_help("\n  --" + flag + "[= ]"), in_man("\n\\\\fB\\\\-\\\\-" + flag + "(\\\\fR|=)"),
        in_bash("[' ]--" + flag + "(=| |')"), in_zsh("\n    " + flag + " '--" + flag + "[=\\[]");
    EXPECT_TRUE(std::regex_search(help, in_help)) << flag << " is not in flag_rows() of tools/trainer.cpp";
    EXPECT_TRUE(std::regex_search(man, in_man)) << flag;
    EXPECT_TRUE(std::regex_search(bash, in_bash)) << flag;
    EXPECT_TRUE(std::regex_search(zsh, in_zsh)) << flag;
  }
}

TEST_F(CommandLine, EachCommandIsInTheHelpTheManPageAndBothCompletions) {
  const std::vector<std::string> names = commands();
  EXPECT_THAT(names, IsSupersetOf({"train", "test", "time", "summary", "check", "convert", "layers",
                                   "device_query", "topology", "doctor", "completion", "man"}));
  const std::string man = run("trainer man").output, zsh = script("zsh");
  EXPECT_THAT(completed("trainer "), testing::UnorderedElementsAreArray(names));
  for (const std::string& name : names) {
    EXPECT_THAT(man, HasSubstr("\n\\fB" + name + "\\fR")) << name;
    EXPECT_THAT(zsh, HasSubstr("\n    '" + name + ":")) << name;
    const Result help = run("trainer " + name + " --help");
    EXPECT_EQ(help.code, 0);
    EXPECT_THAT(help.output, AllOf(HasSubstr("Usage: trainer " + name), HasSubstr("Flags of all commands:\n"),
                                   HasSubstr("Exit codes: ")));
    EXPECT_EQ(run("trainer help " + name).output, help.output);
    EXPECT_EQ(run("trainer --help " + name).output, help.output);
  }
}

/// The words of the completion are those that the program takes.
TEST_F(CommandLine, WordsOfFlags) {
  const std::string help = run("trainer --help").output;
  const std::regex words(R"(\n  --(\w+)=([a-z0-9_A-Z]+(?:\|[a-z0-9_A-Z]+)+) )");
  int flags = 0;
  for (auto at = std::sregex_iterator(help.begin(), help.end(), words); at != std::sregex_iterator(); ++at) {
    const std::string flag = (*at)[1], list = (*at)[2];
    const std::size_t last = list.rfind('|') + 1;
    std::string known = list;
    for (std::size_t bar = 0; (bar = known.find('|', bar)) != std::string::npos;) known.replace(bar, 1, ", ");
    const std::string goes_with = flag == "names"                     ? "convert"
                                  : flag == "layout"                  ? "draw"
                                  : flag == "phase" || flag == "fold" ? "test"
                                                                      : "train";
    const auto found = completed("trainer " + goes_with + " --" + flag + "=");
    for (const std::string& word : lines_of(std::regex_replace(list, std::regex("\\|"), "\n")))
      if (std::all_of(word.begin(), word.end(), [](char letter) { return letter >= 'A' && letter <= 'Z'; }))
        known.clear();  // FILE, SECONDS: anything goes
      else
        EXPECT_THAT(found, Contains(word)) << flag;
    if (known.empty()) continue;
    ++flags;
    const std::string command = goes_with + (goes_with == "convert" ? " a.npz b.npz" : "");
    expect_bad_input("trainer " + command + " --" + flag + "=" + list.substr(last) + "x",
                     ": expected " + known);
  }
  EXPECT_GE(flags, 8);
}

TEST_F(CommandLine, FlagsGoWithTheirCommands) {
  expect_bad_input("trainer summary --solver=x",
                   "--solver does not go with summary; it goes with train, doctor");
  expect_bad_input("trainer train --solver=x --json", "--json does not go with train");
  expect_bad_input("trainer layers --plan ReLU", "--plan does not go with layers");
  expect_bad_input("trainer completion", "expected completion bash|zsh, found 0 arguments after it");
  expect_bad_input("trainer completion fish", "expected bash, zsh");
  expect_bad_input("trainer train extra", "expected train, found 1 argument after it");
  EXPECT_EQ(run("trainer layers --log-format=json ReLU").code, 0) << "- for _";
}

TEST_F(CommandLine, BashCompletesCommandsAndFlags) {
  EXPECT_THAT(completed("trainer t"), UnorderedElementsAre("train", "test", "time", "topology"));
  EXPECT_THAT(completed("trainer topo"), ElementsAre("topology"));
  EXPECT_THAT(completed("trainer --solv"), ElementsAre("--solver="));
  EXPECT_THAT(completed("trainer train --p"),
              UnorderedElementsAre("--parameter_server", "--pin=", "--precision=", "--progress="));
  EXPECT_THAT(completed("trainer topology --js"), ElementsAre("--json"));
  EXPECT_THAT(completed("trainer train --js"), IsEmpty()) << "not a flag of train";
  EXPECT_THAT(completed("trainer --json topology --do"), ElementsAre("--dot"));
  EXPECT_THAT(completed("trainer topology --tree chain --do"), ElementsAre("--dot"))
      << "the word after a flag is its value, not the command";
  EXPECT_THAT(completed("trainer layers Convolut"),
              UnorderedElementsAre("Convolution", "ConvolutionDepthwise"));
  EXPECT_THAT(completed("trainer completion "), UnorderedElementsAre("bash", "zsh"));
}

TEST_F(CommandLine, BashCompletesValuesAndFiles) {
  std::filesystem::create_directories(path("models/lenet"));
  write("models/lenet/solver.prototxt", "");
  write("models/lenet/notes.txt", "");
  write("my net.prototxt", "");
  write("a.caffemodel", "");
  write("b.caffemodel.h5", "");
  write("run.solverstate", "");
  // What follows = is a word of its own for bash.
  EXPECT_THAT(completed("trainer --sync_bn="), UnorderedElementsAre("as_written", "on", "off"));
  EXPECT_THAT(completed("trainer --sync_bn=o"), UnorderedElementsAre("on", "off"));
  EXPECT_THAT(completed("trainer --sync_bn o"), UnorderedElementsAre("on", "off"));
  EXPECT_THAT(completed("trainer --log-format=j"), ElementsAre("json"));
  EXPECT_THAT(completed("trainer -solver=mod"), ElementsAre("models/"));
  EXPECT_THAT(completed("trainer --solver=models/lenet/"), ElementsAre("models/lenet/solver.prototxt"));
  EXPECT_THAT(completed("trainer --solver models/lenet/s"), ElementsAre("models/lenet/solver.prototxt"));
  EXPECT_THAT(completed("trainer test --model=my\\ n"), ElementsAre("my net.prototxt"));
  EXPECT_THAT(completed("trainer test --model='my n"), ElementsAre("my net.prototxt"));
  EXPECT_THAT(completed("trainer --snapshot="), UnorderedElementsAre("latest", "models/", "run.solverstate"));
  EXPECT_THAT(completed("trainer --weights=a.caffemodel,b"), ElementsAre("a.caffemodel,b.caffemodel.h5"));
  EXPECT_THAT(completed("trainer check my"), ElementsAre("my net.prototxt"));
  EXPECT_THAT(completed("trainer --help-field=convolution_param.strid"),
              UnorderedElementsAre("convolution_param.stride", "convolution_param.stride_d",
                                   "convolution_param.stride_h", "convolution_param.stride_l",
                                   "convolution_param.stride_shape", "convolution_param.stride_w"));
  EXPECT_THAT(completed("trainer --iterations="), IsEmpty());
}

/// A shell on a terminal of its own.
class Shell {
 public:
  Shell(const std::vector<std::string>& words, const std::string& folder) {
    ::setenv("TERM", "dumb", 1);
    pid_ = ::forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (pid_ != 0) return;
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    if (::chdir(folder.c_str()) == 0) ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  ~Shell() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(terminal_);
  }
  Shell(const Shell&) = delete;
  Shell& operator=(const Shell&) = delete;
  void type(const std::string& keys) const {
    ASSERT_EQ(::write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  /// Reads until the shell has shown this.
  bool shows(const std::string& words, double seconds = 20) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (shown_.find(words) == std::string::npos) {
      pollfd ready{terminal_, POLLIN, 0};
      if (std::chrono::steady_clock::now() > deadline) return false;
      if (::poll(&ready, 1, 100) <= 0) continue;
      char buffer[4096];
      const ssize_t got = ::read(terminal_, buffer, sizeof buffer);
      if (got <= 0) return false;
      shown_.append(buffer, static_cast<std::size_t>(got));
    }
    shown_.erase(0, shown_.find(words) + words.size());
    return true;
  }
  const std::string& shown() const { return shown_; }

 private:
  pid_t pid_ = -1;
  int terminal_ = -1;
  std::string shown_;
};

TEST_F(CommandLine, BashOnATerminal) {
  write("completion.bash", script("bash"));
  write("net.prototxt", "");
  Shell shell({"bash", "--norc", "--noprofile", "-i"}, folder_);
  shell.type("source completion.bash; trainer() { printf '<%s>' \"$@\"; }; PS1=; echo read''y\n");
  ASSERT_TRUE(shell.shows("ready")) << shell.shown();
  shell.type("trainer summ\t--model=ne\t\n");
  EXPECT_TRUE(shell.shows("<summary><--model=net.prototxt>")) << shell.shown();
  shell.type("trainer --sync_bn=as\t--pi\tof\t\n");
  EXPECT_TRUE(shell.shows("<--sync_bn=as_written><--pin=off>")) << shell.shown();
}

TEST_F(CommandLine, ZshOnATerminal) {
  if (!has_program("zsh")) GTEST_SKIP() << "needs zsh";
  std::filesystem::create_directories(path("functions"));
  write("functions/_trainer", script("zsh"));
  write("net.prototxt", "");
  Shell shell({"zsh", "-f", "-i"}, folder_);
  shell.type(
      "fpath=($PWD/functions $fpath); autoload -Uz compinit; compinit -u -D; unsetopt zle_bracketed_paste; "
      "trainer() { printf '<%s>' \"$@\" }; PS1=; echo read''y\n");
  ASSERT_TRUE(shell.shows("ready")) << shell.shown();
  shell.type("trainer summ\t--model=ne\t\n");
  EXPECT_TRUE(shell.shows("<summary><--model=net.prototxt>")) << shell.shown();
  shell.type("trainer --sync_bn=as\t --pin=of\t\n");
  EXPECT_TRUE(shell.shows("<--sync_bn=as_written><--pin=off>")) << shell.shown();
}

TEST_F(CommandLine, TheManPageIsClean) {
  if (!has_program("groff")) GTEST_SKIP() << "needs groff";
  write("trainer.1", run("trainer man").output);
  std::FILE* pipe = ::popen(("cd '" + folder_ + "' && groff -man -ww -z trainer.1 2>&1").c_str(), "r");
  std::string complaints;
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) complaints.append(buffer, got);
  EXPECT_EQ(::pclose(pipe), 0);
  EXPECT_EQ(complaints, "");
  pipe = ::popen(("cd '" + folder_ + "' && groff -man -Tascii -P-c -P-b -P-u trainer.1 2>&1").c_str(), "r");
  std::string page;
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) page.append(buffer, got);
  EXPECT_EQ(::pclose(pipe), 0);
  EXPECT_THAT(page, AllOf(HasSubstr("trainer - trains, tests"), HasSubstr("--snapshot=latest|FILE"),
                          HasSubstr("EXIT STATUS"), Not(HasSubstr("\\f"))));
}

TEST_F(CommandLine, IsInstalledWhereShellsAndManLook) {
  const std::string install =
      "cmake --install '" BANYAN_BIN "/..' --component shell --prefix '" + path("prefix") + "'";
  ASSERT_EQ(std::system((install + " > '" + path("log") + "' 2>&1").c_str()), 0) << read("log");
  EXPECT_EQ(read("prefix/share/man/man1/trainer.1"), run("trainer man").output);
  EXPECT_EQ(read("prefix/share/bash-completion/completions/trainer"), script("bash"));
  EXPECT_EQ(read("prefix/share/zsh/site-functions/_trainer"), script("zsh"));
}

class JsonLog : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write("net.prototxt", R"(name: "small \"one\""
      layer { name: "data" type: "DummyData" top: "data" top: "label"
              dummy_data_param { shape { dim: 4 dim: 3 } shape { dim: 4 } } }
      layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 2 } }
      layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })");
    write("solver.prototxt",
          "net: 'net.prototxt' base_lr: 0.1 lr_policy: 'fixed' max_iter: 4 display: 2 snapshot_after_train: "
          "false");
  }
  /// The fields of each line, all of which must be objects.
  static std::vector<std::map<std::string, google::protobuf::Value>> parsed(const std::string& text) {
    std::vector<std::map<std::string, google::protobuf::Value>> objects;
    for (const std::string& line : lines_of(text)) {
      google::protobuf::Struct object;
      EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(line, &object).ok()) << line;
      objects.emplace_back(object.fields().begin(), object.fields().end());
    }
    return objects;
  }
};

TEST_F(JsonLog, EachLineIsOneObject) {
  const Result result = run("trainer --solver=solver.prototxt --cpu=2 --log_format=json --progress=on");
  EXPECT_EQ(result.code, 0) << result.output;
  const auto lines = parsed(result.output);
  ASSERT_GT(lines.size(), 5u);
  bool loss = false, tree = false;
  for (const auto& line : lines) {
    ASSERT_THAT(line, testing::SizeIs(6));
    const std::string time = line.at("time").string_value(), text = line.at("text").string_value();
    EXPECT_TRUE(std::regex_match(time, std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)"))) << time;
    EXPECT_EQ(line.at("severity").string_value(), "info") << text;
    EXPECT_THAT(line.at("file").string_value(), HasSubstr(".cpp"));
    EXPECT_GT(line.at("line").number_value(), 0);
    EXPECT_GT(line.at("thread").number_value(), 0);
    loss = loss || text.find("Iteration 2 (") == 0;
    tree = tree || text.find("Device tree:\ncpu:0") == 0;  // several lines, one object
  }
  EXPECT_TRUE(loss && tree) << result.output;
  EXPECT_THAT(result.output, HasSubstr("Solving small \\\"one\\\""));
  EXPECT_THAT(result.output, Not(HasSubstr("\r"))) << "no progress line";
}

TEST_F(JsonLog, ErrorsAreObjectsToo) {
  const Result result = run("trainer --solver=nowhere.prototxt --log_format=json");
  EXPECT_EQ(result.code, 2);
  const auto lines = parsed(result.output);
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.back().at("severity").string_value(), "error");
  EXPECT_THAT(lines.back().at("text").string_value(),
              AllOf(HasSubstr("trainer: "), HasSubstr("nowhere.prototxt")));
}

/// Even if the flags before are wrong, so that --log_format is never read.
TEST_F(JsonLog, SoAreErrorsOfTheCommandLine) {
  for (const char* words :
       {"--sover=x --log_format=json", "--sover=x -log-format json", "--log_format=json"}) {
    const Result result = run("trainer " + std::string(words));
    EXPECT_EQ(result.code, 2);
    const auto lines = parsed(result.output);
    ASSERT_EQ(lines.size(), 1u) << result.output;
    EXPECT_EQ(lines[0].at("severity").string_value(), "error");
  }
  EXPECT_THAT(run("trainer --log_format=jsn").output, testing::StartsWith("trainer: --log_format=jsn"));
}

}  // namespace
}  // namespace banyan::tools
