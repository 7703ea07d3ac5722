// Which processor cores belong to which CPU device of a run.
//
// Devices with dedicated cores do not migrate, and none of them waits because the scheduler has put two of
// them on one core. Three things must still hold: threads that help a device (prefetching) may run on any
// core of the process; a process that was bound from outside (taskset, a container) stays within its cores;
// and two trainers on one machine are not bound to the same cores while others are free.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace banyan {

enum class Pinning : std::uint8_t {
  automatic,  ///< bound if every thread can have a core that no other run is bound to
  on,         ///< bound, or bad_input if there are too few cores; cores of other runs are taken last
  off
};

/// The same for all processes on this machine, in whatever container, and different elsewhere.
std::string machine_id();
/// Cores that the calling thread may run on, ascending; never empty.
std::vector<int> allowed_cores();
/// Restricts the calling thread to `cores`. False if the system refuses.
bool run_on_cores(const std::vector<int>& cores);

/// One core, and where it sits.
struct CoreSeat {
  int core = 0;
  int package = 0;  ///< processor socket
  int sibling = 0;  ///< 0 for the first of the logical cores that share a physical one, then 1, ...
  bool operator==(const CoreSeat&) const = default;
};
/// What the system says about each core; a core it says nothing about counts as a physical one of package 0.
std::vector<CoreSeat> seats_of(const std::vector<int>& cores);
/// Divides cores into sets of `threads`, one per device: whole physical cores come first, and a device's
/// cores are in one package if possible. Cores in `taken` come last. Empty if there are too few.
std::vector<std::vector<int>> share_out(std::vector<CoreSeat> seats, const std::vector<int>& taken,
                                        int devices, int threads);
/// "0-3,8".
std::string core_list(const std::vector<int>& cores);

/// The cores of a run's CPU devices, from before their threads start until after they have ended. Claims
/// them, visibly to other runs on this machine. Restores the calling thread's affinity at the end, because
/// that thread may have served as a device. Throws bad_input for Pinning::on if there are too few cores.
class DeviceCores {
 public:
  /// `claims`: runs that use the same name see each other.
  DeviceCores(int devices, int threads, Pinning pinning, std::string claims = "banyan");
  ~DeviceCores();
  DeviceCores(const DeviceCores&) = delete;
  DeviceCores& operator=(const DeviceCores&) = delete;

  /// Those of device `rank`; empty: it is not bound.
  const std::vector<int>& of(int rank) const;
  /// A line for the log.
  std::string describe() const;

 private:
  void bind(int devices, int threads, Pinning pinning);
  bool claim(int core);
  void release();
  std::string claims_;
  std::vector<int> all_, none_;
  std::vector<std::vector<int>> shares_;
  std::vector<int> sockets_;  // one per claimed core
  std::string note_;          // if nothing is bound
};

}  // namespace banyan
