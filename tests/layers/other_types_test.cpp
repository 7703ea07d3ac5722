#include "io/other_types.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <set>
#include <sstream>

#include "banyan/base/error.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"
#include "banyan/layers/layer.hpp"

namespace banyan {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string refusal(const std::string& type) {
  caffe::LayerParameter layer;
  layer.set_name("x");
  layer.set_type(type);
  try {
    make_layer(layer, {});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(OtherTypes, AreInOrderAndNoneOfThemIsHere) {
  std::vector<std::string> types;
  for (const io::OtherType& other : io::other_types()) types.emplace_back(other.type);
  EXPECT_TRUE(std::is_sorted(types.begin(), types.end()));
  EXPECT_EQ(std::adjacent_find(types.begin(), types.end()), types.end());
  for (const std::string& known : registered_layer_types())
    EXPECT_FALSE(std::binary_search(types.begin(), types.end(), known)) << known << " is here";
}

TEST(OtherTypes, HaveAnOwnerAndAReason) {
  for (const io::OtherType& other : io::other_types()) {
    const std::string whose = other.whose, advice = other.advice;
    EXPECT_FALSE(whose.empty()) << other.type;
    EXPECT_GT(advice.size(), 10u) << other.type;
    EXPECT_EQ(advice.find_first_of("|\n"), std::string::npos) << other.type;
    EXPECT_FALSE(advice.ends_with('.')) << other.type;
    EXPECT_FALSE(io::is_read_as_another(other.type)) << other.type;
    EXPECT_THAT(refusal(other.type), HasSubstr(cat("of ", whose, ", which Banyan does not have: ", advice)));
  }
}

TEST(OtherTypes, NameNoLayerThatIsNotHere) {
  // Words with capitals within, such as GroupNorm, are types here or names of projects.
  const std::vector<std::string> types = registered_layer_types();
  const std::set<std::string> known(types.begin(), types.end());
  const std::set<std::string> words{"MetaImage", "SphereFace"};
  for (const io::OtherType& other : io::other_types()) {
    std::istringstream text(other.advice);
    for (std::string word; text >> word;) {
      while (!word.empty() && std::ispunct(static_cast<unsigned char>(word.back())) != 0) word.pop_back();
      if (word.ends_with("'s")) word.resize(word.size() - 2);
      const bool camel =
          word.size() > 2 && std::isupper(static_cast<unsigned char>(word[0])) != 0 &&
          std::any_of(word.begin() + 1, word.end(), [](unsigned char c) { return std::islower(c); }) &&
          std::any_of(word.begin() + 1, word.end(), [](unsigned char c) { return std::isupper(c); });
      const bool other_type = std::any_of(io::other_types().begin(), io::other_types().end(),
                                          [&](const io::OtherType& o) { return word == o.type; });
      EXPECT_TRUE(!camel || other_type || known.contains(word) || words.contains(word))
          << other.type << ": " << word;
    }
  }
}

TEST(OtherTypes, AreInTheDocuments) {
  std::ifstream file(BANYAN_SOURCE "/docs/from_caffe.md");
  std::vector<std::string> rows, expected;
  bool within = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) within = line == "### Types that are not here";
    if (within && line.starts_with("| `")) rows.push_back(line);
  }
  for (const io::OtherType& other : io::other_types())
    expected.push_back(cat("| `", other.type, "` | ", other.whose, " | ", other.advice, " |"));
  EXPECT_EQ(rows, expected);
}

TEST(OtherTypes, AreNamedWithTheirOwnerAndWhatToDo) {
  EXPECT_THAT(
      refusal("DomainTransform"),
      HasSubstr("layer \"x\" has the type \"DomainTransform\" of DeepLab, which Banyan does not have: "));
  EXPECT_THAT(refusal("Convolutoin"),
              AllOf(HasSubstr("unknown type \"Convolutoin\" (did you mean \"Convolution\"?)"),
                    Not(HasSubstr("known types"))));
  EXPECT_THAT(refusal("Zzzzzzzz"),
              AllOf(HasSubstr("unknown type \"Zzzzzzzz\";"), Not(HasSubstr("did you mean"))));
}

TEST(OtherTypes, OfOtherNamesHaveTheReasonOfTheirSiblings) {
  EXPECT_THAT(refusal("WarpCTC"), HasSubstr("WarpCTCLoss, CtcLoss and CTCLoss compute CTC"));
  EXPECT_THAT(refusal("CTCDecoder"), HasSubstr("CTCGreedyDecoder gives the labels of the best path"));
  EXPECT_THAT(refusal("DeformConv"), HasSubstr("DeformableConvolution takes its offsets as a second input"));
}

TEST(OtherTypes, OnlyTyposAreTakenForOtherTypes) {
  for (const char* type : {"Bin", "Depooling", "JSDLoss", "KernelLoss", "Mal", "MultiROIPooling", "PageData",
                           "SequenceAccuracy"})
    EXPECT_THAT(refusal(type), AllOf(HasSubstr("has the unknown type"), Not(HasSubstr("did you mean"))))
        << type;
  EXPECT_THAT(refusal("InnerProdct"), HasSubstr("did you mean \"InnerProduct\"?"));
  EXPECT_THAT(refusal("SoftmaxLoss"), HasSubstr("did you mean \"SoftmaxWithLoss\"?"));
  EXPECT_THAT(refusal("SigmoidCrossEntropy"), HasSubstr("did you mean \"SigmoidCrossEntropyLoss\"?"));
  EXPECT_THAT(refusal("SigmoidCrossEntropyLossLayer"),
              HasSubstr("did you mean \"SigmoidCrossEntropyLoss\"?"));
}

TEST(OtherTypes, ThoseOfPublicNetsSayWhatTakesTheirPlace) {
  EXPECT_THAT(refusal("Noise"), HasSubstr("a gaussian data_filler, added by Eltwise"));
  EXPECT_THAT(refusal("HardSigmoid"), HasSubstr("and Clip from 0 to 1, compute the same"));
  EXPECT_THAT(refusal("SimplerNMS"), HasSubstr("\"SimplerNMS\" of Intel's Caffe"));
  EXPECT_THAT(refusal("WassersteinLoss"), HasSubstr("InfogainLoss, too, takes a matrix"));
  EXPECT_THAT(refusal("SibData"), HasSubstr("it cuts each image sib_num times"));
  for (const char* type : {"BoxFeatures", "Hotspot", "ImageSegUniformSizeData", "LSTM_2D", "VolumeData"})
    EXPECT_THAT(refusal(type), HasSubstr("which Banyan does not have"));
}

TEST(OtherTypes, SettingsOfAnUnknownTypeAreNotTakenForOthers) {
  const auto complaint = [](const std::string& layer) -> std::string {
    try {
      io::parse_net_text("layer { name: 'x' " + layer + " }", "net");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(
      complaint("type: 'Embd' embd_param { }"),
      HasSubstr(
          "unknown field \"embd_param\" in LayerParameter: the layer has the unknown type \"Embd\" (did "
          "you mean \"Embed\"?); trainer layers lists all types"));
  EXPECT_THAT(complaint("type: 'Mine' data_param { mine: 1 }"),
              HasSubstr("unknown field \"mine\" in DataParameter: the layer has the unknown type \"Mine\";"));
  for (const char* known :
       {"type: 'Embed' embd_param { }", "embd_param { }", "type: 'Python' embd_param { }"})
    EXPECT_THAT(complaint(known), HasSubstr("did you mean \"embed_param\"?")) << known;
}

}  // namespace
}  // namespace banyan
