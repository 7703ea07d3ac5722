// Decay of groups of weights and weights that stay 0 (SSL): steps by their formulas, and whole runs.
#include <gmock/gmock.h>

#include "banyan/tensor/values.hpp"
#include "banyan/train/updater.hpp"
#include "promise_cases.hpp"
#include "train/part_bench.hpp"

namespace banyan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Updates of the weights 3 4 | 0 0 | 12 5 (rows), whose gradients are 1, with rate 0.5.
struct SparseStep {
  SparseStep() {
    parameter.layer = "ip";
    parameter.offset = 0;
    parameter.count = 6;
    parameter.decay_mult = 0;
  }
  std::vector<double> run(int steps = 1, int iter_size = 1) {
    PartBench bench;
    Tensor value(*bench.device, Shape{6}, DType::f64), gradient(*bench.device, Shape{6}, DType::f64);
    set_values(bench.context, start, value);
    ops::fill(bench.context, gradient, iter_size);
    solver.iter_size = iter_size;
    const std::vector<LearnableParameter> parameters = {parameter};
    Updater updater(bench.context, solver, parameters, {{0, 6, 0, 0}}, 0, value, gradient);
    for (int step = 0; step < steps; ++step) {
      updater.begin(bench.context, step, 0.5);
      updater.update(bench.context, 0);
    }
    history = values_of(bench.context, updater.histories_of_bucket(0)[0]).values;
    return values_of(bench.context, value).values;
  }
  void decay(Sparsity::Kind kind, double mult, std::int64_t rows, std::int64_t columns) {
    parameter.sparsity.decays.push_back({kind, mult, {3, 2, rows, columns}});
  }
  std::vector<double> start{3, 4, 0, 0, 12, 5};
  LearnableParameter parameter;
  SolverSettings solver;
  std::vector<double> history;
};

testing::Matcher<std::vector<double>> close_to(const std::vector<double>& values) {
  std::vector<testing::Matcher<double>> each;
  for (const double value : values) each.push_back(testing::DoubleNear(value, 1e-14));
  return testing::ElementsAreArray(each);
}

TEST(GroupDecay, AddsTheWeightsByTheNormOfTheirRow) {
  SparseStep step;
  step.decay(Sparsity::Kind::breadth, 2, 1, 2);
  step.solver.update.breadth_decay = 0.5;
  step.solver.update.kernel_shape_decay = 9;  // of none here
  const std::vector<double> decayed{3 - 0.5 * (1 + 0.6),       4 - 0.5 * (1 + 0.8),    -0.5, -0.5,
                                    12 - 0.5 * (1 + 12. / 13), 5 - 0.5 * (1 + 5. / 13)};
  EXPECT_THAT(step.run(), close_to(decayed));
  EXPECT_THAT(step.run(1, 4), close_to(decayed)) << "the decay is not divided by iter_size";
  step.solver.update.breadth_decay = 0;
  EXPECT_THAT(step.run(), ElementsAre(2.5, 3.5, -0.5, -0.5, 11.5, 4.5));
}

TEST(GroupDecay, AddsColumnsAndBlocksToWeightDecay) {
  SparseStep step;
  step.start = {3, 0, 4, 0, 0, 2};
  step.decay(Sparsity::Kind::kernel_shape, 1, 3, 1);
  step.decay(Sparsity::Kind::block, 3, 3, 2);
  step.parameter.decay_mult = 1;
  step.solver.update.weight_decay = 0.25;
  step.solver.update.kernel_shape_decay = 1;
  step.solver.update.block_group_decay = 0.5;
  const double block = 1.5 / std::sqrt(29.);
  const auto next = [&](double w, double column) {
    return w - 0.5 * (1 + 0.25 * w + (column > 0 ? w / column : 0) + block * w);
  };
  EXPECT_THAT(step.run(), close_to({next(3, 5), -0.5, next(4, 5), -0.5, -0.5, next(2, 2)}));
}

TEST(GroupDecay, GoesIntoTheHistoryOfEverySolver) {
  for (const ops::UpdateRule rule : {ops::UpdateRule::sgd, ops::UpdateRule::adam, ops::UpdateRule::adamw}) {
    SparseStep step;
    step.decay(Sparsity::Kind::breadth, 1, 1, 2);
    step.solver.update.rule = rule;
    step.solver.update.breadth_decay = 1;
    step.solver.update.momentum2 = 0.5;
    step.solver.update.delta = 1e-8;
    step.run();
    // momentum 0: the rate times the gradient, or the gradient itself
    const double rate = rule == ops::UpdateRule::sgd ? 0.5 : 1;
    EXPECT_THAT(step.history,
                close_to({rate * 1.6, rate * 1.8, rate, rate, rate * (1 + 12. / 13), rate * (1 + 5. / 13)}));
  }
}

