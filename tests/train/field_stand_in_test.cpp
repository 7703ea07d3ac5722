// Data of ImageGtData and DetectionData that are not there.
#include <gtest/gtest.h>

#include "banyan/io/prototxt.hpp"
#include "banyan/train/model.hpp"
#include "train/missing_data.hpp"

namespace banyan {
namespace {

caffe::LayerParameter field_source(const std::string& type, const std::string& message,
                                   const std::string& settings) {
  return io::parse_net_text("layer { name: 'd' type: '" + type +
                                "' top: 'data' top: 'a' top: 'b' top: 'boxes' " + message +
                                " { source: '/none' output_gt_boxes: true field_w: [8, 9] field_h: [8, 9] " +
                                settings + " } }",
                            "fields.prototxt")
      .layer(0);
}

TEST(StandInFields, HaveTheSizesThatTheSettingsGive) {
  const caffe::LayerParameter kitti = field_source(
      "ImageGtData", "image_gt_data_param",
      "batch_size: 4 resize_width: 1920 resize_height: 576 crop_width: 768 downsample_rate: [8, 64]");
  EXPECT_EQ(shape_of_missing(kitti), (Shape{4, 3, 576, 768}));
  EXPECT_EQ(stand_in_shapes(kitti, {{"data", Shape{4, 3, 576, 768}}}),
            (std::vector<Shape>{{4, 3, 576, 768}, {4, 6, 72, 96}, {4, 6, 9, 12}, {1, 1, 1, 7}}));
  const caffe::LayerParameter coco =
      field_source("DetectionData", "detection_data_param",
                   "batch_size: 2 short_size: 600 long_size: 1000 stride: [16, 32]");
  EXPECT_EQ(shape_of_missing(coco), (Shape{2, 3, 608, 992}));
  EXPECT_EQ(stand_in_shapes(coco, {{"data", Shape{1, 3, 64, 32}}}),
            (std::vector<Shape>{{1, 3, 64, 32}, {1, 6, 4, 2}, {1, 6, 2, 1}, {1, 1, 1, 8}}));
  // As large as the images, which are not there.
  EXPECT_EQ(shape_of_missing(
                field_source("DetectionData", "detection_data_param", "batch_size: 2 stride: [16, 32]")),
            Shape());
}

}  // namespace
}  // namespace banyan
