#include "banyan/parallel/parameter_server.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "parallel/server_messages.hpp"

namespace banyan::parallel {
namespace {

using std::chrono::duration;

constexpr std::chrono::milliseconds kLook{20};  // how often a wait looks whether it is to end

double seconds(WireProtocol::Clock::duration time) { return duration<double>(time).count(); }
double rounded(double value) { return std::round(value * 10) / 10; }

std::string megabytes(std::uint64_t bytes) { return cat(rounded(static_cast<double>(bytes) / 1e6), " MB"); }

}  // namespace

std::int64_t ServerLayout::count() const {
  return std::accumulate(pieces.begin(), pieces.end(), std::int64_t{0});
}

std::size_t ServerLayout::piece_bytes(std::size_t piece) const {
  return static_cast<std::size_t>(pieces[piece]) * size_of(type);
}

std::size_t ServerLayout::largest_piece() const {
  return static_cast<std::size_t>(pieces.empty() ? 0 : *std::max_element(pieces.begin(), pieces.end())) *
         size_of(type);
}

std::string describe(const ServerCounts& counts) {
  std::string text = cat(counts.updates, " updates of ", counts.applied, " differences, by age");
  for (std::size_t age = 0; age < counts.ages.size(); ++age) text += cat(" ", age, ":", counts.ages[age]);
  text += cat("; ", counts.dropped, " dropped as too old; workers taken out ", counts.taken_out,
              " times, back ", counts.taken_back, " times; ", megabytes(counts.received), " received");
  if (counts.saved > 0) text += cat(", ", megabytes(counts.saved), " saved");
  return text;
}

/// What the server knows of a worker.
struct ParameterServer::Worker {
  State state = State::absent;
  bool out = false;
  bool told_end = false;
  bool has_rest = false;
  std::int64_t task = 0, next = -1;  ///< next: -1: none is set aside
  std::int64_t version = 0;          ///< of the parameters that it computes with
  std::vector<char> in;              ///< being received
  std::vector<char> difference, statistics;
  std::vector<bool> arrived;  ///< pieces
  std::size_t missing = 0;    ///< the same, and the last message
  double loss = 0;
};

/// Ready-made messages, shared by all workers that they go to.
struct ParameterServer::Version {
  using Message = std::shared_ptr<const std::vector<char>>;
  std::int64_t number = 0;
  std::vector<Message> pieces;
  Message rest;  ///< nullptr: no worker needs it
};

ParameterServer::ParameterServer(ServerLayout layout, ServerRules rules, int workers)
    : layout_(std::move(layout)), rules_(std::move(rules)), next_task_(rules_.first_task) {
  if (layout_.pieces.empty()) bad_input("the net has nothing to learn: a parameter server has no work");
  if (static_cast<int>(rules_.names.size()) != workers + 1)
    runtime_failure("a parameter server of ", workers, " workers with ", rules_.names.size(), " names");
  workers_.emplace_back();
  for (int process = 1; process <= workers; ++process) {
    Worker& worker = *workers_.emplace_back(std::make_unique<Worker>());
    worker.difference.resize(static_cast<std::size_t>(layout_.count()) * size_of(layout_.type));
  }
}

ParameterServer::~ParameterServer() = default;

void ParameterServer::publish(std::int64_t version, const char* values,
                              const std::function<std::vector<char>()>& make_rest) {
  auto made = std::make_shared<Version>();
  made->number = version;
  ServerHeader header{ServerMessage::values};
  header.version = version;
  for (std::size_t piece = 0; piece < layout_.pieces.size(); ++piece) {
    header.piece = static_cast<std::int32_t>(piece);
    made->pieces.push_back(std::make_shared<const std::vector<char>>(
        server_message(header, values, layout_.piece_bytes(piece))));
    values += layout_.piece_bytes(piece);
  }
  bool wanted = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    wanted = std::any_of(workers_.begin() + 1, workers_.end(),
                         [](const auto& worker) { return !worker->has_rest; });
  }
  if (wanted) {
    header.kind = ServerMessage::rest;
    const std::vector<char> rest = make_rest();
    made->rest = std::make_shared<const std::vector<char>>(server_message(header, rest.data(), rest.size()));
  }
  std::function<void()> wake;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (version_) ++counts_.updates;
    version_ = std::move(made);
    computing_ = false;
    for (std::size_t process = 1; process < workers_.size(); ++process)
      if (workers_[process]->state == State::taken) workers_[process]->state = State::idle;
    wake = wake_;
  }
  if (wake) wake();
}

