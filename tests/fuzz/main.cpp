// Feeds readers with broken files: no crash, no hang, no flood of memory, no exception but banyan::Error. See
// --help.
#include <fcntl.h>
#include <glog/logging.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/io/atomic_file.hpp"
#include "fuzz/mutate.hpp"
#include "fuzz/targets.hpp"
#include "io/hdf5_file.hpp"

// One allocation that no file of this size calls for is a fault (the sum over an input is checked below);
// libraries in C, which check what malloc returns, are refused it: libhdf5 asks for any size that a damaged
// file names. Freed memory is not kept for long, so that it does not count.
extern "C" const char* __asan_default_options() {  // NOLINT(bugprone-reserved-identifier)
  return "max_allocation_size_mb=256:allocator_may_return_null=1:quarantine_size_mb=8:"
         "allocator_release_to_os_interval_ms=-1:detect_leaks=1:handle_sigill=1";
}

// libhdf5 forgets some of its own memory when it meets an error.
extern "C" const char* __lsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "leak:libhdf5";
}

extern "C" [[gnu::weak]] void __sanitizer_set_death_callback(
    void (*callback)());                                      // NOLINT(bugprone-reserved-identifier)
extern "C" [[gnu::weak]] void __sanitizer_purge_allocator();  // NOLINT(bugprone-reserved-identifier)
extern "C" [[gnu::weak]] void __lsan_do_leak_check();         // NOLINT(bugprone-reserved-identifier)

namespace banyan::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kUsage =
    R"(usage: fuzz [options] TARGET...      feeds readers with damaged files
       fuzz [options] TARGET FILE...      feeds them with these files as they are
  --mutations=N   of each target (default 100000)
  --seconds=S     of each target at most (default: no limit)
  --seed=K        of the mutations (default 1)
  --list          names the targets
  --self_test     whether the bound on memory is noticed, also after inputs that have taken much
An input that crashes, takes more than a second of the processor or 256 MB more than its size, or throws anything but an Error of Banyan's, is kept in
fuzz_TARGET.input, and the exit code is not 0. Build with the preset asan, so that accesses to wrong memory are found too.
)";
constexpr int kHangSeconds = 1;        // of the processor, which other programs cannot use up
constexpr unsigned kWaitSeconds = 60;  // for something that never comes
constexpr long kMostKilobytes = 256 * 1024;
constexpr long kMuchKilobytes = 16 * 1024;  // rarely taken
constexpr std::size_t kKept = 200;          // accepted inputs, which are mutated further

struct Options {
  long mutations = 100000;
  double seconds = 1e9;
  std::uint32_t seed = 1;
  std::vector<std::string> names;
};

// For the handler of signals.
const std::string* running = nullptr;
char kept_in[64];

void keep_input() {
  if (running == nullptr) return;
  std::FILE* file = std::fopen(kept_in, "wb");
  if (file == nullptr) return;
  std::fwrite(running->data(), 1, running->size(), file);
  std::fclose(file);
  std::fprintf(stderr, "the input is in %s\n", kept_in);
}

extern "C" void on_signal(int signal) {
  std::fprintf(stderr, "fuzz: %s\n", signal == SIGALRM || signal == SIGPROF ? "hangs" : strsignal(signal));
  keep_input();
  std::_Exit(1);
}

[[noreturn]] void fault(const std::string& what) {
  std::fprintf(stderr, "fuzz: %s\n", what.c_str());
  keep_input();
  std::_Exit(1);
}

/// How much an input takes at most, even if others before it took more: the kernel's high-water mark of the
/// process is set back to what is resident, which costs less than a microsecond.
class MemoryWatch {
 public:
  MemoryWatch()
      : clear_(::open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC)),
        status_(::open("/proc/self/status", O_RDONLY | O_CLOEXEC)),
        sizes_(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC)) {}
  ~MemoryWatch() {
    for (const int file : {clear_, status_, sizes_})
      if (file >= 0) ::close(file);
  }
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  void start() {
    exact_ = status_ >= 0 && sizes_ >= 0 && clear_ >= 0 && ::pwrite(clear_, "5", 1, 0) == 1;
    before_ = exact_ ? resident() : largest_ever();
  }
  /// Kilobytes since start(), at the highest. Where the mark cannot be set back, only what is above all
  /// before.
  long grown() const {
    // Never below the mark, and read ten times as fast; but it counts what ran here before this program, too.
    const long most = largest_ever() - before_;
    return exact_ && most > kMuchKilobytes ? mark() - before_ : most;
  }
  bool exact() const { return exact_; }

 private:
  /// The beginning of a file of the kernel's.
  static std::string text_of(int file) {
    char text[8192];
    const ssize_t count = ::pread(file, text, sizeof text, 0);
    return {text, static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
  }
  long resident() const {
    const std::string text = text_of(sizes_);
    const std::size_t second = text.find(' ');
    return second == std::string::npos ? 0
                                       : std::atol(text.c_str() + second) * (::sysconf(_SC_PAGESIZE) / 1024);
  }
  long mark() const {
    const std::string text = text_of(status_), name = "VmHWM:";
    const std::size_t found = text.find(name);
    return found == std::string::npos ? 0 : std::atol(text.c_str() + found + name.size());
  }
  static long largest_ever() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  }

  int clear_, status_, sizes_;
  bool exact_ = false;
  long before_ = 0;
};

