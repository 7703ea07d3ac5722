// What is said of made-up figures, and that healthy ones pass in silence.
#include "train/early_warnings.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "banyan/base/error.hpp"

namespace banyan {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Four layers with weights and biases, each but the last with a rectifier of 20 channels; two devices.
WarningFacts facts() {
  WarningFacts facts;
  for (const char* layer : {"a", "b", "c", "d"}) {
    facts.parameters.push_back({layer, true, true});
    facts.parameters.push_back({layer, true, false});
  }
  facts.parameters.push_back({"frozen", false, true});
  facts.rectifiers = {"relu a", "relu b", "relu c"};
  facts.sources = {{"train", "data", 1000, 50, 0, 2, true}, {"test0", "data", 200, 50, 4, 1, true}};
  facts.normalizations = {{"bn", 25, 50}};
  facts.cores = 16;
  facts.steps_by_gradient = true;
  facts.samples = 50;
  facts.base_lr = 0.1;
  return facts;
}

/// A run: displays every 100 iterations of what it is told to see.
struct Watched {
  explicit Watched(WarningFacts of = facts()) : warnings(of) {
    sees.rate = 0.1;
    for (std::size_t p = 0; p < of.parameters.size(); ++p)
      sees.vitals.parameters.push_back({100, 0.01, 0.01});
    sees.vitals.alive.assign(of.rectifiers.size(), std::vector<bool>(20, true));
    for (const char* name : {"cpu:0", "cpu:1"}) {
      metrics::Train::Device& device = record.devices.emplace_back();
      device.name = name;
      device.waiting_for_data = 0.01;
      device.milliseconds = {{"iteration", 20}, {"exposed_skew", 1}, {"data", 0.1}};
    }
    record.gradient_norm = 0.3;
    record.iterations = 100;
  }
  double& milliseconds(std::size_t device, const std::string& key) {
    for (auto& [name, value] : record.devices[device].milliseconds)
      if (name == key) return value;
    throw std::out_of_range(key);
  }
  /// The texts of what is said after a display at which the mean loss was `loss`.
  std::vector<std::string> display(double loss = 1) {
    sees.losses = {};
    for (int i = 0; i < 100; ++i) sees.losses.add(sees.iteration - 99 + i, loss + (i % 2 == 0 ? 0.1 : -0.1));
    for (auto& parameter : sees.vitals.parameters) parameter.values *= moves;
    std::vector<std::string> texts;
    for (const EarlyWarning& warning : warnings.look(sees, record)) {
      EXPECT_FALSE(warning.advice.empty()) << warning.text;
      texts.push_back(warning.text);
    }
    sees.iteration += 100;
    return texts;
  }
  /// The same of several displays.
  std::vector<std::string> displays(int count, double loss = 1) {
    std::vector<std::string> all;
    for (int i = 0; i < count; ++i)
      for (std::string& text : display(loss)) all.push_back(std::move(text));
    return all;
  }
  std::vector<std::string> start() {
    std::vector<std::string> texts;
    for (const EarlyWarning& warning : warnings.at_start())
      texts.push_back(warning.text + "; " + warning.advice);
    return texts;
  }

  EarlyWarnings warnings;
  Observed sees;
  metrics::Train record;
  double moves = 1.001;
};

TEST(EarlyWarnings, SayNothingOfAHealthyRun) {
  Watched run;
  EXPECT_THAT(run.start(), IsEmpty());
  double loss = 2.3;
  for (int i = 0; i < 50; ++i, loss *= 0.95) {
    run.sees.vitals.parameters[0].gradient = 0.01 * (1 + i % 7);  // noise
    run.sees.vitals.alive[0][static_cast<std::size_t>(i) % 20] = i % 3 == 0;
    EXPECT_THAT(run.display(loss * (i % 2 == 0 ? 1.2 : 0.9)), IsEmpty()) << i;
  }
}

TEST(EarlyWarnings, NameLayersThatAreNotFinite) {
  Watched run;
  EXPECT_THAT(run.display(), IsEmpty());
  run.sees.vitals.parameters[2].values = kNan;  // b
  run.record.gradient_norm = kNan;
  EXPECT_THAT(run.display(),
              ElementsAre(HasSubstr("the gradient of iteration 100 is not finite; nor are the parameters of "
                                    "layer \"b\"")));
  EXPECT_THAT(run.displays(5), IsEmpty());
  EXPECT_EQ(nor_parameters_of(2, 4, "b"),
            "nor are the parameters of 2 of 4 layers, the last of which is \"b\"");

  Watched other;
  other.sees.losses.add(37, INFINITY);
  other.sees.losses.add(38, kNan);
  const std::vector<EarlyWarning> found = other.warnings.look(other.sees, other.record);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text, "the loss is not finite since iteration 37");
}

