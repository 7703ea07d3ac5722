#include "train/display.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "train/part_bench.hpp"

namespace banyan {
namespace {

using testing::ElementsAre;
using testing::MatchesRegex;

TEST(Display, ShowsEveryFewIterations) {
  PartBench bench;
  const auto net = bench.net(kLossNet);
  SolverSettings solver;
  solver.display = 4;
  solver.average_loss = 2;
  Losses losses(bench.peers, solver.average_loss);
  Display display(solver, solver.display, bench.peers, *net, losses, nullptr, nullptr, nullptr);
  losses.begin(7);
  display.begin(7, 2);
  Pass pass = bench.pass();
  net->forward(pass);
  const LoggedLines log;
  for (int i = 7; i < 10; ++i) {
    EXPECT_EQ(display.is_turn(i), i == 8);
    losses.push(bench.scalar(10 * i), i);
    display.show(i, 0.5);
  }
  EXPECT_THAT(log.lines,
              ElementsAre(MatchesRegex("Iteration 8 \\([^ ]+ iter/s, [^ ]+s/4 iters\\), loss = 75"),
                          "    Train net output #0: loss = 2 (* 2 = 4 loss)", "Iteration 8, lr = 0.5"));
}

TEST(Display, ZeroIsNever) {
  PartBench bench;
  const auto net = bench.net(kLossNet);
  Losses losses(bench.peers, 1);
  const Display display({}, 0, bench.peers, *net, losses, nullptr, nullptr, nullptr);
  EXPECT_FALSE(display.is_turn(0));
}

}  // namespace
}  // namespace banyan