/// What an input has freed is not there for the next one to take unseen.
void return_freed_memory() {
  if (__sanitizer_purge_allocator != nullptr)
    __sanitizer_purge_allocator();
  else
    ::malloc_trim(0);
}

const Target* find_target(const std::string& name) {
  for (const Target& target : targets())
    if (name == target.name) return &target;
  return nullptr;
}

void limit_time(bool limited) {
  const itimerval timer{{0, 0}, {limited ? kHangSeconds : 0, 0}};
  ::setitimer(ITIMER_PROF, &timer, nullptr);
  ::alarm(limited ? kWaitSeconds : 0);
}

std::unique_ptr<MemoryWatch> memory;  // this process's

/// Whether the target accepts the input.
bool run(const Target& target, const std::string& input) {
  if (memory == nullptr) memory = std::make_unique<MemoryWatch>();
  running = &input;
  memory->start();
  limit_time(true);
  bool accepted = false;
  try {
    target.run(input);
    accepted = true;
  } catch (const Error&) {
  } catch (const std::exception& error) {
    fault(std::string("an exception that no user should see: ") + error.what());
  }
  limit_time(false);
  const long grown = memory->grown() - static_cast<long>(input.size() / 1024);
  if (grown > kMostKilobytes) fault("took " + std::to_string(grown / 1024) + " MB more than its input");
  if (grown > kMuchKilobytes) return_freed_memory();
  running = nullptr;
  return accepted;
}

