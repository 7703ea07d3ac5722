// Messages of f32 values whose parts travel between processes as 16-bit ones and are added in f32.
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// A message is cut into pieces, which are dealt out to owners. Packed (a u8 tensor), it has a block for each
/// owner with the owner's pieces one after the other: of f16, what its values were divided by (f32), then the
/// values, 16 bits each.
struct NarrowMessage {
  DType type = DType::bf16;  ///< or f16
  std::int64_t count = 0;    ///< values
  std::int64_t size = 0;     ///< of a piece, an even number; the last one may be shorter
  int owners = 1;
  int turn = 0;  ///< piece i belongs to owner (i + turn) % owners

  std::int64_t scale_bytes() const { return type == DType::f16 ? 4 : 0; }
  std::int64_t piece_bytes() const { return scale_bytes() + 2 * size; }
  std::int64_t pieces() const { return (count + size - 1) / size; }
  /// Every owners-th piece from there on is the owner's.
  std::int64_t first_piece_of(int owner) const { return (owner + owners - turn % owners) % owners; }
  std::int64_t pieces_of(int owner) const;
  /// Packed; 0 if the owner has none.
  std::int64_t bytes_of(int owner) const;
  /// Of a block, which no owner's pieces exceed.
  std::int64_t block_bytes() const;
};

/// For pack_narrow: the pieces of all owners.
inline constexpr int kAllOwners = -1;
/// Packs values (f32) to the nearest; `owner`: only its pieces. f16 has few exponents: a piece's values are
/// divided by a power of two that brings the largest to the upper end. Infinities and NaNs stay what they
/// are.
inline constinit Operator<void(const Tensor& values, const NarrowMessage& message, int owner, Tensor& packed)>
    pack_narrow{"pack_narrow"};
/// values[i] = ((part 0 + part 1) + part 2) + ... for the owner's pieces, where part `owner` is what is in
/// `values` and block p of `packed` is the one that p has packed for the owner.
inline constinit Operator<void(const Tensor& packed, const NarrowMessage& message, int owner, Tensor& values)>
    add_narrow{"add_narrow"};
/// The values of all pieces.
inline constinit Operator<void(const Tensor& packed, const NarrowMessage& message, Tensor& values)>
    unpack_narrow{"unpack_narrow"};

inline std::int64_t NarrowMessage::pieces_of(int owner) const {
  const std::int64_t first = first_piece_of(owner);
  return first < pieces() ? (pieces() - first + owners - 1) / owners : 0;
}

inline std::int64_t NarrowMessage::bytes_of(int owner) const {
  const std::int64_t mine = pieces_of(owner);
  if (mine == 0) return 0;
  const bool has_last = first_piece_of(owner) + (mine - 1) * owners == pieces() - 1;
  return mine * piece_bytes() - (has_last ? 2 * (pieces() * size - count) : 0);
}

inline std::int64_t NarrowMessage::block_bytes() const {
  constexpr std::int64_t kLine = 64;
  const std::int64_t most = (pieces() + owners - 1) / owners * piece_bytes();
  return (most + kLine - 1) / kLine * kLine;
}

}  // namespace banyan::ops