std::optional<std::vector<ParameterServer::Difference>> ParameterServer::try_round() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!complete_) return std::nullopt;
  complete_ = false;
  computing_ = true;
  first_arrived_.reset();
  std::vector<Difference> round;
  for (int process = 1; process < static_cast<int>(workers_.size()); ++process) {
    Worker& worker = *workers_[static_cast<std::size_t>(process)];
    const std::int64_t age = version_->number - worker.version;
    // One that has come since the round was complete may be too old; it is dropped in its turn.
    if (worker.state != State::full || age > rules_.staleness) continue;
    worker.state = State::taken;
    round.push_back({process, worker.task, age, worker.loss, worker.difference.data(),
                     worker.statistics.empty() ? nullptr : worker.statistics.data()});
    if (counts_.ages.size() <= static_cast<std::size_t>(age))
      counts_.ages.resize(static_cast<std::size_t>(age) + 1);
    ++counts_.ages[static_cast<std::size_t>(age)];
    ++counts_.applied;
  }
  return round;
}

std::vector<ParameterServer::Difference> ParameterServer::wait_for_round(const std::function<void()>& check) {
  for (;;) {
    if (auto round = try_round()) return *round;
    check();
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, kLook, [this] { return complete_; });
  }
}

void ParameterServer::end() {
  std::function<void()> wake;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    wake = wake_;
    log_info(cat("Parameter server: ", describe(counts_)));
  }
  if (wake) wake();
}

ServerCounts ParameterServer::counts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counts_;
}

int ParameterServer::workers_in() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int>(std::count_if(workers_.begin() + 1, workers_.end(), [](const auto& worker) {
    return worker->state != State::absent && !worker->out;
  }));
}

bool ParameterServer::quiet() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return sending_ == 0;
}

void ParameterServer::join(Wire& wire, std::function<void()> wake) {
  const std::lock_guard<std::mutex> lock(mutex_);
  wire_ = &wire;
  wake_ = std::move(wake);
  const std::size_t most = sizeof(ServerHeader) +
                           std::max(layout_.largest_piece(), layout_.statistics_bytes) +
                           (std::size_t{1} << 12);  // an encoding may be a little longer than the values
  for (int process = 1; process < static_cast<int>(workers_.size()); ++process) {
    workers_[static_cast<std::size_t>(process)]->in.resize(most);
    listen(process);
  }
}

void ParameterServer::listen(int process) {
  std::vector<char>& in = workers_[static_cast<std::size_t>(process)]->in;
  wire_->receive(process, tag_to_server(*wire_), in.data(), in.size(),
                 [this, process](std::size_t bytes) { handle(process, bytes); });
}

void ParameterServer::handle(int process, std::size_t bytes) try {
  const std::lock_guard<std::mutex> lock(mutex_);
  Worker& worker = *workers_[static_cast<std::size_t>(process)];
  const ServerHeader header = header_of(worker.in, bytes);
  const char* data = worker.in.data() + sizeof header;
  const std::size_t size = bytes - sizeof header;
  if (header.kind == ServerMessage::ready) {
    if (header.checksum != layout_.checksum)
      bad_input("its net has other parameters than the server's: all must have the same solver and net");
    worker.state = State::idle;
  } else {
    if (worker.state != State::busy || header.task != worker.task)
      runtime_failure("it sent something of task ", header.task, ", which it does not have");
    if (header.kind == ServerMessage::piece) {
      take_piece(worker, header.piece, data, size);
    } else if (header.kind == ServerMessage::done) {
      if (size != layout_.statistics_bytes) runtime_failure("its running statistics arrived damaged");
      worker.statistics.assign(data, data + size);
      worker.loss = header.loss;
      --worker.missing;
    } else {
      runtime_failure("it sent a message that only a server sends");
    }
    if (worker.missing == 0) worker.state = State::full;
  }
  listen(process);
} catch (Error& error) {
  error.add_context(cat("while the parameter server listened to ", name_of(process)));
  throw;
}

void ParameterServer::take_piece(Worker& worker, int piece, const char* data, std::size_t bytes) {
  const auto at = static_cast<std::size_t>(piece);
  if (piece < 0 || at >= layout_.pieces.size() || worker.arrived[at])
    runtime_failure("a piece of its difference arrived twice, or is none: ", piece);
  worker.arrived[at] = true;
  --worker.missing;
  std::size_t offset = 0;
  for (std::size_t before = 0; before < at; ++before) offset += layout_.piece_bytes(before);
  decode_difference(data, bytes, layout_.pieces[at], layout_.type, worker.difference.data() + offset);
  counts_.received += bytes;
  const std::size_t whole = layout_.piece_bytes(at);
  if (bytes < whole) counts_.saved += whole - bytes;
}

bool ParameterServer::step(Clock::time_point now, const Silence& silence) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const int before = sending_;
  double least = rules_.kForEver;
  for (int process = 1; process < static_cast<int>(workers_.size()); ++process) {
    const double silent = silence(process);
    least = std::min(least, silent);
    look(process, silent);
  }
  if (rules_.lost_seconds > 0 && least > rules_.lost_seconds && !ending_)
    runtime_failure("the parameter server has not heard of any worker for ", rounded(least), " s");
  settle(now);
  report(now);
  return sending_ != before;
}

