// The ImageSegData and SegData layers.

#include "banyan/data/segmentation.hpp"

#include <png.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "banyan/base/text.hpp"
#include "banyan/data/datum.hpp"
#include "banyan/data/leveldb.hpp"
#include "banyan/data/record_writer.hpp"
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

TEST_F(ImageSegData, EdgesAreSharesOf255) {
  Image labels{1, 6, 8, {}};
  for (int i = 0; i < 48; ++i)
    labels.pixels.push_back(static_cast<std::uint8_t>(i == 0 ? 127 : i == 1 ? 128 : i));
  write_file(path("a_labels.png"), encode_image(labels, "png"));
  Replica edges(text("label_type: PIXEL label_values: EDGES", "")),
      soft(text("label_type: PIXEL label_values: SOFT_EDGES", ""));
  edges.step();
  soft.step();
  EXPECT_EQ(edges.values(1)[0], 0);
  EXPECT_EQ(edges.values(1)[1], 1);
  EXPECT_EQ(edges.values(1)[2], 0);
  EXPECT_EQ(soft.values(1)[0], 127.0f / 255);
  EXPECT_EQ(soft.values(1)[1], 1);
  EXPECT_EQ(soft.values(1)[47], 47.0f / 255);
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

TEST_F(ImageSegData, ImagesAlone) {
  write_file(path("list"), std::string("a.png\n"));
  std::string alone = text("label_type: NONE", "");
  alone.erase(alone.find("top: 'label'"), std::string_view("top: 'label' top: 'size' ").size());
  Replica replica(alone);
  replica.step();
  ASSERT_EQ(replica.outputs.size(), 1u);
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 3, 6, 8}));
  EXPECT_EQ(replica.values(0)[9], 11);
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

/// A PNG of `bits` per pixel, with a palette or gray.
std::vector<std::uint8_t> stored_png(int type, int bits, int height, int width,
                                     const std::vector<std::uint8_t>& rows) {
  std::vector<std::uint8_t> bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &bytes,
      [](png_structp to, png_bytep from, png_size_t count) {
        auto* all = static_cast<std::vector<std::uint8_t>*>(png_get_io_ptr(to));
        all->insert(all->end(), from, from + count);
      },
      [](png_structp) {});
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), bits, type,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  const png_color colours[4] = {{0, 0, 0}, {128, 0, 0}, {0, 128, 0}, {224, 224, 192}};
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_PLTE(png, info, colours, 4);
  png_write_info(png, info);
  const std::size_t pitch = rows.size() / static_cast<std::size_t>(height);
  for (int y = 0; y < height; ++y) png_write_row(png, rows.data() + static_cast<std::size_t>(y) * pitch);
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

TEST_F(ImageSegData, LabelsAreTheNumbersThatAFileStores) {
  write_file(path("a.png"), encode_image(numbered(3, 1, 4), "png"));
  const auto labels_of = [&](int type, int bits, const std::vector<std::uint8_t>& row) {
    write_file(path("a_labels.png"), stored_png(type, bits, 1, 4, row));
    Replica replica(text("label_type: PIXEL", ""));
    replica.step();
    return replica.values(1);
  };
  const std::vector<double> expected{0, 1, 2, 3};
  EXPECT_EQ(labels_of(PNG_COLOR_TYPE_PALETTE, 8, {0, 1, 2, 3}), expected);
  EXPECT_EQ(labels_of(PNG_COLOR_TYPE_PALETTE, 2, {0x1b}), expected);
  EXPECT_EQ(labels_of(PNG_COLOR_TYPE_GRAY, 2, {0x1b}), expected);
  EXPECT_EQ(labels_of(PNG_COLOR_TYPE_GRAY, 4, {0x01, 0x23}), expected);
  EXPECT_EQ(labels_of(PNG_COLOR_TYPE_GRAY, 1, {0x50}), (std::vector<double>{0, 1, 0, 1}));
  EXPECT_EQ(labels_of(PNG_COLOR_TYPE_GRAY, 16, {0, 0, 0, 1, 0, 2, 0, 3}), expected);
  EXPECT_EQ(labels_of(PNG_COLOR_TYPE_GRAY_ALPHA, 8, {0, 9, 1, 9, 2, 9, 3, 9}), expected);
  EXPECT_EQ(labels_of(PNG_COLOR_TYPE_RGB, 8, {0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3}), expected);
  write_file(path("a_labels.png"), stored_png(PNG_COLOR_TYPE_GRAY, 16, 1, 4, {0, 0, 1, 0, 0, 2, 0, 3}));
  EXPECT_THAT(refusal(text("label_type: PIXEL", "")), HasSubstr("a pixel has the label 256"));
}

