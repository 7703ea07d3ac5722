// Several resize_param of an AnnotatedData: each batch has one of the sizes.

#include <map>
#include <set>

#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"

namespace banyan::data {
namespace {

using testing::HasSubstr;

constexpr const char* kTwoSizes =
    "resize_param { prob: 0.3 height: 6 width: 10 interp_mode: LINEAR interp_mode: AREA } "
    "resize_param { prob: 0.1 height: 4 width: 4 } mirror: true ";

class SeveralSizes : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    LmdbWriter writer(path("db"), true);
    for (int record = 0; record < 5; ++record) {
      const int height = 5 + record, width = 12 - record;
      std::vector<std::uint8_t> pixels;
      for (int i = 0; i < 3 * height * width; ++i)
        pixels.push_back(static_cast<std::uint8_t>(7 * i + record));
      caffe::AnnotatedDatum datum;
      datum.mutable_datum()->ParseFromString(raw_datum(3, height, width, pixels.data(), 0));
      datum.set_type(caffe::AnnotatedDatum::BBOX);
      caffe::AnnotationGroup& group = *datum.add_annotation_group();
      group.set_group_label(record + 1);
      caffe::NormalizedBBox& box = *group.add_annotation()->mutable_bbox();
      box.set_xmin(0.25f);
      box.set_ymin(0.25f);
      box.set_xmax(0.75f);
      box.set_ymax(1);
      writer.put(key_of(static_cast<std::uint64_t>(record)), datum.SerializeAsString());
    }
    writer.close();
  }
  std::string text(int batch, const std::string& transform, const std::string& data = "") const {
    return "name: 'a' type: 'AnnotatedData' top: 'data' top: 'label' data_param { source: '" + path("db") +
           "' batch_size: " + std::to_string(batch) + " " + data + " } annotated_data_param { " +
           "yolo_data_type: 1 yolo_data_jitter: 0.2 } transform_param { " + transform + " }";
  }
  std::string refused(const std::string& transform) const {
    return bad_input_of([&] { Replica(text(1, transform)).step(); });
  }
};

/// A step's shapes and values.
struct Step {
  Shape shape;
  std::vector<double> pixels, labels;
  bool operator==(const Step&) const = default;
};
Step step_of(Replica& replica) {
  replica.step();
  return {replica.outputs[0]->shape, replica.values(0), replica.values(1)};
}

TEST_F(SeveralSizes, EachBatchHasOneDrawnByItsPartOfTheSum) {
  Replica replica(text(3, kTwoSizes));
  std::map<std::int64_t, int> widths;
  constexpr int kSteps = 240;
  for (int k = 0; k < kSteps; ++k) {
    replica.step();
    const Shape& shape = replica.outputs[0]->shape;
    ASSERT_TRUE(shape == (Shape{3, 3, 6, 10}) || shape == (Shape{3, 3, 4, 4})) << shape.to_string();
    ++widths[shape[3]];
    EXPECT_EQ(replica.outputs[1]->shape, (Shape{3, 1, 300, 5}));
  }
  // Three of four: 180, give or take 4 times the root of 240 * 3 / 16.
  EXPECT_NEAR(widths[10], 180, 27);
  EXPECT_EQ(widths[10] + widths[4], kSteps);
}

TEST_F(SeveralSizes, OneThatHasNoProbabilityIsNeverDrawn) {
  Replica replica(text(2,
                       "resize_param { prob: 0 height: 8 width: 8 } resize_param { height: 4 width: 4 } "
                       "resize_param { prob: 0 height: 9 width: 9 }"));
  for (int k = 0; k < 20; ++k) EXPECT_EQ(step_of(replica).shape, (Shape{2, 3, 4, 4}));
}

TEST_F(SeveralSizes, OneIsDrawnForTheBatchesOfAllDevices) {
  constexpr int kSteps = 8;
  Replica whole(text(6, kTwoSizes, "shuffle: true threads: 2"));
  std::vector<Step> of_one;
  std::set<std::int64_t> widths;
  for (int k = 0; k < kSteps; ++k) {
    of_one.push_back(step_of(whole));
    widths.insert(of_one.back().shape[3]);
  }
  ASSERT_EQ(widths.size(), 2u);
  for (const int devices : {2, 3})
    for (int rank = 0; rank < devices; ++rank) {
      Replica part(text(6 / devices, kTwoSizes, "shuffle: true threads: 2"), rank, devices);
      for (const Step& one : of_one) {
        const Step found = step_of(part);
        ASSERT_EQ(found.shape, (Shape{6 / devices, 3, one.shape[2], one.shape[3]}));
        const auto each = static_cast<std::size_t>(one.shape.count(1));
        for (std::size_t i = 0; i < static_cast<std::size_t>(6 / devices); ++i) {
          const std::size_t item = i * static_cast<std::size_t>(devices) + static_cast<std::size_t>(rank);
          for (std::size_t e = 0; e < each; ++e)
            ASSERT_EQ(found.pixels[i * each + e], one.pixels[item * each + e]);
          for (std::size_t e = 0; e < 1500; ++e)
            ASSERT_EQ(found.labels[i * 1500 + e], one.labels[item * 1500 + e]);
        }
      }
    }
}

TEST_F(SeveralSizes, AResumedRunGoesOnWithTheSame) {
  Replica whole(text(4, kTwoSizes)), resumed(text(4, kTwoSizes));
  for (int k = 0; k < 5; ++k) step_of(whole);
  resumed.source().seek(20);
  for (int k = 0; k < 6; ++k) EXPECT_EQ(step_of(resumed), step_of(whole));
}

/// As after a run with batches of another size.
TEST_F(SeveralSizes, BatchesMayBeginAnywhere) {
  Replica replica(text(4, kTwoSizes));
  replica.source().seek(7);
  std::set<std::int64_t> widths;
  for (int k = 0; k < 20; ++k) widths.insert(step_of(replica).shape[3]);
  EXPECT_EQ(widths.size(), 2u);
  Replica partial(text(4, kTwoSizes, "epoch_end: PARTIAL"));
  for (int k = 0; k < 20; ++k) EXPECT_EQ(step_of(partial).shape[0], k % 2 == 0 ? 4 : 1);
}

TEST_F(SeveralSizes, TestBatchesAreTheSameOnAnyNumberOfDevices) {
  const std::string settings = text(3, kTwoSizes);
  Replica whole(settings, 0, 1, Phase::test);
  std::vector<Step> of_one;
  whole.source().begin_test_pass(6);
  for (int k = 0; k < 6; ++k) of_one.push_back(step_of(whole));
  for (int rank = 0; rank < 2; ++rank) {
    Replica part(settings, rank, 2, Phase::test);
    part.source().begin_test_pass(6);
    for (int k = 0; k < 3; ++k) EXPECT_EQ(step_of(part), of_one[static_cast<std::size_t>(2 * k + rank)]);
  }
}

TEST_F(SeveralSizes, WrongOnes) {
  EXPECT_THAT(refused("resize_param { height: 4 width: 4 } resize_param { height: 4 }"),
              HasSubstr("resize_param.width must be in [1"));
  EXPECT_THAT(
      refused("resize_param { prob: 0 height: 4 width: 4 } resize_param { prob: 0 height: 8 width: 8 }"),
      HasSubstr("resize_param is given 2 times, each with a prob of 0"));
}

}  // namespace
}  // namespace banyan::data
