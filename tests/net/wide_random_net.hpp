// Random valid nets of most layer types, small enough for hundreds of them to run within seconds.
#pragma once

#include <string>
#include <vector>

#include "net/branch_drawing.hpp"

namespace banyan {

/// Maps (N x C x H x W) go through layers that keep, change or restore their size; vectors (N x C) branch off
/// them; 1 to 3 losses of any kind end the net, and sometimes a detector's head.
class WideRandomNet : public BranchDrawing {
 public:
  explicit WideRandomNet(unsigned seed, Allowed allowed = {}) : BranchDrawing(seed, allowed) {
    if (seed % 7 == 1) add_frozen_stem();
    for (int i = 5 + below(12); i > 0; --i) add_layer();
    for (int i = 1 + below(3); i > 0; --i) add_loss();
    add_detectors();
    if (below(4) == 0) add_filtered_head();
  }

 private:
  /// A Scale that learns, over data or a frozen convolution.
  void add_frozen_stem() {
    std::size_t at = 0;
    if (below(2) == 0)
      at = add({"Convolution",
                cat("convolution_param { num_output: 4 kernel_size: 3 pad: 1 ", kFillers,
                    " } param { lr_mult: 0 } param { lr_mult: 0 }"),
                {at}},
               form(at));
    at = add_elementwise(at, "BatchNorm", one_of("", "batch_norm_param { use_global_stats: true eps: 1 }"));
    at = add_elementwise(at, "Scale",
                         "scale_param { bias_term: true filler { type: 'uniform' min: 0.5 max: 1.5 } }");
    if (below(2) == 0) add_elementwise(at, allowed_.kinks ? one_of("ReLU", "ELU") : "ELU");
  }
  void add_layer() {
    switch (below(13)) {
      case 10:
        return add_volume(pick());
      case 11:
      case 12:
        return add_branch_layer();
      case 0:
      case 1:
        return add_function(pick(below(5) != 0));
      case 2:
        return add_normalization(pick());
      case 3:
      case 4:
        return add_convolution(pick());
      case 5:
        return add_join(pick(below(5) != 0));
      case 6:
      case 7:
        return add_resizing(pick());
      case 8:
        return add_vectors();
      default:
        return add_order(pick());
    }
  }

  void add_function(std::size_t from) {
    struct Function {
      const char *type, *settings;
      bool kinks;
    };
    static const Function kFunctions[] = {
        {"ReLU", "", true},
        {"ReLU", "relu_param { negative_slope: 0.3 }", true},
        {"ReLU", "relu_param { negative_slope: -0.25 }", true},
        {"ReLU", "", true},
        {"PReLU", "", true},
        {"PReLU", "prelu_param { channel_shared: true filler { value: 0.4 } }", true},
        {"Clip", "clip_param { min: -0.5 max: 0.75 }", true},
        {"Clip", "clip_param { min: -0.25 max: 2 }", true},
        {"AbsVal", "", true},
        {"Threshold", "threshold_param { threshold: 0.1 }", true},
        {"ELU", "elu_param { alpha: 0.5 }", true},
        {"ELU", "elu_param { alpha: 1.67 lambda: 1.05 }", true},
        {"ELU", "", false},
        {"Swish", "", false},
        {"HardSwish", "", true},
        {"MinReLU", "minrelu_param { positive_slope: 0.25 }", true},
        {"Insanity", "insanity_param { lb: 2 ub: 5 }", true},
        {"Swish", "swish_param { beta: 1.5 }", false},
        {"Sigmoid", "", false},
        {"TanH", "", false},
        {"BNLL", "", false},
        {"Exp", "exp_param { base: 2 scale: 0.25 shift: -0.5 }", false},
        {"Power", "power_param { scale: 0.5 shift: 0.25 }", false},
        {"Power", "power_param { power: 2 scale: 0.5 shift: -0.125 }", false},
        {"Dropout", "dropout_param { dropout_ratio: 0.25 }", false},
        {"Scale", "scale_param { bias_term: true filler { type: 'uniform' min: 0.5 max: 1.5 } }", false},
        {"Scale", "scale_param { filler { type: 'uniform' min: 0.5 max: 1.5 } }", false},
        {"Bias", "bias_param { filler { type: 'uniform' min: -0.5 max: 0.5 } }", false},
        {"Log", "log_param { shift: 0.5 }", false},
        {"Mish", "", false},
        {"ScaleTanH", "", false},
        {"ScaleTanH", "scale_tanh_param { init_scale: 0.5 gamma: 0.5 power: 0.5 step_size: 2 }", false},
        {"SpatialDropout", "dropout_param { dropout_ratio: 0.25 }", false},
        {"SpatialDropout", "spatial_dropout_param { dropout_ratio: 0.4 }", false},
        {"SignedSqrt", "", false},
        {"Sparsify", "sparsify_param { coef: 0.01 }", true},
        {"Sparsify", "sparsify_param { coef: 0.01 thre: 0.2 }", true},
        {"SymmetricRectify", "symmetric_rectify_param { filler { value: 0.1 } thre_decay: 0.01 }", true},
        {"SymmetricRectify", "symmetric_rectify_param { channel_shared: true filler { value: 0.05 } }", true},
    };
    const Function& drawn = kFunctions[random_() % std::size(kFunctions)];
    if (drawn.kinks && !allowed_.kinks) return add_function(from);
    // Near 0 roots amplify rounding.
    if (drawn.type == std::string("Log") || drawn.type == std::string("SignedSqrt"))
      from = add_elementwise(from, "Sigmoid");
    const std::size_t made = add_elementwise(from, drawn.type, drawn.settings);
    if (drawn.type == std::string("ReLU") && below(3) == 0) add_elementwise(made, "Dropout");
  }

