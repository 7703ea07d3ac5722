// Launches: first CUDA's checks; then the blocks one after the other, with a block's threads as fibers from
// the first barrier on.
#include <algorithm>
#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstring>
#include <numeric>
#include <optional>

#include "kernel.hpp"
#include "runtime.hpp"
#if defined(EMULATED_CUDA_CHECK)
#include "access_check.hpp"
#endif
#if defined(EMULATED_CUDA_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulated {

thread_local Builtins builtins __attribute__((tls_model("initial-exec")));

namespace {

constexpr std::size_t kSharedBytes = std::size_t{48} << 10;  // of static shared memory, per block
constexpr std::size_t kGap = 64;                             // between shared arrays
constexpr std::size_t kStackBytes = std::size_t{256} << 10;

struct Fiber {
  boost::context::fiber self;
  char *stack_low = nullptr, *stack_high = nullptr;
  unsigned barrier = 0;  ///< where it waits, by its line
  uint3 thread{};
#if defined(EMULATED_CUDA_ASAN)
  void* fake_stack = nullptr;
#endif
};

/// Runs the blocks of a stream's kernels, on the stream's thread.
class BlockRunner {
 public:
  BlockRunner() : shared_(new char[kSharedBytes + 2 * kGap + 4096]) { random_.seed(settings().seed); }
  void run(const std::string& name, const dim3& grid, const dim3& block, const Kernel& kernel);
  void wait_in_barrier(unsigned line);
  void* shared_array(const void* declaration, std::size_t bytes, std::size_t alignment);

 private:
  void run_block();
  void check_waiting() const;
  Fiber* next();
  void switch_to(Fiber* fiber);
  void arrive(Fiber* fiber, boost::context::fiber&& left);
  void live(Fiber* fiber);
  Fiber* make_fiber();

  const Kernel* kernel_ = nullptr;
  const std::string* name_ = nullptr;
  WaitingThreads threads_;
  Fiber loop_;  ///< run_block() itself
  Fiber *current_ = &loop_, *left_ = nullptr;
  std::vector<Fiber*> idle_;
  std::vector<Fiber*> waiting_;  ///< in a barrier
  std::vector<Fiber*> passing_;  ///< waited in the latest barrier; the first `passed_` have gone on
  std::size_t passed_ = 0;
  std::vector<unsigned> order_;
  std::vector<std::pair<const void*, char*>> arrays_;  // by declaration
  char* shared_;
  std::size_t shared_used_ = 0;
  std::mt19937 random_;
};

/// A stream's thread borrows a runner, whose fibers are expensive, and returns it when it ends.
/// ThreadSanitizer takes the fibers for that thread: a block's threads do not run at the same time anyhow
/// (the build that checks sees their races), and for a thread of its own each would cost all others time at
/// every barrier.
class Borrowed {
 public:
  Borrowed() = default;
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed() {
    if (runner_ == nullptr) return;
    order_before(runner_);
    const Quiet quiet;
    const std::lock_guard<std::mutex> lock(pool().mutex);
    pool().free.push_back(runner_);
  }
  BlockRunner& borrow() {
    if (runner_ != nullptr) return *runner_;
    {
      const Quiet quiet;
      const std::lock_guard<std::mutex> lock(pool().mutex);
      if (pool().free.empty()) pool().free.push_back(new BlockRunner);
      runner_ = pool().free.back();
      pool().free.pop_back();
    }
    order_after(runner_);
    return *runner_;
  }

