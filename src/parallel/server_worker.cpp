#include <algorithm>
#include <cstring>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/parallel/parameter_server.hpp"
#include "parallel/server_messages.hpp"

namespace banyan::parallel {

/// A bucket, up and down.
struct ServerWorker::Piece {
  Piece(std::int64_t count, DType type, const Compression& compression) : encoder(count, type, compression) {}
  DifferenceEncoder encoder;  ///< used by the thread of the wire only
  std::size_t offset = 0;     ///< bytes, in values_
  const void* difference = nullptr;
  std::unique_ptr<Event> filled;  ///< after which it is there
  std::shared_ptr<void> staged;   ///< where it is if the message is not in host memory
  Doorbell* bell = nullptr;
  bool begun = false;         ///< and not sent
  bool arrived = false;       ///< the values of the next task
  std::int64_t version = -1;  ///< of those that arrived last
};

ServerWorker::ServerWorker(ServerLayout layout, Serving serving, const Compression& compression, int devices,
                           Device& host)
    : layout_(std::move(layout)),
      serving_(std::move(serving)),
      devices_(devices),
      place_{0, {devices}},
      post_(std::make_unique<ServerPost>()),
      missing_(layout_.pieces.size() + 1) {
  if (layout_.pieces.empty()) bad_input("the net has nothing to learn: a parameter server has no work");
  std::size_t offset = 0;
  for (std::size_t piece = 0; piece < layout_.pieces.size(); ++piece) {
    pieces_.push_back(std::make_unique<Piece>(layout_.pieces[piece], layout_.type, compression));
    pieces_.back()->offset = offset;
    offset += layout_.piece_bytes(piece);
  }
  values_ = host.allocate_host(offset);
  pieces_to_send_ = static_cast<int>(pieces_.size());
}

ServerWorker::~ServerWorker() = default;

void ServerWorker::begin_work() {
  std::function<void()> wake;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    working_ = true;
    wake = wake_;
  }
  if (wake) wake();
}

void ServerWorker::release() {
  const std::lock_guard<std::mutex> lock(mutex_);
  task_.end = true;
  for (const auto& piece : pieces_) {
    piece->bell = nullptr;
    piece->filled.reset();
    piece->staged.reset();
  }
}

ServerWorker::Task ServerWorker::wait_for_first(const std::function<void()>& check) {
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (changed_.wait_for(lock, kServerLook, [this] { return is_there(); })) return task_;
    }
    check();
  }
}

bool ServerWorker::has_task() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return is_there();
}

ServerWorker::Task ServerWorker::task() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return task_;
}

const char* ServerWorker::values(int piece) const {
  return static_cast<const char*>(values_.get()) + pieces_[static_cast<std::size_t>(piece)]->offset;
}

void ServerWorker::note_loss(double loss, std::vector<char> statistics) {
  std::function<void()> wake;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    loss_ += loss;
    ++losses_;
    if (!statistics.empty()) statistics_ = std::move(statistics);
    wake = wake_;
  }
  wake();
}

void ServerWorker::note_sum(const Sum& sum, double loss, std::vector<char> statistics) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    sum_ = sum;
  }
  note_loss(loss, std::move(statistics));
}

void ServerWorker::tell_forsaken(bool forsaken) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!said_ready_ || forsaken == forsaken_) return;
    forsaken_ = forsaken;
  }
  ServerHeader header{ServerMessage::forsaken};
  header.count = forsaken ? 1 : 0;
  post_->to_server(serving_.first, ServerPost::keep(server_message(header)));
}

void ServerWorker::begin(int slot, Tensor& message, UplinkMerge, const Meeting&, ProcessRange,
                         Context& context, Doorbell& bell) {
  const auto at = static_cast<std::size_t>(slot - kFirstBucket);
  if (message.bytes() != layout_.piece_bytes(at) || message.dtype() != layout_.type)
    runtime_failure("bucket ", at, " is not the one that the parameter server knows");
  std::function<void()> wake;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Piece& piece = *pieces_[at];
    if (!piece.filled) piece.filled = context.device().create_event();
    piece.difference = message.raw();
    if (!context.device().in_host_memory()) {
      if (!piece.staged) piece.staged = context.device().allocate_host(message.bytes());
      context.stream().copy(piece.staged.get(), message.raw(), message.bytes());
      piece.difference = piece.staged.get();
    }
    context.stream().record(*piece.filled);
    piece.bell = &bell;
    piece.arrived = false;
    piece.begun = true;
    wake = wake_;
  }
  wake();
}

/// The values are then to be read with values().
bool ServerWorker::done(int slot, Context&) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return task_.end || pieces_[static_cast<std::size_t>(slot - kFirstBucket)]->arrived;
}

/// Not for the first task, which a spare worker may get after hours, or never.
bool ServerWorker::waits() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return awaiting_ && pieces_.front()->version >= 0;
}

bool ServerWorker::quiet() const { return post_->quiet(); }

void ServerWorker::join(Wire& wire, std::function<void()> wake) {
  const std::lock_guard<std::mutex> lock(mutex_);
  wire_ = &wire;
  wake_ = std::move(wake);
  post_->join(wire);
  for (const int server : layout_.servers()) {
    in_[server].resize(sizeof(ServerHeader) + std::max(layout_.largest_piece(), layout_.rest_bytes));
    listen(server);
  }
}

