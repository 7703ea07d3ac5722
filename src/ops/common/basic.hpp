// Memory and level-1 operators for every back end (see backend.hpp). Sums are accumulated in f64.
#pragma once

#include <cmath>
#include <span>
#include <type_traits>

#include "banyan/ops/basic.hpp"
#include "banyan/ops/device_value.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/sums.hpp"

namespace banyan::ops {

template <class T>
struct FillWith {
  T* y;
  T value;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = value; }
};

template <class From, class To>
struct Convert {
  const From* x;
  To* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = static_cast<To>(x[i]); }
};

/// to[b][c][r] = from[b][r][c]; i counts in `to`.
template <class From, class To>
struct Transpose {
  std::int64_t rows, columns;
  const From* from;
  To* to;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t r = i % rows, bc = i / rows;
    const std::int64_t c = bc % columns, b = bc / columns;
    to[i] = static_cast<To>(from[(b * rows + r) * columns + c]);
  }
};

template <class T>
struct Scale {
  Arithmetic<T> alpha;
  const T* x;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = static_cast<T>(alpha * x[i]); }
};

template <class T>
struct ScaleAndAdd {
  Arithmetic<T> alpha, beta;
  const T* x;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    y[i] = static_cast<T>(alpha * x[i] + beta * y[i]);
  }
};

/// y = y + parts[0] + parts[1] ...
template <class T, std::size_t kParts>
struct AddParts {
  const T* parts[kParts];
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    T sum = y[i];
    for (std::size_t k = 0; k < kParts; ++k) sum += parts[k][i];
    y[i] = sum;
  }
};

/// Moves elements of any type as unsigned integers of the same size.
template <class Element>
struct MoveBlocks {
  BlockCopy what;
  const Element* from;
  Element* to;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t block = i / what.length, offset = i % what.length;
    to[what.to_offset + block * what.to_stride + offset] =
        from[what.from_offset + block * what.from_stride + offset];
  }
};

struct WriteBytes {
  SmallBytes bytes;
  unsigned char* to;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const { to[i] = bytes.byte[i]; }
};

/// body.operator()<T>() for each type that tensors can be filled with and copied between.
template <class Body>
void dispatch_stored(DType dtype, const char* what, Body&& body) {
  switch (dtype) {
    case DType::i32:
      body.template operator()<std::int32_t>();
      return;
    case DType::u8:
      body.template operator()<std::uint8_t>();
      return;
    default:
      dispatch_storage(dtype, what, body);
  }
}

template <class Backend>
void fill_with(Context& context, Tensor& y, double value) {
  dispatch_stored(y.dtype(), "fill", [&]<class T>() {
    Backend::for_each(context, y.count(), FillWith<T>{y.data<T>(), static_cast<T>(value)});
  });
}

template <class Backend>
void write_small(Context& context, const SmallBytes& bytes, std::size_t count, void* to) {
  Backend::for_each(context, static_cast<std::int64_t>(count),
                    WriteBytes{bytes, static_cast<unsigned char*>(to)});
}

template <class Backend, class From, class To>
void transpose(Context& context, std::int64_t batch, std::int64_t rows, std::int64_t columns,
               const From* from, To* to) {
  if constexpr (requires { Backend::transpose(context, batch, rows, columns, from, to); })
    Backend::transpose(context, batch, rows, columns, from, to);
  else
    Backend::for_each(context, batch * rows * columns, Transpose<From, To>{rows, columns, from, to});
}

template <class Backend, class From, class To>
void copy_as(Context& context, const Tensor& x, Tensor& y) {
  const ChannelView view = channel_view(x);
  if (same_order(x, y))
    Backend::for_each(context, x.count(), Convert<From, To>{x.data<From>(), y.data<To>()});
  else if (y.layout() == Layout::channels_last)
    transpose<Backend>(context, view.batch, view.channels, view.inner, x.data<From>(), y.data<To>());
  else
    transpose<Backend>(context, view.batch, view.inner, view.channels, x.data<From>(), y.data<To>());
}

template <class Backend>
void copy_tensor(Context& context, const Tensor& x, Tensor& y) {
  if (same_order(x, y))
    require_count("copy", x, y.count());
  else if (x.shape() != y.shape())
    runtime_failure("copy: shapes differ: ", x.shape().to_string(), " and ", y.shape().to_string());
  if (x.dtype() == y.dtype() && same_order(x, y)) {
    if (!x.same_memory(y)) context.stream().copy(y.raw(), x.raw(), x.bytes());
  } else if (x.dtype() == y.dtype()) {
    dispatch_stored(x.dtype(), "copy", [&]<class T>() { copy_as<Backend, T, T>(context, x, y); });
  } else {
    dispatch_stored(x.dtype(), "copy", [&]<class From>() {
      dispatch_storage(y.dtype(), "copy to another type",
                       [&]<class To>() { copy_as<Backend, From, To>(context, x, y); });
    });
  }
}

