// The memory of online instance matching, for every back end (see backend.hpp).
#pragma once

#include "banyan/ops/matching.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"
#include "ops/common/index_below.hpp"

namespace banyan::ops {
namespace detail {

template <class T>
struct KnownLabel {
  std::int64_t classes;
  const T* labels;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t n) const {
    y[n] = index_below(labels[n], classes) >= 0 ? labels[n] : T(-1);
  }
};

/// Of a piece of the first sample of each class: it writes what all samples of the class leave.
template <class T>
struct FollowRows {
  std::int64_t classes, length, samples, run, runs;
  T momentum;
  const T *x, *labels;
  T* table;
  BANYAN_HOST_DEVICE void operator()(std::int64_t number) const {
    const std::int64_t sample = number / runs, first = number % runs * run;
    const std::int64_t end = first + run < length ? first + run : length;
    const std::int64_t row = index_below(labels[sample], classes);
    if (row < 0) return;
    for (std::int64_t n = 0; n < sample; ++n)
      if (labels[n] == labels[sample]) return;
    T* const to = table + row * length;
    for (std::int64_t n = sample; n < samples; ++n) {
      if (labels[n] != labels[sample]) continue;
      for (std::int64_t k = first; k < end; ++k)
        to[k] = momentum * to[k] + (T(1) - momentum) * x[n * length + k];
    }
  }
};

template <class T>
struct CountAges {
  std::int64_t samples;
  const T* labels;
  T* ages;
  BANYAN_HOST_DEVICE void operator()(std::int64_t row) const {
    T age = ages[row] + T(1);
    for (std::int64_t n = 0; n < samples; ++n)
      if (labels[n] == static_cast<T>(row)) age = T(0);
    ages[row] = age;
  }
};

BANYAN_HOST_DEVICE inline std::int64_t place_in_queue(double tail, std::int64_t places) {
  const auto place = static_cast<std::int64_t>(tail);
  return place >= 0 && place < places ? place : 0;
}

/// Of a sample; of those that meet in a row, the last one is written.
template <class T>
struct EnqueueRow {
  std::int64_t places, length, samples;
  const T *x, *labels, *tail;
  T* queue;
  BANYAN_HOST_DEVICE void operator()(std::int64_t sample) const {
    if (labels[sample] != T(-1)) return;
    std::int64_t before = 0, after = 0;
    for (std::int64_t n = 0; n < samples; ++n)
      if (labels[n] == T(-1)) {
        before += n < sample ? 1 : 0;
        after += n > sample ? 1 : 0;
      }
    if (after >= places) return;
    const std::int64_t row = (place_in_queue(static_cast<double>(tail[0]), places) + before) % places;
    for (std::int64_t k = 0; k < length; ++k) queue[row * length + k] = x[sample * length + k];
  }
};
template <class T>
struct MoveTail {
  std::int64_t places, samples;
  const T* labels;
  T* tail;
  BANYAN_HOST_DEVICE void operator()(std::int64_t) const {
    std::int64_t place = place_in_queue(static_cast<double>(tail[0]), places);
    for (std::int64_t n = 0; n < samples; ++n) place += labels[n] == T(-1) ? 1 : 0;
    tail[0] = static_cast<T>(place % places);
  }
};

}  // namespace detail

template <class Backend>
void known_labels_on(Context& context, const Tensor& labels, std::int64_t classes, Tensor& y) {
  require_count("known_labels", y, labels.count());
  dispatch_float(labels.dtype(), "known_labels", [&]<class T>() {
    Backend::for_each(context, labels.count(), detail::KnownLabel<T>{classes, labels.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void follow_rows_on(Context& context, const Tensor& x, const Tensor& labels, double momentum, Tensor& table) {
  const std::int64_t classes = table.shape()[0], length = table.shape().count(1), samples = labels.count();
  require_count("follow_rows", x, samples * length);
  if (x.count() == 0) return;
  // Neighbours on the CPU: memory is read in order.
  const std::int64_t run = Backend::kind == DeviceKind::cpu ? 64 : 1, runs = (length + run - 1) / run;
  dispatch_float(x.dtype(), "follow_rows", [&]<class T>() {
    Backend::for_each_long(
        context, samples * runs, run + samples,
        detail::FollowRows<T>{classes, length, samples, run, runs, static_cast<T>(momentum), x.data<T>(),
                              labels.data<T>(), table.data<T>()});
  });
}

template <class Backend>
void count_ages_on(Context& context, const Tensor& labels, Tensor& ages) {
  dispatch_float(labels.dtype(), "count_ages", [&]<class T>() {
    Backend::for_each_long(context, ages.count(), labels.count() + 1,
                           detail::CountAges<T>{labels.count(), labels.data<T>(), ages.data<T>()});
  });
}

template <class Backend>
void enqueue_rows_on(Context& context, const Tensor& x, const Tensor& labels, Tensor& queue, Tensor& tail) {
  const std::int64_t places = queue.shape()[0], length = queue.shape().count(1), samples = labels.count();
  require_count("enqueue_rows", x, samples * length);
  require_count("enqueue_rows, tail", tail, 1);
  dispatch_float(x.dtype(), "enqueue_rows", [&]<class T>() {
    Backend::for_each_long(context, samples, length + samples,
                           detail::EnqueueRow<T>{places, length, samples, x.data<T>(), labels.data<T>(),
                                                 tail.data<T>(), queue.data<T>()});
    Backend::for_each_long(context, 1, samples,
                           detail::MoveTail<T>{places, samples, labels.data<T>(), tail.data<T>()});
  });
}

template <class Backend>
struct DefineMatching {
  DefineMatching() {
    known_labels.define(Backend::kind, &known_labels_on<Backend>);
    follow_rows.define(Backend::kind, &follow_rows_on<Backend>);
    count_ages.define(Backend::kind, &count_ages_on<Backend>);
    enqueue_rows.define(Backend::kind, &enqueue_rows_on<Backend>);
  }
};

}  // namespace banyan::ops
