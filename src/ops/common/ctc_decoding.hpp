// The labels of the best paths for every back end (see backend.hpp), one sequence per index.
#pragma once

#include "banyan/ops/ctc.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/ctc_steps.hpp"

namespace banyan::ops {
namespace detail {

template <class T>
struct CtcBestPath {
  CtcScores of;
  CtcRule rule;
  const T *scores, *marks;
  T *decoded, *penalties;
  BANYAN_HOST_DEVICE void operator()(std::int64_t n) const {
    const std::int64_t steps = marked_steps(marks, of.steps, of.sequences, n);
    T* const to = decoded + n * of.steps;
    std::int64_t found = 0, before = -1;
    double sum = 0;
    for (std::int64_t t = 0; t < steps; ++t) {
      const T* const x = scores + t * of.step + n * of.sequence;
      std::int64_t best = 0;
      for (std::int64_t c = 1; c < of.classes; ++c) best = x[c] > x[best] ? c : best;
      sum -= static_cast<double>(x[best]);
      if (best != rule.blank && !(rule.merge && best == before)) to[found++] = static_cast<T>(best);
      before = best;
    }
    for (; found < of.steps; ++found) to[found] = T(-1);
    if (penalties != nullptr) penalties[n] = static_cast<T>(sum);
  }
};

template <class T>
struct CtcDistances {
  struct State {
    double nearness, equal;
  };
  std::int64_t steps, sequences, label_step, sequence_step, most, blank;
  bool ends_at_negative, skips_blanks, empty_are_equal;
  const T *decoded, *labels;
  double *scratch, *sums;
  BANYAN_HOST_DEVICE State identity() const { return {0, 0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t n, std::int64_t) const {
    double *const wanted = scratch + n * (2 * most + 1), *const row = wanted + most;
    std::int64_t length = 0, found = 0;
    for (std::int64_t l = 0; l < most; ++l) {
      const T label = labels[l * label_step + n * sequence_step];
      if (ends_at_negative && label < T(0)) break;
      if (!(skips_blanks && label == static_cast<T>(blank))) wanted[length++] = static_cast<double>(label);
    }
    const T* const own = decoded + n * steps;
    while (found < steps && own[found] >= T(0)) ++found;
    const std::int64_t longer = found > length ? found : length;
    if (longer == 0) {
      s.nearness += 1;
      s.equal += empty_are_equal ? 1 : 0;
      return;
    }
    // row[j]: from the first labels of one to the first j of the other.
    for (std::int64_t j = 0; j <= length; ++j) row[j] = static_cast<double>(j);
    for (std::int64_t i = 0; i < found; ++i) {
      double corner = row[0];
      row[0] = static_cast<double>(i + 1);
      for (std::int64_t j = 0; j < length; ++j) {
        const double replaced = corner + (static_cast<double>(own[i]) == wanted[j] ? 0 : 1);
        corner = row[j + 1];
        const double less = row[j] < corner ? row[j] : corner;
        row[j + 1] = replaced < less + 1 ? replaced : less + 1;
      }
    }
    s.nearness += 1 - row[length] / static_cast<double>(longer);
    s.equal += row[length] == 0 ? 1 : 0;
  }
  BANYAN_HOST_DEVICE void merge(State& s, const State& other) const {
    s.nearness += other.nearness;
    s.equal += other.equal;
  }
  BANYAN_HOST_DEVICE void store(std::int64_t, const State& s) const {
    sums[0] = s.nearness;
    sums[1] = s.equal;
    sums[2] = static_cast<double>(sequences);
  }
};

}  // namespace detail

template <class Backend>
void ctc_best_paths_on(Context& context, const Tensor& scores, const CtcScores& of, const Tensor& marks,
                       const CtcRule& rule, Tensor& decoded, Tensor& penalties) {
  require_count("ctc_best_paths", scores, of.steps * of.sequences * of.classes);
  require_count("ctc_best_paths, labels", decoded, of.steps * of.sequences);
  dispatch_float(scores.dtype(), "ctc_best_paths", [&]<class T>() {
    Backend::for_each_long(context, of.sequences, of.steps * of.classes,
                           detail::CtcBestPath<T>{of, rule, scores.data<T>(), detail::optional_data<T>(marks),
                                                  decoded.data<T>(), detail::optional_data<T>(penalties)});
  });
}

template <class Backend>
void ctc_distances_on(Context& context, const Tensor& decoded, const CtcLabels& wanted, std::int64_t blank,
                      bool empty_are_equal, Tensor& scratch, Tensor& sums) {
  const std::int64_t sequences = decoded.shape()[0];
  require_count("ctc_distances, labels", wanted.labels, sequences * wanted.most);
  require_count("ctc_distances, scratch", scratch, sequences * (2 * wanted.most + 1));
  dispatch_float(decoded.dtype(), "ctc_distances", [&]<class T>() {
    Backend::reduce_all(
        context, sequences,
        detail::CtcDistances<T>{decoded.shape().count(1), sequences, wanted.label_step, wanted.sequence_step,
                                wanted.most, blank, wanted.ends_at_negative, wanted.skips_blanks,
                                empty_are_equal, decoded.data<T>(), wanted.labels.data<T>(),
                                scratch.data<double>(), sums.data<double>()});
  });
}

template <class Backend>
struct DefineCtcDecoding {
  DefineCtcDecoding() {
    ctc_best_paths.define(Backend::kind, &ctc_best_paths_on<Backend>);
    ctc_distances.define(Backend::kind, &ctc_distances_on<Backend>);
  }
};

}  // namespace banyan::ops
