// The learning rate, momentum and weight decay of each iteration. The rate: Caffe's policies, those of its
// forks, warm-up and linear scaling.
//
// With i the iteration before the update, b = base_lr x scale, g = gamma, p = power, s = current_step:
//   fixed      b                                   sigmoid    b / (1 + exp(-g (i - stepsize)))
//   step       b g^floor(i / stepsize)             cosine     b (1 + cos(pi i / max_iter)) / 2
//   exp        b g^i                               exp10      b 10^(-i / stepsize)            (yjxiong)
//   inv        b (1 + g i)^-p                      multistep  b g^s; s grows by at most one per iteration
//   poly       (b - min_lr) (1 - i/max_iter)^p + min_lr
//   plateau    b g^s; s grows when the smoothed loss found no new minimum for plateau_winsize[s] iterations
//   multifixed scale x stagelr[first k with i <= stageiter[k]], afterwards the last one         (Intel)
//   triangular b + (scale x max_lr - b) max(0, 1 - |x|), x = (j mod 2 stepsize) / stepsize - 1,
//              j = max(0, i - start_lr_policy); triangular2: its height halves with each cycle  (Smith 2015)
// A rate is never below min_lr, except while warming up. Warm-up replaces the policy for the first iterations
// and does not shift it: linear for warmup_iter (Intel, Goyal et al. 2017; the momentum is not rescaled
// meanwhile), quadratic for rampup_interval (NVIDIA). `scale` leaves warmup_start_lr, rampup_lr and min_lr as
// they are written.
#pragma once

#include <cstdint>

#include "banyan/train/solver_settings.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

class LearningRate {
 public:
  /// Throws bad_input for a scale that is not > 0. `log`: log each step.
  explicit LearningRate(const SolverSettings& solver, double scale = 1, bool log = true);

  /// The rate of iteration i. Call it once per iteration, in order: multistep and plateau take steps.
  double rate(std::int64_t iteration);
  /// Before rate(iteration) for the policy plateau; any other ignores it.
  void note_loss(std::int64_t iteration, double smoothed_loss);
  bool needs_loss() const { return rate_.policy == LearningRatePolicy::plateau; }

  int current_step() const { return current_step_; }
  void save(caffe::SolverState& state) const;
  void restore(const caffe::SolverState& state);

 private:
  void take_steps(std::int64_t iteration);
  double scheduled(std::int64_t iteration) const;

  LearningRateSettings rate_;
  int max_iter_;
  double scale_;
  bool log_;
  int current_step_ = 0;
  float minimum_loss_ =
      1e38F;  ///< as exact as the field in the file, so that a resumed run takes the same steps
  std::int64_t last_event_ = 0;
};

/// The linear scaling rule (Goyal et al. 2017; MegDet, Peng et al. 2018): 1 without `lr_scaling`, else
/// devices x batch x iter_size / base_batch_size. `batch` counts samples of one device in one forward pass;
/// with shares of different sizes pass their sum and devices = 1. Throws bad_input where that is 0.
double learning_rate_scale(const SolverSettings& solver, int devices, std::int64_t batch);

/// Momentum of iteration i, with m = momentum (NVIDIA): fixed m; poly m + (max_momentum - m) (i /
/// max_iter)^momentum_power; opt (1 - sqrt(rate) / 2)^2, at most max_momentum if that is given.
double momentum_at(const UpdateSettings& update, std::int64_t iteration, std::int64_t max_iter, double rate);
/// Weight decay of iteration i, with d = weight_decay (NVIDIA): fixed d; poly d + (max_weight_decay - d) (i /
/// max_iter)^weight_decay_power.
double weight_decay_at(const UpdateSettings& update, std::int64_t iteration, std::int64_t max_iter);

}  // namespace banyan
