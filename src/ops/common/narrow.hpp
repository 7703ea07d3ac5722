// 16-bit parts of sums over processes, for every back end (see backend.hpp).
#pragma once

#include <bit>
#include <cmath>

#include "banyan/ops/narrow.hpp"
#include "banyan/tensor/bfloat16.hpp"
#include "banyan/tensor/half.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"

namespace banyan::ops {
namespace detail {

/// Memory seen as rows of `size` values, a row for each of the pieces first, first + step, ...: element i is
/// in row i / size.
struct NarrowRows {
  std::int64_t count, size, block_bytes, piece_bytes;
  int owners, turn, first, step;

  NarrowRows(const NarrowMessage& m, int owner)
      : count(m.count),
        size(m.size),
        block_bytes(m.block_bytes()),
        piece_bytes(m.piece_bytes()),
        owners(m.owners),
        turn(m.turn),
        first(owner == kAllOwners ? 0 : static_cast<int>(m.first_piece_of(owner))),
        step(owner == kAllOwners ? 1 : m.owners) {}

  BANYAN_HOST_DEVICE int piece(std::int64_t row) const { return first + static_cast<int>(row) * step; }
  /// Of element i, in the message: not below `count` beyond the end of the last piece.
  BANYAN_HOST_DEVICE std::int64_t position(std::int64_t i, std::int64_t row) const {
    return piece(row) * size + (i - row * size);
  }
  /// From the beginning of its owner's block on.
  BANYAN_HOST_DEVICE std::int64_t in_block(int piece) const { return piece / owners * piece_bytes; }
  BANYAN_HOST_DEVICE std::int64_t in_packed(int piece) const {
    return (piece + turn) % owners * block_bytes + in_block(piece);
  }
};

/// A packed piece; its address is a multiple of 4.
template <DType kType, class Byte>
struct NarrowPiece {
  static constexpr std::int64_t kScaleBytes = kType == DType::f16 ? 4 : 0;
  Byte* at;

  /// What the values were divided by.
  BANYAN_HOST_DEVICE auto& divisor() const {
    using Value = std::conditional_t<std::is_const_v<Byte>, const float, float>;
    return *reinterpret_cast<Value*>(at);
  }
  BANYAN_HOST_DEVICE auto* values() const {
    using Value = std::conditional_t<std::is_const_v<Byte>, const std::uint16_t, std::uint16_t>;
    return reinterpret_cast<Value*>(at + kScaleBytes);
  }
  BANYAN_HOST_DEVICE void set(std::int64_t column, float value) const {
    if constexpr (kType == DType::f16)
      values()[column] = to_half(value * (1 / divisor()));  // exact: a power of two
    else
      values()[column] = std::bit_cast<std::uint16_t>(BFloat16(value));
  }
  BANYAN_HOST_DEVICE float get(std::int64_t column) const {
    if constexpr (kType == DType::f16)
      return from_half(values()[column]) * divisor();
    else
      return std::bit_cast<float>(static_cast<std::uint32_t>(values()[column]) << 16);
  }
};

struct NarrowDivisors {
  struct State {
    float largest;
  };
  NarrowRows rows;
  const float* from;
  unsigned char* packed;
  BANYAN_HOST_DEVICE State identity() const { return {0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t row) const {
    const std::int64_t position = rows.position(i, row);
    if (position >= rows.count) return;
    const float magnitude = std::fabs(from[position]);
    if (magnitude > s.largest) s.largest = magnitude;
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const {
    if (later.largest > into.largest) into.largest = later.largest;
  }
  BANYAN_HOST_DEVICE void store(std::int64_t row, const State& s) const {
    NarrowPiece<DType::f16, unsigned char>{packed + rows.in_packed(rows.piece(row))}.divisor() =
        1 / half_scale(s.largest);
  }
};

template <DType kType>
struct PackNarrow {
  NarrowRows rows;
  const float* from;
  unsigned char* packed;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t row) const {
    const std::int64_t position = rows.position(i, row);
    if (position >= rows.count) return;
    const NarrowPiece<kType, unsigned char> piece{packed + rows.in_packed(rows.piece(row))};
    piece.set(i - row * rows.size, from[position]);
  }
};

template <DType kType>
struct AddNarrow {
  NarrowRows rows;
  int owner;
  const unsigned char* packed;
  float* values;
  BANYAN_HOST_DEVICE float part(int number, std::int64_t position, std::int64_t i, std::int64_t row) const {
    if (number == owner) return values[position];
    const unsigned char* block = packed + number * rows.block_bytes;
    return NarrowPiece<kType, const unsigned char>{block + rows.in_block(rows.piece(row))}.get(
        i - row * rows.size);
  }
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t row) const {
    const std::int64_t position = rows.position(i, row);
    if (position >= rows.count) return;
    float sum = part(0, position, i, row);
    for (int number = 1; number < rows.owners; ++number) sum += part(number, position, i, row);
    values[position] = sum;
  }
};

template <DType kType>
struct UnpackNarrow {
  NarrowRows rows;
  const unsigned char* packed;
  float* to;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t row) const {
    const std::int64_t position = rows.position(i, row);
    if (position >= rows.count) return;
    const NarrowPiece<kType, const unsigned char> piece{packed + rows.in_packed(rows.piece(row))};
    to[position] = piece.get(i - row * rows.size);
  }
};

/// body.operator()<type>().
template <class Body>
void with_narrow(DType type, const Body& body) {
  if (type == DType::f16) return body.template operator()<DType::f16>();
  if (type == DType::bf16) return body.template operator()<DType::bf16>();
  runtime_failure("messages travel as bf16 or f16, not as ", name_of(type));
}

inline void require_narrow(const char* op, const Tensor& values, const NarrowMessage& message, int owner,
                           const Tensor& packed) {
  require_type(op, values, DType::f32);
  require_type(op, packed, DType::u8);
  require_count(op, values, message.count);
  if (message.size < 2 || message.size % 2 != 0 || message.owners < 1 || message.turn < 0 ||
      owner < kAllOwners || owner >= message.owners)
    runtime_failure(op, ": pieces of ", message.size, " values for owner ", owner, " of ", message.owners,
                    ", turned by ", message.turn);
  if (packed.count() < message.owners * message.block_bytes())
    runtime_failure(op, ": ", packed.count(), " bytes for ", message.owners, " blocks of ",
                    message.block_bytes());
}

inline Broadcast rows_of(const NarrowMessage& message, int owner) {
  return {1, owner == kAllOwners ? message.pieces() : message.pieces_of(owner), message.size};
}

}  // namespace detail

