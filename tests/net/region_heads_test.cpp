// Heads one after the other on regions whose number only the pass knows (MS-CNN, Cascade R-CNN): images in
// one batch give what each gives alone.
#include <algorithm>
#include <cmath>

#include "net/net_test_tools.hpp"

namespace banyan {
namespace {

using Numbers = std::vector<double>;

constexpr std::int64_t kHeadImage = 6 * 4 * 5;

std::string heads(int images) {
  return cat("layer { name: 'in' type: 'Input' top: 'data' input_param { shape { dim: ", images,
             " dim: 6 dim: 4 dim: 5 } } } ", R"(
layer { name: 'maps' type: 'Convolution' bottom: 'data' top: 'maps'
  convolution_param { num_output: 6 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }
layer { name: 'found' type: 'BoxOutput' bottom: 'data' top: 'rois' top: 'scores' box_output_param {
  fg_thr: -0.2 iou_thr: 0.4 field_w: 20 field_h: 16 downsample_rate: 8 min_size: 4 } }
layer { name: 'quiet' type: 'Silence' bottom: 'scores' }
layer { name: 'pool' type: 'ROIPooling' bottom: 'maps' bottom: 'rois' top: 'pool'
  roi_pooling_param { pooled_h: 2 pooled_w: 2 spatial_scale: 0.125 pad_ratio: 0.25 } }
layer { name: 'move' type: 'InnerProduct' bottom: 'pool' top: 'move'
  inner_product_param { num_output: 8 weight_filler { type: 'xavier' } } }
layer { name: 'moved' type: 'DecodeBBox' bottom: 'move' bottom: 'rois' top: 'rois2'
  bbox_reg_param { bbox_std: [0.1, 0.1, 0.2, 0.2] } propagate_down: false propagate_down: false }
layer { name: 'grid' type: 'ROIAlign' bottom: 'maps' bottom: 'rois2' top: 'grid'
  roi_pooling_param { pooled_h: 2 pooled_w: 2 spatial_scale: 0.125 } propagate_down: true propagate_down: false }
layer { name: 'mean' type: 'Pooling' bottom: 'grid' top: 'mean' pooling_param { pool: AVE kernel_size: 2 } }
layer { name: 'score' type: 'InnerProduct' bottom: 'mean' top: 'score'
  inner_product_param { num_output: 1 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'Reduction' bottom: 'score' top: 'loss' loss_weight: 1 reduction_param { operation: SUMSQ } }
layer { name: 'loss1' type: 'Reduction' bottom: 'move' top: 'loss1' loss_weight: 0.5 reduction_param { operation: SUMSQ } }
)");
}

struct HeadResults {
  double loss = 0;
  std::int64_t regions = 0;
  std::vector<Numbers> gradients;
};
HeadResults run_heads(NetBench& bench, Net& net, const Numbers& data) {
  net.set_input("data", data);
  net.zero_gradients();
  net.forward(bench.pass);
  HeadResults found{loss_of(bench, net), net.find_blob("rois2")->shape[0], {}};
  net.backward(bench.pass);
  for (const LearnableParameter& parameter : net.parameters())
    found.gradients.push_back(values_of<double>(bench.context, parameter.grad));
  return found;
}

TEST(RegionHeads, FindInABatchWhatTheyFindInEachImage) {
  NetBench bench;
  const auto both = bench.make(heads(2), f64_options()), one = bench.make(heads(1), f64_options());
  std::int64_t most = 0;
  for (int pass = 0; pass < 4; ++pass) {
    const Numbers data = wavy<double>(2 * kHeadImage, pass);
    const HeadResults together = run_heads(bench, *both, data);
    const HeadResults first = run_heads(bench, *one, {data.begin(), data.begin() + kHeadImage});
    const HeadResults second = run_heads(bench, *one, {data.begin() + kHeadImage, data.end()});
    EXPECT_GT(first.regions, 0);
    EXPECT_GT(second.regions, 0);
    EXPECT_EQ(together.regions, first.regions + second.regions);
    most = std::max(most, together.regions);
    EXPECT_NEAR(together.loss, first.loss + second.loss, 1e-12 * together.loss);
    ASSERT_EQ(together.gradients.size(), 6u);
    for (std::size_t p = 0; p < 6; ++p) {
      Numbers sum = first.gradients[p];
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += second.gradients[p][i];
      ASSERT_EQ(together.gradients[p].size(), sum.size());
      for (std::size_t i = 0; i < sum.size(); ++i)
        EXPECT_NEAR(together.gradients[p][i], sum[i], 1e-10 * std::max(1.0, std::abs(sum[i])));
    }
  }
  EXPECT_GT(most, 4);
  EXPECT_LT(most, 40);  // of as many fields
}

}  // namespace
}  // namespace banyan
