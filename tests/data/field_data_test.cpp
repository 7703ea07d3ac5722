// The layers ImageGtData and DetectionData, and what the positions of maps shall find.
#include "banyan/data/field_data.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ListedBox listed(int label, const Box& box, bool ignored = false) { return {box, label, ignored, false}; }

/// Number `which` of all positions of a map.
std::vector<double> plane(const std::vector<double>& map, std::size_t which) {
  const auto each = static_cast<std::ptrdiff_t>(map.size() / 6);
  const auto first = map.begin() + static_cast<std::ptrdiff_t>(which) * each;
  return {first, first + each};
}

TEST(FieldLabels, FieldsFindTheBoxThatTheyOverlapMost) {
  FieldRules rules;
  rules.maps = {{10, 10, 10}};
  rules.corners = Corners::points;
  rules.ignore_threshold = 0.5F;
  const FieldFrame frame{10, 60, 0, 0, 10, 60};
  // The first box is a field, the second two thirds of one and ignored, the third in none by more than half.
  const std::vector<ListedBox> boxes{listed(3, {0, 0, 10, 10}), listed(2, {10, 0, 20, 8}, true),
                                     listed(1, {26, 0, 36, 10})};
  const std::vector<Box> regions{{40, 0, 50, 4}, {44, 4, 50, 8}};
  const auto map = field_labels(rules, frame, boxes, regions).at(0);
  // A box of its own: the field around its centre, 31.
  EXPECT_EQ(plane(map, 0), (std::vector<double>{3, 0, 0, 1, 0, 0}));
  EXPECT_EQ(plane(map, 1), (std::vector<double>{5, 15, 0, 31, 0, 0}));
  EXPECT_EQ(plane(map, 3), (std::vector<double>{10, 10, 0, 10, 0, 0}));
  EXPECT_EQ(plane(map, 4), (std::vector<double>{10, 8, 0, 10, 0, 0}));
  const std::vector<double> overlaps = plane(map, 5);
  const std::vector<double> expected{1, 0.8, 4.0 / 16, 6.0 / 14, 1, 0};  // regions cover 64 % of the fifth
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(overlaps[i], expected[i], 1e-6) << i;

  rules.own_threshold = 0.45F;
  EXPECT_EQ(plane(field_labels(rules, frame, boxes, regions).at(0), 0),
            (std::vector<double>{3, 0, 0, 0, 0, 0}));
}

