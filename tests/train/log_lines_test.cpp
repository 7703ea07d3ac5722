// The expected texts are lines of Caffe's own log; parsers of such logs read them by words and columns.
#include "banyan/train/log_lines.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "banyan/train/smoothed_loss.hpp"

namespace banyan {
namespace {

TEST(LogLines, Training) {
  using namespace log_lines;
  EXPECT_EQ(solving("LeNet"), "Solving LeNet");
  EXPECT_EQ(policy("inv"), "Learning Rate Policy: inv");
  EXPECT_EQ(iteration(100, 100, 8.1, 100, 0.1234567),
            "Iteration 100 (12.3457 iter/s, 8.1s/100 iters), loss = 0.123457");
  EXPECT_EQ(iteration(0, 0, 0, 100, 2.5), "Iteration 0 (0 iter/s, 0s/100 iters), loss = 2.5");
  EXPECT_EQ(last_iteration(10000, 0.0021), "Iteration 10000, loss = 0.0021");
  EXPECT_EQ(train_output(0, "loss", 0.12, 1), "    Train net output #0: loss = 0.12 (* 1 = 0.12 loss)");
  EXPECT_EQ(train_output(1, "aux", 2, 0.3), "    Train net output #1: aux = 2 (* 0.3 = 0.6 loss)");
  EXPECT_EQ(rate(100, 0.01F), "Iteration 100, lr = 0.01");
  EXPECT_EQ(rate(7, 0.00992565), "Iteration 7, lr = 0.00992565");
  EXPECT_EQ(rate(7, 1e-5), "Iteration 7, lr = 1e-05");
  EXPECT_EQ(iteration(5, 5, 1, 5, NAN), "Iteration 5 (5 iter/s, 1s/5 iters), loss = nan");
}

TEST(LogLines, Testing) {
  using namespace log_lines;
  EXPECT_EQ(testing(500, 0), "Iteration 500, Testing net (#0)");
  EXPECT_EQ(test_loss(0.31), "Test loss: 0.31");
  EXPECT_EQ(test_output(0, "accuracy", 0.98, 0), "    Test net output #0: accuracy = 0.98");
  EXPECT_EQ(test_output(1, "loss", 0.06, 1), "    Test net output #1: loss = 0.06 (* 1 = 0.06 loss)");
  EXPECT_EQ(batch_value(0, "accuracy", 0.98), "Batch 0, accuracy = 0.98");
  EXPECT_EQ(mean_loss(0.5), "Loss: 0.5");
  EXPECT_EQ(mean_value("loss", 0.06, 1), "loss = 0.06 (* 1 = 0.06 loss)");
}

TEST(LogLines, SnapshotsAndEnd) {
  using namespace log_lines;
  EXPECT_EQ(snapshot_model("a.caffemodel", false), "Snapshotting to binary proto file a.caffemodel");
  EXPECT_EQ(snapshot_model("a.caffemodel.h5", true), "Snapshotting to HDF5 file a.caffemodel.h5");
  EXPECT_EQ(snapshot_state("a.solverstate.h5", true),
            "Snapshotting solver state to HDF5 file a.solverstate.h5");
  EXPECT_EQ(snapshot_state("a.solverstate", false),
            "Snapshotting solver state to binary proto file a.solverstate");
  EXPECT_EQ(test_interrupted(), "Test interrupted.");
  EXPECT_EQ(finished(true), "Optimization stopped early.");
  EXPECT_EQ(finished(false), "Optimization Done.");
  EXPECT_EQ(resuming("a.solverstate"), "Resuming from a.solverstate");
  EXPECT_EQ(clipping(70, 35, 0.5),
            "Gradient clipping: scaling down gradients (L2 norm 70 > 35) by scale factor 0.5");
}

TEST(LogLines, Times) {
  using namespace log_lines;
  EXPECT_EQ(layer_time("conv1", "forward", 1.5), "     conv1\tforward: 1.5 ms.");
  EXPECT_EQ(layer_time("a_long_layer_name", "backward", 12), "a_long_layer_name\tbackward: 12 ms.");
  EXPECT_EQ(total_time("Average Forward pass", 2.25), "Average Forward pass: 2.25 ms.");
}

TEST(SmoothedLoss, MeanOfTheLastLosses) {
  SmoothedLoss loss(3);
  EXPECT_EQ(loss.value(), 0);
  const double expected[] = {1, 1.5, 2, 3, 4};
  for (int i = 0; i < 5; ++i) {
    loss.add(i + 1);
    EXPECT_DOUBLE_EQ(loss.value(), expected[i]) << i;
  }
}

TEST(SmoothedLoss, GoesOnBitForBit) {
  SmoothedLoss whole(4), part(4);
  for (int i = 0; i < 6; ++i) {
    whole.add(1.0 / (i + 3));
    part.add(1.0 / (i + 3));
  }
  caffe::BanyanState state;
  part.save(state);
  SmoothedLoss resumed(4);
  resumed.restore(state);
  for (int i = 6; i < 12; ++i) {
    whole.add(1.0 / (i + 3));
    resumed.add(1.0 / (i + 3));
    EXPECT_EQ(whole.value(), resumed.value()) << i;
  }
  SmoothedLoss another(7);  // average_loss was changed: starts over
  another.restore(state);
  EXPECT_EQ(another.value(), 0);
}

}  // namespace
}  // namespace banyan
