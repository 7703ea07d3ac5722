// One device updates each parameter during the backward pass, and its gradient then gives its memory back,
// where nothing needs all gradients: the results are those of updates after the pass.
#include "banyan/device/memory.hpp"
#include "promise_cases.hpp"

namespace banyan {
namespace {

/// No gradient is that large, but all of them are needed to know that.
TrainingCase with_kept_gradients(TrainingCase what) {
  what.solver += " clip_gradients: 1e30";
  return what;
}

std::vector<std::string> moments_of(const Trained& trained) {
  std::vector<std::string> all;
  for (const auto& blob : trained.state.history()) all.push_back(blob.SerializeAsString());
  return all;
}

/// Those of the promises that do not keep gradients, and the other solvers.
std::vector<Variant> brief_variants() {
  const std::string fixed = "base_lr: 0.01 lr_policy: 'fixed' random_seed: 3 ",
                    net = data_layer() + kBody + classifier();
  std::vector<Variant> all = variants();
  all.push_back({"AdaGrad", {fixed + "type: 'AdaGrad'", net}});
  all.push_back({"RmsProp", {fixed + "type: 'RMSProp' rms_decay: 0.9", net}});
  all.push_back({"AdaDelta", {fixed + "type: 'AdaDelta' momentum: 0.9 delta: 1e-4", net}});
  all.push_back({"LambOnce", {fixed + "type: 'LAMB' momentum: 0.9 momentum2: 0.99 delta: 1e-4", net}});
  std::erase_if(all, [](const Variant& each) {
    return each.what.solver.find("clip_gradients") != std::string::npos ||
           each.what.solver.find("iter_size") != std::string::npos;
  });
  return all;
}

class BriefGradientsTest : public testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(Promises, BriefGradientsTest, testing::ValuesIn(brief_variants()),
                         [](const auto& info) { return info.param.name; });

TEST_P(BriefGradientsTest, ChangeNoBit) {
  for (const RunPrecision precision : {RunPrecision::f64, RunPrecision::f32}) {
    TrainingCase what = GetParam().what;
    what.precision = precision;
    what.iterations = 6;
    const Trained kept = train_case(with_kept_gradients(what), 1), brief = train_case(what, 1);
    EXPECT_EQ(brief.values(), kept.values());
    EXPECT_EQ(brief.losses(), kept.losses());
    EXPECT_EQ(moments_of(brief), moments_of(kept));
  }
}

const TrainingCase kPlain{kSolver, data_layer() + kBody + classifier() + kSecondLoss};

TEST(BriefGradients, AreForRunsThatNeedNoneLater) {
  const TrainingFolder folder;
  const TrainOptions plain = options_of(kPlain, folder, 1);
  EXPECT_FALSE(keeps_gradients(plain));
  EXPECT_TRUE(keeps_gradients(options_of(kPlain, folder, 2)));
  EXPECT_TRUE(keeps_gradients(options_of(with_kept_gradients(kPlain), folder, 1)));
  const auto with = [&](auto change) {
    TrainOptions options = plain;
    change(options);
    return keeps_gradients(options);
  };
  EXPECT_TRUE(with([](TrainOptions& options) { options.solver.iter_size = 2; }));
  EXPECT_TRUE(with([](TrainOptions& options) { options.solver.snapshot.diff = true; }));
  EXPECT_TRUE(with([](TrainOptions& options) { options.solver.metrics.histograms = 10; }));
  EXPECT_TRUE(with([](TrainOptions& options) { options.keep_blobs = true; }));
  EXPECT_FALSE(with([](TrainOptions& options) { options.warnings = options.check_nan = true; }));
}

/// Weights of 300 x 2000 and 2000 x 2000. The larger ones' gradient is needed first, when the other's is not
/// yet.
TEST(BriefGradients, TakeTheMemoryOfTheLargest) {
  constexpr std::size_t kFirst = 300 * 2000 * sizeof(float), kSecond = 2000 * 2000 * sizeof(float);
  TrainingCase what{"base_lr: 0.01 lr_policy: 'fixed' random_seed: 3 ", data_layer() + R"(
layer { name: 'ip1' type: 'InnerProduct' bottom: 'data' top: 'ip1'
  inner_product_param { num_output: 2000 weight_filler { type: 'xavier' } } }
layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip1' top: 'ip2'
  inner_product_param { num_output: 2000 weight_filler { type: 'xavier' } } }
layer { name: 'ip3' type: 'InnerProduct' bottom: 'ip2' top: 'ip3'
  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip3' bottom: 'label' top: 'loss' }
)"};
  what.precision = RunPrecision::f32;
  what.iterations = 2;
  const auto peak = [](const TrainingCase& of) {
    reset_peak_of_all_devices();
    const std::size_t before = memory_of_all_devices().in_use;
    train_case(of, 1);
    return memory_of_all_devices().peak - before;
  };
  const std::size_t kept = peak(with_kept_gradients(what)), brief = peak(what);
  EXPECT_GE(kept, 3 * (kFirst + kSecond));
  // Activations and the small parameters: 24 samples of 4,005 values and their gradients.
  EXPECT_LE(brief, 2 * (kFirst + kSecond) + kSecond + (std::size_t{1} << 20));
}

/// What observers see of gradients is there when they look.
TEST(BriefGradients, ObserversChangeNoBit) {
  const TrainingFolder folder;
  TrainingCase what = kPlain;
  what.iterations = 4;
  const Trained expected = train_case(what, 1);
  TrainOptions options = options_of(what, folder, 1);
  options.check_nan = options.warnings = true;
  options.solver.debug_info = true;
  options.solver.display = 1;
  FLAGS_minloglevel = 2;
  ASSERT_FALSE(keeps_gradients(options));
  train(options);
  EXPECT_EQ(read_trained(folder, what.iterations).values(), expected.values());
}

}  // namespace
}  // namespace banyan
