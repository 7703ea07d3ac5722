// WindowSegData (DeconvNet) and SelectSegBinary (DecoupledNet): windows of images and their labels.
#include <algorithm>

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

class SelectSegBinary : public WindowSegData {
 protected:
  /// With two classes, unless `classes` says more.
  std::string selecting(const std::string& lines, const std::string& more = "label_type: PIXEL",
                        const std::string& classes = "window_cls_data_param { label_dim: 2 }",
                        const std::string& transform = "") {
    std::string changed = text(lines, more, transform);
    const std::string type = "type: 'WindowSegData' top: 'data' top: 'label'";
    changed.replace(changed.find(type), type.size(),
                    "type: 'SelectSegBinary' top: 'data' top: 'label' top: 'classes' " + classes);
    return changed;
  }
};

TEST_F(SelectSegBinary, PixelsOfAClassHaveItsNumber) {
  const std::string lines = "a.png a_labels.png 1 2 3 3 0 1 1 7\n",
                    four =
                        "window_cls_data_param { label_dim: 4 } select_seg_binary_param { cls_label_base: ";
  Replica replica(selecting(lines, "label_type: PIXEL", four + "10 }"));
  replica.step();
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 3, 2, 3}));
  EXPECT_EQ(replica.values(1), (std::vector<double>{0, 1, 1, 0, 0, 0}));  // of 11, 12, 13, 16, 17, 18
  EXPECT_EQ(replica.outputs[2]->shape, (Shape{1, 4, 1, 1}));
  EXPECT_EQ(replica.values(2), (std::vector<double>{0, 1, 1, 7}));
  Replica ignoring(selecting(lines, "label_type: PIXEL ignore_label: 12", four + "14 }"));
  ignoring.step();
  EXPECT_EQ(ignoring.values(1), (std::vector<double>{0, 12, 0, 1, 1, 7}));
  Replica beyond(selecting(lines, "label_type: PIXEL", four + "4000000000 }"));
  beyond.step();
  EXPECT_EQ(beyond.values(1), std::vector<double>(6, 0));
}

TEST_F(SelectSegBinary, BackgroundAndIgnoredPixelsStay) {
  Replica replica(selecting("a.png a_labels.png -1 0 2 0 3 4\n"));
  replica.step();
  EXPECT_EQ(replica.values(1), (std::vector<double>{255, 0, 3, 4}));
  Replica padded(selecting("a.png a_labels.png 1 0 2 0 3 4\n", "label_type: PIXEL",
                           "window_cls_data_param { label_dim: 2 }", "crop_size: 2"));
  padded.step();
  EXPECT_EQ(padded.values(1), (std::vector<double>{3, 4, 255, 255}));
  Replica whole(selecting("a.png 2 0 0 1 0 3 4\n", "label_type: IMAGE"));
  whole.step();
  EXPECT_EQ(whole.values(1), (std::vector<double>{4, 4}));
  Replica none(selecting("a.png 0 0 1 0 3 4\n", "label_type: NONE"));
  none.step();
  EXPECT_EQ(none.values(1), (std::vector<double>{255, 255}));
}

TEST_F(SelectSegBinary, NumbersStayWithTheirImages) {
  const std::string lines =
      "a.png a_labels.png 1 0 1 0 5 0\na.png a_labels.png 2 0 2 0 0 6\n"
      "a.png a_labels.png 1 0 1 0 7 0\na.png a_labels.png 2 0 2 0 0 8\n";
  const auto batch = [&](int size) {
    return selecting(lines, "label_type: PIXEL shuffle: true batch_size: " + std::to_string(size));
  };
  Replica one(batch(4)), first(batch(2), 0, 2), second(batch(2), 1, 2);
  for (int k = 0; k < 3; ++k) {
    for (Replica* each : {&one, &first, &second}) each->step();
    const std::vector<double> labels = one.values(1), numbers = one.values(2);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(labels[i], std::max(numbers[2 * i], numbers[2 * i + 1]));
      Replica& of = i % 2 == 0 ? first : second;
      EXPECT_EQ(of.values(1)[i / 2], labels[i]);
      for (std::size_t c = 0; c < 2; ++c) EXPECT_EQ(of.values(2)[i / 2 * 2 + c], numbers[2 * i + c]);
    }
  }
}

TEST_F(SelectSegBinary, RefusesOtherLinesAndSettings) {
  for (const char* line : {"a.png a_labels.png 0 0 1 1\n", "a.png a_labels.png 0 0 1 1 1\n",
                           "a.png a_labels.png 0 0 1 1 1 0 1\n", "a.png a_labels.png 0 0 1 1 1 256\n",
                           "a.png a_labels.png 0 0 1 1 1 x\n"})
    EXPECT_THAT(
        bad_input_of([&] { Replica(selecting(line)); }),
        HasSubstr("list:1: expected 2 numbers from 0 to 255, one for each class, after the window, found"))
        << line;
  EXPECT_THAT(bad_input_of([&] { Replica(selecting("a.png a_labels.png 1 0\n")); }),
              HasSubstr("expected a window, \"x1 y1 x2 y2\", before the numbers of classes"));
  const std::string line = "a.png a_labels.png 0 0 1 1 1 0\n";
  EXPECT_THAT(bad_input_of([&] {
                Replica(selecting(line, "label_type: PIXEL", "window_cls_data_param { label_dim: 0 }"));
              }),
              HasSubstr("window_cls_data_param.label_dim must be from 1 to 65536, not 0"));
  EXPECT_THAT(bad_input_of([&] { Replica(selecting(line, "label_type: PIXEL label_values: EDGES")); }),
              HasSubstr("image_data_param.label_values must be STORED"));
}

}  // namespace
}  // namespace banyan::data
