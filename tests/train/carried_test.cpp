// What recurrent layers hand from pass to pass, in whole runs: snapshots on any number of devices,
// checkpoints.
#include "banyan/io/binary_proto.hpp"
#include "train/promise_cases.hpp"

namespace banyan {
namespace {

TrainingCase recurrent(const std::string& net = "") {
  TrainingCase what{std::string(kSolver) + "snapshot: 3 ",
                    net + data_layer("epoch_end: PARTIAL") + kRecurrentBody + classifier()};
  what.iterations = 9;
  return what;
}

/// Goes on from iteration 3, whose batch had 2 of the 50 records: not every device had one.
Trained resumed(const TrainingCase& what, const TrainingFolder& from, int devices, bool forgets = false) {
  const TrainingFolder folder;
  TrainOptions options = options_of(what, folder, devices);
  options.snapshot = snapshot_paths(from.path() + "/out", 3).state;
  if (forgets) {
    caffe::SolverState state = read_snapshot(options.snapshot).state;
    state.mutable_banyan()->clear_carried();
    options.snapshot = folder.path() + "/forgetful.solverstate";
    io::write_binary_proto(options.snapshot, state);
  }
  FLAGS_minloglevel = 2;
  EXPECT_EQ(train(options), 0);
  return read_trained(folder, what.iterations);
}

class CarriedStateOn : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Train, CarriedStateOn, testing::Values(1, 2, 4));

TEST_P(CarriedStateOn, IsResumedBitForBit) {
  TrainingCase what = recurrent();
  what.precision = DType::f32;
  const TrainingFolder folder;
  const Trained whole = train_case(what, GetParam(), folder);
  EXPECT_EQ(resumed(what, folder, GetParam()).model_bytes, whole.model_bytes);
  EXPECT_NE(resumed(what, folder, GetParam(), true).model_bytes, whole.model_bytes) << "it matters";
}

/// The sequences are dealt again like the samples of a batch.
TEST_P(CarriedStateOn, IsDealtToAnotherNumberOfDevices) {
  const TrainingCase what = recurrent();
  const TrainingFolder folder;
  const std::vector<double> whole = train_case(what, GetParam(), folder).values();
  for (const int devices : {1, 2, 3}) {
    EXPECT_LE(largest_difference(resumed(what, folder, devices).values(), whole), 1e-10) << devices;
    EXPECT_GT(largest_difference(resumed(what, folder, devices, true).values(), whole), 1e-8) << devices;
  }
}

TEST_P(CarriedStateOn, IsTheSameWithCheckpoints) {
  TrainingCase plain = recurrent(), cut = recurrent("checkpoint: '6' ");
  plain.precision = cut.precision = DType::f32;
  EXPECT_EQ(train_case(cut, GetParam()).values(), train_case(plain, GetParam()).values());
}

}  // namespace
}  // namespace banyan
