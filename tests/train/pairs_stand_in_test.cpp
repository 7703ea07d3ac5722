// Data of CustomData that are not there.
#include <gtest/gtest.h>

#include "banyan/io/prototxt.hpp"
#include "banyan/train/model.hpp"
#include "train/missing_data.hpp"

namespace banyan {
namespace {

TEST(StandInPairs, HaveTheChannelsOfTheirSlices) {
  const auto source = [](const std::string& settings) {
    return io::parse_net_text(
               "layer { name: 'p' type: 'CustomData' top: 'a' top: 'b' top: 'flow' top: 'known' data_param { "
               "source: '/none' batch_size: 8 slice_point: 3 slice_point: 6 slice_point: 8 " +
                   settings + " } }",
               "pairs.prototxt")
        .layer(0);
  };
  const caffe::LayerParameter pairs =
      source("encoding: UINT8 encoding: UINT8 encoding: UINT16FLOW encoding: BOOL1");
  EXPECT_EQ(shape_of_missing(pairs), Shape());  // as large as the images, which are not there
  const std::vector<Shape> shapes = {{2, 3, 38, 51}, {2, 3, 38, 51}, {2, 2, 38, 51}, {2, 1, 38, 51}};
  EXPECT_EQ(stand_in_shapes(pairs, {{"a", shapes[0]}}), shapes);
  EXPECT_EQ(stand_in_shapes(source(""), {{"a", shapes[0]}})[3], shapes[0]);
}

}  // namespace
}  // namespace banyan
