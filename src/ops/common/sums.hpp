// What reducers that add up have in common (see backend.hpp). Sums are accumulated in f64.
#pragma once

#include "ops/common/backend.hpp"

namespace banyan::ops {

struct Identity {
  BANYAN_HOST_DEVICE static double of(double x) { return x; }
};
struct Magnitude {
  BANYAN_HOST_DEVICE static double of(double x) { return x < 0 ? -x : x; }
};
struct Square {
  BANYAN_HOST_DEVICE static double of(double x) { return x * x; }
};
struct NotFinite {  // x - x is 0 only if x is finite
  BANYAN_HOST_DEVICE static double of(double x) { return x - x == 0 ? 0 : 1; }
};

/// Values: a pointer, or what has [] like one.
template <class Values, class Term>
struct SumOf {
  struct State {
    double sum;
  };
  Values x;
  double* result;
  BANYAN_HOST_DEVICE State identity() const { return {0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t) const {
    s.sum += Term::of(static_cast<double>(x[i]));
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const { into.sum += later.sum; }
  BANYAN_HOST_DEVICE void store(std::int64_t d, const State& s) const { result[d] = s.sum; }
};

template <class T>
struct Differences {
  const T *a, *b;
  BANYAN_HOST_DEVICE T operator[](std::int64_t i) const { return a[i] - b[i]; }
};

/// In f64, which the products of other types fit into.
template <class T>
struct Products {
  const T *a, *b;
  BANYAN_HOST_DEVICE double operator[](std::int64_t i) const {
    return static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
};

/// Adds to the gradient of a channel's parameter. Input: the functor of the gradient of x, which knows what
/// each element adds. kInput: that too, element by element as they are added.
template <class Input, class A, bool kInput>
struct ChannelGradient {
  struct State {
    double sum;
  };
  Input input;
  A* gradient;
  BANYAN_HOST_DEVICE State identity() const { return {0}; }
  BANYAN_HOST_DEVICE void add(State& s, std::int64_t i, std::int64_t d) const {
    s.sum += input.of_parameter(i);
    if constexpr (kInput) input(i, d);  // last: dx may be dy
  }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const { into.sum += later.sum; }
  BANYAN_HOST_DEVICE void store(std::int64_t d, const State& s) const {
    gradient[d] += static_cast<A>(s.sum);
  }
};
template <bool kInput, class Input, class A>
ChannelGradient<Input, A, kInput> channel_gradient(const Input& input, A* gradient) {
  return {input, gradient};
}

/// A loss's `partial`: its sum, and how many it counts.
struct LossSum {
  struct State {
    double loss, counted;
  };
  double* partial;
  BANYAN_HOST_DEVICE State identity() const { return {0, 0}; }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const {
    into.loss += later.loss;
    into.counted += later.counted;
  }
  BANYAN_HOST_DEVICE void store(std::int64_t, const State& s) const {
    partial[0] = s.loss;
    partial[1] = s.counted;
  }
};

/// The same where it is known how many count.
struct LossSumOverAll {
  struct State {
    double sum;
  };
  double count;
  double* partial;
  BANYAN_HOST_DEVICE State identity() const { return {0}; }
  BANYAN_HOST_DEVICE void merge(State& into, const State& later) const { into.sum += later.sum; }
  BANYAN_HOST_DEVICE void store(std::int64_t, const State& s) const {
    partial[0] = s.sum;
    partial[1] = count;
  }
};

}  // namespace banyan::ops
