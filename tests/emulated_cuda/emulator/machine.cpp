#include "machine.hpp"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "capture.hpp"

namespace emulated {

thread_local int current_device = 0;
thread_local Running* running = nullptr;

namespace {

double now_milliseconds() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

#if !defined(EMULATED_CUDA_ASAN) && !defined(EMULATED_CUDA_TSAN)
/// By signal: systems differ in how they report an impossible address.
struct sigaction earlier_segv, earlier_bus;

/// A fault caused by a kernel or the host at a device address, which is not an address of the process.
void on_fault(int signal, siginfo_t* info, void* context) {
  static bool told = false;
  if (!told) {
    told = true;
    violation(running != nullptr ? "a kernel or copy uses memory that its GPU cannot use (for the address "
                                   "see stacks=1 and a build that checks)"
                                 : "the host uses device memory, or an address that is none");
  }
  const struct sigaction& earlier = signal == SIGBUS ? earlier_bus : earlier_segv;
  if (earlier.sa_flags & SA_SIGINFO) {
    earlier.sa_sigaction(signal, info, context);
  } else {
    ::signal(signal, SIG_DFL);
  }
}
#endif

}  // namespace

Machine& Machine::get() {
  static Machine* const kMachine = new Machine;
  return *kMachine;
}

Machine::Machine()
    : default_streams(static_cast<std::size_t>(settings().gpus), nullptr),
      ending(default_streams.size(), 0),
      ended(default_streams.size()) {
#if !defined(EMULATED_CUDA_ASAN) && !defined(EMULATED_CUDA_TSAN)
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &earlier_segv);
  sigaction(SIGBUS, &action, &earlier_bus);
#endif
}

// --- access ---

char* Running::use(const void* address, std::size_t bytes, const char* what, bool copy, bool write) {
  Memory& memory = Memory::get();
  const std::string why = memory.why_not(address, bytes, copy ? -1 : gpu());
  if (!why.empty()) {
    complain(what, ": ", bytes, " bytes at ", memory.describe(address), ": ", why);
    return nullptr;
  }
  order(address, bytes, write);
  char* real = memory.real(address);
  tell_access(real, bytes, write);
#if defined(EMULATED_CUDA_CHECK)
  if (is_device_address(address)) {
    if (write)
      note_written(real, bytes);
    else if (!copy)
      check_written(real, bytes, what);
  }
#endif
  return real;
}

const char* Running::read(const void* address, std::size_t bytes, const char* what, bool copy) {
  return use(address, bytes, what, copy, false);
}
char* Running::write(void* address, std::size_t bytes, const char* what, bool copy) {
  return use(address, bytes, what, copy, true);
}

void Running::order(const void* address, std::size_t bytes, bool write) {
  if (bytes == 0) return;
  // Host memory that is not pinned may be anything, a stack for instance: it has no history.
  if (!is_device_address(address) && !Memory::get().is_pinned(address, bytes)) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  Memory::get().history().use(begin, begin + bytes, write, operation_, *clock_);
}

// --- streams ---

namespace {

/// A stream's thread.
void serve(Stream* stream) {
  while (true) {
    std::shared_ptr<Operation> operation;
    unsigned pause = 0;
    {
      const Quiet quiet;
      std::unique_lock<std::mutex> lock(stream->mutex);
      stream->changed.wait(lock, [&] {
        const bool may_run = !settings().lazy || stream->ending || stream->done < stream->demanded;
        return (!stream->queue.empty() && may_run) || (stream->ending && stream->queue.empty());
      });
      if (stream->queue.empty()) break;
      operation = std::move(stream->queue.front());
      stream->queue.pop_front();
      if (settings().delay_us > 0 && stream->random() % 8 == 0)
        pause = static_cast<unsigned>(stream->random() % settings().delay_us);
    }
    if (pause > 0) {
      const Quiet quiet;
      std::this_thread::sleep_for(std::chrono::microseconds(pause));
    }
    order_after(operation.get());
    {
      const Quiet quiet;
      stream->clock.advance(operation->actor, operation->number);
      stream->clock.join(*operation->host);
    }
    Running now(operation, stream->clock);
    running = &now;
    // A GPU that has failed for good does nothing more, but nothing waits for it in vain.
    const std::uint64_t life = stream->is_default ? life_of(operation->gpu) : stream->life;
    if (!operation->work) {
      operation->run(now);
    } else if (begin_work(operation->gpu, life)) {
      operation->run(now);
      end_work(operation->gpu);
    }
    running = nullptr;
    const Quiet quiet;
    operation->run = nullptr;  // the history may keep the operation for a long time
    {
      const std::lock_guard<std::mutex> lock(stream->mutex);
      ++stream->done;
    }
    stream->changed.notify_all();
  }
  const auto gpu = static_cast<std::size_t>(stream->device);
  Machine& m = Machine::get();
  order_before(&m.ended[gpu]);
  const Quiet quiet;
  {
    const std::lock_guard<std::mutex> lock(m.mutex);
    if (m.host->of(stream->actor) >= stream->latest_work) {
      auto known = std::make_shared<VectorClock>(*m.host);
      const std::uint64_t number = m.retired.size() + 1;
      known->forget(stream->actor);
      known->know_retired(number);
      m.host = std::move(known);
      m.retired.emplace(stream->actor, number);
    } else {
      m.ended[gpu].join(stream->clock);
    }
    --m.ending[gpu];
  }
  m.ended_all.notify_all();
}

}  // namespace

