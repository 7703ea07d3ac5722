// 16-bit storage of activations: which tensors have which type, that results match f32 up to rounding, and
// what is refused.
#include "banyan/net/precision.hpp"

#include <cmath>

#include "banyan/net/layout_plan.hpp"
#include "banyan/tensor/values.hpp"
#include "net/net_test_tools.hpp"
#include "net/small_nets.hpp"
#include "relative_distance.hpp"

namespace banyan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const char* const kStorage = "storage: BF16 ";

TEST(ChooseType, FollowsTheRule) {
  const auto f32 = DType::f32, bf16 = DType::bf16;
  using Types = std::vector<DType>;
  for (const Types& inputs : {Types{}, Types{f32}, Types{bf16}, Types{bf16, f32}}) {
    EXPECT_EQ(choose_type(StorageRule::full, f32, bf16, inputs), f32);
    EXPECT_EQ(choose_type(StorageRule::sixteen_bits, f32, bf16, inputs), bf16);
    for (const auto rule : {StorageRule::full, StorageRule::follows, StorageRule::sixteen_bits})
      EXPECT_EQ(choose_type(rule, f32, std::nullopt, inputs), f32);
  }
  EXPECT_EQ(choose_type(StorageRule::follows, f32, bf16, {bf16, bf16}), bf16);
  EXPECT_EQ(choose_type(StorageRule::follows, f32, bf16, {f32}), f32);
  EXPECT_EQ(choose_type(StorageRule::follows, f32, bf16, {bf16, f32}), f32);
}

std::string layer(const std::string& type, const std::string& bottoms, const std::string& tops,
                  const std::string& more = "") {
  std::string text = cat("layer { name: '", tops.substr(0, tops.find(' ')), "_layer' type: '", type, "' ");
  for (const auto& [field, names] : {std::pair{"bottom", bottoms}, std::pair{"top", tops}})
    for (std::size_t at = 0; at < names.size();) {
      const std::size_t end = std::min(names.find(' ', at), names.size());
      text += cat(field, ": '", names.substr(at, end - at), "' ");
      at = end + 1;
    }
  return text + more + " } ";
}
std::string convolution(const std::string& bottom, const std::string& top, int outputs = 6,
                        const std::string& more = "") {
  return layer("Convolution", bottom, top,
               cat("convolution_param { num_output: ", outputs,
                   " kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } ", more));
}
const char* const kNorm = "bn_param { slope_filler { value: 1 } }";

/// All kinds of layers that store 16 bits, and BNLL, which does not.
std::string whole_net(const std::string& settings = "") {
  return settings + kSource + convolution("data", "c1") + layer("BatchNorm", "c1", "b1") +
         layer("Scale", "b1", "s1", "scale_param { bias_term: true }") +
         layer("ReLU", "s1", "r1", "relu_param { negative_slope: 0.3 }") +
         layer("Pooling", "r1", "p1", "pooling_param { kernel_size: 2 stride: 2 }") +
         convolution("p1", "c2") + layer("SyncBN", "c2", "b2", kNorm) + layer("Eltwise", "b2 p1", "e2") +
         layer("ReLU", "e2", "r2") + layer("LRN", "r2", "l2") + layer("BNLL", "l2", "n2") +
         layer("Pooling", "n2", "p2", "pooling_param { pool: AVE kernel_size: 2 stride: 2 }") +
         layer("Flatten", "p2", "f2") +
         layer("InnerProduct", "f2", "ip",
               "inner_product_param { num_output: 5 weight_filler { type: 'xavier' } }") +
         layer("SoftmaxWithLoss", "ip label", "loss") + layer("Accuracy", "ip label", "accuracy");
}

/// For each name the type of its blob, then the types of stand-ins that differ.
std::map<std::string, std::string> types_of(const Net& net) {
  std::map<std::string, std::string> types;
  for (const PlannedTensor& tensor : net.plan().tensors) {
    std::string& known = types[tensor.name];
    if (!known.ends_with(name_of(tensor.dtype)) || known.empty())
      known += cat(known.empty() ? "" : " ", name_of(tensor.dtype));
  }
  return types;
}
std::map<std::string, std::string> types_of(const std::string& text) {
  NetBench bench;
  NetOptions options;
  options.shapes_only = true;
  return types_of(*bench.make(text, options));
}

