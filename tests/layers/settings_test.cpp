// What layers refuse, the registry, sources, and what declare() reads.
#include "banyan/io/upgrade.hpp"
#include "io/other_types.hpp"
#include "layers/bench.hpp"

namespace banyan::testing {
namespace {

struct Refused {
  std::string text;
  std::vector<Shape> inputs;
  int outputs;
  std::string part;  ///< of the message
};

TEST(BadSettings, AreRefusedInOneLineThatNamesTheLayer) {
  const Shape image{2, 4, 6, 6};
  const std::string conv = "type: 'Convolution' convolution_param { num_output: 4 ",
                    pool = "type: 'Pooling' pooling_param { ";
  const std::vector<Refused> cases = {
      {"type: 'Convolution' convolution_param { kernel_size: 3 }", {image}, 1, "num_output"},
      {conv + "}", {image}, 1, "kernel_size"},
      {conv + "kernel_size: 0 }", {image}, 1, "kernel_size must be positive"},
      {conv + "kernel_size: 3 kernel_h: 3 kernel_w: 3 }", {image}, 1, "not both"},
      {conv + "kernel_h: 3 }", {image}, 1, "_w"},
      {conv + "kernel_h: 3 kernel_w: 3 }", {Shape{2, 4, 6}}, 1, "2 spatial axes"},
      {conv + "kernel_size: [3, 3, 3] }", {image}, 1, "once for each of 2 spatial axes"},
      {conv + "kernel_size: 3 group: 3 }", {image}, 1, "group 3"},
      {conv + "kernel_size: 9 }", {image}, 1, "smaller than the kernel"},
      {conv + "kernel_size: 3 stride: 0 }", {image}, 1, "stride"},
      {conv + "kernel_size: 3 relu: true }", {image}, 1, "not supported"},
      {pool + "kernel_size: [3, 3, 3] }",
       {image},
       1,
       "kernel_size is given 3 times; expected once or once for each of 2 spatial axes"},
      {"type: 'BatchNorm' batch_norm_param { update_global_stats: true }",
       {image},
       1,
       "update_global_stats is not supported: in PSPNet's Caffe it normalizes by the batch's variance"},
      {"type: 'BatchNorm' batch_norm_param { scale_bias: true bias_term: false }",
       {image},
       1,
       "bias_term: false needs an engine of Intel's"},
      {pool + "}", {image}, 1, "kernel_size"},
      {pool + "kernel_size: 2 kernel_h: 2 }", {image}, 1, "kernel_size"},
      {pool + "kernel_h: 2 }", {image}, 1, "kernel_w"},
      {pool + "kernel_size: 2 pad: 2 }", {image}, 1, "pad"},
      {pool + "kernel_size: 2 pad: 1 pool: STOCHASTIC }", {image}, 1, "STOCHASTIC"},
      {pool + "kernel_size: 2 pad_h: 1 }", {image}, 1, "pad_w"},
      {pool + "kernel_size: 2 stride: 2 stride_h: 1 stride_w: 1 }", {image}, 1, "stride"},
      {pool + "global_pooling: true kernel_size: 2 }", {image}, 1, "global_pooling"},
      {pool + "global_pooling: true stride: 2 }", {image}, 1, "stride 1"},
      {pool + "kernel_size: 9 }", {image}, 1, "too small"},
      {pool + "kernel_size: 2 }", {Shape{2, 4}}, 1, "at least 3 (N, C, then spatial)"},
      {"type: 'InnerProduct'", {image}, 1, "num_output"},
      {"type: 'Dropout' dropout_param { dropout_ratio: 1 }", {image}, 1, "dropout_ratio"},
      {"type: 'SpatialDropout' dropout_param { dropout_ratio: 1 }", {image}, 1, "dropout_ratio"},
      {"type: 'Insanity' insanity_param { lb: 0 }", {image}, 1, "finite; found 0 and 10"},
      {"type: 'Insanity' insanity_param { lb: 10 }", {image}, 1, "lb must be positive, and ub above it"},
      {"type: 'Insanity' insanity_param { ub: inf }", {image}, 1, "found 5 and inf"},
      {"type: 'SpatialDropout' dropout_param { } spatial_dropout_param { }", {image}, 1, "keep one"},
      {"type: 'SpatialDropout'", {Shape{5}}, 1, "axis 1"},
      {"type: 'GuidedDropout' guided_dropout_param { type: 'random' }",
       {image, Shape{2, 4}},
       1,
       "deterministic or stochastic; found \"random\""},
      {"type: 'GuidedDropout' guided_dropout_param { sigmoid_scaler: inf }",
       {image, Shape{2, 4}},
       1,
       "sigmoid_scaler must be finite; found inf"},
      {"type: 'GuidedDropout'", {image, Shape{2, 5}}, 1, "of each sample; found 2 4 6 6 (288) and 2 5 (10)"},
      {"type: 'GuidedDropout'", {image, image}, 1, "one number of the second input"},
      {"type: 'LRN' lrn_param { local_size: 4 }", {image}, 1, "odd"},
      {"type: 'Eltwise'", {image, Shape{2, 4, 6, 5}}, 1, "one shape"},
      {"type: 'Eltwise' eltwise_param { operation: PROD coeff: 1 coeff: 2 }", {image, image}, 1, "PROD"},
      {"type: 'Eltwise' eltwise_param { coeff: 1 }", {image, image}, 1, "one coeff"},
      {"type: 'Eltwise' eltwise_param { operation: STOCHASTIC_SUM coeff: [1, 1.5] }",
       {image, image},
       1,
       "coeff is a probability with STOCHASTIC_SUM; expected 0 to 1, found 1.5"},
      {"type: 'Concat' concat_param { axis: 1 concat_dim: 1 }", {image, image}, 1, "not both"},
      {"type: 'Concat'", {image, Shape{2, 4, 6, 5}}, 1, "axis 1 only"},
      {"type: 'Concat' concat_param { axis: 4 }", {image}, 1, "axis"},
      {"type: 'Slice'", {image}, 3, "do not divide"},
      {"type: 'Slice' slice_param { slice_point: 1 }", {image}, 3, "slice_point"},
      {"type: 'Slice' slice_param { slice_point: 2 slice_point: 2 }", {image}, 3, "rise"},
      {"type: 'Slice' slice_param { slice_point: 4 }", {image}, 2, "rise"},
      {"type: 'Reshape' reshape_param { shape { dim: -1 dim: -1 } }", {image}, 1, "one -1"},
      {"type: 'Reshape' reshape_param { shape { dim: 5 } }", {image}, 1, "cannot become"},
      {"type: 'Reshape' reshape_param { shape { dim: 7 dim: -1 } }", {image}, 1, "-1"},
      {"type: 'Flatten' flatten_param { axis: 2 end_axis: 1 }", {image}, 1, "end_axis"},
      {"type: 'Scale' scale_param { axis: 3 num_axes: 2 }", {image}, 1, "num_axes"},
      {"type: 'Scale'", {image, Shape{5}}, 1, "second input"},
      {"type: 'Bias' bias_param { num_axes: -2 }", {image}, 1, "num_axes"},
      {"type: 'BatchNorm' param { lr_mult: 1 }", {image}, 1, "lr_mult"},
      {"type: 'BatchNorm' batch_norm_param { fused_relu: true }", {image}, 1, "ReLU"},
      {"type: 'BatchNorm' batch_norm_param { bias_filler { } bias_term: false }",
       {image},
       1,
       "bias_term: false"},
      {conv + "kernel_size: 3 negative_slope: 0.1 }", {image}, 1, "relu: true"},
      {"type: 'ReLU' relu_param { fuse: true negative_slope: 0.1 }", {image}, 1, "remove this layer"},
      {"type: 'ContinuationIndicator' continuation_indicator_param { batch_size: 2 }", {}, 1, "time_step"},
      {"type: 'ContinuationIndicator' continuation_indicator_param { time_step: 2 }", {}, 1, "batch_size"},
      {"type: 'ContinuationIndicator' continuation_indicator_param { time_step: 2 batch_size: 2 }",
       {Shape{4, 3}},
       1,
       "remove batch_size"},
      {"type: 'Eltwise' eltwise_param { relu: true }", {image, image}, 1, "not supported"},
      {"type: 'MultiBoxLoss' multibox_loss_param { num_classes: 3 } loss_param { ignore_label: 2 }",
       {Shape{1, 8}, Shape{1, 6}, Shape{1, 2, 8}, Shape{1, 8}},
       1,
       "background_label_id"},
      {"type: 'MultiBoxLoss' multibox_loss_param { num_classes: 3 } loss_param { weight_by_label_freqs: true "
       "}",
       {Shape{1, 8}, Shape{1, 6}, Shape{1, 2, 8}, Shape{1, 8}},
       1,
       "SoftmaxWithLoss only"},
      {"type: 'SoftmaxWithLoss'", {Shape{3, 2}, Shape{2}}, 1, "one label"},
      {"type: 'SoftmaxWithLoss' loss_param { label_smoothing: 1.1 }",
       {Shape{3, 2}, Shape{3}},
       1,
       "label_smoothing"},
      {"type: 'EuclideanLoss'", {Shape{3, 2}, Shape{2, 3}}, 1, "same batch"},
      {"type: 'Accuracy' accuracy_param { top_k: 3 }", {Shape{3, 2}, Shape{3}}, 1, "top_k"},
      {"type: 'DummyData'", {}, 1, "shape"},
      {"type: 'DummyData' dummy_data_param { shape { dim: 1 } num: 1 }", {}, 1, "not both"},
      {"type: 'Input' input_param { shape { dim: 1 } shape { dim: 1 } }", {}, 3, "one for each"},
  };
  for (const Refused& tested : cases) {
    try {
      Bench bench(tested.text, tested.inputs, tested.outputs);
      ADD_FAILURE() << "accepted: " << tested.text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input) << tested.text;
      EXPECT_NE(error.message().find(tested.part), std::string::npos) << tested.text << "\n"
                                                                      << error.message();
    }
  }
}

TEST(Reshaping, RefusesWhatTheParametersDoNotFit) {
  for (const char* text : {"type: 'Convolution' convolution_param { num_output: 1 kernel_size: 1 }",
                           "type: 'InnerProduct' inner_product_param { num_output: 1 }", "type: 'Scale'",
                           "type: 'Bias'", "type: 'BatchNorm'", "type: 'SyncBN'"}) {
    Bench bench(text, {Shape{2, 4, 3, 3}}, 1);
    EXPECT_THROW(bench.reshape({Shape{2, 5, 3, 3}}), Error) << text;
  }
}

TEST(Registry, NamesTheNearestType) {
  LayerOptions options;
  try {
    make_layer(layer_from_text("name: 'c' type: 'convolution'"), options);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(error.message().find("did you mean \"Convolution\"?"), std::string::npos) << error.message();
  }
  const std::vector<std::string> types = registered_layer_types();
  for (const char* type :
       {"DummyData", "Input",  "Parameter", "Convolution",     "Pooling",       "InnerProduct", "ReLU",
        "Sigmoid",   "TanH",   "ELU",       "Dropout",         "LRN",           "Eltwise",      "Concat",
        "Slice",     "Split",  "Flatten",   "Reshape",         "Scale",         "Bias",         "BatchNorm",
        "BN",        "SyncBN", "Softmax",   "SoftmaxWithLoss", "EuclideanLoss", "Accuracy",     "Silence"})
    EXPECT_EQ(std::count(types.begin(), types.end(), type), 1) << type;
}

TEST(Registry, KnowsTheTypesThatV1FilesUpgradeTo) {
  std::vector<std::string> known = registered_layer_types();
  for (const io::OtherType& other : io::other_types()) known.emplace_back(other.type);
  using Type = caffe::V1LayerParameter::LayerType;
  const auto* old = caffe::V1LayerParameter::LayerType_descriptor();
  for (int i = 0; i < old->value_count(); ++i) {
    const std::string type = io::current_type_name(static_cast<Type>(old->value(i)->number()));
    if (io::is_read_as_another(type)) continue;
    EXPECT_EQ(std::count(known.begin(), known.end(), type), type.empty() ? 0 : 1) << type;
  }
}

TEST(Registry, ReportsADoubledTypeWhenItIsUsed) {
  const LayerFactory factory = [](const caffe::LayerParameter&, const LayerOptions&) {
    return std::unique_ptr<Layer>();
  };
  register_layer("DoubledForTest", factory, {"", "", {}});
  register_layer("DoubledForTest", factory, {"", "", {}});
  try {
    make_layer(layer_from_text("type: 'DoubledForTest'"), LayerOptions());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("registered twice"), std::string::npos);
  }
}

