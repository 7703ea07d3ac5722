#include "train/layer_watch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "banyan/base/error.hpp"
#include "train/part_bench.hpp"
#include "train/promise_cases.hpp"

namespace banyan {
namespace {

/// 2 x 1 values `in`, times a weight, against targets of 0.
std::string net_with(const std::string& in, const std::string& weight, const std::string& loss_weight) {
  return R"(layer { name: "in" type: "DummyData" top: "in" top: "target" dummy_data_param {
              shape { dim: 2 dim: 1 } shape { dim: 2 dim: 1 } data_filler { value: )" +
         in + R"( } data_filler { value: 0 } } }
            layer { name: "ip" type: "InnerProduct" bottom: "in" top: "out" inner_product_param {
              num_output: 1 bias_term: false weight_filler { type: "constant" value: )" +
         weight + R"( } } }
            layer { name: "loss" type: "EuclideanLoss" bottom: "out" bottom: "target" top: "loss"
                    loss_weight: )" +
         loss_weight + " }";
}

/// The same values, times a weight of 1 if `learning`, normalized with a mean of 0 and a variance of 1, and
/// times a slope of 1.
std::string scaled_net(const std::string& in, bool learning, const std::string& loss_weight) {
  std::string net = net_with(in, "1", loss_weight), product;
  const std::size_t begin = net.find("layer { name: \"ip\""), end = net.find("layer { name: \"loss\"");
  if (learning) product = net.substr(begin, end - begin);
  const std::string scaled = product + "layer { name: 'norm' type: 'BatchNorm' bottom: '" +
                             (learning ? "out" : "in") +
                             "' top: 'normalized' batch_norm_param { use_global_stats: true eps: 1 } } "
                             "layer { name: 'scale' type: 'Scale' bottom: 'normalized' top: 'scaled' "
                             "scale_param { bias_term: true } } ";
  net.replace(begin, end - begin, scaled);
  const std::string bottom = "bottom: \"out\" bottom: \"target\"";
  return net.replace(net.find(bottom), bottom.size(), "bottom: 'scaled' bottom: 'target'");
}

std::string failure_of(const std::string& text) {
  PartBench bench;
  const auto net = bench.net(text, Phase::train, DType::f32);
  watch_layers(*net, bench.context, {}, true);
  Pass pass = bench.pass();
  try {
    net->zero_gradients();
    net->forward(pass);
    net->backward(pass);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(LayerWatch, NamesTheLayerWhoseResultsAreNotFinite) {
  EXPECT_THAT(failure_of(net_with("2", "inf", "1")),
              testing::HasSubstr("output \"out\" of layer \"ip\" has 2 of 2 values that are not finite"));
  // 1e15 squared is still finite in f32; times 1e10 it is not.
  EXPECT_THAT(failure_of(net_with("1e15", "1", "1e10")),
              testing::HasSubstr("the parameter gradient of layer \"ip\" has 1 of 1 values"));
  EXPECT_THAT(failure_of(net_with("1e15", "1", "1")), testing::IsEmpty());
}

/// A Scale's gradients are computed in the step of the normalization before it, whether that learns or not.
TEST(LayerWatch, NamesAScaleThatANormalizationRuns) {
  for (const bool learning : {false, true}) {
    SCOPED_TRACE(learning);
    // The gradient of the slope is 1e40, as that of the weight is above; those of the bias and of the data
    // are finite.
    EXPECT_THAT(failure_of(scaled_net("1e15", learning, "1e10")),
                testing::HasSubstr("the parameter gradient of layer \"scale\" has 1 of 1 values"));
    EXPECT_THAT(failure_of(scaled_net("1e15", learning, "1")), testing::IsEmpty());
  }
}

TEST(LayerWatch, PrintsAScaleThatANormalizationRuns) {
  for (const bool learning : {false, true}) {
    SCOPED_TRACE(learning);
    PartBench bench;
    const auto net = bench.net(scaled_net("2", learning, "1"));
    watch_layers(
        *net, bench.context, [] { return true; }, false);
    Pass pass = bench.pass();
    const LoggedLines log;
    for (const int passes : {1, 2}) {  // whose gradients add up
      if (passes == 1) net->zero_gradients();
      net->forward(pass);
      net->backward(pass);
      std::vector<std::string> found;
      for (const std::string& line : log.lines)
        if (line.find("[Backward] Layer scale") != std::string::npos) found.push_back(line);
      std::vector<std::string> expected{"    [Backward] Layer scale, param blob 0 diff: 4",
                                        "    [Backward] Layer scale, param blob 1 diff: 2"};
      if (passes == 2)
        expected.insert(expected.end(), {"    [Backward] Layer scale, param blob 0 diff: 8",
                                         "    [Backward] Layer scale, param blob 1 diff: 4"});
      EXPECT_EQ(found, expected);
    }
  }
}

TEST(LayerWatch, PrintsMeanAbsoluteValues) {
  PartBench bench;
  const auto net = bench.net(net_with("2", "-3", "1"));
  watch_layers(
      *net, bench.context, [] { return true; }, false);
  Pass pass = bench.pass();
  const LoggedLines log;
  net->zero_gradients();
  net->forward(pass);
  net->backward(pass);
  EXPECT_THAT(log.lines, testing::IsSupersetOf({"    [Forward] Layer in, top blob in data: 2",
                                                "    [Forward] Layer ip, top blob out data: 6",
                                                "    [Forward] Layer ip, param blob 0 data: 3",
                                                "    [Backward] Layer loss, bottom blob out diff: 3",
                                                "    [Backward] Layer ip, param blob 0 diff: 12"}));
  EXPECT_EQ(log.lines.back(),
            "    [Backward] All net params (data, diff): L1 norm = (3, 12); L2 norm = (3, 12)");
  EXPECT_EQ(std::count_if(log.lines.begin(), log.lines.end(),
                          [](const auto& line) { return line.find("All net params") != std::string::npos; }),
            1);
}

/// In training where display shows an iteration, and of every pass of it; in tests always.
TEST(LayerWatch, PrintsWhenCaffeDoes) {
  for (const int display : {0, 2}) {
    SCOPED_TRACE(display);
    const TrainingFolder folder;
    TrainingCase what{kSolver, data_layer() + kBody + classifier()};
    what.iterations = 4;
    what.solver += "debug_info: true iter_size: 2 test_iter: 1 test_interval: 2 ";
    TrainOptions options = options_of(what, folder, 1);
    options.solver.display = display;
    const LoggedLines log;
    train(options);
    const auto lines_with = [&](const std::string& text) {
      return std::count_if(log.lines.begin(), log.lines.end(),
                           [&](const std::string& line) { return line.find(text) != std::string::npos; });
    };
    EXPECT_EQ(lines_with("All net params"), display > 0 ? 4 : 0);  // iterations 0 and 2, two passes each
    EXPECT_EQ(lines_with("[Forward] Layer ip, top blob ip"), (display > 0 ? 4 : 0) + 3);  // tests at 0, 2, 4
  }
}

}  // namespace
}  // namespace banyan
