// Steps that run for some samples at a time: which ones, and what they compute.
#include "banyan/net/sample_parts.hpp"

#include <utility>

#include "net/net_test_tools.hpp"

namespace banyan {

inline bool operator==(const SampleParts& a, const SampleParts& b) {
  return a.first == b.first && a.end == b.end && a.samples == b.samples;
}
inline void PrintTo(const SampleParts& run, std::ostream* out) {
  *out << run.first << " to " << run.end << " by " << run.samples;
}

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(FindSampleParts, TakesAsManySamplesAsFitForEachStepOfARun) {
  // 8 samples of 100 and of 200 bytes.
  EXPECT_THAT(find_sample_parts({{8, true, 800}, {8, true, 1600}, {8, true, 800}}, 400),
              ElementsAre(SampleParts{0, 3, 2}));
  // Three at a time fit; parts of 3, 3 and 2.
  EXPECT_THAT(find_sample_parts({{8, true, 800}, {8, true, 800}}, 350), ElementsAre(SampleParts{0, 2, 3}));
  // Five fit: 4 and 4 rather than 5 and 3.
  EXPECT_THAT(find_sample_parts({{8, true, 800}, {8, true, 800}}, 500), ElementsAre(SampleParts{0, 2, 4}));
  // One sample at least.
  EXPECT_THAT(find_sample_parts({{8, true, 800}, {8, true, 800}}, 1), ElementsAre(SampleParts{0, 2, 1}));
}

TEST(FindSampleParts, LeavesOutWhatFitsAndWhatRunsForAllSamplesOnly) {
  EXPECT_THAT(find_sample_parts({{8, true, 800}, {8, true, 800}}, 800), IsEmpty());
  EXPECT_THAT(find_sample_parts({{1, true, 800}, {1, true, 800}}, 100), IsEmpty());
  EXPECT_THAT(find_sample_parts({{0, true, 800}, {0, true, 800}}, 100), IsEmpty());
  const PartStep large{8, true, 800}, small{8, true, 80}, whole{0, true, 800}, other{4, true, 800};
  EXPECT_THAT(find_sample_parts({small, large, large, small, large, large, whole, large, large}, 100),
              ElementsAre(SampleParts{1, 3, 1}, SampleParts{4, 6, 1}, SampleParts{7, 9, 1}));
  EXPECT_THAT(find_sample_parts({large, large, other, other}, 100),
              ElementsAre(SampleParts{0, 2, 1}, SampleParts{2, 4, 1}));
}

TEST(FindSampleParts, NeedsTwoStepsThatRun) {
  const PartStep runs{8, true, 800}, idle{8, false, 0}, whole{0, true, 800};
  EXPECT_THAT(find_sample_parts({runs, idle, whole, runs, whole}, 100), IsEmpty());
  EXPECT_THAT(find_sample_parts({idle, runs, idle, runs, idle}, 100), ElementsAre(SampleParts{1, 5, 1}));
}

TEST(FindSampleParts, EndsWhereParametersWouldBeReadTooOften) {
  // In 8 parts 7 times more: 7 * 100 < 800 < 7 * 120.
  const PartStep cheap{8, true, 800, 100}, dear{8, true, 800, 120};
  EXPECT_THAT(find_sample_parts({cheap, cheap, dear, cheap, cheap}, 100),
              ElementsAre(SampleParts{0, 2, 1}, SampleParts{3, 5, 1}));
  // In 2 parts once more; a step that needs 8 parts ends their run.
  const PartStep wide{8, true, 6400, 100};
  EXPECT_THAT(find_sample_parts({dear, dear, wide, wide}, 400),
              ElementsAre(SampleParts{0, 2, 4}, SampleParts{2, 4, 1}));
}

/// Two branches, one of which is also an output, a pooling, and layers that need the whole batch at the end.
std::string branches(int batch) {
  return cat(
      "layer { name: 'in' type: 'Input' top: 'data' input_param { shape { dim: ", batch,
      " dim: 4 dim: 9 dim: 9 } } } "
      "layer { name: 'c1' type: 'Convolution' bottom: 'data' top: 'c1' convolution_param { num_output: 8 "
      "kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } } "
      "layer { name: 'r1' type: 'ReLU' bottom: 'c1' top: 'c1' } "
      "layer { name: 'c2' type: 'Convolution' bottom: 'c1' top: 'c2' convolution_param { num_output: 8 "
      "kernel_size: 1 weight_filler { type: 'msra' } } } "
      "layer { name: 'c3' type: 'Convolution' bottom: 'data' top: 'c3' convolution_param { num_output: 8 "
      "kernel_size: 1 weight_filler { type: 'msra' } } } "
      "layer { name: 'seen' type: 'Power' bottom: 'c3' top: 'seen' power_param { scale: 2 } } "
      "layer { name: 'sum' type: 'Eltwise' bottom: 'c2' bottom: 'c3' top: 'sum' } "
      "layer { name: 'r2' type: 'ReLU' bottom: 'sum' top: 'sum' } "
      "layer { name: 'pool' type: 'Pooling' bottom: 'sum' top: 'pool' pooling_param { kernel_size: 3 stride: "
      "2 } } "
      "layer { name: 'join' type: 'Concat' bottom: 'pool' bottom: 'pool' top: 'join' } "
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'join' top: 'ip' inner_product_param { num_output: 5 "
      "weight_filler { type: 'xavier' } } } ");
}

struct Outputs {
  std::vector<float> scores, seen;
  bool operator==(const Outputs&) const = default;
};

Outputs outputs_of(NetBench& bench, Net& net, int phase = 0) {
  Tensor& data = net.find_blob("data")->data;
  copy_from_host(bench.context, wavy<float>(data.count(), phase).data(), data);
  net.forward(bench.pass);
  return {values_of<float>(bench.context, net.find_blob("ip")->data),
          values_of<float>(bench.context, net.find_blob("seen")->data)};
}

NetOptions tested(std::int64_t cache) {
  NetOptions options;
  options.phase = Phase::test;
  options.parameters_stay = true;
  options.cache = cache;
  options.seed = 3;
  return options;
}

// 9 * 9 pixels of 8 channels.
constexpr std::int64_t kMaps = 9 * 9 * 8 * 4;

TEST(SampleParts, ComputeWhatAllSamplesDoTogetherInLessMemory) {
  NetBench bench;
  const auto whole = bench.make(branches(7), tested(0));
  ASSERT_THAT(whole->plan().parts, IsEmpty());
  const Outputs expected = outputs_of(bench, *whole);
  for (const std::int64_t cache : {std::int64_t{1}, 3 * kMaps, 6 * kMaps}) {
    SCOPED_TRACE(cache);
    CpuDeviceOptions device;
    device.asynchronous = cache > 1;
    NetBench apart(device);
    const auto parts = apart.make(branches(7), tested(cache));
    ASSERT_FALSE(parts->plan().parts.empty());
    EXPECT_LT(parts->plan().bytes, whole->plan().bytes);
    for (int pass = 0; pass < 2; ++pass)
      EXPECT_TRUE(outputs_of(apart, *parts) == expected) << "pass " << pass;
    for (const Blob* blob : {parts->find_blob("c2"), parts->find_blob("sum")})
      EXPECT_EQ(blob->shape, (Shape{7, 8, 9, 9}));
  }
}

TEST(SampleParts, FollowTheBatch) {
  NetBench bench;
  const auto whole = bench.make(branches(6), tested(0)), parts = bench.make(branches(6), tested(1));
  for (const int batch : {6, 1, 9, 0, 4}) {
    for (Net* net : {whole.get(), parts.get()}) {
      net->find_blob("data")->shape.set_dim(0, batch);
      net->reshape();
    }
    EXPECT_EQ(parts->plan().parts.empty(), batch < 2);
    EXPECT_TRUE(outputs_of(bench, *parts, batch) == outputs_of(bench, *whole, batch)) << batch;
  }
}

/// What a user has filled stays: the first samples of what was there.
TEST(SampleParts, KeepInputsOfSmallerBatches) {
  NetBench bench;
  const auto whole = bench.make(branches(6), tested(0)), parts = bench.make(branches(6), tested(1));
  for (Net* net : {whole.get(), parts.get()}) {
    outputs_of(bench, *net);
    net->find_blob("data")->shape.set_dim(0, 4);
    net->reshape();
    net->forward(bench.pass);
  }
  ASSERT_FALSE(parts->plan().parts.empty());
  for (const char* blob : {"data", "ip"})
    EXPECT_EQ(values_of<float>(bench.context, parts->find_blob(blob)->data),
              values_of<float>(bench.context, whole->find_blob(blob)->data))
        << blob;
}

TEST(SampleParts, GoOnAfterAFailure) {
  NetBench bench;
  const auto net = bench.make(branches(5), tested(1));
  const Outputs expected = outputs_of(bench, *net);
  for (const auto& layer : net->layers()) {
    if (layer->name() != "c2") continue;
    Tensor& weights = layer->parameters()[0].value;
    const Tensor kept = std::exchange(weights, Tensor());
    EXPECT_THROW(net->forward(bench.pass), Error);
    weights = kept;
  }
  EXPECT_EQ(net->find_blob("data")->shape[0], 5);
  EXPECT_TRUE(outputs_of(bench, *net) == expected);
}

TEST(SampleParts, AreOnlyForNetsWhoseParametersStayAndThatNobodyObserves) {
  NetBench bench;
  NetOptions changing = tested(1), training = tested(1), separate = tested(1);
  changing.parameters_stay = false;
  training.phase = Phase::train;
  separate.reuse_memory = false;
  for (const NetOptions& options : {changing, training, separate})
    EXPECT_THAT(bench.make(branches(4), options)->plan().parts, IsEmpty());
  const auto whole = bench.make(branches(4), tested(0));
  const Outputs expected = outputs_of(bench, *whole);
  const auto observed = bench.make(branches(4), tested(1)), probed = bench.make(branches(4), tested(1));
  EXPECT_TRUE(outputs_of(bench, *observed) == expected);
  int calls = 0;
  observed->observe_layers({}, [&](int, bool) { ++calls; });
  probed->probe_layers([&](int layer) {
    ++calls;
    for (const Blob* output : probed->outputs_of(layer)) EXPECT_EQ(output->data.shape(), output->shape);
  });
  EXPECT_THAT(observed->plan().parts, IsEmpty());
  EXPECT_TRUE(outputs_of(bench, *observed) == expected);
  EXPECT_TRUE(outputs_of(bench, *probed) == expected);
  EXPECT_EQ(calls, 2 * static_cast<int>(whole->layers().size()));
}

TEST(SampleParts, StayAwayFromProbedNetsThatGrow) {
  NetBench bench;
  const auto net = bench.make(branches(1), tested(1));
  ASSERT_THAT(net->plan().parts, IsEmpty());
  net->probe_layers([](int) {});
  net->find_blob("data")->shape.set_dim(0, 4);
  net->reshape();
  EXPECT_THAT(net->plan().parts, IsEmpty());
}

TEST(SampleParts, AreInThePlansText) {
  NetBench bench;
  const auto net = bench.make(branches(4), tested(1));
  EXPECT_THAT(to_text(net->graph(), net->plan()), testing::HasSubstr(": 1 sample at a time"));
}

/// Random numbers belong to places in the batch: a layer that draws some in a test runs for all samples.
TEST(SampleParts, LeaveLayersThatDrawWhole) {
  const std::string relu = "layer { name: 'r1' type: 'ReLU' bottom: 'c1' top: 'c1' } ";
  for (const char* drawing :
       {"type: 'Dropout' bottom: 'c1' top: 'c1' dropout_param { sample_weights_test: true }",
        "type: 'Dropout' bottom: 'c1' top: 'c1' phase: TRAIN",
        "type: 'Pooling' bottom: 'c1' top: 'drawn' phase: TRAIN pooling_param { pool: STOCHASTIC "
        "kernel_size: 2 "
        "stride: 1 }",
        "type: 'Eltwise' bottom: 'c1' bottom: 'c1' top: 'drawn' phase: TRAIN eltwise_param { operation: "
        "STOCHASTIC_SUM coeff: 0.5 coeff: 0.5 }"}) {
    SCOPED_TRACE(drawing);
    std::string text = branches(4);
    text.replace(text.find(relu), relu.size(), cat(relu, "layer { name: 'draws' ", drawing, " } "));
    // Between layers that may run in parts.
    text +=
        "layer { name: 'more' type: 'Power' bottom: 'seen' top: 'more' } "
        "layer { name: 'most' type: 'Power' bottom: 'more' top: 'most' } ";
    if (text.find("'drawn'") != std::string::npos)
      text +=
          "layer { name: 'after' type: 'Power' bottom: 'drawn' top: 'after' } "
          "layer { name: 'last' type: 'Power' bottom: 'after' top: 'last' } ";
    NetBench bench;
    const auto whole = bench.make(text, tested(0)), parts = bench.make(text, tested(1));
    ASSERT_FALSE(parts->plan().parts.empty());
    for (Net* net : {whole.get(), parts.get()}) {
      Tensor& data = net->find_blob("data")->data;
      copy_from_host(bench.context, wavy<float>(data.count()).data(), data);
      net->forward(bench.pass);
    }
    for (const Blob* output : whole->outputs())
      EXPECT_EQ(values_of<float>(bench.context, parts->find_blob(output->name)->data),
                values_of<float>(bench.context, output->data))
          << output->name;
  }
}

}  // namespace
}  // namespace banyan
