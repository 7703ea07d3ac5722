// Activations, dropouts and sums that run as part of their neighbours, and gradients that share memory: the
// decisions, and that nets are bit-identical with and without them.
#include "banyan/net/fusion.hpp"

#include <cmath>
#include <sstream>

#include "banyan/net/gradient_sharing.hpp"
#include "net/graph_test_tools.hpp"
#include "net/net_test_tools.hpp"
#include "relative_distance.hpp"

namespace banyan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

LayerTraits fusing(ActivationFusion activation, bool sum = false) {
  LayerTraits traits;
  traits.fuses_activation = activation;
  traits.fuses_sum = sum;
  traits.backward_reads_outputs = false;
  return traits;
}
GraphLayer layer(std::vector<int> inputs, std::vector<int> outputs,
                 ActivationFusion fuses = ActivationFusion::none) {
  return graph_layer(std::move(inputs), std::move(outputs), fusing(fuses));
}
GraphLayer relu(int from, int to, double slope = 0) {
  GraphLayer made = layer({from}, {to});
  made.traits.activation = ops::relu_activation(slope);
  made.traits.backward_reads_outputs = slope >= 0;
  made.traits.fuses_dropout = true;
  return made;
}
GraphLayer relu_on(int blob, double slope = 0) { return relu(blob, blob, slope); }
GraphLayer elu_on(int blob) {
  GraphLayer made = layer({blob}, {blob});
  made.traits.activation = ops::elu_activation({1, 1});
  made.traits.backward_reads_outputs = true;
  return made;
}
GraphLayer clip_on(int blob) {
  GraphLayer made = layer({blob}, {blob});
  made.traits.activation = ops::clip_activation(0, 6);
  made.traits.backward_reads_inputs = true;
  return made;
}
GraphLayer without_gradient(GraphLayer made) {
  made.needs_backward = false;
  return made;
}
GraphLayer reader_of(int blob, std::vector<int> outputs) {
  GraphLayer made = layer({blob}, std::move(outputs));
  made.traits.fuses_activation_of_input = InputActivation::by_input;
  return made;
}
GraphLayer dropout(int from, int to) {
  GraphLayer made = layer({from}, {to});
  made.traits.dropping = {0.5, 1, {}};
  made.traits.fuses_activation_of_input = InputActivation::relu_by_output;
  return made;
}
/// An inner product.
GraphLayer product(int from, int to) {
  GraphLayer made = layer({from}, {to}, ActivationFusion::forward);
  made.traits.fuses_dropout = true;
  return made;
}

/// Shows what is fused, layer by layer; the first makes blob 0. `converted`: a layer whose input comes in
/// another layout; `kept`: one that keeps the next layer's output.
std::string shown(const std::vector<GraphLayer>& layers, int converted = -1, int kept = -1) {
  std::vector<GraphLayer> all{layer({}, {0})};
  all.insert(all.end(), layers.begin(), layers.end());
  const Graph graph = graph_of(all);
  std::vector<bool> converts(all.size(), false);
  std::vector<int> kept_by(all.size(), -1);
  if (converted >= 0) converts[static_cast<std::size_t>(converted) + 1] = true;
  if (kept >= 0) kept_by[static_cast<std::size_t>(kept) + 1] = kept + 2;
  const std::vector<int> affines = find_affines(graph, converts);
  const std::vector<Fusion> found = find_fusions(with_affines(graph, affines), converts, affines, kept_by);
  std::string text;
  for (std::size_t i = 1; i < found.size(); ++i) {
    const Fusion& fusion = found[i];
    if (fusion.affine >= 0) text += cat(i - 1, " scales as ", fusion.affine - 1, " ");
    if (fusion.output.on()) text += cat("output of ", i - 1, " ");
    if (fusion.input.on()) text += cat("input of ", i - 1, " ");
    if (fusion.drop_layer >= 0) text += cat(i - 1, " drops as ", fusion.drop_layer - 1, " ");
    if (fusion.sum_layer >= 0)
      text += cat(i - 1, " sums ", fusion.sum_layer - 1, " with ", graph.blobs[fusion.addend].name, " ");
    if (fusion.sum.on()) text += cat("relu after the sum of ", i - 1, " ");
    if (fusion.forward_elsewhere) text += cat("no forward ", i - 1, " ");
    if (fusion.backward_elsewhere) text += cat("no backward ", i - 1, " ");
  }
  return text;
}

