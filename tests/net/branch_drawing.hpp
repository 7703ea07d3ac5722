// Layers and losses of branches of Caffe in random nets.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "net/detector_drawing.hpp"

namespace banyan {

/// A layer takes a blob of maps (from ...) or brings its own, and leaves maps or vectors; a loss leaves
/// nothing that others read.
class BranchDrawing : public DetectorDrawing {
 protected:
  using DetectorDrawing::DetectorDrawing;

  std::string normalization() {
    return one_of("", "", "normalization: FULL", "normalization: BATCH_SIZE", "normalization: VALID",
                  "normalization: NONE");
  }
  std::size_t scores() { return vector_of(pick(below(3) != 0), 5); }

  void add_branch_layer() {
    static const std::vector<Draw> kLayers = {
        {&BranchDrawing::add_reversal, true},
        {&BranchDrawing::add_rectifiers, true},
        {&BranchDrawing::add_largest_values, true},
        {&BranchDrawing::add_channel_scale},
        {&BranchDrawing::add_guided_dropout, true},
        {&BranchDrawing::add_group_norm},
        {&BranchDrawing::add_lengths},
        {&BranchDrawing::add_raised, true},
        {&BranchDrawing::add_local},
        {&BranchDrawing::add_padding},
        {&BranchDrawing::add_grid_pooling, true},
        {&BranchDrawing::add_largest_rows, true},
        {&BranchDrawing::add_mask},
        {&BranchDrawing::add_mask_resize},
        {&BranchDrawing::add_smooth_resize},
        {&BranchDrawing::add_resampling, true},
        {&BranchDrawing::add_tiling},
        {&BranchDrawing::add_merge},
        {&BranchDrawing::add_cross_correlation},
        {&BranchDrawing::add_deformable_convolution},
        {&BranchDrawing::add_moved_votes},
        {&BranchDrawing::add_warped_regions, true},
        {&BranchDrawing::add_transformer},
        {&BranchDrawing::add_warp},
        {&BranchDrawing::add_correlation},
        {&BranchDrawing::add_bilinear},
        {&BranchDrawing::add_outer_product},
        {&BranchDrawing::add_meanfield},
        {&BranchDrawing::add_meanfield},
        {&BranchDrawing::add_meanfield},
        {&BranchDrawing::add_dense_crf, true},
        {&BranchDrawing::add_sequences},
        {&BranchDrawing::add_sequences},
        {&BranchDrawing::add_augmentation},
        {&BranchDrawing::add_colours},
        {&BranchDrawing::add_label_maps},
        {&BranchDrawing::add_points},
        {&BranchDrawing::add_constant},
        {&BranchDrawing::add_grid_targets},
        {&BranchDrawing::add_gathered, false, true},
    };
    draw_one_of(kLayers);
  }

  void add_branch_loss() {
    static const std::vector<Draw> kLosses = {
        {&BranchDrawing::add_distances},
        {&BranchDrawing::add_margins},
        {&BranchDrawing::add_focal_loss},
        {&BranchDrawing::add_distribution_loss},
        {&BranchDrawing::add_ctc_loss},
        {&BranchDrawing::add_ctc_loss},
        {&BranchDrawing::add_code_loss},
        {&BranchDrawing::add_code_loss},
        {&BranchDrawing::add_batch_loss},
        {&BranchDrawing::add_batch_loss},
        {&BranchDrawing::add_difference_loss},
        {&BranchDrawing::add_difference_loss},
        {&BranchDrawing::add_image_loss},
        {&BranchDrawing::add_entropy_loss},
        {&BranchDrawing::add_similarity_loss},
        {&BranchDrawing::add_matching, true},
        {&BranchDrawing::add_center_loss, true},
        {&BranchDrawing::add_parts, true},
        {&BranchDrawing::add_distances_to_batch, false, true},
    };
    draw_one_of(kLosses);
  }

 private:
  struct Draw {
    void (BranchDrawing::*draw)(std::size_t from);
    bool kinks = false, alone = false;  ///< only where these are allowed
  };
  void draw_one_of(const std::vector<Draw>& all) {
    const Draw& one = all[random_() % all.size()];
    if ((one.kinks && !allowed_.kinks) || (one.alone && !allowed_.alone)) return draw_one_of(all);
    (this->*one.draw)(pick());
  }
  bool in_place(std::size_t from) { return from != 0 && below(2) == 0; }
  /// Maps as large as these.
  std::size_t as_large(std::size_t from) {
    for (int i = 0; i < 20; ++i)
      if (const std::size_t other = pick(); form(other).h == form(from).h && form(other).w == form(from).w)
        return other;
    return from;
  }

