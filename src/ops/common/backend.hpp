// The launch interface that shared-functor operators are written against.
//
// An elementwise, per-channel or reduction operator is a template over a back end, in one header of this
// folder, compiled by g++ for the CPU (src/ops/cpu/x.cpp instantiates it with CpuBackend) and by nvcc for
// CUDA (src/ops/cuda/x.cu, CudaBackend), so the CPU tests check the GPU's arithmetic. A back end provides:
//
//   kind                                        DeviceKind constant
//   for_each(context, n, f)                     f(i) for i in [0, n), any order; stream-ordered
//   for_each_long(context, n, elements, f)      the same where one call of f does the work of so many elements
//   for_each_made(context, n, make)             the same with f = make(), called when the work runs; may read
//                                               device memory (DeviceValue), once for many elements
//   for_each_made(context, rows, columns, make) the same for f(row, column), the columns of a row in any order
//   for_each_channel(context, broadcast, f)     f(i, d) for all elements i of outer x dim x inner memory,
//                                               where d = i / inner % dim, any order
//   reduce_channels(context, broadcast, r)      for each d of outer x dim x inner memory: State s =
//                                               r.identity(); r.add(s, index, d) for all elements of d;
//                                               partial states merged in a fixed order by r.merge(a, b);
//                                               r.store(d, s)
//   reduce_all(context, n, r)                   the same with one state over [0, n): r.add(s, index, 0),
//                                               r.store(0, s)
//
// and, where it has something faster than for_each:
//   transpose(context, batch, rows, columns, const From* from, To* to)   to[b][c][r] = from[b][r][c]
//   copy_blocks(context, const Element* from, Element* to, const BlockCopy& what)   see banyan/ops/basic.hpp
//   copy_streams(context, blocks, std::vector<BlockStream<Element>> streams)        all of them in one sweep
//   reduce_columns_of_samples(context, samples, rows, columns, r)   reduce_channels of samples x rows x columns
//                                               memory over the rows: a state for each column of each sample
//
// A reducer's members, all const and BANYAN_HOST_DEVICE:
//   State identity();
//   void add(State& s, std::int64_t index, std::int64_t d);
//   void merge(State& into, const State& later);
//   void store(std::int64_t d, const State& s);
// where State is a trivially copyable struct of the reducer. store may add to the result's old value.
//
// Functors may also name what they read and write at their own index, to be moved in packs: see pack.hpp.
//
// Functors hold only raw pointers and plain values, are copied into the launch, and mark operator()
// BANYAN_HOST_DEVICE. T is the type in which activations are stored; A = Arithmetic<T> is that of parameters
// and all computation.
#pragma once

#include <type_traits>

#include "banyan/ops/elementwise.hpp"
#include "banyan/ops/operator.hpp"
#include "banyan/ops/random.hpp"

namespace banyan::ops {

/// Blocks of `length` elements, from from[b * from_stride] to to[b * to_stride].
template <class Element>
struct BlockStream {
  const Element* from;
  Element* to;
  std::int64_t length, from_stride, to_stride;
};

/// body.operator()<Element>() with the unsigned integer of an element's size, for operators that only move.
template <class Body>
void dispatch_size(DType dtype, const Body& body) {
  switch (size_of(dtype)) {
    case 8:
      return body.template operator()<std::uint64_t>();
    case 4:
      return body.template operator()<std::uint32_t>();
    case 2:
      return body.template operator()<std::uint16_t>();
    default:
      return body.template operator()<std::uint8_t>();
  }
}

/// The value as stored. A function, because a loop that constructs an object in place is not vectorized.
template <class T>
BANYAN_HOST_DEVICE inline T narrowed(Arithmetic<T> value) {
  return static_cast<T>(value);
}
/// The value after storage in type T, so that an operator that does the work of two is bit-identical to
/// running both.
template <class T>
BANYAN_HOST_DEVICE inline Arithmetic<T> stored(Arithmetic<T> value) {
  if constexpr (std::is_same_v<T, BFloat16>)
    return BFloat16::rounded(value);
  else
    return value;
}

}  // namespace banyan::ops