TEST(FindFusions, GivesThePassesToTheNeighboursThatTakeThem) {
  const auto both = layer({0}, {1}, ActivationFusion::both),
             forward = layer({0}, {1}, ActivationFusion::forward);
  const auto none = layer({0}, {1}), plain = layer({1}, {2}), split = reader_of(1, {2, 3});
  EXPECT_EQ(shown({both, relu_on(1), split}), "output of 0 no forward 1 no backward 1 ");
  EXPECT_EQ(shown({forward, relu_on(1), split}), "output of 0 no forward 1 no backward 1 input of 2 ");
  EXPECT_EQ(shown({forward, relu_on(1), plain}), "output of 0 no forward 1 ");
  EXPECT_EQ(shown({none, relu_on(1), split}), "no backward 1 input of 2 ");
  EXPECT_EQ(shown({none, relu_on(1), plain}), "");
  // Not written in place.
  EXPECT_EQ(shown({both, relu(1, 7), reader_of(7, {2, 3})}), "output of 0 no forward 1 no backward 1 ");
  EXPECT_EQ(shown({forward, relu(1, 7), reader_of(7, {2, 3})}),
            "output of 0 no forward 1 no backward 1 input of 2 ");
  EXPECT_EQ(shown({both, elu_on(1), split}), "output of 0 no forward 1 no backward 1 ");
  EXPECT_EQ(shown({forward, elu_on(1), split}), "output of 0 no forward 1 no backward 1 input of 2 ");
  EXPECT_EQ(shown({none, elu_on(1), plain}), "");
  // A clip's output does not show its gradient.
  EXPECT_EQ(shown({both, clip_on(1), split}), "output of 0 no forward 1 no backward 1 ");
  EXPECT_EQ(shown({forward, clip_on(1), split}), "");
  EXPECT_EQ(shown({without_gradient(forward), without_gradient(clip_on(1)), without_gradient(split)}),
            "output of 0 no forward 1 ");
  // Both results, kept in one tensor, are recovered by undoing the ReLU.
  EXPECT_EQ(shown({both, relu_on(1, 0.5), plain}, -1, 0), "output of 0 no forward 1 ");
}

TEST(FindFusions, LeavesAloneWhatOthersTouch) {
  const auto forward = layer({0}, {1}, ActivationFusion::forward);
  const auto split = reader_of(1, {2, 3});
  // A second reader before the ReLU, and after it.
  EXPECT_EQ(shown({forward, layer({1}, {5}), relu_on(1)}), "");
  EXPECT_EQ(shown({layer({0}, {1}), relu_on(1), split, layer({1}, {5})}), "");
  EXPECT_EQ(shown({forward, relu_on(1), split}, 1), "");  // its input is converted
  GraphLayer weighted = relu_on(1), weighed = forward, rereads = forward, two = forward;
  weighted.loss_weights = weighed.loss_weights = {1};
  rereads.traits.backward_reads_outputs = true;
  two.outputs = {1, 6};
  two.loss_weights = {0, 0};
  EXPECT_EQ(shown({forward, weighted, split}), "");
  for (const GraphLayer& producer : {weighed, rereads, two})
    EXPECT_EQ(shown({producer, relu_on(1), layer({1}, {2})}), "");
  rereads.needs_backward = false;
  EXPECT_EQ(shown({rereads, relu_on(1), layer({1}, {2})}), "output of 0 no forward 1 ");
  GraphLayer stops = split;
  stops.propagate = {false};
  EXPECT_EQ(shown({forward, relu_on(1), stops}), "output of 0 no forward 1 ");
  EXPECT_EQ(shown({forward, relu_on(1), split}, 2), "output of 0 no forward 1 ");
}

TEST(FindFusions, NegativeSlopesNeedTheInput) {
  const auto forward = layer({0}, {1}, ActivationFusion::forward),
             both = layer({0}, {1}, ActivationFusion::both);
  EXPECT_EQ(shown({forward, relu_on(1, -0.5), reader_of(1, {2, 3})}), "");
  EXPECT_EQ(shown({both, relu_on(1, -0.5), reader_of(1, {2, 3})}), "output of 0 no forward 1 no backward 1 ");
}

TEST(FindFusions, DropoutTakesWhatItsOutputShows) {
  const auto both = layer({0}, {1}, ActivationFusion::both),
             forward = layer({0}, {1}, ActivationFusion::forward);
  const auto none = layer({0}, {1}), next = layer({2}, {3});
  // The ReLU runs both, or the layer before it runs everything, if it can.
  EXPECT_EQ(shown({none, relu_on(1), dropout(1, 2), next}),
            "1 drops as 2 no backward 1 input of 2 no forward 2 ");
  EXPECT_EQ(shown({product(0, 1), relu_on(1, 0.5), dropout(1, 1), layer({1}, {3})}),
            "output of 0 0 drops as 2 no forward 1 no backward 1 input of 2 no forward 2 ");
  EXPECT_EQ(shown({product(0, 1), relu(1, 4), dropout(4, 2), next}),
            "output of 0 0 drops as 2 no forward 1 no backward 1 input of 2 no forward 2 ");
  EXPECT_EQ(shown({product(0, 1), dropout(1, 2), next}), "0 drops as 1 no forward 1 ");
  EXPECT_EQ(shown({forward, relu_on(1), dropout(1, 2), next}),
            "output of 0 no forward 1 no backward 1 input of 2 ");
  EXPECT_EQ(shown({both, relu_on(1), dropout(1, 2), next}), "output of 0 no forward 1 no backward 1 ");
  // The sign of the ReLU's input is not in its output.
  EXPECT_EQ(shown({none, relu_on(1, -0.5), dropout(1, 2), next}), "1 drops as 2 no forward 2 ");
  // An ELU's gradient needs its output as it was.
  EXPECT_EQ(shown({product(0, 1), elu_on(1), dropout(1, 2), next}), "output of 0 no forward 1 ");
  // A normalization that recovers its input wants to overwrite the dropout's output.
  EXPECT_EQ(shown({none, relu_on(1), dropout(1, 2), next, relu_on(3, 0.5)}, -1, 3),
            "output of 3 no forward 4 ");
  // One that keeps the output of a ReLU needs it without the dropout, whose gradient may be fused.
  EXPECT_EQ(shown({product(0, 1), relu_on(1, 0.5), dropout(1, 2), next}, -1, 0),
            "output of 0 no forward 1 no backward 1 input of 2 ");
}

