// Types of branches that stand for several layers, for none, or for a type with another message.
#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"
#include "banyan/io/weights.hpp"
#include "io_test_tools.hpp"

namespace banyan::io {
namespace {

caffe::NetParameter read_dialect(const std::string& text) {
  caffe::NetParameter net = parse_net_text(text, "test");
  upgrade_net(net, "test");
  return net;
}

void expect_layers(const std::string& text, const std::string& expected) {
  EXPECT_EQ(to_text(read_dialect(text)), to_text(parse_net_text(expected, "test")));
}

TEST(Dialects, SkimCaffeFusesReLUs) {
  expect_layers(
      "layer { name: 'c' type: 'ConvolutionReLU' bottom: 'x' top: 'c' param { lr_mult: 2 } include { phase: "
      "TRAIN } convolution_param { num_output: 2 kernel_size: 3 conv_mode: DIRECT_SCONV } }\n"
      "layer { name: 'p' type: 'ReLUPooling' bottom: 'c' top: 'p' include { phase: TRAIN } pooling_param { "
      "pool: "
      "AVE kernel_size: 2 } }",
      "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' param { lr_mult: 2 } include { phase: "
      "TRAIN } "
      "convolution_param { num_output: 2 kernel_size: 3 conv_mode: DIRECT_SCONV } }\n"
      "layer { name: 'c_relu' type: 'ReLU' bottom: 'c' top: 'c' include { phase: TRAIN } }\n"
      "layer { name: 'p_relu' type: 'ReLU' bottom: 'c' top: 'p_relu' include { phase: TRAIN } }\n"
      "layer { name: 'p' type: 'Pooling' bottom: 'p_relu' top: 'p' include { phase: TRAIN } pooling_param { "
      "pool: "
      "AVE kernel_size: 2 } }");
}

TEST(Dialects, SkimCaffesReLUsMayLeak) {
  const std::string leak = "relu_param { negative_slope: 0.5 } ",
                    conv = "convolution_param { num_output: 2 kernel_size: 3 } ",
                    pool = "pooling_param { kernel_size: 2 } ";
  expect_layers("layer { name: 'c' type: 'ConvolutionReLU' bottom: 'x' top: 'c' " + leak + conv + "}\n" +
                    "layer { name: 'p' type: 'ReLUPooling' bottom: 'c' top: 'p' " + leak + pool + "}",
                "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' " + conv + "}\n" +
                    "layer { name: 'c_relu' type: 'ReLU' bottom: 'c' top: 'c' " + leak + "}\n" +
                    "layer { name: 'p_relu' type: 'ReLU' bottom: 'c' top: 'p_relu' " + leak + "}\n" +
                    "layer { name: 'p' type: 'Pooling' bottom: 'p_relu' top: 'p' " + pool + "}");
}

TEST(Dialects, TheSmallestOfAWindowIsTheLargestOfItsNegations) {
  expect_layers(
      "layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'y' loss_weight: 2 include { phase: TEST } "
      "pooling_param { "
      "pool: MIN kernel_size: 3 } }",
      "layer { name: 'p_negated' type: 'Power' bottom: 'x' top: 'p_negated' include { phase: TEST } "
      "power_param { "
      "scale: -1 } }\n"
      "layer { name: 'p' type: 'Pooling' bottom: 'p_negated' top: 'p_maximum' include { phase: TEST } "
      "pooling_param "
      "{ pool: MAX kernel_size: 3 } }\n"
      "layer { name: 'p_minimum' type: 'Power' bottom: 'p_maximum' top: 'y' loss_weight: 2 include { phase: "
      "TEST } "
      "power_param { scale: -1 } }");
}

TEST(Dialects, MadeNamesAreNotTaken) {
  expect_layers(
      "layer { name: 'p_negated' type: 'ReLU' bottom: 'x' top: 'p_maximum' }\n"
      "layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'y' pooling_param { pool: MIN kernel_size: 3 } }",
      "layer { name: 'p_negated' type: 'ReLU' bottom: 'x' top: 'p_maximum' }\n"
      "layer { name: 'p_negated_' type: 'Power' bottom: 'x' top: 'p_negated_' power_param { scale: -1 } }\n"
      "layer { name: 'p' type: 'Pooling' bottom: 'p_negated_' top: 'p_maximum_' pooling_param { pool: MAX "
      "kernel_size: 3 } }\n"
      "layer { name: 'p_minimum' type: 'Power' bottom: 'p_maximum_' top: 'y' power_param { scale: -1 } }");
  const caffe::NetParameter net = read_dialect(
      "input: 'p_negated' input_shape { dim: [1, 1, 4, 4] } "
      "layer { name: 'p' type: 'Pooling' bottom: 'p_negated' top: 'y' pooling_param { pool: MIN kernel_size: "
      "3 } "
      "}");
  EXPECT_EQ(net.layer(1).top(0), "p_negated_");
}

TEST(Dialects, TripletsWithAPair) {
  const std::string start =
      "layer { name: 't' type: 'TripletLoss' bottom: 'a' bottom: 'p' bottom: 'n' bottom: 'd' bottom: 'e' ";
  expect_layers(start + "top: 't' loss_weight: 3 }",
                "layer { name: 't_pairs' type: 'EuclideanLoss' bottom: 'd' bottom: 'e' top: 't_pairs' "
                "loss_weight: 3 }\n"
                "layer { name: 't' type: 'TripletLoss' bottom: 'a' bottom: 'p' bottom: 'n' top: 't' "
                "loss_weight: 3 }");
  expect_layers(start + "bottom: 's' top: 't' propagate_down: [true, false, true, false, true, false] }",
                "layer { name: 't_unread' type: 'Silence' bottom: 's' }\n"
                "layer { name: 't_pairs' type: 'EuclideanLoss' bottom: 'd' bottom: 'e' top: 't_pairs' "
                "propagate_down: [false, true] }\n"
                "layer { name: 't' type: 'TripletLoss' bottom: 'a' bottom: 'p' bottom: 'n' top: 't' "
                "propagate_down: [true, false, true] }");
}

TEST(Dialects, BytesArePaddedByWhatStandsForZero) {
  const std::string convolution =
                        "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c' quantization_param { "
                        "force_u8_input: true } }\n",
                    start = "layer { name: 'd' type: 'Data' ", include = "include { phase: TEST } ",
                    crop = "transform_param { crop_size: 224 ";
  expect_layers(start + "top: 'data' top: 'label' " + include + crop + "pad: 3 } }\n" + convolution,
                start + "top: 'd_inside' top: 'label' " + include + crop + "} }\n" +
                    "layer { name: 'd_centred' type: 'Power' bottom: 'd_inside' top: 'd_centred' " + include +
                    "power_param { shift: -128 } }\n"
                    "layer { name: 'd_padded' type: 'Padding' bottom: 'd_centred' top: 'd_padded' " +
                    include +
                    "padding_param { pad_beg: 3 pad_end: 3 } }\n"
                    "layer { name: 'd_bytes' type: 'Power' bottom: 'd_padded' top: 'data' " +
                    include + "power_param { shift: 128 } }\n" + convolution);
  const std::string ours = start + "top: 'data' " + crop + "pad: 3 } }\n";
  expect_layers(ours, ours);
}

TEST(Dialects, TheSecondOutputOfAReluIsThatOfAThreshold) {
  const std::string include = "include { phase: TEST } ",
                    start = "layer { name: 'r' type: 'ReLU' bottom: 'x' ";
  const auto marks = [](const std::string& of) {
    return "layer { name: 'r_marks' type: 'Threshold' bottom: '" + of + "' top: 'm' ";
  };
  expect_layers(start + "top: 'x' top: 'm' " + include + "}",
                start + "top: 'x' " + include + "}\n" + marks("x") + include + "}");
  const std::string leak = "relu_param { negative_slope: 0.1 } }",
                    fall = "relu_param { negative_slope: -1 } }";
  expect_layers(start + "top: 'y' top: 'm' " + leak, start + "top: 'y' " + leak + "\n" + marks("y") + "}");
  expect_layers(start + "top: 'y' top: 'm' " + fall, start + "top: 'y' " + fall + "\n" + marks("x") + "}");
  expect_layers(start + "top: 'y' top: 'm' loss_weight: [1, 2] }",
                start + "top: 'y' loss_weight: 1 }\n" + marks("y") + "loss_weight: 2 }");
  expect_layers(
      "layer { name: 'r_marks' type: 'ReLU' bottom: 'w' top: 'x' }\n" + start + "top: 'x' top: 'm' }",
      "layer { name: 'r_marks' type: 'ReLU' bottom: 'w' top: 'x' }\n" + start +
          "top: 'x' }\nlayer { name: 'r_marks_' type: 'Threshold' bottom: 'x' top: 'm' }");
  const std::string three = start + "top: 'x' top: 'm' top: 'n' }";
  expect_layers(three, three);
}

TEST(Dialects, DecoupledNetsLayersBecomeOurs) {
  expect_layers(
      "layers { name: 'd' type: SELECT_SEG_BINARY top: 'd' top: 'l' top: 'c' image_data_param { source: 's' "
      "label_type: PIXEL } window_cls_data_param { label_dim: 20 } select_seg_binary_param { cls_label_base: "
      "1 } }\n"
      "layers { name: 'r' type: RELU bottom: 'd' top: 'd' top: 'm' }",
      "layer { name: 'd' type: 'SelectSegBinary' top: 'd' top: 'l' top: 'c' image_data_param { source: 's' "
      "label_type: PIXEL } window_cls_data_param { label_dim: 20 } select_seg_binary_param { cls_label_base: "
      "1 } }\n"
      "layer { name: 'r' type: 'ReLU' bottom: 'd' top: 'd' }\n"
      "layer { name: 'r_marks' type: 'Threshold' bottom: 'd' top: 'm' }");
}

TEST(Dialects, ASwitchPassesItsLastInputOn) {
  const std::string start = "layer { name: 'w' type: 'Switch' ";
  expect_layers(start + "bottom: 'a' bottom: 'b' bottom: 'c' top: 'w' propagate_down: [true, true, false] }",
                "layer { name: 'w_unread' type: 'Silence' bottom: 'a' bottom: 'b' }\n"
                "layer { name: 'w' type: 'Split' bottom: 'c' top: 'w' propagate_down: false }");
  expect_layers(start + "bottom: 'a' top: 'w' }", "layer { name: 'w' type: 'Split' bottom: 'a' top: 'w' }");
}

TEST(Dialects, MadeNamesAreTheSameInEachPhase) {
  std::string text, expected;
  for (const std::string phase : {"TRAIN", "TEST"}) {
    const std::string include = "include { phase: " + phase + " } }\n";
    text +=
        "layer { name: 't' type: 'TripletLoss' bottom: 'a' bottom: 'p' bottom: 'n' bottom: 'd' bottom: 'e' "
        "top: 't' " +
        include;
    expected +=
        "layer { name: 't_pairs' type: 'EuclideanLoss' bottom: 'd' bottom: 'e' top: 't_pairs' " + include +
        "layer { name: 't' type: 'TripletLoss' bottom: 'a' bottom: 'p' bottom: 'n' top: 't' " + include;
  }
  expect_layers(text, expected);
}

TEST(Dialects, AnLrnOfTheOpenclBranchPools) {
  expect_layers(
      "layer { name: 'n' type: 'LRN' bottom: 'x' top: 'n' lrn_param { local_size: 3 fuse_type: "
      "FUSED_POOL_MAX "
      "pooling_param { pool: MAX kernel_size: 3 stride: 2 } } }",
      "layer { name: 'n' type: 'LRN' bottom: 'x' top: 'n_unpooled' lrn_param { local_size: 3 } }\n"
      "layer { name: 'n_pooled' type: 'Pooling' bottom: 'n_unpooled' top: 'n' pooling_param { pool: MAX "
      "kernel_size: "
      "3 stride: 2 } }");
}

TEST(Dialects, BlobsOfParameterLayersBecomeParameters) {
  const std::string
      conv = "convolution_param { num_output: 2 kernel_size: 3 } ",
      parameters =
          "layer { name: 'pw' type: 'Parameter' top: 'w' param { lr_mult: 3 decay_mult: 0.5 } "
          "parameter_param { shape { dim: 2 dim: 1 dim: 3 dim: 3 } } }\n"
          "layer { name: 'pb' type: 'Parameter' top: 'b' parameter_param { shape { dim: 2 } } }\n";
  const std::string shared = "param { name: 'w' lr_mult: 3 decay_mult: 0.5 } param { name: 'b' } ";
  testing::internal::CaptureStderr();
  expect_layers(
      parameters +
          "layer { name: 'c' type: 'Convolution' bottom: 'x' bottom: 'w' bottom: 'b' top: 'c' "
          "propagate_down: true "
          "propagate_down: true propagate_down: true param_bottoms: 2 device { type: GPU device_id: 1 } " +
          conv + "}\n" +
          "layer { name: 'd' type: 'Convolution' bottom: 'y' bottom: 'w' bottom: 'b' top: 'd' param_bottoms: "
          "2 device { "
          "type: GPU } " +
          conv + "}",
      "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' propagate_down: true " + shared + conv +
          "}\n" + "layer { name: 'd' type: 'Convolution' bottom: 'y' top: 'd' " + shared + conv + "}");
  const std::string said = testing::internal::GetCapturedStderr(), device = "device has no effect";
  expect_contains(said, device);
  EXPECT_EQ(said.find(device, said.find(device) + 1), std::string::npos) << said;
  // One that another layer reads as a blob stays.
  expect_layers(
      parameters +
          "layer { name: 'c' type: 'InnerProduct' bottom: 'x' bottom: 'b' top: 'c' param { lr_mult: "
          "0 } param_bottoms: 1 }\nlayer { name: 'r' type: 'ReLU' bottom: 'b' top: 'r' }",
      "layer { name: 'pw' type: 'Parameter' top: 'w' param { lr_mult: 3 decay_mult: 0.5 } parameter_param { "
      "shape { "
      "dim: 2 dim: 1 dim: 3 dim: 3 } } }\n"
      "layer { name: 'pb' type: 'Parameter' top: 'b' param { name: 'b' } parameter_param { shape { dim: 2 } "
      "} }\n"
      "layer { name: 'c' type: 'InnerProduct' bottom: 'x' top: 'c' param { lr_mult: 0 name: 'b' "
      "} }\nlayer { name: 'r' type: 'ReLU' bottom: 'b' top: 'r' }");
  expect_contains(
      error_of([&] {
        read_dialect("layer { name: 'c' type: 'InnerProduct' bottom: 'x' bottom: 'w' param_bottoms: 1 }");
      }),
      "param_bottoms counts \"w\", which no Parameter layer makes");
  expect_contains(
      error_of([&] {
        read_dialect("layer { name: 'c' type: 'InnerProduct' bottom: 'x' param_bottoms: 4294967295 }");
      }),
      "param_bottoms is 4294967295, of 1 bottoms");
  expect_contains(error_of([&] {
                    read_dialect(
                        "layer { name: 'p' type: 'Parameter' top: 'w' parameter_param { blob_filler { value: "
                        "5 } } }\nlayer { name: 'c' type: 'InnerProduct' bottom: 'x' bottom: 'w' "
                        "param_bottoms: 1 }");
                  }),
                  "its blob_filler would be lost");
  expect_contains(error_of([&] {
                    read_dialect("layer { name: 'c' type: 'InnerProduct' bottom: 'x' param_bottoms: 2 }");
                  }),
                  "param_bottoms is 2, of 1 bottoms");
}

/// Intel's engines take a BatchNorm and the Scale after it for one layer.
TEST(Dialects, AFillerOfBatchNormIsThatOfTheScaleAfterIt) {
  const std::string scale = "layer { name: 's' type: 'Scale' bottom: 'c' top: 'c' ",
                    zero = "filler { value: 0 } ";
  const auto norm = [](const std::string& settings) {
    return "layer { name: 'n' type: 'BatchNorm' bottom: 'c' top: 'c' batch_norm_param { eps: 0.1 " +
           settings + "} }\n";
  };
  const std::string more = "layer { name: 't' type: 'Scale' bottom: 'c' top: 'd' }";
  expect_layers(norm(zero) + scale + "scale_param { bias_term: true } }\n" + more,
                norm("") + scale + "scale_param { bias_term: true " + zero + "} }\n" + more);
  for (const std::string& as_it_is :
       {norm(zero) + scale + "scale_param { filler { value: 2 } } }\n" + more,
        norm(zero + "engine: CAFFE ") + scale + "}", norm(zero + "use_weight_bias: false ") + scale + "}",
        norm(zero + "bias_filler { } ") + scale + "}",
        norm(zero) + "layer { name: 's' type: 'Scale' bottom: 'x' }",
        norm(zero) + "layer { name: 's' type: 'Scale' bottom: 'c' bottom: 'x' top: 's' }"})
    expect_layers(as_it_is, as_it_is);
}

TEST(Dialects, NormFacesFirstNormalize) {
  expect_layers(
      "layer { name: 'n' type: 'Normalize' bottom: 'x' top: 'n' softmax_param { normalize_type: 'L2' } }\n"
      "layer { name: 'm' type: 'Normalize' bottom: 'x' top: 'm' softmax_param { axis: 1 } }",
      "layer { name: 'n' type: 'Normalize' bottom: 'x' top: 'n' normalize_param { normalize_type: 'L2' } }\n"
      "layer { name: 'm' type: 'Normalize' bottom: 'x' top: 'm' softmax_param { axis: 1 } }");
}

TEST(Dialects, RandomVectorsAndCornerCrops) {
  expect_layers(
      "layer { name: 'r' type: 'RandVec' top: 'r' randvec_param { batch_size: 4 dim: 3 lower: 0 upper: 2 } "
      "}\n"
      "layer { name: 's' type: 'RandVec' top: 's' randvec_param { dim: 3 height: 5 } }\n"
      "layer { name: 'c' type: 'SimpleCrop' bottom: 'x' top: 'c' crop_param { blob_name: 'y' } }\n"
      "layer { name: 'd' type: 'SimpleCrop' bottom: 'x' bottom: 'y' top: 'd' }\n"
      "layer { name: 'i' type: 'ImageLabelListData' top: 'i' image_label_data_param { image_list_path: 'a' "
      "backend: LMDB } }",
      "layer { name: 'r' type: 'DummyData' top: 'r' dummy_data_param { shape { dim: 4 dim: 3 } data_filler { "
      "type: 'uniform' min: 0 max: 2 } } }\n"
      "layer { name: 's' type: 'DummyData' top: 's' dummy_data_param { shape { dim: 1 dim: 3 dim: 5 dim: 1 } "
      "data_filler { type: 'uniform' min: -1 max: 1 } } }\n"
      "layer { name: 'c' type: 'Crop' bottom: 'x' bottom: 'y' top: 'c' crop_param { } }\n"
      "layer { name: 'd' type: 'Crop' bottom: 'x' bottom: 'y' top: 'd' crop_param { } }\n"
      "layer { name: 'i' type: 'ImageLabelData' top: 'i' image_label_data_param { image_list_path: 'a' } }");
}

TEST(Dialects, OtherNamesOfSingleProjects) {
  expect_layers(
      "layer { name: 'c' type: 'ConvolutionData' bottom: 'x' top: 'c' convolution_param { num_output: 3 } }\n"
      "layer { name: 'i' type: 'InnerProductAll' bottom: 'c' top: 'i' }\n"
      "layer { name: 'b' type: 'PriorBoxClustered' bottom: 'x' bottom: 'y' top: 'b' prior_box_param { width: "
      "3 "
      "height: 2 } }\n"
      "layer { name: 'p' type: 'Pooling3D' bottom: 'x' top: 'p' pooling_3d_param { kernel_l: 2 kernel_size: "
      "3 } }\n"
      "layer { name: 'w' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'l' bottom: 'w' top: 'w' }\n"
      "layer { name: 'o' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'l' top: 'o' top: 'p' top: 'e' }\n"
      "layer { name: 's' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'l' top: 's' }",
      "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' convolution_param { num_output: 3 } }\n"
      "layer { name: 'i' type: 'InnerProduct' bottom: 'c' top: 'i' }\n"
      "layer { name: 'b' type: 'PriorBox' bottom: 'x' bottom: 'y' top: 'b' prior_box_param { width: 3 "
      "height: 2 } }\n"
      "layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'p' pooling_param { kernel_size: [2, 3, 3] } }\n"
      "layer { name: 'w' type: 'WeightedSoftmaxWithLoss' bottom: 'x' bottom: 'l' bottom: 'w' top: 'w' }\n"
      "layer { name: 'o' type: 'SoftmaxWithLossOHEM' bottom: 'x' bottom: 'l' top: 'o' top: 'p' top: 'e' }\n"
      "layer { name: 's' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'l' top: 's' }");
  const std::string boxes =  // early nets of SSD
      "layer { name: 'a' type: 'PriorBox' bottom: 'x' top: 'a' }\n"
      "layer { name: 'b' type: 'PriorBox' bottom: 'y' top: 'b' }\n"
      "layer { name: 'p' type: 'Concat' bottom: 'a' bottom: 'b' top: 'p' }\n"
      "layer { name: 'l' type: 'MultiBoxLoss' ";
  expect_layers(boxes +
                    "bottom: 'p' bottom: 'l' bottom: 'c' bottom: 'y' top: 'l' propagate_down: [false, true, "
                    "true, false] }",
                boxes +
                    "bottom: 'l' bottom: 'c' bottom: 'p' bottom: 'y' top: 'l' propagate_down: [true, true, "
                    "false, false] }");
  expect_layers(boxes + "bottom: 'a' bottom: 'l' bottom: 'c' bottom: 'y' top: 'l' }",
                boxes + "bottom: 'l' bottom: 'c' bottom: 'a' bottom: 'y' top: 'l' }");
  expect_layers(
      "layer { name: 'd' type: 'DocData' top: 'x' top: 'y' data_param { source: 's' batch_size: 2 backend: "
      "LMDB rand_skip: 3 threads: 4 } }",
      "layer { name: 'd' type: 'DocData' top: 'x' top: 'y' doc_data_param { sources: 's' batch_size: 2 "
      "backend: LMDB "
      "rand_skip: 3 threads: 4 label_names: 'layout_type' } }");
  const std::string clips =  // scnn
      "layer { name: 'd' type: 'VideoData' top: 'x' top: 'l' top: 'v' }\n";
  expect_layers(
      clips + "layer { name: 's' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'l' bottom: 'v' top: 's' }",
      clips +
          "layer { name: 's' type: 'OverlapSoftmaxWithLoss' bottom: 'x' bottom: 'l' bottom: 'v' top: 's' }");
  expect_layers(
      "layers { name: 'n' type: NORM bottom: 'x' top: 'n' }\n"
      "layers { name: 'r' type: RANK_HARD_LOSS bottom: 'n' top: 'r' rank_param { neg_num: 4 } }",
      "layer { name: 'n' type: 'Normalize' bottom: 'x' top: 'n' normalize_param { } }\n"
      "layer { name: 'r' type: 'RankHardLoss' bottom: 'n' top: 'r' rank_param { neg_num: 4 } }");
}

TEST(Dialects, DataOfSparkIsFilledByAProgram) {
  expect_layers(
      "layer { name: 'd' type: 'CoSData' top: 'a' top: 'b' top: 'c' source_class: 'x' cos_data_param { "
      "batch_size: 4 "
      "top { name: 'a' type: RAW_IMAGE channels: 3 height: 9 width: 8 out_height: 5 transform_param { scale: "
      "2 } } "
      "top { name: 'b' type: INT sample_num_axes: 0 } "
      "top { name: 'c' type: FLOAT_ARRAY channels: 7 sample_num_axes: 1 transpose: true } } }",
      "layer { name: 'd' type: 'Input' top: 'a' top: 'b' top: 'c' source_class: 'x' input_param { shape { "
      "dim: 4 "
      "dim: 3 dim: 5 dim: 8 } shape { dim: 4 } shape { dim: 7 dim: 4 } } }");
}

TEST(Dialects, DataOfSparkMustBeDescribed) {
  for (const auto& [settings, part] : {std::pair{"batch_size: 0 top { }", "batch_size"},
                                       {"batch_size: 2", "describes 0 `top`"},
                                       {"batch_size: 2 top { sample_num_axes: 4 }", "at most 3"},
                                       {"batch_size: 2 top { transpose: true }", "transpose"}})
    expect_contains(
        error_of([&] {
          read_dialect(cat("layer { name: 'd' type: 'CoSData' top: 'a' cos_data_param { ", settings, " } }"));
        }),
        part);
}

TEST(Dialects, NvidiasEarlyNamesOfTransformations) {
  for (const std::string crop : {"var_sz_img_rand_crop", "var_sz_img_center_crop"})
    expect_layers(
        "layer { name: 'd' type: 'Data' top: 'd' transform_param { var_sz_img_rand_resize_lower: 250 "
        "var_sz_img_rand_resize_upper: 260 " +
            crop + ": 227 } }",
        "layer { name: 'd' type: 'Data' top: 'd' transform_param { crop_size: 227 img_rand_resize_lower: 250 "
        "img_rand_resize_upper: 260 } }");
  // To cut once more as much cuts nothing.
  expect_layers(
      "layer { name: 'd' type: 'Data' top: 'd' transform_param { crop_size: 2 var_sz_img_rand_crop: 2 } }",
      "layer { name: 'd' type: 'Data' top: 'd' transform_param { crop_size: 2 } }");
  expect_contains(error_of([&] {
                    read_dialect(
                        "layer { name: 'd' type: 'Data' top: 'd' transform_param { crop_size: 2 "
                        "var_sz_img_rand_crop: 3 } }");
                  }),
                  "earlier names of crop_size; give one of the three");
}

TEST(Dialects, LiteFlowNet) {
  expect_layers(
      "layer { name: 'g' type: 'Grid' bottom: 'f' top: 'g' }\n"
      "layer { name: 'a' type: 'Eltwise' bottom: 'f' bottom: 'g' top: 'p' }\n"
      "layer { name: 'w' type: 'Warp' bottom: 'x' bottom: 'p' top: 'w' }\n"
      "layer { name: 'v' type: 'Warp' bottom: 'x' bottom: 'f' top: 'v' flow_warp_param { coordinates: false "
      "} }",
      "layer { name: 'g' type: 'Grid' bottom: 'f' top: 'g' }\n"
      "layer { name: 'a' type: 'Eltwise' bottom: 'f' bottom: 'g' top: 'p' storage: FULL }\n"
      "layer { name: 'w' type: 'Warp' bottom: 'x' bottom: 'p' top: 'w' flow_warp_param { coordinates: true } "
      "}\n"
      "layer { name: 'v' type: 'Warp' bottom: 'x' bottom: 'f' top: 'v' flow_warp_param { coordinates: false "
      "} }");
  const std::string pwc = "layer { name: 'w' type: 'Warp' bottom: 'x' bottom: 'p' top: 'w' }";
  expect_layers(pwc, pwc);
}

TEST(Dialects, AppearanceFlow) {
  expect_layers(
      "layer { name: 'a' type: 'Eltwise' bottom: 'f' bottom: 'g' top: 'p' }\n"
      "layer { name: 'b' type: 'ReLU' bottom: 'p' top: 'q' }\n"
      "layer { name: 'r' type: 'Remap' bottom: 'x' bottom: 'p' top: 'r' }\n"
      "layer { name: 's' type: 'Remap' bottom: 'x' bottom: 'given' top: 's' }",
      "layer { name: 'a' type: 'Eltwise' bottom: 'f' bottom: 'g' top: 'p' storage: FULL }\n"
      "layer { name: 'b' type: 'ReLU' bottom: 'p' top: 'q' }\n"
      "layer { name: 'r' type: 'Remap' bottom: 'x' bottom: 'p' top: 'r' }\n"
      "layer { name: 's' type: 'Remap' bottom: 'x' bottom: 'given' top: 's' }");
  const std::string given =
      "layer { name: 'a' type: 'Eltwise' bottom: 'f' bottom: 'g' top: 'p' storage: BF16 }\n"
      "layer { name: 'r' type: 'Remap' bottom: 'x' bottom: 'p' top: 'r' }";
  expect_layers(given, given);
}

TEST(Dialects, PixelNet) {
  const std::string
      rest =
          "layer { name: 'b' type: 'Normalize' bottom: 'x' top: 'b' norm_param { fix_scale: false } }\n"
          "layer { name: 'c' type: 'Normalize' bottom: 'x' top: 'c' }\n",
      points = "layer { name: 'r' type: 'RandBI' bottom: 'x' bottom: 'p' top: 'r' }";
  const std::string plain =
      "layer { name: 'a' type: 'Normalize' bottom: 'x' top: 'a' norm_param { eps: 0 } }\n";
  expect_layers(
      plain + rest + points,
      "layer { name: 'a' type: 'Normalize' bottom: 'x' top: 'a' norm_param { eps: 0 fix_scale: true "
      "} }\n" +
          rest + points);
  expect_layers(plain + rest, plain + rest);
}

TEST(Dialects, ShorterSidesOfCaffePro) {
  expect_layers(
      "layer { name: 'a' type: 'ImageData' top: 'a' image_data_param { source: 'l' new_dim: 256 bicubic: "
      "true } }\n"
      "layer { name: 'b' type: 'ImageData' top: 'b' image_data_param { new_dim: 9 shared_file_system: true } "
      "}\n"
      "layer { name: 'c' type: 'ImageData' top: 'c' image_data_param { new_dim: 0 bicubic: true } }",
      "layer { name: 'a' type: 'ImageData' top: 'a' image_data_param { source: 'l' } transform_param { "
      "resize_param { resize_mode: FIT_SMALL_SIZE height: 256 width: 256 interp_mode: CUBIC } } }\n"
      "layer { name: 'b' type: 'ImageData' top: 'b' image_data_param { shared_file_system: true } "
      "transform_param { resize_param { resize_mode: FIT_SMALL_SIZE height: 9 width: 9 } } }\n"
      "layer { name: 'c' type: 'ImageData' top: 'c' image_data_param { } }");
  expect_contains(error_of([&] {
                    read_dialect(
                        "layer { name: 'd' type: 'ImageData' top: 'd' image_data_param { new_dim: 2 } "
                        "transform_param { resize_param { height: 3 width: 3 } } }");
                  }),
                  "new_dim is a branch's name of resize_param; give one of the two");
}

TEST(Dialects, RistrettoAndFpgas) {
  const std::string rest = "bottom: 'x' top: 'y' quantization_param { bw_params: 8 } ";
  expect_layers("layer { name: 'a' type: 'ConvolutionRistretto' " + rest + "}\n" +
                    "layer { name: 'b' type: 'DeconvolutionRistretto' " + rest + "}\n" +
                    "layer { name: 'p' type: 'XCLProgram' xcl_name: 'a.xclbin' kernel_name: 'a' }\n" +
                    "layer { name: 'c' type: 'FcRistretto' " + rest + "ocl_enable: true }\n" +
                    "layer { name: 'd' type: 'LRNRistretto' " + rest + "}",
                "layer { name: 'a' type: 'Convolution' " + rest + "}\n" +
                    "layer { name: 'b' type: 'Deconvolution' " + rest + "}\n" +
                    "layer { name: 'c' type: 'InnerProduct' " + rest + "ocl_enable: true }\n" +
                    "layer { name: 'd' type: 'LRN' " + rest + "}");
}

TEST(Dialects, LocalConvolutionsHaveOneName) {
  const std::string rest = "{ num_output: 5 kernel_size: 3 ";
  expect_layers(
      "layers { name: 'a' type: LOCAL_WEIGHTED_CONVOLUTION bottom: 'x' top: 'a' blobs_lr: 1 blobs_lr: 2 "
      "local_weighted_convolution_param " +
          rest + "} param: 'w' param: 'b' }\n" +
          "layers { name: 'b' type: LOCAL bottom: 'a' top: 'b' local_param " + rest + "} }",
      "layer { name: 'a' type: 'Local' bottom: 'x' top: 'a' param { name: 'w' lr_mult: 1 } param { name: "
      "'b' lr_mult: 2 } local_param " +
          rest + "shared_bias: true } }\n" +
          "layer { name: 'b' type: 'Local' bottom: 'a' top: 'b' local_param " + rest + "} }");
  expect_layers("layer { name: 'a' type: 'LocallyConnected' bottom: 'x' top: 'a' locally_connected_param " +
                    rest + "} }",
                "layer { name: 'a' type: 'Local' bottom: 'x' top: 'a' local_param " + rest + "} }");
  expect_contains(
      error_of(
          [&] { read_dialect("layer { name: 'a' type: 'LocallyConnected' local_param " + rest + "} }"); }),
      "test: layer \"a\" (LocallyConnected): local_param belongs to Local; locally_connected_param is "
      "its message");
  expect_contains(error_of([&] {
                    read_dialect(
                        "layer { name: 'a' type: 'LocallyConnected' "
                        "local_weighted_convolution_param " +
                        rest + "} }");
                  }),
                  "test: layer \"a\" (LocallyConnected): local_weighted_convolution_param belongs to "
                  "LocalWeightedConvolution; locally_connected_param is its message");
}

TEST(Dialects, FaceBoxesAreFoundByTheirNumber) {
  const auto net = [](const std::string& outputs, const std::string& sizes) {
    return read_dialect(
        "layer { name: 'l' type: 'Convolution' bottom: 'm' top: 'l' convolution_param { num_output: " +
        outputs + " kernel_size: 3 } }\n" +
        "layer { name: 'p' type: 'PriorBox' bottom: 'm' bottom: 'x' top: 'p' prior_box_param { " + sizes +
        " } }\n" +
        "layer { name: 'q' type: 'PriorBox' bottom: 'n' bottom: 'x' top: 'q' prior_box_param { "
        "min_size: 256 } }");
  };
  const std::string sizes = "min_size: 32 min_size: 64 min_size: 128";
  for (int i = 1; i < 3; ++i) EXPECT_TRUE(net("84", sizes).layer(i).prior_box_param().dense_faces()) << i;
  EXPECT_FALSE(net("12", sizes).layer(1).prior_box_param().has_dense_faces());
  EXPECT_FALSE(net("84", sizes + " aspect_ratio: 2").layer(1).prior_box_param().has_dense_faces());
  EXPECT_FALSE(net("84", sizes + " dense_faces: false").layer(1).prior_box_param().dense_faces());
}

TEST(Dialects, ListsOfDssKeepTheLossesAndCrops) {
  const auto net = [](const std::string& settings) {
    return read_dialect("layer { name: 'd' type: 'ImageLabelmapData' top: 'x' top: 'y' image_data_param { " +
                        settings +
                        " } }\n"
                        "layer { name: 'c' type: 'Crop' bottom: 'x' bottom: 'y' top: 'z' }\n"
                        "layer { name: 'l' type: 'SigmoidCrossEntropyLoss' bottom: 'z' bottom: 'y' }");
  };
  const caffe::NetParameter edges = net("normalize: true"), stored = net("normalize: false"), hed = net("");
  EXPECT_EQ(edges.layer(0).image_data_param().label_values(), caffe::ImageDataParameter::EDGES);
  EXPECT_EQ(stored.layer(0).image_data_param().label_values(), caffe::ImageDataParameter::STORED);
  EXPECT_EQ(hed.layer(0).image_data_param().label_values(), caffe::ImageDataParameter::EDGES);
  for (const caffe::NetParameter* one : {&edges, &stored}) {
    EXPECT_EQ(one->layer(0).type(), "ImageSegData");
    EXPECT_FALSE(one->layer(0).image_data_param().has_normalize());
    EXPECT_FALSE(one->layer(1).has_crop_param());
    EXPECT_FALSE(one->layer(2).loss_param().has_class_balance());
  }
  EXPECT_TRUE(hed.layer(1).crop_param().automatic_offset());
}

TEST(Dialects, TheirUnknownFieldsAreTheOnlyProblem) {
  expect_contains(error_of([] {
                    parse_net_text("layer { name: 'p' type: 'XCLProgram' xcl_param { once: true } }", "test");
                  }),
                  "layer \"p\" (XCLProgram): unknown field \"xcl_param\" in LayerParameter");
  EXPECT_TRUE(is_read_as_another("ReLU6"));
  EXPECT_TRUE(is_read_as_another("Pooling3D"));
  EXPECT_FALSE(is_read_as_another("ReLU"));
}

// ---------------------------------------------------------------- DenseBlock

TEST(DenseBlocks, AreWrittenOut) {
  const std::string in = "include { phase: TRAIN } ",
                    conv = "bias_term: false weight_filler { type: 'msra' }";
  const auto norm = [&](const std::string& name, const std::string& from, const std::string& specs) {
    std::string scale = name, relu = name;
    scale.replace(scale.find("bn"), 2, "scale");
    relu.replace(relu.find("bn"), 2, "relu");
    return "layer { name: '" + name + "' type: 'BatchNorm' bottom: '" + from + "' top: '" + name + "' " + in +
           "}\n" + "layer { name: '" + scale + "' type: 'Scale' bottom: '" + name + "' top: '" + name + "' " +
           specs + in + "scale_param { filler { value: 1 } bias_term: true bias_filler { value: 0 } } }\n" +
           "layer { name: '" + relu + "' type: 'ReLU' bottom: '" + name + "' top: '" + name + "' " + in +
           "}\n";
  };
  const std::string layer = "layer { name: 'B' type: 'DenseBlock' bottom: 'x' top: 'y' " + in,
                    settings =
                        "denseblock_param { numTransition: 2 growthRate: 8 initChannel: 64 "
                        "Filter_Filler { type: 'msra' } BN_Scaler_Filler { value: 1 } "
                        "BN_Bias_Filler { value: 0 } ",
                    block =
                        layer + "param { lr_mult: 1 } param { lr_mult: 2 } param { lr_mult: 3 } " + settings;
  expect_layers(
      block + "use_dropout: true dropout_amount: 0.2 } }",
      norm("B/bn1", "x", "param { lr_mult: 3 } ") +
          "layer { name: 'B/conv1' type: 'Convolution' bottom: 'B/bn1' top: 'B/conv1' param { lr_mult: 1 } " +
          in + "convolution_param { num_output: 8 kernel_size: 3 pad: 1 " + conv + " } }\n" +
          "layer { name: 'B/drop1' type: 'Dropout' bottom: 'B/conv1' top: 'B/conv1' " + in +
          "dropout_param { dropout_ratio: 0.2 } }\n" +
          "layer { name: 'B/concat1' type: 'Concat' bottom: 'x' bottom: 'B/conv1' top: 'B/concat1' " + in +
          "}\n" + norm("B/bn2", "B/concat1", "") +
          "layer { name: 'B/conv2' type: 'Convolution' bottom: 'B/bn2' top: 'B/conv2' param { lr_mult: 2 } " +
          in + "convolution_param { num_output: 8 kernel_size: 3 pad: 1 " + conv + " } }\n" +
          "layer { name: 'B/drop2' type: 'Dropout' bottom: 'B/conv2' top: 'B/conv2' " + in +
          "dropout_param { dropout_ratio: 0.2 } }\n" +
          "layer { name: 'B/concat2' type: 'Concat' bottom: 'B/concat1' bottom: 'B/conv2' top: 'y' " + in +
          "}");
  const caffe::NetParameter narrow = read_dialect(layer + settings + "use_BC: true } }");
  ASSERT_EQ(narrow.layer_size(), 18);
  EXPECT_EQ(narrow.layer(3).name(), "B/conv_1x11");
  EXPECT_EQ(narrow.layer(3).convolution_param().num_output(), 32u);
  EXPECT_EQ(narrow.layer(7).bottom(0), "B/bn_1x11");
  expect_contains(error_of([&] { read_dialect(block + "use_BC: true use_dropout: true } }"); }),
                  "test: layer \"B\" (DenseBlock): where use_dropout drops with use_BC is not known");
  expect_contains(error_of([&] { read_dialect(block + "use_BC: true } }"); }),
                  "which blob a `param` is for with use_BC is not known; write out the block's layers");
  expect_contains(error_of([&] { read_dialect(layer + "loss_weight: 1 " + settings + "} }"); }),
                  "loss_weight and propagate_down are for layers that it stands for");
  std::string specs;
  for (int i = 0; i < 9; ++i) specs += "param {} ";
  expect_contains(error_of([&] { read_dialect(layer + specs + block.substr(layer.size()) + "} }"); }),
                  "has 12 `param` entries but only 11 blobs");
  expect_contains(error_of([] {
                    read_dialect(
                        "layer { name: 'B' type: 'DenseBlock' bottom: 'x' top: 'y' "
                        "denseblock_param { numTransition: 0 } }");
                  }),
                  "numTransition and growthRate must be in [1, 10000]; found 0 and 12");
}

/// A file's block of two convolutions, the values of each blob counting up from 100 times its number.
caffe::NetParameter block_file(const std::vector<std::vector<std::int64_t>>& shapes) {
  caffe::NetParameter net;
  net.add_layer()->set_name("before");
  caffe::LayerParameter& layer = *net.add_layer();
  layer.set_name("B");
  layer.set_type("DenseBlock");
  for (const std::vector<std::int64_t>& shape : shapes) {
    std::vector<float> values;
    std::int64_t count = 1;
    for (const std::int64_t axis : shape) count *= axis;
    for (std::int64_t i = 0; i < count; ++i)
      values.push_back(static_cast<float>(100 * layer.blobs_size()) + static_cast<float>(i));
    *layer.add_blobs() = encode_blob(shape, values.data());
  }
  return net;
}

TEST(DenseBlocks, TheirBlobsBecomeThoseOfTheLayers) {
  std::vector<std::vector<std::int64_t>> shapes{{2, 3, 3, 3}, {2, 5, 3, 3}};
  for (int kind = 0; kind < 4; ++kind)
    for (const std::int64_t channels : {3, 5}) shapes.push_back({1, channels, 1, 1});
  shapes.push_back({1});
  const ModelWeights model = parse_weights(block_file(shapes).SerializeAsString(), "test");
  ASSERT_EQ(model.layers.size(), 7u);
  const auto expect = [&](const std::string& name, const std::string& type,
                          const std::vector<std::pair<std::vector<std::int64_t>, float>>& blobs) {
    const LayerWeights* layer = model.find(name);
    ASSERT_NE(layer, nullptr) << name;
    EXPECT_EQ(layer->type, type);
    ASSERT_EQ(layer->blobs.size(), blobs.size());
    for (std::size_t i = 0; i < blobs.size(); ++i) {
      EXPECT_EQ(layer->blobs[i].shape, blobs[i].first) << name << " " << i;
      EXPECT_EQ(layer->blobs[i].floats[0], blobs[i].second) << name << " " << i;
    }
  };
  expect("B/bn1", "BatchNorm", {{{3}, 600}, {{3}, 800}, {{1}, 1000}});
  expect("B/bn2", "BatchNorm", {{{5}, 700}, {{5}, 900}, {{1}, 1000}});
  expect("B/scale1", "Scale", {{{3}, 200}, {{3}, 400}});
  expect("B/scale2", "Scale", {{{5}, 300}, {{5}, 500}});
  expect("B/conv1", "Convolution", {{{2, 3, 3, 3}, 0}});
  expect("B/conv2", "Convolution", {{{2, 5, 3, 3}, 100}});
  EXPECT_NE(model.find("before"), nullptr);
  // With use_BC filters do not grow; such a block stays as it is.
  shapes[1] = shapes[0];
  EXPECT_EQ(parse_weights(block_file(shapes).SerializeAsString(), "test").layers.size(), 2u);
}

}  // namespace
}  // namespace banyan::io
