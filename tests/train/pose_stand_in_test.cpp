// Data of CPMData that are not there.
#include <gtest/gtest.h>

#include "banyan/io/prototxt.hpp"
#include "banyan/train/model.hpp"
#include "train/missing_data.hpp"

namespace banyan {
namespace {

TEST(StandInPoses, HaveTheSizesThatTheSettingsGive) {
  const auto source = [](const std::string& settings) {
    return io::parse_net_text(
               "layer { name: 'p' type: 'CPMData' top: 'data' top: 'label' data_param { source: "
               "'/none' batch_size: 4 } cpm_transform_param { " +
                   settings + " } }",
               "poses.prototxt")
        .layer(0);
  };
  const caffe::LayerParameter openpose = source("num_parts: 56 stride: 8 crop_size_x: 368 crop_size_y: 240");
  EXPECT_EQ(shape_of_missing(openpose), (Shape{4, 6, 240, 368}));
  EXPECT_EQ(stand_in_shapes(openpose, {{"data", Shape{2, 6, 240, 368}}}),
            (std::vector<Shape>{{2, 6, 240, 368}, {2, 114, 30, 46}}));
  const caffe::LayerParameter single = source("");
  EXPECT_EQ(shape_of_missing(single), (Shape{4, 4, 368, 368}));
  EXPECT_EQ(stand_in_shapes(single, {{"data", Shape{4, 4, 368, 368}}})[1], (Shape{4, 30, 92, 92}));
}

}  // namespace
}  // namespace banyan
