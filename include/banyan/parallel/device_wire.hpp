// DeviceWire: messages between devices of different processes, from memory to memory, in the order of their
// streams. What DeviceUplink needs of NCCL, and no more.
//
// A wire is one device's end of a group of devices, which are numbered in rank order. Two devices of a group
// must be sent, and receive, each other's messages in the same order.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "banyan/device/device.hpp"

namespace banyan::parallel {

struct DeviceTransfer {
  enum class Way : bool { send, receive };
  Way way = Way::send;
  int rank = 0;  ///< the other device's
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// All calls by one thread at a time.
class DeviceWire {
 public:
  /// After leave(), or DeviceWires::abort.
  virtual ~DeviceWire() = default;
  /// Enqueues the transfers, which take place at the same time. Only after ready().
  virtual void exchange(Stream& stream, std::span<const DeviceTransfer> transfers) = 0;
  /// False while what was called last is still being prepared: joining, an exchange with a device that is met
  /// for the first time, leaving. Throws what has failed since, on the stream too.
  virtual bool ready() = 0;
  /// Nothing follows; done when ready().
  virtual void leave() = 0;
};

/// A library that has such wires.
struct DeviceWires {
  std::string (*version)();
  /// For one group; its devices' processes must all get it.
  std::string (*make_key)();
  /// Begins to join; ready() when all `devices` of the group have.
  std::unique_ptr<DeviceWire> (*join)(Device& device, const std::string& key, int devices, int rank);
  /// Ends what is under way on the streams; nothing may follow but ready(), which is then true. On any
  /// thread. All of a device's wires in one call: that of one may not return before the others' exchanges
  /// have ended.
  void (*abort)(std::span<DeviceWire* const> wires) noexcept;
};

/// NCCL, of GPUs. Throws bad_input if there is none.
const DeviceWires& nccl_wires();

}  // namespace banyan::parallel
