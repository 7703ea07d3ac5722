// The dashboard on a pseudo terminal: what it shows, and that the terminal is as it was after every kind of
// end.
#include "banyan/live/dashboard.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/observe/panel.hpp"
#include "terminal.hpp"
#include "tools/program_test.hpp"

namespace banyan::live {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class DashboardTest : public tools::ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write("net.prototxt", R"(name: "small"
      layer { name: "data" type: "DummyData" top: "data" top: "label"
              dummy_data_param { shape { dim: 4 dim: 3 } shape { dim: 4 } data_filler { type: "gaussian" }
                               data_filler { value: 1 } } }
      layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 2 } }
      layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
      layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy"
              include { phase: TEST } })");
  }
  /// `more`: fields of the solver.
  std::vector<std::string> training(const std::string& more,
                                    const std::vector<std::string>& flags = {}) const {
    write("solver.prototxt",
          "net: 'net.prototxt' base_lr: 0.1 lr_policy: 'fixed' snapshot_prefix: 'x' " + more);
    std::vector<std::string> words = {
        BANYAN_BIN "/trainer", "--solver=solver.prototxt", "--cpu=1", "--threads_per_device=1", "--pin=off",
        "--dashboard"};
    words.insert(words.end(), flags.begin(), flags.end());
    return words;
  }
  static constexpr const char* kEndless =
      "max_iter: 100000000 display: 1000 test_interval: 1000000 test_iter: 1 snapshot_after_train: false";
  static bool is_shown(const Screen& screen) {
    return screen.has("Iteration ") && screen.has("samples/s") && !screen.shows_cursor() &&
           screen.last() < screen.rows() - 1;
  }
  /// As a shell finds it: everything scrolls, the cursor is at the beginning of a line, nothing is below it.
  static void expect_restored(const Screen& screen) {
    EXPECT_TRUE(screen.restored()) << "rows " << screen.first() << " to " << screen.last() << ", cursor "
                                   << screen.shows_cursor();
    for (int row = screen.row() + 1; row < screen.rows(); ++row)
      EXPECT_EQ(screen.text(row), "") << screen.all();
    EXPECT_EQ(screen.column(), 0) << screen.all();
    EXPECT_TRUE(screen.unknown().empty()) << screen.unknown()[0];
  }
};

TEST_F(DashboardTest, ShowsARunAndLeavesItsCurves) {
  Terminal terminal(
      training(
          "max_iter: 300000 display: 10000 test_interval: 100000 test_iter: 2 snapshot_after_train: false"),
      folder_, 24, 80);
  ASSERT_TRUE(terminal.becomes([](const Screen& screen) {
    return is_shown(screen) && screen.has("output accuracy");
  })) << terminal.screen().all();
  const Screen& screen = terminal.screen();
  EXPECT_TRUE(screen.has("solver.prototxt"));
  EXPECT_TRUE(screen.has("/300000 ("));
  EXPECT_TRUE(screen.has("cpu:0"));
  EXPECT_EQ(terminal.end(200), 0);
  expect_restored(terminal.screen());
  // Every line of the log is there, and after it the curves.
  const std::string printed = terminal.screen().printed();
  for (int i = 0; i < 30; ++i)
    EXPECT_THAT(printed, HasSubstr("Iteration " + std::to_string(10000 * i) + " (")) << printed;
  EXPECT_THAT(printed, HasSubstr("Optimization Done."));
  EXPECT_LT(printed.rfind("Optimization Done."), printed.rfind("output accuracy"));
  EXPECT_THAT(printed, Not(HasSubstr("samples/s  ")));
}

TEST_F(DashboardTest, FollowsTheSizeOfTheTerminal) {
  Terminal terminal(training(kEndless), folder_, 24, 80);
  ASSERT_TRUE(terminal.becomes(is_shown)) << terminal.screen().all();
  const std::vector<std::pair<int, int>> sizes = {{40, 120}, {12, 50}, {24, 80}, {30, 45}, {60, 200}};
  for (const auto& [rows, columns] : sizes) {
    terminal.resize(rows, columns);
    EXPECT_TRUE(terminal.becomes([](const Screen& screen) {
      // Once and whole: the head and the devices below it, the last row in use.
      int heads = 0;
      for (const std::string& line : screen.lines())
        heads += line.starts_with("Iteration ") && line.find("/100000000") != std::string::npos;
      return is_shown(screen) && heads == 1 && screen.has("cpu:0") && screen.last() >= 2;
    })) << rows
        << " x " << columns << "\n"
        << terminal.screen().all();
  }
  terminal.resize(5, 20);
  EXPECT_TRUE(terminal.becomes([](const Screen& screen) {
    return screen.last() == 2 && screen.text(3).find("/100000000") != std::string::npos;
  })) << terminal.screen().all();
  terminal.resize(24, 80);
  EXPECT_TRUE(terminal.becomes(is_shown)) << terminal.screen().all();
  terminal.send(SIGINT);
  EXPECT_EQ(terminal.end(), 0);
  expect_restored(terminal.screen());
}

