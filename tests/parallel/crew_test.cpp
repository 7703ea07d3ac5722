#include "banyan/parallel/crew.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "banyan/base/error.hpp"
#include "tree_fixture.hpp"

namespace banyan::parallel {
namespace {

struct CrewFixture {
  explicit CrewFixture(int devices) : tree({devices, false, 0}), wound_down(devices) {
    std::vector<Activity*> activities;
    for (int rank = 0; rank < devices; ++rank) activities.push_back(&tree.activity(rank));
    crew = std::make_unique<Crew>(activities, tree.abort, WatchdogOptions{0.2, 2},
                                  [this](int rank) { ++wound_down[rank]; });
  }
  TreeFixture tree;
  std::vector<std::atomic<int>> wound_down;
  std::unique_ptr<Crew> crew;
};

class CrewOf : public testing::TestWithParam<int> {};

TEST_P(CrewOf, CarriesOutOneOrderAfterTheOtherOnTheSameThreads) {
  CrewFixture fixture(GetParam());
  std::vector<std::thread::id> first(GetParam()), later(GetParam());
  std::vector<int> count(GetParam());
  fixture.crew->carry_out([&](int rank) { first[rank] = std::this_thread::get_id(); });
  for (int i = 0; i < 100; ++i)
    fixture.crew->carry_out([&](int rank) {
      later[rank] = std::this_thread::get_id();
      ++count[rank];
    });
  EXPECT_EQ(first, later);
  EXPECT_THAT(count, testing::Each(100));
  fixture.crew.reset();
  for (const auto& times : fixture.wound_down) EXPECT_EQ(times, 1);
}

TEST_P(CrewOf, EndsWithTheFirstError) {
  for (int failing = 0; failing < GetParam(); ++failing) {
    CrewFixture fixture(GetParam());
    Rendezvous meeting(GetParam(), fixture.tree.abort, fixture.tree.spin());
    fixture.crew->carry_out([](int) {});
    for (int attempt = 0; attempt < 2; ++attempt) try {  // the second is not carried out
        fixture.crew->carry_out([&](int rank) {
          ASSERT_EQ(attempt, 0);
          if (rank == failing) bad_input("label 12 of 10");
          meeting.meet(rank, fixture.tree.activity(rank), {"test"});
        });
        FAIL();
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::bad_input);
        EXPECT_EQ(error.message(), "label 12 of 10");
      }
    fixture.crew.reset();
    for (const auto& times : fixture.wound_down) EXPECT_EQ(times, 1);
  }
}

/// As if another process had caused it.
TEST_P(CrewOf, IsToldToStopBetweenOrders) {
  CrewFixture fixture(GetParam());
  fixture.crew->carry_out([](int) {});
  fixture.tree.abort.raise();
  EXPECT_THROW(fixture.crew->carry_out([&](int rank) {
    fixture.tree.activity(rank).enter(Stage::forward, "conv1");
    fixture.tree.abort.check();
  }),
               Error);
}

TEST_P(CrewOf, TheWatchdogDoesNotMindThatNothingIsAsked) {
  CrewFixture fixture(GetParam());
  fixture.crew->carry_out([](int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  fixture.crew->carry_out([](int) {});
}

INSTANTIATE_TEST_SUITE_P(Devices, CrewOf, testing::Values(1, 2, 4));

}  // namespace
}  // namespace banyan::parallel
