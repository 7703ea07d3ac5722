// A kernel with its arguments, as a launch takes it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <type_traits>

namespace emulated {

/// The threads of a block that have not started yet.
struct WaitingThreads {
  unsigned next = 0, count = 0;
  const unsigned* order = nullptr;  ///< null: ascending
};

/// Makes the calling thread run the next one; false: there is none. Not checked itself: it belongs to the
/// emulator.
#if defined(EMULATED_CUDA_CHECK)
__attribute__((no_sanitize("thread"), noinline))
#endif
inline bool
begin_next_thread(WaitingThreads& waiting) {
  if (waiting.next == waiting.count) return false;
  const unsigned number = waiting.order == nullptr ? waiting.next : waiting.order[waiting.next];
  ++waiting.next;
  const unsigned x = builtins.threads.x;
  if (waiting.count == x)
    builtins.thread.x = number;
  else
    builtins.thread = {number % x, number / x % builtins.threads.y, number / x / builtins.threads.y};
  return true;
}

class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Runs threads one after the other until none is left. It may be suspended at a barrier; another call then
  /// takes the rest.
  virtual void run(WaitingThreads& threads) const = 0;
  virtual void* arguments() = 0;
  virtual std::size_t argument_bytes() const = 0;
  /// The whole object: what CUDA threads may read as constant memory.
  virtual const void* object() const = 0;
  virtual std::size_t object_bytes() const = 0;
};

#if !__has_builtin(__builtin_clear_padding)
#error "the emulated CUDA needs a compiler with __builtin_clear_padding (GCC 11 or later)"
#endif

/// A kernel's arguments in sequence. Not a std::tuple, which is not trivially copyable.
template <class... Parameters>
struct Arguments {};
template <class First, class... Rest>
struct Arguments<First, Rest...> {
  First first;
  Arguments<Rest...> rest;
};

template <class... Parameters>
class TypedKernel final : public Kernel {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...),
                "CUDA copies a kernel's arguments as bytes");
  static_assert((sizeof(Parameters) + ... + 0) <= 4096, "a kernel's arguments may have 4 KiB");

 public:
  TypedKernel(void (*function)(Parameters...), const Parameters&... arguments)
      : function_(function), arguments_(pack(arguments...)) {
    // What the memory's earlier owner left between two arguments can look like half an address.
    __builtin_clear_padding(&arguments_);
  }
  void run(WaitingThreads& threads) const override {
    while (begin_next_thread(threads)) call(arguments_);
  }
  void* arguments() override { return &arguments_; }
  std::size_t argument_bytes() const override { return sizeof(arguments_); }
  const void* object() const override { return this; }
  std::size_t object_bytes() const override { return sizeof(*this); }

 private:
  static Arguments<> pack() { return {}; }
  template <class First, class... Rest>
  static Arguments<First, Rest...> pack(const First& first, const Rest&... rest) {
    return {first, pack(rest...)};
  }
  template <class... Taken>
  void call(const Arguments<>&, const Taken&... taken) const {
    function_(taken...);
  }
  template <class First, class... Rest, class... Taken>
  void call(const Arguments<First, Rest...>& from, const Taken&... taken) const {
    call(from.rest, taken..., from.first);
  }

  void (*function_)(Parameters...);
  Arguments<Parameters...> arguments_;
};

/// Checks the launch and enqueues it; errors become the thread's last error. `function` gives the name.
void launch(const void* function, const dim3& grid, const dim3& block, cudaStream_t stream,
            std::unique_ptr<Kernel> kernel);

/// The block's shared memory for one declaration.
void* shared_array(const void* declaration, std::size_t bytes, std::size_t alignment);

}  // namespace emulated
