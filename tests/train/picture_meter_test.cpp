#include "train/picture_meter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "banyan/data/image_codec.hpp"
#include "banyan/tensor/values.hpp"
#include "train/part_bench.hpp"

namespace banyan {
namespace {

data::Image decoded(const metrics::Pictures::Picture& picture) {
  data::Image image;
  data::decode_image(picture.png.data(), picture.png.size(), data::ColorMode::as_stored, image);
  EXPECT_EQ(image.width, picture.width);
  EXPECT_EQ(image.height, picture.height);
  EXPECT_EQ(image.channels, picture.channels);
  return image;
}

/// Each value is a block of 12 x 12 pixels, because the picture would be too narrow otherwise.
TEST(Draw, GrayFromBlackToWhite) {
  const auto picture = draw_picture({"a", Shape{1, 1, 2, 2}, {-1, 0, 1, 3}, false});
  const data::Image image = decoded(picture);
  EXPECT_EQ(image.channels, 1);
  EXPECT_EQ(image.width, 24);
  EXPECT_EQ(image.height, 24);
  const auto at = [&](int y, int x) { return int{image.pixels[static_cast<std::size_t>(y * 24 + x)]}; };
  EXPECT_EQ(at(0, 0), 0);
  EXPECT_EQ(at(11, 12), 64);  // 255 / 4, rounded
  EXPECT_EQ(at(12, 11), 128);
  EXPECT_EQ(at(23, 23), 255);
}

TEST(Draw, FiltersHaveZeroInTheMiddle) {
  const data::Image image = decoded(draw_picture({"a", Shape{1, 1, 1, 3}, {-1, 0, 2}, true}));
  EXPECT_EQ(image.pixels[0], 64);
  EXPECT_EQ(image.pixels[8], 128);
  EXPECT_EQ(image.pixels[23], 255);
}

TEST(Draw, ColoursAreBlueGreenRedAndSamplesSideBySide) {
  std::vector<double> values(2 * 3 * 30 * 30, 0);
  std::fill(values.begin(), values.begin() + 900, 1);    // the first one is blue
  std::fill(values.begin() + 5 * 900, values.end(), 1);  // the second one red
  const data::Image image = decoded(draw_picture({"a", Shape{2, 3, 30, 30}, values, false}));
  EXPECT_EQ(image.channels, 3);
  EXPECT_EQ(image.width, 62);
  EXPECT_EQ(image.height, 30);
  const auto pixel = [&](int x) {
    return std::vector<int>(image.pixels.begin() + 3 * x, image.pixels.begin() + 3 * x + 3);
  };
  EXPECT_THAT(pixel(0), testing::ElementsAre(255, 0, 0));
  EXPECT_THAT(pixel(30), testing::ElementsAre(128, 128, 128));
  EXPECT_THAT(pixel(61), testing::ElementsAre(0, 0, 255));
}

TEST(Draw, OtherNumbersOfChannelsAreRowsOfGrayOnes) {
  const data::Image image =
      decoded(draw_picture({"a", Shape{3, 5, 30, 40}, std::vector<double>(3 * 5 * 1200, 1), false}));
  EXPECT_EQ(image.channels, 1);
  EXPECT_EQ(image.width, 5 * 42 - 2);
  EXPECT_EQ(image.height, 3 * 32 - 2);
}

TEST(Draw, WhatIsNotFiniteIsBlack) {
  const data::Image image = decoded(draw_picture({"a", Shape{1, 1, 1, 2}, {std::nan(""), 5}, false}));
  EXPECT_EQ(image.pixels[0], 0);
}

const char* const kPicturedNet = R"(
layer { name: "in" type: "DummyData" top: "in" top: "label"
        dummy_data_param { shape { dim: 12 dim: 3 dim: 4 dim: 5 } shape { dim: 12 }
                           data_filler { type: "gaussian" std: 1 } data_filler { value: 1 } } }
layer { name: "conv" type: "Convolution" bottom: "in" top: "conv"
        convolution_param { num_output: 2 kernel_size: 3 weight_filler { type: "gaussian" std: 1 } } }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip" inner_product_param { num_output: 3 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" })";

TEST(PictureMeter, DrawsInputsAndFirstFilters) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    PartBench bench;
    const auto net = bench.net(kPicturedNet, Phase::train, dtype);
    Pass pass = bench.pass();
    net->forward(pass);
    PictureMeter meter(bench.context, *net);
    EXPECT_FALSE(meter.empty());
    auto make = meter.take();
    ASSERT_TRUE(make);
    const metrics::Pictures pictures = make();
    ASSERT_EQ(pictures.pictures.size(), 2u);
    EXPECT_EQ(pictures.pictures[0].tag, "input/in");
    EXPECT_EQ(pictures.pictures[1].tag, "filters/conv");
    // What is drawn are the values, whatever their order in memory; of the samples the first eight.
    Values in = values_of(bench.context, net->find_blob("in")->data);
    in.values.resize(8 * 3 * 4 * 5);
    EXPECT_EQ(pictures.pictures[0].png, draw_picture({"", Shape{8, 3, 4, 5}, in.values, false}).png);
    const Values filters = values_of(bench.context, net->parameters()[0].value);
    EXPECT_EQ(pictures.pictures[1].png, draw_picture({"", filters.shape, filters.values, true}).png);
  }
}

TEST(PictureMeter, LeavesOutWhatComesTooEarly) {
  PartBench bench;
  const auto net = bench.net(kPicturedNet);
  Pass pass = bench.pass();
  net->forward(pass);
  PictureMeter meter(bench.context, *net);
  auto make = meter.take();
  EXPECT_FALSE(meter.take());
  make = nullptr;  // drawn, or dropped
  EXPECT_TRUE(meter.take());
}

TEST(PictureMeter, FindsNothingInANetWithoutImages) {
  PartBench bench;
  const auto net = bench.net(kLossNet);
  EXPECT_TRUE(PictureMeter(bench.context, *net).empty());
}

}  // namespace
}  // namespace banyan
