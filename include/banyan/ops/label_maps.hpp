// Operators on maps of labels, one float per pixel: which labels there are, how they agree with predictions,
// what they add to scores. `Channels` and `noted` as in loss.hpp.
#pragma once

#include "banyan/ops/loss.hpp"
#include "banyan/ops/operator.hpp"

namespace banyan::ops {

/// Numbers from a layer's settings that functors carry with them.
struct LabelList {
  static constexpr std::int64_t kMost = 32;
  std::int64_t count = 0;
  double label[kMost];
};

/// counts (3 channels, f64): for each class the pixels with its label that are predicted so, those with its
/// label, those predicted so. Pixels with an ignored label do not count. `predicted`: classes, labels: outer
/// x inner.
inline constinit Operator<void(const Tensor& predicted, const Tensor& labels, const Channels& over,
                               const LabelList& ignored, Tensor& counts, Tensor& noted)>
    count_agreement{"count_agreement"};
/// y (3) from these counts: the share of pixels predicted rightly; the mean over the classes that occur of
/// the share of their pixels predicted so; the mean over all classes of intersection over union, 1 for a
/// class that neither occurs nor is predicted. All 0 if no pixel counts.
inline constinit Operator<void(const Tensor& counts, Tensor& y)> agreement{"agreement"};
/// y[position] = the channel with the highest score, of equal ones the first, and a NaN only where all are.
inline constinit Operator<void(const Tensor& scores, const Channels& over, Tensor& y)> predicted_classes{
    "predicted_classes"};
/// counts (channels x channels, f64): positions by their label and by what is predicted; totals (channels,
/// f64): by their label. Those with an ignored label do not count. `predicted`: classes, outer x inner.
inline constinit Operator<void(const Tensor& predicted, const Tensor& labels, const Channels& over,
                               const LabelList& ignored, Tensor& counts, Tensor& totals, Tensor& noted)>
    confusion_counts{"confusion_counts"};
/// y = counts over the total of their row, 0 where that is 0.
inline constinit Operator<void(const Tensor& counts, const Tensor& totals, Tensor& y)> row_shares{
    "row_shares"};
/// y (positions x 4): label, its score, predicted class, its score, where these are two classes; else -1.
inline constinit Operator<void(const Tensor& scores, const Tensor& predicted, const Tensor& labels,
                               const Channels& over, const LabelList& ignored, Tensor& y)>
    wrong_positions{"wrong_positions"};
/// Adds to counts (n, f64) the earlier ones that `earlier` (rows x 2 n) holds, each as a number below 2^20
/// and a multiple of 2^20, so that f32 holds them exactly up to 2^44. If `keeps`, the sums take their place,
/// in row 0.
inline constinit Operator<void(Tensor& counts, bool keeps, Tensor& earlier)> add_earlier_counts{
    "add_earlier_counts"};

/// One step of listing the different values of each row of x in ascending order, those of `forced` included,
/// those of `ignored` not: y[row, place] = the smallest one above last[row] (f64), which becomes it; -1 and
/// infinity if there is none.
inline constinit Operator<void(const Tensor& x, const LabelList& ignored, const LabelList& forced,
                               std::int64_t place, Tensor& last, Tensor& y)>
    next_value{"next_value"};
/// noted (2, f64): the first row where last is still finite, as 1 + its number, and its value; written only
/// where noted[0] is 0.
inline constinit Operator<void(const Tensor& last, Tensor& noted)> note_finite{"note_finite"};

/// y = x plus, at each position of outer x channels x inner, what the labels there or, with `lists`, the
/// labels of its sample (`each` of them) say: `foreground` for a label's own channel, `background` for that
/// of the label `background_label`. Per pixel every label that counts also adds `background` to the
/// background's channel, unless `without_background`. Labels that are ignored add nothing.
struct ChannelBias {
  double foreground = 2, background = 1;
  std::int64_t background_label = 0;
  bool without_background = false;
  bool lists = true;
  std::int64_t each = 1;
  LabelList ignored;
};
inline constinit Operator<void(const Tensor& x, const Tensor& labels, const Channels& over,
                               const ChannelBias& bias, Tensor& y, Tensor& noted)>
    bias_channels{"bias_channels"};

/// A number that changes with the iterations of a run: in iteration i it is shift + scale * (1 + gamma *
/// (first + i))^power, at least `least` and at most `most`; i is that of the last multiple of `step`.
struct IterationSchedule {
  double shift = 0, scale = 1, gamma = 0, power = 1, least = 0, most = 0;
  std::int64_t first = 0;
  std::int64_t passes = 1;  ///< of one iteration
  std::int64_t step = 1;
};
/// value (1, f32 or f64) for pass `draw`, a number in device memory.
inline constinit Operator<void(const IterationSchedule& schedule, const std::uint64_t* draw, Tensor& value)>
    scheduled_value{"scheduled_value"};

/// y at the channel of each position's label += bias[0], where it is above -bias[0]. A label that is no class
/// adds nothing.
inline constinit Operator<void(const Tensor& labels, const Channels& over, const Tensor& bias, Tensor& y,
                               Tensor& noted)>
    add_at_labels{"add_at_labels"};
/// y = x * own[0] at the channel of each position's label, x * others elsewhere. y may be x.
inline constinit Operator<void(const Tensor& x, const Tensor& labels, const Channels& over, const Tensor& own,
                               double others, Tensor& y, Tensor& noted)>
    rescale_by_labels{"rescale_by_labels"};

}  // namespace banyan::ops
