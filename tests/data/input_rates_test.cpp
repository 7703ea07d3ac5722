// The measurement of a data layer's parts, on a data set whose items and bytes are known. How fast they are
// is none of a test's business.
#include "banyan/data/input_rates.hpp"

#include "banyan/data/lmdb_source.hpp"
#include "data/data_test_tools.hpp"

namespace banyan::data {
namespace {

class InputRatesOf : public FolderTest {
 protected:
  InputPipeline pipeline(int records, std::uint64_t batch) const {
    if (!std::filesystem::exists(path("db"))) make_numbered_lmdb(path("db"), records, 3, 8, 8);
    DealingRule rule;
    rule.records = static_cast<std::uint64_t>(records);
    rule.batch = batch;
    InputPipeline made{open_lmdb(path("db")),
                       std::make_shared<EpochOrder>(rule.records, false, ops::RandomKey{1, 2, 0}),
                       std::make_shared<Augmenter>(caffe::TransformationParameter(), true, 1, 5, "data"),
                       Dealing(rule),
                       {},
                       {}};
    made.assembly.largest_share = batch;
    made.prefetch.depth = 3;
    made.prefetch.threads = 2;
    made.prefetch.name = made.source->name();
    return made;
  }
  const std::unique_ptr<Device> device_ = make_cpu_device(0);
};

TEST_F(InputRatesOf, CountWhatIsAskedFor) {
  const InputPipeline made = pipeline(10, 4);
  std::uint64_t bytes = 0;
  const auto reader = made.source->reader();
  Record record;
  for (std::uint64_t item = 8; item < 8 + 20; ++item) {  // behind two batches of warming up
    reader->fetch(item % 10, record);
    bytes += record.stored.size();
  }
  const InputRates rates = measure_input(made, *device_, 5, [] { return false; });
  EXPECT_EQ(rates.items, 20u);
  EXPECT_EQ(rates.bytes, bytes);
  EXPECT_EQ(rates.threads, 2);
  for (const double seconds : {rates.read_seconds, rates.decode_seconds, rates.augment_seconds,
                               rates.pipeline_seconds, rates.pipeline_cpu_seconds})
    EXPECT_GT(seconds, 0);
}

TEST_F(InputRatesOf, EndWhenAskedTo) {
  int asked = 0;
  const InputRates rates = measure_input(pipeline(10, 4), *device_, 1000000, [&] { return ++asked > 3; });
  EXPECT_EQ(rates.items, 16u);
}

TEST_F(InputRatesOf, NameABrokenRecord) {
  {
    LmdbWriter writer(path("db"));
    writer.put("a", "no Datum");
    writer.close();
  }
  InputPipeline made = pipeline(1, 1);
  EXPECT_THAT(bad_input_of([&] { measure_input(made, *device_, 2, [] { return false; }); }),
              testing::HasSubstr("record 0"));
}

}  // namespace
}  // namespace banyan::data