Stream* make_stream(int device, bool blocking) {
  const Quiet quiet;
  Machine& m = Machine::get();
  auto* stream = new Stream;  // never deleted: a handle is not used twice
  stream->device = device;
  stream->blocking = blocking;
  stream->life = life_of(device);
  {
    const std::lock_guard<std::mutex> lock(m.mutex);
    stream->actor = static_cast<Actor>(++m.streams_made);
    m.streams.insert(stream);
  }
  stream->random.seed(settings().seed * 7919 + stream->actor);
  std::thread(serve, stream).detach();
  return stream;
}

namespace {

Stream* default_stream() {
  Machine& m = Machine::get();
  Stream* stream = nullptr;
  {
    const Quiet quiet;
    const std::lock_guard<std::mutex> lock(m.mutex);
    stream = m.default_streams[current_device];
  }
  if (stream != nullptr) return stream;
  stream = make_stream(current_device, false);
  stream->is_default = true;
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(m.mutex);
  return m.default_streams[current_device] = stream;
}

/// The default stream waits for all blocking streams of its GPU, and they for it.
void order_with_default_stream(Stream& stream) {
  Machine& m = Machine::get();
  std::vector<Stream*> before;
  {
    const Quiet quiet;
    const std::lock_guard<std::mutex> lock(m.mutex);
    Stream* defaulted = m.default_streams[stream.device];
    if (&stream == defaulted) {
      for (Stream* other : m.streams)
        if (other->blocking && other->device == stream.device) before.push_back(other);
    } else if (stream.blocking && defaulted != nullptr) {
      before.push_back(defaulted);
    }
  }
  for (Stream* other : before) {
    bool has_work = false;
    {
      const Quiet quiet;
      const std::lock_guard<std::mutex> lock(other->mutex);
      has_work = other->latest_work > 0;
    }
    if (!has_work) continue;
    const auto token = mark(*other, "the default stream's order");
    if (token->position > 0) wait_on_stream(stream, token, "the default stream's order");
  }
}

}  // namespace

Stream* stream_of(cudaStream_t handle, const char* function) {
  if (handle == nullptr) {
    if (capture_forbids(function)) return nullptr;
    return default_stream();
  }
  auto* stream = reinterpret_cast<Stream*>(handle);
  Machine& m = Machine::get();
  {
    const Quiet quiet;
    const std::lock_guard<std::mutex> lock(m.mutex);
    if (m.streams.contains(stream)) return stream;
  }
  complain(function, ": a stream that does not exist (destroyed?): ", static_cast<const void*>(handle));
  return nullptr;
}

Event* event_of(cudaEvent_t handle, const char* function) {
  auto* event = reinterpret_cast<Event*>(handle);
  Machine& m = Machine::get();
  {
    const Quiet quiet;
    const std::lock_guard<std::mutex> lock(m.mutex);
    if (m.events.contains(event)) return event;
  }
  complain(function, ": an event that does not exist (destroyed?): ", static_cast<const void*>(handle));
  return nullptr;
}

