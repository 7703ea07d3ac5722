// Losses beside SoftmaxWithLoss and EuclideanLoss, with their settings.
#pragma once

#include "layers/gradient_case.hpp"

namespace banyan::testing::loss_cases {

inline const Shape kScores{5, 4}, kMaps{2, 3, 4, 3}, kLabels{5};

inline std::string smooth(const std::string& settings) {
  return "type: 'SmoothL1Loss' smooth_l1_loss_param { " + settings + " }";
}
inline std::string smoothed(const std::string& settings) {
  return "type: 'SoftmaxWithLoss' loss_param { label_smoothing: 0.25 " + settings + " }";
}
inline std::string weighted(const std::string& weights, const std::string& settings) {
  return "type: 'SoftmaxWithLoss' loss_param { weight_by_label_freqs: true class_weighting: [" + weights +
         "] " + settings + " }";
}
inline std::string contrastive(const std::string& settings) {
  return "type: 'ContrastiveLoss' contrastive_loss_param { " + settings + " }";
}
inline std::string lengths(const std::string& settings) {
  return "type: 'L1Loss' l1_loss_param { l2_per_location: true " + settings + " }";
}
inline std::string lpq(const std::string& settings) {
  return "type: 'LpqLoss' lpq_loss_param { " + settings + " }";
}
inline std::string charbonnier(const std::string& settings) {
  return "type: 'CharbonnierLoss' charbonnier_loss_param { " + settings + " }";
}
inline std::string ssim(const std::string& settings) {
  return "type: 'SSIMLoss' ssim_loss_param { " + settings + " }";
}
inline Values positive_values(std::int64_t count) {
  Values values = spread_values(count, 4);
  for (double& value : values) value += 1.25;
  return values;
}
inline std::string infogain(const std::string& settings) { return "type: 'InfogainLoss' " + settings; }

inline const std::vector<GradientCase> kCases = {
    {"sigmoid_cross_entropy", "type: 'SigmoidCrossEntropyLoss'", {kMaps, kMaps}, 1, 0, false, -1, 3},
    {"sigmoid_cross_entropy_ignore",
     "type: 'SigmoidCrossEntropyLoss' loss_param { ignore_label: 1 normalization: VALID }",
     {kScores, kScores},
     1,
     3},
    {"sigmoid_cross_entropy_balanced",
     "type: 'SigmoidCrossEntropyLoss' loss_param { class_balance: 1.1 }",
     {kScores, kScores},
     1,
     3},
    {"sigmoid_cross_entropy_full",
     "type: 'SigmoidCrossEntropyLoss' loss_param { normalization: FULL }",
     {kScores, Shape{5, 2, 2}}},
    {"sigmoid_cross_entropy_none",
     "type: 'SigmoidCrossEntropyLoss' loss_param { normalization: NONE }",
     {Shape{1, 3}, Shape{1, 3}}},
    {"sigmoid_cross_entropy_old",
     "type: 'SigmoidCrossEntropyLoss' loss_param { normalize: true ignore_label: 0 }",
     {kScores, kScores},
     1,
     2},
    {"softmax_weighted_classes",
     "type: 'WeightedSoftmaxWithLoss' softmax_param { pos_cid: [2, 0] pos_mult: [3, 0.5] } loss_param { "
     "ignore_label: 1 "
     "}",
     {kMaps, Shape{2, 4, 3}},
     1,
     3},
    {"softmax_smoothed", smoothed("ignore_label: 1"), {kMaps, Shape{2, 4, 3}}, 1, 3},
    {"softmax_smoothed_vectors", smoothed("normalization: NONE"), {kScores, kLabels}, 1, 4},
    {"softmax_weighted", weighted("0.3, 2, 1.25", "ignore_label: 1"), {kMaps, Shape{2, 4, 3}}, 1, 3},
    {"softmax_weighted_vectors", weighted("0.5, 0, 1, 3", "normalization: NONE"), {kScores, kLabels}, 1, 4},
    {"softmax_weighted_smoothed",
     weighted("0.5, 0.1, 3", "label_smoothing: 0.25"),
     {kMaps, Shape{2, 4, 3}},
     1,
     3},
    {"focal", "type: 'FocalLoss'", {kScores, kLabels}, 1, 4},
    {"focal_maps",
     "type: 'SoftmaxWithFocalLoss' softmax_focal_loss_param { alpha: 0.7 gamma: 0.5 } loss_param { "
     "ignore_label: 1 }",
     {kMaps, Shape{2, 4, 3}},
     1,
     3},
    {"focal_plain",
     "type: 'SoftmaxFocalLoss' softmax_focal_loss_param { alpha: 1 gamma: 0 } loss_param { normalization: "
     "FULL }",
     {kMaps, Shape{2, 4, 3}},
     1,
     3},
    {"overlap",
     "type: 'OverlapSoftmaxWithLoss'",
     {kScores, kLabels, kLabels},
     1,
     4,
     false,
     1,
     1,
     0,
     {0.5, 1, 0.125, 0, 0.75}},
    {"overlap_maps",
     "type: 'OverlapSoftmaxWithLoss' loss_param { ignore_label: 1 }",
     {kMaps, Shape{2, 4, 3}, Shape{2, 4, 3}},
     1,
     3,
     false,
     1,
     1,
     0,
     positive_values(24)},
    {"hinge", "type: 'HingeLoss'", {kScores, kLabels}, 1, 4, false, -1, 3},
    {"hinge_l2", "type: 'HingeLoss' hinge_loss_param { norm: L2 }", {kScores, kLabels}, 1, 4, false, -1, 3},
    {"hinge_maps", "type: 'HingeLoss'", {kMaps, Shape{2, 1}}, 1, 36, false, -1, 3},
    {"logistic", "type: 'MultinomialLogisticLoss'", {kScores, kLabels}, 1, 4, false, -1, 0.9, 1},
    {"infogain_input", infogain(""), {kScores, kLabels, Shape{1, 1, 4, 4}}, 1, 4, false, 1},
    {"infogain_maps",
     infogain("loss_param { ignore_label: 1 normalization: BATCH_SIZE }"),
     {kMaps, Shape{2, 4, 3}, Shape{3, 3}},
     1,
     3,
     false,
     1},
    {"infogain_axis",
     infogain("infogain_loss_param { axis: -1 } loss_param { normalization: FULL }"),
     {kMaps, Shape{2, 3, 4}, Shape{9}},
     1,
     3,
     false,
     1},
    {"sigmoid_cross_entropy_weights",
     "type: 'SigmoidCrossEntropyLoss'",
     {kMaps, kMaps, kMaps},
     1,
     0,
     false,
     -1,
     3,
     0,
     positive_values(72)},
    {"l1", "type: 'L1Loss'", {kMaps, kMaps}},
    {"l1_one", "type: 'L1Loss'", {kScores}},
    {"l1_plateau",
     "type: 'L1Loss' l1_loss_param { plateau: 0.3137 normalize_by_num_entries: true }",
     {kMaps, kMaps}},
    {"l1_lengths", lengths(""), {kMaps, kMaps}},
    {"l1_lengths_plateau",
     lengths("l2_prescale_by_channels: true epsilon: 1e-3 plateau: 0.5137"),
     {kMaps, kMaps}},
    {"l1_lengths_one", lengths("normalize_by_num_entries: true"), {kScores}},
    {"lpq", lpq("p: 1 q: 0.4"), {kMaps, kMaps}},
    {"lpq_powers",
     lpq("p: 1.5 q: 0.7 p_epsilon: 0.1 q_epsilon: 0.2 l2_prescale_by_channels: true "
         "normalize_by_num_entries: true"),
     {kMaps, Shape{2, 36}}},
    {"lpq_one", lpq("pq_episode_starts_at_iter: [0, 9] p: [2, 3] q: [0.5, 2]"), {kScores}},
    {"quantization", "type: 'QuantizationLoss'", {kMaps}, 1, 0, false, -1, 3},
    {"charbonnier", charbonnier(""), {kMaps}},
    {"charbonnier_mask", charbonnier("alpha: 0.4 beta: 2.5 epsilon: 0.1"), {kMaps, kMaps}},
    {"charbonnier_mask_of_more_channels", charbonnier("alpha: 1.5"), {kMaps, Shape{2, 5, 4, 3}}},
    {"ssim", ssim("kernel_size: 4 stride: 3 c1: 0.01 c2: 0.03"), {Shape{2, 2, 7, 9}, Shape{2, 2, 7, 9}}},
    {"ssim_overlapping", ssim("kernel_size: 3 stride: 1"), {kMaps, kMaps}},
    {"ssim_of_less_than_a_window", ssim(""), {kMaps, kMaps}},
    {"smooth_l1", "type: 'SmoothL1Loss'", {kMaps, kMaps}, 1, 0, false, -1, 2},
    {"smooth_l1_sigma", smooth("sigma: 2"), {kScores, kScores}},
    {"smooth_l1_inside", smooth("sigma: 3"), {kScores, kScores, kScores}},
    {"smooth_l1_weights", smooth("sigma: 0.7"), {kMaps, kMaps, kMaps, kMaps}, 1, 0, false, -1, 2},
    {"contrastive", contrastive("margin: 1.7"), {kScores, kScores, kLabels}, 1, 2},
    {"contrastive_labels", contrastive("margin: 1.7"), {kScores, kScores, kLabels, kLabels}, 1, 2},
    {"contrastive_legacy",
     contrastive("margin: 2.1 legacy_version: true"),
     {kScores, kScores, Shape{5, 1, 1, 1}},
     1,
     2},
    {"coral", "type: 'CORALLoss'", {kScores, kScores}},
    {"coral_of_unequal_numbers", "type: 'CORALLoss'", {Shape{4, 3, 2}, Shape{5, 6}}, 1, 0, false, -1, 1.7},
    {"euclidean_heatmap", "type: 'EuclideanLossHeatmap'", {kMaps, kMaps}},
    {"euclidean_heatmap_picture",
     "type: 'EuclideanLossHeatmap' loss_param { normalization: BATCH_SIZE }",
     {kMaps, kMaps, Shape{2, 3, 5, 4}}},
    {"dice_coef", "type: 'DiceCoefLoss'", {kMaps, kMaps}},
    {"cosine", "type: 'CosineLoss'", {kMaps, kMaps}},
    {"cosine_axis",
     "type: 'CosineLoss' cosine_loss_param { axis: 2 } loss_param { normalization: BATCH_SIZE }",
     {kMaps, kMaps}},
    {"lifted_structure", "type: 'LiftedStructSimilaritySoftmaxLoss'", {kScores, kLabels}, 1, 2},
    {"lifted_structure_margin",
     "type: 'LiftedStructSimilaritySoftmaxLoss' lifted_struct_sim_softmax_loss_param { margin: 2.5 }",
     {Shape{7, 2, 2}, Shape{7, 1}},
     1,
     3},
    {"rank_hard", "type: 'RankHardLoss' rank_param { pair_size: 2 neg_num: 9 }", {kScores, kLabels}, 1, 4},
    {"rank_hard_draws",
     "type: 'RankHardLoss' rank_param { pair_size: 2 neg_num: 2 hard_ratio: 0.5 rand_ratio: 0.5 margin: 1 }",
     {Shape{8, 2, 2}, Shape{8}},
     1,
     4},
    {"triplet", "type: 'TripletLoss' triplet_loss_param { margin: 0.4 }", {kScores, kScores, kScores}},
    {"triplet_ratio",
     "type: 'TripletLoss' triplet_loss_param { margin: 0.4 losstype: 1 }",
     {kScores, kScores, kScores}},
    {"triplet_exponential",
     "type: 'TripletLoss' triplet_loss_param { margin: 0.4 losstype: 2 }",
     {kScores, kScores, kScores}},
    {"triplet_sets",
     "type: 'TripletLoss' triplet_loss_param { margin: 0.4 losstype: 0 num_triplets: 2 }",
     {Shape{8, 3}, Shape{8}}},
    {"triplet_sets_ratio",
     "type: 'TripletLoss' triplet_loss_param { margin: 0.4 }",
     {Shape{10, 2, 2}, Shape{10, 1, 1, 1}}},
    // With these settings its gradient is that of the loss; of all others in face_layers_test.cpp.
    {"general_triplet_hardest",
     "type: 'GeneralTripletLoss' general_triplet_loss_param { margin: 0.3 hardest_only: true "
     "add_center_loss: "
     "false positive_weight: 1.5 negative_weight: 1.5 }",
     {Shape{6, 3, 2}, Shape{6}},
     1,
     6},
    {"k1_euclidean", "type: 'K1_EuclideanLoss'", {kMaps}},
    {"k2_euclidean", "type: 'K2_EuclideanLoss'", {kMaps}},
};

/// R-FCN's.
inline const std::vector<GradientCase> kOhemCases = {
    {"softmax", "type: 'SoftmaxWithLossOHEM'", {Shape{5, 4}, Shape{5}}, 1, 4},
    {"softmax_ignore",
     "type: 'SoftmaxWithLossOHEM' loss_param { ignore_label: 1 normalization: FULL }",
     {kMaps, Shape{2, 1, 4, 3}},
     1,
     3},
    {"smooth", "type: 'SmoothL1LossOHEM'", {kMaps, kMaps, kMaps}, 1, 0, false, -1, 2},
    {"smooth_fixed",
     "type: 'SmoothL1LossOHEM' loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 7 }",
     {kMaps, kMaps},
     1,
     0,
     false,
     -1,
     2},
};

}  // namespace banyan::testing::loss_cases
