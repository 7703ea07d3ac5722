// An uplink through memory: joins groups of devices of one test as if each were a separate process.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/normalization.hpp"
#include "banyan/parallel/uplink.hpp"

namespace banyan::parallel {

/// Shared by the processes. Outlives their uplinks' runs.
class MemoryHub {
 public:
  /// `devices[p]` of process p.
  explicit MemoryHub(std::vector<int> devices)
      : devices_(std::move(devices)), device_(make_cpu_device(0)), context(*device_) {}
  int processes() const { return static_cast<int>(devices_.size()); }
  UplinkPlace place(int process) const {
    UplinkPlace place{process, processes(), 0, 0};
    for (int p = 0; p < processes(); ++p) {
      if (p < process) place.first_rank += devices_[p];
      place.devices += devices_[p];
    }
    return place;
  }

  struct Part {
    Tensor values;  ///< a copy of the message
    Meeting meeting;
    Doorbell* bell = nullptr;
  };
  struct Slot {
    std::vector<Part> parts;
    int arrived = 0;
    std::uint64_t rounds = 0;  ///< complete
    Tensor result;
  };

 private:
  std::vector<int> devices_;
  std::unique_ptr<Device> device_;

 public:
  Context context;   ///< of the hub's own device, which outlives those of the processes
  std::mutex mutex;  ///< guards what follows
  std::map<int, Slot> slots;
  int failed = -1;  ///< process
  std::uint64_t messages = 0;
  std::vector<std::pair<int, Doorbell*>> waiting;  ///< process and the doorbell to ring there
};

class MemoryUplink : public Uplink {
 public:
  MemoryUplink(MemoryHub& hub, int process) : hub_(hub), process_(process) {}
  UplinkPlace place() const override { return hub_.place(process_); }

  void begin(int slot, Tensor& message, UplinkMerge merge, const Meeting& meeting, Context& context,
             Doorbell& bell) override {
    Tensor copy(hub_.context.device(), message.shape(), message.dtype());
    context.stream().copy(copy.raw(), message.raw(), message.bytes());
    context.synchronize();
    const std::lock_guard<std::mutex> lock(hub_.mutex);
    check_others();
    MemoryHub::Slot& at = hub_.slots[slot];
    at.parts.resize(hub_.processes());
    at.parts[process_] = {copy, meeting, &bell};
    Mine& mine = mine_[slot];
    mine = {&message, at.rounds + 1};
    ++hub_.messages;
    hub_.waiting.push_back({process_, &bell});
    if (++at.arrived < hub_.processes()) return;
    check_meetings(at);
    merge_all(at, merge, hub_.context);
    at.arrived = 0;
    ++at.rounds;
    for (const MemoryHub::Part& part : at.parts) part.bell->ring();
    for (int p = 0; p < hub_.processes(); ++p) std::erase(hub_.waiting, std::pair{p, at.parts[p].bell});
  }

  bool done(int slot, Context& context) override {
    const std::lock_guard<std::mutex> lock(hub_.mutex);
    check_others();
    const MemoryHub::Slot& at = hub_.slots.at(slot);
    const Mine mine = mine_.at(slot);
    if (at.rounds < mine.round) return false;
    context.stream().copy(mine.message->raw(), at.result.raw(), at.result.bytes());
    context.synchronize();  // the result may be overwritten by the next round
    return true;
  }

  void abort() noexcept override {
    const std::lock_guard<std::mutex> lock(hub_.mutex);
    if (hub_.failed < 0) hub_.failed = process_;
    std::erase_if(hub_.waiting, [this](const auto& entry) { return entry.first == process_; });
    for (const auto& [process, bell] : hub_.waiting) bell->ring();
  }

 private:
  struct Mine {
    Tensor* message = nullptr;
    std::uint64_t round = 0;
  };
  void check_others() const {
    if (hub_.failed >= 0) runtime_failure("process ", hub_.failed, " has failed");
  }
  void check_meetings(const MemoryHub::Slot& at) const {
    for (int p = 1; p < hub_.processes(); ++p) {
      const Meeting &first = at.parts[0].meeting, &other = at.parts[p].meeting;
      if (first.to_string() != other.to_string())
        runtime_failure("processes meet at different exchanges: process 0 at ", first.to_string(),
                        ", process ", p, " at ", other.to_string());
    }
  }
  void merge_all(MemoryHub::Slot& at, UplinkMerge merge, Context& context) const {
    const Tensor& first = at.parts[0].values;
    at.result = Tensor(context.device(), first.shape(), first.dtype());
    context.stream().copy(at.result.raw(), first.raw(), first.bytes());
    for (std::size_t p = 1; p < at.parts.size(); ++p) {
      if (merge == UplinkMerge::moments) ops::merge_moments(context, at.parts[p].values, at.result);
      if (merge == UplinkMerge::sum) ops::axpby(context, 1.0, at.parts[p].values, 1.0, at.result);
    }
    context.synchronize();
  }

  MemoryHub& hub_;
  int process_;
  std::map<int, Mine> mine_;
};

}  // namespace banyan::parallel
