// Losses over classes beside the softmax loss, for every back end (see backend.hpp).
#pragma once

#include "banyan/ops/class_loss.hpp"
#include "ops/common/loss.hpp"
#include "ops/common/optional_data.hpp"
#include "ops/common/target_loss.hpp"

namespace banyan::ops {
namespace detail {

/// 1 for the label's class, -1 for others.
template <class T>
BANYAN_HOST_DEVICE inline T sign_of_class(T label, std::int64_t channel) {
  return label == static_cast<T>(channel) ? T(1) : T(-1);
}

template <class T>
struct HingeLoss : ClassLossSum {
  Channels over;
  bool squared;
  const T *scores, *labels;
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t) const {
    const ElementLabel<T> at(over, labels, i);
    if (!counts(s, at.label, at.position, over, {})) return;
    const double short_of = 1 - static_cast<double>(sign_of_class(at.label, at.channel) * scores[i]);
    const double loss = short_of < 0 ? 0 : short_of;  // NaN stays NaN
    s.loss += squared ? loss * loss : loss;
  }
};

template <class T>
struct HingeLossBackward {
  Channels over;
  bool squared;
  const T *scores, *labels, *grad_loss;
  const double* divisor;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const ElementLabel<T> at(over, labels, i);
    const T sign = sign_of_class(at.label, at.channel), short_of = T(1) - sign * scores[i];
    const bool counts = short_of > T(0) && kind_of(at.label, {}, over.channels) == LabelKind::valid;
    const T slope = squared ? T(2) * short_of : T(1);
    dx[i] = counts ? -sign * slope * loss_scale(grad_loss, divisor) : T(0);
  }
};

/// What a position wants of each class.
struct SmoothedTarget {
  double label, all;
  SmoothedTarget(double smoothing, std::int64_t channels)
      : label(1 - smoothing), all(smoothing / static_cast<double>(channels)) {}
  template <class T>
  BANYAN_HOST_DEVICE T of_class(bool is_label) const {
    return static_cast<T>(is_label ? label + all : all);
  }
};

/// Weights of positions, with a label that is valid.
template <class T>
struct PositionWeights {
  const T *given, *by_class;
  std::int64_t each;  ///< positions that one of `given` is for
  BANYAN_HOST_DEVICE T of(std::int64_t position, T label) const {
    const T by_label = by_class == nullptr ? T(1) : by_class[static_cast<std::int64_t>(label)];
    return given == nullptr ? by_label : by_label * given[position / each];
  }
};

template <class T>
struct SmoothedLoss : ClassLossSum {
  Channels over;
  IgnoreLabel ignore;
  SmoothedTarget target;
  PositionWeights<T> weights;
  const T *probabilities, *labels;
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t position, std::int64_t) const {
    const T label = labels[position];
    if (!counts(s, label, position, over, ignore)) return;
    double loss = target.label * loss_of_label(probabilities, label, position, over, FLT_MIN);
    if (target.all > 0) {
      const T* p = probabilities + first_class(over, position);
      double sum = 0;
      for (std::int64_t c = 0; c < over.channels; ++c) {
        const auto probability = static_cast<double>(p[c * over.inner]);
        sum += std::log(probability < FLT_MIN ? FLT_MIN : probability);
      }
      loss -= target.all * sum;
    }
    s.loss += static_cast<double>(weights.of(position, label)) * loss;
    s.valid += 1;
  }
};

template <class T>
struct SmoothedLossBackward {
  Channels over;
  IgnoreLabel ignore;
  SmoothedTarget target;
  PositionWeights<T> weights;
  const T *probabilities, *labels, *grad_loss;
  const double* divisor;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const ElementLabel<T> at(over, labels, i);
    const bool valid = kind_of(at.label, ignore, over.channels) == LabelKind::valid;
    const T wanted = target.of_class<T>(at.label == static_cast<T>(at.channel));
    const T scale = valid ? weights.of(at.position, at.label) * loss_scale(grad_loss, divisor) : T(0);
    dx[i] = valid ? (probabilities[i] - wanted) * scale : T(0);
  }
};

