#include "banyan/net/graph.hpp"

#include "banyan/net/connections.hpp"
#include "banyan/net/filter.hpp"
#include "net/graph_test_tools.hpp"
#include "net/net_test_tools.hpp"

namespace banyan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const std::string& text) {
  const caffe::NetParameter net = net_of(text);
  return message_of([&] { check_connections(net, net); });
}

/// Of the net that the file describes in TRAIN.
std::string refusal_in_training(const std::string& text) {
  const caffe::NetParameter whole = net_of(text);
  caffe::NetState state;
  state.set_phase(caffe::TRAIN);
  return message_of([&] { check_connections(filter_net(whole, state), whole); });
}

TEST(CheckConnections, AcceptsInPlaceLayers) {
  const caffe::NetParameter net = net_of(
      "layer { name: 'd' top: 'x' } layer { name: 'r' bottom: 'x' top: 'x' } layer { name: 's' "
      "bottom: 'x' top: 'x' }");
  check_connections(net, net);
}

TEST(CheckConnections, NamesTheNearestBlob) {
  const auto message =
      refusal("layer { name: 'd' top: 'data' } layer { name: 'c' type: 'ReLU' bottom: 'dato' }");
  EXPECT_THAT(message,
              HasSubstr("layer \"c\" (ReLU) reads blob \"dato\", which no layer of the net produces"));
  EXPECT_THAT(message, HasSubstr("did you mean \"data\"?"));
}

TEST(CheckConnections, TellsWrongOrderFromACycle) {
  EXPECT_THAT(
      refusal("layer { name: 'late' type: 'ReLU' bottom: 'x' top: 'y' } layer { name: 'd' type: 'Input' top: "
              "'x' }"),
      HasSubstr(
          "layer \"late\" (ReLU) reads blob \"x\" before layer \"d\" (Input) further down produces it"));
  const auto cycle = refusal(
      "layer { name: 'd' top: 'i' } layer { name: 'a' bottom: 'i' bottom: 'z' top: 'x' }"
      "layer { name: 'b' bottom: 'x' top: 'y' } layer { name: 'c' bottom: 'y' top: 'z' }");
  EXPECT_THAT(cycle, HasSubstr("the net has a cycle: layer \"a\""));
  EXPECT_THAT(cycle, HasSubstr("\"a\" <- \"c\" <- \"b\" <- \"a\""));
  EXPECT_THAT(refusal("layer { name: 'self' bottom: 'x' top: 'y' top: 'x' }"),
              HasSubstr("\"self\" <- \"self\""));
}

TEST(CheckConnections, AnInPlaceLayerMakesNoBlob) {
  const auto message = refusal(
      "layer { name: 'd' top: 'data' } layer { name: 'r' type: 'ReLU' bottom: 'dato' top: 'dato' }"
      "layer { name: 's' type: 'Dropout' bottom: 'dato' top: 'dato' }");
  EXPECT_EQ(message,
            "layer \"r\" (ReLU) reads blob \"dato\", which no layer of the net produces (did you mean "
            "\"data\"?)");
  EXPECT_THAT(refusal("layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'x' }"
                      "layer { name: 'd' type: 'Input' top: 'x' }"),
              HasSubstr("before layer \"d\" (Input) further down produces it"));
}

TEST(CheckConnections, NamesWhatTheRulesOfLayersLeaveOut) {
  const auto reader = [](const std::string& makers) {
    return refusal_in_training(makers + " layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'x' }");
  };
  EXPECT_EQ(reader("layer { name: 'd' type: 'Input' top: 'x' include { phase: TEST } }"),
            "layer \"r\" (ReLU) reads blob \"x\", which no layer of the net produces; in phase TEST layer "
            "\"d\" (Input) does");
  EXPECT_THAT(reader("layer { name: 'd' type: 'Input' top: 'x' exclude { phase: TRAIN } }"),
              HasSubstr("; in phase TEST layer \"d\" (Input) does"));
  EXPECT_THAT(reader("layer { name: 'd' type: 'Input' top: 'x' include { min_level: 3 } }"),
              HasSubstr("; the rules of layer \"d\" (Input), which does, leave it out"));
  EXPECT_THAT(reader("layer { name: 'd' top: 'x' include { stage: 'train' } }"),
              HasSubstr("; a layer with stage \"train\" makes it: --stage=train"));
  EXPECT_THAT(reader("layer { name: 'd' top: 'x' include { stage: 'train' stage: 'gpu' } }"
                     "layer { name: 'e' top: 'x' include { stage: 'val' } }"
                     "layer { name: 'f' top: 'x' include { stage: 'last' phase: TEST } }"),
              HasSubstr("; layers with stage \"train\" and \"gpu\" or \"val\" make it: --stage=train,gpu or "
                        "--stage=val"));
}

