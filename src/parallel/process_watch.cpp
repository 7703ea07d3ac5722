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

#include "banyan/base/text.hpp"
#include "banyan/device/cores.hpp"
#include "base/clock.hpp"

namespace banyan::parallel {
namespace {

using std::chrono::duration;

/// What a process that has ended has told before may arrive a little later, and be read later still on a busy
/// machine; it is not waited for longer than kHeldUp, because a call of the library may not return.
constexpr double kLastWords = 0.05, kHeldUp = 1;
/// A wire that outlives processes tells of their ends a little later than the system does; one that does not
/// for so long does not work.
constexpr double kWireTells = 10;
/// Whoever was told to end, and then hears nothing from another for this long, takes it for dead: mpirun
/// tells all to end when one has died, and kills them a second later. (Where silence alone is no failure,
/// one that was silent before is still only that.)
constexpr double kSilentAtTheEnd = 0.5;
/// A thread that was away for longer than this has not been able to listen, or to judge. Of such a time only
/// so much counts, or this part of what is a failure: calls that do not return for so long again and again
/// shall not hide a silence.
constexpr double kAway = 1, kMostOfAway = 0.5, kPartOfAway = 1.0 / 3;
/// Of processes that fall silent within such a time any may be the cause: an MPI that has lost one process
/// may hold up others, in calls from which they tell nothing.
constexpr double kTogether = 1;

constexpr const char* kWithoutAWord = "was killed, or has ended without a word";

std::string link_of(const char* path) {
  char target[64] = "";
  const ssize_t length = ::readlink(path, target, sizeof target - 1);
  return {target, static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
}

std::string tenths(double value) { return cat(std::floor(value * 10) / 10); }

/// A descriptor that becomes readable when the process ends, or -1.
int descriptor_of(int pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

bool readable(int descriptor) {
  pollfd poll{descriptor, POLLIN, 0};
  return descriptor >= 0 && ::poll(&poll, 1, 0) == 1;
}

}  // namespace

std::string ProcessIdentity::site() const { return host + "\n" + machine.substr(0, machine.find(' ')); }

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
      me_(wire.process()),
      tag_(tag),
      processes_(std::move(processes)),
      options_(std::move(options)),
      peers_(processes_.size()),
      ticked_(Clock::now()),
      judged_(ticked_),
      last_tick_(ticked_),
      polled_(ticked_),
      parent_(static_cast<int>(::getppid())) {
  const ProcessIdentity& self = processes_[me_];
  for (int process = 0; process < static_cast<int>(peers_.size()); ++process) {
    if (process == me_) continue;
    Peer& peer = peers_[process];
    peer.heard = ticked_;
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
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    peer.heard = Clock::now();
    switch (peer.in.kind) {
      case NewsKind::goodbye:
        peer.gone = true;
        peer.any_waits = peer.shares = false;
        return;  // nothing follows
      case NewsKind::ready:
        peer.ready = peer.heard;
        break;
      case NewsKind::failure: {
        // It may be this one, which others have missed: where it is heard of again, it must say so, too.
        const int failed = peer.in.process;
        if (!peers_[failed].failed)
          failures_.push_back({failed, Error(peer.in.error, peer.in.text), failed == process});
        peers_[failed].failed = true;
        peer.told = peer.told || failed == process;
        break;
      }
      case NewsKind::report:
        peer.doing = peer.in.text;
        peer.any_waits = peer.in.any_waits;
        peer.all_wait = peer.in.all_wait;
        peer.shares = peer.in.shares;
        peer.stuck = peer.in.stuck;
        if (peer.in.moves != std::exchange(peer.moves, peer.in.moves)) moved_ = peer.heard;
        break;
    }
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
  const bool due = !said_goodbye_ && seconds(now - reported_) >= beat();
  const ProcessReport mine = due ? report() : ProcessReport{};
  std::vector<int> to;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const double away = seconds(now - ticked_); away > kAway) {
      const double counts = std::min(kMostOfAway, kPartOfAway * options_.silence_seconds);
      const auto missed = std::chrono::duration_cast<Clock::duration>(duration<double>(away - counts));
      for (Peer& peer : peers_) peer.heard = std::min(peer.heard + missed, now);
    }
    ticked_ = now;
    polled_ = std::exchange(last_tick_, now);
    if (due) {
      if (mine.moves != mine_.moves) moved_ = now;
      mine_ = mine;
    }
    if (due || owing_)
      for (int process = 0; process < static_cast<int>(peers_.size()); ++process)
        if (process != me_ && !peers_[process].failed && !peers_[process].lost) to.push_back(process);
  }
  if (due) reported_ = now;
  owing_ = false;
  for (const int process : to) {
    Peer& peer = peers_[process];
    if (peer.owes_ready && !peer.busy[0]) {
      peer.owes_ready = false;
      send(process, 0, NewsKind::ready, 0);
    }
    if (peer.owes_goodbye && !peer.busy[0]) {
      peer.owes_goodbye = false;
      send(process, 0, NewsKind::goodbye, 0);
    }
    if (due && !peer.busy[0]) send_report(process, mine);
    owing_ = owing_ || peer.owes_ready || peer.owes_goodbye;
  }
}

void ProcessWatch::send_report(int process, const ProcessReport& report) {
  News& news = peers_[process].out[0];
  const std::size_t length = std::min(report.doing.size(), kMostText - 1);
  std::memcpy(news.text, report.doing.data(), length);
  news.text[length] = 0;
  news.any_waits = report.any_waits;
  news.all_wait = report.all_wait;
  news.shares = report.shares;
  news.moves = report.moves;
  news.stuck = report.stuck;
  send(process, 0, NewsKind::report, length);
}

void ProcessWatch::set_server(int server) {
  const std::lock_guard<std::mutex> lock(mutex_);
  server_ = server;
}

void ProcessWatch::judge(bool deaf) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (seconds(now - judged_) > kAway) {
    ticked_ = now;
    for (Peer& peer : peers_) {
      peer.heard = now;
      peer.ended_before = readable(peer.pid_descriptor);
      if (peer.ended && !deaf && !words_are_heard(peer)) peer.ended = now;
    }
  }
  judged_ = now;
  if (::getppid() != parent_ && !failed_) {
    failures_.push_back(
        {me_, Error(ErrorKind::runtime, "the program that started this process has ended"), true});
    parent_ = static_cast<int>(::getppid());
  }
  const bool told_to_end = options_.told_to_end && options_.told_to_end();
  if (told_to_end && !told_) told_ = now;
  Missed missed;
  for (int process = 0; process < static_cast<int>(peers_.size()); ++process)
    if (process != me_ && !peers_[process].over()) look(process, now, told_to_end, deaf, missed);
  if (!missed.processes.empty()) give_up(missed);
  if (failures_.empty() && !failed_) look_at_wire(now, told_to_end);
}

/// Many processes report less often: every one hears all others.
double ProcessWatch::beat() const {
  return std::max(options_.beat_seconds, 0.005 * static_cast<double>(peers_.size()));
}

double ProcessWatch::silence(const Peer& peer) const { return std::max(0.0, seconds(ticked_ - peer.heard)); }

bool ProcessWatch::judges_silence_of(int process) const {
  if (mine_.shares) return true;
  if (options_.served_by_first && process != 0) {
    if (!leaving_ || me_ == 0) return leaving_;
    return peers_[0].ready && seconds(judged_ - *peers_[0].ready) > kAfterTheFirst;
  }
  if (server_ != 0 && !leaving_ && silence(peers_[server_]) <= options_.silence_seconds) return false;
  return leaving_ || anybody_waits();
}

/// Lately: what it said before counts.
bool ProcessWatch::is_heard(const Peer& peer) const {
  return seconds(Clock::now() - peer.heard) < std::max(kAway, 4 * beat());
}

/// One that is not heard of any more does not: its last report may be an old one.
bool ProcessWatch::anybody_waits() const {
  return mine_.any_waits || std::any_of(peers_.begin(), peers_.end(), [this](const Peer& peer) {
           return peer.any_waits && is_heard(peer);
         });
}

void ProcessWatch::look(int process, Clock::time_point now, bool told_to_end, bool deaf, Missed& missed) {
  Peer& peer = peers_[process];
  const double silent = silence(peer);
  if (may_end_ && readable(peer.pid_descriptor)) {
    peer.gone = true;
  } else if (readable(peer.pid_descriptor)) {
    if (!peer.ended) peer.ended = now;
    const double most = deaf                      ? kLastWords
                        : is_dispensable(process) ? kWireTells
                        : words_are_heard(peer)   ? kLastWords
                                                  : kHeldUp;
    if (seconds(now - *peer.ended) > most) give_up({process}, kWithoutAWord);
  } else if (told_to_end && silent > std::max(kSilentAtTheEnd, 4 * beat()) &&
             (!options_.served_by_first ||
              ((process == 0 || me_ == 0) && silent - seconds(now - *told_) < kAway))) {
    missed.processes.push_back(process);
    missed.at_the_end = true;
  } else if (options_.silence_seconds > 0 && silent > options_.silence_seconds &&
             judges_silence_of(process)) {
    missed.processes.push_back(process);
  } else if (options_.silence_seconds > 0 && peer.stuck > options_.silence_seconds && leaving_ &&
             judges_silence_of(process)) {
    give_up({process},
            cat("has got nothing from its data for ", tenths(peer.stuck), " s while others wait for it"));
  }
}

/// Of one that has ended: what it told before has been read, if it told anything.
bool ProcessWatch::words_are_heard(const Peer& peer) const {
  return seconds(polled_ - *peer.ended) > kLastWords;
}

bool ProcessWatch::is_dispensable(int process) const {
  return options_.dispensable_from && process >= *options_.dispensable_from;
}

std::optional<std::string> ProcessWatch::lose(int process) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Peer& peer = peers_[process];
  if (peer.over() || may_end_) {
    peer.lost = true;
    return std::nullopt;
  }
  if (!is_dispensable(process)) {
    give_up({process}, kWithoutAWord);
    return std::nullopt;
  }
  peer.lost = true;
  peer.any_waits = peer.shares = false;
  std::string how = cat(names({process}, ""), " ", kWithoutAWord, ", ",
                        tenths(seconds(Clock::now() - peer.heard)), " s after it was last heard of");
  if (!peer.doing.empty()) how += cat(", ", peer.doing);
  return how;
}

