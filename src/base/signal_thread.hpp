// One thread takes the signals of the process, so that none arrives where numbers are computed: kernels of
// oneDNN (small matrix products with AVX-512) use the stack pointer as one more register, and a handler's
// frame would be written into whatever memory it points at.
#pragma once

#include <csignal>

namespace banyan {

/// Blocks the signals that the program handles in the calling thread, and with it in all that are started
/// from it later, and starts a thread that takes them. Later calls only block them. A runtime failure if no
/// thread can be started.
void leave_signals_to_one_thread();

/// While it lives, this thread takes signals, and programs that it starts do, too: for code of others, which
/// computes nothing for us. What this thread computes in parallel afterwards is still left alone by them.
class SignalsAllowed {
 public:
  SignalsAllowed();
  ~SignalsAllowed();
  SignalsAllowed(const SignalsAllowed&) = delete;
  SignalsAllowed& operator=(const SignalsAllowed&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace banyan
