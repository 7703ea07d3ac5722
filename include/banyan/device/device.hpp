// Device, Stream and Event: the rest of the program's only access to memory and execution.
//
// A Device is one memory with its own allocator: a GPU, or a virtual CPU device (`--cpu=4` makes four). A
// Stream executes what is enqueued in order; only Events order streams among each other, on one or several
// devices. A CPU stream runs inline (enqueue returns after the work) or, for tests, asynchronously on its own
// thread with random delays, so that a missing event wait is a real race that ThreadSanitizer reports.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace banyan {

enum class DeviceKind : std::uint8_t { cpu, cuda };

/// How convolutions and inner products multiply f32 tensors. Their sums, and everything else, are f32.
enum class Math : std::uint8_t {
  full,
  bf16,         ///< factors rounded to bf16, by the library's bf16 kernels
  bf16_in_f32,  ///< CPU devices: the same by its f32 kernels: the same products without bf16 units
  tf32,         ///< GPUs: factors rounded to TF32 (8 bits of exponent, 10 of mantissa), by tensor cores
};

/// A point in a stream's work. Recorded by Stream::record; waiting for an event that was never recorded
/// returns immediately.
class Event {
 public:
  virtual ~Event() = default;
  virtual void synchronize() = 0;  ///< the calling host thread waits
  virtual bool done() = 0;
};

class Device;
class Stream;

/// Work that was captured from a stream. Each replay runs it as it was enqueued: the same kernels with the
/// same arguments on the same memory, which must stay where it is. What is to differ is read from that
/// memory.
class ExecutableGraph {
 public:
  virtual ~ExecutableGraph() = default;
  /// Enqueues it on a stream of the GPU that it was captured on. A graph lives until its replays are done.
  virtual void replay(Stream& stream) = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  Device& device() const { return *device_; }
  virtual void record(Event& event) = 0;
  /// Work enqueued from now on starts after `event`; `event` may belong to another device of the same kind.
  virtual void wait(const Event& event) = 0;
  /// The host waits for everything enqueued; rethrows what failed in it.
  virtual void synchronize() = 0;
  /// Copies bytes between this stream's device and itself, another device of the same kind, or host memory.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void zero(void* to, std::size_t bytes) = 0;
  /// Runs `work` on the host and captures what it enqueues on this stream, and on others that wait for events
  /// of this one and that this one waits for in the end; none of it runs. GPUs only. Meanwhile nothing may
  /// allocate or wait for the device on this thread. If `work` throws, the capture is dropped.
  virtual std::unique_ptr<ExecutableGraph> capture(const std::function<void()>& work);

 protected:
  explicit Stream(Device& device) : device_(&device) {}

 private:
  Device* device_;
};

struct MemoryUse {
  std::size_t in_use = 0;  ///< bytes
  std::size_t peak = 0;    ///< bytes
};

class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  DeviceKind kind() const { return kind_; }
  /// Physical ordinal for CUDA, virtual number for CPU.
  int ordinal() const { return ordinal_; }
  /// "cpu:1", "gpu:0", or "gpu:0#2" for the third replica on one GPU. For messages.
  const std::string& name() const { return name_; }
  /// Threads that one operator may use (CPU devices).
  int threads() const { return threads_; }
  Math math() const { return math_; }

  /// Its memory is the host's: what runs on one such device may read and write that of all others.
  bool in_host_memory() const { return kind_ == DeviceKind::cpu; }
  /// What is enqueued is done when the call returns, so that the host never waits for the device.
  virtual bool runs_inline() const { return false; }

  /// Binds the calling thread to this device (CUDA's current device, OpenMP's thread count, core affinity).
  virtual void make_current() = 0;
  /// The same for a helper thread (reading, decoding): on a CPU device it runs on any core of the process and
  /// its OpenMP loops have no team, so that it never takes a core from the device's threads for long.
  virtual void make_current_for_helper() { make_current(); }
  virtual std::unique_ptr<Stream> create_stream(const std::string& name) = 0;
  virtual std::unique_ptr<Event> create_event() = 0;
  /// Host memory that the device copies to and from at full speed (pinned on CUDA).
  virtual std::shared_ptr<void> allocate_host(std::size_t bytes) = 0;

  /// At least 64-byte aligned. Throws a runtime failure naming the device and the bytes when memory runs out.
  void* allocate(std::size_t bytes);
  void release(void* data, std::size_t bytes) noexcept;
  MemoryUse memory() const { return {in_use_.load(), peak_.load()}; }
  /// Allocations beyond this total number of bytes fail (0: no limit). Lets a test run out of memory.
  void limit_memory(std::size_t bytes) { limit_.store(bytes); }

 protected:
  Device(DeviceKind kind, int ordinal, std::string name, int threads, Math math = Math::full)
      : kind_(kind), ordinal_(ordinal), name_(std::move(name)), threads_(threads), math_(math) {}
  virtual void* raw_allocate(std::size_t bytes) = 0;  ///< nullptr when out of memory
  virtual void raw_release(void* data) noexcept = 0;

 private:
  DeviceKind kind_;
  int ordinal_;
  std::string name_;
  int threads_;
  Math math_;
  std::atomic<std::size_t> in_use_{0}, peak_{0}, limit_{0};
};

struct CpuDeviceOptions {
  int threads = 1;  ///< threads per operator
  Math math = Math::full;
  bool asynchronous = false;  ///< streams run on their own threads
  unsigned max_delay_us = 0;  ///< asynchronous: a random pause up to this before each piece of work
  std::vector<int> cores;     ///< bind to these cores; empty: leave the affinity alone
};
std::unique_ptr<Device> make_cpu_device(int ordinal, const CpuDeviceOptions& options = {});

}  // namespace banyan
