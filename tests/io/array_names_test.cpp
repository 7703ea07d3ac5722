#include "banyan/io/array_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/base/error.hpp"
#include "io_test_tools.hpp"

namespace banyan::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A layer whose blob i has one element, i, but for those of `counts`.
LayerWeights layer_of(const std::string& name, const std::string& type, const std::vector<int>& counts) {
  LayerWeights layer;
  layer.name = name;
  layer.type = type;
  for (const int count : counts) {
    BlobData& blob = layer.blobs.emplace_back();
    blob.shape = {count};
    blob.floats.assign(static_cast<std::size_t>(count), static_cast<float>(layer.blobs.size()));
  }
  return layer;
}

std::vector<std::string> names_of(const LayerWeights& layer, NameStyle style) {
  std::vector<std::string> names;
  for (const NamedArray& array : to_arrays({"", {layer}}, style)) names.push_back(array.name);
  return names;
}

NamedArrays arrays_of(const std::vector<std::string>& names) {
  NamedArrays arrays;
  for (const std::string& name : names) {
    NamedArray& array = arrays.emplace_back();
    array.name = name;
    array.data.shape = {1};
    array.data.floats = {static_cast<float>(arrays.size())};
  }
  return arrays;
}

TEST(ArrayNames, OfEveryKindOfLayerComeBack) {
  const std::vector<std::pair<LayerWeights, std::vector<std::string>>> cases = {
      {layer_of("c", "Convolution", {4, 2}), {"c.weight", "c.bias"}},
      {layer_of("a/b.c", "InnerProduct", {4}), {"a/b.c.weight"}},
      {layer_of("b", "Bias", {2}), {"b.bias"}},
      {layer_of("n", "BatchNorm", {2, 2, 1}), {"n.running_mean", "n.running_var", "n.factor"}},
      {layer_of("n", "BatchNorm", {2, 2, 1, 2}), {"n.running_mean", "n.running_var", "n.factor", "n.weight"}},
      {layer_of("n", "BatchNorm", {2, 2, 1, 2, 2}),
       {"n.running_mean", "n.running_var", "n.factor", "n.weight", "n.bias"}},
      {layer_of("n", "BatchNorm", {2, 2, 2, 2, 1}),
       {"n.weight", "n.bias", "n.running_mean", "n.running_var", "n.reserve"}},
      {layer_of("n", "SyncBN", {2, 2, 2, 2}), {"n.weight", "n.bias", "n.running_mean", "n.running_var"}},
      {layer_of("r", "LSTM", {8, 2, 4}), {"r.0", "r.1", "r.2"}},
  };
  for (const auto& [layer, names] : cases) {
    EXPECT_EQ(names_of(layer, NameStyle::torch), names);
    for (const NameStyle style : {NameStyle::torch, NameStyle::index}) {
      NamedArrays arrays = to_arrays({"", {layer}}, style);
      std::reverse(arrays.begin(), arrays.end());  // the order of a file says nothing
      const ModelWeights back = from_arrays(arrays, "back");
      ASSERT_EQ(back.layers.size(), 1u);
      EXPECT_EQ(back.layers[0].name, layer.name);
      ASSERT_EQ(back.layers[0].blobs.size(), layer.blobs.size());
      for (std::size_t i = 0; i < layer.blobs.size(); ++i)
        EXPECT_EQ(back.layers[0].blobs[i].floats, layer.blobs[i].floats);
    }
  }
  EXPECT_THAT(names_of(layer_of("c", "Convolution", {4, 2}), NameStyle::index), ElementsAre("c/0", "c/1"));
}

TEST(ArrayNames, ThatSayNoPlaceAreRefused) {
  const auto refused = [](const std::vector<std::string>& names) {
    return error_of([&] { from_arrays(arrays_of(names), "f"); });
  };
  for (const char* name :
       {"weight", "conv", "conv/weight", "conv/", "/0", "conv/-1", "conv.num_batches_tracked"})
    EXPECT_THAT(refused({name}), HasSubstr("says no layer and blob")) << name;
  EXPECT_THAT(refused({"c/0", "c/2"}), HasSubstr("layer \"c\" has the blobs 0, 2, which are no layer's"));
  EXPECT_THAT(refused({"c.weight", "c.running_mean"}), HasSubstr("which are no layer's"));
  EXPECT_THAT(refused({"c/0", "c.0"}), HasSubstr("is given twice"));
  const LayerWeights layer = layer_of("c", "Convolution", {1});
  LayerWeights other = layer;
  other.blobs[0].floats[0] += 1;
  expect_contains(error_of([&] {
                    to_arrays({"", {layer, other}}, NameStyle::index);
                  }),
                  "two layers with weights are named \"c\", and their weights differ");
  const NamedArrays once = to_arrays({"", {layer, layer}}, NameStyle::index);  // they share them
  ASSERT_EQ(once.size(), 1u);
  EXPECT_EQ(once[0].name, "c/0");
}

TEST(ArrayNames, ByAMap) {
  NamedArrays arrays = arrays_of({"conv.weight", "bn.weight", "bn.num_batches_tracked"});
  arrays[0].data.shape = {2, 3, 1};
  arrays[0].data.floats = {1, 2, 3, 4, 5, 6};
  const ModelWeights made = from_arrays_by_map(arrays,
                                               "# torchvision\n\nconv.weight conv1/0 bgr  # colours\n"
                                               "bn.weight scale/0\n=1.5 bn/0\n",
                                               "map");
  ASSERT_EQ(made.layers.size(), 3u);
  EXPECT_EQ(made.layers[0].name, "conv1");
  EXPECT_THAT(made.layers[0].blobs[0].floats, ElementsAre(3, 2, 1, 6, 5, 4));
  EXPECT_THAT(made.layers[2].blobs[0].floats, ElementsAre(1.5f));
  const auto refused = [&](const std::string& map) {
    return error_of([&] { from_arrays_by_map(arrays, map, "map"); });
  };
  EXPECT_THAT(refused("conv.wieght conv1/0"),
              HasSubstr("map:1: there is no array \"conv.wieght\" (did you mean \"conv.weight\"?)"));
  EXPECT_THAT(refused("\nconv.weight conv1"), HasSubstr("map:2: expected LAYER/INDEX, found \"conv1\""));
  EXPECT_THAT(refused("conv.weight conv1.weight"), HasSubstr("expected LAYER/INDEX"));
  EXPECT_THAT(refused("conv.weight"), HasSubstr("map:1: expected ARRAY LAYER/INDEX"));
  EXPECT_THAT(refused("conv.weight c/0 rgb"), HasSubstr("map:1: expected ARRAY LAYER/INDEX"));
  EXPECT_THAT(refused("=one c/0"), HasSubstr("expected a number after =, found \"=one\""));
  EXPECT_THAT(refused("bn.weight c/0 bgr"), HasSubstr("has no channels to reverse"));
  EXPECT_THAT(refused("bn.weight c/0\nbn.weight c/0"), HasSubstr("which is given twice"));
  EXPECT_THAT(refused("bn.weight c/1"), HasSubstr("has the blobs 1, which are no layer's"));
}

}  // namespace
}  // namespace banyan::io
