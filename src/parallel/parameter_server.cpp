#include "banyan/parallel/parameter_server.hpp"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "base/clock.hpp"
#include "parallel/held_pieces.hpp"
#include "parallel/server_messages.hpp"

namespace banyan::parallel {
namespace {

using Message = ServerPost::Message;
using Lock = std::unique_lock<std::mutex>;

double rounded(double value) { return std::round(value * 10) / 10; }

std::string megabytes(std::uint64_t bytes) { return cat(rounded(static_cast<double>(bytes) / 1e6), " MB"); }

}  // namespace

std::string describe(const ServerCounts& counts) {
  std::string text = cat(counts.updates, " updates of ", counts.applied, " differences, by age");
  for (std::size_t age = 0; age < counts.ages.size(); ++age) text += cat(" ", age, ":", counts.ages[age]);
  text += cat("; ", counts.dropped, " dropped as too old; workers taken out ", counts.taken_out,
              " times, back ", counts.taken_back, " times",
              counts.joined > 0 ? cat(", replaced by spare ones ", counts.joined, " times") : std::string(),
              "; ", megabytes(counts.received), " received");
  if (counts.saved > 0) text += cat(", ", megabytes(counts.saved), " saved");
  return text;
}

class ParameterServer::State {
 public:
  State(ServerLayout layout, ServerRules rules, const std::vector<int>& workers)
      : layout_(std::move(layout)),
        rules_(std::move(rules)),
        held_(layout_, rules_.process),
        places_(static_cast<int>(workers.size()) - rules_.spares),
        next_task_(rules_.first_task) {
    if (layout_.pieces.empty()) bad_input("the net has nothing to learn: a parameter server has no work");
    for (std::size_t k = 0; k < workers.size(); ++k) {
      Worker& worker = workers_[workers[k]];
      worker.below = rules_.below.empty() ? 1 : rules_.below[k];
      worker.spare = static_cast<int>(k) >= places_;
    }
    for (const int server : layout_.servers())
      if (server != rules_.process) further_[server].held = layout_.held_by(server);
  }

  // On the thread of the solver.

  void publish(std::int64_t number, const char* values, const std::function<std::vector<char>()>& make_rest) {
    Version made;
    made.number = number;
    made.pieces = held_.values_messages(number, values);
    bool wanted = false, first = false;
    {
      const Lock lock(mutex_);
      wanted = std::any_of(workers_.begin(), workers_.end(),
                           [](const auto& entry) { return !entry.second.has_rest && !entry.second.lost; });
      first = !version_;
    }
    if (wanted) {
      ServerHeader header{ServerMessage::rest};
      const std::vector<char> rest = make_rest();
      made.rest = ServerPost::keep(server_message(header, rest.data(), rest.size()));
    }
    const Lock lock(mutex_);
    if (first) {
      for (const auto& [server, further] : further_)
        for (const Message& piece : HeldPieces(layout_, server).values_messages(number, values))
          outbox_.emplace_back(server, piece);
    } else {
      ++counts_.updates;
    }
    version_ = std::move(made);
    computing_ = false;
    for (auto& [process, worker] : workers_)
      if (worker.at == At::taken) worker.at = At::idle;
    wake();
  }

  std::optional<std::vector<Difference>> try_round() {
    const Lock lock(mutex_);
    if (!complete_) return std::nullopt;
    complete_ = false;
    computing_ = true;
    first_arrived_.reset();
    std::vector<Difference> round;
    std::vector<std::int32_t> of;
    for (auto& [process, worker] : workers_) {
      const std::int64_t age = version_->number - worker.oldest;
      // One that has come since the round was complete may be too old; it is dropped in its turn.
      if (worker.at != At::full || age > rules_.staleness) continue;
      worker.at = At::taken;
      of.push_back(process);
      round.push_back({process, worker.count, worker.task, age, worker.oldest, worker.loss,
                       worker.difference.values.data(),
                       worker.statistics.empty() ? nullptr : worker.statistics.data()});
      if (counts_.ages.size() <= static_cast<std::size_t>(age))
        counts_.ages.resize(static_cast<std::size_t>(age) + 1);
      counts_.ages[static_cast<std::size_t>(age)] += worker.count;
      counts_.applied += worker.count;
    }
    ServerHeader header{ServerMessage::average};
    header.squares = rules_.squares;
    tell_further(header, of.data(), of.size() * sizeof(of[0]));
    return round;
  }

