// FrcnnRoiData: images with boxes, named in a list.
#include "banyan/data/roi_list.hpp"

#include <set>

#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"

namespace banyan::data {
namespace {

using testing::HasSubstr;
using Numbers = std::vector<double>;

class FrcnnRoiData : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    Image image{3, 2, 4, {}};
    for (int i = 0; i < 8; ++i)
      for (int c = 0; c < 3; ++c) image.pixels.push_back(static_cast<std::uint8_t>(10 * i + c));
    write_file(path("a.png"), encode_image(image, "png"));
    write_file(path("b.png"), encode_image({3, 6, 3, std::vector<std::uint8_t>(54, 100)}, "png"));
  }
  std::string text(const std::string& list, const std::string& how = "", const std::string& transform = "") {
    write_file(path("list"), list);
    return "name: 'input-data' type: 'FrcnnRoiData' top: 'data' top: 'im_info' top: 'gt_boxes' "
           "window_data_param { source: '" +
           path("list") + "' root_folder: '" + folder_ + "/' cache_images: true } roi_data_param { " + how +
           " } transform_param { " + transform + " }";
  }
  static constexpr const char* kOne = "# 0\na.png\n2\n3 1 0 2 1 0\n7 -2 0 9 9 1\n";
};

TEST_F(FrcnnRoiData, IsTheImageWithItsBoxes) {
  Replica replica(text(kOne, "scale: 2", "mean_value: 1 mean_value: 2 mean_value: 3 scale: 0.5"));
  replica.step();
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 3, 2, 4}));
  EXPECT_EQ(replica.outputs[1]->shape, (Shape{1, 3}));
  EXPECT_EQ(replica.outputs[2]->shape, (Shape{1, 2, 5}));
  const Numbers pixels = replica.values(0);
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(pixels[c * 8 + i], 0.5 * (10.0 * double(i) - 1));
  EXPECT_EQ(replica.values(1), (Numbers{2, 4, 1}));
  EXPECT_EQ(replica.values(2), (Numbers{1, 0, 2, 1, 3, 0, 0, 3, 1, 7}));
}

TEST_F(FrcnnRoiData, ScalesTheShorterSideAndAlignsBoth) {
  Replica replica(text(kOne, "scale: 4 max_size: 6 align: 4"));
  replica.step();  // 4 / 2, but at most 6 / 4
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 3, 4, 8}));
  EXPECT_EQ(replica.values(1), (Numbers{4, 8, 1.5}));
  EXPECT_EQ(replica.values(2), (Numbers{1.5, 0, 3, 1.5, 3, 0, 0, 4.5, 1.5, 7}));
  const Numbers pixels = replica.values(0);
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 8; ++x) {
      if (y < 3 && x < 6) continue;
      EXPECT_EQ(pixels[static_cast<std::size_t>(y * 8 + x)], 0);
    }
  EXPECT_GT(pixels[2 * 8 + 5], 60);
}

TEST_F(FrcnnRoiData, MirrorsBothInTraining) {
  std::set<double> lefts;
  Replica training(text(kOne, "scale: 2", "mirror: true"));
  for (int i = 0; i < 20; ++i) {
    training.step();
    const bool mirrored = training.values(0)[0] == 30;
    lefts.insert(training.values(0)[0]);
    // 0, 10, 20, 30 in the upper row of the first channel
    EXPECT_EQ(training.values(0)[1], mirrored ? 20 : 10);
    EXPECT_EQ(training.values(2), (Numbers{1, 0, 2, 1, 3, 0, 0, 3, 1, 7}));  // it is symmetric
  }
  EXPECT_EQ(lefts, (std::set<double>{0, 30}));
  const char* const lopsided = "# 0 a.png 1 3 0 0 1 1 0";
  Replica other(text(lopsided, "scale: 2", "mirror: true"));
  for (int i = 0; i < 20; ++i) {
    other.step();
    EXPECT_EQ(other.values(2),
              other.values(0)[0] == 30 ? (Numbers{2, 0, 3, 1, 3}) : (Numbers{0, 0, 1, 1, 3}));
  }
  Replica test(text(kOne, "scale: 2", "mirror: true"), 0, 1, Phase::test);
  for (int i = 0; i < 10; ++i) {
    test.step();
    EXPECT_EQ(test.values(0)[0], 0);
  }
}

