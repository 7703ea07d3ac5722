// DataHeatmap (caffe-heatmap): images of people, and maps of their joints.
#include <cmath>
#include <numbers>
#include <set>

#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"

namespace banyan::data {
namespace {

using testing::HasSubstr;

struct At {
  double x, y;
};

/// Red: 20 + 2 x, green: 20 + 2 y, blue: 100. Between pixels, values are what they should be there.
Image slopes(int height, int width) {
  Image image{3, height, width, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (const int value : {100, 20 + 2 * y, 20 + 2 * x})
        image.pixels.push_back(static_cast<std::uint8_t>(value));
  return image;
}

double map_value(const At& joint, int y, int x) {
  const double distance = (x - joint.x) * (x - joint.x) + (y - joint.y) * (y - joint.y);
  return 1 + 4 / (1.5 * std::sqrt(2 * std::numbers::pi)) * std::exp(-distance / (2 * 1.5 * 1.5));
}

class HeatmapData : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    add_image("a.png", 60, 70);
    list("a.png 30,20,40,25,35,45 1,70,1,60 0\n");
  }
  void add_image(const std::string& name, int height, int width) {
    write_file(path(name), encode_image(slopes(height, width), "png"));
  }
  void list(const std::string& lines) { write_file(path("list"), lines); }
  std::string text(const std::string& settings, int batch = 1) const {
    return "name: 'd' type: 'DataHeatmap' top: 'data' top: 'label' heatmap_data_param { source: '" +
           path("list") + "' root_img_dir: '" + folder_ + "/' batchsize: " + std::to_string(batch) + " " +
           settings + " }";
  }
  static std::string sizes(int crop = 40, int out = 40, int maps = 40) {
    return "cropsize: " + std::to_string(crop) + " outsize: " + std::to_string(out) +
           " label_width: " + std::to_string(maps) + " label_height: " + std::to_string(maps) + " ";
  }
  std::string refusal(const std::string& settings, int batch = 1) const {
    return bad_input_of([&] { Replica(text(settings, batch)).step(); });
  }
  static std::vector<double> maps_of(const std::vector<At>& joints, int height, int width) {
    std::vector<double> values;
    for (const At& joint : joints)
      for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x) values.push_back(map_value(joint, y, x));
    return values;
  }
  static void expect_near(const std::vector<double>& found, const std::vector<double>& expected,
                          double tolerance = 1e-9) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t k = 0; k < found.size(); ++k) ASSERT_NEAR(found[k], expected[k], tolerance) << k;
  }
};

Replica in_doubles(const std::string& text) { return Replica(text, 0, 1, Phase::train, false, DType::f64); }

/// 60 x 70: from row 10 and column 15 on.
TEST_F(HeatmapData, CutsTheMiddleWithoutRandomCrops) {
  for (const Phase phase : {Phase::train, Phase::test})
    for (const bool channels_last : {false, true}) {
      Replica replica(text(sizes() + "scale: 0.5 angle_max: 30"), 0, 1, phase, channels_last, DType::f64);
      replica.step();
      ASSERT_EQ(replica.outputs[0]->shape, (Shape{1, 3, 40, 40}));
      ASSERT_EQ(replica.outputs[1]->shape, (Shape{1, 3, 40, 40}));
      const std::vector<double> pixels = replica.values(0);
      for (std::size_t y = 0; y < 40; ++y)
        for (std::size_t x = 0; x < 40; ++x) {
          const double expected[] = {10 + 15.0 + static_cast<double>(x), 10 + 10.0 + static_cast<double>(y),
                                     50};
          for (std::size_t c = 0; c < 3; ++c)
            ASSERT_EQ(pixels[(c * 40 + y) * 40 + x], expected[c]) << c << " " << y << " " << x;
        }
      expect_near(replica.values(1), maps_of({{15, 10}, {25, 15}, {20, 35}}, 40, 40));
    }
}