  std::vector<Difference> wait_for_round(const Check& check) {
    for (;;) {
      if (auto round = try_round()) return *round;
      Lock lock(mutex_);
      if (ending_) return {};
      wait(lock, check, [this] { return complete_ || ending_; });
    }
  }

  void give_tasks(std::int64_t first, int count) {
    const Lock lock(mutex_);
    for (int k = 0; k < count; ++k) given_.push_back(first + k);
  }

  void wait_for_squares(std::vector<double>& by_piece, const Check& check) {
    Lock lock(mutex_);
    for (auto& [server, further] : further_) {
      std::vector<double>& squares = further.squares;
      wait(lock, check, [&squares] { return !squares.empty(); });
      for (std::size_t k = 0; k < further.held.size(); ++k) by_piece[further.held[k]] = squares[k];
      squares.clear();
    }
  }

  void update_further(std::int64_t iteration, double rate, double factor) {
    ServerHeader header{ServerMessage::update};
    header.version = iteration;
    header.rate = rate;
    header.factor = factor;
    const Lock lock(mutex_);
    tell_further(header);
  }

  void fetch(const std::vector<ServerState>& what, const TakePiece& take, const Check& check) {
    Lock lock(mutex_);
    std::size_t missing = 0;
    for (const auto& [server, further] : further_) missing += what.size() * further.held.size();
    for (const ServerState state : what) {
      ServerHeader header{ServerMessage::fetch};
      header.what = static_cast<std::uint8_t>(state);
      tell_further(header);
    }
    for (; missing > 0; --missing) {
      wait(lock, check, [this] { return !fetched_.empty(); });
      const std::vector<char> message = std::move(fetched_.front());
      fetched_.pop_front();
      lock.unlock();
      const ServerHeader header = header_of(message, message.size());
      take(static_cast<ServerState>(header.what), static_cast<std::size_t>(header.piece),
           message.data() + sizeof header, message.size() - sizeof header);
      lock.lock();
    }
  }

  void end() {
    const Lock lock(mutex_);
    if (std::exchange(ending_, true)) return;
    log_info(cat("Parameter server: ", describe(counts_)));
    wake();
  }

  void end_further() {
    const Lock lock(mutex_);
    if (!std::exchange(further_ended_, true)) tell_further({ServerMessage::end});
  }

  ServerCounts counts() const {
    const Lock lock(mutex_);
    return counts_;
  }

  int workers_in() const {
    const Lock lock(mutex_);
    return count_in();
  }

  bool forsaken() const { return forsaken_; }

  // On the thread of the wire.

  bool quiet() const {
    const Lock lock(mutex_);
    return post_.quiet() && outbox_.empty();
  }

  void join(Wire& wire, std::function<void()> wake) {
    const Lock lock(mutex_);
    wire_ = &wire;
    wake_ = std::move(wake);
    post_.join(wire);
    for (auto& [process, worker] : workers_) {
      worker.in.resize(held_.longest_message(layout_.statistics_bytes));
      listen(process, worker.in, &State::handle);
    }
    for (auto& [server, further] : further_) {
      further.in.resize(
          held_.longest_message(std::max(layout_.largest_piece(), further.held.size() * sizeof(double))));
      listen(server, further.in, &State::handle_further);
    }
  }

  bool step(Clock::time_point now, const Silence& silence) {
    const Lock lock(mutex_);
    const std::uint64_t before = post_.begun();
    for (; !outbox_.empty(); outbox_.pop_front())
      post_.to_worker(outbox_.front().first, std::move(outbox_.front().second));
    double least = rules_.kForEver, least_silent = rules_.kForEver;
    for (auto& [process, worker] : workers_) {
      if (worker.lost) continue;
      Absence absence = silence(process);
      if (worker.forsaken) {
        if (!worker.forsaken_since) worker.forsaken_since = now;
        absence.silent =
            std::max(absence.silent, rules_.silent_seconds + seconds(now - *worker.forsaken_since));
      }
      least = std::min(least, absence.longest());
      least_silent = std::min(least_silent, absence.silent);
      look(process, worker, absence);
    }
    forsaken_ = least > rules_.silent_seconds;
    if (rules_.lost_seconds > 0 && !ending_ && !rules_.inner && !all_lost() && least > rules_.lost_seconds)
      runtime_failure("the parameter server has not heard of any worker",
                      least_silent > rules_.lost_seconds ? "" : " that gets anything from its data", " for ",
                      rounded(least), " s");
    if (rules_.lost_seconds > 0 && !further_ended_)
      for (const auto& [server, further] : further_)
        if (const double silent = silence(server).silent; silent > rules_.lost_seconds)
          runtime_failure(missed_server(name_of(server), silent));
    settle(now);
    if (all_lost() && !ending_ && !computing_ && !complete_ && !rules_.inner)
      runtime_failure("all workers of the parameter server have ended; the last one: ", last_end_);
    report(now);
    return post_.begun() != before;
  }

