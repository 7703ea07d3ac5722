#include <cstring>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/parallel/parameter_server.hpp"
#include "parallel/server_messages.hpp"

namespace banyan::parallel {
namespace {

constexpr std::chrono::milliseconds kLook{20};  // how often a wait looks whether it is to end

}  // namespace

/// A bucket, up and down.
struct ServerWorker::Piece {
  Piece(std::int64_t count, DType type, const Compression& compression) : encoder(count, type, compression) {}
  DifferenceEncoder encoder;  ///< used by the thread of the wire only
  std::size_t offset = 0;     ///< bytes, in values_
  const void* difference = nullptr;
  std::unique_ptr<Event> filled;  ///< after which it is there
  std::shared_ptr<void> staged;   ///< where it is if the message is not in host memory
  Doorbell* bell = nullptr;
  bool begun = false;    ///< and not sent
  bool arrived = false;  ///< the values of the next task
};

ServerWorker::ServerWorker(ServerLayout layout, const Compression& compression, int devices, Device& host)
    : layout_(std::move(layout)), devices_(devices), place_{0, {devices}} {
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
      changed_.wait_for(lock, kLook, [this] { return said_ready_ && !awaiting_; });
      if (said_ready_ && !awaiting_) return task_;
    }
    check();
  }
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

bool ServerWorker::waits() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return awaiting_;
}

bool ServerWorker::quiet() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return sending_ == 0;
}

void ServerWorker::join(Wire& wire, std::function<void()> wake) {
  const std::lock_guard<std::mutex> lock(mutex_);
  wire_ = &wire;
  wake_ = std::move(wake);
  in_.resize(sizeof(ServerHeader) + std::max(layout_.largest_piece(), layout_.rest_bytes));
  listen();
}

void ServerWorker::listen() {
  wire_->receive(0, tag_to_worker(*wire_), in_.data(), in_.size(),
                 [this](std::size_t bytes) { handle(bytes); });
}

void ServerWorker::handle(std::size_t bytes) {
  const ServerHeader header = header_of(in_, bytes);
  const char* data = in_.data() + sizeof header;
  const std::size_t size = bytes - sizeof header;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    switch (header.kind) {
      case ServerMessage::task:
        arriving_ = {header.task, header.next, header.version, header.first, false};
        values_missing_ = static_cast<int>(pieces_.size());
        break;
      case ServerMessage::rest:
        rest_.assign(data, data + size);
        break;
      case ServerMessage::values: {
        const auto at = static_cast<std::size_t>(header.piece);
        if (at >= pieces_.size() || size != layout_.piece_bytes(at) || header.version != arriving_.version)
          runtime_failure("parameters arrived damaged from the server");
        Piece& piece = *pieces_[at];
        std::memcpy(static_cast<char*>(values_.get()) + piece.offset, data, size);
        if (--values_missing_ == 0) {
          task_ = arriving_;
          awaiting_ = false;
          changed_.notify_all();
        }
        piece.arrived = true;
        if (piece.bell != nullptr) piece.bell->ring();
        break;
      }
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
  listen();
}

bool ServerWorker::step(Clock::time_point, const Silence&) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!working_ || task_.end) return false;
  }
  if (!said_ready_) {
    ServerHeader header{ServerMessage::ready};
    header.checksum = layout_.checksum;
    send(server_message(header));
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
    send(std::move(message));
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
    header.task = task_.number;
    header.loss = std::exchange(loss_, 0);
    losses_ = 0;
    statistics = std::move(statistics_);
    statistics_.clear();
    pieces_to_send_ = static_cast<int>(pieces_.size());
    awaiting_ = true;
  }
  send(server_message(header, statistics.data(), statistics.size()));
  return true;
}

void ServerWorker::send(std::vector<char> message) {
  auto kept = std::make_shared<const std::vector<char>>(std::move(message));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++sending_;
  }
  const std::vector<char>& bytes = *kept;
  wire_->send(0, tag_to_server(*wire_), bytes.data(), bytes.size(), [this, kept](std::size_t) {
    const std::lock_guard<std::mutex> lock(mutex_);
    --sending_;
  });
}

}  // namespace banyan::parallel
