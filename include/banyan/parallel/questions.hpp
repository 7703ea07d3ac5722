// Questions: process 0 answers what the other processes ask, on the wire of a WireUplink. Both are bytes of
// any number.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "banyan/parallel/wire_protocol.hpp"

namespace banyan::parallel {

class Questions : public WireProtocol {
 public:
  /// Called once for each question, on any thread.
  using Reply = std::function<void(std::string answer)>;
  /// Called on the wire's thread: must not wait. The reply may be given after this has returned.
  using Answer = std::function<void(int process, std::string question, Reply reply)>;

  /// `answer`: of process 0.
  explicit Questions(Answer answer);
  ~Questions() override;
  Questions(const Questions&) = delete;
  Questions& operator=(const Questions&) = delete;

  /// In another process, on any thread but the wire's: asks and waits for the answer. Throws
  /// ErrorKind::aborted soon after `cancelled()` returns true: the question is withdrawn, and the reply to
  /// it, if one comes, is lost.
  std::string ask(std::string question, const std::function<bool()>& cancelled);

  void join(Wire& wire, std::function<void()> wake) override;
  bool step(Clock::time_point now, const Silence& silence) override;
  bool waits() const override;
  bool quiet() const override;

 private:
  struct State;
  std::shared_ptr<State> state_;  ///< shared with replies that are still to come
};

}  // namespace banyan::parallel
