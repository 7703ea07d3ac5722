#include "control.hpp"

#include "failure.hpp"
#include "machine.hpp"

extern "C" {

void emulated_cuda_configure(const char* settings) { emulated::configure(settings); }
unsigned long long emulated_cuda_failures() { return emulated::failures_struck(); }
unsigned long long emulated_cuda_calls() { return emulated::calls_made(); }
const char* emulated_cuda_failed_call() { return emulated::first_failure().call; }
double emulated_cuda_seconds_since_failure() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - emulated::first_failure().when)
      .count();
}
const char* emulated_cuda_counts() {
  static auto* const text = new std::string;
  for (int gpu = 0; gpu < emulated::settings().gpus; ++gpu) emulated::wait_for_gpu(gpu);
  *text = emulated::counts_as_json();
  return text->c_str();
}

}  // extern "C"
