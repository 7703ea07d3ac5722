// What travels on an uplink's wire besides its exchanges: questions to the first process, and measurements.
#include <gmock/gmock.h>

#include <thread>

#include "banyan/parallel/link_probe.hpp"
#include "banyan/parallel/questions.hpp"
#include "memory_wire.hpp"

namespace banyan::parallel {
namespace {

void run_all(MemoryHub& hub, const std::function<void(int process, WireUplink&)>& body) {
  std::vector<std::thread> threads;
  for (int p = 0; p < hub.processes(); ++p)
    threads.emplace_back([&, p] {
      const auto uplink = hub.join(p);
      body(p, *uplink);
      uplink->leave();
    });
  for (std::thread& thread : threads) thread.join();
}

/// Several threads of each process ask at once; answers come late, in another order, and of any size.
TEST(Questions, EveryThreadGetsItsOwnAnswer) {
  MemoryHub hub({1, 1, 1}, 300);
  run_all(hub, [&](int process, WireUplink& uplink) {
    std::vector<std::thread> answering;
    std::mutex mutex;
    const auto questions =
        std::make_shared<Questions>([&](int from, const std::string& question, Questions::Reply reply) {
          const std::lock_guard<std::mutex> lock(mutex);
          answering.emplace_back([from, question, reply = std::move(reply)] {
            std::this_thread::sleep_for(std::chrono::microseconds(question.size() * 37 % 1000));
            reply(cat(from, ":") + question + question);
          });
        });
    uplink.carry(questions);
    if (process > 0) {
      std::vector<std::thread> asking;
      for (int thread = 0; thread < 4; ++thread)
        asking.emplace_back([&, thread] {
          for (int i = 0; i < 20; ++i) {
            const std::string question(static_cast<std::size_t>(i * 1000 * thread),
                                       static_cast<char>('a' + i));
            EXPECT_EQ(questions->ask(question, [] { return false; }),
                      cat(process, ":") + question + question);
          }
        });
      for (std::thread& thread : asking) thread.join();
    }
    uplink.share("");
    for (std::thread& thread : answering) thread.join();
    answering.clear();
  });
}

TEST(Questions, WhoeverAsksMayStopWaiting) {
  MemoryHub hub({1, 1});
  Questions::Reply late;
  run_all(hub, [&](int process, WireUplink& uplink) {
    const auto questions = std::make_shared<Questions>(
        [&](int, const std::string&, Questions::Reply reply) { late = std::move(reply); });
    uplink.carry(questions);
    if (process == 1) {
      int polls = 0;
      EXPECT_THROW(questions->ask("when?", [&] { return ++polls > 2; }), Error);
    }
    uplink.share("");
    if (process == 0) late("now");
  });
}

/// A read that does not end keeps nobody from leaving when its result is no longer wanted; and what is asked
/// later still gets its own answer, whenever the withdrawn one's comes.
TEST(Questions, NobodyWaitsForTheAnswerToAWithdrawnQuestion) {
  std::vector<Questions::Reply> held;  // outlives the uplinks
  {
    MemoryHub hub({1, 1, 1}, 300);
    run_all(hub, [&](int process, WireUplink& uplink) {
      const auto questions = std::make_shared<Questions>(
          [&](int from, const std::string& question, const Questions::Reply& reply) {
            if (question == "stuck")
              held.push_back(reply);
            else
              reply(cat(from, ":", question));
          });
      uplink.carry(questions);
      if (process > 0) {
        int polls = 0;
        EXPECT_THROW(questions->ask("stuck", [&] { return ++polls > 2; }), Error);
        EXPECT_EQ(questions->ask("next", [] { return false; }), cat(process, ":next"));
      }
    });
  }
  ASSERT_EQ(held.size(), 2u);
  for (const auto& reply : held) reply("at last");  // nobody is there any more
}

TEST(LinkProbe, MeasuresEachPair) {
  MemoryHub hub({1, 1, 1});
  run_all(hub, [&](int process, WireUplink& uplink) {
    if (process == 0) hub.slow_down(200e6, 2e-3);
    const auto probe = std::make_shared<LinkProbe>();
    uplink.carry(probe);
    uplink.share("");
    for (const auto& [a, b] : {std::pair{0, 1}, {0, 2}, {1, 2}}) {
      if (process == a || process == b) {
        const NetworkSpeed speed = probe->measure(process == a ? b : a, [] {});
        if (process == a) {  // a busy machine can only slow it down
          EXPECT_GE(speed.latency_s, 2e-3);
          EXPECT_LE(speed.there_bytes_per_s, 1.01 * 200e6);
          EXPECT_LE(speed.back_bytes_per_s, 1.01 * 200e6);
          EXPECT_GT(std::min(speed.there_bytes_per_s, speed.back_bytes_per_s), 1e6);
        }
      }
      uplink.share("");
    }
  });
}

}  // namespace
}  // namespace banyan::parallel
