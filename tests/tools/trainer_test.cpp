// The trainer as a user sees it: exit codes, messages, and that each message appears once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "banyan/device/cuda_devices.hpp"
#include "banyan/live/page_server.hpp"
#include "io/hdf5_file.hpp"

namespace banyan {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::AnyOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

struct Outcome {
  int code = -1;
  std::string text;  ///< stdout and stderr together
};

/// Runs in a separate folder, which holds a small net on synthetic data with its solver.
class Trainer : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("trainer_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    std::ofstream(folder_ / "net.prototxt") << R"(
      name: "small"
      layer { name: "data" type: "DummyData" top: "data" top: "label"
              dummy_data_param { shape { dim: 4 dim: 3 } shape { dim: 4 }
                                 data_filler { type: "constant" value: 0.5 } data_filler { type: "constant" value: 1 } } }
      layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
              inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
      layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })";
    std::ofstream(folder_ / "solver.prototxt")
        << "net: 'net.prototxt' base_lr: 0.1 lr_policy: 'fixed' max_iter: 6 "
           "display: 2 snapshot: 3 snapshot_prefix: 'small' random_seed: 1";
  }
  void TearDown() override { fs::remove_all(folder_); }

  Outcome summary_of(const std::string& net, const std::string& more) const {
    std::ofstream(folder_ / "shown.prototxt") << net;
    return run("summary --model=shown.prototxt" + more);
  }
  Outcome run(const std::string& arguments, const std::string& environment = "") const {
    const std::string command =
        "cd '" + folder_.string() + "' && " + environment + " '" + program_ + "' " + arguments + " 2>&1";
    Outcome outcome;
    FILE* pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) return outcome;
    char bytes[4096];
    for (std::size_t n; (n = std::fread(bytes, 1, sizeof bytes, pipe)) > 0;) outcome.text.append(bytes, n);
    const int status = ::pclose(pipe);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return outcome;
  }
  /// Bad input: exit code 2, `what` in the message, one paragraph and no stack trace.
  void expect_refused(const std::string& arguments, const std::string& what) const {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.text;
    EXPECT_THAT(outcome.text, AllOf(HasSubstr(what), HasSubstr("trainer: "), Not(HasSubstr("\n\n")),
                                    Not(HasSubstr("stack trace"))));
  }

  fs::path folder_;
  std::string program_ = BANYAN_BIN "/trainer";
};

TEST_F(Trainer, HelpAndVersion) {
  auto outcome = run("--help");
  EXPECT_EQ(outcome.code, 0);
  for (const char* part : {"train ", "test ", "time ", "summary ", "layers ", "device_query ",
                           "--solver=", "--sync_bn=", "--trace="})
    EXPECT_THAT(outcome.text, HasSubstr(part));
  outcome = run("--version");
  EXPECT_EQ(outcome.code, 0);
  for (const char* part : {"Banyan ", "oneDNN ", "OpenBLAS ", "protobuf ", "LMDB ", "CUDA"})
    EXPECT_THAT(outcome.text, HasSubstr(part));
  EXPECT_EQ(run("").code, 2);
}

TEST_F(Trainer, UsageErrors) {
  expect_refused("tran --solver=solver.prototxt", "nearest first: train,");
  expect_refused("--sovler=solver.prototxt", "did you mean \"solver\"");
  expect_refused("--iterations=many", "--iterations");
  expect_refused("train", "--solver is missing");
  expect_refused("--solver=solver.prototxt --cpu=1 --gpu=0", "exclude each other");
  expect_refused("--solver=solver.prototxt --cpu=none", "--cpu=none");
  expect_refused("--solver=solver.prototxt --sync_bn=of", "did you mean \"off\"");
  expect_refused("--solver=solver.prototxt --sigint_effect=halt", "--sigint_effect=halt");
  expect_refused("--solver=solver.prototxt --weights=a --snapshot=b", "exclude each other");
  expect_refused("--solver=solver.prototxt --snapshot=nowhere.solverstate", "nowhere.solverstate");
  expect_refused("--solver=solver.prototxt --max_iter=-1", "--max_iter=-1: expected iterations");
  expect_refused("--solver=solver.prototxt --iterations=3", "--max_iter=N says how many iterations");
  expect_refused("doctor --max_iter=3", "--max_iter belongs to a run");
  expect_refused("--solver=nowhere.prototxt", "nowhere.prototxt");
  expect_refused("time", "--model is missing");
  expect_refused("test --model=net.prototxt", "--weights is missing");
}