/// What ends a process, with the status that it leaves. SIGKILL too: another process tidies up.
TEST_F(DashboardTest, TheTerminalIsRestoredAfterEverySignal) {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGSEGV, SIGABRT, SIGBUS, SIGQUIT, SIGUSR2, SIGKILL}) {
    Terminal terminal(training(kEndless), folder_, 24, 80);
    ASSERT_TRUE(terminal.becomes(is_shown)) << terminal.screen().all();
    terminal.send(signal);
    const int status = terminal.end();
    ASSERT_NE(status, -1) << strsignal(signal);
    const bool asks = signal == SIGINT || signal == SIGTERM || signal == SIGUSR1;
    if (asks) {
      EXPECT_EQ(status, 0) << strsignal(signal);
    } else {
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << strsignal(signal) << " " << status;
    }
    expect_restored(terminal.screen());
    EXPECT_EQ(terminal.screen().has("Optimization stopped early."), asks) << terminal.screen().all();
  }
}

/// The second Ctrl-C ends the process at once, even if it cannot stop: here, while it reads what never comes.
TEST_F(DashboardTest, TheTerminalIsRestoredAfterASecondSignal) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Terminal terminal(training(kEndless), folder_, 24, 80);
    ASSERT_TRUE(terminal.becomes(is_shown)) << terminal.screen().all();
    // Stopped, it takes both at once.
    terminal.send(SIGSTOP);
    terminal.send(signal);
    terminal.send(signal == SIGINT ? SIGTERM : SIGINT);
    terminal.send(SIGCONT);
    const int status = terminal.end();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) > 128) << status;
    expect_restored(terminal.screen());
  }
}

TEST_F(DashboardTest, TheTerminalIsRestoredAfterAnError) {
  write("net.prototxt", R"(name: "bad"
    layer { name: "data" type: "DummyData" top: "data" top: "label"
            dummy_data_param { shape { dim: 4 dim: 3 } shape { dim: 4 } data_filler { type: "gaussian" } data_filler { value: 7 } } }
    layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 2 } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })");
  Terminal terminal(training(kEndless), folder_, 24, 80);
  const int status = terminal.end();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 0) << status << terminal.screen().all();
  expect_restored(terminal.screen());
  EXPECT_THAT(terminal.screen().printed(), HasSubstr("trainer: "));
}

TEST_F(DashboardTest, StopsAndGoesOnInAShell) {
  Terminal terminal({"bash", "--norc", "--noprofile", "-i"}, folder_, 24, 80);
  terminal.type("PS1='> '; bind 'set enable-bracketed-paste off'; echo rea''dy\n");
  ASSERT_TRUE(terminal.shows("ready")) << terminal.screen().all();
  std::string line;
  for (const std::string& word : training(kEndless)) line += "'" + word + "' ";
  terminal.type(line + "\n");
  ASSERT_TRUE(terminal.becomes(is_shown)) << terminal.screen().all();
  for (int times = 0; times < 2; ++times) {
    terminal.type("\x1a");
    ASSERT_TRUE(terminal.becomes([](const Screen& screen) {
      return screen.restored() && screen.has("Stopped") && screen.text(screen.row()) == ">";
    })) << terminal.screen().all();
    EXPECT_FALSE(terminal.screen().has("samples/s")) << terminal.screen().all();
    terminal.type("echo tog''ether\n");
    ASSERT_TRUE(terminal.shows("together"));
    terminal.type("fg\n");
    ASSERT_TRUE(terminal.becomes(is_shown)) << terminal.screen().all();
  }
  terminal.type("\x03");
  EXPECT_TRUE(terminal.becomes([](const Screen& screen) {
    return screen.restored() && screen.printed().find("Optimization stopped early.") != std::string::npos &&
           screen.text(screen.row()) == ">";
  })) << terminal.screen().all();
}

