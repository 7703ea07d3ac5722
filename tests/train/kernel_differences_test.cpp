#include "banyan/train/kernel_differences.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "banyan/layers/layer.hpp"
#include "banyan/train/snapshot_files.hpp"
#include "train/joined_run.hpp"
#include "train/promise_cases.hpp"
#include "train/training_run.hpp"

namespace banyan {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const KernelChoices kMine = {{"layer \"a\" forward", "algorithm 1"}, {"layer \"b\" forward", "algorithm 0"}};

TEST(KernelDifference, ComparesTheSameWork) {
  EXPECT_EQ(kernel_difference("gpu:0", kMine, "gpu:1", kMine), std::nullopt);
  EXPECT_EQ(kernel_difference("gpu:0", kMine, "gpu:1", {}), std::nullopt);
  EXPECT_EQ(kernel_difference("gpu:0", kMine, "gpu:1", {{"layer \"c\" forward", "algorithm 2"}}),
            std::nullopt);
}

TEST(KernelDifference, NamesTheFirstAndCountsTheRest) {
  KernelChoices other = kMine;
  other["layer \"b\" forward"] = "a matrix product";
  EXPECT_EQ(
      kernel_difference("gpu:0", kMine, "gpu:1", other),
      "gpu:0 computes layer \"b\" forward by algorithm 0, gpu:1 by a matrix product: the two agree but for "
      "rounding, not bit for bit");
  other["layer \"a\" forward"] = "algorithm 2";
  EXPECT_THAT(*kernel_difference("this run", kMine, "the run that is resumed", other),
              HasSubstr("layer \"a\" forward by algorithm 1, the run that is resumed by algorithm 2 "
                        "(and 1 more): "));
}

TEST(KernelComparison, ComparesAllDevicesOfAModel) {
  const KernelChoices smaller_batch = {{"c", "2"}}, other = {{"c", "3"}};
  KernelComparison comparison;
  EXPECT_EQ(comparison.add({"one", "model", kMine}), std::nullopt);
  EXPECT_EQ(comparison.add({"two", "model", kMine}), std::nullopt);
  EXPECT_EQ(comparison.add({"three", "model", smaller_batch}), std::nullopt);
  EXPECT_EQ(comparison.kept().size(), 2U) << "two chose as one did";
  try {
    comparison.add({"four", "model", other});
    ADD_FAILURE() << "devices that differ were accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("three computes c by 2, four by 3"));
  }
}

TEST(KernelComparison, TellsOfOtherModels) {
  KernelComparison comparison;
  EXPECT_EQ(comparison.add({"one", "model", {{"a", "1"}}}), std::nullopt);
  EXPECT_THAT(comparison.add({"two", "other model", {{"a", "2"}}}).value_or(""),
              HasSubstr("one computes a by 1, two by 2"));
  EXPECT_EQ(comparison.add({"three", "third model", {{"a", "1"}}}), std::nullopt);
  EXPECT_THROW(comparison.add({"four", "other model", {{"a", "1"}}}), Error);
}

TEST(KernelComparison, TravelsToOtherProcesses) {
  const std::vector<DeviceKernels> sent = {
      {"gpu:0 of process 0", "model 3", {{"1:\n7 layer", ""}, {"", "x"}}}, {"gpu:1 of process 0", "", {}}};
  const std::string packed = pack_kernels(sent);
  const std::vector<DeviceKernels> arrived = unpack_kernels(packed);
  ASSERT_EQ(arrived.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(arrived[i].device, sent[i].device);
    EXPECT_EQ(arrived[i].model, sent[i].model);
    EXPECT_EQ(arrived[i].kernels, sent[i].kernels);
  }
  EXPECT_THAT(unpack_kernels(""), IsEmpty());
  EXPECT_THROW(unpack_kernels(packed.substr(0, packed.size() - 3)), Error);
  EXPECT_THROW(unpack_kernels("99999999999:gpu"), Error);
}

/// Computes nothing, and reports that device r uses the r-th of these kernels, and from its third batch on
/// another one for work that it did not do before.
std::vector<std::string> told, told_later;
class ChoosingLayer : public Layer {
 public:
  ChoosingLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options, {.arity = {1, 1, 0, 0}, .differentiable_inputs = 0}) {}
  void reshape(const Blobs&, const Blobs&) override {}
  void forward(Pass&, const Blobs&, const Blobs&) override { ++batches_; }
  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}
  ops::KernelChoices kernel_choices() const override {
    ops::KernelChoices choices = {{"forward", told.at(options().rank)}};
    if (batches_ > 2 && !told_later.empty()) choices["rest"] = told_later.at(options().rank);
    return choices;
  }

 private:
  int batches_ = 0;
};
const RegisterLayer<ChoosingLayer> registered("Choosing", {"computes nothing", ""});

