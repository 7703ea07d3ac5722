// Functors on maps of labels for every back end (see backend.hpp).
#pragma once

#include <cmath>

#include "banyan/ops/label_maps.hpp"
#include "ops/common/labels.hpp"

namespace banyan::ops {
namespace detail {

template <class T>
BANYAN_HOST_DEVICE inline bool is_listed(const LabelList& list, T label) {
  for (std::int64_t i = 0; i < list.count; ++i)
    if (static_cast<double>(label) == list.label[i]) return true;
  return false;
}

/// The first label that is neither a class nor ignored, over all labels.
template <class T>
struct FindStrayLabel : FindFirst {
  std::int64_t channels;
  LabelList ignored;
  const T* labels;
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t) const {
    const T label = labels[i];
    if (!is_listed(ignored, label) && kind_of(label, {}, channels) == LabelKind::wrong)
      note(s, i, static_cast<double>(label));
  }
};

/// Per class: reduces over memory as outer x channels x inner.
template <class T>
struct AgreementOfClass {
  struct State {
    double both, labelled, predicted;
  };
  Channels over;
  LabelList ignored;
  const T *predicted, *labels;
  double* counts;
  BANYAN_HOST_DEVICE State identity() const { return {0, 0, 0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t index, std::int64_t d) const {
    const std::int64_t pixel = index / over.inner / over.channels * over.inner + index % over.inner;
    const T label = labels[pixel], guess = predicted[pixel];
    const bool is = label == static_cast<T>(d), said = guess == static_cast<T>(d);
    if (!is && !said) return;
    if (is_listed(ignored, label) || kind_of(label, {}, over.channels) != LabelKind::valid) return;
    s.both += is && said ? 1 : 0;
    s.labelled += is ? 1 : 0;
    s.predicted += said ? 1 : 0;
  }
  BANYAN_HOST_DEVICE void merge(State& a, const State& b) const {
    a.both += b.both;
    a.labelled += b.labelled;
    a.predicted += b.predicted;
  }
  BANYAN_HOST_DEVICE void store(std::int64_t d, const State& s) const {
    counts[3 * d] = s.both;
    counts[3 * d + 1] = s.labelled;
    counts[3 * d + 2] = s.predicted;
  }
};

template <class T>
struct Agreement {
  std::int64_t channels;
  const double* counts;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t) const {
    double right = 0, all = 0, recalls = 0, occurring = 0, overlaps = 0;
    for (std::int64_t d = 0; d < channels; ++d) {
      const double both = counts[3 * d], labelled = counts[3 * d + 1];
      const double either = labelled + counts[3 * d + 2] - both;
      right += both;
      all += labelled;
      recalls += labelled > 0 ? both / labelled : 0;
      occurring += labelled > 0 ? 1 : 0;
      overlaps += either > 0 ? both / either : 1;
    }
    y[0] = static_cast<T>(all > 0 ? right / all : 0);
    y[1] = static_cast<T>(occurring > 0 ? recalls / occurring : 0);
    y[2] = static_cast<T>(all > 0 ? overlaps / static_cast<double>(channels) : 0);
  }
};

template <class T>
struct PredictedClass {
  Channels over;
  const T* scores;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t position) const {
    const T* const at = scores + first_class(over, position);
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < over.channels; ++c) {
      const T most = at[best * over.inner], score = at[c * over.inner];
      if (score > most || (std::isnan(most) && !std::isnan(score))) best = c;
    }
    y[position] = static_cast<T>(best);
  }
};

/// Of all positions with one label.
template <class T>
struct ConfusionRow {
  Channels over;
  LabelList ignored;
  const T *predicted, *labels;
  double *counts, *totals;
  BANYAN_HOST_DEVICE void operator()(std::int64_t row) const {
    double* const to = counts + row * over.channels;
    for (std::int64_t c = 0; c < over.channels; ++c) to[c] = 0;
    double total = 0;
    const bool counted = !is_listed(ignored, static_cast<T>(row));
    for (std::int64_t i = 0; counted && i < over.outer * over.inner; ++i) {
      if (labels[i] != static_cast<T>(row)) continue;
      to[static_cast<std::int64_t>(predicted[i])] += 1;
      total += 1;
    }
    totals[row] = total;
  }
};

template <class T>
struct RowShares {
  std::int64_t columns;
  const double *counts, *totals;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const double total = totals[i / columns];
    y[i] = total > 0 ? static_cast<T>(counts[i] / total) : T(0);
  }
};

template <class T>
struct WrongPosition {
  Channels over;
  LabelList ignored;
  const T *scores, *predicted, *labels;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t position) const {
    T* const to = y + 4 * position;
    const T classes[] = {labels[position], predicted[position]};
    const bool wrong = classes[0] != classes[1] && !is_listed(ignored, classes[0]) &&
                       kind_of(classes[0], {}, over.channels) == LabelKind::valid;
    for (int i = 0; i < 2; ++i) {
      to[2 * i] = wrong ? classes[i] : T(-1);
      to[2 * i + 1] = wrong ? scores[place_of_label(over, position, classes[i])] : T(-1);
    }
  }
};