TEST(Precision, EachTensorHasItsType) {
  for (const auto& [name, types] : types_of(whole_net())) EXPECT_EQ(types.find("bf16"), types.npos) << name;
  auto types = types_of(whole_net(kStorage));
  EXPECT_EQ(types["data"], "f32 bf16") << "converted for the convolution";
  EXPECT_EQ(types["label_in_1_split_0"], "f32");
  for (const char* name : {"c1", "b1", "s1", "r1", "p1", "c2", "b2", "e2", "p2", "f2"})
    EXPECT_EQ(types[name], "bf16") << name;
  EXPECT_EQ(types["r2"], "bf16");
  EXPECT_EQ(types["l2"], "bf16 f32") << "converted for BNLL";
  EXPECT_EQ(types["n2"], "f32 bf16") << "converted for Pooling";
  EXPECT_EQ(types["ip"], "bf16");
  EXPECT_EQ(types["ip_ip_layer_0_split_0"], "bf16 f32") << "converted for the loss";
  EXPECT_EQ(types["loss"], "f32");
}

struct Outcome {
  double loss = 0;
  std::vector<double> gradients, statistics;
};
Outcome outcome_of(const std::string& text, NetOptions options = {}) {
  NetBench bench;
  options.seed = 5;
  const auto net = bench.make(text, options);
  bench.pass.update_statistics = true;
  feed<float>(bench, *net, 5);
  net->zero_gradients();
  net->forward(bench.pass);
  net->backward(bench.pass);
  const auto as_doubles = [&](const Tensor& tensor) {
    const std::vector<float> values = values_of<float>(bench.context, tensor);
    return std::vector<double>(values.begin(), values.end());
  };
  Outcome outcome{loss_of(bench, *net), as_doubles(net->flat_gradients()), {}};
  if (net->statistics().defined()) outcome.statistics = as_doubles(net->statistics());
  return outcome;
}

/// It moves values only: in 32 bits, with conversions before and after it, the same bits come out.
TEST(Precision, AConcatenationStoresWhatItJoins) {
  const std::string text = cat(kSource, convolution("data", "c1"), convolution("data", "c2", 3),
                               layer("Concat", "c1 c2", "joined"), convolution("joined", "c3"),
                               inner_product("ip", "c3", "ip", 5), softmax_loss("ip"));
  auto types = types_of(kStorage + text);
  for (const char* name : {"c1", "c2", "joined"}) EXPECT_EQ(types[name], "bf16") << name;
  const std::string except = cat(kStorage, "storage_exception: 'Concat' ", text);
  EXPECT_EQ(types_of(except)["joined"], "f32 bf16");
  const Outcome stored = outcome_of(kStorage + text), excepted = outcome_of(except);
  EXPECT_EQ(stored.loss, excepted.loss);
  EXPECT_EQ(stored.gradients, excepted.gradients);
}

/// Common layers around convolutions; a gate of squeeze and excitation.
TEST(Precision, OfElementwiseLayers) {
  std::string text = kSource + convolution("data", "c0"), from = "c0";
  const char* const kinds[] = {"ELU",  "PReLU", "Sigmoid", "TanH",  "Dropout",   "Bias",
                               "Clip", "Swish", "AbsVal",  "Power", "Threshold", "LRN"};
  for (const char* kind : kinds) {
    const char* const settings = kind == std::string("Clip") ? "clip_param { min: -1 max: 1 }" : "";
    text += layer(kind, from, cat("after_", kind), settings);
    from = cat("after_", kind);
  }
  text += layer("Pooling", from, "gate", "pooling_param { pool: AVE global_pooling: true }") +
          layer("Sigmoid", "gate", "open") + layer("Axpy", cat("open ", from, " c0"), "gated") +
          layer("Flatten", "open", "flat") +
          layer("Scale", "gated flat", "scaled", "scale_param { axis: 0 }") +
          layer("Bias", "scaled flat", "biased", "bias_param { axis: 0 }") +
          inner_product("ip", "biased", "ip", 5) + softmax_loss("ip");
  for (const auto& [name, types] : types_of(kStorage + text)) {
    const bool ends = name.starts_with("data") || name.starts_with("label") || name.starts_with("loss") ||
                      name.starts_with("ip");
    if (!ends) {
      EXPECT_EQ(types, "bf16") << name;
    }
  }
  const Outcome wide = outcome_of(text), narrow = outcome_of(kStorage + text);
  EXPECT_NEAR(narrow.loss, wide.loss, 2e-2 * wide.loss);
  EXPECT_TRUE(std::isfinite(narrow.gradients.at(0)));
  // What amplifies rounding or often ends in losses of the user's own making stays wide.
  for (const char* kind : {"Exp", "Log", "BNLL", "Power"}) {
    const std::string more = kind == std::string("Power") ? "power_param { power: 2 }" : "";
    EXPECT_EQ(types_of(cat(kStorage, kSource, convolution("data", "c0"), layer(kind, "c0", "f", more),
                           inner_product("ip", "f", "ip", 5), softmax_loss("ip")))["f"],
              "f32 bf16")
        << kind;
  }
}

