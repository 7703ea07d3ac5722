// `trainer check`: everything that is wrong with a file, at once, and without its data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/train/commands.hpp"
#include "io/io_test_tools.hpp"

namespace banyan {
namespace {

using io::put_file;
using io::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Check : public testing::Test {
 protected:
  CheckReport check(const std::string& text, const std::string& shape = "") {
    put_file(folder_.file("file.prototxt"), text);
    CheckOptions options;
    options.files = {folder_.file("file.prototxt")};
    if (!shape.empty()) options.shapes.insert(parse_shape_flag(shape));
    return check_files(options);
  }
  TemporaryFolder folder_;
};

constexpr const char* kData = R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
)";

TEST_F(Check, ASoundNetHasNoProblem) {
  const CheckReport report = check(std::string(kData) + R"(
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 4 } })");
  EXPECT_EQ(report.problems, 0) << report.text;
  EXPECT_THAT(report.text, HasSubstr("a net of 2 layers to train, 2 to test; nothing wrong"));
}

TEST_F(Check, AllProblemsOfTextSettingsConnectionsAndShapesAtOnce) {
  const CheckReport report = check(std::string(kData) + R"(
layer { name: "a" type: "Convolution" bottom: "data" top: "a" convolution_param { num_outputs: 3 kernel_size: 3 num_output: 2 } }
layer { name: "b" type: "Pooling" bottom: "data" top: "b" pooling_param { pool: AVG kernel_size: 2 } }
layer { name: "c" type: "Flaten" bottom: "b" top: "c" }
layer { name: "d" type: "InnerProduct" bottom: "c" top: "d" inner_product_param { } }
layer { name: "e" type: "ReLU" bottom: "nowhere" top: "e" }
layer { name: "f" type: "Convolution" bottom: "data" top: "f" convolution_param { num_output: 2 kernel_size: 20 } }
)");
  EXPECT_THAT(report.text, HasSubstr(":4:83: layer \"a\" (Convolution): unknown field \"num_outputs\""));
  EXPECT_THAT(
      report.text,
      HasSubstr(":5:81: layer \"b\" (Pooling): unknown value \"AVG\" for \"pool\" (did you mean \"AVE\"?); "
                "known values: AVE, MAX, MIN, STOCHASTIC\n"));
  EXPECT_THAT(report.text,
              HasSubstr(":6: layer \"c\" has the unknown type \"Flaten\" (did you mean \"Flatten\"?)"));
  EXPECT_THAT(report.text,
              HasSubstr(": layer \"e\" (ReLU) reads blob \"nowhere\", which no layer of the net produces"));
  EXPECT_THAT(report.text, HasSubstr(":9: layer \"f\" (Convolution): "));
  EXPECT_THAT(report.text, HasSubstr(":7: layer \"d\" (InnerProduct): num_output is missing"));
  EXPECT_EQ(report.problems, 6) << report.text;  // both phases have the same ones
  EXPECT_THAT(report.text, HasSubstr("file.prototxt: a net of 7 layers to train, 7 to test; 6 problems, not "
                                     "everything could be checked\n"));
}

TEST_F(Check, EverythingThatIsWrongWithALayer) {
  const CheckReport report = check(std::string(kData) + R"(
layer { name: "a" type: "Pooling" bottom: "data" top: "a" pooling_param { pool: STOCHASTIC kernel_size: 2 pad: 1 stride: 0 } }
layer { name: "b" type: "Convolution" bottom: "data" top: "b" convolution_param { num_output: 0 kernel_size: 3 group: 0
  weight_filler { type: "xavir" } bias_filler { type: "constnt" } } }
layer { name: "c" type: "Softmax" bottom: "data" bottom: "data" top: "c" softmax_param { axis: 9 } }
layer { name: "d" type: "MultiBoxLoss" bottom: "data" top: "d" multibox_loss_param { num_classes: 0 overlap_threshold: 7 share_location: true } }
layer { name: "e" type: "Clip" bottom: "data" top: "e" clip_param { min: 3 max: 1 } }
)");
  for (const char* part : {":4: layer \"a\" (Pooling): stride must be positive",
                           ":4: layer \"a\" (Pooling): STOCHASTIC pooling cannot be padded",
                           ":5: layer \"b\" (Convolution): num_output must be positive",
                           ":5: layer \"b\" (Convolution): group must be positive",
                           ":5: layer \"b\" (Convolution): unknown filler type \"xavir\"",
                           ":5: layer \"b\" (Convolution): unknown filler type \"constnt\"",
                           ":7: layer \"c\" (Softmax) takes 1 bottom, found 2",
                           ":8: layer \"d\" (MultiBoxLoss) takes 4 to 6 bottoms, found 1",
                           ":8: layer \"d\" (MultiBoxLoss): num_classes must be given",
                           ":8: layer \"d\" (MultiBoxLoss): overlap_threshold must be from 0 to 1; found 7",
                           ":9: layer \"e\" (Clip): min 3 exceeds max 1"})
    EXPECT_THAT(report.text, HasSubstr(part));
  EXPECT_EQ(report.problems, 11) << report.text;
}

TEST_F(Check, WhatIsWrongAfterALayerThatIsRefused) {
  std::string net = std::string(kData) +
                    "layer { name: 'r' type: 'Convolution' bottom: 'data' top: 'r' "
                    "convolution_param { num_output: 2 kernel_size: 20 } }\n";
  const std::vector<std::pair<std::string, std::string>> layers{
      {"InnerProduct", "inner_product_param { }"},
      {"Embed", "embed_param { num_output: 0 input_dim: 3 }"},
      {"Pooling", "pooling_param { kernel_size: 0 }"},
      {"LRN", "lrn_param { local_size: 4 }"},
      {"Dropout", "dropout_param { dropout_ratio: 2 }"},
      {"BatchNorm", "batch_norm_param { eps: -1 }"},
      {"Reshape", "reshape_param { num_axes: -2 shape { dim: 1 } }"},
      {"Clip", "clip_param { min: 2 max: 1 }"},
      {"Exp", "exp_param { base: -2 }"},
      {"Tile", "tile_param { tiles: 0 }"},
      {"ArgMax", "argmax_param { top_k: 0 }"},
      {"SPP", "spp_param { pyramid_height: 0 }"},
      {"MVN", "mvn_param { eps: -1 }"},
      {"Interp", "interp_param { shrink_factor: 0 }"},
      {"ShuffleChannel", "shuffle_channel_param { group: 0 }"}};
  for (const auto& [type, settings] : layers)
    net +=
        cat("layer { name: '", type, "' type: '", type, "' bottom: 'r' top: '", type, "' ", settings, " }\n");
  net +=
      "layer { name: 'sum' type: 'Eltwise' bottom: 'r' bottom: 'LRN' top: 'sum' eltwise_param { coeff: 1 } "
      "}\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'r' bottom: 'SPP' top: 'loss' "
      "loss_param { label_smoothing: 3 } }\n"
      "layer { name: 'parts' type: 'Slice' bottom: 'r' top: 'p0' top: 'p1' slice_param { slice_point: 1 "
      "slice_point: 2 } }\n";
  const CheckReport report = check(net);
  for (const auto& [type, settings] : layers)
    EXPECT_THAT(report.text, HasSubstr(cat(": layer \"", type, "\" (", type, "): ")));
  for (const char* part : {"layer \"sum\" (Eltwise): expected one coeff for each of 2 inputs",
                           "layer \"loss\" (SoftmaxWithLoss): label_smoothing",
                           "layer \"parts\" (Slice): expected 1 slice_points for 2 outputs"})
    EXPECT_THAT(report.text, HasSubstr(part));
  EXPECT_EQ(report.problems, static_cast<int>(layers.size()) + 4) << report.text;
}

TEST_F(Check, RulesOfBothKindsAndFormatsAndCountsHideNothing) {
  const CheckReport rules =
      check(std::string(kData) +
            "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'r' include { phase: TRAIN } "
            "exclude { phase: TEST } }\n"
            "layer { name: 'd' type: 'InnerProduct' bottom: 'data' top: 'd' }\n");
  EXPECT_EQ(rules.problems, 2) << rules.text;
  const CheckReport format = check(
      "layers { name: 'x' type: \"Convolution\" bottom: 'y' top: 'x' }\n"
      "layers { name: 'l' type: RELU bottom: 'nothing' top: 'l' }\nnmae: 'n'\n");
  EXPECT_THAT(format.text, HasSubstr("which has no \"Convolution\": write `layer`"));
  EXPECT_THAT(format.text, HasSubstr("unknown field \"nmae\""));
  EXPECT_THAT(format.text, HasSubstr("reads blob \"nothing\""));
  const CheckReport counts = check(std::string(kData) +
                                   "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'r' loss_weight: 1 "
                                   "loss_weight: 2 propagate_down: true propagate_down: true }\n");
  EXPECT_EQ(counts.problems, 2) << counts.text;
}