TEST_F(Trainer, AGpuThatDoesNotExist) {
  expect_refused("--solver=solver.prototxt --gpu=999", "--gpu=999");
  if (cuda_device_count() == 0) expect_refused("--solver=solver.prototxt --gpu=all", "no GPU can be used");
}

/// A folder of its own for the program, with libbanyan.so and, of what is loaded at run time, only the
/// kernels. The dynamic linker lists what it was asked for.
class MovedTrainer : public Trainer {
 protected:
  void SetUp() override {
    Trainer::SetUp();
    for (const char* name : {"bin", "lib"}) fs::create_directory(folder_ / name);
    fs::copy_file(program_, folder_ / "bin/trainer");
    add("libbanyan.so");
    for (const char* kernels : {"libbanyan_avx2.so", "libbanyan_avx512.so"})
      if (fs::exists(fs::path(BANYAN_BIN "/../lib") / kernels)) add(kernels);
    program_ = folder_ / "bin/trainer";
    std::ofstream(folder_ / "hdf5.prototxt")
        << std::ifstream(folder_ / "solver.prototxt").rdbuf() << " snapshot_format: HDF5";
  }

  void add(const std::string& library) const {
    fs::create_symlink(BANYAN_BIN "/../lib/" + library, folder_ / "lib" / library);
  }
  /// In its place.
  void break_library(const std::string& library) const {
    std::ofstream(folder_ / "lib" / library) << "no library";
  }

  std::string loaded(const std::string& arguments, int code) const {
    const std::string list = folder_ / "linker";
    const Outcome outcome = run(arguments, "LD_DEBUG=files LD_DEBUG_OUTPUT='" + list + "'");
    EXPECT_EQ(outcome.code, code) << outcome.text;
    std::string files;
    for (const auto& entry : fs::directory_iterator(folder_))
      if (entry.path().string().starts_with(list + ".")) {
        std::ifstream file(entry.path());
        files.append(std::istreambuf_iterator<char>(file), {});
        fs::remove(entry.path());
      }
    EXPECT_THAT(files, HasSubstr("file=libbanyan.so"));
    return files;
  }
};

/// CUDA's libraries take a tenth of a second and 200 MB, HDF5, HTTP and what these bring 15 ms and 7 MB,
/// which a run on the CPU can do without. The back end here does not load, in builds with and without CUDA.
TEST_F(MovedTrainer, LoadsCudaHdf5AndHttpOnlyWhereTheyAreAskedFor) {
  break_library("libbanyan_cuda.so");
  for (const char* arguments :
       {"--solver=solver.prototxt --cpu=2", "--solver=solver.prototxt", "summary --model=net.prototxt",
        "test --model=net.prototxt --weights=small_iter_6.caffemodel --iterations=1",
        "time --model=net.prototxt --iterations=1", "topology --cpu=2 --dot", "--help"}) {
    const std::string files = loaded(arguments, 0);
    for (const char* library : {"libbanyan_cuda", "libbanyan_mpi", "libbanyan_hdf5", "libbanyan_httplib",
                                "libcuda", "libcublas", "libcudnn", "libnvidia", "libhdf5", "libcurl",
                                "libgnutls", "libcpp-httplib", "libssl", "libcrypto", "libbrotli"})
      EXPECT_EQ(files.find(library), std::string::npos) << arguments << " loads " << library;
  }
  EXPECT_THAT(loaded("--solver=solver.prototxt --gpu=0", 2), HasSubstr("libbanyan_cuda.so"));
  if (io::has_hdf5()) {
    add("libbanyan_hdf5.so");
    EXPECT_THAT(loaded("--solver=hdf5.prototxt --cpu=1", 0),
                AllOf(HasSubstr("libbanyan_hdf5.so"), Not(HasSubstr("libcpp-httplib"))));
  }
  if (live::has_page_server()) {
    add("libbanyan_httplib.so");
    EXPECT_THAT(loaded("--solver=solver.prototxt --cpu=1 --serve=0", 0),
                AllOf(HasSubstr("libbanyan_httplib.so"), Not(HasSubstr("libhdf5"))));
  }
}

