#include "parallel/held_pieces.hpp"

#include <algorithm>

#include "banyan/base/error.hpp"
#include "banyan/parallel/difference_coding.hpp"

namespace banyan::parallel {

HeldPieces::HeldPieces(const ServerLayout& layout, int holder)
    : layout_(layout), pieces_(layout.held_by(holder)), offsets_(layout.pieces.size(), 0) {
  for (const std::size_t piece : pieces_) {
    offsets_[piece] = bytes_;
    bytes_ += layout.piece_bytes(piece);
  }
}

std::size_t HeldPieces::longest_message(std::size_t more) const {
  constexpr std::size_t kCode = std::size_t{1} << 12;  // an encoding may be a little longer than the values
  return sizeof(ServerHeader) + std::max(layout_.largest_piece() + kCode, more);
}

void HeldPieces::expect(ArrivingDifference& difference) const {
  difference.values.resize(bytes_);
  difference.arrived.assign(layout_.pieces.size(), true);
  for (const std::size_t piece : pieces_) difference.arrived[piece] = false;
  difference.missing = pieces_.size();
  difference.received = difference.saved = 0;
}

void HeldPieces::take(ArrivingDifference& difference, int piece, const char* data, std::size_t bytes) const {
  const auto at = static_cast<std::size_t>(piece);
  if (piece < 0 || at >= difference.arrived.size() || difference.arrived[at])
    runtime_failure("a piece of its difference arrived twice, or is none: ", piece);
  decode_difference(data, bytes, layout_.pieces[at], layout_.type, difference.values.data() + offsets_[at]);
  difference.arrived[at] = true;
  --difference.missing;
  difference.received += bytes;
  if (const std::size_t whole = layout_.piece_bytes(at); bytes < whole) difference.saved += whole - bytes;
}

std::vector<ServerPost::Message> HeldPieces::values_messages(std::int64_t version, const char* flat) const {
  std::vector<ServerPost::Message> messages;
  ServerHeader header{ServerMessage::values};
  header.version = version;
  auto held = pieces_.begin();
  for (std::size_t piece = 0; held != pieces_.end(); flat += layout_.piece_bytes(piece++)) {
    if (*held != piece) continue;
    header.piece = static_cast<std::int32_t>(piece);
    messages.push_back(ServerPost::keep(server_message(header, flat, layout_.piece_bytes(piece))));
    ++held;
  }
  return messages;
}

}  // namespace banyan::parallel