/// LARC's rates follow the gradient before decay.
TEST(GroupDecay, DoesNotChangeLayerWiseRates) {
  SparseStep step;
  step.decay(Sparsity::Kind::breadth, 1, 1, 2);
  step.solver.update.breadth_decay = 1;
  step.solver.update.layer_wise = LayerWise::larc_scale;
  step.solver.update.layer_wise_eta = 0.1;
  const double rate = 0.5 * 0.1 * std::sqrt(25 + 169.) / std::sqrt(6.);
  const std::vector<double> expected{
      3 - rate * 1.6, 4 - rate * 1.8, -rate, -rate, 12 - rate * (1 + 12. / 13), 5 - rate * (1 + 5. / 13)};
  EXPECT_THAT(step.run(), close_to(expected));
  EXPECT_THAT(step.run(1, 4), close_to(expected));
}

TEST(GroupDecay, TakesAParametersOwnRegularization) {
  SparseStep step;
  step.parameter.decay_mult = 1;
  step.parameter.l1 = true;
  step.solver.update.weight_decay = 0.25;
  EXPECT_THAT(step.run(), ElementsAre(2.375, 3.375, -0.5, -0.5, 11.375, 4.375));
  step.parameter.l1 = false;
  step.solver.update.l1 = true;
  EXPECT_THAT(step.run(), ElementsAre(2.125, 3, -0.5, -0.5, 10, 3.875));
  step.solver.update.decoupled = true;
  EXPECT_THAT(step.run(), ElementsAre(2.125, 3, -0.5, -0.5, 10, 3.875));
  step.solver.update.rule = ops::UpdateRule::adamw;
  EXPECT_THAT([&] { step.run(); },
              testing::ThrowsMessage<Error>(HasSubstr("cannot be used with AdamW, whose decay is not part")));
}

TEST(Connectivity, KeepsWeightsOrRowsAndColumnsAtZero) {
  SparseStep step;
  step.solver.update.momentum = 0.5;
  step.start = {3, 4, 0, 0, 12, 0};
  step.parameter.sparsity.held = {{3, 2, 1, 1}};
  EXPECT_THAT(step.run(2), ElementsAre(1.75, 2.75, 0, 0, 10.75, 0));
  EXPECT_THAT(step.history, ElementsAre(0.75, 0.75, 0, 0, 0.75, 0));
  step.parameter.sparsity.held = {{3, 2, 1, 2}, {3, 2, 3, 1}};
  EXPECT_THAT(step.run(2), ElementsAre(1.75, 2.75, 0, 0, 10.75, -1.25));
  step.start = {0, 4, 0, 1, 0, 0};
  EXPECT_THAT(step.run(2), ElementsAre(0, 2.75, 0, -0.25, 0, 0));
}

TEST(GroupDecay, NeedsWholeParametersInBuckets) {
  SparseStep step;
  step.decay(Sparsity::Kind::breadth, 2, 1, 2);
  UpdateSettings update;
  EXPECT_FALSE(needs_whole_parameters(update, {step.parameter}));
  update.breadth_decay = 1;
  EXPECT_TRUE(needs_whole_parameters(update, {step.parameter}));
  SparseStep held;
  held.parameter.sparsity.held = {{3, 2, 1, 1}};
  EXPECT_FALSE(needs_whole_parameters({}, {held.parameter}));
  held.parameter.sparsity.held = {{3, 2, 1, 2}};
  EXPECT_TRUE(needs_whole_parameters({}, {held.parameter}));
}

/// Rows, columns in two groups, blocks, a shared parameter, a layer whose zeros stay, and weights (120 KB)
/// that would be cut into several buckets.
const char* const kSparseLayers = R"(
layer { name: 'sparse1' type: 'Convolution' bottom: 'bn1' top: 'sparse1'
  param { breadth_decay_mult: 1 kernel_shape_decay_mult: 0.5 } param { regularization_type: 'L1' }
  convolution_param { num_output: 6 group: 2 kernel_size: 3 stride: 2 weight_filler { type: 'xavier' } } }
layer { name: 'rectify' type: 'SymmetricRectify' bottom: 'sparse1' top: 'sparse1'
  symmetric_rectify_param { filler { value: 0.05 } thre_decay: 0.001 } }
