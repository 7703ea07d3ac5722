// The ImageSegData layer.

#include "banyan/data/segmentation.hpp"

#include <set>

#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"

namespace banyan::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Pixel (y, x): 10 y + x in each channel; its label is the same.
Image numbered(int channels, int height, int width) {
  Image image{channels, height, width, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c) image.pixels.push_back(static_cast<std::uint8_t>(10 * y + x));
  return image;
}

class ImageSegData : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    write_file(path("a.png"), encode_image(numbered(3, 6, 8), "png"));
    write_file(path("a_labels.png"), encode_image(numbered(1, 6, 8), "png"));
    write_file(path("list"), std::string("a.png a_labels.png\n"));
  }
  std::string text(const std::string& more, const std::string& transform, int batch = 1) {
    return "name: 's' type: 'ImageSegData' top: 'data' top: 'label' top: 'size' image_data_param { source: "
           "'" +
           path("list") + "' root_folder: '" + folder_ + "/' batch_size: " + std::to_string(batch) + " " +
           more + " } transform_param { " + transform + " }";
  }
  std::string refusal(const std::string& text) {
    return bad_input_of([&] { Replica(text).step(); });
  }
};

TEST_F(ImageSegData, WholeImagesWithTheirLabels) {
  Replica replica(text("label_type: PIXEL", "scale: 0.5 mean_value: 1 mean_value: 2 mean_value: 3"));
  replica.step();
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 3, 6, 8}));
  EXPECT_EQ(replica.outputs[1]->shape, (Shape{1, 1, 6, 8}));
  EXPECT_EQ(replica.outputs[2]->shape, (Shape{1, 1, 1, 2}));
  EXPECT_EQ(replica.values(2), (std::vector<double>{6, 8}));
  for (int y = 0; y < 6; ++y)
    for (int x = 0; x < 8; ++x) {
      const auto at = static_cast<std::size_t>(y * 8 + x);
      EXPECT_EQ(replica.values(1)[at], 10 * y + x);
      for (std::size_t c = 0; c < 3; ++c)
        EXPECT_EQ(replica.values(0)[c * 48 + at], 0.5 * (10 * y + x - static_cast<double>(c + 1)));
    }
}

/// Image and labels hold the same numbers, so they agree wherever the crop is and however it is mirrored.
TEST_F(ImageSegData, ImageAndLabelsAreCutAndMirroredTogether) {
  for (const bool channels_last : {false, true}) {
    Replica replica(text("label_type: PIXEL", "crop_height: 4 crop_width: 5 mirror: true", 50), 0, 1,
                    Phase::train, channels_last);
    std::set<double> corners;
    replica.step();
    const std::vector<double> pixels = replica.values(0), labels = replica.values(1);
    for (std::size_t i = 0; i < 50; ++i) {
      corners.insert(labels[i * 20]);
      for (std::size_t at = 0; at < 20; ++at) ASSERT_EQ(pixels[i * 60 + at], labels[i * 20 + at]);
    }
    EXPECT_GE(corners.size(), 12u);  // of 3 x 4 places, each mirrored or not
  }
}

TEST_F(ImageSegData, TestsCutTheMiddle) {
  Replica replica(text("label_type: PIXEL", "crop_size: 4"), 0, 1, Phase::test);
  replica.step();
  EXPECT_EQ(replica.values(1)[0], 12);  // row 1, column 2
}

TEST_F(ImageSegData, SmallImagesAreEnlargedBelowAndToTheRight) {
  Replica replica(
      text("label_type: PIXEL ignore_label: 77", "crop_height: 8 crop_width: 9 mean_value: 100.4"));
  replica.step();
  const std::vector<double> pixels = replica.values(0), labels = replica.values(1);
  for (int y = 0; y < 8; ++y)
    for (int x = 0; x < 9; ++x) {
      const bool inside = y < 6 && x < 8;
      const auto at = static_cast<std::size_t>(y * 9 + x);
      EXPECT_EQ(labels[at], inside ? 10 * y + x : 77);
      EXPECT_NEAR(pixels[at], (inside ? 10 * y + x : 100) - 100.4, 1e-5);
    }
}

/// Twice as large: every label four times, in the place of its pixel.
TEST_F(ImageSegData, LabelsAreNeverMixed) {
  Replica replica(text("label_type: PIXEL", "scale_factors: 2 crop_height: 12 crop_width: 16"));
  replica.step();
  for (int y = 0; y < 12; ++y)
    for (int x = 0; x < 16; ++x)
      EXPECT_EQ(replica.values(1)[static_cast<std::size_t>(y * 16 + x)], 10 * (y / 2) + x / 2);
  EXPECT_EQ(replica.values(2), (std::vector<double>{6, 8}));
  Replica resized(text("label_type: PIXEL new_height: 3 new_width: 4", ""));
  resized.step();
  EXPECT_EQ(resized.outputs[0]->shape, (Shape{1, 3, 3, 4}));
  EXPECT_EQ(resized.values(1)[5], 33);  // rows 1, 3, 5 and columns 1, 3, 5, 7
}

