// Labels and what losses over them have in common.
//
// A label selects a class only if it is an integer in [0, channels): anything else (NaN included) is recorded
// for the layer's message and never used as an index.
#pragma once

#include "banyan/ops/loss.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/found.hpp"
#include "ops/common/index_below.hpp"

namespace banyan::ops::detail {

/// Memory index of class 0 at a position; the classes are `inner` apart.
BANYAN_HOST_DEVICE inline std::int64_t first_class(const Channels& over, std::int64_t position) {
  return position / over.inner * over.channels * over.inner + position % over.inner;
}

/// The element of a position's label, which is a class.
template <class T>
BANYAN_HOST_DEVICE inline std::int64_t place_of_label(const Channels& over, std::int64_t position, T label) {
  return first_class(over, position) + static_cast<std::int64_t>(label) * over.inner;
}

/// The label of element i of outer x channels x inner memory, its position and its channel.
template <class T>
struct ElementLabel {
  T label;
  std::int64_t position, channel;
  BANYAN_HOST_DEVICE ElementLabel(const Channels& over, const T* labels, std::int64_t i) {
    const std::int64_t row = i / over.inner;
    position = row / over.channels * over.inner + i % over.inner;
    channel = row % over.channels;
    label = labels[position];
  }
};

enum class LabelKind { valid, ignored, wrong };

template <class T>
BANYAN_HOST_DEVICE inline LabelKind kind_of(T label, const IgnoreLabel& ignore, std::int64_t channels) {
  if (ignore.enabled && label == static_cast<T>(ignore.label)) return LabelKind::ignored;
  return index_below(label, channels) >= 0 ? LabelKind::valid : LabelKind::wrong;
}

/// A reducer's sums over positions with labels, and where they go (`partial` and `noted` of ops/loss.hpp).
struct ClassLossSum {
  struct State {
    double loss, valid;
    Found wrong;  ///< the first label out of range
  };
  std::int64_t inner;
  double *partial, *noted;
  /// Whether this position has a class; a wrong label is noted.
  template <class T>
  BANYAN_HOST_DEVICE static bool counts(State& s, T label, std::int64_t position, const Channels& over,
                                        const IgnoreLabel& ignore) {
    const LabelKind kind = kind_of(label, ignore, over.channels);
    if (kind == LabelKind::wrong) FindFirst::note(s.wrong, position, static_cast<double>(label));
    return kind == LabelKind::valid;
  }
  BANYAN_HOST_DEVICE State identity() const { return {0, 0, {0, 0}}; }
  BANYAN_HOST_DEVICE void merge(State& a, const State& b) const {
    a.loss += b.loss;
    a.valid += b.valid;
    a.wrong.note(b.wrong);
  }
  BANYAN_HOST_DEVICE void store(std::int64_t, const State& s) const {
    partial[0] = s.loss;
    partial[1] = s.valid;
    s.wrong.keep(noted, inner);
  }
};

inline ClassLossSum class_loss_sum(const Channels& over, Tensor& partial, Tensor& noted) {
  require_count("partial sums of a loss", partial, 2);
  require_count("record of a wrong label", noted, 3);
  return {over.inner, partial.data<double>(), noted.data<double>()};
}

/// grad_loss / max(1, divisor).
template <class T>
BANYAN_HOST_DEVICE inline T loss_scale(const T* grad_loss, const double* divisor) {
  return static_cast<T>(static_cast<double>(grad_loss[0]) / (divisor[0] > 1 ? divisor[0] : 1.0));
}

inline void require_positions(const char* op, const Tensor& scores, const Tensor& labels,
                              const Channels& over) {
  require_count(op, scores, over.outer * over.channels * over.inner);
  require_count(op, labels, over.outer * over.inner);
}

}  // namespace banyan::ops::detail