TEST(CheckConnections, NothingFollowsFromALayerWithoutAType) {
  const caffe::NetParameter net = net_of(
      "layer { name: 'a' bottom: 'none' top: 'x' } layer { name: 'b' top: 'x' top: 'x' }"
      "layer { name: 'c' type: 'Input' top: 'x' } layer { name: 'd' type: 'ReLU' bottom: 'x' top: 'x' }");
  EXPECT_TRUE(find_connection_problems(net, net, true).empty());
  const std::vector<std::string> problems = find_connection_problems(net, net);
  EXPECT_EQ(problems.size(), 4U);
  for (const std::string& problem : problems) EXPECT_THAT(problem, testing::Not(HasSubstr("()")));
}

TEST(CheckConnections, RefusesDoubledTops) {
  EXPECT_THAT(refusal("layer { name: 'a' type: 'T' top: 'x' } layer { name: 'b' type: 'U' top: 'x' }"),
              HasSubstr("blob \"x\" is produced twice: by layer \"a\" (T) and by layer \"b\" (U)"));
  EXPECT_THAT(refusal("layer { name: 'a' top: 'x' top: 'x' }"), HasSubstr("produces blob \"x\" twice"));
  EXPECT_THAT(
      refusal("layer { name: 'a' top: 'x' top: 'y' } layer { name: 'b' bottom: 'x' bottom: 'y' top: 'y' }"),
      HasSubstr("works in place on blob \"y\", which then must stand at the same place"));
}

TEST(CheckConnections, CountsLossWeightsAndPropagateDown) {
  EXPECT_THAT(refusal("layer { name: 'a' top: 'x' top: 'y' loss_weight: 1 }"),
              HasSubstr("has 1 loss_weight entries for 2 tops"));
  EXPECT_THAT(refusal("layer { name: 'a' top: 'x' } layer { name: 'b' bottom: 'x' propagate_down: true "
                      "propagate_down: true }"),
              HasSubstr("has 2 propagate_down entries for 1 bottoms"));
}

TEST(CheckArity, SaysWhatTheLayerTakes) {
  caffe::LayerParameter layer;
  layer.set_name("e");
  layer.set_type("Eltwise");
  layer.add_bottom("x");
  layer.add_top("y");
  check_arity(layer, {1, 1, 1, 1, true}, 1);
  EXPECT_THAT(message_of([&] {
                check_arity(layer, {2, -1, 1, 1}, 1);
              }),
              HasSubstr("layer \"e\" (Eltwise) takes at least 2 bottoms, found 1"));
  EXPECT_THAT(message_of([&] {
                check_arity(layer, {1, 1, 2, 3}, 1);
              }),
              HasSubstr("takes 2 to 3 tops, found 1"));
  EXPECT_THAT(message_of([&] {
                check_arity(layer, {0, 0, 1, 1}, 1);
              }),
              HasSubstr("takes no bottoms, found 1"));
  layer.add_bottom("z");
  EXPECT_THAT(message_of([&] { check_arity(layer, {1, 1, 1, 1}, 1); }), HasSubstr("takes 1 bottom, found 2"));
  EXPECT_THAT(message_of([&] {
                check_arity(layer, {1, -1, 1, -1, true}, 1);
              }),
              HasSubstr("takes as many tops as bottoms, found 2 bottoms and 1 tops"));
  caffe::LayerParameter transpose;
  transpose.set_type("Transpose");
  const auto complaint = [&] { return message_of([&] { check_arity(transpose, {1, 1, 1, 1}, 0); }); };
  EXPECT_THAT(complaint(), testing::EndsWith("takes 1 bottom, found 0"));
  transpose.add_param()->set_name("shared");
  EXPECT_THAT(complaint(), HasSubstr("found 0; that of a branch for extreme learning machines"));
}

GraphLayer node(std::vector<int> inputs, std::vector<int> outputs, bool learns, bool weighted = false) {
  GraphLayer layer = graph_layer(std::move(inputs), std::move(outputs));
  layer.loss_weights.assign(layer.outputs.size(), weighted ? 1 : 0);
  layer.learns = learns;
  return layer;
}

std::string shown(const std::vector<GraphLayer>& layers, bool force_backward = false, bool trains = true) {
  Graph graph = graph_of(layers);
  graph.trains = trains;
  mark_backward(graph, force_backward);
  std::string text;
  for (const GraphLayer& layer : graph.layers) {
    text += layer.needs_backward ? "B" : "-";
    for (const bool propagate : layer.propagate) text += propagate ? "1" : "0";
    text += " ";
  }
  return text;
}

TEST(MarkBackward, StopsAtDataAndFrozenLayers) {
  // data -> frozen -> learned -> relu -> loss(., label)
  std::vector<GraphLayer> net{node({}, {0, 1}, false), node({0}, {2}, false), node({2}, {3}, true),
                              node({3}, {4}, false), node({4, 1}, {5}, false, true)};
  net[4].traits.differentiable_inputs = 1;
  EXPECT_EQ(shown(net), "- -0 B0 B1 B10 ");
  EXPECT_EQ(shown(net, true), "- B1 B1 B1 B10 ");
  EXPECT_EQ(shown(net, false, false), "- -0 -0 -0 -00 ");
}

