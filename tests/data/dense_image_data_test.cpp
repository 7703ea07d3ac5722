// DenseImageData (SegNet, ENet): images with labels of the same size, or with smaller ones.
#include <set>

#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"

namespace banyan::data {
namespace {

using testing::HasSubstr;

/// Pixel (y, x): 10 y + x in each channel.
Image dense_numbers(int channels, int height, int width, int factor = 1) {
  Image image{channels, height, width, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c)
        image.pixels.push_back(static_cast<std::uint8_t>(factor * (10 * y + x)));
  return image;
}

class DenseImageData : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    write_file(path("a.png"), encode_image(dense_numbers(3, 6, 8), "png"));
    write_file(path("labels.png"), encode_image(dense_numbers(1, 6, 8), "png"));
    write_file(path("small.png"), encode_image(dense_numbers(1, 3, 4, 2), "png"));
    write_file(path("list"), std::string("a.png labels.png\n"));
  }
  std::string text(const std::string& more, const std::string& transform = "", int batch = 1) {
    return "name: 'd' type: 'DenseImageData' top: 'data' top: 'label' dense_image_data_param { source: '" +
           path("list") + "' root_folder: '" + folder_ + "/' batch_size: " + std::to_string(batch) + " " +
           more + " } transform_param { " + transform + " }";
  }
  std::string refusal(const std::string& more, const std::string& transform = "", int batch = 1) {
    return bad_input_of([&] { Replica(text(more, transform, batch)).step(); });
  }
};

TEST_F(DenseImageData, HasALabelForEachPixel) {
  Replica replica(text("", "scale: 0.5 mean_value: 2"));
  replica.step();
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 3, 6, 8}));
  EXPECT_EQ(replica.outputs[1]->shape, (Shape{1, 1, 6, 8}));
  EXPECT_EQ(replica.values(1)[19], 23);
  EXPECT_EQ(replica.values(0)[19], 10.5);
  Replica gray(text("is_color: false"));
  gray.step();
  EXPECT_EQ(gray.outputs[0]->shape, (Shape{1, 1, 6, 8}));
}

/// Each square has the label of the pixel that is nearest to its centre.
TEST_F(DenseImageData, HasALabelForEachSquare) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Replica replica(text("new_height: 6 new_width: 8 label_divide_factor: 2"), 0, 1, Phase::train, true,
                    dtype);
    replica.step();
    EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 3, 6, 8}));
    EXPECT_EQ(replica.outputs[1]->shape, (Shape{1, 1, 3, 4}));
    EXPECT_EQ(replica.values(1), (std::vector<double>{11, 13, 15, 17, 31, 33, 35, 37, 51, 53, 55, 57}));
  }
}

/// Sides are rounded down: 7 / 3 and 10 / 3.
TEST_F(DenseImageData, ResizesImagesAndLabels) {
  Replica replica(text("new_height: 7 new_width: 10 label_divide_factor: 3"));
  replica.step();
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 3, 7, 10}));
  EXPECT_EQ(replica.outputs[1]->shape, (Shape{1, 1, 2, 3}));
}

TEST_F(DenseImageData, LabelsThatAreResizedMayHaveAnySize) {
  write_file(path("list"), std::string("a.png small.png\n"));
  Replica replica(text("new_height: 6 new_width: 8"));
  replica.step();
  EXPECT_EQ(replica.outputs[1]->shape, (Shape{1, 1, 6, 8}));
  EXPECT_EQ(replica.values(1)[0], 0);
  EXPECT_EQ(replica.values(1)[47], 46);
}

TEST_F(DenseImageData, WithoutNewSizesLabelsAreStoredAsTheyAreWanted) {
  EXPECT_THAT(refusal("label_divide_factor: 2"),
              HasSubstr("expected the size of its image, divided by 2, 3 x 4, found 6 x 8"));
  write_file(path("list"), std::string("a.png small.png\n"));
  EXPECT_THAT(refusal(""), HasSubstr("expected the size of its image, 6 x 8, found 3 x 4"));
  Replica replica(text("label_divide_factor: 2"));
  replica.step();
  EXPECT_EQ(replica.values(1), (std::vector<double>{0, 2, 4, 6, 20, 22, 24, 26, 40, 42, 44, 46}));
  EXPECT_THAT(refusal("label_divide_factor: 9"), HasSubstr("divided by 9, 0 x 0, found 3 x 4"));
}

