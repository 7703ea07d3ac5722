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

/// No virtual functions: the compiler would make them for each of a thousand kernels.
class Kernel {
 public:
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  /// Runs threads one after the other until none is left. It may be suspended at a barrier; another call then
  /// takes the rest.
  void run(WaitingThreads& threads) const { run_(*this, threads); }
  void* arguments() { return arguments_; }
  std::size_t argument_bytes() const { return argument_bytes_; }
  /// Of the whole object: what CUDA threads may read as constant memory.
  std::size_t object_bytes() const { return object_bytes_; }

 protected:
  using Run = void (*)(const Kernel& kernel, WaitingThreads& threads);
  Kernel(Run run, void* arguments, std::size_t argument_bytes, std::size_t object_bytes)
      : run_(run), arguments_(arguments), argument_bytes_(argument_bytes), object_bytes_(object_bytes) {}
  ~Kernel() = default;

 private:
  Run run_;
  void* arguments_;
  std::size_t argument_bytes_, object_bytes_;
};

struct DeleteKernel {
  void operator()(Kernel* kernel) const { ::operator delete(static_cast<void*>(kernel)); }
};
using OwnedKernel = std::unique_ptr<Kernel, DeleteKernel>;

#if !__has_builtin(__builtin_clear_padding)
#error "the emulated CUDA needs a compiler with __builtin_clear_padding (GCC 11 or later)"
#endif

/// A kernel's arguments in sequence. Not a std::tuple, which is not trivially copyable.
template <class... Parameters>
struct Arguments;
template <>
struct Arguments<> {
  void pass(void (*to)()) const { to(); }
};
template <class A>
struct Arguments<A> {
  A a;
  void pass(void (*to)(A)) const { to(a); }
};
template <class A, class B>
struct Arguments<A, B> {
  A a;
  B b;
  void pass(void (*to)(A, B)) const { to(a, b); }
};
template <class A, class B, class C>
struct Arguments<A, B, C> {
  A a;
  B b;
  C c;
  void pass(void (*to)(A, B, C)) const { to(a, b, c); }
};
template <class A, class B, class C, class D>
struct Arguments<A, B, C, D> {
  A a;
  B b;
  C c;
  D d;
  void pass(void (*to)(A, B, C, D)) const { to(a, b, c, d); }
};
template <class A, class B, class C, class D, class E>
struct Arguments<A, B, C, D, E> {
  A a;
  B b;
  C c;
  D d;
  E e;
  void pass(void (*to)(A, B, C, D, E)) const { to(a, b, c, d, e); }
};
template <class A, class B, class C, class D, class E, class F>
struct Arguments<A, B, C, D, E, F> {
  A a;
  B b;
  C c;
  D d;
  E e;
  F f;
  void pass(void (*to)(A, B, C, D, E, F)) const { to(a, b, c, d, e, f); }
};

template <class... Parameters>
class TypedKernel final : public Kernel {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...),
                "CUDA copies a kernel's arguments as bytes");
  static_assert((sizeof(Parameters) + ... + 0) <= 4096, "a kernel's arguments may have 4 KiB");
  static_assert(alignof(Arguments<Parameters...>) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

 public:
  TypedKernel(void (*function)(Parameters...), const Parameters&... arguments)
      : Kernel(&run_threads, &arguments_, sizeof(arguments_), sizeof(TypedKernel)),
        function_(function),
        arguments_{arguments...} {
    // What the memory's earlier owner left between two arguments can look like half an address. GCC 12 clears
    // other bytes instead where padding follows an array of structs: kernels take none such.
    __builtin_clear_padding(&arguments_);
  }

 private:
  static void run_threads(const Kernel& kernel, WaitingThreads& threads) {
    const auto& self = static_cast<const TypedKernel&>(kernel);
    while (begin_next_thread(threads)) self.arguments_.pass(self.function_);
  }

  void (*function_)(Parameters...);
  Arguments<Parameters...> arguments_;
};

/// Checks the launch and enqueues it; errors become the thread's last error. `function` gives the name.
void launch(const void* function, const dim3& grid, const dim3& block, cudaStream_t stream,
            OwnedKernel kernel);

/// The block's shared memory for one declaration.
void* shared_array(const void* declaration, std::size_t bytes, std::size_t alignment);

}  // namespace emulated
