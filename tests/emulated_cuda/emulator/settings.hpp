// Settings of the emulated machine, from the environment variable EMULATED_CUDA: "key=value,key=value", such
// as "gpus=4,peers=islands,delay_us=50". Unknown keys or values end the process with a message.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace emulated {

/// fail=NAME:N[:CODE][:sticky]: the N-th call (from 1) of the function NAME fails with CODE; several are
/// joined by '+'. NAME "any" counts every call that can fail; "launch", a kernel's launch; "kernel", a kernel
/// while it runs. Sticky: so does every later call for that GPU.
struct InjectedFailure {
  std::string function;
  unsigned long long number = 1;
  int code = 0;  ///< 0: the library's usual code
  bool sticky = false;
};

struct Settings {
  int gpus = 1;                                ///< gpus=N, 0 to 16
  std::size_t memory = std::size_t{16} << 30;  ///< memory_mib=N, of each GPU
  int capability = 90;  ///< capability=N: compute capability, major and minor as one number; below 80 there
                        ///< are neither TF32 nor bf16
  std::string peers = "all";  ///< peers=all | none | islands (0-1, 2-3, ...) | one_way (i reads j > i) | rows
                              ///< of 0 and 1, "011/101/110"
  double peer_gbps =
      0;  ///< peer_gbps=X: copies between GPUs with peer access take at least bytes / X; 0: no time
  double staged_gbps = 0;  ///< staged_gbps=X: between GPUs without it
  double host_gbps = 0;    ///< host_gbps=X: between a GPU and the host
  unsigned delay_us = 0;   ///< delay_us=N: an eighth of all work starts up to N us late
  bool lazy = false;       ///< lazy=1: work runs only when something waits for it
  std::string order =
      "forward";      ///< order=forward | reverse | random: of a block's threads and a grid's blocks
  unsigned seed = 1;  ///< seed=N: of delays and orders
  std::string cudnn =
      "full";  ///< cudnn=full | contiguous (no channels-last) | none (no algorithm) | last (each but the last
               ///< one offered is refused when it runs) | refuse (every one is refused when it runs)
  int ulps = 0;  ///< ulps=N: kernels' library functions (at most 2) and the libraries' products and
                 ///< convolutions are off by up to so many units in the last place (rounding.hpp)
  std::vector<InjectedFailure> failures;  ///< fail=..., see above
  bool report = false;                    ///< on_violation=abort | report (and continue)
  bool stacks = false;  ///< stacks=1: record the host's stack at every call that enqueues work
  bool notes = true;    ///< notes=0: does not report what is allowed but slow or suspicious
  bool trace = false;   ///< trace=1: prints every piece of work as it is enqueued
  bool leaks = true;    ///< leaks=0: does not complain about what is left when the process ends
  std::string counts;   ///< counts=FILE: what ran, as JSON, when the process ends
};

const Settings& settings();
/// The environment's settings followed by these, for tests in the same process; number, memory and peers of
/// GPUs stay as they were at first use.
void configure(const std::string& text);

}  // namespace emulated