struct Warnings : google::LogSink {
  Warnings() {
    FLAGS_minloglevel = google::WARNING;
    google::AddLogSink(this);
  }
  ~Warnings() override { google::RemoveLogSink(this); }
  void send(google::LogSeverity, const char*, const char*, int, const google::LogMessageTime&,
            const char* text, std::size_t length) override {
    lines.emplace_back(text, length);
  }
  std::vector<std::string> lines;
};

using KernelTraining = TrainingRun;

TEST_F(KernelTraining, WarnsOfRunsThatDifferAndRefusesDevicesThatDo) {
  const auto warnings_of = [&](const std::vector<std::string>& kernels, const std::string& snapshot = "") {
    told = kernels;
    TrainOptions run =
        options(2, lmdb_source() + "layer { name: 'chooser' type: 'Choosing' bottom: 'label' }");
    run.snapshot = snapshot;
    const Warnings warnings;
    EXPECT_EQ(train(run), 0);
    return warnings.lines;
  };
  EXPECT_THAT(warnings_of({"x", "x"}), IsEmpty());
  const std::string state = snapshot_paths(path("snapshot"), 3).state;
  EXPECT_THAT(saved_kernels(read_snapshot(state).state.banyan()),
              ElementsAre(std::pair("layer \"chooser\" forward", "x")));
  EXPECT_THAT(warnings_of({"x", "x"}, state), IsEmpty());
  EXPECT_THAT(warnings_of({"y", "y"}, state),
              ElementsAre(HasSubstr(
                  "this run computes layer \"chooser\" forward by y, the run that is resumed by x")));
  try {
    warnings_of({"x", "y"});
    ADD_FAILURE() << "devices that differ were accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::runtime);
    EXPECT_THAT(error.what(), HasSubstr("cpu:0 computes layer \"chooser\" forward by x, cpu:1 by y"));
    EXPECT_THAT(error.what(), HasSubstr("devices of one model must compute alike"));
  }
}

/// Kernels of the shapes that come later.
TEST_F(KernelTraining, NothingIsSavedOfDevicesThatDifferLater) {
  told = {"x", "x"};
  told_later = {"a", "b"};
  const TrainOptions run =
      options(2, lmdb_source() + "layer { name: 'chooser' type: 'Choosing' bottom: 'label' }");
  try {
    train(run);
    ADD_FAILURE() << "devices that differ were accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cpu:0 computes layer \"chooser\" rest by a, cpu:1 by b"));
    EXPECT_THAT(error.what(), HasSubstr("iteration 3"));
  }
  EXPECT_THAT(files(), IsEmpty());
  told_later.clear();
}

/// Each process is alike in itself.
TEST(KernelsOfProcesses, AreCompared) {
  const TrainingCase what{
      std::string(kSolver) + "snapshot: 7",
      data_layer() + kBody + classifier() + "layer { name: 'chooser' type: 'Choosing' bottom: 'label' }"};
  const auto errors_of = [&](const std::vector<std::string>& kernels,
                             const std::vector<std::string>& kernels_later) {
    told = kernels;
    told_later = kernels_later;
    const TrainingFolder folder;
    const Joined joined = train_joined(what, {1, 2}, {}, folder);
    EXPECT_EQ(std::filesystem::exists(snapshot_paths(folder.path() + "/out", 7).state),
              joined.errors[0].empty());
    told_later.clear();
    return joined.errors;
  };
  const std::string alike = "devices of one model must compute alike";
  EXPECT_THAT(errors_of({"x", "x", "x"}, {"a", "a", "a"}), Each(""));
  EXPECT_THAT(errors_of({"x", "y", "y"}, {}),
              Each(AllOf(HasSubstr("cpu:0 of process 0 on host0 computes layer \"chooser\" forward by x, "
                                   "cpu:0 of process 1 on host1 by y"),
                         HasSubstr(alike), HasSubstr("iteration 0"))));
  EXPECT_THAT(errors_of({"x", "x", "x"}, {"a", "b", "b"}),
              Each(AllOf(HasSubstr("rest by a, cpu:0 of process 1 on host1 by b"), HasSubstr(alike),
                         HasSubstr("iteration 7"))));
  EXPECT_THAT(errors_of({"x", "y", "x"}, {}),
              Each(HasSubstr("cpu:0 of process 1 on host1 computes layer \"chooser\" forward by y, "
                             "cpu:1 of process 1 on host1 by x")));
}

TEST(KernelDifference, ChoicesAreSaved) {
  caffe::BanyanState state;
  save_kernels(kMine, state);
  EXPECT_EQ(saved_kernels(state), kMine);
}

}  // namespace
}  // namespace banyan
