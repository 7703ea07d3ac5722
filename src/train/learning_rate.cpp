#include "banyan/train/learning_rate.hpp"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "banyan/base/error.hpp"

namespace banyan {

using Policy = LearningRatePolicy;

LearningRate::LearningRate(const SolverSettings& solver, double scale, bool log)
    : rate_(solver.rate), max_iter_(solver.max_iter), scale_(scale), log_(log) {
  if (!(scale_ > 0) || !std::isfinite(scale_))
    bad_input("the learning rate's scale must be > 0, not ", scale_);
}

void LearningRate::take_steps(std::int64_t iteration) {
  if (rate_.policy == Policy::step)
    current_step_ = static_cast<int>(iteration / rate_.stepsize);  // as Caffe saves it
  const auto step = static_cast<std::size_t>(current_step_);
  if (rate_.policy == Policy::multistep && step < rate_.stepvalues.size() &&
      iteration >= rate_.stepvalues[step]) {
    ++current_step_;
    LOG_IF(INFO, log_) << "MultiStep Status: Iteration " << iteration << ", step = " << current_step_;
  }
  if (rate_.policy == Policy::plateau && step < rate_.plateau_windows.size() &&
      iteration - last_event_ >= rate_.plateau_windows[step]) {
    ++current_step_;
    last_event_ = iteration;
    LOG_IF(INFO, log_) << "Plateau Status: Iteration " << iteration << ", step = " << current_step_;
  }
}

double LearningRate::scheduled(std::int64_t iteration) const {
  const double i = static_cast<double>(iteration);
  const double base = scale_ * rate_.base_lr;
  const double gamma = rate_.gamma, power = rate_.power;
  // Nothing is updated beyond max_iter; the clamp keeps a rate queried there from being NaN.
  const double done = max_iter_ > 0 ? std::min(1.0, i / max_iter_) : 1.0;
  switch (rate_.policy) {
    case Policy::fixed:
      return base;
    case Policy::step:
      return base * std::pow(gamma, static_cast<double>(iteration / rate_.stepsize));
    case Policy::exp:
      return base * std::pow(gamma, i);
    case Policy::inv:
      return base * std::pow(1 + gamma * i, -power);
    case Policy::multistep:
    case Policy::plateau:
      return base * std::pow(gamma, current_step_);
    case Policy::poly:
      return (base - rate_.min_lr) * std::pow(1 - done, power) + rate_.min_lr;
    case Policy::sigmoid:
      return base / (1 + std::exp(-gamma * (i - rate_.stepsize)));
    case Policy::cosine:
      return base * 0.5 * (1 + std::cos(std::numbers::pi * done));
    case Policy::exp10:
      return base * std::pow(10.0, -i / rate_.stepsize);
    case Policy::triangular:
    case Policy::triangular2: {
      const std::int64_t j = std::max<std::int64_t>(0, iteration - rate_.first_cycle);
      const std::int64_t cycle = j / (2 * std::int64_t{rate_.stepsize});
      const double place = static_cast<double>(j % (2 * std::int64_t{rate_.stepsize})) / rate_.stepsize;
      const double height = (scale_ * rate_.max_lr - base) * (1 - std::abs(place - 1));
      return base + (rate_.policy == Policy::triangular2
                         ? std::ldexp(height, -static_cast<int>(std::min<std::int64_t>(cycle, 2000)))
                         : height);
    }
    case Policy::multifixed:
      break;
  }
  const std::vector<int>& ends = rate_.stage_ends;
  const auto stage = std::find_if(ends.begin(), ends.end(), [&](int end) { return iteration <= end; });
  return scale_ *
         rate_.stage_rates[std::min(static_cast<std::size_t>(stage - ends.begin()), ends.size() - 1)];
}

double LearningRate::rate(std::int64_t iteration) {
  take_steps(iteration);
  const double target = scale_ * (rate_.policy == Policy::multifixed ? rate_.stage_rates[0] : rate_.base_lr);
  if (iteration < rate_.warmup_iter) {
    const double part = static_cast<double>(iteration) / rate_.warmup_iter;
    return part * target + (1 - part) * rate_.warmup_start_lr;
  }
  if (iteration < rate_.rampup_interval) {
    const double part = static_cast<double>(iteration) / rate_.rampup_interval;
    return rate_.rampup_lr + (target - rate_.rampup_lr) * part * part;
  }
  return std::max(scheduled(iteration), rate_.min_lr);
}

void LearningRate::note_loss(std::int64_t iteration, double smoothed_loss) {
  const float loss = static_cast<float>(smoothed_loss);
  if (loss < minimum_loss_) {
    minimum_loss_ = loss;
    last_event_ = iteration;
  }
}

void LearningRate::save(caffe::SolverState& state) const {
  state.set_current_step(current_step_);
  if (!needs_loss()) return;
  state.set_minimum_loss(minimum_loss_);
  state.set_iter_last_event(static_cast<int>(last_event_));
}

void LearningRate::restore(const caffe::SolverState& state) {
  current_step_ = state.current_step();
  minimum_loss_ = state.minimum_loss();
  last_event_ = state.iter_last_event();
}

double learning_rate_scale(const SolverSettings& solver, int devices, std::int64_t batch) {
  if (!solver.rate.base_batch_size) return 1;
  if (devices <= 0 || batch <= 0)
    bad_input("lr_scaling: LINEAR needs a train net that says how many samples a batch has; none found");
  return static_cast<double>(devices) * static_cast<double>(batch) * solver.iter_size /
         *solver.rate.base_batch_size;
}

namespace {

/// From `first` at iteration 0 to `last` at max_iter.
double grown(double first, double last, double power, std::int64_t iteration, std::int64_t max_iter) {
  const double done = std::min(1.0, static_cast<double>(iteration) / static_cast<double>(max_iter));
  return first + (last - first) * std::pow(done, power);
}

}  // namespace

double momentum_at(const UpdateSettings& update, std::int64_t iteration, std::int64_t max_iter, double rate) {
  switch (update.momentum_policy) {
    case MomentumPolicy::fixed:
      break;
    case MomentumPolicy::poly:
      return grown(update.momentum, *update.max_momentum, update.momentum_power, iteration, max_iter);
    case MomentumPolicy::opt: {
      const double root = 1 - 0.5 * std::sqrt(rate);
      return update.max_momentum ? std::min(root * root, *update.max_momentum) : root * root;
    }
  }
  return update.momentum;
}

double weight_decay_at(const UpdateSettings& update, std::int64_t iteration, std::int64_t max_iter) {
  if (!update.weight_decay_grows) return update.weight_decay;
  return grown(update.weight_decay, update.max_weight_decay, update.weight_decay_power, iteration, max_iter);
}

}  // namespace banyan