/// A label is twice the pixel above it, read from either side.
TEST_F(DenseImageData, MirrorsImagesAndSmallerLabelsTogether) {
  write_file(path("list"), std::string("a.png small.png\n"));
  for (const bool channels_last : {false, true}) {
    Replica replica(text("label_divide_factor: 2", "mirror: true", 40), 0, 1, Phase::train, channels_last);
    replica.step();
    const std::vector<double> pixels = replica.values(0), labels = replica.values(1);
    std::set<bool> seen;
    for (std::size_t i = 0; i < 40; ++i) {
      const bool mirrored = pixels[i * 144] == 7;
      seen.insert(mirrored);
      for (std::size_t x = 0; x < 4; ++x) {
        const double column = static_cast<double>(mirrored ? 3 - x : x);
        ASSERT_EQ(labels[i * 12 + x], 2 * column);
        ASSERT_EQ(labels[i * 12 + 4 + x], 20 + 2 * column);
      }
    }
    EXPECT_EQ(seen.size(), 2u);
  }
}

TEST_F(DenseImageData, CutsImagesAndLabelsTogether) {
  Replica replica(text("", "crop_height: 4 crop_width: 5 mirror: true", 50));
  std::set<double> corners;
  replica.step();
  const std::vector<double> pixels = replica.values(0), labels = replica.values(1);
  ASSERT_EQ(labels.size(), 1000u);
  for (std::size_t i = 0; i < 50; ++i) {
    corners.insert(labels[i * 20]);
    for (std::size_t at = 0; at < 20; ++at) ASSERT_EQ(pixels[i * 60 + at], labels[i * 20 + at]);
  }
  EXPECT_GE(corners.size(), 12u);
  Replica test(text("", "crop_size: 4"), 0, 1, Phase::test);
  test.step();
  EXPECT_EQ(test.values(1)[0], 12);
}

/// caffe-segnet-cudnn5 mirrors and cuts in every phase.
TEST_F(DenseImageData, OwnSettingsMirrorAndCutInEveryPhase) {
  for (const Phase phase : {Phase::train, Phase::test}) {
    Replica replica(text("mirror: true crop_height: 4 crop_width: 5", "", 60), 0, 1, phase);
    replica.step();
    EXPECT_EQ(replica.outputs[0]->shape, (Shape{60, 3, 4, 5}));
    const std::vector<double> pixels = replica.values(0), labels = replica.values(1);
    std::set<double> corners;
    int mirrored = 0;
    for (std::size_t i = 0; i < 60; ++i) {
      for (std::size_t at = 0; at < 20; ++at) ASSERT_EQ(pixels[i * 60 + at], labels[i * 20 + at]);
      const double* const label = labels.data() + i * 20;
      const bool turned = label[1] < label[0];
      mirrored += turned;
      for (int y = 0; y < 4; ++y)
        for (int x = 0; x < 5; ++x) ASSERT_EQ(label[5 * y + x], label[0] + 10 * y + (turned ? -x : x));
      corners.insert(turned ? label[4] : label[0]);
    }
    EXPECT_EQ(corners.size(), 12u);
    EXPECT_GT(mirrored, 15);
    EXPECT_LT(mirrored, 45);
  }
}

TEST_F(DenseImageData, OwnDrawsAreTheSameForAnyNumberOfDevices) {
  const std::string more = "mirror: true crop_height: 2 crop_width: 3";
  Replica whole(text(more, "", 4));
  Replica first(text(more, "", 2), 0, 2), second(text(more, "", 2), 1, 2);
  for (int step = 0; step < 4; ++step) {
    for (Replica* replica : {&whole, &first, &second}) replica->step();
    const std::vector<double> all = whole.values(1);
    const std::vector<double> parts[] = {first.values(1), second.values(1)};
    ASSERT_EQ(all.size(), 24u);
    for (std::size_t at = 0; at < all.size(); ++at)
      ASSERT_EQ(parts[at / 6 % 2][at / 12 * 6 + at % 6], all[at]) << step;
  }
}