/// --precision=bf16 stores what it computes with, if the net does not say otherwise.
TEST(Precision, FollowsTheProductsUnlessTheNetSays) {
  const auto types = [](const std::string& text, Math math) {
    CpuDeviceOptions device;
    device.math = math;
    NetBench bench(device);
    NetOptions options;
    options.shapes_only = true;
    return types_of(*bench.make(text, options));
  };
  for (const Math math : {Math::bf16, Math::bf16_in_f32}) {
    EXPECT_EQ(types(whole_net(), math)["c1"], "bf16");
    EXPECT_EQ(types(whole_net("storage: FULL "), math)["c1"], "f32");
    EXPECT_EQ(types(whole_net("in_place_abn: true "), math)["c1"], "f32");
    EXPECT_EQ(types(whole_net("storage_exception: 'Convolution' "), math)["c1"], "f32 bf16");
    const std::string one =
        cat(kSource, convolution("data", "c1", 6, "storage: FULL"), convolution("c1", "c2"),
            inner_product("ip", "c2", "ip", 5), softmax_loss("ip"));
    EXPECT_EQ(types(one, math)["c1"], "f32 bf16");
    EXPECT_EQ(types(one, math)["c2"], "bf16");
  }
  EXPECT_EQ(types(whole_net(), Math::full)["c1"], "f32");
  // The same file runs in f32.
  EXPECT_EQ(types(whole_net("storage_exception: 'Convolution' "), Math::full)["c1"], "f32");
  EXPECT_EQ(read_precision(net_of("name: 'n'"), DType::f64, Math::bf16).storage, DType::f64);
}

TEST(Precision, HasExceptionsByTypeAndByLayer) {
  auto types = types_of(whole_net(cat(kStorage, "storage_exception: 'Eltwise' storage_exception: 'Split' ")));
  EXPECT_EQ(types["b2"], "bf16 f32");
  EXPECT_EQ(types["e2"], "f32 bf16");
  EXPECT_EQ(types["p1"], "bf16 f32");
  EXPECT_EQ(types["p1_p1_layer_0_split_0"], "f32 bf16");
  // A layer's own setting takes precedence.
  types = types_of(cat(kStorage, kSource, convolution("data", "c1", 6, "storage: FULL"),
                       convolution("c1", "c2"), inner_product("ip", "c2", "ip", 5), softmax_loss("ip")));
  EXPECT_EQ(types["data"], "f32");
  EXPECT_EQ(types["c1"], "f32 bf16");
  EXPECT_EQ(types["c2"], "bf16");
  types = types_of(cat(kSource, convolution("data", "c1", 6, "storage: BF16"), convolution("c1", "c2"),
                       inner_product("ip", "c2", "ip", 5), softmax_loss("ip")));
  EXPECT_EQ(types["c1"], "bf16 f32");
  EXPECT_EQ(types["c2"], "f32");
}

/// Positions of maxima do not fit into 16 bits.
TEST(Precision, KeepsPoolingsPositions) {
  auto types =
      types_of(cat(kStorage, kSource, convolution("data", "c1"),
                   layer("Pooling", "c1", "p1 where", "pooling_param { kernel_size: 2 stride: 2 }"),
                   layer("Silence", "where", ""), inner_product("ip", "p1", "ip", 5), softmax_loss("ip")));
  EXPECT_EQ(types["p1"], "bf16");
  EXPECT_EQ(types["where"], "f32");
}