/// Takes a silent worker out, and one that is heard of again back.
void ParameterServer::look(int process, double silence) {
  Worker& worker = *workers_[static_cast<std::size_t>(process)];
  if (ending_) return;
  if (!worker.out && silence > rules_.silent_seconds) {
    worker.out = true;
    ++counts_.taken_out;
    log_warning(cat("Parameter server: ", name_of(process), " has not been heard of for ", rounded(silence),
                    " s and is taken out"));
  } else if (worker.out && silence < rules_.silent_seconds) {
    worker.out = false;
    ++counts_.taken_back;
    log_warning(cat("Parameter server: ", name_of(process), " is heard of again and taken back"));
  }
}

/// What is due between two rounds.
void ParameterServer::settle(Clock::time_point now) {
  if (ending_) {
    tell_end();
    return;
  }
  if (!version_ || computing_ || complete_) return;
  bool any = false;
  for (std::size_t process = 1; process < workers_.size(); ++process) {
    Worker& worker = *workers_[process];
    if (worker.state != State::full) continue;
    if (version_->number - worker.version > rules_.staleness) {
      worker.state = State::idle;
      ++counts_.dropped;
    } else {
      any = true;
    }
  }
  if (any && !first_arrived_) first_arrived_ = now;
  hand_out();
  if (any && round_is_complete(now)) {
    complete_ = true;
    changed_.notify_all();
  }
}

/// Nobody is expected any more, or not any longer.
bool ParameterServer::round_is_complete(Clock::time_point now) const {
  if (seconds(now - *first_arrived_) >= rules_.wait_seconds) return true;
  return std::none_of(workers_.begin() + 1, workers_.end(), [this](const auto& worker) {
    return worker->state == State::busy && !worker->out &&
           version_->number - worker->version <= rules_.staleness;
  });
}

/// The first tasks are handed out together: in the order of the processes, and so in every run.
void ParameterServer::hand_out() {
  started_ = started_ || std::all_of(workers_.begin() + 1, workers_.end(), [](const auto& worker) {
               return worker->state != State::absent || worker->out;
             });
  if (!started_) return;
  std::vector<int> idle;
  for (int process = 1; process < static_cast<int>(workers_.size()); ++process) {
    const Worker& worker = *workers_[static_cast<std::size_t>(process)];
    if (worker.state == State::idle && !worker.out) idle.push_back(process);
  }
  for (const int process : idle) {
    Worker& worker = *workers_[static_cast<std::size_t>(process)];
    worker.task = worker.next >= 0 ? worker.next : next_task_++;
  }
  for (const int process : idle) {
    workers_[static_cast<std::size_t>(process)]->next = next_task_++;
    send_task(process);
  }
}

void ParameterServer::send_task(int process) {
  Worker& worker = *workers_[static_cast<std::size_t>(process)];
  worker.state = State::busy;
  worker.version = version_->number;
  worker.arrived.assign(layout_.pieces.size(), false);
  worker.missing = layout_.pieces.size() + 1;
  ++counts_.tasks;
  ServerHeader header{ServerMessage::task};
  header.task = worker.task;
  header.next = worker.next;
  header.first = rules_.first_task;
  header.version = worker.version;
  send(process, std::make_shared<const std::vector<char>>(server_message(header)));
  if (!std::exchange(worker.has_rest, true)) {
    if (!version_->rest) runtime_failure("a worker's first task comes without the rest of the parameters");
    send(process, version_->rest);
  }
  for (const auto& piece : version_->pieces) send(process, piece);
}

void ParameterServer::tell_end() {
  for (int process = 1; process < static_cast<int>(workers_.size()); ++process) {
    Worker& worker = *workers_[static_cast<std::size_t>(process)];
    if (worker.state == State::absent || std::exchange(worker.told_end, true)) continue;
    send(process, std::make_shared<const std::vector<char>>(server_message({ServerMessage::end})));
  }
}

void ParameterServer::send(int process, std::shared_ptr<const std::vector<char>> message) {
  ++sending_;
  const std::vector<char>& bytes = *message;
  wire_->send(process, tag_to_worker(*wire_), bytes.data(), bytes.size(),
              [this, message = std::move(message)](std::size_t) {
                const std::lock_guard<std::mutex> lock(mutex_);
                --sending_;
              });
}

void ParameterServer::report(Clock::time_point now) {
  if (rules_.report_seconds <= 0 || !started_ || ending_) return;
  if (!reported_counts_) {
    reported_counts_ = counts_;
    reported_ = now;
  }
  const double since = seconds(now - reported_);
  if (since < rules_.report_seconds) return;
  const auto in = std::count_if(workers_.begin() + 1, workers_.end(), [](const auto& worker) {
    return worker->state != State::absent && !worker->out;
  });
  log_info(cat(
      "Parameter server: ", rounded(static_cast<double>(counts_.updates - reported_counts_->updates) / since),
      " updates/s, ", in, " of ", workers_.size() - 1, " workers; so far ", describe(counts_)));
  reported_counts_ = counts_;
  reported_ = now;
}

}  // namespace banyan::parallel