template <class Backend>
void pack_narrow_values(Context& context, const Tensor& values, const NarrowMessage& message, int owner,
                        Tensor& packed) {
  detail::require_narrow("pack_narrow", values, message, owner, packed);
  const Broadcast over = detail::rows_of(message, owner);
  if (over.dim == 0) return;
  const detail::NarrowRows rows(message, owner);
  const auto* from = values.data<float>();
  auto* to = packed.data<std::uint8_t>();
  if (message.type == DType::f16)
    Backend::reduce_channels(context, over, detail::NarrowDivisors{rows, from, to});
  detail::with_narrow(message.type, [&]<DType kType>() {
    Backend::for_each_channel(context, over, detail::PackNarrow<kType>{rows, from, to});
  });
}

template <class Backend>
void add_narrow_parts(Context& context, const Tensor& packed, const NarrowMessage& message, int owner,
                      Tensor& values) {
  detail::require_narrow("add_narrow", values, message, owner, packed);
  if (owner == kAllOwners) runtime_failure("add_narrow: whose pieces?");
  const Broadcast over = detail::rows_of(message, owner);
  if (over.dim == 0) return;
  const detail::NarrowRows rows(message, owner);
  detail::with_narrow(message.type, [&]<DType kType>() {
    Backend::for_each_channel(
        context, over,
        detail::AddNarrow<kType>{rows, owner, packed.data<std::uint8_t>(), values.data<float>()});
  });
}

template <class Backend>
void unpack_narrow_values(Context& context, const Tensor& packed, const NarrowMessage& message,
                          Tensor& values) {
  detail::require_narrow("unpack_narrow", values, message, kAllOwners, packed);
  const Broadcast over = detail::rows_of(message, kAllOwners);
  if (over.dim == 0) return;
  const detail::NarrowRows rows(message, kAllOwners);
  detail::with_narrow(message.type, [&]<DType kType>() {
    Backend::for_each_channel(
        context, over, detail::UnpackNarrow<kType>{rows, packed.data<std::uint8_t>(), values.data<float>()});
  });
}

/// Registers all of the above for a back end.
template <class Backend>
struct DefineNarrow {
  DefineNarrow() {
    pack_narrow.define(Backend::kind, &pack_narrow_values<Backend>);
    add_narrow.define(Backend::kind, &add_narrow_parts<Backend>);
    unpack_narrow.define(Backend::kind, &unpack_narrow_values<Backend>);
  }
};

}  // namespace banyan::ops