  void add_reversal(std::size_t from) {
    if (below(2) == 0) from = vector_of(from, 5);
    const std::string type = one_of("GradientReversal", "GradientScaler");
    const std::string settings =
        type == "GradientReversal"
            ? ""
            : one_of("", "gradient_scaler_param { lower_bound: 0.5 upper_bound: 2 alpha: 3 max_iter: 4 }");
    add({type, settings, {from}}, form(from));
  }
  void add_rectifiers(std::size_t from) {
    const Form f = form(from);
    if (f.c > 8 || f.w > 6) return;
    if (below(3) == 0) {
      add({"CReLU", "crelu_param { negative_slope: 0.25 concat_axis: -1 }", {from}}, {f.c, f.h, 2 * f.w});
    } else {
      add({"CReLU", one_of("", "crelu_param { negative_slope: 0.25 }"), {from}}, {2 * f.c, f.h, f.w});
    }
  }
  void add_largest_values(std::size_t from) {
    if (below(3) == 0) from = vector_of(from, 6);
    const Form f = form(from);
    if (f.c * std::max(1, f.h * f.w) < 4) return;
    add({"TopK",
         f.c >= 2 ? one_of("topk_param { k: 3 a: 1.5 }", "topk_param { k: 1 a: 2 across_channels: true }")
                  : "topk_param { k: 3 }",
         {from}},
        f);
  }
  void add_channel_scale(std::size_t from) {
    if (below(3) == 0) from = vector_of(from, 5);
    const Form f = form(from);
    const std::size_t factors = f.h == 0        ? vector_of(from, 1)
                                : below(2) == 0 ? convolution(from, 1, 1)
                                                : vector_of(pick(), f.h * f.w);
    const std::string stopped =
        allowed_.kinks ? one_of("", "channel_scale_param { do_backward_scale: false }") : "";
    add({"ChannelScale", stopped, {from, factors}, {}, 1, in_place(from)}, f);
  }
  void add_guided_dropout(std::size_t from) {
    const Form f = form(from);
    const std::size_t guidance = vector_of(pick(), f.c);
    add({"GuidedDropout",
         one_of("", "guided_dropout_param { guidance_threshold: -0.5 }",
                "guided_dropout_param { type: 'stochastic' sigmoid_scaler: 2 }"),
         {from, guidance},
         {},
         1,
         in_place(from)},
        f);
  }
  void add_group_norm(std::size_t from) {
    const Form f = form(from);
    const int groups = f.c % 2 == 0 ? 1 + below(2) : 1;
    if (f.c / groups * f.h * f.w < 9) return;  // deviations of few values amplify rounding
    add({"GroupNorm", cat("group_norm_param { eps: 0.01 group_num: ", groups, " }"), {from}}, f);
  }
  void add_lengths(std::size_t from) {
    const Form f = form(from);
    if (f.c < 2 && !allowed_.kinks) return;
    add({"ChannelNorm", "", {from}}, {1, f.h, f.w});
  }
  void add_raised(std::size_t from) {
    add_elementwise(from, "ExpMax", "expmax_param { base: 2 scale: 0.5 }");
  }
  void add_local(std::size_t from) {
    const Form f = form(from);
    if (f.c * f.h * f.w > 200) return;
    const bool half = below(2) == 0;
    add({"Local",
         cat("local_param { num_output: 3 kernel_size: 3 pad: 1 ", half ? "stride: 2 " : "",
             one_of("", "shared_bias: true ", "bias_term: false "), kFillers, " }"),
         {from}},
        half ? Form{3, (f.h + 1) / 2, (f.w + 1) / 2} : Form{3, f.h, f.w});
  }

  void add_padding(std::size_t from) {
    const Form f = form(from);
    const int before = below(3) - 1, after = below(3) - 1;
    const int cut = std::min(before, 0) + std::min(after, 0);
    if (std::min(f.h, f.w) + cut < 1 || std::max(f.h, f.w) > 8) return;
    add({"Padding", cat("padding_param { pad_beg: ", before, " pad_end: ", after, " }"), {from}},
        {f.c, f.h + before + after, f.w + before + after});
  }
  void add_grid_pooling(std::size_t from) {
    add({"GRIDPooling", "grid_pooling_param { pooled_h: 2 pooled_w: 3 }", {from}}, {form(from).c, 2, 3});
  }
  /// Half of a sample's channels are a row of their own.
  void add_largest_rows(std::size_t from) {
    const Form f = form(from);
    if (f.c % 2 != 0) return;
    const std::size_t rows = add_unreadable(
        {"Reshape",
         cat("reshape_param { shape { dim: -1 dim: ", f.c / 2, " dim: ", f.h, " dim: ", f.w, " } }"),
         {from}});
    add({"MIL", "mil_param { context_per_roi: 2 }", {rows}}, {f.c / 2, f.h, f.w});
  }
  void add_mask(std::size_t from) {
    std::size_t mask = convolution(from, 1, 1);
    if (below(2) == 0) mask = add_elementwise(mask, "Sigmoid");
    add({one_of("MaskPooling", "SpatialProduct"), "", {from, mask}}, form(from));
  }
  void add_mask_resize(std::size_t from) {
    const Form made{form(from).c, 1 + below(7), 1 + below(7)};
    add({"MaskResize",
         cat("mask_resize_param { output_height: ", made.h, " output_width: ", made.w, " }"),
         {from}},
        made);
  }
  void add_smooth_resize(std::size_t from) {
    const Form f = form(from);
    if (std::min(f.h, f.w) < 3) return;
    const std::size_t like = pick();
    if (below(3) == 0 && std::min(form(like).h, form(like).w) > 1) {
      add({"Resize", one_of("", "resize_param { crop: 0.5 }"), {from, like}},
          {f.c, form(like).h, form(like).w});
    } else if (below(2) == 0) {
      const auto half = [](int length) { return length / 2 + 1; };  // half of length - 1, rounded up
      add({"Resize", "resize_param { scale: 0.5 }", {from}}, {f.c, half(f.h), half(f.w)});
    } else {
      const Form made{f.c, 2 + below(5), 2 + below(5)};
      add({"Resize",
           cat("resize_param { height: ", made.h, " width: ", made.w, one_of("", " crop_y: 0.5"), " }"),
           {from}},
          made);
    }
  }
  void add_resampling(std::size_t from) {
    const Form f = form(from);
    const Form made{f.c, 2 + below(5), 2 + below(5)};
    if (below(2) == 0 && made.h <= f.h && made.w <= f.w) {
      add({"Downsample",
           cat("downsample_param { top_height: ", made.h, " top_width: ", made.w, " }"),
           {from}},
          made);
    } else {
      add({"Resample",
           cat("resample_param { height: ", made.h, " width: ", made.w,
               one_of("", " type: NEAREST", " type: CUBIC", " antialias: false"), " }"),
           {from}},
          made);
    }
  }
  void add_tiling(std::size_t from) {
    const Form f = form(from);
    if (f.c % 4 != 0 || std::max(f.h, f.w) > 6) return;
    add({"Tiling", "tiling_param { tile_dim: 2 }", {from}}, {f.c / 4, 2 * f.h, 2 * f.w});
  }
  void add_merge(std::size_t from) {
    const std::size_t other = pick();
    const Form a = form(from), b = form(other);
    if (b.h < a.h || b.w < a.w || a.c + b.c > 16) return;
    const std::string backward = allowed_.kinks ? one_of("", "backward: false ", "backward: [true, true] ")
                                                : "backward: [true, true] ";
    if (a.c == b.c && below(2) == 0) {
      add({"MergeCrop", cat("mergecrop_param { operation: ADD ", backward, "}"), {from, other}}, a);
    } else {
      add({"MergeCrop", cat("mergecrop_param { ", backward, "}"), {from, other}}, {a.c + b.c, a.h, a.w});
    }
  }

