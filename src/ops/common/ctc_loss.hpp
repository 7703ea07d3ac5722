// Connectionist temporal classification for every back end (see backend.hpp): f64 logarithms, one sequence
// per index. State u of 2 labels + 1 is label u / 2 where u is odd, and a blank before, between or after
// labels.
#pragma once

#include <cmath>

#include "banyan/ops/ctc.hpp"
#include "ops/common/ctc_steps.hpp"
#include "ops/common/labels.hpp"

namespace banyan::ops {
namespace detail {

BANYAN_HOST_DEVICE inline double log_of_zero() { return -HUGE_VAL; }
/// A state of a time step costs as much as this many elements of ordinary operators.
inline constexpr std::int64_t kCtcWork = 32;

/// log(exp(a) + exp(b)).
BANYAN_HOST_DEVICE inline double log_of_sum(double a, double b) {
  if (a == log_of_zero()) return b;
  if (b == log_of_zero()) return a;
  return (a > b ? a : b) + std::log1p(std::exp(-std::fabs(a - b)));
}

template <class T>
struct CtcTargets : FindFirst {
  CtcSizes sizes;
  std::int64_t label_step, sequence_step, blank;
  bool ends_at_negative, skips_blanks, collapse;
  const T *labels, *marks, *steps, *counts;
  std::int32_t *targets, *lengths;
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t n, std::int64_t) const {
    const std::int64_t first = n * (sizes.labels + 1);
    std::int64_t most = sizes.labels, time = marked_steps(marks, sizes.steps, sizes.sequences, n);
    if (counts != nullptr) {
      most = index_below(counts[n], sizes.labels + 1);
      time = index_below(steps[n], sizes.steps + 1);
    }
    lengths[2 * n] = lengths[2 * n + 1] = 0;
    std::int64_t found = 0, l = 0;
    for (; l < most; ++l) {
      const T label = labels[l * label_step + n * sequence_step];
      if (ends_at_negative && label < T(0)) break;
      const std::int64_t of_class = index_below(label, sizes.classes);
      if (skips_blanks && of_class == blank) continue;
      if (of_class < 0 || of_class == blank) return note(s, first + l, static_cast<double>(label));
      if (collapse && found > 0 && targets[n * sizes.labels + found - 1] == of_class) continue;
      targets[n * sizes.labels + found++] = static_cast<std::int32_t>(of_class);
    }
    const bool fits = counts != nullptr  ? most >= 0 && time >= 1
                      : marks != nullptr ? l <= time && (l > 0 || time <= 1)
                                         : true;
    if (!fits)
      return note(s, first + sizes.labels,
                  static_cast<double>(counts != nullptr ? counts[n] : static_cast<T>(l)));
    if (marks != nullptr && l == 0) return;
    lengths[2 * n] = static_cast<std::int32_t>(time);
    lengths[2 * n + 1] = static_cast<std::int32_t>(found);
  }
};

/// What the functors of the recursion know.
template <class T>
struct CtcView {
  CtcSizes sizes;
  CtcRule rule;
  const T* scores;
  const std::int32_t *targets, *lengths;
  const double* norms;

  BANYAN_HOST_DEVICE std::int64_t steps(std::int64_t n) const { return lengths[2 * n]; }
  BANYAN_HOST_DEVICE std::int64_t states(std::int64_t n) const {
    return 2 * static_cast<std::int64_t>(lengths[2 * n + 1]) + 1;
  }
  BANYAN_HOST_DEVICE std::int64_t most_states() const { return 2 * sizes.labels + 1; }
  /// The states of time step t.
  BANYAN_HOST_DEVICE std::int64_t row(std::int64_t n, std::int64_t t) const {
    return (n * sizes.steps + t) * most_states();
  }
  BANYAN_HOST_DEVICE std::int64_t of_state(std::int64_t n, std::int64_t u) const {
    return u % 2 == 0 ? rule.blank : targets[n * sizes.labels + u / 2];
  }
  BANYAN_HOST_DEVICE double log_probability(std::int64_t n, std::int64_t t, std::int64_t c) const {
    const std::int64_t position = t * sizes.sequences + n;
    return static_cast<double>(scores[position * sizes.classes + c]) - norms[position];
  }
  BANYAN_HOST_DEVICE bool stays(std::int64_t u) const { return rule.merge || u % 2 == 0; }
  /// Whether a path may go from state u - 2 to u.
  BANYAN_HOST_DEVICE bool skips(std::int64_t n, std::int64_t u) const {
    return u % 2 == 1 && u >= 2 && !(rule.merge && of_state(n, u) == of_state(n, u - 2));
  }
};

template <class T>
struct CtcNorms {
  std::int64_t classes;
  const T* scores;
  double* norms;
  BANYAN_HOST_DEVICE void operator()(std::int64_t position) const {
    const T* const x = scores + position * classes;
    T largest = x[0];
    for (std::int64_t c = 1; c < classes; ++c) largest = x[c] > largest ? x[c] : largest;
    const auto most = static_cast<double>(largest);
    double sum = 0;
    for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(x[c]) - most);
    norms[position] = most + std::log(sum);
  }
};

