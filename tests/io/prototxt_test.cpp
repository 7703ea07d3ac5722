#include "banyan/io/prototxt.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "banyan/io/upgrade.hpp"
#include "io_test_tools.hpp"

namespace banyan::io {
namespace {

std::string net_error(const std::string& text) {
  return error_of([&] { parse_net_text(text, "net.prototxt"); });
}
std::string solver_error(const std::string& text) {
  return error_of([&] { parse_solver_text(text, "solver.prototxt"); });
}

TEST(Prototxt, UnknownFieldNamesPlaceAndNearest) {
  const std::string error = net_error("name: \"n\"\nlayer {\n  nmae: \"conv1\"\n}\n");
  expect_contains(error, "net.prototxt:3:3: unknown field \"nmae\" in LayerParameter");
  expect_contains(error, "did you mean \"name\"?");
}

TEST(Prototxt, ColumnsCountATabAsOne) {
  expect_contains(net_error("layer {\n\t\tconvolution_param {\tnum_outputs: 3 }\n}"), "net.prototxt:2:23: ");
  expect_contains(net_error("layer { pooling_param {\n\tkernel_size: x } }"), "net.prototxt:2:15: ");
}

TEST(Prototxt, FieldsOfBranchesSayWhyTheyAreNotThere) {
  expect_contains(net_error("layer { roi_pooling_param { pooled_size: 7 } }"), ": it is Intel's, ");
}

TEST(Prototxt, SettingsOfBranchesSayWhoseTheyAreAndWhatToDo) {
  expect_contains(net_error("layer { dropout_param { scale_test: true } }"), "scale_train: false");
}

TEST(Prototxt, SettingsInsideOfATypeThatIsNotHereSayWhoseItIs) {
  expect_contains(net_error("layer { name: 'c' type: 'Hotspot' transform_param { max_rotate_degree: 40 } }"),
                  "unknown field \"max_rotate_degree\" in TransformationParameter: the layer has the type "
                  "\"Hotspot\" of caffe-windows, which Banyan does not have: ");
  expect_contains(net_error("layer { transform_param { max_rotate_degree: 40 } type: 'Hotspot' }"),
                  "caffe-windows");
  expect_contains(net_error("layer { type: 'Data' transform_param { mirorr: true } }"),
                  "did you mean \"mirror\"?");
  expect_contains(net_error("layer { type: 'Python' python_param { modul: 'x' } }"),
                  "did you mean \"module\"?");
}

TEST(Prototxt, SettingsOfATypeThatIsNotHereSayWhoseItIs) {
  const std::string reason =
      ": the layer has the type \"InterClass\" of sphereface-plus, which Banyan does not have";
  expect_contains(net_error("layer { name: 'r' type: 'InterClass' inter_class_param { side: 13 } }"),
                  "unknown field \"inter_class_param\" in LayerParameter" + reason);
  expect_contains(net_error("layer { nmae: 'r' type: 'InterClass' }"), "did you mean \"name\"?");
  expect_contains(net_error("layers { type: DOMAIN_TRANSFORM crf_param { } }"),
                  "in V1LayerParameter: the layer has the type \"DomainTransform\" of DeepLab");
}

TEST(Prototxt, DataLayersOfBranchesAreReadForShapesToStandIn) {
  const auto net = parse_net_text(
      "layer { name: 'data' type: 'DenseImageData' top: 'data' top: 'label' dense_image_data_param { source: "
      "'l' "
      "batch_size: 4 shuffle: true label_divide_factor: 8 } }\n"
      "layer { name: 'video' type: 'VideoData' image_data_param { source: 'l' use_image: true new_length: 16 "
      "show_data: 0 sampling_rate: 2 use_temporal_jitter: false } }",
      "net.prototxt");
  EXPECT_EQ(net.layer(0).dense_image_data_param().batch_size(), 4u);
  EXPECT_EQ(net.layer(1).image_data_param().new_length(), 16u);
}

TEST(Prototxt, AnUnknownOldTypeListsNoneThatIsNotNear) {
  const std::string error = net_error("layers { type: FOO }");
  expect_contains(error, "unknown value \"FOO\" for \"type\"; trainer layers lists all types");
  EXPECT_EQ(error.find("ABSVAL"), std::string::npos) << error;
  expect_contains(net_error("layers { type: CONVOLUTON }"), "(did you mean \"CONVOLUTION\"?)");
  EXPECT_EQ(net_error("layers { type: FORM }").find("did you mean"), std::string::npos);
  expect_contains(net_error("layers { type: INTER_CLASS }"),
                  "the layer has the type \"InterClass\" of sphereface-plus");
  EXPECT_EQ(net_error("layers { type: Pooling }").find("no name here"), std::string::npos);
  EXPECT_EQ(net_error("layers { type: SOFTMAX_WITH_LOSS }").find("no name here"), std::string::npos);
  expect_contains(net_error("layers { type: SPATIAL_TRANSFORMER }"),
                  "the layer has the type \"SpatialTransformer\", for which `layers` has no name here");
}

TEST(Prototxt, UnknownOldTypesAreNoneAndHideNothing) {
  caffe::NetParameter net;
  const TextProblems problems = find_text_problems(
      "layers { name: 'a' type: INTER_CLASS }\n"
      "layers { name: 'b' type: CROQ crop_param { } }\n"
      "layers { name: 'c' type: CONVOLUTON convolutoin_param { } }\n"
      "layers { name: 'd' type: POOLING foo: 1 }",
      "n", net);
  EXPECT_TRUE(problems.whole);
  ASSERT_EQ(problems.texts.size(), 4u);
  expect_contains(
      problems.texts[0],
      "n:1:26: layer \"a\" (INTER_CLASS): the layer has the type \"InterClass\" of sphereface-plus");
  expect_contains(problems.texts[1],
                  "n:2:26: layer \"b\" (CROQ): unknown value \"CROQ\" for \"type\" (did you mean");
  expect_contains(problems.texts[2],
                  "n:3:26: layer \"c\" (CONVOLUTON): unknown value");  // and no more of "c"
  expect_contains(problems.texts[3], "n:4:34: ");
  for (const int layer : {0, 1, 2}) EXPECT_EQ(net.layers(layer).type(), caffe::V1LayerParameter::NONE);
  EXPECT_EQ(net.layers(3).type(), caffe::V1LayerParameter::POOLING);
}

TEST(Prototxt, AValueMayHaveALongerNumberThanName) {
  caffe::NetParameter net;
  const TextProblems problems =
      find_text_problems("layer { relu_param { engine: OCM } } layer { nmae: 'b' }", "n", net);
  EXPECT_TRUE(problems.whole);
  ASSERT_EQ(problems.texts.size(), 2u);
  expect_contains(problems.texts[0], "unknown value \"OCM\" for \"engine\" (did you mean \"OCL\"?)");
  expect_contains(problems.texts[1], "\"nmae\"");
  expect_contains(problems.texts[1], "n:1:46: ");
  EXPECT_EQ(net.layer(0).relu_param().engine(), caffe::OCL);
}

TEST(Prototxt, AValueOfTheWrongKindHidesNothing) {
  caffe::NetParameter net;
  const TextProblems problems = find_text_problems(
      "layer { name: 'a' type: RELU top: a/b bottom: \"x\" } layer { name: 'b' type: 'Pooling' pooling_param "
      "{\n"
      "  kernel_size: \"3\" stride: two pad: -1 pool: \"MAX\" global_pooling: \"true\" kernel_h: 2.5 "
      "ceil_mode: maybe\n"
      "  round_mode: 0.5 kernel_w: [ 1 ] } loss_weight: [1, x, .5] loss_weight: 5x transform_param { scale: "
      "mirror: 1\n"
      "  crop_size { 3\n } mean_file { } resize_param: 3 pad 7 scale_ratios: } } layer { nmae: 'c' }",
      "n", net);
  EXPECT_TRUE(problems.whole);
  const std::vector<std::string> expected = {
      "n:1:25: layer \"a\" (RELU): expected string, found \"RELU\"",
      "n:1:35: layer \"a\" (RELU): expected string, found \"a\"",
      "n:2:16: layer \"b\" (Pooling): expected integer, found ",
      "n:2:28: layer \"b\" (Pooling): expected integer, found \"two\"",
      "n:2:37: layer \"b\" (Pooling): expected integer, found \"-\"",
      "n:2:46: layer \"b\" (Pooling): expected integer or identifier, found ",
      "n:2:68: layer \"b\" (Pooling): expected true or false, found ",
      "n:2:85: layer \"b\" (Pooling): expected integer, found \"2.5\"",
      "n:2:100: layer \"b\" (Pooling): expected true or false, found \"maybe\"",
      "n:3:15: layer \"b\" (Pooling): expected integer or identifier, found \"0.5\"",
      "n:3:29: layer \"b\" (Pooling): expected integer, found \"[\"",
      "n:3:54: layer \"b\" (Pooling): expected double, found \"x\"",
      "n:3:75: layer \"b\" (Pooling): need space between number and identifier",
      "n:3:102: layer \"b\" (Pooling): expected double, found \"mirror\"",
      "n:4:13: layer \"b\" (Pooling): expected \":\", found \"{\"",
      "n:5:14: layer \"b\" (Pooling): expected \":\", found \"{\"",
      "n:5:32: layer \"b\" (Pooling): expected \"{\", found \"3\"",
      "n:5:38: layer \"b\" (Pooling): expected \":\", found \"7\"",
      "n:5:54: layer \"b\" (Pooling): expected double, found \"}\"",
      "n:5:66: unknown field \"nmae\" in LayerParameter"};
  ASSERT_EQ(problems.texts.size(), expected.size()) << testing::PrintToString(problems.texts);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(problems.texts[i].find(expected[i]), 0u) << problems.texts[i];
  EXPECT_EQ(net.layer(0).type(), "RELU");
  EXPECT_EQ(net.layer(0).top(0), "a/b");
  const caffe::PoolingParameter& pooling = net.layer(1).pooling_param();
  EXPECT_EQ(pooling.kernel_size(0), 3u);
  EXPECT_EQ(pooling.pool(), caffe::PoolingParameter::MAX);
  EXPECT_TRUE(pooling.global_pooling());
  EXPECT_TRUE(net.layer(1).transform_param().mirror());
  EXPECT_EQ(net.layer(1).transform_param().pad(), 7u);
  const decltype(problems.guessed_layers) guessed = {{"b", "Pooling"}};
  EXPECT_EQ(problems.guessed_layers, guessed) << "the values of \"a\" only lacked their quotes";
}

TEST(Prototxt, ATypeOfTheNewFormatDoesNotEndTheReading) {
  caffe::NetParameter net;
  const TextProblems problems = find_text_problems(
      "layers { name: 'a' type: \"Data\" top: 'b' } layers { name: 'c' type: RELU }", "n", net);
  EXPECT_TRUE(problems.whole);
  ASSERT_EQ(problems.texts.size(), 1u);
  EXPECT_NE(problems.texts[0].find("which has no \"Data\": write `layer`"), std::string::npos);
  ASSERT_EQ(net.layers_size(), 2);
  EXPECT_EQ(net.layers(0).type(), caffe::V1LayerParameter::NONE);
  EXPECT_EQ(net.layers(0).top(0), "b");
  EXPECT_EQ(net.layers(1).type(), caffe::V1LayerParameter::RELU);
}

TEST(Prototxt, WhatCannotBePassedOverEndsTheReading) {
  caffe::NetParameter net;
  const TextProblems problems = find_text_problems("layer { { name: 'a' } }", "n", net);
  EXPECT_FALSE(problems.whole);
  expect_contains(problems.texts.back(), "; nothing after this place has been read");
  std::string many;
  for (int i = 0; i < 400; ++i) many += "input_dim: x\n";
  EXPECT_FALSE(find_text_problems(many, "n", net).whole);
  EXPECT_GT(find_text_problems(many, "n", net).texts.size(), 200u);
  many.clear();
  for (int i = 0; i < 400; ++i) many += "(no net)\n";
  EXPECT_FALSE(find_text_problems(many, "n", net).whole);
  EXPECT_LT(find_text_problems(many, "n", net).texts.size(), 30u) << "a file of another kind";
}

TEST(Prototxt, WhatBelongsNowhereIsPassedOver) {
  caffe::NetParameter net;
  const TextProblems problems = find_text_problems(
      "layer { name: 'a' } }\n"
      "// a comment: of C++, 'with {'\n"
      "layer { name: 'b' 'c': 3\n  ??? top: 'lost'\n  top: 'd' }\n"
      "layer { pooling_param { stride: [1 2] } nmae: 'e' } ] layer { name: 'lost' }\n"
      "layer { name: 'f' }",
      "n", net);
  const std::vector<std::string> expected = {"n:1:21: expected identifier, found \"}\"",
                                             "n:2:1: expected identifier, found \"/\"",
                                             "n:3:22: layer \"b\": expected identifier, found \":\"",
                                             "n:4:3: layer \"b\": expected identifier, found \"?\"",
                                             "n:6:36: expected \",\", found \"2\"",
                                             "n:6:41: unknown field \"nmae\"",
                                             "n:6:53: expected identifier, found \"]\""};
  EXPECT_EQ(problems.texts.size(), expected.size()) << testing::PrintToString(problems.texts);
  for (std::size_t i = 0; i < std::min(expected.size(), problems.texts.size()); ++i)
    EXPECT_EQ(problems.texts[i].find(expected[i]), 0u) << problems.texts[i];
  EXPECT_TRUE(problems.lost);
  EXPECT_FALSE(find_text_problems("layer { name: 'a' nmae: 'b' type: c }", "n", net).lost);
}

TEST(Prototxt, EveryFieldThatIsGivenAgainIsToldOf) {
  caffe::NetParameter net;
  const TextProblems problems = find_text_problems(
      "layer { name: 'a' name: 'b'\n name: 'c' pooling_param { stride: 1 stride_h: 2 stride_h: 3 } \n"
      "pooling_param { pad: 3 nested { } } type: 'Pooling' }",
      "n", net);
  ASSERT_EQ(problems.texts.size(), 5u) << testing::PrintToString(problems.texts);
  const std::vector<std::string> expected = {
      "n:1:19: layer \"a\" (Pooling): \"name\" is given twice", "n:2:2: layer \"a\" (Pooling): \"name\"",
      "n:2:50: layer \"a\" (Pooling): \"stride_h\"", "n:3:1: layer \"a\" (Pooling): \"pooling_param\"",
      "n:3:24: layer \"a\" (Pooling): unknown field \"nested\""};
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(problems.texts[i].find(expected[i]), 0u) << problems.texts[i];
  EXPECT_TRUE(problems.whole);
  EXPECT_FALSE(problems.lost);
  EXPECT_EQ(net.layer(0).name(), "c");
  EXPECT_EQ(net.layer(0).pooling_param().pad(0), 3u);
  EXPECT_EQ(net.layer(0).pooling_param().stride(0), 1u);
}

TEST(Prototxt, SignsOfOtherLanguagesAreReadAsWhatTheyMean) {
  caffe::NetParameter net;
  const TextProblems problems = find_text_problems(
      "// layer { name: 'no' }\nname = 'n' /* two\n lines { */ layer { name = \u201ca\"b\u201d } name:: 'm'",
      "n", net);
  EXPECT_TRUE(problems.whole);
  EXPECT_EQ(net.layer(0).name(), "a\"b");
  EXPECT_EQ(problems.texts.size(), 7u) << ::testing::PrintToString(problems.texts);
  EXPECT_FALSE(find_text_problems("// layer { name: 'no' }\nname: 'n' # }", "n", net).lost);
}

TEST(Prototxt, AWordTooManyHidesNothing) {
  caffe::NetParameter net;
  const TextProblems problems = find_text_problems(
      "name: 'n' hello\nlayer { name: 'a' there\n top: 'x' } world layer { name: 'b' nmae: 'c' }", "n", net);
  ASSERT_EQ(problems.texts.size(), 4u) << ::testing::PrintToString(problems.texts);
  expect_contains(problems.texts[0], "n:1:11: found \"hello\", which is neither a field nor a value");
  expect_contains(problems.texts[1], "n:2:19: layer \"a\": found \"there\"");
  expect_contains(problems.texts[2], "n:3:13: found \"world\"");
  expect_contains(problems.texts[3], "\"nmae\"");
  EXPECT_TRUE(problems.whole);
  ASSERT_EQ(net.layer_size(), 2);
  EXPECT_EQ(net.layer(0).top(0), "x");
}

TEST(Prototxt, StringsThatDoNotEndEndWithTheirLine) {
  caffe::NetParameter net;
  const TextProblems problems =
      find_text_problems("layer { name: 'a' top: 'x }\n}\nlayer { name: \"b\n nmae: 'c' } # \"", "n", net);
  ASSERT_EQ(problems.texts.size(), 3u) << ::testing::PrintToString(problems.texts);
  expect_contains(problems.texts[0],
                  "n:1:24: layer \"a\": the string does not end in its line: a quotation mark is missing");
  expect_contains(problems.texts[1], "n:3:15: layer \"b\": the string does not end");
  expect_contains(problems.texts[2], "\"nmae\"");
  EXPECT_TRUE(problems.whole);
  EXPECT_EQ(net.layer(0).top(0), "x }");
  EXPECT_EQ(net.layer(1).name(), "b");
  EXPECT_EQ(find_text_problems("layer { name: 'a", "n", net).texts[0].find("n:1:15: layer"), 0u);
}

TEST(Prototxt, AMissingBraceHidesNothing) {
  caffe::NetParameter net;
  const TextProblems problems = find_text_problems(
      "layer\n name: 'a' top: 'x' }\nlayer { name: 'b' pooling_param\n stride: 2 } nmae: 'c' }", "n", net);
  ASSERT_EQ(problems.texts.size(), 3u) << ::testing::PrintToString(problems.texts);
  expect_contains(problems.texts[0], "n:2:2: expected \"{\", found \"name\"");
  expect_contains(problems.texts[1], "n:4:2: layer \"b\": expected \"{\", found \"stride\"");
  expect_contains(problems.texts[2], "\"nmae\"");
  EXPECT_TRUE(problems.whole);
  EXPECT_FALSE(problems.lost);
  EXPECT_EQ(net.layer(0).top(0), "x");
  EXPECT_EQ(net.layer(1).pooling_param().stride(0), 2u);
  // Where both are missing, the block is empty.
  find_text_problems("layer { name: 'b' pooling_param\n top: 'x' }", "n", net);
  EXPECT_EQ(net.layer(0).top(0), "x");
}

TEST(Prototxt, ACommaInANumberIsReadAsAPoint) {
  caffe::NetParameter net;
  const TextProblems problems = find_text_problems(
      "layer { name: 'a' power_param { power: -1,25 shift: 1, scale: 0,5, } loss_weight: 1,5 }", "n", net);
  ASSERT_EQ(problems.texts.size(), 3u) << ::testing::PrintToString(problems.texts);
  expect_contains(problems.texts[0],
                  "n:1:42: layer \"a\": found a comma in a number: its decimals stand after a point");
  expect_contains(problems.texts[1], "n:1:64: layer \"a\": found a comma in a number");
  expect_contains(problems.texts[2],
                  "n:1:85: layer \"a\": found \"5\", which is neither a field nor a value");
  EXPECT_FLOAT_EQ(net.layer(0).power_param().power(), -1.25);
  EXPECT_FLOAT_EQ(net.layer(0).power_param().shift(), 1);
  EXPECT_FLOAT_EQ(net.layer(0).power_param().scale(), 0.5);
}

TEST(Prototxt, ManyProblemsOfALargeFileEndBeforeLong) {
  std::string large, unknown, doubled;
  for (int i = 0; i < 20000; ++i)
    large += cat("layer { name: \u201cl", i, "\u201d type: 'ReLU' top: 'x' }\n");
  for (int i = 0; i < 20000; ++i) unknown += cat("layer { nmae: 'l", i, "' type: 'ReLU' top: 'x' }\n");
  for (int i = 0; i < 100000; ++i) doubled += "name: 'n'\n";
  caffe::NetParameter net;
  const TextProblems of_doubled = find_text_problems(doubled, "n", net);
  EXPECT_TRUE(of_doubled.whole);
  EXPECT_LT(of_doubled.texts.size(), 200u);
  expect_contains(of_doubled.texts.back(), " further fields given twice");
  const TextProblems of_large = find_text_problems(large, "n", net);
  EXPECT_FALSE(of_large.whole);
  EXPECT_LT(of_large.texts.size(), 60u);
  const TextProblems of_unknown = find_text_problems(unknown, "n", net);
  expect_contains(of_unknown.texts.back(), " further unknown fields");
  EXPECT_EQ(of_unknown.texts, of_unknown.unknown_fields);
}

TEST(Prototxt, TextsBetweenOtherQuotationMarksAreRead) {
  caffe::NetParameter net;
  const TextProblems problems = find_text_problems(
      "layer { name: \u201ca\u201d type: \u2018b\u2018 top: 'c'\n} layer { \u00e9 }", "n", net);
  ASSERT_EQ(problems.texts.size(), 3u) << ::testing::PrintToString(problems.texts);
  for (int k : {0, 1}) expect_contains(problems.texts[k], "; strings stand between \" or '");
  expect_contains(problems.texts[2], "n:2:11: found a character that is not ASCII");
  EXPECT_TRUE(problems.whole);
  EXPECT_EQ(net.layer(0).name(), "a");
  EXPECT_EQ(net.layer(0).type(), "b");
  EXPECT_TRUE(find_text_problems("layer { top: \u201cno end\n}", "n", net).lost);
}

TEST(Prototxt, OfALayerWithinALayerABraceMayBeMissing) {
  const std::string advice = ": the layer before it may not be closed (a } is missing)";
  expect_contains(net_error("layer { name: 'a' type: 'ReLU'\nlayer { name: 'b' } }"),
                  "net.prototxt:2:1: layer \"a\" (ReLU): unknown field \"layer\" in LayerParameter" + advice);
  expect_contains(net_error("layer { name: 'a' pooling_param { stride: 2\nlayer { name: 'b' } } }"),
                  "unknown field \"layer\" in PoolingParameter" + advice);
  expect_contains(net_error("layers { name: 'a' type: RELU\nlayers { name: 'b' } }"),
                  "unknown field \"layers\" in V1LayerParameter" + advice);
}

/// It hides nothing of what comes after it.
TEST(Prototxt, BlocksThatAreNotClosedEndBeforeTheNextLayer) {
  const std::string advice = ": the layer before it may not be closed (a } is missing)";
  caffe::NetParameter net;
  const TextProblems problems = find_text_problems(
      "layer { name: 'a' type: 'ReLU'\n"
      "layer { name: 'b' nmae: 'x' pooling_param { stride: 2 }\n"
      "layer { name: 'c' pooling_param { stride: 3 kernel_size: two\n"
      "  layer { name: 'd' } layer { name: 'e' bias: 1 pooling_param { pad: 1",
      "n", net);
  ASSERT_EQ(problems.texts.size(), 7u) << ::testing::PrintToString(problems.texts);
  EXPECT_EQ(problems.texts[0],
            "n:2:1: layer \"a\" (ReLU): unknown field \"layer\" in LayerParameter" + advice);
  expect_contains(problems.texts[1], "n:2:19: layer \"b\": unknown field \"nmae\"");
  EXPECT_EQ(problems.texts[2], "n:3:1: layer \"b\": unknown field \"layer\" in LayerParameter" + advice);
  expect_contains(problems.texts[3], "n:3:58: layer \"c\": expected integer, found \"two\"");
  EXPECT_EQ(
      problems.texts[4],
      "n:4:3: layer \"c\": unknown field \"layer\" in PoolingParameter: the pooling_param before it may not "
      "be closed (2 } are missing)");
  expect_contains(problems.texts[5], "n:4:41: layer \"e\": unknown field \"bias\"");
  EXPECT_EQ(problems.texts[6],
            "n:4:71: layer \"e\": expected identifier, found the end of the file within \"pooling_param\" of "
            "line 4 (2 } are missing)");
  EXPECT_TRUE(problems.whole);
  EXPECT_FALSE(problems.lost);
  ASSERT_EQ(net.layer_size(), 5);
  EXPECT_EQ(net.layer(1).pooling_param().stride(0), 2u);
  EXPECT_EQ(net.layer(4).pooling_param().pad(0), 1u);

  const TextProblems old = find_text_problems(
      "layers { name: 'a' type: RELU phase: TRAIN\nlayers { name: 'b' type: RELU phase: TEST }", "n", net);
  ASSERT_EQ(old.texts.size(), 1u) << ::testing::PrintToString(old.texts);
  EXPECT_EQ(net.layers(1).include(0).phase(), caffe::TEST);

  expect_contains(net_error("layer { name: 'a' }\nlayer {\nname: 'b'\n"),
                  "net.prototxt:4:1: layer \"b\": expected identifier, found the end of the file within "
                  "\"layer\" of line 2 (a } is missing)");
}

/// Some programs may have nets within layers: their braces pair.
TEST(Prototxt, ALayerWithinALayerThatIsClosedIsLeftThere) {
  caffe::NetParameter net;
  const TextProblems problems =
      find_text_problems("layer { name: 'a'\nlayer { name: 'b' } }\nlayer { name: 'c' }\n", "n", net);
  ASSERT_EQ(problems.texts.size(), 1u) << ::testing::PrintToString(problems.texts);
  ASSERT_EQ(net.layer_size(), 2);
  EXPECT_EQ(net.layer(1).name(), "c");
}

/// The brace goes before the first field that is one's around the block.
TEST(Prototxt, ABlockThatIsNotClosedEndsBeforeTheFirstFieldAroundIt) {
  caffe::NetParameter net;
  const auto problem_of = [&](const std::string& text) {
    const TextProblems problems = find_text_problems(text, "n", net);
    EXPECT_EQ(problems.texts.size(), 1u) << ::testing::PrintToString(problems.texts);
    EXPECT_TRUE(problems.whole && !problems.lost);
    return problems.texts.empty() ? "" : problems.texts[0];
  };
  EXPECT_EQ(
      problem_of("layer { name: 'c' param { lr_mult: 1\n  convolution_param { num_output: 4 } bottom: 'x' }\n"
                 "layer { name: 'd' }"),
      "n:2:3: layer \"c\": unknown field \"convolution_param\" in ParamSpec: the param before it may not be "
      "closed (a } is missing)");
  EXPECT_EQ(net.layer(0).convolution_param().num_output(), 4u);
  EXPECT_EQ(net.layer(0).bottom(0), "x");
  EXPECT_EQ(net.layer(1).name(), "d");
  EXPECT_EQ(
      problem_of("input: 'a'\ninput_shape { dim: 1\ninput: 'b' input_shape { dim: 2 }\nlayer { name: 'd' }"),
      "n:3:1: unknown field \"input\" in BlobShape: the input_shape before it may not be closed (a } is "
      "missing)");
  EXPECT_EQ(net.input_size(), 2);
  EXPECT_EQ(net.input_shape(1).dim(0), 2);
  EXPECT_EQ(
      problem_of("layers { layer { name: 'c' type: 'conv'\nbottom: 'x' }\nlayers { layer { name: 'r' } }"),
      "n:2:1: layer \"c\" (conv): unknown field \"bottom\" in V0LayerParameter: the layer before it may not "
      "be "
      "closed (a } is missing)");
  EXPECT_EQ(net.layers(0).bottom(0), "x");
  EXPECT_EQ(
      problem_of("layer { name: 'c' convolution_param { weight_filler { type: 'x'\ntop: 'c' "
                 "}\nforce_backward: true"),
      "n:2:1: layer \"c\": unknown field \"top\" in FillerParameter: the weight_filler before it may not be "
      "closed (2 } are missing)");
  EXPECT_TRUE(net.force_backward());
  // A field that is in the wrong place, where another brace is missing, stays there.
  const TextProblems both = find_text_problems(
      "layer { convolution_param { num_output: 3 name: 'x' } }\nlayer { name: 'b'\nlayer { name: 'c' }", "n",
      net);
  ASSERT_EQ(both.texts.size(), 2u) << ::testing::PrintToString(both.texts);
  EXPECT_EQ(both.texts[0], "n:1:43: unknown field \"name\" in ConvolutionParameter");
  EXPECT_EQ(net.layer_size(), 3);
}

TEST(Prototxt, WhatIsPutInForAMissingBraceFits) {
  caffe::NetParameter net;
  const auto problems_of = [&](const std::string& text) {
    const TextProblems problems = find_text_problems(text, "n", net);
    EXPECT_TRUE(problems.whole) << ::testing::PrintToString(problems.texts);
    return problems.texts.size();
  };
  // A comment without an end; other brackets; lines of DOS; an extension, whose complaint changes nothing.
  EXPECT_EQ(problems_of("layer { name: 'a' type: 'ReLU' # last"), 1u);
  EXPECT_EQ(net.layer(0).type(), "ReLU");
  EXPECT_EQ(problems_of("layer < name: 'a'\nlayer < name: 'b' >"), 1u);
  EXPECT_EQ(net.layer(1).name(), "b");
  EXPECT_EQ(problems_of("layer {\r\n name: 'a' # {\r\nlayer { name: '}' }\r\n"), 1u);
  EXPECT_EQ(net.layer(1).name(), "}");
  EXPECT_EQ(problems_of("layer { quantization_param { bw_params: 8\nlayer { name: 'b' }"), 1u);
  EXPECT_EQ(net.layer(1).name(), "b");
  EXPECT_EQ(problems_of("layer { name: 'a' [x.y]: 1 include { min_level: two } }\nlayer { name: 'b'\nlayer { "
                        "name: 'c' }"),
            3u);
  EXPECT_EQ(net.layer_size(), 3);
  // A block of the net itself.
  EXPECT_EQ(problems_of("input: 'x' input_shape { dim: 1\nlayer { name: 'a' }\nlayer { name: 'b' }"), 1u);
  EXPECT_EQ(net.layer_size(), 2);
  // V0: a layer within layers.
  EXPECT_EQ(
      problems_of("layers { layer { name: 'a' type: 'relu' } bottom: 'x'\nlayers { layer { name: 'b' } }"),
      1u);
  EXPECT_EQ(net.layers(1).layer().name(), "b");
  for (const std::string text :
       {"layer { name:\nlayer { top: [ 'a' layer {", "layer { name: \"a\nlayer {", "layer {",
        "layer { top: [ 'x'", "layer { top: [ 'x'\nlayer { name: 'b' }"}) {
    const std::size_t found = find_text_problems(text, "n", net).texts.size();
    EXPECT_GE(found, 1u) << text;
    EXPECT_LE(found, 6u) << text;
  }
  caffe::SolverParameter solver;
  EXPECT_EQ(find_text_problems("net_param { layer { name: 'a'\nlayer { name: 'b' } } base_lr: 1", "n", solver)
                .texts.size(),
            1u);
  EXPECT_EQ(solver.net_param().layer_size(), 2);
  EXPECT_EQ(solver.base_lr(), 1);
}

TEST(Prototxt, OfFieldsAfterALayerABraceMayBeTooMany) {
  caffe::NetParameter net;
  const TextProblems problems = find_text_problems(
      "layer { name: 'a' }\n type: 'ReLU' top: 'x' }\nlayer { name: 'b' nmae: 'c' }\ntop: 'y'", "n", net);
  ASSERT_EQ(problems.texts.size(), 4u) << ::testing::PrintToString(problems.texts);
  const std::string advice = ": the layer before it may be closed too early (a } too many)";
  EXPECT_EQ(problems.texts[0], "n:2:2: unknown field \"type\" in NetParameter" + advice);
  expect_contains(problems.texts[1], "n:2:24: ");
  expect_contains(problems.texts[2], "\"nmae\"");
  EXPECT_EQ(problems.texts[3], "n:4:1: unknown field \"top\" in NetParameter" + advice);
  expect_contains(net_error("top: 'x' layer { }"), "it belongs inside layers or layer");
}

TEST(Prototxt, OldTypesOfBranchesSayWhoseTheyAre) {
  expect_contains(net_error("layers { type: LSTM_2D }"), "has the type \"LSTM_2D\" of caffe-public");
  expect_contains(net_error("layer { type: 'LSTM_2D' lstm_2d_param { num_output: 7 } }"),
                  "unknown field \"lstm_2d_param\" in LayerParameter: the layer has the type \"LSTM_2D\" of "
                  "caffe-public");
}

TEST(Prototxt, OfATypeOfABranchAllIsSaidOnce) {
  caffe::NetParameter net;
  const TextProblems problems = find_text_problems(
      "layer { name: 'c' type: 'Hotspot' cpm_param { } transform_param { one: 1 scale: 2 two: 2 } }\n"
      "layer { name: 'd' type: 'Hotspot' transform_param { one: 1\n two: 2 } }\n"
      "layer { name: 'e' type: 'InterClass' inter_class_param { } }",
      "n", net);
  ASSERT_EQ(problems.texts.size(), 3u);
  expect_contains(problems.texts[0],
                  "\"cpm_param\" in LayerParameter: the layer has the type \"Hotspot\" of caffe-windows");
  expect_contains(problems.texts[0], "; further unknown fields: \"one\", \"two\"");
  EXPECT_EQ(problems.texts[1],
            "n:2:53: layer \"d\" (Hotspot): unknown fields of a type that is not here: \"one\", \"two\"");
  expect_contains(problems.texts[2], "\"InterClass\" of sphereface-plus");
  EXPECT_EQ(problems.unknown_fields, problems.texts);
  const decltype(problems.told_layers) told = {{"c", "Hotspot"}, {"d", "Hotspot"}, {"e", "InterClass"}};
  EXPECT_EQ(problems.told_layers, told);
}

TEST(Prototxt, OfATypeOfABranchOnlySettingsAreExplainedByIt) {
  expect_contains(net_error("layer { type: 'Hotspot' param { lr_mlt: 1 } }"), "did you mean \"lr_mult\"?");
}

TEST(Prototxt, PlaceholdersOfTemplatesAreNamed) {
  const std::string template_of = ": the file is a template, whose placeholders must be filled in first";
  expect_contains(net_error("layer { inner_product_param { num_output: ${NUM_LABELS} } }"),
                  "expected integer, found \"$\"" + template_of);
  expect_contains(solver_error("base_lr: $LR"), template_of);
  expect_contains(net_error("layer { pooling_param { pool: $POOL } }"), template_of);
  expect_contains(solver_error("max_iter: @ITER@"), template_of);
  expect_contains(
      solver_error("random_seed: RANDOM_SEED"),
      "expected integer, found \"RANDOM_SEED\": if the file is a template, its placeholders must be "
      "filled in first");
  EXPECT_EQ(solver_error("max_iter: many").find("template"), std::string::npos);
}

TEST(Prototxt, PhaseAndStageOfEarlyV1LayersAreRules) {
  const auto net = parse_net_text(
      "layers { name: 'a' type: DATA phase: TRAIN top: 'x' }\n"
      "layers { stage: 'deep' name: 'b' type: DATA top: 'x'\n phase: TEST }\n"
      "layers { name: 'c' type: RELU }",
      "n");
  ASSERT_EQ(net.layers_size(), 3);
  ASSERT_EQ(net.layers(0).include_size(), 1);
  EXPECT_EQ(net.layers(0).include(0).ShortDebugString(), "phase: TRAIN");
  ASSERT_EQ(net.layers(1).include_size(), 1);
  EXPECT_EQ(net.layers(1).include(0).ShortDebugString(), "phase: TEST stage: \"deep\"");
  EXPECT_EQ(net.layers(2).include_size(), 0);
  // Places in messages are those of the file.
  expect_contains(net_error("layers { phase: TRAIN nmae: 'a' }"),
                  "net.prototxt:1:23: unknown field \"nmae\"");
  expect_contains(net_error("layers { phase: TRAIM }"),
                  "net.prototxt:1:17: unknown value \"TRAIM\" for \"phase\" (did you mean \"TRAIN\"?)");
  expect_contains(net_error("layers { phase: TRAIN } layers { phase: TEST } layers { nmae: 'a' }"),
                  "net.prototxt:1:57: ");
  expect_contains(net_error("layers { phase: TRAIN\n stage: 'x'\n nmae: 'a' }"), "net.prototxt:3:2: ");
  expect_contains(net_error("layers { phase: TRAIN include { phase: TEST } }"), "it belongs inside include");
  std::string nested;
  for (int i = 0; i < 20000; ++i) nested += "layers { phase: TRAIN ";
  expect_contains(net_error(nested), "net.prototxt:1:");
}

TEST(Prototxt, TestStagesOfEarlySolversAreStates) {
  const auto solver = parse_solver_text("test_stage: 'on-train' test_iter: 3\ntest_stage: 'on-test'", "s");
  ASSERT_EQ(solver.test_state_size(), 2);
  EXPECT_EQ(solver.test_state(0).stage(0), "on-train");
  EXPECT_EQ(solver.test_state(1).stage(0), "on-test");
  expect_contains(solver_error("test_stage: 'x' bass_lr: 1"),
                  "solver.prototxt:1:17: unknown field \"bass_lr\"");
}

TEST(Prototxt, UnknownFieldsOfWhatHasNoEffectArePassedOver) {
  const std::string text =
      "layer { name: 'a' quantization_param { precision: MINIFLOAT rounding_scheme: STOCHASTIC mant_bits: 3 "
      "more { deep: 'x' } bw_params: 8 } }";
  EXPECT_EQ(parse_net_text(text, "n").layer(0).quantization_param().bw_params(), 8u);
  caffe::NetParameter net;
  EXPECT_TRUE(find_text_problems(text, "n", net).texts.empty());
  EXPECT_TRUE(find_text_problems(text, "n", net).whole);
}

TEST(Prototxt, TheFirstProblemIsTheOneThatIsShown) {
  expect_contains(net_error("layer { foo: 1 bar: 2 top: 3 }"), "net.prototxt:1:9: unknown field \"foo\"");
  expect_contains(net_error("layer { top: 3 foo: 1 }"), "expected string");
}

TEST(Prototxt, EnginesOfBranchesAreAccepted) {
  const auto net = parse_net_text(
      "layer { type: 'Convolution' convolution_param { num_output: 1 engine: INTEL_SPATIAL } }"
      "layer { type: 'Pooling' pooling_param { engine: LIBDNN } }",
      "net.prototxt");
  EXPECT_EQ(net.layer(0).convolution_param().engine(), caffe::INTEL_SPATIAL);
}

TEST(Prototxt, SettingsOfBranchesOfTheSolverSayWhatTakesTheirPlace) {
  expect_contains(solver_error("sparsity_target: 1"), "caffe-jacinto");
  expect_contains(solver_error("multinode_param { wait_for_clients: 4 }"), "--uplink=mpi");
  expect_contains(solver_error("stepearly: 1"), "plateau");
}

TEST(Prototxt, FieldOfAnotherBlockSaysWhereItBelongs) {
  const std::string error = net_error("layer {\n  name: \"c\"\n  num_output: 3\n}");
  expect_contains(error,
                  ":3:3: layer \"c\": unknown field \"num_output\" in LayerParameter: it belongs inside ");
  expect_contains(error, "convolution_param");
}

TEST(Prototxt, WithinALayerItsNameAndTypeComeFirst) {
  expect_contains(
      net_error("layer { name: 'a' }\n# layer {\nlayer {\n  convolution_param { pads: 3 }\n  name: "
                "'conv{1'\n  type: 'Convolution' }"),
      "net.prototxt:4:23: layer \"conv{1\" (Convolution): unknown field \"pads\" in ConvolutionParameter");
  expect_contains(net_error("layers < type: POOLING top: 'p' foo: 1 >"),
                  ": layer (POOLING): unknown field \"foo\"");
  expect_contains(solver_error("net_param { layer { name: 'x' pooling_param { pool: AVG } } }"),
                  "layer \"x\": unknown value \"AVG\" for \"pool\" (did you mean \"AVE\"?)");
}

TEST(Prototxt, OnlyValuesOfTheEnumInQuestionAreListed) {
  const std::string error = net_error("layer { loss_param { normalization: FULLY } }");
  expect_contains(error, "(did you mean \"FULL\"?)");
  expect_contains(net_error("layer { lrn_param { norm_region: ACROSS } }"),
                  "known values: ACROSS_CHANNELS, WITHIN_CHANNEL");
  expect_contains(net_error("layer { eltwise_param { operation: ADD } }"),
                  "known values: MAX, PROD, STOCHASTIC_SUM, SUM");
}

TEST(Prototxt, IgnoresUnknownFieldsIfAsked) {
  const std::string text = "name: 'n' foo: 3 layer { name: 'a' bar { baz: 'x' } }";
  const auto net = parse_net_text(text, "n", UnknownFields::ignore);
  EXPECT_EQ(net.layer(0).name(), "a");
  EXPECT_THROW(parse_net_text(text, "n"), Error);
  EXPECT_THROW(parse_net_text("layer { pooling_param { pool: AVG } }", "n", UnknownFields::ignore), Error);
}

TEST(Prototxt, SeparatorsAfterUnknownFieldsAreNoErrors) {
  const std::string text =
      "layer { name: 'a;,' foo { a { v: [1, 2] }; b: 3, c: [ { d: 1, e: 'x,' }, { d: 2; } ], }; bar: [1, 2]; "
      "top: 'x', reshape_param { shape { dim: [4, 5], dim: 6; } }; };";
  const auto net = parse_net_text(text, "n", UnknownFields::ignore);
  EXPECT_EQ(net.layer(0).name(), "a;,");
  EXPECT_EQ(net.layer(0).reshape_param().shape().dim_size(), 3);
  caffe::NetParameter found;
  const TextProblems problems = find_text_problems(text, "n", found);
  EXPECT_TRUE(problems.whole);
  EXPECT_EQ(problems.unknown_fields.size(), 2u);
  for (const char* wrong : {"name:, 'a'", "layer {; }", "; name: 'a'", "layer { top: 'a', 'b' }"})
    EXPECT_THROW(parse_net_text(wrong, "n"), Error) << wrong;
}

TEST(Prototxt, AFileWithBothSidesOfAMergeIsRefused) {
  for (const char* marker : {"<<<<<<< HEAD", "=======", ">>>>>>> branch"})
    expect_contains(net_error("name: 'a'\n" + std::string(marker) + "\n"),
                    "net.prototxt:2: the file has an unresolved merge");
  EXPECT_EQ(parse_net_text("name: '======='", "n").name(), "=======");
}

TEST(Prototxt, FindsEveryProblem) {
  caffe::NetParameter net;
  const TextProblems problems = find_text_problems(
      "layer { foo: 1 pooling_param { pool: AVG  # AVG is not a name\n } lrn_param { norm_region: XX } name: "
      "'a' name: 'b' }",
      "n", net);
  EXPECT_TRUE(problems.whole);
  ASSERT_EQ(problems.texts.size(), 4u);
  expect_contains(problems.texts[0], "n:1:9: ");
  expect_contains(problems.texts[1], "n:1:38: ");
  expect_contains(problems.texts[2], "n:2:29: ");
  expect_contains(problems.texts[3], "\"name\" is given twice");
  EXPECT_EQ(net.layer(0).pooling_param().pool(), caffe::PoolingParameter::AVE);  // the nearest
  EXPECT_TRUE(find_text_problems("layer { top: \"a }", "n", net).whole);
  EXPECT_TRUE(find_text_problems("", "n", net).texts.empty());
}

TEST(Prototxt, FindsTheLineOfALayer) {
  const std::string text = "name: 'n'\nlayer { name: 'a'\n type: 'X' }\nlayer\n{ type: 'Y' name: 'a' }";
  EXPECT_EQ(line_of_layer(text, "a", "X"), 2u);
  EXPECT_EQ(line_of_layer(text, "a", "Y"), 5u);
  EXPECT_EQ(line_of_layer(text, "a", "Z"), 2u);
  EXPECT_EQ(line_of_layer(text, "b", "X"), 0u);
  EXPECT_EQ(line_of_layer(text + " layer { name: 'a'\ntype: 'X' }", "a", "X", 1), 5u);
}

TEST(Prototxt, NetInPlaceOfSolverAndTheOtherWayRound) {
  expect_contains(solver_error("name: \"LeNet\"\nlayer { }"), "is this a net's file instead of a solver's?");
  expect_contains(net_error("base_lr: 0.1\n"), "is this a solver's file instead of a net's?");
}

TEST(Prototxt, UnknownEnumValueListsTheKnownOnes) {
  const std::string error = net_error("layer { pooling_param {\n  pool: AVG\n} }");
  expect_contains(error, "net.prototxt:2:9: unknown value \"AVG\" for \"pool\" (did you mean \"AVE\"?)");
  expect_contains(error, "known values: AVE, MAX, MIN, STOCHASTIC");
}

TEST(Prototxt, WrongValuesSayWhatWasExpectedAndFound) {
  expect_contains(solver_error("max_iter: many"), ":1:11: expected integer, found \"many\"");
  expect_contains(solver_error("net: 3"), ":1:6: expected string, found \"3\"");
  expect_contains(solver_error("max_iter: 3.5"), ":1:11: expected integer, found \"3.5\"");
  expect_contains(solver_error("debug_info: maybe"), "solver.prototxt:1:");
  expect_contains(solver_error("max_iter: 99999999999999999999"), ":1:11: ");
  expect_contains(solver_error("base_lr: 0.1\nbase_lr: 0.2"), ":2:1: \"base_lr\" is given twice");
  expect_contains(net_error("layer { name: \"a\""), ":1:18: ");
  expect_contains(net_error("layer { name: \"a }"), ":1:");
  expect_contains(net_error("layer { top: \"a\" } }"), ":1:20: ");
}

TEST(Prototxt, NegativeWhereUnsignedIsAnError) {
  expect_contains(net_error("layer { data_param { batch_size: -1 } }"), "net.prototxt:1:34: ");
}

TEST(Prototxt, EmptyTextsAndBinaryFiles) {
  expect_contains(net_error(""), "expected the description of a net, found nothing");
  expect_contains(net_error("# only a comment\n"), "found nothing");
  expect_contains(solver_error(" \n\t"), "expected the description of a solver, found nothing");
  expect_contains(net_error(std::string("\n\5LeNet\0\1", 9)), "found a binary file");
  expect_contains(net_error("\n<!DOCTYPE html>\n<html><body>layer { }</body></html>"), "found HTML or XML");
}

TEST(Prototxt, FilesThatCannotBeRead) {
  const TemporaryFolder folder;
  expect_contains(error_of([&] { read_net_text(folder.file("missing.prototxt")); }), "missing.prototxt");
  expect_contains(error_of([&] { read_net_text(folder.path()); }), "expected a file, found a folder");
  put_file(folder.file("bad.prototxt"), "\n\nlayers_ {}");
  expect_contains(error_of([&] { read_solver_text(folder.file("bad.prototxt")); }), "bad.prototxt:3:1: ");
  put_file(folder.file("s.prototxt"), "base_lr: 0.5");
  EXPECT_EQ(read_solver_text(folder.file("s.prototxt")).base_lr(), 0.5f);
}

TEST(Prototxt, DeepNestingIsAnErrorNotACrash) {
  std::string bomb;
  for (int i = 0; i < 200000; ++i) bomb += "net_param { ";
  expect_contains(solver_error(bomb), "solver.prototxt:1:13: unknown field \"net_param\" in NetParameter");
  std::string angles = "layer ";
  for (int i = 0; i < 100000; ++i) angles += "< ";
  expect_contains(net_error(angles), "net.prototxt:1:9: ");
  std::string lists = "layer { top: ";
  for (int i = 0; i < 100000; ++i) lists += "[";
  expect_contains(net_error(lists), "net.prototxt:1:15: ");
}

TEST(Prototxt, AcceptsEveryFormOfTheGrammar) {
  const auto solver = parse_solver_text(
      "# comment\n"
      "base_lr: 1e-2f, momentum: .9; weight_decay: 16. snapshot: 0x10\n"
      "max_iter: 010 test_iter: [1, 2,3] test_iter: 4\n"
      "snapshot_prefix: 'a' \"b\\x41\\n\" 'c'\r\n"
      "solver_mode: 0 debug_info: t test_compute_loss: 1 test_initialization: False snapshot_diff: True\n"
      "clip_gradients: -inf delta: nan train_state: { level: 1 } test_state < stage: \"x\" >",
      "s");
  EXPECT_FLOAT_EQ(solver.base_lr(), 0.01f);
  EXPECT_FLOAT_EQ(solver.momentum(), 0.9f);
  EXPECT_FLOAT_EQ(solver.weight_decay(), 16.0f);
  EXPECT_EQ(solver.snapshot(), 16);
  EXPECT_EQ(solver.max_iter(), 8);
  ASSERT_EQ(solver.test_iter_size(), 4);
  EXPECT_EQ(solver.test_iter(3), 4);
  EXPECT_EQ(solver.snapshot_prefix(), "abA\nc");
  EXPECT_EQ(solver.solver_mode(), caffe::SolverParameter::CPU);
  EXPECT_TRUE(solver.debug_info());
  EXPECT_TRUE(solver.test_compute_loss());
  EXPECT_FALSE(solver.test_initialization());
  EXPECT_TRUE(solver.snapshot_diff());
  EXPECT_EQ(solver.clip_gradients(), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(solver.delta()));
  EXPECT_EQ(solver.train_state().level(), 1);
  EXPECT_EQ(solver.test_state(0).stage(0), "x");
  EXPECT_FALSE(parse_solver_text("debug_info: f", "s").debug_info());
  EXPECT_FALSE(parse_solver_text("debug_info: 0", "s").debug_info());
  EXPECT_TRUE(parse_solver_text("\xef\xbb\xbf"
                                "debug_info: true",
                                "s")
                  .debug_info());
}

TEST(Prototxt, ReadsYjxiongFiles) {
  const auto net = parse_net_text(
      "name: \"tsn\" mem_param { optimize_train: true exclude_blob: 'fc' }\n"
      "layer { name: 'data' type: 'VideoData' top: 'data' video_data_param { source: 'list' batch_size: 4 "
      "new_length: 5 num_segments: 3 modality: FLOW name_pattern: 'flow_%c_%05d.jpg' } transform_param { "
      "crop_size: 224 "
      "mirror: true fix_crop: true more_fix_crop: true multi_scale: true max_distort: 1 scale_ratios: [1, "
      ".875] "
      "is_flow: true mean_value: [128] stride: 8 upper_size: 700 original_image: false } }\n"
      "layer { name: 'conv' type: 'Convolution' convolution_param { num_output: 3 pad: 1 kernel_size: 3 "
      "stride: 2 "
      "dilation: 2 dilation_h: 2 dilation_w: 3 } }\n"
      "layer { name: 'bn' type: 'SyncBN' bn_param { slope_filler { type: 'constant' value: 1 } bias_filler { "
      "} "
      "momentum: 0.9 eps: 1e-5 frozen: false engine: CAFFE moving_average: true } }\n"
      "layer { type: 'ROIPooling' roi_pooling_param { pooled_h: 7 pooled_w: 7 spatial_scale: 0.0625 } }\n"
      "layer { type: 'BatchReduction' batch_reduction_param { level: [1, 2] reduction_param { operation: "
      "TOPK k: 2 } "
      "pos: true } }\n"
      "layer { type: 'SegData' seg_data_param { source: 's' root_dir: 'r' balance: true } }\n"
      "layer { type: 'Eltwise' eltwise_param { operation: STOCHASTIC_SUM coeff: .5 } }\n"
      "layer { type: 'Data' data_param { shuffle: true mining_hard_param { strategy: BALANCE } } }",
      "yj");
  EXPECT_EQ(net.layer(0).video_data_param().num_segments(), 3u);
  EXPECT_EQ(net.layer(1).convolution_param().dilation_w(), 3u);
  EXPECT_EQ(net.layer(1).convolution_param().pad(0), 1u);
  EXPECT_EQ(net.layer(2).bn_param().slope_filler().value(), 1.0f);
  EXPECT_EQ(net.layer(4).batch_reduction_param().reduction_param().k(), 2);
  const auto solver = parse_solver_text(
      "solver_type: NESTEROV device_id: [0, 1, 2, 3] group_id: 0 group_id: 1 richness: 200 iter_size: 2",
      "yj");
  EXPECT_EQ(solver.device_id_size(), 4);
  EXPECT_EQ(solver.group_id_size(), 2);
}

TEST(Prototxt, ReadsQuotedTypesOfTheV1Format) {
  const auto net = parse_net_text(
      "layers { name: 'type: \"RELU\"' # type: \"RELU\"\n type: \"SOFTMAX\" top: 'SOFTMAX' }\n"
      "layers { type: 'ROI_POOLING' } layers { type: ROI_POOLING } layers { type: CONVOLUTION } layer { "
      "type: 'SOFTMAX' }",
      "old");
  ASSERT_EQ(net.layers_size(), 4);
  EXPECT_EQ(net.layers(0).type(), caffe::V1LayerParameter::SOFTMAX);
  EXPECT_EQ(net.layers(0).name(), "type: \"RELU\"");
  EXPECT_EQ(net.layers(0).top(0), "SOFTMAX");
  for (const int roi : {1, 2}) EXPECT_EQ(current_type_name(net.layers(roi).type()), "ROIPooling");
  EXPECT_EQ(net.layers(3).type(), caffe::V1LayerParameter::CONVOLUTION);
  EXPECT_EQ(net.layer(0).type(), "SOFTMAX");
  // Places in messages are those of the file, and other texts are no such types.
  for (const std::string quote : {"\"", "'"})
    expect_contains(
        net_error("layers { name: 'd' type: " + quote + "Data" + quote + " top: 'd' }"),
        "1:26: layer \"d\" (Data): `layers` is the old format, which has no \"Data\": write `layer`");
  expect_contains(net_error("layers { type: \"SOFTMAX\" nam: 'x' }"),
                  "net.prototxt:1:26: layer (SOFTMAX): unknown");
  expect_contains(net_error("layers { type: \"Softmax\" }"), "net.prototxt:1:16: ");
  expect_contains(net_error("layers { type: \"SOFTMAX\n}\nlayers { }"), "net.prototxt:1:");
}

TEST(Prototxt, ReadsNvidiaFiles) {
  const auto net = parse_net_text(
      "default_forward_type: FLOAT16 default_backward_type: FLOAT16 default_forward_math: FLOAT "
      "global_grad_scale: 1000 "
      "global_grad_scale_adaptive: true reduce_buckets: 8 eltwise_mem_sharing: false "
      "default_conv_algos_override: '1,-1,-1'\n"
      "layer { name: 'bn' type: 'BatchNorm' forward_type: FLOAT backward_math: DOUBLE debug: true "
      "cudnn_math_override: 1 "
      "batch_norm_param { scale_bias: true engine: CUDNN eps: 1e-4 scale_filler { value: 1 } bias_filler { } "
      "} }\n"
      "layer { type: 'Data' data_param { source: 'x' batch_size: 256 backend: LMDB threads: 4 "
      "parser_threads: 2 "
      "cache: true shuffle: true precache: true prefetch: 2 } transform_param { use_gpu_transform: true "
      "random_seed: 3 "
      "img_rand_resize_lower: 256 interpolation_algo_up: INTER_LINEAR forward_packing: NHWC crop_h: 3 "
      "resize_param { resize_mode: WARP interp_mode: [LINEAR, AREA] } distort_param { hue_prob: .5 } } }\n"
      "layer { type: 'PriorBox' prior_box_param { min_size: 30 aspect_ratio: [2, 3] variance: [.1, .1, .2, "
      ".2] } }\n"
      "layer { type: 'MultiBoxLoss' multibox_loss_param { code_type: CENTER_SIZE mining_type: NONE } }\n"
      "layer { type: 'DetectNetTransformation' detectnet_groundtruth_param { stride: 16 object_class { src: "
      "1 dst: 0 } } }\n"
      "layer { type: 'SoftmaxWithLoss' loss_param { label_smoothing: 0.1 } dropout_param { engine: CAFFE } "
      "}\n"
      "layer { type: 'VideoData' video_data_param { video_type: VIDEO video_file: 'f' device_id: 1 } }\n"
      "layer { type: 'TRT' trt_param { trt_mode: INT8 deploy: 'd' model: 'm' } permute_param { order: [0, 2, "
      "1] } }",
      "nv");
  EXPECT_EQ(net.default_forward_type(), caffe::FLOAT16);
  EXPECT_TRUE(net.layer(0).batch_norm_param().scale_bias());
  EXPECT_TRUE(net.layer(1).data_param().shuffle());
  const auto solver = parse_solver_text(
      "type: 'SGD' rampup_interval: 200 rampup_lr: 0.1 min_lr: 1e-5 larc: true larc_policy: 'clip' larc_eta: "
      "0.01 "
      "momentum_policy: 'poly' max_momentum: 0.98 solver_data_type: FLOAT store_blobs_in_old_format: true "
      "weight_decay_policy: 'poly' test_and_snapshot_last_epochs: 3 per_parameter_reduce: true eval_type: "
      "'detection'",
      "nv");
  EXPECT_EQ(solver.rampup_interval(), 200);
  EXPECT_TRUE(solver.larc());
  EXPECT_EQ(parse_solver_text("solver_type: SAG", "nv").solver_type(), caffe::SolverParameter::SAG);
}

TEST(Prototxt, ReadsPspnetCaffeParallelAndIntelFiles) {
  const auto net = parse_net_text(
      "input: 'data' input_dim: [1, 3, 473, 473]\n"
      "layer { name: 'bn' type: 'BN' param { lr_mult: 1 decay_mult: 0 } bn_param { frozen: true momentum: "
      "0.95 } }\n"
      "layer { type: 'Interp' interp_param { height: 60 width: 60 zoom_factor: 8 shrink_factor: 1 pad_beg: 0 "
      "} }\n"
      "layer { type: 'SegAccuracy' seg_accuracy_param { metric: PixelIOU ignore_label: 255 reset: false } }\n"
      "layer { type: 'ImageSegData' image_data_param { label_type: PIXEL ignore_label: 255 } transform_param "
      "{ "
      "scale_factors: [.5, 1] crop_width: 9 crop_height: 9 } batch_norm_param { update_global_stats: true } "
      "}\n"
      "layer { type: 'MatWrite' mat_write_param { prefix: 'p' } unique_label_param { max_labels: 3 } "
      "dense_crf_param { bi_w: 4 } bias_channel_param { label_type: PIXEL } }",
      "psp");
  EXPECT_TRUE(net.layer(0).bn_param().frozen());
  EXPECT_EQ(net.layer(1).interp_param().zoom_factor(), 8);

  const auto old = parse_net_text(
      "layers { name: 'ip' type: INNER_PRODUCT bottom: 'a' top: 'b' blobs_lr: 1 blobs_lr: 2 weight_decay: 1 "
      "weight_decay: 0 param: 'shared' blob_share_mode: PERMISSIVE inner_product_param { num_output: 10 } }",
      "cp");
  EXPECT_EQ(old.layers(0).type(), caffe::V1LayerParameter::INNER_PRODUCT);
  EXPECT_EQ(parse_solver_text("timeout_sec: 20 timeout_nsec: 5", "cp").timeout_sec(), 20);

  const auto intel = parse_net_text(
      "engine: 'MKLDNN' bn_stats_batch_size: 32 compile_net_state { bn_scale_remove: true } multinode { "
      "model_parallel { "
      "layer_from: 'a' } }\n"
      "layer { engine: 'MKL2017' convolution_param { engine: MKLDNN relu: true negative_slope: 0 } "
      "batch_norm_param { "
      "use_weight_bias: true bias_term: true filler { } stats_batch_size: 4 relu: true engine: MKL2017 } "
      "transform_param { pad: 4 flow: true } concat_param { engine: CAFFE } }",
      "intel");
  EXPECT_EQ(intel.layer(0).transform_param().pad(), 4u);
  EXPECT_EQ(
      parse_solver_text("warmup_iter: 500 warmup_start_lr: 0.1 local_lr_auto: true local_gw_ratio: 0.01 "
                        "stagelr: [.1, .2] stageiter: 3 plateau_winsize: [5] engine: 'MKLDNN'",
                        "intel")
          .warmup_iter(),
      500);
}

TEST(Prototxt, ReadsOwnAdditions) {
  const auto net = parse_net_text(
      "checkpoint: 'auto' layer { batch_norm_param { sync: true sync_group_size: 2 variance: UNBIASED } "
      "bn_param { "
      "variance: BIASED sync: true } data_param { epoch_end: PARTIAL batch_size_is_total: true } "
      "image_data_param { "
      "epoch_end: WRAP } clip_param { min: 0 } }",
      "own");
  const auto& layer = net.layer(0);
  EXPECT_EQ(layer.batch_norm_param().variance(), caffe::BatchNormArithmetic::UNBIASED);
  EXPECT_EQ(layer.bn_param().variance(), caffe::BatchNormArithmetic::BIASED);
  EXPECT_EQ(layer.data_param().epoch_end(), caffe::PARTIAL);
  const auto solver = parse_solver_text("lr_scaling: LINEAR base_batch_size: 64 lr_policy: 'cosine'", "own");
  EXPECT_EQ(solver.lr_scaling(), caffe::SolverParameter::LINEAR);
  EXPECT_EQ(caffe::SolverState::default_instance().banyan().seed(), 0u);
}

TEST(Prototxt, TextRoundTrip) {
  const auto net = parse_net_text(
      "name: 'a\"b\\n' layer { name: 'l' loss_weight: [0.1, 1e-30, 3] convolution_param { kernel_size: 3 } }",
      "n");
  const auto again = parse_net_text(to_text(net), "again");
  EXPECT_EQ(again.SerializeAsString(), net.SerializeAsString());
}

TEST(Schema, NothingIsRequired) {
  const auto* file = caffe::NetParameter::descriptor()->file();
  int fields = 0;
  for (int m = 0; m < file->message_type_count(); ++m) {
    for (int f = 0; f < file->message_type(m)->field_count(); ++f, ++fields) {
      EXPECT_FALSE(file->message_type(m)->field(f)->is_required())
          << file->message_type(m)->field(f)->full_name();
    }
  }
  EXPECT_GT(fields, 700);
}

}  // namespace
}  // namespace banyan::io