  void add_cross_correlation(std::size_t from) {
    const Form f = form(from);
    const int group = f.c % 2 == 0 ? 1 + below(2) : 1;
    const std::size_t weights = add_unreadable({"Parameter",
                                                cat("parameter_param { shape { dim: 4 dim: ", f.c / group,
                                                    " dim: 3 dim: 3 } blob_filler { type: 'xavier' } }"),
                                                {}});
    add({"CrossCorrelation",
         cat("convolution_param { num_output: 4 kernel_size: 3 pad: 1 group: ", group, " ", kFillers, " }"),
         {from, weights}},
        {4, f.h, f.w});
  }
  void add_deformable_convolution(std::size_t from) {
    const Form f = form(from);
    if (!allowed_.kinks || (is_six_by_six(from) && below(2) == 0)) {
      from = six_by_six(from);
      add({"DeformableConvolution",
           cat("convolution_param { num_output: 4 kernel_size: 1 ", kFillers, " }"),
           {from},
           {"flow"}},
          {4, 6, 6});
      return;
    }
    const int groups = f.c % 2 == 0 ? 1 + below(2) : 1;
    const std::size_t moves = convolution(from, 18 * groups, 1);
    add({"DeformableConvolution",
         cat("convolution_param { num_output: 4 kernel_size: 3 pad: 1 deformable_group: ", groups, " ",
             kFillers, " }"),
         {from, moves}},
        {4, f.h, f.w});
  }
  void add_moved_votes(std::size_t from) {
    const Form f = form(from);
    if (f.c % 4 != 0) return;
    std::vector<std::size_t> moves;
    if (allowed_.kinks && below(3) != 0)
      moves.push_back(add_unreadable(
          {"Reshape", "reshape_param { shape { dim: 0 dim: 2 dim: 2 dim: 2 } }", {vector_of(pick(), 8)}}));
    add({"DeformablePSROIPooling",
         cat("deformable_psroi_pooling_param { output_dim: ", f.c / 4,
             " group_size: 2 spatial_scale: 1 sample_per_part: 2 trans_std: 0.1 }"),
         {from},
         {"regions"},
         1,
         false,
         moves},
        {f.c / 4, 2, 2});
  }
  void add_warped_regions(std::size_t from) {
    add({"ROIWarping", "roi_warping_param { pooled_h: 2 pooled_w: 3 }", {from}, {"regions"}},
        {form(from).c, 2, 3});
  }
  void add_transformer(std::size_t from) {
    const Form f = form(from);
    const bool own_size = below(2) == 0;
    const std::string size = own_size ? "output_H: 3 output_W: 5 " : "";
    const Form made = own_size ? Form{f.c, 3, 5} : f;
    const auto add_with = [&](const std::string& settings, const std::vector<std::size_t>& inputs,
                              const std::vector<std::string>& fed) {
      add({"SpatialTransformer", cat("st_param { ", settings, size, "}"), inputs, fed}, made);
    };
    if (!allowed_.kinks || below(3) == 0) return add_with("", {from}, {"theta"});
    const std::string stopped = one_of("", "to_compute_dU: false ");
    if (below(2) == 0) return add_with(stopped, {from, vector_of(pick(), 6)}, {});
    add_with("theta_1_1: 0.75 theta_2_2: 0.5 " + stopped, {from, vector_of(pick(), 4)}, {});
  }
  void add_warp(std::size_t from) {
    if (!allowed_.kinks || below(3) == 0) {
      from = six_by_six(from);
      add({one_of("Warp", "FlowWarp"), "", {from}, {"flow"}}, form(from));
      return;
    }
    const std::size_t flow = convolution(from, 2, 1);
    if (below(3) == 0) {
      const Form f = form(flow);
      const std::size_t grid = add({"Grid", "", {from}}, f), places = add({"Eltwise", "", {flow, grid}}, f);
      if (below(2) == 0) {
        const std::size_t maps = six_by_six(from);
        add({"Remap", "", {maps, places}}, {form(maps).c, f.h, f.w});
        return;
      }
      add({"Warp", "flow_warp_param { coordinates: true }", {from, places}}, form(from));
      return;
    }
    const std::string type = one_of("Warp", "FlowWarp", "FlowTransformer");
    const std::string propagated =
        type == "FlowTransformer" && from != 0 ? one_of("", "propagate_down: [true, true]") : "";
    add({type, propagated, {from, flow}}, form(from));
  }
  void add_correlation(std::size_t from) {
    const Form f = form(from);
    const std::size_t other = like(from);
    const bool half = below(3) == 0;
    add({"Correlation",
         cat("correlation_param { ",
             one_of("kernel_size: 1 max_displacement: 1 pad: 1 ",
                    "kernel_size: 1 max_displacement: 2 stride_2: 2 pad: 2 ",
                    "kernel_size: 3 max_displacement: 1 pad: 2 "),
             half ? "stride_1: 2 " : "", allowed_.kinks ? one_of("", "correlation_type: SUBTRACT ") : "",
             "}"),
         {from, other}},
        half ? Form{9, (f.h + 1) / 2, (f.w + 1) / 2} : Form{9, f.h, f.w});
  }
  /// Of two maps, as compact bilinear pooling is used.
  void add_bilinear(std::size_t from) {
    const Form f = form(from);
    const std::size_t other = as_large(from);
    const bool summed = below(2) == 0;
    std::size_t at = add_unreadable(
        {"CompactBilinear",
         cat("compact_bilinear_param { num_output: 8 sum_pool: ", summed ? "true" : "false", " }"),
         {from, other}});
    if (allowed_.kinks && below(2) == 0) at = add_unreadable({"SignedSqrt", "", {at}});
    const Form made = summed ? Form{8, 1, 1} : Form{8, f.h, f.w};
    if (below(2) == 0) {
      add({"Normalize", "norm_param { across_spatial: true eps: 0.01 }", {at}}, made);
    } else {
      add({"Power", cat("power_param { scale: ", summed ? 0.003 : 0.1, " }"), {at}}, made);
    }
  }
  void add_outer_product(std::size_t from) {
    const std::size_t first = vector_of(from, 5);
    const std::size_t products =
        add_unreadable({"OuterProduct", "", {first, vector_of(pick(below(2) == 0), 6)}});
    add({"TanH", "", {products}}, {1, 5, 6});
  }

