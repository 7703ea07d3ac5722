// The messages between a parameter server and its workers. All of one direction between two processes have
// one tag, so they arrive in the order in which they were sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/parallel/wire.hpp"

namespace banyan::parallel {

enum class ServerMessage : std::uint8_t {
  ready,   ///< worker: can compute
  piece,   ///< worker: an encoded piece of a difference
  done,    ///< worker: loss of the task; the running statistics follow
  task,    ///< server: all pieces of values follow in messages of their own
  rest,    ///< server: parameters that are not learned; before the values of a worker's first task
  values,  ///< server: a piece of the parameters
  end,     ///< server: there are no more tasks
};

struct ServerHeader {
  ServerMessage kind = ServerMessage::ready;
  std::int32_t piece = 0;
  std::int64_t task = 0, next = 0, first = 0, version = 0;
  double loss = 0;
  std::uint64_t checksum = 0;
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

}  // namespace banyan::parallel