  void add_normalization(std::size_t from) {
    const Form f = form(from);
    const std::string fillers =
        "slope_filler { type: 'uniform' min: 0.5 max: 1.5 } bias_filler { type: 'uniform' min: -0.5 max: 0.5 "
        "}";
    switch (below(8)) {
      case 0:
      case 1: {
        from = add_elementwise(
            from, "BatchNorm",
            one_of("", "batch_norm_param { engine: MKLDNN bias_term: false filler { value: 2 } }",
                   "batch_norm_param { use_global_stats: true eps: 1 }"));
        from = add_elementwise(
            from, "Scale", "scale_param { bias_term: true filler { type: 'uniform' min: 0.5 max: 1.5 } }");
        if (below(2) == 0) add_elementwise(from, allowed_.kinks ? one_of("ReLU", "ELU") : "ELU");
        return;
      }
      case 2:
        add_elementwise(from, "BN", cat("bn_param { ", fillers, " }"));
        return;
      case 3:
        from = add_elementwise(from, "SyncBN", cat("bn_param { ", fillers, " }"));
        if (below(2) == 0) add_elementwise(from, allowed_.kinks ? one_of("ReLU", "AbsVal", "ELU") : "ELU");
        return;
      case 4:
        add({"LRN",
             one_of("lrn_param { local_size: 3 alpha: 0.5 }",
                    "lrn_param { local_size: 3 alpha: 0.7 norm_region: WITHIN_CHANNEL }",
                    "lrn_param { local_size: 5 alpha: 0.1 beta: 0.5 k: 2 }"),
             {from}},
            f);
        return;
      case 5:
        if (f.h * f.w < 9) return;  // deviations of few values amplify rounding
        add({"MVN",
             one_of("mvn_param { eps: 0.01 }", "mvn_param { normalize_variance: false }",
                    "mvn_param { across_channels: true eps: 0.01 }"),
             {from}},
            f);
        return;
      case 6:
        add({"Normalize",
             one_of("norm_param { across_spatial: true eps: 0.01 scale_filler { value: 2 } }",
                    "norm_param { across_spatial: false channel_shared: false eps: 0.01 scale_filler { "
                    "value: 1.5 } }",
                    "norm_param { across_spatial: false eps: 0.01 }"),
             {from}},
            f);
        return;
      default:
        add({"Softmax", one_of("", "softmax_param { axis: 2 }"), {from}}, f);
    }
  }