TEST_F(ImageSegData, OneLabelForAllPixelsOrNone) {
  write_file(path("list"), std::string("a.png 7\n"));
  Replica one(text("label_type: IMAGE", ""));
  one.step();
  EXPECT_EQ(one.values(1), std::vector<double>(48, 7));
  write_file(path("list"), std::string("a.png\n"));
  Replica none(text("label_type: NONE is_color: false ignore_label: 9", ""));
  none.step();
  EXPECT_EQ(none.values(1), std::vector<double>(48, 9));
  EXPECT_EQ(none.outputs[0]->shape, (Shape{1, 1, 6, 8}));
}

TEST_F(ImageSegData, SeveralDevicesTogetherAreOne) {
  write_file(path("b.png"), encode_image(numbered(3, 5, 9), "png"));
  write_file(path("b_labels.png"), encode_image(numbered(1, 5, 9), "png"));
  write_file(path("list"), std::string("a.png a_labels.png\nb.png b_labels.png\na.png a_labels.png\n"));
  const std::string more = "label_type: PIXEL shuffle: true",
                    transform = "crop_size: 4 mirror: true scale_factors: 1 scale_factors: 1.5";
  Replica one(text(more, transform, 4)), first(text(more, transform, 2), 0, 2),
      second(text(more, transform, 2), 1, 2);
  for (int k = 0; k < 6; ++k) {
    one.step();
    first.step();
    second.step();
    for (const std::size_t output : {0u, 1u, 2u}) {
      const std::vector<double> whole = one.values(output);
      const std::size_t each = whole.size() / 4;
      for (std::size_t i = 0; i < 4; ++i) {
        const std::vector<double> part = (i % 2 == 0 ? first : second).values(output);
        for (std::size_t at = 0; at < each; ++at) ASSERT_EQ(part[i / 2 * each + at], whole[i * each + at]);
      }
    }
  }
}

TEST_F(ImageSegData, RefusesWhatDoesNotFit) {
  EXPECT_THAT(refusal(text("label_type: IMAGE", "")), HasSubstr("list:1: expected a label from 0 to 255"));
  EXPECT_THAT(refusal(text("label_type: NONE", "")), HasSubstr("list:1: expected the path of an image"));
  EXPECT_THAT(refusal(text("label_type: PIXEL ignore_label: 256", "")),
              HasSubstr("ignore_label must be in [0, 255]"));
  EXPECT_THAT(refusal(text("label_type: PIXEL", "mean_file: 'x'")), HasSubstr("mean_file is not supported"));
  EXPECT_THAT(refusal(text("label_type: PIXEL", "crop_height: 3")), HasSubstr("crop_height and crop_width"));
  EXPECT_THAT(refusal(text("label_type: PIXEL", "crop_size: 3 crop_height: 3 crop_width: 3")),
              HasSubstr("cannot be set together"));
  EXPECT_THAT(refusal(text("label_type: PIXEL", "scale_factors: 2")), HasSubstr("scale_factors need a crop"));
  EXPECT_THAT(refusal(text("label_type: PIXEL", "scale_factors: -1 crop_size: 2")), HasSubstr("not -1"));
  write_file(path("a_labels.png"), encode_image(numbered(1, 6, 7), "png"));
  EXPECT_THAT(refusal(text("label_type: PIXEL", "")),
              AllOf(HasSubstr("a_labels.png"), HasSubstr("6 x 8"), HasSubstr("found 6 x 7")));
  write_file(path("a_labels.png"), encode_image(numbered(3, 6, 8), "png"));
  EXPECT_THAT(refusal(text("label_type: PIXEL", "")), HasSubstr("found colours"));
  write_file(path("a_labels.png"), std::string("x"));
  EXPECT_THAT(refusal(text("label_type: PIXEL", "")), HasSubstr("a_labels.png"));
  write_file(path("a.png"), encode_image(Image{1, 1, 600, std::vector<std::uint8_t>(600)}, "png"));
  write_file(path("a_labels.png"), encode_image(Image{1, 1, 600, std::vector<std::uint8_t>(600)}, "png"));
  EXPECT_THAT(refusal(text("label_type: PIXEL", "scale_factors: 60 crop_size: 2")),
              HasSubstr("60 times 1 x 600"));
  write_file(path("list"), std::string("\n"));
  EXPECT_THAT(refusal(text("label_type: PIXEL", "")), HasSubstr("lists no images"));
}

}  // namespace
}  // namespace banyan::data