void ServerWorker::listen(int server) {
  std::vector<char>& in = in_.at(server);
  wire_->receive(server, tag_to_worker(*wire_), in.data(), in.size(),
                 [this, server](std::size_t bytes) { handle(server, bytes); });
}

void ServerWorker::handle(int server, std::size_t bytes) {
  const std::vector<char>& in = in_.at(server);
  const ServerHeader header = header_of(in, bytes);
  const char* data = in.data() + sizeof header;
  const std::size_t size = bytes - sizeof header;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    switch (header.kind) {
      case ServerMessage::task:
        arriving_ = {header.task, header.next, header.version, header.first, false};
        note_arrival();
        break;
      case ServerMessage::rest:
        rest_.assign(data, data + size);
        break;
      case ServerMessage::values:
        take_values(header, data, size);
        break;
      case ServerMessage::end:
        task_.end = true;
        awaiting_ = false;
        changed_.notify_all();
        for (const auto& piece : pieces_)
          if (piece->bell != nullptr) piece->bell->ring();
        return;  // nothing follows
      default:
        runtime_failure("the server sent a message that only a worker sends");
    }
  }
  listen(server);
}

void ServerWorker::take_values(const ServerHeader& header, const char* data, std::size_t bytes) {
  const auto at = static_cast<std::size_t>(header.piece);
  if (at >= pieces_.size() || bytes != layout_.piece_bytes(at) || missing_ == 0)
    runtime_failure("parameters arrived damaged from the server");
  Piece& piece = *pieces_[at];
  std::memcpy(static_cast<char*>(values_.get()) + piece.offset, data, bytes);
  piece.version = header.version;
  note_arrival();
  piece.arrived = true;
  if (piece.bell != nullptr) piece.bell->ring();
}

/// Of one part of the next task. From the server that hands it out the task comes before its values: it is
/// there when all buckets are done.
void ServerWorker::note_arrival() {
  // The end may overtake what other servers have sent.
  if (--missing_ > 0 || task_.end) return;
  for (const auto& piece : pieces_)
    if (piece->version != arriving_.version)
      runtime_failure("parameters of version ", piece->version, " arrived for a task of version ",
                      arriving_.version);
  task_ = arriving_;
  awaiting_ = false;
  changed_.notify_all();
}

/// The first server is missed by all, a further one by the first server; this is for a link that is cut
/// between the two ends only.
void ServerWorker::miss_servers(const Silence& silence) const {
  if (serving_.lost_seconds <= 0 || !awaiting_) return;
  for (const auto& [server, in] : in_) {
    if (server == serving_.first) continue;
    if (const double silent = silence(server).silent; silent > serving_.lost_seconds + kAfterTheFirst)
      runtime_failure(missed_server(serving_.names[static_cast<std::size_t>(server)], silent));
  }
}

bool ServerWorker::step(Clock::time_point, const Silence& silence) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!working_ || task_.end) return false;
    miss_servers(silence);
  }
  if (!said_ready_) {
    ServerHeader header{ServerMessage::ready};
    header.checksum = layout_.checksum;
    post_->to_server(serving_.first, ServerPost::keep(server_message(header)));
    const std::lock_guard<std::mutex> lock(mutex_);
    said_ready_ = awaiting_ = true;
    return true;
  }
  const bool sent = send_pieces();
  return send_done() || sent;
}

/// A difference that was begun stays as it is until its values arrive or the end does, which this thread
/// would have noticed: it is read without the lock.
bool ServerWorker::send_pieces() {
  bool any = false;
  for (std::size_t at = 0; at < pieces_.size(); ++at) {
    Piece& piece = *pieces_[at];
    ServerHeader header{ServerMessage::piece};
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!piece.begun || !piece.filled->done()) continue;
      header.task = task_.number;
    }
    header.piece = static_cast<std::int32_t>(at);
    std::vector<char> message = server_message(header);
    message.reserve(message.size() + piece.encoder.most_bytes());
    piece.encoder.encode(static_cast<const char*>(piece.difference), message);
    post_->to_server(layout_.holder(at), ServerPost::keep(std::move(message)));
    const std::lock_guard<std::mutex> lock(mutex_);
    piece.begun = false;
    --pieces_to_send_;
    any = true;
  }
  return any;
}

bool ServerWorker::send_done() {
  ServerHeader header{ServerMessage::done};
  std::vector<char> statistics;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (pieces_to_send_ > 0 || losses_ < devices_) return false;
    const Sum sum = sum_.value_or(Sum{1, 0, task_.version});
    header.task = task_.number;
    header.version = sum.version;
    header.count = sum.count;
    header.dropped = sum.dropped;
    header.loss = std::exchange(loss_, 0);
    losses_ = 0;
    statistics = std::move(statistics_);
    statistics_.clear();
    pieces_to_send_ = static_cast<int>(pieces_.size());
    missing_ = pieces_.size() + 1;
    awaiting_ = true;
  }
  post_->to_server(serving_.first,
                   ServerPost::keep(server_message(header, statistics.data(), statistics.size())));
  return true;
}

}  // namespace banyan::parallel