  void add_convolution(std::size_t from) {
    const Form f = form(from);
    switch (below(6)) {
      case 0:
        if (f.h <= 6) {
          const std::size_t up =
              add({"Deconvolution",
                   cat("convolution_param { num_output: 3 kernel_size: 4 stride: 2 pad: 1 ", kFillers, " }"),
                   {from}},
                  {3, 2 * f.h, 2 * f.w});
          if (below(2) == 0) add_function(up);
          return;
        }
        [[fallthrough]];
      case 1:
        add({one_of("DepthwiseConvolution", "ConvolutionDepthwise"),
             cat("convolution_param { num_output: ", f.c, " kernel_size: 3 pad: 1 ", kFillers, " }"),
             {from}},
            f);
        return;
      case 2:
        if (f.c % 2 == 0) {
          add({"Convolution",
               cat("convolution_param { num_output: 4 group: 2 kernel_size: 3 pad: 2 dilation: 2 bias_term: "
                   "false ",
                   kFillers, " }"),
               {from}},
              {4, f.h, f.w});
          return;
        }
        [[fallthrough]];
      default: {
        const std::size_t made = convolution(from, below(4) == 0 ? 8 : 4, below(2) == 0 ? 1 : 3);
        if (below(2) == 0 && allowed_.kinks) add_elementwise(made, one_of("ReLU", "PReLU"));
      }
    }
  }

  /// The channels as the depth of a volume.
  void add_volume(std::size_t from) {
    const Form f = form(from);
    std::size_t at = add_unreadable(
        {"Reshape",
         cat("reshape_param { shape { dim: 0 dim: 1 dim: ", f.c, " dim: ", f.h, " dim: -1 } }"),
         {from}});
    at = add_unreadable(
        {one_of("Convolution", "Deconvolution"),
         cat("convolution_param { num_output: 2 kernel_size: [3, 1, 3] pad: [1, 0, 1] ", kFillers, " }"),
         {at}});
    if (below(2) == 0) at = add_unreadable({"BatchNorm", "", {at}});
    if (below(2) == 0)
      at = add_unreadable({"Pooling",
                           cat("pooling_param { kernel_size: [3, 3, 1] pad: [1, 1, 0] pool: ",
                               allowed_.kinks ? one_of("MAX", "AVE") : "AVE", " }"),
                           {at}});
    add({"Reshape",
         cat("reshape_param { shape { dim: 0 dim: ", 2 * f.c, " dim: ", f.h, " dim: -1 } }"),
         {at}},
        {2 * f.c, f.h, f.w});
  }

  void add_join(std::size_t from) {
    const Form f = form(from);
    const std::size_t other = like(from);
    switch (below(12)) {
      case 10:
        add({"Split", "", {from}, {}, 2}, f);
        return;
      case 11: {
        const std::size_t added =
            add_unreadable({"Parameter", cat("parameter_param { shape { dim: ", f.c, " } }"), {}});
        add({"Bias", "", {from, added}}, f);
        return;
      }
      case 0:
      case 1:
        add({"Eltwise", one_of("", "", "eltwise_param { coeff: 1 coeff: -0.5 }"), {from, other}}, f);
        return;
      case 2:
        add({"Eltwise",
             one_of("eltwise_param { operation: PROD }",
                    allowed_.kinks ? "eltwise_param { operation: MAX }" : ""),
             {from, other}},
            f);
        return;
      case 3:
        if (f.c % 2 == 0 && f.c >= 4) {
          const std::size_t half = add({"Slice", "", {from}, {}, 2}, {f.c / 2, f.h, f.w});
          if (below(3) == 0) add({"Silence", "", {half + 1}, {}, 0}, f);
          return;
        }
        [[fallthrough]];
      case 4:
        if (f.c <= 8) add({"Concat", "", {from, other}}, {2 * f.c, f.h, f.w});
        return;
      case 5: {
        if (f.h == 0) return;
        // A factor for each channel of each sample, as in squeeze and excitation.
        std::size_t factor =
            add({"Pooling", "pooling_param { pool: AVE global_pooling: true }", {from}}, {f.c, 1, 1});
        factor = add_elementwise(factor, "Sigmoid");
        if (below(2) == 0) {
          add({"Axpy", "", {factor, from, other}}, f);
        } else {
          factor = add({"Flatten", "", {factor}}, {f.c, 0, 0});
          add({"Scale", "scale_param { axis: 0 }", {from, factor}}, f);
        }
        return;
      }
      case 6:
        add({"Eltwise", "", {from, other, like(from)}}, f);
        return;
      case 7:
        if (f.h == 0) return;
        add({"Convolution",
             cat("convolution_param { num_output: 4 kernel_size: 1 ", kFillers, " }"),
             {from, other},
             {},
             2},
            {4, f.h, f.w});
        return;
      case 8: {
        const std::size_t added = vector_of(from, f.c);
        add({"Bias", "bias_param { axis: 0 }", {from, added}}, f);
        return;
      }
      default:
        add({"BatchReindex", "", {from}, {"neighbour"}}, f);
    }
  }