TEST_F(DenseImageData, TwoDevicesShareTheBatch) {
  std::string lines;
  for (int i = 0; i < 5; ++i) {
    const std::string name = "labels" + std::to_string(i) + ".png";
    Image labels = dense_numbers(1, 3, 4);
    for (auto& pixel : labels.pixels) pixel = static_cast<std::uint8_t>(pixel + 50 * i);
    write_file(path(name), encode_image(labels, "png"));
    lines += "a.png " + name + "\n";
  }
  write_file(path("list"), lines);
  const std::string more = "label_divide_factor: 2 shuffle: true", transform = "mirror: true";
  Replica whole(text(more, transform, 4));
  Replica first(text(more, transform, 2), 0, 2), second(text(more, transform, 2), 1, 2);
  for (int step = 0; step < 4; ++step) {
    for (Replica* replica : {&whole, &first, &second}) replica->step();
    for (const std::size_t output : {0, 1}) {
      const std::vector<double> all = whole.values(output);
      const std::vector<double> parts[] = {first.values(output), second.values(output)};
      ASSERT_EQ(parts[0].size() + parts[1].size(), all.size());
      // One item after the other goes to the one or the other.
      const std::size_t item = all.size() / 4;
      for (std::size_t at = 0; at < all.size(); ++at)
        ASSERT_EQ(parts[at / item % 2][at / item / 2 * item + at % item], all[at]) << step;
    }
  }
}

TEST_F(DenseImageData, RefusesWhatDoesNotFit) {
  EXPECT_THAT(refusal("label_divide_factor: 0"),
              HasSubstr("dense_image_data_param.label_divide_factor must be positive, not 0"));
  EXPECT_THAT(refusal("new_height: 6 new_width: 4 label_divide_factor: 5"),
              HasSubstr("label_divide_factor is 5, more than new_height or new_width"));
  EXPECT_THAT(refusal("label_divide_factor: 2", "crop_size: 4"), HasSubstr("goes without a crop"));
  EXPECT_THAT(refusal("label_divide_factor: 2", "crop_height: 4 crop_width: 4"),
              HasSubstr("goes without a crop"));
  EXPECT_THAT(refusal("new_height: 6 new_width: 8 crop_height: 4 crop_width: 9"),
              HasSubstr("crop_width must not exceed new_height and new_width"));
  EXPECT_THAT(refusal("new_height: 6"), HasSubstr("must set both of new_height and new_width"));
  EXPECT_THAT(refusal("new_height: 6 new_width: 40000"), HasSubstr("of at most 32768"));
  EXPECT_THAT(refusal("crop_height: 4"), HasSubstr("must set both of crop_height and crop_width"));
  EXPECT_THAT(refusal("crop_height: 4 crop_width: 40000"), HasSubstr("of at most 32768"));
  EXPECT_THAT(refusal("crop_height: 4 crop_width: 4", "crop_size: 2"),
              HasSubstr("crop_height and a crop of transform_param exclude each other"));
  EXPECT_THAT(refusal("mirror: true", "mirror: true"),
              HasSubstr("transform_param.mirror exclude each other"));
  EXPECT_THAT(refusal("crop_height: 4 crop_width: 4 label_divide_factor: 2"), HasSubstr("without a crop"));
  EXPECT_THAT(refusal("crop_height: 7 crop_width: 4"),
              HasSubstr("the crop, 7 x 4, is larger than the image (6 x 8)"));
  EXPECT_THAT(refusal("", "", 0), HasSubstr("dense_image_data_param.batch_size must be positive"));
  EXPECT_THAT(refusal("", "mean_file: 'm'"), HasSubstr("mean_file is not supported for images with label"));
  EXPECT_THAT(bad_input_of([&] { Replica("name: 'd' type: 'DenseImageData' top: 'a' top: 'b'"); }),
              HasSubstr("dense_image_data_param.source is missing"));
}

}  // namespace
}  // namespace banyan::data
