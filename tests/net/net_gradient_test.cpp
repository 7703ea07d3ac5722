// Whole nets against finite differences, with and without channels-last activations.
#include <cmath>

#include "net/net_test_tools.hpp"

namespace banyan {
namespace {

std::string convolution(const std::string& name, const std::string& bottom, int outputs, int kernel,
                        int stride = 1) {
  return "layer { name: '" + name + "' type: 'Convolution' bottom: '" + bottom + "' top: '" + name +
         "' convolution_param { num_output: " + std::to_string(outputs) +
         " kernel_size: " + std::to_string(kernel) + " stride: " + std::to_string(stride) +
         " pad: " + std::to_string(kernel / 2) +
         " weight_filler { type: 'msra' } bias_filler { type: 'uniform' min: -0.1 max: 0.1 } } } ";
}
std::string batch_norm(const std::string& blob, const std::string& in_place) {
  const std::string top = in_place.empty() ? blob + "_n" : blob;
  return "layer { name: 'bn_" + blob + "' type: 'BatchNorm' bottom: '" + blob + "' top: '" + top + "' } " +
         "layer { name: 'scale_" + blob + "' type: 'Scale' bottom: '" + top + "' top: '" + top +
         "' scale_param { bias_term: true filler { type: 'uniform' min: 0.5 max: 1.5 } bias_filler { type: "
         "'uniform' } } } ";
}
std::string relu(const std::string& blob) {
  return "layer { name: 'relu_" + blob + "' type: 'ReLU' bottom: '" + blob + "' top: '" + blob + "' } ";
}
std::string input(int batch, int size) {
  const std::string n = std::to_string(batch), s = std::to_string(size);
  return "layer { name: 'in' type: 'Input' top: 'data' top: 'label' input_param { shape { dim: " + n +
         " dim: 3 dim: " + s + " dim: " + s + " } shape { dim: " + n + " } } } ";
}
std::string head(const std::string& bottom) {
  return "layer { name: 'ip' type: 'InnerProduct' bottom: '" + bottom +
         "' top: 'ip' inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } } "
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' } ";
}

std::string lenet() {
  return input(3, 10) + convolution("conv1", "data", 4, 3) +
         "layer { name: 'pool1' type: 'Pooling' bottom: 'conv1' top: 'pool1' pooling_param { kernel_size: 2 "
         "stride: 2 } } " +
         convolution("conv2", "pool1", 6, 3) +
         "layer { name: 'pool2' type: 'Pooling' bottom: 'conv2' top: 'pool2' pooling_param { kernel_size: 2 "
         "stride: 2 } } "
         "layer { name: 'ip1' type: 'InnerProduct' bottom: 'pool2' top: 'ip1' inner_product_param { "
         "num_output: 9 "
         "weight_filler { type: 'xavier' } } } " +
         relu("ip1") + head("ip1");
}

// Two residual blocks; in the second the shortcut is a convolution. Where the library so chooses, the
// branches meet in different layouts.
std::string resnet() {
  return input(4, 8) + convolution("c1", "data", 4, 3) + batch_norm("c1", "in place") + relu("c1") +
         convolution("c2", "c1", 4, 3) + batch_norm("c2", "in place") +
         "layer { name: 'sum1' type: 'Eltwise' bottom: 'c1' bottom: 'c2' top: 'sum1' } " + relu("sum1") +
         convolution("c3", "sum1", 6, 3, 2) + batch_norm("c3", "") + convolution("short", "sum1", 6, 1, 2) +
         "layer { name: 'sum2' type: 'Eltwise' bottom: 'c3_n' bottom: 'short' top: 'sum2' } " + relu("sum2") +
         "layer { name: 'pool' type: 'Pooling' bottom: 'sum2' top: 'pool' pooling_param { pool: AVE "
         "global_pooling: true } } " +
         head("pool");
}

/// A residual block whose ReLUs all run as part of other layers.
std::string sync_resnet() {
  const auto sync_bn = [](const std::string& blob) {
    return "layer { name: 'bn_" + blob + "' type: 'SyncBN' bottom: '" + blob + "' top: '" + blob +
           "_n' bn_param { slope_filler { type: 'uniform' min: 0.5 max: 1.5 } bias_filler { type: 'uniform' "
           "min: -0.5 max: 0.5 } } } ";
  };
  return input(4, 8) + convolution("c1", "data", 4, 3) + sync_bn("c1") + relu("c1_n") +
         convolution("c2", "c1_n", 4, 3) + sync_bn("c2") + relu("c2_n") + convolution("c3", "c2_n", 4, 3) +
         sync_bn("c3") + "layer { name: 'sum' type: 'Eltwise' bottom: 'c1_n' bottom: 'c3_n' top: 'sum' } " +
         relu("sum") + convolution("c4", "sum", 4, 1) + relu("c4") +
         "layer { name: 'sum2' type: 'Eltwise' bottom: 'sum' bottom: 'c4' top: 'sum2' } " + head("sum2");
}

/// Batch normalizations that keep only the output of the activation after them.
std::string in_place_abn() {
  const auto elu = [](const std::string& blob, const std::string& top) {
    return "layer { name: 'elu_" + top + "' type: 'ELU' bottom: '" + blob + "' top: '" + top + "' } ";
  };
  const auto bn = [](const std::string& type, const std::string& blob, const std::string& more) {
    return "layer { name: 'bn_" + blob + "' type: '" + type + "' bottom: '" + blob + "' top: '" + blob +
           "_n' " + more + " } ";
  };
  const std::string affine =
      "bn_param { slope_filler { type: 'uniform' min: 0.5 max: 1.5 } bias_filler { type: 'uniform' min: -0.5 "
      "max: 0.5 } }";
  return "in_place_abn: true " + input(4, 8) + convolution("c1", "data", 4, 3) + bn("SyncBN", "c1", affine) +
         "layer { name: 'relu' type: 'ReLU' bottom: 'c1_n' top: 'c1_n' relu_param { negative_slope: 0.1 } "
         "} " +
         convolution("c2", "c1_n", 4, 3) + bn("BN", "c2", affine) + elu("c2_n", "c2_e") +
         convolution("c3", "c2_e", 4, 3) + bn("BatchNorm", "c3", "") + elu("c3_n", "c3_n") +
         "layer { name: 'sum' type: 'Eltwise' bottom: 'c1_n' bottom: 'c3_n' top: 'sum' } " + head("sum");
}

// Layers that need contiguous tensors among those that want channels-last; branches through Slice, Concat and
// Flatten.
std::string mixed() {
  return input(3, 6) + convolution("c1", "data", 4, 3) +
         "layer { name: 'sm' type: 'Softmax' bottom: 'c1' top: 'sm' } "
         "layer { name: 'cat' type: 'Concat' bottom: 'c1' bottom: 'sm' top: 'cat' } " +
         convolution("c2", "cat", 4, 3) +
         "layer { name: 'slice' type: 'Slice' bottom: 'c2' top: 'left' top: 'right' top: 'unused' "
         "slice_param { "
         "slice_point: 1 slice_point: 3 } } "
         "layer { name: 'quiet' type: 'Silence' bottom: 'unused' } "
         "layer { name: 'lrn' type: 'LRN' bottom: 'right' top: 'lrn' lrn_param { local_size: 3 alpha: 0.5 } "
         "} "
         "layer { name: 'flat' type: 'Flatten' bottom: 'lrn' top: 'flat' } "
         "layer { name: 'flat2' type: 'Flatten' bottom: 'left' top: 'flat2' } "
         "layer { name: 'act' type: 'TanH' bottom: 'flat2' top: 'flat2' } "
         "layer { name: 'all' type: 'Concat' bottom: 'flat' bottom: 'flat2' top: 'all' } " +
         head("all");
}

// What nets for segmentation and detection have besides: unpooling, transposed and depthwise convolution,
// resizing, crops, other orders of channels and axes.
std::string spatial() {
  const std::string fillers = " weight_filler { type: 'msra' } bias_filler { type: 'uniform' } } } ";
  return input(2, 6) + convolution("c1", "data", 4, 3) + relu("c1") +
         "layer { name: 'pool' type: 'Pooling' bottom: 'c1' top: 'pool' top: 'mask' "
         "pooling_param { kernel_size: 2 stride: 2 } } "
         "layer { name: 'dw' type: 'ConvolutionDepthwise' bottom: 'pool' top: 'dw' "
         "convolution_param { num_output: 8 kernel_size: 3 pad: 1" +
         fillers +
         "layer { name: 'shuffle' type: 'ShuffleChannel' bottom: 'dw' top: 'shuffle' "
         "shuffle_channel_param { group: 2 } } " +
         convolution("c2", "shuffle", 4, 1) +
         "layer { name: 'up' type: 'Upsample' bottom: 'c2' bottom: 'mask' top: 'up' } "
         "layer { name: 'deconv' type: 'Deconvolution' bottom: 'up' top: 'deconv' "
         "convolution_param { num_output: 3 kernel_size: 4 stride: 2 pad: 1" +
         fillers + relu("deconv") +
         "layer { name: 'interp' type: 'Interp' bottom: 'deconv' top: 'interp' "
         "interp_param { height: 9 width: 7 } } "
         "layer { name: 'crop' type: 'Crop' bottom: 'interp' bottom: 'data' top: 'crop' "
         "crop_param { offset: 1 offset: 0 } } "
         "layer { name: 'perm' type: 'Permute' bottom: 'crop' top: 'perm' "
         "permute_param { order: [0, 2, 3, 1] } } "
         "layer { name: 'flat' type: 'Flatten' bottom: 'perm' top: 'flat' } " +
         head("flat");
}

// Volumes through what takes them in both layouts, and through what wants them contiguous (Softmax, Im2col).
std::string volumes() {
  const auto layer = [](const std::string& name, const std::string& type, const std::string& bottoms,
                        const std::string& settings) {
    return "layer { name: '" + name + "' type: '" + type + "' " + bottoms + " top: '" + name + "' " +
           settings + " } ";
  };
  return "layer { name: 'in' type: 'Input' top: 'data' top: 'label' input_param { shape { dim: 3 dim: 3 dim: "
         "5 dim: 7 dim: 6 } shape { dim: 3 } } } " +
         convolution("c1", "data", 8, 3) + batch_norm("c1", "in place") + relu("c1") +
         convolution("c2", "c1", 8, 3) + layer("sum", "Eltwise", "bottom: 'c1' bottom: 'c2'", "") +
         layer("pool1", "Pooling", "bottom: 'sum'",
               "pooling_param { kernel_size: [2, 3, 3] stride: [1, 2, 2] pad: [0, 1, 1] }") +
         convolution("c3", "pool1", 8, 3, 2) +
         layer("up", "Deconvolution", "bottom: 'c3'",
               "convolution_param { num_output: 6 kernel_size: 3 stride: 2 pad: 1 weight_filler { type: "
               "'msra' } bias_filler { type: 'uniform' } }") +
         relu("up") +
         layer("crop", "Crop", "bottom: 'pool1' bottom: 'up'", "crop_param { axis: 2 offset: [1, 0, 1] }") +
         layer("mvn", "MVN", "bottom: 'crop'", "mvn_param { eps: 0.01 }") +
         layer("sm", "Softmax", "bottom: 'mvn'", "") +
         layer("cat", "Concat", "bottom: 'mvn' bottom: 'up' bottom: 'sm'", "") +
         layer("pool2", "Pooling", "bottom: 'cat'",
               "pooling_param { pool: AVE kernel_size: 2 stride: [1, 2, 1] pad: [1, 0, 0] }") +
         layer(
             "lengths", "Normalize", "bottom: 'pool2'",
             "norm_param { across_spatial: false channel_shared: false eps: 0.01 scale_filler { value: 1.5 } "
             "}") +
         layer("factors", "PReLU", "bottom: 'lengths'", "") +
         layer("windows", "Im2col", "bottom: 'factors'", "convolution_param { kernel_size: 2 stride: 2 }") +
         layer("shuffled", "ShuffleChannel", "bottom: 'factors'", "shuffle_channel_param { group: 2 }") +
         layer("point", "Pooling", "bottom: 'shuffled'", "pooling_param { pool: AVE global_pooling: true }") +
         layer("flat1", "Flatten", "bottom: 'windows'", "") +
         layer("flat2", "Flatten", "bottom: 'point'", "") +
         layer("all", "Concat", "bottom: 'flat1' bottom: 'flat2'", "") + head("all");
}

/// A ReLU in place whose signs another branch is multiplied by (DecoupledNet).
std::string masked() {
  return input(3, 6) + convolution("c1", "data", 4, 3) + relu("c1") +
         "layer { name: 'marks' type: 'Threshold' bottom: 'c1' top: 'marks' } " +
         convolution("c2", "c1", 4, 3) +
         "layer { name: 'masked' type: 'Eltwise' bottom: 'c2' bottom: 'marks' top: 'c2' eltwise_param { "
         "operation: PROD } } " +
         head("c2");
}

double run(NetBench& bench, Net& net) {
  net.forward(bench.pass);
  return loss_of(bench, net);
}

// Central differences in f64: truncation of order h^2 = 1e-10, rounding eps / h = 1e-11, relative to values
// of order 1. 2e-6 leaves room for curvature; a ReLU or pooling flip within h would show as a far larger
// error.
void check_gradients(const std::string& text, bool reuse_memory) {
  constexpr double kStep = 1e-5, kTolerance = 2e-6;
  NetBench bench;
  NetOptions options = f64_options();
  options.reuse_memory = reuse_memory;
  const auto net = bench.make(text, options);
  feed<double>(bench, *net, 5);
  net->zero_gradients();
  run(bench, *net);
  net->backward(bench.pass);
  for (LearnableParameter& parameter : net->parameters()) {
    if (parameter.is_statistic) continue;
    const auto gradient = values_of<double>(bench.context, parameter.grad);
    auto values = values_of<double>(bench.context, parameter.value);
    const std::size_t stride = std::max<std::size_t>(1, values.size() / 7);
    for (std::size_t i = 0; i < values.size(); i += stride) {
      const double before = values[i];
      const auto loss_at = [&](double value) {
        values[i] = value;
        copy_from_host(bench.context, values.data(), parameter.value);
        return run(bench, *net);
      };
      const double numeric = (loss_at(before + kStep) - loss_at(before - kStep)) / (2 * kStep);
      loss_at(before);
      EXPECT_NEAR(gradient[i], numeric, kTolerance * std::max(1.0, std::abs(numeric)))
          << parameter.layer << " blob " << parameter.slot << " element " << i;
    }
  }
}

TEST(NetGradient, LeNet) { check_gradients(lenet(), true); }
TEST(NetGradient, ResNet) { check_gradients(resnet(), true); }
TEST(NetGradient, SyncBatchNormWithReLU) { check_gradients(sync_resnet(), true); }
TEST(NetGradient, InPlaceAbn) { check_gradients(in_place_abn(), true); }
TEST(NetGradient, MixedLayers) { check_gradients(mixed(), true); }
TEST(NetGradient, MixedLayersWithSeparateMemory) { check_gradients(mixed(), false); }
TEST(NetGradient, Volumes) { check_gradients(volumes(), true); }
TEST(NetGradient, SpatialLayers) { check_gradients(spatial(), true); }
TEST(NetGradient, SignsOfARelu) { check_gradients(masked(), true); }

class LayoutPlan : public testing::TestWithParam<std::string (*)()> {};

std::size_t layout_copies(const Net& net) {
  std::size_t copies = 0;
  for (std::size_t i = 0; i < net.plan().backward; ++i) copies += net.plan().steps[i].copies.size();
  return copies;
}

// f32: the two layouts sum in different orders, and so differ by the rounding of sums of up to about 100
// products of order 1, 1e-5 relative, amplified by a handful of layers.
TEST_P(LayoutPlan, ChannelsLastGivesTheSameResults) {
  NetBench bench;
  std::vector<double> losses;
  std::vector<std::vector<float>> gradients;
  std::vector<std::size_t> conversions;
  for (const bool channels_last : {false, true}) {
    NetOptions options;
    options.seed = 5;
    options.channels_last = channels_last;
    const auto net = bench.make(GetParam()(), options);
    feed<float>(bench, *net, 5);
    losses.push_back(run(bench, *net));
    net->backward(bench.pass);
    gradients.push_back(values_of<float>(bench.context, net->flat_gradients()));
    conversions.push_back(layout_copies(*net));
  }
  EXPECT_EQ(conversions[0], 0u);
  EXPECT_NEAR(losses[0], losses[1], 1e-4 * losses[0]);
  double largest = 0;
  for (const float g : gradients[0]) largest = std::max(largest, std::abs(static_cast<double>(g)));
  ASSERT_EQ(gradients[0].size(), gradients[1].size());
  for (std::size_t i = 0; i < gradients[0].size(); ++i)
    ASSERT_NEAR(gradients[0][i], gradients[1][i], 2e-4 * largest);
}

// Memory sharing and conversions together: bit-identical with and without.
TEST_P(LayoutPlan, SharedMemoryGivesTheSameBits) {
  NetBench bench;
  std::vector<std::vector<float>> gradients;
  for (const bool reuse : {false, true}) {
    NetOptions options;
    options.seed = 5;
    options.reuse_memory = reuse;
    options.fuse_scale = false;  // saves one rounding
    const auto net = bench.make(GetParam()(), options);
    feed<float>(bench, *net, 5);
    for (int pass = 0; pass < 2; ++pass) {
      run(bench, *net);
      net->backward(bench.pass);
    }
    gradients.push_back(values_of<float>(bench.context, net->flat_gradients()));
  }
  EXPECT_EQ(gradients[0], gradients[1]);
}

INSTANTIATE_TEST_SUITE_P(Nets, LayoutPlan,
                         testing::Values(&lenet, &resnet, &mixed, &masked, &spatial, &volumes));

TEST(LayoutPlan, VolumesLieChannelsLast) {
  NetBench bench;
  NetOptions options;
  options.shapes_only = true;
  const auto net = bench.make(volumes(), options);
  for (const char* blob : {"c1", "sum", "pool1", "up", "cat", "pool2", "shuffled"})
    EXPECT_EQ(net->find_blob(blob)->layout, Layout::channels_last) << blob;
  for (const char* blob : {"sm", "windows"})
    EXPECT_EQ(net->find_blob(blob)->layout, Layout::contiguous) << blob;
}

TEST(LayoutPlan, ConvertsBeforeContiguousLayers) {
  NetBench bench;
  NetOptions options;
  const auto net = bench.make(mixed(), options);
  EXPECT_GT(layout_copies(*net), 0u);
}

}  // namespace
}  // namespace banyan
