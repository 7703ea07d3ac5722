// Made-up data in the place of FrcnnRoiData's, WindowSegData's and SelectSegBinary's.
#include <gtest/gtest.h>

#include "banyan/io/prototxt.hpp"
#include "banyan/train/model.hpp"
#include "train/missing_data.hpp"

namespace banyan {
namespace {

caffe::LayerParameter source_from(const std::string& text) {
  return io::parse_net_text("layer { name: 'd' " + text + " }", "made.prototxt").layer(0);
}

TEST(RoiStandIn, IsOneImageOfTheSettingsWithOneBox) {
  const std::string text =
      "type: 'FrcnnRoiData' top: 'a' top: 'b' top: 'c' window_data_param { source: 'none' }";
  const caffe::LayerParameter plain = source_from(text);
  EXPECT_EQ(shape_of_missing(plain), (Shape{1, 3, 600, 1000}));
  EXPECT_EQ(
      shape_of_missing(source_from(text + " roi_data_param { scale: [300, 480] max_size: 700 align: 64 }")),
      (Shape{1, 3, 512, 704}));
  EXPECT_EQ(stand_in_shapes(plain, {{"a", Shape{1, 3, 600, 1000}}}),
            (std::vector<Shape>{{1, 3, 600, 1000}, {1, 3}, {1, 5}}));
  caffe::NetParameter net;
  *net.add_layer() = plain;
  EXPECT_EQ(make_up_data(net, {{"a", Shape{1, 3, 40, 80}}}, true).size(), 1u);
  // The columns of b and c are of different kinds.
  ASSERT_EQ(net.layer_size(), 3);
  EXPECT_EQ(net.layer(1).top(0), "b");
  EXPECT_EQ(net.layer(2).bottom_size(), 5);
  const auto value = [&](int filler) { return net.layer(0).dummy_data_param().data_filler(filler).value(); };
  EXPECT_EQ(value(1), 40);
  EXPECT_EQ(value(2), 80);
  EXPECT_EQ(value(8), 1);
}

TEST(RoiStandIn, HasALabelForEachPixelOfAWindow) {
  const caffe::LayerParameter source = source_from(
      "type: 'WindowSegData' top: 'a' top: 'b' image_data_param { source: 'none' batch_size: 4 new_height: 9 "
      "new_width: 9 } transform_param { crop_size: 8 }");
  EXPECT_EQ(shape_of_missing(source), (Shape{4, 3, 8, 8}));
  EXPECT_EQ(stand_in_shapes(source, {{"a", Shape{4, 3, 8, 8}}}),
            (std::vector<Shape>{{4, 3, 8, 8}, {4, 1, 8, 8}}));
}

TEST(RoiStandIn, HasANumberForEachClassToSelect) {
  const caffe::LayerParameter source = source_from(
      "type: 'SelectSegBinary' top: 'a' top: 'b' top: 'c' image_data_param { source: 'none' batch_size: 4 } "
      "transform_param { crop_size: 8 } window_cls_data_param { label_dim: 20 }");
  EXPECT_EQ(stand_in_shapes(source, {{"a", Shape{4, 3, 8, 8}}}),
            (std::vector<Shape>{{4, 3, 8, 8}, {4, 1, 8, 8}, {4, 20, 1, 1}}));
}

}  // namespace
}  // namespace banyan
