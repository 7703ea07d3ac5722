// `trainer layers TYPE` and `trainer --help-field`: nothing that can be written in a file is without its
// note.
#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <set>

#include "banyan/base/error.hpp"
#include "banyan/io/notes.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/train/commands.hpp"
#include "io/other_types.hpp"

namespace banyan {
namespace {

using google::protobuf::Descriptor;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string refused(const std::string& name) {
  try {
    return "not refused: " + describe_field(name, false);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.message();
  }
}

/// What nothing can be said of but that it is not supported.
const std::set<std::string> kRefused = {"MiningHardParameter"};
/// Settings of types of layers that are not here, values, and settings without effect.
const std::set<std::string> kOther = {"BlobProto",
                                      "MemoryOptimizationParameter",
                                      "CompileNetState",
                                      "MultinodeParameter",
                                      "MultinodeLayerParameter",
                                      "MnActivationParameter",
                                      "MnParamGradCompressParameter",
                                      "QuantizationParameter",
                                      "V1LayerParameter",
                                      "SplitParameter"};

/// Adds the message and those of its fields.
void collect(const Descriptor* message, std::set<const Descriptor*>& found) {
  if (kRefused.contains(message->name()) || kOther.contains(message->name()) || !found.insert(message).second)
    return;
  for (int i = 0; i < message->field_count(); ++i)
    if (message->field(i)->message_type() != nullptr) collect(message->field(i)->message_type(), found);
}

TEST(HelpField, EveryFieldOfSolversNetsAndLayersHasANote) {
  std::set<const Descriptor*> messages;
  for (const Descriptor* message : {caffe::SolverParameter::descriptor(), caffe::NetState::descriptor(),
                                    caffe::NetStateRule::descriptor(), caffe::ParamSpec::descriptor(),
                                    caffe::FillerParameter::descriptor(), caffe::LossParameter::descriptor(),
                                    caffe::TransformationParameter::descriptor()})
    if (message != caffe::SolverParameter::descriptor()) collect(message, messages);
  messages.insert(caffe::SolverParameter::descriptor());
  messages.insert(caffe::NetParameter::descriptor());
  for (const std::string& type : registered_layer_types()) {
    for (const std::string& field : layer_info(type).messages()) {
      const auto* found = caffe::LayerParameter::descriptor()->FindFieldByName(field);
      ASSERT_NE(found, nullptr) << type;
      collect(found->message_type(), messages);
    }
  }
  int fields = 0;
  for (const Descriptor* message : messages)
    for (int i = 0; i < message->field_count(); ++i) {
      ++fields;
      const auto* field = message->field(i);
      // A message may say it for the field.
      const bool told = !io::note_of(*field).about.empty() ||
                        (field->message_type() != nullptr && !io::note_of(*field->message_type()).empty()) ||
                        (field->enum_type() != nullptr && !io::note_of(*field->enum_type()).empty());
      EXPECT_TRUE(told) << message->name() << "." << field->name() << " has no comment in proto/banyan.proto";
    }
  EXPECT_GT(fields, 500);
  const Descriptor* layer = caffe::LayerParameter::descriptor();
  for (int i = 0; i < layer->field_count(); ++i) {
    const auto* field = layer->field(i);
    const bool told = field->message_type() != nullptr || field->enum_type() != nullptr ||
                      !io::note_of(*field).about.empty();
    EXPECT_TRUE(told) << field->name();
  }
}

TEST(HelpField, FindsFieldsByPathByMessageAndByName) {
  const std::string stride = describe_field("convolution_param.stride", false);
  EXPECT_THAT(stride, AllOf(HasSubstr("convolution_param.stride: uint32, repeated\n"),
                            HasSubstr("step of the window"),
                            HasSubstr("a setting of Convolution, ConvolutionDepthwise, CrossCorrelation")));
  EXPECT_THAT(stride, Not(HasSubstr("pooling_param")));
  EXPECT_THAT(describe_field("ConvolutionParameter.stride", false), HasSubstr("step of the window"));
  EXPECT_THAT(describe_field("layer.convolution_param.stride", false), HasSubstr("step of the window"));
  EXPECT_THAT(describe_field("stride", false),
              AllOf(HasSubstr("convolution_param.stride: "), HasSubstr("pooling_param.stride: ")));
  EXPECT_THAT(describe_field("lr_policy", false),
              AllOf(HasSubstr("SolverParameter.lr_policy: string\n"), HasSubstr("fixed, step, exp, inv")));
  EXPECT_THAT(describe_field("larc_eta", false), HasSubstr("float, default 0.001; from NVIDIA\n"));
  EXPECT_THAT(describe_field("base_batch_size", false), HasSubstr("; Banyan's own\n"));
  EXPECT_THAT(describe_field("pooling_param.pool", false), HasSubstr("MAX|AVE|STOCHASTIC|MIN, default MAX"));
  EXPECT_THAT(describe_field("convolution_param.weight_filler", false),
              AllOf(HasSubstr("FillerParameter"), HasSubstr("xavier"), HasSubstr("\n  sparse")))
      << "a message shows what it consists of";
  EXPECT_THAT(describe_field("PoolingParameter", false),
              AllOf(HasSubstr("settings of Pooling\n"), HasSubstr("\n  global_pooling "),
                    HasSubstr("  from NVIDIA:\n")));
  EXPECT_THAT(describe_field("convolution_param.weight_filler.std", false), HasSubstr("of gaussian"));
  EXPECT_THAT(describe_field("weight_filler.std", false), HasSubstr("of gaussian"));
  EXPECT_THAT(describe_field("resize_param.max_angle", false),
              HasSubstr("transform_param.resize_param.max_angle: float"));
}

TEST(HelpField, UnknownOnesSuggestTheNearest) {
  EXPECT_THAT(refused("convolution_param.strid"), HasSubstr("did you mean \"convolution_param.stride\"?"));
  EXPECT_THAT(refused("lr_polcy"), HasSubstr("did you mean \"lr_policy\"?"));
  EXPECT_THAT(refused("PoolingParam"), HasSubstr("there is no field \"PoolingParam\""));
  EXPECT_THAT(refused("convolution_param.weight_filler.st"), HasSubstr("there is no field"));
  EXPECT_THAT(refused(""), HasSubstr("there is no field \"\""));
  EXPECT_THAT(refused("base_lr.x"), HasSubstr("there is no field"));
}

TEST(HelpField, WhatCompletionOffersIsKnown) {
  const std::vector<std::string> names = described_fields();
  EXPECT_THAT(names,
              testing::IsSupersetOf({"lr_policy", "convolution_param.stride", "ConvolutionParameter"}));
  for (const std::string& name : names) EXPECT_NE(describe_field(name, false), "") << name;
}

TEST(HelpField, Json) {
  google::protobuf::ListValue fields;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(describe_field("stride", true), &fields).ok());
  EXPECT_GE(fields.values_size(), 3);
  google::protobuf::Struct message;
  ASSERT_TRUE(
      google::protobuf::util::JsonStringToMessage(describe_field("PoolingParameter", true), &message).ok());
  EXPECT_EQ(message.fields().at("message").string_value(), "PoolingParameter");
}

TEST(LayerTypes, ShowAllTheirSettings) {
  const std::string text = describe_layer_types({"Data", "SoftmaxWithLoss"}, false);
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("Data: records of an LMDB or a LevelDB\n"), HasSubstr("data_param (DataParameter)"),
            HasSubstr("transform_param (TransformationParameter): Output is (pixel - mean)"),
            HasSubstr("softmax_param (SoftmaxParameter)"), HasSubstr("loss_param (LossParameter)")));
  for (const char* type : {"HDF5Data", "CPMData", "CustomData", "DataHeatmap", "DocData"})
    EXPECT_THAT(describe_layer_types({type}, false), Not(HasSubstr("\ntransform_param"))) << type;
  for (const char* type : {"AnnotatedData", "CPMData"})
    EXPECT_THAT(describe_layer_types({type}, false), HasSubstr("\ndata_param (DataParameter)")) << type;
  EXPECT_THAT(describe_layer_types({"FocalLoss"}, false),
              AllOf(HasSubstr("\nfocal_loss_param (FocalLossParameter)"),
                    HasSubstr("\nsoftmax_focal_loss_param (FocalLossParameter)"),
                    HasSubstr("\nsoftmax_param (SoftmaxParameter)"), HasSubstr("\nloss_param (")));
  EXPECT_THAT(describe_layers(false),
              HasSubstr("detectnet_groundtruth_param, detectnet_augmentation_param, transform_param\n"));
  EXPECT_THAT(describe_field("SoftmaxParameter", false), HasSubstr("settings of FocalLoss, "));
  EXPECT_THAT(describe_field("TransformationParameter", false), Not(HasSubstr("settings of")));
  google::protobuf::ListValue types;
  ASSERT_TRUE(
      google::protobuf::util::JsonStringToMessage(describe_layer_types({"Data", "ReLU"}, true), &types).ok());
  EXPECT_EQ(types.values_size(), 2);
  for (const std::string& type : registered_layer_types()) {
    EXPECT_NE(describe_layer_types({type}, false), "");
    const std::string described = describe_layer_types({type}, true);
    // What complaints about misplaced fields take for the type's settings.
    for (const char* field : {"loss_param", "transform_param"})
      EXPECT_EQ(io::may_be_setting_of(type, field),
                described.find(cat("{\"field\": \"", field, '"')) != std::string::npos)
          << type << ": " << field;
  }
}

TEST(LayerTypes, UnknownOnes) {
  const auto refusal_of = [](const std::string& type) {
    try {
      return describe_layer_types({type}, false);
    } catch (const Error& error) {
      return error.message();
    }
  };
  EXPECT_THAT(refusal_of("Convolutoin"), HasSubstr("did you mean \"Convolution\"?"));
  EXPECT_THAT(refusal_of("DomainTransform"), HasSubstr("of DeepLab"));
}

}  // namespace
}  // namespace banyan