TEST(EarlyWarnings, ASteadyRiseOfTheLoss) {
  Watched run;
  EXPECT_THAT(run.displays(3, 1.0), IsEmpty());
  for (const double loss : {1.1, 1.2, 1.3, 1.4}) EXPECT_THAT(run.display(loss), IsEmpty());
  EXPECT_THAT(
      run.display(1.5),
      ElementsAre(HasSubstr("risen in each of the last 5 intervals, from 1 up to iteration 200 to 1.5")));
  EXPECT_THAT(run.display(1.6), IsEmpty());
  // Once more, or less than noise, or hardly anything of the loss at the start.
  Watched noisy, small;
  for (int i = 0; i < 40; ++i) EXPECT_THAT(noisy.display(1 + 0.01 * (i % 5)), IsEmpty());
  EXPECT_THAT(small.display(50), IsEmpty());
  for (int i = 0; i < 8; ++i) EXPECT_THAT(small.display(1 + 0.2 * i), IsEmpty());
}

/// Displays shorter than an interval of which a mean says something count together.
TEST(EarlyWarnings, TakeLossesOfSeveralShortDisplaysTogether) {
  Watched run;
  std::vector<std::string> said;
  for (int i = 0; i < 60; ++i) {
    run.sees.losses = {};
    run.sees.losses.add(i, 1 + 0.1 * (i / 5 % 2) + 0.001 * i);  // up and down, displayed each iteration
    for (const EarlyWarning& warning : run.warnings.look(run.sees, run.record)) said.push_back(warning.text);
    for (auto& parameter : run.sees.vitals.parameters) parameter.values *= 1.001;
    ++run.sees.iteration;
  }
  EXPECT_THAT(said, IsEmpty());
}

TEST(EarlyWarnings, DeadRectifiers) {
  Watched run;
  EXPECT_THAT(run.display(), IsEmpty());
  std::vector<bool>& alive = run.sees.vitals.alive[1];
  alive.assign(20, false);
  alive[7] = true;
  EXPECT_THAT(run.displays(2), IsEmpty());
  EXPECT_THAT(run.display(), ElementsAre(HasSubstr("in layer \"relu b\" 95 % of the channels")));
  run.sees.vitals.alive[2].assign(20, false);
  EXPECT_THAT(run.displays(3), ElementsAre(HasSubstr("in layer \"relu c\" 100 %")));
  EXPECT_THAT(run.displays(5), IsEmpty());
  // Not those that live now and then, nor nine tenths.
  Watched other;
  for (int i = 0; i < 12; ++i) {
    other.sees.vitals.alive[0].assign(20, i % 3 == 0);
    other.sees.vitals.alive[1].assign(20, false);
    other.sees.vitals.alive[1][0] = other.sees.vitals.alive[1][1] = true;
    EXPECT_THAT(other.display(), IsEmpty());
  }
}

/// A channel lives if it does on any device; one without samples has no say.
TEST(EarlyWarnings, DevicesArePutTogether) {
  VitalSigns all;
  merge({{{1, 2, 3}}, {{true, false, false}}}, all);
  merge({{{10, 20, 30}}, {{false, false, true}}}, all);
  merge({{{0, 0, 0}}, {{}}}, all);
  EXPECT_EQ(all.parameters[0].values, 11);
  EXPECT_EQ(all.parameters[0].gradient, 22);
  EXPECT_EQ(all.parameters[0].scaled_gradient, 33);
  EXPECT_THAT(all.alive, ElementsAre(ElementsAre(true, false, true)));
}

TEST(EarlyWarnings, ExplodingGradients) {
  Watched run;
  EXPECT_THAT(run.displays(3), IsEmpty());
  run.sees.vitals.parameters[4].scaled_gradient = 2.5e4;  // c: 0.1 * 158 / 14
  EXPECT_THAT(run.display(),
              ElementsAre(AllOf(HasSubstr("gradients explode"), HasSubstr("would move layer \"c\" by 1"))));
  EXPECT_THAT(run.displays(3), IsEmpty());

  WarningFacts adam = facts();
  adam.steps_by_gradient = false;
  Watched other(adam);
  EXPECT_THAT(other.displays(3), IsEmpty());
  other.sees.vitals.parameters[4].gradient = 1e4;
  EXPECT_THAT(other.display(), IsEmpty()) << "a spike while the loss stays";
  other.sees.vitals.parameters[4].gradient = 1e9;
  EXPECT_THAT(other.display(1.5), ElementsAre(HasSubstr("the norm in layer \"c\" is 31")));

  WarningFacts clipping = facts();
  clipping.clip_norm = 1;
  Watched clipped(clipping);
  EXPECT_THAT(clipped.displays(3), IsEmpty());
  clipped.sees.vitals.parameters[4].scaled_gradient = 2.5e4;
  clipped.record.gradient_norm = std::sqrt(2.5e4);
  EXPECT_THAT(clipped.displays(3), IsEmpty());
}