 private:
  struct Pool {
    std::mutex mutex;
    std::vector<BlockRunner*> free;
  };
  static Pool& pool() {
    static auto* const kPool = new Pool;
    return *kPool;
  }
  BlockRunner* runner_ = nullptr;
};
thread_local Borrowed runner;
thread_local BlockRunner* in_kernel __attribute__((tls_model("initial-exec"))) = nullptr;

Fiber* BlockRunner::make_fiber() {
  auto* fiber = new Fiber;  // lives as long as the process: a suspended one cannot be ended
  boost::context::protected_fixedsize_stack allocator(kStackBytes);
  const boost::context::stack_context stack = allocator.allocate();
  fiber->stack_high = static_cast<char*>(stack.sp);
  fiber->stack_low = fiber->stack_high - stack.size;
  fiber->self =
      boost::context::fiber(std::allocator_arg, boost::context::preallocated(stack.sp, stack.size, stack),
                            allocator, [this, fiber](boost::context::fiber&& left) {
                              arrive(fiber, std::move(left));
                              live(fiber);
                              return boost::context::fiber();
                            });
  return fiber;
}

/// Threads of blocks, forever.
void BlockRunner::live(Fiber* fiber) {
  while (true) {
    kernel_->run(threads_);
#if defined(EMULATED_CUDA_CHECK)
    check_threads_end();
#endif
    idle_.push_back(fiber);
    switch_to(next());
  }
}

/// Who runs after the current fiber: the next beyond the barrier, one for threads that have not begun, or
/// (all wait or have ended) the loop.
[[gnu::noinline]] Fiber* BlockRunner::next() {
  if (passed_ < passing_.size()) {
    Fiber* fiber = passing_[passed_++];
    builtins.thread = fiber->thread;
    return fiber;
  }
  if (threads_.next == threads_.count) return &loop_;
  if (idle_.empty()) return make_fiber();
  Fiber* fiber = idle_.back();
  idle_.pop_back();
  return fiber;
}

/// Suspends the current fiber for another; returns when one switches back to it.
[[gnu::noinline]] void BlockRunner::switch_to(Fiber* fiber) {
  Fiber* from = current_;
  left_ = from;
  current_ = fiber;
#if defined(EMULATED_CUDA_CHECK)
  if (fiber != &loop_) check_threads_begin(fiber->stack_low, fiber->stack_high);
#endif
#if defined(EMULATED_CUDA_ASAN)
  __sanitizer_start_switch_fiber(&from->fake_stack, fiber->stack_low,
                                 static_cast<std::size_t>(fiber->stack_high - fiber->stack_low));
#endif
  arrive(from, std::move(fiber->self).resume());
}

/// In the fiber that was switched to; `left`: where the other one goes on.
void BlockRunner::arrive(Fiber* fiber, boost::context::fiber&& left) {
  left_->self = std::move(left);
#if defined(EMULATED_CUDA_ASAN)
  const void* low = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(fiber->fake_stack, &low, &bytes);
  left_->stack_low = static_cast<char*>(const_cast<void*>(low));  // the loop's is not known before
  left_->stack_high = left_->stack_low + bytes;
#else
  static_cast<void>(fiber);
#endif
}

void BlockRunner::run_block() {
  arrays_.clear();
  shared_used_ = 0;
#if defined(EMULATED_CUDA_ASAN)
  __asan_poison_memory_region(shared_, kSharedBytes + 2 * kGap + 4096);
#endif
  threads_.next = 0;
  if (settings().order == "random") std::shuffle(order_.begin(), order_.end(), random_);
  switch_to(next());
  while (!waiting_.empty()) {
    check_waiting();
    if (settings().order == "random") std::shuffle(waiting_.begin(), waiting_.end(), random_);
    if (settings().order == "reverse") std::reverse(waiting_.begin(), waiting_.end());
    passing_.swap(waiting_);
    waiting_.clear();
    passed_ = 0;
    switch_to(next());
  }
}

/// Whether all threads of the block wait in one barrier.
void BlockRunner::check_waiting() const {
  const unsigned barrier = waiting_[0]->barrier;
  for (const Fiber* fiber : waiting_)
    if (fiber->barrier != barrier) {
      complain(*name_, ": threads of a block wait in different barriers (lines ", barrier, " and ",
               fiber->barrier, ")");
      break;
    }
  if (const std::size_t ended = threads_.count - waiting_.size(); ended > 0)
    complain(*name_, ": a barrier (line ", barrier, ") is not reached by ", ended,
             " threads of the block, which have ended");
#if defined(EMULATED_CUDA_CHECK)
  check_barrier();
#endif
}

void BlockRunner::run(const std::string& name, const dim3& grid, const dim3& block, const Kernel& kernel) {
  kernel_ = &kernel;
  name_ = &name;
  threads_.count = block.x * block.y * block.z;
  threads_.order = nullptr;
  const std::string& order = settings().order;
  if (order != "forward") {
    order_.resize(threads_.count);
    std::iota(order_.begin(), order_.end(), 0U);
    std::reverse(order_.begin(), order_.end());
    threads_.order = order_.data();
  }
  builtins.thread = {0, 0, 0};  // a one-axis block counts only along x
  builtins.threads = block;
  builtins.blocks = grid;
  const unsigned long long blocks = static_cast<unsigned long long>(grid.x) * grid.y * grid.z;
  const unsigned long long shift = order == "random" ? random_() % blocks : 0;
  for (unsigned long long i = 0; i < blocks; ++i) {
    const unsigned long long number = order == "reverse" ? blocks - 1 - i : (i + shift) % blocks;
    builtins.block = {static_cast<unsigned>(number % grid.x), static_cast<unsigned>(number / grid.x % grid.y),
                      static_cast<unsigned>(number / grid.x / grid.y)};
#if defined(EMULATED_CUDA_CHECK)
    check_block_begins(number);
#endif
    run_block();
  }
}

void BlockRunner::wait_in_barrier(unsigned line) {
  Fiber* fiber = current_;
#if defined(EMULATED_CUDA_CHECK)
  check_threads_end();
#endif
  fiber->barrier = line;
  fiber->thread = builtins.thread;
  waiting_.push_back(fiber);
  switch_to(next());
}

void* BlockRunner::shared_array(const void* declaration, std::size_t bytes, std::size_t alignment) {
  for (const auto& [known, memory] : arrays_)
    if (known == declaration) return memory;
  const Quiet quiet;
  const auto align = [](char* p, std::size_t to) {
    return reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(p) + to - 1) / to * to);
  };
  char* memory =
      align(shared_ + shared_used_ + (arrays_.empty() ? 0 : kGap), std::max<std::size_t>(alignment, 8));
  shared_used_ = static_cast<std::size_t>(memory + bytes - shared_);
  if (shared_used_ > kSharedBytes + arrays_.size() * kGap) {
    complain(*name_, ": more than 48 KiB of shared memory per block");
    std::abort();
  }
  arrays_.emplace_back(declaration, memory);
