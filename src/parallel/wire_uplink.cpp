#include "banyan/parallel/wire_uplink.hpp"

#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/observe/panel.hpp"
#include "banyan/parallel/spin.hpp"
#include "parallel/process_watch.hpp"
#include "parallel/slot_exchange.hpp"

namespace banyan::parallel {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kNewsTag = 0, kShareSizeTag = 1, kShareTag = 2, kFirstSlotTag = 3;
/// The last ones are a WireProtocol's.
constexpr int kProtocolTags = 16;
/// Seconds for the processes to find each other in the beginning; more if the watchdog waits longer.
constexpr double kLeastPatience = 20;
/// Between two processes of a host that say that they have not: what started them ends all after the first,
/// mpirun in a second.
constexpr double kTurn = 2;
constexpr int kMostTurns = 3;
/// One that is heard of may take so many times that long, for a large data set or an old state, while others
/// wait for it.
constexpr double kToStart = 5;
/// A text travels in such parts, so that the others see it move.
constexpr std::size_t kSharePart = std::size_t{16} << 20;
/// How long the thread polls for something that a device waits for before it sleeps between polls; it yields
/// its core after so many polls: a yield costs more than a poll, even if nobody else wants the core.
constexpr std::chrono::microseconds kSpin{2000}, kShortSpin{30};
constexpr int kPollsBetweenYields = 8;
/// How long it may keep the core from others that want it.
constexpr std::chrono::microseconds kKeepsCore{60};
/// Between polls: while devices wait, while they compute and something is under way (the thread may need one
/// of their cores), and while nothing is. What begins here wakes the thread.
constexpr std::chrono::microseconds kNap{20}, kLongNap{100}, kRest{2000};
/// After a failure: for what is told to leave, and to hear whether others have failed too.
constexpr std::chrono::milliseconds kLinger{150}, kLongestLinger{1000};
/// Between two looks of the guard; how much of one counts, so that time in which this process was stopped
/// does not; and for how long the thread of the wire may stay in a call after a failure.
constexpr std::chrono::milliseconds kLook{30}, kLongestLook{100}, kStuck{400};
/// If the guard has not looked for longer than this, the process was stopped meanwhile.
constexpr std::chrono::milliseconds kStopped{1000};
/// How often the cause of a wire's error is looked for among other processes before it is this one's own.
constexpr int kLooksForTheEnded = 5;
/// mpirun kills all when one ends: whoever has spoken gives other hosts so long to speak too, and whoever has
/// nothing to say gives the one that speaks for its host so long.
constexpr std::chrono::milliseconds kHold{300}, kLongestHold{1000};
/// What a process that has not begun to train has after a failure to end by itself.
constexpr std::chrono::milliseconds kToEnd{2000};
/// What one that trains has, once it was told to end.
constexpr std::chrono::milliseconds kHurry{50};
/// One that is not heard of for so long is not expected to say what has happened.
constexpr double kSilent = 1;

/// Slots have any sign, tags have not.
int first_tag_of(int slot) {
  const int index = slot >= 0 ? 2 * slot : -2 * slot - 1;
  return kFirstSlotTag + index * SlotExchange::kTags;
}

/// Tells of every message that comes, and of every one that leaves.
class ToldWire : public Wire {
 public:
  using Heard = std::function<void(int from)>;
  ToldWire(Wire& wire, Heard heard, std::function<void()> moved)
      : wire_(wire), heard_(std::move(heard)), moved_(std::move(moved)) {}
  int process() const override { return wire_.process(); }
  int processes() const override { return wire_.processes(); }
  int last_tag() const override { return wire_.last_tag(); }
  void send(int to, int tag, const void* data, std::size_t bytes, Done done) override {
    wire_.send(to, tag, data, bytes, [this, done = std::move(done)](std::size_t sent) {
      moved_();
      if (done) done(sent);
    });
  }
  void receive(int from, int tag, void* data, std::size_t bytes, Done done) override {
    wire_.receive(from, tag, data, bytes, [this, from, done = std::move(done)](std::size_t received) {
      heard_(from);
      moved_();
      if (done) done(received);
    });
  }
  bool progress() override { return wire_.progress(); }
  void leave() override { wire_.leave(); }
  bool outlives_processes() const override { return wire_.outlives_processes(); }
  void on_lost(Lost lost) override { wire_.on_lost(std::move(lost)); }