TEST_F(Check, EverythingThatTheWholeNetTells) {
  const std::string product = "inner_product_param { num_output: ";
  const CheckReport report = check(
      "checkpoint: \"nowhere\" storage_exception: \"Relu\"\n" + std::string(kData) +
      "layer { name: 'a' type: 'InnerProduct' bottom: 'data' top: 'a' param { name: 'w' } " + product +
      "2 } }\n" + "layer { name: 'b' type: 'InnerProduct' bottom: 'data' top: 'b' param { name: 'w' } " +
      product + "3 } }\n" +
      "layer { name: 'c' type: 'InnerProduct' bottom: 'a' top: 'c' param { name: 'v' } " + product +
      "2 } }\n" + "layer { name: 'd' type: 'InnerProduct' bottom: 'a' top: 'd' param { name: 'v' } " +
      product + "3 } }\n");
  for (const char* part : {"checkpoint", "storage_exception", "parameter \"w\"", "parameter \"v\""})
    EXPECT_THAT(report.text, HasSubstr(part));
  EXPECT_EQ(report.problems, 4) << report.text;
  // Beside a layer that is refused, as far as it does not need the net.
  const CheckReport beside = check("storage_exception: \"Relu\"\n" + std::string(kData) +
                                   "layer { name: 'a' type: 'InnerProduct' bottom: 'data' top: 'a' }\n");
  EXPECT_EQ(beside.problems, 2) << beside.text;
}

TEST_F(Check, LabelsThatAreDividedAreSeveral) {
  const std::string data =
      "layer { name: 'd' type: 'Data' top: 'data' top: 'label' data_param { source: '/nowhere' batch_size: 2 "
      "backend: LMDB } transform_param { crop_size: 8 } }\n";
  const CheckReport report =
      check(data +
            "layer { name: 's' type: 'Slice' bottom: 'label' top: 'a' top: 'b' slice_param { slice_dim: 1 "
            "slice_point: 3 } }\n"
            "layer { name: 'p' type: 'InnerProduct' bottom: 'data' top: 'p' inner_product_param { "
            "num_output: 3 } }\n"
            "layer { name: 'l' type: 'EuclideanLoss' bottom: 'p' bottom: 'a' }\n");
  EXPECT_EQ(report.problems, 0) << report.text;
  EXPECT_THAT(report.text, HasSubstr("nothing wrong, not everything could be checked"));
  EXPECT_EQ(
      check(data +
            "layer { name: 's' type: 'Slice' bottom: 'data' top: 'a' top: 'b' slice_param { axis: 5 } }")
          .problems,
      1);
}

TEST_F(Check, FilesOfValuesThatDoNotExistAreNoProblem) {
  const CheckReport report = check(
      std::string(kData) +
      "layer { name: 'a' type: 'InnerProduct' bottom: 'data' top: 'a' inner_product_param { num_output: 2 "
      "bias_filler { type: 'file' file: '/nowhere/bias' } } }\n"
      "layer { name: 'l' type: 'DummyData' top: 'l' dummy_data_param { shape { dim: 2 } } }\n"
      "layer { name: 'i' type: 'InfogainLoss' bottom: 'a' bottom: 'l' infogain_loss_param { source: "
      "'/nowhere/matrix' } }\n");
  EXPECT_EQ(report.problems, 0) << report.text;
  for (const char* part : {"note: ", "layer \"a\" (InnerProduct): \"/nowhere/bias\" does not exist here",
                           "layer \"i\" (InfogainLoss): \"/nowhere/matrix\" does not exist here",
                           "nothing wrong, not everything could be checked"})
    EXPECT_THAT(report.text, HasSubstr(part));
}

TEST_F(Check, AWrongNumberOfBlobsIsOneProblem) {
  for (const char* layer :
       {"type: 'ReLU' bottom: 'data'", "type: 'Slice' bottom: 'data' slice_param { slice_point: 1 }",
        "type: 'Convolution' bottom: 'data' bottom: 'data' top: 'x' convolution_param { num_output: 2 "
        "kernel_size: 3 }",
        "type: 'Eltwise' bottom: 'data' top: 'x' eltwise_param { coeff: 1 coeff: 2 }",
        "type: 'Unpooling' bottom: 'data' bottom: 'data' bottom: 'data' top: 'x' unpooling_param { unpool: "
        "MAX "
        "kernel_size: 2 }",
        "type: 'AnchorTarget' bottom: 'data' top: 'x'",
        "type: 'SigmoidCrossEntropyLoss' bottom: 'data' top: 'x'",
        "type: 'BN' bottom: 'data' top: 'x' top: 'y'",
        "type: 'LSTM' top: 'x' recurrent_param { num_output: 2 }"}) {
    const CheckReport report = check(std::string(kData) + "layer { name: 'l' " + layer + " }\n");
    EXPECT_EQ(report.problems, 1) << layer << '\n' << report.text;
  }
}

TEST_F(Check, OneWrongSettingIsOneProblem) {
  for (const char* layer :
       {"type: 'Pooling' pooling_param { kernel_size: 0 pad: 1 }", "type: 'InnerDistance'",
        "type: 'Python' python_param { module: 'nowhere' layer: 'L' max_samples: 0 }",
        "type: 'Convolution' convolution_param { num_output: 2 kernel_size: [3, 3, 3] stride: [1, 1, 1] }",
        "type: 'Pooling' pooling_param { kernel_depth: 2 kernel_size: 2 stride: 2 }"}) {
    const CheckReport report =
        check(std::string(kData) + "layer { name: 'l' bottom: 'data' top: 'l' " + layer + " }\n");
    EXPECT_EQ(report.problems, 1) << layer << '\n' << report.text;
  }
}

TEST_F(Check, ValuesThatMustBeThereDoNotHideOthers) {
  const CheckReport report =
      check(std::string(kData) +
            "layer { name: 'r' type: 'Input' top: 'r' input_param { shape { dim: 3 dim: 5 } } }\n"
            "layer { name: 'p' type: 'ROIPooling' bottom: 'data' bottom: 'r' top: 'p' roi_pooling_param { "
            "pooled_h: 7 spatial_scale: -1 } }\n");
  EXPECT_EQ(report.problems, 2) << report.text;
  EXPECT_THAT(report.text, HasSubstr("spatial_scale"));
}

TEST_F(Check, OfSharedParametersTheWrongOneIsNamed) {
  const auto product = [](const std::string& name, int outputs) {
    return cat("layer { name: '", name, "' type: 'InnerProduct' bottom: 'data' top: '", name,
               "' param { name: 'w' } inner_product_param { num_output: ", outputs, " } }\n");
  };
  const CheckReport report =
      check(std::string(kData) + product("a", 2) + product("b", 3) + product("c", 2) + product("d", 4));
  EXPECT_EQ(report.problems, 2) << report.text;
  for (const char* part : {"layer \"b\" (InnerProduct) shares", "layer \"d\" (InnerProduct) shares"})
    EXPECT_THAT(report.text, HasSubstr(part));
}

TEST_F(Check, WhatFollowsFromARefusalIsNoProblem) {
  // Without its kernel_size the layer would lack one, and without "data" of 4 axes it has no window.
  const CheckReport report =
      check(std::string(kData) +
            "layer { name: 'a' type: 'Convolution' bottom: 'data' top: 'a' "
            "convolution_param { num_output: 2 kernel_size: 3 kernel_size: 3 kernel_size: 3 } }\n");
  EXPECT_EQ(report.problems, 1) << report.text;
}

TEST_F(Check, FillersAndSizes) {
  const CheckReport report = check(std::string(kData) + R"(
layer { name: "a" type: "InnerProduct" bottom: "data" top: "a" inner_product_param { num_output: 2 weight_filler { type: "gausian" } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 4294967296 dim: 4294967296 } } }
layer { name: "c" type: "Flatten" bottom: "b" top: "c" })");
  EXPECT_THAT(report.text,
              HasSubstr(":4: layer \"a\" (InnerProduct): unknown filler type \"gausian\" (did you "
                        "mean \"gaussian\"?)"));
  EXPECT_THAT(
      report.text,
      HasSubstr(
          ":5: layer \"b\" (Input): the shape 4294967296 4294967296 (too many) has more elements than"));
}

TEST_F(Check, AShapeOfABlobThatNoSourceMakes) {
  const std::string net = std::string(kData) + "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'r' }";
  EXPECT_EQ(check(net, "data:1,3").problems, 0);
  const CheckReport report = check(net, "r:1,3");
  EXPECT_EQ(report.problems, 1);
  EXPECT_THAT(report.text, HasSubstr("--shape: no source layer of these files makes the blob \"r\""));
}

