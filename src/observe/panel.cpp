#include "banyan/observe/panel.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <new>
#include <string_view>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"

namespace banyan {
namespace {

// The whole screen scrolls again, which moves the cursor, so it is saved and restored. The panel is what
// stands below it.
constexpr std::string_view kGiveBack = "\033[m\0337\033[r\0338\033[J\033[?7h\033[?25h";
/// To where the cursor was before something was drawn.
constexpr std::string_view kBack = "\0338";

// A signal handler cannot be passed data, so what it needs must be global.
std::atomic<int> terminal{-1};  ///< of the panel; -1: there is none
struct Flags {
  std::atomic<bool> has_rows{false};  ///< they are set apart now
  // A thread that draws says so first and then looks whether it may; who gives the rows back does the
  // opposite.
  std::atomic<bool> drawing{false}, suspended{false};
  std::atomic<bool> take_again{false};  ///< somebody else has used the terminal
};
Flags own_flags;
Flags* flags = &own_flags;  ///< in memory that the guard shares
struct sigaction stop_before, continue_before;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "a signal handler may only touch lock-free atomics");

void write_all(int fd, std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// Gives back the rows, stops as without this handler, and has them taken again afterwards.
void on_stop(int number) {
  const int saved = errno;
  give_back_panel();
  struct sigaction ours {};
  ::sigaction(number, &stop_before, &ours);
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, number);
  ::raise(number);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);  // here the process stops
  ::sigaction(number, &ours, nullptr);
  flags->suspended = false;
  errno = saved;
}

void on_continue(int) { flags->take_again = true; }

void write_give_back(int fd) noexcept {
  if (!flags->has_rows.exchange(false)) return;
  if (flags->drawing) write_all(fd, kBack);
  write_all(fd, kGiveBack);
}

/// Another one's writing would be mixed up with its own.
bool is_in_foreground(int fd) {
  const pid_t group = ::tcgetpgrp(fd);
  return group < 0 || group == ::getpgrp();
}

}  // namespace

void give_back_panel() noexcept {
  const int fd = terminal;
  if (fd < 0) return;
  flags->suspended = true;
  // Not for ever: a terminal may take nothing more.
  const timespec pause{0, 1000000};
  for (int i = 0; i < 50 && flags->drawing; ++i) ::nanosleep(&pause, nullptr);
  write_give_back(fd);
}