 private:
  Wire& wire_;
  const Heard heard_;
  const std::function<void()> moved_;
};

/// A string of each process on its way to all others.
struct Sharing {
  std::vector<std::string> all;
  std::vector<std::uint64_t> sizes;
  std::vector<bool> heard;  ///< by process: its size is there
  std::vector<int> coming;  ///< by process: transfers
  std::uint64_t size = 0;   ///< of this process's
  int open = 0;             ///< transfers in both directions
  bool under_way = false;
};

}  // namespace

class WireUplink::State {
 public:
  State(ConnectWire connect, const WireUplinkOptions& options)
      : options_(options), host_device_(make_cpu_device(0)), host_(*host_device_) {
    thread_ = std::thread([this, connect = std::move(connect)] { run(connect); });
    std::unique_lock<std::mutex> lock(mutex_);
    const auto begun = [&] { return joined_ || failure_; };
    if (options_.watchdog_seconds <= 0) {
      changed_.wait(lock, begun);
    } else {
      // Only time in which this process ran counts.
      double left = patience() + kTurn * std::min(options_.turn_on_host, kMostTurns);
      for (Clock::time_point looked = Clock::now(); !changed_.wait_for(lock, kLook, begun);) {
        const Clock::duration look = Clock::now() - looked;
        looked += look;
        left -= std::chrono::duration<double>(std::min<Clock::duration>(look, kLongestLook)).count();
        if (left > 0) continue;
        say(not_found());
        std::this_thread::sleep_for(kLongestHold);  // less than a turn: one process of each host speaks
        ::_exit(exit_code(ErrorKind::runtime));
      }
    }
    if (joined_) {             // what has failed since then is thrown by what is called next
      looked_ = Clock::now();  // not on its thread, which a stop may keep from beginning
      guard_ = std::thread([this] { guard(); });
      return;
    }
    const Error error = failure_->error;
    lock.unlock();
    thread_.join();
    throw Error(error);
  }
  ~State() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      closing_ = true;
      changed_.notify_all();
    }
    abort(Error(ErrorKind::runtime, "the process has ended"));
    thread_.join();
    guard_.join();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const UplinkPlace& place() const { return place_; }
  std::string name_of(int process) const { return cat("process ", process, " on ", hosts_[process]); }
  std::string name() const { return name_of(place_.process); }
  void sign(Error& error) const {
    if (std::string_view(error.what()).find(name()) == std::string_view::npos)
      error.add_context(cat("in ", name()));
  }

  std::vector<std::string> share(const std::string& mine) {
    std::unique_lock<std::mutex> lock(mutex_);
    check();
    to_share_ = mine;
    sharing_here_ = true;
    wake();
    changed_.wait(lock, [&] { return shared_ || failure_; });
    sharing_here_ = false;
    check();
    return *std::exchange(shared_, std::nullopt);
  }

  void bring(int devices) {
    const std::vector<std::string> all = share(std::to_string(devices));
    for (std::size_t p = 0; p < all.size(); ++p)
      place_.devices_of[p] = all[p].empty() ? 0 : std::stoi(all[p]);
  }

  void carry(std::shared_ptr<WireProtocol> protocol) {
    const std::lock_guard<std::mutex> lock(mutex_);
    to_carry_ = std::move(protocol);
    started_ = started_ || options_.served_by_first;  // a server's work begins with it
    wake();
  }

  void attach(UplinkRun run) {
    const std::lock_guard<std::mutex> lock(mutex_);
    check();  // of what came before, nobody has told the run
    run_ = std::move(run);
  }

  void detach() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (under_way_ > 0) fail_here(Error(ErrorKind::runtime, "the run has ended early"));
    wake();
    changed_.wait(lock, [&] { return (settled_ || left_ || !failure_) && !ending_; });
    slots_.clear();
    slot_memory_.clear();
    run_ = {};
  }

  OtherDevices others() const { return watch_->others(); }

  void begin(int number, Tensor& message, UplinkMerge merge, const Meeting& meeting, ProcessRange among,
             Context& context, Doorbell& bell) {
    const std::lock_guard<std::mutex> lock(mutex_);
    check();
    started_ = true;
    std::unique_ptr<Slot>& entry = slots_[number];
    if (!entry) {
      if (first_tag_of(number) + SlotExchange::kTags > wire_->last_tag() - kProtocolTags)
        runtime_failure("too many buckets, or sync groups, for the tags of this MPI, which end at ",
                        wire_->last_tag());
      entry = std::make_unique<Slot>(*wire_, host_, slot_memory_, number);
      entry->filled = context.device().create_event();
    }
    Slot& slot = *entry;
    slot.message = message;
    slot.header = SlotHeader::of(meeting, message, merge);
    slot.among = among;
    slot.bell = &bell;
    slot.finished = false;
    slot.values = message.raw();
    if (!context.device().in_host_memory()) {
      if (slot.staged_bytes < message.bytes()) {
        // The stream may still read what was there: it is kept until detach().
        if (slot.staged) slot.outgrown.push_back(std::move(slot.staged));
        slot.staged_bytes = std::max(message.bytes(), 2 * slot.staged_bytes);
        slot.staged = context.device().allocate_host(slot.staged_bytes);
      }
      slot.values = slot.staged.get();
      context.stream().copy(slot.values, message.raw(), message.bytes());
    }
    context.stream().record(*slot.filled);
    begun_.push_back(&slot);
    ++under_way_;
    wake();
  }

  bool done(int number, Context& context) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Slot& slot = *slots_.at(number);
    if (!slot.finished) {
      check();
      if (napping_ && a_device_waits()) wake();
      return false;
    }
    if (slot.values != slot.message.raw())
      context.stream().copy(slot.message.raw(), slot.values, slot.message.bytes());
    slot.message = {};
    return true;
  }

  void abort(const Error& error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    fail_here(error);
    wake();
  }

  void leave() {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      check();
      leaving_ = true;
      wake();
      changed_.wait(lock, [&] { return left_ || failure_; });
      check();
    }
    thread_.join();
    guard_.join();
  }

  bool speaks() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!failure_) return true;
    closing_ = true;  // whoever asks ends this process: the guard need not
    changed_.notify_all();
    changed_.wait(lock, [&] { return settled_; });
    return speaker() == place_.process && !said_;
  }

  void let_others_speak() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!failure_) return;
    changed_.wait(lock, [&] { return settled_; });
    const int speaks = speaker();
    lock.unlock();
    const Clock::time_point since = Clock::now();
    if (speaks != place_.process)
      while (Clock::now() - since < kLongestHold && !watch_->has_ended(speaks))
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    else if (std::any_of(sites_.begin(), sites_.end(),
                         [&](const auto& site) { return site != sites_[speaks]; }))
      std::this_thread::sleep_for(kHold);
  }

 private:
  struct Slot {
    Slot(Wire& wire, Context& host, SlotMemory& memory, int number)
        : is_bucket(number >= kFirstBucket),
          exchange(wire, host, memory, number, first_tag_of(number), is_bucket) {}
    const bool is_bucket;
    SlotExchange exchange;  ///< used by the thread of the wire only
    // The rest is written under the mutex, and by the owner of the slot only.
    Tensor message;  ///< until done(): after a failure its owner may drop it while it is exchanged
    SlotHeader header;
    ProcessRange among;
    Doorbell* bell = nullptr;
    void* values = nullptr;         ///< of the message, in host memory
    std::unique_ptr<Event> filled;  ///< after which they are there
    std::shared_ptr<void> staged;   ///< where they are if the message is not in host memory
    std::size_t staged_bytes = 0;
    std::vector<std::shared_ptr<void>> outgrown;
    bool finished = false;
  };

  double patience() const {
    return options_.patience_seconds > 0 ? options_.patience_seconds
                                         : std::max(options_.watchdog_seconds, kLeastPatience);
  }
  /// Under the mutex. A library that waits for other processes in its initialization can neither be told to
  /// stop nor asked for whom it waits.
  Error not_found() const {
    std::vector<std::string> missing;
    for (const int process : unheard_) missing.push_back(cat("process ", process));
    const std::string number = options_.process >= 0 ? cat("process ", options_.process) : "a process";
    return Error(ErrorKind::runtime,
                 cat("the processes of this run have not found each other for ", patience(),
                     " s: ", missing.empty() ? "one of them" : banyan::join(missing, ", ", " and "),
                     missing.size() > 1 ? " have not started, were stopped, or have lost their network (in "
                                        : " has not started, was stopped, or has lost its network (in ",
                     number, " on ", identify(options_.host).host, ")"));
  }
  static void say(const Error& error) {
    const std::string text = cat(::program_invocation_short_name, ": ", error.what(), "\n");
    give_back_panel();
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  }
  [[noreturn]] static void end_process(const Error& error, bool speaks) {
    if (speaks)
      say(error);
    else
      give_back_panel();
    ::_exit(exit_code(error.kind()));
  }

  // On any thread, under the mutex.

  void check() const {
    if (failure_) throw Error(failure_->error);
  }
  void wake() {
    woken_ = true;
    work_.notify_one();
  }
  /// The first failure counts. The thread then tells it.
  void fail(const ProcessFailure& failure) {
    if (failure_ || left_) return;
    failure_ = failure;
    failed_at_ = Clock::now();
    changed_.notify_all();
  }
  void fail_here(const Error& error) {
    if (!failure_) failed_[place_.process] = true;
    fail({place_.process, error, true});
  }
  /// After a failure: of the processes of this host, the first one that failed by itself, or else the first
  /// one that lives.
  int speaker() const {
    const int me = place_.process;
    std::optional<int> first_failed, first_alive;
    for (int process = 0; process < static_cast<int>(sites_.size()); ++process) {
      if (sites_[process] != sites_[me]) continue;
      const auto failed = failed_.find(process);
      if (failed == failed_.end()) {
        const bool alive = process == me || !watch_ || watch_->silence_of(process) < kSilent;
        if (alive && !first_alive) first_alive = process;
      } else if (failed->second && !first_failed) {
        first_failed = process;
      }
    }
    return first_failed.value_or(first_alive.value_or(me));
  }

  // On the guard's thread, which judges the others, and sees to it that this process ends even if the thread
  // of the wire is held up in a call.

  void guard() {
    ::pthread_setname_np(::pthread_self(), "uplink guard");
    Clock::duration stuck{};
    std::uint64_t beats = 0;
    std::unique_lock<std::mutex> lock(mutex_);
    while (!changed_.wait_for(lock, kLook, [&] { return settled_ || left_; })) {
      lock.unlock();
      watch_->judge();
      note_failures();
      lock.lock();
      const Clock::duration look = note_stop();
      looked_ += look;
      const std::uint64_t now = beats_;
      const bool moves = now != std::exchange(beats, now);
      stuck = moves || !failure_ ? Clock::duration{} : stuck + std::min<Clock::duration>(look, kLongestLook);
      judge_start(std::min<Clock::duration>(look, kLongestLook));
      if (stuck < kStuck) continue;
      Error error(failure_->error);
      sign(error);
      end_process(error, speaker() == place_.process);
    }
    if (left_ || has_time(lock)) return;
    Error error(failure_->error);
    sign(error);
    said_ = true;
    if (speaker() == place_.process) say(error);
    lock.unlock();
    let_others_speak();
    ::_exit(exit_code(error.kind()));
  }

  /// After a failure: does the process itself come to say what has happened? Before it has started, it may be
  /// held up by a file, perhaps; afterwards its devices' watchdog ends it if they do not stop, but mpirun may
  /// kill it sooner: 250 ms after it has told it to end.
  bool has_time(std::unique_lock<std::mutex>& lock) {
    if (!started_)
      return changed_.wait_for(lock, stuck_at_start_ ? kLook : kToEnd,
                               [this] { return closing_ || started_; });
    while (!told_to_end())
      if (changed_.wait_for(lock, kLook, [this] { return closing_; })) return true;
    return changed_.wait_for(lock, kHurry, [this] { return closing_; });
  }

  bool told_to_end() const { return options_.told_to_end != nullptr && options_.told_to_end->load(); }

  /// Under the mutex: how long ago the guard has looked. The thread that runs first after a stop notices it.
  Clock::duration note_stop() {
    const Clock::time_point now = Clock::now();
    if (now - looked_ > kStopped) runs_since_ = now;
    return now - looked_;
  }

  /// Under the mutex: do the others wait for this process, which does not come as far as they are?
  void judge_start(Clock::duration look) {
    if (failure_ || started_ || leaving_ || options_.watchdog_seconds <= 0) return;
    // Devices that are at work have a watchdog of their own, which sees whether they get on.
    const bool at_work =
        std::any_of(run_.activities.begin(), run_.activities.end(),
                    [](const Activity* activity) { return activity->state().stage != Stage::idle; });
    const bool waited_for =
        !sharing_here_ && !at_work && (watch_->others_share() || watch_->others().any_waits);
    starting_ = waited_for ? starting_ + look : Clock::duration{};
    const double most = kToStart * patience();
    if (starting_ <= std::chrono::duration<double>(most)) return;
    stuck_at_start_ = true;
    fail_here(Error(ErrorKind::runtime, cat("watchdog: ", name(), " has not got through its start for ", most,
                                            " s while others wait for it; if it is only slow, a longer "
                                            "--watchdog gives it more time")));
    wake();
  }

  // On either of these threads.

  /// Failures of other processes, which end the run here.
  void note_failures() {
    const std::vector<ProcessFailure> of_others = watch_->take_failures();
    if (of_others.empty()) return;
    std::function<void(const Error&)> end;
    std::unique_lock<std::mutex> lock(mutex_);
    for (const ProcessFailure& failure : of_others) {
      failed_.insert({failure.process, failure.told});
      if (failure_) continue;
      fail(failure);
      if (failure_) end = run_.fail;
    }
    if (!end) return;
    const Error error(failure_->error);
    ending_ = true;
    lock.unlock();
    end(error);
    lock.lock();
    ending_ = false;
    changed_.notify_all();
  }

  // On the thread of the wire.

  void run(const ConnectWire& connect) {
    ::pthread_setname_np(::pthread_self(), "uplink");
    ::prctl(PR_SET_TIMERSLACK, 1000UL);  // nanoseconds: the usual 50 us are longer than the naps
    host_device_->make_current_for_helper();
    try {
      raw_wire_ = connect();
      wire_ = std::make_unique<ToldWire>(
          *raw_wire_,
          [this](int from) {
            if (watch_) watch_->note_message(from);
          },
          [this] { ++moves_; });
      if (wire_->outlives_processes()) wire_->on_lost([this](int process) { lose(process); });
      join();
      while (work()) {
      }
    } catch (const Error& error) {
      end_run(error);
    } catch (const std::exception& error) {
      end_run(Error(ErrorKind::runtime, error.what()));
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    wire_.reset();
    raw_wire_.reset();
    settled_ = failure_.has_value();
    changed_.notify_all();
  }

  /// A wire mostly breaks because another process has ended, which is what to say then. Looks are counted,
  /// not time, of which a busy machine may take all between two of them.
  void look_for_the_ended() {
    for (int look = 0; look < kLooksForTheEnded; ++look) {
      if (look > 0) std::this_thread::sleep_for(kLook);
      watch_->judge(/*deaf=*/true);
      note_failures();
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (failure_) return;
      }
    }
  }

  /// What was thrown on this thread.
  void end_run(const Error& error) {
    if (watch_) look_for_the_ended();
    std::function<void(const Error&)> end;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!failure_) end = run_.fail;
      fail_here(error);
    }
    if (end) end(error);
    if (!watch_) return;
    try {
      follow_failures();
      while (linger()) {
        wire_->progress();
        ++beats_;
      }
    } catch (const Error&) {
      // Of a wire that is broken too, and the first error is the one that counts.
    }
  }

  void join() {
    place_.process = wire_->process();
    hosts_.resize(static_cast<std::size_t>(wire_->processes()));
    sites_.resize(hosts_.size());
    begin_sharing(identify(options_.host).pack());
    note_unheard();
    while (sharing_.open > 0)
      if (wire_->progress())
        note_unheard();
      else
        std::this_thread::sleep_for(kNap);
    std::vector<ProcessIdentity> identities;
    place_.devices_of.assign(hosts_.size(), 0);
    for (std::size_t p = 0; p < hosts_.size(); ++p) {
      identities.push_back(ProcessIdentity::unpack(sharing_.all[p]));
      hosts_[p] = identities[p].host;
      sites_[p] = identities[p].site();
    }
    WatchOptions options;
    options.silence_seconds = options_.watchdog_seconds;
    options.served_by_first = options_.served_by_first;
    if (wire_->outlives_processes()) options.dispensable_from = options_.dispensable_from;
    options.told_to_end = [this] { return told_to_end(); };
    watch_ = std::make_unique<ProcessWatch>(*raw_wire_, kNewsTag, std::move(identities), options);
    sharing_.under_way = false;
    const std::lock_guard<std::mutex> lock(mutex_);
    joined_ = true;
    changed_.notify_all();
  }

  /// Its transfers have ended with it.
  void lose(int process) {
    if (!watch_)
      runtime_failure("process ", process,
                      " was killed, or has ended without a word, before the processes of this run had found "
                      "each other");
    lost_.insert(process);
    if (sharing_.under_way) {
      sharing_.open -= std::exchange(sharing_.coming[process], 0);
      sharing_.all[process].clear();
    }
    const std::optional<std::string> how = watch_->lose(process);
    if (!how) return note_failures();  // before anybody sees what it has not sent
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      failed_.insert({process, false});  // it speaks for nobody
    }
    if (protocol_)
      protocol_->lost(process, *how);
    else
      lost_before_.emplace_back(process, *how);
  }

  void note_unheard() {
    const std::lock_guard<std::mutex> lock(mutex_);
    unheard_.clear();
    for (int process = 0; process < static_cast<int>(hosts_.size()); ++process)
      if (!sharing_.heard[process]) unheard_.push_back(process);
  }

  void begin_sharing(std::string text) {
    sharing_.under_way = true;
    sharing_.heard.assign(hosts_.size(), false);
    sharing_.heard[place_.process] = true;
    sharing_.all.assign(hosts_.size(), "");
    sharing_.sizes.assign(hosts_.size(), 0);
    sharing_.coming.assign(hosts_.size(), 0);
    std::string& mine = sharing_.all[place_.process];
    mine = std::move(text);
    sharing_.size = mine.size();
    sharing_.open = 1;
    const auto count_down = [this](std::size_t) { --sharing_.open; };
    for (int process = 0; process < static_cast<int>(hosts_.size()); ++process) {
      if (process == place_.process || lost_.contains(process)) continue;
      sharing_.open += 2;
      sharing_.coming[process] = 1;
      wire_->receive(process, kShareSizeTag, &sharing_.sizes[process], sizeof(std::uint64_t),
                     [this, process](std::size_t) { receive_share(process); });
      wire_->send(process, kShareSizeTag, &sharing_.size, sizeof sharing_.size, count_down);
      for (std::size_t at = 0; at < mine.size(); at += kSharePart) {
        ++sharing_.open;
        wire_->send(process, kShareTag, mine.data() + at, std::min(kSharePart, mine.size() - at), count_down);
      }
    }
    --sharing_.open;
  }
  void receive_share(int process) {
    std::string& text = sharing_.all[process];
    text.resize(sharing_.sizes[process]);
    sharing_.heard[process] = true;
    for (std::size_t at = 0; at < text.size(); at += kSharePart) {
      ++sharing_.open;
      ++sharing_.coming[process];
      wire_->receive(process, kShareTag, text.data() + at, std::min(kSharePart, text.size() - at),
                     [this, process](std::size_t) { count_share(process); });
    }
    count_share(process);
  }
  void count_share(int process) {
    --sharing_.open;
    --sharing_.coming[process];
  }

  /// Everything once, then a rest that fits what is under way. False: the end.
  bool work() {
    ++beats_;
    bool moved = begin_what_is_ready();
    moved = wire_->progress() || moved;
    moved = hand_over() || moved;
    watch_->tick([this] { return report(); });
    moved = step_protocol() || moved;
    follow_failures();
    if (leave_when_all_do()) return false;
    if (telling_) return linger();
    rest(moved);
    return true;
  }

  bool begin_what_is_ready() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (failure_) return false;
      if (to_share_) begin_sharing(*std::exchange(to_share_, std::nullopt));
      arrived_.insert(arrived_.end(), begun_.begin(), begun_.end());
      begun_.clear();
    }
    bool any = false;
    std::erase_if(arrived_, [&](Slot* slot) {
      if (!slot->filled->done()) return false;
      any = true;
      if (!slot->is_bucket) ++waited_for_;
      slot->exchange.begin(slot->header, slot->values, slot->among,
                           slot->is_bucket ? options_.reduce_precision : std::nullopt,
                           [this, slot] { finished_.push_back(slot); });
      return true;
    });
    return any;
  }

  bool step_protocol() {
    if (!protocol_) {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        protocol_ = std::exchange(to_carry_, nullptr);
      }
      if (!protocol_) return false;
      watch_->set_server(protocol_->server());
      protocol_->join(*wire_, [this] {
        const std::lock_guard<std::mutex> lock(mutex_);
        wake();
      });
      for (const auto& [process, how] : std::exchange(lost_before_, {})) protocol_->lost(process, how);
    }
    return !telling_ &&
           protocol_->step(Clock::now(), [this](int process) { return watch_->absence_of(process); });
  }

  /// Tells those who wait what is done.
  bool hand_over() {
    const bool shared = sharing_.under_way && sharing_.open == 0;
    if (finished_.empty() && !shared) return false;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (shared) {
      shared_ = std::move(sharing_.all);
      sharing_.under_way = false;
      changed_.notify_all();
    }
    for (Slot* slot : finished_) {
      slot->finished = true;
      if (!slot->is_bucket) --waited_for_;
      --under_way_;
      if (!failure_) slot->bell->ring();
    }
    finished_.clear();
    return true;
  }

  bool a_device_waits() const {
    return std::any_of(run_.activities.begin(), run_.activities.end(),
                       [](const Activity* activity) { return activity->state().waiting; });
  }

  /// What the devices of this process do.
  ProcessReport report() {
    const std::lock_guard<std::mutex> lock(mutex_);
    // Of one moment: a stop between two would count.
    const Clock::time_point now = looked_ + note_stop();
    ProcessReport report;
    report.shares = sharing_.under_way;
    report.moves = moves_;
    const Activity* slowest = nullptr;
    bool slowest_waits = false;
    report.all_wait = !run_.activities.empty();
    for (std::size_t device = 0; device < run_.activities.size(); ++device) {
      const Activity* activity = run_.activities[device];
      const bool waits =
          activity->state().waiting || (run_.held_up && run_.held_up(static_cast<int>(device)));
      report.any_waits = report.any_waits || waits;
      report.all_wait = report.all_wait && waits;
      if (!waits && activity->state().stage == Stage::data) {
        const auto stuck = now - std::max(activity->last_beat(), runs_since_);
        report.stuck = std::max(report.stuck, std::chrono::duration<double>(stuck).count());
      }
      if (slowest == nullptr || (slowest_waits && !waits) ||
          (slowest_waits == waits && activity->last_beat() < slowest->last_beat())) {
        slowest = activity;
        slowest_waits = waits;
      }
    }
    if (slowest != nullptr) report.doing = slowest->describe();
    return report;
  }

  /// The others must hear of the failure that ends the run here.
  void follow_failures() {
    note_failures();
    std::optional<ProcessFailure> news;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      news = failure_;
    }
    if (!news || std::exchange(telling_, true)) return;
    // A process that can tells all others itself.
    if (news->process == place_.process || !news->told) watch_->tell(news->process, news->error);
  }

  /// While there is still something to tell or to hear after a failure.
  bool linger() {
    const auto since = Clock::now() - failed_at_;
    if (since > kLinger && (watch_->all_sent() || since > kLongestLinger)) return false;
    std::this_thread::sleep_for(kNap);
    return true;
  }

  bool leave_when_all_do() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!leaving_ || failure_) return false;
    }
    watch_->begin_to_leave();
    if (!watch_->leave(!protocol_ || protocol_->quiet())) return false;
    wire_->leave();
    const std::lock_guard<std::mutex> lock(mutex_);
    left_ = true;
    return true;
  }

  /// Sleeping costs more than most messages take, so what a device waits for is polled for without a pause,
  /// and so is, for a moment, what has just moved. The device sleeps by then, or polls too; others get the
  /// core by the yields.
  void rest(bool moved) {
    const Clock::time_point now = Clock::now();
    if (moved) {
      moved_ = now;
      polls_ = 0;
      return;
    }
    const bool protocol_busy = protocol_ && (protocol_->waits() || !protocol_->quiet());
    std::unique_lock<std::mutex> lock(mutex_);
    const bool waited_for = waited_for_ > 0 || sharing_.under_way || (under_way_ > 0 && a_device_waits());
    const auto spin = waited_for ? kSpin : under_way_ > 0 ? kShortSpin : std::chrono::microseconds(0);
    if (now - moved_ < spin) {
      lock.unlock();
      if (++polls_ % kPollsBetweenYields == 0) give_way(now);
      return;
    }
    const auto pause = waited_for ? kNap : under_way_ > 0 || protocol_busy ? kLongNap : kRest;
    napping_ = !waited_for;
    work_.wait_for(lock, pause, [this] { return woken_; });
    napping_ = false;
    if (std::exchange(woken_, false)) moved_ = Clock::now();
  }

  /// Where another program wants the core, a yield costs a slice of its time, whatever comes meanwhile: for a
  /// moment the thread polls on instead, as often as the gauge says.
  void give_way(Clock::time_point now) {
    const auto yield = [now] {
      std::this_thread::yield();
      return Clock::now() - now;
    };
    if (now - moved_ < kKeepsCore)
      yields_.spin(yield, [] { return true; });
    else
      yield();
  }

  const WireUplinkOptions options_;
  std::unique_ptr<Device> host_device_;
  Context host_;                   ///< of the thread, for what is merged
  SlotMemory slot_memory_{host_};  ///< used by the thread

  mutable std::mutex mutex_;
  std::condition_variable changed_;  ///< for other threads
  std::condition_variable work_;     ///< for the thread of the wire
  // Written by that thread before the constructor returns:
  UplinkPlace place_;
  std::vector<std::string> hosts_;  // names, for messages
  std::vector<std::string> sites_;  // the same for processes of one host
  // Under the mutex:
  bool joined_ = false, leaving_ = false, left_ = false, settled_ = false, woken_ = false;
  bool sharing_here_ = false;  ///< a thread waits in share()
  bool started_ = false;       ///< to exchange what is trained
  bool closing_ = false;       ///< the uplink goes, or the process comes to say what has happened
  bool said_ = false;          ///< what has happened, by the guard
  bool stuck_at_start_ = false;
  Clock::duration starting_{};             ///< while others wait
  Clock::time_point looked_, runs_since_;  ///< when the guard has looked; when the last stop ended
  std::vector<int> unheard_;               ///< processes, while they join
  bool napping_ = false;                   ///< the thread, which need not sleep on if a device waits now
  bool ending_ = false;                    ///< run_.fail is being called
  std::optional<ProcessFailure> failure_;  ///< the first one
  Clock::time_point failed_at_;
  std::map<int, bool> failed_;  ///< processes; true: has told it itself
  UplinkRun run_;
  std::map<int, std::unique_ptr<Slot>> slots_;
  std::vector<Slot*> begun_;
  int under_way_ = 0;  ///< exchanges
  std::optional<std::string> to_share_;
  std::optional<std::vector<std::string>> shared_;
  std::shared_ptr<WireProtocol> to_carry_;
  // The thread's:
  Sharing sharing_;
  std::set<int> lost_;                                    ///< processes
  std::vector<std::pair<int, std::string>> lost_before_;  ///< the protocol came; and how
  std::shared_ptr<WireProtocol> protocol_;  ///< outlives the wire, which reads and writes its messages
  std::unique_ptr<Wire> raw_wire_, wire_;   ///< the second one tells of what it does
  std::uint64_t moves_ = 0;                 ///< messages but the watch's
  std::unique_ptr<ProcessWatch> watch_;
  std::vector<Slot*> arrived_;  ///< begun, but perhaps still being computed
  std::vector<Slot*> finished_;
  int waited_for_ = 0;  ///< exchanges that devices wait for
  bool telling_ = false;
  Clock::time_point moved_;
  int polls_ = 0;  ///< since then, in vain
  SpinGauge yields_{{0, 1}};
  std::atomic<std::uint64_t> beats_{0};  ///< of that thread
  std::thread thread_, guard_;
};