TEST_F(HeatmapData, MapsAreLargestAtTheJoints) {
  Replica replica = in_doubles(text(sizes(40, 80, 20)));
  replica.step();
  ASSERT_EQ(replica.outputs[0]->shape, (Shape{1, 3, 80, 80}));
  ASSERT_EQ(replica.outputs[1]->shape, (Shape{1, 3, 20, 20}));
  const std::vector<double> maps = replica.values(1);
  expect_near(maps, maps_of({{7.5, 5}, {12.5, 7.5}, {10, 17.5}}, 20, 20));
  const auto largest = std::max_element(maps.begin(), maps.begin() + 400) - maps.begin();
  EXPECT_EQ(largest / 20, 5);
  EXPECT_TRUE(largest % 20 == 7 || largest % 20 == 8);
  // Slopes are halved; the border's pixels are repeated.
  const std::vector<double> pixels = replica.values(0);
  for (std::size_t x = 1; x < 79; ++x) {
    ASSERT_NEAR(pixels[x], 20 + 2 * (15 + static_cast<double>(x) / 2 - 0.25), 1e-4);
    ASSERT_NEAR(pixels[6400 + x * 80], 20 + 2 * (10 + static_cast<double>(x) / 2 - 0.25), 1e-4);
  }
  EXPECT_EQ(pixels[0], 50);
}

TEST_F(HeatmapData, MapsMayHaveAnyWidth) {
  Replica replica = in_doubles(text("cropsize: 40 outsize: 30 label_width: 10 label_height: 20"));
  replica.step();
  ASSERT_EQ(replica.outputs[1]->shape, (Shape{1, 3, 20, 10}));
  expect_near(replica.values(1), maps_of({{3.75, 5}, {6.25, 7.5}, {5, 17.5}}, 20, 10));
}

/// Where an image is cut, and how it was changed, is seen in its pixels; the maps must agree.
TEST_F(HeatmapData, ImagesAndMapsChangeTogether) {
  for (const bool turns : {false, true})
    for (const bool exchanges : {true, false}) {
      constexpr int kItems = 40;
      Replica replica =
          in_doubles(text(sizes() + "random_crop: true flip_joint_labels: " + (exchanges ? "true" : "false") +
                              (turns ? " angle_max: 40" : ""),
                          kItems));
      replica.step();
      const std::vector<double> images = replica.values(0), maps = replica.values(1);
      std::set<long> lefts, tops;
      std::set<bool> sides;
      double least = 0, most = 0;
      for (int i = 0; i < kItems; ++i) {
        const auto pixel = [&](int c, int y, int x) {
          return images[static_cast<std::size_t>(((i * 3 + c) * 40 + y) * 40 + x)];
        };
        const double cosine = (pixel(1, 21, 20) - pixel(1, 20, 20)) / 2;
        const double sine = (pixel(1, 20, 21) - pixel(1, 20, 20)) / 2;
        ASSERT_NEAR(cosine * cosine + sine * sine, 1, 1e-3);
        const bool mirrored = pixel(0, 20, 21) < pixel(0, 20, 20);
        // The middle stays where it is.
        const long column = std::lround((pixel(0, 20, 20) - 20) / 2);
        const long left = (mirrored ? 69 - column : column) - 20,
                   top = std::lround((pixel(1, 20, 20) - 20) / 2) - 20;
        lefts.insert(left);
        tops.insert(top);
        sides.insert(mirrored);
        const double angle = std::atan2(sine, cosine);
        least = std::min(least, angle);
        most = std::max(most, angle);

        std::vector<At> joints = {{30, 20}, {40, 25}, {35, 45}};
        for (At& joint : joints) {
          if (mirrored) joint.x = 70 - joint.x;
          const double x = joint.x - static_cast<double>(left) - 20,
                       y = joint.y - static_cast<double>(top) - 20;
          joint = {20 + cosine * x + sine * y, 20 - sine * x + cosine * y};
        }
        if (mirrored && exchanges) std::swap(joints[1], joints[2]);
        const std::vector<double> expected = maps_of(joints, 40, 40);
        expect_near({maps.begin() + i * 4800, maps.begin() + (i + 1) * 4800}, expected, 1e-3);

        for (int y = 0; y < 40; ++y)
          for (int x = 0; x < 40; ++x) {
            const double from_x = 20 + cosine * (x - 20) - sine * (y - 20),
                         from_y = 20 + sine * (x - 20) + cosine * (y - 20);
            const bool inside = std::min(from_x, from_y) >= 0.01 && std::max(from_x, from_y) <= 38.99;
            const bool outside = std::min(from_x, from_y) <= -1.01 || std::max(from_x, from_y) >= 40.01;
            if (!inside && !outside) continue;
            const double at = static_cast<double>(left) + from_x;
            const double red = inside ? 20 + 2 * (mirrored ? 69 - at : at) : 0;
            const double green = inside ? 20 + 2 * (static_cast<double>(top) + from_y) : 0;
            ASSERT_NEAR(pixel(0, y, x), red, 0.05) << y << " " << x;
            ASSERT_NEAR(pixel(1, y, x), green, 0.05) << y << " " << x;
            ASSERT_NEAR(pixel(2, y, x), inside ? 100 : 0, 0.05) << y << " " << x;
          }
      }
      EXPECT_EQ(sides.size(), 2u);
      EXPECT_GE(*lefts.begin(), 0);
      EXPECT_LE(*lefts.rbegin(), 30);
      EXPECT_GT(lefts.size(), 12u);
      EXPECT_GE(*tops.begin(), 0);
      EXPECT_LE(*tops.rbegin(), 20);
      EXPECT_GT(tops.size(), 8u);
      const double limit = 40 * std::numbers::pi / 180;
      if (turns) {
        EXPECT_LT(least, -limit / 2);
        EXPECT_GE(least, -limit - 1e-3);
        EXPECT_GT(most, limit / 2);
        EXPECT_LE(most, limit + 1e-3);
      } else {
        EXPECT_EQ(least, 0);
        EXPECT_EQ(most, 0);
      }
    }
}

