#include "banyan/train/learning_rate.hpp"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan {

std::vector<std::string> learning_rate_policies() {
  return {"cosine",    "exp",     "exp10", "fixed",   "inv", "multifixed",
          "multistep", "plateau", "poly",  "sigmoid", "step"};
}

LearningRate::Policy LearningRate::policy_of(const caffe::SolverParameter& solver) {
  static const std::pair<const char*, Policy> table[] = {
      {"cosine", Policy::cosine},       {"exp", Policy::exp},         {"exp10", Policy::exp10},
      {"fixed", Policy::fixed},         {"inv", Policy::inv},         {"multifixed", Policy::multifixed},
      {"multistep", Policy::multistep}, {"plateau", Policy::plateau}, {"poly", Policy::poly},
      {"sigmoid", Policy::sigmoid},     {"step", Policy::step}};
  const std::string& name = solver.lr_policy();
  for (const auto& [known, policy] : table)
    if (name == known) return policy;
  if (name.empty()) bad_input("lr_policy is missing; known policies: ", join(learning_rate_policies(), ", "));
  bad_input("unknown lr_policy ", quoted(name),
            "; known policies, nearest first: ", join(nearest_first(name, learning_rate_policies()), ", "));
}

LearningRate::LearningRate(const caffe::SolverParameter& solver, double scale, bool log)
    : policy_(policy_of(solver)), scale_(scale), log_(log) {
  // Only the numbers are kept: the nets inside a solver may be large.
  solver_.CopyFrom(solver);
  solver_.clear_train_net_param();
  solver_.clear_test_net_param();
  solver_.clear_net_param();
  check();
}

void LearningRate::check() const {
  const auto& s = solver_;
  const std::string policy = cat("lr_policy ", quoted(s.lr_policy()));
  if (policy_ != Policy::multifixed && !s.has_base_lr())
    bad_input("base_lr is missing (", policy, " needs it)");
  if (s.base_lr() < 0 || !std::isfinite(s.base_lr()))
    bad_input("base_lr must be a number >= 0, not ", s.base_lr());
  if ((policy_ == Policy::step || policy_ == Policy::exp10) && s.stepsize() <= 0)
    bad_input(policy, " needs stepsize > 0, found ", s.stepsize());
  if ((policy_ == Policy::poly || policy_ == Policy::cosine) && s.max_iter() <= 0)
    bad_input(policy, " needs max_iter > 0, found ", s.max_iter());
  if (policy_ == Policy::plateau && s.plateau_winsize().empty())
    bad_input(policy, " needs at least one plateau_winsize");
  if (policy_ == Policy::multifixed && (s.stagelr().empty() || s.stagelr_size() != s.stageiter_size()))
    bad_input(policy, " needs as many stagelr as stageiter, at least one; found ", s.stagelr_size(), " and ",
              s.stageiter_size());
  if (s.warmup_iter() < 0) bad_input("warmup_iter must be >= 0, not ", s.warmup_iter());
  if (s.rampup_interval() < 0) bad_input("rampup_interval must be >= 0, not ", s.rampup_interval());
  if (s.warmup_iter() > 0 && s.rampup_interval() > 0)
    bad_input("warmup_iter (linear) and rampup_interval (quadratic) exclude each other; keep one");
  if (!(scale_ > 0) || !std::isfinite(scale_))
    bad_input("the learning rate's scale must be > 0, not ", scale_);
}

void LearningRate::take_steps(std::int64_t iteration) {
  if (policy_ == Policy::multistep && current_step_ < solver_.stepvalue_size() &&
      iteration >= solver_.stepvalue(current_step_)) {
    ++current_step_;
    LOG_IF(INFO, log_) << "MultiStep Status: Iteration " << iteration << ", step = " << current_step_;
  }
  if (policy_ == Policy::plateau && current_step_ < solver_.plateau_winsize_size() &&
      iteration - last_event_ >= solver_.plateau_winsize(current_step_)) {
    ++current_step_;
    last_event_ = iteration;
    LOG_IF(INFO, log_) << "Plateau Status: Iteration " << iteration << ", step = " << current_step_;
  }
}

double LearningRate::scheduled(std::int64_t iteration) const {
  const double i = static_cast<double>(iteration);
  const double base = scale_ * solver_.base_lr();
  const double gamma = solver_.gamma(), power = solver_.power();
  // Beyond max_iter nothing is updated any more; the clamp keeps a rate asked for there from being NaN.
  const double done = solver_.max_iter() > 0 ? std::min(1.0, i / solver_.max_iter()) : 1.0;
  switch (policy_) {
    case Policy::fixed:
      return base;
    case Policy::step:
      return base * std::pow(gamma, static_cast<double>(iteration / solver_.stepsize()));
    case Policy::exp:
      return base * std::pow(gamma, i);
    case Policy::inv:
      return base * std::pow(1 + gamma * i, -power);
    case Policy::multistep:
    case Policy::plateau:
      return base * std::pow(gamma, current_step_);
    case Policy::poly:
      return (base - solver_.min_lr()) * std::pow(1 - done, power) + solver_.min_lr();
    case Policy::sigmoid:
      return base / (1 + std::exp(-gamma * (i - solver_.stepsize())));
    case Policy::cosine:
      return base * 0.5 * (1 + std::cos(std::numbers::pi * done));
    case Policy::exp10:
      return base * std::pow(10.0, -i / solver_.stepsize());
    case Policy::multifixed:
      break;
  }
  const auto& ends = solver_.stageiter();
  const auto stage = std::find_if(ends.begin(), ends.end(), [&](int end) { return iteration <= end; });
  const int index = std::min(static_cast<int>(stage - ends.begin()), solver_.stagelr_size() - 1);
  return scale_ * solver_.stagelr(index);
}

double LearningRate::rate(std::int64_t iteration) {
  take_steps(iteration);
  const double target =
      policy_ == Policy::multifixed ? scale_ * solver_.stagelr(0) : scale_ * solver_.base_lr();
  if (iteration < solver_.warmup_iter()) {
    const double part = static_cast<double>(iteration) / solver_.warmup_iter();
    return part * target + (1 - part) * solver_.warmup_start_lr();
  }
  if (iteration < solver_.rampup_interval()) {
    const double part = static_cast<double>(iteration) / solver_.rampup_interval();
    return solver_.rampup_lr() + (target - solver_.rampup_lr()) * part * part;
  }
  return std::max(scheduled(iteration), static_cast<double>(solver_.min_lr()));
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

double learning_rate_scale(const caffe::SolverParameter& solver, int devices, std::int64_t batch) {
  if (solver.lr_scaling() == caffe::SolverParameter::NONE) return 1;
  if (solver.base_batch_size() <= 0)
    bad_input(
        "lr_scaling: LINEAR needs base_batch_size, the number of samples per update that base_lr was chosen "
        "for; "
        "found ",
        solver.has_base_batch_size() ? std::to_string(solver.base_batch_size()) : std::string("none"));
  if (devices <= 0 || batch <= 0)
    bad_input("lr_scaling: LINEAR needs a train net that says how many samples a batch has; none found");
  return static_cast<double>(devices) * static_cast<double>(batch) * solver.iter_size() /
         solver.base_batch_size();
}

}  // namespace banyan