TEST(EarlyWarnings, VanishingGradients) {
  Watched run;
  for (const std::size_t p : {0, 1}) run.sees.vitals.parameters[p].gradient = 1e-16;
  EXPECT_THAT(run.displays(2), IsEmpty());
  EXPECT_THAT(run.display(), ElementsAre(HasSubstr("gradients vanish: in layer \"a\" they are 1e-07")));
  EXPECT_THAT(run.displays(5), IsEmpty());
  Watched small;
  for (const std::size_t p : {0, 1}) small.sees.vitals.parameters[p].gradient = 1e-11;
  EXPECT_THAT(small.displays(5), IsEmpty());
}

TEST(EarlyWarnings, WeightsThatDoNotMove) {
  Watched run;
  for (const std::size_t p : {2, 3}) run.sees.vitals.parameters[p].gradient = 0;
  EXPECT_THAT(run.displays(2), IsEmpty());
  EXPECT_THAT(run.display(), ElementsAre(HasSubstr("no gradient reaches layer \"b\"")));
  EXPECT_THAT(run.displays(5), IsEmpty());

  Watched still;
  EXPECT_THAT(still.displays(2), IsEmpty());
  still.moves = 1;
  EXPECT_THAT(still.displays(2), IsEmpty());
  EXPECT_THAT(
      still.display(),
      ElementsAre(AllOf(HasSubstr("the weights of layers \"a\", \"b\", \"c\" and 1 more have not moved"),
                        HasSubstr("since iteration 100"))));
  // At the end of a schedule, and without a rate, that is as it should be.
  for (const double rate : {1e-5, 0.0}) {
    Watched last;
    EXPECT_THAT(last.displays(2), IsEmpty());
    last.moves = 1;
    last.sees.rate = rate;
    EXPECT_THAT(last.displays(6), IsEmpty());
  }
}

TEST(EarlyWarnings, DevicesOutOfBalance) {
  Watched run;
  run.milliseconds(1, "exposed_skew") = 0;
  run.milliseconds(0, "exposed_skew") = 8;
  EXPECT_THAT(run.displays(15), IsEmpty());
  EXPECT_THAT(run.display(), ElementsAre(HasSubstr("cpu:1 needs 20 ms for an iteration, the others 12")));
  EXPECT_THAT(run.displays(5), IsEmpty());
  // In turns, as on a busy machine, or in iterations so short that a wake-up counts.
  Watched turns, brief;
  for (int i = 0; i < 30; ++i) {
    turns.milliseconds(static_cast<std::size_t>(i) % 2, "exposed_skew") = 8;
    turns.milliseconds(static_cast<std::size_t>(i + 1) % 2, "exposed_skew") = 0;
    EXPECT_THAT(turns.display(), IsEmpty());
    brief.milliseconds(0, "iteration") = brief.milliseconds(1, "iteration") = 0.5;
    brief.milliseconds(0, "exposed_skew") = 0.4;
    EXPECT_THAT(brief.display(), IsEmpty());
  }
  // Held up for long, but rarely: the mean of its times is twice that of the others.
  Watched rarely;
  for (int i = 0; i < 48; ++i) {
    rarely.milliseconds(0, "exposed_skew") = 0.1;
    rarely.milliseconds(1, "exposed_skew") = 0;
    rarely.milliseconds(1, "iteration") = i % 4 == 0 ? 100 : 20;
    EXPECT_THAT(rarely.display(), IsEmpty());
  }
}

