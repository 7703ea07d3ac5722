// The network between namespaces of one machine, in user space: delays, losses, rates, cuts. (network.py
// builds and runs it where the kernel's tc has no netem.)
//
// usage: relay NAMESPACE...
//
// Makes a TAP device net0 in each namespace (`ip netns add` made them) and passes on frames among them as a
// switch does. Commands come by standard input, a line each; host H is the H-th namespace, from 0, and what
// is set holds for the frames that leave it:
//   shape H DELAY JITTER LOSS REORDER RATE   microseconds, +- microseconds, two shares from 0 to 1, bits per second (0: as fast as it goes)
//   cut H      no frames from H or to H
//   mend H
// Answers "ready" at the start, and every command by "ok" when it holds. Ends, and the devices with it, when
// standard input does.
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Duration = std::chrono::duration<double>;

constexpr std::size_t kFrame = 1536;  ///< the largest one: the devices' MTU is 1500
/// What waits for longer because of the rate is dropped: the buffer of a switch.
constexpr Duration kBuffer{0.1};
/// Frames of one host before the others are looked at.
constexpr int kBatch = 64;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "relay: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

[[noreturn]] void refuse(const std::string& what) {
  std::fprintf(stderr, "relay: %s\n", what.c_str());
  std::exit(2);
}

struct Frame {
  std::array<char, kFrame> data;
  std::size_t bytes = 0;
  Clock::time_point due;
  std::uint64_t number = 0;
  int from = 0;
};
using FramePointer = std::unique_ptr<Frame>;

struct Later {
  bool operator()(const FramePointer& a, const FramePointer& b) const {
    return a->due != b->due ? a->due > b->due : a->number > b->number;
  }
};

struct Host {
  int device = -1;
  bool cut = false;
  double delay = 0, jitter = 0, loss = 0, reorder = 0, rate = 0;
  Clock::time_point free;  ///< when its link has sent what was accepted
};

/// The last byte of a host's address.
char mark_of(std::size_t host) { return static_cast<char>(host + 1); }
constexpr std::array<char, 5> kAddress{2, 0x42, 0x59, 0x4e, 0};

int make_device(const std::string& name, std::size_t host) {
  const int space = ::open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
  if (space < 0 || ::setns(space, CLONE_NEWNET) != 0) fail("namespace " + name);
  ::close(space);
  const int device = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (device < 0) fail("/dev/net/tun");
  ifreq request{};
  std::strcpy(request.ifr_name, "net0");
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (::ioctl(device, TUNSETIFF, &request) != 0) fail("a TAP device in " + name);
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  request.ifr_hwaddr.sa_family = 1;  // Ethernet
  std::memcpy(request.ifr_hwaddr.sa_data, kAddress.data(), kAddress.size());
  request.ifr_hwaddr.sa_data[kAddress.size()] = mark_of(host);
  if (socket < 0 || ::ioctl(socket, SIOCSIFHWADDR, &request) != 0) fail("the address of net0 in " + name);
  ::close(socket);
  return device;
}

class Relay {
 public:
  explicit Relay(const std::vector<std::string>& namespaces) {
    for (const std::string& name : namespaces) {
      Host& host = hosts_.emplace_back();
      host.device = make_device(name, hosts_.size() - 1);
      polls_.push_back({host.device, POLLIN, 0});
    }
    polls_.push_back({STDIN_FILENO, POLLIN, 0});
  }

  void run() {
    std::cout << "ready" << std::endl;
    for (;;) {
      const bool waits = !waiting_.empty();
      timespec pause{};
      if (waits) {
        const auto time = std::chrono::nanoseconds(waiting_.front()->due - Clock::now()).count();
        if (time > 0) pause = {time / 1'000'000'000, time % 1'000'000'000};
      }
      if (::ppoll(polls_.data(), polls_.size(), waits ? &pause : nullptr, nullptr) < 0 && errno != EINTR)
        fail("poll");
      for (std::size_t host = 0; host < hosts_.size(); ++host)
        if ((polls_[host].revents & POLLIN) != 0) take_in(static_cast<int>(host));
      deliver();
      if (polls_.back().revents != 0 && !obey()) return;
    }
  }

 private:
  double draw() { return std::uniform_real_distribution<double>(0, 1)(random_); }

