#include "banyan/parallel/further_server.hpp"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "banyan/base/error.hpp"
#include "parallel/held_pieces.hpp"
#include "parallel/server_messages.hpp"

namespace banyan::parallel {
namespace {

using Message = ServerPost::Message;
using Lock = std::unique_lock<std::mutex>;

}  // namespace

class FurtherServer::State {
 public:
  State(ServerLayout layout, int process, std::vector<std::string> names, const std::vector<int>& workers)
      : layout_(std::move(layout)),
        pieces_(layout_.held_by(process)),
        held_(layout_, process),
        names_(std::move(names)) {
    for (const int worker : workers) workers_[worker];
  }

  // On the thread of the solver.

  std::optional<Order> try_order() {
    const Lock lock(mutex_);
    if (orders_.empty()) return std::nullopt;
    Order order = std::move(orders_.front());
    orders_.pop_front();
    return order;
  }

  Order wait_for_order(const Check& check) {
    for (;;) {
      if (auto order = try_order()) return std::move(*order);
      check();
      Lock lock(mutex_);
      changed_.wait_for(lock, kServerLook, [this] { return !orders_.empty(); });
    }
  }

  void publish(std::int64_t version, const char* values) {
    std::vector<Message> made = held_.values_messages(version, values);
    const Lock lock(mutex_);
    version_ = version;
    values_ = std::move(made);
    for (auto& [process, worker] : workers_)
      if (worker.owed && worker.version == version) {
        worker.owed = false;
        for (const Message& piece : values_) worker_outbox_.emplace_back(process, piece);
      }
    wake();
  }

  void tell_squares(const std::vector<double>& squares) {
    tell_first({ServerMessage::squares}, reinterpret_cast<const char*>(squares.data()),
               squares.size() * sizeof(double));
  }

  void send_state(ServerState what, std::size_t piece, const char* data, std::size_t bytes) {
    ServerHeader header{ServerMessage::state};
    header.what = static_cast<std::uint8_t>(what);
    header.piece = static_cast<std::int32_t>(piece);
    tell_first(header, data, bytes);
  }

  // On the thread of the wire.

  void join(Wire& wire, std::function<void()> wake) {
    const Lock lock(mutex_);
    wire_ = &wire;
    wake_ = std::move(wake);
    post_.join(wire);
    in_.resize(held_.longest_message(workers_.size() * sizeof(std::int32_t)));
    listen_to_first();
    for (auto& [process, worker] : workers_) {
      worker.in.resize(held_.longest_message(0));
      listen(process, worker);
    }
  }

  bool step() {
    const Lock lock(mutex_);
    const std::uint64_t before = post_.begun();
    for (; !outbox_.empty(); outbox_.pop_front()) post_.to_server(0, std::move(outbox_.front()));
    for (; !worker_outbox_.empty(); worker_outbox_.pop_front())
      post_.to_worker(worker_outbox_.front().first, std::move(worker_outbox_.front().second));
    return post_.begun() != before;
  }

  bool quiet() const {
    const Lock lock(mutex_);
    return post_.quiet() && outbox_.empty() && worker_outbox_.empty();
  }

 private:
  struct Worker {
    std::int64_t task = -1, version = 0;
    bool owed = false;     ///< values of its version, which is not there yet
    std::vector<char> in;  ///< being received
    ArrivingDifference difference;
  };

  void wake() {
    if (wake_) wake_();
  }

  void tell_first(const ServerHeader& header, const char* data, std::size_t bytes) {
    const Lock lock(mutex_);
    outbox_.push_back(ServerPost::keep(server_message(header, data, bytes)));
    wake();
  }

  void listen_to_first() {
    wire_->receive(0, tag_to_worker(*wire_), in_.data(), in_.size(),
                   [this](std::size_t bytes) { handle_first(bytes); });
  }
  void listen(int process, Worker& worker) {
    wire_->receive(process, tag_to_server(*wire_), worker.in.data(), worker.in.size(),
                   [this, process](std::size_t bytes) { handle(process, bytes); });
  }

