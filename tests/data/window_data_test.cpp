// The WindowData layer.

#include <algorithm>
#include <set>

#include "banyan/data/window_list.hpp"
#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Image k, 10 x 12: pixel (y, x, c) is 100 k + 8 y + 3 x / 2 + c.
Image numbered_image(int k) {
  Image image{3, 10, 12, {}};
  for (int y = 0; y < 10; ++y)
    for (int x = 0; x < 12; ++x)
      for (int c = 0; c < 3; ++c)
        image.pixels.push_back(static_cast<std::uint8_t>(100 * k + 8 * y + 3 * x / 2 + c));
  return image;
}

class WindowData : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    for (int k = 0; k < 2; ++k)
      write_file(path(std::to_string(k) + ".png"), encode_image(numbered_image(k), "png"));
  }
  /// Windows of each image, one per line: label overlap x1 y1 x2 y2.
  void list(const std::vector<std::vector<std::string>>& windows) {
    std::string text;
    for (std::size_t k = 0; k < windows.size(); ++k) {
      text += cat("# ", k, "\n", k, ".png\n3\n10\n12\n", windows[k].size(), "\n");
      for (const std::string& window : windows[k]) text += window + "\n";
    }
    write_file(path("windows"), text);
  }
  void usual_list() {
    list({{"1 1 0 0 3 3", "2 0.7 4 4 9 8", "3 0.2 1 1 8 8", "0 0 5 0 11 4"},
          {"4 0.5 2 2 6 9", "7 0.49 0 0 11 9"}});
  }
  std::string text(int batch, const std::string& more = "", const std::string& transform = "crop_size: 4") {
    return "name: 'w' type: 'WindowData' top: 'data' top: 'label' window_data_param { source: '" +
           path("windows") + "' root_folder: '" + folder_ + "/' batch_size: " + std::to_string(batch) + " " +
           more + " } transform_param { " + transform + " }";
  }
  std::string refusal(const std::string& text) {
    return bad_input_of([&] { Replica(text).step(); });
  }
};

TEST_F(WindowData, EveryBatchHasItsShareOfObjects) {
  usual_list();
  Replica replica(text(8));
  std::set<int> seen;
  for (int k = 0; k < 20; ++k) {
    const std::vector<int> labels = replica.step();
    EXPECT_EQ(replica.outputs[0]->shape, (Shape{8, 3, 4, 4}));
    for (int i = 0; i < 8; ++i) EXPECT_EQ(labels[static_cast<std::size_t>(i)] > 0, i >= 6) << i;
    seen.insert(labels.begin(), labels.end());
  }
  EXPECT_EQ(seen, (std::set<int>{0, 1, 2, 4}));  // 3 and 7 overlap too little
}

/// As large as the crop: nothing is resized.
TEST_F(WindowData, PixelsAreThoseOfTheWindow) {
  list({{"1 1 2 3 5 6"}});
  Replica replica(
      text(2, "fg_fraction: 1", "crop_size: 4 scale: 0.5 mean_value: 1 mean_value: 2 mean_value: 3"));
  EXPECT_EQ(replica.step(), (std::vector<int>{1, 1}));
  const std::vector<double> values = replica.values(0);
  const Image image = numbered_image(0);
  for (int c = 0; c < 3; ++c)
    for (int y = 0; y < 4; ++y)
      for (int x = 0; x < 4; ++x)
        EXPECT_EQ(values[static_cast<std::size_t>((c * 4 + y) * 4 + x)],
                  0.5 * (image.pixels[static_cast<std::size_t>(((y + 3) * 12 + x + 2) * 3 + c)] - (c + 1)));
}

TEST_F(WindowData, MirrorsHalfOfThem) {
  list({{"1 1 2 3 5 6"}});
  Replica replica(text(200, "fg_fraction: 1", "crop_size: 4 mirror: true"));
  replica.step();
  const std::vector<double> values = replica.values(0);
  int mirrored = 0;
  for (std::size_t i = 0; i < 200; ++i) mirrored += values[i * 48] > values[i * 48 + 3] ? 1 : 0;
  EXPECT_NEAR(mirrored, 100, 35);  // 5 deviations
}