TEST(FindFusions, LeavesDropoutsAloneThatOthersTouch) {
  const auto next = layer({2}, {3});
  GraphLayer idle = dropout(1, 2), weighted = idle, weighed = relu_on(1);
  idle.traits.dropping = {};
  idle.traits.fuses_activation_of_input = InputActivation::none;
  weighted.loss_weights = weighed.loss_weights = {1};
  EXPECT_EQ(shown({product(0, 1), relu_on(1), idle, next}), "output of 0 no forward 1 ");
  EXPECT_EQ(shown({product(0, 1), relu_on(1), weighted, next}),
            "output of 0 no forward 1 no backward 1 input of 2 ");
  EXPECT_EQ(shown({product(0, 1), weighed, dropout(1, 2), next}), "");
  // Another reader of the ReLU's output, or of the product's.
  EXPECT_EQ(shown({product(0, 1), relu(1, 4), dropout(4, 2), next, layer({4}, {5})}),
            "output of 0 no forward 1 ");
  EXPECT_EQ(shown({product(0, 1), dropout(1, 2), next, layer({1}, {5})}), "");
  EXPECT_EQ(shown({product(0, 1), relu_on(1), dropout(1, 2), next}, 2), "output of 0 no forward 1 ");
}

TEST(FindFusions, TheLaterBranchRunsASum) {
  GraphLayer early = layer({0}, {1}, ActivationFusion::both), late = layer({0}, {2}, ActivationFusion::both);
  GraphLayer sum = layer({1, 2}, {3}, ActivationFusion::forward);
  early.traits.fuses_sum = late.traits.fuses_sum = sum.traits.plain_sum = true;
  EXPECT_EQ(shown({early, late, sum}), "1 sums 2 with 1 no forward 2 ");
  EXPECT_EQ(shown({late, early, sum}), "1 sums 2 with 2 no forward 2 ");
  for (const int top : {3, 8})
    EXPECT_EQ(shown({early, late, sum, relu(3, top), reader_of(top, {4, 5})}),
              "1 sums 2 with 1 relu after the sum of 1 output of 2 no forward 2 no forward 3 no backward 3 "
              "input of 4 ");
  // The early branch continues: it does not run the sum, and its result comes too late for the other.
  EXPECT_EQ(shown({early, late, relu_on(1), sum}), "output of 0 no forward 2 no backward 2 ");
  EXPECT_EQ(shown({early, late, relu_on(2), sum}), "output of 1 no forward 2 no backward 2 ");
  EXPECT_EQ(shown({early, late, sum, layer({2}, {6})}), "");
  GraphLayer twice = sum, weighted = late, three = sum;
  twice.inputs = {2, 2};
  three.inputs = {1, 2, 0};
  three.propagate = {true, true, true};
  weighted.loss_weights = {1};
  EXPECT_EQ(shown({early, late, twice}), "");
  EXPECT_EQ(shown({early, late, three}), "");
  EXPECT_EQ(shown({early, weighted, sum}), "");
}

TEST(FindFusions, ANormalizationRunsTheScaleAfterIt) {
  GraphLayer norm = layer({0}, {1}, ActivationFusion::both),
             scale = layer({1}, {1}, ActivationFusion::forward);
  norm.traits.fuses_affine = norm.traits.fuses_sum = true;
  scale.traits.channel_slope = 0;
  const std::string both = "0 scales as 1 no forward 1 no backward 1 ";
  EXPECT_EQ(shown({norm, scale}), both);
  EXPECT_EQ(shown({norm, scale, relu_on(1)}),
            "0 scales as 1 output of 0 no forward 1 no backward 1 no forward 2 no backward 2 ");
  GraphLayer apart = scale, sum = layer({2, 0}, {3}, ActivationFusion::forward);
  apart.outputs = {2};
  sum.traits.plain_sum = true;
  EXPECT_EQ(shown({norm, apart, sum, relu(3, 4)}),
            "0 scales as 1 0 sums 2 with 0 relu after the sum of 0 no forward 1 no backward 1 output of 2 no "
            "forward 2 no forward 3 ");
  EXPECT_EQ(shown({norm, layer({1}, {5}), apart}), "");  // another reader
  EXPECT_EQ(shown({norm, apart}, 1), "");                // its input is converted
  GraphLayer weighted = norm, other = apart;
  weighted.loss_weights = {1};
  other.traits.channel_slope = -1;
  EXPECT_EQ(shown({weighted, apart}), "");
  EXPECT_EQ(shown({norm, other}), "");
}

