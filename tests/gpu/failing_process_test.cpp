// The trainer on emulated GPUs whose calls fail: one error that names the GPU, exit code 1, nothing left
// over. Skipped on a real GPU.
#include <gmock/gmock.h>

#include <fstream>

#include "gpu/gpu_training.hpp"
#include "train/trainer_process.hpp"

namespace banyan {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Case {
  const char* name;
  const char* fail;  ///< as in EMULATED_CUDA=fail=...
  const char* says;
};
void PrintTo(const Case& of, std::ostream* out) { *out << of.fail; }

template <class Parameter>
class OnEmulatedGpus : public testing::TestWithParam<Parameter> {
 protected:
  void SetUp() override {
    if (emulated<void(const char*)>("emulated_cuda_configure") == nullptr)
      GTEST_SKIP() << "needs emulated GPUs";
  }
  /// In `folder`, on two GPUs, with a failing call.
  static std::unique_ptr<TrainerProcess> start(const TrainingFolder& folder, const std::string& fail,
                                               const std::vector<std::string>& arguments) {
    const std::string before = ::getenv("EMULATED_CUDA") != nullptr ? ::getenv("EMULATED_CUDA") : "";
    ::setenv("EMULATED_CUDA", (before + ",gpus=2,leaks=0,notes=0,fail=" + fail).c_str(), 1);
    auto trainer = std::make_unique<TrainerProcess>(folder.path(), folder.path() + "/log", arguments);
    ::setenv("EMULATED_CUDA", before.c_str(), 1);
    return trainer;
  }
};

using FailingCalls = OnEmulatedGpus<Case>;
INSTANTIATE_TEST_SUITE_P(
    Gpu, FailingCalls,
    testing::Values(
        Case{"TheGpusCannotBeCounted", "cudaGetDeviceCount:1", "the GPUs cannot be counted"},
        Case{"TheGpuIsLost", "cudaEventQuery:5:sticky", "gpu:"},
        Case{"AKernelFaults", "kernel:100:sticky", "gpu:"}, Case{"ALaunchFails", "launch:60", "gpu:"},
        Case{"NoMemory", "cudaMalloc:12", "gpu:"}, Case{"NoPinnedMemory", "cudaHostAlloc:3", "gpu:"},
        Case{"ACopyWhileLinksAreVerified", "cudaMemcpyAsync:3", "gpu:"},
        Case{"ALateCopy", "cudaMemcpyAsync:60", "gpu:"}, Case{"AProduct", "cublasSgemm_64:5", "gpu:"},
        Case{"AConvolution", "cudnnConvolutionForward:1", "cuDNN's convolution (forward"},
        Case{"ALaterConvolution", "cudnnConvolutionBackwardFilter:6",
             "cuDNN's convolution (backward to weights"},
        Case{"AHeuristic", "cudnnGetConvolutionForwardAlgorithm_v7:1", "gpu:"},
        Case{"ABadArgumentOfAQuery", "cudnnGetConvolutionForwardWorkspaceSize:1:2000",
             "cudnnGetConvolutionForwardWorkspaceSize"},
        // By one GPU only, which then has another one than its replica.
        Case{"AnAlgorithmIsRefusedAtFirst", "cudnnConvolutionForward:1:3000", "must compute alike"},
        Case{"AnAlgorithmIsRefusedLater", "cudnnConvolutionForward:9:3000", "cuDNN's convolution (forward"}),
    [](const auto& info) { return info.param.name; });

TEST_P(FailingCalls, EndTheRunWithOneError) {
  const TrainingFolder folder;
  std::ofstream(folder.path() + "/solver.prototxt")
      << "base_lr: 0.01 lr_policy: 'fixed' random_seed: 1 max_iter: 6 display: 0 snapshot_prefix: 'out' "
         "net_param { layer { name: 'data' type: "
         "'Data' top: 'data' top: 'label' data_param { source: 'images' backend: LMDB batch_size: 4 } "
         "transform_param { scale: 0.01 } } layer { "
         "name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param { num_output: 4 "
         "kernel_size: 3 weight_filler { type: "
         "'xavier' } } } layer { name: 'bn' type: 'SyncBN' bottom: 'conv' top: 'bn' } layer { name: 'ip' "
         "type: 'InnerProduct' bottom: 'bn' top: "
         "'ip' inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } } layer { name: 'loss' "
         "type: 'SoftmaxWithLoss' bottom: 'ip' "
         "bottom: 'label' top: 'loss' } }";
  // In f32 convolutions are products.
  const std::string fail = GetParam().fail;
  const auto trainer = start(folder, fail,
                             {"--solver=solver.prototxt", "--gpu=0,1", "--progress=off",
                              fail.starts_with("cudnn") ? "--precision=f64" : "--precision=f32"});
  EXPECT_EQ(trainer->wait(), 1);
  const std::string text = trainer->text();
  EXPECT_THAT(text, HasSubstr(GetParam().says));
  EXPECT_THAT(text, Not(HasSubstr("terminate called")));
  EXPECT_THAT(text, Not(HasSubstr("VIOLATION")));
  std::size_t errors = 0;
  for (std::size_t at = text.find("trainer: "); at != std::string::npos; at = text.find("trainer: ", at + 1))
    errors += at == 0 || text[at - 1] == '\n' ? 1 : 0;
  EXPECT_EQ(errors, 1U) << text;
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/out_iter_6.solverstate"));
}

/// Commands that were not asked for GPUs, and do without them where the driver cannot tell.
struct Command {
  const char* name;
  const char* word;
  std::vector<const char*> says;
};
void PrintTo(const Command& of, std::ostream* out) { *out << of.word; }

using UncountedGpus = OnEmulatedGpus<Command>;
INSTANTIATE_TEST_SUITE_P(
    Gpu, UncountedGpus,
    testing::Values(
        Command{"Version", "--version", {"Banyan ", "cuDNN ", "\nCPU: ", "\nGPU: none (the GPUs"}},
        Command{"DeviceQuery", "device_query", {"CPU: ", "\nGPU: none (the GPUs"}},
        Command{"Topology", "topology", {"Looking at the processor only: the GPUs", "cpu:0"}}),
    [](const auto& info) { return info.param.name; });

TEST_P(UncountedGpus, AreNamedInALine) {
  const TrainingFolder folder;
  const auto trainer = start(folder, "cudaGetDeviceCount:1", {GetParam().word});
  EXPECT_EQ(trainer->wait(), 0);
  const std::string text = trainer->text();
  for (const char* words : GetParam().says) EXPECT_THAT(text, HasSubstr(words));
  EXPECT_THAT(text, HasSubstr("cannot be counted: cudaGetDeviceCount failed"));
  EXPECT_THAT(text, Not(HasSubstr("trainer: ")));
}

TEST_P(UncountedGpus, AreAnErrorWhereTheyWereAskedFor) {
  if (GetParam().word[0] == '-') return;  // has no devices
  const TrainingFolder folder;
  const auto trainer = start(folder, "cudaGetDeviceCount:1", {GetParam().word, "--gpu=0"});
  EXPECT_EQ(trainer->wait(), 1);
  EXPECT_THAT(trainer->text(), HasSubstr("trainer: the GPUs cannot be counted: cudaGetDeviceCount failed"));
}

}  // namespace
}  // namespace banyan