/// A child process that does nothing but wait for this one's end, which closes the pipe between them.
class Panel::Guard {
 public:
  explicit Guard(int fd) {
    void* shared =
        ::mmap(nullptr, sizeof own_flags, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int ends[2] = {-1, -1};
    if (shared != MAP_FAILED && ::pipe2(ends, O_CLOEXEC) == 0) {
      flags = new (shared) Flags;
      child_ = ::fork();
      if (child_ == 0) watch(ends, fd);
      ::close(ends[0]);
      pipe_ = ends[1];
    }
    if (child_ < 0)
      log_warning(
          "The process that tidies the terminal cannot be started; should this one be killed, type: reset");
  }
  /// The panel has given its rows back.
  ~Guard() {
    if (flags != &own_flags) ::munmap(std::exchange(flags, &own_flags), sizeof own_flags);
    if (pipe_ >= 0) ::close(pipe_);
    while (child_ > 0 && ::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  /// Only calls that are safe after a fork among threads.
  [[noreturn]] static void watch(const int ends[2], int fd) {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    ::prctl(PR_SET_NAME, "terminal guard");
    ::close(ends[1]);
    close_others(static_cast<unsigned>(ends[0]), static_cast<unsigned>(fd));
    char nothing = 0;
    while (::read(ends[0], &nothing, 1) < 0 && errno == EINTR) {
    }
    write_give_back(fd);
    ::_exit(0);
  }
  /// Files of the parent, and its ends of pipes, are not held open.
  static void close_others(unsigned a, unsigned b) {
    const auto close = [](unsigned first, unsigned last) { ::syscall(SYS_close_range, first, last, 0u); };
    const auto [low, high] = std::minmax(a, b);
    if (low > 0) close(0, low - 1);
    if (high > low + 1) close(low + 1, high - 1);
    close(high + 1, ~0u);
  }
  int pipe_ = -1;
  pid_t child_ = -1;
};

bool Panel::possible(const Console& console, std::string& why) {
  const char* kind = std::getenv("TERM");
  if (!console.is_terminal())
    why = "standard error is no terminal";
  else if (kind == nullptr || *kind == 0 || std::string_view(kind) == "dumb")
    why = cat("the terminal cannot place text (TERM is ", kind == nullptr || *kind == 0 ? "not set" : kind,
              ")");
  return why.empty();
}

Panel::Panel(Console& console) : console_(console) {
  int none = -1;
  if (!terminal.compare_exchange_strong(none, console.fd_))
    runtime_failure("a terminal has room for one panel at a time");
  guard_ = std::make_unique<Guard>(console.fd_);
  console.set_panel(true);
  struct sigaction action {};
  action.sa_flags = SA_RESTART;
  ::sigfillset(&action.sa_mask);
  action.sa_handler = on_continue;
  ::sigaction(SIGCONT, &action, &continue_before);
  ::sigaction(SIGTSTP, nullptr, &stop_before);
  action.sa_handler = on_stop;
  if (stop_before.sa_handler != SIG_IGN) ::sigaction(SIGTSTP, &action, nullptr);
}

Panel::~Panel() {
  ::sigaction(SIGTSTP, &stop_before, nullptr);
  ::sigaction(SIGCONT, &continue_before, nullptr);
  give_back_panel();
  terminal = -1;
  flags->suspended = false;
  console_.set_panel(false);
}

Panel::Size Panel::size() const {
  winsize now{};
  if (::ioctl(console_.fd_, TIOCGWINSZ, &now) != 0 || now.ws_row == 0 || now.ws_col == 0) return {24, 80};
  return {now.ws_row, now.ws_col};
}

/// Works wherever the cursor is and whatever a terminal did with its lines when its size changed, as long as
/// an earlier panel is below the cursor: erases that, scrolls as far as needed, and sets the rows apart.
std::string Panel::take_rows(int count) const {
  if (count == 0) return std::string(kGiveBack);
  return "\033[m\0337\033[r\0338\033[J" + std::string(static_cast<std::size_t>(count), '\n') +
         cat("\033[", count, "A\0337\033[1;", size_.rows - count, "r\0338\033[?25l");
}

void Panel::draw(const std::vector<std::string>& rows) {
  flags->drawing = true;
  if (!flags->suspended && is_in_foreground(console_.fd_)) write(rows);
  flags->drawing = false;
}

void Panel::write(const std::vector<std::string>& rows) {
  const Size now = size();
  const int count = std::max(0, std::min(static_cast<int>(rows.size()), now.rows - kLeast));
  std::string bytes;
  const bool again = flags->take_again.exchange(false);
  const bool anew =
      again || !flags->has_rows || now != size_ || static_cast<std::size_t>(count) != shown_.size();
  size_ = now;
  if (anew) bytes = take_rows(count);
  bool changed = false;
  for (int i = 0; i < count; ++i) {
    const std::string& row = rows[static_cast<std::size_t>(i)];
    if (!anew && row == shown_[static_cast<std::size_t>(i)]) continue;
    // Without wrapping: a character that the terminal takes for a wider one must not scroll it.
    if (!changed) bytes += "\0337\033[?7l";
    changed = true;
    bytes += cat("\033[", now.rows - count + i + 1, ";1H\033[m\033[2K", row);
  }
  if (changed) bytes += "\033[m\033[?7h\0338";
  shown_.assign(rows.begin(), rows.begin() + count);
  if (bytes.empty()) return;
  flags->has_rows = true;
  console_.write(bytes);
}

}  // namespace banyan