/// The Scale learns, nothing before it does.
TEST(FindFusions, AFrozenNormalizationRunsTheScaleAfterIt) {
  GraphLayer norm = without_gradient(layer({0}, {1}, ActivationFusion::both)),
             scale = layer({1}, {2}, ActivationFusion::forward);
  norm.traits.fuses_affine = true;
  norm.propagate = scale.propagate = {false};
  scale.traits.channel_slope = 0;
  const std::string both = "0 scales as 1 no forward 1 no backward 1 ";
  EXPECT_EQ(shown({norm, scale}), both);
  EXPECT_EQ(shown({norm, scale, relu(2, 3), reader_of(3, {4, 5})}),
            "0 scales as 1 output of 0 no forward 1 no backward 1 no forward 2 no backward 2 ");
  EXPECT_EQ(shown({norm, without_gradient(scale)}), both);  // as in tests
  const Graph graph = graph_of({layer({}, {0}), norm, scale});
  const Graph run = with_affines(graph, find_affines(graph, {false, false, false}));
  EXPECT_TRUE(run.layers[1].needs_backward);
  EXPECT_EQ(run.layers[1].propagate, std::vector<bool>{false});
  EXPECT_TRUE(run.has_gradient(run.layers[1].outputs[0]));
  EXPECT_FALSE(run.has_gradient(run.layers[1].inputs[0]));
}

/// in 0 -> split (1, 2); f(1) -> 3; sum(2, 3) -> 4; loss(4) -> 5
TensorUses residual_block() {
  TensorUses uses;
  const auto add = [&](std::vector<int> inputs, std::vector<int> outputs) -> LayerUse& {
    LayerUse use;
    use.inputs = std::move(inputs);
    use.outputs = std::move(outputs);
    use.converted_from.assign(use.inputs.size(), -1);
    use.propagate.assign(use.inputs.size(), true);
    use.needs_backward = true;
    uses.layers.push_back(use);
    return uses.layers.back();
  };
  add({}, {0});
  add({0}, {1, 2}).gathers_gradients = true;
  add({1}, {3});
  add({2, 3}, {4}).passes_gradient = {true, true};
  add({4}, {5});
  uses.data_of = uses.grad_of = {0, 1, 2, 3, 4, 5};
  uses.keeps_data.assign(6, false);
  uses.has_grad.assign(6, true);
  return uses;
}

/// With two layers in a branch: f(1) -> 3, g(3) -> 6 in the memory of 3.
TensorUses longer_block() {
  TensorUses uses = residual_block();
  uses.data_of.push_back(3);
  uses.grad_of.push_back(6);
  uses.keeps_data.push_back(false);
  uses.has_grad.push_back(true);
  LayerUse g = uses.layers[2];
  g.inputs = {3};
  g.outputs = {6};
  uses.layers.insert(uses.layers.begin() + 3, g);
  uses.layers[4].inputs = {2, 6};
  return uses;
}

TEST(ShareGradients, OfSumsAndSplits) {
  TensorUses uses = residual_block();
  share_gradients(uses);
  EXPECT_THAT(uses.grad_of, ElementsAre(0, 0, 4, 4, 4, 5));
}

/// As of a normalization with a Scale: the sum's gradient is read under both names.
TEST(ShareGradients, OfSumsAndLayersWhoseBackwardPassOthersRun) {
  TensorUses uses = longer_block();  // g is the Scale of f
  uses.grad_of[6] = 3;
  uses.layers[3].backward_elsewhere = true;
  TensorUses in_place = uses, weighted = uses;
  share_gradients(uses);
  EXPECT_THAT(uses.grad_of, ElementsAre(0, 0, 4, 4, 4, 5, 3));
  in_place.layers[2].in_place = true;  // f writes its input's gradient over its output's
  in_place.data_of[3] = 1;
  share_gradients(in_place);
  EXPECT_NE(owner_of(in_place.grad_of, 6), owner_of(in_place.grad_of, 4));
  weighted.layers[3].weighted = {true};
  share_gradients(weighted);
  EXPECT_EQ(owner_of(weighted.grad_of, 6), 3);
}

TEST(ShareGradients, NotWhereAnotherLayerWrites) {
  TensorUses in_place = longer_block();
  in_place.layers[3].in_place = true;
  TensorUses apart = in_place;
  share_gradients(in_place);
  EXPECT_THAT(in_place.grad_of, ElementsAre(0, 0, 4, 3, 4, 5, 3));
  apart.data_of[6] = 6;
  share_gradients(apart);
  EXPECT_THAT(apart.grad_of, ElementsAre(0, 0, 4, 3, 4, 5, 4));
  TensorUses weighted = residual_block();
  weighted.layers[2].weighted = {true};
  share_gradients(weighted);
  EXPECT_THAT(weighted.grad_of, ElementsAre(0, 0, 4, 3, 4, 5));
  TensorUses converted = residual_block();
  converted.layers[3].converted_from = {2, -1};
  converted.layers[1].converted_from = {0};
  share_gradients(converted);
  EXPECT_THAT(converted.grad_of, ElementsAre(0, 1, 2, 4, 4, 5));
  TensorUses constant = residual_block();
  constant.layers[3].propagate = {true, false};
  share_gradients(constant);
  EXPECT_THAT(constant.grad_of, ElementsAre(0, 0, 4, 3, 4, 5));
}