/// In the background only the log is shown, and what somebody types stays whole.
TEST_F(DashboardTest, LeavesTheTerminalToOthersInTheBackground) {
  Terminal terminal({"bash", "--norc", "--noprofile", "-i"}, folder_, 24, 80);
  terminal.type("PS1='> '; bind 'set enable-bracketed-paste off'; echo rea''dy\n");
  ASSERT_TRUE(terminal.shows("ready")) << terminal.screen().all();
  std::string line;
  for (const std::string& word : training(kEndless)) line += "'" + word + "' ";
  terminal.type(line + "&\n");
  // It may have scrolled out of sight when this process gets to look.
  ASSERT_TRUE(terminal.becomes([](const Screen& screen) {
    return screen.printed().find("Iteration 1000 (") != std::string::npos;
  })) << terminal.screen().all();
  EXPECT_FALSE(terminal.becomes([](const Screen& screen) { return !screen.restored(); }, 1))
      << terminal.screen().all();
  terminal.type("fg\n");
  EXPECT_TRUE(terminal.becomes(is_shown)) << terminal.screen().all();
  terminal.type("\x03");
  EXPECT_TRUE(terminal.becomes([](const Screen& screen) { return screen.restored(); }))
      << terminal.screen().all();
}

TEST_F(DashboardTest, TheLogAloneWhereNothingElseIsPossible) {
  write("solver.prototxt",
        "net: 'net.prototxt' base_lr: 0.1 lr_policy: 'fixed' max_iter: 4 display: 2 snapshot_after_train: "
        "false");
  // In a pipe.
  const tools::Result result = run("trainer --solver=solver.prototxt --cpu=1 --dashboard");
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("--dashboard shows the log only: standard error is no terminal"),
                                   HasSubstr("Iteration 2 ("), Not(HasSubstr("\x1b["))));
  Terminal dumb(training("max_iter: 2000 display: 1000 snapshot_after_train: false"), folder_, 24, 80,
                {"TERM=dumb"});
  EXPECT_EQ(dumb.end(), 0);
  EXPECT_THAT(dumb.screen().printed(),
              AllOf(HasSubstr("cannot place text (TERM is dumb)"), HasSubstr("Iteration 1000 (")));
  expect_bad_input("trainer --solver=solver.prototxt --dashboard --log_format=json", "exclude each other");
  expect_bad_input("trainer test --model=net.prototxt --dashboard", "--dashboard");
}

TEST_F(DashboardTest, WithoutUtf8) {
  Terminal terminal(training(kEndless), folder_, 24, 80, {"LC_ALL=C"});
  ASSERT_TRUE(terminal.becomes(is_shown)) << terminal.screen().all();
  for (const char c : terminal.screen().all()) EXPECT_LT(static_cast<unsigned char>(c), 0x80u);
}

/// A message of another library, and what a log line says, scroll as ever.
TEST(Panel, WhatOthersPrintScrollsToo) {
  Screen screen(10, 40);
  int ends[2];
  ASSERT_EQ(::openpty(&ends[0], &ends[1], nullptr, nullptr, nullptr), 0);
  const winsize size{10, 40, 0, 0};
  ::ioctl(ends[1], TIOCSWINSZ, &size);
  const auto read_all = [&] {
    pollfd ready{ends[0], POLLIN, 0};
    while (::poll(&ready, 1, 20) > 0) {
      char buffer[4096];
      const ssize_t got = ::read(ends[0], buffer, sizeof buffer);
      if (got <= 0) break;
      screen.feed(std::string(buffer, static_cast<std::size_t>(got)));
    }
  };
  Console console(ProgressMode::automatic, ends[1]);
  EXPECT_TRUE(console.shows_status());
  {
    Panel panel(console);
    EXPECT_FALSE(console.shows_status());
    panel.draw({"one", "two", "three"});
    for (int i = 0; i < 20; ++i) console.print("line " + std::to_string(i) + "\n");
    ASSERT_GT(::write(ends[1], "of another\n", 11), 0);
    panel.draw({"one", "two again"});
    read_all();
    EXPECT_EQ(screen.text(8), "one");
    EXPECT_EQ(screen.text(9), "two again");
    EXPECT_EQ(screen.last(), 7);
    EXPECT_TRUE(screen.has("of another"));
    panel.draw({"one", "two again"});  // nothing new, nothing written
    pollfd ready{ends[0], POLLIN, 0};
    EXPECT_EQ(::poll(&ready, 1, 20), 0);
    EXPECT_THROW(Panel(console).draw({}), Error);  // one at a time
  }
  read_all();
  EXPECT_TRUE(screen.restored());
  EXPECT_FALSE(screen.has("two again"));
  const std::string printed = screen.printed();
  for (int i = 0; i < 20; ++i) EXPECT_THAT(printed, HasSubstr("line " + std::to_string(i) + "\n"));
  EXPECT_TRUE(console.shows_status());
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace banyan::live