/// Before a run begins, not at its first snapshot.
TEST_F(MovedTrainer, NamesALibraryThatIsMissingOrBroken) {
  if (!io::has_hdf5()) {
    expect_refused("--solver=hdf5.prototxt --cpu=1", "which this build of Banyan lacks");
  } else {
    expect_refused(
        "--solver=hdf5.prototxt --cpu=1",
        "snapshot_format: HDF5 needs HDF5: libbanyan_hdf5.so is missing: it belongs into the folder");
    break_library("libbanyan_hdf5.so");
    expect_refused("--solver=hdf5.prototxt --cpu=1", "cannot load the part for HDF5 (libbanyan_hdf5.so): ");
  }
  if (!live::has_page_server()) {
    expect_refused("--solver=solver.prototxt --cpu=1 --serve=0", "this build of Banyan lacks what it takes");
  } else {
    expect_refused("--solver=solver.prototxt --cpu=1 --serve=0",
                   "--serve=0: libbanyan_httplib.so is missing: it belongs into the folder");
    break_library("libbanyan_httplib.so");
    expect_refused("--solver=solver.prototxt --cpu=1 --serve=0",
                   "cannot load the part for HTTP (libbanyan_httplib.so): ");
  }
}

TEST_F(Trainer, BadNetsNameFileAndPlace) {
  std::ofstream(folder_ / "solver.prototxt", std::ios::app) << " learning_rate: 1";
  expect_refused("--solver=solver.prototxt --cpu=1", "solver.prototxt:1:");
  std::ofstream(folder_ / "bad.prototxt") << "layer { name: 'a' type: 'Convolutoin' bottom: 'x' top: 'y' }";
  expect_refused("summary --model=bad.prototxt", "bad.prototxt");
}

TEST_F(Trainer, TrainsSnapshotsAndGoesOn) {
  auto outcome = run("--solver=solver.prototxt --cpu=2");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("] Solving small\n"), HasSubstr("] Iteration 2 ("),
                    HasSubstr("] Iteration 4, lr = 0.1\n"), HasSubstr("Train net output #0: loss = "),
                    HasSubstr("] Optimization Done.\n"), Not(HasSubstr("\r"))));
  for (const char* file : {"small_iter_3.caffemodel", "small_iter_6.caffemodel", "small_iter_6.solverstate"})
    EXPECT_TRUE(fs::exists(folder_ / file)) << file;
  const auto read = [&](const char* file) {
    std::ifstream in(folder_ / file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string whole = read("small_iter_6.caffemodel");
  fs::remove(folder_ / "small_iter_6.solverstate");
  outcome = run("--solver=solver.prototxt --cpu=2 --snapshot=latest");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("Resuming from small_iter_3.solverstate"));
  EXPECT_EQ(read("small_iter_6.caffemodel"), whole);
}