/// Reduces over memory seen as 1 x rows x length.
template <class T>
struct NextValue {
  struct State {
    double least;
  };
  LabelList ignored, forced;
  std::int64_t place, places;
  const T* x;
  double* last;
  T* y;
  BANYAN_HOST_DEVICE State identity() const { return {HUGE_VAL}; }
  BANYAN_HOST_DEVICE void consider(State& s, double value, double above) const {
    if (value > above && value < s.least) s.least = value;
  }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t row) const {
    if (!is_listed(ignored, x[i])) consider(s, static_cast<double>(x[i]), last[row]);
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const {
    into.least = later.least < into.least ? later.least : into.least;
  }
  BANYAN_HOST_DEVICE void store(std::int64_t row, const State& s) const {
    State found = s;
    for (std::int64_t i = 0; i < forced.count; ++i) consider(found, forced.label[i], last[row]);
    last[row] = found.least;
    if (place < places)
      y[row * places + place] = found.least < HUGE_VAL ? static_cast<T>(found.least) : T(-1);
  }
};

template <class T>
struct AddEarlierCounts {
  std::int64_t n, rows;
  bool keeps;
  double* counts;
  T* earlier;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    constexpr double kUnit = 1 << 20;
    double sum = counts[i];
    for (std::int64_t row = 0; row < rows; ++row) {
      T* const at = earlier + 2 * n * row + i;
      sum += static_cast<double>(at[0]) + kUnit * static_cast<double>(at[n]);
      if (keeps) at[0] = at[n] = T(0);
    }
    counts[i] = sum;
    if (!keeps) return;
    const double units = std::floor(sum / kUnit);
    earlier[i] = static_cast<T>(sum - units * kUnit);
    earlier[n + i] = static_cast<T>(units);
  }
};

struct FindFinite : FindFirst {
  const double* last;
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t) const {
    if (last[i] < HUGE_VAL) note(s, i, last[i]);
  }
};

template <class T>
struct BiasChannels {
  Channels over;
  ChannelBias bias;
  const T *x, *labels;
  T* y;
  BANYAN_HOST_DEVICE bool counts(T label) const {
    return !is_listed(bias.ignored, label) && kind_of(label, {}, over.channels) == LabelKind::valid;
  }
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t channel = i / over.inner % over.channels, sample = i / over.inner / over.channels;
    const bool background = channel == bias.background_label;
    const double own = background ? bias.background : bias.foreground;
    double sum = 0;
    if (bias.lists) {
      for (std::int64_t j = 0; j < bias.each; ++j) {
        const T label = labels[sample * bias.each + j];
        if (counts(label) && label == static_cast<T>(channel)) sum += own;
      }
    } else {
      const T label = labels[sample * over.inner + i % over.inner];
      const bool same = label == static_cast<T>(channel);
      if (!counts(label))
        sum = 0;
      else if (bias.without_background)
        sum = same ? bias.foreground : 0;
      else
        sum = background ? bias.background : same ? bias.foreground : 0;
    }
    y[i] = x[i] + static_cast<T>(sum);
  }
};

template <class T>
struct ScheduledValue {
  IterationSchedule schedule;
  const std::uint64_t* draw;
  T* value;
  BANYAN_HOST_DEVICE void operator()(std::int64_t) const {
    const IterationSchedule& s = schedule;
    const std::int64_t passed = static_cast<std::int64_t>(*draw) / s.passes;
    const auto iteration = static_cast<double>(s.first + passed / s.step * s.step);
    const double base = 1 + s.gamma * iteration;  // a negative one has no power that is no whole number
    double found = s.shift + s.scale * std::pow(base > 0 ? base : 0, s.power);
    found = found > s.least ? found : s.least;
    value[0] = static_cast<T>(found < s.most ? found : s.most);
  }
};

template <class T>
struct AddAtLabels {
  Channels over;
  const T *bias, *labels;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t position) const {
    const T label = labels[position];
    if (kind_of(label, {}, over.channels) != LabelKind::valid) return;
    T& score = y[place_of_label(over, position, label)];
    if (score > -bias[0]) score += bias[0];
  }
};

template <class T>
struct RescaleByLabels {
  Channels over;
  T others;
  const T *own, *x, *labels;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const ElementLabel<T> at(over, labels, i);
    y[i] = x[i] * (at.label == static_cast<T>(at.channel) ? own[0] : others);
  }
};

}  // namespace detail

