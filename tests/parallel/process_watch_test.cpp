// What a process makes of what it hears, or does not hear, of the others: step by step, as the thread of the
// wire and the guard would take them.
#include "parallel/process_watch.hpp"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <thread>
#include <utility>

#include "memory_wire.hpp"

namespace banyan::parallel {
namespace {

using std::chrono::milliseconds;

/// One of several in this process: each is on a machine of its own, as far as they know.
class Watcher {
 public:
  Watcher(MemoryHub& hub, int number, std::vector<ProcessIdentity> all, double silence_seconds)
      : Watcher(hub, number, std::move(all), options(silence_seconds)) {}
  Watcher(MemoryHub& hub, int number, std::vector<ProcessIdentity> all, WatchOptions options)
      : wire_(hub, number), watch(wire_, 0, std::move(all), std::move(options)) {}
  /// As the wire's thread does.
  void listen(bool waits = false) {
    wire_.progress();
    watch.tick([waits] {
      ProcessReport report;
      report.any_waits = waits;
      report.doing = "while it runs";
      return report;
    });
  }
  /// As the guard does.
  std::vector<ProcessFailure> judge(bool deaf = false) {
    watch.judge(deaf);
    return watch.take_failures();
  }

 private:
  static WatchOptions options(double silence_seconds) {
    WatchOptions options;
    options.silence_seconds = silence_seconds;
    return options;
  }
  MemoryWire wire_;

 public:
  ProcessWatch watch;
};

std::vector<ProcessIdentity> far_apart(int count) {
  std::vector<ProcessIdentity> all;
  for (int process = 0; process < count; ++process)
    all.push_back({cat("host", process), cat("machine ", process), 1000 + process});
  return all;
}

/// A process of this machine, which can be killed.
class Victim {
 public:
  Victim() : pid_(::fork()) {
    if (pid_ != 0) return;
    ::pause();
    ::_exit(0);
  }
  ~Victim() { kill(); }
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;
  int pid() const { return pid_; }
  void kill() {
    if (std::exchange(killed_, true)) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  const int pid_;
  bool killed_ = false;
};

class ProcessWatchTest : public testing::Test {
 protected:
  ProcessWatchTest() {
    beside_[1].pid = victim_.pid();
    here_.emplace(hub_, 0, beside_, 0);
  }
  Victim victim_;
  MemoryHub hub_{{1, 1}};
  std::vector<ProcessIdentity> beside_{identify("a"), identify("b")};
  std::optional<Watcher> here_;
};

/// The wire's thread may get no core for a while, or be held up in a call, when the message is there.
TEST_F(ProcessWatchTest, WhatAProcessToldBeforeItsEndIsReadFirst) {
  Watcher there(hub_, 1, beside_, 0);
  here_->listen();
  there.watch.tell(1, Error(ErrorKind::bad_input, "record 17 is damaged"));
  victim_.kill();
  EXPECT_TRUE(here_->judge().empty());
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_TRUE(here_->judge().empty()) << "nobody has listened meanwhile";
  std::this_thread::sleep_for(milliseconds(1200));
  EXPECT_TRUE(here_->judge().empty()) << "neither the wire's thread nor the guard had a core";
  here_->listen();
  here_->listen();
  const std::vector<ProcessFailure> failures = here_->judge();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].process, 1);
  EXPECT_TRUE(failures[0].told);
  EXPECT_STREQ(failures[0].error.what(), "record 17 is damaged");
}

TEST_F(ProcessWatchTest, WithoutAWordItWasKilled) {
  here_->listen();
  victim_.kill();
  EXPECT_TRUE(here_->judge().empty());
  std::this_thread::sleep_for(milliseconds(100));
  here_->listen();
  here_->listen();
  const std::vector<ProcessFailure> failures = here_->judge();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_THAT(failures[0].error.what(), testing::HasSubstr("was killed, or has ended without a word"));
}

/// A broken wire brings no words any more; one that is held up may never do.
TEST_F(ProcessWatchTest, WordsAreNotWaitedForWhereNoneCome) {
  Watcher held_up(hub_, 0, beside_, 0);
  const auto since = ProcessWatch::Clock::now();
  victim_.kill();
  EXPECT_TRUE(here_->judge().empty());
  EXPECT_TRUE(held_up.judge().empty());
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(here_->judge(/*deaf=*/true).size(), 1u);
  std::vector<ProcessFailure> failures;
  while (failures.empty() && ProcessWatch::Clock::now() - since < std::chrono::seconds(10)) {
    std::this_thread::sleep_for(milliseconds(50));
    failures = held_up.judge();
  }
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_GE(ProcessWatch::Clock::now() - since, std::chrono::seconds(1));
}

/// Whoever has died is named, also where this process was told to end because of that.
TEST_F(ProcessWatchTest, OneThatIsSeenToHaveEndedIsToBlameForAWireThatIsHeldUp) {
  WatchOptions options;
  options.silence_seconds = 60;
  options.told_to_end = [] { return true; };
  Watcher held_up(hub_, 0, beside_, options);
  victim_.kill();
  const auto since = ProcessWatch::Clock::now();
  std::vector<ProcessFailure> failures;
  while (failures.empty() && ProcessWatch::Clock::now() - since < std::chrono::seconds(60)) {
    failures = held_up.judge();
    std::this_thread::sleep_for(milliseconds(20));
  }
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].process, 1);
  EXPECT_THAT(failures[0].error.what(), testing::HasSubstr("was killed, or has ended without a word"));
}