TEST_F(HeatmapData, ExchangesThePairsOfJoints) {
  list("a.png 10,5,20,15,30,25,40,35 - 0\n");
  constexpr std::size_t kItems = 12;
  for (const bool first_too : {true, false}) {
    Replica replica =
        in_doubles(text(sizes(60, 60, 60) + "random_crop: true " +
                            (first_too ? "dont_flip_first: false" : "labelinds: '1,2,3,4,7, 8'"),
                        kItems));
    replica.step();
    const std::size_t joints = first_too ? 4 : 3;
    const std::vector<double> images = replica.values(0), maps = replica.values(1);
    ASSERT_EQ(maps.size(), kItems * joints * 3600);
    std::set<bool> sides;
    for (std::size_t i = 0; i < kItems; ++i) {
      const bool mirrored = images[i * 10800 + 1] < images[i * 10800];
      sides.insert(mirrored);
      std::vector<double> rows;
      for (std::size_t k = 0; k < joints; ++k) {
        const auto begin = maps.begin() + static_cast<std::ptrdiff_t>((i * joints + k) * 3600);
        rows.push_back(static_cast<double>((std::max_element(begin, begin + 3600) - begin) / 60));
      }
      const std::vector<double> plain =
          first_too ? std::vector<double>{5, 15, 25, 35} : std::vector<double>{5, 15, 35};
      const std::vector<double> exchanged =
          first_too ? std::vector<double>{15, 5, 35, 25} : std::vector<double>{5, 35, 15};
      EXPECT_EQ(rows, mirrored ? exchanged : plain);
    }
    EXPECT_EQ(sides.size(), 2u);
  }
}

