// The messages between parameter servers and their workers. All of one direction between two processes have
// one tag, so they arrive in the order in which they were sent.
#pragma once

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/parallel/wire.hpp"

namespace banyan::parallel {

/// How often a wait of a server or of its worker looks whether it is to end.
constexpr std::chrono::milliseconds kServerLook{20};

enum class ServerMessage : std::uint8_t {
  ready,     ///< worker: can compute
  piece,     ///< worker: an encoded piece of a difference
  done,      ///< worker: loss of the task; the running statistics follow
  forsaken,  ///< inner server: none of its workers is heard of; or (count 0) one is again
  task,    ///< server: the pieces of values follow in messages of their own, from the servers that hold them
  rest,    ///< server: parameters that are not learned; before the values of a worker's first task
  values,  ///< server: a piece of the parameters; to a further server: to begin with
  end,     ///< server: there is nothing more to do
  // The first server to the further ones; the orders of FurtherServer.
  assign,   ///< a worker gets a task: its values are to be sent, its difference will come
  average,  ///< these workers' differences make the gradient
  update,   ///< one step of the solver
  fetch,    ///< the first server wants to know what follows
  // The further ones to the first one.
  arrived,  ///< a worker's difference is all here
  squares,  ///< of the gradient, for each piece held
  state,    ///< a piece of what was fetched
};

struct ServerHeader {
  ServerMessage kind = ServerMessage::ready;
  std::uint8_t what = 0;  ///< fetch, state: a ServerState
  bool squares = false;   ///< average: they are wanted
  std::int32_t piece = 0;
  std::int32_t process = 0;  ///< assign, arrived: the worker
  std::int32_t count = 1;    ///< done: differences that it is the sum of
  std::int32_t dropped = 0;  ///< done: differences, by an inner server
  std::int64_t task = 0, next = 0, first = 0, version = 0;
  double loss = 0, rate = 0, factor = 1;
  std::uint64_t checksum = 0;
  std::uint64_t received = 0, saved = 0;  ///< arrived: bytes
};

/// Tags that no slot reaches.
inline int tag_to_server(const Wire& wire) { return wire.last_tag() - 1; }
inline int tag_to_worker(const Wire& wire) { return wire.last_tag(); }

inline std::vector<char> server_message(const ServerHeader& header, const char* data = nullptr,
                                        std::size_t bytes = 0) {
  std::vector<char> message(sizeof header + bytes);
  std::memcpy(message.data(), &header, sizeof header);
  if (bytes > 0) std::memcpy(message.data() + sizeof header, data, bytes);
  return message;
}

inline ServerHeader header_of(const std::vector<char>& message, std::size_t bytes) {
  ServerHeader header;
  if (bytes < sizeof header) runtime_failure("a message of the parameter server arrived damaged");
  std::memcpy(&header, message.data(), sizeof header);
  return header;
}

/// The failure of whoever waits for that server.
inline std::string missed_server(const std::string& name, double seconds) {
  return cat(name, ", a parameter server, has not been heard of for ", std::floor(seconds * 10) / 10,
             " s while others wait for it: it was stopped, or has lost its network");
}

/// Messages on their way out, each kept until it has left. On the thread of the wire.
class ServerPost {
 public:
  using Message = std::shared_ptr<const std::vector<char>>;
  static Message keep(std::vector<char> bytes) {
    return std::make_shared<const std::vector<char>>(std::move(bytes));
  }

  void join(Wire& wire) { wire_ = &wire; }
  void to_server(int process, Message message) { send(process, tag_to_server(*wire_), std::move(message)); }
  void to_worker(int process, Message message) { send(process, tag_to_worker(*wire_), std::move(message)); }
  bool quiet() const { return under_way_ == 0; }
  std::uint64_t begun() const { return begun_; }

 private:
  void send(int process, int tag, Message message) {
    ++begun_;
    ++under_way_;
    const std::vector<char>& bytes = *message;
    wire_->send(process, tag, bytes.data(), bytes.size(),
                [this, message = std::move(message)](std::size_t) { --under_way_; });
  }

  Wire* wire_ = nullptr;
  int under_way_ = 0;
  std::uint64_t begun_ = 0;
};

}  // namespace banyan::parallel
