#include "banyan/live/dashboard.hpp"

#include <langinfo.h>
#include <locale.h>
#include <pthread.h>

#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "banyan/base/text.hpp"
#include "banyan/observe/panel.hpp"
#include "base/background_thread.hpp"
#include "live/view.hpp"

namespace banyan::live {
namespace {

/// By the user's locale, which the program itself does not use: its numbers look the same everywhere.
bool is_utf8() {
  const locale_t users = ::newlocale(LC_CTYPE_MASK, "", locale_t{});
  if (users == locale_t{}) return false;
  const std::string_view characters = ::nl_langinfo_l(CODESET, users);
  const bool utf8 = characters == "UTF-8";
  ::freelocale(users);
  return utf8;
}

/// https://no-color.org
Look users_look() {
  const char* no_colour = std::getenv("NO_COLOR");
  return {is_utf8(), no_colour == nullptr || *no_colour == 0};
}

/// The view, which the writer's thread fills and the dashboard's draws.
struct SharedView : metrics::Sink {
  void write(const metrics::Record& record) override {
    const std::lock_guard lock(mutex);
    view.take(record);
  }
  std::mutex mutex;
  View view;
};

/// A signal interrupts other threads: what this one writes stays whole.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

struct Dashboard::State {
  State(Console& its_console, std::chrono::milliseconds its_period)
      : console(its_console), period(its_period), panel(its_console) {}

  void draw() {
    const Panel::Size size = panel.size();
    std::vector<std::string> rows;
    {
      const std::lock_guard lock(view->mutex);
      view->view.look_at(*board);
      rows = view->view.rows(size, look);
    }
    panel.draw(rows);
  }

  void run() {
    enter_background("dashboard");
    std::unique_lock lock(mutex);
    while (!ended) {
      lock.unlock();
      draw();
      lock.lock();
      changed.wait_for(lock, period, [this] { return ended; });
    }
  }

  Console& console;
  const std::chrono::milliseconds period;
  const Look look = users_look();
  const std::shared_ptr<SharedView> view = std::make_shared<SharedView>();
  const std::shared_ptr<RunBoard> board = std::make_shared<RunBoard>();
  Panel panel;
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
  std::thread thread;
};

Dashboard::Dashboard(Console& console, std::chrono::milliseconds period)
    : state_(std::make_unique<State>(console, period)) {
  const SignalsBlocked blocked;  // the thread inherits that
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

Dashboard::~Dashboard() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ended = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
  Console& console = state_->console;
  const int width = state_->panel.size().columns;
  const Look look = state_->look;
  const std::shared_ptr<SharedView> view = state_->view;
  state_.reset();
  const std::lock_guard lock(view->mutex);
  for (const std::string& row : view->view.last_rows(width, look)) console.print(row + "\n");
}

std::shared_ptr<metrics::Sink> Dashboard::sink() const { return state_->view; }

std::shared_ptr<RunBoard> Dashboard::board() const { return state_->board; }

}  // namespace banyan::live