/// Rounding to bf16 changes a value by at most 2^-8 of it, 1e-3 on average. About ten tensors in sequence
/// lead to the loss: 1e-3 sqrt(10) of it, with room. A gradient has passed through twice as many, and some
/// ReLU inputs have changed sign: those within 3e-3 deviations of 0, 1e-3 of all, each of which adds or
/// removes a whole term, so gradients differ by about sqrt(3 * 1e-3), 5e-2.
TEST(Precision, LossAndGradientsAreThoseOfF32) {
  for (const bool channels_last : {false, true})
    for (const bool reuse : {false, true}) {
      NetOptions options;
      options.channels_last = channels_last;
      options.reuse_memory = reuse;
      const Outcome wide = outcome_of(whole_net(), options),
                    narrow = outcome_of(whole_net(kStorage), options);
      EXPECT_NE(narrow.loss, wide.loss);
      EXPECT_NEAR(narrow.loss, wide.loss, 1e-2 * wide.loss);
      EXPECT_GT(relative_distance(wide.gradients, narrow.gradients), 1e-4);
      EXPECT_LT(relative_distance(wide.gradients, narrow.gradients), 1e-1);
      EXPECT_LT(relative_distance(wide.statistics, narrow.statistics), 1e-2);
    }
}

/// Results are bit-identical with fusing, sharing and recomputing. A normalization that applies a Scale saves
/// a rounding; all else around it changes nothing.
TEST(Precision, ResultsAreTheSameHoweverTheNetRuns) {
  const auto equal = [](const Outcome& a, const Outcome& b) {
    return a.loss == b.loss && a.gradients == b.gradients && a.statistics == b.statistics;
  };
  for (const bool fuse_scale : {false, true}) {
    NetOptions fused, separate;
    fused.fuse_scale = separate.fuse_scale = fuse_scale;
    separate.fuse = false;
    separate.reuse_memory = fuse_scale;  // without it no Scale is fused
    const Outcome plain = outcome_of(whole_net(kStorage), separate);
    EXPECT_TRUE(equal(outcome_of(whole_net(kStorage), fused), plain));
    EXPECT_TRUE(equal(outcome_of(whole_net(cat(kStorage, "checkpoint: '2' ")), fused), plain));
    EXPECT_TRUE(equal(outcome_of(whole_net(cat(kStorage, "checkpoint: 'auto' ")), fused), plain));
  }
}

/// BatchNorm, Scale and perhaps a ReLU; the convolution is the identity and makes images channels-last. In
/// training the parameters around it show what is inside: `shift` has the gradient of the normalization's
/// input, `factor` has its result, the gradient of a product's other factor.
std::string normalized(bool in_place, const std::string& relu, Phase phase) {
  const std::string n = in_place ? "x" : "n", s = in_place ? "x" : "s", r = in_place ? "x" : "r";
  const std::string shape = "shape { dim: 4 dim: 6 dim: 5 dim: 7 } ";
  const auto bias = [](const std::string& name, const std::string& bottom, const std::string& top) {
    return cat("layer { name: '", name, "' type: 'Bias' bottom: '", bottom, "' top: '", top,
               "' bias_param { axis: 0 num_axes: -1 } } ");
  };
  std::string text =
      cat("layer { name: 'in' type: 'Input' top: 'data' top: 'other' input_param { ", shape, shape, "} } ",
          bias("shift", "data", "shifted"),
          "layer { name: 'same' type: 'Convolution' bottom: 'shifted' top: 'x' param { lr_mult: 0 } "
          "convolution_param { num_output: 6 kernel_size: 1 bias_term: false } } "
          "layer { name: 'norm' type: 'BatchNorm' bottom: 'x' top: '",
          n, "' } layer { name: 'scale' type: 'Scale' bottom: '", n, "' top: '", s,
          "' scale_param { bias_term: true } } ");
  if (!relu.empty())
    text += cat("layer { name: 'relu' type: 'ReLU' bottom: '", s, "' top: '", r, "' relu_param { ", relu,
                " } } ");
  const std::string& last = relu.empty() ? s : r;
  if (phase == Phase::test) return text;
  return cat(text, bias("factor", "other", "factor"), "layer { name: 'product' type: 'Eltwise' bottom: '",
             last, "' bottom: 'factor' top: 'product' eltwise_param { operation: PROD } } ",
             "layer { name: 'sum' type: 'Reduction' bottom: 'product' top: 'sum' loss_weight: 1 } ");
}

