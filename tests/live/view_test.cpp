// What a dashboard shows of a run, at any size of the terminal.
#include "live/view.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "banyan/base/error.hpp"
#include "screen.hpp"

namespace banyan::live {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

metrics::Record start(int max_iter, const std::string& name = "models/lenet/solver.prototxt") {
  metrics::Start start;
  start.solver.path = name;
  start.max_iter = max_iter;
  return {0, 100, start};
}

metrics::Record train(std::int64_t iteration, double loss, const std::vector<metrics::Output>& outputs = {}) {
  metrics::Train train;
  train.loss = loss;
  train.rate = 0.01;
  train.gradient_norm = 0.5;
  train.epoch = 1.25;
  train.samples_per_second = 1520;
  train.outputs = outputs;
  metrics::Train::Device device;
  device.name = "cpu:0";
  device.sampled = iteration;
  device.milliseconds = {{"compute", 80}, {"exposed", 15}, {"data", 5}, {"iteration", 100}};
  train.devices.push_back(device);
  return {iteration, 101, train};
}

metrics::Record test(int net, std::int64_t iteration, double loss,
                     const std::vector<metrics::Output>& outputs) {
  metrics::Test test;
  test.net = net;
  test.loss = loss;
  test.outputs = outputs;
  return {iteration, 101, test};
}

std::vector<std::string> titles(const View& view) {
  std::vector<std::string> titles;
  for (const Chart& chart : view.charts()) titles.push_back(chart.title);
  return titles;
}

std::string text(const std::vector<std::string>& rows) {
  std::string text;
  for (const std::string& row : rows) text += row + "\n";
  return text;
}

constexpr Look kPlain{true, false};

/// A device's activity and queues on a board.
struct Board {
  explicit Board(int devices) {
    std::vector<const Activity*> all;
    for (int i = 0; i < devices; ++i)
      all.push_back(activities.emplace_back(new Activity(cat("cpu:", i))).get());
    board.attach(all);
    for (int i = 0; i < devices; ++i) {
      auto gauge = std::make_shared<QueueGauge>();
      gauge->most = 4;
      gauge->filled = 3;
      board.add_queue(i, "data", gauge);
      activities[static_cast<std::size_t>(i)]->enter(Stage::backward, "conv1");
    }
  }
  std::vector<std::unique_ptr<Activity>> activities;
  RunBoard board;
};

TEST(View, ShowsARun) {
  View view;
  Board now(2);
  now.board.set_progress({500, 1000, 0.25, 0.01, 1520, 130});
  view.take(start(1000));
  for (int i = 0; i < 500; i += 20)
    view.take(train(i, 2 * std::exp(-i / 200.0), {{"loss", {1}, 1}, {"accuracy", {0.5}, 0}}));
  view.take(test(0, 400, 0.3, {{"accuracy", {0.9}, 0}, {"loss", {0.3}, 1}}));
  metrics::Warning warning{"the devices wait for data", "data_param { threads: 6 }"};
  view.take({420, 102, warning});
  view.look_at(now.board);
  const auto rows = view.rows({24, 80}, kPlain);
  EXPECT_EQ(rows.size(), 18u) << text(rows);
  EXPECT_THAT(rows[0], HasSubstr("models/lenet/solver.prototxt"));
  EXPECT_THAT(rows[1], AllOf(HasSubstr("Iteration 500/1000 (50 %)"), HasSubstr("2 min 10 s left")));
  EXPECT_THAT(rows[2], AllOf(HasSubstr("loss 0.25"), HasSubstr("lr 0.01"), HasSubstr("1520 samples/s"),
                             HasSubstr("epoch 1.25"), HasSubstr("gradient norm 0.5")));
  // The loss with that of the tests, and the accuracy next to it.
  EXPECT_THAT(rows[3],
              AllOf(HasSubstr("loss  training 0.25  test0 0.3"), HasSubstr("output accuracy  training 0.5")));
  EXPECT_THAT(text(rows), HasSubstr("cpu:1"));
  EXPECT_THAT(text(rows), HasSubstr("backward  conv1"));
  EXPECT_THAT(text(rows), HasSubstr("3/4"));
  EXPECT_THAT(text(view.rows({24, 140}, kPlain)), HasSubstr("compute 80 %  communication 15 %  data 5 %"));
  EXPECT_THAT(rows.back(), HasSubstr("warning, iteration 420: the devices wait for data; data_param"));
  view.take({1000, 103, metrics::End{"finished", "", 10}});
  EXPECT_THAT(view.rows({24, 80}, kPlain)[1], HasSubstr("finished"));
}

TEST(View, LogAndPanelFitEveryTerminal) {
  View view;
  Board now(40);
  now.board.set_progress({500, 1000, 0.25, 0.01, 1520, 130});
  const std::string long_name(500, 'n');
  for (int step = 0; step < 3; ++step) {
    if (step == 1) view.take(start(1000, long_name));
    if (step == 2) {
      for (int i = 0; i < 100; ++i)
        view.take(train(i, i % 7 == 3 ? std::nan("") : 1.0 / (i + 1),
                        {{long_name, {1, 2, 3}, 0}, {"\u6f22\u5b57", {1}, 0}}));
      for (int i = 0; i < 10; ++i) view.take({i, 1, metrics::Warning{long_name, long_name}});
    }
    view.look_at(now.board);
    for (const Look look : {Look{true, true}, Look{false, true}, Look{true, false}})
      for (int rows = 1; rows < 70; rows += rows < 16 ? 1 : 9)
        for (int columns : {1, 2, 7, 20, 39, 40, 41, 60, 80, 133, 400}) {
          const auto shown = view.rows({rows, columns}, look);
          EXPECT_LE(static_cast<int>(shown.size()), std::max(0, rows - Panel::kLeast));
          // Written one below the other, each has to stay in its row.
          Screen screen(static_cast<int>(shown.size()) + 2, columns);
          for (const std::string& row : shown) screen.feed(row + "\r\n");
          EXPECT_EQ(screen.row(), static_cast<int>(shown.size())) << rows << " x " << columns << "\n"
                                                                  << text(shown);
          EXPECT_TRUE(screen.plain());
          EXPECT_TRUE(screen.unknown().empty()) << screen.unknown()[0];
        }
  }
}

/// Of numbers that do not fit, a part would be worse than none.
TEST(View, EightyColumnsShowWholeNumbers) {
  View view;
  Board now(2);
  view.take(start(1000));
  view.take(train(0, 77.61234));
  view.take(train(100, 0.019861234, {{"loss", {0.1}, 1}}));
  view.take(test(0, 100, 0.037123456, {{"accuracy", {0.9}, 0}}));
  view.look_at(now.board);
  const std::string shown = text(view.rows({24, 80}, kPlain));
  EXPECT_THAT(shown, HasSubstr("loss (log)  0.0199  test0 0.0371  "));
  EXPECT_THAT(shown, HasSubstr("comm. 15 %  data 5 %\n"));
  EXPECT_THAT(text(view.rows({24, 100}, kPlain)), HasSubstr("loss (log)  training 0.01986  test0 0.03712"));
}

TEST(View, SmallTerminalsGetWhatFits) {
  View view;
  Board now(1);
  view.take(start(10000));
  view.take(train(0, 0.5));
  now.board.set_progress({500, 10000, 0.25, 0.01, 1520, 130});
  view.look_at(now.board);
  EXPECT_THAT(view.rows({5, 20}, kPlain), ElementsAre("500/10000  loss 0.25", "2 min 10 s left"));
  EXPECT_THAT(view.rows({6, 60}, kPlain),
              ElementsAre("500/10000  loss 0.25  2 min 10 s left  lr 0.01", "1520 samples/s"));
  EXPECT_TRUE(view.rows({3, 80}, kPlain).empty());
}

TEST(View, OnlySomeOfThousandsOfOutputs) {
  View view;
  view.take(start(1000));
  std::vector<metrics::Output> outputs = {{"probabilities", std::vector<double>(5000, 0.5), 0}};
  for (int i = 0; i < 3000; ++i) outputs.push_back({cat("out", i), {1.0 * i}, 0});
  view.take(train(0, 1, outputs));
  view.take(train(20, 0.9, outputs));
  EXPECT_LE(view.charts().size(), View::kMostCharts);
  EXPECT_THAT(text(view.rows({24, 140}, kPlain)), HasSubstr("more outputs"));
  EXPECT_THAT(titles(view), testing::Contains("output probabilities/3"));
  EXPECT_THAT(titles(view), Not(testing::Contains("output probabilities/4")));
}

TEST(View, TestsComeFirstAndSeveralNetsAreToldApart) {
  View view;
  view.take(start(1000));
  view.take(train(0, 1, {{"first", {1}, 0}, {"loss", {1}, 1}}));
  for (int net = 0; net < 2; ++net)
    view.take(test(net, 0, 1.5 + net, {{"accuracy", {0.1 + net}, 0}, {"loss", {1}, 1}}));
  const auto rows = view.rows({40, 120}, kPlain);
  EXPECT_THAT(rows[3], HasSubstr("loss  training 1  test0 1.5  test1 2.5"));
  EXPECT_THAT(rows[3], HasSubstr("output accuracy  test0 0.1  test1 1.1"));
  EXPECT_LT(rows[3].find("accuracy"), rows[3].find("output first"));
}

/// Several losses, so that each is an output of its own.
TEST(View, WeightedOutputsAreShownIfThereAreSeveral) {
  View view;
  view.take(start(1000));
  view.take(train(0, 3, {{"loss1", {1}, 1}, {"loss2", {2}, 1}}));
  EXPECT_THAT(titles(view), testing::IsSupersetOf({"loss", "output loss1", "output loss2"}));
}

/// With a long way from one record to the next, the loss is drawn from what the board says in between.
TEST(View, TheCurveGrowsBetweenRecords) {
  View view;
  Board now(1);
  view.take(start(1000));
  now.board.set_progress({0, 1000, 0, 0.01, 0, -1});
  view.look_at(now.board);
  EXPECT_TRUE(view.charts().empty());  // before the first record no loss is known
  view.take(train(0, 3));
  for (int i = 5; i < 50; i += 5) {
    now.board.set_progress({i, 1000, 3.0 - i / 50.0, 0.01, 1, 1});
    view.look_at(now.board);
    view.look_at(now.board);
  }
  EXPECT_EQ(view.charts()[0].series[0].curve.bins().size(), 10u);
}

/// In a fast run the last record is always later than what the board says.
TEST(View, SpeedIsTheBoardsThoughARecordIsLater) {
  View view;
  Board now(1);
  view.take(start(1000));
  view.take(train(400, 0.125));
  now.board.set_progress({300, 1000, 0.25, 0.5, 1520, 130});
  view.look_at(now.board);
  const auto rows = view.rows({24, 80}, kPlain);
  EXPECT_THAT(rows[1], AllOf(HasSubstr("Iteration 401/1000"), HasSubstr("2 min 10 s left")));
  EXPECT_THAT(rows[2], AllOf(HasSubstr("loss 0.125"), HasSubstr("lr 0.01"), HasSubstr("1520 samples/s")));
}

TEST(View, TheRunIsBeingSetUp) {
  View view;
  Board now(1);
  now.activities[0]->enter(Stage::set_up, "none");
  view.look_at(now.board);
  const auto rows = view.rows({24, 80}, kPlain);
  EXPECT_THAT(text(rows), AllOf(HasSubstr("being set up"), HasSubstr("set-up"), Not(HasSubstr("none"))));
}

TEST(RunBoard, ForgetsDevicesThatAreGone) {
  auto activity = std::make_unique<Activity>("cpu:0");
  RunBoard board;
  {
    const OnBoard on(&board, {activity.get()});
    EXPECT_EQ(board.devices().size(), 1u);
  }
  activity.reset();
  EXPECT_TRUE(board.devices().empty());
}

}  // namespace
}  // namespace banyan::live
