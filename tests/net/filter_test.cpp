#include "banyan/net/filter.hpp"

#include "net/net_test_tools.hpp"

namespace banyan {
namespace {

caffe::NetState state_of(caffe::Phase phase, int level, const std::vector<std::string>& stages) {
  caffe::NetState state;
  state.set_phase(phase);
  state.set_level(level);
  for (const std::string& stage : stages) state.add_stage(stage);
  return state;
}

std::vector<std::string> kept(const std::string& text, const caffe::NetState& state) {
  const caffe::NetParameter net = filter_net(net_of(text), state);
  std::vector<std::string> names;
  for (const caffe::LayerParameter& layer : net.layer()) names.push_back(layer.name());
  return names;
}

using testing::ElementsAre;
using testing::HasSubstr;

TEST(FilterNet, KeepsLayersWithoutRules) {
  EXPECT_THAT(kept("layer { name: 'a' } layer { name: 'b' }", state_of(caffe::TEST, 0, {})),
              ElementsAre("a", "b"));
}

TEST(FilterNet, IncludesIfAnyRuleMatches) {
  const std::string text =
      "layer { name: 'a' include { phase: TRAIN } include { stage: 'deploy' } }"
      "layer { name: 'b' include { phase: TEST } }"
      "layer { name: 'c' include { } }";
  EXPECT_THAT(kept(text, state_of(caffe::TRAIN, 0, {})), ElementsAre("a", "c"));
  EXPECT_THAT(kept(text, state_of(caffe::TEST, 0, {})), ElementsAre("b", "c"));
  EXPECT_THAT(kept(text, state_of(caffe::TEST, 0, {"deploy"})), ElementsAre("a", "b", "c"));
}

TEST(FilterNet, ExcludesIfAnyRuleMatches) {
  const std::string text =
      "layer { name: 'a' exclude { phase: TRAIN } exclude { stage: 'x' } }"
      "layer { name: 'b' exclude { } }";
  EXPECT_THAT(kept(text, state_of(caffe::TEST, 0, {})), ElementsAre("a"));
  EXPECT_THAT(kept(text, state_of(caffe::TEST, 0, {"x"})), ElementsAre());
}

TEST(FilterNet, ComparesLevels) {
  const std::string text =
      "layer { name: 'low' include { max_level: 1 } }"
      "layer { name: 'mid' include { min_level: 1 max_level: 2 } }"
      "layer { name: 'high' include { min_level: 3 } }";
  EXPECT_THAT(kept(text, state_of(caffe::TRAIN, 0, {})), ElementsAre("low"));
  EXPECT_THAT(kept(text, state_of(caffe::TRAIN, 1, {})), ElementsAre("low", "mid"));
  EXPECT_THAT(kept(text, state_of(caffe::TRAIN, 3, {})), ElementsAre("high"));
}

TEST(FilterNet, NeedsAllStagesAndNoNotStage) {
  const std::string text = "layer { name: 'a' include { stage: 'x' stage: 'y' not_stage: 'z' } }";
  EXPECT_THAT(kept(text, state_of(caffe::TRAIN, 0, {"x"})), ElementsAre());
  EXPECT_THAT(kept(text, state_of(caffe::TRAIN, 0, {"y", "x"})), ElementsAre("a"));
  EXPECT_THAT(kept(text, state_of(caffe::TRAIN, 0, {"x", "y", "z"})), ElementsAre());
}

TEST(FilterNet, RefusesBothLists) {
  const auto message = message_of([] {
    kept("layer { name: 'odd' include { phase: TEST } exclude { phase: TRAIN } }",
         state_of(caffe::TEST, 0, {}));
  });
  EXPECT_THAT(message, HasSubstr("\"odd\" has both `include` and `exclude`"));
}

}  // namespace
}  // namespace banyan