struct Around {
  std::vector<double> result, input_gradient, scale_gradients;
};
/// All inputs and parameters are values that bf16 can represent.
Around values_around(const std::string& text, const NetOptions& options) {
  NetBench bench;
  const auto net = bench.make(text, options);
  for (LearnableParameter& parameter : net->parameters()) {
    std::vector<double> values = wavy<double>(parameter.count, parameter.slot);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::string& name = parameter.layer;
      if (name == "shift" || name == "factor") values[i] = 0;
      if (name == "same") values[i] = i % 7 == 0 ? 1 : 0;
      if (name == "norm" && parameter.slot > 0)
        values[i] = parameter.slot == 1 ? 0.5 + std::abs(values[i]) : 1;
      if (name == "scale" && parameter.slot == 0) values[i] += i % 2 == 0 ? 1.5 : -1.5;
    }
    set_values(bench.context, values, parameter.value);
  }
  net->parameters_replaced();
  for (const auto& [blob, phase] : {std::pair{"data", 0}, std::pair{"other", 1}})
    net->set_input(blob, wavy<double>(net->find_blob(blob)->shape.count(), phase));
  net->forward(bench.pass);
  if (options.phase == Phase::test) {
    Around found;
    for (const Blob* output : net->outputs())
      if (output->name != "other") found.result = values_of(bench.context, output->data).values;
    return found;
  }
  net->zero_gradients();
  net->backward(bench.pass);
  Around found;
  for (const LearnableParameter& parameter : net->parameters()) {
    if (!parameter.grad.defined()) continue;
    const std::vector<double> gradient = values_of(bench.context, parameter.grad).values;
    if (parameter.layer == "shift") found.input_gradient = gradient;
    if (parameter.layer == "factor") found.result = gradient;
    if (parameter.layer == "scale")
      found.scale_gradients.insert(found.scale_gradients.end(), gradient.begin(), gradient.end());
  }
  return found;
}

/// A result that is rounded once is off by half a unit in the last of 8 digits: at most 2^-8 of itself.
/// Before that come up to a dozen roundings in f32, of 2^-24 of terms that are up to four times as large as
/// the largest result: 2^-18 of it.
void expect_rounded_once(const std::vector<double>& exact, const std::vector<double>& found) {
  ASSERT_EQ(exact.size(), found.size());
  ASSERT_FALSE(exact.empty());
  double largest = 0;
  for (const double value : exact) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < exact.size(); ++i)
    ASSERT_NEAR(found[i], exact[i], 0x1p-8 * std::abs(exact[i]) + 0x1p-18 * largest) << i;
  EXPECT_GT(relative_distance(exact, found), 0x1p-12) << "nothing was rounded";
}

/// As arithmetic in f64, rounded once: a leaky ReLU with a power of two as its slope rounds nothing.
TEST(Precision, ANormalizationWithItsScaleRoundsOnce) {
  for (const Phase phase : {Phase::train, Phase::test})
    for (const char* relu : {"", "negative_slope: 0", "negative_slope: 0.25"}) {
      NetOptions separate = f64_options();
      separate.phase = phase;
      separate.fuse = separate.fuse_scale = false;
      const Around exact = values_around(normalized(false, relu, phase), separate);
      for (const bool in_place : {false, true})
        for (const bool channels_last : {false, true}) {
          SCOPED_TRACE(cat(phase == Phase::train ? "training " : "test ", relu, in_place ? " in place" : "",
                           channels_last ? " channels-last" : ""));
          NetOptions fused;
          fused.phase = phase;
          fused.channels_last = channels_last;
          const std::string text = kStorage + normalized(in_place, relu, phase);
          NetBench bench;
          const auto net = bench.make(text, fused);
          const auto runs_all = [&](const PlanStep& step) {
            return step.runs_layer && step.affine >= 0 && step.output.on() == (relu[0] != 0);
          };
          const std::vector<PlanStep>& steps = net->plan().steps;
          EXPECT_EQ(std::count_if(steps.begin(), steps.end(), runs_all), phase == Phase::train ? 2 : 1);
          const Around found = values_around(text, fused);
          expect_rounded_once(exact.result, found.result);
          if (phase == Phase::test) continue;
          expect_rounded_once(exact.input_gradient, found.input_gradient);
          // Sums of 140 products in f64, of factors that were not rounded to bf16.
          EXPECT_LE(relative_distance(exact.scale_gradients, found.scale_gradients), 0x1p-18);
        }
    }
}