  void add_resizing(std::size_t from) {
    const Form f = form(from);
    switch (below(12)) {
      case 0: {
        if (f.h < 2 || f.w < 2 || !allowed_.kinks) break;
        const Form half{f.c, (f.h + 1) / 2, (f.w + 1) / 2};
        const std::size_t pooled =
            add({"Pooling", "pooling_param { kernel_size: 2 stride: 2 }", {from}, {}, 2}, half);
        blobs_[pooled + 1].readable = false;
        std::size_t small = pooled;
        if (below(3) != 0) small = convolution(pooled, f.c, 3);
        const bool segnet = below(2) == 0;
        add({segnet ? "Upsample" : "Unpooling",
             cat(segnet ? "upsample_param { upsample_h: " : "unpooling_param { unpool_h: ", f.h,
                 segnet ? " upsample_w: " : " unpool_w: ", f.w, " }"),
             {small, pooled + 1}},
            f);
        return;
      }
      case 1:
        if (f.h > 6) break;
        add({"Upsample", "", {from}}, {f.c, 2 * f.h, 2 * f.w});
        return;
      case 2: {
        const Form made{f.c, 3 + below(4), 3 + below(4)};
        if (below(3) == 0 && 2 * std::max(f.h, f.w) <= 12)
          add({"BilinearInterpolation", "bilinear_interpolation_param { interpolation_factor: 2 }", {from}},
              {f.c, 2 * f.h, 2 * f.w});
        else
          add({"Interp", cat("interp_param { height: ", made.h, " width: ", made.w, " }"), {from}}, made);
        return;
      }
      case 3: {
        const std::size_t small = pick();
        const Form to = form(small);
        if (to.h > f.h || to.w > f.w) break;
        add({"Crop", cat("crop_param { offset: ", f.h - to.h, " offset: 0 }"), {from, small}},
            {f.c, to.h, to.w});
        return;
      }
      case 4:
        if (f.h % 2 == 0 && f.w % 2 == 0 && f.c == 4) {
          add({"Reorg", "reorg_param { stride: 2 }", {from}}, {4 * f.c, f.h / 2, f.w / 2});
        } else if (f.c % 4 == 0 && f.h <= 6) {
          add({"Reorg", "reorg_param { stride: 2 reverse: true }", {from}}, {f.c / 4, 2 * f.h, 2 * f.w});
        }
        return;
      case 5:
        if (f.c * f.w * f.h > 300) break;
        if (below(2) == 0) {
          add({"Tile", "tile_param { axis: 1 tiles: 2 }", {from}}, {2 * f.c, f.h, f.w});
        } else {
          add({"Tile", "tile_param { axis: -1 tiles: 2 }", {from}}, {f.c, f.h, 2 * f.w});
        }
        return;
      case 6:
        if (f.h < 3 || f.w < 3) break;
        add({"Im2col", "convolution_param { kernel_size: 2 stride: 2 }", {from}},
            {4 * f.c, (f.h - 2) / 2 + 1, (f.w - 2) / 2 + 1});
        if (f.c > 4) convolution(blobs_.size() - 1, 4, 1);
        return;
      case 7:
        if (f.h > 6 || f.w > 6) break;
        add({"Unpooling", "unpooling_param { unpool: FIXED kernel_size: 3 stride: 2 pad: 1 }", {from}},
            {f.c, 2 * f.h - 1, 2 * f.w - 1});
        return;
      case 8: {
        if (f.h < 3 || f.w < 3) break;
        const std::string type = allowed_.kinks ? one_of("ROIPooling", "ROIAlign") : "ROIAlign";
        add({type,
             cat(type == "ROIAlign" ? "roi_align_param" : "roi_pooling_param",
                 " { pooled_h: 2 pooled_w: 3 }"),
             {from},
             {"regions"}},
            {f.c, 2, 3});
        return;
      }
      case 9:
        if (f.c % 4 != 0) break;
        add({"PSROIPooling",
             cat("psroi_pooling_param { output_dim: ", f.c / 4, " group_size: 2 spatial_scale: 1 }"),
             {from},
             {"regions"}},
            {f.c / 4, 2, 2});
        return;
      default:
        break;
    }
    const std::string how = allowed_.kinks ? one_of("MAX", "AVE", "STOCHASTIC", "AVE") : "AVE";
    const bool half = f.h >= 3 && f.w >= 3 && f.h * f.w > 36;
    if (how == "STOCHASTIC") {  // of values that are not negative
      if (f.h % 2 != 0 || f.w % 2 != 0) return;
      from = add_elementwise(from, "Sigmoid");
      add({"Pooling", "pooling_param { kernel_size: 2 stride: 2 pool: STOCHASTIC }", {from}},
          {f.c, f.h / 2, f.w / 2});
    } else if (half) {
      add({"Pooling", cat("pooling_param { kernel_size: 2 stride: 2 pool: ", how, " }"), {from}},
          {f.c, (f.h + 1) / 2, (f.w + 1) / 2});
    } else {
      add({"Pooling", cat("pooling_param { kernel_size: 3 pad: 1 pool: ", how, " }"), {from}}, f);
    }
  }

