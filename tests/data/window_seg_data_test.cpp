// WindowSegData (DeconvNet): windows of images and their labels.
#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"

namespace banyan::data {
namespace {

using testing::HasSubstr;

class WindowSegData : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    Image image{3, 4, 5, {}}, labels{1, 4, 5, {}};
    for (int i = 0; i < 20; ++i) {
      labels.pixels.push_back(static_cast<std::uint8_t>(i));
      for (int c = 0; c < 3; ++c) image.pixels.push_back(static_cast<std::uint8_t>(10 * i + c));
    }
    write_file(path("a.png"), encode_image(image, "png"));
    write_file(path("a_labels.png"), encode_image(labels, "png"));
  }
  std::string text(const std::string& lines, const std::string& more = "label_type: PIXEL",
                   const std::string& transform = "") {
    write_file(path("list"), lines);
    return "name: 's' type: 'WindowSegData' top: 'data' top: 'label' image_data_param { source: '" +
           path("list") + "' root_folder: '" + folder_ + "/' " + more + " } transform_param { " + transform +
           " }";
  }
};

TEST_F(WindowSegData, TakesBothCornersOfTheWindow) {
  Replica replica(text("a.png a_labels.png 1 2 3 3\n"));
  replica.step();
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 3, 2, 3}));
  EXPECT_EQ(replica.values(1), (std::vector<double>{11, 12, 13, 16, 17, 18}));
  EXPECT_EQ(replica.values(0), (std::vector<double>{110, 120, 130, 160, 170, 180, 111, 121, 131, 161, 171,
                                                    181, 112, 122, 132, 162, 172, 182}));
}

TEST_F(WindowSegData, IsBlackWithIgnoredLabelsOutsideOfTheImage) {
  Replica replica(text("a.png a_labels.png -1 -2 1 0\na.png a_labels.png 4 3 6 5\na.png a_labels.png 9 9 9 9",
                       "label_type: PIXEL ignore_label: 77", "mean_value: 1"));
  replica.step();
  EXPECT_EQ(replica.values(1), (std::vector<double>{77, 77, 77, 77, 77, 77, 77, 0, 1}));
  std::vector<double> pixels = replica.values(0);
  pixels.resize(9);
  EXPECT_EQ(pixels, (std::vector<double>{-1, -1, -1, -1, -1, -1, -1, -1, 9}));
  replica.step();
  EXPECT_EQ(replica.values(1), (std::vector<double>{19, 77, 77, 77, 77, 77, 77, 77, 77}));
  replica.step();
  EXPECT_EQ(replica.values(1), (std::vector<double>{77}));
}

/// Windows first, then sizes, then the cut.
TEST_F(WindowSegData, ResizesTheWindow) {
  Replica replica(
      text("a.png a_labels.png 0 0 1 1\n", "label_type: PIXEL new_height: 4 new_width: 4", "crop_size: 2"), 0,
      1, Phase::test);
  replica.step();
  EXPECT_EQ(replica.values(1), (std::vector<double>{0, 1, 5, 6}));
}

TEST_F(WindowSegData, ReadsOtherKindsOfLabels) {
  Replica whole(text("a.png 3 0 0 1 0\n", "label_type: IMAGE"));
  whole.step();
  EXPECT_EQ(whole.values(1), (std::vector<double>{3, 3}));
  Replica none(text("a.png 0 0 1 0\n", "label_type: NONE ignore_label: 8"));
  none.step();
  EXPECT_EQ(none.values(1), (std::vector<double>{8, 8}));
}

TEST_F(WindowSegData, RefusesLinesWithoutAWindow) {
  for (const char* line : {"a.png a_labels.png\n", "a.png a_labels.png 1 1 2\n",
                           "a.png a_labels.png 3 1 2 1\n", "a.png a_labels.png 0 0 999999999 1\n"})
    EXPECT_THAT(bad_input_of([&] { Replica(text(line)); }),
                HasSubstr("list:1: expected a window, \"x1 y1 x2 y2\", at the end of the line"))
        << line;
  EXPECT_THAT(bad_input_of([&] { Replica(text("a.png a_labels.png 0 0 1 1 7\n")); }), HasSubstr("found"));
}

}  // namespace
}  // namespace banyan::data
