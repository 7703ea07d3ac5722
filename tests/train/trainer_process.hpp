// The trainer as a separate process: what it prints, how it ends, and signals while it runs.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace banyan {

class TrainerProcess {
 public:
  /// Starts `trainer arguments...` in `folder`; its output (both streams) goes to `output`. `largest_file`:
  /// size in bytes that a file may grow to, as on a full disk (0: no limit).
  TrainerProcess(const std::string& folder, const std::string& output,
                 const std::vector<std::string>& arguments, rlim_t largest_file = 0)
      : TrainerProcess(folder, output, with_program(arguments), largest_file, Whole{}) {}
  struct Whole {};
  /// The same with any program, such as mpirun; `words` begin with its name.
  TrainerProcess(const std::string& folder, const std::string& output, std::vector<std::string> words,
                 rlim_t largest_file, Whole)
      : output_(output) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const int log = ::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(log, STDOUT_FILENO);
      ::dup2(log, STDERR_FILENO);
      if (largest_file > 0) {
        const struct rlimit limit = {largest_file, largest_file};
        ::signal(SIGXFSZ, SIG_IGN);  // so that a write fails, as on a full disk
        ::setrlimit(RLIMIT_FSIZE, &limit);
      }
      if (::chdir(folder.c_str()) == 0) ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(log);
  }
  ~TrainerProcess() {
    if (pid_ > 0 && !ended_) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  TrainerProcess(const TrainerProcess&) = delete;
  TrainerProcess& operator=(const TrainerProcess&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  /// The exit code; 128 + signal if a signal ended it; -1 if it has not ended after `seconds`.
  int wait(double seconds = 60) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    int status = 0;
    while (::waitpid(pid_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline) return -1;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string text() const {
    std::ifstream file(output_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// Next to this test program, in the build's folder and in an installed one.
  static std::string program() {
    return std::filesystem::read_symlink("/proc/self/exe").replace_filename("trainer").string();
  }
  /// Waits until the output contains `words`.
  bool says(const std::string& words, double seconds = 60) const {
    return wait_until([&] { return text().find(words) != std::string::npos; }, seconds);
  }
  /// Waits until the output shows this iteration or a later one.
  bool reaches(std::int64_t iteration, double seconds = 60) const {
    const auto shown = [&] {
      const std::string output = text(), before = "Iteration ";
      const std::size_t at = output.rfind(before);
      return at == std::string::npos ? -1 : std::atoll(output.c_str() + at + before.size());
    };
    return wait_until([&] { return shown() >= iteration; }, seconds);
  }

 private:
  template <class Condition>
  static bool wait_until(Condition holds, double seconds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!holds()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }
  static std::vector<std::string> with_program(const std::vector<std::string>& arguments) {
    std::vector<std::string> words = {program()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return words;
  }

  std::string output_;
  pid_t pid_ = -1;
  bool ended_ = false;
};

}  // namespace banyan
