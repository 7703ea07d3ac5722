// One time step of an LSTM for every back end (see backend.hpp).
#pragma once

#include "banyan/ops/lstm.hpp"
#include "ops/common/activations.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/optional_data.hpp"

namespace banyan::ops {
namespace detail {

/// A cell costs as much as this many elements of ordinary operators.
inline constexpr std::int64_t kLstmWork = 16;

/// Where the gates of a cell are.
struct LstmPlaces {
  std::int64_t width, row, i, f, o, g;
  BANYAN_HOST_DEVICE LstmPlaces(std::int64_t cell, std::int64_t row_width)
      : width(row_width),
        row(cell / width),
        i(cell + 3 * row * width),
        f(i + width),
        o(f + width),
        g(o + width) {}
};

template <class T>
struct LstmForward {
  std::int64_t width;
  const T *gates, *cont, *before;
  T *activated, *c, *h;
  BANYAN_HOST_DEVICE void operator()(std::int64_t cell) const {
    const LstmPlaces at(cell, width);
    const Sigmoid<T> sigmoid{};
    const T i = sigmoid(gates[at.i]), f = sigmoid(gates[at.f]), o = sigmoid(gates[at.o]);
    const T g = hyperbolic_tangent(gates[at.g]);
    activated[at.i] = i;
    activated[at.f] = f;
    activated[at.o] = o;
    activated[at.g] = g;
    const T value = cont[at.row] * f * before[cell] + i * g;
    c[cell] = value;
    h[cell] = o * hyperbolic_tangent(value);
  }
};

template <class T>
struct LstmBackward {
  std::int64_t width;
  const T *activated, *cont, *before, *c, *dc, *dh;
  T *dgates, *dbefore;
  T bound;
  /// A NaN stays one.
  BANYAN_HOST_DEVICE T held(T d) const {
    if (!(bound > T(0))) return d;
    return d > bound ? bound : d < -bound ? -bound : d;
  }
  BANYAN_HOST_DEVICE void operator()(std::int64_t cell) const {
    const LstmPlaces at(cell, width);
    const T i = activated[at.i], f = activated[at.f], o = activated[at.o], g = activated[at.g];
    const T of_h = dh == nullptr ? T(0) : dh[cell], squashed = hyperbolic_tangent(c[cell]);
    const T of_c = (dc == nullptr ? T(0) : dc[cell]) + of_h * o * (T(1) - squashed * squashed);
    const T kept = cont[at.row] * of_c;
    if (dgates != nullptr) {
      dgates[at.i] = held(of_c * g * i * (T(1) - i));
      dgates[at.f] = held(kept * before[cell] * f * (T(1) - f));
      dgates[at.o] = held(of_h * squashed * o * (T(1) - o));
      dgates[at.g] = held(of_c * i * (T(1) - g * g));
    }
    if (dbefore != nullptr) dbefore[cell] = kept * f;
  }
};

/// Throws unless the tensors fit; returns the width of a row.
inline std::int64_t lstm_width(const char* op, const Tensor& gates, const Tensor& cont,
                               const Tensor& before) {
  const std::int64_t rows = cont.count(), width = rows == 0 ? 1 : before.count() / rows;
  require_count(op, before, rows * width);
  require_count(op, gates, 4 * rows * width);
  return width;
}

}  // namespace detail

template <class Backend>
void lstm_forward_on(Context& context, const Tensor& gates, const Tensor& cont, const Tensor& before,
                     Tensor& activated, Tensor& c, Tensor& h) {
  const std::int64_t width = detail::lstm_width("lstm_forward", gates, cont, before);
  require_alike("lstm_forward", gates, activated);
  require_alike("lstm_forward", before, c);
  require_alike("lstm_forward", before, h);
  dispatch_float(c.dtype(), "lstm_forward", [&]<class T>() {
    Backend::for_each_long(context, c.count(), detail::kLstmWork,
                           detail::LstmForward<T>{width, gates.data<T>(), cont.data<T>(), before.data<T>(),
                                                  activated.data<T>(), c.data<T>(), h.data<T>()});
  });
}

template <class Backend>
void lstm_backward_on(Context& context, const Tensor& activated, const Tensor& cont, const Tensor& before,
                      const Tensor& c, const Tensor& dc, const Tensor& dh, Tensor& dgates, Tensor& dbefore,
                      double bound) {
  const std::int64_t width = detail::lstm_width("lstm_backward", activated, cont, before);
  require_alike("lstm_backward", before, c);
  for (const Tensor* like_c : {&dc, &dh, static_cast<const Tensor*>(&dbefore)})
    if (like_c->defined()) require_alike("lstm_backward", c, *like_c);
  if (dgates.defined()) require_alike("lstm_backward", activated, dgates);
  dispatch_float(c.dtype(), "lstm_backward", [&]<class T>() {
    Backend::for_each_long(
        context, c.count(), detail::kLstmWork,
        detail::LstmBackward<T>{width, activated.data<T>(), cont.data<T>(), before.data<T>(), c.data<T>(),
                                detail::optional_data<T>(dc), detail::optional_data<T>(dh),
                                detail::optional_data<T>(dgates), detail::optional_data<T>(dbefore),
                                static_cast<T>(bound)});
  });
}

template <class Backend>
struct DefineLstm {
  DefineLstm() {
    lstm_forward.define(Backend::kind, &lstm_forward_on<Backend>);
    lstm_backward.define(Backend::kind, &lstm_backward_on<Backend>);
  }
};

}  // namespace banyan::ops
