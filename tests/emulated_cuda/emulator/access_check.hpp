// Checks each access of a kernel to memory. Such a build compiles kernels with -fsanitize=thread; the
// compiler's calls go to access_check.cpp instead of ThreadSanitizer.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulated {

class Running;

/// Memory besides the GPU's that a launch may read: its arguments.
struct Constant {
  const char* begin = nullptr;
  std::size_t bytes = 0;
};

/// One kernel runs at a time in the whole process, so that each access is attributed to its launch.
void check_launch_begins(Running& now, const Constant& arguments);
void check_launch_ends();
void check_block_begins(unsigned long long block);
/// All threads of the block have reached a barrier.
void check_barrier();
/// From now on the calling host thread runs CUDA threads on this stack, or no longer does.
void check_threads_begin(const void* stack_low, const void* stack_high);
void check_threads_end();
/// What the emulator does for a CUDA thread is not checked (some of its functions may be copies from a
/// checked file).
class NotChecked {
 public:
  NotChecked();
  ~NotChecked();
  NotChecked(const NotChecked&) = delete;
  NotChecked& operator=(const NotChecked&) = delete;
};
/// A shared array of the block.
void check_shared(char* memory, std::size_t bytes);
/// The pages at [begin, end) of a GPU's arena have been freed: what is known of them goes too, which is
/// several times as large.
void check_pages_freed(std::size_t gpu, std::uintptr_t begin, std::uintptr_t end);

}  // namespace emulated
