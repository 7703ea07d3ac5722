#include "banyan/parallel/link_access.hpp"

#include <algorithm>
#include <array>

#include "banyan/base/error.hpp"
#include "banyan/device/cuda_devices.hpp"
#include "banyan/parallel/link_check.hpp"

namespace banyan::parallel {

const char* name_of(Access access) {
  switch (access) {
    case Access::in_place:
      return "in place";
    case Access::copied:
      return "copied";
    case Access::staged:
      return "staged through the host";
  }
  return "?";
}

/// Two host buffers: one is filled by the owner while the reader empties the other.
class Transfer::Detour {
 public:
  Detour(Device& owner, Device& reader) : out_(owner.create_stream("detour")), begun_(reader.create_event()) {
    for (Half& half : halves_)
      half = {owner.allocate_host(kBytes), owner.create_event(), reader.create_event()};
  }
  ~Detour() {
    try {
      out_->synchronize();  // the buffers are about to be freed
    } catch (const std::exception&) {
      // The failure has been reported elsewhere: the reader's stream uses everything copied here.
    }
  }
  Detour(const Detour&) = delete;
  Detour& operator=(const Detour&) = delete;

  void copy(Stream& in, char* to, const char* from, std::size_t bytes) {
    in.record(*begun_);
    out_->wait(*begun_);
    for (std::size_t at = 0; at < bytes; at += kBytes, next_ ^= 1) {
      Half& half = halves_[next_];
      const std::size_t piece = std::min(kBytes, bytes - at);
      out_->wait(*half.emptied);
      out_->copy(half.host.get(), from + at, piece);
      out_->record(*half.filled);
      in.wait(*half.filled);
      in.copy(to + at, half.host.get(), piece);
      in.record(*half.emptied);
    }
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{1} << 20;
  struct Half {
    std::shared_ptr<void> host;
    std::unique_ptr<Event> filled, emptied;
  };
  std::unique_ptr<Stream> out_;  ///< the owner's
  std::unique_ptr<Event> begun_;
  std::array<Half, 2> halves_;
  std::size_t next_ = 0;
};

Transfer::Transfer(Access access, Device& owner, Device& reader) {
  if (access == Access::staged) detour_ = std::make_unique<Detour>(owner, reader);
}

Transfer::~Transfer() = default;

void Transfer::copy(Stream& stream, void* to, const void* from, std::size_t bytes) {
  if (detour_)
    detour_->copy(stream, static_cast<char*>(to), static_cast<const char*>(from), bytes);
  else
    stream.copy(to, from, bytes);
}

Access usual_access(Device& owner, Device& reader) {
  if (reader.in_host_memory() || enable_peer_access(reader, owner)) return Access::in_place;
  return Access::copied;
}

LinkAccess::LinkAccess(std::function<void(const std::string&)> warn, Verify verify)
    : warn_(std::move(warn)), verify_(verify) {}

Access LinkAccess::between(Device& owner, Device& reader) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto pair = std::make_pair<const Device*, const Device*>(&owner, &reader);
  const auto found = decided_.find(pair);
  if (found != decided_.end()) return found->second;
  return decided_[pair] = decide(owner, reader);
}

Access LinkAccess::decide(Device& owner, Device& reader) const {
  if (always_) return *always_;
  const Access usual = usual_access(owner, reader);
  const bool one_memory = reader.in_host_memory() || reader.ordinal() == owner.ordinal();
  if (one_memory && verify_ != Verify::all) return usual;
  const LinkCheck check = verify_link(owner, reader, usual);
  if (check.verdict == LinkVerdict::whole) return usual;
  if (check.verdict == LinkVerdict::stalled)
    runtime_failure("data sent from ", owner.name(), " to ", reader.name(), " do not arrive: ", check.what,
                    "; ", kLinkHint, ", or leave one of the two out");
  const LinkCheck detour = verify_link(owner, reader, Access::staged);
  if (detour.verdict != LinkVerdict::whole)
    runtime_failure("data sent from ", owner.name(), " to ", reader.name(),
                    " arrive damaged, even through the host: ", detour.what);
  warn_(cat("Data sent from ", owner.name(), " to ", reader.name(), " arrive damaged (", check.what,
            "): staging through the host instead; ", kLinkHint));
  return Access::staged;
}

}  // namespace banyan::parallel
