// Measures a data layer's parts on a data set of known items and bytes, with a clock that only the parts
// advance.
#include "banyan/data/input_rates.hpp"

#include <atomic>
#include <utility>

#include "banyan/data/augmenter.hpp"
#include "banyan/data/lmdb_source.hpp"
#include "data/data_test_tools.hpp"

namespace banyan::data {
namespace {

/// A clock on which fetching a record takes a second, decoding it 16 seconds, and reading the clock 1/1024 s.
/// (Powers of two: sums are exact.)
struct MadeClock {
  std::atomic<std::int64_t> now{0};  ///< in 1/1024 s
  double seconds() { return static_cast<double>(++now) / 1024; }
  void pass(int seconds) { now += 1024 * seconds; }
};

/// Wraps a source and advances a MadeClock.
class TimedSource : public RecordSource {
 public:
  TimedSource(std::shared_ptr<const RecordSource> inner, MadeClock& clock)
      : inner_(std::move(inner)), clock_(clock) {}
  std::uint64_t size() const override { return inner_->size(); }
  std::string name() const override { return inner_->name(); }
  std::unique_ptr<RecordReader> reader() const override {
    return std::make_unique<TimedReader>(inner_->reader(), clock_);
  }

 private:
  class TimedReader : public RecordReader {
   public:
    TimedReader(std::unique_ptr<RecordReader> inner, MadeClock& clock)
        : inner_(std::move(inner)), clock_(clock) {}
    void fetch(std::uint64_t position, Record& record) override {
      inner_->fetch(position, record);
      clock_.pass(1);
    }
    void decode(Record& record) override {
      inner_->decode(record);
      clock_.pass(16);
    }
    std::string describe(std::uint64_t position) override { return inner_->describe(position); }

   private:
    std::unique_ptr<RecordReader> inner_;
    MadeClock& clock_;
  };
  std::shared_ptr<const RecordSource> inner_;
  MadeClock& clock_;
};

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
  for (std::uint64_t item = 8; item < 8 + 20; ++item) {  // after two warm-up batches
    reader->fetch(item % 10, record);
    bytes += record.stored.size();
  }
  const InputRates rates = measure_input(made, *device_, 5, [] { return false; });
  EXPECT_EQ(rates.items, 20u);
  EXPECT_EQ(rates.bytes, bytes);
  EXPECT_EQ(rates.threads, 2);
}

/// Each part is charged with its own time and with reading the clock that ends it. Augmenting takes only that
/// reading here.
TEST_F(InputRatesOf, ChargeEachPartWithItsOwnTime) {
  MadeClock clock;
  InputPipeline made = pipeline(10, 4);
  made.source = std::make_shared<TimedSource>(made.source, clock);
  const InputClocks clocks{[&] { return clock.seconds(); },
                           [&] { return 2 * static_cast<double>(clock.now) / 1024; }};
  constexpr int kBatches = 100, kItems = 4 * kBatches;
  const InputRates rates = measure_input(
      made, *device_, kBatches, [] { return false; }, clocks);
  EXPECT_EQ(rates.read_seconds, kItems * (1 + 1.0 / 1024));
  EXPECT_EQ(rates.decode_seconds, kItems * (16 + 1.0 / 1024));
  EXPECT_EQ(rates.augment_seconds, kItems * (1.0 / 1024));
  // With threads, the time is that between the first and last item made. The threads run ahead of the batches
  // taken by at most the queue's three batches and the two in progress, at the start and at the end.
  constexpr double kPerItem = 17, kAhead = 4 * (3 + 2) * kPerItem;
  EXPECT_NEAR(rates.pipeline_seconds, kItems * kPerItem, kAhead);
  EXPECT_NEAR(rates.pipeline_cpu_seconds, 2 * kItems * kPerItem, 2 * kAhead);
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