TEST_F(Check, ANetWithManyUnknownFieldsIsNotTakenForASolver) {
  const CheckReport report = check(
      "layer { name: \"a\" type: \"Input\" top: \"a\" uno: 1 due: 2 tre: 3 input_param { shape { dim: 1 } } "
      "}");
  EXPECT_THAT(report.text, HasSubstr("a net of 1 layer"));
  EXPECT_EQ(report.problems, 3) << report.text;
}

TEST_F(Check, AfterASyntaxErrorTheTextIsRead) {
  const CheckReport report = check(
      std::string(kData) + "layer { name: \"a\" pooling_param { kernel_size: 2 } } }\nlayer { nmae: \"b\" }");
  EXPECT_THAT(report.text, HasSubstr("expected identifier, found \"}\"\n"));
  EXPECT_THAT(report.text, HasSubstr("nmae"));
  EXPECT_THAT(report.text, HasSubstr("2 problems, not everything could be checked")) << "the net itself";
  const CheckReport unended = check(std::string(kData) + "layer { name: \"a\" type: ");
  EXPECT_THAT(unended.text,
              HasSubstr("found the end of the file within \"layer\" of line 3 (a } is missing)"));
}

TEST_F(Check, WhereABraceIsMissingTheNetIsChecked) {
  const CheckReport report =
      check(std::string(kData) +
            "layer { name: 'a' type: 'ReLU' bottom: 'data' top: 'a'\n"
            "layer { name: 'b' type: 'Pooling' bottom: 'a' top: 'b' pooling_param { }\n"
            "layer { name: 'c' type: 'Reluu' bottom: 'b' top: 'c' }");
  EXPECT_THAT(report.text, HasSubstr(":4:1: layer \"a\" (ReLU): unknown field \"layer\""));
  EXPECT_THAT(report.text, HasSubstr(":5:1: layer \"b\" (Pooling): unknown field \"layer\""));
  EXPECT_THAT(report.text, HasSubstr(":4: layer \"b\" (Pooling): "));
  EXPECT_THAT(report.text, HasSubstr(":5: layer \"c\" has the unknown type \"Reluu\""));
  EXPECT_EQ(report.problems, 4) << report.text;
}

