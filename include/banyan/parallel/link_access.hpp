// How one device accesses another's memory. On some machines data sent over a direct link arrive damaged or
// not at all; such links are found before training and replaced by a detour through host memory.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "banyan/device/device.hpp"

namespace banyan::parallel {

enum class Access : std::uint8_t {
  in_place,  ///< the reader's operators read it where it is
  copied,    ///< the driver copies it, then it is read
  staged,    ///< through pinned host memory: the owner copies it out, the reader copies it in
};
const char* name_of(Access access);

/// Copies one device's memory to another's, ordered by the reader's stream. Used by the reader's thread.
class Transfer {
 public:
  Transfer(Access access, Device& owner, Device& reader);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  /// Enqueues on `stream` (the reader's). Whatever was enqueued there before, in particular a wait for the
  /// sender's event, comes before the read.
  void copy(Stream& stream, void* to, const void* from, std::size_t bytes);

 private:
  class Detour;
  std::unique_ptr<Detour> detour_;  ///< staged only
};

/// Decides once for every pair of devices: the decision holds for all trees of a run.
class LinkAccess {
 public:
  enum class Verify : std::uint8_t { gpus, all };  ///< all: CPU devices too, for tests
  /// `warn` receives a line for every link that is not used.
  explicit LinkAccess(std::function<void(const std::string&)> warn, Verify verify = Verify::gpus);
  /// Every link is accessed this way, unverified: for trying one way on devices that offer another.
  explicit LinkAccess(Access always) : verify_(Verify::gpus), always_(always) {}
  /// How `reader` reads `owner`'s memory. Throws a runtime failure if no way delivers the data intact.
  Access between(Device& owner, Device& reader);

 private:
  Access decide(Device& owner, Device& reader) const;

  std::function<void(const std::string&)> warn_;
  Verify verify_;
  std::optional<Access> always_;
  std::mutex mutex_;
  std::map<std::pair<const Device*, const Device*>, Access> decided_;
};

/// The way that the hardware allows, unverified.
Access usual_access(Device& owner, Device& reader);

}  // namespace banyan::parallel