/// py-faster-rcnn's solvers: a script is told the number of iterations.
TEST_F(Trainer, TakesTheIterationsThatASolverDoesNotSay) {
  std::ofstream(folder_ / "endless.prototxt")
      << "train_net: 'net.prototxt' base_lr: 0.1 lr_policy: 'step' gamma: 0.1 stepsize: 50000 display: 2 "
         "snapshot: 0 snapshot_prefix: 'counted'";
  expect_refused("--solver=endless.prototxt --cpu=1",
                 "endless.prototxt: max_iter is missing: write it into the solver, or pass --max_iter=N");
  EXPECT_EQ(run("check endless.prototxt").code, 2);
  EXPECT_EQ(run("check endless.prototxt --max_iter=4").code, 0);
  const Outcome outcome = run("--solver=endless.prototxt --cpu=1 --max_iter=4");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(fs::exists(folder_ / "counted_iter_4.caffemodel"));
  // It goes before the solver's.
  EXPECT_EQ(run("--solver=solver.prototxt --cpu=1 --max_iter=2").code, 0);
  EXPECT_TRUE(fs::exists(folder_ / "small_iter_2.caffemodel"));
  EXPECT_FALSE(fs::exists(folder_ / "small_iter_3.caffemodel"));
}

TEST_F(Trainer, TestTimeAndSummary) {
  ASSERT_EQ(run("--solver=solver.prototxt --cpu=1").code, 0);
  auto outcome = run("test --model=net.prototxt --weights=small_iter_6.caffemodel --iterations=2");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("] Batch 1, loss = "), HasSubstr("] Loss: "), HasSubstr(" (* 1 = ")));
  outcome = run("time --model=net.prototxt --iterations=2");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("]         ip\tforward: "), HasSubstr("]         ip\tbackward: "),
                    HasSubstr("Average Forward-Backward: "), HasSubstr("Samples per second: ")));
  outcome = run("summary --model=net.prototxt");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("InnerProduct"), HasSubstr("\n8 parameters")));
  outcome = run("summary --model=net.prototxt --json");
  EXPECT_THAT(outcome.text, HasSubstr("\"parameters\": 8"));
}

TEST_F(Trainer, ListsTheLayersAsThePageDoes) {
  const auto outcome = run("layers");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("SyncBN"), HasSubstr("convolution_param")));
  std::ostringstream page;
  page << std::ifstream(BANYAN_SOURCE "/docs/layers.md").rdbuf();
  EXPECT_THAT(page.str(), HasSubstr("```\n" + outcome.text + "```\n"));
  EXPECT_THAT(run("layers --json").text, HasSubstr("{\"type\": \"Pooling\", \"inputs\": \"1\""));
}

/// Each type has a case there, or is in the list of those that have none, with the reason.
TEST_F(Trainer, TheBenchmarkOfLayersKnowsAllTypes) {
  std::ostringstream script;
  script << std::ifstream(BANYAN_SOURCE "/tests/bench/layers.py").rdbuf();
  std::istringstream lines(run("layers").text);
  std::string line, type;
  std::getline(lines, line);  // names of the columns
  int types = 0;
  for (; std::getline(lines, line); ++types) {
    std::istringstream(line) >> type;
    EXPECT_THAT(script.str(), AnyOf(HasSubstr("\"" + type + "\""), HasSubstr("\"" + type + " "))) << type;
  }
  EXPECT_GT(types, 100);
}

TEST_F(Trainer, PrintsThePlan) {
  const auto outcome = run("summary --model=net.prototxt --plan");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  for (const char* part :
       {"Tensors, with the places", "Forward:", "Backward:", "overwrites gradients", "loss = 1 * "})
    EXPECT_THAT(outcome.text, HasSubstr(part));
  expect_refused("summary --model=net.prototxt --plan --json", "--plan and --json exclude each other");
}

