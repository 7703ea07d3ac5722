// `trainer doctor` as a user runs it: on CPU devices, and on emulated GPUs with an NVML that says what a test
// wants.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include "tools/program_test.hpp"

namespace banyan::tools {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class DoctorProgram : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write("net.prototxt", R"(name: "small"
      layer { name: "data" type: "DummyData" top: "data" top: "label"
              dummy_data_param { shape { dim: 4 dim: 3 } shape { dim: 4 } } }
      layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 2 } }
      layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })");
    write("solver.prototxt",
          "net: 'net.prototxt' base_lr: 0.1 lr_policy: 'fixed' max_iter: 10 snapshot: 5 snapshot_prefix: "
          "'small'");
  }
  Result on_gpus(const std::string& settings, const std::string& nvml, const std::string& arguments) const {
    return run("trainer doctor " + arguments, "LD_LIBRARY_PATH='" BANYAN_BIN "/../lib/emulated:" BANYAN_BIN
                                              "/../lib/fake_nvml' EMULATED_CUDA=notes=0," +
                                                  settings + " FAKE_NVML=" + nvml);
  }
};

TEST_F(DoctorProgram, ExitCodes) {
  // The machine itself may have something to be warned of: then 1 stands for 0.
  Result result = run("trainer doctor --solver=solver.prototxt --cpu=1 --iterations=2");
  EXPECT_LE(result.code, 1) << result.output;
  EXPECT_GE(result.code, 0);
  EXPECT_THAT(result.output, AllOf(HasSubstr("0 errors, "), HasSubstr("for 10 iterations: ")));
  EXPECT_EQ(result.code, result.output.find("0 errors, 0 warnings") == std::string::npos ? 1 : 0)
      << result.output;
  write("net.prototxt", "layer { name: 'a' type: 'ReLu' bottom: 'x' top: 'y' }");
  result = run("trainer doctor --solver=solver.prototxt --cpu=1");
  EXPECT_EQ(result.code, 2) << result.output;
  EXPECT_THAT(result.output, AllOf(ContainsRegex("error +solver"), HasSubstr("did you mean \"ReLU\"?"),
                                   HasSubstr("-> correct it; trainer check solver.prototxt shows the same")));
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("doctor"))) << "nothing is left behind";
}

TEST_F(DoctorProgram, Usage) {
  expect_bad_input("trainer doctor --snapshot=x", "--snapshot belongs to a run: --solver is missing");
  expect_bad_input("trainer doctor --solver=solver.prototxt --iterations=0", "--iterations=0");
  expect_bad_input("trainer doctor --cpu=1 --plan", "--plan does not go with doctor");
}

TEST_F(DoctorProgram, PrintsJsonAndNothingElse) {
  const Result result = run("trainer doctor --solver=solver.prototxt --cpu=2 --iterations=2 --json");
  google::protobuf::Struct parsed;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(result.output, &parsed).ok()) << result.output;
  EXPECT_EQ(parsed.fields().at("errors").number_value(), 0);
}

TEST_F(DoctorProgram, HealthyGpus) {
  const Result result = on_gpus("gpus=2", "", "--gpu=0,1 --solver=solver.prototxt --iterations=2");
  EXPECT_LE(result.code, 1) << result.output;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("driver 580.00 for CUDA 13.0"), ContainsRegex("gpu:0 +Emulated GPU, "),
                    ContainsRegex("gpu:1 +computes"), HasSubstr("power limit 700 W"),
                    ContainsRegex("links +(2 links: all data arrived whole|gpu:. to gpu:. .* only)"),
                    HasSubstr("for 10 iterations: "), HasSubstr("0 errors")));
}

TEST_F(DoctorProgram, EachFaultOfAGpu) {
  const std::pair<const char*, const char*> faults[] = {
      {"errors=3", "error    gpu:0 .*3 errors of its memory could not be corrected"},
      {"row_failed=1", "error    gpu:0 .*cannot be replaced"},
      {"ecc=0", "warning  gpu:0 .*ECC is off"},
      {"ecc_later=0", "warning  gpu:0 .*ECC will be off"},
      {"throttle=64", "warning  gpu:0 .*slowed down by heat"},
      {"throttle=132", "warning  gpu:0 .*slowed down by the power limit and the board"},
      {"power=350000", "warning  gpu:0 .*limited to 350 W"},
      {"lanes=8", "warning  gpu:0 .*8 of 16 PCIe lanes"},
      {"temperature=85", "warning  gpu:0 .*at 85 degrees"},
      {"process=1", "warning  gpu:0 .*in use by process 1 .*with 1.0 GiB"},
      {"compute_mode=2", "error    gpu:0 .*forbids programs"}};
  for (const auto& [setting, line] : faults) {
    const Result result = on_gpus("gpus=1", setting, "--gpu=0");
    EXPECT_EQ(result.code, std::string(line).starts_with("error") ? 2 : 1) << setting << "\n"
                                                                           << result.output;
    EXPECT_THAT(result.output, ContainsRegex(line)) << setting;
  }
}

TEST_F(DoctorProgram, WithoutNvml) {
  const Result result = on_gpus("gpus=1", "init=1", "--gpu=0");
  EXPECT_EQ(result.code, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("NVML (libnvidia-ml.so.1) cannot be used"));
}

TEST_F(DoctorProgram, ALostGpuAndOneThatIsTooSmall) {
  Result result = on_gpus("gpus=1,fail=kernel:1:700:sticky,leaks=0", "", "--gpu=0");
  EXPECT_EQ(result.code, 2) << result.output;
  EXPECT_THAT(result.output, ContainsRegex("error    gpu:0 "));
  write("net.prototxt", R"(
    layer { name: "data" type: "DummyData" top: "data" top: "label"
            dummy_data_param { shape { dim: 64 dim: 1000000 } shape { dim: 64 } } }
    layer { name: "exp" type: "Exp" bottom: "data" top: "exp" }
    layer { name: "ip" type: "InnerProduct" bottom: "exp" top: "ip" inner_product_param { num_output: 2 } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })");
  result = on_gpus("gpus=1,memory_mib=256", "", "--gpu=0 --solver=solver.prototxt");
  EXPECT_EQ(result.code, 2) << result.output;
  EXPECT_THAT(
      result.output,
      ContainsRegex("error    memory of a device .*need at least .* on each device, 256 MiB are free; "
                    "the largest batch that fits is about [1-9]"));
}

TEST_F(DoctorProgram, GpusThatNobodyHas) {
  const Result result = on_gpus("gpus=1", "", "--gpu=3");
  EXPECT_EQ(result.code, 2) << result.output;
  EXPECT_THAT(result.output, ContainsRegex("error    devices .*there is no GPU 3"));
}

}  // namespace
}  // namespace banyan::tools
