// `trainer check`: everything that is wrong with a file, at once, and without its data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/train/commands.hpp"
#include "io/io_test_tools.hpp"

namespace banyan {
namespace {

using io::put_file;
using io::TemporaryFolder;
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
                "known values: AVE, MAX, STOCHASTIC\n"));
  EXPECT_THAT(report.text,
              HasSubstr(":6: layer \"c\" has the unknown type \"Flaten\" (did you mean \"Flatten\"?)"));
  EXPECT_THAT(report.text,
              HasSubstr(": layer \"e\" (ReLU) reads blob \"nowhere\", which no layer of the net produces"));
  EXPECT_THAT(report.text, HasSubstr(":9: layer \"f\" (Convolution): "));
  EXPECT_EQ(report.problems, 5) << report.text;  // "d" follows from "c"; both phases have the same ones
  EXPECT_THAT(report.text, HasSubstr("file.prototxt: a net of 7 layers to train, 7 to test; 5 problems\n"));
}

TEST_F(Check, ANetWithManyUnknownFieldsIsNotTakenForASolver) {
  const CheckReport report = check(
      "layer { name: \"a\" type: \"Input\" top: \"a\" uno: 1 due: 2 tre: 3 input_param { shape { dim: 1 } } "
      "}");
  EXPECT_THAT(report.text, HasSubstr("a net of 1 layer"));
  EXPECT_EQ(report.problems, 3) << report.text;
}

TEST_F(Check, AfterASyntaxErrorNothingIsRead) {
  const CheckReport report = check(
      std::string(kData) + "layer { name: \"a\" pooling_param { kernel_size: x } }\nlayer { nmae: \"b\" }");
  EXPECT_THAT(report.text,
              HasSubstr("expected integer, found \"x\"; nothing after this place has been read"));
  EXPECT_THAT(report.text, Not(HasSubstr("nmae")));
}

TEST_F(Check, AFieldGivenTwiceDoesNotHideTheRest) {
  const CheckReport report = check(
      std::string(kData) +
      "layer { name: \"a\" name: \"b\" type: \"ReLU\" bottom: \"data\" top: \"a\" }\nlayer { nmae: \"b\" }");
  EXPECT_THAT(report.text, HasSubstr("\"name\" is given twice"));
  EXPECT_THAT(report.text, HasSubstr("unknown field \"nmae\" in LayerParameter"));
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
  EXPECT_THAT(check(net("data_param { source: 'missing' batch_size: 4 }")).text,
              HasSubstr("data_param.backend is missing"));
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
  EXPECT_EQ(report.problems, 1) << report.text;  // not: base_lr, lr_policy and max_iter are missing
  report = check("base_lr: 1 lr_policy: 'multifixd' max_iter: 1");
  EXPECT_EQ(report.problems, 2) << report.text;  // the policy, no net
  report = check("net: 'none' base_lr: 1 lr_policy: 'fixed' max_iter: 1 type: 'SAG'");
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

TEST_F(Check, AFileForOnePhase) {
  const CheckReport report = check(
      "layer { name: 'd' type: 'Input' top: 'd' include { phase: TRAIN } input_param { shape { dim: 2 } } }"
      " layer { name: 'r' type: 'ReLU' bottom: 'd' top: 'r' }");
  EXPECT_EQ(report.problems, 0) << report.text;
  EXPECT_THAT(report.text, HasSubstr("phase TEST has no layer that makes data and was not checked"));
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

}  // namespace
}  // namespace banyan
