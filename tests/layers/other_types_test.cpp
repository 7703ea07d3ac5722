#include "io/other_types.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "banyan/base/error.hpp"
#include "banyan/layers/layer.hpp"

namespace banyan {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string refusal(const std::string& type, const std::string& module = "") {
  caffe::LayerParameter layer;
  layer.set_name("x");
  layer.set_type(type);
  if (!module.empty()) layer.mutable_python_param()->set_module(module);
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
  EXPECT_THAT(refusal("DenseCRF"),
              HasSubstr("layer \"x\" has the type \"DenseCRF\" of DeepLab, which Banyan does not have: "));
  EXPECT_THAT(refusal("DenseImageData"), HasSubstr("label_divide_factor"));
  EXPECT_THAT(refusal("Python", "my.layers"),
              AllOf(HasSubstr("module \"my.layers\""), HasSubstr("Banyan runs no Python code")));
  EXPECT_THAT(refusal("Convolutoin"),
              AllOf(HasSubstr("unknown type \"Convolutoin\" (did you mean \"Convolution\"?)"),
                    Not(HasSubstr("known types"))));
  EXPECT_THAT(refusal("Zzzzzzzz"),
              AllOf(HasSubstr("unknown type \"Zzzzzzzz\";"), Not(HasSubstr("did you mean"))));
}

}  // namespace
}  // namespace banyan