std::string convolution(const std::string& bottom, const std::string& top, int outputs, int kernel) {
  return cat("layer { name: '", top, "' type: 'Convolution' bottom: '", bottom, "' top: '", top,
             "' convolution_param { num_output: ", outputs, " kernel_size: ", kernel, " pad: ", kernel / 2,
             " weight_filler { type: 'msra' } bias_filler { type: 'uniform' min: -0.1 max: 0.1 } } } ");
}
std::string sync_bn(const std::string& blob) {
  return cat("layer { name: '", blob, "_n' type: 'SyncBN' bottom: '", blob, "' top: '", blob,
             "_n' bn_param { slope_filler { type: 'uniform' min: -1 max: 1.5 } bias_filler { type: 'uniform' "
             "min: -0.5 max: 0.5 } } } ");
}
std::string relu(const std::string& blob, const std::string& slope = "0") {
  return cat("layer { name: '", blob, "_relu' type: 'ReLU' bottom: '", blob, "' top: '", blob,
             "' relu_param { negative_slope: ", slope, " } } ");
}
std::string elu(const std::string& blob, const std::string& settings = "") {
  return cat("layer { name: '", blob, "_elu' type: 'ELU' bottom: '", blob, "' top: '", blob, "' elu_param { ",
             settings, " } } ");
}
std::string dropout(const std::string& bottom, const std::string& top, const std::string& settings = "") {
  return cat("layer { name: '", top, "_drop' type: 'Dropout' bottom: '", bottom, "' top: '", top,
             "' dropout_param { ", settings, " } } ");
}
std::string inner_product_of(const std::string& bottom, const std::string& top, int outputs,
                             bool bias = true) {
  return cat("layer { name: '", top, "' type: 'InnerProduct' bottom: '", bottom, "' top: '", top,
             "' inner_product_param { num_output: ", outputs, bias ? "" : " bias_term: false",
             " weight_filler { type: 'xavier' } bias_filler { type: 'uniform' min: -0.1 max: 0.1 } } } ");
}

/// Every kind of fusion and sharing: convolution, SyncBN, BatchNorm in parts, sums and inner products before
/// ReLUs and ELUs, splits and dropout after them, a sum of three, a blob that is added to itself.
std::string every_kind(int batch) {
  return cat("layer { name: 'in' type: 'Input' top: 'data' top: 'label' input_param { shape { dim: ", batch,
             " dim: 3 dim: 12 dim: 12 } shape { dim: ", batch, " } } } ") +
         convolution("data", "a", 8, 3) + relu("a", "0.125") + convolution("a", "b", 8, 3) + sync_bn("b") +
         relu("b_n") + convolution("b_n", "c", 8, 3) + sync_bn("c") +
         "layer { name: 's1' type: 'Eltwise' bottom: 'a' bottom: 'c_n' top: 's1' } " + relu("s1") +
         convolution("s1", "d", 8, 1) + relu("d", "-0.25") + sync_bn("d") + relu("d_n", "0.375") +
         "layer { name: 's2' type: 'Eltwise' bottom: 's1' bottom: 'd_n' bottom: 's1' top: 's2' eltwise_param "
         "{ coeff: 1 coeff: 1 coeff: -0.5 } } " +
         "layer { name: 's3' type: 'Eltwise' bottom: 's2' bottom: 's2' top: 's3' } " + relu("s3", "0.25") +
         convolution("s3", "e", 8, 1) + sync_bn("e") + elu("e_n", "alpha: 0.5 lambda: 2") +
         convolution("e_n", "f", 8, 1) +
         "layer { name: 'f_n' type: 'BatchNorm' bottom: 'f' top: 'f_n' batch_norm_param { scale_bias: true "
         "stats_batch_size: 4 } } "  // of 6
         "layer { name: 's4' type: 'Eltwise' bottom: 's3' bottom: 'f_n' top: 's4' } " +
         elu("s4") + convolution("s4", "g", 6, 1) + elu("g") +
         "layer { name: 's5' type: 'Eltwise' bottom: 'g' bottom: 'g' top: 's5' } " +
         convolution("s5", "h", 6, 1) + relu("h") + dropout("h", "h") + convolution("h", "i", 4, 1) +
         dropout("i", "i_d", "dropout_ratio: 0.2") + inner_product_of("i_d", "fc1", 21) + relu("fc1") +
         dropout("fc1", "fc1") + inner_product_of("fc1", "fc2", 17, false) + relu("fc2", "0.125") +
         dropout("fc2", "fc2_d", "dropout_ratio: 0.3") + inner_product_of("fc2_d", "fc3", 15) +
         dropout("fc3", "fc3", "scale_train: false") +
         "layer { name: 'power' type: 'Power' bottom: 'fc3' top: 'power' power_param { scale: 2 } } " +
         relu("power", "0.5") + dropout("power", "power") + inner_product_of("power", "ip", 5) +
         relu("ip", "0.5") +
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' } ";
}

struct Results {
  std::vector<float> gradients;
  double loss;
  bool operator==(const Results&) const = default;
};

/// Two passes whose gradients add up, as with iter_size 2.
template <class Prepare>
Results results_of(const NetOptions& options, const CpuDeviceOptions& device, const Prepare& prepare,
                   const std::string& checkpoint = "off") {
  NetBench bench(device);
  const auto net = bench.make("checkpoint: '" + checkpoint + "' " + every_kind(6), options);
  prepare(*net);
  feed<float>(bench, *net, 5);
  net->zero_gradients();
  for (int pass = 0; pass < 2; ++pass) {
    bench.pass.draw = pass;
    net->forward(bench.pass);
    net->backward(bench.pass);
  }
  return {values_of<float>(bench.context, net->flat_gradients()), loss_of(bench, *net)};
}

