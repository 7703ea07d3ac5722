// Uplink: the parent of the root. A run on the devices of one process has none. A run over several processes,
// each with its own device tree, is joined to the others here and nowhere else (WireUplink in
// wire_uplink.hpp does it over MPI, DeviceUplink in device_uplink.hpp over NCCL).
//
//        process 0              process 1
//
//          Uplink <--------------> Uplink        sums and moments of the processes
//            |                       |
//          root                    root          of a statistics tree, or the owner of a bucket
//          /  \                    /  \          children are added below, in tree order
//
// A root that has added its children begins an exchange with the roots of the same slot in the other
// processes, continues with other work, and sends down the result. Every process then holds the same sums and
// updates its own copy of the parameters with the same arithmetic, so that all copies stay bit-identical.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/device/context.hpp"
#include "banyan/parallel/abort.hpp"
#include "banyan/parallel/pipe.hpp"
#include "banyan/parallel/worker_group.hpp"
#include "banyan/tensor/tensor.hpp"

namespace banyan::parallel {

enum class UplinkMerge : std::uint8_t {
  sum,      ///< elementwise
  moments,  ///< ops::merge_moments of f64 (1 + 2 C) messages
  first,    ///< every process gets the message of the first one
};

/// Neighbouring processes, both ends included.
struct ProcessRange {
  int first = 0, last = 0;
  int first_device = 0;  ///< of those of the first process, the first one that takes part
  int size() const { return last - first + 1; }
};

/// One process among those that train together. Devices are numbered across processes: those of process 0
/// come first.
struct UplinkPlace {
  int process = 0;
  std::vector<int> devices_of = {1};  ///< each process

  int processes() const { return static_cast<int>(devices_of.size()); }
  int devices() const;                                    ///< of all processes
  int first_rank() const { return first_rank(process); }  ///< of this process's devices
  int first_rank(int of_process) const;
  ProcessRange everybody() const { return {0, processes() - 1}; }
  /// The processes that hold the devices from rank `first` to rank `last`.
  ProcessRange holding(int first, int last) const;
};

/// What the uplink and the devices of a run know of each other while the run lasts.
struct UplinkRun {
  std::vector<const Activity*> activities;  ///< of this process's devices
  /// Another process has failed: ends the run with this error. Called on any thread.
  std::function<void(const Error& error)> fail;
  std::vector<Device*> devices = {};  ///< of this process
  /// Does this device's stream wait for another process, whatever its thread does? Called on any thread.
  std::function<bool(int device)> held_up = {};
};

/// What a root begins above itself, and waits for: the part of an uplink that a device tree sees.
class RootParent {
 public:
  /// Messages of the statistics tree; bucket b has slot kFirstBucket + b. Negative ones are those of sync
  /// groups that span processes.
  static constexpr int kStatistics = 0, kFirstBucket = 1;

  virtual ~RootParent() = default;
  virtual const UplinkPlace& place() const = 0;

  /// Begins to merge `message` with those of the other processes `among` which this one is, in `slot`, in
  /// process order, so that all results are bit-identical. The message is complete once `context`'s stream
  /// has done what is enqueued there, and belongs to the uplink until done() returns true or detach()
  /// returns. `bell` is rung when done() should be polled again. Does not wait. Called by the thread of the
  /// slot's root, which differs from slot to slot: slots may begin in any order and in different orders in
  /// different processes; but each device begins its buckets in their order, and other slots in the order of
  /// the net. A slot that has not begun never waits for a later one. A bucket's root has the same number in
  /// every process; that of another slot is the first device that takes part. `meeting` says what the message
  /// is; a process with a different one is a runtime failure that names both, here or in done(); where
  /// buckets differ, in processes that are not its neighbours perhaps in a later exchange only.
  virtual void begin(int slot, Tensor& message, UplinkMerge merge, const Meeting& meeting, ProcessRange among,
                     Context& context, Doorbell& bell) = 0;
  /// Once true, work enqueued on `context` from now on finds the result in the message. Called by the thread
  /// that called begin(). If another process has failed, throws a runtime failure that names it.
  virtual bool done(int slot, Context& context) = 0;
  /// Is no slot done before all buckets have begun?
  virtual bool needs_all() const { return false; }
};

class Uplink : public RootParent {
 public:
  /// "process 2 on host b", for messages.
  virtual std::string name() const = 0;

  /// Every process's string, in process order. All processes call it; waits for all of them. Not while an
  /// exchange is under way here. Throws as done() does.
  virtual std::vector<std::string> share(const std::string& mine) = 0;

  /// The devices are about to begin. All processes call it, and it may wait for all of them. Throws as done()
  /// does.
  virtual void attach(UplinkRun run) = 0;
  /// They have ended: returns when the uplink uses nothing of theirs any more, neither messages nor bells nor
  /// what attach() was given. Exchanges that were under way are lost, which is meant for a run that failed.
  virtual void detach() noexcept = 0;
  /// For the watchdog.
  virtual OtherDevices others() const = 0;

  /// This process has failed, because of `error`: it is told to the others, where done() throws it, and the
  /// bells of this one are no longer rung. On any thread, possibly several times, of which the first counts;
  /// does not wait.
  virtual void abort(const Error& error) noexcept = 0;
  /// After a failure: is this process the one on its machine whose user is to see it? May wait a moment.
  virtual bool speaks() const { return true; }
  /// After that, before this process ends: what started the processes may kill all of them when one does.
  virtual void let_others_speak() const {}
};

/// What all processes must have in common, as names and values (of one line each, the same names everywhere).
/// All processes call it. The first difference is bad_input: "process 1 has another NAME than process 0".
void expect_alike(Uplink& uplink, const std::vector<std::pair<std::string, std::string>>& facts);

}  // namespace banyan::parallel