template <class Backend>
void scale_and_add(Context& context, double alpha, const Tensor& x, double beta, Tensor& y) {
  require_alike("axpby", x, y);
  dispatch_storage(y.dtype(), "axpby", [&]<class T>() {
    using A = Arithmetic<T>;
    const A a = static_cast<A>(alpha), b = static_cast<A>(beta);
    if (beta == 0)
      Backend::for_each(context, y.count(), Scale<T>{a, x.data<T>(), y.data<T>()});
    else
      Backend::for_each(context, y.count(), ScaleAndAdd<T>{a, b, x.data<T>(), y.data<T>()});
  });
}

template <class Backend, class T, std::size_t kParts>
void add_so_many(Context& context, std::span<const Tensor> parts, Tensor& y) {
  if constexpr (kParts <= kMostParts) {
    if (parts.size() != kParts) {
      add_so_many<Backend, T, kParts + 1>(context, parts, y);
      return;
    }
    AddParts<T, kParts> functor{{}, y.data<T>()};
    for (std::size_t k = 0; k < kParts; ++k) functor.parts[k] = parts[k].data<T>();
    Backend::for_each(context, y.count(), functor);
  } else {
    runtime_failure("a sum of ", parts.size(), " parts, at most ", kMostParts, " at a time");
  }
}

template <class Backend>
void add_in_order(Context& context, std::span<const Tensor> parts, Tensor& y) {
  for (const Tensor& part : parts) require_alike("add_parts", part, y);
  if (parts.empty()) return;
  dispatch_float(y.dtype(), "add_parts", [&]<class T>() { add_so_many<Backend, T, 1>(context, parts, y); });
}

template <class Backend, class Term>
void sum_of(Context& context, const Tensor& x, Tensor& result) {
  require_count("sum", result, 1);
  dispatch_storage(x.dtype(), "sum", [&]<class T>() {
    Backend::reduce_all(context, x.count(), SumOf<const T*, Term>{x.data<T>(), result.data<double>()});
  });
}

template <class Backend>
void sum_products_of(Context& context, const Tensor& x, const Tensor& y, Tensor& result) {
  require_alike("sum_of_products", x, y);
  require_count("sum_of_products", result, 1);
  dispatch_storage(x.dtype(), "sum_of_products", [&]<class T>() {
    Backend::reduce_all(context, x.count(),
                        SumOf<Products<T>, Identity>{{x.data<T>(), y.data<T>()}, result.data<double>()});
  });
}

/// The blocks must lie within `count` elements.
inline void require_blocks(const char* side, std::int64_t count, std::int64_t offset, std::int64_t stride,
                           const BlockCopy& what) {
  const std::int64_t last = offset + (what.blocks - 1) * stride;
  if (offset < 0 || last < 0 || offset + what.length > count || last + what.length > count)
    runtime_failure("copy_blocks: ", what.blocks, " blocks of ", what.length, " elements from offset ",
                    offset, " with stride ", stride, " are not in the ", count, " elements of the ", side);
}

template <class Backend, class Element>
void copy_blocks_of(Context& context, const Tensor& from, Tensor& to, const BlockCopy& what) {
  const auto* source = static_cast<const Element*>(from.raw());
  auto* target = static_cast<Element*>(to.raw());
  if constexpr (requires { Backend::copy_blocks(context, source, target, what); })
    Backend::copy_blocks(context, source, target, what);
  else
    Backend::for_each(context, what.blocks * what.length, MoveBlocks<Element>{what, source, target});
}

template <class Backend>
void copy_tensor_blocks(Context& context, const Tensor& from, Tensor& to, const BlockCopy& what) {
  require_type("copy_blocks", to, from.dtype());
  if (what.blocks <= 0 || what.length <= 0) return;
  require_blocks("source", from.count(), what.from_offset, what.from_stride, what);
  require_blocks("target", to.count(), what.to_offset, what.to_stride, what);
  dispatch_size(from.dtype(),
                [&]<class Element>() { copy_blocks_of<Backend, Element>(context, from, to, what); });
}

/// Registers all of the above for a back end.
template <class Backend>
struct DefineBasic {
  DefineBasic() {
    fill.define(Backend::kind, &fill_with<Backend>);
    copy.define(Backend::kind, &copy_tensor<Backend>);
    axpby.define(Backend::kind, &scale_and_add<Backend>);
    add_parts.define(Backend::kind, &add_in_order<Backend>);
    sum.define(Backend::kind, &sum_of<Backend, Identity>);
    absolute_sum.define(Backend::kind, &sum_of<Backend, Magnitude>);
    sum_of_squares.define(Backend::kind, &sum_of<Backend, Square>);
    sum_of_products.define(Backend::kind, &sum_products_of<Backend>);
    count_not_finite.define(Backend::kind, &sum_of<Backend, NotFinite>);
    copy_blocks.define(Backend::kind, &copy_tensor_blocks<Backend>);
    write_bytes.define(Backend::kind, &write_small<Backend>);
  }
};

}  // namespace banyan::ops