TEST(MarkBackward, SkipsWhatDoesNotReachALoss) {
  // data -> conv -> split -> (loss | accuracy branch with a learned layer)
  EXPECT_EQ(shown({node({}, {0}, false), node({0}, {1}, true), node({1}, {2, 3}, false),
                   node({2}, {4}, false, true), node({3}, {5}, true), node({5}, {6}, false)}),
            "- B0 B1 B1 -0 -0 ");
}

/// As the probabilities of a softmax loss: what reads them learns nothing about the scores.
TEST(MarkBackward, EndsAtOutputsWithoutAGradient) {
  // data -> learned -> loss (loss, probabilities) -> learned -> loss of the probabilities
  const auto net = [](bool first_is_loss) {
    std::vector<GraphLayer> layers{node({}, {0}, false), node({0}, {1}, true), node({1}, {2, 3}, false),
                                   node({3}, {4}, true), node({4}, {5}, false, true)};
    layers[2].traits.differentiable_outputs = 1;
    layers[2].loss_weights[0] = first_is_loss ? 1 : 0;
    return layers;
  };
  EXPECT_EQ(shown(net(true)), "- B0 B1 B0 B1 ");
  EXPECT_EQ(shown(net(false)), "- -0 -0 B0 B1 ");
  EXPECT_EQ(shown(net(false), true), "- -0 -0 B0 B1 ");
  std::vector<GraphLayer> asked = net(false);
  asked[3].propagate_down = {1};
  EXPECT_EQ(shown(asked), "- -0 -0 B0 B1 ");
}

TEST(MarkBackward, ObeysPropagateDown) {
  std::vector<GraphLayer> net{node({}, {0}, false), node({0}, {1}, true), node({1}, {2}, true),
                              node({2}, {3}, false, true)};
  EXPECT_EQ(shown(net), "- B0 B1 B1 ");
  net[2].propagate_down = {0};  // the first learned layer is cut off
  EXPECT_EQ(shown(net), "- -0 B0 B1 ");
  net[2].propagate_down = {};
  net[1].propagate_down = {1};  // the data's gradient is wanted
  EXPECT_EQ(shown(net), "- B1 B1 B1 ");
}

TEST(MarkBackward, FollowsInPlaceChains) {
  // conv -> x, relu in place on x, loss
  EXPECT_EQ(
      shown({node({}, {0}, false), node({0}, {1}, true), node({1}, {1}, false), node({1}, {2}, false, true)}),
      "- B0 B1 B1 ");
}

/// A layer that works in place makes another blob with the same name.
TEST(Graph, WritesEachBlobOnce) {
  const caffe::NetParameter net = net_of(
      "layer { name: 'in' top: 'x' top: 'unused' } layer { name: 'a' bottom: 'x' top: 'x' } "
      "layer { name: 'b' bottom: 'x' top: 'y' loss_weight: 3 } layer { name: 'c' bottom: 'y' }");
  Graph graph;
  for (const caffe::LayerParameter& layer : net.layer()) {
    LayerTraits traits;
    traits.arity = {0, 1, 0, 2};
    if (layer.name() == "c") traits = {.arity = {1, 1, 1, 1}, .loss = true};
    add_layer(graph, layer, traits);
  }
  ASSERT_EQ(graph.blobs.size(), 5u);
  EXPECT_EQ(graph.blobs[0].name, "x");
  EXPECT_EQ(graph.blobs[2].name, "x");
  EXPECT_THAT(graph.blobs[0].readers, ElementsAre(1));
  EXPECT_THAT(graph.blobs[2].readers, ElementsAre(2));
  EXPECT_EQ(graph.by_name.at("x"), 2);
  EXPECT_EQ(&graph.producer_of(2), &graph.layers[1]);
  EXPECT_EQ(graph.loss_weight(3), 3);
  EXPECT_EQ(graph.loss_weight(4), 1);            // the loss got an output that it does not name
  EXPECT_THAT(graph.outputs(), ElementsAre(1));  // which is not an output of the net
}

TEST(LayersBehind, AreAllThatReadWhatALayerMakes) {
  const Graph graph = graph_of({graph_layer({}, {0, 1}), graph_layer({0}, {2}), graph_layer({1}, {3}),
                                graph_layer({2}, {2}), graph_layer({3, 2}, {4}), graph_layer({3}, {5})});
  EXPECT_THAT(layers_after(graph, 0), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(layers_after(graph, 1), ElementsAre(3, 4));
  EXPECT_THAT(layers_after(graph, 2), ElementsAre(4, 5));
  EXPECT_THAT(layers_after(graph, 5), ElementsAre());
}

}  // namespace
}  // namespace banyan
