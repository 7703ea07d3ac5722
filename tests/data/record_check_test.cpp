#include "banyan/data/record_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/base/error.hpp"
#include "banyan/data/augmenter.hpp"

namespace banyan::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// Record i: label(i), and an image of side(i) pixels; those in `broken` cannot be read.
class MadeSource : public RecordSource {
 public:
  std::uint64_t records = 100;
  std::function<int(std::uint64_t)> label = [](std::uint64_t i) { return static_cast<int>(i % 5); };
  std::function<int(std::uint64_t)> side = [](std::uint64_t) { return 4; };
  std::vector<std::uint64_t> broken;

  std::uint64_t size() const override { return records; }
  std::string name() const override { return "made up"; }
  std::unique_ptr<RecordReader> reader() const override { return std::make_unique<Reader>(*this); }

 private:
  class Reader : public RecordReader {
   public:
    explicit Reader(const MadeSource& source) : source_(source) {}
    void fetch(std::uint64_t position, Record& record) override {
      if (std::find(source_.broken.begin(), source_.broken.end(), position) != source_.broken.end())
        bad_input("broken");
      position_ = position;
      record.stored = "0123456789";
    }
    void decode(Record& record) override {
      record.channels = 1;
      record.height = record.width = source_.side(position_);
      pixels_.assign(static_cast<std::size_t>(record.height * record.width), 1);
      record.bytes = pixels_.data();
      record.label = source_.label(position_);
    }
    std::string describe(std::uint64_t position) override { return "record " + std::to_string(position); }

   private:
    const MadeSource& source_;
    std::uint64_t position_ = 0;
    std::vector<std::uint8_t> pixels_;
  };
};

InputPipeline pipeline_of(const MadeSource& made, std::uint32_t crop = 0, DType dtype = DType::f32) {
  const auto source = std::make_shared<MadeSource>(made);
  caffe::TransformationParameter settings;
  settings.set_crop_size(crop);
  AssemblerOptions assembly;
  assembly.dtype = dtype;
  return {source,
          std::make_shared<EpochOrder>(source->size(), false, ops::RandomKey{}),
          std::make_shared<Augmenter>(settings, false, 1, 0, "data"),
          Dealing({source->size(), 10, 0, 1, EpochEnd::wrap}),
          assembly,
          {}};
}

RecordCheckOptions all_records(int threads = 1) { return {0, threads, {{1, 5, {}}}, {}}; }

TEST(RecordCheck, AllOfAGoodDataSet) {
  for (const int threads : {1, 3, 7})
    for (const DType dtype : {DType::f32, DType::f64}) {
      const RecordCheck check = check_records(pipeline_of({}, 0, dtype), all_records(threads));
      EXPECT_EQ(check.records, 100u);
      EXPECT_EQ(check.looked_at, 100u);
      EXPECT_EQ(check.unusable, 0u);
      EXPECT_EQ(check.bytes, 1000u);
      EXPECT_THAT(check.item, ElementsAre(Shape{1, 4, 4}, Shape{}));
      EXPECT_EQ(check.other_item, "");
      ASSERT_THAT(check.labels, SizeIs(1));
      EXPECT_EQ(check.labels[0].values, 100u);
      EXPECT_EQ(check.labels[0].outside, 0u);
      EXPECT_EQ(check.labels[0].least, 0);
      EXPECT_EQ(check.labels[0].most, 4);
      EXPECT_THAT(check.labels[0].counts, SizeIs(5));
    }
}