layer { name: 'sparsify' type: 'Sparsify' bottom: 'sparse1' top: 'sparse1' sparsify_param { coef: 0.0001 } }
layer { name: 'sparse2' type: 'InnerProduct' bottom: 'sparse1' top: 'sparse2'
  param { block_group_lasso { xdimen: 24 ydimen: 4 } block_group_lasso { xdimen: 2 ydimen: 2 block_decay_mult: 0.5 } }
  inner_product_param { num_output: 8 weight_filler { type: 'xavier' } } }
layer { name: 'sparse3' type: 'InnerProduct' bottom: 'sparse2' top: 'sparse3' connectivity_mode: DISCONNECTED_ELTWISE
  param { name: 's' breadth_decay_mult: 1 } param { name: 't' }
  inner_product_param { num_output: 8 weight_filler { type: 'gaussian' sparse: 3 } } }
layer { name: 'sparse4' type: 'InnerProduct' bottom: 'sparse3' top: 'sparse4' param { name: 's' } param { name: 't' }
  inner_product_param { num_output: 8 } }
layer { name: 'wide' type: 'InnerProduct' bottom: 'sparse1' top: 'wide'
  param { breadth_decay_mult: 1 kernel_shape_decay_mult: 1 }
  inner_product_param { num_output: 160 weight_filler { type: 'xavier' } } }
layer { name: 'mean' type: 'Reduction' bottom: 'wide' top: 'mean' loss_weight: 0.01 reduction_param { operation: MEAN } }
layer { name: 'unit' type: 'Normalize' bottom: 'sparse4' top: 'unit' normalize_param { } }
layer { name: 'rank' type: 'RankHardLoss' bottom: 'unit' bottom: 'label' top: 'rank' loss_weight: 0.3
  rank_param { pair_size: 2 neg_num: 4 hard_ratio: 0.5 rand_ratio: 0.5 margin: 1 } }
)";
const char* const kGroupDecay = "breadth_decay: 0.01 kernel_shape_decay: 0.02 block_group_decay: 0.03 ";

TrainingCase sparse_case(const std::string& more = "") {
  return {std::string(kSolver) + kGroupDecay + more, data_layer() + kBody + kSparseLayers + classifier()};
}

TEST(GroupDecay, OfNDevicesIsThatOfOne) {
  for (const char* const more : {"", "iter_size: 2 clip_gradients: 0.5", "larc: true larc_eta: 0.02"}) {
    const TrainingCase what = sparse_case(more);
    const Trained one = train_case(what, 1);
    for (const int devices : {2, 3, 4}) expect_the_same_run(one, what, cpu_devices(devices));
  }
}

TEST(GroupDecay, DrawsGroupsToZero) {
  const auto norms = [](const TrainingCase& what) {
    const Trained trained = train_case(what, 1);
    double sum = 0;
    for (const auto& blob : trained.weights.find("sparse1")->blobs)
      for (std::size_t i = 0; i < blob.count(); ++i) sum += blob.at(i) * blob.at(i);
    return sum;
  };
  TrainingCase without = sparse_case();
  without.solver.replace(without.solver.find(kGroupDecay), std::string(kGroupDecay).size(), "");
  EXPECT_LT(norms(sparse_case()), 0.99 * norms(without));
}

/// Gradients that give their memory back during the backward pass, and those that stay.
TEST(GroupDecay, IsThatOfKeptGradients) {
  const Trained brief = train_case(sparse_case(), 1),
                kept = train_case(sparse_case("clip_gradients: 1e30"), 1);
  EXPECT_EQ(brief.values(), kept.values());
}

std::vector<double> weights_of(const Trained& trained, const std::string& layer) {
  std::vector<double> values;
  const io::BlobData& blob = trained.weights.find(layer)->blobs.at(0);
  for (std::size_t i = 0; i < blob.count(); ++i) values.push_back(blob.at(i));
  return values;
}

TEST(Connectivity, ZerosOfAFillerStayAndOthersMove) {
  TrainingCase start = sparse_case("average_loss: 1");
  start.iterations = 0;
  const std::vector<double> before = weights_of(train_case(start, 1), "sparse3"),
                            after = weights_of(train_case(sparse_case(), 1), "sparse3");
  ASSERT_EQ(before.size(), 64u);
  int zeros = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    zeros += before[i] == 0;
    EXPECT_EQ(after[i] == 0, before[i] == 0) << i;
  }
  EXPECT_GT(zeros, 10);
  EXPECT_LT(zeros, 60);
}