  void add_order(std::size_t from) {
    const Form f = form(from);
    switch (below(7)) {
      case 0:
        add({"ShuffleChannel", cat("shuffle_channel_param { group: ", f.c % 2 == 0 ? 2 : 1, " }"), {from}},
            f);
        return;
      case 1:
        if (below(2) == 0)
          add({"Flip", one_of("", "flip_param { flip_height: true }"), {from}}, f);
        else
          add({"Reverse", one_of("reverse_param { axis: 1 }", "reverse_param { axis: [2, -1] }"), {from}}, f);
        return;
      case 2: {
        const std::size_t turned =
            below(2) == 0
                ? add({"Permute", "permute_param { order: [0, 1, 3, 2] }", {from}}, {f.c, f.w, f.h})
                : add({"Transpose", "transpose_param { dim: [0, 1, 3, 2] }", {from}}, {f.c, f.w, f.h});
        if (below(2) == 0) add_function(turned);
        return;
      }
      case 3: {
        // There and back, with something between.
        std::size_t at = add({"Permute", "permute_param { order: [0, 2, 3, 1] }", {from}}, {f.h, f.w, f.c});
        if (below(2) == 0) at = add({"Softmax", "softmax_param { axis: 3 }", {at}}, {f.h, f.w, f.c});
        add({"Permute", "permute_param { order: [0, 3, 1, 2] }", {at}}, f);
        return;
      }
      case 4: {
        std::size_t at = add({"Flatten", "", {from}}, {f.c * f.h * f.w, 0, 0});
        if (below(2) == 0) at = add_elementwise(at, one_of("TanH", "Swish"));
        add({"Reshape",
             cat("reshape_param { shape { dim: 0 dim: ", f.c, " dim: -1 dim: ", f.w, " } }"),
             {at}},
            f);
        return;
      }
      case 5: {
        if (f.h != 6) return;
        // The rows as time steps.
        std::vector<std::size_t> fixed;
        if (below(2) == 0) fixed.push_back(vector_of(pick(), 4));
        std::size_t at = add({"Permute", "permute_param { order: [2, 0, 1, 3] }", {from}}, {});
        blobs_[at].readable = false;
        at = add({one_of("LSTM", "RNN"),
                  "recurrent_param { num_output: 3 weight_filler { type: 'uniform' min: -0.5 max: 0.5 } "
                  "bias_filler { "
                  "type: 'uniform' min: -0.5 max: 0.5 } }",
                  {at},
                  {"cont"},
                  1,
                  false,
                  fixed},
                 {});
        blobs_[at].readable = false;
        at = add({"Permute", "permute_param { order: [1, 2, 0] }", {at}}, {});
        blobs_[at].readable = false;
        add({"Reshape", "reshape_param { shape { dim: 0 dim: 3 dim: 2 dim: 3 } }", {at}}, {3, 2, 3});
        return;
      }
      default: {
        const std::size_t half =
            f.w >= 2
                ? add({"Slice", cat("slice_param { axis: 3 slice_point: ", f.w / 2, " }"), {from}, {}, 2},
                      {f.c, f.h, f.w / 2})
                : 0;
        if (half == 0) return;
        blobs_[half + 1].form.w = f.w - f.w / 2;
        if (below(2) == 0) add_function(half);
        add({"Concat",
             "concat_param { axis: 3 }",
             {blobs_.size() - 1 > half + 1 ? blobs_.size() - 1 : half, half + 1}},
            f);
      }
    }
  }

