#include "parallel/slot_exchange.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/ops/normalization.hpp"
#include "parallel/wire_values.hpp"

namespace banyan::parallel {
namespace {

constexpr std::size_t kHeader = sizeof(SlotHeader);
/// Of long messages: large enough that a piece's handling is negligible, small enough that one is added while
/// the next one travels.
constexpr std::size_t kPiece = std::size_t{256} << 10, kSmallestPiece = std::size_t{8} << 10;

/// Of SlotMemory: so large that what is left at its end is little. It takes memory as it is used.
constexpr std::size_t kBlock = std::size_t{32} << 20;

constexpr std::size_t in_cache_lines(std::size_t bytes) {
  constexpr auto line = static_cast<std::size_t>(kCacheLine);
  return (bytes + line - 1) / line * line;
}

std::int64_t size_of_pieces(std::int64_t count, std::int64_t element, std::int64_t pieces) {
  const std::int64_t line = kCacheLine / element;
  return ((count + pieces - 1) / pieces + line - 1) / line * line;
}

template <std::size_t N>
void copy_text(std::string_view text, char (&to)[N]) {
  std::memcpy(to, text.data(), std::min(text.size(), N - 1));
}

}  // namespace

char* SlotMemory::take(std::size_t bytes) {
  bytes = in_cache_lines(bytes);
  if (bytes > left_) {
    const std::size_t block = (bytes + kBlock - 1) / kBlock * kBlock;
    blocks_.push_back(host_.device().allocate_host(block));
    free_ = static_cast<char*>(blocks_.back().get());
    left_ = block;
  }
  char* const taken = free_;
  free_ += bytes;
  left_ -= bytes;
  return taken;
}

void SlotMemory::clear() {
  blocks_.clear();
  left_ = 0;
}

std::int64_t SlotExchange::pieces_of(std::size_t bytes, int processes) {
  const auto wanted = static_cast<std::int64_t>((bytes + kPiece - 1) / kPiece);
  const auto most = static_cast<std::int64_t>(bytes / kSmallestPiece);
  if (wanted <= processes)
    return std::min<std::int64_t>(processes, std::clamp<std::int64_t>(most, 1, kMostPieces));
  const std::int64_t rounds = (wanted + processes - 1) / processes;
  return std::min<std::int64_t>(rounds * processes, kMostPieces);
}

std::int64_t SlotExchange::piece_size(std::int64_t count, std::int64_t element, int processes) {
  return size_of_pieces(count, element, pieces_of(static_cast<std::size_t>(count * element), processes));
}

int SlotExchange::turn_of(int slot, int processes) { return std::abs(slot) % processes; }

SlotHeader SlotHeader::of(const Meeting& meeting, const Tensor& message, UplinkMerge merge) {
  SlotHeader header;
  copy_text(meeting.what, header.what);
  copy_text(meeting.phase, header.phase);
  header.number = meeting.number;
  header.sequence = meeting.sequence;
  header.count = message.count();
  header.dtype = message.dtype();
  header.merge = merge;
  return header;
}

bool SlotHeader::operator==(const SlotHeader& other) const {
  return std::strcmp(what, other.what) == 0 && std::strcmp(phase, other.phase) == 0 &&
         number == other.number && sequence == other.sequence && count == other.count &&
         dtype == other.dtype && merge == other.merge;
}

std::string SlotHeader::to_string() const { return Meeting{what, phase, number, sequence}.to_string(); }

template <class Visit>
void SlotExchange::for_others(Visit visit) const {
  for (int process = among_.first; process <= among_.last; ++process)
    if (process != me()) visit(process, static_cast<std::size_t>(process - among_.first));
}

Wire::Done SlotExchange::awaited(std::function<void(std::size_t)> then) {
  ++open_;
  return [this, then = std::move(then)](std::size_t bytes) {
    if (then) then(bytes);
    one_done();
  };
}

void SlotExchange::one_done() {
  if (--open_ == 0) finished_();
}

void SlotExchange::begin(const SlotHeader& header, void* values, ProcessRange among,
                         std::optional<DType> short_values, std::function<void()> finished) {
  header_ = header;
  values_ = static_cast<char*>(values);
  element_ = static_cast<std::int64_t>(size_of(header.dtype));
  among_ = among;
  short_values_ =
      header.merge == UplinkMerge::sum && header.dtype == DType::f32 ? short_values : std::nullopt;
  finished_ = std::move(finished);
  in_header_ = header.bytes() <= kInline;
  open_ = 1;  // this call
  send_headers();
  if (!in_header_) {
    cut();
    for (std::size_t piece = 0; piece < pieces_.size(); ++piece) begin_piece(static_cast<int>(piece));
  }
  one_done();
}

/// The message of the first process is all that counts where it is spread; long messages of one size are
/// heard of by a neighbour; elsewhere all hear of all.
bool SlotExchange::hears_header_of(int process) const {
  if (header_.merge == UplinkMerge::first) return process == among_.first;
  return in_header_ || !of_one_size_ || process == (me() == among_.first ? among_.last : me() - 1);
}
bool SlotExchange::tells_header_to(int process) const {
  if (header_.merge == UplinkMerge::first) return me() == among_.first;
  return in_header_ || !of_one_size_ || process == (me() == among_.last ? among_.first : me() + 1);
}

void SlotExchange::send_headers() {
  const std::size_t inline_bytes = in_header_ ? header_.bytes() : 0;
  headers_missing_ = 0;
  in_.resize(static_cast<std::size_t>(among_.size()));
  for_others([&](int process, std::size_t index) {
    if (!hears_header_of(process)) return;
    ++headers_missing_;
    in_[index].resize(kHeader + (of_one_size_ ? inline_bytes : kInline));
    wire_.receive(process, first_tag_, in_[index].data(), in_[index].size(),
                  awaited([this, process](std::size_t bytes) { check_header(process, bytes); }));
  });
  out_.resize(kHeader + inline_bytes);
  std::memcpy(out_.data(), &header_, kHeader);
  if (inline_bytes > 0) std::memcpy(out_.data() + kHeader, values_, inline_bytes);
  for_others([&](int process, std::size_t) {
    if (tells_header_to(process)) wire_.send(process, first_tag_, out_.data(), out_.size(), awaited());
  });
}

void SlotExchange::check_header(int from, std::size_t bytes) {
  const std::vector<char>& in = in_[static_cast<std::size_t>(from - among_.first)];
  SlotHeader theirs;
  if (bytes >= kHeader) std::memcpy(static_cast<void*>(&theirs), in.data(), kHeader);
  if (!(theirs == header_)) {
    const bool first = me() < from;
    runtime_failure("processes meet at different exchanges: process ", first ? me() : from, " at ",
                    (first ? header_ : theirs).to_string(), ", process ", first ? from : me(), " at ",
                    (first ? theirs : header_).to_string());
  }
  if (--headers_missing_ == 0 && in_header_) merge_inline();
}

void SlotExchange::merge_inline() {
  std::vector<const char*> parts(in_.size(), values_);
  for_others([&](int, std::size_t index) { parts[index] = in_[index].data() + kHeader; });
  switch (header_.merge) {
    case UplinkMerge::first:
      std::memcpy(values_, parts[0], header_.bytes());
      return;
    case UplinkMerge::moments:
      merge_moments(parts);
      return;
    case UplinkMerge::sum: {
      std::vector<SumPart> sum;
      for (const char* part : parts) sum.push_back({part, false});
      sum_parts(sum, header_.count, header_.dtype, DType::f32, values_);
      return;
    }
  }
}

/// In process order, in tensors of the host's own.
void SlotExchange::merge_moments(const std::vector<const char*>& parts) {
  if (moments_.empty() || moments_[0].count() != header_.count)
    moments_ = {Tensor(host_.device(), Shape{header_.count}, DType::f64),
                Tensor(host_.device(), Shape{header_.count}, DType::f64)};
  std::memcpy(moments_[0].raw(), parts[0], header_.bytes());
  for (std::size_t p = 1; p < parts.size(); ++p) {
    std::memcpy(moments_[1].raw(), parts[p], header_.bytes());
    ops::merge_moments(host_, moments_[1], moments_[0]);
  }
  std::memcpy(values_, moments_[0].raw(), header_.bytes());
}

std::size_t SlotExchange::bytes_of(const Piece& piece) const {
  return short_values_ ? packed_bytes(piece.count, *short_values_)
                       : static_cast<std::size_t>(piece.count * element_);
}

/// Moments cannot be cut; what is only spread comes from one process.
void SlotExchange::cut() {
  if (!pieces_.empty() && cut_for_.count == header_.count && cut_for_.dtype == header_.dtype &&
      cut_for_.merge == header_.merge && cut_among_.first == among_.first && cut_among_.last == among_.last &&
      cut_short_values_ == short_values_)
    return;
  cut_for_ = header_;
  cut_among_ = among_;
  cut_short_values_ = short_values_;
  const bool sum = header_.merge == UplinkMerge::sum;
  const std::int64_t size = header_.merge == UplinkMerge::moments
                                ? size_of_pieces(header_.count, element_, 1)
                                : piece_size(header_.count, element_, sum ? among_.size() : 1);
  pieces_.clear();
  for (std::int64_t offset = 0; offset < header_.count; offset += size) {
    Piece& piece = pieces_.emplace_back();
    piece.offset = offset;
    piece.count = std::min(size, header_.count - offset);
    const int number = static_cast<int>(pieces_.size()) - 1;
    piece.owner = among_.first + (sum ? (number + turn_of(slot_, among_.size())) % among_.size() : 0);
  }
  give_room();
}

/// For the parts that this process adds up, and for packed values.
void SlotExchange::give_room() {
  const auto for_room = [&](const auto& visit) {
    for (Piece& piece : pieces_) {
      if (piece.owner == me() && header_.merge != UplinkMerge::first) {
        piece.parts.resize(static_cast<std::size_t>(among_.size()));
        for_others([&](int, std::size_t index) { visit(piece, piece.parts[index]); });
      }
      if (short_values_) visit(piece, piece.packed);
    }
  };
  std::size_t bytes = 0;
  for_room([&](const Piece& piece, char*&) { bytes += in_cache_lines(bytes_of(piece)); });
  if (bytes > room_bytes_) {
    room_ = memory_.take(bytes);
    room_bytes_ = bytes;
  }
  char* at = room_;
  for_room([&](const Piece& piece, char*& room) {
    room = at;
    at += in_cache_lines(bytes_of(piece));
  });
}

void SlotExchange::begin_piece(int number) {
  const bool spread = header_.merge == UplinkMerge::first, mine = pieces_[number].owner == me();
  if (mine && spread)
    send_result(number);
  else if (mine)
    receive_parts(number);
  else if (spread)
    receive_result(number);
  else
    send_part(number);
}

/// The result comes to the place of the part, which must have left.
void SlotExchange::send_part(int number) {
  Piece& piece = pieces_[number];
  const char* data = at(piece);
  if (short_values_) {
    pack(reinterpret_cast<const float*>(data), piece.count, *short_values_, piece.packed);
    data = piece.packed;
  }
  wire_.send(piece.owner, up_tag(number), data, bytes_of(piece),
             awaited([this, number](std::size_t) { receive_result(number); }));
}

void SlotExchange::receive_parts(int number) {
  Piece& piece = pieces_[number];
  piece.missing = among_.size() - 1;
  for_others([&](int process, std::size_t index) {
    wire_.receive(process, up_tag(number), piece.parts[index], bytes_of(piece),
                  awaited([this, number](std::size_t) {
                    if (--pieces_[number].missing == 0) merge_piece(number);
                  }));
  });
}

void SlotExchange::merge_piece(int number) {
  const Piece& piece = pieces_[number];
  if (header_.merge == UplinkMerge::moments) {
    std::vector<const char*> parts(piece.parts.size(), at(piece));
    for_others([&](int, std::size_t index) { parts[index] = piece.parts[index]; });
    merge_moments(parts);
  } else {
    std::vector<SumPart> parts(piece.parts.size(), SumPart{at(piece), false});
    for_others([&](int, std::size_t index) {
      parts[index] = {piece.parts[index], short_values_.has_value()};
    });
    sum_parts(parts, piece.count, header_.dtype, short_values_.value_or(DType::f32), at(piece));
  }
  send_result(number);
}

/// The owner too goes on with what the others get.
void SlotExchange::send_result(int number) {
  Piece& piece = pieces_[number];
  const char* data = at(piece);
  if (short_values_) {
    auto* values = reinterpret_cast<float*>(at(piece));
    pack(values, piece.count, *short_values_, piece.packed);
    unpack(piece.packed, piece.count, *short_values_, values);
    data = piece.packed;
  }
  for_others([&](int process, std::size_t) {
    wire_.send(process, down_tag(number), data, bytes_of(piece), awaited());
  });
}

void SlotExchange::receive_result(int number) {
  Piece& piece = pieces_[number];
  char* data = short_values_ ? piece.packed : at(piece);
  wire_.receive(piece.owner, down_tag(number), data, bytes_of(piece), awaited([this, number](std::size_t) {
                  Piece& arrived = pieces_[number];
                  if (short_values_)
                    unpack(arrived.packed, arrived.count, *short_values_,
                           reinterpret_cast<float*>(at(arrived)));
                }));
}

}  // namespace banyan::parallel
