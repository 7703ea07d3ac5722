#include "banyan/parallel/pipe.hpp"

#include <utility>

#include "banyan/base/error.hpp"

namespace banyan::parallel {

std::string Meeting::to_string() const {
  return cat("\"", what, "\" ", phase, " (", number, ", exchange ", sequence, ")");
}

Pipe::Pipe(Device& sender, std::string sender_name, std::string receiver_name, Doorbell& receiver, int slots)
    : sender_name_(std::move(sender_name)),
      receiver_name_(std::move(receiver_name)),
      receiver_(&receiver),
      slots_(slots) {
  for (Slot& slot : slots_) slot.event = sender.create_event();
}

void Pipe::send(int slot, const Tensor& message, const Meeting& meeting, Stream& stream) {
  Slot& to = slots_[slot];
  stream.record(*to.event);
  to.message = &message;
  to.meeting = meeting;
  to.sequence.store(meeting.sequence, std::memory_order_release);
  receiver_->ring();
}

bool Pipe::arrived(int slot, const Meeting& meeting) const {
  const Slot& from = slots_[slot];
  const std::uint64_t sequence = from.sequence.load(std::memory_order_acquire);
  // Nothing yet, or still the last round's message. A sender that is several rounds late is an error once it
  // has sent.
  if (sequence == 0 || sequence + 1 == meeting.sequence) return false;
  const Meeting& sent = from.meeting;
  if (sequence != meeting.sequence || sent.what != meeting.what || sent.number != meeting.number ||
      std::string_view(sent.phase) != meeting.phase)
    runtime_failure("devices meet at different exchanges: ", sender_name_, " at ", sent.to_string(), ", ",
                    receiver_name_, " at ", meeting.to_string());
  return true;
}

const Tensor& Pipe::receive(int slot, Stream& stream) const {
  const Slot& from = slots_[slot];
  stream.wait(*from.event);
  return *from.message;
}

}  // namespace banyan::parallel
