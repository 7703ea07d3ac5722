// Groups of weights that `param` entries and connectivity_mode name (SSL).
#include "net/sparsity.hpp"

#include "banyan/tensor/values.hpp"
#include "net/net_test_tools.hpp"

namespace banyan {
namespace {

using testing::HasSubstr;
using Kind = Sparsity::Kind;

const char* const kImages =
    "layer { name: 'in' type: 'DummyData' top: 'in' dummy_data_param { shape { dim: 2 dim: 4 dim: 5 dim: 5 } "
    "} } ";

std::string conv(const std::string& params, const std::string& more = "", const std::string& name = "conv") {
  return "layer { name: '" + name + "' type: 'Convolution' bottom: 'in' top: '" + name + "' " + params +
         " convolution_param { num_output: 6 kernel_size: 3 group: 2 weight_filler { type: 'gaussian' std: 1 "
         "} } " +
         more + " } ";
}

struct SparseNet {
  explicit SparseNet(const std::string& layers) : net(bench.make(kImages + layers, f64_options())) {}
  const LearnableParameter& parameter(int i) { return net->parameters()[static_cast<std::size_t>(i)]; }
  NetBench bench;
  std::unique_ptr<Net> net;
};

std::string refusal_of(const std::string& layers) {
  return message_of([&] { SparseNet net(layers); });
}

std::vector<std::int64_t> numbers(const ops::Tiling& t) {
  return {t.rows, t.columns, t.tile_rows, t.tile_columns};
}

TEST(Sparsity, NamesRowsColumnsAndBlocks) {
  SparseNet net(
      conv("param { breadth_decay_mult: 2 kernel_shape_decay_mult: 0.5 regularization_type: 'L1' "
           "block_group_lasso { xdimen: 9 ydimen: 3 block_decay_mult: 4 } block_group_lasso { ydimen: 2 } } "
           "param { breadth_decay_mult: 0.0 }"));
  const Sparsity& found = net.parameter(0).sparsity;
  ASSERT_EQ(found.decays.size(), 4u);
  EXPECT_EQ(found.decays[0].kind, Kind::breadth);
  EXPECT_EQ(found.decays[0].mult, 2);
  EXPECT_EQ(numbers(found.decays[0].tiling), (std::vector<std::int64_t>{6, 18, 1, 18}));
  EXPECT_EQ(found.decays[1].kind, Kind::kernel_shape);
  EXPECT_EQ(numbers(found.decays[1].tiling), (std::vector<std::int64_t>{6, 18, 3, 1})) << "in each group";
  EXPECT_EQ(found.decays[2].kind, Kind::block);
  EXPECT_EQ(found.decays[2].mult, 4);
  EXPECT_EQ(numbers(found.decays[2].tiling), (std::vector<std::int64_t>{6, 18, 3, 9}));
  EXPECT_EQ(numbers(found.decays[3].tiling), (std::vector<std::int64_t>{6, 18, 2, 1}));
  EXPECT_EQ(net.parameter(0).l1, true);
  EXPECT_TRUE(net.parameter(1).sparsity.decays.empty());
  EXPECT_FALSE(net.parameter(1).l1);
}

TEST(Sparsity, RefusesWhatDoesNotFit) {
  EXPECT_THAT(
      refusal_of(conv("param { block_group_lasso { xdimen: 4 ydimen: 3 } }")),
      HasSubstr("layer \"conv\" (Convolution), `param` entry 0: block_group_lasso has blocks of ydimen 3 x "
                "xdimen 4, which do not divide the 6 x 18 values"));
  EXPECT_THAT(refusal_of(conv("param { block_group_lasso { xdimen: 0 } }")), HasSubstr("xdimen 0"));
  EXPECT_THAT(refusal_of(conv("param { regularization_type: 'L3' }")),
              HasSubstr("unknown regularization_type \"L3\"; known: L1, L2"));
  EXPECT_THAT(refusal_of(conv("param { decay_proto: 'file' }")),
              HasSubstr("decay_proto (SSL) is not supported"));
  EXPECT_THAT(refusal_of(conv("param { breadth_decay_mult: nan }")), HasSubstr("breadth_decay_mult must be"));
}

TEST(Sparsity, IsTheOwnersWhereParametersAreShared) {
  const std::string owner = conv("param { name: 'w' breadth_decay_mult: 2 }");
  SparseNet silent(owner + conv("param { name: 'w' }", "", "other"));
  EXPECT_EQ(silent.parameter(0).sparsity.decays.size(), 1u);
  SparseNet same(owner + conv("param { name: 'w' breadth_decay_mult: 2 }", "", "other"));
  EXPECT_EQ(same.parameter(0).sparsity.decays.size(), 1u);
  EXPECT_THAT(refusal_of(owner + conv("param { name: 'w' breadth_decay_mult: 3 }", "", "other")),
              HasSubstr("parameter \"w\" has breadth_decay_mult: 3 in layer \"other\" (Convolution) and "
                        "breadth_decay_mult: 2 in layer \"conv\" (Convolution); sharers must agree"));
  EXPECT_THAT(refusal_of(conv("param { name: 'w' }") +
                         conv("param { name: 'w' }", "connectivity_mode: DISCONNECTED_ELTWISE", "other")),
              HasSubstr("connectivity_mode: DISCONNECTED_ELTWISE in layer \"other\""));
}

TEST(Connectivity, HoldsWeightsThatAreNearZero) {
  SparseNet net(conv("", "connectivity_mode: DISCONNECTED_ELTWISE"));
  ASSERT_EQ(net.parameter(0).sparsity.held.size(), 1u);
  EXPECT_TRUE(net.parameter(1).sparsity.held.empty()) << "a bias is never held";
  ParameterStore& store = net.net->parameter_store();
  std::vector<double> w(6 * 18, 1), b(6, 1e-5);
  w[3] = 0.99e-4;
  w[4] = -0.99e-4;
  w[5] = 1.01e-4;
  set_values(net.bench.context, w, store.parameters[0].value);
  set_values(net.bench.context, b, store.parameters[1].value);
  disconnect(store, {}, net.bench.context);
  EXPECT_EQ(values_of(net.bench.context, store.parameters[0].value).values, w);
  disconnect(store, {0, 1}, net.bench.context);
  w[3] = w[4] = 0;
  EXPECT_EQ(values_of(net.bench.context, store.parameters[0].value).values, w);
  EXPECT_EQ(values_of(net.bench.context, store.parameters[1].value).values, b);
}

TEST(Connectivity, HoldsRowsAndColumnsOfSuchWeights) {
  SparseNet net(conv("", "connectivity_mode: DISCONNECTED_GRPWISE"));
  ParameterStore& store = net.net->parameter_store();
  std::vector<double> w(6 * 18, 1);
  std::fill_n(w.begin() + 2 * 18, 18, 1e-5);                 // a row
  for (int row = 3; row < 6; ++row) w[row * 18 + 7] = 1e-5;  // a column of the second group
  w[4] = 1e-5;                                               // alone
  set_values(net.bench.context, w, store.parameters[0].value);
  disconnect(store, {0, 1}, net.bench.context);
  std::fill_n(w.begin() + 2 * 18, 18, 0.0);
  for (int row = 3; row < 6; ++row) w[row * 18 + 7] = 0;
  EXPECT_EQ(values_of(net.bench.context, store.parameters[0].value).values, w);
}

TEST(Connectivity, LeavesConnectedLayersAlone) {
  SparseNet net(conv("", "connectivity_mode: CONNECTED"));
  EXPECT_TRUE(net.parameter(0).sparsity.held.empty());
}

}  // namespace
}  // namespace banyan