TEST_F(HeatmapData, CoordinatesMayBeFractionsOfAnImage) {
  list("a.png 0.25,0.125 - 0\n");
  Replica replica = in_doubles(text(sizes() + "multfact: 80"));
  replica.step();
  expect_near(replica.values(1), maps_of({{5, 0}}, 40, 40));
  // Half of an image that is mirrored stays where it is.
  list("a.png 0.5,0.5 - 0\n");
  Replica mirrored = in_doubles(text(sizes(60, 60, 60) + "multfact: 70 random_crop: true", 8));
  mirrored.step();
  for (std::size_t i = 0; i < 8; ++i) {
    const double corner = mirrored.values(0)[i * 10800];
    const bool turned = mirrored.values(0)[i * 10800 + 1] < corner;
    const double left = (turned ? 69 - (corner - 20) / 2 : (corner - 20) / 2);
    const std::vector<double> maps = mirrored.values(1);
    expect_near({maps.begin() + static_cast<std::ptrdiff_t>(i * 3600),
                 maps.begin() + static_cast<std::ptrdiff_t>((i + 1) * 3600)},
                maps_of({{35 - left, 35}}, 60, 60));
  }
}

/// 0 to the right and below; the joints stay where they are.
TEST_F(HeatmapData, SmallerImagesAreFilledUp) {
  add_image("b.png", 50, 30);
  list("b.png 10,20 - 0\n");
  Replica replica = in_doubles(text(sizes(60, 60, 60)));
  replica.step();
  const std::vector<double> pixels = replica.values(0);
  for (std::size_t y = 0; y < 60; ++y)
    for (std::size_t x = 0; x < 60; ++x)
      ASSERT_EQ(pixels[y * 60 + x], y < 50 && x < 30 ? 20 + 2 * static_cast<double>(x) : 0);
  expect_near(replica.values(1), maps_of({{10, 20}}, 60, 60));
  Replica random = in_doubles(text(sizes(60, 60, 60) + "random_crop: true", 8));
  random.step();
  std::set<bool> sides;
  for (std::size_t i = 0; i < 8; ++i) {
    const std::vector<double> images = random.values(0), maps = random.values(1);
    const bool mirrored = images[i * 10800] == 0;
    sides.insert(mirrored);
    EXPECT_EQ(images[i * 10800 + 59], mirrored ? 20 : 0);
    expect_near({maps.begin() + static_cast<std::ptrdiff_t>(i * 3600),
                 maps.begin() + static_cast<std::ptrdiff_t>((i + 1) * 3600)},
                maps_of({{mirrored ? 50.0 : 10.0, 20}}, 60, 60));
  }
  EXPECT_EQ(sides.size(), 2u);
}

TEST_F(HeatmapData, TwoDevicesShareTheBatch) {
  std::string lines;
  for (int i = 0; i < 5; ++i) {
    const std::string name = "size" + std::to_string(i) + ".png";
    add_image(name, 40 + i, 50 - i);
    lines += name + " " + std::to_string(10 + i) + ",20 - " + std::to_string(i % 2) + "\n";
  }
  list(lines);
  for (const bool clusters : {false, true}) {
    const std::string settings =
        sizes(30, 20, 10) + "random_crop: true angle_max: 20 flip_joint_labels: false sample_per_cluster: " +
        (clusters ? "true" : "false");
    Replica whole(text(settings, 4));
    Replica first(text(settings, 2), 0, 2), second(text(settings, 2), 1, 2);
    for (int step = 0; step < 4; ++step) {
      for (Replica* replica : {&whole, &first, &second}) replica->step();
      for (const std::size_t output : {0, 1}) {
        const std::vector<double> all = whole.values(output);
        const std::vector<double> parts[] = {first.values(output), second.values(output)};
        ASSERT_EQ(parts[0].size() + parts[1].size(), all.size());
        const std::size_t item = all.size() / 4;
        for (std::size_t at = 0; at < all.size(); ++at)
          ASSERT_EQ(parts[at / item % 2][at / item / 2 * item + at % item], all[at]) << step;
      }
    }
  }
}

