#include "train/parameter_meter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "banyan/tensor/values.hpp"
#include "train/part_bench.hpp"

namespace banyan {
namespace {

/// A large inner product, so that its values are sampled; a bias; running statistics; and one frozen layer.
const char* const kMeteredNet = R"(
layer { name: "in" type: "DummyData" top: "in" top: "label"
        dummy_data_param { shape { dim: 4 dim: 300 dim: 1 dim: 1 } shape { dim: 4 }
                           data_filler { type: "gaussian" std: 1 } data_filler { value: 1 } } }
layer { name: "bn" type: "SyncBN" bottom: "in" top: "bn" bn_param { slope_filler { value: 1 } } }
layer { name: "ip" type: "InnerProduct" bottom: "bn" top: "ip"
        inner_product_param { num_output: 200 weight_filler { type: "gaussian" std: 0.1 } } }
layer { name: "frozen" type: "InnerProduct" bottom: "ip" top: "out" param { lr_mult: 0 } param { lr_mult: 0 }
        inner_product_param { num_output: 3 weight_filler { type: "gaussian" std: 0.1 } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "out" bottom: "label" })";

double norm(const std::vector<double>& v) {
  return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
}

class ParameterMeterTest : public testing::Test {
 protected:
  /// Divides the parameters between two meters, as between two devices, at these values of each.
  std::vector<Updater::OwnedPiece> part(std::int64_t from, std::int64_t to) {
    std::vector<Updater::OwnedPiece> pieces;
    for (std::size_t p = 0; p < net_->parameters().size(); ++p) {
      const LearnableParameter& parameter = net_->parameters()[p];
      const std::int64_t first = std::min(from, parameter.count), last = std::min(to, parameter.count);
      if (!parameter.learns() || first == last) continue;
      const auto stretch = [&](const Tensor& of) {
        return of.reshaped(Shape{of.count()}).slice(first, Shape{last - first});
      };
      pieces.push_back({static_cast<int>(p), first, stretch(parameter.value), stretch(parameter.grad), {}});
    }
    return pieces;
  }
  void SetUp() override {
    net_ = bench_.net(kMeteredNet);
    Pass pass = bench_.pass();
    net_->zero_gradients();
    net_->forward(pass);
    net_->backward(pass);
  }
  PartBench bench_;
  std::unique_ptr<Net> net_;
};

TEST_F(ParameterMeterTest, PutsThePartsOfTheDevicesTogether) {
  ParameterMeter first(bench_.context, *net_, part(0, 12345), true),
      second(bench_.context, *net_, part(12345, 1 << 20), false);
  ASSERT_TRUE(first.begin());
  ASSERT_TRUE(second.begin());
  std::map<std::string, std::vector<double>> before, after, gradients;
  const std::vector<ParameterName> names = parameter_names(*net_);
  const auto keep = [&](auto& to, bool gradient) {
    for (std::size_t p = 0; p < names.size(); ++p)
      if (const LearnableParameter& parameter = net_->parameters()[p]; !gradient || parameter.grad.defined())
        to[names[p].name] = values_of(bench_.context, gradient ? parameter.grad : parameter.value).values;
  };
  keep(before, false);
  keep(gradients, true);
  for (LearnableParameter& parameter : net_->parameters())
    if (parameter.learns()) ops::axpby(bench_.context, -0.5, parameter.grad, 1, parameter.value);
  keep(after, false);
  const metrics::Parameters measured = measure_parameters(names, {first.end(), second.end()});
  std::vector<std::string> found;
  for (const metrics::Parameters::Entry& entry : measured.entries) {
    found.push_back(entry.name);
    EXPECT_NEAR(entry.norm, norm(after[entry.name]), 1e-12 * norm(after[entry.name])) << entry.name;
    EXPECT_EQ(entry.count, std::ssize(after[entry.name]));
    EXPECT_EQ(entry.statistic, entry.name.find("running") != std::string::npos);
    EXPECT_EQ(entry.gradient_norm.has_value(), !entry.statistic);
    if (entry.statistic) continue;
    EXPECT_NEAR(*entry.gradient_norm, norm(gradients[entry.name]), 1e-12);
    // ip.bias begins with zeros: its first change has no ratio.
    if (norm(before[entry.name]) == 0) {
      EXPECT_FALSE(entry.update_ratio) << entry.name;
      continue;
    }
    EXPECT_NEAR(entry.update_ratio.value(), 0.5 * norm(gradients[entry.name]) / norm(before[entry.name]),
                1e-12);
  }
  EXPECT_THAT(found, testing::ElementsAre("bn.weight", "bn.bias", "bn.running_mean", "bn.running_var",
                                          "ip.weight", "ip.bias"));
}

/// A part of the values, spread over all of them: a histogram of the sample is that of the whole but for
/// chance.
TEST_F(ParameterMeterTest, SamplesLargeParametersEvenly) {
  ParameterMeter meter(bench_.context, *net_, part(0, 1 << 20), false);
  LearnableParameter* weight = nullptr;
  for (LearnableParameter& parameter : net_->parameters())
    if (parameter.layer == "ip" && parameter.slot == 0) weight = &parameter;
  ASSERT_GT(weight->count, ParameterMeter::kMostSampled);
  std::vector<double> ascending(static_cast<std::size_t>(weight->count));
  std::iota(ascending.begin(), ascending.end(), 0.0);
  set_values(bench_.context, ascending, weight->value);
  ASSERT_TRUE(meter.begin());
  for (const metrics::Parameters::Entry& entry :
       measure_parameters(parameter_names(*net_), {meter.end()}).entries) {
    if (entry.name != "ip.weight") continue;
    EXPECT_EQ(entry.values.count, ParameterMeter::kMostSampled);
    EXPECT_EQ(entry.count, 60000);
    const double last = 59999;
    EXPECT_EQ(entry.values.min, 0);
    EXPECT_GT(entry.values.max, 0.99 * last);
    EXPECT_NEAR(entry.values.sum / static_cast<double>(entry.values.count), last / 2, 0.01 * last);
  }
}

TEST_F(ParameterMeterTest, TakesNoSampleWhileTheLastOneIsLookedAt) {
  ParameterMeter meter(bench_.context, *net_, part(0, 1 << 20), true);
  ASSERT_TRUE(meter.begin());
  auto sample = meter.end();
  EXPECT_FALSE(meter.begin());
  sample.reset();
  EXPECT_TRUE(meter.begin());
}

}  // namespace
}  // namespace banyan
