// A program on a pseudo terminal of its own, whose screen a test can look at.
#pragma once

#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "screen.hpp"

namespace banyan::live {

class Terminal {
 public:
  /// `environment`: NAME=VALUE each.
  Terminal(const std::vector<std::string>& words, const std::string& folder, int rows, int columns,
           const std::vector<std::string>& environment = {})
      : screen_(rows, columns) {
    winsize size{static_cast<unsigned short>(rows), static_cast<unsigned short>(columns), 0, 0};
    pid_ = ::forkpty(&master_, nullptr, nullptr, &size);
    if (pid_ != 0) return;
    ::setenv("TERM", "xterm-256color", 1);
    ::setenv("LC_ALL", "C.UTF-8", 1);
    ::unsetenv("NO_COLOR");
    for (const std::string& one : environment) ::putenv(const_cast<char*>(one.c_str()));
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    if (::chdir(folder.c_str()) == 0) ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  ~Terminal() {
    if (!ended_) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(master_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  pid_t pid() const { return pid_; }
  const Screen& screen() const { return screen_; }
  void send(int signal) const { ::kill(pid_, signal); }
  void type(const std::string& keys) const {
    [[maybe_unused]] const ssize_t written = ::write(master_, keys.data(), keys.size());
  }
  void resize(int rows, int columns) {
    read_what_is_there(0);
    screen_.resize(rows, columns);
    const winsize size{static_cast<unsigned short>(rows), static_cast<unsigned short>(columns), 0, 0};
    ::ioctl(master_, TIOCSWINSZ, &size);
  }
  /// Reads until the screen is so.
  bool becomes(const std::function<bool(const Screen&)>& so, double seconds = 30) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!so(screen_)) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      if (!read_what_is_there(50)) return so(screen_);
    }
    return true;
  }
  bool shows(const std::string& words, double seconds = 30) {
    return becomes([&](const Screen& screen) { return screen.has(words); }, seconds);
  }
  /// Until nobody has the terminal open any more. The status as waitpid gives it; -1: that took too long.
  int end(double seconds = 30) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (read_what_is_there(50))
      if (std::chrono::steady_clock::now() > deadline) return -1;
    int status = -1;
    while (::waitpid(pid_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline) return -1;
      ::usleep(1000);
    }
    ended_ = true;
    return status;
  }

 private:
  /// False: nobody will write any more.
  bool read_what_is_there(int milliseconds) {
    pollfd ready{master_, POLLIN, 0};
    while (::poll(&ready, 1, milliseconds) > 0) {
      char buffer[65536];
      const ssize_t got = ::read(master_, buffer, sizeof buffer);
      if (got <= 0) return false;
      screen_.feed(std::string(buffer, static_cast<std::size_t>(got)));
      milliseconds = 0;
    }
    return true;
  }
  pid_t pid_ = -1;
  int master_ = -1;
  bool ended_ = false;
  Screen screen_;
};

}  // namespace banyan::live