  void add_vectors() {
    const std::size_t from = pick();
    const Form f = form(from);
    switch (below(9)) {
      case 8: {
        const std::size_t cell = vector_of(from, 2), gates = vector_of(from, 8);
        const std::size_t c =
            add_unreadable({"Reshape", "reshape_param { shape { dim: 1 dim: -1 dim: 2 } }", {cell}});
        const std::size_t g =
            add_unreadable({"Reshape", "reshape_param { shape { dim: 1 dim: -1 dim: 8 } }", {gates}});
        const std::size_t step = add_unreadable({"LSTMUnit", "", {c, g}, {"cont_1"}, 2});
        add({"Reshape", "reshape_param { shape { dim: -1 dim: 2 } }", {step + 1}}, {2, 0, 0});
        return;
      }
      case 0:
        if (f.h < 2 || f.w < 2) return;
        add({"SPP",
             cat("spp_param { pyramid_height: 2 pool: ", allowed_.kinks ? one_of("MAX", "AVE") : "AVE", " }"),
             {from}},
            {5 * f.c, 0, 0});
        return;
      case 1:
        add({"Reduction",
             cat("reduction_param { axis: 2 operation: ",
                 allowed_.kinks ? one_of("SUM", "MEAN", "SUMSQ", "ASUM") : one_of("SUM", "MEAN", "SUMSQ"),
                 " coeff: 0.125 }"),
             {from}},
            {f.c, 0, 0});
        return;
      case 2:
        add({"Embed",
             "embed_param { num_output: 4 input_dim: 5 weight_filler { type: 'uniform' } bias_filler { type: "
             "'uniform' } }",
             {},
             {"label"}},
            {4, 0, 0});
        return;
      case 4:
        add({"BatchReduction",
             cat("batch_reduction_param { level: 1 level: 2 reduction_param { axis: 1 operation: ",
                 allowed_.kinks ? one_of("TOPK k: 1", "SUM", "MEAN") : "MEAN", " } }"),
             {vector_of(from, 5)}},
            {2, 0, 0});
        return;
      case 5:
        if (!allowed_.kinks) return;
        blobs_[add({"ArgMax", "argmax_param { axis: 1 }", {from}}, f)].readable = false;
        return;
      case 3:
        add({"Pooling", "pooling_param { pool: AVE global_pooling: true }", {from}}, {f.c, 1, 1});
        add({"Flatten", "", {blobs_.size() - 1}}, {f.c, 0, 0});
        return;
      default: {
        const std::size_t made = vector_of(from, below(2) == 0 ? 6 : 5);
        if (below(2) == 0) add_function(made);
      }
    }
  }