/// Of the probability p of a position's label, in f64: the loss, and what the gradients p[c] - (c is the
/// label) are multiplied by.
struct LossOfLabel {
  double loss, slope;
};
template <class T>
struct FocalRule {
  FocalLoss focal;
  BANYAN_HOST_DEVICE LossOfLabel of(std::int64_t, T, double p) const {
    const double rest = p < 1 ? 1 - p : 0, least = p < FLT_MIN ? FLT_MIN : p, logarithm = std::log(least);
    const double factor = focal.gamma == 0 ? 1 : std::pow(rest, focal.gamma);
    // Where p is 1, (1 - p)^(gamma - 1) log(p) is 0 for each gamma, too.
    const double lowered = focal.gamma == 0 || rest == 0 ? 0 : focal.gamma * std::pow(rest, focal.gamma - 1);
    return {-focal.alpha * factor * logarithm, focal.alpha * (factor - lowered * p * logarithm)};
  }
};
template <class T>
struct OverlapRule {
  const T* overlaps;
  BANYAN_HOST_DEVICE LossOfLabel of(std::int64_t position, T label, double p) const {
    const double plain = -std::log(p < FLT_MIN ? FLT_MIN : p);
    const auto overlap = static_cast<double>(overlaps[position]);
    if (label == T(0) || overlap <= 0) return {plain, 1};
    const double square = p * p / std::pow(overlap, 0.25);
    return {plain + 0.5 * (square - 1), 1 - square};
  }
};

template <class T, class Rule>
struct RuledLossSum : ClassLossSum {
  Channels over;
  IgnoreLabel ignore;
  Rule rule;
  const T *probabilities, *labels;
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t position, std::int64_t) const {
    const T label = labels[position];
    if (!counts(s, label, position, over, ignore)) return;
    const std::int64_t at = place_of_label(over, position, label);
    s.loss += rule.of(position, label, static_cast<double>(probabilities[at])).loss;
    s.valid += 1;
  }
};

/// One position per index: its label's slope is computed once.
template <class T, class Rule>
struct RuledLossBackward {
  Channels over;
  IgnoreLabel ignore;
  Rule rule;
  const T *probabilities, *labels, *grad_loss;
  const double* divisor;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t position) const {
    const T label = labels[position];
    const bool valid = kind_of(label, ignore, over.channels) == LabelKind::valid;
    const std::int64_t begin = first_class(over, position),
                       own = valid ? place_of_label(over, position, label) : -1;
    const T scale =
        valid ? static_cast<T>(rule.of(position, label, static_cast<double>(probabilities[own])).slope) *
                    loss_scale(grad_loss, divisor)
              : T(0);
    for (std::int64_t c = 0; c < over.channels; ++c) {
      const std::int64_t i = begin + c * over.inner;
      dx[i] = valid ? (probabilities[i] - (i == own ? T(1) : T(0))) * scale : T(0);
    }
  }
};

template <class T>
struct LogisticLossBackward {
  Channels over;
  const T *probabilities, *labels, *grad_loss;
  const double* divisor;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const ElementLabel<T> at(over, labels, i);
    const T least = static_cast<T>(kLeastProbability), p = probabilities[i];
    dx[i] = at.label == static_cast<T>(at.channel) ? -loss_scale(grad_loss, divisor) / (p < least ? least : p)
                                                   : T(0);
  }
};

template <class T>
struct InfogainLoss : ClassLossSum {
  Channels over;
  IgnoreLabel ignore;
  const T *probabilities, *labels, *gains;
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t position, std::int64_t) const {
    const T label = labels[position];
    if (!counts(s, label, position, over, ignore)) return;
    const T* row = gains + static_cast<std::int64_t>(label) * over.channels;
    const T* p = probabilities + first_class(over, position);
    for (std::int64_t c = 0; c < over.channels; ++c) {
      const auto probability = static_cast<double>(p[c * over.inner]);
      s.loss -= static_cast<double>(row[c]) *
                std::log(probability < kLeastProbability ? kLeastProbability : probability);
    }
    s.valid += 1;
  }
};

/// One position per index: the sum of its label's gains is computed once.
template <class T>
struct InfogainLossBackward {
  Channels over;
  IgnoreLabel ignore;
  const T *probabilities, *labels, *gains, *grad_loss;
  const double* divisor;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t position) const {
    const T label = labels[position];
    const bool valid = kind_of(label, ignore, over.channels) == LabelKind::valid;
    const T* row = valid ? gains + static_cast<std::int64_t>(label) * over.channels : gains;
    const T scale = valid ? loss_scale(grad_loss, divisor) : T(0);
    double sum = 0;
    for (std::int64_t c = 0; c < over.channels; ++c) sum += static_cast<double>(row[c]);
    const std::int64_t begin = first_class(over, position);
    for (std::int64_t c = 0; c < over.channels; ++c) {
      const std::int64_t i = begin + c * over.inner;
      dx[i] = valid ? (probabilities[i] * static_cast<T>(sum) - row[c]) * scale : T(0);
    }
  }
};