TEST(Settings, OfIntelThatChangeNothing) {
  const Shape pair{2, 1};
  Bench plain("type: 'ReLU'", {pair}, 1), fused("type: 'ReLU' relu_param { fuse: true }", {pair}, 1);
  for (Bench* bench : {&plain, &fused}) {
    bench->set_input(0, {-2, 3});
    bench->forward();
    EXPECT_EQ(bench->output(), (Values{0, 3}));
  }
}

TEST(Settings, OfBranchesAreAcceptedWhereTheyChangeNothing) {
  Bench("type: 'Accuracy' accuracy_param { min_is_better: false }", {Shape{2, 3}, Shape{2}}, 1);
  Bench("type: 'InnerProduct' inner_product_param { num_output: 1 normalize: false }", {Shape{2, 3}}, 1);
}

TEST(Eltwise, LeavesCoefficientsOfAMaximumAside) {
  Bench bench("type: 'Eltwise' eltwise_param { operation: MAX coeff: 1 coeff: -1 }", {Shape{2}, Shape{2}}, 1);
  bench.set_input(0, {1, 5});
  bench.set_input(1, {3, 2});
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{3, 5}));
}

TEST(Parameters, CarryWhatTheFileSays) {
  Bench bench(
      "type: 'InnerProduct' inner_product_param { num_output: 1 weight_filler { type: 'xavier' } bias_filler "
      "{ value: 0.5 } } "
      "param { name: 'w' lr_mult: 2 decay_mult: 3 share_mode: PERMISSIVE }",
      {Shape{1, 1}}, 1);
  const Parameter &weight = bench.layer().parameters()[0], &bias = bench.layer().parameters()[1];
  EXPECT_EQ(weight.share_name, "w");
  EXPECT_TRUE(weight.permissive);
  EXPECT_EQ(weight.lr_mult, 2);
  EXPECT_EQ(weight.decay_mult, 3);
  EXPECT_EQ(weight.filler.type(), "xavier");
  EXPECT_EQ(bias.lr_mult, 1);
  EXPECT_EQ(bias.filler.value(), 0.5f);
  EXPECT_EQ(bias.share_name, "");
}