/// Once a file, and whatever of it can be checked.
TEST_F(Check, SaysWhatHasNoEffect) {
  const auto told = [&](const std::string& data) {
    testing::internal::CaptureStderr();
    check(
        data +
        "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c' strict_dim: false convolution_param { "
        "num_output: 1 kernel_size: 1 } }");
    const std::string text = testing::internal::GetCapturedStderr(), what = "layer \"c\": strict_dim: false";
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(told(kData), 1u);
  EXPECT_EQ(told("layer { name: 'd' type: 'Data' top: 'data' include { phase: TEST } data_param { source: "
                 "'none' batch_size: 2 } }\n"),
            1u);
}

TEST_F(Check, SaysWhichAnchorsNativeLayersHave) {
  const auto told = [&](const std::string& settings) {
    testing::internal::CaptureStderr();
    const CheckReport report = check(
        "layer { name: 'i' type: 'Input' top: 's' top: 'b' top: 'i' input_param { shape { dim: 1 dim: 12 "
        "dim: 4 "
        "dim: 5 } shape { dim: 1 dim: 24 dim: 4 dim: 5 } shape { dim: 1 dim: 3 } } }\n"
        "layer { name: 'p' type: 'Python' bottom: 's' bottom: 'b' bottom: 'i' top: 'r' python_param { "
        "module: "
        "'rpn.proposal_layer' layer: 'ProposalLayer' param_str: \"" +
        settings + "\" } }");
    return testing::internal::GetCapturedStderr() + report.text;
  };
  const std::string usual = told("'feat_stride': 16");
  EXPECT_THAT(usual, HasSubstr("layer \"p\": native layers take the place of rpn.proposal_layer"));
  EXPECT_THAT(usual, HasSubstr("2 x 9 channels, as there are 9 anchors; if they are others, write base_size, "
                               "ratio and scale, or anchor, into the settings"));
  const std::string other = told("{'feat_stride': 16, 'scales': [8, 16]}");
  EXPECT_THAT(other, Not(HasSubstr("native layers take the place")));
  EXPECT_THAT(other, HasSubstr("nothing wrong"));
}

/// A solver's net is looked at for each of its phases.
TEST_F(Check, WhatASolversNetCannotBecomeIsSaidOnce) {
  put_file(folder_.file("net.prototxt"),
           "layer { name: 'd' type: 'Data' top: 'd' transform_param { crop_size: 2 var_sz_img_rand_crop: 3 } "
           "data_param { source: 'x' batch_size: 2 } }\n"
           "layer { name: 's' type: 'Silence' bottom: 'd' }");
  const CheckReport report =
      check("net: '" + folder_.file("net.prototxt") +
            "' base_lr: 1 max_iter: 2 lr_policy: 'fixed' test_iter: 1 test_interval: 1");
  EXPECT_THAT(report.text, AllOf(HasSubstr("earlier names of crop_size"), Not(HasSubstr("has no type"))));
  EXPECT_EQ(report.problems, 1) << report.text;
}

/// Caffe takes no notice of them, either; perhaps another type was meant.
TEST_F(Check, SettingsOfAnotherTypeAreNamed) {
  const std::string net =
      "input: 'x' input_shape { dim: 4 dim: 5 }\n"
      "layer { name: 'a' type: 'Reverse' bottom: 'x' top: 'a' reshape_param { shape { dim: 2 } } }\n"
      "layer { name: 'b' type: 'Reverse' bottom: 'a' top: 'b' reshape_param { } loss_weight: 0 }\n"
      "layer { name: 'c' type: 'ReLU' bottom: 'b' top: 'c' relu_param { } include { phase: TRAIN } }";
  const CheckReport idle = check(net);
  EXPECT_EQ(idle.problems, 0) << idle.text;
  EXPECT_THAT(idle.text,
              AllOf(HasSubstr("layer \"a\" (Reverse): reshape_param has no effect in a layer of this type"),
                    Not(HasSubstr("\"b\"")), Not(HasSubstr("relu_param")), HasSubstr("nothing wrong")));
}

/// A list may name several classes of each image.
TEST_F(Check, LabelsOfAListThatIsMissingMayBeSeveral) {
  const std::string data =
      "layer { name: 'd' type: 'ImageData' top: 'x' top: 'y' image_data_param { source: 'none' batch_size: 4 "
      "new_height: 8 new_width: 8 ";
  const std::string net =
      "} }\nlayer { name: 'f' type: 'InnerProduct' bottom: 'x' top: 'f' inner_product_param { num_output: 5 "
      "} "
      "}\n"
      "layer { name: 'l' type: 'SigmoidCrossEntropyLoss' bottom: 'f' bottom: 'y' top: 'l' }\n";
  const CheckReport guessed = check(data + net);
  EXPECT_EQ(guessed.problems, 0) << guessed.text;
  EXPECT_THAT(guessed.text, AllOf(HasSubstr("the shape of \"y\" is not known here"),
                                  HasSubstr("with the one that is taken for it this would be wrong")));
  EXPECT_EQ(check(data + "label_dim: 1 " + net).problems, 1);
  EXPECT_EQ(check(data + "label_dim: 5 " + net).problems, 0);
}

TEST_F(Check, BlobsOfHdf5NeedNotBeLabels) {
  const std::string net =
      "layer { name: 'd' type: 'HDF5Data' top: 'low' top: 'high' hdf5_data_param { source: 'none' "
      "batch_size: 4 } }\n"
      "layer { name: 'c' type: 'Convolution' bottom: 'low' top: 'c' convolution_param { num_output: 1 "
      "kernel_size: 3 "
      "pad: 1 } }\n"
      "layer { name: 'l' type: 'EuclideanLoss' bottom: 'c' bottom: 'high' top: 'l' }\n";
  const CheckReport guessed = check(net, "low:4,1,9,9");
  EXPECT_EQ(guessed.problems, 0) << guessed.text;
  EXPECT_THAT(guessed.text, HasSubstr("the shape of \"high\" is not known here"));
  EXPECT_THAT(guessed.text, HasSubstr("not everything could be checked"));
  EXPECT_EQ(check(net + "layer { name: 'r' type: 'Pooling' bottom: 'c' top: 'r' }", "low:4,1,9,9").problems,
            1);
  const CheckReport labels = check(
      "layer { name: 'd' type: 'HDF5Data' top: 'x' top: 'y' hdf5_data_param { source: 'none' batch_size: 4 } "
      "}\n"
      "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'y' top: 'l' }",
      "x:4,7");
  EXPECT_THAT(labels.text, HasSubstr("nothing wrong\n"));
}

TEST_F(Check, OfASolverWithWordsTooManyOnlyTheTextIsChecked) {
  const CheckReport report =
      check("net: 'none.prototxt' base_lr: 0.1\n???\nlr_policy: 'fixed' max_iter: 1 max_iter: 2");
  EXPECT_EQ(report.problems, 2) << report.text;  // nothing of the net that does not exist
  EXPECT_THAT(report.text, HasSubstr("a solver; 2 problems, not everything could be checked\n"));
  put_file(folder_.file("net.prototxt"), std::string(kData) + "???\nlayer { name: 'a' type: 'None' }");
  const CheckReport named =
      check("net: '" + folder_.file("net.prototxt") + "' base_lr: 0.1 lr_policy: 'fixed' max_iter: 1");
  EXPECT_THAT(named.text, HasSubstr("expected identifier, found \"?\""));
  EXPECT_THAT(named.text, Not(HasSubstr("\"None\"")));
  EXPECT_THAT(named.text, HasSubstr("not everything could be checked\n"));
}

TEST_F(Check, MixedFormatsWhoseOrderIsNotKnownEndTheCheck) {
  const CheckReport report = check("layers { layer { name: 'a' type: 'relu' } } layer { name: 'b' }");
  EXPECT_THAT(report.text, HasSubstr("the net mixes 1 `layers` and 1 `layer`"));
  EXPECT_THAT(report.text, HasSubstr("not everything could be checked\n"));
}

TEST_F(Check, BothFormatsInOneNetHideNothing) {
  const CheckReport report =
      check(std::string(kData) +
            "layers { name: \"p\" type: POOLING bottom: \"data\" top: \"p\" pooling_param { pool: MAX } }\n"
            "layer { name: \"q\" type: \"Power\" bottom: \"p\" top: \"q\" }\n"
            "layers { name: \"r\" type: RELU bottom: \"q\" bottom: \"no\" top: \"r\" }\n");
  EXPECT_THAT(report.text, HasSubstr("the net mixes 2 `layers` and "));
  EXPECT_THAT(report.text, HasSubstr("layer \"p\" (Pooling)"));
  EXPECT_THAT(report.text, HasSubstr("layer \"r\" (ReLU)"));
  EXPECT_THAT(report.text, Not(HasSubstr("layer \"q\""))) << report.text;
  EXPECT_EQ(report.problems, 4) << report.text;
}

TEST_F(Check, AValueOfTheWrongKindDoesNotHideTheRest) {
  CheckReport report = check(std::string(kData) + R"(
layer { name: "r" type: RELU bottom: "data" top: "r" }
layer { name: "a" type: "Convolution" bottom: "r" top: "a" convolution_param { num_output: many kernel_size: 3 } }
layer { name: "b" type: "InnerProduct" bottom: "a" top: "b" inner_product_param { num_output: "0" } }
layer { name: "c" type: "Softmax" bottom: "b" top: "c" nmae: "c" })");
  EXPECT_EQ(report.problems, 5) << report.text;
  for (const char* part : {":4:25: layer \"r\" (RELU): expected string, found \"RELU\"\n",
                           ":5:92: layer \"a\" (Convolution): expected integer, found \"many\"\n",
                           ":6:95: layer \"b\" (InnerProduct): expected integer, found \"\\\"0\\\"\"\n",
                           ":6: layer \"b\" (InnerProduct): num_output must be positive\n",
                           ": unknown field \"nmae\"", "5 problems, not everything could be checked\n"})
    EXPECT_THAT(report.text, HasSubstr(part));
  report = check("net: 'none' base_lr: \"0.1\" momentum: 'x' max_iter: 1.5 lr_policy: fixed random_seed: 1");
  EXPECT_EQ(report.problems, 5) << report.text;  // nothing follows from what is read in their place
}

TEST_F(Check, AFieldBesideItsMessageBelongsInOneOfTheLayersType) {
  const CheckReport report = check(std::string(kData) + R"(
layer { name: "a" type: "InnerProduct" bottom: "data" top: "a" num_output: 10 inner_product_param { num_output: 3 } }
layer { name: "b" type: "ReLU" bottom: "a" top: "b" kernel_size: 3 height: 2 stage: "x" }
layer { name: "c" type: "SoftmaxWithLoss" bottom: "b" bottom: "b" top: "c" ignore_label: 3 })");
  for (const char* part :
       {"unknown field \"num_output\" in LayerParameter: it belongs inside inner_product_param\n",
        "unknown field \"kernel_size\" in LayerParameter\n", "unknown field \"height\" in LayerParameter\n",
        "unknown field \"stage\" in LayerParameter: it belongs inside include\n",
        "unknown field \"ignore_label\" in LayerParameter: it belongs inside loss_param\n"})
    EXPECT_THAT(report.text, HasSubstr(part));
}

TEST_F(Check, ALayerThatCannotBeUpgradedDoesNotHideTheRest) {
  const std::string fused =
      "convolution_param { num_output: 2 kernel_size: 1 fuse_type: FUSED_CONV_ELTWISE } }\n";
  const CheckReport report =
      check(std::string(kData) + "layer { name: 'a' type: 'Convolution' bottom: 'data' top: 'a' " + fused +
            "layer { name: 'b' type: 'Convolution' bottom: 'a' top: 'b' " + fused +
            "layer { name: 'c' type: 'ReLU' bottom: 'b' top: 'c' }\n"
            "layer { name: 'd' type: 'InnerProduct' bottom: 'data' top: 'd' }\n");
  EXPECT_EQ(report.problems, 3) << report.text;
  for (const char* part : {"layer \"a\" (Convolution): fuse_type", "layer \"b\" (Convolution): fuse_type",
                           ":6: layer \"d\" (InnerProduct): num_output is missing"})
    EXPECT_THAT(report.text, HasSubstr(part));
}

TEST_F(Check, AFieldGivenTwiceDoesNotHideTheRest) {
  const CheckReport report = check(
      std::string(kData) +
      "layer { name: \"a\" name: \"b\" type: \"ReLU\" bottom: \"data\" top: \"a\" }\nlayer { nmae: \"b\" }");
  EXPECT_THAT(report.text, HasSubstr("\"name\" is given twice"));
  EXPECT_THAT(report.text, HasSubstr("unknown field \"nmae\" in LayerParameter"));
}

TEST_F(Check, FilesForDetectionsThatDoNotExistAreNoProblem) {
  const std::string inputs =
      "layer { name: 'i' type: 'Input' top: 'loc' top: 'conf' top: 'prior' input_param { shape { dim: [1, 8] "
      "} shape { "
      "dim: [1, 6] } shape { dim: [1, 2, 8] } } } layer { name: 'd' type: 'DetectionOutput' bottom: 'loc' "
      "bottom: "
      "'conf' bottom: 'prior' top: 'd' detection_output_param { num_classes: ";
  const std::string files =
      " save_output_param { output_directory: 'out' output_format: 'VOC' label_map_file: 'no_map' "
      "name_size_file: "
      "'no_sizes' } } }";
  const CheckReport report = check(inputs + "3" + files);
  EXPECT_EQ(report.problems, 0) << report.text;
  EXPECT_THAT(report.text,
              HasSubstr("layer \"d\" (DetectionOutput): \"no_map\" does not exist here; checked as if it "
                        "were not given"));
  EXPECT_EQ(check(inputs + "2" + files).problems, 1) << "the rest is checked";
}

TEST_F(Check, InputsWithoutShapesAreNoProblem) {
  const std::string text =
      "input: 'data' layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c' convolution_param { "
      "num_output: 2 kernel_size: 3 } } ";
  CheckReport report = check(text);
  EXPECT_EQ(report.problems, 0) << report.text;
  EXPECT_THAT(report.text,
              HasSubstr("layer \"input\" (Input) gives no shape for \"data\", so the layers after it "
                        "were checked without their shapes; --shape=data:N,C,H,W gives one"));
  EXPECT_EQ(check(text + "layer { name: 't' type: 'TopK' bottom: 'c' top: 't' }").problems, 1)
      << "the rest is checked";
  CheckOptions options;
  options.files = {folder_.file("file.prototxt")};
  options.shapes = {{"data", {1, 3, 2, 2}}};
  check(text);
  report = check_files(options);
  EXPECT_EQ(report.problems, 1) << report.text;
}

TEST_F(Check, DataThatDoesNotExistIsNotAProblem) {
  const std::string rest = R"( top: "data" top: "label" %}
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 2 axis: 5 } })";
  const auto net = [&](const std::string& settings) {
    std::string text = "layer { name: \"data\" type: \"Data\"" + rest;
    return text.replace(text.find('%'), 1, settings);
  };
  const std::string data = "data_param { source: 'missing' backend: LMDB batch_size: 4 }";
  const CheckReport unknown = check(net(data));
  EXPECT_EQ(unknown.problems, 0) << unknown.text;
  EXPECT_THAT(unknown.text, HasSubstr("note: "));
  EXPECT_THAT(unknown.text, HasSubstr("\"missing\" does not exist here"));
  EXPECT_THAT(unknown.text, HasSubstr("nothing wrong, not everything could be checked"));
  EXPECT_THAT(check(net("data_param { source: 'missing' batch_size: 0 }")).text,
              HasSubstr("data_param.batch_size must be positive"));
  const CheckReport cropped = check(net(data + " transform_param { crop_size: 8 }"));
  EXPECT_EQ(cropped.problems, 1) << cropped.text;
  EXPECT_THAT(cropped.text, HasSubstr("checked as if its images had 3 channels"));
  EXPECT_THAT(check(net(data + " transform_param { crop_size: 8 force_color: true force_gray: true }")).text,
              HasSubstr("sets both force_color and force_gray"));
  EXPECT_EQ(check(net(data), "data:4,3,8,8").problems, 1);
}

