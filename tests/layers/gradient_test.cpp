// Every layer with every parameter variant against central differences, in f64.
#include "layers/gradient_case.hpp"

namespace banyan::testing {
namespace {

using Case = GradientCase;

class Gradient : public ::testing::TestWithParam<Case> {};

TEST_P(Gradient, EqualsCentralDifferences) { check_gradients(GetParam()); }

std::string conv(const std::string& settings) {
  return "type: 'Convolution' convolution_param { num_output: 4 " + settings + " }";
}
std::string pool(const std::string& settings) { return "type: 'Pooling' pooling_param { " + settings + " }"; }

const Shape kImage{2, 4, 5, 7}, kSmall{2, 3, 4, 3};

const std::vector<Case> kCases = {
    {"conv", conv("kernel_size: 3"), {kImage}},
    {"conv_pad_stride", conv("kernel_size: 3 pad: 1 stride: 2"), {kImage}},
    {"conv_group", conv("kernel_size: 3 group: 2 pad: 2"), {kImage}},
    {"conv_dilation", conv("kernel_size: 2 dilation: 2 bias_term: false"), {kImage}},
    {"conv_hw", conv("kernel_h: 1 kernel_w: 3 pad_w: 1 stride_h: 2 dilation_w: 2 dilation_h: 1"), {kImage}},
    {"conv_two_inputs", conv("kernel_size: 2"), {kImage, Shape{1, 4, 5, 7}}, 2},
    {"conv_1d", conv("kernel_size: 3 stride: 2 pad: 1"), {Shape{2, 3, 9}}},
    {"conv_3d", conv("kernel_size: [2, 1, 3] stride: [1, 2, 1]"), {Shape{1, 2, 3, 4, 5}}},
    {"conv_axis_2", conv("kernel_size: 2 axis: 2"), {Shape{2, 2, 3, 4, 3}}},
    {"conv_no_spatial_axis", conv("kernel_size: 1 axis: -1"), {Shape{2, 3, 4}}},
    {"inner_product", "type: 'InnerProduct' inner_product_param { num_output: 5 }", {kSmall}},
    {"inner_product_transposed",
     "type: 'InnerProduct' inner_product_param { num_output: 5 transpose: true }",
     {kSmall}},
    {"inner_product_axis_2",
     "type: 'InnerProduct' inner_product_param { num_output: 2 axis: 2 bias_term: false }",
     {kSmall}},
    {"inner_product_axis_last",
     "type: 'InnerProduct' inner_product_param { num_output: 2 axis: -1 transpose: true }",
     {kSmall}},
    {"pool_max", pool("kernel_size: 3 stride: 2"), {kImage}},
    {"pool_max_padded", pool("kernel_size: 3 stride: 2 pad: 1"), {kImage}},
    {"pool_ave", pool("pool: AVE kernel_size: 3 stride: 2 pad: 1"), {kImage}},
    {"pool_ave_hw",
     pool("pool: AVE kernel_h: 2 kernel_w: 4 stride_h: 1 stride_w: 3 pad_h: 0 pad_w: 2"),
     {kImage}},
    {"pool_ave_inside", pool("pool: AVE kernel_size: 3 stride: 2 pad: 1 avg_include_pad: false"), {kImage}},
    {"pool_global_ave", pool("pool: AVE global_pooling: true"), {kImage}},
    {"pool_global_max", pool("global_pooling: true"), {kImage}},
    {"pool_floor", pool("kernel_size: 2 stride: 2 round_mode: FLOOR"), {kImage}},
    {"relu", "type: 'ReLU'", {kSmall}},
    {"relu_slope", "type: 'ReLU' relu_param { negative_slope: 0.3 }", {kSmall}},
    {"relu_negative_slope", "type: 'ReLU' relu_param { negative_slope: -0.3 }", {kSmall}},
    {"relu_in_place", "type: 'ReLU' relu_param { negative_slope: 0.3 }", {kSmall}, 1, 0, true},
    {"sigmoid", "type: 'Sigmoid'", {kSmall}},
    {"sigmoid_in_place", "type: 'Sigmoid'", {kSmall}, 1, 0, true},
    {"tanh", "type: 'TanH'", {kSmall}},
    {"tanh_in_place", "type: 'TanH'", {kSmall}, 1, 0, true},
    {"elu", "type: 'ELU'", {kSmall}},
    {"elu_alpha_in_place", "type: 'ELU' elu_param { alpha: 0.4 }", {kSmall}, 1, 0, true},
    {"elu_lambda", "type: 'ELU' elu_param { alpha: 1.67 lambda: 1.05 }", {kSmall}},
    {"dropout", "type: 'Dropout' dropout_param { dropout_ratio: 0.4 }", {kSmall}},
    {"dropout_in_place", "type: 'Dropout'", {kSmall}, 1, 0, true},
    {"lrn", "type: 'LRN' lrn_param { local_size: 3 alpha: 0.7 beta: 0.6 k: 1.5 }", {Shape{2, 5, 3, 2}}},
    {"lrn_wide", "type: 'LRN' lrn_param { local_size: 7 alpha: 2 }", {kSmall}},
    {"lrn_within",
     "type: 'LRN' lrn_param { local_size: 3 alpha: 0.7 norm_region: WITHIN_CHANNEL k: 9 }",
     {Shape{2, 2, 4, 5}}},
    {"eltwise_sum", "type: 'Eltwise'", {kSmall, kSmall}},
    {"eltwise_coeff", "type: 'Eltwise' eltwise_param { coeff: [2, -1, 0.5] }", {kSmall, kSmall, kSmall}},
    {"eltwise_stochastic",  // with the tests' seed and draw both kinds occur, see Eltwise.StochasticSum...
     "type: 'Eltwise' eltwise_param { operation: STOCHASTIC_SUM coeff: [0.5, 0.5, 0.5, 0.5, 1] }",
     {kSmall, kSmall, kSmall, kSmall, kSmall}},
    {"eltwise_prod", "type: 'Eltwise' eltwise_param { operation: PROD }", {kSmall, kSmall, kSmall}},
    {"eltwise_prod_two", "type: 'Eltwise' eltwise_param { operation: PROD }", {kSmall, kSmall}},
    {"eltwise_prod_unstable",
     "type: 'Eltwise' eltwise_param { operation: PROD stable_prod_grad: false }",
     {kSmall, kSmall, kSmall}},
    {"eltwise_max", "type: 'Eltwise' eltwise_param { operation: MAX }", {kSmall, kSmall, kSmall}},
    {"concat", "type: 'Concat'", {Shape{2, 3, 2, 2}, Shape{2, 1, 2, 2}, Shape{2, 2, 2, 2}}},
    {"concat_axis_0", "type: 'Concat' concat_param { axis: 0 }", {Shape{2, 3}, Shape{1, 3}}},
    {"concat_old", "type: 'Concat' concat_param { concat_dim: 2 }", {Shape{2, 3, 1}, Shape{2, 3, 4}}},
    {"concat_last", "type: 'Concat' concat_param { axis: -1 }", {Shape{2, 3, 1}, Shape{2, 3, 4}}},
    {"slice", "type: 'Slice'", {Shape{2, 6, 3}}, 3},
    {"slice_points",
     "type: 'Slice' slice_param { axis: 2 slice_point: 1 slice_point: 3 }",
     {Shape{2, 2, 5}},
     3},
    {"slice_old", "type: 'Slice' slice_param { slice_dim: 0 }", {Shape{4, 3}}, 2},
    {"split", "type: 'Split'", {kSmall}, 3},
    {"flatten", "type: 'Flatten'", {kSmall}},
    {"flatten_axes", "type: 'Flatten' flatten_param { axis: 0 end_axis: -2 }", {kSmall}},
    {"reshape", "type: 'Reshape' reshape_param { shape { dim: 0 dim: -1 dim: 2 } }", {kSmall}},
    {"scale", "type: 'Scale'", {kSmall}},
    {"scale_bias", "type: 'Scale' scale_param { bias_term: true }", {kSmall}},
    {"scale_two_axes", "type: 'Scale' scale_param { axis: 1 num_axes: 2 bias_term: true }", {kSmall}},
    {"scale_to_the_end", "type: 'Scale' scale_param { axis: 2 num_axes: -1 bias_term: true }", {kSmall}},
    {"scale_scalar", "type: 'Scale' scale_param { num_axes: 0 bias_term: true }", {kSmall}},
    {"scale_two_inputs", "type: 'Scale' scale_param { axis: 0 bias_term: true }", {kSmall, Shape{2, 3}}},
    {"scale_two_inputs_last_axis", "type: 'Scale' scale_param { axis: -1 }", {kSmall, Shape{3}}},
    {"scale_two_inputs_scalar", "type: 'Scale'", {kSmall, Shape{}}},
    {"bias", "type: 'Bias'", {kSmall}},
    {"bias_in_place", "type: 'Bias'", {kSmall}, 1, 0, true},
    {"bias_two_axes", "type: 'Bias' bias_param { axis: 2 num_axes: 2 }", {kSmall}},
    {"bias_two_inputs", "type: 'Bias' bias_param { axis: 1 }", {kSmall, Shape{3, 4}}},
    {"batch_norm", "type: 'BatchNorm'", {kSmall}},
    {"batch_norm_biased", "type: 'BatchNorm' batch_norm_param { variance: BIASED eps: 0.1 }", {kSmall}},
    {"batch_norm_parts",
     "type: 'BatchNorm' batch_norm_param { stats_batch_size: 2 eps: 0.1 scale_bias: true }",
     {Shape{5, 3, 2, 2}}},
    {"batch_norm_scale_bias", "type: 'BatchNorm' batch_norm_param { scale_bias: true }", {kSmall}},
    {"batch_norm_global", "type: 'BatchNorm' batch_norm_param { use_global_stats: true eps: 0.5 }", {kSmall}},
    {"batch_norm_vectors", "type: 'BatchNorm'", {Shape{5, 3}}},
    {"batch_norm_one_axis", "type: 'BatchNorm'", {Shape{7}}},
    {"bn", "type: 'BN'", {kSmall}},
    {"bn_frozen", "type: 'BN' bn_param { frozen: true }", {kSmall}},
    {"sync_bn", "type: 'SyncBN'", {Shape{3, 2, 5}}},
    {"softmax", "type: 'Softmax'", {kSmall}},
    {"softmax_axis", "type: 'Softmax' softmax_param { axis: 2 }", {kSmall}},
    {"softmax_loss", "type: 'SoftmaxWithLoss'", {Shape{5, 4}, Shape{5}}, 1, 4},
    {"softmax_loss_spatial",
     "type: 'SoftmaxWithLoss' loss_param { ignore_label: 1 }",
     {kSmall, Shape{2, 1, 4, 3}},
     1,
     3},
    {"softmax_loss_full",
     "type: 'SoftmaxWithLoss' loss_param { ignore_label: 1 normalization: FULL }",
     {kSmall, Shape{2, 4, 3}},
     1,
     3},
    {"softmax_loss_batch",
     "type: 'SoftmaxWithLoss' loss_param { normalization: BATCH_SIZE }",
     {kSmall, Shape{2, 4, 3}},
     1,
     3},
    {"softmax_loss_none",
     "type: 'SoftmaxWithLoss' loss_param { normalization: NONE }",
     {kSmall, Shape{2, 4, 3}},
     1,
     3},
    {"softmax_loss_old_false",
     "type: 'SoftmaxWithLoss' loss_param { normalize: false }",
     {kSmall, Shape{2, 4, 3}},
     1,
     3},
    {"softmax_loss_axis",
     "type: 'SoftmaxWithLoss' softmax_param { axis: -1 }",
     {kSmall, Shape{2, 3, 4}},
     1,
     3},
    {"euclidean", "type: 'EuclideanLoss'", {kSmall, Shape{2, 36}}},
};

INSTANTIATE_TEST_SUITE_P(Layers, Gradient, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(BatchNormInTests, HasTheGradientOfConstantStatistics) {
  BenchOptions options;
  options.phase = Phase::test;
  for (const char* text : {"type: 'BN' bn_param { eps: 0.5 }",
                           "type: 'BatchNorm' batch_norm_param { scale_bias: true eps: 0.5 }"}) {
    Bench bench(text, {kSmall}, 1, options);
    bench.set_input(0, spread_values(kSmall.count(), 1));
    for (std::size_t p = 0; p < bench.layer().parameters().size(); ++p)
      if (bench.layer().parameters()[p].grad.defined()) bench.set_parameter(p, {1.5, -2, 0.5});
    GradientChecker(bench).run();
  }
}

TEST(ParameterLayer, IsItsParameterAndPassesTheGradientOn) {
  Bench bench("type: 'Parameter' parameter_param { shape { dim: 2 dim: 3 } }", {}, 1);
  bench.set_parameter(0, {1, 2, 3, 4, 5, 6});
  GradientChecker(bench).run();
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{1, 2, 3, 4, 5, 6}));
}

TEST(Silence, GivesZeroGradients) {
  Bench bench("type: 'Silence'", {kSmall, kSmall}, 0);
  set_values(bench.context(), bench.inputs[1]->grad, spread_values(kSmall.count(), 1));
  bench.forward();
  bench.backward(std::vector<Values>{});
  EXPECT_EQ(bench.input_gradient(1), Values(static_cast<std::size_t>(kSmall.count()), 0));
}

TEST(ParameterGradients, AreAddedTo) {
  for (const std::string& text :
       {conv("kernel_size: 3"), std::string("type: 'InnerProduct' inner_product_param { num_output: 2 }"),
        std::string("type: 'Scale' scale_param { bias_term: true }"), std::string("type: 'Bias'"),
        std::string("type: 'BN' bn_param { slope_filler { value: 1 } }")}) {
    Bench bench(text, {kImage}, 1);
    bench.set_input(0, spread_values(kImage.count(), 5));
    const Values weights = spread_values(bench.outputs[0]->shape.count(), 6);
    bench.forward();
    bench.backward(weights);
    const Values once = bench.parameter_gradient(0);
    bench.backward(weights);
    Values twice = once;
    for (double& value : twice) value *= 2;
    expect_near(bench.parameter_gradient(0), twice, 1e-12, text);  // rounding of f64
  }
}

}  // namespace
}  // namespace banyan::testing
