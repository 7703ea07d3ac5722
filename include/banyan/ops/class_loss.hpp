// Losses over classes beside the softmax loss; tensors, `noted` and `divisor` as in loss.hpp.
#pragma once

#include "banyan/ops/loss.hpp"
#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// The sum over all classes of max(0, 1 - t x), or of its square; t is 1 for the label's class, else -1.
inline constinit Operator<void(const Tensor& scores, const Tensor& labels, const Channels& over, bool squared,
                               Tensor& partial, Tensor& noted)>
    hinge_loss_forward{"hinge_loss_forward"};
inline constinit Operator<void(const Tensor& scores, const Tensor& labels, const Channels& over, bool squared,
                               const Tensor& grad_loss, const Tensor& divisor, Tensor& dx)>
    hinge_loss_backward{"hinge_loss_backward"};

/// Weights of positions: given[position], or given[outer] if there are as many as `outer`, times
/// by_class[label]. An undefined tensor stands for ones.
struct LossWeights {
  const Tensor &given, &by_class;
};
/// The softmax loss (loss.hpp) against probabilities in place of one class: 1 - smoothing is the label's, the
/// rest is divided among all classes. What a position adds is multiplied by its weight; valid positions count
/// as one each, whatever their weights.
inline constinit Operator<void(const Tensor& probabilities, const Tensor& labels, const LossWeights& weights,
                               const Channels& over, const IgnoreLabel& ignore, double smoothing,
                               Tensor& partial, Tensor& noted)>
    smoothed_loss_forward{"smoothed_loss_forward"};
inline constinit Operator<void(const Tensor& probabilities, const Tensor& labels, const LossWeights& weights,
                               const Channels& over, const IgnoreLabel& ignore, double smoothing,
                               const Tensor& grad_loss, const Tensor& divisor, Tensor& dx)>
    smoothed_loss_backward{"smoothed_loss_backward"};

/// -alpha (1 - p)^gamma log(max(p, FLT_MIN)), p being the probability of the position's label (Lin et al.,
/// "Focal Loss for Dense Object Detection", 2017), and the gradient of the scores whose softmax the
/// probabilities are.
struct FocalLoss {
  double alpha, gamma;  ///< not negative
};
inline constinit Operator<void(const Tensor& probabilities, const Tensor& labels, const Channels& over,
                               const IgnoreLabel& ignore, const FocalLoss& focal, Tensor& partial,
                               Tensor& noted)>
    focal_loss_forward{"focal_loss_forward"};
inline constinit Operator<void(const Tensor& probabilities, const Tensor& labels, const Channels& over,
                               const IgnoreLabel& ignore, const FocalLoss& focal, const Tensor& grad_loss,
                               const Tensor& divisor, Tensor& dx)>
    focal_loss_backward{"focal_loss_backward"};

/// -log(max(p, FLT_MIN)), p being the probability of the position's label, and where the label is not 0 and
/// the position's overlap v is positive, (p^2 / v^(1/4) - 1) / 2 (Shou et al., "Temporal Action Localization
/// in Untrimmed Videos via Multi-stage CNNs", 2016), and the gradient of the scores.
inline constinit Operator<void(const Tensor& probabilities, const Tensor& labels, const Tensor& overlaps,
                               const Channels& over, const IgnoreLabel& ignore, Tensor& partial,
                               Tensor& noted)>
    overlap_loss_forward{"overlap_loss_forward"};
inline constinit Operator<void(const Tensor& probabilities, const Tensor& labels, const Tensor& overlaps,
                               const Channels& over, const IgnoreLabel& ignore, const Tensor& grad_loss,
                               const Tensor& divisor, Tensor& dx)>
    overlap_loss_backward{"overlap_loss_backward"};

/// The smallest probability of the losses below.
inline constexpr double kLeastProbability = 1e-20;
/// -log(max(p[label], 1e-20)), p being what the net says and not the result of a softmax here.
inline constinit Operator<void(const Tensor& probabilities, const Tensor& labels, const Channels& over,
                               Tensor& partial, Tensor& noted)>
    logistic_loss_forward{"logistic_loss_forward"};