  void lost(int process, const std::string& how) {
    const Lock lock(mutex_);
    const auto found = workers_.find(process);
    if (found == workers_.end()) return;  // in a tree, another server's
    Worker& worker = found->second;
    worker.lost = true;
    last_end_ = how;
    if (!std::exchange(worker.out, true)) ++counts_.taken_out;
    if (worker.at == At::busy) give_back(worker.task);
    if (worker.next >= 0) give_back(std::exchange(worker.next, -1));
    // What has come of it is used.
    if (worker.at == At::busy || worker.at == At::idle) worker.at = At::absent;
    log_warning(cat("Parameter server: ", how, ending_ ? "" : "; it is taken out"));
  }

 private:
  enum class At : std::uint8_t { absent, idle, busy, full, taken };
  /// What the server knows of a worker.
  struct Worker {
    At at = At::absent;
    bool out = false, stuck = false;  ///< stuck: it is out because its data do not arrive
    bool lost = false;                ///< it has ended, and is out for good
    bool spare = false;               ///< it gets no task
    bool told_end = false;
    bool has_rest = false;
    bool forsaken = false;  ///< an inner server by its workers
    std::optional<Clock::time_point> forsaken_since;
    std::int64_t task = 0, next = -1;  ///< next: -1: none is set aside
    std::int64_t version = 0;          ///< of the parameters that it computes with
    int below = 1;                     ///< workers
    std::vector<char> in;              ///< being received
    ArrivingDifference difference;
    int count = 1;            ///< differences of workers in it
    std::int64_t oldest = 0;  ///< version that one of them was computed with
    std::vector<char> statistics;
    std::size_t missing = 0;  ///< its last message, and what the further servers get
    double loss = 0;
  };
  struct Further {
    std::vector<std::size_t> held;  ///< pieces
    std::vector<char> in;           ///< being received
    std::vector<double> squares;    ///< of the gradient in this round, for each piece held
  };
  /// Ready-made messages, shared by all workers that they go to.
  struct Version {
    std::int64_t number = 0;
    std::vector<Message> pieces;
    Message rest;  ///< nullptr: no worker needs it
  };

  void wake() {
    if (wake_) wake_();
  }

  void tell_further(const ServerHeader& header, const void* data = nullptr, std::size_t bytes = 0) {
    if (further_.empty()) return;
    const Message message = ServerPost::keep(server_message(header, static_cast<const char*>(data), bytes));
    for (const auto& [server, further] : further_) outbox_.emplace_back(server, message);
    wake();
  }

  void wait(Lock& lock, const Check& check, const std::function<bool()>& done) {
    while (!done()) {
      lock.unlock();
      check();
      lock.lock();
      changed_.wait_for(lock, kServerLook, done);
    }
  }

  int count_in() const {
    return count(
        [](const Worker& worker) { return worker.at != At::absent && !worker.out && !worker.spare; });
  }

  template <class Predicate>
  int count(const Predicate& predicate) const {
    return static_cast<int>(std::count_if(workers_.begin(), workers_.end(),
                                          [&](const auto& entry) { return predicate(entry.second); }));
  }

  /// Those that are not out.
  int places_taken() const {
    return count([](const Worker& worker) { return !worker.spare && !worker.out; });
  }

  static bool is_ready(const Worker& worker) { return worker.at == At::idle && !worker.out; }

