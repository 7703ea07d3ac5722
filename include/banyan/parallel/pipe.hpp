// Pipe: one direction of one edge of the tree, on one lane.
//
// A pipe is an array of numbered slots. A message is a tensor of the sender and an Event after which it may
// be read: the receiver makes its *stream* wait for the event; no host thread waits for a device. Each slot
// carries a Meeting that the receiver compares with its own, so devices that meet at different places fail
// immediately, with both named. The protocols built on pipes guarantee that a slot is received before it is
// sent again (every message up is answered by a message down), so sending never waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/device/context.hpp"
#include "banyan/parallel/abort.hpp"
#include "banyan/tensor/tensor.hpp"

namespace banyan::parallel {

/// Where a device is when it sends or receives. All fields must agree at both ends.
struct Meeting {
  std::string_view what;       ///< layer name, or "bucket"; outlives the exchange
  const char* phase = "";      ///< a literal
  std::int64_t number = 0;     ///< bucket number, or the message's number of elements
  std::uint64_t sequence = 0;  ///< counts the exchanges of a slot, from 1
  std::string to_string() const;
};

class Pipe {
 public:
  /// `sender` makes the events; `receiver` is rung.
  Pipe(Device& sender, std::string sender_name, std::string receiver_name, Doorbell& receiver, int slots);
  /// Enqueues the event on `stream` and publishes. `message` must stay valid until the receiver's answer;
  /// after an error, which ends without one, until all threads of the group have ended.
  void send(int slot, const Tensor& message, const Meeting& meeting, Stream& stream);
  /// Has the message of this meeting arrived? Throws a runtime failure naming both devices and places if
  /// another one has.
  bool arrived(int slot, const Meeting& meeting) const;
  /// Makes `stream` wait for the arrived message and returns it.
  const Tensor& receive(int slot, Stream& stream) const;

 private:
  struct Slot {
    std::atomic<std::uint64_t> sequence{0};
    const Tensor* message = nullptr;
    Meeting meeting;
    std::unique_ptr<Event> event;
  };
  std::string sender_name_, receiver_name_;
  Doorbell* receiver_;
  std::vector<Slot> slots_;
};

}  // namespace banyan::parallel