/// A copy of this process that reads one input after another without rehearsals (io/hdf5_file.hpp), which
/// take most of the time otherwise. An input that ends it is for the process itself, which rehearses.
class Copy {
 public:
  explicit Copy(const Target& target)
      : input_(static_cast<char*>(
            ::mmap(nullptr, kMostBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    int ends[2];
    if (input_ == MAP_FAILED || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      fault(std::strerror(errno));
    std::fflush(stdout);
    process_ = ::fork();
    if (process_ < 0) fault(std::strerror(errno));
    socket_ = ends[process_ == 0 ? 1 : 0];
    ::close(ends[process_ == 0 ? 0 : 1]);
    if (process_ == 0) serve(target);
  }
  ~Copy() {
    ::close(socket_);
    ::munmap(input_, kMostBytes);
    int status = 0;
    ::waitpid(process_, &status, 0);
    if (!ended_ && status != 0) fault("memory is leaked by readers");
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  static constexpr std::size_t kMostBytes = 16 << 20;

  /// Whether the target accepts the input, of at most so many bytes; nothing if the copy has ended.
  std::optional<bool> run(const std::string& input) {
    const std::size_t size = input.size();
    input.copy(input_, size);
    char accepted = 0;
    ended_ = ::send(socket_, &size, sizeof size, MSG_NOSIGNAL) != sizeof size ||
             ::recv(socket_, &accepted, 1, 0) != 1;
    if (ended_) return std::nullopt;
    return accepted != 0;
  }

 private:
  [[noreturn]] void serve(const Target& target) {
    kept_in[0] = '\0';
    memory.reset();
    io::stop_rehearsing_hdf5();
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, SIG_DFL);
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    if (std::freopen("/dev/null", "w", stderr) == nullptr) ::_exit(2);
    for (std::size_t size; ::recv(socket_, &size, sizeof size, 0) == sizeof size;) {
      const char accepted = fuzz::run(target, {input_, size}) ? 1 : 0;
      if (::send(socket_, &accepted, 1, MSG_NOSIGNAL) != 1) break;
    }
    if (__lsan_do_leak_check != nullptr) __lsan_do_leak_check();
    ::_exit(0);  // temporary files are the first process's
  }

  char* const input_;  // in memory that both share
  pid_t process_;
  int socket_;
  bool ended_ = false;
};

void feed(const Target& target, const Options& options) {
  std::vector<std::string> inputs = target.seeds();
  for (const std::string& seed : inputs)
    if (!run(target, seed)) std::fprintf(stderr, "%s: a seed is refused\n", target.name);
  Mutator mutator(options.seed);
  long done = 0, accepted = 0;
  const auto start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const std::size_t seeds = inputs.size();
  std::unique_ptr<Copy> copy;
  const auto accepts = [&](const std::string& input) {
    if (!target.rehearses || input.size() > Copy::kMostBytes) return run(target, input);
    if (copy == nullptr) copy = std::make_unique<Copy>(target);
    if (const std::optional<bool> accepted = copy->run(input)) return *accepted;
    copy.reset();
    return run(target, input);
  };
  for (; done < options.mutations && seconds() < options.seconds; ++done) {
    std::string input = mutator.mutate(inputs[mutator.below(inputs.size())], inputs);
    if (!accepts(input)) continue;
    ++accepted;
    if (mutator.below(4) != 0) continue;
    if (inputs.size() < seeds + kKept)
      inputs.push_back(std::move(input));
    else
      inputs[seeds + mutator.below(kKept)] = std::move(input);
  }
  std::printf("%-12s %9ld mutations in %5.1f s, %ld accepted, the others refused with a message\n",
              target.name, done, seconds(), accepted);
  std::fflush(stdout);
}

/// In blocks, none of which is a fault for itself, and gives them back.
void take_memory(long kilobytes, long block) {
  std::vector<std::vector<char>> taken;
  for (long left = kilobytes; left > 0; left -= block)
    taken.emplace_back(static_cast<std::size_t>(block) * 1024, 'x');
}

/// As feed() from a copy of this process, since targets leave threads running and files open until the
/// process ends: what the threads hold would look leaked in a Copy made later.
void feed_apart(const Target& target, const Options& options) {
  std::fflush(stdout);
  const pid_t process = ::fork();
  if (process < 0) fault(std::strerror(errno));
  if (process == 0) {
    feed(target, options);
    std::exit(0);
  }
  int status = 0;
  while (::waitpid(process, &status, 0) < 0)
    if (errno != EINTR) fault(std::strerror(errno));
  if (status != 0) fault(std::string(target.name) + " has failed");
}

/// AddressSanitizer adds up to half of what is taken.
int self_test() {
  MemoryWatch memory;
  for (const long block : {16384L, 4L})
    for (const long megabytes : {150, 400, 400, 50, 400}) {
      memory.start();
      if (!memory.exact()) return std::printf("skipped: /proc/self/clear_refs cannot be written\n"), 77;
      take_memory(megabytes * 1024, block);
      const long grown = memory.grown();
      std::printf("%ld MB in blocks of %ld KB: %ld MB noticed\n", megabytes, block, grown / 1024);
      if ((grown > kMostKilobytes) != (megabytes * 1024 > kMostKilobytes)) return 1;
      return_freed_memory();
    }
  return 0;
}

int main_of(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    const auto value = [&](const char* flag) -> const char* {
      return argument.starts_with(flag) ? argument.c_str() + std::strlen(flag) : nullptr;
    };
    if (argument == "--help") return std::fputs(kUsage, stdout), 0;
    if (argument == "--list") {
      for (const Target& target : targets()) std::printf("%-12s %s\n", target.name, target.about);
      return 0;
    }
    if (argument == "--self_test") return self_test();
    if (const char* mutations = value("--mutations="))
      options.mutations = std::atol(mutations);
    else if (const char* seconds = value("--seconds="))
      options.seconds = std::atof(seconds);
    else if (const char* seed = value("--seed="))
      options.seed = static_cast<std::uint32_t>(std::atol(seed));
    else if (argument.starts_with("--"))
      return std::fprintf(stderr, "fuzz: unknown option %s\n%s", argument.c_str(), kUsage), 2;
    else
      options.names.push_back(argument);
  }
  if (options.names.empty()) return std::fputs(kUsage, stderr), 2;
  set_log_sink([](Severity, const std::string&, const std::source_location&) {});
  FLAGS_minloglevel = 3;
  std::signal(SIGALRM, on_signal);
  std::signal(SIGPROF, on_signal);
  if (__sanitizer_set_death_callback != nullptr)
    __sanitizer_set_death_callback(keep_input);
  else
    for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGILL}) std::signal(signal, on_signal);
  std::vector<const Target*> wanted;
  std::vector<std::string> files;
  for (const std::string& name : options.names) {
    const Target* const found = find_target(name);
    if (found != nullptr)
      wanted.push_back(found);
    else
      files.push_back(name);
  }
  if (wanted.empty() || (!files.empty() && wanted.size() > 1))
    return std::fprintf(stderr, "fuzz: no target %s; --list names them\n", files.front().c_str()), 2;
  for (const Target* target : wanted) {
    std::snprintf(kept_in, sizeof kept_in, "fuzz_%s.input", target->name);
    if (files.empty()) (wanted.size() == 1 ? feed : feed_apart)(*target, options);
  }
  for (const std::string& file : files) {
    const bool accepted = run(*wanted.front(), io::read_file(file, std::size_t{1} << 30));
    std::printf("%s: %s\n", file.c_str(), accepted ? "accepted" : "refused with a message");
  }
  return 0;
}

}  // namespace
}  // namespace banyan::fuzz

int main(int count, char** arguments) { return banyan::fuzz::main_of(count, arguments); }