TEST(FieldLabels, CascadeCountsPixelsAndMargins) {
  FieldRules rules;
  rules.maps = {{10, 10, 10}, {20, 18, 18}};
  rules.own_threshold = 0.5F;
  // The image's part is 40 x 20 from (10, 0) on.
  const FieldFrame frame{20, 60, 0, 10, 20, 40};
  const std::vector<ListedBox> boxes{listed(1, {10, 0, 19, 9}), listed(4, {31, 1, 48, 18})};
  const std::vector<Box> regions{{20, 0, 60, 20}};
  auto maps = field_labels(rules, frame, boxes, regions);
  ASSERT_EQ(maps.size(), 2u);
  const std::vector<double> classes = plane(maps[0], 0), overlaps = plane(maps[0], 5);
  ASSERT_EQ(classes.size(), 12u);
  EXPECT_EQ(classes, (std::vector<double>{0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(plane(maps[0], 1)[1], 14.5);
  EXPECT_EQ(plane(maps[0], 3)[1], 10);
  EXPECT_NEAR(overlaps[1], 100.0 / 121, 1e-6);  // a field of 10 has 11 pixels
  for (const std::size_t outside : {0, 5, 6, 11}) EXPECT_EQ(overlaps[outside], 1) << outside;
  for (const std::size_t in_region : {2, 3, 4}) EXPECT_EQ(overlaps[in_region], 1) << in_region;
  // Steps of 20: columns from 1 on (10 / 20, rounded), two of them.
  EXPECT_EQ(plane(maps[1], 0), (std::vector<double>{0, 0, 0}));
  rules.fg_threshold = 0.3F;
  EXPECT_EQ(plane(field_labels(rules, frame, boxes, regions)[1], 0), (std::vector<double>{0, 4, 0}));

  // Fields that reach out of the image by more than a tenth of their half sides.
  rules.margin = 0.1F;
  rules.maps[0].width = rules.maps[0].height = 12;
  EXPECT_EQ(plane(field_labels(rules, frame, {}, {}).at(0), 5),
            (std::vector<double>{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
  rules.margin = 0.2F;
  EXPECT_EQ(plane(field_labels(rules, frame, {}, {}).at(0), 5),
            (std::vector<double>{1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1}));
  rules.margin.reset();
  rules.margin_overlap = 0.9F;  // 12 x 12 of 13 x 13 pixels are in the image at a corner, 12 x 13 beside
  EXPECT_EQ(plane(field_labels(rules, frame, {}, {}).at(0), 5),
            (std::vector<double>{1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1}));
}

/// An image whose box has the value 200, all else 100.
Image boxed_image(int height, int width, const Box& box) {
  Image image{3, height, width, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      const bool inside = x >= box.x1 && x <= box.x2 && y >= box.y1 && y <= box.y2;
      image.pixels.insert(image.pixels.end(), 3, inside ? 200 : 100);
    }
  return image;
}

class FieldData : public FolderTest {
 protected:
  struct Listed {
    int height, width;
    Box box;
    int label = 1;
  };
  /// Images with one box each.
  void list(const std::vector<Listed>& images, bool difficult, const std::string& more = "0") {
    std::string text;
    for (std::size_t k = 0; k < images.size(); ++k) {
      const Listed& image = images[k];
      write_file(path(cat(k, ".png")),
                 encode_image(boxed_image(image.height, image.width, image.box), "png"));
      text += cat("# ", k, "\n", k, ".png\n3\n", image.height, "\n", image.width, "\n1\n", image.label, " 0 ",
                  difficult ? "1 " : "", image.box.x1, " ", image.box.y1, " ", image.box.x2, " ",
                  image.box.y2, "\n", more, "\n");
    }
    write_file(path("list"), text);
  }
  std::string text(const std::string& type, int batch, const std::string& settings,
                   const std::string& transform = "mirror: true", int maps = 1) {
    const bool of_mscnn = type == "ImageGtData";
    std::string all = cat("name: 'd' type: '", type, "' top: 'data' ");
    for (int m = 0; m < maps; ++m) all += cat("top: 'map", m, "' ");
    return all + cat("top: 'boxes' ", of_mscnn ? "image_gt_data_param" : "detection_data_param",
                     " { source: '", path("list"), "' root_folder: '", folder_,
                     "/' output_gt_boxes: true batch_size: ", batch, " ", settings, " } transform_param { ",
                     transform, " }");
  }
  static std::string map(const std::string& type, int stride, int width, int height) {
    return cat(type == "ImageGtData" ? "downsample_rate: " : "stride: ", stride, " field_w: ", width,
               " field_h: ", height, " ");
  }
  std::string refusal(const std::string& text) {
    return bad_input_of([&] { Replica(text).step(); });
  }

  /// Every box in the table shows the value 200 from its first to its last pixel, and nothing around it does.
  static void expect_boxes_in_pixels(Replica& replica, std::size_t columns, double blur = 0) {
    const std::vector<double> pixels = replica.values(0), rows = replica.values(replica.outputs.size() - 1);
    const Shape& shape = replica.outputs[0]->shape;
    for (std::size_t r = 0; r < rows.size(); r += columns) {
      if (rows[r] < 0) continue;
      const double* const row = rows.data() + r;
      for (std::int64_t y = 0; y < shape[2]; ++y)
        for (std::int64_t x = 0; x < shape[3]; ++x) {
          const double value = pixels[static_cast<std::size_t>(
              (static_cast<std::int64_t>(row[0]) * 3 * shape[2] + y) * shape[3] + x)];
          const auto px = static_cast<double>(x), py = static_cast<double>(y);
          const auto within = [&](double by) {
            return px >= row[1] - by && px <= row[3] + by && py >= row[2] - by && py <= row[4] + by;
          };
          if (within(-blur)) {
            ASSERT_EQ(value, 200) << x << " " << y << " of " << row[1] << " " << row[2] << " " << row[3]
                                  << " " << row[4];
          }
          if (!within(blur)) {
            ASSERT_LE(value, 100) << x << " " << y << " of " << row[1] << " " << row[2] << " " << row[3]
                                  << " " << row[4];
          }
        }
    }
  }
};

TEST_F(FieldData, CutsMirrorsAndPads) {
  for (const char* type : {"ImageGtData", "DetectionData"}) {
    const bool of_mscnn = type == std::string("ImageGtData");
    const std::size_t columns = of_mscnn ? 7 : 8;
    list({{20, 40, {25, 6, 33, 12}, 3}, {20, 40, {2, 3, 12, 9}, 2}}, !of_mscnn);
    Replica cut(text(type, 16, map(type, 4, 8, 8) + "crop_width: 24 crop_height: 16"));
    std::set<double> places;
    for (int k = 0; k < 3; ++k) {
      cut.step();
      EXPECT_EQ(cut.outputs[0]->shape, (Shape{16, 3, 16, 24}));
      EXPECT_EQ(cut.outputs[1]->shape, (Shape{16, 6, 4, 6}));
      EXPECT_EQ(cut.outputs[2]->shape, (Shape{1, 1, 16, static_cast<std::int64_t>(columns)}));
      const std::vector<double> rows = cut.values(2);
      for (std::size_t r = 0; r < 16; ++r) {
        EXPECT_EQ(rows[r * columns], static_cast<double>(r));
        EXPECT_EQ(rows[r * columns + 5], r % 2 == 0 ? 3 : 2);
        EXPECT_EQ(rows[r * columns + 6], 0);
        if (!of_mscnn) {
          EXPECT_EQ(rows[r * columns + 7], 1);
        }
        places.insert(rows[r * columns + 1]);
      }
      // A mirrored box of the branches lies one pixel further to the right.
      expect_boxes_in_pixels(cut, columns, 1);
    }
    EXPECT_GT(places.size(), 6u);
    Replica plain(text(type, 4, map(type, 4, 8, 8) + "crop_width: 24 crop_height: 16", ""));
    plain.step();
    expect_boxes_in_pixels(plain, columns);
  }
  list({{20, 40, {25, 6, 33, 12}}}, true);
  Replica padded(
      text("DetectionData", 8, map("DetectionData", 4, 8, 8) + "crop_width: 52 crop_height: 24", ""));
  padded.step();
  expect_boxes_in_pixels(padded, 8);
  const std::vector<double> pixels = padded.values(0);
  for (std::size_t i = 0; i < 8; ++i) {
    const auto first = pixels.begin() + static_cast<std::ptrdiff_t>(i * 3 * 24 * 52);
    EXPECT_EQ(std::count(first, first + 24 * 52, 0), 24 * 52 - 20 * 40);
  }
}

TEST_F(FieldData, MapsBelongToTheBoxes) {
  list({{32, 48, {14, 10, 29, 25}, 2}}, true);
  Replica replica(text("DetectionData", 8,
                       map("DetectionData", 8, 16, 16) + map("DetectionData", 16, 30, 30) +
                           "crop_width: 40 crop_height: 24 fg_threshold: 0.4",
                       "mirror: true", 2));
  replica.step();
  const std::vector<double> rows = replica.values(3), maps = replica.values(1);
  EXPECT_EQ(replica.outputs[1]->shape, (Shape{8, 6, 3, 5}));
  EXPECT_EQ(replica.outputs[2]->shape, (Shape{8, 6, 2, 3}));
  int found = 0;
  for (std::size_t i = 0; i < 8; ++i)
    for (std::size_t at = 0; at < 15; ++at) {
      const double* const number = maps.data() + i * 6 * 15 + at;
      if (number[0] == 0) continue;
      ++found;
      EXPECT_EQ(number[0], 2);
      EXPECT_EQ(number[15], (rows[i * 8 + 1] + rows[i * 8 + 3]) / 2);
      EXPECT_EQ(number[30], (rows[i * 8 + 2] + rows[i * 8 + 4]) / 2);
      EXPECT_EQ(number[45], 16);
      EXPECT_EQ(number[60], 16);
      EXPECT_LE(std::abs(number[15] - (static_cast<double>(at % 5) + 0.5) * 8), 8);
    }
  EXPECT_GE(found, 8);
}

TEST_F(FieldData, ScalesImagesAndBoxesAlike) {
  // Half octaves from 8 to 32 pixels of an object of 12 x 12; boxes end within a scaled pixel of it.
  list({{40, 60, {20, 12, 31, 23}}}, false);
  Replica octaves(
      text("ImageGtData", 32,
           map("ImageGtData", 4, 8, 8) +
               "crop_width: 40 crop_height: 32 do_multiple_scale: true min_scale: 8 max_scale: 32"));
  octaves.step();
  expect_boxes_in_pixels(octaves, 7, 4);
  std::set<double> widths;
  const std::vector<double> rows = octaves.values(2);
  for (std::size_t r = 0; r < 32 * 7; r += 7)
    widths.insert(std::round(100 * (rows[r + 3] - rows[r + 1])) / 100);
  EXPECT_EQ(widths, (std::set<double>{7.78, 11, 15.56, 22, 31.11}));

  list({{40, 60, {20, 12, 31, 23}}}, true);
  Replica ratios(text(
      "DetectionData", 32,
      map("DetectionData", 4, 8, 8) +
          "crop_width: 40 crop_height: 32 low_scale_ratio: 0.5 high_scale_ratio: 2 multiscale_prob: 0.75 "
          "min_whaspect: 0.8 max_whaspect: 1.25"));
  ratios.step();
  expect_boxes_in_pixels(ratios, 8, 3);
  const std::vector<double> drawn = ratios.values(2);
  int unscaled = 0;
  for (std::size_t r = 0; r < 32 * 8; r += 8) {
    const double width = drawn[r + 3] - drawn[r + 1], height = drawn[r + 4] - drawn[r + 2];
    unscaled += width == 11 && height == 11 ? 1 : 0;
    EXPECT_TRUE(width * height >= 121 * 0.249 && width * height <= 121 * 4.01) << width << " " << height;
    EXPECT_TRUE(width / height >= 0.799 && width / height <= 1.251) << width << " " << height;
  }
  EXPECT_NEAR(unscaled, 8, 7);
}

TEST_F(FieldData, OneOrientationForABatch) {
  list({{40, 60, {20, 12, 31, 23}}, {60, 40, {20, 12, 31, 23}}, {40, 80, {20, 12, 31, 23}}}, true);
  // Sides are rounded to multiples of 32: 64 and 96.
  const std::string settings = map("DetectionData", 16, 32, 32) + "short_size: 70 long_size: 100 ";
  Replica replica(text("DetectionData", 1, settings, ""));
  std::vector<Shape> shapes;
  for (int k = 0; k < 3; ++k) {
    replica.step();
    shapes.push_back(replica.outputs[0]->shape);
    expect_boxes_in_pixels(replica, 8, 2);
    const std::vector<double> row = replica.values(2);
    EXPECT_NEAR(row[3] - row[1], 11 * 1.6, 1e-5);
  }
  EXPECT_EQ(shapes, (std::vector<Shape>{{1, 3, 64, 96}, {1, 3, 96, 64}, {1, 3, 64, 96}}));
  Replica both(text("DetectionData", 2, settings, ""));
  both.step();
  EXPECT_EQ(both.outputs[0]->shape, (Shape{2, 3, 64, 96}));
  EXPECT_EQ(both.outputs[1]->shape, (Shape{2, 6, 4, 6}));
  // The second of the two is no longer whole; its box is around the middle.
  expect_boxes_in_pixels(both, 8, 2);
  // A run with other batches may have ended anywhere.
  both.source().seek(1);
  both.step();
  EXPECT_EQ(both.outputs[0]->shape, (Shape{2, 3, 96, 64}));
  both.step();
  EXPECT_EQ(both.outputs[0]->shape, (Shape{2, 3, 64, 96}));

  Replica by_aspect(text("DetectionData", 1, settings + "shuffle: 'random_aspect'", ""));
  for (int epoch = 0; epoch < 4; ++epoch) {
    std::string heights;
    for (int k = 0; k < 3; ++k) {
      by_aspect.step();
      heights += cat(by_aspect.outputs[0]->shape[2], " ");
    }
    EXPECT_TRUE(heights == "64 64 96 " || heights == "96 64 64 ") << heights;
  }
  const BoxListOptions mixed{.root_folder = "", .difficult = true, .by_aspect = true, .part = 1};
  EXPECT_EQ(read_box_list(path("list"), mixed).parts, (std::vector<std::uint64_t>{1, 1, 1}));
}

TEST_F(FieldData, PixelsAreLessTheirMeanAndScaled) {
  list({{16, 24, {0, 0, 23, 15}}}, false);
  const std::string settings = map("ImageGtData", 8, 8, 8) + "scale: 0.5";
  Replica replica(text("ImageGtData", 1, settings, "mean_value: 100 mean_value: 110 mean_value: 120"));
  replica.step();
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 3, 16, 24}));
  const std::vector<double> pixels = replica.values(0);
  for (std::size_t c = 0; c < 3; ++c)
    EXPECT_EQ(pixels[c * 16 * 24 + 77], 0.5 * (100.0 - 10.0 * static_cast<double>(c)));
}

TEST_F(FieldData, SmallAndDistantBoxesAreIgnored) {
  list({{16, 24, {0, 0, 4, 5}}}, false);
  const auto ignored = [&](const std::string& settings) {
    Replica replica(text("ImageGtData", 1, map("ImageGtData", 8, 8, 8) + settings, ""));
    replica.step();
    return replica.values(2)[6];
  };
  EXPECT_EQ(ignored(""), 0);
  EXPECT_EQ(ignored("min_gt_width: 5 min_gt_height: 6"), 0);
  EXPECT_EQ(ignored("min_gt_width: 6"), 1);
  EXPECT_EQ(ignored("min_gt_height: 7"), 1);
}

TEST_F(FieldData, SeveralDevicesTogetherAreOneAndAnyPositionIsRepeated) {
  list({{40, 60, {20, 12, 31, 23}},
        {60, 40, {5, 12, 20, 30}},
        {40, 80, {20, 12, 31, 23}},
        {44, 80, {20, 12, 39, 33}}},
       true);
  const auto items = [&](int devices, std::uint64_t from, int steps) {
    std::vector<std::vector<double>> all(static_cast<std::size_t>(steps) * 6);
    for (int rank = 0; rank < devices; ++rank) {
      Replica replica(text("DetectionData", 6 / devices,
                           map("DetectionData", 8, 16, 16) +
                               "short_size: 32 long_size: 64 min_scale: 8 max_scale: 24 shuffle: 'random' "
                               "distort_param { brightness_prob: 0.5 brightness_delta: 20 }"),
                      rank, devices);
      if (from > 0) replica.source().seek(from);
      for (int k = 0; k < steps; ++k) {
        replica.step();
        const std::vector<double> pixels = replica.values(0), maps = replica.values(1),
                                  rows = replica.values(2);
        const std::size_t count = 6 / static_cast<std::size_t>(devices);
        for (std::size_t i = 0; i < count; ++i) {
          auto& item = all[(static_cast<std::size_t>(k) * count + i) * static_cast<std::size_t>(devices) +
                           static_cast<std::size_t>(rank)];
          const auto add = [&](const std::vector<double>& values, std::size_t each, std::size_t skip) {
            item.insert(item.end(), values.begin() + static_cast<std::ptrdiff_t>(i * each + skip),
                        values.begin() + static_cast<std::ptrdiff_t>((i + 1) * each));
          };
          add(pixels, pixels.size() / count, 0);
          add(maps, maps.size() / count, 0);
          add(rows, 8, 1);
        }
      }
    }
    return all;
  };
  const auto one = items(1, 0, 4);
  for (const int devices : {2, 3}) EXPECT_EQ(items(devices, 0, 4), one) << devices;
  EXPECT_EQ(items(1, 12, 2), std::vector<std::vector<double>>(one.begin() + 12, one.end()));
}

TEST_F(FieldData, ImagesWithObjectsMayBeListedMoreOften) {
  list({{16, 24, {0, 0, 4, 5}, 1}}, false);
  write_file(path("list"), io::read_text_file(path("list")) + "# 1 0.png 3 16 24 1 2 1 0 0 9 9 0\n");
  Replica replica(text("ImageGtData", 4, map("ImageGtData", 8, 8, 8) + "fg_img_multiple: 3", ""));
  replica.step();
  std::string labels;
  const std::vector<double> rows = replica.values(2);
  for (std::size_t r = 0; r < rows.size(); r += 7) labels += cat(rows[r + 5], " ");
  EXPECT_EQ(labels, "1 1 1 2 ");
}

TEST_F(FieldData, RefusesListsThatDoNotFit) {
  list({{16, 24, {0, 0, 4, 5}}}, false);
  const std::string wanted = text("ImageGtData", 1, map("ImageGtData", 8, 8, 8));
  EXPECT_NO_THROW(Replica(wanted).step());
  const auto refused = [&](const std::string& words) {
    write_file(path("list"), words);
    return refusal(wanted);
  };
  EXPECT_THAT(refused(" "), HasSubstr("lists no images"));
  EXPECT_THAT(refused("1 0.png"), HasSubstr("list:1: expected \"#\""));
  EXPECT_THAT(refused("# 0 0.png 1 16 24 0 0"), HasSubstr("expected 3 channels"));
  EXPECT_THAT(refused("# 0 0.png 3 16 0 0 0"), HasSubstr("expected a positive height and width"));
  EXPECT_THAT(refused("# 0 0.png 3 16 24 1\n0 0 0 0 4 5 0"), HasSubstr("list:2: expected a positive label"));
  EXPECT_THAT(refused("# 0 0.png 3 16 24 1\n1 0 4 0 3 5 0"),
              HasSubstr("list:2: expected a box that ends after it begins"));
  EXPECT_THAT(refused("# 0 0.png 3 16 24 1\n1 0 0 0 4 5"),
              HasSubstr("expected the number of regions, found the end"));
  EXPECT_THAT(refused("# 0 0.png 3 16 25 0 0"),
              AllOf(HasSubstr("the list says 16 x 25"), HasSubstr("16 x 24")));
}

TEST_F(FieldData, RefusesSettingsThatDoNotFit) {
  list({{16, 24, {0, 0, 4, 5}}}, true);
  const auto refused = [&](const std::string& settings, const std::string& transform = "", int maps = 1) {
    return refusal(text("DetectionData", 1, map("DetectionData", 8, 8, 8) + settings, transform, maps));
  };
  EXPECT_THAT(refused("", "", 2), HasSubstr("expected 3 tops: the images, 1 maps and the boxes; found 4"));
  EXPECT_THAT(refused("field_w: 8"), HasSubstr("stride, field_h and field_w equally often"));
  EXPECT_THAT(refused("coord_num: 5"), HasSubstr("coord_num must be 4"));
  EXPECT_THAT(refused("short_size: 32"), HasSubstr("must set both of short_size and long_size, or neither"));
  EXPECT_THAT(refused("short_size: 32 long_size: 64 resize_ratio: 2"), HasSubstr("may have one of"));
  EXPECT_THAT(refused("short_size: 64 long_size: 32"), HasSubstr("a long size of at least 64"));
  EXPECT_THAT(refused("crop_width: 8"), HasSubstr("both of crop_width and crop_height"));
  EXPECT_THAT(refused("min_scale: 8"), HasSubstr("both of min_scale and max_scale"));
  EXPECT_THAT(refused("fg_threshold: 2"), HasSubstr("fg_threshold must be in"));
  EXPECT_THAT(refused("shuffle: 'some'"),
              HasSubstr("\"random\", \"random_aspect\" or \"random_mix_aspect\""));
  EXPECT_THAT(refused("mix_group_size: 0"), HasSubstr("mix_group_size must be at least 1"));
  EXPECT_THAT(refused("template_ratio: 1"), HasSubstr("template_ratio is not supported"));
  EXPECT_THAT(refused("", "crop_size: 8"), HasSubstr("may hold scale, mirror and mean_value only"));
  EXPECT_THAT(refused("", "mean_value: 1 mean_value: 2"), HasSubstr("1 or 3 values"));
  list({{16, 24, {0, 0, 4, 5}}}, false);
  EXPECT_THAT(refusal(text("ImageGtData", 1, map("ImageGtData", 8, 8, 8) + "crop_width: 30")),
              HasSubstr("the image (16 x 24) is smaller than the crop, 16 x 30"));
  EXPECT_THAT(refusal(text("ImageGtData", 1, map("ImageGtData", 8, 8, 8) + "mean_file: 'm'")),
              HasSubstr("mean_file is not supported"));
}

}  // namespace
}  // namespace banyan::data
