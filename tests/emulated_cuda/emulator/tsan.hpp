// What ThreadSanitizer is told. The emulator's own locks and queues order nothing for it (a Quiet scope hides
// them); order_before and order_after tell it the order that CUDA promises. All of it is empty in builds
// without ThreadSanitizer.
#pragma once

#include <cstddef>

#if defined(EMULATED_CUDA_TSAN)
extern "C" {
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void __tsan_acquire(void* token);
void __tsan_release(void* token);
void __tsan_read_range(void* memory, unsigned long bytes);
void __tsan_write_range(void* memory, unsigned long bytes);
}
#endif

namespace emulated {

class Quiet {
 public:
#if defined(EMULATED_CUDA_TSAN)
  Quiet() {
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~Quiet() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  }
#else
  Quiet() {}
#endif
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};

/// All that the thread did before order_before(token) precedes what another does after order_after(token).
inline void order_before([[maybe_unused]] const void* token) {
#if defined(EMULATED_CUDA_TSAN)
  __tsan_release(const_cast<void*>(token));
#endif
}
inline void order_after([[maybe_unused]] const void* token) {
#if defined(EMULATED_CUDA_TSAN)
  __tsan_acquire(const_cast<void*>(token));
#endif
}
inline void tell_access([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes,
                        [[maybe_unused]] bool write) {
#if defined(EMULATED_CUDA_TSAN)
  if (write)
    __tsan_write_range(const_cast<void*>(memory), bytes);
  else
    __tsan_read_range(const_cast<void*>(memory), bytes);
#endif
}

}  // namespace emulated