TEST_F(Check, ASolverWithItsNets) {
  put_file(folder_.file("net.prototxt"), std::string(kData) + R"(
layer { name: "x" type: "InnerProduct" bottom: "data" top: "x" include { phase: TEST } inner_product_param { num_output: 0 } }
layer { name: "y" type: "InnerProduct" bottom: "data" top: "y" include { phase: TRAIN } inner_product_param { num_output: 2 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "y" bottom: "data" top: "loss" include { phase: TRAIN } })");
  const CheckReport report =
      check("net: '" + folder_.file("net.prototxt") +
            "' lr_policy: 'stepp' momentum: 3 test_iter: 1 test_interval: 0 bass_lr: 1");
  for (const char* part :
       {"unknown field \"bass_lr\"", "stepp", "max_iter is missing", "test nets need test_interval > 0",
        "net.prototxt:4: layer \"x\" (InnerProduct): ", "net.prototxt:6: layer \"loss\" (SoftmaxWithLoss): "})
    EXPECT_THAT(report.text, HasSubstr(part));
  EXPECT_THAT(report.text, HasSubstr("file.prototxt: a solver; "));
}

TEST_F(Check, NothingFollowsFromAProblemThatIsKnown) {
  CheckReport report = check("net: 'x' base_lr: abc lr_policy: 'fixed' max_iter: 10");
  EXPECT_EQ(report.problems, 2) << report.text;  // base_lr, the net's file; not: base_lr is missing
  report = check("base_lr: 1 lr_policy: 'multifixd' max_iter: 1");
  EXPECT_EQ(report.problems, 2) << report.text;  // the policy, no net
  report = check("net: 'none' base_lr: 1 lr_policy: 'fixed' max_iter: 1 type: 'SAB'");
  EXPECT_EQ(report.problems, 2) << report.text;  // the type, the net's file
  report = check(std::string(kData) +
                 "layer { name: 'a' type: 'Split' bottom: 'data' top: 'a' top: 'a' top: 'c' }"
                 " layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'r' }");
  EXPECT_EQ(report.problems, 1) << report.text;
  report = check(
      "layers { name: 'd' type: DUMMY_DATA top: 'd' dummy_data_param { num: 1 channels: 1 height: 4 width: 4 "
      "} }"
      " layers { name: 'p' type: POOLNG bottom: 'd' top: 'p' pooling_param { kernel_size: 2 } }");
  EXPECT_EQ(report.problems, 1) << report.text;
}

/// The value may be there under a name that is not known; what is there is still checked.
TEST_F(Check, WhatAnUnknownFieldMayHoldIsNotMissing) {
  CheckReport report = check(std::string(kData) + R"(
layer { name: "a" type: "Convolution" bottom: "data" top: "a" convolution_param { num_output: 2 kernel: 3 group: 0 } }
layer { name: "b" type: "Convolution" bottom: "data" top: "b" convolution_param { num_output: 2 } })");
  EXPECT_EQ(report.problems, 3) << report.text;
  EXPECT_THAT(report.text, HasSubstr("layer \"a\" (Convolution): unknown field \"kernel\""));
  EXPECT_THAT(report.text, HasSubstr("layer \"a\" (Convolution): group must be positive"));
  EXPECT_THAT(report.text, HasSubstr("layer \"b\" (Convolution): no kernel_size is given"));
  const std::string sliced =
      " data_param { source: 'none' batch_size: 2 } }\n"
      "layer { name: 's' type: 'Slice' bottom: 'data' top: 'a' top: 'b' slice_param { slice_point: 3 } }";
  report =
      check("layer { name: 'd' type: 'Data' top: 'data' transform_param { crop_size: 8 tiles: 9 }" + sliced);
  EXPECT_EQ(report.problems, 1) << report.text;
  report = check("layer { name: 'd' type: 'Data' top: 'data' transform_param { crop_size: 8 }" + sliced);
  EXPECT_EQ(report.problems, 1) << report.text;
  EXPECT_THAT(report.text, HasSubstr("layer \"s\" (Slice)"));
}

TEST_F(Check, AnUnknownFieldOfALayerIsOneProblem) {
  const CheckReport report = check(std::string(kData) + R"(
layer { name: "a" type: "ReLU" bottom: "data" top: "a" relu_param { means: 0.1 means: 0.2 means: 0.3 other: 1 } means: 1 }
layer { name: "b" type: "InnerProduct" bottom: "data" top: "b" inner_product_param { num_output: 2 } param { foo: 1 } param { foo: 2 } }
layer { name: "c" type: "InnerProduct" bottom: "data" top: "c" inner_product_param { num_output: 2 } param { foo: 1 } }
quux: 1 quux: 2)");
  EXPECT_EQ(report.problems, 6) << report.text;
  EXPECT_THAT(report.text, HasSubstr("unknown field \"means\" in ReLUParameter (given 3 times)\n"));
  EXPECT_THAT(report.text,
              HasSubstr("layer \"b\" (InnerProduct): unknown field \"foo\" in ParamSpec (given 2 times)\n"));
  EXPECT_THAT(report.text, HasSubstr("layer \"c\" (InnerProduct): unknown field \"foo\" in ParamSpec\n"));
  EXPECT_THAT(report.text, HasSubstr("unknown field \"quux\" in NetParameter (given 2 times)\n"));
}

/// A shape may be that of a blob of the other phase only.
TEST_F(Check, ShapesOfOnePhaseAreNotThoseOfTheOther) {
  const std::string net = R"(
layer { name: "a" type: "Data" top: "source" top: "lab" data_param { source: "x" batch_size: 4 } include { phase: TRAIN } }
layer { name: "b" type: "Data" top: "data" top: "lab" data_param { source: "y" batch_size: 1 } include { phase: TEST } }
layer { name: "c" type: "Power" bottom: "source" top: "data" include { phase: TRAIN } }
layer { name: "f" type: "InnerProduct" bottom: "data" top: "f" inner_product_param { num_output: 3 } })";
  CheckOptions options;
  put_file(folder_.file("file.prototxt"), net);
  options.files = {folder_.file("file.prototxt")};
  options.shapes = {{"source", Shape{4, 3, 8, 8}}, {"lab", Shape{4}}};
  EXPECT_EQ(check_files(options).problems, 0) << check_files(options).text;
  options.phase = Phase::train;
  EXPECT_EQ(check_files(options).problems, 0) << check_files(options).text;
  options.phase = Phase::test;
  EXPECT_THAT(check_files(options).text, HasSubstr("but not of \"data\", which layer \"b\""));
  options.phase.reset();
  options.shapes = {{"lab", Shape{4}}};
  EXPECT_THAT(check_files(options).text, HasSubstr("but not of \"data\", which layer \"b\""));
}

TEST_F(Check, ACameraIsNoProblem) {
  const CheckReport report = check(R"(
layer { name: "d" type: "VideoData" top: "data" data_param { batch_size: 1 } video_data_param { video_type: WEBCAM device_id: 0 }
  transform_param { resize_param { height: 30 width: 20 } } }
layer { name: "c" type: "Convolution" bottom: "data" top: "c" convolution_param { num_output: 2 kernel_size: 21 } })");
  EXPECT_EQ(report.problems, 1) << report.text;
  EXPECT_THAT(report.text, HasSubstr("layer \"c\" (Convolution): "));
  EXPECT_THAT(report.text, HasSubstr("note: " + folder_.file("file.prototxt") +
                                     ": layer \"d\" (VideoData): camera 0 cannot be read: cameras are not "
                                     "supported; checked as if its images had 3 channels\n"));
}

