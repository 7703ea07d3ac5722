// Layers that reduce, repeat, select or normalize, with their settings.
#pragma once

#include "layers/gradient_case.hpp"

namespace banyan::testing::small_layer_cases {

inline const Shape kSmall{2, 3, 4, 3}, kImage{2, 2, 7, 8};

inline std::string reduction(const std::string& settings) {
  return "type: 'Reduction' reduction_param { " + settings + " }";
}
inline std::string batch_reduction(const std::string& settings) {
  return "type: 'BatchReduction' batch_reduction_param { " + settings + " }";
}
inline std::string mvn(const std::string& settings) { return "type: 'MVN' mvn_param { " + settings + " }"; }
inline std::string norm(const std::string& settings) {
  return "type: 'Normalize' norm_param { " + settings + " }";
}
inline std::string spp(const std::string& settings) { return "type: 'SPP' spp_param { " + settings + " }"; }
inline std::string tile(const std::string& settings) {
  return "type: 'Tile' tile_param { " + settings + " }";
}

inline const std::vector<GradientCase> kCases = {
    {"reduction", "type: 'Reduction'", {kSmall}},
    {"reduction_asum", reduction("operation: ASUM axis: 1 coeff: 0.7"), {kSmall}},
    {"reduction_sumsq", reduction("operation: SUMSQ axis: -1 coeff: -2"), {kSmall}},
    {"reduction_mean", reduction("operation: MEAN axis: 2 coeff: 3"), {kSmall}},
    {"tile", tile("tiles: 3"), {kSmall}},
    {"tile_batch", tile("axis: 0 tiles: 2"), {kSmall}},
    {"tile_last", tile("axis: -1 tiles: 4"), {Shape{1, 3}}},
    {"group_norm", "type: 'GroupNorm' group_norm_param { group_num: 2 eps: 0.1 }", {Shape{2, 4, 3}}},
    {"group_norm_alone", "type: 'GroupNorm' group_norm_param { group_num: 3 }", {Shape{2, 3, 2, 2}}},
    {"mvn", "type: 'MVN'", {kSmall}},
    {"mvn_eps", mvn("eps: 0.2"), {Shape{2, 2, 3, 2, 2}}},
    {"mvn_across", mvn("across_channels: true"), {kSmall}},
    {"mvn_mean_only", mvn("normalize_variance: false"), {kSmall}},
    {"mvn_mean_across", mvn("normalize_variance: false across_channels: true"), {Shape{1, 2, 3}}},
    {"embed", "type: 'Embed' embed_param { num_output: 3 input_dim: 4 }", {Shape{5}}, 1, 4},
    {"embed_no_bias",
     "type: 'Embed' embed_param { num_output: 2 input_dim: 3 bias_term: false }",
     {Shape{2, 3}},
     1,
     3},
    {"batch_reindex", "type: 'BatchReindex'", {kSmall, Shape{5}}, 1, 2},
    {.name = "filter",
     .text = "type: 'Filter'",
     .inputs = {Shape{5, 2, 3, 2}, Shape{5}, Shape{5, 1}},
     .outputs = 2,
     .last_input = {1, 0, -0.5, 0, 2}},
    {.name = "filter_none",
     .text = "type: 'Filter'",
     .inputs = {Shape{2, 3}, Shape{2, 1, 1}},
     .last_input = {0, 0}},
    {"spp", spp("pyramid_height: 3"), {kImage}},
    {"spp_ave", spp("pyramid_height: 2 pool: AVE"), {kImage}},
    {"spp_net4", spp("pyramid_type: SPP_NET4"), {kImage}},
    {"spp_net6_ave", spp("pyramid_type: SPP_NET6 pool: AVE"), {kImage}},
    {"normalize_fixed", norm("across_spatial: false fix_scale: true"), {kSmall}},
    {"normalize_plain", "type: 'Normalize'", {kSmall}},
    {"normalize_lengths", "type: 'Normalize' normalize_param { bp_norm: true }", {kSmall}, 2},
    {"normalize_pixels", "type: 'Normalize' normalize_param { }", {kSmall}},
    {"normalize_shared", norm("eps: 0.1"), {kSmall}},
    {"normalize_channels", norm("channel_shared: false"), {kSmall}},
    {"normalize_positions", norm("across_spatial: false"), {kSmall}},
    {"normalize_ssd",
     norm("across_spatial: false channel_shared: false scale_filler { value: 20 }"),
     {kSmall}},
    {"normalize_vectors", norm("across_spatial: false channel_shared: false"), {Shape{1, 4}}},
    {"axpy", "type: 'Axpy'", {Shape{2, 3}, kSmall, kSmall}},
    {"axpy_four_axes", "type: 'Axpy'", {Shape{2, 3, 1, 1}, kSmall, kSmall}},
    {"axpy_vectors", "type: 'Axpy'", {Shape{1, 3}, Shape{1, 3}, Shape{1, 3}}},
    {"batch_reduction", batch_reduction("reduction_param { axis: 1 }"), {kSmall}},
    {"batch_reduction_mean",
     batch_reduction("level: 1 reduction_param { axis: 0 operation: MEAN }"),
     {kSmall}},
    {"batch_reduction_levels",
     batch_reduction("level: 2 level: 1 reduction_param { axis: 1 operation: MEAN }"),
     {Shape{2, 5, 3}}},
    {"batch_reduction_topk",
     batch_reduction("level: 1 level: 2 reduction_param { axis: -1 operation: TOPK k: 2 }"),
     {Shape{2, 3, 5}}},
    {"batch_reduction_diagonal",
     batch_reduction("pos: true reduction_param { axis: 1 }"),
     {Shape{2, 3, 3, 2}}},
    {"batch_reduction_diagonal_mean",
     batch_reduction("pos: true level: 2 reduction_param { axis: 0 operation: MEAN }"),
     {Shape{4, 4, 3}}},
    {"gather", "type: 'Gather'", {kSmall, Shape{2}}, 2},
};

}  // namespace banyan::testing::small_layer_cases