  void add_loss() {
    const std::string weight = one_of("", "", " loss_weight: 0.3");
    const int outputs = below(4) == 0 ? 2 : 1;
    const auto loss = [&](const std::string& type, const std::string& settings,
                          std::vector<std::size_t> inputs, std::vector<std::string> fed) {
      const bool shows = type == "SoftmaxWithLoss" || type == "InfogainLoss" || type == "SoftmaxWithLossOHEM";
      const std::size_t made = add(
          {type, settings + weight, std::move(inputs), std::move(fed), shows && weight.empty() ? outputs : 1},
          {});
      for (std::size_t blob = made; blob < blobs_.size(); ++blob) blobs_[blob].readable = false;
    };
    const auto softmax = [&](const std::string& more) {
      return cat("loss_param { ", normalization(), " ", more, " }");
    };
    if (below(3) == 0) return add_branch_loss();
    switch (below(18)) {
      case 0:
        return loss("SoftmaxWithLoss", softmax(one_of("", "label_smoothing: 0.1", "ignore_label: 2")),
                    {scores()}, {"label"});
      case 1: {
        std::size_t from = convolution(six_by_six(pick()), 5, 1);
        if (below(3) == 0)
          from = add({"BiasChannel", "bias_channel_param { label_type: PIXEL }", {from}, {"label_map"}},
                     {5, 6, 6});
        if (below(3) == 0) add_unreadable({"SegAccuracy", "", {from}, {"label_map"}});
        return loss("SoftmaxWithLoss",
                    softmax(one_of("ignore_label: 2", "label_smoothing: 0.1 ignore_label: 1",
                                   "weight_by_label_freqs: true class_weighting: [1, 0.5, 2, 0.25, 3]")),
                    {from}, {"label_map"});
      }
      case 2:
        if (below(2) == 0)
          return loss("FocalLoss",
                      softmax(one_of("", "ignore_label: 3")) + " focal_loss_param { gamma: 1.5 }", {scores()},
                      {"label"});
        return loss("InfogainLoss", softmax(one_of("", "ignore_label: 3")), {scores()}, {"label", "gain"});
      case 3:
        if (!allowed_.kinks) return add_loss();
        return loss("HingeLoss", one_of("", "hinge_loss_param { norm: L2 }"), {scores()}, {"label"});
      case 4: {
        const std::size_t first = scores();
        return loss("EuclideanLoss", "", {first, scores()}, {});
      }
      case 5:
        return loss("EuclideanLoss", "", {scores()}, {"target"});
      case 6:
        if (!allowed_.kinks) return add_loss();
        return loss("L1Loss", "", {scores()}, {"target"});
      case 7:
        return loss("SmoothL1Loss", "smooth_l1_loss_param { sigma: 0.5 }", {scores()},
                    below(2) == 0 ? std::vector<std::string>{"target"}
                                  : std::vector<std::string>{"target", "weights", "weights"});
      case 8:
        return loss("SigmoidCrossEntropyLoss", softmax(""), {scores()}, {"target"});
      case 9: {
        const std::size_t shares = add({"Softmax", "", {scores()}}, {5, 0, 0});
        return loss("MultinomialLogisticLoss", "", {shares}, {"label"});
      }
      case 10: {
        if (!allowed_.kinks) return add_loss();
        const std::size_t first = scores();
        return loss("ContrastiveLoss",
                    one_of("", "contrastive_loss_param { margin: 3 legacy_version: true }"),
                    {first, scores()}, {"flag"});
      }
      case 11: {
        if (!allowed_.kinks) return add_loss();
        const std::size_t first = scores(), second = scores();
        return loss("TripletLoss", "", {first, second, scores()}, {});
      }
      case 12:
        if (!allowed_.kinks) return add_loss();
        return loss("CenterLoss", "center_loss_param { num_output: 5 center_filler { type: 'uniform' } }",
                    {scores()}, {"label"});
      case 13: {
        if (!allowed_.kinks) return add_loss();
        const bool any_length = below(2) == 0;
        const std::size_t made = add(
            {any_length ? "LargeMarginInnerProduct" : "MarginInnerProduct",
             cat(any_length ? "largemargin" : "margin",
                 "_inner_product_param { num_output: 5 weight_filler { type: 'xavier' } type: ",
                 one_of("SINGLE", "DOUBLE", "QUADRUPLE"), " base: 10 gamma: 0.5 power: 1 lambda_min: 1 }"),
             {scores()},
             {"label"}},
            {5, 0, 0});
        return loss(one_of("SoftmaxWithLoss", "WeightedSoftmaxWithLoss"), "", {made}, {"label"});
      }
      case 14: {
        const std::size_t from = pick(below(2) == 0);
        const std::size_t made =
            add({"Reduction",
                 cat("reduction_param { axis: ", below(2), " operation: ", one_of("SUMSQ", "MEAN"),
                     " coeff: 0.01 } loss_weight: 0.5"),
                 {from}},
                {});
        blobs_[made].readable = false;
        return;
      }
      case 15: {
        const std::size_t first = scores();
        const std::size_t made = add({"CosineSimilarity", "loss_weight: 0.25", {first, scores()}}, {});
        blobs_[made].readable = false;
        return;
      }
      case 16: {
        if (!allowed_.kinks) return add_loss();
        const std::size_t made = scores();
        loss("SoftmaxWithLossOHEM", softmax(""), {made}, {"label"});
        if (below(2) == 0)
          add_unreadable({"ConfusionMatrix",
                          one_of("", "confusion_matrix_param { ignore_label: 2 }"),
                          {made},
                          {"label"},
                          1 + below(2)});
        return loss("Accuracy", "", {made}, {"label"});
      }
      default: {
        const std::size_t vector = scores();
        loss("SoftmaxWithLoss", "", {vector}, {"label"});
        return loss("SmoothL1LossOHEM", "", {vector}, {"target"});
      }
    }
  }