TEST(RecordCheck, ASampleReachesFromTheFirstRecordToTheLast) {
  MadeSource source;
  source.label = [](std::uint64_t i) { return static_cast<int>(i); };
  RecordCheckOptions options = all_records(2);
  options.most = 10;
  options.labels[0].classes = 1000;
  const RecordCheck check = check_records(pipeline_of(source), options);
  EXPECT_EQ(check.looked_at, 10u);
  EXPECT_EQ(check.labels[0].least, 0);
  EXPECT_EQ(check.labels[0].most, 99);
  EXPECT_THAT(check.labels[0].counts, SizeIs(10)) << "each record once";
  options.most = 1000;
  EXPECT_EQ(check_records(pipeline_of(source), options).looked_at, 100u);
  options.most = 1;
  EXPECT_EQ(check_records(pipeline_of(source), options).looked_at, 1u);
  MadeSource one;
  one.records = 1;
  EXPECT_EQ(check_records(pipeline_of(one), all_records(4)).looked_at, 1u);
}

TEST(RecordCheck, RecordsThatCannotBeUsed) {
  MadeSource source;
  source.broken = {3, 50, 51, 52, 53, 54, 99};
  for (const int threads : {1, 4}) {
    const RecordCheck check = check_records(pipeline_of(source), all_records(threads));
    EXPECT_EQ(check.unusable, 7u);
    EXPECT_EQ(check.labels[0].values, 93u);
    ASSERT_THAT(check.complaints, SizeIs(5)) << "the first few";
    EXPECT_EQ(check.complaints[0], "record 3: broken");
    EXPECT_EQ(check.complaints[1], "record 50: broken");
  }
  MadeSource small;
  small.side = [](std::uint64_t i) { return i == 20 ? 3 : 4; };
  const RecordCheck check = check_records(pipeline_of(small, 4), all_records());
  EXPECT_EQ(check.unusable, 1u) << "smaller than the crop";
  EXPECT_THAT(check.complaints, ElementsAre(HasSubstr("record 20: crop_size 4 is larger than")));
}

TEST(RecordCheck, ItemsOfSeveralSizes) {
  MadeSource source;
  source.side = [](std::uint64_t i) { return i >= 70 ? 6 : 4; };
  for (const int threads : {1, 2, 5}) {
    const RecordCheck check = check_records(pipeline_of(source), all_records(threads));
    EXPECT_EQ(check.item.at(0), (Shape{1, 4, 4}));
    EXPECT_THAT(check.other_item, HasSubstr("1 x 6 x 6")) << threads;
  }
  EXPECT_EQ(check_records(pipeline_of(source, 3), all_records(2)).other_item, "") << "cropped";
}

TEST(RecordCheck, LabelsOutsideTheClasses) {
  MadeSource source;
  source.label = [](std::uint64_t i) {
    return i == 42 ? 7 : i == 60 ? -1 : i == 61 ? 255 : static_cast<int>(i % 5);
  };
  RecordCheckOptions options = all_records(3);
  RecordCheck check = check_records(pipeline_of(source), options);
  EXPECT_EQ(check.labels[0].outside, 3u);
  EXPECT_EQ(check.labels[0].first_outside, "record 42: 7");
  options.labels[0].ignored = {255, 7};
  check = check_records(pipeline_of(source), options);
  EXPECT_EQ(check.labels[0].outside, 1u);
  EXPECT_EQ(check.labels[0].values, 98u) << "ignored ones do not count";
  EXPECT_EQ(check.labels[0].first_outside, "record 60: -1");
}

TEST(RecordCheck, StopsWhenAsked) {
  RecordCheckOptions options = all_records();
  int asked = 0;
  options.stop = [&] { return ++asked > 10; };
  EXPECT_EQ(check_records(pipeline_of({}), options).looked_at, 10u);
}

TEST(RecordCheck, ValuesInTheOrderOfTraining) {
  EXPECT_THAT(first_values(pipeline_of({}), 1, 7), ElementsAre(0, 1, 2, 3, 4, 0, 1));
  MadeSource one;
  one.records = 2;
  EXPECT_THAT(first_values(pipeline_of(one), 1, 7), ElementsAre(0, 1));
  EXPECT_THAT(first_values(pipeline_of({}), 5, 7), IsEmpty()) << "no such output";
}

}  // namespace
}  // namespace banyan::data
