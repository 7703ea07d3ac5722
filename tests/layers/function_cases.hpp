// Layers that are a function of one element, and PReLU, with their settings.
#pragma once

#include "layers/gradient_case.hpp"

namespace banyan::testing::function_cases {

inline const Shape kSmall{2, 3, 4, 3};

inline const std::vector<GradientCase> kCases = {
    {"power_identity", "type: 'Power'", {kSmall}},
    {"power_affine", "type: 'Power' power_param { scale: -2 shift: 3 }", {kSmall}},
    {"power_square", "type: 'Power' power_param { power: 2 scale: 0.5 shift: 0.1 }", {kSmall}},
    {"power_root", "type: 'Power' power_param { power: 0.5 scale: 0.5 shift: 1.5 }", {kSmall}},
    {"power_negative", "type: 'Power' power_param { power: -1.5 shift: 2 }", {kSmall}},
    {"power_zero", "type: 'Power' power_param { power: 0 }", {kSmall}},
    {"power_scale_zero", "type: 'Power' power_param { power: 3 scale: 0 shift: 2 }", {kSmall}},
    {"power_in_place", "type: 'Power' power_param { scale: -2 shift: 3 }", {kSmall}, 1, 0, true},
    {"exp", "type: 'Exp'", {kSmall}},
    {"exp_base", "type: 'Exp' exp_param { base: 0.3 scale: 1.5 shift: -1 }", {Shape{1, 7}}},
    {"exp_in_place", "type: 'Exp'", {kSmall}, 1, 0, true},
    {"log", "type: 'Log'", {kSmall}, 1, 0, false, -1, 1, 2},
    {"log_base", "type: 'Log' log_param { base: 10 scale: 0.5 shift: 2 }", {kSmall}},
    {"absval", "type: 'AbsVal'", {kSmall}},
    {"bnll", "type: 'BNLL'", {kSmall}, 1, 0, false, -1, 5},
    {"bnll_in_place", "type: 'BNLL'", {kSmall}, 1, 0, true},
    {"clip", "type: 'Clip' clip_param { min: -0.3 max: 0.5 }", {kSmall}},
    {"swish", "type: 'Swish'", {kSmall}, 1, 0, false, -1, 4},
    {"swish_beta", "type: 'Swish' swish_param { beta: -1.7 }", {Shape{5}}},
    {"hard_swish", "type: 'HardSwish'", {kSmall}, 1, 0, false, -1, 5},
    {"mish", "type: 'Mish'", {kSmall}, 1, 0, false, -1, 5},
    {"min_relu", "type: 'MinReLU'", {kSmall}},
    {"min_relu_slope", "type: 'MinReLU' minrelu_param { positive_slope: -0.25 }", {Shape{5}}},
    {"insanity", "type: 'Insanity'", {kSmall}},
    {"insanity_in_place", "type: 'Insanity' insanity_param { lb: 1.5 ub: 4 }", {Shape{3, 7}}, 1, 0, true},
    {"crelu", "type: 'CReLU'", {kSmall}},
    {"crelu_slope", "type: 'CReLU' crelu_param { negative_slope: 0.25 concat_axis: -1 }", {kSmall}},
    {"prelu", "type: 'PReLU'", {kSmall}},
    {"prelu_shared", "type: 'PReLU' prelu_param { channel_shared: true }", {kSmall}},
    {"prelu_vectors", "type: 'PReLU'", {Shape{1, 5}}},
    {"prelu_frozen", "type: 'PReLU' param { lr_mult: 0 }", {kSmall}},
};

}  // namespace banyan::testing::function_cases
