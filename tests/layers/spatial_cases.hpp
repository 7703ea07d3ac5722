// Layers that move, resize, cut or gather pixels, with their settings.
#pragma once

#include "layers/gradient_case.hpp"

namespace banyan::testing::spatial_cases {

struct Case {
  std::string name, text;
  std::vector<Shape> inputs;
  Values last_input = {};  ///< if it is not differentiable
};
inline void PrintTo(const Case& tested, std::ostream* out) { *out << tested.name; }

inline std::string deconv(const std::string& settings) {
  return "type: 'Deconvolution' convolution_param { num_output: 4 " + settings + " }";
}

inline std::string correlation(const std::string& settings) {
  return "type: 'Correlation' correlation_param { " + settings + " }";
}

inline const Shape kImage{2, 4, 5, 7}, kSmall{2, 4, 3, 4};

inline const std::vector<Case> kCases = {
    {"deconv", deconv("kernel_size: 3"), {kSmall}},
    {"deconv_batch_1", deconv("kernel_size: 2 stride: 2"), {Shape{1, 2, 3, 2}}},
    {"deconv_pad_stride", deconv("kernel_size: 4 pad: 1 stride: 2"), {kSmall}},
    {"deconv_stride_beyond_kernel", deconv("kernel_size: 2 stride: 3"), {kSmall}},
    {"deconv_group", deconv("kernel_size: 3 group: 2 pad: 1"), {kSmall}},
    {"deconv_depthwise", deconv("kernel_size: 4 stride: 2 pad: 1 group: 4 bias_term: false"), {kSmall}},
    {"deconv_dilation", deconv("kernel_size: 2 dilation: 3 bias_term: false"), {kSmall}},
    {"deconv_hw",
     deconv("kernel_h: 1 kernel_w: 3 pad_w: 1 stride_h: 2 dilation_w: 2 dilation_h: 1"),
     {kSmall}},
    {"deconv_two_inputs", deconv("kernel_size: 2"), {kSmall, Shape{1, 4, 2, 5}}},
    {"deconv_1d", deconv("kernel_size: 3 stride: 2 pad: 1"), {Shape{2, 3, 5}}},
    {"deconv_3d", deconv("kernel_size: [2, 1, 3] stride: [1, 2, 1]"), {Shape{1, 2, 3, 2, 2}}},
    {"deconv_axis_2", deconv("kernel_size: 2 axis: 2"), {Shape{2, 2, 3, 2, 3}}},
    {"deconv_no_spatial_axis", deconv("kernel_size: 1 axis: -1"), {Shape{2, 3, 4}}},
    {"depthwise",
     "type: 'DepthwiseConvolution' convolution_param { num_output: 8 group: 4 kernel_size: 3 pad: 1 }",
     {kImage}},
    {"depthwise_hw",
     "type: 'ConvolutionDepthwise' convolution_param { num_output: 4 kernel_h: 1 kernel_w: 3 stride_h: 2 "
     "stride_w: 1 pad_h: 0 pad_w: 1 bias_term: false }",
     {kImage}},
    {"crop", "type: 'Crop'", {kImage, Shape{1, 1, 3, 4}}, Values(12, 0)},
    {"crop_offsets",
     "type: 'Crop' crop_param { axis: 1 offset: 1 offset: 0 offset: 3 }",
     {kImage, Shape{2, 3, 5, 2}},
     Values(60, 0)},
    {"crop_one_offset",
     "type: 'Crop' crop_param { axis: -2 offset: 1 }",
     {kImage, Shape{9, 9, 2, 3}},
     Values(486, 0)},
    {"crop_batch",
     "type: 'Crop' crop_param { axis: 0 offset: [1, 2] }",
     {Shape{3, 5}, Shape{2, 3}},
     Values(6, 0)},
    {"cross_correlation",
     "type: 'CrossCorrelation' convolution_param { num_output: 2 kernel_size: 3 pad: 1 weight_filler { type: "
     "'uniform' } }",
     {Shape{3, 4, 5, 6}, Shape{1, 8, 3, 3}}},
    {"cross_correlation_groups",
     "type: 'CrossCorrelation' convolution_param { num_output: 4 kernel_size: [2, 3] stride: 2 group: 2 "
     "bias_term: false }",
     {Shape{2, 4, 5, 6}, Shape{4, 2, 2, 3}}},
    {"padding", "type: 'Padding' padding_param { pad_beg: 2 pad_end: 1 }", {kImage}},
    {"padding_moves", "type: 'Padding' padding_param { pad_beg: -1 pad_end: 1 }", {kImage}},
    {"interp_size", "type: 'Interp' interp_param { height: 9 width: 4 }", {kImage}},
    {"interp_zoom", "type: 'Interp' interp_param { zoom_factor: 3 pad_beg: -1 }", {kSmall}},
    {"interp_shrink", "type: 'Interp' interp_param { shrink_factor: 2 pad_beg: -1 pad_end: -1 }", {kImage}},
    {"permute", "type: 'Permute' permute_param { order: [0, 2, 3, 1] }", {kSmall}},
    {"transpose", "type: 'Transpose' transpose_param { dim: [3, 0, 2, 1] }", {kSmall}},
    {"permute_rest", "type: 'Permute' permute_param { order: 2 }", {Shape{2, 3, 4}}},
    {"reorg", "type: 'Reorg' reorg_param { stride: 2 }", {Shape{1, 4, 4, 2}}},
    {"reorg_reverse", "type: 'Reorg' reorg_param { stride: 2 reverse: true }", {Shape{2, 8, 3, 2}}},
    {"shuffle", "type: 'ShuffleChannel' shuffle_channel_param { group: 3 }", {Shape{2, 6, 2, 3}}},
    {"shuffle_vectors", "type: 'ShuffleChannel' shuffle_channel_param { group: 2 }", {Shape{2, 6}}},
    {"im2col", "type: 'Im2col' convolution_param { kernel_size: 3 pad: 1 stride: 2 dilation: 2 }", {kImage}},
    {"im2col_hw", "type: 'Im2col' convolution_param { kernel_h: 1 kernel_w: 3 stride_w: 2 }", {kImage}},
    {"im2col_axis_2", "type: 'Im2col' convolution_param { kernel_size: 2 axis: 2 }", {Shape{2, 2, 3, 2, 3}}},
    {"upsample",
     "type: 'Upsample' upsample_param { scale: 2 }",
     {Shape{1, 2, 2, 2}, Shape{1, 2, 2, 2}},
     {0, 3, 9, 14, 5, 6, 12, 11}},
    {"upsample_size",
     "type: 'Upsample' upsample_param { upsample_h: 3 upsample_w: 5 }",
     {Shape{2, 1, 2, 2}, Shape{2, 1, 2, 2}},
     {0, 3, 9, 14, 5, 6, 12, 11}},
    {"pool_1d", "type: 'Pooling' pooling_param { kernel_size: 3 stride: 2 pad: 1 }", {Shape{2, 2, 7}}},
    {"pool_1d_ave", "type: 'Pooling' pooling_param { pool: AVE kernel_size: 3 stride: 2 }", {Shape{1, 2, 8}}},
    {"pool_3d",
     "type: 'Pooling' pooling_param { kernel_size: [2, 3, 2] stride: [1, 2, 2] pad: [1, 1, 0] }",
     {Shape{2, 2, 3, 5, 4}}},
    {"pool_3d_ave",
     "type: 'Pooling' pooling_param { pool: AVE kernel_size: 2 stride: [2, 1, 2] pad: 1 }",
     {Shape{1, 2, 3, 2, 4}}},
    {"pool_3d_ave_inside",
     "type: 'Pooling' pooling_param { pool: AVE kernel_size: 2 stride: [2, 1, 2] pad: 1 avg_include_pad: "
     "false }",
     {Shape{1, 2, 3, 2, 4}}},
    {"pool_4d_global",
     "type: 'Pooling' pooling_param { pool: AVE global_pooling: true }",
     {Shape{1, 2, 2, 3, 2, 2}}},
    {"pool_4d", "type: 'Pooling' pooling_param { kernel_size: 2 }", {Shape{1, 2, 2, 3, 2, 3}}},
    {"roi_pooling",
     "type: 'ROIPooling' roi_pooling_param { pooled_h: 2 pooled_w: 3 spatial_scale: 0.5 }",
     {kImage, Shape{3, 5}},
     {0, 1, 2, 9, 7, 1, -3, 0, 20, 30, 1, 4, 4, 6, 5}},
    {"roi_pooling_padded",
     "type: 'ROIPooling' roi_pooling_param { pooled_h: 2 pooled_w: 2 spatial_scale: 0.5 pad_ratio: 0.25 }",
     {kImage, Shape{3, 5}},
     {0, 1, 2, 9, 7, 1, -3, 0, 20, 30, 1, 4, 4, 6, 5}},
    {"roi_align_grid",
     "type: 'ROIAlign' roi_pooling_param { pooled_h: 2 pooled_w: 3 spatial_scale: 0.5 pad_ratio: 0.1 }",
     {kImage, Shape{3, 5}},
     {0, 1, 2, 9, 7, 1, -3, 0, 20, 30, 1, 4, 4, 6, 5}},
    {"roi_align",
     "type: 'ROIAlign' roi_align_param { pooled_h: 2 pooled_w: 2 spatial_scale: 0.5 }",
     {kImage, Shape{3, 5}},
     {0, 1, 2, 9, 7, 1, -3, 0, 20, 30, 1, 4, 4, 6, 5}},
    {"roi_align_points",
     "type: 'ROIAlign' roi_align_param { pooled_h: 1 pooled_w: 3 sampling_ratio: 2 }",
     {kImage, Shape{2, 5, 1, 1}},
     {1, 1, 2, 5.5, 4.25, 0, 0, 0, 3, 2}},
    {"psroi_pooling",
     "type: 'PSROIPooling' psroi_pooling_param { output_dim: 1 group_size: 2 spatial_scale: 0.5 }",
     {kImage, Shape{3, 5}},
     {0, 1, 2, 9, 7, 1, -3, 0, 20, 30, 1, 4, 4, 6, 5}},
    {"interp_both", "type: 'Interp' interp_param { shrink_factor: 2 zoom_factor: 3 }", {kImage}},
    {"bilinear_factor",
     "type: 'BilinearInterpolation' bilinear_interpolation_param { interpolation_factor: 3 }",
     {kSmall}},
    {"bilinear_like", "type: 'BilinearInterpolation'", {kSmall, Shape{2, 1, 2, 5}}, Values(20, 0)},
    {"transformer", "type: 'SpatialTransformer'", {kImage, Shape{2, 6}}},
    {"transformer_size",
     "type: 'SpatialTransformer' st_param { output_H: 3 output_W: 8 theta_1_1: 0.75 theta_1_2: -0.25 "
     "theta_2_2: 1.5 }",
     {kImage, Shape{2, 3, 1}}},
    {"moved_votes",
     "type: 'DeformablePSROIPooling' deformable_psroi_pooling_param { output_dim: 1 group_size: 2 "
     "spatial_scale: 0.5 "
     "sample_per_part: 2 }",
     {kImage, Shape{3, 5}},
     {0, 1, 2, 9, 7, 1, -3, 0, 20, 30, 1, 4, 4, 6, 5}},
    {"warp", "type: 'Warp'", {kImage, Shape{2, 2, 5, 7}}},
    {"warp_far", "type: 'FlowWarp'", {kImage, Shape{2, 2, 5, 7}}, spread_values(140, 9, 3)},
    {"remap", "type: 'Remap'", {kImage, Shape{2, 2, 3, 4}}, spread_values(48, 9, 4)},
    {"remap_larger",
     "type: 'Warp' flow_warp_param { coordinates: true }",
     {Shape{2, 2, 2, 3}, Shape{2, 2, 4, 5}},
     spread_values(80, 9, 3)},
    {"flow_transformer", "type: 'FlowTransformer'", {kImage, Shape{2, 2, 5, 7}}},
    {"flow_transformer_far",
     "type: 'FlowTransformer' propagate_down: [true, true]",
     {kImage, Shape{2, 2, 5, 7}},
     spread_values(140, 9, 3)},
    {"deformable",
     "type: 'DeformableConvolution' convolution_param { num_output: 6 kernel_size: 2 stride: 2 group: 2 "
     "deformable_group: 2 }",
     {kImage, Shape{2, 16, 2, 3}}},
    {"correlation", correlation("kernel_size: 1 max_displacement: 2 pad: 2"), {kSmall, kSmall}},
    {"correlation_inside", correlation("kernel_size: 1 max_displacement: 1"), {kImage, kImage}},
    {"correlation_outside",
     correlation("kernel_size: 1 max_displacement: 2 stride_2: 2 pad: 4"),
     {kSmall, kSmall}},
    {"correlation_reach",  // shorter than the border
     correlation("kernel_size: 1 max_displacement: 3 stride_2: 2 pad: 2"),
     {kImage, kImage}},
    {"correlation_channels",  // more than are summed at once
     correlation("kernel_size: 1 max_displacement: 1 pad: 1"),
     {Shape{1, 9, 2, 10}, Shape{1, 9, 2, 10}}},
    {"correlation_patches",
     correlation("kernel_size: 3 max_displacement: 2 stride_1: 2 stride_2: 2 pad: 3"),
     {kSmall, kSmall}},
    {"correlation_differences",
     correlation("kernel_size: 1 max_displacement: 2 pad: 3 correlation_type: SUBTRACT do_abs: true"),
     {kSmall, kSmall}},
    {"correlation_differences_of_patches",
     correlation("kernel_size: 3 max_displacement: 1 stride_1: 2 pad: 2 correlation_type: SUBTRACT"),
     {kSmall, kSmall}},
    {"meanfield",
     "type: 'MultiStageMeanfield' multi_stage_meanfield_param { num_iterations: 2 theta_alpha: 3 theta_beta: "
     "0.8 "
     "theta_gamma: 1.5 }",
     {kSmall, kSmall, Shape{2, 3, 3, 4}},
     spread_values(72, 5)},
    {"mask_pooling", "type: 'MaskPooling'", {kImage, Shape{2, 1, 5, 7}}},
    {"spatial_product", "type: 'SpatialProduct'", {kSmall, Shape{2, 1, 3, 4}}},
    {"roi_warping",
     "type: 'ROIWarping' roi_warping_param { pooled_h: 2 pooled_w: 3 spatial_scale: 0.5 }",
     {kImage, Shape{3, 5}},
     {0, 1, 2, 9, 7, 1, -3, 0, 20, 30, 1, 4, 4, 6, 5}},
    {"roi_pooling_video",
     "type: 'ROIPooling' roi_pooling_param { pooled_l: 2 pooled_h: 2 pooled_w: 1 temporal_scale: 0.5 }",
     {Shape{2, 2, 5, 3, 4}, Shape{3, 3}},
     {0, 1, 7, 1, -4, 30, 1, 2, 2}},
    {"resize", "type: 'Resize' resize_param { height: 3 width: 9 }", {kImage}},
    {"resize_scale", "type: 'Resize' resize_param { scale_x: 0.4 scale_y: 1.5 crop_y: 0.5 }", {kImage}},
    {"tiling", "type: 'Tiling' tiling_param { tile_dim: 2 }", {kImage}},
    {"mask_resize", "type: 'MaskResize' mask_resize_param { output_height: 3 output_width: 4 }", {kImage}},
    {"mask_resize_larger",
     "type: 'MaskResize' mask_resize_param { output_height: 11 output_width: 7 }",
     {kSmall}},
    {"mask_resize_one",
     "type: 'MaskResize' mask_resize_param { output_height: 1 output_width: 9 }",
     {kImage}},
};

/// The same with a gradient case's values; as many outputs as inputs where the layer wants that.
inline GradientCase gradient_case(const Case& of) {
  GradientCase made{of.name, of.text, of.inputs};
  if (make_layer(layer_from_text(of.text), {})->traits().arity.outputs_equal_inputs)
    made.outputs = static_cast<int>(of.inputs.size());
  made.last_input = of.last_input;
  return made;
}

}  // namespace banyan::testing::spatial_cases
