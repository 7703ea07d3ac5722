// BboxData: images whose boxes are in files of their own.
#include "banyan/io/prototxt.hpp"
#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"

namespace banyan::data {
namespace {

using testing::HasSubstr;

class BboxData : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    for (int i = 0; i < 3; ++i) {
      const Image image{3, 4, 6, std::vector<std::uint8_t>(72, static_cast<std::uint8_t>(10 * i + 10))};
      write_file(path("image " + std::to_string(i) + ".png"), encode_image(image, "png"));
    }
    write_file(path("0.txt"), "1 2 3 4 0\n5 6 7 8 2\n");
    write_file(path("1.txt"), "");
    write_file(path("2.txt"), " 9 9 11 12 1");
    write_file(path("list"), "image 0.png 0.txt\n\nimage 1.png\t1.txt \nimage 2.png 2.txt\n");
  }
  std::string text(const std::string& more, const std::string& transform = "") {
    return "name: 'a' type: 'BboxData' top: 'data' top: 'bbox' bbox_data_param { source: '" + path("list") +
           "' root_folder: '" + path("") + "' " + more + " } transform_param { " + transform + " }";
  }
  std::string refusal(const std::string& text) {
    return bad_input_of([&] { Replica(text).step(); });
  }
};

TEST_F(BboxData, GivesImagesAndRowsThatAreFilledUp) {
  Replica replica(text("batch_size: 3", "mean_value: 5 scale: 0.5"), 0, 1, Phase::train, false, DType::f64);
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{3, 3, 4, 6}));
  EXPECT_EQ(replica.outputs[1]->shape, (Shape{3, 10}));
  replica.step();
  EXPECT_EQ(replica.values(1),
            (std::vector<double>{1,  2,  3,  4,  0,  5, 6, 7,  8,  2, -1, -1, -1, -1, -1,
                                 -1, -1, -1, -1, -1, 9, 9, 11, 12, 1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(replica.values(0)[0], 2.5);
  EXPECT_EQ(replica.values(0)[2 * 72], 12.5);
}

TEST_F(BboxData, ResizesImagesAndNotTheirBoxes) {
  Replica replica(text("batch_size: 1 new_height: 8 new_width: 5 is_color: false"));
  replica.step();
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 1, 8, 5}));
  EXPECT_EQ(replica.values(1)[7], 7);
}

TEST_F(BboxData, RefusesWhatMakesNoSense) {
  EXPECT_THAT(refusal(text("", "mirror: true")), HasSubstr("mirror is not supported"));
  EXPECT_THAT(refusal(text("", "crop_size: 2")), HasSubstr("must not crop"));
  EXPECT_THAT(refusal(text("", "resize_param { height: 4 width: 4 }")),
              HasSubstr("resize_param is not supported: new_height and new_width resize"));
  EXPECT_THAT(refusal(text("new_height: 3")), HasSubstr("both of new_height and new_width"));
  EXPECT_THAT(refusal(text("batch_size: 0")), HasSubstr("batch_size must be positive"));
  EXPECT_THAT(refusal("name: 'a' type: 'BboxData' top: 'x' top: 'y'"), HasSubstr("source is missing"));
  write_file(path("list"), "image 0.png 0.txt\nnothing\n");
  EXPECT_THAT(refusal(text("")), HasSubstr("list:2: expected an image and a file of boxes"));
  write_file(path("list"), "image 0.png none.txt\n");
  EXPECT_THAT(refusal(text("")), HasSubstr("none.txt"));
  write_file(path("list"), "\n");
  EXPECT_THAT(refusal(text("")), HasSubstr("lists no images"));
  write_file(path("list"), "image 0.png 0.txt\n");
  write_file(path("0.txt"), "1 2\n3 4.5 0");
  EXPECT_THAT(refusal(text("")), HasSubstr("0.txt:2: expected its y2, found \"4.5\""));
  write_file(path("0.txt"), "1 2 3");
  EXPECT_THAT(refusal(text("")), HasSubstr("0.txt:1: expected its y2, found the end of the file"));
}

}  // namespace
}  // namespace banyan::data
