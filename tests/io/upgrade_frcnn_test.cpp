// Nets of makefile/frcnn, DeconvNet and Deformable R-FCN: settings from a JSON file, types and messages.
#include <fstream>

#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"
#include "io_test_tools.hpp"

namespace banyan::io {
namespace {

caffe::NetParameter upgraded_frcnn(const std::string& text) {
  caffe::NetParameter net = parse_net_text(text, "test");
  upgrade_net(net, "test");
  return net;
}

std::string frcnn_net(const std::string& config, const std::string& more = "") {
  return "layer { name: 'd' type: 'FrcnnRoiData' top: 'data' top: 'im_info' top: 'gt_boxes' "
         "window_data_param { source: "
         "'x' " +
         (config.empty() ? "" : "config: '" + config + "' ") +
         "} }\n"
         "layer { name: 'a' type: 'FrcnnAnchorTarget' }\n"
         "layer { name: 'p' type: 'FrcnnProposal' " +
         more +
         " }\n"
         "layer { name: 't' type: 'FrcnnProposalTarget' }";
}

TEST(UpgradeFrcnn, SettingsAreThoseOfTheFile) {
  const TemporaryFolder folder;
  std::ofstream(folder.file("c.json"))
      << "{\n \"scales\": \"480, 600\", // two\n \"max_size\": \"900\",\n //\"batch_size\": \"64\",\n"
         " \"batch_size\": \"512\", \"fg_fraction\": \"0.33\", \"test_soft_nms\": 1, //linear\n"
         " \"snapshot_infix\": \"\", \"im_size_align\": 64, \"use_flipped\": \"0\", \"n_classes\": \"6\",\n"
         " \"pixel_means\": \"1.5, 2.5,\n 3.5\", \"bbox_normalize_targets\": \"0\",\n"
         " \"anchors\": \"-15, -16, 15, 16,\n   -48, -55, 48, 55\", \"rpn_min_size\": \"5\", "
         "\"test_rpn_min_size\": \"7\",\n"
         " \"rpn_nms_thresh\": \"0.5\", \"eps\": \"0.00000000000001\"\n}\n";
  const caffe::NetParameter net = upgraded_frcnn(frcnn_net(folder.file("c.json")));
  EXPECT_EQ(net.layer(0).type(), "FrcnnRoiData");
  EXPECT_FALSE(net.layer(0).window_data_param().has_config());
  EXPECT_EQ(net.layer(0).roi_data_param().ShortDebugString(),
            "scale: 480 scale: 600 max_size: 900 align: 64");
  EXPECT_EQ(net.layer(0).transform_param().ShortDebugString(),
            "mirror: false mean_value: 1.5 mean_value: 2.5 mean_value: 3.5");
  const auto& anchors = net.layer(1).anchor_target_param();
  EXPECT_EQ(net.layer(1).type(), "AnchorTarget");
  EXPECT_EQ(anchors.anchor_size(), 8);
  EXPECT_EQ(anchors.anchor(5), -55);
  EXPECT_EQ(anchors.batch_size(), 256u);
  const auto& proposal = net.layer(2).proposal_param();
  EXPECT_EQ(net.layer(2).type(), "Proposal");
  EXPECT_EQ(proposal.anchor_size(), 8);
  EXPECT_EQ(proposal.min_size(), 5u);
  EXPECT_EQ(proposal.nms_thresh(), 0.5f);
  EXPECT_EQ(proposal.post_nms_topn(), 2000u);
  const auto& target = net.layer(3).proposal_target_param();
  EXPECT_EQ(net.layer(3).type(), "ProposalTarget");
  EXPECT_EQ(target.num_classes(), 6u);
  EXPECT_EQ(target.batch_size(), 512);
  EXPECT_EQ(target.fg_fraction(), 0.33f);
  EXPECT_TRUE(target.has_agnostic() && !target.agnostic());
  EXPECT_EQ(target.bbox_std_size(), 1);
  EXPECT_EQ(target.bbox_std(0), 1);
  // What is upgraded stays as it is.
  EXPECT_FALSE(needs_frcnn_upgrade(net));
}

/// There 0 means that images keep their size.
TEST(UpgradeFrcnn, AlignmentMayBeSwitchedOff) {
  const TemporaryFolder folder;
  std::ofstream(folder.file("c.json")) << "{\"im_size_align\": \"0\"}";
  EXPECT_EQ(upgraded_frcnn(frcnn_net(folder.file("c.json"))).layer(0).roi_data_param().align(), 1u);
}

TEST(UpgradeFrcnn, ImagesHaveTheDefaultsToo) {
  const caffe::NetParameter net = upgraded_frcnn(frcnn_net(""));
  EXPECT_EQ(net.layer(0).roi_data_param().ShortDebugString(), "scale: 600 max_size: 1000 align: 1");
  EXPECT_EQ(net.layer(0).transform_param().mean_value_size(), 3);
}

TEST(UpgradeFrcnn, RefusesASecondFile) {
  caffe::NetParameter net = parse_net_text(
      "layer { name: 'd' type: 'FrcnnRoiData' window_data_param { config: 'a.json' } }\n"
      "layer { name: 'e' type: 'FrcnnRoiData' window_data_param { config: 'b.json' } }",
      "test");
  expect_contains(error_of([&] { upgrade_net(net, "test"); }),
                  "FrcnnRoiData layers name two files, window_data_param.config \"a.json\" and \"b.json\"");
}

TEST(UpgradeFrcnn, LayersKeepTheirOwnSettings) {
  const caffe::NetParameter net = upgraded_frcnn(
      frcnn_net("no such file", "proposal_param { ratio: 1 scale: [2, 4] min_size: 3 post_nms_topn: 20 }"));
  EXPECT_EQ(net.layer(2).proposal_param().ShortDebugString(),
            "feat_stride: 16 min_size: 3 ratio: 1 scale: 2 scale: 4 pre_nms_topn: 12000 post_nms_topn: 20 "
            "nms_thresh: 0.7");
  EXPECT_EQ(net.layer(1).anchor_target_param().anchor_size(), 36);
  EXPECT_EQ(net.layer(3).proposal_target_param().num_classes(), 21u);
  EXPECT_EQ(net.layer(3).proposal_target_param().bbox_std_size(), 4);
}

/// Nets for tests have the numbers for tests.
TEST(UpgradeFrcnn, ProposalsDependOnThePhase) {
  const auto topn = [](const caffe::NetParameter& net, int i) {
    return net.layer(i).proposal_param().post_nms_topn();
  };
  EXPECT_EQ(topn(upgraded_frcnn("layer { name: 'p' type: 'FrcnnProposal' }"), 0), 300u);
  EXPECT_EQ(topn(upgraded_frcnn(frcnn_net("x")), 2), 2000u);
  EXPECT_EQ(topn(upgraded_frcnn(frcnn_net("x", "include { phase: TEST }")), 2), 300u);
  EXPECT_EQ(topn(upgraded_frcnn("state { phase: TRAIN } layer { name: 'p' type: 'FrcnnProposal' }"), 0),
            2000u);
}

TEST(UpgradeFrcnn, RefusesFilesThatAskForMore) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& json) {
    std::ofstream(folder.file("c.json")) << json;
    return error_of([&] { upgraded_frcnn(frcnn_net(folder.file("c.json"))); });
  };
  expect_contains(refusal("{\"data_jitter\": \"0.2\"}"),
                  "c.json: data_jitter (images are cut and get other colours by chance) is not supported");
  expect_contains(refusal("{\"use_haze_free\": 1}"), "use_haze_free (haze is removed) is not supported");
  expect_contains(refusal("{\"anchors\": \"1, 2, 3\"}"), "anchors has 3 numbers; expected four of each");
  expect_contains(refusal("{\"n_classes\": \"2.5\"}"), "n_classes must be a whole number, not 2.5");
  expect_contains(refusal("{\n\"scales\": \"600, many\"}"),
                  "c.json:2: expected numbers as scales, not \"600, many\", before this");
  expect_contains(refusal("{\"scales\" \"600\"}"), "c.json:1: expected a colon after \"scales\"");
  expect_contains(refusal("{\"scales\": \"600\""), "expected a comma or }");
  expect_contains(refusal("scales"), "expected {");
  expect_contains(refusal("{\"scales\": \"600"), "expected a text in quotes");
  expect_contains(refusal("{\"scales\": \"\"}"), "expected numbers as scales");
}