  void handle_first(std::size_t bytes) {
    const Lock lock(mutex_);
    const ServerHeader header = header_of(in_, bytes);
    const char* data = in_.data() + sizeof header;
    const std::size_t size = bytes - sizeof header;
    Order order;
    switch (header.kind) {
      case ServerMessage::values:
        take_start(header, data, size);
        break;
      case ServerMessage::assign:
        assign(header);
        break;
      case ServerMessage::average:
        order.kind = Order::Kind::average;
        order.squares = header.squares;
        for (std::size_t at = 0; at + sizeof(std::int32_t) <= size; at += sizeof(std::int32_t)) {
          std::int32_t worker = 0;
          std::memcpy(&worker, data + at, sizeof worker);
          order.differences.push_back(workers_.at(worker).difference.values.data());
        }
        give(std::move(order));
        break;
      case ServerMessage::update:
        order.kind = Order::Kind::update;
        order.version = header.version;
        order.rate = header.rate;
        order.factor = header.factor;
        give(std::move(order));
        break;
      case ServerMessage::fetch:
        order.kind = Order::Kind::fetch;
        order.what = static_cast<ServerState>(header.what);
        give(std::move(order));
        break;
      case ServerMessage::end:
        give(std::move(order));
        return;  // nothing follows
      default:
        runtime_failure("the first parameter server sent a message that only others send");
    }
    listen_to_first();
  }

  void give(Order order) {
    orders_.push_back(std::move(order));
    changed_.notify_all();
  }

  /// The pieces come in their order.
  void take_start(const ServerHeader& header, const char* data, std::size_t size) {
    if (started_ == pieces_.size() || static_cast<std::size_t>(header.piece) != pieces_[started_] ||
        size != layout_.piece_bytes(pieces_[started_]))
      runtime_failure("parameters arrived damaged from the first parameter server");
    start_.insert(start_.end(), data, data + size);
    if (++started_ < pieces_.size()) return;
    Order order;
    order.kind = Order::Kind::start;
    order.values = std::exchange(start_, {});
    order.version = header.version;
    give(std::move(order));
  }

  void assign(const ServerHeader& header) {
    Worker& worker = workers_.at(header.process);
    worker.task = header.task;
    worker.version = header.version;
    held_.expect(worker.difference);
    worker.owed = version_ != header.version;
    if (worker.owed) return;
    for (const Message& piece : values_) post_.to_worker(header.process, piece);
  }

  void handle(int process, std::size_t bytes) try {
    const Lock lock(mutex_);
    Worker& worker = workers_.at(process);
    const ServerHeader header = header_of(worker.in, bytes);
    if (header.kind != ServerMessage::piece || header.task != worker.task)
      runtime_failure("it sent something of task ", header.task, ", which it does not have");
    held_.take(worker.difference, header.piece, worker.in.data() + sizeof header, bytes - sizeof header);
    if (worker.difference.missing == 0) {
      ServerHeader arrived{ServerMessage::arrived};
      arrived.process = process;
      arrived.task = worker.task;
      arrived.received = worker.difference.received;
      arrived.saved = worker.difference.saved;
      post_.to_server(0, ServerPost::keep(server_message(arrived)));
    }
    listen(process, worker);
  } catch (Error& error) {
    error.add_context(
        cat("while a parameter server listened to ", names_[static_cast<std::size_t>(process)]));
    throw;
  }

  const ServerLayout layout_;
  const std::vector<std::size_t> pieces_;
  const HeldPieces held_;
  const std::vector<std::string> names_;
  ServerPost post_;  ///< used by the thread of the wire only
  Wire* wire_ = nullptr;
  std::function<void()> wake_;
  std::vector<char> in_;  ///< from the first server
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Under the mutex:
  std::map<int, Worker> workers_;  ///< by process
  std::deque<Order> orders_;
  std::deque<Message> outbox_;                         ///< from the solver to the first server
  std::deque<std::pair<int, Message>> worker_outbox_;  ///< and to workers
  std::optional<std::int64_t> version_;                ///< nothing: none yet
  std::vector<Message> values_;                        ///< of that version
  std::vector<char> start_;                            ///< being received
  std::size_t started_ = 0;                            ///< pieces of it
};

FurtherServer::FurtherServer(ServerLayout layout, int process, std::vector<std::string> names,
                             const std::vector<int>& workers)
    : state_(std::make_unique<State>(std::move(layout), process, std::move(names), workers)) {}
FurtherServer::~FurtherServer() = default;

std::optional<FurtherServer::Order> FurtherServer::try_order() { return state_->try_order(); }
FurtherServer::Order FurtherServer::wait_for_order(const Check& check) {
  return state_->wait_for_order(check);
}
void FurtherServer::publish(std::int64_t version, const char* values) { state_->publish(version, values); }
void FurtherServer::tell_squares(const std::vector<double>& squares) { state_->tell_squares(squares); }
void FurtherServer::send_state(ServerState what, std::size_t piece, const char* data, std::size_t bytes) {
  state_->send_state(what, piece, data, bytes);
}
void FurtherServer::join(Wire& wire, std::function<void()> wake) { state_->join(wire, std::move(wake)); }
bool FurtherServer::step(Clock::time_point, const Silence&) { return state_->step(); }
bool FurtherServer::quiet() const { return state_->quiet(); }

}  // namespace banyan::parallel