/// alpha: of all beginnings of paths that end in a state, that time step included.
template <class T>
struct CtcForward {
  CtcView<T> view;
  double *alpha, *likelihoods;
  BANYAN_HOST_DEVICE void operator()(std::int64_t n) const {
    const std::int64_t steps = view.steps(n), states = view.states(n);
    likelihoods[n] = 0;
    if (steps == 0) return;
    double* now = alpha + view.row(n, 0);
    for (std::int64_t u = 0; u < states; ++u)
      now[u] = u < 2 ? view.log_probability(n, 0, view.of_state(n, u)) : log_of_zero();
    for (std::int64_t t = 1; t < steps; ++t) {
      const double* const before = now;
      now = alpha + view.row(n, t);
      for (std::int64_t u = 0; u < states; ++u) {
        double sum = view.stays(u) ? before[u] : log_of_zero();
        if (u > 0) sum = log_of_sum(sum, before[u - 1]);
        if (view.skips(n, u)) sum = log_of_sum(sum, before[u - 2]);
        now[u] = sum == log_of_zero() ? sum : sum + view.log_probability(n, t, view.of_state(n, u));
      }
    }
    likelihoods[n] = log_of_sum(now[states - 1], states > 1 ? now[states - 2] : log_of_zero());
  }
};

/// beta: of all ends of paths that go on from a state, that time step left out.
template <class T>
struct CtcBackward {
  CtcView<T> view;
  double* beta;
  BANYAN_HOST_DEVICE void operator()(std::int64_t n) const {
    const std::int64_t steps = view.steps(n), states = view.states(n);
    if (steps == 0) return;
    double* now = beta + view.row(n, steps - 1);
    for (std::int64_t u = 0; u < states; ++u) now[u] = u + 2 >= states ? 0 : log_of_zero();
    for (std::int64_t t = steps - 2; t >= 0; --t) {
      const double* const after = now;
      now = beta + view.row(n, t);
      const auto through = [&](std::int64_t u) {
        return after[u] + view.log_probability(n, t + 1, view.of_state(n, u));
      };
      for (std::int64_t u = 0; u < states; ++u) {
        double sum = view.stays(u) ? through(u) : log_of_zero();
        if (u + 1 < states) sum = log_of_sum(sum, through(u + 1));
        if (u + 2 < states && view.skips(n, u + 2)) sum = log_of_sum(sum, through(u + 2));
        now[u] = sum;
      }
    }
  }
};

/// Of one time step of one sequence.
template <class T>
struct CtcGradient {
  CtcView<T> view;
  const double *alpha, *beta, *likelihoods, *divisor;
  const T* grad_loss;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t position) const {
    const std::int64_t n = position % view.sizes.sequences, t = position / view.sizes.sequences;
    const std::int64_t classes = view.sizes.classes;
    T* const to = dx + position * classes;
    const double likelihood = likelihoods[n];
    const bool possible = likelihood != log_of_zero();
    if (t >= view.steps(n) || (!possible && !view.rule.impossible_is_infinite)) {
      for (std::int64_t c = 0; c < classes; ++c) to[c] = T(0);
      return;
    }
    const auto scale = static_cast<double>(loss_scale(grad_loss, divisor));
    for (std::int64_t c = 0; c < classes; ++c)
      to[c] = static_cast<T>(scale * std::exp(view.log_probability(n, t, c)));
    if (!possible) return;
    const double *const a = alpha + view.row(n, t), *const b = beta + view.row(n, t);
    double blanks = 0;
    for (std::int64_t u = 0; u < view.states(n); ++u) {
      const double share = std::exp(a[u] + b[u] - likelihood);
      if (u % 2 == 0)
        blanks += share;
      else
        to[view.of_state(n, u)] -= static_cast<T>(scale * share);
    }
    to[view.rule.blank] -= static_cast<T>(scale * blanks);
  }
};