template <class T>
struct SoftmaxLossOfPosition {
  Channels over;
  IgnoreLabel ignore;
  const T *probabilities, *labels;
  T* losses;
  BANYAN_HOST_DEVICE void operator()(std::int64_t position) const {
    const T label = labels[position];
    const bool valid = kind_of(label, ignore, over.channels) == LabelKind::valid;
    losses[position] =
        valid ? static_cast<T>(loss_of_label(probabilities, label, position, over, FLT_MIN)) : T(0);
  }
};

template <class T>
struct SigmoidLossOfPosition {
  Channels over;
  IgnoreLabel ignore;
  const T *scores, *labels;
  T* losses;
  BANYAN_HOST_DEVICE void operator()(std::int64_t position) const {
    const T* x = scores + first_class(over, position);
    const SigmoidCrossEntropy<T> loss{};
    const bool ignored = kind_of(labels[position], ignore, over.channels) == LabelKind::ignored;
    double sum = 0;
    for (std::int64_t c = 0; !ignored && c < over.channels; ++c) {
      const T target = labels[position] == static_cast<T>(c) ? T(1) : T(0);
      sum += static_cast<double>(loss.value(x[c * over.inner], target, T(1)));
    }
    losses[position] = static_cast<T>(sum);
  }
};

/// What one distance adds to the loss, and to one of the means.
struct DistanceCost {
  double cost, counted, slope;
  BANYAN_HOST_DEVICE DistanceCost(const DistanceMargins& m, double d, bool own) {
    if (own) {
      const double above = d - m.own_margin, positive = above < 0 ? 0 : above;  // NaN stays NaN
      counted = positive > m.own_most ? m.own_most : positive;
      cost = m.own_weight * counted;
      slope = above > 0 && d < m.own_most ? m.own_weight : 0;
      return;
    }
    const double below = m.other_margin - d;
    counted = below < 0 ? 0 : below;
    slope = 0;
    cost = m.other_weight * counted;
    if (!(below > 0)) return;
    if (m.exponential) cost = m.other_weight * std::exp(-d);
    slope = m.exponential ? -cost : -m.other_weight;
  }
};