/// Everything except the input's copy and what the loss reads is half as large.
TEST(Precision, HalvesTheMemoryOfActivations) {
  std::string layers =
      "layer { name: 'in' type: 'Input' top: 'data' top: 'label' input_param { shape { dim: 8 "
      "dim: 3 dim: 32 dim: 32 } shape { dim: 8 } } } ";
  std::string blob = "data";
  for (int i = 1; i <= 6; ++i) {
    layers += convolution(blob, cat("c", i), 32) + layer("SyncBN", cat("c", i), cat("b", i), kNorm) +
              layer("ReLU", cat("b", i), cat("r", i));
    blob = cat("r", i);
  }
  layers += inner_product("ip", blob, "ip", 5) + softmax_loss("ip");
  NetBench bench;
  NetOptions options;
  options.shapes_only = true;
  const Plan wide = bench.make(layers, options)->plan(),
             narrow = bench.make(kStorage + layers, options)->plan();
  EXPECT_NEAR(static_cast<double>(narrow.bytes), 0.5 * static_cast<double>(wide.bytes), 0.02 * wide.bytes);
  EXPECT_NEAR(static_cast<double>(narrow.unshared_bytes), 0.5 * static_cast<double>(wide.unshared_bytes),
              0.02 * wide.unshared_bytes);
  const std::int64_t cut = bench.make(cat(kStorage, "checkpoint: '3' ", layers), options)->plan().bytes;
  EXPECT_LT(cut, narrow.bytes);
}

/// Parameters are f32, in memory and in files.
TEST(Precision, ParametersAreF32) {
  NetBench bench;
  const auto net = bench.make(whole_net(kStorage), {});
  for (const LearnableParameter& parameter : net->parameters())
    EXPECT_EQ(parameter.value.dtype(), DType::f32) << parameter.layer;
  EXPECT_EQ(net->flat_gradients().dtype(), DType::f32);
  const caffe::NetParameter saved = to_proto(*net, true);
  for (const caffe::LayerParameter& each : saved.layer())
    for (const caffe::BlobProto& blob : each.blobs()) EXPECT_GT(blob.data_size(), 0) << each.name();
  EXPECT_EQ(net->precision().storage, DType::bf16);
  EXPECT_EQ(net->precision().master, DType::f32);
  EXPECT_EQ(net->precision().compute, DType::f32);
}

TEST(Precision, RefusesWhatItCannotDo) {
  const auto refusal = [](const std::string& text, DType dtype = DType::f32) {
    return message_of([&] {
      NetBench bench;
      NetOptions options;
      options.dtype = dtype;
      bench.make(text, options);
    });
  };
  EXPECT_THAT(refusal(whole_net(kStorage), DType::f64),
              HasSubstr("storage: BF16 is for runs in f32 or bf16; this one is in f64"));
  EXPECT_THAT(refusal(whole_net(cat(kStorage, "in_place_abn: true "))),
              HasSubstr("storage: BF16 and in_place_abn: true exclude each other so far"));
  EXPECT_THAT(refusal(whole_net(cat(kStorage, "storage_exception: 'Poling' "))),
              HasSubstr("no layer type is called \"Poling\" (did you mean \"Pooling\"?)"));
  EXPECT_THAT(refusal(whole_net("storage: FULL storage_exception: 'Pooling' ")),
              HasSubstr("storage_exception \"Pooling\" excepts from nothing: the net says storage: FULL"));
  EXPECT_THAT(refusal(cat(kSource, layer("BNLL", "data", "s", "storage: BF16"))),
              HasSubstr("storage: BF16 is not supported by layers of type \"BNLL\""));
  EXPECT_THAT(refusal(cat(kSource, convolution("data", "c", 6, "storage: BF16")), DType::f64),
              HasSubstr("storage: BF16 is for runs in f32"));
}

TEST(Precision, ComputesAsTheDeviceDoes) {
  const auto read = [](const char* text, Math math) {
    return read_precision(net_of(text), DType::f32, math);
  };
  EXPECT_EQ(read("name: 'n'", Math::bf16_in_f32).compute, DType::bf16);
  EXPECT_EQ(read("storage: FULL", Math::bf16).compute, DType::bf16);
  EXPECT_EQ(read("storage: FULL", Math::bf16).storage, DType::f32);
  EXPECT_EQ(read(kStorage, Math::full).compute, DType::f32);
}

}  // namespace
}  // namespace banyan
