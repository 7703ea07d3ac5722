// The exchange of roots with other processes: groups joined through memory, with inline and asynchronous
// streams, where a missing wait is a data race.
#include "banyan/parallel/uplink.hpp"

#include <gmock/gmock.h>

#include <thread>

#include "banyan/ops/basic.hpp"
#include "banyan/parallel/gradient_sync.hpp"
#include "memory_wire.hpp"
#include "tree_fixture.hpp"

namespace banyan::parallel {
namespace {

/// Runs body(process, fixture, uplink) for each process on a separate thread; returns the messages of the
/// errors thrown.
std::vector<std::string> run_processes(
    const TreeSetting& setting, const std::vector<int>& devices,
    const std::function<void(int process, TreeFixture& fixture, Uplink& uplink)>& body,
    const WireUplinkOptions& options = {}) {
  MemoryHub hub(devices, static_cast<int>(setting.delay_us));
  std::vector<std::string> errors(devices.size());
  std::vector<std::thread> threads;
  for (int p = 0; p < hub.processes(); ++p)
    threads.emplace_back([&, p] {
      const auto at = static_cast<std::size_t>(p);
      const auto uplink = hub.join(p, options);
      TreeFixture fixture({devices[at], setting.asynchronous, setting.delay_us});
      uplink->attach({{}, [&](const Error& error) { fixture.abort.raise(error); }});
      fixture.abort.on_raise(
          [&] { uplink->abort(fixture.abort.error().value_or(Error(ErrorKind::runtime, "aborted"))); });
      try {
        body(p, fixture, *uplink);
      } catch (const Error& error) {
        errors[at] = error.what();
      }
      uplink->detach();
      if (errors[at].empty()) uplink->leave();
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

/// Other processes never answer; this one fails meanwhile.
class LostUplink : public Uplink {
 public:
  explicit LostUplink(AbortState& abort) : abort_(abort) {}
  const UplinkPlace& place() const override { return place_; }
  std::string name() const override { return "process 0"; }
  std::vector<std::string> share(const std::string& mine) override { return {mine, mine}; }
  void attach(UplinkRun) override {}
  void detach() noexcept override {}
  OtherDevices others() const override { return {}; }
  void begin(int, Tensor& message, UplinkMerge, const Meeting&, ProcessRange, Context&, Doorbell&) override {
    message_ = &message;
  }
  bool done(int, Context&) override {
    abort_.raise();
    return false;
  }
  void abort(const Error&) noexcept override {}
  double first_value() const { return *message_->data<double>(); }

 private:
  AbortState& abort_;
  UplinkPlace place_{0, {1, 1}};
  Tensor* message_ = nullptr;
};

TEST(Uplink, MayReadAMessageAfterTheExchangeWasAborted) {
  TreeFixture fixture({1, false, 0});
  LostUplink uplink(fixture.abort);
  StatisticsTrees trees(fixture.links(), build_tree(fixture.links()), fixture.members, {}, fixture.abort,
                        fixture.spin(), &uplink);
  StatisticsExchange exchange(trees, 0);
  EXPECT_THROW(fixture.run([&](int rank) {
    Context context(fixture.device(rank));
    Tensor message(fixture.device(rank), Shape{1000}, DType::f64);
    ops::fill(context, message, 7);
    exchange.all_reduce(context, message, Merge::sum, 0, Ticket{"loss", "report"});
  }),
               Error);
  ASSERT_GE(fixture.device(0).memory().in_use, 8000u);
  EXPECT_EQ(uplink.first_value(), 7);
}

class UplinkTest : public testing::TestWithParam<TreeSetting> {};
INSTANTIATE_TEST_SUITE_P(Streams, UplinkTest,
                         testing::Values(TreeSetting{2, false, 0}, TreeSetting{2, true, 200}),
                         name_of_setting);

TEST_P(UplinkTest, StatisticsAreThoseOfAllProcesses) {
  const auto errors = run_processes(GetParam(), {1, 3, 2}, [](int, TreeFixture& fixture, Uplink& uplink) {
    StatisticsTrees trees(fixture.links(), build_tree(fixture.links()), fixture.members, {1}, fixture.abort,
                          fixture.spin(), &uplink);
    fixture.run([&](int rank) {
      Context context(fixture.device(rank));
      StatisticsExchange exchange(trees, rank);
      EXPECT_EQ(exchange.devices(), 6);
      Tensor message(fixture.device(rank), Shape{3}, DType::f64);
      double values[3];
      for (int round = 0; round < 10; ++round) {
        ops::fill(context, message, exchange.rank() + round);
        exchange.all_reduce(context, message, Merge::sum, 0, Ticket{"loss", "divisor"});
        copy_to_host(context, message, values);
        EXPECT_EQ(values[2], 15 + 6 * round);
        ops::fill(context, message, exchange.rank() + round);
        exchange.broadcast(context, message, Ticket{"loss", "start"});
        copy_to_host(context, message, values);
        EXPECT_EQ(values[1], round);
        // One sample of value `rank` on each device: (count, mean, M2).
        const double one[3] = {1, static_cast<double>(exchange.rank()), 0};
        copy_from_host(context, one, message);
        exchange.all_reduce(context, message, Merge::moments, 0, Ticket{"bn", "forward"});
        copy_to_host(context, message, values);
        EXPECT_EQ(values[0], 6);
        EXPECT_NEAR(values[1], 2.5, 1e-14);  // f64 rounding
        EXPECT_NEAR(values[2], 17.5, 1e-13);
        exchange.all_reduce(context, message, Merge::sum, 1, Ticket{"bn", "forward"});  // groups of one
      }
      context.synchronize();
      fixture.meet(rank);
    });
  });
  EXPECT_THAT(errors, testing::Each(""));
}

/// Groups are made of the devices of all processes, in rank order: of three, the first has both devices of
/// process 0 and one of process 1, and so on.
TEST_P(UplinkTest, GroupsMaySpanProcesses) {
  for (const int size : {2, 3, 4, 5}) {
    const auto errors =
        run_processes(GetParam(), {2, 3, 1, 2}, [size](int, TreeFixture& fixture, Uplink& uplink) {
          StatisticsTrees trees(fixture.links(), build_tree(fixture.links()), fixture.members, {size, 3},
                                fixture.abort, fixture.spin(), &uplink);
          fixture.run([&](int rank) {
            Context context(fixture.device(rank));
            StatisticsExchange exchange(trees, rank);
            const int first = exchange.rank() / size * size, end = std::min(first + size, 8);
            double expected = 0;
            for (int other = first; other < end; ++other) expected += 1 << other;
            Tensor message(fixture.device(rank), Shape{5}, DType::f64);
            double values[5];
            for (int round = 0; round < 5; ++round) {
              ops::fill(context, message, 1 << exchange.rank());
              exchange.all_reduce(context, message, Merge::sum, size, Ticket{"bn", "forward"});
              copy_to_host(context, message, values);
              EXPECT_EQ(values[4], expected) << "rank " << exchange.rank() << ", groups of " << size;
            }
            context.synchronize();
            fixture.meet(rank);
          });
        });
    EXPECT_THAT(errors, testing::Each(""));
  }
}

/// As in gradient_sync_test: value -= sum of gradients, but over all processes, whose owners differ.
TEST_P(UplinkTest, BucketsAreSummedOverAllProcesses) {
  constexpr std::int64_t kTotal = 120000;
  const auto errors = run_processes(GetParam(), {2, 1, 3}, [](int, TreeFixture& fixture, Uplink& uplink) {
    const UplinkPlace place = uplink.place();
    const auto buckets = plan_buckets({{0, kTotal, 0}}, kTotal, 4, fixture.size(), place.devices());
    EXPECT_GT(buckets.size(), 4u);
    // Different in each process, as if each had measured its own links.
    const std::size_t chunk_bytes = 5000 * static_cast<std::size_t>(place.process + 1);
    DeviceTree tree(build_tree(fixture.links()), fixture.members, fixture.abort, fixture.spin(),
                    GradientSync::slots_for(buckets, 4, chunk_bytes), &uplink);
    fixture.run([&](int rank) {
      Context compute(fixture.device(rank)), lane(fixture.device(rank), "lane");
      Tensor values(fixture.device(rank), Shape{kTotal}, DType::f32),
          gradients(fixture.device(rank), Shape{kTotal}, DType::f32);
      ops::fill(compute, values, 0);
      compute.synchronize();
      GradientSync sync(
          &tree, rank, lane, buckets, gradients, values,
          [&](int bucket) {
            const Bucket& at = buckets[bucket];
            Tensor value = values.slice(at.offset, Shape{at.count});
            ops::axpby(lane, -1.0, gradients.slice(at.offset, Shape{at.count}), 1.0, value);
          },
          chunk_bytes);
      std::vector<float> host(kTotal);
      for (int iteration = 0; iteration < 5; ++iteration) {
        if (iteration == 3) sync.hold();
        sync.start();
        ops::fill(compute, gradients, place.first_rank() + rank + 1);
        sync.layer_done(0, compute.stream());
        if (iteration == 3) {
          sync.finish_reduction();
          sync.release();
        }
        sync.finish(compute.stream());
        copy_to_host(compute, values, host.data());
        for (const float value : host) ASSERT_EQ(value, -21.0f * static_cast<float>(iteration + 1));
      }
      compute.synchronize();
      lane.synchronize();
      fixture.meet(rank);
    });
  });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(Uplink, NamesBothProcessesThatMeetAtDifferentExchanges) {
  // Others may read a message until all threads have ended.
  std::vector<std::vector<Tensor>> messages(2, std::vector<Tensor>(2));
  const auto errors = run_processes({}, {2, 2}, [&](int process, TreeFixture& fixture, Uplink& uplink) {
    StatisticsTrees trees(fixture.links(), build_tree(fixture.links()), fixture.members, {}, fixture.abort,
                          fixture.spin(), &uplink);
    // They are in the devices' memory, so they are destroyed before the devices.
    struct Release {
      std::vector<Tensor>& held;
      ~Release() { std::fill(held.begin(), held.end(), Tensor()); }
    } release{messages[process]};
    fixture.run([&](int rank) {
      Context context(fixture.device(rank));
      StatisticsExchange exchange(trees, rank);
      Tensor& message = release.held[rank];
      message = Tensor(fixture.device(rank), Shape{3}, DType::f64);
      ops::fill(context, message, 1);
      exchange.all_reduce(context, message, Merge::sum, 0, Ticket{process == 0 ? "bn3" : "bn4", "forward"});
    });
  });
  EXPECT_THAT(errors[0] + errors[1],
              testing::ContainsRegex("process 0 at \"bn3\" forward.*process 1 at \"bn4\" forward"));
  EXPECT_THAT(errors, testing::Each(testing::Not("")));
}

}  // namespace
}  // namespace banyan::parallel