/// Of one host are processes whose errors appear in one place. Its containers are different hosts if they
/// have names of their own; so are machines that share one.
TEST(ProcessWatch, AHostIsToldByItsNameAndItsStart) {
  const auto site = [](const char* host, const char* machine, int pid) {
    const ProcessIdentity identity{host, machine, pid};
    return ProcessIdentity::unpack(identity.pack()).site();
  };
  const std::string here = site("localhost", "boot1 pid:[1]", 7);
  EXPECT_EQ(site("localhost", "boot1 pid:[1]", 8), here);
  EXPECT_EQ(site("localhost", "boot1 pid:[2]", 7), here);
  EXPECT_NE(site("localhost", "boot2 pid:[1]", 7), here);
  EXPECT_NE(site("container", "boot1 pid:[2]", 7), here);
  EXPECT_EQ(identify("a").site(), identify("a").site());
}

/// It was cut off, and is no longer: it has the same to say as the others, not that another is silent.
TEST(ProcessWatch, AProcessHearsThatItWasMissed) {
  MemoryHub hub({1, 1});
  const std::vector<ProcessIdentity> all = far_apart(2);
  Watcher first(hub, 0, all, 0.5), second(hub, 1, all, 0);
  std::vector<ProcessFailure> failures;
  for (int i = 0; i < 200 && failures.empty(); ++i) {
    std::this_thread::sleep_for(milliseconds(20));
    first.listen(/*waits=*/true);
    failures = first.judge();
  }
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].process, 1);
  first.watch.tell(1, failures[0].error);
  for (int i = 0; i < 50; ++i) second.listen();  // reports come before it
  const std::vector<ProcessFailure> heard = second.judge();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].process, 1);
  EXPECT_FALSE(heard[0].told) << "others of its host may have to speak for it";
  EXPECT_STREQ(heard[0].error.what(), failures[0].error.what());
  second.listen();
  EXPECT_TRUE(second.judge().empty());
}

/// Each call of a message library takes longer than what counts as time to listen.
TEST(ProcessWatch, CallsThatBlockAgainAndAgainDoNotHideASilence) {
  MemoryHub hub({1, 1, 1});
  const std::vector<ProcessIdentity> all = far_apart(3);
  Watcher here(hub, 0, all, 2.1), silent(hub, 1, all, 0), alive(hub, 2, all, 0);
  std::vector<ProcessFailure> failures;
  const auto since = ProcessWatch::Clock::now();
  while (failures.empty() && ProcessWatch::Clock::now() - since < std::chrono::seconds(60)) {
    for (int half = 0; half < 2; ++half) {
      std::this_thread::sleep_for(milliseconds(550));
      for (const ProcessFailure& failure : here.judge()) failures.push_back(failure);
    }
    alive.listen();
    here.listen(/*waits=*/true);
  }
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].process, 1);
}

/// A worker of a tree, whose server is heard: the root does not hear it, or only is not heard by it.
TEST(ProcessWatch, AtTheEndAWorkerOfATreeMissesTheRoot) {
  MemoryHub hub({1, 1, 1});
  const std::vector<ProcessIdentity> all = far_apart(3);
  WatchOptions options;
  options.silence_seconds = 1;
  options.served_by_first = true;
  Watcher server(hub, 1, all, 0), worker(hub, 2, all, options);
  worker.watch.set_server(1);
  std::vector<ProcessFailure> failures;
  const auto run = [&](double seconds) {
    const auto since = ProcessWatch::Clock::now();
    while (failures.empty() && ProcessWatch::Clock::now() - since < std::chrono::duration<double>(seconds)) {
      std::this_thread::sleep_for(milliseconds(20));
      server.listen();
      worker.listen(/*waits=*/true);
      failures = worker.judge();
    }
  };
  run(2.5);
  EXPECT_TRUE(failures.empty()) << "it does not need the root yet";
  worker.watch.begin_to_leave();
  run(60);
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].process, 0);
  EXPECT_THAT(failures[0].error.what(), testing::HasSubstr("has not been heard of"));
}

}  // namespace
}  // namespace banyan::parallel
