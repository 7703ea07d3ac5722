// Nets with a head like SSD's, and with two like RefineDet's, learn to find bright rectangles.
#include <algorithm>
#include <numeric>

#include "banyan/ops/basic.hpp"
#include "net/box_heads.hpp"
#include "net/net_test_tools.hpp"

namespace banyan {
namespace {

using Values = std::vector<double>;

/// 16 x 16 pixels, a map of 8 x 8 with two priors at each position, two classes and the background. In two
/// steps, the first one finds where there is an object, and its box, from which the second one begins.
std::string detector(bool two_steps) {
  const std::string of_first_step = two_steps ? kOfFirstStep : "",
                    score = two_steps ? "objectness_score: 0.01 " : "";
  return R"(
  layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 4 dim: 1 dim: 16 dim: 16 } } }
  layer { name: "truth" type: "Input" top: "truth" include { phase: TRAIN }
          input_param { shape { dim: 1 dim: 1 dim: 4 dim: 8 } } }
  layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param {
          num_output: 12 kernel_size: 5 pad: 2 stride: 2 weight_filler { type: "xavier" } } }
  layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
  layer { name: "conv2" type: "Convolution" bottom: "conv" top: "conv2" convolution_param {
          num_output: 12 kernel_size: 5 pad: 2 weight_filler { type: "xavier" } } }
  layer { name: "relu2" type: "ReLU" bottom: "conv2" top: "conv2" }
  layer { name: "priors" type: "PriorBox" bottom: "conv2" bottom: "data" top: "priors"
          prior_box_param { min_size: 5 max_size: 9 variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 } }
)" + box_head("loc", "conv2", 8) +
         box_head("conf", "conv2", 6) +
         (two_steps ? first_step_of_two_boxes("conv2") + R"(
  layer { name: "first_loss" type: "MultiBoxLoss" bottom: "first_loc_flat" bottom: "first_conf_flat" bottom: "priors"
          bottom: "truth" top: "first_loss" include { phase: TRAIN }
          multibox_loss_param { num_classes: 2 code_type: CENTER_SIZE objectness_score: 0.01 } })"
                    : "") +
         R"(
  layer { name: "loss" type: "MultiBoxLoss" bottom: "loc_flat" bottom: "conf_flat" bottom: "priors" bottom: "truth")" +
         of_first_step + R"(top: "loss" include { phase: TRAIN }
          multibox_loss_param { num_classes: 3 code_type: CENTER_SIZE )" +
         score + "} } " + box_softmax("conf", 3, "include { phase: TEST }") + R"(
  layer { name: "found" type: "DetectionOutput" bottom: "loc_flat" bottom: "conf_softmax_flat" bottom: "priors")" +
         of_first_step + R"(top: "found"
          include { phase: TEST } detection_output_param { num_classes: 3 code_type: CENTER_SIZE keep_top_k: 1
          nms_param { nms_threshold: 0.45 top_k: 20 } confidence_threshold: 0.3 )" +
         score + "} }";
}

/// Four images with one rectangle each: class 1 is wide, class 2 high. Returns rows of ground truth.
Values draw(int number, Values& pixels) {
  Values rows;
  pixels.assign(4 * 256, 0);
  for (int image = 0; image < 4; ++image) {
    const int n = 4 * number + image, wide = n % 2, w = wide ? 8 : 4, h = wide ? 4 : 8;
    const int x = n * 5 % (17 - w), y = n * 3 % (17 - h);
    for (int i = 0; i < w * h; ++i) pixels[image * 256 + (y + i / w) * 16 + x + i % w] = 1;
    rows.insert(rows.end(), {static_cast<double>(image), wide ? 1.0 : 2.0, 0, x / 16.0, y / 16.0,
                             (x + w) / 16.0, (y + h) / 16.0, 0});
  }
  return rows;
}

void learn_to_find_rectangles(const std::string& text) {
  NetBench bench;
  const auto net = bench.make(text, f64_options());
  const auto feed = [&](Net& to, int number) {
    Values pixels;
    const Values rows = draw(number, pixels);
    copy_from_host(bench.context, pixels.data(), to.find_blob("data")->data);
    if (Blob* truth = to.find_blob("truth")) copy_from_host(bench.context, rows.data(), truth->data);
    return rows;
  };
  Values losses;
  std::vector<Tensor> momenta;
  for (int iteration = 0; iteration < 240; ++iteration) {
    net->prepare(bench.pass);
    feed(*net, iteration % 6);
    net->run(bench.pass);
    losses.push_back(loss_of(bench, *net));
    ops::fill(bench.context, net->flat_gradients(), 0);
    net->backward(bench.pass, {});
    if (momenta.empty()) {
      momenta.emplace_back(*bench.device, net->flat_gradients().shape(), DType::f64);
      ops::fill(bench.context, momenta[0], 0);
    }
    ops::axpby(bench.context, 0.01, net->flat_gradients(), 0.9, momenta[0]);
    ops::axpby(bench.context, -1, momenta[0], 1, net->flat_values());
  }
  const auto mean = [&](std::size_t first) {
    return std::accumulate(losses.begin() + static_cast<std::ptrdiff_t>(first),
                           losses.begin() + static_cast<std::ptrdiff_t>(first) + 6, 0.0) /
           6;
  };
  EXPECT_LT(mean(60), 0.7 * mean(0));
  EXPECT_LT(mean(234), 0.2 * mean(0));

  NetOptions options = f64_options();
  options.phase = Phase::test;
  const auto tested = bench.make(text, options);
  for (const auto& layer : tested->layers())
    for (std::size_t i = 0; i < layer->parameters().size(); ++i)
      for (const auto& trained : net->layers())
        if (trained->name() == layer->name())
          ops::copy(bench.context, trained->parameters()[i].value, layer->parameters()[i].value);
  int right = 0;
  for (int number = 0; number < 6; ++number) {
    tested->prepare(bench.pass);
    const Values rows = feed(*tested, number);
    tested->run(bench.pass);
    const Values found = values_of<double>(bench.context, tested->find_blob("found")->data);
    ASSERT_EQ(found.size(), 4 * 7u);
    for (std::size_t image = 0; image < 4; ++image) {
      const double *f = &found[7 * image], *t = &rows[8 * image];
      EXPECT_EQ(f[0], static_cast<double>(image));
      const double w = std::min(f[5], t[5]) - std::max(f[3], t[3]),
                   h = std::min(f[6], t[6]) - std::max(f[4], t[4]);
      const double both = std::max(0.0, w) * std::max(0.0, h), one = (f[5] - f[3]) * (f[6] - f[4]);
      if (f[1] == t[1] && both / (one + 32.0 / 256 - both) > 0.5) ++right;
    }
  }
  EXPECT_GE(right, 20);  // of 24
}

TEST(SsdNet, LearnsToFindRectangles) { learn_to_find_rectangles(detector(false)); }

TEST(RefineDetNet, LearnsToFindRectanglesInTwoSteps) { learn_to_find_rectangles(detector(true)); }

}  // namespace
}  // namespace banyan