  /// Colours for maps of 6 x 6, within limits: those of a net that diverges would be refused.
  std::size_t learned_colours() { return add({"TanH", "", {convolution(0, 3, 1)}}, {3, 6, 6}); }
  /// Mean-field inference over scores of classes.
  void add_meanfield(std::size_t from) {
    from = six_by_six(from);
    const bool fed = !allowed_.kinks || below(3) == 0;
    std::vector<std::size_t> colours;
    if (!fed) {
      colours.push_back(learned_colours());
      if (below(3) != 0) from = colours[0];  // which learn through the scores only
    }
    const std::size_t scores = convolution(from, 5, 1);
    const std::size_t first = below(3) == 0 ? convolution(from, 5, 1) : scores;
    const std::size_t made =
        add({"MultiStageMeanfield",
             cat("multi_stage_meanfield_param { num_iterations: ", 1 + below(2),
                 " theta_alpha: 3 theta_beta: ", one_of("0.5", "0.8"), " theta_gamma: 1.5 ",
                 one_of("", "spatial_filter_weight: 0.5 bilateral_filter_weight: 0.8 ",
                        "spatial_filter_weights_str: '3 2 1 2 3' "),
                 "}"),
             {scores, first},
             fed ? std::vector<std::string>{"colours"} : std::vector<std::string>{},
             1,
             false,
             colours},
            form(scores));
    if (below(2) == 0)
      add_loss_layer("SoftmaxWithLoss", "loss_param { ignore_label: 2 }", {made}, {"label_map"});
  }
  void add_dense_crf(std::size_t from) {
    const std::size_t colours = learned_colours();
    const std::size_t scores = convolution(below(2) == 0 ? colours : six_by_six(from), 4, 1);
    if (below(2) == 0) {
      add({"DenseCRF",
           cat("dense_crf_param { max_iter: 2 pos_w: 1 pos_xy_std: 2 bi_w: 2 bi_xy_std: 3 bi_rgb_std: 0.5 ",
               one_of("", "output_probability: false "), "}"),
           {scores},
           {"sizes"},
           1,
           false,
           {colours}},
          form(scores));
    } else {
      add({"DenseCRF",
           "densecrf_param { x_gauss: 2 y_gauss: 1.5 wt_gauss: 1 x_bilateral: 3 y_bilateral: 4 r_bilateral: "
           "0.5 g_bilateral: 0.7 b_bilateral: 0.4 wt_bilateral: 2 }",
           {scores, colours}},
          {1, 6, 6});
    }
  }

