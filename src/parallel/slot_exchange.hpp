// SlotExchange: one exchange after the other in one slot of a WireUplink.
//
// Every process sends every other one a header that says what is merged, short messages together with their
// values: each process then has all of them and merges them itself. Long ones are cut into pieces that are
// shared out: the owner of a piece receives it from all others, merges in process order and sends them the
// result. So every process sends and receives each value about twice, however many there are, and all have
// the same bits. The header of a long bucket goes to the next process only, the last one's to the first: if
// two of them differ, so do two neighbours, and the run ends; others may have the sum by then.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/device/context.hpp"
#include "banyan/parallel/uplink.hpp"
#include "banyan/parallel/wire.hpp"
#include "banyan/tensor/tensor.hpp"

namespace banyan::parallel {

constexpr std::int64_t kCacheLine = 64;  // bytes; pieces begin at cache lines if their messages do

/// What is merged, as the processes compare it.
struct SlotHeader {
  char what[64] = "";
  char phase[16] = "";
  std::int64_t number = 0;
  std::uint64_t sequence = 0;
  std::int64_t count = 0;
  DType dtype = DType::f32;
  UplinkMerge merge = UplinkMerge::sum;

  static SlotHeader of(const Meeting& meeting, const Tensor& message, UplinkMerge merge);
  bool operator==(const SlotHeader& other) const;
  std::string to_string() const;
  std::size_t bytes() const { return static_cast<std::size_t>(count) * size_of(dtype); }
};

/// Room for what the slots of a wire receive: a few large blocks, because those have huge pages, of which
/// another process reads and writes twice as much per second.
class SlotMemory {
 public:
  explicit SlotMemory(Context& host) : host_(host) {}
  /// From a cache line on, until clear().
  char* take(std::size_t bytes);
  void clear();

 private:
  Context& host_;
  std::vector<std::shared_ptr<void>> blocks_;
  char* free_ = nullptr;  ///< of the last block
  std::size_t left_ = 0;
};

class SlotExchange {
 public:
  /// `host` merges moments. `first_tag`: kTags tags from there on are this slot's. `of_one_size`: all
  /// messages of all processes are, so that only their headers need room.
  SlotExchange(Wire& wire, Context& host, SlotMemory& memory, int slot, int first_tag, bool of_one_size)
      : wire_(wire),
        host_(host),
        memory_(memory),
        slot_(slot),
        first_tag_(first_tag),
        of_one_size_(of_one_size) {}
  SlotExchange(const SlotExchange&) = delete;
  SlotExchange& operator=(const SlotExchange&) = delete;
  static constexpr int kMostPieces = 256, kTags = 1 + 2 * kMostPieces;
  /// Into how many pieces a long sum over `processes` is cut: the same number for each owner, if there are
  /// enough of them.
  static std::int64_t pieces_of(std::size_t bytes, int processes);

  // Where sums are rounded to 16 bits depends on what follows: DeviceUplink rounds in the same places.

  /// Messages up to this size travel with the header, all values as they are: one way instead of two, at the
  /// price of more bytes.
  static constexpr std::size_t kInline = std::size_t{16} << 10;
  /// Values of each piece of a long sum of `count` values of `element` bytes, but perhaps of the last.
  static std::int64_t piece_size(std::int64_t count, std::int64_t element, int processes);
  /// Piece i of a sum in this slot is added by process (i + turn) % processes of those that take part:
  /// buckets of few pieces begin at different owners.
  static int turn_of(int slot, int processes);

  /// `values`, in host memory, become the result. `short_values`: what long sums of f32 are sent as. Calls
  /// `finished` from Wire::progress(), or from here if there is nothing to wait for. What is wrong is thrown
  /// there.
  void begin(const SlotHeader& header, void* values, ProcessRange among, std::optional<DType> short_values,
             std::function<void()> finished);

 private:
  struct Piece {
    std::int64_t offset = 0, count = 0;  ///< elements
    int owner = 0;                       ///< process
    int missing = 0;                     ///< parts that the owner still waits for
    std::vector<char*> parts;            ///< at the owner: of each process of the range, but of its own
    char* packed = nullptr;              ///< on its way, where values are sent as shorter ones
  };
  int me() const { return wire_.process(); }
  char* at(const Piece& piece) const { return values_ + piece.offset * element_; }
  std::size_t bytes_of(const Piece& piece) const;
  void cut();
  void give_room();
  bool hears_header_of(int process) const;
  bool tells_header_to(int process) const;
  void send_headers();
  void check_header(int from, std::size_t bytes);
  void merge_inline();
  void begin_piece(int number);
  void send_part(int number);
  void receive_parts(int number);
  void merge_piece(int number);
  void send_result(int number);
  void receive_result(int number);
  void merge_moments(const std::vector<const char*>& parts);
  template <class Visit>
  void for_others(Visit visit) const;
  /// One more transfer that ends with a call of what this returns.
  Wire::Done awaited(std::function<void(std::size_t)> then = {});
  void one_done();
  int up_tag(int piece) const { return first_tag_ + 1 + 2 * piece; }
  int down_tag(int piece) const { return first_tag_ + 2 + 2 * piece; }

  Wire& wire_;
  Context& host_;
  SlotMemory& memory_;
  int slot_;
  int first_tag_;
  bool of_one_size_;
  SlotHeader header_;
  char* values_ = nullptr;
  std::int64_t element_ = 4;
  ProcessRange among_;
  std::optional<DType> short_values_;
  std::function<void()> finished_;
  bool in_header_ = false;  ///< the values travel with the header
  int headers_missing_ = 0;
  int open_ = 0;  ///< transfers
  std::vector<char> out_;
  std::vector<std::vector<char>> in_;  ///< headers, of each process of the range
  std::vector<Piece> pieces_;
  SlotHeader cut_for_;  ///< what pieces_ fit
  ProcessRange cut_among_;
  std::optional<DType> cut_short_values_;
  char* room_ = nullptr;  ///< of pieces_
  std::size_t room_bytes_ = 0;
  std::vector<Tensor> moments_;
};

}  // namespace banyan::parallel
