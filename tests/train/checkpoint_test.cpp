// Training with checkpoints is bit-identical to training without them on any number of devices, with no
// additional exchange.
#include <cctype>

#include "banyan/observe/timeline.hpp"
#include "training_case.hpp"

namespace banyan {
namespace {

/// Residual and inception branches, SyncBN and BN, dropout, two losses, shared weights.
const char* const kCheckpointedNet = R"(
layer { name: 'data' type: 'Data' top: 'data' top: 'label'
  data_param { source: 'DATA' backend: LMDB batch_size: 8 } transform_param { scale: 0.01 crop_size: 10 mirror: true } }
layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1'
  convolution_param { num_output: 6 kernel_size: 3 pad: 1 bias_term: false weight_filler { type: 'msra' } } }
layer { name: 'bn1' type: 'SyncBN' bottom: 'conv1' top: 'bn1' bn_param { slope_filler { value: 1 } } }
layer { name: 'relu1' type: 'ReLU' bottom: 'bn1' top: 'bn1' }
layer { name: 'pool1' type: 'Pooling' bottom: 'bn1' top: 'pool1' pooling_param { kernel_size: 2 stride: 2 } }
layer { name: 'a' type: 'Convolution' bottom: 'pool1' top: 'a'
  convolution_param { num_output: 3 kernel_size: 1 weight_filler { type: 'xavier' } } }
layer { name: 'b' type: 'Convolution' bottom: 'pool1' top: 'b'
  convolution_param { num_output: 3 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }
layer { name: 'cat' type: 'Concat' bottom: 'a' bottom: 'b' top: 'cat' }
layer { name: 'bn2' type: 'BatchNorm' bottom: 'cat' top: 'bn2' batch_norm_param { sync: true } }
layer { name: 'scale2' type: 'Scale' bottom: 'bn2' top: 'bn2' scale_param { bias_term: true } }
layer { name: 'sum' type: 'Eltwise' bottom: 'bn2' bottom: 'pool1' top: 'sum' }
layer { name: 'relu2' type: 'ReLU' bottom: 'sum' top: 'sum' }
layer { name: 'conv3' type: 'Convolution' bottom: 'sum' top: 'conv3'
  convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: 'xavier' } } }
layer { name: 'bn3' type: 'BN' bottom: 'conv3' top: 'bn3' bn_param { slope_filler { value: 1 } } }
layer { name: 'sum3' type: 'Eltwise' bottom: 'conv3' bottom: 'bn3' top: 'sum3' }
layer { name: 'relu3' type: 'ReLU' bottom: 'sum3' top: 'sum3' }
layer { name: 'drop' type: 'Dropout' bottom: 'sum3' top: 'drop' dropout_param { dropout_ratio: 0.3 } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'drop' top: 'ip'
  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }
layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'accuracy' }
layer { name: 'p' type: 'InnerProduct' bottom: 'drop' top: 'p' param { name: 'w' } param { name: 'b' }
  inner_product_param { num_output: 1 weight_filler { type: 'gaussian' std: 0.05 } } }
layer { name: 'q' type: 'InnerProduct' bottom: 'conv3' top: 'q' param { name: 'w' } param { name: 'b' }
  inner_product_param { num_output: 1 weight_filler { type: 'gaussian' std: 0.05 } } }
layer { name: 'pq' type: 'Eltwise' bottom: 'p' bottom: 'q' top: 'pq' }
layer { name: 'distance' type: 'EuclideanLoss' bottom: 'pq' bottom: 'label' top: 'distance' loss_weight: 0.1 }
)";

/// Normalizations whose results are worth dropping.
const char* const kSequence = R"(
layer { name: 'data' type: 'Data' top: 'data' top: 'label'
  data_param { source: 'DATA' backend: LMDB batch_size: 8 } transform_param { scale: 0.01 crop_size: 10 mirror: true } }
layer { name: 'a' type: 'Convolution' bottom: 'data' top: 'a'
  convolution_param { num_output: 6 kernel_size: 3 pad: 1 bias_term: false weight_filler { type: 'msra' } } }
layer { name: 'a_bn' type: 'SyncBN' bottom: 'a' top: 'a_bn' bn_param { slope_filler { value: 1 } } }
layer { name: 'a_relu' type: 'ReLU' bottom: 'a_bn' top: 'a_bn' }
layer { name: 'b' type: 'Convolution' bottom: 'a_bn' top: 'b'
  convolution_param { num_output: 6 kernel_size: 3 pad: 1 bias_term: false weight_filler { type: 'msra' } } }