  /// The rows as time steps of sequences that begin with the batch.
  void add_sequences(std::size_t from) {
    const Form f = form(from);
    const std::size_t steps = add_unreadable({"Permute", "permute_param { order: [2, 0, 1, 3] }", {from}});
    const std::string type = one_of("Lstm", "Lstm", "LSTM", "RNN");
    std::vector<std::size_t> inputs{steps};
    if (type != "Lstm" || below(2) == 0)
      inputs.push_back(add_unreadable({"ContinuationIndicator",
                                       cat("continuation_indicator_param { time_step: ", f.h, " axis: 1 }"),
                                       {steps}}));
    const std::string clipped =
        type == "Lstm" && allowed_.kinks ? one_of("", "clipping_threshold: 0.01 ") : "";
    std::size_t at = add_unreadable({type,
                                     cat(type == "Lstm" ? "lstm" : "recurrent",
                                         "_param { num_output: 3 weight_filler { type: 'uniform' min: -0.5 "
                                         "max: 0.5 } bias_filler { type: "
                                         "'uniform' min: -0.5 max: 0.5 } ",
                                         clipped, "}"),
                                     inputs});
    at = add_unreadable({"Permute", "permute_param { order: [1, 2, 0] }", {at}});
    add({"Reshape", cat("reshape_param { shape { dim: 0 dim: 3 dim: ", f.h, " dim: 1 } }"), {at}},
        {3, f.h, 1});
  }

  /// Images that are changed at random, and now and then once more, together with a flow.
  void add_augmentation(std::size_t) {
    const std::string cut =
        "crop_height: 5 crop_width: 5 max_multiplier: 3 chromatic_eigvec: [0.51, 0.56, 0.65, "
        "0.79, 0.01, -0.62, 0.35, -0.83, 0.44] ";
    const std::size_t images = add(
        {"DataAugmentation",
         cat("augmentation_param { ", cut,
             "mirror { rand_type: 'bernoulli' prob: 0.5 } rotate { spread: 0.1 } translate { spread: 0.1 } ",
             one_of("", "noise { mean: 0.1 } ", "lmult_pow { rand_type: 'gaussian' exp: true spread: 0.1 } "),
             one_of("", "recompute_mean: 2 ", "recompute_mean: 3 mean_per_pixel: false "), "}"),
         {},
         {"colours"},
         2},
        {3, 5, 5});
    const std::size_t rows = images + 1;
    blobs_[rows].readable = false;
    if (below(2) == 0) return;
    const std::size_t more = add_unreadable(
        {"GenerateAugmentationParameters",
         cat("augmentation_param { ", one_of("", "mode: 'replace' ", "mode: 'regenerate' "),
             "zoom { exp: true spread: 0.1 } gamma { rand_type: 'gaussian' exp: true spread: 0.2 } }"),
         {rows},
         {"colours"},
         1,
         false,
         {images}});
    add({"DataAugmentation", cat("augmentation_param { ", cut, "}"), {}, {"colours"}, 1, false, {more}},
        {3, 5, 5});
    add({"FlowAugmentation",
         "augmentation_param { crop_height: 5 crop_width: 5 }",
         {},
         {"flow"},
         1,
         false,
         {rows, more}},
        {2, 5, 5});
  }
  void add_colours(std::size_t) {
    const std::size_t colours = add_unreadable({"Power", "power_param { scale: 255 }", {}, {"colours"}});
    const std::string space = one_of("RGB", "XYZ", "Lab", "Gray");
    const std::size_t made = add({"ColorConv", cat("color_conv_param { output: ", space, " }"), {colours}},
                                 {space == "Gray" ? 1 : 3, 6, 6});
    blobs_[made].readable = false;
    add({"Power", "power_param { scale: 0.01 }", {made}}, form(made));
  }
  void add_label_maps(std::size_t) {
    const std::size_t labels = add_unreadable(
        {"Reshape", "reshape_param { shape { dim: 0 dim: 1 dim: 6 dim: 6 } }", {}, {"label_map"}});
    add_unreadable(
        {"UniqueLabel", "unique_label_param { max_labels: 7 force_label: 9 ignore_label: 2 }", {labels}});
    add({"Rescale", "rescale_param { rf: 3 }", {labels}, {}, 1 + below(2)}, {1, 6, 6});
    add({"Quantize", "", {labels}}, {1, 6, 6});
  }
  /// As in PixelNet.
  void add_points(std::size_t from) {
    const Form f = form(from);
    if (f.h < 3 || f.w < 3 || f.c > 12) return;
    const std::size_t points =
        add_unreadable({"Slice", "slice_param { axis: 1 slice_point: 3 }", {}, {"regions"}, 2});
    blobs_[points + 1].readable = false;
    add({"RandBI",
         "rand_comp_param { compression_rate: 1 compression_rate: 2 pad: true }",
         {from, like(from), points}},
        {2 * f.c, 0, 0});
  }
  void add_constant(std::size_t from) {
    const std::size_t added = add_unreadable({"DummyData",
                                              cat("dummy_data_param { shape { dim: ", form(from).c,
                                                  " } data_filler { type: 'constant' value: 0.25 } }"),
                                              {}});
    add({"Bias", "", {from, added}}, form(from));
  }
  void add_gathered(std::size_t from) { add({one_of("Gather", "Scatter"), "", {from}}, form(from)); }

