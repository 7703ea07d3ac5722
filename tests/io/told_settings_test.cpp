// What upgrades say of settings that cannot be kept.
#include <fstream>

#include "banyan/base/log.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"
#include "io_test_tools.hpp"

namespace banyan::io {
namespace {

std::string told_so_far;

/// The warnings while a net is upgraded.
std::string warnings_of(const std::string& text) {
  told_so_far.clear();
  set_log_sink([](Severity severity, const std::string& message, const std::source_location&) {
    if (severity == Severity::warning) told_so_far += message + "\n";
  });
  caffe::NetParameter net = parse_net_text(text, "test");
  upgrade_net(net, "test");
  set_log_sink(nullptr);
  return told_so_far;
}

TEST(ToldSettings, AThresholdOfProposalsHasNoEffectInTests) {
  const TemporaryFolder folder;
  const auto warnings = [&](const std::string& threshold, const std::string& rule) {
    std::ofstream(folder.file("c.json")) << "{\"test_rpn_score_thresh\": \"" + threshold + "\"}";
    return warnings_of(
        "layer { name: 'd' type: 'FrcnnRoiData' top: 'data' top: 'im_info' top: 'gt_boxes' window_data_param "
        "{ "
        "source: 'x' config: '" +
        folder.file("c.json") + "' } }\nlayer { name: 'p' type: 'FrcnnProposal' " + rule + " }");
  };
  expect_contains(warnings("0.25", "include { phase: TEST }"),
                  "test: layer \"p\" (FrcnnProposal) also keeps regions with a score below "
                  "test_rpn_score_thresh, 0.25, which has no effect");
  EXPECT_EQ(warnings("0.25", "").find("test_rpn_score_thresh"), std::string::npos) << "it trains";
  EXPECT_EQ(warnings("0", "include { phase: TEST }").find("test_rpn_score_thresh"), std::string::npos);
}

TEST(ToldSettings, ADenseBlocksGradientCannotBeCutOff) {
  expect_contains(
      error_of([] {
        caffe::NetParameter net = parse_net_text(
            "layer { name: 'B' type: 'DenseBlock' bottom: 'x' top: 'y' propagate_down: false "
            "denseblock_param { numTransition: 1 growthRate: 2 } }",
            "test");
        upgrade_net(net, "test");
      }),
      "test: layer \"B\" (DenseBlock): loss_weight and propagate_down are for layers that it stands "
      "for: write these out");
}

}  // namespace
}  // namespace banyan::io
