// Uplink: the parent of the root. A run on the devices of one process has none. A run over several processes,
// each with a device tree of its own, attaches an implementation (MPI, NCCL) here and nowhere else.
//
//        process 0              process 1
//
//          Uplink <--------------> Uplink        sums and moments of the processes
//            |                       |
//          root                    root          of a statistics tree, or the owner of a bucket
//          /  \                    /  \          children are added below, in tree order
//
// A root that has added its children begins an exchange with the roots of the same slot in the other
// processes, goes on with other work, and sends down what comes out. Every process then holds the same sums,
// updates its own copy of the parameters by the same arithmetic, and so all stay the same bit for bit.
#pragma once

#include <cstdint>

#include "banyan/device/context.hpp"
#include "banyan/parallel/abort.hpp"
#include "banyan/parallel/pipe.hpp"

namespace banyan::parallel {

enum class UplinkMerge : std::uint8_t {
  sum,      ///< elementwise
  moments,  ///< ops::merge_moments of f64 (1 + 2 C) messages
  first,    ///< every process gets the message of process 0
};

/// One process among those that train together. Devices are numbered through: those of process 0 come first.
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

  /// Begins to merge `message` with those that the other processes bring to `slot`, in the order of the
  /// processes, so that all end with the same bits. The message is complete once `context`'s stream has done
  /// what is enqueued there, and belongs to the uplink until done() said so. `bell` is rung when done()
  /// should be asked again. Does not wait. Called by the thread of the slot's root, which is another one for
  /// other slots: slots may begin in any order and in different orders in different processes. (An
  /// implementation whose library wants one order starts them by slot: a slot that has not begun never waits
  /// for a later one.) `meeting` says what the message is; a process that brings another one is a runtime
  /// failure that names both, here or in done().
  virtual void begin(int slot, Tensor& message, UplinkMerge merge, const Meeting& meeting, Context& context,
                     Doorbell& bell) = 0;
  /// Once true, what is enqueued on `context` from now on finds the result in the message. Called by the
  /// thread that began. Throws a runtime failure that names the process if another one has failed.
  virtual bool done(int slot, Context& context) = 0;
  /// This process has failed: done() throws in the others, and its own bells are not rung any more. On any
  /// thread, perhaps twice; does not wait.
  virtual void abort() noexcept = 0;
};

}  // namespace banyan::parallel
