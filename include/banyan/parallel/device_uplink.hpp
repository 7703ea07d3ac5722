// DeviceUplink: an Uplink whose sums go from device to device, with no copy through the host and no wait of
// the host for them. Everything else, what processes tell each other and how they notice that one is missing,
// is the uplink below it, which joins the same processes through the host.
//
// Every device of every process is in two groups (DeviceWire), one for each lane, because the two lanes'
// messages have no order among each other. The roots of a slot send each other their parts, and all add up in
// process order. Longer messages are shared out: each root adds up one piece and sends the others the result.
// Gradients may travel in 16 bits: packed and added by kernels, with the bits that WireUplink gives.
#pragma once

#include <memory>
#include <optional>

#include "banyan/parallel/device_wire.hpp"
#include "banyan/parallel/uplink.hpp"

namespace banyan::parallel {

class DeviceUplink : public Uplink {
 public:
  /// `below` and `wires` outlive it. `reduce_precision`: what long f32 messages of buckets are sent as, bf16
  /// or f16; nothing: as they are.
  DeviceUplink(Uplink& below, const DeviceWires& wires, std::optional<DType> reduce_precision = std::nullopt);
  ~DeviceUplink() override;
  DeviceUplink(const DeviceUplink&) = delete;
  DeviceUplink& operator=(const DeviceUplink&) = delete;

  const UplinkPlace& place() const override;
  std::string name() const override;
  std::vector<std::string> share(const std::string& mine) override;
  /// Joins the devices.
  void attach(UplinkRun run) override;
  void detach() noexcept override;
  OtherDevices others() const override;
  /// What is spread from the first process goes through the host: it is what a run begins with, and there the
  /// processes compare what they meet for. Afterwards they have the same net, and sums are not compared.
  void begin(int slot, Tensor& message, UplinkMerge merge, const Meeting& meeting, ProcessRange among,
             Context& context, Doorbell& bell) override;
  bool done(int slot, Context& context) override;
  void abort(const Error& error) noexcept override;
  bool speaks() const override;
  void let_others_speak() const override;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace banyan::parallel
