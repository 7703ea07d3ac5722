#include "meter.hpp"

#include <cmath>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/observe/spans.hpp"

namespace banyan {
namespace {

/// In the first iterations buffers are allocated and libraries choose their algorithms.
constexpr std::int64_t kWarmUpIterations = 2;
/// Iterations from one look at the vital signs to the next, at least: short displays cost no more.
constexpr std::int64_t kCheckEvery = 20;

}  // namespace

Meter::Meter(RunMetrics& metrics, int rank, const Parts& parts, int interval)
    : metrics_(metrics), rank_(rank), parts_(parts), interval_(interval) {
  const MetricsSettings& settings = metrics.settings();
  Context& context = parts.peers.context();
  if (settings.histograms > 0)
    parameters_.emplace(context, parts.net, parts.updater.owned_pieces(), parts.peers.first());
  if (settings.images > 0 && parts.peers.first()) pictures_.emplace(context, parts.net);
  if (metrics.watches()) vitals_.emplace(parts.net, parts.updater.owned_pieces());
  looks_at_loss_ = vitals_ && context.device().runs_inline();
  if (pictures_ && pictures_->empty())
    metrics.warn("this net has neither images among its inputs nor filters to show", "leave --images out");
}

Meter::Moment Meter::now() const { return {steady_nanoseconds(), parts_.peers.activity().waited_for_data()}; }

void Meter::start(std::int64_t iteration, std::int64_t samples) {
  start_ = reported_ = next_check_ = iteration;
  samples_ = samples;
  since_ = now();
  sampled_.reset();
  losses_ = {};
}

/// All devices decide alike.
bool Meter::is_check(std::int64_t iteration) const {
  return vitals_ && is_turn(iteration, interval_) && iteration >= next_check_;
}

/// The one before a report: in the reported one itself a GPU's host waits before the update is enqueued.
bool Meter::samples_spans(std::int64_t iteration) const {
  const std::int64_t reported = interval_ > 1 ? iteration + 1 : iteration;
  return iteration >= start_ + kWarmUpIterations && is_turn(reported, interval_) &&
         (metrics_.tells() || is_check(reported));
}

void Meter::begin(std::int64_t iteration) {
  measures_parameters_ = parameters_ && is_turn(iteration, metrics_.settings().histograms);
  if (measures_parameters_ && !parameters_->begin()) {
    measures_parameters_ = false;
    metrics_.parameters(iteration, nullptr);
  }
  checks_ = is_check(iteration);
  if (checks_) vitals_->begin();
  parts_.updater.note_squares(is_turn(iteration, interval_) && (metrics_.tells() || checks_));
  if (!samples_spans(iteration)) return;
  sampled_ = iteration;
  metrics_.sampler(rank_).begin();
}

void Meter::end(std::int64_t iteration) {
  if (sampled_ == iteration) metrics_.sampler(rank_).end();
  if (checks_) {
    vitals_->end();
    next_check_ = iteration + kCheckEvery;
  }
  if (measures_parameters_) metrics_.parameters(iteration, parameters_->end());
  if (parts_.peers.first()) metrics_.at(iteration + 1);
  if (pictures_ && is_turn(iteration, metrics_.settings().images))
    if (auto draw = pictures_->take()) metrics_.pictures(iteration, std::move(draw));
}

void Meter::report() {
  if (!reads_parameters()) return;
  Measured& measured = parts_.peers.board().measured;
  const Moment moment = now();
  measured.seconds = static_cast<double>(moment.time - since_.time) / 1e9;
  measured.waited = static_cast<double>(moment.waited - since_.waited) / 1e9;
  since_ = moment;
  measured.gradient_squares = parts_.updater.sum_of_squares(parts_.lane);
  measured.vitals = checks_ ? vitals_->read(parts_.lane) : VitalSigns{};
  measured.memory = parts_.peers.context().device().memory();
  measured.sampled = sampled_;
  measured.spans.clear();
  if (!sampled_) return;
  // The times of all spans are there, and none will be written any more.
  parts_.lane.synchronize();
  parts_.peers.context().synchronize();
  measured.spans = metrics_.sampler(rank_).take();
  sampled_.reset();
}

void Meter::look_at_loss(const Pass& pass) {
  if (!looks_at_loss_) return;
  double loss = 0;
  copy_to_host(parts_.peers.context(), parts_.net.loss(), &loss);
  if (std::isfinite(loss)) return;
  looks_at_loss_ = false;
  const NotFinite found = find_not_finite(parts_.net, pass);
  if (found.text.empty()) return;  // another device has them
  metrics_.warn_of({EarlyWarnings::kNotFinite,
                    cat("the loss of iteration ", pass.iteration, " is not finite; ", found.text),
                    found.in_data ? std::string("look at the data, or at what transform_param makes of them")
                                  : cat(kGentler, "; go on from an earlier snapshot")});
}

void Meter::publish(std::int64_t iteration, double loss, const LossInterval& losses, double rate,
                    std::vector<metrics::Output> outputs) {
  losses_.add(losses);
  if (!metrics_.tells() && !checks_) return;
  metrics::Train record;
  record.loss = loss;
  record.rate = rate;
  record.outputs = std::move(outputs);
  record.epoch = parts_.sources.epoch();
  record.iterations = iteration + 1 - reported_;
  reported_ = iteration + 1;
  SpansOfDevices spans;
  Observed observed{iteration, rate, std::exchange(losses_, {}), {}};
  double squares = 0;
  for (DeviceBoard& board : parts_.peers.team().boards) {
    Measured& measured = board.measured;
    metrics::Train::Device& device = record.devices.emplace_back();
    device.name = metrics_.device_name(record.devices.size() - 1);
    device.memory_in_use = static_cast<std::int64_t>(measured.memory.in_use);
    device.memory_peak = static_cast<std::int64_t>(measured.memory.peak);
    if (measured.seconds > 0) device.waiting_for_data = measured.waited / measured.seconds;
    squares += measured.gradient_squares;
    spans.push_back(std::move(measured.spans));
    merge(measured.vitals, observed.vitals);
  }
  const Measured& mine = parts_.peers.board().measured;
  if (parts_.net.flat_values().defined()) record.gradient_norm = std::sqrt(squares);
  if (mine.seconds > 0)
    record.samples_per_second = static_cast<double>(record.iterations * samples_) / mine.seconds;
  metrics_.train(iteration, std::move(record), mine.sampled, std::move(spans), std::move(observed));
}

void Meter::publish_last(std::int64_t iteration, double loss) {
  metrics::Train record;
  record.loss = loss;
  metrics_.train(iteration, std::move(record), {}, {}, {});
}

}  // namespace banyan
