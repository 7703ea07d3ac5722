#include "banyan/train/kernel_differences.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/layers/layer.hpp"
#include "banyan/train/snapshot_files.hpp"
#include "train/training_run.hpp"

namespace banyan {
namespace {

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

/// Computes nothing, and reports that device r uses the r-th of these kernels.
std::vector<std::string> told;
class ChoosingLayer : public Layer {
 public:
  ChoosingLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options, {.arity = {1, 1, 0, 0}, .differentiable_inputs = 0}) {}
  void reshape(const Blobs&, const Blobs&) override {}
  void forward(Pass&, const Blobs&, const Blobs&) override {}
  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}
  ops::KernelChoices kernel_choices() const override { return {{"forward", told.at(options().rank)}}; }
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

TEST(KernelDifference, ChoicesAreSaved) {
  caffe::BanyanState state;
  save_kernels(kMine, state);
  EXPECT_EQ(saved_kernels(state), kMine);
}

}  // namespace
}  // namespace banyan