#if defined(EMULATED_CUDA_ASAN)
  __asan_unpoison_memory_region(memory, bytes);
#endif
#if defined(EMULATED_CUDA_CHECK)
  check_shared(memory, bytes);
#endif
  std::memset(memory, 0xFF, bytes);
  return memory;
}

void execute(const std::string& name, const dim3& grid, const dim3& block, Kernel& kernel, Running& now) {
#if defined(EMULATED_CUDA_CHECK)
  check_launch_begins(now, {reinterpret_cast<const char*>(&kernel), kernel.object_bytes()});
#else
  static_cast<void>(now);
#endif
  in_kernel = &runner.borrow();
  in_kernel->run(name, grid, block, kernel);
  in_kernel = nullptr;
#if defined(EMULATED_CUDA_CHECK)
  check_launch_ends();
#endif
}

/// Why CUDA refuses a launch; null: it accepts it.
const char* refused(const dim3& grid, const dim3& block) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0)
    return "a length of 0";
  if (grid.x > 0x7FFFFFFF || grid.y > 65535 || grid.z > 65535) return "too many blocks";
  if (block.x > 1024 || block.y > 1024 || block.z > 64 ||
      static_cast<unsigned long long>(block.x) * block.y * block.z > 1024)
    return "too many threads";
  return nullptr;
}

/// A device address among a kernel's arguments.
struct Pointer {
  std::size_t at;  ///< byte of the arguments
  const void* address;
};

/// Gives the device addresses among the arguments their real values. What the GPU cannot use stays as it is
/// (it may be left over in uninitialized memory): only using it fails.
std::vector<Pointer> translate(Kernel& kernel, int gpu) {
  std::vector<Pointer> found;
  char* words = static_cast<char*>(kernel.arguments());
  for (std::size_t at = 0; at + sizeof(void*) <= kernel.argument_bytes(); at += sizeof(void*)) {
    const void* address = nullptr;
    std::memcpy(&address, words + at, sizeof(address));
    if (!is_device_address(address) || !Memory::get().why_not(address, 0, gpu).empty()) continue;
    const char* real = Memory::get().real(address);
    std::memcpy(words + at, &real, sizeof(real));
    found.push_back({at, address});
  }
  return found;
}

void run_kernel(const std::string& name, const dim3& grid, const dim3& block, Kernel& kernel,
                const std::vector<Pointer>& pointers, Running& now) {
  for (const Pointer& pointer : pointers)
    if (const std::string why = Memory::get().why_not(pointer.address, 0, now.gpu()); !why.empty())
      complain(name, ": an argument, when the kernel runs: ", Memory::get().describe(pointer.address), ": ",
               why);
  if (int code = 0; fails("kernel", now.gpu(), &code)) {
    return;
  }
  execute(name, grid, block, kernel, now);
}

}  // namespace

void barrier(unsigned line) {
  if (in_kernel == nullptr) {
    complain("__syncthreads outside of a kernel");
    return;
  }
  in_kernel->wait_in_barrier(line);
}

void* shared_array(const void* declaration, std::size_t bytes, std::size_t alignment) {
#if defined(EMULATED_CUDA_CHECK)
  const NotChecked not_checked;
#endif
  return in_kernel->shared_array(declaration, bytes, alignment);
}

void launch(const void* function, const dim3& grid, const dim3& block, cudaStream_t handle,
            OwnedKernel owned) {
  if (cudaError_t failed; call_fails("launch", cudaErrorLaunchFailure, &failed)) return;
  const std::string name = name_of_function(function);
  std::ostringstream shape;
  shape << name << " (grid " << grid.x << " " << grid.y << " " << grid.z << ", block " << block.x << " "
        << block.y << " " << block.z << ")";
  if (const char* why = refused(grid, block)) {
    complain("launch of ", shape.str(), ": ", why);
    result(cudaErrorInvalidConfiguration);
    return;
  }
  Stream* stream = stream_of(handle, "a launch");
  if (stream == nullptr || stream->device != current_device) {
    if (stream != nullptr)
      complain("launch of ", shape.str(), " on a stream of gpu:", stream->device,
               " while gpu:", current_device, " is current");
    result(cudaErrorInvalidResourceHandle);
    return;
  }
  // Owned by the host or the stream, whichever has it last; not the program's own memory.
  const std::shared_ptr<Kernel> kernel(owned.release(), [](Kernel* done) {
    const Quiet quiet;
    DeleteKernel()(done);
  });
  std::vector<Pointer> pointers;
  {
    const Quiet quiet;
    pointers = translate(*kernel, stream->device);
  }
  count("launches");
  count("kernel " + name);
  enqueue(*stream, "kernel " + shape.str(), [=, pointers = std::move(pointers)](Running& now) {
    run_kernel(name, grid, block, *kernel, pointers, now);
  });
}

}  // namespace emulated
