// What N devices hold: N times one device's parameters, gradients and activations, the optimizer's state
// once, and beyond that at most one bucket per child.
#include "banyan/device/memory.hpp"
#include "training_case.hpp"

namespace banyan {
namespace {

/// 432 x 2000 weights: nearly everything a device holds.
const char* const kResidentNet = R"(
layer { name: 'data' type: 'Data' top: 'data' top: 'label'
  data_param { source: 'DATA' backend: LMDB batch_size: 1 } transform_param { scale: 0.01 } }
layer { name: 'ip1' type: 'InnerProduct' bottom: 'data' top: 'ip1'
  inner_product_param { num_output: 2000 weight_filler { type: 'xavier' } } }
layer { name: 'relu' type: 'ReLU' bottom: 'ip1' top: 'ip1' }
layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip1' top: 'ip2'
  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }
)";
constexpr std::size_t kParameters = (432 * 2000 + 2000 + 2000 * 5 + 5) * sizeof(float);

std::size_t peak_of(const std::string& type, int devices, const std::string& tree) {
  const TrainingFolder folder;
  TrainingCase what{"base_lr: 0.01 lr_policy: 'fixed' random_seed: 3 type: '" + type + "'", kResidentNet};
  if (devices == 1) what.solver += " clip_gradients: 1e30";  // needs all gradients, as several devices do
  what.iterations = 3;
  what.precision = RunPrecision::f32;
  TrainOptions options = options_of(what, folder, devices);
  options.tree = tree;
  FLAGS_minloglevel = 2;
  reset_peak_of_all_devices();
  const std::size_t before = memory_of_all_devices().in_use;
  train(options);
  EXPECT_EQ(memory_of_all_devices().in_use, before);
  return memory_of_all_devices().peak - before;
}

TEST(ResidentMemory, OptimizerStateOnceAndNoMoreThanABucketForEachChild) {
  for (const auto& [type, histories] : {std::pair{"SGD", 1}, std::pair{"Adam", 2}}) {
    const std::size_t history = static_cast<std::size_t>(histories) * kParameters;
    const std::size_t one = peak_of(type, 1, "auto");
    ASSERT_GT(one, 2 * kParameters + history);
    for (const int devices : {2, 3, 4})
      for (const char* tree : {"pairs", "chain", "star"}) {
        const auto n = static_cast<std::size_t>(devices);
        const std::size_t all = peak_of(type, devices, tree), expected = n * (one - history) + history;
        const std::size_t bucket = kParameters / (4 * n);
        EXPECT_LE(all, expected + (n - 1) * bucket) << type << " " << devices << " " << tree;
        EXPECT_GE(all, expected) << type << " " << devices << " " << tree;
      }
  }
}

TEST(ResidentMemory, MoreRecordsCostNothing) {
  std::vector<std::size_t> peaks;
  for (const int records : {50, 500}) {
    std::vector<int> order;
    for (int i = 0; i < records; ++i) order.push_back(i);
    const TrainingFolder folder(order);
    TrainingCase what{"base_lr: 0.01 lr_policy: 'fixed' random_seed: 3", kResidentNet};
    what.iterations = 20;
    what.precision = RunPrecision::f32;
    reset_peak_of_all_devices();
    const std::size_t before = memory_of_all_devices().in_use;
    train_case(what, 2, folder);
    peaks.push_back(memory_of_all_devices().peak - before);
  }
  EXPECT_EQ(peaks[0], peaks[1]);
}

}  // namespace
}  // namespace banyan