TEST(Fusion, DoesNotChangeABit) {
  for (const bool channels_last : {false, true})
    for (const int threads : {1, 2}) {
      CpuDeviceOptions device;
      device.threads = threads;
      NetOptions fused, alone, separate;
      for (NetOptions* options : {&fused, &alone, &separate}) {
        options->seed = 5;
        options->channels_last = channels_last;
      }
      alone.fuse = false;
      separate.reuse_memory = false;
      const auto nothing = [](Net&) {};
      const Results plain = results_of(separate, device, nothing);
      EXPECT_EQ(results_of(fused, device, nothing), plain);
      EXPECT_EQ(results_of(alone, device, nothing), plain);
      EXPECT_EQ(results_of(fused, device, [](Net& net) { net.observe_layers({}, {}); }), plain);
      // Fused layers are recomputed as one, wherever the cuts are.
      for (const char* segments : {"auto", "2", "3", "4", "8"})
        EXPECT_EQ(results_of(fused, device, nothing, segments), plain) << segments;
      device.asynchronous = true;
      EXPECT_EQ(results_of(fused, device, nothing), plain);
      EXPECT_EQ(results_of(fused, device, nothing, "3"), plain);
    }
}

std::string frozen_convolution(const std::string& bottom, const std::string& top) {
  return cat("layer { name: '", top, "' type: 'Convolution' bottom: '", bottom, "' top: '", top,
             "' param { lr_mult: 0 } param { lr_mult: 0 } convolution_param { num_output: 8 kernel_size: 3 "
             "pad: 1 weight_filler { type: 'msra' } } } ");
}
std::string batch_norm(const std::string& bottom, const std::string& top, const std::string& settings = "") {
  return cat("layer { name: '", bottom, "_norm' type: 'BatchNorm' bottom: '", bottom, "' top: '", top,
             "' batch_norm_param { ", settings, " } } ");
}
std::string scale(const std::string& bottom, const std::string& top, const std::string& more = "") {
  return cat("layer { name: '", bottom, "_scale' type: 'Scale' bottom: '", bottom, "' top: '", top, "' ",
             more, " scale_param { bias_term: true filler { type: 'uniform' min: 0.5 max: 1.5 } } } ");
}

/// Scales that learn: over normalized data with an ELU after it, over frozen convolutions with a leaky ReLU,
/// in place, and with a sum after it; of the last one only the bias learns.
std::string frozen_stems() {
  return "layer { name: 'in' type: 'Input' top: 'data' top: 'label' input_param { shape { dim: 6 dim: 3 dim: "
         "12 dim: 12 } shape { dim: 6 } } } " +
         batch_norm("data", "data_n") + scale("data_n", "data_s") + elu("data_s", "alpha: 0.5") +
         frozen_convolution("data", "a") + batch_norm("a", "a") + scale("a", "a") + relu("a", "0.25") +
         convolution("data_s", "b", 8, 3) + frozen_convolution("data", "c") +
         batch_norm("c", "c_n", "use_global_stats: true eps: 1") +
         scale("c_n", "c_s", "param { lr_mult: 0 }") +
         "layer { name: 'sum' type: 'Eltwise' bottom: 'a' bottom: 'c_s' top: 'sum' } " + relu("sum") +
         "layer { name: 'all' type: 'Eltwise' bottom: 'b' bottom: 'sum' top: 'all' } " +
         inner_product_of("all", "ip", 5) +
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' } ";
}

/// Loss, gradients and statistics after two passes whose gradients add up.
template <class T>
std::vector<double> trained_once(const std::string& text, NetOptions options, bool observed = false) {
  NetBench bench;
  options.dtype = DTypeOf<T>::value;
  options.seed = 5;
  const auto net = bench.make(text, options);
  if (observed) net->observe_layers({}, {});
  bench.pass.update_statistics = true;
  feed<T>(bench, *net, 5);
  net->zero_gradients();
  for (int pass = 0; pass < 2; ++pass) {
    net->forward(bench.pass);
    net->backward(bench.pass);
  }
  std::vector<double> found{loss_of(bench, *net)};
  for (const LearnableParameter& parameter : net->parameters()) {
    const Tensor& values = parameter.is_statistic ? parameter.value : parameter.grad;
    if (!values.defined()) continue;
    for (const T value : values_of<T>(bench.context, values)) found.push_back(value);
  }
  return found;
}

