#include "banyan/observe/overlap.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>

namespace banyan {
namespace {

enum Activeness : std::uint8_t {
  in_iteration,
  in_layer,
  in_statistics,
  in_divisor,
  in_flight,
  in_update,
  in_data,
  in_skew,
  kActivities
};

/// A point at which something begins (+1) or ends (-1).
struct Change {
  std::int64_t at;
  Activeness what;
  int step;
  std::int64_t iteration;
};

/// What the span counts towards; kActivities: nothing.
Activeness meaning_of(const TimeSpan& span) {
  switch (span.kind) {
    case SpanKind::iteration:
      return in_iteration;
    case SpanKind::forward:
    case SpanKind::backward:
    case SpanKind::recompute:
      return in_layer;
    case SpanKind::exchange:
      return std::string_view(span.detail) == "divisor" ? in_divisor : in_statistics;
    case SpanKind::climb:
    case SpanKind::descent:
      return in_flight;
    case SpanKind::update:
      return in_update;
    case SpanKind::data:
      return in_data;
    default:
      return kActivities;
  }
}

template <class Visit>
void for_each_span(const Timeline& timeline, int device, Visit&& visit) {
  for (const Track* track : timeline.tracks())
    if (track->device() == device)
      track->for_each([&](const TimeSpan& span) {
        if (span.begin.load(std::memory_order_relaxed) != 0 && span.end.load(std::memory_order_relaxed) != 0)
          visit(span);
      });
}

/// A meeting of devices: iteration, layer, direction and, for iter_size, how many came before it.
using Occasion = std::tuple<std::int64_t, std::string, std::string, int>;
struct Stay {
  std::int64_t begin, end;
};

/// When a device was in each of its exchanges; for each iteration also the time after its last backward span.
std::map<Occasion, Stay> occasions_of(const Timeline& timeline, int device) {
  std::map<Occasion, Stay> occasions;
  for_each_span(timeline, device, [&](const TimeSpan& span) {
    const Stay stay{span.begin.load(std::memory_order_relaxed), span.end.load(std::memory_order_relaxed)};
    Occasion key{span.iteration, *span.name, span.detail, 0};
    if (span.kind == SpanKind::backward)
      occasions[{span.iteration, "", "backward", 0}] = {stay.end, std::numeric_limits<std::int64_t>::max()};
    if (span.kind != SpanKind::exchange) return;
    while (occasions.contains(key)) ++std::get<int>(key);
    occasions[key] = stay;
  });
  return occasions;
}

/// The stretches during which this device waits at a meeting that another device has not reached yet.
void add_skew(const Timeline& timeline, int device, std::vector<Change>& changes) {
  std::map<Occasion, Stay> mine = occasions_of(timeline, device);
  std::map<Occasion, std::int64_t> last;
  for (int other = 0; other < static_cast<int>(timeline.devices().size()); ++other)
    for (const auto& [occasion, stay] : occasions_of(timeline, other)) {
      std::int64_t& latest = last[occasion];
      latest = std::max(latest, stay.begin);
    }
  for (const auto& [occasion, stay] : mine) {
    const std::int64_t end = std::min(stay.end, last[occasion]);
    if (end <= stay.begin) continue;
    changes.push_back({stay.begin, in_skew, 1, std::get<0>(occasion)});
    changes.push_back({end, in_skew, -1, std::get<0>(occasion)});
  }
}

std::vector<Change> changes_of(const Timeline& timeline, int device) {
  std::vector<Change> changes;
  for_each_span(timeline, device, [&](const TimeSpan& span) {
    const Activeness what = meaning_of(span);
    if (what == kActivities) return;
    changes.push_back({span.begin.load(std::memory_order_relaxed), what, 1, span.iteration});
    changes.push_back({span.end.load(std::memory_order_relaxed), what, -1, span.iteration});
  });
  add_skew(timeline, device, changes);
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Change& a, const Change& b) { return a.at < b.at; });
  return changes;
}

using Active = std::array<int, kActivities>;

/// Assigns a stretch of time to the first share that applies.
void book(const Active& active, double milliseconds, IterationShares& shares) {
  const bool exchanges = active[in_statistics] > 0 || active[in_divisor] > 0;
  const bool computes = active[in_layer] > 0 && !exchanges;
  shares.total += milliseconds;
  double& share = active[in_statistics] > 0 ? shares.statistics
                  : active[in_divisor] > 0  ? shares.divisors
                  : computes                ? shares.compute
                  : active[in_update] > 0   ? shares.update
                  : active[in_flight] > 0   ? shares.gradients
                  : active[in_data] > 0     ? shares.data
                                            : shares.other;
  share += milliseconds;
  if (computes && active[in_flight] > 0) shares.hidden += milliseconds;
  const bool communicates =
      &share == &shares.statistics || &share == &shares.divisors || &share == &shares.gradients;
  if (communicates && active[in_skew] > 0) shares.skew += milliseconds;
}

}  // namespace

std::vector<IterationShares> measure_overlap(const Timeline& timeline, int device) {
  std::vector<IterationShares> iterations;
  Active active{};
  std::int64_t before = 0;
  for (const Change& change : changes_of(timeline, device)) {
    if (active[in_iteration] > 0)
      book(active, static_cast<double>(change.at - before) / 1e6, iterations.back());
    if (change.what == in_iteration && change.step > 0) {
      iterations.emplace_back();
      iterations.back().iteration = change.iteration;
      iterations.back().begin = change.at;
    }
    active[change.what] += change.step;
    before = change.at;
  }
  return iterations;
}

std::vector<LayerTime> measure_layers(const Timeline& timeline, int device, std::int64_t first) {
  std::vector<LayerTime> layers;
  for_each_span(timeline, device, [&](const TimeSpan& span) {
    const bool forward = span.kind == SpanKind::forward;
    const bool backward = span.kind == SpanKind::backward || span.kind == SpanKind::recompute;
    if (!(forward || backward) || span.iteration < first) return;
    auto found = std::find_if(layers.begin(), layers.end(),
                              [&](const LayerTime& layer) { return layer.layer == *span.name; });
    if (found == layers.end()) found = layers.insert(layers.end(), LayerTime{*span.name});
    const std::int64_t length =
        span.end.load(std::memory_order_relaxed) - span.begin.load(std::memory_order_relaxed);
    (forward ? found->forward : found->backward) += static_cast<double>(length) / 1e6;
  });
  return layers;
}

}  // namespace banyan