class SegData : public ImageSegData {
 protected:
  std::string pairs(const std::string& more, const std::string& transform) {
    return "name: 's' type: 'SegData' top: 'data' top: 'label' seg_data_param { source: '" + path("list") +
           "' root_dir: '" + folder_ + "/' " + more + " } transform_param { " + transform + " }";
  }
};

TEST_F(SegData, SidesAreCutToMultiplesOfAStride) {
  Replica whole(pairs("", "stride: 4 scale: 0.5 mean_value: 2"), 0, 1, Phase::test);
  whole.step();
  EXPECT_EQ(whole.outputs[0]->shape, (Shape{1, 3, 4, 8}));
  EXPECT_EQ(whole.outputs[1]->shape, (Shape{1, 1, 4, 8}));
  EXPECT_EQ(whole.values(1)[0], 10);  // tests cut the middle: row 1
  EXPECT_EQ(whole.values(0)[0], 0.5 * (10 - 2));
  Replica upper(pairs("", "upper_size: 5"));
  EXPECT_EQ(upper.outputs[0]->shape, (Shape{1, 3, 5, 5}));
  Replica both(pairs("", "stride: 2 upper_height: 3 upper_width: 9"));
  EXPECT_EQ(both.outputs[0]->shape, (Shape{1, 3, 3, 8}));
}

TEST_F(SegData, BatchesNeedACrop) {
  Replica replica(pairs("batch_size: 3", "crop_size: 4 mirror: true"));
  replica.step();
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{3, 3, 4, 4}));
  const std::vector<double> pixels = replica.values(0), labels = replica.values(1);
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t at = 0; at < 16; ++at) ASSERT_EQ(pixels[i * 48 + at], labels[i * 16 + at]);
  EXPECT_THAT(refusal(pairs("batch_size: 2", "")), HasSubstr("needs a crop_size"));
}

/// One pixel in the corner of 6 x 8 has another label: of the 35 places of a 2 x 2 part only the first has
/// it.
TEST_F(SegData, BalanceAvoidsPartsOfOneLabel) {
  Image labels{1, 6, 8, std::vector<std::uint8_t>(48, 7)};
  labels.pixels[0] = 1;
  write_file(path("a_labels.png"), encode_image(labels, "png"));
  const auto mixed = [&](const std::string& balance) {
    Replica replica(pairs("batch_size: 1000 " + balance, "crop_size: 2"));
    replica.step();
    const std::vector<double> cut = replica.values(1);
    return std::count(cut.begin(), cut.end(), 1.0);
  };
  // Expected: 1000 / 35 = 29 of one draw, 1000 (1 - (34 / 35)^11) = 273 of up to eleven; bounds are five
  // standard deviations (5.3 and 14.1) away.
  EXPECT_NEAR(static_cast<double>(mixed("")), 29, 27);
  EXPECT_NEAR(static_cast<double>(mixed("balance: true")), 273, 71);
}

