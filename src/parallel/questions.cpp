#include "banyan/parallel/questions.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "banyan/base/error.hpp"

namespace banyan::parallel {
namespace {

/// Before each question and each answer. Two messages of one tag arrive in the order in which they were sent,
/// so that bytes follow their heads.
struct Head {
  std::uint64_t number = 0;  ///< of the question, in the process that asks
  std::uint64_t bytes = 0;
  bool withdrawn = false;  ///< the question, which was asked before: no text follows
};

struct Letter {
  int process = 0;  ///< the other one
  Head head;
  std::string text;
  int open = 0;  ///< transfers
};

}  // namespace

struct Questions::State {
  explicit State(Answer to_answer) : answer(std::move(to_answer)) {}

  // Under the mutex.

  void post(int process, std::uint64_t number, std::string text, bool withdrawn = false) {
    auto letter = std::make_unique<Letter>();
    letter->process = process;
    letter->head = {number, text.size(), withdrawn};
    letter->text = std::move(text);
    outbox.push_back(std::move(letter));
    if (wake) wake();
  }

  /// Every question gets one answer: this one, unless it has been answered or withdrawn before.
  void reply(int process, std::uint64_t number, std::string text) {
    if (asked.erase({process, number}) > 0) post(process, number, std::move(text));
  }

  // On the thread of the wire.

  int head_tag() const { return wire->last_tag(); }
  int text_tag() const { return wire->last_tag() - 1; }

  void send(std::unique_ptr<Letter> letter) {
    Letter& out = *letter;
    const auto sent = [this, &out](std::size_t) {
      if (--out.open == 0) leaving.remove_if([&](const auto& other) { return other.get() == &out; });
    };
    leaving.push_back(std::move(letter));
    out.open = 1 + static_cast<int>((out.text.size() + Wire::kMostBytes - 1) / Wire::kMostBytes);
    wire->send(out.process, head_tag(), &out.head, sizeof out.head, sent);
    for (std::size_t at = 0; at < out.text.size(); at += Wire::kMostBytes)
      wire->send(out.process, text_tag(), out.text.data() + at,
                 std::min(Wire::kMostBytes, out.text.size() - at), sent);
  }

  void listen(int process) {
    Letter& in = coming[process];
    in.process = process;
    wire->receive(process, head_tag(), &in.head, sizeof in.head,
                  [this, &in](std::size_t) { receive_text(in); });
  }

  void receive_text(Letter& in) {
    in.text.resize(in.head.bytes);
    in.open = static_cast<int>((in.text.size() + Wire::kMostBytes - 1) / Wire::kMostBytes);
    if (in.open == 0) return arrived(in);
    for (std::size_t at = 0; at < in.text.size(); at += Wire::kMostBytes)
      wire->receive(in.process, text_tag(), in.text.data() + at,
                    std::min(Wire::kMostBytes, in.text.size() - at), [this, &in](std::size_t) {
                      if (--in.open == 0) arrived(in);
                    });
  }

  void arrived(Letter& in) {
    const int process = in.process;
    const Head head = in.head;
    std::string text = std::move(in.text);
    listen(process);
    if (process == 0) {
      const std::lock_guard<std::mutex> lock(mutex);
      asked.erase({0, head.number});
      const auto found = answers.find(head.number);  // none: it is no longer wanted
      if (found != answers.end()) found->second = std::move(text);
      changed.notify_all();
      return;
    }
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (head.withdrawn) return reply(process, head.number, "");
      asked.insert({process, head.number});
    }
    answer(process, std::move(text), [self = self.lock(), process, head](std::string given) {
      const std::lock_guard<std::mutex> lock(self->mutex);
      self->reply(process, head.number, std::move(given));
    });
  }

  std::weak_ptr<State> self;
  const Answer answer;
  Wire* wire = nullptr;
  std::list<std::unique_ptr<Letter>> leaving;
  std::map<int, Letter> coming;  ///< by process

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> wake;
  std::deque<std::unique_ptr<Letter>> outbox;
  std::uint64_t next = 0;
  /// Questions without an answer so far, with the other process.
  std::set<std::pair<int, std::uint64_t>> asked;
  std::map<std::uint64_t, std::optional<std::string>> answers;
};

Questions::Questions(Answer answer) : state_(std::make_shared<State>(std::move(answer))) {
  state_->self = state_;
}
Questions::~Questions() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->wake = nullptr;
}

std::string Questions::ask(std::string question, const std::function<bool()>& cancelled) {
  State& state = *state_;
  std::unique_lock<std::mutex> lock(state.mutex);
  const std::uint64_t number = ++state.next;
  state.asked.insert({0, number});
  std::optional<std::string>& answer = state.answers[number];
  state.post(0, number, std::move(question));
  while (!state.changed.wait_for(lock, std::chrono::milliseconds(20), [&] { return answer.has_value(); }))
    if (cancelled()) break;
  std::optional<std::string> given = std::move(answer);
  state.answers.erase(number);
  if (given) return *std::move(given);
  // It may hold up process 0 for ever, in a file perhaps: nobody shall wait for that at the end.
  state.post(0, number, "", true);
  throw Error(ErrorKind::aborted, "process 0 is no longer waited for");
}

void Questions::join(Wire& wire, std::function<void()> wake) {
  state_->wire = &wire;
  if (wire.process() == 0)
    for (int process = 1; process < wire.processes(); ++process) state_->listen(process);
  else
    state_->listen(0);
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->wake = std::move(wake);
}

bool Questions::step(Clock::time_point, const Silence&) {
  std::deque<std::unique_ptr<Letter>> letters;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    letters.swap(state_->outbox);
  }
  for (std::unique_ptr<Letter>& letter : letters) state_->send(std::move(letter));
  return !letters.empty();
}

bool Questions::waits() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return !state_->answers.empty();
}

bool Questions::quiet() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->leaving.empty() && state_->outbox.empty() && state_->asked.empty();
}

}  // namespace banyan::parallel