/// Another project's layer of that name.
TEST_F(Check, AnOldTypeWithOtherSettingsIsAnother) {
  const std::string begin = "layers { name: 'd' type: IMAGE_LABEL_DATA top: 'a' image_label_data_param { ";
  CheckReport report = check(begin + "source: 'x' out_label_size: 1 } }");
  EXPECT_EQ(report.problems, 1) << report.text;
  EXPECT_THAT(report.text,
              HasSubstr("has the type \"IMAGE_LABEL_DATA\" of a branch, which Banyan does not have: its "
                        "settings are not those of \"ImageLabelData\" here, which has no \"source\""));
  EXPECT_THAT(report.text, Not(HasSubstr("current format")));
  report = check(begin + "image_list_path: 'x' } }");
  EXPECT_THAT(report.text, HasSubstr("write the net in the current format"));
}

TEST_F(Check, UnknownOldTypesDoNotHideTheRest) {
  const CheckReport report = check(
      "layers { name: 'd' type: DUMMY_DATA top: 'd' dummy_data_param { num: 1 channels: 1 height: 4 width: 4 "
      "} "
      "}\n"
      "layers { name: 'a' type: INTER_CLASS bottom: 'd' top: 'a' }\n"
      "layers { name: 'b' type: CROQ bottom: 'd' top: 'b' }\n"
      "layers { name: 'c' type: POOLING bottom: 'd' top: 'c' nmae: 'c' pooling_param { kernel_size: 2 } }");
  EXPECT_THAT(report.text,
              HasSubstr(":2:26: layer \"a\" (INTER_CLASS): the layer has the type \"InterClass\""));
  EXPECT_THAT(report.text, HasSubstr(":3:26: layer \"b\" (CROQ): unknown value \"CROQ\""));
  EXPECT_THAT(report.text, HasSubstr("unknown field \"nmae\""));
  EXPECT_THAT(report.text, Not(HasSubstr("nothing after this place")));
  EXPECT_EQ(report.problems, 3) << report.text;
}

TEST_F(Check, ATypeThatIsNotHereIsOneProblemOfALayer) {
  const std::string text =
      std::string(kData) +
      "layer { name: 'a' type: 'Mine' bottom: 'data' top: 'a' mine_param { b: 1 } }\n"
      "layer { name: 'c' type: 'InterClass' bottom: 'a' top: 'c' inter_class_param { d: 1 } }\n"
      "layer { name: 'e' type: 'InterClass' bottom: 'a' top: 'e' }";
  CheckReport report = check(text);
  EXPECT_EQ(report.problems, 3) << report.text;
  EXPECT_THAT(report.text, HasSubstr(":3:56: layer \"a\" (Mine): unknown field \"mine_param\""));
  EXPECT_THAT(report.text, HasSubstr(":4:59: layer \"c\" (InterClass): unknown field \"inter_class_param\""));
  EXPECT_THAT(report.text, HasSubstr(":5: layer \"e\" has the type \"InterClass\""));
  CheckOptions options;
  options.files = {folder_.file("file.prototxt")};
  options.unknown_fields = io::UnknownFields::ignore;
  report = check_files(options);
  EXPECT_EQ(report.problems, 2) << report.text;
  EXPECT_THAT(report.text, HasSubstr(":3: layer \"a\" has the unknown type \"Mine\""));
  EXPECT_THAT(report.text, HasSubstr(":4: layer \"c\" has the type \"InterClass\""));
  EXPECT_THAT(report.text, HasSubstr("; so has \"e\"\n"));
  put_file(folder_.file("net.prototxt"), text);
  report = check("net: '" + folder_.file("net.prototxt") + "' base_lr: 1 lr_policy: 'fixed' max_iter: 1");
  EXPECT_EQ(report.problems, 3) << report.text;
}

TEST_F(Check, ATypeThatIsNotHereIsNamedOnce) {
  std::string text = kData;
  for (const char* name : {"a", "b", "c", "d", "e", "f"})
    text += cat("layer { name: '", name, "' type: 'Mine' bottom: 'data' top: '", name, "' }\n");
  const CheckReport report = check(text);
  EXPECT_EQ(report.problems, 1) << report.text;
  EXPECT_THAT(report.text,
              HasSubstr("trainer layers lists all types; so have \"b\", \"c\", \"d\" and 2 more\n"));
  EXPECT_THAT(report.text, HasSubstr("1 problem, not everything could be checked"));
}

/// A program fills the blobs: 500 x 500 is only what is taken first.
TEST_F(Check, SizesThatAreMadeUpAreNoProblem) {
  const std::string data =
      "layer { name: 'data' type: 'Python' top: 'data' top: 'label' python_param { module: 'voc_layers' "
      "layer: "
      "'SBDDSegDataLayer' param_str: \"{'sbdd_dir': 'x', 'split': 'train', 'seed': 1, 'mean': (1, 2, 3)}\" } "
      "}\n";
  const auto crop = [](const std::string& more) {
    return "layer { name: 'pool' type: 'Pooling' bottom: 'data' top: 'pool' pooling_param { kernel_size: 8 "
           "stride: 8 "
           "round_mode: FLOOR } }\n"
           "layer { name: 'up' type: 'Deconvolution' bottom: 'pool' top: 'up' convolution_param { "
           "num_output: 2 "
           "kernel_size: 8 stride: 8 } }\n"
           "layer { name: 'crop' type: 'Crop' bottom: 'up' bottom: 'label' top: 'crop' crop_param { axis: "
           "2 " +
           more + " } }";
  };
  const std::string reader = "\nlayer { name: 'none' type: 'Silence' bottom: 'label' }";
  const CheckReport fits = check(data + crop("") + reader);
  EXPECT_EQ(fits.problems, 0) << fits.text;
  EXPECT_THAT(fits.text,
              HasSubstr("checked as if \"data\" were images of 512 x 512 pixels; of 500 x 500 this would "
                        "be wrong: line 4: layer \"crop\" (Crop)"));
  EXPECT_THAT(fits.text, Not(HasSubstr("_split")));
  const CheckReport wrong = check(data + crop("offset: 1"));
  EXPECT_EQ(wrong.problems, 1) << wrong.text;
  EXPECT_THAT(wrong.text, Not(HasSubstr("images of 512")));
  EXPECT_THAT(wrong.text, HasSubstr("is not known here; --shape=data:N,C,H,W gives it"));
}

TEST_F(Check, NamesTheOneListOfTwoThatIsNotThere) {
  const std::string images = folder_.file("images"), labels = folder_.file("labels");
  put_file(images, "a.png\n");
  const CheckReport report = check(
      "layer { name: 'd' type: 'ImageLabelData' top: 'data' top: 'label' image_label_data_param { "
      "image_list_path: '" +
      images + "' label_list_path: '" + labels + "' batch_size: 2 } transform_param { crop_size: 12 } }");
  EXPECT_EQ(report.problems, 0) << report.text;
  EXPECT_THAT(report.text, AllOf(HasSubstr('"' + labels + '"'), Not(HasSubstr('"' + images + '"'))));
}

TEST_F(Check, NamesTheDatabaseOfDocumentsThatIsNotThere) {
  const auto report = [&](const std::string& more) {
    return check(
        "layer { name: 'd' type: 'DocData' top: 'data' top: 'label' doc_data_param { sources: '/' "
        "sources: '/none' batch_size: 2 label_names: 'collection' } image_transform_param { params { "
        "crop_params { size: 12 } } } " +
        more +
        " }\nlayer { name: 'p' type: 'InnerProduct' bottom: 'data' top: 'p' inner_product_param { "
        "num_output: 3 } }\nlayer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'p' bottom: 'label' "
        "top: 'l' }");
  };
  const CheckReport fits = report("");
  EXPECT_EQ(fits.problems, 0) << fits.text;
  EXPECT_THAT(fits.text, AllOf(HasSubstr("\"/none\" does not exist here"), HasSubstr("had 3 channels")));
  EXPECT_EQ(report("transform_param { scale: 2 }").problems, 1);
}

TEST_F(Check, SlicesOfLabelsThatAreNotThereHaveTheirSizes) {
  const auto problems = [&](int labels) {
    return check(cat("layer { name: 'd' type: 'ImageLabelData' top: 'data' top: 'label' "
                     "image_label_data_param { "
                     "image_list_path: 'none' label_list_path: 'none' batch_size: 2 label_slice { dim: ",
                     labels,
                     " stride: 2 offset: 1 } } transform_param { crop_size: 12 } }\n"
                     "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c' convolution_param { "
                     "num_output: 3 "
                     "kernel_size: 5 stride: 2 } }\n"
                     "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'c' bottom: 'label' top: 'l' }"))
        .problems;
  };
  EXPECT_EQ(problems(4), 0);
  EXPECT_EQ(problems(5), 1);
}

TEST_F(Check, ALayerWithoutATypeIsAProblemBesideOthers) {
  const CheckReport report = check(std::string(kData) +
                                   "layer { name: 'a' type: 'Mine' bottom: 'data' top: 'a' }\n"
                                   "layer { name: 'z' bottom: 'data' top: 'z' }");
  EXPECT_EQ(report.problems, 2) << report.text;
  EXPECT_THAT(report.text, HasSubstr(":4: layer \"z\" has no type; trainer layers lists all types\n"));
}