template <class T>
struct DistanceMarginSums {
  struct State {
    double loss, own, others;
  };
  Channels over;
  DistanceMargins margins;
  const T *distances, *labels;
  double *partial, *means;
  BANYAN_HOST_DEVICE State identity() const { return {0, 0, 0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t) const {
    const ElementLabel<T> at(over, labels, i);
    if (kind_of(at.label, {}, over.channels) != LabelKind::valid) return;
    const bool own = at.label == static_cast<T>(at.channel);
    const DistanceCost cost(margins, static_cast<double>(distances[i]), own);
    s.loss += cost.cost;
    (own ? s.own : s.others) += cost.counted;
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const {
    into.loss += later.loss;
    into.own += later.own;
    into.others += later.others;
  }
  BANYAN_HOST_DEVICE void store(std::int64_t, const State& s) const {
    partial[0] = s.loss;
    partial[1] = 0;
    means[0] = s.own;
    means[1] = over.channels > 1 ? s.others / static_cast<double>(over.channels - 1) : 0;
  }
};

template <class T>
struct DistanceMarginsGradient {
  Channels over;
  DistanceMargins margins;
  const T *distances, *labels, *grad_loss;
  const double* divisor;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const ElementLabel<T> at(over, labels, i);
    const DistanceCost cost(margins, static_cast<double>(distances[i]),
                            at.label == static_cast<T>(at.channel));
    const bool counts = kind_of(at.label, {}, over.channels) == LabelKind::valid;
    dx[i] = counts ? static_cast<T>(cost.slope) * loss_scale(grad_loss, divisor) : T(0);
  }
};

/// Rows of distances, reduced to kTripletNumbers of each: what counts, the label's class (-1: it is out of
/// range), its distance, the sum of the others', and a class that counts, -1 if none does.
template <class T>
struct TripletRows {
  std::int64_t classes;
  double margin;
  const T *distances, *labels;
  double* rows;
  /// One element as seen from its row's label.
  struct Compared {
    bool other;  ///< than the label's class
    std::int64_t at;
    double distance, cost;  ///< cost: if it is another
  };
  BANYAN_HOST_DEVICE Compared compared(std::int64_t i, std::int64_t row) const {
    const std::int64_t begin = row * classes, own = index_below(labels[row], classes), at = i - begin;
    const double limit = static_cast<double>(distances[begin + (own < 0 ? 0 : own)]) + margin;
    const auto distance = static_cast<double>(distances[i]);
    return {own >= 0 && at != own, at, distance, limit - distance};
  }
  BANYAN_HOST_DEVICE void write(std::int64_t row, double cost, double others, double place) const {
    const std::int64_t own = index_below(labels[row], classes);
    double* const to = rows + row * kTripletNumbers;
    to[0] = cost;
    to[1] = static_cast<double>(own);
    to[2] = own < 0 ? 0 : static_cast<double>(distances[row * classes + own]);
    to[3] = others;
    to[4] = place;
  }
};

template <class T>
struct AllTriplets : TripletRows<T> {
  struct State {
    double cost, others;
  };
  BANYAN_HOST_DEVICE State identity() const { return {0, 0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t row) const {
    const auto found = this->compared(i, row);
    const double cost = found.cost <= 0 ? 0 : found.cost;  // NaN stays NaN
    s.cost += found.other ? cost : 0;
    s.others += found.other ? found.distance : 0;
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const {
    into.cost += later.cost;
    into.others += later.others;
  }
  BANYAN_HOST_DEVICE void store(std::int64_t row, const State& s) const {
    this->write(row, s.cost, s.others, s.cost <= 0 ? -1 : 0);
  }
};

template <class T>
struct HardestTriplet : TripletRows<T> {
  struct State {
    double cost, others, place;
  };
  BANYAN_HOST_DEVICE State identity() const { return {0, 0, -1}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t row) const {
    const auto found = this->compared(i, row);
    s.others += found.other ? found.distance : 0;
    choose(s, found.other ? found.cost : 0, static_cast<double>(found.at));
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const {
    into.others += later.others;
    choose(into, later.cost, later.place);
  }
  BANYAN_HOST_DEVICE void store(std::int64_t row, const State& s) const {
    this->write(row, s.cost, s.others, s.place);
  }

 private:
  /// The larger cost, if that is above 0, of equal ones the first; NaN stays NaN.
  BANYAN_HOST_DEVICE static void choose(State& s, double cost, double place) {
    const bool more = s.cost == s.cost && !(cost <= s.cost), first = cost == s.cost && place < s.place;
    s.cost = more ? cost : s.cost;
    s.place = more || first ? place : s.place;
  }
};

struct TripletSums {
  struct State {
    double loss, own, others;
  };
  std::int64_t classes;
  double other_weight;
  const double* rows;
  double *partial, *means;
  BANYAN_HOST_DEVICE State identity() const { return {0, 0, 0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t row, std::int64_t) const {
    const double* const of_row = rows + row * kTripletNumbers;
    s.loss += of_row[0];
    s.own += of_row[2];
    s.others += of_row[3];
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const {
    into.loss += later.loss;
    into.own += later.own;
    into.others += later.others;
  }
  BANYAN_HOST_DEVICE void store(std::int64_t, const State& s) const {
    partial[0] = other_weight * s.loss;
    partial[1] = 0;
    means[0] = s.own;
    means[1] = classes > 1 ? s.others / static_cast<double>(classes - 1) : 0;
  }
};

template <class T>
struct TripletsGradient {
  std::int64_t classes;
  DistanceTriplets triplets;
  const T *distances, *weights;
  const double* rows;
  T* dx;
  T scale;
  BANYAN_HOST_DEVICE void operator()(std::int64_t row, std::int64_t at) const {
    const double* const of_row = rows + row * kTripletNumbers;
    const auto own = static_cast<std::int64_t>(of_row[1]), place = static_cast<std::int64_t>(of_row[4]);
    const double limit = of_row[2] + triplets.margin;
    const std::int64_t i = row * classes + at;
    const double of_own = triplets.always_own || place >= 0 ? triplets.own_weight : 0;
    const double of_other = own < 0 ? 0 : -triplets.other_weight;
    const bool costs = limit - static_cast<double>(distances[i]) > 0;
    const double slope = (triplets.hardest_only ? place == at : costs) ? of_other : 0;
    dx[i] = static_cast<T>(at == own ? of_own : slope) * (weights == nullptr ? scale : weights[row] * scale);
  }
};
/// Divides once for many elements.
template <class T>
struct MakeTripletsGradient {
  TripletsGradient<T> f;
  const T* grad_loss;
  const double* divisor;
  BANYAN_HOST_DEVICE TripletsGradient<T> operator()() const {
    TripletsGradient<T> made = f;
    made.scale = loss_scale(grad_loss, divisor);
    return made;
  }
};

}  // namespace detail

template <class Backend>
void hinge_loss_forward_on(Context& context, const Tensor& scores, const Tensor& labels, const Channels& over,
                           bool squared, Tensor& partial, Tensor& noted) {
  detail::require_positions("hinge_loss_forward", scores, labels, over);
  dispatch_float(scores.dtype(), "hinge_loss_forward", [&]<class T>() {
    Backend::reduce_all(context, scores.count(),
                        detail::HingeLoss<T>{detail::class_loss_sum(over, partial, noted), over, squared,
                                             scores.data<T>(), labels.data<T>()});
  });
}

template <class Backend>
void hinge_loss_backward_on(Context& context, const Tensor& scores, const Tensor& labels,
                            const Channels& over, bool squared, const Tensor& grad_loss,
                            const Tensor& divisor, Tensor& dx) {
  detail::require_positions("hinge_loss_backward", scores, labels, over);
  require_alike("hinge_loss_backward", scores, dx);
  dispatch_float(scores.dtype(), "hinge_loss_backward", [&]<class T>() {
    Backend::for_each(
        context, dx.count(),
        detail::HingeLossBackward<T>{over, squared, scores.data<T>(), labels.data<T>(), grad_loss.data<T>(),
                                     divisor.data<double>(), dx.data<T>()});
  });
}

namespace detail {
template <class T>
PositionWeights<T> position_weights(const LossWeights& weights, const Channels& over) {
  const std::int64_t positions = over.outer * over.inner;
  const bool by_outer = weights.given.defined() && weights.given.count() != positions;
  if (weights.given.defined())
    require_count("weights of positions", weights.given, by_outer ? over.outer : positions);
  if (weights.by_class.defined()) require_count("weights of classes", weights.by_class, over.channels);
  return {optional_data<T>(weights.given), optional_data<T>(weights.by_class),
          by_outer && over.inner > 0 ? over.inner : 1};
}
}  // namespace detail

template <class Backend>
void smoothed_loss_forward_on(Context& context, const Tensor& probabilities, const Tensor& labels,
                              const LossWeights& weights, const Channels& over, const IgnoreLabel& ignore,
                              double smoothing, Tensor& partial, Tensor& noted) {
  detail::require_positions("smoothed_loss_forward", probabilities, labels, over);
  dispatch_float(probabilities.dtype(), "smoothed_loss_forward", [&]<class T>() {
    Backend::reduce_all(context, over.outer * over.inner,
                        detail::SmoothedLoss<T>{detail::class_loss_sum(over, partial, noted), over, ignore,
                                                detail::SmoothedTarget(smoothing, over.channels),
                                                detail::position_weights<T>(weights, over),
                                                probabilities.data<T>(), labels.data<T>()});
  });
}

template <class Backend>
void smoothed_loss_backward_on(Context& context, const Tensor& probabilities, const Tensor& labels,
                               const LossWeights& weights, const Channels& over, const IgnoreLabel& ignore,
                               double smoothing, const Tensor& grad_loss, const Tensor& divisor, Tensor& dx) {
  detail::require_positions("smoothed_loss_backward", probabilities, labels, over);
  require_alike("smoothed_loss_backward", probabilities, dx);
  dispatch_float(probabilities.dtype(), "smoothed_loss_backward", [&]<class T>() {
    Backend::for_each(context, dx.count(),
                      detail::SmoothedLossBackward<T>{
                          over, ignore, detail::SmoothedTarget(smoothing, over.channels),
                          detail::position_weights<T>(weights, over), probabilities.data<T>(),
                          labels.data<T>(), grad_loss.data<T>(), divisor.data<double>(), dx.data<T>()});
  });
}

namespace detail {

template <class Backend, class T, class Rule>
void add_ruled_loss(Context& context, const Tensor& probabilities, const Tensor& labels, const Channels& over,
                    const IgnoreLabel& ignore, const Rule& rule, Tensor& partial, Tensor& noted) {
  Backend::reduce_all(context, over.outer * over.inner,
                      RuledLossSum<T, Rule>{class_loss_sum(over, partial, noted), over, ignore, rule,
                                            probabilities.data<T>(), labels.data<T>()});
}
template <class Backend, class T, class Rule>
void write_ruled_gradient(Context& context, const Tensor& probabilities, const Tensor& labels,
                          const Channels& over, const IgnoreLabel& ignore, const Rule& rule,
                          const Tensor& grad_loss, const Tensor& divisor, Tensor& dx) {
  Backend::for_each_long(
      context, over.outer * over.inner, over.channels,
      RuledLossBackward<T, Rule>{over, ignore, rule, probabilities.data<T>(), labels.data<T>(),
                                 grad_loss.data<T>(), divisor.data<double>(), dx.data<T>()});
}

}  // namespace detail

template <class Backend>
void focal_loss_forward_on(Context& context, const Tensor& probabilities, const Tensor& labels,
                           const Channels& over, const IgnoreLabel& ignore, const FocalLoss& focal,
                           Tensor& partial, Tensor& noted) {
  detail::require_positions("focal_loss_forward", probabilities, labels, over);
  dispatch_float(probabilities.dtype(), "focal_loss_forward", [&]<class T>() {
    detail::add_ruled_loss<Backend, T>(context, probabilities, labels, over, ignore,
                                       detail::FocalRule<T>{focal}, partial, noted);
  });
}

template <class Backend>
void focal_loss_backward_on(Context& context, const Tensor& probabilities, const Tensor& labels,
                            const Channels& over, const IgnoreLabel& ignore, const FocalLoss& focal,
                            const Tensor& grad_loss, const Tensor& divisor, Tensor& dx) {
  detail::require_positions("focal_loss_backward", probabilities, labels, over);
  require_alike("focal_loss_backward", probabilities, dx);
  dispatch_float(probabilities.dtype(), "focal_loss_backward", [&]<class T>() {
    detail::write_ruled_gradient<Backend, T>(context, probabilities, labels, over, ignore,
                                             detail::FocalRule<T>{focal}, grad_loss, divisor, dx);
  });
}

template <class Backend>
void overlap_loss_forward_on(Context& context, const Tensor& probabilities, const Tensor& labels,
                             const Tensor& overlaps, const Channels& over, const IgnoreLabel& ignore,
                             Tensor& partial, Tensor& noted) {
  detail::require_positions("overlap_loss_forward", probabilities, labels, over);
  require_count("overlap_loss_forward, overlaps", overlaps, labels.count());
  dispatch_float(probabilities.dtype(), "overlap_loss_forward", [&]<class T>() {
    detail::add_ruled_loss<Backend, T>(context, probabilities, labels, over, ignore,
                                       detail::OverlapRule<T>{overlaps.data<T>()}, partial, noted);
  });
}

template <class Backend>
void overlap_loss_backward_on(Context& context, const Tensor& probabilities, const Tensor& labels,
                              const Tensor& overlaps, const Channels& over, const IgnoreLabel& ignore,
                              const Tensor& grad_loss, const Tensor& divisor, Tensor& dx) {
  detail::require_positions("overlap_loss_backward", probabilities, labels, over);
  require_count("overlap_loss_backward, overlaps", overlaps, labels.count());
  require_alike("overlap_loss_backward", probabilities, dx);
  dispatch_float(probabilities.dtype(), "overlap_loss_backward", [&]<class T>() {
    detail::write_ruled_gradient<Backend, T>(context, probabilities, labels, over, ignore,
                                             detail::OverlapRule<T>{overlaps.data<T>()}, grad_loss, divisor,
                                             dx);
  });
}

template <class Backend>
void logistic_loss_forward_on(Context& context, const Tensor& probabilities, const Tensor& labels,
                              const Channels& over, Tensor& partial, Tensor& noted) {
  detail::require_positions("logistic_loss_forward", probabilities, labels, over);
  dispatch_float(probabilities.dtype(), "logistic_loss_forward", [&]<class T>() {
    using Sum = detail::SoftmaxLoss<T>;
    Backend::reduce_all(context, over.outer * over.inner,
                        Sum{detail::class_loss_sum(over, partial, noted), over, IgnoreLabel{},
                            kLeastProbability, probabilities.data<T>(), labels.data<T>()});
  });
}

template <class Backend>
void logistic_loss_backward_on(Context& context, const Tensor& probabilities, const Tensor& labels,
                               const Channels& over, const Tensor& grad_loss, const Tensor& divisor,
                               Tensor& dx) {
  detail::require_positions("logistic_loss_backward", probabilities, labels, over);
  require_alike("logistic_loss_backward", probabilities, dx);
  dispatch_float(probabilities.dtype(), "logistic_loss_backward", [&]<class T>() {
    Backend::for_each(
        context, dx.count(),
        detail::LogisticLossBackward<T>{over, probabilities.data<T>(), labels.data<T>(), grad_loss.data<T>(),
                                        divisor.data<double>(), dx.data<T>()});
  });
}

template <class Backend>
void infogain_loss_forward_on(Context& context, const Tensor& probabilities, const Tensor& labels,
                              const Tensor& gains, const Channels& over, const IgnoreLabel& ignore,
                              Tensor& partial, Tensor& noted) {
  detail::require_positions("infogain_loss_forward", probabilities, labels, over);
  require_count("infogain_loss_forward, gains", gains, over.channels * over.channels);
  dispatch_float(probabilities.dtype(), "infogain_loss_forward", [&]<class T>() {
    Backend::reduce_all(context, over.outer * over.inner,
                        detail::InfogainLoss<T>{detail::class_loss_sum(over, partial, noted), over, ignore,
                                                probabilities.data<T>(), labels.data<T>(), gains.data<T>()});
  });
}

template <class Backend>
void infogain_loss_backward_on(Context& context, const Tensor& probabilities, const Tensor& labels,
                               const Tensor& gains, const Channels& over, const IgnoreLabel& ignore,
                               const Tensor& grad_loss, const Tensor& divisor, Tensor& dx) {
  detail::require_positions("infogain_loss_backward", probabilities, labels, over);
  require_count("infogain_loss_backward, gains", gains, over.channels * over.channels);
  require_alike("infogain_loss_backward", probabilities, dx);
  dispatch_float(probabilities.dtype(), "infogain_loss_backward", [&]<class T>() {
    Backend::for_each(context, over.outer * over.inner,
                      detail::InfogainLossBackward<T>{over, ignore, probabilities.data<T>(), labels.data<T>(),
                                                      gains.data<T>(), grad_loss.data<T>(),
                                                      divisor.data<double>(), dx.data<T>()});
  });
}

template <class Backend>
void distance_margins_forward_on(Context& context, const Tensor& distances, const Tensor& labels,
                                 const Channels& over, const DistanceMargins& margins, Tensor& partial,
                                 Tensor& means, Tensor& noted) {
  detail::require_positions("distance_margins_forward", distances, labels, over);
  require_count("distance_margins_forward, partial", partial, 2);
  require_count("distance_margins_forward, means", means, 2);
  require_count("distance_margins_forward, noted", noted, 3);
  dispatch_float(distances.dtype(), "distance_margins_forward", [&]<class T>() {
    Backend::reduce_all(context, distances.count(),
                        detail::DistanceMarginSums<T>{over, margins, distances.data<T>(), labels.data<T>(),
                                                      partial.data<double>(), means.data<double>()});
    Backend::reduce_all(
        context, labels.count(),
        detail::FindWrongLabel<T>{{noted.data<double>(), over.inner}, over.channels, {}, labels.data<T>()});
  });
}

template <class Backend>
void distance_margins_backward_on(Context& context, const Tensor& distances, const Tensor& labels,
                                  const Channels& over, const DistanceMargins& margins,
                                  const Tensor& grad_loss, const Tensor& divisor, Tensor& dx) {
  detail::require_positions("distance_margins_backward", distances, labels, over);
  require_alike("distance_margins_backward", distances, dx);
  dispatch_float(distances.dtype(), "distance_margins_backward", [&]<class T>() {
    Backend::for_each(
        context, dx.count(),
        detail::DistanceMarginsGradient<T>{over, margins, distances.data<T>(), labels.data<T>(),
                                           grad_loss.data<T>(), divisor.data<double>(), dx.data<T>()});
  });
}

template <class Backend>
void distance_triplets_forward_on(Context& context, const Tensor& distances, const Tensor& labels,
                                  const Channels& over, const DistanceTriplets& triplets, Tensor& rows,
                                  Tensor& partial, Tensor& means, Tensor& noted) {
  constexpr const char* kWhat = "distance_triplets_forward";
  detail::require_positions(kWhat, distances, labels, over);
  require_count(kWhat, labels, over.outer);
  require_count("distance_triplets_forward, rows", rows, over.outer * kTripletNumbers);
  require_count("distance_triplets_forward, partial", partial, 2);
  require_count("distance_triplets_forward, means", means, 2);
  require_count("distance_triplets_forward, noted", noted, 3);
  dispatch_float(distances.dtype(), kWhat, [&]<class T>() {
    const detail::TripletRows<T> row{over.channels, triplets.margin, distances.data<T>(), labels.data<T>(),
                                     rows.data<double>()};
    const Broadcast by_row{1, over.outer, over.channels};
    if (triplets.hardest_only)
      Backend::reduce_channels(context, by_row, detail::HardestTriplet<T>{row});
    else
      Backend::reduce_channels(context, by_row, detail::AllTriplets<T>{row});
    Backend::reduce_all(context, over.outer,
                        detail::TripletSums{over.channels, triplets.other_weight, rows.data<double>(),
                                            partial.data<double>(), means.data<double>()});
    Backend::reduce_all(
        context, over.outer,
        detail::FindWrongLabel<T>{{noted.data<double>(), 1}, over.channels, {}, labels.data<T>()});
  });
}

template <class Backend>
void distance_triplets_backward_on(Context& context, const Tensor& distances, const Tensor& weights,
                                   const Channels& over, const DistanceTriplets& triplets, const Tensor& rows,
                                   const Tensor& grad_loss, const Tensor& divisor, Tensor& dx) {
  constexpr const char* kWhat = "distance_triplets_backward";
  require_count(kWhat, distances, over.outer * over.channels);
  require_count("distance_triplets_backward, rows", rows, over.outer * kTripletNumbers);
  if (weights.defined()) require_count("distance_triplets_backward, weights", weights, over.outer);
  require_alike(kWhat, distances, dx);
  dispatch_float(distances.dtype(), kWhat, [&]<class T>() {
    Backend::for_each_made(context, over.outer, over.channels,
                           detail::MakeTripletsGradient<T>{
                               {over.channels, triplets, distances.data<T>(),
                                detail::optional_data<T>(weights), rows.data<double>(), dx.data<T>(), T(0)},
                               grad_loss.data<T>(),
                               divisor.data<double>()});
  });
}

template <class Backend>
void position_losses_on(Context& context, const Tensor& x, const Tensor& labels, const Channels& over,
                        const IgnoreLabel& ignore, bool sigmoid, Tensor& losses) {
  detail::require_positions("position_losses", x, labels, over);
  require_count("position_losses", losses, labels.count());
  dispatch_float(x.dtype(), "position_losses", [&]<class T>() {
    const T *values = x.data<T>(), *classes = labels.data<T>();
    if (sigmoid)
      Backend::for_each(context, labels.count(),
                        detail::SigmoidLossOfPosition<T>{over, ignore, values, classes, losses.data<T>()});
    else
      Backend::for_each(context, labels.count(),
                        detail::SoftmaxLossOfPosition<T>{over, ignore, values, classes, losses.data<T>()});
  });
}

/// All but smoothed_loss_backward, for which CPU devices have a version of their own.
template <class Backend>
struct DefineClassLoss {
  DefineClassLoss() {
    hinge_loss_forward.define(Backend::kind, &hinge_loss_forward_on<Backend>);
    hinge_loss_backward.define(Backend::kind, &hinge_loss_backward_on<Backend>);
    smoothed_loss_forward.define(Backend::kind, &smoothed_loss_forward_on<Backend>);
    focal_loss_forward.define(Backend::kind, &focal_loss_forward_on<Backend>);
    focal_loss_backward.define(Backend::kind, &focal_loss_backward_on<Backend>);
    overlap_loss_forward.define(Backend::kind, &overlap_loss_forward_on<Backend>);
    overlap_loss_backward.define(Backend::kind, &overlap_loss_backward_on<Backend>);
    logistic_loss_forward.define(Backend::kind, &logistic_loss_forward_on<Backend>);
    logistic_loss_backward.define(Backend::kind, &logistic_loss_backward_on<Backend>);
    infogain_loss_forward.define(Backend::kind, &infogain_loss_forward_on<Backend>);
    infogain_loss_backward.define(Backend::kind, &infogain_loss_backward_on<Backend>);
    distance_margins_forward.define(Backend::kind, &distance_margins_forward_on<Backend>);
    distance_margins_backward.define(Backend::kind, &distance_margins_backward_on<Backend>);
    distance_triplets_forward.define(Backend::kind, &distance_triplets_forward_on<Backend>);
    distance_triplets_backward.define(Backend::kind, &distance_triplets_backward_on<Backend>);
    position_losses.define(Backend::kind, &position_losses_on<Backend>);
  }
};

}  // namespace banyan::ops