/// The solver's sparse_mode is that of all layers with a matrix of weights.
TEST(Connectivity, ASolverMayKeepTheZerosOfAllLayers) {
  const std::string own = " connectivity_mode: DISCONNECTED_ELTWISE";
  TrainingCase start = sparse_case("average_loss: 1"), kept = sparse_case("sparse_mode: SPARSE_UPDATE"),
               older = sparse_case("weight_connect_mode: WEIGHT_DISCONNECTED_ELTWISE"), moved = sparse_case();
  const std::string of_tests =  // comes first, with the same weights
      "layer { name: 'sparse0' type: 'InnerProduct' bottom: 'sparse2' top: 'sparse0' include { phase: TEST } "
      "param { "
      "name: 's' } inner_product_param { num_output: 8 } }\n";
  for (TrainingCase* what : {&start, &kept, &older, &moved}) {
    what->net.replace(what->net.find(own), own.size(), "");
    what->net.insert(what->net.find("layer { name: 'sparse3'"), of_tests);
  }
  start.iterations = 0;
  const auto zeros = [](const TrainingCase& what) {
    const std::vector<double> weights = weights_of(train_case(what, 1), "sparse3");
    return std::count(weights.begin(), weights.end(), 0.0);
  };
  EXPECT_GT(zeros(start), 10);
  EXPECT_EQ(zeros(kept), zeros(start));
  EXPECT_EQ(zeros(older), zeros(start));
  EXPECT_EQ(zeros(moved), 0);
}

TEST(Connectivity, DisconnectsWhatIsLoadedAndGoesOnWithItWhenResumed) {
  const std::string layer = "name: 'sparse2' type: 'InnerProduct'";
  TrainingCase first = sparse_case("average_loss: 1");
  first.solver.replace(first.solver.find("base_lr: 0.05"), 13, "base_lr: 1e-9");
  first.iterations = 1;
  const std::string filler = "inner_product_param { num_output: 8 weight_filler { type: 'xavier' }";
  first.net.replace(first.net.find(filler), filler.size(),
                    "inner_product_param { num_output: 8 weight_filler { type: 'gaussian' std: 0.0002 }");
  const TrainingFolder begun, whole, again;
  const std::vector<double> small = weights_of(train_case(first, 1, begun), "sparse2");
  TrainingCase what = sparse_case("snapshot: 7");
  what.net.replace(what.net.find(layer), layer.size(), layer + " connectivity_mode: DISCONNECTED_ELTWISE");
  what.net += R"(
layer { name: 'new' type: 'InnerProduct' bottom: 'sparse1' top: 'new' connectivity_mode: DISCONNECTED_ELTWISE
  inner_product_param { num_output: 8 weight_filler { type: 'gaussian' std: 0.0002 } } })";  // not in the
                                                                                             // file
  TrainOptions options = options_of(what, whole, 2);
  options.weights = {begun.path() + "/out_iter_1.caffemodel"};
  ASSERT_EQ(train(options), 0);
  const Trained trained = read_trained(whole, 20);
  const std::vector<double> weights = weights_of(trained, "sparse2");
  int zeros = 0;
  for (std::size_t i = 0; i < small.size(); ++i) {
    zeros += weights[i] == 0;
    EXPECT_EQ(weights[i] == 0, std::abs(small[i]) < 1e-4) << i;
  }
  EXPECT_GT(zeros, 100);
  for (const double weight : weights_of(trained, "new")) EXPECT_NE(weight, 0);
  for (const std::string end : {".caffemodel", ".solverstate"})
    std::filesystem::copy(whole.path() + "/out_iter_7" + end, again.path() + "/out_iter_7" + end);
  TrainOptions resumed = options_of(what, again, 2);
  resumed.solver.random_seed.reset();
  resumed.snapshot = again.path() + "/out_iter_7.solverstate";
  ASSERT_EQ(train(resumed), 0);
  EXPECT_EQ(read_trained(again, 20).values(), trained.values());
}

TEST(GroupDecay, RefusesDecaysThatAreNone) {
  for (const char* const text : {"breadth_decay: -1", "kernel_shape_decay: -1", "block_group_decay: nan"}) {
    const TrainingFolder folder;
    EXPECT_THAT(
        [&] {
          options_of({std::string(kFixedSolver) + text, data_layer()}, folder, 1);
        },
        testing::ThrowsMessage<Error>(HasSubstr("must be a number >= 0")))
        << text;
  }
}

}  // namespace
}  // namespace banyan