TEST_F(Check, NothingFollowsFromALayerWhoseTypeCannotBeRead) {
  const CheckReport report = check(
      "layers { name: 'd' type: DUMMY_DATA top: 'd' dummy_data_param { num: 1 channels: 1 height: 4 width: 4 "
      "} }\n"
      "layers { name: 'p' type: MINE bottom: 'd' bottom: 'none' top: 'p' top: 'p' mine_param { x: 1 } }\n"
      "layers { name: 'p' type: MINE bottom: 'd' top: 'p' }\n"
      "layers { name: 'q' type: RELU bottom: 'd' top: 'p' }");
  EXPECT_EQ(report.problems, 2) << report.text;
  EXPECT_THAT(report.text, Not(HasSubstr("()")));
}

TEST_F(Check, PhasesOfEarlyV1LayersDivideThem) {
  const std::string data = "dummy_data_param { num: 1 channels: 1 height: 4 width: 4 } }\n";
  const CheckReport report = check("layers { name: 'd' type: DUMMY_DATA top: 'd' phase: TRAIN " + data +
                                   "layers { name: 'd' type: DUMMY_DATA top: 'd' phase: TEST " + data);
  EXPECT_EQ(report.problems, 0) << report.text;
  EXPECT_THAT(report.text, HasSubstr("a net of 1 layer to train, 1 to test"));
}

TEST_F(Check, StagesThatMakeAMissingBlob) {
  const std::string shape = "input_param { shape { dim: 2 dim: 3 } } }\n",
                    text = "layer { name: 'a' type: 'Input' top: 'x' include { stage: 'train' } " + shape +
                           "layer { name: 'b' type: 'Input' top: 'x' include { stage: 'val' } " + shape,
                    relu = "layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'x' }";
  const CheckReport report =
      check(text + relu + "layer { name: 'c' type: 'Input' top: 'y' include { stage: 'c' } " + shape +
            "layer { name: 'r' type: 'ReLU' bottom: 'y' top: 'y' }");
  EXPECT_THAT(report.text,
              HasSubstr("which no layer of the net produces; layers with stage \"train\" or \"val\" make it: "
                        "--stage=train or --stage=val\n"));
  // Where they make all that is read, each is tried.
  const CheckReport each = check(text + relu +
                                 "layer { name: 'p' type: 'Softmax' bottom: 'x' top: 'p' "
                                 "include { stage: 'deploy' } }");
  EXPECT_EQ(each.problems, 0) << each.text;
  EXPECT_THAT(each.text, HasSubstr("stages choose its layers; checked with --stage=train and --stage=val\n"));
  EXPECT_THAT(each.text, HasSubstr("a net with stages; nothing wrong\n"));
  EXPECT_THAT(
      check(text + relu +
            "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' include { stage: 'val' } }")
          .text,
      HasSubstr("layer \"ip\" (InnerProduct): num_output is missing\n"));
  // Nor does a fault hide the stage in which it is.
  const CheckReport one = check(text + relu +
                                "layer { name: 'p' type: 'Softmax' bottom: 'xx' top: 'p' "
                                "include { stage: 'val' } }");
  EXPECT_EQ(one.problems, 1) << one.text;
  EXPECT_THAT(one.text,
              HasSubstr("layer \"p\" (Softmax) reads blob \"xx\", which no layer of the net produces"));
  EXPECT_THAT(one.text, HasSubstr("checked with --stage=train and --stage=val\n"));
}

TEST_F(Check, StagesAreTriedThoughALayerReadsWhatNoneMakes) {
  const std::string shape = "input_param { shape { dim: 2 dim: 3 } } }\n";
  const CheckReport report =
      check("layer { name: 'a' type: 'Input' top: 'x' include { stage: 'train' } " + shape +
            "layer { name: 'b' type: 'Input' top: 'x' include { stage: 'val' } " + shape +
            "layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'r' }\n"
            "layer { name: 'f' type: 'ReLU' bottom: 'f1' top: 'f' }\n"
            "layer { name: 'ip' type: 'InnerProduct' bottom: 'r' top: 'ip' include { stage: 'val' } }");
  EXPECT_EQ(report.problems, 2) << report.text;
  EXPECT_THAT(report.text,
              HasSubstr("layer \"f\" (ReLU) reads blob \"f1\", which no layer of the net produces"));
  EXPECT_THAT(report.text, HasSubstr("layer \"ip\" (InnerProduct): num_output is missing\n"));
  EXPECT_THAT(report.text, HasSubstr("checked with --stage=train and --stage=val\n"));
}

TEST_F(Check, AStageForTheTest) {
  const std::string shape = "input_param { shape { dim: 2 } } }\n";
  const CheckReport report =
      check("layer { name: 'a' type: 'Input' top: 'x' include { phase: TRAIN } " + shape +
            "layer { name: 'b' type: 'Input' top: 'x' include { phase: TEST stage: 'again' } " + shape +
            "layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'x' }");
  EXPECT_EQ(report.problems, 0) << report.text;
  EXPECT_THAT(report.text, HasSubstr("stages choose its layers; checked with no stage and --stage=again\n"));
  EXPECT_THAT(report.text, Not(HasSubstr("was not checked")));
  const CheckReport unneeded =
      check("layer { name: 'a' type: 'Input' top: 'x' " + shape +
            "layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'r' include { stage: 'val' } }");
  EXPECT_THAT(unneeded.text, HasSubstr("checked without stages; with --stage=val it has other layers\n"));
  EXPECT_THAT(unneeded.text, HasSubstr("nothing wrong\n"));
}

TEST_F(Check, ATestNetThatIsNeverTestedNeedNotExist) {
  put_file(
      folder_.file("net.prototxt"),
      std::string(kData) +
          "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { "
          "num_output: 1 } } layer { name: 'l' type: 'EuclideanLoss' bottom: 'ip' bottom: 'ip' top: 'l' }");
  const CheckReport report =
      check("train_net: '" + folder_.file("net.prototxt") +
            "' test_net: 'none' test_iter: 0 test_interval: 0 base_lr: 1 lr_policy: 'fixed' max_iter: 1");
  EXPECT_EQ(report.problems, 0) << report.text;
}

TEST_F(Check, AFileForOnePhase) {
  const CheckReport report = check(
      "layer { name: 'd' type: 'Input' top: 'd' include { phase: TRAIN } input_param { shape { dim: 2 } } }"
      " layer { name: 'r' type: 'ReLU' bottom: 'd' top: 'r' }");
  EXPECT_EQ(report.problems, 0) << report.text;
  EXPECT_THAT(report.text, HasSubstr("phase TEST has no layer that makes data and was not checked\n"));
  EXPECT_THAT(check("layer { name: 'd' type: 'Input' top: 'd' include { phase: TRAIN } input_param { shape { "
                    "dim: 2 } } }"
                    " layer { name: 'e' type: 'Input' top: 'd' include { stage: 'last' } "
                    "input_param { shape { dim: 2 } } }"
                    " layer { name: 'r' type: 'ReLU' bottom: 'd' top: 'r' }")
                  .text,
              HasSubstr("was not checked; with --stage=last it has\n"));
}

TEST_F(Check, NetsInsideASolver) {
  const CheckReport report = check(
      "base_lr: 1 lr_policy: 'fixed' net_param { layer { name: 'd' type: 'Input' top: 'd' input_param { "
      "shape { dim: 2 } } }"
      " layer { name: 'x' type: 'Relu' bottom: 'd' top: 'x' include { phase: TEST } } }"
      " test_iter: 1 test_iter: 1 test_interval: 1 test_net_param { layer { name: 'y' type: 'Tanh' bottom: "
      "'d' top: 'y' } }");
  for (const char* part : {"max_iter is missing", "net_param in ", "\"Relu\"", "test_net_param in ",
                           "\"Tanh\"", "blob \"d\", which no layer"})
    EXPECT_THAT(report.text, HasSubstr(part));
}

TEST_F(Check, LinesOfTheLayerInQuestion) {
  const std::string data = "layer { name: 'data' type: 'Data' top: 'data' include { phase: ";
  const CheckReport report =
      check(data + "TRAIN } data_param { source: 'x' backend: LMDB batch_size: 1 } }\n" + data +
            "TEST } data_param { source: 'x' backend: LMDB } transform_param { crop_size: 3 } }");
  EXPECT_EQ(report.problems, 1) << report.text;
  EXPECT_THAT(report.text, HasSubstr("file.prototxt:2: layer \"data\""));
}