/// Each image says by its joint's column which one it is. The second cluster has the number 4.
TEST_F(HeatmapData, ClustersTakeTurns) {
  list("a.png 25,20 - 0\na.png 15,20 - 4\na.png 35,20 - 0\na.png 45,20 - 0\na.png 20,20 - 4\n");
  Replica replica(text(sizes() + "sample_per_cluster: true", 12));
  replica.step();
  const std::vector<double> maps = replica.values(1);
  std::vector<std::ptrdiff_t> columns;
  for (std::ptrdiff_t i = 0; i < 12; ++i) {
    const auto begin = maps.begin() + i * 1600;
    columns.push_back((std::max_element(begin, begin + 1600) - begin) % 40 + 15);
  }
  const std::vector<std::ptrdiff_t> first{25, 35, 45}, second{15, 20};
  const auto start = std::find(first.begin(), first.end(), columns[0]) - first.begin();
  const auto other = std::find(second.begin(), second.end(), columns[1]) - second.begin();
  ASSERT_LT(start, 3);
  ASSERT_LT(other, 2);
  for (std::ptrdiff_t i = 0; i < 12; ++i)
    EXPECT_EQ(columns[static_cast<std::size_t>(i)],
              i % 2 == 0 ? first[static_cast<std::size_t>((start + i / 2) % 3)]
                         : second[static_cast<std::size_t>((other + i / 2) % 2)])
        << i;
}

TEST_F(HeatmapData, MasksHidePixels) {
  std::filesystem::create_directories(path("segs"));
  Image mask{1, 60, 70, std::vector<std::uint8_t>(60 * 70, 40)};
  mask.pixels[10 * 70 + 15] = 41;
  mask.pixels[10 * 70 + 17] = 255;
  write_file(path("segs/a.png"), encode_image(mask, "png"));
  list("gone.png 1,2 - 0\na.png 30,20 - 0\n");
  Replica replica(text(sizes() + "segmentation: true", 2));
  replica.step();
  const std::vector<double> pixels = replica.values(0);
  for (const std::size_t item : {0, 4800})
    for (const std::size_t channel : {0, 1600, 3200}) {
      EXPECT_EQ(pixels[item + channel], 0);
      EXPECT_GT(pixels[item + channel + 1], 0);
      EXPECT_EQ(pixels[item + channel + 2], 0);
    }
  list("gone.png 1,2 - 0\n");
  EXPECT_THAT(refusal(sizes() + "segmentation: true scale: 2"),
              HasSubstr("none of the 1 images of the list \"" + path("list") + "\" has a mask in \"" +
                        path("segs") + "\""));
  list("a.png 1,2 - 0\n");
  add_image("segs/a.png", 8, 9);
  EXPECT_THAT(refusal(sizes() + "segmentation: true scale: 3"),
              HasSubstr("segs/a.png\": expected the size of its image, 60 x 70, found 8 x 9"));
  write_file(path("segs/a.png"), std::string("nothing"));
  EXPECT_THAT(refusal(sizes() + "segmentation: true scale: 4"), HasSubstr("mask \"" + path("segs/a.png")));
}

