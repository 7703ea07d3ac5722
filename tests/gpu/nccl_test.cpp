// Processes whose GPUs exchange by NCCL: the same promises as over the host. The processes are threads of the
// test, each with GPUs of its own.
#include <gmock/gmock.h>

#include <cstdlib>
#include <numeric>
#include <optional>

#include "banyan/base/text.hpp"
#include "banyan/parallel/device_uplink.hpp"
#include "gpu/gpu_training.hpp"
#include "train/fault.hpp"
#include "train/joined_run.hpp"
#include "train/promise_cases.hpp"

namespace banyan {
namespace {

using testing::Each;
using testing::HasSubstr;

std::string why_no_nccl() {
  try {
    static_cast<void>(parallel::nccl_wires());
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

class NcclTraining : public GpuTraining {
 protected:
  void SetUp() override {
    GpuTraining::SetUp();
    if (!IsSkipped() && !why_no_nccl().empty()) GTEST_SKIP() << why_no_nccl();
  }
  static bool enough_gpus(int wanted) { return cuda_device_count() >= wanted; }

  /// Process p has the next devices[p] GPUs.
  static void set_gpus(const std::vector<int>& devices, int process, TrainOptions& options) {
    options.devices.clear();
    const int first = std::accumulate(devices.begin(), devices.begin() + process, 0);
    for (int i = 0; i < devices[static_cast<std::size_t>(process)]; ++i)
      options.devices.push_back({DeviceKind::cuda, first + i});
  }
  Joined train(const TrainingCase& what, const std::vector<int>& devices,
               const std::function<void(int process, TrainOptions&)>& change = {},
               const TrainingFolder& folder = TrainingFolder()) {
    std::vector<std::unique_ptr<parallel::DeviceUplink>> uplinks(devices.size());
    return train_joined(
        what, devices,
        [&](int process, TrainOptions& options) {
          const auto at = static_cast<std::size_t>(process);
          set_gpus(devices, process, options);
          options.grace_seconds = grace_seconds();
          uplinks[at] = std::make_unique<parallel::DeviceUplink>(*options.uplink, parallel::nccl_wires(),
                                                                 reduce_precision_);
          options.uplink = uplinks[at].get();
          if (change) change(process, options);
        },
        folder);
  }
  /// The same processes, joined through the host.
  Joined train_through_host(const TrainingCase& what, const std::vector<int>& devices) {
    return train_joined(
        what, devices, [&](int process, TrainOptions& options) { set_gpus(devices, process, options); },
        TrainingFolder(), std::nullopt, reduce_precision_);
  }
  static bool are_emulated() { return emulated<void(const char*)>("emulated_cuda_configure") != nullptr; }
  /// While it exists, of emulated GPUs: NAME:N..., as in EMULATED_CUDA=fail=...
  class FailingCall {
   public:
    explicit FailingCall(const std::string& call) { configure(cat(settings(), ",fail=", call)); }
    ~FailingCall() { configure(settings()); }
    FailingCall(const FailingCall&) = delete;
    FailingCall& operator=(const FailingCall&) = delete;

   private:
    static std::string settings() {
      const char* const text = ::getenv("EMULATED_CUDA");
      return text != nullptr ? text : "";
    }
    static void configure(const std::string& settings) {
      emulated<void(const char*)>("emulated_cuda_configure")(settings.c_str());
    }
  };
  std::optional<DType> reduce_precision_;
};

/// f32, and wide enough that some buckets go whole, others in pieces of which each process has one or more.
TrainingCase wide_case() {
  std::string net = data_layer() + kBody + classifier();
  net.replace(net.find("num_output: 6"), 13, "num_output: 64");
  net.replace(net.find("num_output: 8"), 13, "num_output: 256");
  TrainingCase what{std::string(kSolver) + "clip_gradients: 0.5", net};
  what.precision = RunPrecision::f32;
  return what;
}

/// Two parts have one sum, whatever the order.
TEST_F(NcclTraining, TwoProcessesHaveTheBitsOfTwoGpus) {
  if (!enough_gpus(2)) GTEST_SKIP() << "needs 2 GPUs";
  const TrainingCase what = wide_case();
  const Trained two = train_case(what, gpu_devices(2));
  for (int repeat = 0; repeat < 2; ++repeat) {
    const Joined joined = train(what, {1, 1});
    ASSERT_THAT(joined.errors, Each(""));
    EXPECT_EQ(joined.trained.model_bytes, two.model_bytes);
  }
}

/// As in expect_the_same_run; with different numbers of devices, and sync groups that span processes.
TEST_F(NcclTraining, ProcessesAreOneDevice) {
  if (!enough_gpus(4)) GTEST_SKIP() << "needs 4 GPUs";
  TrainingCase grouped{kSolver, data_layer() + kBody + classifier()};
  const std::string sync = "slope_filler { value: 1 }";
  grouped.net.replace(grouped.net.find(sync), sync.size(), sync + " sync_group_size: 3");
  const Trained in_groups = train_case(grouped, 4);
  for (const std::vector<int>& devices : std::vector<std::vector<int>>{{2, 2}, {1, 1, 2}}) {
    SCOPED_TRACE(testing::PrintToString(devices));
    for (const TrainingCase& what : {TrainingCase{std::string(kSolver) + "iter_size: 2 clip_gradients: 0.5",
                                                  data_layer("epoch_end: PARTIAL shuffle: true") + kBody +
                                                      classifier("ignore_label: 2") + kSecondLoss},
                                     TrainingCase{std::string(kSolver) + "larc: true larc_eta: 0.02",
                                                  data_layer() + kRecurrentBody + classifier()}}) {
      const Trained one = train_case(what, 1);
      const Joined joined = train(what, devices);
      ASSERT_THAT(joined.errors, Each(""));
      EXPECT_LE(largest_difference(one.values(), joined.trained.values()), 1e-10);
      EXPECT_LE(largest_difference(one.losses(), joined.trained.losses()), 1e-10);
    }
    const Joined joined = train(grouped, devices);
    ASSERT_THAT(joined.errors, Each(""));
    EXPECT_LE(largest_difference(in_groups.values(), joined.trained.values()), 1e-10);
    EXPECT_LE(largest_difference(in_groups.losses(), joined.trained.losses()), 1e-10);
  }
}

/// Parts are rounded and added where they are through the host, in the same order.
TEST_F(NcclTraining, SixteenBitsAreThoseOfTheHost) {
  if (!enough_gpus(4)) GTEST_SKIP() << "needs 4 GPUs";
  TrainingCase what = wide_case();
  what.iterations = 5;
  const std::vector<int> devices{1, 2, 1};
  const Joined exact = train(what, devices);
  ASSERT_THAT(exact.errors, Each(""));
  EXPECT_EQ(exact.trained.model_bytes, train_through_host(what, devices).trained.model_bytes);
  std::vector<double> distances;
  for (const DType type : {DType::bf16, DType::f16}) {
    SCOPED_TRACE(name_of(type));
    reduce_precision_ = type;
    const Joined through_host = train_through_host(what, devices);
    ASSERT_THAT(through_host.errors, Each(""));
    for (int repeat = 0; repeat < 2; ++repeat) {
      const Joined joined = train(what, devices);
      ASSERT_THAT(joined.errors, Each(""));
      EXPECT_EQ(joined.trained.model_bytes, through_host.trained.model_bytes);
    }
    distances.push_back(relative_distance(exact.trained.values(), through_host.trained.values()));
    // As for processes with CPU devices (joined_training_test.cpp).
    EXPECT_GT(distances.back(), 0);
    EXPECT_LT(distances.back(), 0.1);
  }
  EXPECT_NE(distances[0], distances[1]);
}

/// The same for two processes of one GPU each.
TEST_F(NcclTraining, SixteenBitsOfTwoGpusAreThoseOfTheHost) {
  if (!enough_gpus(2)) GTEST_SKIP() << "needs 2 GPUs";
  TrainingCase what = wide_case();
  what.iterations = 2;
  for (const DType type : {DType::bf16, DType::f16}) {
    SCOPED_TRACE(name_of(type));
    reduce_precision_ = type;
    const Joined joined = train(what, {1, 1});
    ASSERT_THAT(joined.errors, Each(""));
    EXPECT_EQ(joined.trained.model_bytes, train_through_host(what, {1, 1}).trained.model_bytes);
  }
}

/// As through the host: messages of up to 16 KiB travel as they are.
TEST_F(NcclTraining, SixteenBitsAreForLongMessagesOnly) {
  if (!enough_gpus(2)) GTEST_SKIP() << "needs 2 GPUs";
  for (const int classes : {64, 65}) {  // all gradients: 64 for each of them
    SCOPED_TRACE(classes);
    TrainingCase what{kSolver, cat(data_layer(),
                                   "layer { name: 'fixed' type: 'InnerProduct' bottom: 'data' top: 'fixed' "
                                   "param { lr_mult: 0 } inner_product_param { num_output: 64 bias_term: "
                                   "false weight_filler { type: 'xavier' } } } "
                                   "layer { name: 'ip' type: 'InnerProduct' bottom: 'fixed' top: 'ip' "
                                   "inner_product_param { num_output: ",
                                   classes,
                                   " bias_term: false weight_filler { type: 'xavier' } } } "
                                   "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: "
                                   "'label' top: 'loss' }")};
    what.precision = RunPrecision::f32;
    what.iterations = 3;
    reduce_precision_.reset();
    const Joined exact = train(what, {1, 1});
    reduce_precision_ = DType::bf16;
    const Joined joined = train(what, {1, 1});
    ASSERT_THAT(exact.errors, Each(""));
    ASSERT_THAT(joined.errors, Each(""));
    EXPECT_EQ(joined.trained.model_bytes == exact.trained.model_bytes, classes == 64);
    EXPECT_EQ(joined.trained.model_bytes, train_through_host(what, {1, 1}).trained.model_bytes);
  }
}

/// As through the host: gradients of f64 travel as they are.
TEST_F(NcclTraining, SixteenBitsAreForF32Only) {
  if (!enough_gpus(2)) GTEST_SKIP() << "needs 2 GPUs";
  TrainingCase what = wide_case();
  what.precision = RunPrecision::f64;
  what.iterations = 5;
  const Joined exact = train(what, {1, 1});
  reduce_precision_ = DType::bf16;
  const Joined joined = train(what, {1, 1});
  ASSERT_THAT(exact.errors, Each(""));
  ASSERT_THAT(joined.errors, Each(""));
  EXPECT_EQ(joined.trained.model_bytes, exact.trained.model_bytes);
}

/// While the others' streams wait for the one that fails.
TEST_F(NcclTraining, AFailureEndsAllWithItsMessage) {
  if (!enough_gpus(3)) GTEST_SKIP() << "needs 3 GPUs";
  TrainingCase what{kSolver, data_layer() + kBody + classifier()};
  what.iterations = 1000;
  using enum Stage;
  for (const auto& [stage, narrow] : {std::pair{forward, false},
                                      {exchange, false},
                                      {backward, false},
                                      {reduce, false},
                                      {update, false},
                                      {backward, true},
                                      {reduce, true},
                                      {update, true}}) {
    SCOPED_TRACE(cat(name_of(stage), narrow ? ", 16 bits" : ""));
    if (narrow) {
      reduce_precision_ = DType::f16;
      what.net = wide_case().net;
      what.precision = RunPrecision::f32;
    }
    const InstalledFaults faults({{0, stage, 3, FaultKind::exception}}, {"gpu:1 of process 1 on host1"});
    const Joined joined = train(what, {1, 2});
    ASSERT_EQ(faults.struck(), 1);
    EXPECT_LT(faults.seconds_since(), seconds_to_stop());
    EXPECT_THAT(joined.errors, Each(HasSubstr("an injected fault")));
    EXPECT_THAT(joined.errors, Each(HasSubstr("on gpu:1 of process 1 on host1, iteration 3")));
  }
}

/// In NCCL's own words.
TEST_F(NcclTraining, AFailingCallEndsAll) {
  if (!enough_gpus(2)) GTEST_SKIP() << "needs 2 GPUs";
  EXPECT_THAT(parallel::nccl_wires().version(), testing::StartsWith("NCCL 2."));
  if (!are_emulated()) GTEST_SKIP() << "needs emulated GPUs";
  const auto expect_failure = [&](const TrainingCase& what, const char* call, int number, const char* named) {
    SCOPED_TRACE(cat(call, " ", number));
    const FailingCall failing(cat(call, ":", number));
    const Joined joined = train(what, {1, 1});
    EXPECT_THAT(joined.errors, Each(HasSubstr(cat("NCCL: ", named, " failed: unhandled cuda error"))));
  };
  const TrainingCase what{kSolver, data_layer() + kBody + classifier()};
  expect_failure(what, "ncclCommInitRankConfig", 2, "ncclCommInitRankConfig");
  expect_failure(what, "ncclGroupEnd", 2, "ncclGroupEnd");
  expect_failure(what, "ncclGetUniqueId", 1, "ncclGetUniqueId");
  // While they join, and later.
  for (const int number : {1, 300})
    expect_failure(what, "ncclCommGetAsyncError", number, "ncclCommGetAsyncError");
  // At the end, where the other waits for this one.
  expect_failure(what, "ncclCommFinalize", 1, "ncclCommFinalize");
  // The first calls are those of SyncBN and of devices that meet; later ones include parts and sums of
  // buckets.
  reduce_precision_ = DType::bf16;
  for (const int number : {20, 21, 22, 23, 24, 25}) {
    expect_failure(wide_case(), "ncclGroupEnd", number, "ncclGroupEnd");
    expect_failure(wide_case(), "ncclSend", number, "ncclSend or ncclRecv");
    expect_failure(wide_case(), "ncclRecv", number, "ncclSend or ncclRecv");
  }
}

/// cuDNN refuses an algorithm to one GPU only, whose process would go on with another one.
TEST_F(NcclTraining, GpusOfAllProcessesComputeAlike) {
  if (!enough_gpus(2)) GTEST_SKIP() << "needs 2 GPUs";
  if (!are_emulated()) GTEST_SKIP() << "needs emulated GPUs";
  const FailingCall failing("cudnnConvolutionForward:1:3000");
  const Joined joined = train({kSolver, data_layer() + kBody + classifier()}, {1, 1});
  EXPECT_THAT(joined.errors, Each(HasSubstr("gpu:0 of process 0 on host0 computes layer \"conv")));
  EXPECT_THAT(joined.errors, Each(HasSubstr(", gpu:1 of process 1 on host1 by ")));
  EXPECT_THAT(joined.errors, Each(HasSubstr("must compute alike")));
}

/// The last batch of an epoch is smaller: the first of its four convolutions, which is the ninth of all,
/// since processes that are joined through the host keep pace in SyncBN.
TEST_F(NcclTraining, LaterShapesAreComparedBeforeTheyAreSaved) {
  if (!enough_gpus(2)) GTEST_SKIP() << "needs 2 GPUs";
  if (!are_emulated()) GTEST_SKIP() << "needs emulated GPUs";
  TrainingCase what{kSolver, data_layer("epoch_end: PARTIAL") + kBody + classifier()};
  what.iterations = 4;
  const FailingCall failing("cudnnConvolutionForward:9:3000");
  const Joined joined = train_through_host(what, {1, 1});
  EXPECT_THAT(joined.errors, Each(HasSubstr("computes layer \"conv1\" forward of 1 3 10 10")));
  EXPECT_THAT(joined.errors, Each(HasSubstr("must compute alike")));
  EXPECT_THAT(joined.errors, Each(HasSubstr("iteration 4")));
}

/// A device that stands still, without an error: those that wait for it on their streams are not to blame.
TEST_F(NcclTraining, AHangingDeviceIsNamed) {
  if (!enough_gpus(2)) GTEST_SKIP() << "needs 2 GPUs";
  for (const bool narrow : {false, true}) {
    SCOPED_TRACE(narrow ? "16 bits" : "");
    TrainingCase what = narrow ? wide_case() : TrainingCase{kSolver, data_layer() + kBody + classifier()};
    if (narrow) reduce_precision_ = DType::f16;
    what.solver.replace(what.solver.find("display: 0"), 10,
                        "display: 1");  // where the host waits for the GPU
    what.iterations = 1000;
    const InstalledFaults faults({{0, narrow ? Stage::backward : Stage::forward, 3, FaultKind::hang}},
                                 {"gpu:1 of process 1 on host1"});
    const Joined joined =
        train(what, {1, 1}, [](int, TrainOptions& options) { options.watchdog_seconds = 3; });
    EXPECT_LT(faults.seconds_since(), 4 + seconds_to_stop());
    EXPECT_THAT(joined.errors, Each(HasSubstr("gpu:1 of process 1 on host1 has made no progress for 3")));
  }
}

/// Two devices of one GPU cannot be told apart by NCCL.
TEST_F(NcclTraining, ReplicasOnOneGpuAreRefused) {
  TrainingCase what{kSolver, data_layer() + kBody + classifier()};
  const Joined joined = train(what, {1, 2}, [](int, TrainOptions& options) {
    for (DeviceChoice& device : options.devices) device.ordinal = 0;
  });
  EXPECT_THAT(joined.errors, Each(HasSubstr("cannot share one: gpu:0 and gpu:0#1")));
}

}  // namespace
}  // namespace banyan