struct CtcLossSum {
  using State = double;
  bool impossible_is_infinite;
  std::int64_t sequences;
  const double* likelihoods;
  double* partial;
  BANYAN_HOST_DEVICE State identity() const { return 0; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t n, std::int64_t) const {
    if (likelihoods[n] != log_of_zero() || impossible_is_infinite) s -= likelihoods[n];
  }
  BANYAN_HOST_DEVICE void merge(State& s, const State& other) const { s += other; }
  BANYAN_HOST_DEVICE void store(std::int64_t, const State& s) const {
    partial[0] = s;
    partial[1] = static_cast<double>(sequences);
  }
};

template <class T>
CtcView<T> view_of(const Tensor& scores, const CtcSizes& sizes, const CtcRule& rule, const CtcState& state) {
  require_count("ctc_loss", scores, sizes.steps * sizes.sequences * sizes.classes);
  require_count("ctc_loss, lengths", state.lengths, 2 * sizes.sequences);
  return {sizes,
          rule,
          scores.data<T>(),
          state.targets.data<std::int32_t>(),
          state.lengths.data<std::int32_t>(),
          state.norms.data<double>()};
}

}  // namespace detail

template <class Backend>
void ctc_targets_on(Context& context, const CtcInput& input, const CtcSizes& sizes, const CtcRule& rule,
                    CtcState& state, Tensor& noted) {
  const CtcLabels& from = input.from;
  require_count("ctc_targets, labels", from.labels, sizes.sequences * sizes.labels);
  require_count("ctc_targets, record", noted, 2);
  dispatch_float(from.labels.dtype(), "ctc_targets", [&]<class T>() {
    Backend::reduce_all(context, sizes.sequences,
                        detail::CtcTargets<T>{{noted.data<double>(), 0},
                                              sizes,
                                              from.label_step,
                                              from.sequence_step,
                                              rule.blank,
                                              from.ends_at_negative,
                                              from.skips_blanks,
                                              input.collapse,
                                              from.labels.data<T>(),
                                              detail::optional_data<T>(input.marks),
                                              detail::optional_data<T>(input.steps),
                                              detail::optional_data<T>(input.counts),
                                              state.targets.data<std::int32_t>(),
                                              state.lengths.data<std::int32_t>()});
  });
}

template <class Backend>
void ctc_loss_forward_on(Context& context, const Tensor& scores, const CtcSizes& sizes, const CtcRule& rule,
                         CtcState& state, Tensor& partial) {
  const std::int64_t work = sizes.steps * (2 * sizes.labels + 1) * detail::kCtcWork;
  dispatch_float(scores.dtype(), "ctc_loss_forward", [&]<class T>() {
    const auto view = detail::view_of<T>(scores, sizes, rule, state);
    auto* const likelihoods = state.likelihoods.data<double>();
    Backend::for_each_long(context, sizes.steps * sizes.sequences, sizes.classes,
                           detail::CtcNorms<T>{sizes.classes, view.scores, state.norms.data<double>()});
    Backend::for_each_long(context, sizes.sequences, work,
                           detail::CtcForward<T>{view, state.alpha.data<double>(), likelihoods});
    Backend::reduce_all(context, sizes.sequences,
                        detail::CtcLossSum{rule.impossible_is_infinite, sizes.sequences, likelihoods,
                                           partial.data<double>()});
  });
}

template <class Backend>
void ctc_loss_backward_on(Context& context, const Tensor& scores, const CtcSizes& sizes, const CtcRule& rule,
                          CtcState& state, const Tensor& grad_loss, const Tensor& divisor, Tensor& dx) {
  require_count("ctc_loss_backward", dx, scores.count());
  const std::int64_t states = 2 * sizes.labels + 1;
  dispatch_float(scores.dtype(), "ctc_loss_backward", [&]<class T>() {
    const auto view = detail::view_of<T>(scores, sizes, rule, state);
    auto* const beta = state.beta.data<double>();
    Backend::for_each_long(context, sizes.sequences, sizes.steps * states * detail::kCtcWork,
                           detail::CtcBackward<T>{view, beta});
    Backend::for_each_long(
        context, sizes.steps * sizes.sequences, sizes.classes + states,
        detail::CtcGradient<T>{view, state.alpha.data<double>(), beta, state.likelihoods.data<double>(),
                               divisor.data<double>(), grad_loss.data<T>(), dx.data<T>()});
  });
}

template <class Backend>
struct DefineCtcLoss {
  DefineCtcLoss() {
    ctc_targets.define(Backend::kind, &ctc_targets_on<Backend>);
    ctc_loss_forward.define(Backend::kind, &ctc_loss_forward_on<Backend>);
    ctc_loss_backward.define(Backend::kind, &ctc_loss_backward_on<Backend>);
  }
};

}  // namespace banyan::ops