std::uint64_t enqueue(Stream& stream, std::string name, std::function<void(Running&)> run, bool work) {
  if (work) order_with_default_stream(stream);
  std::shared_ptr<Operation> operation;
  {
    const Quiet quiet;
    operation = std::make_shared<Operation>();
    operation->name = std::move(name);
    operation->stream = &stream;
    operation->gpu = stream.device;
    operation->actor = stream.actor;
    operation->work = work;
    if (settings().stacks) operation->stack = take_stack();
    operation->run = std::move(run);
    if (settings().trace)
      std::fprintf(stderr, "EMULATED CUDA gpu:%d stream %u: %s\n", stream.device, stream.actor,
                   operation->name.c_str());
    Machine& m = Machine::get();
    const std::lock_guard<std::mutex> lock(m.mutex);
    operation->host = m.host;
    if (stream.capture != nullptr) {
      add_node(*stream.capture, stream, std::move(operation));
      return 0;
    }
  }
  order_before(operation.get());
  const Quiet quiet;
  std::uint64_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(stream.mutex);
    if (stream.ending) return 0;  // its thread may have ended
    number = operation->number = ++stream.enqueued;
    if (work) stream.latest_work = number;
    stream.queue.push_back(std::move(operation));
  }
  stream.changed.notify_all();
  return number;
}

std::shared_ptr<Token> mark(Stream& stream, const char* name) {
  std::shared_ptr<Token> token;
  {
    const Quiet quiet;
    token = std::make_shared<Token>();
    token->stream = &stream;
  }
  const std::uint64_t position = enqueue(
      stream, name,
      [token](Running& now) {
        order_before(token.get());
        const Quiet quiet;
        token->milliseconds = now_milliseconds();
        token->clock = now.clock();
        {
          const std::lock_guard<std::mutex> lock(token->mutex);
          token->reached.store(true);
        }
        token->changed.notify_all();
      },
      false);
  const Quiet quiet;
  token->position = position;
  return token;
}

void demand(const Token& token) {
  if (!settings().lazy || token.reached.load()) return;
  const Quiet quiet;
  Machine& m = Machine::get();
  {
    const std::lock_guard<std::mutex> all(m.mutex);
    if (!m.streams.contains(token.stream)) return;  // destroyed: it runs to completion
  }
  {
    const std::lock_guard<std::mutex> lock(token.stream->mutex);
    token.stream->demanded = std::max(token.stream->demanded, token.position);
  }
  token.stream->changed.notify_all();
}

namespace {

void wait_until_reached(const Token& token) {
  demand(token);
  const Quiet quiet;
  std::unique_lock<std::mutex> lock(token.mutex);
  token.changed.wait(lock, [&] { return token.reached.load(); });
}

}  // namespace

void wait_on_stream(Stream& stream, const std::shared_ptr<Token>& token, const char* name) {
  if (token->stream == &stream) return;
  enqueue(
      stream, name,
      [token](Running& now) {
        wait_until_reached(*token);
        order_after(token.get());
        const Quiet quiet;
        now.clock().join(token->clock);
      },
      false);
}

void host_learns(const Token& token) {
  order_after(&token);
  const Quiet quiet;
  Machine& m = Machine::get();
  const std::lock_guard<std::mutex> lock(m.mutex);
  auto known = std::make_shared<VectorClock>(*m.host);
  known->join(token.clock);
  m.host = std::move(known);
}

namespace {

void host_waits(const Token& token) {
  wait_until_reached(token);
  host_learns(token);
  // Until its stream knows that this mark is done too: a stream without other work is then idle.
  const Quiet quiet;
  std::unique_lock<std::mutex> lock(token.stream->mutex);
  token.stream->changed.wait(lock, [&] { return token.stream->done >= token.position; });
}

}  // namespace

void wait_for(const std::shared_ptr<Token>& token) {
  count("host waits");
  host_waits(*token);
}

void wait_for_gpu(int device) {
  std::vector<Stream*> streams;
  {
    const Quiet quiet;
    Machine& m = Machine::get();
    const std::lock_guard<std::mutex> lock(m.mutex);
    for (Stream* stream : m.streams)
      if (stream->device == device && stream->capture == nullptr) streams.push_back(stream);
  }
  std::vector<std::shared_ptr<Token>> tokens;
  for (Stream* stream : streams) tokens.push_back(mark(*stream, "the host waits for the GPU"));
  for (const auto& token : tokens)
    if (token->position > 0) host_waits(*token);
  const auto gpu = static_cast<std::size_t>(device);
  Machine& m = Machine::get();
  {
    const Quiet quiet;
    std::unique_lock<std::mutex> lock(m.mutex);
    m.ended_all.wait(lock, [&] { return m.ending[gpu] == 0; });
    auto known = std::make_shared<VectorClock>(*m.host);
    known->join(m.ended[gpu]);
    m.host = std::move(known);
  }
  order_after(&m.ended[gpu]);
}

}  // namespace emulated
