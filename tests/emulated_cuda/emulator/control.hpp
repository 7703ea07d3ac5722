// For tests in the same process as the emulated machine: dlsym finds these names once libbanyan_cuda.so has
// been loaded.
#pragma once

extern "C" {
/// Like emulated::configure (settings.hpp); calls are counted from zero again, and GPUs that had failed work
/// again.
void emulated_cuda_configure(const char* settings);
/// Calls since then that failed because of a setting, and calls that could have.
unsigned long long emulated_cuda_failures();
unsigned long long emulated_cuda_calls();
/// The first of those that failed ("": none has), and how long ago that was.
const char* emulated_cuda_failed_call();
double emulated_cuda_seconds_since_failure();
/// Waits for all GPUs. What the process has run so far, as JSON; valid until the next call.
const char* emulated_cuda_counts();
}