WireUplink::WireUplink(ConnectWire connect, const WireUplinkOptions& options)
    : state_(std::make_unique<State>(std::move(connect), options)) {}
WireUplink::~WireUplink() = default;

void WireUplink::bring(int devices) { state_->bring(devices); }
void WireUplink::carry(std::shared_ptr<WireProtocol> protocol) { state_->carry(std::move(protocol)); }
void WireUplink::leave() { state_->leave(); }
bool WireUplink::speaks() const { return state_->speaks(); }
void WireUplink::let_others_speak() const { state_->let_others_speak(); }
const UplinkPlace& WireUplink::place() const { return state_->place(); }
std::string WireUplink::name() const { return state_->name(); }
void WireUplink::sign(Error& error) const { state_->sign(error); }
std::vector<std::string> WireUplink::share(const std::string& mine) { return state_->share(mine); }
void WireUplink::attach(UplinkRun run) { state_->attach(std::move(run)); }
void WireUplink::detach() noexcept { state_->detach(); }
OtherDevices WireUplink::others() const { return state_->others(); }
void WireUplink::begin(int slot, Tensor& message, UplinkMerge merge, const Meeting& meeting,
                       ProcessRange among, Context& context, Doorbell& bell) {
  state_->begin(slot, message, merge, meeting, among, context, bell);
}
bool WireUplink::done(int slot, Context& context) { return state_->done(slot, context); }
void WireUplink::abort(const Error& error) noexcept { state_->abort(error); }

}  // namespace banyan::parallel