TEST_F(SegData, RefusesWhatDoesNotFit) {
  EXPECT_THAT(refusal(pairs("", "crop_size: 7")), HasSubstr("crop_size 7 is larger than the image (6 x 8)"));
  EXPECT_THAT(refusal(pairs("", "stride: 7")), HasSubstr("smaller than stride, 7"));
  EXPECT_THAT(refusal(pairs("", "stride: 0")), HasSubstr("must be positive, not 0"));
  EXPECT_THAT(refusal(pairs("", "upper_height: 7")), HasSubstr("upper_height and upper_width"));
  EXPECT_THAT(refusal(pairs("", "scale_factors: 2")), HasSubstr("scale_factors is not supported"));
  EXPECT_THAT(refusal(text("label_type: PIXEL", "stride: 2")), HasSubstr("stride is not supported"));
  EXPECT_THAT(refusal(text("label_type: PIXEL label_dim: 2", "")), HasSubstr("ImageData only"));
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
  write_file(path("a_labels.png"), encode_image(gradient_image(3, 6, 8), "png"));
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

class ImageLabelData : public ImageSegData {
 protected:
  void SetUp() override {
    ImageSegData::SetUp();
    write_file(path("images"), std::string("a.png\n"));
    write_file(path("labels"), std::string("a_labels.png\n"));
  }
  std::string two(const std::string& more, const std::string& transform) {
    return "name: 's' type: 'ImageLabelData' top: 'data' top: 'label' image_label_data_param { "
           "image_list_path: '" +
           path("images") + "' label_list_path: '" + path("labels") + "' data_dir: '" + folder_ + "/' " +
           more + " } transform_param { " + transform + " }";
  }
};

TEST_F(ImageLabelData, WholeImagesOfTwoLists) {
  Replica replica(two("", "scale: 0.5 mean_value: 2"), 0, 1, Phase::test);
  replica.step();
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 3, 6, 8}));
  EXPECT_EQ(replica.outputs[1]->shape, (Shape{1, 1, 6, 8}));
  for (int y = 0; y < 6; ++y)
    for (int x = 0; x < 8; ++x) {
      const auto at = static_cast<std::size_t>(y * 8 + x);
      EXPECT_EQ(replica.values(1)[at], 10 * y + x);
      EXPECT_EQ(replica.values(0)[48 + at], 0.5 * (10 * y + x - 2));
    }
}

/// Images of 6 x 8 get margins of 2 rows and 1 column, and one row more on each side up to the crop of 12.
TEST_F(ImageLabelData, PadsImagesAndGivesASliceOfTheLabels) {
  const std::string slice = "label_slice { dim: [3, 4] stride: [3, 2] offset: [2, 1] }";
  for (const bool reflects : {true, false}) {
    Replica replica(two(slice + (reflects ? "" : " padding: ZERO"), "crop_size: 12"), 0, 1, Phase::test);
    replica.step();
    EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 3, 12, 12}));
    EXPECT_EQ(replica.outputs[1]->shape, (Shape{1, 1, 3, 4}));
    const auto mirrored = [](int at, int length) {
      return at < 0 ? -at : at >= length ? 2 * (length - 1) - at : at;
    };
    // First as the image with its margins, then as the image.
    const auto pixel = [&](int at, int length, int margin) {
      return mirrored(mirrored(at + margin, length + 2 * margin) - margin, length);
    };
    for (int y = 0; y < 12; ++y)
      for (int x = 0; x < 12; ++x) {
        const int row = y - 3, column = x - 2;  // of the image
        const bool inside = row >= 0 && row < 6 && column >= 0 && column < 8;
        const double expected = inside || reflects ? 10 * pixel(row, 6, 2) + pixel(column, 8, 1) : 0;
        ASSERT_EQ(replica.values(0)[static_cast<std::size_t>(y * 12 + x)], expected) << y << " " << x;
      }
    // Rows 2, 5, 8 of the crop are -1, 2, 5 of the image; columns 1, 3, 5, 7 are -1, 1, 3, 5.
    EXPECT_EQ(replica.values(1), (std::vector<double>{255, 255, 255, 255, 255, 21, 23, 25, 255, 51, 53, 55}));
  }
}

/// As if the image with its margins were mirrored once more.
TEST_F(ImageLabelData, MirrorsTheMarginsOnceMore) {
  Replica replica(two("label_slice { dim: 1 offset: 2 }", "crop_size: 14"), 0, 1, Phase::test);
  replica.step();
  const int rows[] = {0, 1, 2, 1, 0, 1, 2, 3, 4, 5, 4, 3, 4, 5};
  for (std::size_t y = 0; y < 14; ++y)
    EXPECT_EQ(std::floor(replica.values(0)[14 * y + 7] / 10), rows[y]) << y;
}