  /// Spares that are ready get the places of workers that are out.
  void fill_places() {
    for (auto& [process, worker] : workers_) {
      if (places_taken() >= places_) return;
      if (!worker.spare || !is_ready(worker)) continue;
      worker.spare = false;
      ++counts_.joined;
      log_warning(cat("Parameter server: ", name_of(process),
                      ", a spare worker, takes the place of one that is out"));
    }
  }

  void listen(int process, std::vector<char>& in, void (State::*handler)(int, std::size_t)) {
    wire_->receive(process, tag_to_server(*wire_), in.data(), in.size(),
                   [this, process, handler](std::size_t bytes) { (this->*handler)(process, bytes); });
  }

  void handle(int process, std::size_t bytes) try {
    const Lock lock(mutex_);
    Worker& worker = workers_.at(process);
    const ServerHeader header = header_of(worker.in, bytes);
    const char* data = worker.in.data() + sizeof header;
    const std::size_t size = bytes - sizeof header;
    if (header.kind == ServerMessage::ready) {
      if (header.checksum != layout_.checksum)
        bad_input("its net has other parameters than the server's: all must have the same solver and net");
      worker.at = At::idle;
    } else if (header.kind == ServerMessage::forsaken) {
      worker.forsaken = header.count > 0;
      worker.forsaken_since.reset();
    } else {
      if (worker.at != At::busy || header.task != worker.task)
        runtime_failure("it sent something of task ", header.task, ", which it does not have");
      if (header.kind == ServerMessage::piece) {
        held_.take(worker.difference, header.piece, data, size);
        if (worker.difference.missing == 0) count_bytes(worker.difference.received, worker.difference.saved);
      } else if (header.kind == ServerMessage::done) {
        if (size != layout_.statistics_bytes) runtime_failure("its running statistics arrived damaged");
        worker.statistics.assign(data, data + size);
        worker.loss = header.loss;
        worker.count = header.count;
        worker.oldest = header.version;
        counts_.dropped += header.dropped;
        --worker.missing;
      } else {
        runtime_failure("it sent a message that only a server sends");
      }
      look_whether_full(worker);
    }
    listen(process, worker.in, &State::handle);
  } catch (Error& error) {
    error.add_context(cat("while the parameter server listened to ", name_of(process)));
    throw;
  }

  void handle_further(int server, std::size_t bytes) {
    const Lock lock(mutex_);
    Further& further = further_.at(server);
    const ServerHeader header = header_of(further.in, bytes);
    const char* data = further.in.data() + sizeof header;
    if (header.kind == ServerMessage::arrived) {
      Worker& worker = workers_.at(header.process);
      count_bytes(header.received, header.saved);
      if (worker.lost) return listen(server, further.in, &State::handle_further);
      if (worker.at != At::busy || header.task != worker.task)
        runtime_failure(name_of(server), " has something of task ", header.task, " which ",
                        name_of(header.process), " does not have");
      --worker.missing;
      look_whether_full(worker);
    } else if (header.kind == ServerMessage::squares) {
      further.squares.resize(further.held.size());
      if (bytes - sizeof header != further.squares.size() * sizeof(double))
        runtime_failure("what ", name_of(server), " knows of its gradient arrived damaged");
      std::memcpy(further.squares.data(), data, bytes - sizeof header);
      changed_.notify_all();
    } else if (header.kind == ServerMessage::state) {
      fetched_.emplace_back(further.in.begin(), further.in.begin() + static_cast<std::ptrdiff_t>(bytes));
      changed_.notify_all();
    } else {
      runtime_failure(name_of(server), ", a parameter server, sent a message that it should not send");
    }
    listen(server, further.in, &State::handle_further);
  }

  static void look_whether_full(Worker& worker) {
    if (worker.missing == 0 && worker.difference.missing == 0) worker.at = At::full;
  }

  void count_bytes(std::uint64_t received, std::uint64_t saved) {
    counts_.received += received;
    counts_.saved += saved;
  }