  /// Layers and a loss for some of the samples, or for some of these.
  void add_filtered_head() {
    const std::size_t first = blobs_.size();
    std::size_t from = pick(below(4) != 0);
    const Form f = form(from);
    const std::size_t second = like(from);
    from = add({"Filter", "", {from}, {"label", "flag"}, 2}, f);
    std::size_t labels = from + 1;
    if (below(3) == 0) {
      const std::size_t other = add({"Filter", "", {second}, {"flag"}}, f);
      from = add({"Eltwise", "", {from, other}}, f);
    }
    if (below(4) == 0) {
      const std::size_t selector = add({"Threshold", "threshold_param { threshold: 1 }", {labels}}, {});
      from = add({"Filter", "", {from, labels, selector}, {}, 2}, f);
      labels = from + 1;
    }
    if (f.h > 0) {
      if (below(2) == 0) from = convolution(from, 4, 3);
      if (below(2) == 0) {
        from = add_elementwise(from, "BatchNorm", "batch_norm_param { eps: 0.5 }");
        from = add_elementwise(
            from, "Scale", "scale_param { bias_term: true filler { type: 'uniform' min: 0.5 max: 1.5 } }");
      }
      if (below(2) == 0) from = add_elementwise(from, allowed_.kinks ? one_of("ReLU", "ELU") : "ELU");
      if (below(2) == 0) {
        const std::size_t other = convolution(from, form(from).c, 1);
        from = add({"Eltwise", "", {from, other}}, form(from));
      }
      if (below(3) == 0) from = add({"Flatten", "", {from}}, {form(from).c * f.h * f.w, 0, 0});
    }
    from = vector_of(from, 5);
    const std::string weight = one_of("", " loss_weight: 0.3");
    if (below(3) == 0) {
      const std::size_t other = add({"TanH", "", {from}}, form(from));
      add({"EuclideanLoss", weight, {from, other}}, {});
      add({"Silence", "", {labels}, {}, 0}, {});
    } else {
      add({"SoftmaxWithLoss", cat("loss_param { ", normalization(), " }", weight), {from, labels}}, {});
    }
    for (std::size_t blob = first; blob < blobs_.size(); ++blob) blobs_[blob].readable = false;
  }
};

}  // namespace banyan