/// A window of 4 x 4 in the corner, doubled by context: rows and columns -2 to 6 of the image, of which -2
/// and -1 do not exist. These 9 become 8, so that 2 are empty and 6 hold the other 7.
TEST_F(WindowData, ContextOutsideOfTheImageIsZero) {
  list({{"1 1 0 0 3 3"}});
  Replica replica(text(1, "fg_fraction: 1 context_pad: 2", "crop_size: 8 mean_value: 1000"));
  replica.step();
  const Image image = numbered_image(0);
  Image part{3, 7, 7, {}}, warped;
  for (int y = 0; y < 7; ++y)
    part.pixels.insert(part.pixels.end(), image.pixels.begin() + y * 36, image.pixels.begin() + y * 36 + 21);
  resize_bilinear(part, 6, 6, warped);
  const std::vector<double> values = replica.values(0);
  for (int c = 0; c < 3; ++c)
    for (int y = 0; y < 8; ++y)
      for (int x = 0; x < 8; ++x) {
        const double found = values[static_cast<std::size_t>((c * 8 + y) * 8 + x)];
        if (y < 2 || x < 2)
          EXPECT_EQ(found, 0) << y << " " << x;
        else
          EXPECT_EQ(found, warped.pixels[static_cast<std::size_t>(((y - 2) * 6 + x - 2) * 3 + c)] - 1000.0);
      }
}

/// 3 x 7 around the column 5.5 become 7 (8, by Caffe's rounding) x 7.
TEST_F(WindowData, SquareTakesTheLongerSide) {
  list({{"1 1 4 1 6 7"}});
  Replica replica(text(1, "fg_fraction: 1 crop_mode: 'square'", "crop_size: 8"));
  replica.step();
  const Image image = numbered_image(0);
  EXPECT_EQ(replica.values(0)[0], image.pixels[(1 * 12 + 2) * 3]);
  EXPECT_EQ(replica.values(0)[7], image.pixels[(1 * 12 + 9) * 3]);
}

TEST_F(WindowData, AMeanImageIsReadFromItsMiddle) {
  list({{"1 1 2 3 5 6"}});
  caffe::BlobProto mean;
  mean.set_num(1);
  mean.set_channels(3);
  mean.set_height(6);
  mean.set_width(8);
  for (int i = 0; i < 144; ++i) mean.add_data(static_cast<float>(i));
  write_file(path("mean"), mean.SerializeAsString());
  Replica replica(text(1, "fg_fraction: 1", "crop_size: 4 mean_file: '" + path("mean") + "'"));
  replica.step();
  const Image image = numbered_image(0);
  const std::vector<double> values = replica.values(0);
  EXPECT_EQ(values[0], image.pixels[(3 * 12 + 2) * 3] - (1 * 8 + 2));
  EXPECT_EQ(values[2 * 16 + 15], image.pixels[(6 * 12 + 5) * 3 + 2] - (2 * 48 + 4 * 8 + 5));
  EXPECT_THAT(refusal(text(1, "fg_fraction: 1", "crop_size: 7 mean_file: '" + path("mean") + "'")),
              HasSubstr("at least crop_size (7)"));
}

/// Item by item: labels and pixels.
std::vector<std::vector<double>> items(const std::string& text, int devices, int steps,
                                       std::uint64_t from = 0) {
  std::vector<std::vector<double>> all;
  for (int rank = 0; rank < devices; ++rank) {
    Replica replica(text, rank, devices);
    if (from > 0) replica.source().seek(from);
    for (int k = 0; k < steps; ++k) {
      const std::vector<int> labels = replica.step();
      const std::vector<double> pixels = replica.values(0);
      const std::size_t count = labels.size(), each = pixels.size() / count;
      all.resize(std::max(all.size(),
                          (static_cast<std::size_t>(k) + 1) * count * static_cast<std::size_t>(devices)));
      for (std::size_t i = 0; i < count; ++i) {
        std::vector<double>& item =
            all[(static_cast<std::size_t>(k) * count + i) * static_cast<std::size_t>(devices) +
                static_cast<std::size_t>(rank)];
        item.assign(pixels.begin() + static_cast<std::ptrdiff_t>(i * each),
                    pixels.begin() + static_cast<std::ptrdiff_t>((i + 1) * each));
        item.push_back(labels[i]);
      }
    }
  }
  return all;
}

