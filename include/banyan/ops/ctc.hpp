// Connectionist temporal classification (Graves et al. 2006): scores (T x N x C) of C classes in T time steps
// of N sequences, of which one class, the blank, stands for "no label". A path is a class for each time step;
// its labels are what is left of it when neighbours of the same class become one and blanks are left out. The
// likelihood of a sequence's labels is the sum of the probabilities of all paths that have them, which are
// the products of the scores' softmax.
#pragma once

#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// How the labels of the sequences lie in memory: label l of sequence n is labels[l * label_step + n *
/// sequence_step], l < most.
struct CtcLabels {
  Tensor labels;
  std::int64_t label_step, sequence_step, most;
  bool ends_at_negative = false;  ///< the first negative number and what follows it are no labels
  bool skips_blanks = false;      ///< blanks are no labels
};

/// Which of the labels and time steps count.
struct CtcInput {
  CtcLabels from;
  /// T x N, or undefined: a sequence ends before the first time step but step 0 whose mark rounds to 0. It
  /// must have as many steps as labels; without labels it must have one, and does not count.
  Tensor marks;
  Tensor steps, counts;   ///< N each, or undefined: the number of time steps and of labels
  bool collapse = false;  ///< equal neighbours are one label
};

struct CtcSizes {
  std::int64_t steps, sequences, classes, labels;  ///< T, N, C, and as many labels as a sequence can have
};

struct CtcRule {
  std::int64_t blank = 0;
  bool merge = true;  ///< whether neighbours of the same class become one
  /// What labels cost that no path has: infinitely much, with the softmax as gradient, or nothing.
  bool impossible_is_infinite = true;
};

/// What goes from one operator to the next.
struct CtcState {
  Tensor targets;      ///< i32, N x labels
  Tensor lengths;      ///< i32, N x 2: time steps and labels that count
  Tensor norms;        ///< f64, T x N: logarithms of the sums of the exponentials of the scores
  Tensor alpha, beta;  ///< f64, N x T x (2 labels + 1)
  Tensor likelihoods;  ///< f64, N: their logarithms
};

/// state.targets and state.lengths. noted (2, f64): the first label of which there can be none (no integer,
/// no class, the blank), as 1 + n (labels + 1) + l, and the label; for the lengths of a sequence that do not
/// fit, l is `labels`, followed by the number of its labels. Written only where noted[0] is 0; the sequence
/// does not count.
inline constinit Operator<void(const CtcInput& input, const CtcSizes& sizes, const CtcRule& rule,
                               CtcState& state, Tensor& noted)>
    ctc_targets{"ctc_targets"};
/// All others but beta. partial (2, f64): minus the sum of the likelihoods' logarithms, and N.
inline constinit Operator<void(const Tensor& scores, const CtcSizes& sizes, const CtcRule& rule,
                               CtcState& state, Tensor& partial)>
    ctc_loss_forward{"ctc_loss_forward"};
/// dx = (p - what paths with these labels expect of the class) * grad_loss[0] / max(1, divisor[0]), p being
/// the softmax; 0 after the end of a sequence. Overwrites state.beta.
inline constinit Operator<void(const Tensor& scores, const CtcSizes& sizes, const CtcRule& rule,
                               CtcState& state, const Tensor& grad_loss, const Tensor& divisor, Tensor& dx)>
    ctc_loss_backward{"ctc_loss_backward"};

/// Scores with classes side by side; those of the next time step and of the next sequence are so far away.
struct CtcScores {
  std::int64_t steps, sequences, classes, step, sequence;
};
/// The labels of the path with the best class of each time step (of equal ones, the first), in the dtype of
/// the scores, N x T, filled up with -1. penalties (N, or undefined): minus the sum of the path's scores.
/// marks as above.
inline constinit Operator<void(const Tensor& scores, const CtcScores& of, const Tensor& marks,
                               const CtcRule& rule, Tensor& decoded, Tensor& penalties)>
    ctc_best_paths{"ctc_best_paths"};
/// sums (3, f64), of N sequences of labels (decoded as above, T at most) compared with what they should be:
/// the sum of 1 - d / m, d being the least number of labels to be inserted, removed or replaced (Levenshtein
/// 1966) and m the longer one's number of labels; how many are equal; N. Two sequences without labels add 1,
/// and are equal if `empty_are_equal`. scratch: f64, N x (2 most + 1).
inline constinit Operator<void(const Tensor& decoded, const CtcLabels& wanted, std::int64_t blank,
                               bool empty_are_equal, Tensor& scratch, Tensor& sums)>
    ctc_distances{"ctc_distances"};

}  // namespace banyan::ops
