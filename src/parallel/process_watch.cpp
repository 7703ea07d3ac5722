#include "parallel/process_watch.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <sstream>
#include <utility>

#include "banyan/device/cores.hpp"

namespace banyan::parallel {
namespace {

using std::chrono::duration;

/// What a process that has ended has told before may arrive a little later.
constexpr double kLastWords = 0.05;
/// Whoever was told to stop, and then hears nothing from another for this long, takes it for dead: mpirun
/// tells all to stop when one has died, and kills them a second later. (Where silence alone is no failure,
/// one that was silent before is still only that.)
constexpr double kSilentAtTheEnd = 0.5;
/// A thread that was away for longer than this has not been able to listen.
constexpr double kAway = 1;

std::string link_of(const char* path) {
  char target[64] = "";
  const ssize_t length = ::readlink(path, target, sizeof target - 1);
  return {target, static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
}

double seconds(ProcessWatch::Clock::duration time) { return duration<double>(time).count(); }

std::string rounded(double value) { return cat(std::floor(value * 10) / 10); }

/// A descriptor that becomes readable when the process ends, or -1.
int descriptor_of(int pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

bool readable(int descriptor) {
  pollfd poll{descriptor, POLLIN, 0};
  return descriptor >= 0 && ::poll(&poll, 1, 0) == 1;
}

}  // namespace

std::string ProcessIdentity::pack() const { return cat(pid, " ", machine, "|", host); }

ProcessIdentity ProcessIdentity::unpack(const std::string& packed) {
  ProcessIdentity identity;
  std::istringstream in(packed);
  in >> identity.pid;
  in.ignore();
  std::getline(in, identity.machine, '|');
  std::getline(in, identity.host);
  return identity;
}

ProcessIdentity identify(const std::string& host) {
  ProcessIdentity identity;
  identity.pid = static_cast<int>(::getpid());
  identity.machine = machine_id() + " " + link_of("/proc/self/ns/pid");
  identity.host = host;
  char name[256] = "";
  if (host.empty() && ::gethostname(name, sizeof name - 1) == 0) identity.host = name;
  return identity;
}

ProcessWatch::ProcessWatch(Wire& wire, int tag, std::vector<ProcessIdentity> processes, WatchOptions options)
    : wire_(wire),
      tag_(tag),
      processes_(std::move(processes)),
      options_(std::move(options)),
      peers_(processes_.size()),
      looked_(Clock::now()),
      parent_(static_cast<int>(::getppid())) {
  const ProcessIdentity& self = processes_[me()];
  for (int process = 0; process < static_cast<int>(peers_.size()); ++process) {
    if (process == me()) continue;
    Peer& peer = peers_[process];
    peer.heard = looked_;
    if (processes_[process].machine == self.machine && processes_[process].pid != self.pid)
      peer.pid_descriptor = descriptor_of(processes_[process].pid);
    listen(process);
  }
}

ProcessWatch::~ProcessWatch() {
  for (const Peer& peer : peers_)
    if (peer.pid_descriptor >= 0) ::close(peer.pid_descriptor);
}

std::string ProcessWatch::name_of(int process) const {
  return cat("process ", process, " on ", processes_[process].host);
}

void ProcessWatch::listen(int process) {
  Peer& peer = peers_[process];
  wire_.receive(process, tag_, &peer.in, sizeof peer.in,
                [this, process](std::size_t) { heard_from(process); });
}

void ProcessWatch::heard_from(int process) {
  Peer& peer = peers_[process];
  peer.heard = Clock::now();
  switch (peer.in.kind) {
    case NewsKind::goodbye:
      peer.gone = true;
      peer.any_waits = false;
      return;  // nothing follows
    case NewsKind::failure: {
      const int failed = peer.in.process;
      if (failed != me() && !peers_[failed].gone)
        failures_.push_back({failed, Error(peer.in.error, peer.in.text), failed == process});
      peers_[failed].gone = true;
      break;
    }
    case NewsKind::report:
      peer.doing = peer.in.text;
      peer.any_waits = peer.in.any_waits;
      peer.all_wait = peer.in.all_wait;
      break;
  }
  listen(process);
}

void ProcessWatch::send(int process, std::size_t channel, NewsKind kind, std::size_t text_bytes) {
  Peer& peer = peers_[process];
  News& news = peer.out[channel];
  news.kind = kind;
  peer.busy[channel] = true;
  wire_.send(process, tag_, &news, offsetof(News, text) + text_bytes + 1,
             [&peer, channel](std::size_t) { peer.busy[channel] = false; });
}

void ProcessWatch::tick(const std::function<ProcessReport()>& report) {
  const Clock::time_point now = Clock::now();
  if (seconds(now - looked_) > kAway)
    for (Peer& peer : peers_) {
      peer.heard = now;
      peer.ended_before = readable(peer.pid_descriptor);
    }
  looked_ = now;
  // Many processes report less often: every one hears all others.
  const double period = std::max(options_.beat_seconds, 0.005 * static_cast<double>(peers_.size()));
  const bool due = !leaving_ && seconds(now - reported_) >= period;
  if (due) {
    reported_ = now;
    mine_ = report();
    if (::getppid() != parent_ && !failed_) {
      failures_.push_back(
          {me(), Error(ErrorKind::runtime, "the program that started this process has ended"), false});
      parent_ = static_cast<int>(::getppid());
    }
  }
  const bool told_to_stop = options_.told_to_stop && options_.told_to_stop();
  if (told_to_stop && !told_) told_ = now;
  for (int process = 0; process < static_cast<int>(peers_.size()); ++process) {
    Peer& peer = peers_[process];
    if (process == me()) continue;
    if (peer.owes_goodbye && !peer.busy[0]) {
      peer.owes_goodbye = false;
      send(process, 0, NewsKind::goodbye, 0);
    }
    if (peer.gone) continue;
    if (due && !peer.busy[0]) {
      News& news = peer.out[0];
      const std::size_t length = std::min(mine_.doing.size(), kMostText - 1);
      std::memcpy(news.text, mine_.doing.data(), length);
      news.text[length] = 0;
      news.any_waits = mine_.any_waits;
      news.all_wait = mine_.all_wait;
      send(process, 0, NewsKind::report, length);
    }
    look(process, now, told_to_stop);
  }
}

bool ProcessWatch::anybody_waits() const {
  return mine_.any_waits ||
         std::any_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.any_waits; });
}

void ProcessWatch::look(int process, Clock::time_point now, bool told_to_stop) {
  Peer& peer = peers_[process];
  const double silence = seconds(now - peer.heard);
  if (readable(peer.pid_descriptor)) {
    if (!peer.ended) peer.ended = now;
    if (seconds(now - *peer.ended) > kLastWords)
      give_up(process, "was killed, or has ended without a word", now);
  } else if (told_to_stop && silence > kSilentAtTheEnd &&
             (!options_.only_first_must_answer || silence - seconds(now - *told_) < kAway)) {
    give_up(process,
            cat("has not been heard of for ", rounded(silence), " s: it was killed, or has lost its network"),
            now);
  } else if (options_.silence_seconds > 0 && silence > options_.silence_seconds &&
             (leaving_ || (anybody_waits() && (process == 0 || !options_.only_first_must_answer)))) {
    give_up(process,
            cat("has not been heard of for ", rounded(silence),
                " s while others wait for it: it was stopped, or has lost its network"),
            now);
  }
}

void ProcessWatch::give_up(int process, const std::string& why, Clock::time_point now) {
  Peer& peer = peers_[process];
  Error error(ErrorKind::runtime, cat(name_of(process), " (process ID ", processes_[process].pid, ") ", why));
  if (!peer.doing.empty())
    error.add_context(cat(peer.doing, ", ", rounded(seconds(now - peer.heard)), " s before"));
  peer.gone = true;
  failures_.push_back({process, error, peer.ended_before});
}

std::vector<ProcessFailure> ProcessWatch::take_failures() { return std::exchange(failures_, {}); }

/// A process that is not heard of does not count as one that waits.
OtherDevices ProcessWatch::others() const {
  OtherDevices others;
  for (int process = 0; process < static_cast<int>(peers_.size()); ++process) {
    if (process == me()) continue;
    const Peer& peer = peers_[process];
    others.any_waits = others.any_waits || peer.any_waits;
    others.all_wait = others.all_wait && peer.all_wait && seconds(looked_ - peer.heard) < kAway;
  }
  return others;
}

double ProcessWatch::silence_of(int process) const { return seconds(looked_ - peers_[process].heard); }

void ProcessWatch::tell(int failed, const Error& error) {
  failed_ = true;
  const std::string text = error.what();
  const std::size_t length = std::min(text.size(), kMostText - 1);
  for (int process = 0; process < static_cast<int>(peers_.size()); ++process) {
    Peer& peer = peers_[process];
    if (process == me() || peer.gone || peer.busy[1]) continue;
    std::memcpy(peer.out[1].text, text.data(), length);
    peer.out[1].text[length] = 0;
    peer.out[1].process = failed;
    peer.out[1].error = error.kind();
    send(process, 1, NewsKind::failure, length);
  }
}

void ProcessWatch::say_goodbye() {
  leaving_ = true;
  for (int process = 0; process < static_cast<int>(peers_.size()); ++process)
    if (process != me()) peers_[process].owes_goodbye = true;
}

bool ProcessWatch::all_said_goodbye() const {
  for (int process = 0; process < static_cast<int>(peers_.size()); ++process)
    if (process != me() && !peers_[process].gone) return false;
  return true;
}

bool ProcessWatch::all_sent() const {
  return std::all_of(peers_.begin(), peers_.end(),
                     [](const Peer& peer) { return !peer.owes_goodbye && !peer.busy[0] && !peer.busy[1]; });
}

}  // namespace banyan::parallel