/// A normalization runs the backward pass of the Scale after it even where no gradient goes on from there.
TEST(Fusion, OfScalesOverFrozenLayers) {
  const std::string text = frozen_stems(), in_place_abn = "in_place_abn: true " + text;
  NetOptions fused, plain, alone;
  plain.fuse = plain.fuse_scale = alone.fuse = false;
  NetBench bench;
  const auto net = bench.make(text, fused);
  std::vector<std::string> run;
  for (const PlanStep& step : net->plan().steps) {
    if (step.work != Work::backward || step.affine < 0) continue;
    EXPECT_TRUE(step.runs_layer && step.needs_backward);
    EXPECT_EQ(step.propagate, std::vector<bool>{false});
    run.push_back(net->graph().layers[step.layer].name);
  }
  EXPECT_THAT(run, ElementsAre("c_norm", "a_norm", "data_norm"));
  for (const LearnableParameter& parameter : net->parameters())
    if (parameter.layer == "a_scale") {
      EXPECT_EQ(net->graph().layers[parameter.ready_layer].name, "a_norm");
    }
  // One rounding less per value, and sums of 864 values per channel: below 1000 epsilon.
  const double epsilon = std::numeric_limits<double>::epsilon();
  const std::vector<double> expected = trained_once<double>(text, plain);
  EXPECT_LE(relative_distance(expected, trained_once<double>(text, fused)), 1000 * epsilon);
  // They keep their inputs even so: nothing is recovered.
  EXPECT_THAT(bench.make(in_place_abn, fused)->plan().in_place_abn, IsEmpty());
  EXPECT_EQ(trained_once<double>(in_place_abn, fused), trained_once<double>(text, fused));
  for (const bool channels_last : {false, true}) {
    fused.channels_last = alone.channels_last = channels_last;
    const std::vector<double> usual = trained_once<float>(text, fused);
    EXPECT_EQ(trained_once<float>(text, alone), usual);
    EXPECT_EQ(trained_once<float>(text, fused, true), usual);
    for (const char* segments : {"auto", "2", "3"})
      EXPECT_EQ(trained_once<float>(cat("checkpoint: '", segments, "' ", text), fused), usual) << segments;
  }
}

/// A block of a residual net as BVLC's users write it, all of it learning: BatchNorm, Scale, sum and ReLU in
/// one step.
TEST(Fusion, OfSumsAfterScalesThatLearn) {
  for (const std::string norm : {"a_n", "a"}) {  // or in place
    const std::string text =
        "layer { name: 'in' type: 'Input' top: 'data' top: 'label' input_param { shape { dim: 6 dim: 3 dim: "
        "12 dim: 12 } shape { dim: 6 } } } " +
        convolution("data", "b", 8, 3) + convolution("data", "a", 8, 3) + batch_norm("a", norm) +
        scale(norm, norm) + "layer { name: 'sum' type: 'Eltwise' bottom: 'b' bottom: '" + norm +
        "' top: 'sum' } " + relu("sum") + inner_product_of("sum", "ip", 5) +
        "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' } ";
    NetOptions fused, plain;
    plain.fuse = plain.fuse_scale = false;
    NetBench bench;
    const auto net = bench.make(text, fused);
    const auto& steps = net->plan().steps;
    EXPECT_TRUE(std::any_of(steps.begin(), steps.end(), [](const PlanStep& step) {
      return step.work == Work::forward && step.affine >= 0 && step.addend >= 0;
    })) << to_text(net->graph(), net->plan());
    // One rounding less per value, and sums of 864 values per channel, as above.
    const std::vector<double> expected = trained_once<double>(text, plain);
    EXPECT_LE(relative_distance(expected, trained_once<double>(text, fused)),
              1000 * std::numeric_limits<double>::epsilon());
    const std::vector<double> usual = trained_once<float>(text, fused);
    for (const char* segments : {"auto", "2", "3"})
      EXPECT_EQ(trained_once<float>(cat("checkpoint: '", segments, "' ", text), fused), usual) << segments;
  }
}

/// What runs as a part of other layers in a net, forward and backward, in the words of the plan.
std::vector<std::string> fused_in(const std::string& text, Phase phase) {
  NetBench bench;
  NetOptions options;
  options.phase = phase;
  options.shapes_only = true;
  const auto net = bench.make(text, options);
  std::vector<std::string> found;
  std::istringstream lines(to_text(net->graph(), net->plan()));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, work, name;
    words >> number >> work >> name;
    for (const std::string note : {"ends with ", "with the dropout of ", "begins with ", "runs as part of"})
      if (const auto at = line.find(note); at != line.npos) {
        found.push_back(cat(work, " ", name, ": ", line.substr(at, line.find(';', at) - at)));
        if (found.back().find("runs as") != std::string::npos)
          found.back() = cat(work, " ", name, ": elsewhere");
        break;
      }
  }
  return found;
}

/// Convolution + bias + ReLU and InnerProduct + ReLU, leaky or not, in training and in tests; in place or
/// not.
TEST(Fusion, OfConvolutionsAndInnerProducts) {
  const std::string input =
      "layer { name: 'in' type: 'Input' top: 'data' top: 'label' input_param { shape { dim: 2 dim: 3 dim: 6 "
      "dim: 6 } shape { dim: 2 } } } ";
  const std::string loss =
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'fc' bottom: 'label' top: 'loss' } ";
  for (const bool in_place : {true, false})
    for (const auto& [slope, end] :
         {std::pair{"0", "ends with a ReLU"}, {"0.25", "ends with a ReLU with slope 0.25"}}) {
      const std::string settings = cat(" relu_param { negative_slope: ", slope, " } } ");
      const std::string a = in_place ? "conv" : "a", b = in_place ? "ip" : "b", c = in_place ? "ip" : "c";
      const std::string net =
          input + convolution("data", "conv", 4, 3) +
          cat("layer { name: 'relu1' type: 'ReLU' bottom: 'conv' top: '", a, "'", settings) +
          inner_product_of(a, "ip", 7) +
          cat("layer { name: 'relu2' type: 'ReLU' bottom: 'ip' top: '", b, "'", settings) +
          cat("layer { name: 'drop' type: 'Dropout' bottom: '", b, "' top: '", c, "' } ") +
          inner_product_of(c, "fc", 5) + loss;
      const std::string conv = cat("forward conv: ", end), ip = cat("forward ip: ", end);
      EXPECT_THAT(fused_in(net, Phase::train),
                  ElementsAre(conv, "forward relu1: elsewhere", ip, "forward relu2: elsewhere",
                              "forward drop: elsewhere",
                              cat("backward drop: ends with the gradient of ", std::string(end).substr(10)),
                              "backward relu2: elsewhere"));
      EXPECT_THAT(fused_in(net, Phase::test),
                  ElementsAre(conv, "forward relu1: elsewhere", ip, "forward relu2: elsewhere"));
    }
}

