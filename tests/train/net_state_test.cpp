// `state` in a net's file, which commands without a solver follow, too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/train/commands.hpp"
#include "banyan/train/solver_nets.hpp"
#include "io/io_test_tools.hpp"

namespace banyan {
namespace {

using io::put_file;
using io::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class NetState : public testing::Test {
 protected:
  /// A source with a branch of its own for each rule, after `state`.
  void put_net(const std::string& state) {
    std::string text =
        state +
        " layer { name: 'd' type: 'DummyData' top: 'd' top: 'l' dummy_data_param { shape { dim: 2 dim: 3 } "
        "shape { dim: 2 dim: 2 } } include { stage: 'data' } }";
    const auto branch = [&](const std::string& name, const std::string& rule) {
      text += "layer { name: '" + name + "' type: 'InnerProduct' bottom: 'd' top: '" + name + "' include { " +
              rule + " } inner_product_param { num_output: 2 } }" + "layer { name: '" + name +
              "_loss' type: 'EuclideanLoss' bottom: '" + name + "' bottom: 'l' top: '" + name +
              "_loss' include { " + rule + " } }";
    };
    branch("a", "stage: 'a'");
    branch("b", "stage: 'b'");
    branch("high", "min_level: 2");
    branch("test", "phase: TEST");
    branch("train", "phase: TRAIN");
    put_file(net_, text);
  }
  ModelOptions options(Phase phase) const {
    ModelOptions options;
    options.model = net_;
    options.phase = phase;
    return options;
  }
  static std::vector<std::string> branches(const ModelOptions& options) {
    const Model model(options);
    std::vector<std::string> found;
    for (const auto& layer : model.net().layers())
      if (layer->type() == "InnerProduct") found.push_back(layer->name());
    return found;
  }
  TemporaryFolder folder_;
  std::string net_ = folder_.file("net.prototxt");
};

TEST_F(NetState, OfAFileChoosesItsLayers) {
  put_net("state { phase: TEST level: 2 stage: 'data' stage: 'a' }");
  EXPECT_THAT(branches(options(Phase::train)), ElementsAre("a", "high", "train"))
      << "the command knows the phase";
  EXPECT_THAT(branches(options(Phase::test)), ElementsAre("a", "high", "test"));
  ModelOptions more = options(Phase::train);
  more.stages = {"b"};
  more.level = 1;
  EXPECT_THAT(branches(more), ElementsAre("a", "b", "train"));
  more.level = 0;
  EXPECT_THAT(branches(more), ElementsAre("a", "b", "train"));
  more.level = 3;
  EXPECT_THAT(branches(more), ElementsAre("a", "b", "high", "train"));
  put_net("");
  more.stages = {"data", "b"};
  EXPECT_THAT(branches(more), ElementsAre("b", "high", "train"));
}

TEST_F(NetState, IsSeenByCheckSummaryAndDraw) {
  put_net("state { level: 2 stage: 'data' stage: 'b' }");
  CheckOptions check;
  check.files = {net_};
  const CheckReport report = check_files(check);
  EXPECT_EQ(report.problems, 0) << report.text;
  EXPECT_THAT(report.text, HasSubstr(": a net of 7 layers to train, 7 to test; nothing wrong\n"));
  check.stages = {"a"};
  EXPECT_THAT(check_files(check).text, HasSubstr(": a net of 9 layers to train, 9 to test"));
  for (const std::string& text : {summarize_model(options(Phase::train), SummaryFormat::table),
                                  draw_model(options(Phase::train), {}, true)}) {
    EXPECT_THAT(text, HasSubstr("high_loss"));
    EXPECT_THAT(text, HasSubstr("b_loss"));
    EXPECT_THAT(text, Not(HasSubstr("a_loss")));
  }
}

/// Without its own stages the net would be tried with each that its rules name.
TEST_F(NetState, ThatLeavesABlobOutIsAProblem) {
  put_net("state { stage: 'a' }");
  CheckOptions check;
  check.files = {net_};
  const CheckReport report = check_files(check);
  EXPECT_THAT(report.text,
              HasSubstr("\"d\", which no layer of the net produces; a layer with stage \"data\""));
  EXPECT_THAT(report.text, Not(HasSubstr("stages choose its layers")));
}

TEST_F(NetState, IsSeenByTimeOnEachNumberOfDevices) {
  put_net("state { phase: TEST level: 2 stage: 'data' stage: 'a' }");
  for (const int devices : {1, 2}) {
    TimeOptions time;
    time.model = options(Phase::train);
    time.model.stages = {"b"};
    time.model.iterations = 1;
    time.json = true;
    for (int i = 0; i < devices; ++i) time.devices.push_back({DeviceKind::cpu, i});
    const std::string json = time_model(time);
    for (const char* name : {"\"a\"", "\"b\"", "\"high\"", "\"train\""})
      EXPECT_THAT(json, HasSubstr(name)) << devices;
    EXPECT_THAT(json, Not(HasSubstr("\"test\""))) << devices;
  }
}

}  // namespace
}  // namespace banyan