TEST(Input, TakesItsShapesAndKeepsThoseGivenLater) {
  Bench bench("type: 'Input' input_param { shape { dim: 2 dim: 3 } }", {}, 2);
  EXPECT_EQ(bench.outputs[1]->shape, (Shape{2, 3}));
  bench.outputs[1]->shape = Shape{5};
  bench.layer().prepare(bench.pass, bench.outputs);
  bench.layer().reshape({}, bench.outputs);
  EXPECT_EQ(bench.outputs[1]->shape, Shape{5});
}

TEST(ContinuationIndicator, MarksTheFirstTimeStep) {
  Bench bench("type: 'ContinuationIndicator' continuation_indicator_param { time_step: 3 batch_size: 2 }", {},
              1);
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{3, 2}));
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{0, 0, 1, 1, 1, 1}));
  Bench one("type: 'ContinuationIndicator' continuation_indicator_param { time_step: 1 batch_size: 2 }", {},
            1);
  one.forward();
  EXPECT_EQ(one.output(), (Values{0, 0}));
  Bench as_many("type: 'ContinuationIndicator' continuation_indicator_param { time_step: 2 axis: -2 }",
                {Shape{4, 3, 5}}, 1);
  EXPECT_EQ(as_many.outputs[0]->shape, (Shape{2, 3}));
  as_many.forward();
  EXPECT_EQ(as_many.output(), (Values{0, 0, 0, 1, 1, 1}));
}