/// With them those that have been silent for about as long: nobody here knows which of them is the cause.
void ProcessWatch::give_up(const Missed& missed) {
  double longest = 0;
  for (const int process : missed.processes) longest = std::max(longest, silence(peers_[process]));
  std::vector<int> together;
  const double least =
      std::min(longest, std::max({longest - std::max(kTogether, beat()), longest / 2, 4 * beat()}));
  for (int process = 0; process < static_cast<int>(peers_.size()); ++process) {
    if (process == me_ || peers_[process].over()) continue;
    // Workers are the server's business, except while all share, and at the very end.
    if (options_.served_by_first && process != 0 && me_ != 0 && !judges_silence_of(process)) continue;
    if (silence(peers_[process]) >= least) together.push_back(process);
  }
  const bool one = together.size() == 1;
  const char* wait = missed.at_the_end ? ""
                     : one             ? " while others wait for it"
                                       : " while others wait for them";
  const char* why = missed.at_the_end ? "killed" : "stopped";
  give_up(together, cat(one ? "has" : "have", " not been heard of for ", tenths(longest), " s by ",
                        name_of(me_), wait, one ? ": it was " : ": one of them, or all, were ", why,
                        one ? ", or has lost its network" : ", or have lost their network"));
}

/// The wire's library may wait for something that does not come, such as an answer of mpirun's when it has
/// other sorrows. Then nobody is heard, and who is to blame is known only if it is seen to have ended, or was
/// silent before.
void ProcessWatch::look_at_wire(Clock::time_point now, bool told_to_end) {
  const double away = seconds(now - ticked_);
  const bool too_long = options_.silence_seconds > 0 && away > options_.silence_seconds;
  if (!too_long && !(told_to_end && away > kSilentAtTheEnd && !left_)) return;
  std::vector<int> silent, ended;
  for (int process = 0; process < static_cast<int>(peers_.size()); ++process)
    if (peers_[process].ended && !peers_[process].over()) ended.push_back(process);
  for (const int process : ended) give_up({process}, kWithoutAWord);
  if (!ended.empty()) return;
  for (int process = 0; process < static_cast<int>(peers_.size()); ++process)
    if (process != me_ && (silence(peers_[process]) > 4 * beat() || peers_.size() == 2))
      silent.push_back(process);
  failures_.push_back(
      {me_,
       Error(ErrorKind::runtime, cat("the message library has not returned from a call for ", tenths(away),
                                     " s", told_to_end ? " and this process was told to end" : "", ": ",
                                     silent.empty() ? "another process" : names(silent, " or "),
                                     " was killed, or has lost its network")),
       true});
}

