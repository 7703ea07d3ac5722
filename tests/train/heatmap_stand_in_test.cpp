// Data of DataHeatmap that are not there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/io/prototxt.hpp"
#include "banyan/train/model.hpp"
#include "train/missing_data.hpp"

namespace banyan {
namespace {

using testing::HasSubstr;

caffe::NetParameter net_of(const std::string& settings, const std::string& loss) {
  return io::parse_net_text(
      "layer { name: 'p' type: 'DataHeatmap' top: 'data' top: 'label' heatmap_data_param { source: '/none' "
      "batchsize: 4 cropsize: 20 outsize: 32 label_width: 8 label_height: 16 " +
          settings +
          " } }\n"
          "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c' convolution_param { num_output: 7 "
          "kernel_size: 1 } }\n"
          "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }\n" +
          loss,
      "heatmaps.prototxt");
}

TEST(StandInHeatmaps, HaveTheSizesThatTheSettingsGive) {
  const std::string loss =
      "layer { name: 'l' type: 'EuclideanLossHeatmap' bottom: 'c' bottom: 'label' bottom: 'data' top: 'l' }";
  const caffe::NetParameter net = net_of("", loss);
  EXPECT_EQ(missing_source(net.layer(0)), "/none");
  EXPECT_EQ(shape_of_missing(net.layer(0)), (Shape{4, 3, 32, 32}));
  const std::map<std::string, Shape> images{{"data", Shape{2, 3, 32, 32}}};
  EXPECT_EQ(stand_in_shapes(net.layer(0), images, &net), (std::vector<Shape>{{2, 3, 32, 32}, {2, 7, 16, 8}}));
  EXPECT_EQ(joints_of_missing(net.layer(0), nullptr), 0);
  EXPECT_EQ(stand_in_shapes(net.layer(0), images)[1], (Shape{2, 1, 16, 8}));
  const caffe::NetParameter chosen = net_of("labelinds: '1,2,5,6'", loss);
  EXPECT_EQ(stand_in_shapes(chosen.layer(0), images, &chosen)[1], (Shape{2, 2, 16, 8}));
  const caffe::NetParameter alone = net_of("", "");
  EXPECT_EQ(joints_of_missing(alone.layer(0), &alone), 0);
  caffe::NetParameter made = net;
  EXPECT_EQ(make_up_data(made, images).size(), 1u);
  EXPECT_EQ(made.layer(0).dummy_data_param().shape(1).dim(1), 7);
}

TEST(StandInHeatmaps, SettingsWithoutSizesGiveNone) {
  caffe::NetParameter net = net_of("", "");
  net.mutable_layer(0)->mutable_heatmap_data_param()->clear_outsize();
  EXPECT_EQ(shape_of_missing(net.layer(0)).axes(), 0);
}

}  // namespace
}  // namespace banyan
