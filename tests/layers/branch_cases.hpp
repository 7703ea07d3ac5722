// Layers and dialects of branches of Caffe, with their settings.
#pragma once

#include "layers/gradient_case.hpp"

namespace banyan::testing::branch_cases {

inline const Shape kScores{5, 4}, kImages{2, 3, 4, 5}, kLabels{5};

inline std::string fixed(const std::string& settings) {
  return "type: 'Unpooling' unpooling_param { unpool: FIXED " + settings + " }";
}

inline std::string merged(const std::string& settings) {
  return "type: 'MergeCrop' mergecrop_param { " + settings + " }";
}

inline const std::vector<GradientCase> kCases = {
    {"bn_segnet", "type: 'BN' bn_param { scale_filler { value: 1 } shift_filler { value: 0.1 } }", {kImages}},
    {"bn_segnet_inference", "type: 'BN' bn_param { bn_mode: INFERENCE }", {kImages}},
    {"bn_windows", "type: 'BN' bn_param { scale_filler { value: 1 } decay: 0.9 var_eps: 1e-3 }", {kImages}},
    {"bn_without_average", "type: 'BN' bn_param { moving_average: false }", {kScores}},
    {"flip", "type: 'Flip' flip_param { flip_height: true }", {kImages}},
    {"reverse", "type: 'Reverse'", {kScores}},
    {"reverse_axes", "type: 'Reverse' reverse_param { axis: -1 axis: 1 }", {kImages}},
    {"unpooling_fixed", fixed("kernel_size: 3 stride: 2 pad: 1"), {kImages}},
    {"unpooling_average",
     "type: 'Unpooling' unpooling_param { unpool: AVE kernel_size: 3 stride: 2 unpool_h: 8 unpool_w: 10 }",
     {kImages}},
    {"unpooling_tile",
     "type: 'Unpooling' unpooling_param { unpool: TILE kernel_size: 3 stride: 2 unpool_h: 8 unpool_w: 12 }",
     {kImages}},
    {"unpooling_mask",
     "type: 'Unpooling' unpooling_param { kernel_size: 2 stride: 2 }",
     {Shape{2, 3, 1, 1}, Shape{2, 3, 1, 1}},
     1,
     4},
    {"upsample_repeats", "type: 'Upsample' upsample_param { scale_h: 2 scale_w: 3 }", {kImages}},
    {"cosine", "type: 'CosineSimilarity'", {kScores, kScores}},
    {"cosine_maps", "type: 'CosineSimilarity'", {kImages, Shape{2, 60}}},
    {"label_specific_add",
     "type: 'LabelSpecificAdd' label_specific_add_param { bias: -3 }",
     {kScores, Shape{kScores[0]}},
     1,
     3},
    {"guided_dropout", "type: 'GuidedDropout'", {kImages, Shape{2, 3}}},
    {"guided_dropout_in_place",
     "type: 'GuidedDropout' guided_dropout_param { guidance_threshold: -0.5 }",
     {kScores, kScores},
     1,
     0,
     true},
    {"guided_dropout_drawn",
     "type: 'GuidedDropout' guided_dropout_param { type: 'stochastic' sigmoid_scaler: 2 }",
     {kImages, Shape{2, 3, 1, 1}}},
    {"mil", "type: 'MIL' mil_param { context_per_roi: 3 }", {Shape{6, 4}}},
    {"mil_of_maps", "type: 'MIL' mil_param { context_per_roi: 2 }", {Shape{4, 2, 3, 1}}},
    {"grid_pooling", "type: 'GRIDPooling' grid_pooling_param { pooled_h: 3 pooled_w: 2 }", {kImages}},
    {"merge_crop", "type: 'MergeCrop'", {kImages, Shape{2, 2, 5, 8}}},
    {"merge_crop_both", merged("backward: [true, true]"), {kImages, Shape{2, 2, 5, 8}}},
    {"merge_crop_second", merged("backward: [false, true]"), {Shape{1, 2, 3}, Shape{1, 1, 4}}},
    {"merge_crop_sum", merged("operation: ADD backward: [true, true]"), {kImages, Shape{2, 3, 7, 5}}},
    {"merge_crop_volumes", merged("backward: [true, true]"), {Shape{1, 2, 2, 1, 3}, Shape{1, 1, 4, 2, 4}}},
    {"bias_channel", "type: 'BiasChannel'", {kImages, Shape{2, 2, 1, 1}}, 1, 3},
    {"affinity", "type: 'Affinity'", {kImages}},
    {"affinity_of_two",
     "type: 'Affinity' affinity_param { offset: 2 offset: 1 }",
     {kImages, Shape{1, 2, 3, 2}},
     2},
    {"malis", "type: 'MalisLoss'", {Shape{2, 2, 3, 4}, Shape{2, 2, 3, 4}, Shape{2, 1, 3, 4}}, 1, 3},
    {"malis_two_numbers", "type: 'MalisLoss'", {Shape{1, 1, 9}, Shape{1, 1, 9}, Shape{1, 2, 9}}, 1, 3},
    {.name = "malis_edges",
     .text = "type: 'MalisLoss'",
     .inputs = {Shape{1, 2, 3, 2, 2}, Shape{1, 2, 3, 2, 2}, Shape{1, 1, 3, 2, 2}, Shape{2, 3}},
     .classes = 3,
     .labels = 2,
     .last_input = {1, 0, -1, 0, -1, 1}},
    {.name = "rand_bi",
     .text = "type: 'RandBI' rand_comp_param { compression_rate: 1 compression_rate: 2 pad: true }",
     .inputs = {kImages, Shape{2, 2, 2, 3}, Shape{5, 3}},
     .last_input = {0, 0.5, 2.25, 1, 2.5, 3.75, 1, 0, 0, 1, 2, 4, 1, 2.5, 3.5}},
    {.name = "channel_select",
     .text = "type: 'ChannelSelect'",
     .inputs = {Shape{4, 3, 2, 3}, Shape{1, 2, 1, 6}},
     .last_input = {2, 0, 0, 9, 9, 0.5, 1, 0, 0, 9, 9, 0.5}},
};

}  // namespace banyan::testing::branch_cases
