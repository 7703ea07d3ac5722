// ProposalTarget of MS-CNN and Cascade R-CNN.
#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"
#include "io_test_tools.hpp"

namespace banyan::io {
namespace {

TEST(UpgradeProposalTarget, WithClsNumItDrawsFromTheWholeBatch) {
  const std::string text =
      "layer { name: 'b' type: 'ProposalTarget' proposal_target_param { cls_num: 3 batch_size: 128 } }\n"
      "layer { name: 'i' type: 'ProposalTarget' proposal_target_param { num_classes: 3 batch_size: 128 } }";
  caffe::NetParameter net = parse_net_text(text, "test"), expected = net;
  expected.mutable_layer(0)->set_type("BatchProposalTarget");
  upgrade_net(net, "test");
  EXPECT_EQ(to_text(net), to_text(expected));
}

}  // namespace
}  // namespace banyan::io