  void add_loss_layer(const std::string& type, const std::string& settings, std::vector<std::size_t> inputs,
                      std::vector<std::string> fed = {}, std::vector<std::size_t> last = {}) {
    add_unreadable({type, settings + one_of("", "", " loss_weight: 0.3"), std::move(inputs), std::move(fed),
                    1, false, std::move(last)});
  }

  /// To learned rows, as in NormFace.
  void add_distances(std::size_t) {
    const std::size_t from = add({"TanH", "", {scores()}}, {5, 0, 0});
    const std::size_t distances = add({"InnerDistance",
                                       cat("inner_distance_param { num_output: 5 ",
                                           allowed_.kinks ? one_of("", "distance_type: 'L1' ") : "",
                                           allowed_.kinks ? one_of("", "normalize: true ") : "",
                                           one_of("", "bias_term: false "), kFillers, " }"),
                                       {from}},
                                      {5, 0, 0});
    if (allowed_.kinks && below(3) == 0)
      return add_loss_layer(
          "GeneralTripletLoss",
          cat("general_triplet_loss_param { ", one_of("", "margin: 0.5 "), one_of("", "hardest_only: true "),
              one_of("", "add_center_loss: false "), one_of("", "positive_weight: 0.5 negative_weight: 2 "),
              "}"),
          {distances},
          below(3) == 0 ? std::vector<std::string>{"label", "flag"} : std::vector<std::string>{"label"});
    if (allowed_.kinks && below(2) == 0)
      return add_loss_layer(
          "GeneralContrastiveLoss",
          cat("general_contrastive_loss_param { ",
              one_of("", "negative_margin: 100 exp_negative_weight: true positive_weight: 0.5 ",
                     "positive_margin: 0.5 negative_margin: 4 positive_outlier_thresh: 9 "),
              "}"),
          {distances}, {"label"});
    add_loss_layer("SoftmaxWithLoss", "",
                   {add_elementwise(distances, "Power", "power_param { scale: -0.5 }")}, {"label"});
  }
  void add_margins(std::size_t) {
    if (allowed_.kinks && below(3) == 0) return add_common_margin();
    const std::size_t from = scores();
    const bool adds = allowed_.kinks && below(2) == 0;
    const std::string settings =
        adds ? cat("label_specific_add_param { ",
                   one_of("bias: -0.35 ", "bias_base: -0.1 bias_gamma: -0.01 bias_min: -0.4 iteration: 3 "),
                   "}")
             : cat("label_specific_rescale_param { ",
                   one_of("positive_weight: 0.5 negative_weight: 2 ",
                          "positive_weight: 0.5 rescale_test: true ",
                          "positive_weight_base: 3 gamma: 0.5 positive_weight_min: 0.25 "),
                   "}");
    const bool shows = below(3) == 0;
    const std::size_t made = add({adds ? "LabelSpecificAdd" : "LabelSpecificRescale",
                                  settings,
                                  {from},
                                  {"label"},
                                  shows ? 2 : 1,
                                  !shows && below(2) == 0},
                                 {5, 0, 0});
    if (shows) blobs_[made + 1].readable = false;
    add_loss_layer("SoftmaxWithLoss", "", {made}, {"label"});
  }
  /// One that follows the batches, of what takes the place of cosines.
  void add_common_margin() {
    std::vector<std::size_t> inputs;
    if (below(2) == 0) inputs.push_back(add_elementwise(vector_of(pick(), 1), "Sigmoid"));
    const std::size_t from = add({"TanH", "", {scores()}}, {5, 0, 0});
    const bool shows = below(2) == 0;
    const std::size_t made = add(
        {"GlobalLSEMargin",
         one_of("scale_param { filler { value: 4 } }", "scale_param { filler { value: 8 } max_value: 5 }"),
         {from},
         {"label"},
         shows ? 2 : 1,
         !shows && below(2) == 0,
         inputs},
        {5, 0, 0});
    if (shows) blobs_[made + 1].readable = false;
    add_loss_layer("SoftmaxWithLoss", "", {made}, {"label"});
  }
  void add_focal_loss(std::size_t from) {
    const std::string settings = cat(one_of("", "softmax_focal_loss_param { gamma: 1.5 alpha: 0.7 } ",
                                            "softmax_focal_loss_param { gamma: 0 alpha: 1 } "),
                                     "loss_param { ", normalization(), one_of("", " ignore_label: 1"), " }");
    if (below(4) == 0)
      return add_loss_layer("OverlapSoftmaxWithLoss", cat("loss_param { ", normalization(), " }"), {scores()},
                            {"label", "flag"});
    const std::string type = one_of("SoftmaxFocalLoss", "SoftmaxWithFocalLoss");
    if (below(2) == 0) return add_loss_layer(type, settings, {scores()}, {"label"});
    add_loss_layer(type, settings, {convolution(six_by_six(from), 5, 1)}, {"label_map"});
  }
  void add_distribution_loss(std::size_t from) {
    const std::string settings = cat("loss_param { ", normalization(), " }");
    if (below(2) == 0)
      return add_loss_layer("SoftmaxCrossEntropyLoss", settings, {scores()}, {one_of("target", "weights")});
    add_loss_layer("SoftmaxCrossEntropyLoss", cat(settings, one_of("", " softmax_param { axis: -1 }")),
                   {convolution(six_by_six(from), 3, 1)}, {"colours"});
  }
  void add_ctc_loss(std::size_t) {
    const std::size_t rows = add_unreadable({"Reshape",
                                             "reshape_param { shape { dim: 0 dim: 6 dim: 5 } }",
                                             {vector_of(pick(below(2) == 0), 30)}});
    const std::size_t steps = add_unreadable({"Permute", "permute_param { order: [1, 0, 2] }", {rows}});
    const std::size_t marks = add_unreadable(
        {"ContinuationIndicator", "continuation_indicator_param { time_step: 6 axis: 1 }", {steps}});
    // Without a normalization the loss is a mean, and the gradient that of the sum.
    const std::string divided =
        cat(" loss_param { ",
            allowed_.kinks ? one_of("", "normalization: BATCH_SIZE", "normalization: NONE")
                           : one_of("normalization: BATCH_SIZE", "normalization: NONE"),
            " }");
    if (below(3) == 0)
      add_unreadable({"CTCGreedyDecoder", "", {steps, marks}, {}, 2});
    else if (below(3) == 0)
      add_unreadable({"CTCGreedyDecoder", "ctc_decoder_param { blank_index: 1 }", {steps}});
    if (allowed_.alone && below(2) == 0) {
      add_unreadable({"LabelsequenceAccuracy", "", {rows}, {"words"}});
      add_unreadable({"CTCGreedyDecoder", "", {steps, marks}, {"columns"}, 3});
    }
    switch (below(3)) {
      case 0:
        return add_loss_layer("CTCLoss",
                              cat(one_of("", "ctc_loss_param { ctc_merge_repeated: false }"), divided),
                              {steps, marks}, {"columns"});
      case 1:
        return add_loss_layer("WarpCTCLoss", divided, {steps}, {"words"});
      default:
        return add_loss_layer("CtcLoss",
                              cat("ctc_loss_param { alphabet_size: 5 time_step: 6 blank_label: 0 }", divided),
                              {steps}, {"words"});
    }
  }
  /// For binary codes.
  void add_code_loss(std::size_t) {
    const std::size_t codes = scores();
    switch (below(allowed_.kinks ? 6 : 4)) {
      case 0:
        return add_loss_layer("PairwiseLoss", "pairwise_param { threshold: 15 }", {codes}, {"classes"});
      case 1: {
        const std::size_t others = scores(), labels = fed_blob("classes");
        return add_loss_layer(
            "PairwiseLoss",
            one_of("",
                   "pairwise_param { class_num: 3 sigmoid_param: 0.5 l_lambda: 0.25 continous_similarity: "
                   "true }"),
            {codes}, {"classes"}, {others, labels});
      }
      case 2:
        return add_loss_layer("K1_EuclideanLoss", "", {codes});
      case 3:
        return add_loss_layer("K2_EuclideanLoss", "", {codes});
      case 4:
        return add_loss_layer("QuantizationLoss", "", {codes});
      default:
        return add_loss_layer("HashingLoss", one_of("", "hashing_loss_param { bi_margin: 8 tradeoff: 0.5 }"),
                              {codes}, {"label"});
    }
  }
  /// Of all samples of the batch together.
  void add_batch_loss(std::size_t) {
    const std::size_t first = scores();
    switch (below(allowed_.kinks ? 6 : 2)) {
      case 0:
        return add_loss_layer("XCovLoss", "", {first, vector_of(pick(), 4)});
      case 1:
        return add_loss_layer("CORALLoss", "", {first, scores()});
      case 2:
        return add_loss_layer("LiftedStructSimilaritySoftmaxLoss",
                              one_of("", "lifted_struct_sim_softmax_loss_param { margin: 2 }"), {first},
                              {"label"});
      case 3:
        return add_loss_layer("MMDLoss", one_of("", "mmd_param { kernel_num: 2 kernel_mul: 3 }"),
                              {first, scores()});
      case 4: {
        const std::size_t second = scores();
        const std::size_t shares = add({"Softmax", "", {scores()}}, {5, 0, 0});
        const std::size_t others = add({"Softmax", "", {scores()}}, {5, 0, 0});
        const bool two = below(2) == 0;
        add_unreadable(
            {"JMMDLoss",
             cat("jmmd_param { label_kernel_mode: PROB_RBF label_kernel_num: 1 ",
                 one_of("sigma: 1.3 ", "auto_sigma: true "), one_of("", "label_back_propagate: true "), "}",
                 two ? " loss_weight: 1 loss_weight: 0.5" : ""),
             {first, second, shares, others},
             {},
             two ? 2 : 1});
        return;
      }
      default:
        return add_loss_layer(
            "RankHardLoss",
            one_of("rank_param { pair_size: 2 neg_num: 9 }",
                   "rank_param { pair_size: 2 neg_num: 2 hard_ratio: 0.5 rand_ratio: 0.5 }"),
            {first}, {"label"});
    }
  }
  void add_similarity_loss(std::size_t from) {
    if (allowed_.kinks && below(3) == 0) {
      const std::size_t first = scores();
      return add_loss_layer("DoubleMarginContrastiveLoss",
                            "double_margin_contrastive_loss_param { margin_gen: 0.5 margin_imp: 3 }",
                            {first, scores()}, {"flag"});
    }
    if (below(3) == 0) {
      const std::size_t first = below(2) == 0 ? scores() : from;
      std::vector<std::size_t> compared = {first, like(first)};
      if (below(2) == 0) compared.push_back(pick());  // which has no effect
      if (below(2) == 0)
        return add_loss_layer(
            "EuclideanLossHeatmap",
            one_of("loss_param { normalization: BATCH_SIZE }", "loss_param { normalize: true }"), compared);
      add_unreadable({"EuclideanLossHeatmap", "loss_weight: 0.01", compared});  // of the sum over all values
      return;
    }
    if (below(2) == 0) {
      const std::size_t first = below(2) == 0 ? scores() : from;
      return add_loss_layer("DiceCoefLoss", one_of("", "loss_param { normalization: BATCH_SIZE }"),
                            {first, like(first)});
    }
    const std::size_t first = scores();
    add_loss_layer("CosineLoss",
                   cat("loss_param { ", normalization(), " } ", one_of("", "cosine_loss_param { axis: -1 }")),
                   {first, scores()});
  }
  /// With a remembered sample of each class, and with those of no class.
  void add_matching(std::size_t) {
    const std::size_t from = scores();
    const std::size_t labels = add_unreadable({"Power", "power_param { shift: -1 }", {}, {"label"}});
    const std::size_t labeled = add_unreadable({"LabeledMatching",
                                                cat("labeled_matching_param { num_classes: 3 momentum: 0.5 }",
                                                    one_of("", " param { lr_mult: 0 } param { lr_mult: 0 }")),
                                                {from, labels},
                                                {},
                                                2});
    const std::size_t unlabeled =
        add_unreadable({"UnlabeledMatching", "unlabeled_matching_param { queue_size: 3 }", {from, labels}});
    const std::size_t both = add_unreadable({"Concat", "", {labeled, unlabeled}});
    add_loss_layer("SoftmaxWithLoss", "loss_param { ignore_label: -1 }", {both, labeled + 1});
  }
  void add_difference_loss(std::size_t from) {
    if (below(3) == 0) {
      const std::size_t vector = scores();
      add_unreadable({"AccuracyRegression", "", {vector}, {"target"}});
      return add_loss_layer("CharbonnierLoss",
                            one_of("charbonnier_loss_param { epsilon: 0.1 }",
                                   "charbonnier_loss_param { alpha: 0.4 beta: 2.5 epsilon: 0.1 }"),
                            {vector},
                            below(2) == 0 ? std::vector<std::string>{"weights"} : std::vector<std::string>{});
    }
    std::vector<std::size_t> compared{from};
    if (below(2) == 0) compared.push_back(like(from));
    std::string settings = one_of("", "l2_prescale_by_channels: true ", "normalize_by_num_entries: true ");
    if (below(3) == 0)
      return add_loss_layer(
          "L1Loss", cat("l1_loss_param { l2_per_location: true epsilon: 0.1 ", settings, "}"), compared);
    settings += allowed_.kinks ? one_of("p: 1 q: 0.4 ", "p: 1.5 q: 0.7 p_epsilon: 0.1 q_epsilon: 0.2 ",
                                        "pq_episode_starts_at_iter: [0, 2] p: [2, 1] q: [0.5, 0.4] ")
                               : "p: 2 q: 0.5 q_epsilon: 0.1 ";
    add_loss_layer("LpqLoss", cat("lpq_loss_param { ", settings, "}"), compared);
  }
  void add_image_loss(std::size_t from) {
    const std::string settings =
        cat("ssim_loss_param { c1: 0.01 c2: 0.03 ",
            one_of("kernel_size: 4 stride: 3 ", "kernel_size: 3 stride: 1 "), "} loss_weight: 0.05");
    if (!allowed_.kinks || below(2) == 0) {
      add_unreadable({"SSIMLoss", settings, {convolution(six_by_six(from), 3, 1)}, {"colours"}});
    } else {
      const std::size_t other = like(from);
      add_unreadable({"SSIMLoss", settings, {from, other}});
    }
  }
  void add_entropy_loss(std::size_t) {
    const std::size_t shares = add({"Softmax", "", {scores()}}, {5, 0, 0});
    add_loss_layer("EntropyLoss",
                   allowed_.kinks ? one_of("", "entropy_param { threshold: 0.1 iterations_num: 1 }")
                                  : "entropy_param { threshold: 0 }",
                   {shares});
  }
  void add_center_loss(std::size_t) {
    add_loss_layer("CenterCosLoss",
                   "center_cos_loss_param { num_output: 5 center_cos_filler { type: 'uniform' } }",
                   {scores()}, {"label"});
  }
  /// Of images, by their affinities.
  void add_parts(std::size_t from) {
    const std::size_t shares = add_elementwise(convolution(six_by_six(from), 2, 1), "Sigmoid");
    const std::size_t labels = add_unreadable(
        {"Reshape", "reshape_param { shape { dim: 0 dim: 1 dim: 6 dim: 6 } }", {}, {"label_map"}});
    const std::size_t affinities =
        add({"Affinity", "affinity_param { offset: 1 }", {shares, labels}, {}, 2}, {2, 6, 6});
    blobs_[affinities + 1].readable = false;
    const std::size_t parts = add_unreadable({"ConnectedComponent", "", {labels}});
    add_loss_layer("MalisLoss", "", {affinities, affinities + 1, parts});
  }
  void add_distances_to_batch(std::size_t) {
    const std::size_t first = scores();
    add_unreadable(
        {"InnerDistance", "inner_distance_param { bias_term: false } loss_weight: 0.01", {first, scores()}});
  }
};

}  // namespace banyan