TEST_F(Check, FilesThatCannotBeRead) {
  CheckOptions options;
  put_file(folder_.file("empty"), "# nothing\n");
  options.files = {folder_.file("none"), folder_.path(), folder_.file("empty")};
  const CheckReport report = check_files(options);
  EXPECT_EQ(report.problems, 3) << report.text;
  EXPECT_THAT(report.text, HasSubstr("expected the description of a net or a solver, found nothing"));
  EXPECT_EQ(check("net: 'none' base_lr: 1 max_iter: 1").problems, 2);  // lr_policy is missing, the file
}

// Faster R-CNN as py-faster-rcnn writes it, with a small body.
constexpr const char* kFasterRcnn = R"(
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param { num_output: 8 kernel_size: 3 pad: 1 stride: 16 } }
layer { name: 'rpn_cls_score' type: 'Convolution' bottom: 'conv' top: 'rpn_cls_score' convolution_param { num_output: 18 kernel_size: 1 } }
layer { name: 'rpn_bbox_pred' type: 'Convolution' bottom: 'conv' top: 'rpn_bbox_pred' convolution_param { num_output: 36 kernel_size: 1 } }
layer { name: 'reshape' type: 'Reshape' bottom: 'rpn_cls_score' top: 'rpn_cls_score_reshape'
  reshape_param { shape { dim: 0 dim: 2 dim: -1 dim: 0 } } }
layer { name: 'rpn-data' type: 'Python' bottom: 'rpn_cls_score' bottom: 'gt_boxes' bottom: 'im_info' bottom: 'data'
  top: 'rpn_labels' top: 'rpn_bbox_targets' top: 'rpn_bbox_inside_weights' top: 'rpn_bbox_outside_weights'
  python_param { module: 'rpn.anchor_target_layer' layer: 'AnchorTargetLayer' param_str: "'feat_stride': 16" } }
layer { name: 'rpn_loss_cls' type: 'SoftmaxWithLoss' bottom: 'rpn_cls_score_reshape' bottom: 'rpn_labels' top: 'rpn_cls_loss'
  propagate_down: 1 propagate_down: 0 loss_weight: 1 loss_param { ignore_label: -1 normalize: true } }
layer { name: 'rpn_loss_bbox' type: 'SmoothL1Loss' bottom: 'rpn_bbox_pred' bottom: 'rpn_bbox_targets'
  bottom: 'rpn_bbox_inside_weights' bottom: 'rpn_bbox_outside_weights' top: 'rpn_loss_bbox' smooth_l1_loss_param { sigma: 3 } }
layer { name: 'rpn_cls_prob' type: 'Softmax' bottom: 'rpn_cls_score_reshape' top: 'rpn_cls_prob' }
layer { name: 'back' type: 'Reshape' bottom: 'rpn_cls_prob' top: 'rpn_cls_prob_reshape'
  reshape_param { shape { dim: 0 dim: 18 dim: -1 dim: 0 } } }
layer { name: 'proposal' type: 'Python' bottom: 'rpn_cls_prob_reshape' bottom: 'rpn_bbox_pred' bottom: 'im_info' top: 'rpn_rois'
  python_param { module: 'rpn.proposal_layer' layer: 'ProposalLayer' param_str: "'feat_stride': 16" } }
layer { name: 'roi-data' type: 'Python' bottom: 'rpn_rois' bottom: 'gt_boxes'
  top: 'rois' top: 'labels' top: 'bbox_targets' top: 'bbox_inside_weights' top: 'bbox_outside_weights'
  python_param { module: 'rpn.proposal_target_layer' layer: 'ProposalTargetLayer' param_str: "'num_classes': 2" } }
layer { name: 'pool' type: 'ROIPooling' bottom: 'conv' bottom: 'rois' top: 'pool'
  roi_pooling_param { pooled_w: 2 pooled_h: 2 spatial_scale: 0.0625 } }
layer { name: 'fc' type: 'InnerProduct' bottom: 'pool' top: 'fc' inner_product_param { num_output: 8 } }
layer { name: 'drop' type: 'Dropout' bottom: 'fc' top: 'fc' dropout_param { dropout_ratio: 0.5 scale_train: false } }
layer { name: 'cls_score' type: 'InnerProduct' bottom: 'fc' top: 'cls_score' inner_product_param { num_output: 21 } }
layer { name: 'bbox_pred' type: 'InnerProduct' bottom: 'fc' top: 'bbox_pred' inner_product_param { num_output: 8 } }
)";
constexpr const char* kHead = R"(
layer { name: 'loss_cls' type: 'SoftmaxWithLoss' bottom: 'cls_score' bottom: 'labels' top: 'loss_cls' propagate_down: 1 propagate_down: 0 }
layer { name: 'loss_bbox' type: 'SmoothL1Loss' bottom: 'bbox_pred' bottom: 'bbox_targets' bottom: 'bbox_inside_weights'
  bottom: 'bbox_outside_weights' top: 'loss_bbox' loss_weight: 1 }
)";
// R-FCN's, whose predictions have four axes.
constexpr const char* kHardExamples = R"(
layer { name: 'scores' type: 'Reshape' bottom: 'cls_score' top: 'scores' reshape_param { shape { dim: 0 dim: 21 dim: 1 dim: 1 } } }
layer { name: 'boxes' type: 'Reshape' bottom: 'bbox_pred' top: 'boxes' reshape_param { shape { dim: 0 dim: 8 dim: 1 dim: 1 } } }
layer { name: 'per_roi_loss_cls' type: 'SoftmaxWithLossOHEM' bottom: 'scores' bottom: 'labels'
  top: 'temp_loss_cls' top: 'temp_prob_cls' top: 'per_roi_loss_cls' loss_weight: 0 loss_weight: 0 loss_weight: 0
  propagate_down: false propagate_down: false }
layer { name: 'per_roi_loss_bbox' type: 'SmoothL1LossOHEM' bottom: 'boxes' bottom: 'bbox_targets' bottom: 'bbox_inside_weights'
  top: 'temp_loss_bbox' top: 'per_roi_loss_bbox' loss_weight: 0 loss_weight: 0
  propagate_down: false propagate_down: false propagate_down: false }
layer { name: 'per_roi_loss' type: 'Eltwise' bottom: 'per_roi_loss_cls' bottom: 'per_roi_loss_bbox' top: 'per_roi_loss'
  propagate_down: false propagate_down: false }
layer { name: 'annotator' type: 'BoxAnnotatorOHEM' bottom: 'rois' bottom: 'per_roi_loss' bottom: 'labels' bottom: 'bbox_inside_weights'
  top: 'labels_ohem' top: 'bbox_loss_weights_ohem' box_annotator_ohem_param { roi_per_img: 128 ignore_label: -1 }
  propagate_down: false propagate_down: false propagate_down: false propagate_down: false }
layer { name: 'silence' type: 'Silence' bottom: 'bbox_outside_weights' bottom: 'temp_loss_cls' bottom: 'temp_prob_cls' bottom: 'temp_loss_bbox' }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'scores' bottom: 'labels_ohem' top: 'loss_cls' loss_param { ignore_label: -1 }
  propagate_down: true propagate_down: false }
layer { name: 'accuarcy' type: 'Accuracy' bottom: 'scores' bottom: 'labels_ohem' top: 'accuarcy' accuracy_param { ignore_label: -1 } }
layer { name: 'loss_bbox' type: 'SmoothL1LossOHEM' bottom: 'boxes' bottom: 'bbox_targets' bottom: 'bbox_loss_weights_ohem' top: 'loss_bbox'
  loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 128 } propagate_down: true propagate_down: false propagate_down: false }
)";

TEST_F(Check, NetsOfPyFasterRcnnNeedOnlyTheirDataReplaced) {
  const std::string inputs = R"(
layer { name: 'input-data' type: 'Input' top: 'data' top: 'im_info' top: 'gt_boxes'
  input_param { shape { dim: 1 dim: 3 dim: 64 dim: 96 } shape { dim: 1 dim: 3 } shape { dim: 2 dim: 5 } } })";
  for (const char* head : {kHead, kHardExamples}) {
    const CheckReport report = check(inputs + kFasterRcnn + head);
    EXPECT_EQ(report.problems, 0) << report.text;
    EXPECT_THAT(report.text, HasSubstr("nothing wrong\n"));
  }
  const CheckReport report = check(std::string(R"(
layer { name: 'input-data' type: 'Python' top: 'data' top: 'im_info' top: 'gt_boxes'
  python_param { module: 'roi_data_layer.layer' layer: 'RoIDataLayer' param_str: "'num_classes': 21" } })") +
                                   kFasterRcnn + kHead);
  EXPECT_EQ(report.problems, 0) << report.text;
  EXPECT_THAT(report.text, HasSubstr("layer \"input-data\" (Python): a program of your own fills its blobs"));
}

}  // namespace
}  // namespace banyan
