// Spellings of branches: 3-D windows, holes, fused ReLUs, names of messages, settings in V1 layers.
#include "banyan/io/atomic_file.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"
#include "banyan/net/filter.hpp"
#include "io_test_tools.hpp"

namespace banyan::io {
namespace {

caffe::NetParameter upgraded(const std::string& text) {
  caffe::NetParameter net = parse_net_text(text, "test");
  upgrade_net(net, "test");
  return net;
}

void expect_same(const caffe::NetParameter& found, const std::string& expected) {
  EXPECT_EQ(to_text(found), to_text(parse_net_text(expected, "test")));
}

TEST(UpgradeDepth, WindowsOfC3dBecomeLists) {
  expect_same(upgraded("layers { name: 'c' type: CONVOLUTION3D bottom: 'x' top: 'c' convolution_param { "
                       "num_output: 64 kernel_size: 3 kernel_depth: 2 pad: 1 filter_group: 4 } }\n"
                       "layers { name: 'p' type: POOLING3D bottom: 'c' top: 'p' pooling_param { pool: MAX "
                       "kernel_size: 2 kernel_depth: 1 stride: 2 temporal_stride: 1 } }"),
              "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' convolution_param { num_output: 64 "
              "kernel_size: [2, 3, 3] stride: [1, 1, 1] pad: [0, 1, 1] filter_group: 4 } }\n"
              "layer { name: 'p' type: 'Pooling' bottom: 'c' top: 'p' pooling_param { pool: MAX "
              "kernel_size: [1, 2, 2] stride: [1, 2, 2] pad: [0, 0, 0] } }");
}

TEST(UpgradeDepth, MessagesOfTheSecondC3dAreThoseOfTheFirst) {
  expect_same(
      upgraded(
          "layer { name: 'c' type: 'Convolution3D' convolution3d_param { num_output: 64 kernel_size: 3 "
          "kernel_depth: 3 pad: 1 temporal_pad: 1 group: 2 bias_term: false filter_group: 4 weight_filler { "
          "type: 'gaussian' } } }\n"
          "layer { name: 'd' type: 'Deconvolution3D' convolution3d_param { num_output: 2 kernel_size: 4 "
          "kernel_depth: 2 stride: 2 temporal_stride: 2 } }\n"
          "layer { name: 'p' type: 'Pooling3D' pooling3d_param { pool: MAX kernel_size: 2 kernel_depth: 1 "
          "stride: 2 temporal_stride: 1 } }"),
      "layer { name: 'c' type: 'Convolution' convolution_param { num_output: 64 kernel_size: [3, 3, 3] "
      "stride: "
      "[1, 1, 1] pad: [1, 1, 1] group: 2 bias_term: false filter_group: 4 weight_filler { type: 'gaussian' } "
      "} "
      "}\n"
      "layer { name: 'd' type: 'Deconvolution' convolution_param { num_output: 2 kernel_size: [2, 4, 4] "
      "stride: "
      "[2, 2, 2] pad: [0, 0, 0] } }\n"
      "layer { name: 'p' type: 'Pooling' pooling_param { pool: MAX kernel_size: [1, 2, 2] stride: [1, 2, 2] "
      "pad: [0, 0, 0] } }");
  for (const std::string name : {"convolution", "pooling"})
    expect_contains(
        error_of([&] {
          upgraded("layer { name: 'c' type: 'Any' " + name + "3d_param { } " + name + "_param { } }");
        }),
        "layer \"c\" (Any): " + name + "3d_param is a branch's name of " + name +
            "_param; give one of the two");
}

TEST(UpgradeBranchTypes, BecomeLayersThatComputeTheSame) {
  expect_same(
      upgraded(
          "layer { name: 'six' type: 'ReLU6' bottom: 'x' top: 'x' relu_param { engine: CUDNN } }\n"
          "layer { name: 'up' type: 'CuDNNDeconvolution' bottom: 'x' top: 'up' convolution_param { "
          "num_output: 2 kernel_size: 4 stride: 2 } }\n"
          "layer { name: 'n' type: 'Norm' bottom: 'up' top: 'n' }\n"
          "layer { name: 'l' type: 'L2Normalize' bottom: 'n' top: 'l' }\n"
          "layer { name: 'k' type: 'Normalization' bottom: 'n' top: 'k' }\n"
          "layer { name: 'j' type: 'L2Normalization' bottom: 'n' top: 'j' }\n"
          "layer { name: 'r' type: 'ReLURecover' bottom: 'j' top: 'r' relu_param { negative_slope: 0.1 } }\n"
          "layer { name: 'twice' type: 'Eltwise' bottom: 'l' top: 'twice' eltwise_param { coeff: 2 } }\n"
          "layer { name: 'same' type: 'Eltwise' bottom: 'twice' top: 'same' eltwise_param { operation: "
          "MAX } }\n"
          "layer { name: 'mat' type: 'MatWrite' bottom: 'same' mat_write_param { prefix: 'p' } }"),
      "layer { name: 'six' type: 'Clip' bottom: 'x' top: 'x' clip_param { min: 0 max: 6 } }\n"
      "layer { name: 'up' type: 'Deconvolution' bottom: 'x' top: 'up' convolution_param { num_output: 2 "
      "kernel_size: 4 stride: 2 } }\n"
      "layer { name: 'n' type: 'Normalize' bottom: 'up' top: 'n' normalize_param { } }\n"
      "layer { name: 'l' type: 'Normalize' bottom: 'n' top: 'l' }\n"
      "layer { name: 'k' type: 'Normalize' bottom: 'n' top: 'k' }\n"
      "layer { name: 'j' type: 'Normalize' bottom: 'n' top: 'j' }\n"
      "layer { name: 'r' type: 'ReLU' bottom: 'j' top: 'r' relu_param { negative_slope: 0.1 } }\n"
      "layer { name: 'twice' type: 'Power' bottom: 'l' top: 'twice' power_param { scale: 2 } }\n"
      "layer { name: 'same' type: 'Power' bottom: 'twice' top: 'same' power_param { scale: 1 } }\n"
      "layer { name: 'mat' type: 'Silence' bottom: 'same' }");
  EXPECT_EQ(upgraded("layers { name: 'mat' type: MAT_WRITE bottom: 'x' mat_write_param { prefix: 'p' } }")
                .layer(0)
                .type(),
            "Silence");
}

TEST(UpgradeBranchTypes, OfNetworkInNetworkAndOthersOfOldFormats) {
  expect_same(
      upgraded(
          "layers { name: 'd' type: FLOAT_DATA top: 'd' data_param { source: 's' crop_size: 26 } }\n"
          "layers { name: 'c' type: CCCP bottom: 'd' top: 'c' blobs_lr: 1 cccp_param { num_output: 3 group: "
          "2 bias_term: false } }\n"
          "layers { name: 'r' type: RESIZE bottom: 'c' top: 'r' resize_param { height: 4 width: 5 } }\n"
          "layers { name: 'p' type: VOXEL_SOFTMAX bottom: 'r' top: 'p' }\n"
          "layers { name: 'l' type: VOXEL_SOFTMAX_LOSS bottom: 'r' bottom: 'y' top: 'l' }"),
      "layer { name: 'd' type: 'Data' top: 'd' data_param { source: 's' } transform_param { crop_size: 26 } "
      "}\n"
      "layer { name: 'c' type: 'Convolution' bottom: 'd' top: 'c' param { lr_mult: 1 } convolution_param { "
      "num_output: 6 group: 2 bias_term: false kernel_size: 1 } }\n"
      "layer { name: 'r' type: 'Resize' bottom: 'c' top: 'r' resize_param { height: 4 width: 5 } }\n"
      "layer { name: 'p' type: 'Softmax' bottom: 'r' top: 'p' }\n"
      "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'r' bottom: 'y' top: 'l' }");
}

TEST(UpgradeBranchTypes, ListsOfSeveralLabels) {
  const std::string start = "layer { name: 'd' type: 'MultiLabelImageData' top: 'data' top: 'label' ";
  const auto image_data = [](const std::string& settings) {
    return "layer { name: 'd' type: 'ImageData' top: 'data' top: 'label' image_data_param { " + settings +
           " } }";
  };
  expect_same(
      upgraded(start +
               "multi_label_image_data_param { source: 'none' batch_size: 12 shuffle: true new_height: "
               "9 new_width: 8 root_folder: 'r/' label_num: 49 } }"),
      image_data("source: 'none' batch_size: 12 shuffle: true new_height: 9 new_width: 8 root_folder: 'r/' "
                 "label_dim: 49"));
  const TemporaryFolder folder;
  const std::string list = folder.file("list");
  write_file(list, "a.jpg 1 2.5 -3\nb.jpg 4 5 6\n");
  expect_same(upgraded(start + "image_data_param { source: '" + list + "' } }"),
              image_data("source: '" + list + "' label_dim: 3"));
  expect_same(upgraded(start + "image_data_param { source: '" + list + "' label_size: 2 } }"),
              image_data("source: '" + list + "' label_size: 2"));
  expect_same(upgraded(start + "image_data_param { source: 'none' } }"), image_data("source: 'none'"));
  expect_contains(
      error_of([&] { upgraded(start + "image_data_param { } multi_label_image_data_param { } }"); }),
      "multi_label_image_data_param and image_data_param; give one of the two");
}

TEST(UpgradeBranchTypes, OtherNamesOfConvolutionsLossesAndLists) {
  expect_same(
      upgraded(
          "layer { name: 'c' type: 'HoleConvolution' bottom: 'x' top: 'c' convolution_param { num_output: 2 "
          "kernel_size: 3 hole: 2 } }\n"
          "layer { name: 's' type: 'SVRLoss' bottom: 'c' bottom: 'y' top: 's' }\n"
          "layer { name: 'd' type: 'MultiLabelData' top: 'd' top: 'l' multi_label_data_param { source: 'f' "
          "label_num: 9 } }"),
      "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' convolution_param { num_output: 2 "
      "kernel_size: 3 dilation: 2 } }\n"
      "layer { name: 's' type: 'L1Loss' bottom: 'c' bottom: 'y' top: 's' }\n"
      "layer { name: 'd' type: 'ImageData' top: 'd' top: 'l' image_data_param { source: 'f' label_dim: 9 } "
      "}");
  expect_contains(error_of([&] {
                    upgraded(
                        "layer { name: 'd' type: 'MultiLabelData' top: 'd' top: 'l' image_data_param { } "
                        "multi_label_data_param { } }");
                  }),
                  "multi_label_data_param and image_data_param; give one of the two");
  expect_contains(error_of([&] {
                    upgraded(
                        "layer { name: 'd' type: 'MultiFrameData' top: 'd' top: 'l' video_data_param { } "
                        "multi_frame_data_param { } }");
                  }),
                  "multi_frame_data_param and video_data_param; give one of the two");
}

TEST(UpgradeBranchTypes, SumsOfBlobs) {
  expect_same(upgraded("layer { name: 's' type: 'Sum' bottom: 'x' bottom: 'y' top: 's' }"),
              "layer { name: 's' type: 'Eltwise' bottom: 'x' bottom: 'y' top: 's' }");
  const std::string one = "layer { name: 's' type: 'Sum' bottom: 'x' top: 's' }";
  expect_same(upgraded(one), one);  // another branch's: refused
}

TEST(UpgradeBranchTypes, NormalizationsUnderOtherNames) {
  expect_same(
      upgraded("layers { name: 'n' type: LRN_MAP bottom: 'x' top: 'n' lrn_map_param { local_size: 3 alpha: "
               "5e-05 beta: 0.75 } }\n"
               "layers { name: 'm' type: LRN_MAP bottom: 'n' top: 'm' }"),
      "layer { name: 'n' type: 'LRN' bottom: 'x' top: 'n' lrn_param { local_size: 3 alpha: 5e-05 beta: 0.75 "
      "norm_region: WITHIN_CHANNEL } }\n"
      "layer { name: 'm' type: 'LRN' bottom: 'n' top: 'm' lrn_param { norm_region: WITHIN_CHANNEL } }");
  const std::string
      rest = "bottom: 'x' top: 'b' param { lr_mult: 1 decay_mult: 0 } param { lr_mult: 1 decay_mult: 0 } ",
      settings =
          " { slope_filler { value: 1 } bias_filler { value: 0 } momentum: 0.8 eps: 1e-4 "
          "frozen: true engine: CAFFE } }";
  expect_same(upgraded("layer { name: 'b' type: 'BNHK' " + rest + "bnhk_param" + settings),
              "layer { name: 'b' type: 'BN' " + rest + "bn_param" + settings);
  expect_contains(error_of([&] { upgraded("layer { name: 'b' type: 'BNHK' bnhk_param { } bn_param { } }"); }),
                  "layer \"b\" (BNHK): bnhk_param is a branch's name of bn_param; give one of the two");
}

/// Nets of Caffe-DeepBinaryCode give one blob twice.
TEST(UpgradeBranchTypes, CodesAreReadOnce) {
  expect_same(upgraded("layers { layer { name: 'k' type: 'K1_euclidean_loss' } bottom: 'x' bottom: 'x' } "
                       "layers { layer { name: 'l' type: 'K2_euclidean_loss' } bottom: 'x' bottom: 'y' }"),
              "layer { name: 'k' type: 'K1_EuclideanLoss' bottom: 'x' }\n"
              "layer { name: 'l' type: 'K2_EuclideanLoss' bottom: 'x' bottom: 'y' }");
  expect_same(
      upgraded(
          "layers { name: 'k' type: K2_EUCLIDEAN_LOSS bottom: 'x' bottom: 'x' top: 'k' loss_weight: 2 }"),
      "layer { name: 'k' type: 'K2_EuclideanLoss' bottom: 'x' top: 'k' loss_weight: 2 }");
  expect_same(upgraded("layer { name: 'k' type: 'K1_EuclideanLoss' bottom: 'x' bottom: 'x' "
                       "propagate_down: [true, false] }"),
              "layer { name: 'k' type: 'K1_EuclideanLoss' bottom: 'x' propagate_down: true }");
  expect_same(upgraded("layer { name: 'k' type: 'K1_EuclideanLoss' bottom: 'x' bottom: 'x' "
                       "propagate_down: [false, true] }"),
              "layer { name: 'k' type: 'K1_EuclideanLoss' bottom: 'x' propagate_down: true }");
}

TEST(UpgradeBranchTypes, VideosOfHiddenTwoStream) {
  expect_same(
      upgraded(
          "layer { name: 'd' type: 'MultiFrameData' top: 'd' top: 'l' multi_frame_data_param { source: "
          "'list' batch_size: 8 shuffle: true new_width: 340 new_height: 256 new_length: 11 num_segments: "
          "1 scale: 2 mean_file: 'm' crop_size: 3 mirror: true rand_skip: 4 } transform_param { "
          "crop_size: 224 mirror: true is_flow: true } }\n"
          "layer { name: 'e' type: 'MultiFrameData' top: 'e' top: 'm' }"),
      "layer { name: 'd' type: 'VideoData' top: 'd' top: 'l' video_data_param { source: 'list' batch_size: 8 "
      "shuffle: true new_width: 340 new_height: 256 new_length: 11 num_segments: 1 modality: RGB } "
      "transform_param { crop_size: 224 mirror: true } }\n"
      "layer { name: 'e' type: 'VideoData' top: 'e' top: 'm' video_data_param { modality: RGB } }");
}

TEST(UpgradeBranchTypes, LabelsOfSegmentsBeforeTheyHadAType) {
  const auto data = [](const std::string& settings) {
    return "layer { name: 'd' type: 'ImageSegData' top: 'd' image_data_param { source: 'f' " + settings +
           " } }";
  };
  expect_same(upgraded(data("has_label: true")), data("label_type: PIXEL"));
  expect_same(upgraded(data("has_label: false")), data("label_type: NONE"));
  expect_same(upgraded(data("has_label: false label_type: IMAGE")), data("label_type: IMAGE"));
}

TEST(UpgradeV1, RulesOfWhatMakesTheNet) {
  expect_same(
      upgraded(
          "layers { name: 'i' type: INPUT top: 'a' top: 'b' enable { solver: false } input_param { num: 2 "
          "channels: 3 channels: 1 height: 4 width: 5 } }\n"
          "layers { name: 'd' type: DATA top: 'a' enable { phase: TRAIN solver: true } enable { solver: "
          "false } }\n"
          "layers { name: 'e' type: DATA top: 'c' disable { phase: TEST } disable { solver: false } }"),
      "layer { name: 'i' type: 'Input' top: 'a' top: 'b' exclude { } input_param { shape { dim: [2, 3, 4, 5] "
      "} "
      "shape { dim: [2, 1, 4, 5] } } }\n"
      "layer { name: 'd' type: 'Data' top: 'a' include { phase: TRAIN } }\n"
      "layer { name: 'e' type: 'Data' top: 'c' exclude { phase: TEST } }");
}

TEST(UpgradeV1, NamesOfTypesOfBranches) {
  expect_same(
      upgraded("layers { name: 's' type: SMOOTH_L1_LOSS bottom: 'x' bottom: 'y' top: 's' "
               "smooth_l1_loss_param { sigma: 3 } }\n"
               "layers { name: 'l' type: LSTM bottom: 'x' bottom: 'c' top: 'l' recurrent_param { "
               "num_output: 4 } }\n"
               "layers { name: 'p' type: PADDING bottom: 'x' top: 'p' padding_param { pad_beg: -7 pad_end: "
               "-8 } }\n"
               "layers { name: 'r' type: RESHAPE bottom: 'l' top: 'r' reshape_param { shape { dim: -1 } } }"),
      "layer { name: 's' type: 'SmoothL1Loss' bottom: 'x' bottom: 'y' top: 's' "
      "smooth_l1_loss_param { sigma: 3 } }\n"
      "layer { name: 'l' type: 'LSTM' bottom: 'x' bottom: 'c' top: 'l' recurrent_param { "
      "num_output: 4 } }\n"
      "layer { name: 'p' type: 'Padding' bottom: 'x' top: 'p' padding_param { pad_beg: -7 pad_end: -8 } }\n"
      "layer { name: 'r' type: 'Reshape' bottom: 'l' top: 'r' reshape_param { shape { dim: -1 } } }");
}

TEST(UpgradeBranchTypes, EdgesAndTheirLosses) {
  const std::string
      data =
          "layer { name: 'd' type: 'ImageLabelmapData' top: 'data' top: 'edges' "
          "image_data_param { source: 'list' ",
      losses =
          " } }\nlayer { name: 'a' type: 'SigmoidCrossEntropyLoss' bottom: 'data' bottom: "
          "'edges' loss_weight: 1 }\n"
          "layer { name: 'b' type: 'SigmoidCrossEntropyLoss' bottom: 'data' bottom: "
          "'edges' loss_param { class_balance: 1.1 } }\n"
          "layer { name: 'c' type: 'SigmoidCrossEntropyLoss' bottom: 'data' bottom: 'others' }\n"
          "layer { name: 'd' type: 'Crop' bottom: 'data' bottom: 'edges' }\n"
          "layer { name: 'e' type: 'Crop' bottom: 'data' bottom: 'edges' crop_param { offset: 1 } }";
  const caffe::NetParameter net = upgraded(data + losses),
                            soft = upgraded(data + "label_values: SOFT_EDGES" + losses);
  const caffe::ImageDataParameter& images = net.layer(0).image_data_param();
  EXPECT_EQ(net.layer(0).type(), "ImageSegData");
  EXPECT_EQ(images.label_type(), caffe::ImageDataParameter::PIXEL);
  EXPECT_EQ(images.label_values(), caffe::ImageDataParameter::EDGES);
  EXPECT_EQ(soft.layer(0).image_data_param().label_values(), caffe::ImageDataParameter::SOFT_EDGES);
  EXPECT_EQ(net.layer(1).loss_param().class_balance(), 1);
  EXPECT_FLOAT_EQ(net.layer(2).loss_param().class_balance(), 1.1f);
  EXPECT_EQ(net.layer(3).loss_param().class_balance(), 1);
  EXPECT_TRUE(net.layer(4).crop_param().automatic_offset());
  EXPECT_FALSE(net.layer(5).crop_param().automatic_offset());
}

TEST(UpgradeBranchTypes, ScalesOfDeepSkeletonStayAsStored) {
  const auto labels = [](const std::string& settings, const std::string& layer) {
    return upgraded(
               "layer { name: 'd' type: 'ImageLabelmapData' top: 'data' top: 'scales' image_data_param { " +
               settings + " } }\n" + layer)
        .layer(0)
        .image_data_param()
        .label_values();
  };
  for (const std::string type : {"Quantize", "Rescale"}) {
    const std::string start = "layer { name: 'q' type: '" + type + "' top: 'q' bottom: ";
    EXPECT_EQ(labels("", start + "'scales' }"), caffe::ImageDataParameter::STORED);
    EXPECT_EQ(labels("", start + "'data' }"), caffe::ImageDataParameter::EDGES);
    EXPECT_EQ(labels("label_values: SOFT_EDGES", start + "'scales' }"),
              caffe::ImageDataParameter::SOFT_EDGES);
  }
}

TEST(UpgradeBranchTypes, BalancedLossesByTheirName) {
  const std::string start = "layer { name: 'l' type: 'SigmoidCrossEntropy",
                    rest = "Loss' bottom: 'x' bottom: 'y' top: 'l' loss_weight: 0.5 ";
  expect_same(upgraded(start + "Balance" + rest + "}"), start + rest + "loss_param { class_balance: 1 } }");
  const std::string given = "loss_param { class_balance: 1.1 normalize: true } }";
  expect_same(upgraded(start + "Balance" + rest + given), start + rest + given);
}

/// VGG's as in HED and RCF: upsampled scores of several scales, cut to the image.
std::string edge_net(const std::string& pad, const std::string& crop) {
  std::string text = "layer { name: 'in' type: 'Input' top: 'data' }\n", from = "data";
  const auto add = [&](const std::string& name, const std::string& type, const std::string& settings) {
    text += "layer { name: '" + name + "' type: '" + type + "' bottom: '" + from + "' top: '" + name + "' " +
            settings + " }\n";
    from = name;
  };
  const auto conv = [](int kernel, int stride, const std::string& padding) {
    return "convolution_param { num_output: 1 kernel_size: " + std::to_string(kernel) +
           " stride: " + std::to_string(stride) + " pad: " + padding + " }";
  };
  for (int stage = 1; stage <= 5; ++stage) {
    const std::string number = std::to_string(stage);
    add("conv" + number, "Convolution", conv(3, 1, stage == 1 ? pad : "1"));
    text += "layer { name: 'relu" + number + "' type: 'ReLU' bottom: 'conv" + number + "' top: 'conv" +
            number + "' }\n";
    const std::string last = from;
    add("score" + number, "Convolution", conv(1, 1, "0"));
    if (stage > 1) add("up" + number, "Deconvolution", conv(2 << (stage - 1), 1 << (stage - 1), "0"));
    text += "layer { name: 'crop" + number + "' type: '" + crop + "' bottom: '" + from +
            "' bottom: 'data' top: 'crop" + number + "' }\n";
    from = last;
    add("pool" + number, "Pooling", "pooling_param { kernel_size: 2 stride: 2 }");
  }
  return text;
}

std::vector<std::vector<int>> offsets(const caffe::NetParameter& net, caffe::Phase phase = caffe::TRAIN) {
  caffe::NetState state;
  state.set_phase(phase);
  std::vector<std::vector<int>> found;
  const caffe::NetParameter filtered = filter_net(net, state);
  for (const caffe::LayerParameter& layer : filtered.layer())
    if (layer.type() == "Crop")
      found.emplace_back(layer.crop_param().offset().begin(), layer.crop_param().offset().end());
  return found;
}

/// RCF's and HED's own values: each doubling adds half a pixel of its pooling, and HED's first pad 34 more.
TEST(CropOffset, BeginWherePositionsAgree) {
  using Offsets = std::vector<std::vector<int>>;
  EXPECT_EQ(offsets(upgraded(edge_net("1", "AutoCrop"))), (Offsets{{0, 0}, {1, 1}, {2, 2}, {4, 4}, {8, 8}}));
  EXPECT_EQ(offsets(upgraded(edge_net("35", "AutoCrop"))),
            (Offsets{{34, 34}, {35, 35}, {36, 36}, {38, 38}, {42, 42}}));
  EXPECT_EQ(offsets(upgraded(edge_net("35", "Crop"))), (Offsets{{}, {}, {}, {}, {}}));
  EXPECT_EQ(offsets(upgraded("layers { name: 'c' type: CONVOLUTION bottom: 'x' top: 'c' convolution_param { "
                             "pad_h: 3 pad_w: 2 kernel_size: 3 } }\n"
                             "layers { name: 'crop' type: CROP bottom: 'c' bottom: 'x' top: 'crop' }")),
            (Offsets{{2, 1}}));
}

TEST(CropOffset, FollowTheLayersOfTheirPhase) {
  const caffe::NetParameter net = upgraded(
      "layer { name: 'a' type: 'Convolution' bottom: 'x' top: 'c' include { phase: TRAIN } convolution_param "
      "{ "
      "pad: 1 kernel_size: 3 } }\n"
      "layer { name: 'b' type: 'Convolution' bottom: 'x' top: 'c' include { phase: TEST } convolution_param "
      "{ "
      "pad: 9 kernel_size: 3 } }\n"
      "layer { name: 'cut' type: 'AutoCrop' bottom: 'c' bottom: 'x' top: 'cut' }");
  EXPECT_EQ(offsets(net), (std::vector<std::vector<int>>{{0, 0}}));
  EXPECT_EQ(offsets(net, caffe::TEST), (std::vector<std::vector<int>>{{8, 8}}));
}

TEST(CropOffset, SayWhyTheyCannot) {
  const auto error = [](const std::string& between, const std::string& inputs) {
    return error_of([&] {
      offsets(upgraded(
          "layer { name: 'x' type: 'Input' top: 'x' }\nlayer { name: 'z' type: 'Input' top: 'z' }\n" +
          between + " layer { name: 'cut' type: 'Crop' " + inputs +
          " top: 'cut' crop_param { automatic_offset: true } }"));
    });
  };
  const std::string pooled = "layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'p' pooling_param { ";
  expect_contains(error("", "bottom: 'x' bottom: 'z'"), "layer \"cut\" (Crop): automatic_offset: its inputs");
  expect_contains(error(pooled + "kernel_size: 2 stride: 2 } }", "bottom: 'p' bottom: 'x'"),
                  "a step in \"x\" is 0.5 in \"p\"");
  expect_contains(error(pooled + "kernel_size: 2 } }", "bottom: 'x' bottom: 'p'"),
                  "\"p\" begins at 0.5 in \"x\" (rows); a cut must begin at a pixel");
  expect_contains(error(pooled + "global_pooling: true } }", "bottom: 'x' bottom: 'p'"),
                  "how layer \"p\" (Pooling) moves positions is not known");
  expect_contains(error("layer { name: 'm' type: 'Crop' bottom: 'x' bottom: 'z' top: 'm' crop_param { "
                        "center_align: true } }",
                        "bottom: 'x' bottom: 'm'"),
                  "how layer \"m\" (Crop) moves positions is not known");
  expect_contains(error("", "bottom: 'x'"), "automatic_offset needs two inputs");
  expect_contains(error_of([&] {
                    offsets(
                        upgraded("layer { name: 'cut' type: 'Crop' bottom: 'x' bottom: 'x' crop_param { "
                                 "automatic_offset: true offset: 2 } }"));
                  }),
                  "exclude each other");
}

TEST(UpgradeDeepLab, ItsLossNamesTheLabelThatDoesNotCount) {
  expect_same(upgraded("layers { name: 'l' type: SOFTMAX_LOSS softmaxloss_param { ignore_label: 255 } }"),
              "layer { name: 'l' type: 'SoftmaxWithLoss' loss_param { ignore_label: 255 } }");
  expect_same(upgraded("layer { name: 'l' type: 'SoftmaxWithLoss' softmaxloss_param { } }"),
              "layer { name: 'l' type: 'SoftmaxWithLoss' }");
  const auto refused = [](const std::string& settings) {
    return error_of(
        [&] { upgraded("layers { name: 'l' type: SOFTMAX_LOSS softmaxloss_param { " + settings + " }"); });
  };
  expect_contains(refused("ignore_label: 0 ignore_label: 255 }"),
                  "layer \"l\" (SoftmaxWithLoss): softmaxloss_param has 2 ignore_label (DeepLab), of which "
                  "loss_param can have one");
  expect_contains(refused("ignore_label: 255 weight_source: 'w' }"), "a file with one weight for each class");
  expect_contains(refused("ignore_label: 255 } loss_param { normalize: true }"), "give one of the two");
}

TEST(UpgradeDeepLab, SettingsOfLoadingStay) {
  expect_same(upgraded("layers { name: 'c' type: CONVOLUTION strict_dim: false }"),
              "layer { name: 'c' type: 'Convolution' strict_dim: false }");
}

TEST(UpgradeDepth, ShapesOfNdLayersBecomeLists) {
  expect_same(
      upgraded("layer { name: 'c' type: 'NdConvolution' convolution_param { num_output: 4 kernel_shape "
               "{ dim: 3 dim: 5 dim: 7 } stride_shape { dim: 1 dim: 2 dim: 2 } } }\n"
               "layer { name: 'p' type: 'NdPooling' pooling_param { kernel_shape { dim: 2 dim: 2 } } }"),
      "layer { name: 'c' type: 'Convolution' convolution_param { num_output: 4 kernel_size: [3, 5, 7] "
      "stride: [1, 2, 2] } }\n"
      "layer { name: 'p' type: 'Pooling' pooling_param { kernel_size: [2, 2] } }");
}

/// Of 3D-Caffe, and of BVLC's opencl branch as it began.
TEST(UpgradeDepth, PoolingNDIsPooling) {
  expect_same(
      upgraded("layer { name: 'p' type: 'PoolingND' pooling_nd_param { pool: AVE kernel_size: [2, 3, 3] "
               "stride: 2 } }\n"
               "layer { name: 'q' type: 'PoolingND' pooling_param { kernel_size: 2 kstride: 1 } }"),
      "layer { name: 'p' type: 'Pooling' pooling_param { pool: AVE kernel_size: [2, 3, 3] stride: 2 } }\n"
      "layer { name: 'q' type: 'Pooling' pooling_param { kernel_size: 2 kstride: 1 } }");
}

TEST(UpgradeDepth, TheFirstAxisGoesBeforeRowsAndColumns) {
  expect_same(
      upgraded("layer { name: 'c' type: 'Convolution' convolution_param { num_output: 4 kernel_d: 3 "
               "kernel_h: 5 kernel_w: 7 stride_d: 2 stride: 1 pad_d: 1 pad_h: 2 } }"),
      "layer { name: 'c' type: 'Convolution' convolution_param { num_output: 4 kernel_size: [3, 5, 7] "
      "stride: [2, 1, 1] pad: [1, 2, 0] } }");
}

/// As Pseudo-3D ResNet writes its layers.
TEST(UpgradeDepth, TheFirstAxisHasAnotherName) {
  expect_same(
      upgraded("layer { name: 'p' type: 'Pooling3D' pooling_param { pool: MAX kernel_size: 3 kernel_l: 2 "
               "stride: 2 stride_l: 1 pad_l: 1 } }"),
      "layer { name: 'p' type: 'Pooling' pooling_param { pool: MAX kernel_size: [2, 3, 3] "
      "stride: [1, 2, 2] pad: [1, 0, 0] } }");
}

TEST(UpgradeDepth, HalfSpecifiedWindowsAreRefused) {
  const auto conv = [](const std::string& settings) {
    return error_of([&] {
      upgraded("layer { name: 'c' type: 'Convolution' convolution_param { num_output: 1 " + settings +
               " } }");
    });
  };
  expect_contains(conv("kernel_depth: 3"), "layer \"c\" (Convolution): kernel_depth needs kernel_size");
  expect_contains(conv("kernel_size: 3 temporal_stride: 2"), "need the kernel's length");
  expect_contains(conv("kernel_d: 3 kernel_size: 3 stride: 2"), "stride needs stride_d beside it");
  expect_contains(conv("kernel_l: 3 kernel_size: 3 stride: 2"), "stride needs stride_l beside it");
  expect_contains(conv("kernel_l: 3 kernel_d: 3 kernel_size: 3"), "give one of the two");
  expect_contains(conv("kernel_l: 3"), "kernel_l needs kernel_size");
  expect_contains(conv("kernel_l: 3 kernel_size: [3, 3]"), "kernel_l goes with one kernel_size");
  expect_contains(conv("kernel_size: 3 stride_l: 2"), "kernel_depth, kernel_l or kernel_shape");
  expect_contains(conv("kernel_l: 3 kernel_size: 3 pad_d: 1 pad: [1, 1]"), "pad_d goes with one pad");
  expect_contains(conv("kernel_depth: 3 kernel_size: 3 pad_l: 1"), "kernel_l with stride_l and pad_l");
  expect_contains(conv("kernel_depth: 3 kernel_size: 3 pad_d: 1"), "keep one kind");
  expect_contains(conv("kernel_depth: 3 kernel_size: [3, 3]"), "goes with one kernel_size");
  expect_contains(conv("kernel_shape { dim: 3 } kernel_size: 3"), "either as a list or as a shape");
  expect_contains(conv("kernel_shape { dim: -3 }"), "negative: -3");
}

TEST(UpgradeHoles, AreDilations) {
  expect_same(
      upgraded("layers { name: 'a' type: CONVOLUTION convolution_param { num_output: 4 kernel_size: 3 "
               "hole: 2 } }\n"
               "layers { name: 'b' type: DECONVOLUTION convolution_param { kernel_size: 3 hole_h: 2 "
               "hole_w: 3 } }\n"
               "layers { name: 'c' type: CONVOLUTION convolution_param { hole_w: 12 } }"),
      "layer { name: 'a' type: 'Convolution' convolution_param { num_output: 4 kernel_size: 3 "
      "dilation: 2 } }\n"
      "layer { name: 'b' type: 'Deconvolution' convolution_param { kernel_size: 3 dilation_h: 2 "
      "dilation_w: 3 } }\n"
      "layer { name: 'c' type: 'Convolution' convolution_param { dilation_w: 12 } }");
}

TEST(UpgradeHoles, AreGivenOnce) {
  const auto conv = [](const std::string& settings) {
    return error_of(
        [&] { upgraded("layer { name: 'c' type: 'Convolution' convolution_param { " + settings + " } }"); });
  };
  expect_contains(conv("hole: 2 dilation: 2"),
                  "layer \"c\" (Convolution): hole is DeepLab's name of dilation");
  expect_contains(conv("hole_h: 2 dilation_h: 2"), "give one of the two");
  expect_contains(conv("hole: 2 hole_w: 2"), "not both");
  expect_contains(conv("kstride: 2 dilation: 2"),
                  "kstride is an older name of dilation (BVLC's opencl branch)");
  expect_contains(conv("kstride_h: 2 hole: 2"), "give one name");
  expect_contains(conv("kstride: 2 kstride_w: 2"), "give either kstride or its _h and _w forms, not both");
  expect_contains(conv("kstride: [2, 3] kstride_d: 2"), "kstride_d goes with one kstride");
}

TEST(UpgradeHoles, AreStridesOfKernels) {
  expect_same(
      upgraded(
          "layers { name: 'a' type: CONVOLUTION convolution_param { kernel_size: 3 kstride: 4 } }\n"
          "layers { name: 'b' type: DECONVOLUTION convolution_param { kernel_size: 3 kstride_h: 2 "
          "kstride_w: 3 } }\n"
          "layers { name: 'c' type: CONVOLUTION convolution_param { kstride: [2, 3] } }\n"
          "layers { name: 'd' type: CONVOLUTION convolution_param { kstride: 3 kstride_d: 2 } }\n"
          "layers { name: 'e' type: CONVOLUTION convolution_param { kstride_d: 2 kstride_h: 4 kstride_w: "
          "5 } }\n"
          "layers { name: 'f' type: CONVOLUTION convolution_param { kstride_d: 2 } }\n"
          "layers { name: 'g' type: POOLING pooling_param { kstride: 1 } }"),
      "layer { name: 'a' type: 'Convolution' convolution_param { kernel_size: 3 dilation: 4 } }\n"
      "layer { name: 'b' type: 'Deconvolution' convolution_param { kernel_size: 3 dilation_h: 2 "
      "dilation_w: 3 } }\n"
      "layer { name: 'c' type: 'Convolution' convolution_param { dilation: [2, 3] } }\n"
      "layer { name: 'd' type: 'Convolution' convolution_param { dilation: [2, 3, 3] } }\n"
      "layer { name: 'e' type: 'Convolution' convolution_param { dilation: [2, 4, 5] } }\n"
      "layer { name: 'f' type: 'Convolution' convolution_param { dilation: [2, 1, 1] } }\n"
      "layer { name: 'g' type: 'Pooling' pooling_param { kstride: 1 } }");
}

TEST(UpgradeFusedRelu, BecomesALayer) {
  expect_same(
      upgraded(
          "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' include { phase: TRAIN } "
          "convolution_param { num_output: 1 kernel_size: 1 relu: true negative_slope: 0.5 } }\n"
          "layer { name: 'b' type: 'BatchNorm' bottom: 'c' top: 'b' batch_norm_param { relu: true } }\n"
          "layer { name: 'f' type: 'BatchNorm' bottom: 'b' top: 'f' batch_norm_param { fused_relu: true } }\n"
          "layer { name: 'e' type: 'Eltwise' bottom: 'b' bottom: 'c' top: 'e' eltwise_param { relu: true } "
          "}"),
      "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' include { phase: TRAIN } "
      "convolution_param { num_output: 1 kernel_size: 1 } }\n"
      "layer { name: 'c_relu' type: 'ReLU' bottom: 'c' top: 'c' include { phase: TRAIN } "
      "relu_param { negative_slope: 0.5 } }\n"
      "layer { name: 'b' type: 'BatchNorm' bottom: 'c' top: 'b' batch_norm_param { } }\n"
      "layer { name: 'b_relu' type: 'ReLU' bottom: 'b' top: 'b' }\n"
      "layer { name: 'f' type: 'BatchNorm' bottom: 'b' top: 'f' batch_norm_param { } }\n"
      "layer { name: 'f_relu' type: 'ReLU' bottom: 'f' top: 'f' }\n"
      "layer { name: 'e' type: 'Eltwise' bottom: 'b' bottom: 'c' top: 'e' eltwise_param { } }\n"
      "layer { name: 'e_relu' type: 'ReLU' bottom: 'e' top: 'e' }");
}

TEST(UpgradeFusedRelu, ThatOfBvlcsOpenclBranchDoesToo) {
  expect_same(
      upgraded("layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' convolution_param { "
               "num_output: 1 kernel_size: 1 fuse_type: FUSED_CONV_RELU relu_param { negative_slope: "
               "0.5 } } }\n"
               "layer { name: 'd' type: 'Convolution' bottom: 'c' top: 'd' convolution_param { "
               "num_output: 1 kernel_size: 1 fuse_type: UNFUSED } }"),
      "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' convolution_param { num_output: 1 "
      "kernel_size: 1 } }\n"
      "layer { name: 'c_relu' type: 'ReLU' bottom: 'c' top: 'c' relu_param { negative_slope: 0.5 } }\n"
      "layer { name: 'd' type: 'Convolution' bottom: 'c' top: 'd' convolution_param { num_output: 1 "
      "kernel_size: 1 fuse_type: UNFUSED } }");
}

TEST(UpgradeFusedRelu, OtherLayersInOneAreRefused) {
  const auto refused = [](const std::string& settings) {
    return error_of([&] { upgraded("layer { name: 'c' type: 'Any' " + settings + " }"); });
  };
  expect_contains(
      refused("convolution_param { fuse_type: FUSED_CONV_ELTWISE_RELU }"),
      "layer \"c\" (Any): fuse_type: FUSED_CONV_ELTWISE_RELU (BVLC's opencl branch) is not supported; "
      "write the layers that it stands for after the Convolution");
  expect_contains(refused("convolution_param { relu_param { } }"), "belong to a fuse_type");
  expect_contains(refused("convolution_param { fuse_type: FUSED_CONV_RELU eltwise_param { } }"),
                  "belong to a fuse_type");
  expect_contains(refused("lrn_param { pooling_param { } }"), "write a Pooling layer after the LRN");
}

TEST(UpgradeFusedRelu, EachOutputOfAConvolutionGetsOne) {
  const caffe::NetParameter net = upgraded(
      "layer { name: 'c' type: 'Convolution' bottom: 'x' bottom: 'y' top: 'c' top: 'd' "
      "convolution_param { num_output: 1 kernel_size: 1 relu: true } }");
  ASSERT_EQ(net.layer_size(), 3);
  EXPECT_EQ(net.layer(1).name(), "c_relu0");
  EXPECT_EQ(net.layer(2).bottom(0), "d");
}

TEST(UpgradeFusedRelu, ItsNameIsNotThatOfALayerOfTheFile) {
  const caffe::NetParameter net = upgraded(
      "layer { name: 'e' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 'e' eltwise_param { relu: true } }\n"
      "layer { name: 'e_relu' type: 'InnerProduct' bottom: 'e' top: 'i' inner_product_param { num_output: 1 "
      "} }");
  ASSERT_EQ(net.layer_size(), 3);
  EXPECT_EQ(net.layer(1).name(), "e_relu_");
  EXPECT_EQ(net.layer(1).type(), "ReLU");
}

TEST(UpgradeBnStats, ReachesLayersThatDoNotGiveTheirOwn) {
  expect_same(upgraded("bn_stats_batch_size: 8\n"
                       "layer { name: 'a' type: 'BatchNorm' bottom: 'x' top: 'x' }\n"
                       "layer { name: 'b' type: 'BatchNorm' bottom: 'x' top: 'x' batch_norm_param { "
                       "stats_batch_size: 4 } }\n"
                       "layer { name: 'c' type: 'BN' bottom: 'x' top: 'x' }"),
              "layer { name: 'a' type: 'BatchNorm' bottom: 'x' top: 'x' batch_norm_param { "
              "stats_batch_size: 8 } }\n"
              "layer { name: 'b' type: 'BatchNorm' bottom: 'x' top: 'x' batch_norm_param { "
              "stats_batch_size: 4 } }\n"
              "layer { name: 'c' type: 'BN' bottom: 'x' top: 'x' }");
}

TEST(UpgradeV1Branches, SettingsAreCopied) {
  expect_same(
      upgraded("layers { name: 'b' type: BN bottom: 'a' top: 'b' blobs_lr: 1 bn_param { bn_mode: INFERENCE "
               "} }\n"
               "layers { name: 'u' type: UNPOOLING bottom: 'b' bottom: 'm' top: 'u' unpooling_param { "
               "unpool: MAX kernel_size: 2 stride: 2 unpool_size: 14 } }"),
      "layer { name: 'b' type: 'BN' bottom: 'a' top: 'b' param { lr_mult: 1 } bn_param { bn_mode: INFERENCE "
      "} }\n"
      "layer { name: 'u' type: 'Unpooling' bottom: 'b' bottom: 'm' top: 'u' unpooling_param { unpool: MAX "
      "kernel_size: 2 stride: 2 unpool_size: 14 } }");
}

}  // namespace
}  // namespace banyan::io