TEST_F(WindowData, SeveralDevicesTogetherAreOneAndAnyPositionIsRepeated) {
  usual_list();
  const std::string more = "context_pad: 1", transform = "crop_size: 6 mirror: true";
  const auto one = items(text(12, more, transform), 1, 3);
  for (const int devices : {2, 3})
    EXPECT_EQ(items(text(12 / devices, more, transform), devices, 3), one) << devices;
  EXPECT_EQ(items(text(12, more, transform), 1, 1, 24),
            (std::vector<std::vector<double>>(one.begin() + 24, one.end())));
}

TEST_F(WindowData, CachedImagesAreReadOnce) {
  list({{"1 1 2 3 5 6"}});
  Replica kept(text(1, "fg_fraction: 1 cache_images: true")), read(text(1, "fg_fraction: 1"));
  for (int k = 0; k < 2; ++k) {
    kept.step();
    read.step();
  }
  std::filesystem::remove(path("0.png"));
  for (int k = 0; k < 8; ++k) kept.step();
  EXPECT_THAT(bad_input_of([&] {
                for (int k = 0; k < 8; ++k) read.step();
              }),
              HasSubstr("0.png"));
}

TEST_F(WindowData, RefusesListsThatDoNotFit) {
  list({{"1 1 0 0 12 3"}});
  EXPECT_THAT(refusal(text(4)),
              AllOf(HasSubstr("windows:7: expected a window inside of the image of 10 x 12"),
                    HasSubstr("x 0 to 12")));
  list({{"0 1 0 0 3 3"}});
  EXPECT_THAT(refusal(text(4)), HasSubstr("expected a positive label"));
  list({{"1 1 0 0 3 three"}});
  EXPECT_THAT(refusal(text(4)), HasSubstr("windows:7: expected the window's y2, found \"three\""));
  list({{"1 1 0 0 3 3"}});
  EXPECT_THAT(refusal(text(4)), AllOf(HasSubstr("no background windows"), HasSubstr("needs 3")));
  list({{"1 0 0 0 3 3"}});
  EXPECT_THAT(refusal(text(4)), AllOf(HasSubstr("no foreground windows"), HasSubstr("needs 1")));
  EXPECT_NO_THROW(Replica(text(3)).step());  // of which a quarter is none
  write_file(path("windows"), std::string("# 0 0.png 3 10 12 2 1 1 0 0 3 3"));
  EXPECT_THAT(refusal(text(4)), HasSubstr("found the end of the file"));
  write_file(path("windows"), std::string("0 0.png 3 10 12 0"));
  EXPECT_THAT(refusal(text(4)), HasSubstr("expected \"#\""));
  write_file(path("windows"), std::string("# 0 0.png 1 10 12 0"));
  EXPECT_THAT(refusal(text(4)), HasSubstr("expected 3 channels"));
  write_file(path("windows"), std::string(" "));
  EXPECT_THAT(refusal(text(4)), HasSubstr("lists no images"));
  write_file(path("windows"), std::string("# 0 0.png 3 10 11 1 1 1 0 0 3 3"));
  EXPECT_THAT(refusal(text(1, "fg_fraction: 1")),
              AllOf(HasSubstr("0.png"), HasSubstr("10 x 11"), HasSubstr("10 x 12")));
}

TEST_F(WindowData, RefusesSettingsThatDoNotFit) {
  usual_list();
  EXPECT_THAT(refusal(text(0)), HasSubstr("window_data_param.batch_size"));
  EXPECT_THAT(refusal(text(4, "crop_mode: 'round'")), HasSubstr("crop_mode must be \"warp\" or \"square\""));
  EXPECT_THAT(refusal(text(4, "fg_fraction: 1.5")), HasSubstr("fg_fraction must be in [0, 1]"));
  EXPECT_THAT(refusal(text(4, "context_pad: 2")),
              HasSubstr("context_pad must be less than half of crop_size (4)"));
  EXPECT_THAT(refusal(text(4, "", "scale: 1")), HasSubstr("crop_size is missing"));
  EXPECT_THAT(refusal(text(4, "", "crop_size: 4 pad: 1")), HasSubstr("transform_param"));
  EXPECT_THAT(refusal(text(4, "", "crop_size: 4 mean_value: 1 mean_value: 2")), HasSubstr("1 or 3 values"));
}

}  // namespace
}  // namespace banyan::data