/// Images of different sizes one after the other, each with the most rows; every epoch has all.
TEST_F(FrcnnRoiData, HasImagesOfAllSizes) {
  const std::string list = std::string(kOne) + "# 1\nb.png\n0\n";
  Replica replica(text(list, "scale: [3, 6]"));
  std::multiset<std::int64_t> widths;
  std::set<std::int64_t> heights;
  for (int i = 0; i < 40; ++i) {
    replica.step();
    const Shape& shape = replica.outputs[0]->shape;
    EXPECT_EQ(replica.outputs[2]->shape, (Shape{1, 2, 5}));
    heights.insert(shape[2]);
    const bool high = shape[2] > shape[3];
    widths.insert(high ? 1 : 0);
    if (!high) continue;
    EXPECT_EQ(replica.values(2), Numbers(10, 0.0));
  }
  EXPECT_EQ(widths.count(0), 20u);
  EXPECT_EQ(heights, (std::set<std::int64_t>{3, 6, 12}));
}

TEST_F(FrcnnRoiData, DevicesTakeWhatOneWouldTake) {
  const std::string list = std::string(kOne) + "# 1\nb.png\n1\n1 0 0 1 1 0\n";
  Replica whole(text(list, "scale: [3, 6]", "mirror: true"));
  Replica first(text(list, "scale: [3, 6]", "mirror: true"), 0, 2);
  Replica second(text(list, "scale: [3, 6]", "mirror: true"), 1, 2);
  for (int i = 0; i < 6; ++i)
    for (Replica* part : {&first, &second}) {
      whole.step();
      part->step();
      EXPECT_EQ(part->outputs[0]->shape, whole.outputs[0]->shape);
      for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(part->values(k), whole.values(k));
    }
}

TEST_F(FrcnnRoiData, RefusesWhatIsNoList) {
  const auto refusal = [&](const std::string& list, const std::string& how = "",
                           const std::string& transform = "") {
    return bad_input_of([&] { Replica(text(list, how, transform)).step(); });
  };
  EXPECT_THAT(refusal(""), HasSubstr("lists no images"));
  EXPECT_THAT(refusal("0 a.png 0"), HasSubstr("list:1: expected \"#\" before the next image, found \"0\""));
  EXPECT_THAT(refusal("# 0\na.png\n1\n0 1 1 2 2 0"),
              HasSubstr("list:4: expected a positive class of a box, found 0"));
  EXPECT_THAT(refusal("# 0\na.png\n1\n1 5 1 2 2 0"), HasSubstr("expected a box that ends after it begins"));
  EXPECT_THAT(refusal("# 0\na.png\n1\n1 1 1 2 2"), HasSubstr("expected whether the box is difficult"));
  EXPECT_THAT(refusal("# 0\nnone.png\n0\n"), HasSubstr("none.png"));
  EXPECT_THAT(refusal(kOne, "scale: 0"), HasSubstr("roi_data_param.scale must be in [1, 32768], not 0"));
  EXPECT_THAT(refusal(kOne, "align: 0"), HasSubstr("roi_data_param.align"));
  EXPECT_THAT(bad_input_of([&] {
                std::string other = text(kOne);
                Replica(other.replace(other.find("cache_images"), 0, "mirror: true "));
              }),
              HasSubstr("window_data_param.mirror has no meaning in FrcnnRoiData"));
  EXPECT_THAT(refusal(kOne, "", "crop_size: 3"), HasSubstr("transform_param.crop_size is not supported"));
  EXPECT_THAT(refusal(kOne, "", "mean_value: 1 mean_value: 2"), HasSubstr("must have 1 or 3 values, not 2"));
}

}  // namespace
}  // namespace banyan::data
