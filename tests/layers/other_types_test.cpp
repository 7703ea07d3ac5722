#include "layers/other_types.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

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
  const std::vector<std::string> types = other_types();
  EXPECT_TRUE(std::is_sorted(types.begin(), types.end()));
  EXPECT_EQ(std::adjacent_find(types.begin(), types.end()), types.end());
  for (const std::string& known : registered_layer_types())
    EXPECT_FALSE(std::binary_search(types.begin(), types.end(), known)) << known << " is here";
}

TEST(OtherTypes, AreNamedWithTheirOwnerAndWhatToDo) {
  EXPECT_THAT(refusal("DenseCRF"),
              HasSubstr("layer \"x\" has the type \"DenseCRF\" of DeepLab, which Banyan does not have: "));
  EXPECT_THAT(refusal("DenseImageData"), HasSubstr("convert the data to LMDB (convert_imageset)"));
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
