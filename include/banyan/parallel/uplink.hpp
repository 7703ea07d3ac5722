// Uplink: the parent of the root. A run on the devices of one process has none. A run over several processes,
// each with its own device tree, attaches an implementation (MPI, NCCL) here and nowhere else.
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

#include "banyan/device/context.hpp"
#include "banyan/parallel/abort.hpp"
#include "banyan/parallel/pipe.hpp"
#include "banyan/tensor/tensor.hpp"

namespace banyan::parallel {

enum class UplinkMerge : std::uint8_t {
  sum,      ///< elementwise
  moments,  ///< ops::merge_moments of f64 (1 + 2 C) messages
  first,    ///< every process gets the message of process 0
};

/// One process among those that train together. Devices are numbered across processes: those of process 0
/// come first.
struct UplinkPlace {
  int process = 0, processes = 1;
  int first_rank = 0;  ///< of this process's devices
  int devices = 1;     ///< of all processes
};

class Uplink {
 public:
  /// Messages of the statistics tree; bucket b has slot kFirstBucket + b.
  static constexpr int kStatistics = 0, kFirstBucket = 1;

  virtual ~Uplink() = default;
  virtual UplinkPlace place() const = 0;

  /// Begins to merge `message` with those of the other processes in `slot`, in process order, so that all
  /// results are bit-identical. The message is complete once `context`'s stream has done what is enqueued
  /// there, and belongs to the uplink until done() returns true. `bell` is rung when done() should be polled
  /// again. Does not wait. Called by the thread of the slot's root, which differs from slot to slot: slots
  /// may begin in any order and in different orders in different processes. (An implementation whose library
  /// requires one order starts them by slot: a slot that has not begun never waits for a later one.)
  /// `meeting` says what the message is; a process with a different one is a runtime failure that names both,
  /// here or in done().
  virtual void begin(int slot, Tensor& message, UplinkMerge merge, const Meeting& meeting, Context& context,
                     Doorbell& bell) = 0;
  /// Once true, work enqueued on `context` from now on finds the result in the message. Called by the thread
  /// that called begin(). If another process has failed, throws a runtime failure that names it.
  virtual bool done(int slot, Context& context) = 0;
  /// This process has failed: done() throws in the others, and its own bells are no longer rung. On any
  /// thread, possibly twice; does not wait.
  virtual void abort() noexcept = 0;
};

}  // namespace banyan::parallel