TEST(UpgradeFrcnn, DeconvNetsTypesBecomeOurs) {
  const caffe::NetParameter net = upgraded_frcnn(
      "layers { name: 'd' type: WINDOW_SEG_DATA top: 'data' top: 'label' image_data_param { source: 'x' "
      "label_type: PIXEL } "
      "}\n"
      "layers { name: 'a' type: ELTWISE_ACCURACY bottom: 'data' bottom: 'label' top: 'a' "
      "eltwise_accuracy_param { "
      "ignore_label: 255 top_k: 2 } }\n"
      "layers { name: 'b' type: ELTWISE_ACCURACY bottom: 'data' bottom: 'label' top: 'b' }");
  EXPECT_EQ(net.layer(0).type(), "WindowSegData");
  EXPECT_EQ(net.layer(1).type(), "Accuracy");
  EXPECT_EQ(net.layer(1).accuracy_param().ShortDebugString(), "top_k: 2 ignore_label: 255");
  EXPECT_FALSE(net.layer(1).has_eltwise_accuracy_param());
  EXPECT_EQ(net.layer(2).type(), "Accuracy");
}

TEST(UpgradeFrcnn, DeformableConvolutionHasTheMessageOfConvolutions) {
  const caffe::NetParameter net = upgraded_frcnn(
      "layer { name: 'c' type: 'DeformableConvolution' deformable_convolution_param { num_output: 4 "
      "kernel_size: 3 deformable_group: 2 } }");
  EXPECT_EQ(net.layer(0).convolution_param().ShortDebugString(),
            "num_output: 4 kernel_size: 3 deformable_group: 2");
  expect_contains(
      error_of([&] {
        upgraded_frcnn(
            "layer { name: 'c' type: 'DeformableConvolution' deformable_convolution_param { } "
            "convolution_param { } }");
      }),
      "deformable_convolution_param is a branch's name of convolution_param; give one of the two");
}

}  // namespace
}  // namespace banyan::io
