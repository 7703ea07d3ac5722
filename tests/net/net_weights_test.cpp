// Reading and writing a Net's weights.
#include "banyan/net/parameter_values.hpp"
#include "net/net_test_tools.hpp"

namespace banyan {
namespace {

using testing::HasSubstr;

const char* kNet =
    "name: 'pair' layer { name: 'in' type: 'Input' top: 'data' top: 'label' input_param { shape { dim: 2 "
    "dim: 3 dim: 4 dim: 4 } "
    "shape { dim: 2 } } } "
    "layer { name: 'bn' type: 'BatchNorm' bottom: 'data' top: 'bn' } "
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'bn' top: 'ip' inner_product_param { num_output: 5 "
    "weight_filler { "
    "type: 'xavier' } bias_filler { type: 'uniform' } } } "
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' } ";

io::BlobData blob(std::vector<std::int64_t> shape, std::vector<float> values) {
  io::BlobData data;
  data.shape = std::move(shape);
  data.floats = std::move(values);
  return data;
}

template <class T>
void check_round_trip(DType dtype) {
  NetBench bench;
  NetOptions options = f64_options();
  options.dtype = dtype;
  const auto from = bench.make(kNet, options);
  options.seed = 77;
  const auto to = bench.make(kNet, options);
  const caffe::NetParameter saved = to_proto(*from, false);
  EXPECT_EQ(saved.name(), "pair");
  EXPECT_EQ(saved.layer_size(), 4);
  EXPECT_EQ(saved.layer(1).blobs_size(), 3);
  EXPECT_EQ(saved.layer(2).phase(), caffe::TRAIN);
  EXPECT_EQ(saved.layer(2).blobs(0).data_size() > 0, dtype == DType::f32);
  EXPECT_EQ(saved.layer(2).blobs(0).double_data_size() > 0, dtype == DType::f64);
  EXPECT_EQ(saved.layer(2).blobs(0).diff_size() + saved.layer(2).blobs(0).double_diff_size(), 0);
  EXPECT_FALSE(saved.has_state());
  const std::string bytes = saved.SerializeAsString();
  EXPECT_NE(values_of<T>(bench.context, from->parameters()[3].value),
            values_of<T>(bench.context, to->parameters()[3].value));
  load_weights(*to, io::parse_weights(bytes, "m.caffemodel"), "m.caffemodel");
  for (std::size_t i = 0; i < from->parameters().size(); ++i)
    EXPECT_EQ(values_of<T>(bench.context, from->parameters()[i].value),
              values_of<T>(bench.context, to->parameters()[i].value));
}

TEST(NetWeights, RoundTripSingle) { check_round_trip<float>(DType::f32); }
TEST(NetWeights, RoundTripDouble) { check_round_trip<double>(DType::f64); }

TEST(NetWeights, WritesGradientsWhenAsked) {
  NetBench bench;
  const auto net = bench.make(kNet, f64_options());
  feed<double>(bench, *net, 5);
  net->forward(bench.pass);
  net->backward(bench.pass);
  const caffe::NetParameter saved = to_proto(*net, true);
  const auto gradient = values_of<double>(bench.context, net->parameters()[3].grad);
  ASSERT_EQ(saved.layer(2).blobs(0).double_diff_size(), static_cast<int>(gradient.size()));
  EXPECT_EQ(saved.layer(2).blobs(0).double_diff(7), gradient[7]);
  EXPECT_EQ(saved.layer(2).blobs(0).double_data_size(), static_cast<int>(gradient.size()));
}

TEST(NetWeights, SkipsLayersThatOneSideHas) {
  NetBench bench;
  const auto net = bench.make(kNet, f64_options());
  const auto before = values_of<double>(bench.context, net->parameters()[3].value);
  io::ModelWeights weights;
  weights.layers.push_back({"elsewhere", "InnerProduct", {blob({1}, {3})}});
  weights.layers.push_back({"bn", "BatchNorm", {blob({3}, {1, 2, 3}), blob({3}, {4, 5, 6}), blob({1}, {2})}});
  load_weights(*net, weights, "w");
  EXPECT_EQ(values_of<double>(bench.context, net->parameters()[0].value), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(values_of<double>(bench.context, net->parameters()[2].value), (std::vector<double>{2}));
  EXPECT_EQ(values_of<double>(bench.context, net->parameters()[3].value), before);
}

TEST(NetWeights, SaysWhatIsNotFinite) {
  NetBench bench;
  const auto net = bench.make(kNet, f64_options());
  io::ModelWeights weights;
  for (const float value : {1.0F, std::numeric_limits<float>::infinity()}) {
    weights.layers = {{"ip", "InnerProduct", {blob({5, 48}, std::vector<float>(240, value))}}};
    weights.layers[0].blobs.push_back(blob({5}, std::vector<float>(5)));
    ::testing::internal::CaptureStderr();
    load_weights(*net, weights, "w.caffemodel");
    const std::string logged = ::testing::internal::GetCapturedStderr();
    const bool told =
        logged.find("w.caffemodel: weights that are not finite in layer \"ip\"") != std::string::npos;
    EXPECT_EQ(told, !std::isfinite(value)) << logged;
  }
}

TEST(NetWeights, StoredStatisticsThatAreMissingAreTold) {
  NetBench bench;
  const auto told = [&](const std::string& settings, float factor) {
    const auto net =
        bench.make(std::string(kSource) + "layer { name: 'bn' type: 'BatchNorm' bottom: 'data' top: 'bn' " +
                       settings + " }",
                   f64_options());
    io::ModelWeights weights;
    weights.layers = {{"bn", "BatchNorm", {blob({3}, {1, 2, 3}), blob({3}, {4, 5, 6}), blob({1}, {factor})}}};
    load_weights(*net, weights, "w");
    ::testing::internal::CaptureStderr();
    warn_of_missing_statistics(*net);
    return ::testing::internal::GetCapturedStderr().find(
               "layer \"bn\": use_global_stats normalizes with stored statistics, and there are none") !=
           std::string::npos;
  };
  EXPECT_TRUE(told("batch_norm_param { use_global_stats: true }", 0));
  EXPECT_FALSE(told("batch_norm_param { use_global_stats: true }", 1));
  EXPECT_FALSE(told("batch_norm_param { use_global_stats: false }", 0));
  EXPECT_FALSE(told("", 0));
}

TEST(NetWeights, RefusesWrongShapesAndCounts) {
  NetBench bench;
  const auto net = bench.make(kNet, f64_options());
  io::ModelWeights weights;
  weights.layers.push_back(
      {"ip", "InnerProduct", {blob({5, 4}, std::vector<float>(20)), blob({5}, std::vector<float>(5))}});
  const auto shape = message_of([&] { load_weights(*net, weights, "w.caffemodel"); });
  EXPECT_THAT(
      shape,
      HasSubstr(
          "layer \"ip\" (InnerProduct), blob 0: the net needs shape (5, 48), the file has shape (5, 4)"));
  EXPECT_THAT(shape, HasSubstr("while reading weights from w.caffemodel"));
  weights.layers[0].blobs.pop_back();
  EXPECT_THAT(message_of([&] { load_weights(*net, weights, "w"); }),
              HasSubstr("layer \"ip\" (InnerProduct): the net needs 2 blobs, the file has 1"));
}

TEST(NetWeights, LeavesOtherShapesOutIfToldTo) {
  NetBench bench;
  const auto net = bench.make(kNet, f64_options());
  io::ModelWeights weights;
  weights.layers.push_back(
      {"ip", "InnerProduct", {blob({5, 4}, std::vector<float>(20)), blob({5}, std::vector<float>(5, 3))}});
  const std::vector<double> before =
      values_of<double>(bench.context, net->layers()[2]->parameters()[0].value);
  ::testing::internal::CaptureStderr();
  const std::set<int> filled = load_weights(*net, weights, "w.caffemodel", OtherShapes::skip);
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      HasSubstr("layer \"ip\" (InnerProduct), blob 0: the net needs shape (5, 48), the file has shape "
                "(5, 4); it is left out (ignore_shape_mismatch)"));
  EXPECT_EQ(filled.size(), 1u);
  EXPECT_EQ(values_of<double>(bench.context, net->layers()[2]->parameters()[0].value), before);
  EXPECT_EQ(values_of<double>(bench.context, net->layers()[2]->parameters()[1].value),
            std::vector<double>(5, 3));
}

/// A classifier's fully connected layer as a convolution over its whole input, and back.
TEST(NetWeights, AnInnerProductIsAConvolutionOverTheWholeMap) {
  const std::string input =
      "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 3 dim: 4 dim: 2 } } } ";
  const std::string inner =
      input +
      "layer { name: 'fc' type: 'InnerProduct' bottom: 'x' top: 'y' inner_product_param { "
      "num_output: 5 weight_filler { type: 'xavier' } } } ";
  const std::string window =
      input +
      "layer { name: 'fc' type: 'Convolution' bottom: 'x' top: 'y' convolution_param { "
      "num_output: 5 kernel_h: 4 kernel_w: 2 weight_filler { type: 'xavier' } } } ";
  for (const auto& [from, to] : {std::pair{inner, window}, std::pair{window, inner}}) {
    NetBench bench;
    const auto given = bench.make(from.c_str(), f64_options()), taken = bench.make(to.c_str(), f64_options());
    load_weights(*taken, io::parse_weights(to_proto(*given, false).SerializeAsString(), "m"), "m");
    EXPECT_EQ(values_of<double>(bench.context, taken->parameters()[0].value),
              values_of<double>(bench.context, given->parameters()[0].value));
  }
  // The same number of values in other rows are other weights.
  NetBench bench;
  const auto net = bench.make(window.c_str(), f64_options());
  io::ModelWeights weights;
  weights.layers.push_back(
      {"fc", "InnerProduct", {blob({10, 12}, std::vector<float>(120)), blob({5}, std::vector<float>(5))}});
  EXPECT_THAT(message_of([&] { load_weights(*net, weights, "w"); }),
              HasSubstr("the net needs shape (5, 3, 4, 2)"));
  // A file of the oldest kind pads shapes from the left.
  weights.layers[0].blobs[0] = blob({1, 1, 5, 24}, std::vector<float>(120, 2));
  weights.layers[0].blobs[0].legacy_shape = true;
  load_weights(*net, weights, "w");
  EXPECT_EQ(values_of<double>(bench.context, net->parameters()[0].value), std::vector<double>(120, 2));
}

TEST(NetWeights, ReadsEveryFormOfBatchNorm) {
  NetBench bench;
  const auto net = bench.make(kNet, f64_options());
  const Layer& plain = *net->layers()[1];
  const io::BlobData mean = blob({3}, {1, 2, 3}), variance = blob({1, 3, 1, 1}, {4, 5, 6}),
                     factor = blob({1}, {9}), ones = blob({3}, {1, 1, 1}), zeros = blob({3}, {0, 0, 0});
  const auto shown = [&](const io::LayerWeights& source) {
    std::string text;
    for (const io::BlobData* each : plain.match_blobs(source))
      text += std::to_string(static_cast<int>(each->at(0)));
    return text;
  };
  EXPECT_EQ(shown({"bn", "BatchNorm", {mean, variance, factor}}), "149");
  EXPECT_EQ(shown({"bn", "BatchNorm", {mean, variance, factor, ones, zeros}}), "149");
  EXPECT_EQ(shown({"bn", "BatchNorm", {ones, zeros, mean, variance, factor}}),
            "141");  // 0.15: nothing was summed
  EXPECT_THAT(message_of([&] {
                shown({"bn", "BatchNorm", {mean, variance, factor, mean, zeros}});
              }),
              HasSubstr("scale_bias: true"));
  EXPECT_THAT(message_of([&] {
                shown({"bn", "BatchNorm", {mean, variance}});
              }),
              HasSubstr("no known form of BatchNorm"));
  EXPECT_EQ(shown({"bn", "BatchNorm", {mean, variance, factor, ones}}), "149");
  EXPECT_THAT(message_of([&] {
                shown({"bn", "BatchNorm", {mean, variance, factor, mean}});
              }),
              HasSubstr("bias_term: false"));

  std::string text = kNet;
  const std::string type = "type: 'BatchNorm'";
  ASSERT_NE(text.find(type), std::string::npos);
  text.insert(text.find(type) + type.size(), " batch_norm_param { engine: MKLDNN bias_term: false }");
  const auto intel = bench.make(text.c_str(), f64_options());
  // How many blobs, and the second number of the slopes.
  const auto matched = [&](const std::vector<io::BlobData>& blobs) {
    const io::LayerWeights source{"bn", "BatchNorm", blobs};
    const auto found = intel->layers()[1]->match_blobs(source);
    return std::pair(found.size(), found.at(3) == nullptr ? -1 : found[3]->at(1));
  };
  const std::size_t all = 4;
  EXPECT_EQ(matched({mean, variance, factor, mean}), std::pair(all, 2.0));
  EXPECT_EQ(matched({mean, variance, factor, mean, zeros}), std::pair(all, 2.0));
  EXPECT_EQ(matched({mean, variance, factor}), std::pair(all, -1.0)) << "they keep their values";
  EXPECT_THAT(message_of([&] {
                matched({mean, variance, factor, mean, ones});
              }),
              HasSubstr("remove bias_term"));

  const auto bn = bench.make(
      "layer { name: 'in' type: 'Input' top: 'data' input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } } } "
      "layer { name: 'bn' type: 'BN' bottom: 'data' top: 'bn' }",
      f64_options());
  const auto four = bn->layers()[1]->match_blobs(
      {"bn", "BN", {blob({1, 3}, {1, 1, 1}), blob({1, 3, 1, 1}, {2, 2, 2}), mean, variance}});
  EXPECT_EQ(four.size(), 4u);
  const auto two = bn->layers()[1]->match_blobs({"bn", "BN", {ones, zeros}});
  ASSERT_EQ(two.size(), 4u);
  EXPECT_EQ(two[2], nullptr);
}

TEST(ShapesOnly, DoesNotRun) {
  NetBench bench;
  NetOptions options;
  options.shapes_only = true;
  const std::string text =
      "layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'missing' backend: "
      "LMDB "
      "batch_size: 7 } } layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
      "inner_product_param { "
      "num_output: 10 } }";
  EXPECT_THAT(message_of([&] { bench.make(text, options); }), HasSubstr("--shape=data:"));
  const auto net =
      bench.make("layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 } } }", options);
  EXPECT_THROW(net->forward(bench.pass), Error);
}

}  // namespace
}  // namespace banyan