template <class Backend>
void count_agreement_on(Context& context, const Tensor& predicted, const Tensor& labels, const Channels& over,
                        const LabelList& ignored, Tensor& counts, Tensor& noted) {
  require_count("count_agreement, predicted", predicted, over.outer * over.inner);
  require_count("count_agreement, labels", labels, over.outer * over.inner);
  require_count("count_agreement, counts", counts, 3 * over.channels);
  require_count("count_agreement, noted", noted, 3);
  dispatch_float(predicted.dtype(), "count_agreement", [&]<class T>() {
    Backend::reduce_channels(context, Broadcast{over.outer, over.channels, over.inner},
                             detail::AgreementOfClass<T>{over, ignored, predicted.data<T>(), labels.data<T>(),
                                                         counts.data<double>()});
    Backend::reduce_all(context, labels.count(),
                        detail::FindStrayLabel<T>{
                            {noted.data<double>(), over.inner}, over.channels, ignored, labels.data<T>()});
  });
}

template <class Backend>
void agreement_on(Context& context, const Tensor& counts, Tensor& y) {
  require_count("agreement", y, 3);
  dispatch_float(y.dtype(), "agreement", [&]<class T>() {
    Backend::for_each(context, 1,
                      detail::Agreement<T>{counts.count() / 3, counts.data<double>(), y.data<T>()});
  });
}

