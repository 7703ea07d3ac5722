// EvalData: sizes, boxes and order of what it reads.
#include <algorithm>

#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {
namespace {

using testing::HasSubstr;

class EvalData : public FolderTest {
 protected:
  struct Listed {
    int height, width;
    std::string boxes = "0";  ///< their number, then label, ignored, difficult and corners of each
    std::uint8_t value = 100;
  };
  void list(const std::vector<Listed>& images) {
    std::string text;
    for (std::size_t k = 0; k < images.size(); ++k) {
      const auto& [height, width, boxes, value] = images[k];
      const std::size_t count = std::size_t{3} * static_cast<std::size_t>(height * width);
      write_file(path(cat(k, ".png")),
                 encode_image({3, height, width, std::vector<std::uint8_t>(count, value)}, "png"));
      text += cat("# ", k, "\n", k, ".png\n3\n", height, "\n", width, "\n", boxes, "\n1 0 0 5 5\n");
    }
    write_file(path("list"), text);
  }
  std::string text(const std::string& settings, const std::string& transform = "", int tops = 3) {
    return cat("name: 'd' type: 'EvalData' top: 'data' top: 'boxes' ", tops > 2 ? "top: 'sizes' " : "",
               "eval_data_param { source: '", path("list"), "' root_folder: '", folder_, "/' ", settings,
               " } transform_param { ", transform, " }");
  }
  static std::vector<double> rounded(std::vector<double> values) {
    for (double& value : values) value = std::round(1000 * value) / 1000;
    return values;
  }
};

TEST_F(EvalData, SidesAreMultiplesOf32AndBoxesFollow) {
  list({{40, 60, "2 3 0 1 20 10 30 20 1 1 0 0 0 59 39"}});
  const auto expect = [&](const std::string& settings, std::int64_t height, std::int64_t width) {
    Replica replica(text(settings));
    replica.step();
    EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 3, height, width})) << settings;
    EXPECT_EQ(replica.outputs[1]->shape, (Shape{1, 1, 2, 8}));
    EXPECT_EQ(replica.outputs[2]->shape, (Shape{1, 2}));
    const double x = static_cast<double>(width) / 60, y = static_cast<double>(height) / 40;
    EXPECT_EQ(rounded(replica.values(1)), rounded({0, 20 * x, 10 * y, 30 * x, 20 * y, 3, 0, 1,  //
                                                   0, 0, 0, 59 * x, 39 * y, 1, 1, 0}));
    EXPECT_EQ(replica.values(2),
              (std::vector<double>{static_cast<double>(height), static_cast<double>(width)}));
  };
  expect("", 32, 64);
  expect("short_size: 70 long_size: 200", 64, 96);  // 70 x 105
  expect("short_size: 80 long_size: 100", 96, 96);  // 80 x 120, of which 80 x 100 are left
  expect("resize_height: 50 resize_width: 130", 64, 128);
  list({{60, 40, "1 3 0 1 20 10 30 20"}});
  Replica high(text("short_size: 70 long_size: 200"));
  high.step();
  EXPECT_EQ(high.values(2), (std::vector<double>{96, 64}));
}

TEST_F(EvalData, ReadsImagesInTheOrderOfTheList) {
  list({{32, 32, "1 1 0 0 1 2 3 4", 10}, {32, 64, "0", 20}, {64, 32, "1 2 0 0 1 2 3 4", 30}});
  Replica replica(text("", "mean_value: 4 scale: 0.5"));
  for (const int image : {0, 1, 2, 0}) {
    replica.step();
    EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 3, image == 2 ? 64 : 32, image == 1 ? 64 : 32}));
    const std::vector<double> pixels = replica.values(0), rows = replica.values(1);
    EXPECT_EQ(static_cast<double>(std::count(pixels.begin(), pixels.end(), 3 + 5 * image)),
              static_cast<double>(pixels.size()));
    const std::vector<double> row = image == 1
                                        ? std::vector<double>(8, -1)
                                        : std::vector<double>{0, 1, 2, 3, 4, image == 0 ? 1.0 : 2.0, 0, 0};
    EXPECT_EQ(rows, row);
  }
  Replica two(text("batch_size: 2 resize_height: 32 resize_width: 32", "", 2));
  two.step();
  two.step();
  EXPECT_EQ(two.outputs[0]->shape, (Shape{2, 3, 32, 32}));
  EXPECT_EQ(two.values(0)[0], 30);
  EXPECT_EQ(rounded(two.values(1)), (std::vector<double>{0, 1, 1, 3, 2, 2, 0, 0, 1, 1, 2, 3, 4, 1, 0, 0}));
}

TEST_F(EvalData, OfTestsIsReadByAnyNumberOfDevices) {
  list({{32, 32, "1 1 0 0 1 2 3 4", 10}, {32, 64, "1 3 0 0 5 6 7 8", 20}, {64, 32, "1 2 0 0 1 2 3 4", 30}});
  Replica first(text(""), 0, 2, Phase::test), second(text(""), 1, 2, Phase::test);
  for (Replica* replica : {&first, &second}) replica->source().begin_test_pass(3);
  first.step();
  second.step();
  EXPECT_EQ(first.values(1)[5], 1);
  EXPECT_EQ(second.values(1)[5], 3);
  EXPECT_EQ(second.values(2), (std::vector<double>{32, 64}));
  first.step();
  EXPECT_EQ(first.values(1)[5], 2);
}

TEST_F(EvalData, RefusesWhatMakesNoSense) {
  list({{32, 32}});
  const auto refused = [&](const std::string& settings, const std::string& transform = "") {
    return bad_input_of([&] { Replica(text(settings, transform)).step(); });
  };
  EXPECT_THAT(refused("batch_size: 2"), HasSubstr("batch_size must be 1, not 2"));
  EXPECT_THAT(refused("resize_width: 64"), HasSubstr("both of resize_width and resize_height"));
  EXPECT_THAT(refused("short_size: 64"), HasSubstr("both of short_size and long_size"));
  EXPECT_THAT(refused("short_size: 64 long_size: 32"), HasSubstr("a long size of at least 64"));
  EXPECT_THAT(refused("", "mirror: true"), HasSubstr("scale and mean_value only in EvalData; found mirror"));
  EXPECT_THAT(refused("", "mean_value: 1 mean_value: 2"), HasSubstr("1 or 3 values"));
}

}  // namespace
}  // namespace banyan::data