void ProcessWatch::give_up(const std::vector<int>& processes, const std::string& why) {
  Error error(ErrorKind::runtime, cat(names(processes, " and "), " ", why));
  for (const int process : processes) {
    Peer& peer = peers_[process];
    if (!peer.doing.empty())
      error.add_context(
          cat(peer.doing, ", ", tenths(std::max(0.0, seconds(judged_ - peer.heard))), " s before"));
    peer.failed = true;
  }
  for (const int process : processes) failures_.push_back({process, error, peers_[process].ended_before});
}

/// "process 1 on b (process ID 812), process 2 on c (process ID 813) and process 3 on d (process ID 3)"
std::string ProcessWatch::names(const std::vector<int>& processes, const char* last) const {
  std::vector<std::string> items;
  for (const int process : processes)
    items.push_back(cat(name_of(process), " (process ID ", processes_[process].pid, ")"));
  return join(items, ", ", last);
}

std::vector<ProcessFailure> ProcessWatch::take_failures() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(failures_, {});
}

/// A process that is not heard of does not count as one that waits.
OtherDevices ProcessWatch::others() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  OtherDevices others;
  for (int process = 0; process < static_cast<int>(peers_.size()); ++process) {
    if (process == me_) continue;
    const Peer& peer = peers_[process];
    if (peer.lost) continue;
    const bool heard = is_heard(peer);
    others.any_waits = others.any_waits || (peer.any_waits && heard);
    others.all_wait = others.all_wait && peer.all_wait && heard;
  }
  others.moved = moved_;
  return others;
}

