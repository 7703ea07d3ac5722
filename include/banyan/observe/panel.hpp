// Panel: the last rows of a terminal, kept apart from what is printed. Log lines scroll above them, into the
// terminal's history as ever; the terminal does that itself, so whatever another library prints scrolls too.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "banyan/observe/console.hpp"

namespace banyan {

/// One at a time, used by one thread. The terminal gets its rows back when the panel is destroyed, while the
/// process is stopped (Ctrl-Z), and however it ends: a process of its own waits for that, so SIGKILL and a
/// damaged stack make no difference.
class Panel {
 public:
  struct Size {
    int rows = 0, columns = 0;
    bool operator==(const Size&) const = default;
  };

  /// Can a panel be shown on this terminal? If not, `why` says why.
  static bool possible(const Console& console, std::string& why);
  /// The console has no status line as long as this exists.
  explicit Panel(Console& console);
  ~Panel();
  Panel(const Panel&) = delete;
  Panel& operator=(const Panel&) = delete;

  /// Of the terminal, now.
  Size size() const;
  /// Shows these rows, at most size().rows - kLeast, each at most size().columns wide; only what has changed
  /// is written. Does nothing while another process has the terminal.
  void draw(const std::vector<std::string>& rows);
  /// Rows that stay with what is printed.
  static constexpr int kLeast = 3;

 private:
  class Guard;
  void write(const std::vector<std::string>& rows);
  std::string take_rows(int count) const;
  Console& console_;
  std::unique_ptr<Guard> guard_;
  Size size_;
  std::vector<std::string> shown_;
};

/// Gives the rows of a panel back. May be called in a signal handler, before the process ends.
void give_back_panel() noexcept;

}  // namespace banyan
