// For tests in the same process as the emulated machine: dlsym finds these names once libbanyan_cuda.so has
// been loaded.
#pragma once

extern "C" {
/// As emulated::configure (settings.hpp); calls are counted from the
/// beginning, GPUs that had failed work again.
void emulated_cuda_configure(const char* settings);
/// Calls that have failed because of a setting since then, and calls that could have.
unsigned long long emulated_cuda_failures();
unsigned long long emulated_cuda_calls();
/// Waits for all GPUs. What ran in the process so far, as JSON; valid until the next call.
const char* emulated_cuda_counts();
}