TEST_F(HeatmapData, SaysWhatIsWrongInAList) {
  const auto complaint = [&](const std::string& lines, const std::string& settings = "") {
    list(lines);
    return refusal(sizes() + settings);
  };
  const std::string at = path("list") + ":";
  EXPECT_THAT(complaint("a.png 1,2 - 0\n\na.png 1,2 -\n"),
              HasSubstr(at + "3: expected \"image x,y,x,y,... crop cluster\", found \"a.png 1,2 -\""));
  EXPECT_THAT(complaint("a.png 1,2 - 0 5\n"), HasSubstr(at + "1: expected \"image x,y"));
  EXPECT_THAT(
      complaint("a.png 1,two - 0\n"),
      HasSubstr("1: expected numbers with commas between them, x,y,x,y,..., found \"two\" in \"1,two\""));
  EXPECT_THAT(complaint("a.png nan,2 - 0\n"), HasSubstr("found \"nan\""));
  EXPECT_THAT(complaint("a.png 1,2,3 - 0\n"), HasSubstr("1: expected two numbers for each joint, found 3"));
  EXPECT_THAT(complaint("a.png , - 0\n"), HasSubstr("found \"\" in \",\""));
  EXPECT_THAT(complaint("a.png 1,2 - 0\na.png 1,2,3,4 - 0\n"),
              HasSubstr("2: expected 2 numbers for joints, as the first line has them, found 4"));
  EXPECT_THAT(complaint("a.png 1,2 - 0\n", "labelinds: '3,4'"),
              HasSubstr("1: labelinds names number 4, but the line has 2"));
  EXPECT_THAT(complaint("a.png 1,2 - x\n", "sample_per_cluster: true"),
              HasSubstr("1: expected the number of a cluster at the end of the line, found \"x\""));
  EXPECT_THAT(
      complaint("a.png 1,2,3,4 - 0\n", "random_crop: true"),
      HasSubstr("1: mirroring exchanges joints in pairs after the first one, but their number here is 2: "
                "dont_flip_first: false lets the first pair begin with the first joint, "
                "flip_joint_labels: false exchanges none"));
  EXPECT_THAT(
      complaint("a.png 1,2 - 0\n", "random_crop: true dont_flip_first: false"),
      HasSubstr(
          "1: mirroring exchanges joints in pairs, but their number here is 1: dont_flip_first: true "));
  EXPECT_THAT(complaint("\n"), HasSubstr("lists no images"));
  EXPECT_THAT(complaint("none.png 1,2 - 0\n"), HasSubstr("none.png"));
  std::filesystem::remove(path("list"));
  EXPECT_THAT(refusal(sizes()), HasSubstr(path("list")));
}

TEST_F(HeatmapData, RefusesWhatItCannotDo) {
  EXPECT_THAT(refusal("outsize: 4"),
              HasSubstr("layer \"d\": heatmap_data_param.cropsize must be in [1, 32768], not 0"));
  EXPECT_THAT(refusal("cropsize: 4"), HasSubstr("outsize must be in [1, 32768], not 0"));
  EXPECT_THAT(refusal(sizes(), 0), HasSubstr("heatmap_data_param.batchsize must be positive"));
  EXPECT_THAT(refusal(sizes() + "angle_max: -1"), HasSubstr("angle_max must be in [0, 360], not -1"));
  EXPECT_THAT(refusal(sizes() + "multfact: 0"), HasSubstr("multfact must be in"));
  EXPECT_THAT(refusal(sizes() + "scale: inf"), HasSubstr("scale must be a number"));
  EXPECT_THAT(refusal(sizes() + "meanfile: 'm'"), HasSubstr("heatmap_data_param.meanfile is not supported"));
  for (const char* places : {"0,1", "1,b", "1,,2", "-1,2"})
    EXPECT_THAT(refusal(sizes() + "labelinds: '" + places + "'"),
                HasSubstr("heatmap_data_param.labelinds must hold places of a line's numbers from 1 on"));
  EXPECT_THAT(refusal(sizes() + "labelinds: '1,2,5'"),
              HasSubstr("labelinds chooses 3 numbers; a joint has two, x and y"));
  EXPECT_THAT(refusal(sizes() + "labelinds: '2,3'"),
              HasSubstr("labelinds chooses number 2 of a line without the other one of its joint"));
  EXPECT_THAT(refusal(sizes() + "labelinds: '1,2,3,5'"), HasSubstr("labelinds chooses number 3 "));
  EXPECT_THAT(bad_input_of([&] { Replica("name: 'd' type: 'DataHeatmap' top: 'a' top: 'b'"); }),
              HasSubstr("heatmap_data_param.source is missing"));
  EXPECT_THAT(bad_input_of([&] { Replica(text(sizes()) + " transform_param { mirror: true }"); }),
              HasSubstr("transform_param has no effect in DataHeatmap"));
}

}  // namespace
}  // namespace banyan::data