/// A net whose data does not exist: shapes, counts and memory computed by hand.
TEST_F(Trainer, SummaryCounts) {
  std::ofstream(folder_ / "tiny.prototxt") << R"(name: "tiny"
    layer { name: "data" type: "Data" top: "data" top: "label"
      data_param { source: "missing" backend: LMDB batch_size: 7 } }
    layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
      convolution_param { num_output: 8 kernel_size: 3 } }
    layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "conv" }
    layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
    layer { name: "flat" type: "Flatten" bottom: "conv" top: "flat" }
    layer { name: "ip" type: "InnerProduct" bottom: "flat" top: "ip" param { name: "w" } param { name: "b" lr_mult: 0 }
      inner_product_param { num_output: 10 } }
    layer { name: "again" type: "InnerProduct" bottom: "flat" top: "again" param { name: "w" } param { name: "b" }
      inner_product_param { num_output: 10 } }
    layer { name: "sum" type: "Eltwise" bottom: "ip" bottom: "again" top: "sum" }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "sum" bottom: "label" top: "loss" })";
  const std::string what = "summary --model=tiny.prototxt", shapes = " '--shape=data:2,3,6,6'";
  auto outcome = run(what + shapes + " --json");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("\"label\", \"shape\": [2]}"));
  EXPECT_THAT(
      outcome.text,
      HasSubstr(R"("type": "Convolution", "outputs": [{"name": "conv", "shape": [2, 8, 4, 4]}], )"
                R"("inputs": ["data"], "parameters": 224, "shared_parameters": 0, "multiply_adds": 6912, )"
                R"("in_place": false, "output_bytes": 1024})"));  // 2 x 8 x 16 x 27; x 4 bytes
  EXPECT_THAT(outcome.text, HasSubstr(R"("in_place": true, "output_bytes": 0})"));   // the ReLU
  EXPECT_THAT(outcome.text, HasSubstr(R"("in_place": false, "output_bytes": 0})"));  // Flatten
  EXPECT_THAT(outcome.text, HasSubstr(R"("parameters": 0, "shared_parameters": 1290,)"));
  // 8 x 27 + 8, 8 means, 8 variances and a factor, 128 x 10 + 10.
  EXPECT_THAT(outcome.text, HasSubstr(R"("parameters": 1531, "parameter_bytes": 6124,)"));
  EXPECT_THAT(outcome.text, HasSubstr(R"("running_statistics": 17, "not_learning": 10,)"));
  outcome = run(what + shapes);
  EXPECT_THAT(outcome.text, ContainsRegex("conv +Convolution +2x8x4x4 +224 +6.912 k +1.0 KiB"));
  EXPECT_THAT(outcome.text, ContainsRegex("relu +ReLU +2x8x4x4 +0 +[0-9]+ +in place"));
  EXPECT_THAT(outcome.text, ContainsRegex("again +InnerProduct +2x10 +0 \\(\\+1290 shared\\)"));
  EXPECT_THAT(outcome.text,
              HasSubstr("1531 parameters (6.0 KiB; 17 are running statistics; 10 do not learn), "));
  expect_refused(what, "--shape=data:");
  expect_refused(what + " '--shape=data:2,3,6,6;data:4,3,6,6'", "--shape gives the blob \"data\" two shapes");
}

TEST_F(Trainer, ShapesStandInForDataButHideNothing) {
  std::ofstream(folder_ / "other.prototxt") << R"(
    layer { name: "data" type: "Data" top: "data" data_param { source: "missing" batch_size: 0 } }
    layer { name: "labels" type: "ImageData" top: "label" image_data_param { source: "missing" batch_size: 7 } }
    layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 3 } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })";
  for (const char* command : {"summary", "time --iterations=1"}) {
    const Outcome outcome =
        run(std::string(command) + " --model=other.prototxt '--shape=data:4,5;label:4' --cpu=1");
    EXPECT_EQ(outcome.code, 0) << outcome.text;  // labels are classes: 0.5 would be refused
    EXPECT_THAT(
        outcome.text,
        HasSubstr("--shape stands in for layer \"data\" (Data), which cannot be trained with as it is: "));
    EXPECT_THAT(outcome.text, HasSubstr("data_param.batch_size must be positive"));
    EXPECT_THAT(outcome.text, Not(HasSubstr("stands in for layer \"labels\"")));
  }
}

