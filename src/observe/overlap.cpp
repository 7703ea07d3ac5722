#include "banyan/observe/overlap.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

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
Activeness meaning_of(const RecordedSpan& span) {
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

/// A meeting of devices: iteration, layer, direction and, for iter_size, how many came before it.
using Occasion = std::tuple<std::int64_t, std::string, std::string, int>;
struct Stay {
  std::int64_t begin, end;
};

using Occasions = std::map<Occasion, Stay>;

/// When a device was in each of its exchanges; for each iteration also the time after its last backward span.
Occasions occasions_of(const std::vector<RecordedSpan>& spans) {
  Occasions occasions;
  for (const RecordedSpan& span : spans) {
    const Stay stay{span.begin, span.end};
    if (span.kind == SpanKind::backward)
      occasions[{span.iteration, "", "backward", 0}] = {stay.end, std::numeric_limits<std::int64_t>::max()};
    if (span.kind != SpanKind::exchange) continue;
    Occasion key{span.iteration, *span.name, span.detail, 0};
    while (occasions.contains(key)) ++std::get<int>(key);
    occasions[key] = stay;
  }
  return occasions;
}

/// When the last device reached each of them.
std::map<Occasion, std::int64_t> last_arrivals(const std::vector<Occasions>& devices) {
  std::map<Occasion, std::int64_t> last;
  for (const Occasions& occasions : devices)
    for (const auto& [occasion, stay] : occasions) {
      std::int64_t& latest = last[occasion];
      latest = std::max(latest, stay.begin);
    }
  return last;
}

/// The stretches during which a device waits at a meeting that another one has not reached yet.
void add_skew(const Occasions& mine, const std::map<Occasion, std::int64_t>& last,
              std::vector<Change>& changes) {
  for (const auto& [occasion, stay] : mine) {
    const std::int64_t end = std::min(stay.end, last.at(occasion));
    if (end <= stay.begin) continue;
    changes.push_back({stay.begin, in_skew, 1, std::get<0>(occasion)});
    changes.push_back({end, in_skew, -1, std::get<0>(occasion)});
  }
}

std::vector<Change> changes_of(const std::vector<RecordedSpan>& spans) {
  std::vector<Change> changes;
  for (const RecordedSpan& span : spans) {
    const Activeness what = meaning_of(span);
    if (what == kActivities) continue;
    changes.push_back({span.begin, what, 1, span.iteration});
    changes.push_back({span.end, what, -1, span.iteration});
  }
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

std::vector<IterationShares> shares_of(std::vector<Change> changes) {
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Change& a, const Change& b) { return a.at < b.at; });
  std::vector<IterationShares> iterations;
  Active active{};
  std::int64_t before = 0;
  for (const Change& change : changes) {
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

constexpr ShareFigure kFigures[] = {
    {"compute", "compute", [](const IterationShares& s) { return s.compute; }},
    {"exposed communication", "exposed",
     [](const IterationShares& s) { return s.statistics + s.divisors + s.gradients; }},
    {"  SyncBN exchange", "exposed_sync_bn", [](const IterationShares& s) { return s.statistics; }},
    {"  loss divisors", "exposed_divisors", [](const IterationShares& s) { return s.divisors; }},
    {"  gradients", "exposed_gradients", [](const IterationShares& s) { return s.gradients; }},
    {"  (skew of the devices)", "exposed_skew", [](const IterationShares& s) { return s.skew; }},
    {"update", "update", [](const IterationShares& s) { return s.update; }},
    {"waiting for data", "data", [](const IterationShares& s) { return s.data; }},
    {"other", "other", [](const IterationShares& s) { return s.other; }},
    {"iteration", "iteration", [](const IterationShares& s) { return s.total; }},
    {"hidden communication", "hidden", [](const IterationShares& s) { return s.hidden; }}};

}  // namespace

std::span<const ShareFigure> share_figures() { return kFigures; }

SpansOfDevices spans_of(const Timeline& timeline) {
  SpansOfDevices devices(timeline.devices().size());
  for (const Track* track : timeline.tracks()) track->copy(0, track->count(), devices[track->device()]);
  return devices;
}

std::vector<std::vector<IterationShares>> measure_overlap(const SpansOfDevices& devices) {
  std::vector<Occasions> occasions;
  for (const std::vector<RecordedSpan>& spans : devices) occasions.push_back(occasions_of(spans));
  const std::map<Occasion, std::int64_t> last = last_arrivals(occasions);
  std::vector<std::vector<IterationShares>> shares;
  for (std::size_t device = 0; device < devices.size(); ++device) {
    std::vector<Change> changes = changes_of(devices[device]);
    add_skew(occasions[device], last, changes);
    shares.push_back(shares_of(std::move(changes)));
  }
  return shares;
}

std::vector<LayerTime> measure_layers(const std::vector<RecordedSpan>& spans, std::int64_t first) {
  std::vector<LayerTime> layers;
  for (const RecordedSpan& span : spans) {
    const bool forward = span.kind == SpanKind::forward;
    const bool backward = span.kind == SpanKind::backward || span.kind == SpanKind::recompute;
    if (!(forward || backward) || span.iteration < first) continue;
    auto found = std::find_if(layers.begin(), layers.end(),
                              [&](const LayerTime& layer) { return layer.layer == *span.name; });
    if (found == layers.end()) found = layers.insert(layers.end(), LayerTime{*span.name});
    (forward ? found->forward : found->backward) += static_cast<double>(span.end - span.begin) / 1e6;
  }
  return layers;
}

}  // namespace banyan
