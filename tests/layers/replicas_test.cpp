// N replicas with uneven and empty shares equal one device with the whole batch: outputs, gradients of
// inputs, sums of parameter gradients, running statistics, losses and their divisors.
#include <numeric>

#include "layers/fake_exchange.hpp"

namespace banyan::testing {
namespace {

struct Case {
  std::string name, text;
  Shape sample;     ///< shape of one sample of input 0, without the batch axis
  int classes = 0;  ///< > 0: input 1 holds labels, one per position outside axis 1, or of each element
  bool two_inputs = false;  ///< input 1 is like input 0
  int outputs = 1;
  Phase phase = Phase::train;
  int group_size = 0;   ///< > 0: compares with one device per group
  int more_inputs = 0;  ///< like input 0
  bool flags = false;   ///< the last input holds 0 or 1 for each sample
  bool gains = false;   ///< the last input is a matrix of classes x classes, the same for all samples
};
void PrintTo(const Case& tested, std::ostream* out) { *out << tested.name; }

struct Results {
  Values outputs, input_gradient;
  std::vector<Values> parameter_gradients, statistics;
};

class Replicas {
 public:
  explicit Replicas(const Case& tested) : case_(tested) {}

  std::vector<Shape> shapes(std::int64_t batch) const {
    std::vector<Shape> all{with_batch(batch, case_.sample)};
    if (case_.two_inputs) all.push_back(all[0]);
    for (int i = 0; i < case_.more_inputs; ++i) all.push_back(all[0]);
    if (case_.classes > 0 && !case_.two_inputs) {
      std::vector<std::int64_t> dims = all[0].dims();
      dims.erase(dims.begin() + 1);
      all.push_back(Shape(dims));
    }
    if (case_.flags) all.push_back(Shape{batch});
    if (case_.gains) all.push_back(Shape{case_.classes, case_.classes});
    return all;
  }

  /// Two passes over the samples [first, first + batch) of a batch of `total`; loss-like outputs are not
  /// divided among samples.
  Results run(Bench& bench, std::int64_t first, std::int64_t batch, std::int64_t total) {
    Results results;
    for (int step = 0; step < 2; ++step) {
      bench.pass.iteration = bench.pass.draw = step;
      bench.pass.samples = {first, 1};
      for (std::size_t i = 0; i < bench.inputs.size(); ++i) {
        const std::int64_t per_sample = shapes(1)[i].count();
        const unsigned seed = static_cast<unsigned>(10 * step) + static_cast<unsigned>(i);
        if (case_.gains && i + 1 == bench.inputs.size()) {
          bench.set_input(i, spread_values(per_sample, seed));
          continue;
        }
        const bool labels = case_.classes > 0 && i == 1;
        const bool flags = case_.flags && i + 1 == bench.inputs.size();
        const Values whole = labels  ? integers(total * per_sample, case_.classes, seed)
                             : flags ? integers(total, 2, seed)
                                     : spread_values(total * per_sample, seed, 3);
        bench.set_input(
            i, Values(whole.begin() + first * per_sample, whole.begin() + (first + batch) * per_sample));
      }
      bench.forward();
      results.outputs = bench.output();
      std::vector<Values> gradients;
      for (const Blob* output : bench.outputs) {
        const std::int64_t count = output->shape.count();
        if (output->shape.axes() == 0) {
          gradients.push_back({0.7});  // a loss weight, the same on every device
          continue;
        }
        const std::int64_t per_sample = batch == 0 ? 0 : count / batch;
        const Values whole = per_sample == 0 ? Values() : spread_values(total * per_sample, 77);
        gradients.emplace_back(whole.begin() + first * per_sample,
                               whole.begin() + (first + batch) * per_sample);
      }
      if (case_.phase == Phase::train) bench.backward(gradients);
    }
    if (bench.layer().traits().differentiable(0)) results.input_gradient = bench.input_gradient();
    for (const Parameter& p : bench.layer().parameters()) {
      if (p.kind == ParameterKind::statistic)
        results.statistics.push_back(get_values(bench.context(), p.value));
      if (p.grad.defined()) results.parameter_gradients.push_back(get_values(bench.context(), p.grad));
    }
    return results;
  }