TEST_F(ImageLabelData, CutsMirrorsAndScalesBothAlike) {
  Replica replica(two("batch_size: 40", "crop_size: 4 mirror: true"));
  replica.step();
  const std::vector<double> pixels = replica.values(0), labels = replica.values(1);
  std::set<double> corners;
  for (std::size_t i = 0; i < 40; ++i) {
    for (std::size_t at = 0; at < 16; ++at) ASSERT_EQ(pixels[i * 48 + at], labels[i * 16 + at]);
    corners.insert(labels[i * 16]);
  }
  EXPECT_GT(corners.size(), 10u);  // of 3 x 5 places and their mirror images
  // The mirror turns the slice around, too.
  Replica sliced(
      two("batch_size: 40 label_slice { dim: 2 stride: 1 offset: 0 }", "crop_size: 4 mirror: true"));
  sliced.step();
  for (std::size_t i = 0; i < 40; ++i)
    for (std::size_t y = 0; y < 2; ++y)
      for (std::size_t x = 0; x < 2; ++x)
        ASSERT_EQ(sliced.values(0)[i * 48 + 4 * y + x], sliced.values(1)[i * 4 + 2 * y + x]);
  // Twice as large: each label of the whole crop is that of a pixel twice as near.
  Replica scaled(two("rand_scale: true min_scale: 2 max_scale: 2", "crop_size: 4"), 0, 1, Phase::test);
  scaled.step();
  // 12 x 16, of which rows 4 to 7 and columns 6 to 9 are cut: pixels 2, 2, 3, 3 and 3, 3, 4, 4.
  EXPECT_EQ(scaled.values(1),
            (std::vector<double>{23, 23, 24, 24, 23, 23, 24, 24, 33, 33, 34, 34, 33, 33, 34, 34}));
}

TEST_F(ImageLabelData, ReadsTwoDatabases) {
  const Image image = numbered(3, 6, 8), labels = numbered(1, 6, 8);
  for (const bool encoded : {true, false})
    for (const std::string backend : {"lmdb", "leveldb"}) {
      if (backend == "leveldb" && !has_leveldb()) continue;
      const std::string images = path(cat(backend, "_images", encoded)),
                        classes = path(cat(backend, "_labels", encoded));
      const auto planar = [](const Image& from) {
        std::vector<std::uint8_t> bytes;
        for (int c = 0; c < from.channels; ++c)
          for (int i = 0; i < from.height * from.width; ++i)
            bytes.push_back(from.pixels[static_cast<std::size_t>(i * from.channels + c)]);
        return bytes;
      };
      const auto store = [&](const std::string& folder, const Image& from) {
        const std::vector<std::uint8_t> bytes = encoded ? encode_image(from, "png") : planar(from);
        const std::string record =
            encoded ? encoded_datum({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, 0)
                    : raw_datum(from.channels, from.height, from.width, bytes.data(), 0);
        const auto writer = make_record_writer(backend, folder, false);
        writer->put("0", record);
        writer->close();
      };
      store(images, image);
      store(classes, labels);
      Replica replica(
          "name: 's' type: 'ImageLabelData' top: 'data' top: 'label' image_label_data_param { "
          "image_list_path: "
          "'" +
              images + "' label_list_path: '" + classes + "' backend: " +
              (backend == "lmdb" ? "LMDB" : "LEVELDB") + " } transform_param { crop_size: 4 }",
          0, 1, Phase::test);
      replica.step();
      EXPECT_EQ(replica.values(1)[0], 12);
      for (std::size_t at = 0; at < 16; ++at) EXPECT_EQ(replica.values(0)[at], replica.values(1)[at]);
    }
}

TEST_F(ImageLabelData, RefusesWhatDoesNotFit) {
  EXPECT_THAT(refusal(two("label_slice { dim: 4 offset: 1 stride: 2 }", "crop_size: 6")),
              HasSubstr("label_slice goes to pixel 7 of a crop of 6"));
  EXPECT_THAT(refusal(two("label_slice { offset: 1 }", "crop_size: 6")),
              HasSubstr("a positive dim and stride"));
  EXPECT_THAT(refusal(two("label_slice { dim: [1, 2, 3] }", "crop_size: 6")), HasSubstr("not for more axes"));
  EXPECT_THAT(refusal(two("rand_scale: true max_scale: 2", "")), HasSubstr("need a crop_size"));
  EXPECT_THAT(refusal(two("rand_scale: true max_scale: 0.5", "crop_size: 4")),
              HasSubstr("the smallest first"));
  EXPECT_THAT(refusal(two("", "crop_height: 4 crop_width: 4")), HasSubstr("crop_width is not supported"));
  std::string folder = two("", "");
  EXPECT_THAT(refusal(folder.replace(folder.find(path("images")), path("images").size(), folder_)),
              HasSubstr("is a folder; databases need a backend"));
  write_file(path("labels"), std::string("a_labels.png\na_labels.png\n"));
  EXPECT_THAT(refusal(two("", "")), HasSubstr("has 1 images, "));
}

}  // namespace
}  // namespace banyan::data
