#include "banyan/net/splits.hpp"

#include "net/net_test_tools.hpp"

namespace banyan {
namespace {

using testing::ElementsAre;

std::vector<std::string> lines(const caffe::NetParameter& net) {
  std::vector<std::string> result;
  for (const caffe::LayerParameter& layer : net.layer()) {
    std::string line = layer.name() + ":";
    for (const std::string& bottom : layer.bottom()) line += " " + bottom;
    line += " ->";
    for (const std::string& top : layer.top()) line += " " + top;
    for (const float weight : layer.loss_weight()) line += " " + std::to_string(weight).substr(0, 3);
    result.push_back(line);
  }
  return result;
}

TEST(InsertSplits, LeavesChainsAlone) {
  const auto net = net_of("layer { name: 'd' top: 'x' } layer { name: 'e' bottom: 'x' top: 'y' }");
  EXPECT_EQ(insert_splits(net).SerializeAsString(), net.SerializeAsString());
}

TEST(InsertSplits, NamesAfterBlobProducerAndTop) {
  const auto net = net_of(
      "layer { name: 'd' top: 'data' top: 'label' }"
      "layer { name: 'p' bottom: 'data' top: 'a' }"
      "layer { name: 'q' bottom: 'label' bottom: 'a' }"
      "layer { name: 'r' bottom: 'label' bottom: 'label' }");
  EXPECT_THAT(
      lines(insert_splits(net)),
      ElementsAre("d: -> data label",
                  "label_d_1_split: label -> label_d_1_split_0 label_d_1_split_1 label_d_1_split_2",
                  "p: data -> a", "q: label_d_1_split_0 a ->", "r: label_d_1_split_1 label_d_1_split_2 ->"));
}

TEST(InsertSplits, TakesTheLastWriterOfAnInPlaceChain) {
  const auto net = net_of(
      "layer { name: 'conv1' top: 'c' } layer { name: 'relu1' bottom: 'c' top: 'c' }"
      "layer { name: 'u' bottom: 'c' top: 'u' } layer { name: 'v' bottom: 'c' top: 'v' }");
  EXPECT_THAT(
      lines(insert_splits(net)),
      ElementsAre("conv1: -> c", "relu1: c -> c", "c_relu1_0_split: c -> c_relu1_0_split_0 c_relu1_0_split_1",
                  "u: c_relu1_0_split_0 -> u", "v: c_relu1_0_split_1 -> v"));
}

TEST(InsertSplits, MovesALossWeightToTheFirstTop) {
  const auto net = net_of(
      "layer { name: 'd' top: 'x' top: 'y' loss_weight: 0.5 loss_weight: 2 }"
      "layer { name: 'e' bottom: 'x' top: 'z' }");
  EXPECT_THAT(lines(insert_splits(net)),
              ElementsAre("d: -> x y 0.0 2.0", "x_d_0_split: x -> x_d_0_split_0 x_d_0_split_1 0.5 0.0",
                          "e: x_d_0_split_1 -> z"));
}

TEST(InsertSplits, ChangesNothingTheSecondTime) {
  const auto once = insert_splits(
      net_of("layer { name: 'd' top: 'x' } layer { name: 'e' bottom: 'x' } layer { name: 'f' bottom: 'x' }"));
  EXPECT_EQ(insert_splits(once).SerializeAsString(), once.SerializeAsString());
}

}  // namespace
}  // namespace banyan