  Results run_alone(std::int64_t batch) {
    BenchOptions options;
    options.phase = case_.phase;
    Bench bench(case_.text, shapes(batch), case_.outputs, options);
    return run(bench, 0, batch, batch);
  }

  std::vector<Results> run_shared(const std::vector<std::int64_t>& shares) {
    const int devices = static_cast<int>(shares.size());
    const std::int64_t total = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
    MeetingPoint point(devices);
    std::vector<Results> results(shares.size());
    run_replicas(point, [&](int rank) {
      BenchOptions options;
      options.phase = case_.phase;
      options.rank = rank;
      options.devices = devices;
      const std::int64_t batch = shares[rank];
      Bench bench(case_.text, shapes(batch), case_.outputs, options);
      FakeExchange exchange(point, rank);
      bench.pass.exchange = &exchange;
      const std::int64_t first = std::accumulate(shares.begin(), shares.begin() + rank, std::int64_t{0});
      results[rank] = run(bench, first, batch, total);
    });
    meetings = point.meetings();
    return results;
  }
  int meetings = 0;

 private:
  Case case_;
};

Values joined(const std::vector<Results>& parts, Values Results::*member) {
  Values all;
  for (const Results& part : parts) all.insert(all.end(), (part.*member).begin(), (part.*member).end());
  return all;
}

const std::vector<std::vector<std::int64_t>> kShares = {
    {4, 4}, {5, 2, 1}, {0, 3, 0, 5}, {1, 1, 1, 1, 1, 1, 1, 1}, {8, 0}};
// f64 sums in another order: 1e-16 per addition of values of size 3, amplified by 1 / deviation.
constexpr double kTolerance = 1e-12;

class OneDevice : public ::testing::TestWithParam<Case> {};

TEST_P(OneDevice, EqualsNDevices) {
  const Case& tested = GetParam();
  for (const auto& shares : kShares) {
    const std::int64_t total = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
    const std::string what = cat(shares.size(), " devices");
    Replicas replicas(tested);
    const Results whole = replicas.run_alone(total);
    const std::vector<Results> parts = replicas.run_shared(shares);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
    const bool is_share = whole.outputs.size() == 1;
    Values outputs = joined(parts, &Results::outputs);
    if (is_share) outputs = {std::accumulate(outputs.begin(), outputs.end(), 0.0)};
    expect_near(outputs, whole.outputs, kTolerance, what + ", outputs");
    expect_near(joined(parts, &Results::input_gradient), whole.input_gradient, kTolerance,
                what + ", input gradient");
    for (std::size_t p = 0; p < whole.parameter_gradients.size(); ++p) {
      Values sum(whole.parameter_gradients[p].size(), 0);
      for (const Results& part : parts)
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part.parameter_gradients[p][i];
      expect_near(sum, whole.parameter_gradients[p], kTolerance, cat(what, ", gradient of parameter ", p));
    }
    for (std::size_t s = 0; s < whole.statistics.size(); ++s)
      for (const Results& part : parts)
        expect_near(part.statistics[s], whole.statistics[s], kTolerance, cat(what, ", statistic ", s));
    for (const Results& part : parts)
      EXPECT_EQ(part.statistics, parts[0].statistics) << what << ": not bit-identical";
  }
}

std::string loss(const std::string& settings) {
  return "type: 'SoftmaxWithLoss' loss_param { " + settings + " }";
}
std::string sigmoid(const std::string& settings) {
  return "type: 'SigmoidCrossEntropyLoss' loss_param { ignore_label: 0 " + settings + " }";
}
const std::string kFillers = "slope_filler { value: 1.5 } bias_filler { value: 0.2 } ";

INSTANTIATE_TEST_SUITE_P(
    Layers, OneDevice,
    ::testing::Values(
        Case{"sync_bn", "type: 'SyncBN' bn_param { " + kFillers + " }", Shape{3, 2, 2}},
        Case{"sync_bn_unbiased", "type: 'SyncBN' bn_param { variance: UNBIASED " + kFillers + " }",
             Shape{3, 2, 2}},
        Case{"sync_bn_biased", "type: 'SyncBN' bn_param { variance: BIASED " + kFillers + " }",
             Shape{3, 2, 2}},
        Case{"bn_sync", "type: 'BN' bn_param { sync: true " + kFillers + " }", Shape{2}},
        Case{"batch_norm_sync", "type: 'BatchNorm' batch_norm_param { sync: true }", Shape{3, 2, 2}},
        Case{"batch_norm_scale_bias_sync",
             "type: 'BatchNorm' batch_norm_param { sync: true scale_bias: true }", Shape{3, 2}},
        Case{"dropout", "type: 'Dropout'", Shape{3, 5}}, Case{"insanity", "type: 'Insanity'", Shape{3, 5}},
        Case{"spatial_dropout", "type: 'SpatialDropout'", Shape{5, 2, 2}},
        Case{"guided_dropout", "type: 'GuidedDropout' guided_dropout_param { type: 'stochastic' }", Shape{5},
             0, true},
        Case{"softmax_valid", loss("ignore_label: 1"), Shape{4, 3}, 4},
        Case{"softmax_full", loss("ignore_label: 1 normalization: FULL"), Shape{4, 3}, 4},
        Case{"softmax_batch_size", loss("ignore_label: 1 normalization: BATCH_SIZE"), Shape{4, 3}, 4},
        Case{"softmax_none", loss("ignore_label: 1 normalization: NONE"), Shape{4, 3}, 4},
        Case{"softmax_fixed", loss("normalization: PRE_FIXED pre_fixed_normalizer: 13"), Shape{4, 3}, 4},
        Case{"softmax_smoothed", loss("ignore_label: 1 label_smoothing: 0.2"), Shape{4, 3}, 4},
        Case{"softmax_weighted",
             loss("ignore_label: 1 weight_by_label_freqs: true class_weighting: [0.5, 1, 2, 3]"), Shape{4, 3},
             4},
        Case{"softmax_hardest", loss("ignore_label: 1 thresh_ratio: 0.4"), Shape{4, 3}, 4},
        Case{"softmax_hardest_full", loss("thresh_ratio: 0.7 normalization: FULL"), Shape{4, 3}, 4},
        Case{"softmax_hardest_none", loss("thresh_ratio: 0 normalization: NONE"), Shape{4, 3}, 4},
        Case{"softmax_probabilities", loss(""), Shape{4}, 4, false, 2},
        Case{"euclidean", "type: 'EuclideanLoss'", Shape{2, 3}, 0, true},
        Case{"euclidean_heatmap", "type: 'EuclideanLossHeatmap'", Shape{2, 3}, 0, true},
        Case{"euclidean_heatmap_mean", "type: 'EuclideanLossHeatmap' loss_param { normalization: VALID }",
             Shape{2, 3}, 0, true},
        Case{"accuracy", "type: 'Accuracy' accuracy_param { ignore_label: 0 }", Shape{4, 3}, 4},
        Case{"sigmoid_cross_entropy", "type: 'SigmoidCrossEntropyLoss'", Shape{2, 3}, 0, true},
        Case{"sigmoid_cross_entropy_valid", sigmoid("normalization: VALID"), Shape{2, 3}, 0, true},
        Case{"sigmoid_cross_entropy_full", sigmoid("normalization: FULL"), Shape{2, 3}, 0, true},
        Case{"sigmoid_cross_entropy_balanced", sigmoid("class_balance: 1.1"), Shape{2, 3}, 3, true},
        Case{"sigmoid_cross_entropy_none", sigmoid("normalization: NONE"), Shape{2, 3}, 0, true},
        Case{"weighted_softmax",
             "type: 'WeightedSoftmaxWithLoss' softmax_param { pos_cid: 2 pos_mult: 3 } loss_param { "
             "ignore_label: 1 }",
             Shape{4, 3}, 4},
        Case{"focal", "type: 'FocalLoss' loss_param { ignore_label: 1 }", Shape{4, 3}, 4},
        Case{"hinge", "type: 'HingeLoss'", Shape{4}, 4},
        Case{"hinge_l2", "type: 'HingeLoss' hinge_loss_param { norm: L2 }", Shape{4}, 4},
        Case{"multinomial_logistic", "type: 'MultinomialLogisticLoss'", Shape{4}, 4},
        Case{"infogain", "type: 'InfogainLoss' loss_param { ignore_label: 1 }", Shape{4, 3}, 4, false, 1,
             Phase::train, 0, 0, false, true},
        Case{"infogain_full", "type: 'InfogainLoss' loss_param { normalization: FULL }", Shape{4, 3}, 4,
             false, 1, Phase::train, 0, 0, false, true},
        Case{"l1", "type: 'L1Loss'", Shape{2, 3}, 0, true},
        Case{"l1_lengths", "type: 'L1Loss' l1_loss_param { l2_per_location: true }", Shape{2, 3}, 0, true},
        Case{"l1_entries", "type: 'L1Loss' l1_loss_param { normalize_by_num_entries: true }", Shape{2, 3}, 0,
             true},
        Case{"lpq",
             "type: 'LpqLoss' lpq_loss_param { pq_episode_starts_at_iter: [0, 1] p: [2, 1] q: [0.5, 0.4] }",
             Shape{2, 3}, 0, true},
        Case{"sigmoid_cross_entropy_weights", "type: 'SigmoidCrossEntropyLoss'", Shape{1}, 0, true, 1,
             Phase::train, 0, 0, true},
        Case{"correlation",
             "type: 'Correlation' correlation_param { kernel_size: 1 max_displacement: 1 pad: 1 }",
             Shape{2, 3, 4}, 0, true},
        Case{"smooth_l1", "type: 'SmoothL1Loss'", Shape{2, 3}, 0, false, 1, Phase::train, 0, 3},
        Case{"contrastive", "type: 'ContrastiveLoss' contrastive_loss_param { margin: 4 }", Shape{3}, 0, true,
             1, Phase::train, 0, 0, true},
        Case{"triplet", "type: 'TripletLoss'", Shape{3}, 0, false, 1, Phase::train, 0, 2},
        Case{"triplet_sets", "type: 'TripletLoss' triplet_loss_param { num_triplets: 2 margin: 3 }", Shape{3},
             0, false, 1, Phase::train, 0, 0, true},
        Case{"k1_euclidean", "type: 'K1_EuclideanLoss'", Shape{3, 2}},
        Case{"k2_euclidean", "type: 'K2_EuclideanLoss'", Shape{3, 2}, 0, true},
        Case{"rank_hard",
             "type: 'RankHardLoss' rank_param { pair_size: 2 neg_num: 3 hard_ratio: 0.4 rand_ratio: 0.7 }",
             Shape{3}, 4},
        Case{"labeled_matching",
             "type: 'LabeledMatching' labeled_matching_param { num_classes: 3 momentum: 0.3 }", Shape{4}, 4,
             false, 2},
        Case{"coral", "type: 'CORALLoss'", Shape{3}, 0, true},
        Case{"dice_coef", "type: 'DiceCoefLoss'", Shape{3, 2}, 0, true},
        Case{"dice_coef_mean", "type: 'DiceCoefLoss' loss_param { normalization: BATCH_SIZE }", Shape{3}, 0,
             true},
        Case{"cosine_loss", "type: 'CosineLoss'", Shape{3, 2}, 0, true},
        Case{"lifted_structure", "type: 'LiftedStructSimilaritySoftmaxLoss'", Shape{3}, 3},
        Case{"double_margin_contrastive",
             "type: 'DoubleMarginContrastiveLoss' double_margin_contrastive_loss_param { margin_gen: 1 "
             "margin_imp: 6 }",
             Shape{3}, 0, true, 1, Phase::train, 0, 0, true},
        Case{"symmetric_rectify",
             "type: 'SymmetricRectify' symmetric_rectify_param { filler { value: 0.4 } }", Shape{3, 2}},
        Case{"hashing", "type: 'HashingLoss' hashing_loss_param { bi_margin: 9 tradeoff: 0.3 }", Shape{3}, 4},
        Case{"pairwise_of_one_set", "type: 'PairwiseLoss' pairwise_param { threshold: 15 }", Shape{3}, 0,
             true},
        Case{"pairwise", "type: 'PairwiseLoss' pairwise_param { class_num: 3 }", Shape{3}, 0, true, 1,
             Phase::train, 0, 2},
        Case{"mmd", "type: 'MMDLoss'", Shape{3}, 0, true},
        Case{"xcov", "type: 'XCovLoss'", Shape{3}, 0, true},
        Case{"top_k", "type: 'TopK' topk_param { k: 2 }", Shape{5}},
        Case{
            "jmmd",
            "type: 'JMMDLoss' jmmd_param { label_kernel_mode: PROB_RBF sigma: 4 label_back_propagate: true }",
            Shape{3}, 0, true, 1, Phase::train, 0, 2},
        Case{"quantization", "type: 'QuantizationLoss'", Shape{3, 2}},
        Case{"charbonnier", "type: 'CharbonnierLoss'", Shape{3, 2}},
        Case{"charbonnier_mask", "type: 'CharbonnierLoss' charbonnier_loss_param { alpha: 0.4 beta: 2 }",
             Shape{3, 2, 2}, 0, true},
        Case{"ssim", "type: 'SSIMLoss' ssim_loss_param { kernel_size: 3 stride: 2 }", Shape{2, 4, 3}, 0,
             true},
        Case{"entropy", "type: 'EntropyLoss'", Shape{3, 2}},
        Case{"softmax_cross_entropy", "type: 'SoftmaxCrossEntropyLoss'", Shape{3, 2}, 0, true},
        Case{"outer_product", "type: 'OuterProduct'", Shape{3}, 0, true},
        Case{"scale_tanh", "type: 'ScaleTanH' scale_tanh_param { power: 1 step_size: 1 }", Shape{3, 2}},
        Case{"compact_bilinear", "type: 'CompactBilinear' compact_bilinear_param { num_output: 5 }",
             Shape{3, 2, 2}, 0, true},
        Case{"meanfield",
             "type: 'MultiStageMeanfield' multi_stage_meanfield_param { num_iterations: 2 theta_alpha: 2 "
             "theta_beta: 2 theta_gamma: 1 }",
             Shape{3, 2, 3}, 0, false, 1, Phase::train, 0, 2},
        Case{"sparsify", "type: 'Sparsify' sparsify_param { coef: 0.1 thre: 0.3 }", Shape{3}},
        Case{"center", "type: 'CenterLoss' center_loss_param { num_output: 4 center_filler { value: 0.5 } }",
             Shape{3}, 4},
        Case{"center_cos",
             "type: 'CenterCosLoss' center_cos_loss_param { num_output: 4 center_cos_filler { value: 0.5 } }",
             Shape{3}, 4},
        Case{"margin",
             "type: 'MarginInnerProduct' margin_inner_product_param { num_output: 4 type: TRIPLE "
             "weight_filler "
             "{ value: 1 } }",
             Shape{4}, 4},
        Case{"large_margin",
             "type: 'LargeMarginInnerProduct' largemargin_inner_product_param { num_output: 4 type: TRIPLE "
             "weight_filler { value: 1 } }",
             Shape{4}, 4},
        Case{"crelu", "type: 'CReLU'", Shape{3, 2}},
        Case{"accuracy_regression", "type: 'AccuracyRegression'", Shape{2, 3}, 0, true},
        Case{"cosine", "type: 'CosineSimilarity'", Shape{2, 3}, 0, true},
        Case{"general_contrastive",
             "type: 'GeneralContrastiveLoss' general_contrastive_loss_param { negative_margin: 2 }", Shape{4},
             4},
        Case{"general_triplet", "type: 'GeneralTripletLoss' general_triplet_loss_param { margin: 1 }",
             Shape{4}, 4},
        Case{"general_triplet_hardest",
             "type: 'GeneralTripletLoss' general_triplet_loss_param { hardest_only: true add_center_loss: "
             "false }",
             Shape{4}, 4, false, 1, Phase::train, 0, 0, true},
        Case{"label_specific_add",
             "type: 'LabelSpecificAdd' label_specific_add_param { bias_base: -1 bias_gamma: -0.5 bias_min: "
             "-9 }",
             Shape{4}, 4},
        Case{"label_specific_rescale",
             "type: 'LabelSpecificRescale' label_specific_rescale_param { positive_weight_base: 3 gamma: 2 }",
             Shape{4}, 4},
        Case{"global_lse_margin", "type: 'GlobalLSEMargin' scale_param { filler { value: 2 } }", Shape{4}, 4},
        Case{"inner_product_of_unit_rows",
             "type: 'InnerProduct' inner_product_param { num_output: 3 normalize: true weight_filler { "
             "value: 2 } }",
             Shape{4}},
        Case{"inner_distance", "type: 'InnerDistance' inner_distance_param { num_output: 3 }", Shape{4}},
        Case{"gradient_scaler", "type: 'GradientScaler' gradient_scaler_param { max_iter: 3 }", Shape{2, 3}},
        Case{"reverse", "type: 'Reverse' reverse_param { axis: [1, 2] }", Shape{2, 3}},
        Case{"transpose", "type: 'Transpose' transpose_param { dim: [0, 2, 1] }", Shape{2, 3}},
        Case{"bn_segnet_sync", "type: 'BN' bn_param { sync: true scale_filler { value: 2 } }", Shape{3, 2}},
        Case{"reduction_sum", "type: 'Reduction'", Shape{2, 3}},
        Case{"reduction_mean", "type: 'Reduction' reduction_param { operation: MEAN coeff: 2 }", Shape{2, 3}},
        Case{"group_norm", "type: 'GroupNorm' group_norm_param { group_num: 2 }", Shape{4, 3}},
        Case{"mvn", "type: 'MVN'", Shape{2, 3}}),
    [](const auto& info) { return info.param.name; });

TEST(ClassDistancesLosses, ShowSharesOfTheMeansOfAllDevices) {
  const std::int64_t total = 5, classes = 3;
  const Values distances = spread_values(total * classes, 1, 2), labels = integers(total, 3, 2);
  const auto run = [&](Bench& bench, std::int64_t first, std::int64_t batch) {
    bench.set_input(
        0, Values(distances.begin() + first * classes, distances.begin() + (first + batch) * classes));
    bench.set_input(1, Values(labels.begin() + first, labels.begin() + first + batch));
    bench.forward();
    EXPECT_EQ(bench.layer().traits().shares, 2);
    return bench.output(1);
  };
  const auto shapes = [&](std::int64_t batch) {
    return std::vector<Shape>{Shape{batch, classes}, Shape{batch}};
  };
  for (const std::string text : {"type: 'GeneralContrastiveLoss'", "type: 'GeneralTripletLoss'"}) {
    SCOPED_TRACE(text);
    Bench alone(text, shapes(total), 2);
    const Values whole = run(alone, 0, total);
    const std::vector<Values> parts = run_shares(text, 2, shapes, run);
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_NEAR(parts[0][i] + parts[1][i] + parts[2][i], whole[i], kTolerance);
  }
}

/// Its batch is axis 1. The gradient is that of the sum, the loss the mean.
TEST(CtcLoss, OfNDevicesIsThatOfOne) {
  const std::string text = "type: 'CtcLoss' ctc_loss_param { alphabet_size: 3 time_step: 4 }";
  const std::int64_t total = 5;
  const Values scores = spread_values(4 * total * 3, 1, 2), labels = integers(2 * total, 3, 2);
  struct Part {
    Values loss, gradient;
  };
  const auto run = [&](Bench& bench, std::int64_t first, std::int64_t batch) {
    Values own;
    for (std::int64_t t = 0; t < 4; ++t)
      own.insert(own.end(), scores.begin() + (t * total + first) * 3,
                 scores.begin() + (t * total + first + batch) * 3);
    bench.set_input(0, own);
    bench.set_input(1, Values(labels.begin() + 2 * first, labels.begin() + 2 * (first + batch)));
    bench.forward();
    bench.backward(Values{0.7});
    return Part{bench.output(), bench.input_gradient()};
  };
  const auto shapes = [](std::int64_t batch) {
    return std::vector<Shape>{Shape{4, batch, 3}, Shape{batch, 2}};
  };
  Bench alone(text, shapes(total), 1);
  const Part whole = run(alone, 0, total);
  const std::vector<Part> parts = run_shares(text, 1, shapes, run);
  EXPECT_NEAR(parts[0].loss[0] + parts[1].loss[0] + parts[2].loss[0], whole.loss[0], kTolerance);
  Values gradient;
  for (std::int64_t t = 0; t < 4; ++t)
    for (int rank = 0; rank < 3; ++rank) {
      const std::int64_t row = 3 * (kFirsts[rank + 1] - kFirsts[rank]);
      const auto from = parts[static_cast<std::size_t>(rank)].gradient.begin() + t * row;
      gradient.insert(gradient.end(), from, from + row);
    }
  expect_near(gradient, whole.gradient, kTolerance, "gradient");
}

TEST(SyncGroups, ShareStatisticsAmongNeighboursOnly) {
  const Case tested{"", "type: 'SyncBN' bn_param { sync_group_size: 2 " + kFillers + " }", Shape{3, 4}};
  const std::vector<Results> four = Replicas(tested).run_shared({2, 2, 2, 2});
  EXPECT_EQ(four[0].statistics, four[1].statistics);
  EXPECT_EQ(four[2].statistics, four[3].statistics);
  EXPECT_NE(four[0].statistics, four[2].statistics);
}

TEST(BatchNormWithoutSync, NeverMeetsAndKeepsItsOwnStatistics) {
  const Case tested{"", "type: 'BN' bn_param { " + kFillers + " }", Shape{3, 4}};
  Replicas replicas(tested);
  const std::vector<Results> two = replicas.run_shared({3, 3});
  EXPECT_EQ(replicas.meetings, 0);
  EXPECT_NE(two[0].statistics, two[1].statistics);
}

TEST(SyncSwitch, OverridesTheFile) {
  for (const bool on : {false, true}) {
    MeetingPoint point(2);
    run_replicas(point, [&](int rank) {
      BenchOptions options;
      options.rank = rank;
      options.devices = 2;
      options.sync_batch_norm = on ? SyncBatchNorm::on : SyncBatchNorm::off;
      Bench bench(on ? "type: 'BN'" : "type: 'SyncBN'", {Shape{2, 3}}, 1, options);
      FakeExchange exchange(point, rank);
      bench.pass.exchange = &exchange;
      bench.set_input(0, spread_values(6, static_cast<unsigned>(rank)));
      bench.forward();
    });
    EXPECT_EQ(point.meetings(), on ? 1 : 0);
  }
}

TEST(AccuracyPerClass, IsAShareOfAllDevices) {
  const Shape scores{2, 3};
  MeetingPoint point(2);
  std::vector<Values> per_class(2);
  run_replicas(point, [&](int rank) {
    BenchOptions options;
    options.rank = rank;
    options.devices = 2;
    Bench bench("type: 'Accuracy'", {scores, Shape{2}}, 2, options);
    EXPECT_EQ(bench.layer().traits().shares, 2);
    FakeExchange exchange(point, rank);
    bench.pass.exchange = &exchange;
    bench.set_input(0, {0, 1, 2, 0, 1, 2});  // both say class 2
    bench.set_input(1, rank == 0 ? Values{2, 0} : Values{2, 2});
    bench.forward();
    per_class[rank] = bench.output(1);
  });
  // Class 2: 3 of 3 correct in all, one of them on rank 0.
  expect_near(per_class[0], {0, 0, 1.0 / 3}, 1e-15);
  expect_near(per_class[1], {0, 0, 2.0 / 3}, 1e-15);
}

}  // namespace
}  // namespace banyan::testing
