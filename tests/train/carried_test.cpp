// What recurrent layers and SegAccuracy hand from pass to pass, in whole runs: snapshots on any number of
// devices, checkpoints.
#include "banyan/io/binary_proto.hpp"
#include "banyan/train/session.hpp"
#include "train/promise_cases.hpp"

namespace banyan {
namespace {

TrainingCase recurrent(const std::string& net = "") {
  TrainingCase what{cat(kSolver, "snapshot: 1 "),
                    net + data_layer("epoch_end: PARTIAL") + kRecurrentBody + classifier()};
  what.iterations = 7;
  return what;
}

/// The third batch has 2 of the 50 records, so that not every device has one; the fourth has 24.
constexpr int kAfterFewSequences = 3, kAfterAllSequences = 4;

/// Goes on from a snapshot; `forgets`: from one without what the layers carried.
Trained resumed(const TrainingCase& what, const TrainingFolder& from, int start, int devices,
                bool forgets = false) {
  const TrainingFolder folder;
  TrainOptions options = options_of(what, folder, devices);
  options.snapshot = snapshot_paths(from.path() + "/out", start).state;
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
  what.precision = RunPrecision::f32;
  const TrainingFolder folder;
  const Trained whole = train_case(what, GetParam(), folder);
  for (const int start : {kAfterFewSequences, kAfterAllSequences})
    EXPECT_EQ(resumed(what, folder, start, GetParam()).model_bytes, whole.model_bytes) << start;
  EXPECT_NE(resumed(what, folder, kAfterAllSequences, GetParam(), true).model_bytes, whole.model_bytes);
}

/// The sequences are dealt again like the samples of a batch.
TEST_P(CarriedStateOn, IsDealtToAnotherNumberOfDevices) {
  const TrainingCase what = recurrent();
  const TrainingFolder folder;
  const std::vector<double> whole = train_case(what, GetParam(), folder).values();
  for (const int devices : {1, 2, 3}) {
    for (const int start : {kAfterFewSequences, kAfterAllSequences})
      EXPECT_LE(largest_difference(resumed(what, folder, start, devices).values(), whole), 1e-10) << devices;
    EXPECT_GT(largest_difference(resumed(what, folder, kAfterAllSequences, devices, true).values(), whole),
              1e-8)
        << devices;
  }
}

/// What resuming says, after `entries` of the saved states were given other widths (-1: all of them).
std::string said_of_other_widths(int entries) {
  const TrainingCase what = recurrent();
  const TrainingFolder from, folder;
  train_case(what, 2, from);
  caffe::SolverState state =
      read_snapshot(snapshot_paths(from.path() + "/out", kAfterAllSequences).state).state;
  auto& saved = *state.mutable_banyan()->mutable_carried();
  EXPECT_GT(saved.size(), 1);
  for (int i = 0; i < (entries < 0 ? saved.size() : entries); ++i) {
    auto& dims = *saved[i].mutable_blob()->mutable_shape()->mutable_dim();
    dims[1] *= dims[0];
    dims[0] = 1;
  }
  TrainOptions options = options_of(what, folder, 1);
  options.snapshot = folder.path() + "/damaged.solverstate";
  io::write_binary_proto(options.snapshot, state);
  FLAGS_minloglevel = 2;
  try {
    train(options);
    return "accepted";
  } catch (const Error& error) {
    return error.message();
  }
}

TEST(CarriedState, OfOtherWidthsIsRefused) {
  EXPECT_NE(said_of_other_widths(1).find("is damaged"), std::string::npos);
  const std::string said = said_of_other_widths(-1);
  EXPECT_NE(said.find("the carried state that was restored has"), std::string::npos) << said;
}

/// SegAccuracy with reset: false shows all batches of the run, however often it is interrupted.
TEST_P(CarriedStateOn, CountsOfARunGoOn) {
  const std::string classified =
      data_layer() +
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { num_output: 5 "
      "weight_filler { type: 'xavier' } } } "
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' } "
      "layer { name: 'seg' type: 'SegAccuracy' bottom: 'ip' bottom: 'label' top: 'seg' seg_accuracy_param { "
      "reset: ";
  TrainingCase what{cat(kSolver, "snapshot: 1 "), classified + "false } }"};
  TrainingCase last_only{cat(kSolver), classified + "true } }"};
  what.iterations = last_only.iterations = 6;
  FLAGS_minloglevel = 2;
  const auto shown = [](const TrainOptions& options) {
    Session session(options);
    session.train();
    return session.blob("seg").values;
  };
  const TrainingFolder folder;
  const std::vector<double> whole = shown(options_of(what, folder, GetParam()));
  ASSERT_EQ(whole.size(), 3u);
  const TrainingFolder other;
  EXPECT_NE(shown(options_of(last_only, other, GetParam())), whole);
  for (const int devices : {1, 2, 3}) {
    const TrainingFolder to;
    TrainOptions options = options_of(what, to, devices);
    options.snapshot = snapshot_paths(folder.path() + "/out", 4).state;
    EXPECT_LE(largest_difference(shown(options), whole), 1e-12) << devices;
  }
}

TEST_P(CarriedStateOn, IsTheSameWithCheckpoints) {
  TrainingCase plain = recurrent(), cut = recurrent("checkpoint: '3' ");
  plain.precision = cut.precision = RunPrecision::f32;
  EXPECT_EQ(train_case(cut, GetParam()).values(), train_case(plain, GetParam()).values());
}

}  // namespace
}  // namespace banyan