TEST(DummyData, FillsConstantsAndOldShapes) {
  Bench bench(
      "type: 'DummyData' dummy_data_param { num: 2 num: 1 channels: 3 height: 1 width: 2 "
      "data_filler { value: 4 } data_filler { type: 'uniform' min: 1 max: 2 } }",
      {}, 2);
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{2, 3, 1, 2}));
  EXPECT_EQ(bench.outputs[1]->shape, (Shape{1, 3, 1, 2}));
  bench.forward();
  EXPECT_EQ(bench.output(0), Values(12, 4));
  const Values drawn = bench.output(1);
  for (const double value : drawn) EXPECT_TRUE(value >= 1 && value < 2);
  bench.pass.draw = 1;
  bench.forward();
  EXPECT_NE(bench.output(1), drawn);
}

/// The second pass finds other values in the memory.
TEST(DummyData, FillsWhatIsNotRandomOnce) {
  Bench bench(
      "type: 'DummyData' dummy_data_param { data_filler { type: 'flowBorderMask' } data_filler { type: "
      "'diagonal' diag_val: [3, 4] } shape { dim: [2, 2, 1, 2] } shape { dim: [2, 2] } }",
      {}, 2);
  for (int pass = 0; pass < 2; ++pass) {
    bench.pass.draw = pass;
    bench.forward();
    EXPECT_EQ(bench.output(0), (Values{1, 0, 0, 0, 1, 0, 0, 0}));
    EXPECT_EQ(bench.output(1), (Values{3, 0, 0, 4}));
    for (Blob* output : bench.outputs) ops::fill(bench.context(), output->data, 9);
  }
}

TEST(DummyData, GivesASampleTheSameValuesOnAnyDevice) {
  const std::string text =
      "type: 'DummyData' dummy_data_param { data_filler { type: 'gaussian' } shape { dim: ";
  Bench whole(text + "4 dim: 5 } }", {}, 1), share(text + "2 dim: 5 } }", {}, 1);
  share.pass.samples = {1, 2};
  whole.forward();
  share.forward();
  const Values all = whole.output();
  Values expected(all.begin() + 5, all.begin() + 10);
  expected.insert(expected.end(), all.begin() + 15, all.end());
  EXPECT_EQ(share.output(), expected);
  EXPECT_NE(expected[0], expected[5]);
}

}  // namespace
}  // namespace banyan::testing