TEST_F(Trainer, ChecksFiles) {
  Outcome outcome = run("check solver.prototxt net.prototxt");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("solver.prototxt: a solver; nothing wrong\n"));
  std::ofstream(folder_ / "bad.prototxt") << "layer { nmae: 'a' type: 'ReLU' }";
  outcome = run("check net.prototxt bad.prototxt");
  EXPECT_EQ(outcome.code, 2) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("bad.prototxt:1:9: layer (ReLU): unknown field \"nmae\""));
  expect_refused("check", "expected check FILE..., found 0 arguments after it");
}

TEST_F(Trainer, IgnoresUnknownFieldsIfAsked) {
  std::ofstream(folder_ / "solver.prototxt", std::ios::app) << " frobnicate: 3";
  std::ofstream(folder_ / "net.prototxt", std::ios::app)
      << " layer { name: 'r' type: 'ReLU' bottom: 'ip' top: 'r' twist { a: 1 } }";
  expect_refused("--solver=solver.prototxt --cpu=1", "unknown field \"frobnicate\"");
  const Outcome outcome = run("--solver=solver.prototxt --cpu=1 --ignore_unknown_fields");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("unknown field \"frobnicate\" in SolverParameter; ignored"));
  EXPECT_THAT(outcome.text,
              HasSubstr("layer \"r\" (ReLU): unknown field \"twist\" in LayerParameter; ignored"));
}

TEST_F(Trainer, SummaryShowsCheckpoints) {
  std::string layers = R"(layer { name: "data" type: "DummyData" top: "t0" top: "label"
    dummy_data_param { shape { dim: 64 dim: 50 } shape { dim: 64 } } })";
  for (int i = 1; i < 12; ++i)
    layers += "layer { name: 'ip" + std::to_string(i) + "' type: 'InnerProduct' bottom: 't" +
              std::to_string(i - 1) + "' top: 't" + std::to_string(i) +
              "' inner_product_param { num_output: 50 } }";
  layers += "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 't11' bottom: 'label' }";
  const auto show = [&](const std::string& checkpoint, const std::string& more = "") {
    std::ofstream(folder_ / "deep.prototxt") << "checkpoint: '" << checkpoint << "' " << layers;
    return run("summary --model=deep.prototxt" + more);
  };
  EXPECT_THAT(show("off").text, Not(HasSubstr("Checkpoints")));
  EXPECT_THAT(show("3").text,
              AllOf(HasSubstr("Checkpoints: 3 segments, cut before ip"), HasSubstr("B without them; "),
                    HasSubstr(" multiply-adds are done twice")));
  EXPECT_THAT(show("auto", " --json").text, AllOf(HasSubstr("\"checkpoints\": {\"cut_before\": [\"ip"),
                                                  HasSubstr("\"repeated_multiply_adds\": ")));
  std::ofstream(folder_ / "wrong.prototxt") << "checkpoint: 'often' " << layers;
  expect_refused("summary --model=wrong.prototxt", "checkpoint: \"often\" is not known");
}