inline constinit Operator<void(const Tensor& probabilities, const Tensor& labels, const Channels& over,
                               const Tensor& grad_loss, const Tensor& divisor, Tensor& dx)>
    logistic_loss_backward{"logistic_loss_backward"};

/// -sum over c of gains[label, c] * log(max(p[c], 1e-20)); gains: channels x channels.
inline constinit Operator<void(const Tensor& probabilities, const Tensor& labels, const Tensor& gains,
                               const Channels& over, const IgnoreLabel& ignore, Tensor& partial,
                               Tensor& noted)>
    infogain_loss_forward{"infogain_loss_forward"};
/// The gradient of the scores whose softmax the probabilities are: p[c] * (sum of the label's gains) -
/// gains[label, c], times grad_loss[0] / max(1, divisor[0]).
inline constinit Operator<void(const Tensor& probabilities, const Tensor& labels, const Tensor& gains,
                               const Channels& over, const IgnoreLabel& ignore, const Tensor& grad_loss,
                               const Tensor& divisor, Tensor& dx)>
    infogain_loss_backward{"infogain_loss_backward"};

/// Of distances to all classes: own_weight * min(own_most, max(0, d - own_margin)) for the label's class; for
/// others nearer than other_margin, other_weight * (other_margin - d), or other_weight * exp(-d) if
/// `exponential`.
struct DistanceMargins {
  double own_margin, own_most, own_weight, other_margin, other_weight;
  bool exponential;
};
/// partial[0]: the sum. means (2, f64): the sums of min(own_most, max(0, d - own_margin)) over the labels'
/// classes, and of max(0, other_margin - d) over the others, this divided by their number per sample.
inline constinit Operator<void(const Tensor& distances, const Tensor& labels, const Channels& over,
                               const DistanceMargins& margins, Tensor& partial, Tensor& means, Tensor& noted)>
    distance_margins_forward{"distance_margins_forward"};
/// By the branch's rule a label's distance has a slope between own_margin and own_most.
inline constinit Operator<void(const Tensor& distances, const Tensor& labels, const Channels& over,
                               const DistanceMargins& margins, const Tensor& grad_loss, const Tensor& divisor,
                               Tensor& dx)>
    distance_margins_backward{"distance_margins_backward"};

/// Of distances to all classes: a class j other than the label's, y, costs max(0, d[y] + margin - d[j]); with
/// `hardest_only` only the one that costs most counts, the first of equal ones. The sum is multiplied by
/// other_weight.
struct DistanceTriplets {
  double margin, own_weight, other_weight;
  bool hardest_only;
  bool always_own;  ///< the label's distance has a slope even where nothing counts
};
inline constexpr std::int64_t kTripletNumbers = 5;  ///< of each sample in `rows`
/// partial[0]: the sum. means (2, f64): the sums of the distances of the labels' classes, and of those of the
/// others, this divided by their number per sample. rows (outer x kTripletNumbers, f64): what the backward
/// pass needs to know. The classes of a sample are neighbours.
inline constinit Operator<void(const Tensor& distances, const Tensor& labels, const Channels& over,
                               const DistanceTriplets& triplets, Tensor& rows, Tensor& partial, Tensor& means,
                               Tensor& noted)>
    distance_triplets_forward{"distance_triplets_forward"};
/// By the branch's rule: -other_weight for each class that counts, own_weight for the label's, whatever their
/// number; times weights[sample], an undefined tensor standing for ones.
inline constinit Operator<void(const Tensor& distances, const Tensor& weights, const Channels& over,
                               const DistanceTriplets& triplets, const Tensor& rows, const Tensor& grad_loss,
                               const Tensor& divisor, Tensor& dx)>
    distance_triplets_backward{"distance_triplets_backward"};

/// losses[position]: what each position alone adds to the softmax loss, x being probabilities; with `sigmoid`
/// the sigmoid cross-entropies of all its scores x with 1 for the label's class and 0 for the others. A label
/// of no class: 0, or only the others. An ignored label: 0.
inline constinit Operator<void(const Tensor& x, const Tensor& labels, const Channels& over,
                               const IgnoreLabel& ignore, bool sigmoid, Tensor& losses)>
    position_losses{"position_losses"};

}  // namespace banyan::ops