bool ProcessWatch::others_share() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(peers_.begin(), peers_.end(),
                     [this](const Peer& peer) { return peer.shares && is_heard(peer); });
}

void ProcessWatch::note_message(int from) {
  const std::lock_guard<std::mutex> lock(mutex_);
  peers_[from].heard = Clock::now();
}

double ProcessWatch::silence_of(int process) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return silence(peers_[process]);
}

Absence ProcessWatch::absence_of(int process) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {silence(peers_[process]), peers_[process].stuck};
}

bool ProcessWatch::has_ended(int process) const { return readable(peers_[process].pid_descriptor); }

void ProcessWatch::tell(int failed, const Error& error) {
  // One that has failed too must know who else has, or both would speak for their host; and one that was
  // silent, if it hears again, that it was missed. Either may have ended by now, so that the wire throws:
  // they come last.
  std::vector<int> to, failed_too;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    failed_ = true;
    for (int process = 0; process < static_cast<int>(peers_.size()); ++process) {
      const Peer& peer = peers_[process];
      if (process == me_ || peer.gone || peer.lost ||
          (peer.failed && !peer.told && readable(peer.pid_descriptor)))
        continue;
      (peer.failed ? failed_too : to).push_back(process);
    }
  }
  to.insert(to.end(), failed_too.begin(), failed_too.end());
  const std::string text = error.what();
  const std::size_t length = std::min(text.size(), kMostText - 1);
  for (const int process : to) {
    Peer& peer = peers_[process];
    if (peer.busy[1]) continue;
    std::memcpy(peer.out[1].text, text.data(), length);
    peer.out[1].text[length] = 0;
    peer.out[1].process = failed;
    peer.out[1].error = error.kind();
    send(process, 1, NewsKind::failure, length);
  }
}

void ProcessWatch::begin_to_leave() {
  const std::lock_guard<std::mutex> lock(mutex_);
  leaving_ = true;
}

bool ProcessWatch::leave(bool quiet) {
  if (!quiet) return false;
  if (!std::exchange(said_ready_, true)) {
    owing_ = true;
    for (Peer& peer : peers_) peer.owes_ready = true;
  }
  bool all_ready = true, all_gone = true;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (int process = 0; process < static_cast<int>(peers_.size()); ++process) {
      if (process == me_ || peers_[process].lost) continue;
      all_ready = all_ready && peers_[process].ready.has_value();
      all_gone = all_gone && peers_[process].gone;
    }
  }
  if (!all_ready) return false;
  if (wire_.outlives_processes()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    may_end_ = true;  // whoever ends has heard that all are ready, and waits for nobody in leaving the wire
  }
  if (!std::exchange(said_goodbye_, true)) {
    owing_ = true;
    for (Peer& peer : peers_) peer.owes_goodbye = true;
  }
  if (!all_gone || owing_ || !all_sent()) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  left_ = true;
  return true;
}

bool ProcessWatch::all_sent() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::none_of(peers_.begin(), peers_.end(),
                      [](const Peer& peer) { return !peer.failed && (peer.busy[0] || peer.busy[1]); });
}

}  // namespace banyan::parallel