  /// Takes a worker out that is silent or has no data, and one of which something comes again back.
  void look(int process, Worker& worker, const Absence& absence) {
    if (ending_ || worker.lost) return;
    const double longest = absence.longest();
    if (!worker.out && longest > rules_.silent_seconds) {
      worker.out = true;
      worker.stuck = absence.stuck > absence.silent;
      ++counts_.taken_out;
      log_warning(cat("Parameter server: ", name_of(process),
                      worker.forsaken ? ", or none of its workers," : "",
                      worker.stuck ? " has got nothing from its data for " : " has not been heard of for ",
                      rounded(longest), " s and is taken out"));
    } else if (worker.out && longest < rules_.silent_seconds) {
      worker.spare = worker.spare || places_taken() >= places_;
      worker.out = false;
      ++counts_.taken_back;
      log_warning(
          cat("Parameter server: ", name_of(process),
              worker.stuck ? " gets data again and is taken back" : " is heard of again and taken back",
              worker.spare ? ", as a spare worker" : ""));
    }
  }

  /// What is due between two rounds.
  void settle(Clock::time_point now) {
    if (ending_) {
      tell_end();
      return;
    }
    if (!version_ || computing_ || complete_) return;
    bool any = false;
    for (auto& [process, worker] : workers_) {
      if (worker.at != At::full) continue;
      if (version_->number - worker.oldest > rules_.staleness) {
        worker.at = At::idle;
        counts_.dropped += worker.count;
      } else {
        any = true;
      }
    }
    if (any && !first_arrived_) first_arrived_ = now;
    fill_places();
    hand_out();
    if (any && round_is_complete(now)) {
      complete_ = true;
      changed_.notify_all();
    }
  }

  /// Nobody is expected any more, or not any longer.
  bool round_is_complete(Clock::time_point now) const {
    if (seconds(now - *first_arrived_) >= rules_.wait_seconds) return true;
    return std::none_of(workers_.begin(), workers_.end(), [this](const auto& entry) {
      const Worker& worker = entry.second;
      return worker.at == At::busy && !worker.out && version_->number - worker.version <= rules_.staleness;
    });
  }

  /// The first tasks are handed out together: in the order of the processes, and so in every run.
  void hand_out() {
    started_ = started_ || std::all_of(workers_.begin(), workers_.end(), [](const auto& entry) {
                 return entry.second.at != At::absent || entry.second.out || entry.second.spare;
               });
    if (!started_) return;
    const auto gets_task = [](const Worker& worker) { return is_ready(worker) && !worker.spare; };
    for (auto& [process, worker] : workers_)
      if (gets_task(worker)) worker.task = worker.next >= 0 ? worker.next : take_tasks(worker.below);
    for (auto& [process, worker] : workers_) {
      if (!gets_task(worker)) continue;
      worker.next = take_tasks(worker.below);
      send_task(process, worker);
    }
  }

  bool all_lost() const {
    return std::all_of(workers_.begin(), workers_.end(), [](const auto& entry) { return entry.second.lost; });
  }

  /// A task that nobody has computed: the next one that is handed out.
  void give_back(std::int64_t task) {
    given_.insert(std::lower_bound(given_.begin(), given_.end(), task), task);
  }

  /// The first one's number. Those that were given back come first. An inner server never runs out of them:
  /// it is given one for each worker with each version, and no worker gets two tasks of one version.
  std::int64_t take_tasks(int count) {
    if (!rules_.inner && given_.empty()) return std::exchange(next_task_, next_task_ + count);
    if (given_.empty()) runtime_failure("an inner parameter server has no task left");
    const std::int64_t task = given_.front();
    given_.pop_front();
    return task;
  }

  void send_task(int process, Worker& worker) {
    worker.at = At::busy;
    worker.version = version_->number;
    held_.expect(worker.difference);
    worker.missing = 1 + further_.size();
    ++counts_.tasks;
    ServerHeader header{ServerMessage::task};
    header.task = worker.task;
    header.next = worker.next;
    header.first = rules_.first_task;
    header.version = worker.version;
    post_.to_worker(process, ServerPost::keep(server_message(header)));
    if (!std::exchange(worker.has_rest, true)) {
      if (!version_->rest) runtime_failure("a worker's first task comes without the rest of the parameters");
      post_.to_worker(process, version_->rest);
    }
    for (const Message& piece : version_->pieces) post_.to_worker(process, piece);
    header.kind = ServerMessage::assign;
    header.process = process;
    for (const auto& [server, further] : further_)
      post_.to_worker(server, ServerPost::keep(server_message(header)));
  }

  void tell_end() {
    const Message message = ServerPost::keep(server_message({ServerMessage::end}));
    for (auto& [process, worker] : workers_)
      if (worker.at != At::absent && !std::exchange(worker.told_end, true)) post_.to_worker(process, message);
  }

