// Training with activations in bf16: N devices equal one device, and learning is as in f32.
#include <cmath>

#include "training_case.hpp"

namespace banyan {
namespace {

const char* const kStoredNet = R"(
layer { name: 'data' type: 'Data' top: 'data' top: 'label'
  data_param { source: 'DATA' backend: LMDB batch_size: BATCH } transform_param { scale: 0.01 crop_size: 10 mirror: true } }
layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1'
  convolution_param { num_output: 6 kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }
layer { name: 'bn1' type: 'SyncBN' bottom: 'conv1' top: 'bn1' bn_param { slope_filler { value: 1 } } }
layer { name: 'relu1' type: 'ReLU' bottom: 'bn1' top: 'bn1' }
layer { name: 'pool1' type: 'Pooling' bottom: 'bn1' top: 'pool1' pooling_param { kernel_size: 2 stride: 2 } }
layer { name: 'conv2' type: 'Convolution' bottom: 'pool1' top: 'conv2'
  convolution_param { num_output: 6 kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }
layer { name: 'bn2' type: 'SyncBN' bottom: 'conv2' top: 'bn2' bn_param { slope_filler { value: 1 } } }
layer { name: 'sum' type: 'Eltwise' bottom: 'bn2' bottom: 'pool1' top: 'sum' }
layer { name: 'relu2' type: 'ReLU' bottom: 'sum' top: 'sum' }
layer { name: 'ip' type: 'InnerProduct' bottom: 'sum' top: 'ip'
  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }
)";

TrainingCase with(const std::string& net_line, int batch, int iterations = 20,
                  RunPrecision precision = RunPrecision::f32) {
  TrainingCase made{kFixedSolver, net_line + kStoredNet, iterations, precision};
  made.net.replace(made.net.find("BATCH"), 5, std::to_string(batch));
  return made;
}

const std::string kStorage = "storage: BF16 ";

/// Sums over devices are f32 and f64, so the first update is the same up to their rounding. After that,
/// weights that differ by 1e-7 make some activation round the other way, which changes it by 4e-3: after 20
/// iterations two runs are as far from each other as from f32. Each run is reproducible bit for bit.
TEST(Bf16StorageTraining, NDevicesAreOneDevice) {
  const Trained one = train_case(with(kStorage, 12), 1), first = train_case(with(kStorage, 12, 1), 1);
  ASSERT_EQ(one.losses().size(), 20u);
  EXPECT_LT(one.losses().back(), one.losses().front());
  EXPECT_NE(one.values(), train_case(with("", 12), 1).values()) << "nothing was stored in bf16";
  for (const int devices : {2, 3}) {
    const auto values = train_case(with(kStorage, 12 / devices, 1), devices).values();
    EXPECT_LE(largest_difference(first.values(), values), 1e-6) << devices << " devices";
    const Trained several = train_case(with(kStorage, 12 / devices), devices);
    EXPECT_LE(largest_difference(one.values(), several.values()), 0.15) << devices << " devices";
    EXPECT_LE(largest_difference(one.losses(), several.losses()), 0.05) << devices << " devices";
    EXPECT_EQ(several.model_bytes, train_case(with(kStorage, 12 / devices), devices).model_bytes);
  }
  const Trained cut = train_case(with(kStorage + "checkpoint: '2' ", 6), 2);
  EXPECT_EQ(cut.values(), train_case(with(kStorage, 6), 2).values());
}

/// Test nets, displayed outputs (one of them in bf16) and observers take part without changing anything.
TEST(Bf16StorageTraining, IsTestedAndObserved) {
  TrainingCase plain = with(kStorage, 6), observed = plain;
  observed.net +=
      "layer { name: 'side' type: 'Pooling' bottom: 'sum' top: 'side' pooling_param { pool: AVE "
      "global_pooling: true } }";
  observed.solver += "debug_info: true test_iter: 2 test_interval: 5 ";
  observed.solver.replace(observed.solver.find("display: 0"), 10, "display: 5");
  EXPECT_EQ(train_case(observed, 2).values(), train_case(plain, 2).values());
}

/// The losses in the last third of a run vary with the batches, which are the same, and with the rounding. A
/// small loss is exp(-margin), here of 6.4, and bf16 rounds such a margin by up to 0.016 wherever it is
/// stored or multiplied: a few of these add up to less than a tenth.
TEST(Bf16StorageTraining, LearnsAsF32Does) {
  const auto end_of = [](const TrainingCase& what) {
    const std::vector<double> losses = train_case(what, 1).losses();
    double sum = 0;
    for (std::size_t i = 40; i < 60; ++i) sum += losses.at(i);
    EXPECT_LT(sum / 20, 0.7 * losses.at(0));
    return sum / 20;
  };
  const double full = end_of(with("", 10, 60));
  for (const RunPrecision precision : {RunPrecision::f32, RunPrecision::bf16})
    EXPECT_NEAR(std::log(end_of(with(kStorage, 10, 60, precision))), std::log(full), 0.1)
        << name_of(precision);
}

}  // namespace
}  // namespace banyan