  void take_in(int from) {
    Host& host = hosts_[static_cast<std::size_t>(from)];
    for (int i = 0; i < kBatch; ++i) {
      FramePointer frame;
      if (unused_.empty()) {
        frame = std::make_unique<Frame>();
      } else {
        frame = std::move(unused_.back());
        unused_.pop_back();
      }
      const ssize_t bytes = ::read(host.device, frame->data.data(), frame->data.size());
      frame->bytes = static_cast<std::size_t>(bytes);
      frame->from = from;
      if (bytes <= 0 || host.cut || draw() < host.loss || !schedule(*frame, host)) {
        unused_.push_back(std::move(frame));
        if (bytes <= 0) return;
        continue;
      }
      waiting_.push_back(std::move(frame));
      std::push_heap(waiting_.begin(), waiting_.end(), Later());
    }
  }

  /// When it arrives; false: the buffer is full.
  bool schedule(Frame& frame, Host& host) {
    const Clock::time_point now = Clock::now();
    Clock::time_point sent = now;
    if (host.rate > 0) {
      const Clock::time_point begins = std::max(now, host.free);
      if (begins - now > kBuffer) return false;
      const Duration takes(8 * static_cast<double>(frame.bytes) / host.rate);
      sent = host.free = begins + std::chrono::duration_cast<Clock::duration>(takes);
    }
    const bool early = host.reorder > 0 && draw() < host.reorder;
    const double delay = early ? 0 : std::max(0.0, host.delay + host.jitter * (2 * draw() - 1));
    frame.due = sent + std::chrono::duration_cast<Clock::duration>(Duration(delay));
    frame.number = ++frames_;
    return true;
  }

  void deliver() {
    const Clock::time_point now = Clock::now();
    while (!waiting_.empty() && waiting_.front()->due <= now) {
      std::pop_heap(waiting_.begin(), waiting_.end(), Later());
      send(*waiting_.back());
      unused_.push_back(std::move(waiting_.back()));
      waiting_.pop_back();
    }
  }

  void send(const Frame& frame) {
    const bool known = std::memcmp(frame.data.data(), kAddress.data(), kAddress.size()) == 0;
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      if (static_cast<int>(host) == frame.from || hosts_[host].cut) continue;
      if (known && frame.data[kAddress.size()] != mark_of(host)) continue;
      // What a device does not take is lost, as in any network.
      [[maybe_unused]] const ssize_t written = ::write(hosts_[host].device, frame.data.data(), frame.bytes);
    }
  }

  /// False: standard input has ended.
  bool obey() {
    char text[4096];
    const ssize_t bytes = ::read(STDIN_FILENO, text, sizeof text);
    if (bytes <= 0) return false;
    commands_.append(text, static_cast<std::size_t>(bytes));
    for (std::size_t end; (end = commands_.find('\n')) != std::string::npos; commands_.erase(0, end + 1)) {
      std::istringstream words(commands_.substr(0, end));
      std::string what;
      std::size_t number = 0;
      words >> what >> number;
      if (!words || number >= hosts_.size()) refuse("not a host: " + words.str());
      Host& host = hosts_[number];
      if (what == "shape") {
        words >> host.delay >> host.jitter >> host.loss >> host.reorder >> host.rate;
        if (!words) refuse("not a shape: " + words.str());
        host.delay *= 1e-6;
        host.jitter *= 1e-6;
      } else if (what == "cut" || what == "mend") {
        host.cut = what == "cut";
      } else {
        refuse("not a command: " + words.str());
      }
      std::cout << "ok" << std::endl;
    }
    return true;
  }

  std::vector<Host> hosts_;
  std::vector<pollfd> polls_;          ///< the devices, and standard input
  std::vector<FramePointer> waiting_;  ///< a heap: the first one is the next to be delivered
  std::vector<FramePointer> unused_;
  std::uint64_t frames_ = 0;
  std::mt19937 random_{1};
  std::string commands_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) refuse("usage: relay NAMESPACE...");
  ::prctl(PR_SET_TIMERSLACK, 1000UL);
  // A busy machine must not look like a slow network.
  const sched_param first{1};
  if (::sched_setscheduler(0, SCHED_RR, &first) != 0) ::setpriority(PRIO_PROCESS, 0, -20);
  Relay({argv + 1, argv + argc}).run();
}