TEST(EarlyWarnings, StarvedByData) {
  const auto starve = [](Watched& run, double share) {
    run.record.devices[1].waiting_for_data = share;
    run.milliseconds(1, "data") = 20 * share;
  };
  Watched run;
  starve(run, 0.5);
  EXPECT_THAT(run.displays(4), IsEmpty());
  std::vector<EarlyWarning> found = run.warnings.look(run.sees, run.record);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].text, HasSubstr("cpu:1 has waited for batches in 50 %"));
  EXPECT_THAT(found[0].advice, HasSubstr("threads: 4 in layer \"data\" (now 2)"));  // twice as fast
  EXPECT_THAT(run.displays(5), IsEmpty());

  Watched narrow(facts());
  starve(narrow, 0.875);
  EXPECT_THAT(narrow.displays(4), IsEmpty());
  found = narrow.warnings.look(narrow.sees, narrow.record);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].advice, HasSubstr("would take 32 threads, this process may use 16 cores"));

  // A GPU works while its host waits; and now and then a device may.
  Watched gpu, sometimes;
  starve(gpu, 0.5);
  gpu.milliseconds(1, "data") = 0;
  EXPECT_THAT(gpu.displays(10), IsEmpty());
  for (int i = 0; i < 20; ++i) {
    starve(sometimes, i % 3 == 0 ? 0.01 : 0.5);
    EXPECT_THAT(sometimes.display(), IsEmpty());
  }
}

TEST(EarlyWarnings, StatisticsOfFewSamples) {
  WarningFacts few = facts();
  few.normalizations = {{"bn1", 4, 8}, {"bn2", 4, 8}, {"big", 8, 16}};
  Watched run(few);
  EXPECT_THAT(run.start(), ElementsAre(AllOf(HasSubstr("statistics from 4 samples (layers \"bn1\", \"bn2\")"),
                                             HasSubstr("--sync_bn=on makes them of 8 samples"))));
  EXPECT_THAT(run.start(), IsEmpty());
  few.normalizations = {{"bn1", 1, 1}};
  EXPECT_THAT(Watched(few).start(),
              ElementsAre(AllOf(HasSubstr("from 1 sample (layer \"bn1\")"), HasSubstr("a larger batch_size"),
                                testing::Not(HasSubstr("sync_bn")))));
}

TEST(EarlyWarnings, TestsThatDoNotCoverTheirSet) {
  WarningFacts other = facts();
  other.sources[1].test_iter = 3;
  EXPECT_THAT(Watched(other).start(),
              ElementsAre(AllOf(HasSubstr("test0, layer \"data\": a test takes 150 of 200 records"),
                                HasSubstr("; test_iter: 4"))));
  EXPECT_EQ(test_coverage(200, 50, 4), std::nullopt);
  EXPECT_EQ(test_coverage(190, 50, 4), std::nullopt);  // no batch_size would do with these
  EXPECT_THAT(test_coverage(190, 50, 3)->advice, HasSubstr("a batch_size that divides 190"));
  EXPECT_THAT(test_coverage(200, 50, 5)->text, HasSubstr("more than once"));
  EXPECT_THAT(test_coverage(190, 50, 5)->text, HasSubstr("more than once"));
  EXPECT_EQ(test_coverage(0, 50, 5), std::nullopt);  // not known
}

TEST(EarlyWarnings, RatesMeantForAnotherBatch) {
  WarningFacts other = facts();
  other.stated_batch_size = 25;
  EXPECT_THAT(Watched(other).start(),
              ElementsAre(AllOf(HasSubstr("base_lr 0.1 is meant for 25 samples"),
                                HasSubstr("it would be 0.2"), HasSubstr("lr_scaling: LINEAR"))));
  other.stated_batch_size = 40;
  EXPECT_THAT(Watched(other).start(), IsEmpty());
  other.stated_batch_size.reset();
  other.samples_before = 200;
  EXPECT_THAT(Watched(other).start(),
              ElementsAre(AllOf(HasSubstr("takes 50 samples, before the snapshot it took 200"),
                                HasSubstr("base_lr times 0.25"))));
  other.scales_rate = true;
  EXPECT_THAT(Watched(other).start(), IsEmpty());
  other.scales_rate = false;
  other.samples_before = 50;
  EXPECT_THAT(Watched(other).start(), IsEmpty());
}

TEST(EarlyWarnings, BeginAgainAfterARestart) {
  Watched run;
  for (const std::size_t p : {2, 3}) run.sees.vitals.parameters[p].gradient = 0;
  EXPECT_THAT(run.displays(2), IsEmpty());
  run.warnings.restart();
  EXPECT_THAT(run.displays(2), IsEmpty());
  EXPECT_EQ(run.display().size(), 1u);
  run.warnings.restart();
  EXPECT_THAT(run.displays(6), IsEmpty()) << "once in a run";
}

}  // namespace
}  // namespace banyan
