// What WireUplink adds to the seam: messages of any size, failures of processes, and who tells of them.
#include "banyan/parallel/wire_uplink.hpp"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstring>
#include <iostream>
#include <random>
#include <thread>

#include "banyan/ops/normalization.hpp"
#include "memory_wire.hpp"
#include "parallel/process_watch.hpp"
#include "parallel/slot_exchange.hpp"
#include "stop_this_process.hpp"

namespace banyan::parallel {
namespace {

using Clock = std::chrono::steady_clock;

/// One process with one device, which is the test's thread.
struct Process {
  Process(MemoryHub& hub, int number, const WireUplinkOptions& options = {})
      : uplink(hub.join(number, options)), number(number), device(make_cpu_device(0)), context(*device) {
    uplink->attach({{&activity}, [this](const Error& error) { abort.raise(error); }});
    abort.on_raise([this] { uplink->abort(abort.error().value_or(Error(ErrorKind::runtime, "aborted"))); });
  }
  ~Process() { uplink->detach(); }
  void begin(int slot, Tensor& message, UplinkMerge merge, const char* what = "bucket") {
    uplink->begin(slot, message, merge, Meeting{what, "above", slot, ++round}, uplink->place().everybody(),
                  context, bell);
  }
  void finish(int slot) {
    activity.enter(Stage::exchange, "bn1");
    bell.wait(activity, [&] { return uplink->done(slot, context); });
  }
  std::unique_ptr<WireUplink> uplink;
  int number;
  std::unique_ptr<Device> device;
  Context context;
  AbortState abort;
  Activity activity{"cpu:0 of process " + std::to_string(number), &abort.flag()};
  Doorbell bell{abort, {}};
  std::uint64_t round = 0;
};

/// Runs body(process) on a thread for each; returns what they threw.
std::vector<std::string> run_all(MemoryHub& hub, const std::function<void(Process&)>& body,
                                 const std::function<void(int, WireUplinkOptions&)>& change = {}) {
  std::vector<std::string> errors(static_cast<std::size_t>(hub.processes()));
  std::vector<std::thread> threads;
  for (int p = 0; p < hub.processes(); ++p)
    threads.emplace_back([&, p] {
      WireUplinkOptions options;
      if (change) change(p, options);
      try {
        Process process(hub, p, options);
        try {
          body(process);
          process.uplink->detach();
          process.uplink->leave();
        } catch (const Error& error) {
          process.abort.raise(error);
          throw Error(process.abort.error().value_or(error));
        }
      } catch (const Error& error) {
        errors[p] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

/// What process p puts into a message: sums of these depend on the order of additions.
template <class T>
std::vector<T> values_of(int process, std::int64_t count) {
  std::mt19937 random(static_cast<unsigned>(process * 1000) + 17);
  std::normal_distribution<T> normal;
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) value = normal(random) * static_cast<T>(std::exp2(random() % 20));
  return values;
}

template <class T>
std::vector<T> sum_of(int processes, std::int64_t count) {
  std::vector<T> sum = values_of<T>(0, count);
  for (int p = 1; p < processes; ++p) {
    const std::vector<T> part = values_of<T>(p, count);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  return sum;
}

template <class T>
void expect_sums(Process& process, const std::vector<std::int64_t>& counts) {
  const int processes = process.uplink->place().processes(), slots = static_cast<int>(counts.size());
  std::vector<Tensor> messages;
  for (const std::int64_t count : counts) {
    messages.emplace_back(*process.device, Shape{count}, DTypeOf<T>::value);
    copy_from_host(process.context, values_of<T>(process.number, count).data(), messages.back());
  }
  // Each process begins with another slot.
  for (int i = 0; i < slots; ++i) {
    const int slot = (i + process.number) % slots;
    process.begin(Uplink::kFirstBucket + slot, messages[slot], UplinkMerge::sum);
    process.round = 0;
  }
  for (int slot = 0; slot < slots; ++slot) {
    process.finish(Uplink::kFirstBucket + slot);
    std::vector<T> sums(static_cast<std::size_t>(counts[slot]));
    copy_to_host(process.context, messages[slot], sums.data());
    EXPECT_EQ(sums, sum_of<T>(processes, counts[slot])) << counts[slot] << " values";
  }
}

class WireUplinkTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Processes, WireUplinkTest, testing::Values(1, 2, 3, 5));

/// Short ones that travel with the header, ones of a few pieces, and many pieces.
TEST_P(WireUplinkTest, SumsAreInProcessOrderWhateverTheSize) {
  MemoryHub hub(std::vector<int>(GetParam(), 1), 300);
  const auto errors = run_all(hub, [](Process& process) {
    expect_sums<float>(process, {1, 17, 4096, 4097, 5000, 70'001, 900'000});
    expect_sums<double>(process, {1, 2048, 2049, 100'000});
  });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(SlotMemory, GivesEverybodyCacheLinesOfHisOwn) {
  const auto device = make_cpu_device(0);
  Context context(*device);
  SlotMemory memory(context);
  std::vector<std::pair<char*, std::size_t>> taken;
  for (const std::size_t bytes : {1u, 64u, 65u, 5u << 20, 4u << 20, 300'000u, 1u}) {
    taken.emplace_back(memory.take(bytes), bytes);
    std::memset(taken.back().first, static_cast<int>(taken.size()), bytes);
  }
  for (std::size_t i = 0; i < taken.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(taken[i].first) % kCacheLine, 0u);
    for (std::size_t at = 0; at < taken[i].second; ++at)
      ASSERT_EQ(taken[i].first[at], static_cast<char>(i + 1));
  }
  memory.clear();
  std::memset(memory.take(100), 0, 100);
}

/// Each piece has tags of its own among those of its slot.
TEST(SlotExchange, HasTagsForItsPiecesWhateverTheNumberOfProcesses) {
  for (const int processes : {1, 2, 3, 64, 255, 257, 300, 1000})
    for (std::size_t bytes = 1; bytes < std::size_t{1} << 38; bytes = 2 * bytes + 1) {
      EXPECT_GE(SlotExchange::pieces_of(bytes, processes), 1);
      EXPECT_LE(SlotExchange::pieces_of(bytes, processes), SlotExchange::kMostPieces)
          << bytes << " bytes, " << processes << " processes";
    }
}

/// Three pieces of each bucket, four processes: all add up as many, and so send as much.
TEST(WireUplink, BucketsOfFewPiecesAreSharedOut) {
  MemoryHub hub({1, 1, 1, 1});
  const auto errors = run_all(hub, [](Process& process) {
    expect_sums<float>(process, std::vector<std::int64_t>(8, 3 * 8192 / sizeof(float)));
  });
  EXPECT_THAT(errors, testing::Each(""));
  std::vector<double> sent;
  for (int process = 0; process < 4; ++process) sent.push_back(static_cast<double>(hub.bytes_of(process)));
  // An owner sends a piece to three others, anybody else to one; a twentieth is left for reports.
  EXPECT_LT(*std::max_element(sent.begin(), sent.end()), 1.05 * *std::min_element(sent.begin(), sent.end()));
}

TEST_P(WireUplinkTest, MomentsAreMergedInProcessOrder) {
  MemoryHub hub(std::vector<int>(GetParam(), 1), 300);
  const auto errors = run_all(hub, [](Process& process) {
    for (const std::int64_t channels : {3, 3000}) {
      const auto moments = [&](int p) {
        std::vector<double> values = values_of<double>(p, 1 + 2 * channels);
        for (double& value : values) value = std::abs(value);
        values[0] = p + 1;
        return values;
      };
      const Shape shape{1 + 2 * channels};
      Tensor message(*process.device, shape, DType::f64), expected(*process.device, shape, DType::f64),
          part(*process.device, shape, DType::f64);
      copy_from_host(process.context, moments(0).data(), expected);
      for (int p = 1; p < process.uplink->place().processes(); ++p) {
        copy_from_host(process.context, moments(p).data(), part);
        ops::merge_moments(process.context, part, expected);
      }
      copy_from_host(process.context, moments(process.number).data(), message);
      process.begin(Uplink::kStatistics, message, UplinkMerge::moments, "bn1");
      process.finish(Uplink::kStatistics);
      std::vector<double> found(shape.count()), wanted(shape.count());
      copy_to_host(process.context, message, found.data());
      copy_to_host(process.context, expected, wanted.data());
      EXPECT_EQ(found, wanted);
    }
  });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST_P(WireUplinkTest, SpreadsWhatTheFirstOneHas) {
  MemoryHub hub(std::vector<int>(GetParam(), 1), 300);
  const auto errors = run_all(hub, [](Process& process) {
    for (const std::int64_t count : {2, 100'000, 3}) {
      Tensor message(*process.device, Shape{count}, DType::f32);
      copy_from_host(process.context, values_of<float>(process.number, count).data(), message);
      process.begin(Uplink::kStatistics, message, UplinkMerge::first, "ip1");
      process.finish(Uplink::kStatistics);
      std::vector<float> found(static_cast<std::size_t>(count));
      copy_to_host(process.context, message, found.data());
      EXPECT_EQ(found, values_of<float>(0, count));
    }
  });
  EXPECT_THAT(errors, testing::Each(""));
}

/// Each value is rounded when it leaves its process, and the sum once more: with P processes the error is at
/// most half a unit of the last digit of each of them and of the sum. f16 loses what is 2^-25 of a piece's
/// largest value.
TEST_P(WireUplinkTest, ShorterValuesGiveTheSameBitsEverywhere) {
  const int processes = GetParam();
  for (const DType type : {DType::bf16, DType::f16}) {
    MemoryHub hub(std::vector<int>(processes, 1), 300);
    constexpr std::int64_t kCount = 200'000;
    std::vector<std::vector<float>> sums(static_cast<std::size_t>(processes), std::vector<float>(kCount));
    const auto errors = run_all(
        hub,
        [&](Process& process) {
          Tensor message(*process.device, Shape{kCount}, DType::f32);
          copy_from_host(process.context, values_of<float>(process.number, kCount).data(), message);
          process.begin(Uplink::kFirstBucket, message, UplinkMerge::sum);
          process.finish(Uplink::kFirstBucket);
          copy_to_host(process.context, message, sums[process.number].data());
          // Statistics and short messages are not shortened.
          Tensor exact(*process.device, Shape{1000}, DType::f32);
          copy_from_host(process.context, values_of<float>(process.number, 1000).data(), exact);
          process.begin(Uplink::kStatistics, exact, UplinkMerge::sum, "loss");
          process.finish(Uplink::kStatistics);
          std::vector<float> found(1000);
          copy_to_host(process.context, exact, found.data());
          EXPECT_EQ(found, sum_of<float>(process.uplink->place().processes(), 1000));
        },
        [type](int, WireUplinkOptions& options) { options.reduce_precision = type; });
    ASSERT_THAT(errors, testing::Each(""));
    for (int p = 1; p < processes; ++p) EXPECT_EQ(sums[p], sums[0]);
    const std::vector<float> exact = sum_of<float>(processes, kCount);
    std::vector<double> bound(kCount, 0);
    const double unit = type == DType::bf16 ? 0x1p-8 : 0x1p-11,
                 floor = type == DType::f16 ? 0x1p-24 * 0x1p22 : 0;
    for (int p = 0; p < processes; ++p) {
      const std::vector<float> part = values_of<float>(p, kCount);
      for (std::size_t i = 0; i < bound.size(); ++i) bound[i] += unit * std::abs(part[i]) + floor;
    }
    int changed = 0;
    for (std::size_t i = 0; i < bound.size(); ++i) {
      ASSERT_LE(std::abs(sums[0][i] - exact[i]), 1.01 * (bound[i] + unit * std::abs(exact[i]) + floor));
      changed += sums[0][i] != exact[i] ? 1 : 0;
    }
    EXPECT_GE(changed, processes > 1 ? kCount / 2 : 0);
  }
}

TEST_P(WireUplinkTest, SharesStrings) {
  MemoryHub hub(std::vector<int>(GetParam(), 1), 300);
  const auto errors = run_all(hub, [](Process& process) {
    for (const std::size_t length : {0, 3, 1'000'000}) {
      const auto of = [&](int p) {
        return std::string(length * static_cast<std::size_t>(p), static_cast<char>('a' + p));
      };
      const std::vector<std::string> all = process.uplink->share(of(process.number));
      ASSERT_EQ(all.size(), static_cast<std::size_t>(process.uplink->place().processes()));
      for (std::size_t p = 0; p < all.size(); ++p) EXPECT_EQ(all[p], of(static_cast<int>(p)));
    }
  });
  EXPECT_THAT(errors, testing::Each(""));
}

/// What the one that meets elsewhere brings, and what the others do.
struct Meetings {
  int slot;
  std::int64_t mine, theirs;
  UplinkMerge merge = UplinkMerge::sum;
};
TEST(WireUplink, NamesBothMeetingsWhateverTheirSizes) {
  constexpr int kStatistics = Uplink::kStatistics;
  for (const Meetings& meet :
       {Meetings{kStatistics, 5, 3}, Meetings{kStatistics, 5, 100'000}, Meetings{kStatistics, 100'000, 5},
        Meetings{kStatistics, 100'000, 100'000, UplinkMerge::first},
        Meetings{Uplink::kFirstBucket, 100'000, 100'000}})
    for (const int processes : {2, 4}) {
      SCOPED_TRACE(
          cat("slot ", meet.slot, ", ", meet.mine, " and ", meet.theirs, ", ", processes, " processes"));
      MemoryHub hub(std::vector<int>(static_cast<std::size_t>(processes), 1));
      const int odd = processes - 1;
      const auto errors = run_all(hub, [&](Process& process) {
        const bool is_odd = process.number == odd;
        Tensor message(*process.device, Shape{is_odd ? meet.mine : meet.theirs}, DType::f64);
        for (;;) {  // in a bucket, those that are not neighbours may get through once
          process.begin(meet.slot, message, is_odd ? meet.merge : UplinkMerge::sum, is_odd ? "bn3" : "bn4");
          process.finish(meet.slot);
        }
      });
      EXPECT_THAT(errors, testing::Each(testing::ContainsRegex(cat("process ", odd, " at \"bn3\" above"))));
      EXPECT_THAT(errors, testing::Each(testing::ContainsRegex("process [0-9] at \"bn4\" above")));
    }
}

/// A thread that is told of a failure drops its message while the thread of the wire may still read or write
/// it.
TEST(WireUplink, KeepsAMessageWhoseOwnerHasFailed) {
  MemoryHub hub({1, 1});
  std::atomic<bool> begun{false};
  const auto errors = run_all(hub, [&](Process& process) {
    expect_sums<float>(process, {1, 100'000});
    EXPECT_EQ(process.device->memory().in_use, 0u) << "what is done is given back";
    if (process.number == 1) {
      begun.wait(false);
      runtime_failure("the disk broke");
    }
    const auto fail_with_a_message = [&] {
      Tensor message(*process.device, Shape{1000}, DType::f64);
      process.begin(Uplink::kStatistics, message, UplinkMerge::sum);
      begun = true;
      begun.notify_one();
      process.finish(Uplink::kStatistics);
    };
    EXPECT_THROW(fail_with_a_message(), Error);
    EXPECT_GE(process.device->memory().in_use, 8000u);
    process.uplink->detach();
    EXPECT_EQ(process.device->memory().in_use, 0u);
    runtime_failure("so that this one does not wait for the other either");
  });
  EXPECT_THAT(errors, testing::Each(testing::HasSubstr("the disk broke")));
}

/// All end with the error of the one that failed, and on each host one of them shows it.
TEST(WireUplink, AFailureEndsAllAndIsShownOnceOnEveryHost) {
  MemoryHub hub({1, 1, 1, 1, 1});
  std::array<bool, 5> speaks{};
  const auto before = Clock::now();
  const auto errors = run_all(
      hub,
      [&](Process& process) {
        Tensor message(*process.device, Shape{3}, DType::f64);
        try {
          process.uplink->share("");  // all have joined; some may still hear the others' strings
          if (process.number == 2) bad_input("record 17 is damaged");
          process.begin(Uplink::kStatistics, message, UplinkMerge::sum, "bn1");
          process.finish(Uplink::kStatistics);
        } catch (const Error& error) {
          process.abort.raise(error);
          speaks[process.number] = process.uplink->speaks();
          throw;
        }
      },
      [](int process, WireUplinkOptions& options) { options.host = process < 3 ? "here" : "there"; });
  EXPECT_THAT(errors, testing::Each("record 17 is damaged"));
  EXPECT_EQ(speaks, (std::array<bool, 5>{false, false, true, true, false}));
  EXPECT_LT(Clock::now() - before, std::chrono::seconds(2));
}

/// A run that may wait for nothing but its own failure, as a server's does.
TEST(WireUplink, AFailureBeforeARunIsAttachedEndsItToo) {
  MemoryHub hub({1, 1});
  std::unique_ptr<WireUplink> waits, fails;
  std::thread other([&] { fails = hub.join(1); });
  waits = hub.join(0);
  other.join();
  fails->abort(Error(ErrorKind::bad_input, "record 17 is damaged"));
  EXPECT_THROW(waits->share(""), Error);  // it has heard of it
  std::string error;
  try {
    waits->attach({{}, [](const Error&) {}});
  } catch (const Error& thrown) {
    error = thrown.what();
  }
  EXPECT_EQ(error, "record 17 is damaged");
}

/// All find the same fault at once, as they do when they compare what they were started with.
TEST(WireUplink, OfProcessesThatFailTogetherOneSpeaksOnEveryHost) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    MemoryHub hub({1, 1, 1});
    std::array<bool, 3> speaks{};
    std::vector<std::thread> threads;
    for (int p = 0; p < 3; ++p)
      threads.emplace_back([&, p] {
        WireUplinkOptions options;
        options.host = p < 2 ? "here" : "there";
        const auto uplink = hub.join(p, options);
        try {
          uplink->share("");
          bad_input("they differ");
        } catch (const Error& error) {
          uplink->abort(error);
        }
        speaks[p] = uplink->speaks();
      });
    for (std::thread& thread : threads) thread.join();
    ASSERT_NE(speaks[0], speaks[1]) << "attempt " << attempt;  // the one that has failed first, perhaps
    ASSERT_TRUE(speaks[2]) << "attempt " << attempt;
  }
}

/// One that has lost its network, or was stopped, is missed: both sides say so.
TEST(WireUplink, AProcessThatIsNotHeardOfIsNamedWithWhatItDidLast) {
  MemoryHub hub({1, 1, 1});
  const auto errors = run_all(
      hub,
      [&](Process& process) {
        Tensor message(*process.device, Shape{3}, DType::f64);
        process.activity.set_iteration(5);
        process.activity.enter(Stage::forward, "conv1");
        process.begin(Uplink::kStatistics, message, UplinkMerge::sum, "bn1");
        process.finish(Uplink::kStatistics);
        std::this_thread::sleep_for(std::chrono::milliseconds(400));  // the others hear what it does
        if (process.number == 1) hub.cut_off(1);
        process.begin(Uplink::kStatistics, message, UplinkMerge::sum, "bn1");
        process.finish(Uplink::kStatistics);
      },
      [](int, WireUplinkOptions& options) { options.watchdog_seconds = 1; });
  for (const int process : {0, 2}) {
    EXPECT_THAT(errors[process], testing::HasSubstr("process 1 on host1"));
    EXPECT_THAT(errors[process], testing::HasSubstr("has not been heard of for 1"));
    EXPECT_THAT(errors[process],
                testing::HasSubstr("layer \"bn1\" exchange on cpu:0 of process 1, iteration 5"));
  }
  // It cannot know that it is the one that is cut off.
  EXPECT_THAT(errors[1], testing::ContainsRegex("process 0 on host0 .* and process 2 on host2 .* have not "
                                                "been heard of for 1.*one of them, or all, were stopped"));
}

/// An MPI that has lost one process may hold up another, which then is as silent as the lost one.
TEST(WireUplink, OfProcessesThatFallSilentTogetherAllAreNamed) {
  MemoryHub hub({1, 1, 1, 1});
  const auto errors = run_all(
      hub,
      [&](Process& process) {
        process.uplink->share("");
        if (process.number == 0) {
          hub.cut_off(0);
          hub.cut_off(2);
        }
        Tensor message(*process.device, Shape{3}, DType::f64);
        process.begin(Uplink::kStatistics, message, UplinkMerge::sum, "bn1");
        process.finish(Uplink::kStatistics);
      },
      [](int, WireUplinkOptions& options) { options.watchdog_seconds = 1; });
  for (const int process : {1, 3})
    EXPECT_THAT(
        errors[process],
        testing::ContainsRegex("^process 0 on host0 .* and process 2 on host2 .* have not been heard of "
                               "for [0-9.]* s by process [13] on .* while others wait for them"));
}

/// Whoever was silent when it was last heard of does not wait for anybody now, as far as is known.
TEST(WireUplink, ASilentProcessIsNotOneThatWaits) {
  MemoryHub hub({1, 1});
  run_all(
      hub,
      [&](Process& process) {
        Tensor message(*process.device, Shape{3}, DType::f64);
        if (process.number == 1) {
          process.begin(Uplink::kStatistics, message, UplinkMerge::sum, "bn1");
          process.finish(Uplink::kStatistics);
          return;
        }
        const auto since = Clock::now();
        while (!process.uplink->others().any_waits && Clock::now() - since < std::chrono::seconds(10))
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
        EXPECT_TRUE(process.uplink->others().any_waits);
        hub.cut_off(1);
        std::this_thread::sleep_for(std::chrono::milliseconds(3000));
        EXPECT_FALSE(process.uplink->others().any_waits);
        EXPECT_FALSE(process.abort.raised()) << process.abort.error()->what();  // nobody waits for process 1
      },
      [](int, WireUplinkOptions& options) { options.watchdog_seconds = 1.5; });
}

/// With a parameter server, too: what all share they share with all.
TEST(WireUplink, AProcessThatFallsSilentWhileAllShareIsMissed) {
  for (const bool served : {false, true}) {
    MemoryHub hub({1, 1, 1});
    const auto errors = run_all(
        hub,
        [&](Process& process) {
          process.uplink->share("");
          if (process.number == 2) hub.cut_off(2);
          process.uplink->share("");
        },
        [&](int, WireUplinkOptions& options) {
          options.watchdog_seconds = 0.7;
          options.served_by_first = served;
        });
    for (const int process : {0, 1})
      EXPECT_THAT(
          errors[process],
          testing::ContainsRegex("process 2 on host2 .* has not been heard of for [0-9.]* s by process"))
          << (served ? "served" : "joined");
  }
}

/// The reports of a process wait in line with what it sends: a slow network is no silence.
TEST(WireUplink, AnExchangeMayLastLongerThanTheWatchdogWhileItMoves) {
  MemoryHub hub({1, 1});
  constexpr double kBytes = 8 << 20;
  const auto errors = run_all(
      hub,
      [&](Process& process) {
        Tensor message(*process.device, Shape{static_cast<std::int64_t>(kBytes / sizeof(float))}, DType::f32);
        if (process.number == 0) hub.slow_down(kBytes / 3, 0);  // half of it up, half of it down: 3 s
        process.uplink->share("");
        const auto before = Clock::now();
        process.begin(Uplink::kFirstBucket, message, UplinkMerge::sum);
        process.activity.enter(Stage::exchange, "bucket");
        auto moved = before;
        process.bell.wait(process.activity, [&] {
          moved = std::max(moved, process.uplink->others().moved);
          return process.uplink->done(Uplink::kFirstBucket, process.context);
        });
        const auto after = Clock::now();
        EXPECT_GT(after - before, std::chrono::milliseconds(2000));
        EXPECT_GT(moved, before + (after - before) / 2);
      },
      [](int, WireUplinkOptions& options) { options.watchdog_seconds = 0.7; });
  EXPECT_THAT(errors, testing::Each(""));
}

// --- the start ---

TEST(WireUplink, AConnectionThatDoesNotComeAboutEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto connect = []() -> std::unique_ptr<Wire> {
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  };
  WireUplinkOptions options;
  options.watchdog_seconds = 60;
  options.patience_seconds = 0.3;
  options.host = "a";
  options.process = 3;
  EXPECT_EXIT(
      WireUplink(connect, options), testing::ExitedWithCode(1),
      "have not found each other for 0.3 s: one of them has not started, was stopped, or has lost its "
      "network \\(in process 3 on a\\)");
}

TEST(WireUplink, OneThatDoesNotSayWhoItIsIsNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto join_without_the_others = [] {
    MemoryHub hub({1, 1, 1, 1});
    const auto join = [&hub](int process, int turn) {
      WireUplinkOptions options;
      options.watchdog_seconds = 60;
      options.patience_seconds = 0.3;
      options.turn_on_host = turn;
      hub.join(process, options);
    };
    std::thread other([&] { join(0, 1); });
    join(2, 0);
  };
  EXPECT_EXIT(
      join_without_the_others(), testing::ExitedWithCode(1),
      "^[^:]*: the processes of this run have not found each other for 0.3 s: process 1 and process 3 have "
      "not started, were stopped, or have lost their network \\(in a process on host2\\)\n$");
}

/// It lives, so nobody misses it, but it does not come: its solver is on a disk that does not answer,
/// perhaps.
TEST(WireUplink, OneThatDoesNotGetThroughItsStartSaysSo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto start = [] {
    MemoryHub hub({1, 1});
    run_all(
        hub,
        [](Process& process) {
          if (process.number == 1) std::this_thread::sleep_for(std::chrono::seconds(60));
          process.uplink->share("");
        },
        [](int, WireUplinkOptions& options) {
          options.watchdog_seconds = 60;
          options.patience_seconds = 0.3;
        });
  };
  EXPECT_EXIT(
      start(), testing::ExitedWithCode(1),
      "^[^:]*: watchdog: process 1 on host1 has not got through its start for 1.5 s while others wait for "
      "it");
}

/// Devices that are at work, with nine long lists of images perhaps, have a watchdog that sees them get on.
TEST(WireUplink, WhoseDevicesAreAtWorkMayStartSlowly) {
  MemoryHub hub({1, 1});
  const auto errors = run_all(
      hub,
      [](Process& process) {
        if (process.number == 1) {
          process.activity.enter(Stage::set_up, "data");
          std::this_thread::sleep_for(std::chrono::milliseconds(2500));
        }
        process.uplink->share("");
      },
      [](int, WireUplinkOptions& options) {
        options.watchdog_seconds = 60;
        options.patience_seconds = 0.3;  // 1.5 s for those without devices
      });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(WireUplink, OneThatFailsEndsThoseThatAreStillStarting) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto start = [] {
    MemoryHub hub({1, 1});
    std::atomic<bool> starts{false};
    run_all(hub, [&starts](Process& process) {
      if (process.number == 0) {
        while (!starts) std::this_thread::yield();
        bad_input("no such solver");
      }
      starts = true;
      std::this_thread::sleep_for(std::chrono::seconds(60));
    });
  };
  EXPECT_EXIT(start(), testing::ExitedWithCode(2), "^[^:]*: no such solver\n  in process 1 on host1");
}

// --- a wire that breaks ---

/// Throws when it is told to, as MPI does when it has lost a process.
class BreakingWire : public MemoryWire {
 public:
  BreakingWire(MemoryHub& hub, int process, const std::atomic<bool>& broken)
      : MemoryWire(hub, process), broken_(broken) {}
  bool progress() override {
    if (broken_) runtime_failure("the wire is broken");
    return MemoryWire::progress();
  }

 private:
  const std::atomic<bool>& broken_;
};

/// Process 1, as far as it is needed to join: it says that it is this process of the machine.
class FeignedProcess {
 public:
  FeignedProcess(MemoryHub& hub, int pid) : wire_(hub, 1) {
    ProcessIdentity identity = identify("there");
    identity.pid = pid;
    text_ = identity.pack();
    size_ = text_.size();
    wire_.send(0, 1, &size_, sizeof size_, {});
    wire_.send(0, 2, text_.data(), text_.size(), {});
  }

 private:
  MemoryWire wire_;
  std::string text_;
  std::uint64_t size_ = 0;
};

/// What a process says when its wire breaks, just after or without the end of another process.
std::string error_of_broken_wire(bool other_ends) {
  const int pid = ::fork();
  if (pid == 0) {
    ::pause();
    ::_exit(0);
  }
  MemoryHub hub({1, 1});
  std::atomic<bool> broken{false};
  const FeignedProcess other(hub, pid);
  WireUplinkOptions options;
  options.host = "here";
  std::string error;
  {
    WireUplink uplink([&] { return std::make_unique<BreakingWire>(hub, 0, broken); }, options);
    if (other_ends) ::kill(pid, SIGKILL);
    broken = true;
    try {
      uplink.share("");
    } catch (const Error& thrown) {
      error = thrown.what();
    }
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  return error;
}

TEST(WireUplink, ABrokenWireIsBlamedOnTheProcessThatHasEnded) {
  EXPECT_THAT(error_of_broken_wire(true),
              testing::ContainsRegex("process 1 on there .* was killed, or has ended without a word"));
  EXPECT_EQ(error_of_broken_wire(false), "the wire is broken");
}

/// Whoever would go is heard, and hears, until all would: none is taken for dead because it is early.
TEST(WireUplink, ALateProcessIsWaitedForByThoseThatWouldGo) {
  for (const bool served : {false, true}) {
    MemoryHub hub({1, 1, 1});
    const std::atomic<bool> told_to_end{true};
    const auto errors = run_all(
        hub,
        [](Process& process) {
          process.uplink->share("");
          if (process.number != 1) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        },
        [&](int, WireUplinkOptions& options) {
          options.watchdog_seconds = 0.7;
          options.told_to_end = &told_to_end;
          options.served_by_first = served;
        });
    EXPECT_THAT(errors, testing::Each("")) << (served ? "served" : "joined");
  }
}

/// At the end the server misses a worker that has been silent for long; the other workers have it from the
/// server, which they never take for the one to blame.
TEST(WireUplink, OnlyTheServerJudgesWorkers) {
  MemoryHub hub({1, 1, 1});
  std::array<bool, 3> speaks{};
  std::vector<std::string> errors(3);
  std::vector<std::thread> threads;
  for (int p = 0; p < 3; ++p)
    threads.emplace_back([&, p] {
      WireUplinkOptions options;
      options.watchdog_seconds = 0.7;
      options.served_by_first = true;
      options.host = p < 2 ? "here" : "there";
      Process process(hub, p, options);
      process.uplink->share("");
      if (p == 2) hub.cut_off(2);
      try {
        if (p == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1000));
        process.uplink->detach();
        process.uplink->leave();
      } catch (const Error& error) {
        errors[p] = error.what();
        speaks[p] = process.uplink->speaks();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(errors[0], testing::ContainsRegex("process 2 on there .*has not been heard of"));
  EXPECT_EQ(errors[1], errors[0]);
  EXPECT_THAT(errors[2], testing::ContainsRegex("process 0 on here .*has not been heard of"));
  EXPECT_EQ(speaks, (std::array<bool, 3>{true, false, true}));
}

/// Says who serves this process, and listens to what is known of the others.
class ServedBy : public WireProtocol {
 public:
  explicit ServedBy(int server, int watched = 0) : server_(server), watched_(watched) {}
  void join(Wire&, std::function<void()>) override {}
  bool step(Clock::time_point, const Silence& silence) override {
    const Absence absence = silence(watched_);
    stuck = absence.stuck;
    silent = absence.silent;
    return false;
  }
  int server() const override { return server_; }
  bool waits() const override { return false; }
  bool quiet() const override { return true; }
  std::atomic<double> stuck{0}, silent{0};

 private:
  const int server_, watched_;
};

WireUplinkOptions served_options() {
  WireUplinkOptions options;
  options.watchdog_seconds = 0.7;
  options.served_by_first = true;
  return options;
}

/// Waits for another's failure, or ten seconds.
void wait_for_failure(Process& process) {
  const auto since = Clock::now();
  while (!process.abort.raised() && Clock::now() - since < std::chrono::seconds(10))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (const auto error = process.abort.error()) throw Error(*error);
}

/// It is heard of, but its disk is not: a server may go on without it.
TEST(WireUplink, TheServerKnowsWhoseDataDoNotArrive) {
  MemoryHub hub({1, 1});
  const auto errors = run_all(
      hub,
      [](Process& process) {
        const auto protocol = std::make_shared<ServedBy>(0, 1 - process.number);
        process.uplink->carry(protocol);
        process.uplink->share("");
        if (process.number == 1) {
          process.activity.enter(Stage::data, "images");
          std::this_thread::sleep_for(std::chrono::milliseconds(1500));
          process.activity.enter(Stage::forward, "conv1");
          std::this_thread::sleep_for(std::chrono::milliseconds(1000));
          return;
        }
        const auto since = Clock::now();
        const auto wait = [&](const std::function<bool()>& until) {
          while (!until() && Clock::now() - since < std::chrono::seconds(10))
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          return until();
        };
        EXPECT_TRUE(wait([&] { return protocol->stuck > 1; }));
        EXPECT_LT(protocol->silent, 1);
        EXPECT_TRUE(wait([&] { return protocol->stuck == 0; }));
      },
      [](int, WireUplinkOptions& options) {
        options = served_options();
        options.watchdog_seconds = 60;
      });
  EXPECT_THAT(errors, testing::Each(""));
}

/// A job that a shell or a batch system has stopped for a while, all of it.
TEST(WireUplinkDeathTest, TimeInWhichTheProcessWasStoppedIsNoTimeWithoutData) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto body = [] {
    MemoryHub hub({1, 1});
    std::atomic<bool> stopped{false}, done{false};
    Clock::time_point since;
    constexpr double kStop = 3;
    const auto errors = run_all(
        hub,
        [&](Process& process) {
          const auto protocol = std::make_shared<ServedBy>(0, 1 - process.number);
          process.uplink->carry(protocol);
          process.uplink->share("");
          if (process.number == 1) {
            since = Clock::now();
            process.activity.enter(Stage::data, "images");
            stop_this_process(static_cast<unsigned>(1000 * kStop));
            stopped = true;
            while (!done && !process.abort.raised())
              std::this_thread::sleep_for(std::chrono::milliseconds(5));
            return;
          }
          double longest = 0, ran = 0;
          while (!stopped || ran < kStop + 1 || (longest == 0 && ran < 60)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            if (!stopped) continue;
            longest = std::max<double>(longest, protocol->stuck);
            ran = std::chrono::duration<double>(Clock::now() - since).count();
          }
          done = true;
          EXPECT_GT(longest, 0) << "the time since then does count";
          EXPECT_LT(longest, ran - kStop + 1);  // one second for what is no stop yet
          if (testing::Test::HasFailure()) std::cerr << longest << " of " << ran << " s\n";
        },
        [](int, WireUplinkOptions& options) {
          options = served_options();
          options.watchdog_seconds = 60;
        });
    EXPECT_THAT(errors, testing::Each(""));
    if (testing::Test::HasFailure())
      for (const auto& error : errors) std::cerr << error << '\n';
    ::_exit(testing::Test::HasFailure() ? 3 : 0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

/// mpirun tells the others to end when a process has failed, and kills them soon: no time to stop devices.
TEST(WireUplinkDeathTest, WhoIsToldToEndSaysWhatHasFailedAndEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto body = [] {
    MemoryHub hub({1, 1});
    const std::atomic<bool> told_to_end{true};
    run_all(
        hub,
        [](Process& process) {
          expect_sums<float>(process, {1});
          if (process.number == 1) runtime_failure("the disk broke");
          std::this_thread::sleep_for(std::chrono::seconds(60));
        },
        [&](int number, WireUplinkOptions& options) {
          if (number == 0) options.told_to_end = &told_to_end;
        });
  };
  const auto begun = Clock::now();
  EXPECT_EXIT(body(), testing::ExitedWithCode(1), "^[^\n]*: the disk broke\n[^\n]*\n$");
  EXPECT_LT(Clock::now() - begun, std::chrono::seconds(20));
}

/// At the end a worker that does not come for want of data is a failure, as a silent one is.
TEST(WireUplink, AtTheEndWhoeverHasNoDataIsNamed) {
  MemoryHub hub({1, 1, 1});
  const auto errors = run_all(
      hub,
      [](Process& process) {
        process.uplink->share("");
        if (process.number != 2) return;
        process.activity.enter(Stage::data, "images");
        wait_for_failure(process);
      },
      [](int, WireUplinkOptions& options) { options = served_options(); });
  EXPECT_THAT(errors,
              testing::Each(testing::ContainsRegex(
                  "process 2 on host2 .* has got nothing from its data for [0-9.]* s while others wait "
                  "for it\n.*layer \"images\" data on cpu:0 of process 2")));
}

/// The root of a tree hears both an inner server and its worker, which do not hear each other: whoever would
/// leave without the other says so; and the one that is missed, that it is.
TEST(WireUplink, AtTheEndALinkThatTheServerDoesNotSeeIsMissed) {
  MemoryHub hub({1, 1, 1});
  const auto errors = run_all(
      hub,
      [&](Process& process) {
        process.uplink->carry(std::make_shared<ServedBy>(process.number == 2 ? 1 : 0));
        process.uplink->share("");
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        if (process.number == 0) hub.cut_between(1, 2);
        if (process.number != 2) return;
        process.activity.enter(Stage::exchange, "parameter server");
        process.activity.set_waiting(true);
        wait_for_failure(process);
      },
      [](int, WireUplinkOptions& options) { options = served_options(); });
  EXPECT_THAT(errors,
              testing::Each(testing::ContainsRegex(
                  "process 2 on host2 .* has not been heard of for [0-9.]* s by process 1 on host1")));
}

/// A worker of a tree waits for its inner server only.
TEST(WireUplink, AWorkerOfATreeDoesNotMissTheRootWhereItsServerDoesNot) {
  MemoryHub hub({1, 1, 1});
  const auto errors = run_all(
      hub,
      [&](Process& process) {
        const auto protocol =
            std::make_shared<ServedBy>(process.number == 2 ? 1 : 0, process.number == 0 ? 2 : 0);
        process.uplink->carry(protocol);
        process.uplink->share("");
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        if (process.number == 0) hub.cut_between(0, 2);
        process.activity.enter(Stage::exchange, "parameter server");
        process.activity.set_waiting(process.number == 2);
        std::this_thread::sleep_for(std::chrono::milliseconds(5000));
        EXPECT_FALSE(process.abort.raised()) << process.abort.error()->what();
        hub.mend_between(0, 2);
        const auto since = Clock::now();
        do std::this_thread::sleep_for(std::chrono::milliseconds(10));
        while (protocol->silent > 1 && Clock::now() - since < std::chrono::seconds(20));
      },
      [](int, WireUplinkOptions& options) {
        options = served_options();
        options.watchdog_seconds = 2;
      });
  EXPECT_THAT(errors, testing::Each(""));
}

/// Notes what a protocol is told.
class NotesLosses : public WireProtocol {
 public:
  void join(Wire&, std::function<void()>) override {}
  bool step(Clock::time_point, const Silence&) override { return false; }
  bool waits() const override { return false; }
  bool quiet() const override { return true; }
  void lost(int process, const std::string& how) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    losses_.emplace_back(process, how);
  }
  /// After a while, if there are none.
  std::vector<std::pair<int, std::string>> losses() const {
    for (int i = 0; i < 500; ++i) {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!losses_.empty()) return losses_;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return {};
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<int, std::string>> losses_;
};

/// What the others do when the last process has ended.
std::vector<std::string> without_the_last(MemoryHub& hub, int needed,
                                          const std::function<void(WireUplink&)>& rest) {
  hub.outlive_processes();
  const int last = hub.processes() - 1;
  std::vector<std::string> errors(static_cast<std::size_t>(hub.processes()));
  std::vector<std::thread> threads;
  for (int p = 0; p <= last; ++p)
    threads.emplace_back([&, p] {
      WireUplinkOptions options;
      options.served_by_first = true;
      options.dispensable_from = needed;
      try {
        const auto uplink = hub.join(p, options);
        if (p == last)
          hub.kill(last);
        else
          rest(*uplink);
      } catch (const Error& error) {
        errors[p] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

/// It is asked for nothing any more, and not waited for at the end.
TEST(WireUplink, AProcessThatCanBeDoneWithoutMayEnd) {
  for (const bool carried_late : {false, true}) {
    MemoryHub hub({1, 1, 2, 1});
    std::atomic<int> told{0};
    const auto errors = without_the_last(hub, 1, [&](WireUplink& uplink) {
      const auto notes = std::make_shared<NotesLosses>();
      if (!carried_late) uplink.carry(notes);
      const std::string mine = cat("text of ", uplink.place().process);
      std::vector<std::string> all = uplink.share(mine);
      EXPECT_EQ(all[static_cast<std::size_t>(uplink.place().process)], mine);
      EXPECT_EQ(all[3], "");
      if (carried_late) uplink.carry(notes);
      const auto losses = notes->losses();
      ASSERT_EQ(losses.size(), 1u);
      EXPECT_EQ(losses[0].first, 3);
      EXPECT_THAT(losses[0].second,
                  testing::MatchesRegex("process 3 on host3 .process ID [0-9]+. was killed, or has ended "
                                        "without a word, [0-9.]+ s after it was last heard of"));
      all = uplink.share(mine);
      EXPECT_EQ(all[3], "");
      EXPECT_EQ(all[0], "text of 0");
      uplink.leave();
      ++told;
    });
    EXPECT_THAT(errors, testing::Each(""));
    EXPECT_EQ(told, 3);
  }
}

TEST(WireUplink, AProcessThatIsNeededMayNotEnd) {
  MemoryHub hub({1, 1, 1});
  const auto errors = without_the_last(hub, 3, [&](WireUplink& uplink) {
    for (;;) {
      uplink.share("");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  for (const int p : {0, 1})
    EXPECT_THAT(errors[static_cast<std::size_t>(p)],
                testing::MatchesRegex("process 2 on host2 .process ID [0-9]+. was killed, or has ended "
                                      "without a word"));
}

/// A library that does not return from a call keeps no process from ending, and from saying why.
TEST(WireUplink, AThreadHeldUpInTheWireDoesNotHoldUpTheEnd) {
  const auto fail = [](bool by_itself) {
    MemoryHub hub({1, 1});
    run_all(
        hub,
        [&](Process& process) {
          process.uplink->share("");
          if (process.number == 0) std::this_thread::sleep_for(std::chrono::seconds(60));
          hub.hold_up(1);
          if (by_itself) bad_input("record 17 is damaged");
          Tensor message(*process.device, Shape{3}, DType::f64);
          process.begin(Uplink::kStatistics, message, UplinkMerge::sum, "bn1");
          process.finish(Uplink::kStatistics);
        },
        [](int process, WireUplinkOptions& options) {
          if (process == 1) options.watchdog_seconds = 0.7;
        });
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(fail(true), testing::ExitedWithCode(2), "record 17 is damaged\n  in process 1 on host1");
  EXPECT_EXIT(fail(false), testing::ExitedWithCode(1),
              "message library has not returned from a call for [0-9.]* s: process 0 on host0 .* was killed");
}

/// What the watchdog of each process needs to know: whether others wait for its devices.
TEST(WireUplink, ProcessesKnowWhoWaits) {
  MemoryHub hub({1, 1});
  const auto errors = run_all(hub, [&](Process& process) {
    Tensor message(*process.device, Shape{3}, DType::f64);
    if (process.number == 1) {
      process.activity.enter(Stage::forward, "conv1");
      const auto since = Clock::now();
      while (!process.uplink->others().any_waits && Clock::now() - since < std::chrono::seconds(10))
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      EXPECT_TRUE(process.uplink->others().any_waits);
      EXPECT_TRUE(process.uplink->others().all_wait);
    }
    process.begin(Uplink::kStatistics, message, UplinkMerge::sum, "bn1");
    process.finish(Uplink::kStatistics);
  });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(WireUplink, ARunThatEndsWithoutTheOthersIsAFailure) {
  MemoryHub hub({1, 1});
  std::string error;
  std::thread other([&] {
    Process process(hub, 1);
    try {
      process.uplink->share("");
      process.uplink->share("");
    } catch (const Error& thrown) {
      error = thrown.what();
    }
  });
  {
    Process process(hub, 0);
    process.uplink->share("");
  }
  other.join();
  EXPECT_THAT(error, testing::HasSubstr("has ended"));
}

}  // namespace
}  // namespace banyan::parallel
