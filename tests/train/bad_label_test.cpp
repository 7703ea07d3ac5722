// A label out of range ends a run even if the devices' records are read only occasionally, as on GPUs: no
// snapshot, test or normal end follows.
#include <gmock/gmock.h>

#include "train/training_run.hpp"

namespace banyan {
namespace {

using testing::HasSubstr;

constexpr int kLabelDevices = 2, kBatch = 2 * kLabelDevices;

class BadLabel : public TrainingRun {
 protected:
  /// Record `bad` has label 9; there are 3 classes. Recorded labels are read in iterations 0, 32...
  TrainOptions run_with(int bad) const {
    std::filesystem::remove_all(path("bad"));
    data::LmdbWriter writer(path("bad"));
    for (int i = 0; i < 48; ++i)
      writer.put(cat(i < 10 ? "0" : "", i),
                 data::raw_datum(1, 6, 6, std::vector<std::uint8_t>(36, static_cast<std::uint8_t>(i)).data(),
                                 i == bad ? 9 : i % 3));
    writer.close();
    TrainOptions run = options(kLabelDevices, lmdb_source("bad"));
    run.cpu.asynchronous = true;
    run.cpu.max_delay_us = 50;
    run.solver.snapshot.interval = 0;
    run.solver.snapshot.after_train = false;
    run.solver.test.interval = 0;
    run.solver.display = 0;
    return run;
  }
  /// `where`: the iterations in which it may have occurred.
  void expect_refused(const TrainOptions& run, const std::string& where) const {
    try {
      train(run);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      EXPECT_THAT(error.what(), HasSubstr("label 9 of sample 1 is out of range: there are 3 classes"));
      EXPECT_THAT(error.what(), HasSubstr("; loss_param { ignore_label: 9 } leaves such labels out"));
      EXPECT_THAT(error.what(), HasSubstr("(SoftmaxWithLoss) on cpu:1, " + where));
    }
    EXPECT_TRUE(files().empty());
  }
};

constexpr int kInIteration1 = kBatch + 3;  // the second sample of the second device

TEST_F(BadLabel, NothingIsSnapshottedAfterIt) {
  TrainOptions run = run_with(kInIteration1);
  run.solver.snapshot.interval = 4;
  expect_refused(run, "one of the iterations 1 to 3");
}

TEST_F(BadLabel, NothingIsTestedAfterIt) {
  TrainOptions run = run_with(kInIteration1);
  run.solver.test.interval = 3;
  run.solver.test.initialization = false;
  run.solver.test.batches[0] = 1;
  expect_refused(run, "one of the iterations 1 to 2");
}

TEST_F(BadLabel, TheRunDoesNotEndWell) {
  expect_refused(run_with(kInIteration1), "one of the iterations 1 to 5");
  TrainOptions run = run_with(kInIteration1);
  run.solver.snapshot.after_train = true;
  expect_refused(run, "one of the iterations 1 to 5");
}

TEST_F(BadLabel, TheLastLossCountsToo) {
  for (const bool asynchronous : {false, true}) {
    TrainOptions run = run_with(6 * kBatch + 3);
    run.cpu.asynchronous = asynchronous;
    run.solver.display = 6;
    expect_refused(run, "iteration 6");
  }
}

TEST_F(BadLabel, ALongRunStopsWithin32Iterations) {
  TrainOptions run = run_with(kInIteration1);
  run.solver.max_iter = 100;
  expect_refused(run, "one of the iterations 1 to 32");
}

}  // namespace
}  // namespace banyan
