// Data of EvalData that are not there.
#include <gtest/gtest.h>

#include "banyan/io/prototxt.hpp"
#include "banyan/train/model.hpp"
#include "train/missing_data.hpp"

namespace banyan {
namespace {

TEST(StandInEvalData, HasTheSizesThatTheSettingsGive) {
  const auto source = [](const std::string& settings) {
    return io::parse_net_text(
               "layer { name: 'd' type: 'EvalData' top: 'data' top: 'boxes' top: 'sizes' "
               "eval_data_param { source: '/none' " +
                   settings + " } }",
               "eval.prototxt")
        .layer(0);
  };
  EXPECT_EQ(shape_of_missing(source("short_size: 600 long_size: 1000")), (Shape{1, 3, 608, 992}));
  const caffe::LayerParameter resized = source("batch_size: 4 resize_width: 100 resize_height: 60");
  EXPECT_EQ(shape_of_missing(resized), (Shape{4, 3, 64, 96}));
  EXPECT_EQ(stand_in_shapes(resized, {{"data", Shape{4, 3, 64, 96}}}),
            (std::vector<Shape>{{4, 3, 64, 96}, {1, 1, 1, 8}, {4, 2}}));
  EXPECT_EQ(shape_of_missing(source("")), Shape());
}

}  // namespace
}  // namespace banyan