TEST_F(Trainer, SummaryShowsInPlaceAbn) {
  const std::string layers = R"(
    layer { name: "data" type: "DummyData" top: "data" top: "label"
      dummy_data_param { shape { dim: 4 dim: 3 dim: 8 dim: 8 } shape { dim: 4 } } }
    layer { name: "c1" type: "Convolution" bottom: "data" top: "c1" convolution_param { num_output: 4 kernel_size: 1 } }
    layer { name: "b1" type: "SyncBN" bottom: "c1" top: "c1" }
    layer { name: "r1" type: "ReLU" bottom: "c1" top: "c1" relu_param { negative_slope: 0.1 } }
    layer { name: "c2" type: "Convolution" bottom: "c1" top: "c2" convolution_param { num_output: 4 kernel_size: 1 } }
    layer { name: "b2" type: "BN" bottom: "c2" top: "c2" }
    layer { name: "r2" type: "ReLU" bottom: "c2" top: "c2" }
    layer { name: "ip" type: "InnerProduct" bottom: "c2" top: "ip" inner_product_param { num_output: 2 } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" } )";
  const auto show = [&](const std::string& line, const std::string& more = "") {
    return summary_of(line + layers, more);
  };
  EXPECT_THAT(show("").text, Not(HasSubstr("In-place")));
  EXPECT_THAT(show("in_place_abn: true").text,
              AllOf(HasSubstr("In-place ABN: 1 of 2 batch normalizations; "), HasSubstr("B without it\n"),
                    HasSubstr("  \"b2\" (BN) keeps its input: after it comes \"r2\" (ReLU), not a ReLU")));
  EXPECT_THAT(show("in_place_abn: true", " --json").text,
              AllOf(HasSubstr("\"in_place_abn\": {\"in_place\": [\"b1\"], \"keep_their_input\": [{\"name\": "
                              "\"b2\", \"reason\": \"after it"),
                    HasSubstr("\"bytes_without\": ")));
}

TEST_F(Trainer, SummaryShowsTheStorage) {
  const std::string layers = R"(
    layer { name: "data" type: "DummyData" top: "data" top: "label"
      dummy_data_param { shape { dim: 4 dim: 3 dim: 8 dim: 8 } shape { dim: 4 } } }
    layer { name: "c1" type: "Convolution" bottom: "data" top: "c1" convolution_param { num_output: 4 kernel_size: 1 } }
    layer { name: "r1" type: "ReLU" bottom: "c1" top: "c1" }
    layer { name: "ip" type: "InnerProduct" bottom: "c1" top: "ip" inner_product_param { num_output: 2 } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" } )";
  const auto show = [&](const std::string& line, const std::string& more = "") {
    return summary_of(line + layers, more);
  };
  EXPECT_THAT(show("").text, Not(HasSubstr("Precision:")));
  EXPECT_THAT(show("", " --plan").text, Not(HasSubstr("bf16")));
  EXPECT_THAT(show("storage: BF16").text,
              HasSubstr("Precision: activations in bf16 where the layers' types allow it, products of f32, "
                        "parameters in f32\n"));
  EXPECT_THAT(show("storage: BF16", " --plan").text,
              AllOf(ContainsRegex("c1 +4x4x8x8 +bf16 "), ContainsRegex("loss +scalar +f32 ")));
  EXPECT_THAT(show("storage: BF16", " --json").text,
              HasSubstr("\"precision\": {\"storage\": \"bf16\", \"compute\": \"f32\", \"master\": \"f32\"}"));
  expect_refused("summary --model=shown.prototxt --precision=f64",
                 "storage: BF16 is for runs in f32 or bf16; this one is in f64");
  // --precision=bf16 stores what it computes with, if the net does not say otherwise.
  EXPECT_THAT(show("", " --precision=bf16").text,
              HasSubstr("Precision: activations in bf16 where the layers' types allow it, products of bf16, "
                        "parameters in f32\n"));
  EXPECT_THAT(show("storage: FULL", " --precision=bf16").text, Not(HasSubstr("Precision:")));
}

TEST_F(Trainer, ProgressOnlyWhereAsked) {
  EXPECT_THAT(run("--solver=solver.prototxt --cpu=1 --progress=on").text, HasSubstr("Iteration 1/6"));
  EXPECT_THAT(run("--solver=solver.prototxt --cpu=1").text, Not(HasSubstr("/6 (")));
}

TEST_F(Trainer, TestsWithNormalizationsFoldedOrNot) {
  std::ofstream(folder_ / "net.prototxt") << R"(
    layer { name: "data" type: "DummyData" top: "data" top: "label"
            dummy_data_param { shape { dim: 8 dim: 3 dim: 6 dim: 6 } shape { dim: 8 }
                               data_filler { type: "gaussian" std: 1 } data_filler { type: "constant" value: 1 } } }
    layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
            convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
    layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "conv" }
    layer { name: "scale" type: "Scale" bottom: "conv" top: "conv" scale_param { bias_term: true } }
    layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
    layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip"
            inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })";
  ASSERT_EQ(run("--cpu=1 --solver=solver.prototxt").code, 0);
  const std::string test =
      "test --cpu=1 --iterations=3 --model=net.prototxt --weights=small_iter_6.caffemodel ";
  const auto loss_of = [](const std::string& text) {
    return std::stod(text.substr(text.rfind("Loss: ") + 6));
  };
  const Outcome folded = run(test), plain = run(test + "--fold=off");
  ASSERT_EQ(folded.code, 0) << folded.text;
  ASSERT_EQ(plain.code, 0) << plain.text;
  EXPECT_THAT(folded.text, HasSubstr("Folded 2 layers into the 1 before them"));
  EXPECT_THAT(plain.text, Not(HasSubstr("Folded")));
  EXPECT_NEAR(loss_of(folded.text), loss_of(plain.text), 1e-5 * loss_of(plain.text));
  const Outcome wrong = run(test + "--fold=of");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.text, HasSubstr("--fold=of: expected on, off"));
}