  void report(Clock::time_point now) {
    if (rules_.report_seconds <= 0 || !started_ || ending_) return;
    if (!reported_counts_) {
      reported_counts_ = counts_;
      reported_ = now;
    }
    const double since = seconds(now - reported_);
    if (since < rules_.report_seconds) return;
    log_info(cat("Parameter server: ",
                 rounded(static_cast<double>(counts_.updates - reported_counts_->updates) / since),
                 " updates/s, ", count_in(), " of ", places_,
                 rules_.below.empty() ? " workers" : " inner servers", describe_spares(), "; so far ",
                 describe(counts_)));
    reported_counts_ = counts_;
    reported_ = now;
  }

  /// Of a run that began with some: those that are left.
  std::string describe_spares() const {
    if (rules_.spares == 0) return "";
    return cat(" and ", count([](const Worker& worker) { return worker.spare && !worker.out; }), " spare");
  }

  const std::string& name_of(int process) const { return rules_.names[static_cast<std::size_t>(process)]; }

  const ServerLayout layout_;
  const ServerRules rules_;
  const HeldPieces held_;
  const int places_;  ///< workers that have tasks at a time
  ServerPost post_;   ///< used by the thread of the wire only
  Wire* wire_ = nullptr;
  std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Under the mutex:
  std::map<int, Worker> workers_;               ///< by process
  std::map<int, Further> further_;              ///< by process
  std::deque<std::pair<int, Message>> outbox_;  ///< from the solver to further servers
  std::deque<std::vector<char>> fetched_;       ///< messages
  std::optional<Version> version_;              ///< nothing: none yet
  bool computing_ = true;                       ///< the solver has the round
  bool complete_ = false;                       ///< the round, for try_round()
  bool ending_ = false, further_ended_ = false, started_ = false;
  std::int64_t next_task_;
  std::deque<std::int64_t> given_;                  ///< numbers of tasks: from above, or given back
  std::string last_end_;                            ///< of a worker, how
  std::optional<Clock::time_point> first_arrived_;  ///< in this round
  ServerCounts counts_;
  // Of the thread of the wire:
  bool forsaken_ = false;
  Clock::time_point reported_;
  std::optional<ServerCounts> reported_counts_;
};

ParameterServer::ParameterServer(ServerLayout layout, ServerRules rules, const std::vector<int>& workers)
    : state_(std::make_unique<State>(std::move(layout), std::move(rules), workers)) {}
ParameterServer::~ParameterServer() = default;

void ParameterServer::publish(std::int64_t version, const char* values,
                              const std::function<std::vector<char>()>& make_rest) {
  state_->publish(version, values, make_rest);
}
std::optional<std::vector<ParameterServer::Difference>> ParameterServer::try_round() {
  return state_->try_round();
}
std::vector<ParameterServer::Difference> ParameterServer::wait_for_round(const Check& check) {
  return state_->wait_for_round(check);
}
void ParameterServer::wait_for_squares(std::vector<double>& by_piece, const Check& check) {
  state_->wait_for_squares(by_piece, check);
}
void ParameterServer::update_further(std::int64_t iteration, double rate, double factor) {
  state_->update_further(iteration, rate, factor);
}
void ParameterServer::fetch(const std::vector<ServerState>& what, const TakePiece& take, const Check& check) {
  state_->fetch(what, take, check);
}
void ParameterServer::end() { state_->end(); }
void ParameterServer::end_further() { state_->end_further(); }
ServerCounts ParameterServer::counts() const { return state_->counts(); }
void ParameterServer::give_tasks(std::int64_t first, int count) { state_->give_tasks(first, count); }
int ParameterServer::workers_in() const { return state_->workers_in(); }
bool ParameterServer::forsaken() const { return state_->forsaken(); }
void ParameterServer::join(Wire& wire, std::function<void()> wake) { state_->join(wire, std::move(wake)); }
bool ParameterServer::step(Clock::time_point now, const Silence& silence) {
  return state_->step(now, silence);
}
void ParameterServer::lost(int process, const std::string& how) { state_->lost(process, how); }
bool ParameterServer::quiet() const { return state_->quiet(); }

}  // namespace banyan::parallel