layer { name: 'b_bn' type: 'BatchNorm' bottom: 'b' top: 'b_bn' batch_norm_param { sync: true } }
layer { name: 'b_scale' type: 'Scale' bottom: 'b_bn' top: 'b_bn' scale_param { bias_term: true } }
layer { name: 'b_relu' type: 'ReLU' bottom: 'b_bn' top: 'b_bn' }
layer { name: 'c' type: 'Convolution' bottom: 'b_bn' top: 'c'
  convolution_param { num_output: 6 kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }
layer { name: 'c_relu' type: 'ReLU' bottom: 'c' top: 'c' }
layer { name: 'ip' type: 'InnerProduct' bottom: 'c' top: 'ip'
  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }
)";

struct Outcome {
  std::vector<double> values, losses, history;
  std::map<std::string, int> exchanges;  ///< by layer and direction, over all devices
  int repeated = 0;                      ///< layers that ran again
  bool operator==(const Outcome& other) const {
    return values == other.values && losses == other.losses && history == other.history &&
           exchanges == other.exchanges;
  }
};

Outcome outcome_of(const std::string& net, const std::string& checkpoint, const std::string& more,
                   RunPrecision precision, int devices, bool check_nan = true) {
  const TrainingFolder folder;
  TrainingCase what{kFixedSolver + more, "checkpoint: '" + checkpoint + "' " + net};
  what.iterations = 5;
  what.precision = precision;
  TrainOptions options = options_of(what, folder, devices);
  options.timeline = std::make_shared<Timeline>();
  options.check_nan = check_nan;
  FLAGS_minloglevel = 2;
  EXPECT_EQ(train(options), 0);
  const Trained trained = read_trained(folder, what.iterations);
  Outcome outcome{trained.values(), trained.losses(), {}, {}, 0};
  for (const auto& blob : trained.state.history()) {
    outcome.history.insert(outcome.history.end(), blob.data().begin(), blob.data().end());
    outcome.history.insert(outcome.history.end(), blob.double_data().begin(), blob.double_data().end());
  }
  for (const Track* track : options.timeline->tracks())
    track->for_each([&](const TimeSpan& span) {
      if (span.kind == SpanKind::exchange) ++outcome.exchanges[*span.name + " " + span.detail];
      if (span.kind == SpanKind::recompute) ++outcome.repeated;
    });
  return outcome;
}

class CheckpointTest : public testing::TestWithParam<std::pair<const char*, RunPrecision>> {};
INSTANTIATE_TEST_SUITE_P(Training, CheckpointTest,
                         testing::Values(std::pair{"", RunPrecision::f64}, std::pair{"", RunPrecision::f32},
                                         std::pair{"iter_size: 2 debug_info: true", RunPrecision::f32}));

TEST_P(CheckpointTest, ChangesNoBitAndNoExchange) {
  const auto& [more, precision] = GetParam();
  for (const int devices : {1, 2, 3}) {
    const Outcome plain = outcome_of(kCheckpointedNet, "off", more, precision, devices);
    EXPECT_EQ(plain.repeated, 0);
    EXPECT_EQ(plain.exchanges.size(), devices == 1 ? 0u : 7u);  // 2 x 2 of SyncBN, 2 losses, accuracy
    for (const char* checkpoint : {"auto", "normalizations", "3", "6"}) {
      const Outcome cut = outcome_of(kCheckpointedNet, checkpoint, more, precision, devices);
      EXPECT_TRUE(cut == plain) << checkpoint << " on " << devices << " devices";
      EXPECT_EQ(cut.exchanges, plain.exchanges);
      // The others may find that such a small net saves nothing.
      if (std::isdigit(checkpoint[0])) {
        EXPECT_GT(cut.repeated, 0) << checkpoint;
      }
    }
  }
}

TEST_P(CheckpointTest, NormalizationsAreMadeAgain) {
  const auto& [more, precision] = GetParam();
  for (const int devices : {1, 2, 3}) {
    const Outcome plain = outcome_of(kSequence, "off", more, precision, devices, false);
    const Outcome again = outcome_of(kSequence, "normalizations", more, precision, devices, false);
    EXPECT_TRUE(again == plain) << devices << " devices";
    EXPECT_EQ(plain.repeated, 0);
    // Where layers are observed, the ReLUs change what normalizations made.
    const bool observed = std::string(more).find("debug_info") != std::string::npos;
    if (!observed) {
      EXPECT_GE(again.repeated, 5 * devices) << "in each iteration";
    }
  }
}

}  // namespace
}  // namespace banyan
