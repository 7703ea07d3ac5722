// WireUplink: an Uplink over a Wire, such as MPI's. One thread owns the wire: it moves the messages of all
// slots, reports to the other processes what this one is doing, and notices when one of them is missing.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/parallel/uplink.hpp"
#include "banyan/parallel/wire.hpp"
#include "banyan/parallel/wire_protocol.hpp"

namespace banyan::parallel {

struct WireUplinkOptions {
  double watchdog_seconds = 0;            ///< a process that is not heard of for so long has failed; 0: never
  std::optional<DType> reduce_precision;  ///< bf16 or f16: sums of f32 gradients travel as these
  /// This process was told to end, as are all whose sibling died; outlives the uplink.
  const std::atomic<bool>* told_to_end = nullptr;
  std::string host;  ///< for messages; "": the machine's name
  /// For the processes to find each other; 0: as long as the watchdog, but 20 s at least.
  double patience_seconds = 0;
  int process = -1;      ///< its number, as far as whoever started it has said; -1: not at all
  int turn_on_host = 0;  ///< of those on this host, which one says that they have not found each other
  /// Process 0 serves the others: their silence is its business, and no failure.
  bool served_by_first = false;
  /// Processes from this one on may end without a word: where the wire outlives them (Wire::on_lost) the
  /// protocol is told, and the run goes on. Nothing: all are needed.
  std::optional<int> dispensable_from = {};
};

class WireUplink : public Uplink {
 public:
  /// Calls `connect` on the thread that will own the wire, and returns when all processes have joined. Throws
  /// what it throws.
  WireUplink(ConnectWire connect, const WireUplinkOptions& options);
  /// After leave() or a failure; otherwise the others are told that this process has failed.
  ~WireUplink() override;
  WireUplink(const WireUplink&) = delete;
  WireUplink& operator=(const WireUplink&) = delete;

  /// How many devices this process will use, which place() needs. All processes call it.
  void bring(int devices);
  /// From now on until the end this travels too. Once. It is told of processes that were lost before.
  void carry(std::shared_ptr<WireProtocol> protocol);
  /// Returns when all processes have called it; nothing may follow. Throws as done() does.
  void leave();
  /// After a failure: is this process the one on its machine whose user is to see it? One that failed itself
  /// is, or the first one where all have only heard of it.
  bool speaks() const override;
  /// After a failure, once that is done: what started the processes kills all of them when one ends, and this
  /// returns when those that are to speak have had the time.
  void let_others_speak() const override;

  const UplinkPlace& place() const override;
  std::string name() const override;
  /// Adds this process to what the error says, unless it is named there.
  void sign(Error& error) const;
  /// The string of a process that was lost is empty, perhaps not in all processes.
  std::vector<std::string> share(const std::string& mine) override;
  void attach(UplinkRun run) override;
  void detach() noexcept override;
  OtherDevices others() const override;
  void begin(int slot, Tensor& message, UplinkMerge merge, const Meeting& meeting, ProcessRange among,
             Context& context, Doorbell& bell) override;
  bool done(int slot, Context& context) override;
  void abort(const Error& error) noexcept override;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace banyan::parallel