template <class Backend>
void predicted_classes_on(Context& context, const Tensor& scores, const Channels& over, Tensor& y) {
  detail::require_positions("predicted_classes", scores, y, over);
  dispatch_float(scores.dtype(), "predicted_classes", [&]<class T>() {
    Backend::for_each_long(context, y.count(), over.channels,
                           detail::PredictedClass<T>{over, scores.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void confusion_counts_on(Context& context, const Tensor& predicted, const Tensor& labels,
                         const Channels& over, const LabelList& ignored, Tensor& counts, Tensor& totals,
                         Tensor& noted) {
  const std::int64_t positions = over.outer * over.inner;
  require_count("confusion_counts, predicted", predicted, positions);
  require_count("confusion_counts, labels", labels, positions);
  require_count("confusion_counts, counts", counts, over.channels * over.channels);
  require_count("confusion_counts, totals", totals, over.channels);
  require_count("confusion_counts, noted", noted, 3);
  dispatch_float(labels.dtype(), "confusion_counts", [&]<class T>() {
    Backend::for_each_long(context, over.channels, positions + over.channels,
                           detail::ConfusionRow<T>{over, ignored, predicted.data<T>(), labels.data<T>(),
                                                   counts.data<double>(), totals.data<double>()});
    Backend::reduce_all(context, positions,
                        detail::FindStrayLabel<T>{
                            {noted.data<double>(), over.inner}, over.channels, ignored, labels.data<T>()});
  });
}

template <class Backend>
void row_shares_on(Context& context, const Tensor& counts, const Tensor& totals, Tensor& y) {
  require_count("row_shares", y, counts.count());
  if (y.count() == 0) return;
  dispatch_float(y.dtype(), "row_shares", [&]<class T>() {
    Backend::for_each(context, y.count(),
                      detail::RowShares<T>{counts.count() / totals.count(), counts.data<double>(),
                                           totals.data<double>(), y.data<T>()});
  });
}

template <class Backend>
void wrong_positions_on(Context& context, const Tensor& scores, const Tensor& predicted, const Tensor& labels,
                        const Channels& over, const LabelList& ignored, Tensor& y) {
  detail::require_positions("wrong_positions", scores, labels, over);
  require_count("wrong_positions, predicted", predicted, labels.count());
  require_count("wrong_positions", y, 4 * labels.count());
  dispatch_float(scores.dtype(), "wrong_positions", [&]<class T>() {
    Backend::for_each(context, labels.count(),
                      detail::WrongPosition<T>{over, ignored, scores.data<T>(), predicted.data<T>(),
                                               labels.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void add_earlier_counts_on(Context& context, Tensor& counts, bool keeps, Tensor& earlier) {
  const std::int64_t n = counts.count(), rows = earlier.shape()[0];
  require_count("add_earlier_counts", earlier, rows * 2 * n);
  dispatch_float(earlier.dtype(), "add_earlier_counts", [&]<class T>() {
    Backend::for_each(
        context, n,
        detail::AddEarlierCounts<T>{n, rows, keeps && rows > 0, counts.data<double>(), earlier.data<T>()});
  });
}

template <class Backend>
void next_value_on(Context& context, const Tensor& x, const LabelList& ignored, const LabelList& forced,
                   std::int64_t place, Tensor& last, Tensor& y) {
  const std::int64_t rows = last.count();
  if (rows == 0) return;
  dispatch_float(x.dtype(), "next_value", [&]<class T>() {
    Backend::reduce_channels(context, Broadcast{1, rows, x.count() / rows},
                             detail::NextValue<T>{ignored, forced, place, y.count() / rows, x.data<T>(),
                                                  last.data<double>(), y.data<T>()});
  });
}

template <class Backend>
void note_finite_on(Context& context, const Tensor& last, Tensor& noted) {
  require_count("note_finite", noted, 2);
  Backend::reduce_all(context, last.count(),
                      detail::FindFinite{{noted.data<double>(), 0}, last.data<double>()});
}

template <class Backend>
void bias_channels_on(Context& context, const Tensor& x, const Tensor& labels, const Channels& over,
                      const ChannelBias& bias, Tensor& y, Tensor& noted) {
  require_count("bias_channels", x, over.outer * over.channels * over.inner);
  require_alike("bias_channels", x, y);
  require_count("bias_channels, labels", labels, over.outer * (bias.lists ? bias.each : over.inner));
  require_count("bias_channels, noted", noted, 3);
  const Channels of_labels{over.outer, over.channels, bias.lists ? bias.each : over.inner};
  dispatch_float(x.dtype(), "bias_channels", [&]<class T>() {
    Backend::for_each(context, x.count(),
                      detail::BiasChannels<T>{over, bias, x.data<T>(), labels.data<T>(), y.data<T>()});
    Backend::reduce_all(
        context, labels.count(),
        detail::FindStrayLabel<T>{
            {noted.data<double>(), of_labels.inner}, of_labels.channels, bias.ignored, labels.data<T>()});
  });
}

template <class Backend>
void scheduled_value_on(Context& context, const IterationSchedule& schedule, const std::uint64_t* draw,
                        Tensor& value) {
  require_count("scheduled_value", value, 1);
  dispatch_float(value.dtype(), "scheduled_value", [&]<class T>() {
    Backend::for_each(context, 1, detail::ScheduledValue<T>{schedule, draw, value.data<T>()});
  });
}

template <class Backend>
void add_at_labels_on(Context& context, const Tensor& labels, const Channels& over, const Tensor& bias,
                      Tensor& y, Tensor& noted) {
  require_count("add_at_labels, bias", bias, 1);
  require_count("add_at_labels", y, over.outer * over.channels * over.inner);
  require_count("add_at_labels, labels", labels, over.outer * over.inner);
  require_count("add_at_labels, noted", noted, 3);
  dispatch_float(y.dtype(), "add_at_labels", [&]<class T>() {
    Backend::for_each(context, labels.count(),
                      detail::AddAtLabels<T>{over, bias.data<T>(), labels.data<T>(), y.data<T>()});
    Backend::reduce_all(
        context, labels.count(),
        detail::FindStrayLabel<T>{
            {noted.data<double>(), over.inner}, over.channels, LabelList{}, labels.data<T>()});
  });
}

template <class Backend>
void rescale_by_labels_on(Context& context, const Tensor& x, const Tensor& labels, const Channels& over,
                          const Tensor& own, double others, Tensor& y, Tensor& noted) {
  detail::require_positions("rescale_by_labels", x, labels, over);
  require_alike("rescale_by_labels", x, y);
  require_count("rescale_by_labels, own", own, 1);
  require_count("rescale_by_labels, noted", noted, 3);
  dispatch_float(x.dtype(), "rescale_by_labels", [&]<class T>() {
    Backend::for_each(context, x.count(),
                      detail::RescaleByLabels<T>{over, static_cast<T>(others), own.data<T>(), x.data<T>(),
                                                 labels.data<T>(), y.data<T>()});
    Backend::reduce_all(
        context, labels.count(),
        detail::FindStrayLabel<T>{
            {noted.data<double>(), over.inner}, over.channels, LabelList{}, labels.data<T>()});
  });
}

template <class Backend>
struct DefineLabelMaps {
  DefineLabelMaps() {
    count_agreement.define(Backend::kind, &count_agreement_on<Backend>);
    agreement.define(Backend::kind, &agreement_on<Backend>);
    predicted_classes.define(Backend::kind, &predicted_classes_on<Backend>);
    confusion_counts.define(Backend::kind, &confusion_counts_on<Backend>);
    row_shares.define(Backend::kind, &row_shares_on<Backend>);
    wrong_positions.define(Backend::kind, &wrong_positions_on<Backend>);
    add_earlier_counts.define(Backend::kind, &add_earlier_counts_on<Backend>);
    next_value.define(Backend::kind, &next_value_on<Backend>);
    note_finite.define(Backend::kind, &note_finite_on<Backend>);
    bias_channels.define(Backend::kind, &bias_channels_on<Backend>);
    scheduled_value.define(Backend::kind, &scheduled_value_on<Backend>);
    rescale_by_labels.define(Backend::kind, &rescale_by_labels_on<Backend>);
    add_at_labels.define(Backend::kind, &add_at_labels_on<Backend>);
  }
};

}  // namespace banyan::ops
