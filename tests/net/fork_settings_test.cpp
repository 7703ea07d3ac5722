#include "banyan/net/fork_settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "banyan/base/error.hpp"
#include "banyan/io/crop_offset.hpp"
#include "banyan/io/prototxt.hpp"

namespace banyan {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(ForkSettings, WhatHasNoEffectIsSaid) {
  const auto net = io::parse_net_text(
      "engine: 'MKLDNN:CPU' multinode { } compile_net_state { is_init: true }\n"
      "layer { name: 'a' type: 'ReLU' bottom: 'x' top: 'y' engine: 'MKL2017' quantization_param { "
      "bw_layer_in: 8 } "
      "multinode { num_nodes: 2 } }\n"
      "layer { name: 'b' type: 'ReLU' bottom: 'y' top: 'z' relu_param { engine: MKLDNN } quantization_param "
      "{ "
      "scale_in: 2 } }",
      "net");
  ::testing::internal::CaptureStderr();
  warn_of_fork_settings(net);
  const std::string logged = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(logged.find("layer \"a\" and 1 more: quantization_param has no effect"), std::string::npos)
      << logged;
  EXPECT_NE(logged.find("the net's multinode settings are ignored"), std::string::npos) << logged;
  EXPECT_NE(logged.find("layer \"a\": multinode settings are ignored"), std::string::npos) << logged;
}

TEST(ForkSettings, ThoseOfDeepLabAndJacintoAreSaidOnce) {
  const auto logged = [](const std::string& text) {
    ::testing::internal::CaptureStderr();
    warn_of_fork_settings(io::parse_net_text(text, "net"));
    return ::testing::internal::GetCapturedStderr();
  };
  const std::string found = logged(
      "quantize: true layer { name: 'a' type: 'ReLU' strict_dim: false quantization_param { other: 1 } }\n"
      "layer { name: 'b' type: 'ReLU' strict_dim: false }");
  EXPECT_THAT(found, AllOf(HasSubstr("the net's quantize (caffe-jacinto) has no effect"),
                           HasSubstr("layer \"a\": quantization_param has no effect, whatever is in it"),
                           HasSubstr("layer \"a\" and 1 more: strict_dim: false (DeepLab) has no effect")));
  EXPECT_EQ(logged("quantize: false layer { name: 'a' type: 'ReLU' strict_dim: true }"), "");
}

TEST(ForkSettings, OfASoftmaxInNormalizeHaveNone) {
  const auto logged = [](const std::string& text) {
    ::testing::internal::CaptureStderr();
    warn_of_fork_settings(io::parse_net_text(text, "net"));
    return ::testing::internal::GetCapturedStderr();
  };
  const std::string setting = " softmax_param { axis: 1 } }";
  EXPECT_THAT(logged("layer { name: 'n' type: 'Normalize'" + setting),
              HasSubstr("layer \"n\": softmax_param has no effect in a Normalize layer"));
  EXPECT_EQ(logged("layer { name: 'n' type: 'Normalize' } layer { name: 's' type: 'Softmax'" + setting), "");
}

TEST(ForkSettings, OfHeatmapsAreSaid) {
  const auto logged = [](const std::string& text) {
    ::testing::internal::CaptureStderr();
    warn_of_fork_settings(io::parse_net_text(text, "net"));
    return ::testing::internal::GetCapturedStderr();
  };
  const std::string loss = "layer { name: 'l' type: 'EuclideanLossHeatmap' ";
  EXPECT_THAT(logged("layer { name: 'd' type: 'DataHeatmap' visualise: true heatmap_data_param { "
                     "crop_meanfile: 'm' } } " +
                     loss + "loss_weight: 3 }"),
              AllOf(HasSubstr("layer \"d\": visualise (caffe-heatmap) has no effect"),
                    HasSubstr("layer \"d\": crop_meanfile of heatmap_data_param has no effect"),
                    HasSubstr("layer \"l\": loss_weight of EuclideanLossHeatmap multiplies the gradients")));
  EXPECT_EQ(logged(loss + "loss_weight: 1 visualise: false visualise_channel: 2 } " + loss + "}"), "");
}

TEST(ForkSettings, ChoicesOfAnImplementationHaveNone) {
  const auto logged = [](const std::string& text) {
    ::testing::internal::CaptureStderr();
    warn_of_fork_settings(io::parse_net_text(text, "net"));
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(
      logged("layer { name: 'c' type: 'Convolution' convolution_param { conv_mode: DIRECT_SCONV } }\n"
             "layer { name: 'd' type: 'Convolution' convolution_param { subengine: WINOGRAD } }\n"
             "layer { name: 'p' type: 'Convolution' convolution_param { parallel_degree: 4 } }\n"
             "layer { name: 'i' type: 'InnerProduct' inner_product_param { gemm_mode: SPMDM } }\n"
             "layer { name: 'r' type: 'ReLU' ocl_enable: true }"),
      HasSubstr("layer \"c\" and 4 more: conv_mode, subengine, parallel_degree, gemm_mode and ocl_enable "
                "have no effect"));
  EXPECT_THAT(logged("layer { name: 'c' type: 'Convolution' prune_param { prune_ratio: 0.5 } }"),
              HasSubstr("layer \"c\": prune_param (IncReg) has no effect"));
  EXPECT_THAT(
      logged("layer { name: 'd' type: 'ImageData' image_data_param { normalize: true } }"),
      HasSubstr("layer \"d\": normalize of image_data_param (DSS) has no effect but in ImageLabelmapData"));
}

TEST(ForkSettings, EachSettingWithoutEffectIsNamedOnce) {
  const auto net = io::parse_net_text(
      "debug_info: true\n"
      "layer { name: 'bn' type: 'BatchNorm' batch_norm_param { filler { value: 1 } } }\n"
      "layer { name: 'bn2' type: 'BatchNorm' batch_norm_param { use_weight_bias: true } }\n"
      "layer { name: 'used' type: 'BatchNorm' batch_norm_param { filler { value: 1 } engine: MKLDNN } }\n"
      "layer { name: 'also' type: 'BatchNorm' batch_norm_param { filler { value: 1 } bias_filler { } } }\n"
      "layer { name: 'off' type: 'BatchNorm' batch_norm_param { use_weight_bias: false } }\n"
      "layer { name: 'zero' type: 'BatchNorm' bottom: 'c' top: 'c' batch_norm_param { filler { value: 0 } } "
      "}\n"
      "layer { name: 'scale' type: 'Scale' bottom: 'c' top: 'c' scale_param { bias_term: true filler { } } "
      "}\n"
      "layer { name: 'memory' type: 'MemoryData' transform_param { scale: 0.5 } }\n"
      "layer { name: 'padded' type: 'Convolution' bottom: 'x' top: 'padded' convolution_param { pad: 5 "
      "kernel_size: 3 } }\n"
      "layer { name: 'cut' type: 'Crop' bottom: 'padded' bottom: 'x' top: 'cut' }\n"
      "layer { name: 'uncut' type: 'Crop' bottom: 'x' bottom: 'x' top: 'uncut' }\n"
      "layer { name: 'cut_at' type: 'Crop' crop_param { } }\n"
      "layer { name: 'max' type: 'Eltwise' eltwise_param { operation: MAX coeff: 2 coeff: 3 } }\n"
      "layer { name: 'sum' type: 'Eltwise' eltwise_param { coeff: 2 coeff: 3 } }\n"
      "layer { name: 'plain' type: 'SoftmaxWithLoss' loss_param { class_weighting: [1, 2] } }\n"
      "layer { name: 'weighted' type: 'SoftmaxWithLoss' loss_param { weight_by_label_freqs: true "
      "class_weighting: [1, 2] } }\n"
      "layer { name: 'int' type: 'ReLU' quantization_param { is_negative_input: true } }\n"
      "layer { name: 'conv' type: 'Convolution' convolution_param { weight_filler { type: 'msra' scale: 2 } "
      "} }\n"
      "layer { name: 'ip' type: 'InnerProduct' inner_product_param { weight_filler { type: 'msra' } } }\n"
      "layer { name: 'made' type: 'DummyData' dummy_data_param { data_filler { } data_filler { scale: 2 } } "
      "}",
      "net");
  ::testing::internal::CaptureStderr();
  warn_of_fork_settings(net);
  std::istringstream logged(::testing::internal::GetCapturedStderr());
  std::vector<std::string> lines;
  for (std::string line; std::getline(logged, line);) lines.push_back(line);
  EXPECT_THAT(
      lines,
      ElementsAre(
          HasSubstr("the net's debug_info has no effect"),
          HasSubstr("layer \"int\": quantization_param has no effect"),
          AllOf(
              HasSubstr("layer \"bn\" and 1 more: filler, use_weight_bias and bias_term of batch_norm_param"),
              HasSubstr("batch_norm_param.engine names none of Intel's")),
          AllOf(HasSubstr("layer \"zero\": filler of batch_norm_param has no effect"),
                HasSubstr("has a filler of its own")),
          HasSubstr("layer \"memory\": transform_param of a MemoryData layer has no effect"),
          AllOf(HasSubstr("a Crop without crop_param cuts from the first row and column on"),
                HasSubstr("layer \"cut\" from 4, 4 on: if the net is for one of them"),
                HasSubstr("automatic_offset: true")),
          HasSubstr("layer \"max\": coeff of eltwise_param has no effect with MAX"),
          HasSubstr("layer \"plain\": class_weighting has no effect without weight_by_label_freqs"),
          HasSubstr("layer \"conv\" and 1 more: the scale of a filler")));
}

TEST(CropOffset, PassesWhatMovesNothing) {
  const auto net = [](const std::string& settings) {
    return io::parse_net_text("layer { name: 's' type: 'Slice' bottom: 'x' top: 'a' top: 'b' " + settings +
                                  " }\n"
                                  "layer { name: 'c' type: 'ColorConv' bottom: 'a' top: 'c' }\n"
                                  "layer { name: 'p' type: 'Convolution' bottom: 'c' top: 'p' "
                                  "convolution_param { kernel_size: 3 pad: 5 } }\n"
                                  "layer { name: 'y' type: 'Crop' bottom: 'p' bottom: 'x' top: 'y' }",
                              "net");
  };
  const std::array<std::int64_t, 2> four{4, 4};
  EXPECT_EQ(io::crop_offset(net(""), 3), four);
  EXPECT_EQ(io::crop_offset(net("slice_param { slice_dim: 1 }"), 3), four);
  EXPECT_THAT([&] { io::crop_offset(net("slice_param { axis: 2 }"), 3); },
              ::testing::ThrowsMessage<Error>(HasSubstr("how layer \"s\" (Slice) moves positions")));
}

}  // namespace
}  // namespace banyan