// Weights that two layers share (with biases of their own), weights that no loss depends on, an empty batch:
// zero whatever the gradients held.
TEST(Fusion, ClearedGradientsAreZeroWhateverTheyHeld) {
  const std::string text =
      "layer { name: 'in' type: 'Input' top: 'data' top: 'label' input_param { shape { dim: 4 dim: 6 } shape "
      "{ "
      "dim: 4 } } } "
      "layer { name: 'a' type: 'InnerProduct' bottom: 'data' top: 'a' param { name: 'w' } "
      "inner_product_param "
      "{ num_output: 6 bias_term: false weight_filler { type: 'xavier' } } } "
      "layer { name: 'b' type: 'InnerProduct' bottom: 'a' top: 'b' param { name: 'w' } inner_product_param { "
      "num_output: 6 bias_term: false weight_filler { type: 'xavier' } } } "
      "layer { name: 'side' type: 'InnerProduct' bottom: 'a' top: 'side' inner_product_param { num_output: 3 "
      "weight_filler { type: 'xavier' } } } "
      "layer { name: 'quiet' type: 'Silence' bottom: 'side' } "
      "layer { name: 'scale' type: 'Scale' bottom: 'b' top: 'c' scale_param { bias_term: true } } "
      "layer { name: 'd' type: 'Convolution' bottom: 'c' top: 'd' param { name: 'v' } convolution_param { "
      "num_output: 6 weight_filler { type: 'xavier' } } } "
      "layer { name: 'e' type: 'Convolution' bottom: 'd' top: 'e' param { name: 'v' } convolution_param { "
      "num_output: 6 weight_filler { type: 'xavier' } } } "
      "layer { name: 'aside' type: 'Deconvolution' bottom: 'd' top: 'aside' convolution_param { num_output: "
      "6 weight_filler { type: 'xavier' } } } "
      "layer { name: 'still' type: 'Silence' bottom: 'aside' } "
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'e' bottom: 'label' top: 'loss' } ";
  NetBench bench;
  const auto net = bench.make(text, f64_options());
  for (const std::int64_t batch : {4, 0}) {
    net->find_blob("data")->shape = Shape{batch, 6};
    net->find_blob("label")->shape = Shape{batch};
    net->reshape();
    feed<double>(bench, *net, 5);
    std::vector<std::vector<double>> found;
    for (const double before : {0.0, std::nan("")}) {
      std::vector<double> held(static_cast<std::size_t>(net->flat_gradients().count()), before);
      copy_from_host(bench.context, held.data(), net->flat_gradients());
      net->zero_gradients();
      for (int pass = 0; pass < 2; ++pass) {  // the second adds
        net->forward(bench.pass);
        net->backward(bench.pass);
      }
      for (const LearnableParameter& parameter : net->parameters())
        found.push_back(values_of<double>(bench.context, parameter.grad));
    }
    const std::size_t half = found.size() / 2;
    for (std::size_t p = 0; p < half; ++p) EXPECT_EQ(found[p], found[half + p]) << p << ", batch " << batch;
  }
}

TEST(Fusion, TakesMemoryAway) {
  NetBench bench;
  NetOptions fused, separate;
  separate.reuse_memory = false;
  const auto a = bench.make(every_kind(6), fused), b = bench.make(every_kind(6), separate);
  EXPECT_LT(a->plan().unshared_bytes, b->plan().unshared_bytes);
  const auto same = [](const Net& net, const std::string& left, const std::string& right) {
    return net.find_blob(left)->grad.same_memory(net.find_blob(right)->grad);
  };
  const auto same_data = [](const Net& net, const std::string& left, const std::string& right) {
    return net.find_blob(left)->data.same_memory(net.find_blob(right)->data);
  };
  EXPECT_TRUE(same_data(*a, "s1", "c_n"));
  EXPECT_FALSE(same_data(*b, "s1", "c_n"));
  EXPECT_TRUE(same(*a, "s1", "c_n"));
  EXPECT_FALSE(same(*b, "s1", "c_n"));
  EXPECT_TRUE(same(*a, "s2", "d_n"));  // the ReLU between them is part of a normalization's backward pass
  EXPECT_FALSE(same(*b, "s2", "d_n"));
}

}  // namespace
}  // namespace banyan
