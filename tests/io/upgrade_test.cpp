#include "banyan/io/upgrade.hpp"

#include <gtest/gtest.h>

#include <tuple>

#include "banyan/base/text.hpp"
#include "banyan/io/prototxt.hpp"
#include "io_test_tools.hpp"

namespace banyan::io {
namespace {

caffe::NetParameter net_of(const std::string& text) { return parse_net_text(text, "test"); }

caffe::NetParameter upgraded(const std::string& text) {
  caffe::NetParameter net = net_of(text);
  upgrade_net(net, "test");
  return net;
}

std::string upgrade_error(const std::string& text) {
  return error_of([&] { upgraded(text); });
}

/// Compares as text, which shows what differs.
void expect_same(const caffe::NetParameter& found, const std::string& expected) {
  EXPECT_EQ(to_text(found), to_text(net_of(expected)));
}

TEST(UpgradeV0, MovesEverySettingToItsLayer) {
  const auto net = upgraded(
      "name: 'v0' force_backward: true debug_info: true\n"
      "layers { layer { name: 'data' type: 'data' source: 'db' batchsize: 32 scale: 0.5 meanfile: 'm' "
      "cropsize: 27 "
      "mirror: true rand_skip: 3 } top: 'data' top: 'label' }\n"
      "layers { layer { name: 'conv1' type: 'conv' num_output: 8 biasterm: false kernelsize: 3 stride: 2 "
      "pad: 1 group: 2 "
      "weight_filler { type: 'xavier' } bias_filler { value: 1 } blobs_lr: 1 blobs_lr: 2 weight_decay: 1 "
      "weight_decay: 0 } "
      "bottom: 'data' top: 'conv1' }\n"
      "layers { layer { name: 'pool1' type: 'pool' pool: AVE kernelsize: 2 stride: 2 pad: 1 } bottom: "
      "'conv1' top: 'p' }\n"
      "layers { layer { name: 'norm' type: 'lrn' local_size: 3 alpha: 0.1 beta: 0.5 k: 2 } bottom: 'p' top: "
      "'n' }\n"
      "layers { layer { name: 'drop' type: 'dropout' dropout_ratio: 0.2 } bottom: 'n' top: 'n' }\n"
      "layers { layer { name: 'ip' type: 'innerproduct' num_output: 10 biasterm: true weight_filler { } "
      "bias_filler { } } "
      "bottom: 'n' top: 'ip' }\n"
      "layers { layer { name: 'cat' type: 'concat' concat_dim: 0 } bottom: 'ip' top: 'cat' }\n"
      "layers { layer { name: 'loss' type: 'softmax_loss' } bottom: 'cat' bottom: 'label' }\n");
  expect_same(
      net,
      "name: 'v0' force_backward: true\n"
      "layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'db' batch_size: 32 "
      "rand_skip: 3 } "
      "transform_param { scale: 0.5 mean_file: 'm' crop_size: 27 mirror: true } }\n"
      "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' param { lr_mult: 1 decay_mult: "
      "1 } param { "
      "lr_mult: 2 decay_mult: 0 } convolution_param { num_output: 8 bias_term: false kernel_size: 3 stride: "
      "2 pad: 1 "
      "group: 2 weight_filler { type: 'xavier' } bias_filler { value: 1 } } }\n"
      "layer { name: 'pool1' type: 'Pooling' bottom: 'conv1' top: 'p' pooling_param { pool: AVE kernel_size: "
      "2 stride: 2 "
      "pad: 1 } }\n"
      "layer { name: 'norm' type: 'LRN' bottom: 'p' top: 'n' lrn_param { local_size: 3 alpha: 0.1 beta: 0.5 "
      "k: 2 } }\n"
      "layer { name: 'drop' type: 'Dropout' bottom: 'n' top: 'n' dropout_param { dropout_ratio: 0.2 } }\n"
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'n' top: 'ip' inner_product_param { num_output: 10 "
      "bias_term: true "
      "weight_filler { } bias_filler { } } }\n"
      "layer { name: 'cat' type: 'Concat' bottom: 'ip' top: 'cat' concat_param { concat_dim: 0 } }\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'cat' bottom: 'label' }\n");
}

TEST(UpgradeV0, DataSourcesOfEveryKind) {
  const auto net = upgraded(
      "layers { layer { name: 'i' type: 'images' source: 's' batchsize: 2 rand_skip: 1 shuffle_images: true "
      "new_height: 5 "
      "new_width: 6 } top: 'i' }\n"
      "layers { layer { name: 'w' type: 'window_data' source: 's' batchsize: 2 det_fg_threshold: .1 "
      "det_bg_threshold: .2 "
      "det_fg_fraction: .3 det_context_pad: 4 det_crop_mode: 'square' } top: 'w' }\n"
      "layers { layer { name: 'h' type: 'hdf5_data' source: 's' batchsize: 2 } top: 'h' }\n"
      "layers { layer { name: 'o' type: 'hdf5_output' hdf5_output_param { file_name: 'f' } } bottom: 'h' }\n"
      "layers { layer { name: 'g' type: 'infogain_loss' source: 's' } bottom: 'h' }\n");
  expect_same(net,
              "layer { name: 'i' type: 'ImageData' top: 'i' image_data_param { source: 's' batch_size: 2 "
              "rand_skip: 1 "
              "shuffle: true new_height: 5 new_width: 6 } }\n"
              "layer { name: 'w' type: 'WindowData' top: 'w' window_data_param { source: 's' batch_size: 2 "
              "fg_threshold: .1 "
              "bg_threshold: .2 fg_fraction: .3 context_pad: 4 crop_mode: 'square' } }\n"
              "layer { name: 'h' type: 'HDF5Data' top: 'h' hdf5_data_param { source: 's' batch_size: 2 } }\n"
              "layer { name: 'o' type: 'HDF5Output' bottom: 'h' hdf5_output_param { file_name: 'f' } }\n"
              "layer { name: 'g' type: 'InfogainLoss' bottom: 'h' infogain_loss_param { source: 's' } }\n");
}

TEST(UpgradeV0, PaddingLayersVanishIntoTheirReaders) {
  const auto net = upgraded(
      "input: 'data' input_dim: [1, 3, 9, 9]\n"
      "layers { layer { name: 'pad1' type: 'padding' pad: 2 } bottom: 'data' top: 'pad1' }\n"
      "layers { layer { name: 'conv1' type: 'conv' num_output: 1 kernelsize: 5 } bottom: 'pad1' top: 'conv1' "
      "}\n");
  expect_same(
      net,
      "layer { name: 'input' type: 'Input' top: 'data' input_param { shape { dim: [1, 3, 9, 9] } } }\n"
      "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' convolution_param { num_output: "
      "1 "
      "kernel_size: 5 pad: 2 } }\n");
  expect_contains(upgrade_error("layers { layer { name: 'p' type: 'padding' pad: 2 } bottom: 'd' top: 'p' }\n"
                                "layers { layer { name: 'r' type: 'relu' } bottom: 'p' top: 'r' }"),
                  "layer \"r\" of type \"relu\" reads a padding layer");
}

TEST(UpgradeV1, DenseImageDataKeepsItsSettings) {
  expect_same(upgraded("layers { name: 'd' type: DENSE_IMAGE_DATA top: 'd' top: 'l' dense_image_data_param { "
                       "source: 's' batch_size: 4 label_divide_factor: 8 } }"),
              "layer { name: 'd' type: 'DenseImageData' top: 'd' top: 'l' dense_image_data_param { "
              "source: 's' batch_size: 4 label_divide_factor: 8 } }");
}

/// With feedback a program would switch some of its outputs off.
TEST(UpgradeV1, ReluPlusIsRelu) {
  expect_same(upgraded("layers { name: 'r' type: RELUPLUS bottom: 'a' top: 'a' }"),
              "layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'a' }");
}

TEST(UpgradeV0, UnknownTypeIsAnErrorAndMisplacedSettingIsDropped) {
  expect_contains(upgrade_error("layers { layer { name: 'c' type: 'cnov' } }"),
                  "test: layer \"c\" has the unknown V0 type \"cnov\" (did you mean \"conv\"?)");
  expect_contains(upgrade_error("layers { layer { name: 'l' type: 'relu_pool' } }"),
                  "layer \"l\" has the unknown V0 type \"relu_pool\"");
  expect_same(
      upgraded("layers { layer { name: 'r' type: 'relu' num_output: 3 new_num: 2 } bottom: 'a' top: 'a' }"),
      "layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'a' }");
}

TEST(UpgradeV0, TypesOfTheFirstMonthsAndOfBranches) {
  expect_same(
      upgraded("layers { layer { name: 'l' type: 'locally_connected' num_output: 16 kernelsize: 9 pad: 1 "
               "stride: 2 "
               "biasterm: false weight_filler { type: 'gaussian' std: 0.01 } bias_filler { value: 1 } } "
               "bottom: 'a' top: 'l' }"),
      "layer { name: 'l' type: 'Local' bottom: 'a' top: 'l' local_param { num_output: 16 kernel_size: 9 pad: "
      "1 "
      "stride: 2 bias_term: false weight_filler { type: 'gaussian' std: 0.01 } bias_filler { value: 1 } } }");
  expect_same(upgraded("layers { layer { name: 'l' type: 'softmaxloss' } bottom: 'a' bottom: 'b' }"),
              "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'a' bottom: 'b' }");
  expect_same(
      upgraded(
          "layers { layer { name: 'd' type: 'memory_data' datum_dims { channels: 3 height: 4 width: 5 } } "
          "top: 'data' } layers { layer { name: 'r' type: 'relu' } bottom: 'data' top: 'r' }"),
      "layer { name: 'input' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 3 dim: 4 dim: 5 } } "
      "} "
      "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'r' }");
  expect_contains(upgrade_error("layers { layer { name: 'd' type: 'memory_data' } top: 'data' }"),
                  "memory_data layer \"d\" needs one top, no bottom, and channels, height and width of "
                  "datum_dims above 0");
  expect_same(
      upgraded(
          "bottom: 'data' input_dim: 1 input_dim: 3 input_dim: 4 input_dim: 5 layers { layer { name: 'r' "
          "type: 'relu' } bottom: 'data' top: 'r' }"),
      "layer { name: 'input' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 3 dim: 4 dim: 5 } } "
      "} "
      "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'r' }");
}

TEST(UpgradeTypes, TheFirstDetectionEvaluateCountsTheClassesOfTheDetections) {
  const std::string detections =
      "layer { name: 'd' type: 'DetectionOutput' bottom: 'x' top: 'd' detection_output_param { num_classes: "
      "21 } } ";
  expect_same(
      upgraded(detections + "layer { name: 'e' type: 'DetectionEvaluate' bottom: 'd' bottom: 'l' top: 'e' }"),
      detections +
          "layer { name: 'e' type: 'DetectionEvaluate' bottom: 'd' bottom: 'l' top: 'e' "
          "detection_evaluate_param { num_classes: 21 } }");
}

TEST(UpgradeTypes, AFourthInputOfTripletLossIsNotRead) {
  expect_same(
      upgraded(
          "layer { name: 't' type: 'TripletLoss' bottom: 'a' bottom: 'p' bottom: 'n' bottom: 's' top: 't' "
          "propagate_down: true propagate_down: true propagate_down: true propagate_down: false }"),
      "layer { name: 't_unread' type: 'Silence' bottom: 's' }\n"
      "layer { name: 't' type: 'TripletLoss' bottom: 'a' bottom: 'p' bottom: 'n' top: 't' "
      "propagate_down: true propagate_down: true propagate_down: true }");
}

TEST(UpgradeDataTransform, MovesOnlyInV1Layers) {
  expect_same(
      upgraded("layers { name: 'd' type: DATA top: 'd' data_param { source: 's' scale: 2 mirror: true } "
               "transform_param { scale: 1 } }\n"
               "layers { name: 'i' type: IMAGE_DATA top: 'i' image_data_param { mean_file: 'm' } }\n"
               "layers { name: 'w' type: WINDOW_DATA top: 'w' window_data_param { crop_size: 3 } }\n"),
      "layer { name: 'd' type: 'Data' top: 'd' data_param { source: 's' } transform_param { scale: 2 mirror: "
      "true } "
      "}\n"
      "layer { name: 'i' type: 'ImageData' top: 'i' image_data_param { } transform_param { mean_file: 'm' } "
      "}\n"
      "layer { name: 'w' type: 'WindowData' top: 'w' window_data_param { } transform_param { crop_size: 3 } "
      "}\n");
  expect_same(
      upgraded("layers { name: 'v' type: VIDEO_DATA top: 'v' image_data_param { crop_size: 3 mirror: true "
               "use_image: true } }"),
      "layer { name: 'v' type: 'VideoData' top: 'v' image_data_param { use_image: true } "
      "transform_param { crop_size: 3 mirror: true } }");
  expect_same(
      upgraded("layers { name: 'v' type: VIDEO_SEGMENTATION_DATA top: 'v' top: 't' image_data_param { "
               "mean_value: 3 show_data: 1 } }"),
      "layer { name: 'v' type: 'VideoSegmentationData' top: 'v' top: 't' image_data_param { show_data: "
      "1 } transform_param { mean_value: 3 } }");
  for (const std::string layer :
       {"'Data' top: 'd' data_param", "'AnnotatedData' top: 'd' data_param",
        "'ImageData' top: 'd' image_data_param", "'WindowData' top: 'd' window_data_param"}) {
    const std::string current = "layer { name: 'd' type: " + layer + " { mirror: true crop_size: 3 } }";
    testing::internal::CaptureStderr();
    expect_same(upgraded(current), current);
    expect_contains(testing::internal::GetCapturedStderr(),
                    cat("layer \"d\": ", layer.substr(layer.rfind(' ') + 1), ".crop_size and ",
                        layer.substr(layer.rfind(' ') + 1),
                        ".mirror have no effect there: only what is in the layer's transform_param has"));
  }
}

TEST(UpgradeV1, MovesATransformationOutOfTheSettingsOfTheSource) {
  // The means take the place of those that are there; other sources warn, or are moved as well.
  expect_same(
      upgraded(
          "layers { name: 'd' type: DATA top: 'd' transform_param { mean_value: 1 } data_param { "
          "transform_param { mean_value: 2 } } }\n"
          "layers { name: 'v' type: IMAGE_SEG_DATA top: 'v' image_data_param { transform_param { mirror: "
          "true } } }"),
      "layer { name: 'd' type: 'Data' top: 'd' data_param { } transform_param { mean_value: 2 } }\n"
      "layer { name: 'v' type: 'ImageSegData' top: 'v' image_data_param { } transform_param { mirror: true } "
      "}");
  testing::internal::CaptureStderr();
  upgraded(
      "layer { name: 's' type: 'ImageSegData' top: 's' image_data_param { transform_param { mirror: true } } "
      "}");
  expect_contains(testing::internal::GetCapturedStderr(),
                  "a transform_param within its data settings has no effect there");
  for (const auto& [type, current, settings] :
       {std::tuple{"DATA", "Data", "data_param"}, std::tuple{"IMAGE_DATA", "ImageData", "image_data_param"},
        std::tuple{"WINDOW_DATA", "WindowData", "window_data_param"}})
    expect_same(
        upgraded(cat("layers { name: 'd' type: ", type, " top: 'd' transform_param { scale: 2 } ", settings,
                     " { source: 's' mirror: false transform_param { crop_size: 5 mirror: true } } }")),
        cat("layer { name: 'd' type: '", current, "' top: 'd' ", settings,
            " { source: 's' } transform_param { scale: 2 crop_size: 5 mirror: false } }"));
}

TEST(UpgradeV1, ParamsGrowAsNeeded) {
  expect_same(
      upgraded(
          "name: 'v1' debug_info: true\n"
          "layers { name: 'c' type: CONVOLUTION bottom: 'a' top: 'b' blobs_lr: 1 blobs_lr: 2 blobs_lr: 3 "
          "weight_decay: 5 param: 'w' param: 'x' blob_share_mode: PERMISSIVE loss_weight: 2 include { phase: "
          "TEST } "
          "exclude { stage: 'q' } convolution_param { num_output: 1 } blobs { data: 1 } }"),
      "name: 'v1' debug_info: true\n"
      "layer { name: 'c' type: 'Convolution' bottom: 'a' top: 'b' loss_weight: 2 include { phase: TEST } "
      "exclude { stage: "
      "'q' } convolution_param { num_output: 1 } blobs { data: 1 }\n"
      "param { name: 'w' share_mode: PERMISSIVE lr_mult: 1 decay_mult: 5 } param { name: 'x' lr_mult: 2 } "
      "param { lr_mult: 3 "
      "} }");
}

TEST(UpgradeV1, DeconvolutionAndIm2colKeepTheirWindows) {
  expect_same(upgraded("layers { name: 'd' type: DECONVOLUTION bottom: 'a' top: 'd' blobs_lr: 0 "
                       "convolution_param { num_output: 2 kernel_size: 4 stride: 2 pad: 1 } }\n"
                       "layers { name: 'i' type: IM2COL bottom: 'd' top: 'i' "
                       "convolution_param { kernel_size: 3 } }"),
              "layer { name: 'd' type: 'Deconvolution' bottom: 'a' top: 'd' param { lr_mult: 0 } "
              "convolution_param { num_output: 2 kernel_size: 4 stride: 2 pad: 1 } }\n"
              "layer { name: 'i' type: 'Im2col' bottom: 'd' top: 'i' "
              "convolution_param { kernel_size: 3 } }");
}

TEST(UpgradeV1, EveryTypeHasACurrentName) {
  using Layer = caffe::V1LayerParameter;
  const auto* types = Layer::LayerType_descriptor();
  for (int i = 0; i < types->value_count(); ++i) {
    const std::string old_name = types->value(i)->name();
    const std::string name = current_type_name(static_cast<Layer::LayerType>(types->value(i)->number()));
    // The names differ only by case and underscores, except SOFTMAX_LOSS, RELUPLUS, those of 3-D layers, and
    // K1_, K2_.
    std::string flat;
    for (const char c : old_name) {
      if (c != '_') flat += c;
    }
    if (old_name == "NONE") flat = "";
    if (old_name == "SOFTMAX_LOSS") flat = "SoftmaxWithLoss";
    if (old_name == "RELUPLUS") flat = "ReLU";
    if (old_name.ends_with("3D")) flat.resize(flat.size() - 2);
    if (old_name.starts_with("K1_") || old_name.starts_with("K2_")) flat.insert(2, "_");
    ASSERT_EQ(flat.size(), name.size()) << old_name;
    for (std::size_t k = 0; k < flat.size(); ++k)
      EXPECT_EQ(std::tolower(flat[k]), std::tolower(name[k])) << old_name;
  }
}

TEST(UpgradeV1, EverySettingHasAFieldInTheCurrentLayer) {
  const auto* v1 = caffe::V1LayerParameter::descriptor();
  for (int i = 0; i < v1->field_count(); ++i) {
    const auto* field = v1->field(i);
    if (field->is_repeated() || field->message_type() == nullptr || field->name() == "layer") continue;
    const auto* current = caffe::LayerParameter::descriptor()->FindFieldByName(field->name());
    ASSERT_NE(current, nullptr) << field->name();
    EXPECT_EQ(current->message_type(), field->message_type()) << field->name();
  }
}

TEST(UpgradeV1, MixedFormatsAreAnError) {
  expect_contains(upgrade_error("layers { name: 'a' type: RELU } layer { name: 'b' }"),
                  "mixes 1 `layers` and 1 `layer`");
  expect_contains(upgrade_error("layers { layer { type: 'relu' } } layer { name: 'b' }"),
                  "mixes 1 `layers` and 1 `layer`");
}

TEST(UpgradeInputs, BecomeOneLayerInFront) {
  expect_same(
      upgraded("input: 'a' input: 'b' input_shape { dim: [1, 2] } input_shape { dim: 3 } input_dim: 7\n"
               "layer { name: 'x' } layer { name: 'y' }"),
      "layer { name: 'input' type: 'Input' top: 'a' top: 'b' input_param { shape { dim: [1, 2] } shape { "
      "dim: 3 } } }\n"
      "layer { name: 'x' } layer { name: 'y' }");
  expect_same(upgraded("input: 'a' input: 'b' input_dim: [1, 2, 3, 4, 5, 6, 7, 8]"),
              "layer { name: 'input' type: 'Input' top: 'a' top: 'b' input_param { shape { dim: [1, 2, 3, 4] "
              "} shape { dim: "
              "[5, 6, 7, 8] } } }");
  expect_same(upgraded("input: 'a' input: 'b' input_dim: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"),  // C3D
              "layer { name: 'input' type: 'Input' top: 'a' top: 'b' input_param { shape { dim: [1, 2, 3, 4, "
              "5] } shape { dim: [6, 7, 8, 9, 10] } } }");
  expect_same(upgraded("input: 'a' layer { name: 'x' bottom: 'a' }"),
              "layer { name: 'input' type: 'Input' top: 'a' } layer { name: 'x' bottom: 'a' }");
  expect_same(upgraded("input: 'a' layer { name: 'x' top: 'a' }"), "layer { name: 'x' top: 'a' }");
  expect_contains(upgrade_error("input: 'a' input_dim: [1, 2]"),
                  "need 4 `input_dim` values each (or 5, for clips), found 2");
  expect_contains(upgrade_error("input: 'a' input: 'b' input_dim: [1, 2, 3, 4, 5, 6, 7, 8, 9]"), "found 9");
  expect_contains(upgrade_error("input: 'a' input_shape { } input_shape { }"), "found 2");
}

TEST(UpgradeTypeNames, OldNamesInQuotesAreUnderstood) {
  caffe::NetParameter net = parse_net_text(
      "layer { name: 'a' type: 'SOFTMAX_LOSS' } layer { name: 'b' type: 'ReLU' } "
      "layer { name: 'c' type: 'NONE' } layer { name: 'd' type: 'LRN' }",
      "n");
  ASSERT_TRUE(needs_type_name_upgrade(net));
  upgrade_net(net, "n");
  EXPECT_EQ(net.layer(0).type(), "SoftmaxWithLoss");
  EXPECT_EQ(net.layer(1).type(), "ReLU");
  EXPECT_EQ(net.layer(2).type(), "NONE");
  EXPECT_EQ(net.layer(3).type(), "LRN");
  EXPECT_FALSE(needs_type_name_upgrade(net));
}

TEST(UpgradeBatchNorm, ThreeParamsAreFrozen) {
  expect_same(
      upgraded("layer { type: 'BatchNorm' param { name: 's' lr_mult: 1 } param { } param { lr_mult: 0 } }\n"
               "layer { type: 'BatchNorm' param { lr_mult: 1 } }\n"
               "layer { type: 'BN' param { } param { } param { } }"),
      "layer { type: 'BatchNorm' param { name: 's' lr_mult: 0 decay_mult: 0 } param { lr_mult: 0 decay_mult: "
      "0 } "
      "param { lr_mult: 0 decay_mult: 0 } }\n"
      "layer { type: 'BatchNorm' param { lr_mult: 1 } }\n"
      "layer { type: 'BN' param { } param { } param { } }");
}

TEST(UpgradeNet, LeavesACurrentNetAlone) {
  const std::string text =
      "name: 'n' layer { name: 'c' type: 'Convolution' convolution_param { kernel_size: 3 dilation_h: 2 "
      "dilation_w: 2 } }";
  expect_same(upgraded(text), text);
}

TEST(UpgradeSolver, TypeEnumBecomesString) {
  const std::pair<const char*, const char*> types[] = {
      {"SGD", "SGD"},           {"NESTEROV", "Nesterov"}, {"ADAGRAD", "AdaGrad"}, {"RMSPROP", "RMSProp"},
      {"ADADELTA", "AdaDelta"}, {"ADAM", "Adam"},         {"SAG", "SAG"}};
  for (const auto& [old_type, type] : types) {
    auto solver = parse_solver_text(std::string("solver_type: ") + old_type, "s");
    upgrade_solver(solver, "s");
    EXPECT_EQ(solver.type(), type);
    EXPECT_FALSE(solver.has_solver_type());
  }
  auto both = parse_solver_text("solver_type: SGD type: 'Adam'", "s");
  expect_contains(error_of([&] { upgrade_solver(both, "s.prototxt"); }),
                  "s.prototxt: give `type` or `solver_type`");
  auto neither = parse_solver_text("base_lr: 1", "s");
  upgrade_solver(neither, "s");
  EXPECT_FALSE(neither.has_type());
}

}  // namespace
}  // namespace banyan::io