TEST_F(Trainer, TimesAndShowsNetsWhoseDataAreMissing) {
  const auto net = [&](const std::string& transform) {
    std::ofstream(folder_ / "missing.prototxt")
        << "layer { name: 'd' type: 'Data' top: 'd' top: 'l' data_param { source: 'no_db' backend: LMDB "
           "batch_size: 4 } "
        << transform
        << " } layer { name: 'ip' type: 'InnerProduct' bottom: 'd' top: 'ip' inner_product_param { "
           "num_output: 2 } } "
           "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'l' top: 'loss' }";
  };
  net("transform_param { crop_size: 5 }");
  for (const std::string devices : {"--cpu=1", "--cpu=2"}) {
    const Outcome time = run("time " + devices + " --iterations=2 --model=missing.prototxt");
    EXPECT_EQ(time.code, 0) << time.text;
    EXPECT_THAT(time.text, AllOf(HasSubstr("\"no_db\" does not exist"), HasSubstr("4 3 5 5 (300)"),
                                 HasSubstr(devices == "--cpu=1" ? "(batch 4)" : "(batch 8)")));
  }
  for (const auto& [command, shape] :
       {std::pair{"summary", "4x3x5x5"}, std::pair{"draw", ">4\u00d73\u00d75\u00d75<"}}) {
    const Outcome shown = run(std::string(command) + " --model=missing.prototxt");
    EXPECT_EQ(shown.code, 0) << shown.text;
    EXPECT_THAT(shown.text, AllOf(HasSubstr("\"no_db\" does not exist"), HasSubstr(shape)));
  }
  EXPECT_THAT(run("time --cpu=1 --iterations=2 --model=missing.prototxt --shape=d:6,1,5,5").text,
              AllOf(HasSubstr("(batch 6)"), Not(HasSubstr("does not exist"))));
  net("");
  const Outcome refused = run("time --cpu=1 --iterations=2 --model=missing.prototxt");
  EXPECT_EQ(refused.code, 2) << refused.text;
  EXPECT_THAT(
      refused.text,
      HasSubstr(
          "\"no_db\" does not exist, and its settings give no shape; --shape=d:N,C,H,W runs without it"));
}

TEST_F(Trainer, TimesTestNetsForwardOnly) {
  const Outcome time = run("time --cpu=1 --phase=TEST --iterations=2 --model=net.prototxt");
  EXPECT_EQ(time.code, 0) << time.text;
  EXPECT_THAT(time.text, ContainsRegex("ip[ \t]+forward: "));
  EXPECT_THAT(time.text, HasSubstr("Average Forward pass: "));
  EXPECT_THAT(time.text, Not(ContainsRegex("[Bb]ackward")));
}

}  // namespace
}  // namespace banyan
