// Random nets: whatever is fused, shared, recomputed or written in place, results are bit-identical to those
// of the net without any of it.
#include <algorithm>
#include <cmath>
#include <random>

#include "net/net_test_tools.hpp"
#include "net/random_seeds.hpp"
#include "relative_distance.hpp"

namespace banyan {
namespace {

/// Draws a net of layers that preserve height and width. A blob that a layer works on in place is not read
/// again under its old name, so the same net can be written with and without in-place layers.
class RandomNet {
 public:
  explicit RandomNet(unsigned seed) : random_(seed) {
    if (seed % 3 == 1) add_frozen_stem();
    const int layers = 4 + below(14);
    for (int i = 0; i < layers; ++i) add_layer();
  }

  std::string text(bool in_place, const std::string& settings = "") const {
    std::vector<std::string> names{"data"};
    std::string text = settings +
                       " layer { name: 'in' type: 'Input' top: 'data' top: 'label' input_param { shape { "
                       "dim: 4 dim: 4 dim: 5 "
                       "dim: 5 } shape { dim: 4 } } } ";
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const Drawn& layer = layers_[l];
      text += cat("layer { name: 'l", l, "' type: '", layer.type, "' ");
      for (const std::size_t input : layer.inputs) text += cat("bottom: '", names[input], "' ");
      for (int o = 0; o < layer.outputs; ++o) {
        names.push_back(in_place && layer.in_place ? names[layer.inputs[0]] : cat("b", names.size()));
        text += cat("top: '", names.back(), "' ");
      }
      text += layer.settings + " } ";
    }
    return text + "layer { name: 'ip' type: 'InnerProduct' bottom: '" + names.back() +
           "' top: 'ip' inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } } "
           "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' } ";
  }

 private:
  struct Drawn {
    std::string type, settings;
    std::vector<std::size_t> inputs;
    int outputs = 1;
    bool in_place = false;
  };
  struct DrawnBlob {
    int channels = 4;
    bool readable = true;
  };

  int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }
  /// A readable blob, preferring late ones.
  std::size_t pick() {
    std::vector<std::size_t> all;
    for (std::size_t b = 0; b < blobs_.size(); ++b)
      if (blobs_[b].readable) all.push_back(b);
    const int back = below(4) == 0 ? below(static_cast<int>(all.size()))
                                   : below(std::min(2, static_cast<int>(all.size())));
    return all[all.size() - 1 - static_cast<std::size_t>(back)];
  }
  std::size_t like(std::size_t blob) {
    for (int i = 0; i < 20; ++i)
      if (const std::size_t other = pick(); blobs_[other].channels == blobs_[blob].channels) return other;
    return blob;
  }

  void add(Drawn layer, int channels) {
    for (int o = 0; o < layer.outputs; ++o) blobs_.push_back({channels, channels > 0});
    if (layer.in_place) blobs_[layer.inputs[0]].readable = false;
    layers_.push_back(std::move(layer));
  }
  void add_elementwise(std::size_t from, const std::string& type, const std::string& settings = "") {
    const bool in_place = from != 0 && below(3) != 0;
    const std::string weight = !in_place && below(12) == 0 ? " loss_weight: 0.125" : "";
    add({type, settings + weight, {from}, 1, in_place}, blobs_[from].channels);
  }
  void add_activation(std::size_t from) {
    if (below(4) == 0)
      return add_elementwise(from, "ELU", below(2) == 0 ? "elu_param { alpha: 0.5 lambda: 1.5 }" : "");
    if (below(6) == 0) return add_elementwise(from, "Clip", "clip_param { min: -0.5 max: 0.75 }");
    const char* const slopes[] = {"0", "0", "0", "0.3", "-0.25"};
    add_elementwise(from, "ReLU", cat("relu_param { negative_slope: ", slopes[below(5)], " }"));
    if (below(3) == 0) add_elementwise(blobs_.size() - 1, "Dropout", dropout());
  }
  std::string dropout() {
    const char* const settings[] = {"dropout_ratio: 0.25", "dropout_ratio: 0.25", "",
                                    "dropout_ratio: 0.25 scale_train: false"};
    return cat("dropout_param { ", settings[below(4)], " }");
  }
  /// An inner product with what usually follows it, and back to maps.
  void add_inner_product(std::size_t from) {
    const int channels = blobs_[from].channels;
    const std::size_t first = blobs_.size();
    add({"InnerProduct",
         cat("inner_product_param { num_output: ", 25 * channels, below(3) == 0 ? " bias_term: false" : "",
             " weight_filler { type: 'xavier' } bias_filler { type: 'uniform' min: -0.1 max: 0.1 } }"),
         {from}},
        channels);
    if (below(3) != 0) add_activation(blobs_.size() - 1);
    if (below(2) == 0) add_elementwise(blobs_.size() - 1, "Dropout", dropout());
    const std::size_t vector = blobs_.size() - 1;
    add({"Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 5 dim: 5 } }", {vector}}, channels);
    for (std::size_t b = first; b <= vector; ++b) blobs_[b].readable = false;
  }
  /// A Scale that learns, over data or a frozen convolution.
  void add_frozen_stem() {
    if (below(2) == 0)
      add({"Convolution",
           "convolution_param { num_output: 4 kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } param { "
           "lr_mult: 0 } param { lr_mult: 0 }",
           {0}},
          4);
    add_elementwise(blobs_.size() - 1, "BatchNorm",
                    below(3) == 0 ? "batch_norm_param { use_global_stats: true eps: 1 }" : "");
    add_elementwise(blobs_.size() - 1, "Scale",
                    "scale_param { bias_term: true filler { type: 'uniform' min: 0.5 max: 1.5 } }");
    if (below(3) != 0) add_activation(blobs_.size() - 1);
  }
  void add_layer() {
    const std::size_t from = pick();
    const int channels = blobs_[from].channels;
    const char* const fillers =
        "slope_filler { type: 'uniform' min: 0.5 max: 1.5 } bias_filler { type: 'uniform' min: -0.5 max: 0.5 "
        "}";
    switch (below(17)) {
      case 16:
        return add_inner_product(from);
      case 0:
      case 1:
      case 2: {
        const int kernel = below(2) == 0 ? 1 : 3, made = below(4) == 0 ? 8 : 4;
        return add(
            {"Convolution",
             cat("convolution_param { num_output: ", made, " kernel_size: ", kernel, " pad: ", kernel / 2,
                 " weight_filler { type: 'msra' } bias_filler { type: 'uniform' min: -0.1 max: 0.1 } }"),
             {from}},
            made);
      }
      case 3:
      case 4: {
        add_elementwise(from, "SyncBN", cat("bn_param { ", fillers, " }"));
        if (below(2) != 0) return;
        const std::size_t norm = blobs_.size() - 1;
        std::size_t other = norm;
        for (int i = 0; i < 9 && other == norm; ++i) other = like(norm);
        if (other == norm) return;
        add({"Eltwise", "", {other, norm}}, channels);
        return add_activation(blobs_.size() - 1);
      }
      case 5: {
        add_elementwise(from, "BatchNorm",
                        below(3) == 0 ? "batch_norm_param { use_global_stats: true eps: 1 }" : "");
        if (below(3) == 0) return;
        const std::size_t norm = blobs_.size() - 1;
        add_elementwise(
            norm, "Scale",
            cat("scale_param { filler { type: 'uniform' min: 0.5 max: 1.5 } ",
                below(2) == 0 ? "bias_term: true bias_filler { type: 'uniform' min: -0.5 max: 0.5 }" : "",
                " }", below(4) == 0 ? " param { lr_mult: 0 }" : ""));
        if (below(2) == 0) return;
        return add_activation(blobs_.size() - 1);
      }
      case 6:
      case 7:
      case 8:
        return add_activation(from);
      case 9:
        return add_elementwise(from, below(2) == 0 ? "Sigmoid" : "TanH");
      case 10:
        return add_elementwise(
            from, "Scale", "scale_param { bias_term: true filler { type: 'uniform' min: 0.5 max: 1.5 } }");
      case 11:
        return below(2) == 0 ? add_elementwise(from, "Dropout", dropout())
                             : add_elementwise(from, "Bias", "bias_param { filler { type: 'uniform' } }");
      case 12:
      case 13: {
        const char* const operations[] = {"", "", "eltwise_param { coeff: 1 coeff: -0.5 }",
                                          "eltwise_param { operation: MAX }",
                                          "eltwise_param { operation: PROD }"};
        return add({"Eltwise", operations[below(5)], {from, like(from)}}, channels);
      }
      case 14:
        if (channels >= 8) return add({"Slice", "", {from}, 2}, channels / 2);
        return add({"Concat", "", {from, like(from)}}, 2 * channels);
      default:
        if (below(3) == 0)
          return add({"Flatten", "", {from}}, 0);  // read only by the head, if it is the last
        return add({"Pooling",
                    cat("pooling_param { kernel_size: 3 pad: 1 pool: ", below(2) == 0 ? "MAX" : "AVE", " }"),
                    {from}},
                   channels);
    }
  }

  std::mt19937 random_;
  std::vector<DrawnBlob> blobs_{{4, true}};
  std::vector<Drawn> layers_;
};

template <class T>
struct Results {
  double loss = 0;
  std::vector<T> gradients, statistics, output;
  bool operator==(const Results&) const = default;
};

/// Two passes whose gradients add up, as with iter_size 2.
template <class T>
Results<T> results_of(const std::string& text, NetOptions options, bool observed = false,
                      bool asynchronous = false) {
  CpuDeviceOptions device;
  device.asynchronous = asynchronous;
  device.max_delay_us = 5;
  NetBench bench(device);
  options.seed = 5;
  options.dtype = DTypeOf<T>::value;
  const auto net = bench.make(text, options);
  if (observed) net->observe_layers({}, {});
  bench.pass.update_statistics = true;
  feed<T>(bench, *net, 5);
  net->zero_gradients();
  for (int pass = 0; pass < 2; ++pass) {
    bench.pass.draw = pass;
    net->forward(bench.pass);
    if (options.phase == Phase::train) net->backward(bench.pass);
  }
  Results<T> results;
  results.loss = loss_of(bench, *net);
  if (options.phase == Phase::train && net->flat_gradients().defined())
    // Where gradients are in the flat buffer depends on what is fused; the list of parameters does not.
    for (const LearnableParameter& parameter : net->parameters())
      if (parameter.grad.defined())
        for (const T value : values_of<T>(bench.context, parameter.grad)) results.gradients.push_back(value);
  if (net->statistics().defined()) results.statistics = values_of<T>(bench.context, net->statistics());
  results.output = values_of<T>(bench.context, net->find_blob("loss")->data);
  return results;
}

/// The gradients of one pass, each as it is when its last layer is done.
template <class T>
std::vector<std::vector<T>> gradients_when_ready(const std::string& text, NetOptions options, bool observed) {
  NetBench bench;
  options.seed = 5;
  options.dtype = DTypeOf<T>::value;
  const auto net = bench.make(text, options);
  if (observed) net->observe_layers({}, {});
  EXPECT_EQ(net->flat_gradients().defined(), options.keep_gradients);
  feed<T>(bench, *net, 5);
  std::vector<std::vector<T>> gradients(net->parameters().size());
  for (int pass = 0; pass < 2; ++pass) {  // nothing of the first one is left in the second
    net->zero_gradients();
    net->forward(bench.pass);
    net->backward(bench.pass, [&](int layer) {
      for (std::size_t p = 0; p < gradients.size(); ++p) {
        const LearnableParameter& parameter = net->parameters()[p];
        if (parameter.learns() && parameter.ready_layer == layer)
          gradients[p] = values_of<T>(bench.context, parameter.grad);
      }
    });
  }
  return gradients;
}

TEST(RandomNets, HaveTheSameBitsHoweverTheyRun) {
  const Seeds seeds = random_seeds(60);
  unsigned finite = 0;
  for (unsigned seed = seeds.first; seed < seeds.end; ++seed) {
    const RandomNet net(seed);
    for (const bool channels_last : {false, true}) {
      NetOptions fused;
      fused.channels_last = channels_last;
      fused.fuse_scale = false;
      NetOptions alone = fused, separate = fused, tested = fused;
      alone.fuse = false;
      separate.reuse_memory = false;
      tested.phase = Phase::test;
      NetOptions tested_separately = tested;
      tested_separately.reuse_memory = false;
      const std::string in_place = net.text(true), apart = net.text(false);
      SCOPED_TRACE(cat("seed ", seed, channels_last ? ", channels-last: " : ": ", in_place));
      const Results<float> plain = results_of<float>(apart, separate);
      ASSERT_FALSE(plain.gradients.empty());
      if (!std::isfinite(plain.loss)) continue;  // products of products
      ++finite;
      for (const std::string& text : {in_place, apart}) {
        ASSERT_TRUE(results_of<float>(text, fused) == plain);
        ASSERT_TRUE(results_of<float>(text, alone) == plain);
        ASSERT_TRUE(results_of<float>(text, tested) == results_of<float>(apart, tested_separately));
      }
      ASSERT_TRUE(results_of<float>(in_place, separate) == plain);
      ASSERT_TRUE(results_of<float>(in_place, fused, true) == plain);
      ASSERT_TRUE(results_of<float>(in_place, fused, false, true) == plain);
      for (const char* segments : {"auto", "normalizations", "2", "3"}) try {
          ASSERT_TRUE(results_of<float>(net.text(true, cat("checkpoint: '", segments, "'")), fused) == plain)
              << segments;
        } catch (const Error& error) {
          EXPECT_THAT(error.what(), testing::HasSubstr("more segments than the"));
        }
    }
  }
  EXPECT_GE(finite, seeds.count());  // out of twice as many
}

/// keep_gradients: false
TEST(RandomNets, HaveTheSameGradientsWhereTheseDoNotStay) {
  const Seeds seeds = random_seeds(60);
  std::int64_t kept_bytes = 0, brief_bytes = 0;
  for (unsigned seed = seeds.first; seed < seeds.end; ++seed) {
    const RandomNet net(seed);
    const std::string text = net.text(true), cut = net.text(true, "checkpoint: 'auto'");
    SCOPED_TRACE(cat("seed ", seed, ": ", text));
    NetOptions kept, brief, planned;
    brief.keep_gradients = planned.keep_gradients = false;
    planned.shapes_only = true;
    const auto expected = gradients_when_ready<double>(text, kept, false);
    if (std::any_of(expected.begin(), expected.end(), [](const std::vector<double>& gradient) {
          return std::any_of(gradient.begin(), gradient.end(), [](double x) { return std::isnan(x); });
        }))
      continue;  // products of products
    ASSERT_EQ(gradients_when_ready<double>(text, brief, false), expected);
    ASSERT_EQ(gradients_when_ready<double>(cut, brief, false), expected);
    ASSERT_EQ(gradients_when_ready<double>(text, brief, true),
              gradients_when_ready<double>(text, kept, true));
    NetBench bench;
    const auto shapes = bench.make(text, planned);
    brief_bytes += shapes->plan().bytes;
    planned.keep_gradients = true;
    kept_bytes += bench.make(text, planned)->plan().bytes;
    for (const LearnableParameter& parameter : shapes->parameters())
      if (parameter.learns()) kept_bytes += parameter.count * static_cast<std::int64_t>(sizeof(float));
  }
  EXPECT_LT(brief_bytes, kept_bytes);
}

/// 16-bit storage: a step that does several layers' work rounds where the layers do.
TEST(RandomNets, HaveTheSameBitsInBf16HoweverTheyRun) {
  const Seeds seeds = random_seeds(240);
  unsigned finite = 0, changed = 0;
  for (unsigned seed = seeds.first; seed < seeds.end; ++seed) {
    const RandomNet net(seed);
    NetOptions fused;
    fused.channels_last = seed % 2 == 0;
    fused.fuse_scale = seed / 2 % 2 == 0;
    NetOptions alone = fused, separate = fused;
    alone.fuse = separate.fuse = false;
    separate.reuse_memory = fused.fuse_scale;  // without it no Scale is fused
    const std::string in_place = net.text(true, "storage: BF16"), apart = net.text(false, "storage: BF16");
    SCOPED_TRACE(cat("seed ", seed, ": ", in_place));
    const Results<float> plain = results_of<float>(apart, separate);
    if (!std::isfinite(plain.loss)) continue;  // products of products
    ++finite;
    ASSERT_TRUE(results_of<float>(in_place, fused) == plain);
    ASSERT_TRUE(results_of<float>(apart, fused) == plain);
    ASSERT_TRUE(results_of<float>(in_place, alone) == plain);
    ASSERT_TRUE(results_of<float>(in_place, fused, true) == plain);
    ASSERT_TRUE(results_of<float>(in_place, fused, false, true) == plain);
    for (const char* segments : {"auto", "2"}) try {
        const std::string cut = net.text(true, cat("storage: BF16 checkpoint: '", segments, "'"));
        ASSERT_TRUE(results_of<float>(cut, fused) == plain) << segments;
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("more segments than the"));
      }
    changed += results_of<float>(net.text(true), fused) == plain ? 0 : 1;
  }
  EXPECT_GE(finite, seeds.count() / 2);
  EXPECT_GE(changed, finite / 2);
}

std::vector<double> as_doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

/// Rounding to bf16 changes a value by at most 2^-8 of it. Each normalization of small deviations amplifies
/// that, and a ReLU input that changes sign adds or removes a whole term, so single nets end up far from f32;
/// half of all stay within a tenth of it.
TEST(RandomNets, AreNearThoseOfF32InBf16) {
  const Seeds seeds = random_seeds(60);
  std::vector<double> losses, gradients;
  for (unsigned seed = seeds.first; seed < seeds.end; ++seed) {
    const RandomNet net(seed);
    const Results<float> wide = results_of<float>(net.text(true), {}),
                         narrow = results_of<float>(net.text(true, "storage: BF16"), {});
    if (!std::isfinite(wide.loss) || !std::isfinite(narrow.loss)) continue;
    losses.push_back(std::abs(narrow.loss - wide.loss) / std::max(1.0, std::abs(wide.loss)));
    gradients.push_back(relative_distance(as_doubles(wide.gradients), as_doubles(narrow.gradients)));
  }
  ASSERT_GE(losses.size(), seeds.count() / 2);
  std::sort(losses.begin(), losses.end());
  std::sort(gradients.begin(), gradients.end());
  EXPECT_LT(losses[losses.size() / 2], 1e-2);
  EXPECT_LT(losses[losses.size() * 9 / 10], 1e-1);
  EXPECT_LT(gradients[gradients.size() / 2], 1e-1);
  EXPECT_LT(gradients[gradients.size() * 9 / 10], 1);
}

/// The plan is the same whether or not layers work in place in the file. Every kind of fusion occurs.
TEST(RandomNets, NeedTheSameMemoryHoweverTheyAreWritten) {
  NetBench bench;
  NetOptions options;
  options.shapes_only = true;
  const Seeds seeds = random_seeds(240);
  unsigned elus = 0, clips = 0, sums = 0, drops = 0, gradients = 0, frozen = 0;
  for (unsigned seed = seeds.first; seed < seeds.end; ++seed) {
    const RandomNet net(seed);
    const Plan in_place = bench.make(net.text(true), options)->plan();
    const Plan apart = bench.make(net.text(false), options)->plan();
    ASSERT_EQ(in_place.bytes, apart.bytes) << net.text(true);
    ASSERT_EQ(in_place.unshared_bytes, apart.unshared_bytes) << net.text(true);
    for (std::size_t i = 0; i < in_place.backward; ++i) {
      const PlanStep& step = in_place.steps[i];
      elus += step.runs_layer && step.output.kind == ops::Activation::Kind::elu ? 1 : 0;
      clips += step.runs_layer && step.output.kind == ops::Activation::Kind::clip ? 1 : 0;
      sums += step.runs_layer && step.addend >= 0 ? 1 : 0;
      drops += step.runs_layer && step.drop_layer >= 0 ? 1 : 0;
    }
    for (std::size_t i = in_place.backward; i < in_place.steps.size(); ++i) {
      const PlanStep& step = in_place.steps[i];
      gradients += step.runs_layer && step.input.on() ? 1 : 0;
      // Repeated forward steps propagate nothing.
      frozen +=
          step.work == Work::backward && step.runs_layer && step.affine >= 0 && !step.propagate[0] ? 1 : 0;
    }
  }
  EXPECT_GE(frozen, seeds.count() / 12);  // of a third
  EXPECT_GE(std::min({elus, clips, sums, drops, gradients}), seeds.count() / 24)
      << elus << " " << clips << " " << sums << " " << drops;
}

/// A normalization that applies the Scale after it, alone or in one tensor with the activation
/// (in_place_abn).
TEST(RandomNets, HaveTheSameGradientsWithScalesFused) {
  const Seeds seeds = random_seeds(150);
  unsigned fused_somewhere = 0;
  for (unsigned seed = seeds.first; seed < seeds.end; ++seed) {
    const RandomNet net(seed);
    const std::string text = net.text(seed % 2 == 0);
    SCOPED_TRACE(cat("seed ", seed, ": ", text));
    NetOptions fused, plain;
    plain.fuse_scale = plain.fuse = false;
    const Results<double> expected = results_of<double>(text, plain);
    if (!std::isfinite(expected.loss)) continue;
    const Results<double> found = results_of<double>(text, fused);
    // Roundings of 1e-16, amplified by normalizations of small deviations, of which a net has up to ten.
    ASSERT_NEAR(found.loss, expected.loss, 1e-9 * std::abs(expected.loss));
    ASSERT_LE(relative_distance(expected.gradients, found.gradients), 1e-8);
    ASSERT_LE(relative_distance(expected.statistics, found.statistics), 1e-9);
    fused_somewhere += found == expected ? 0 : 1;
    NetOptions alone;
    alone.fuse = false;
    ASSERT_TRUE(results_of<double>(text, alone) == found);
    ASSERT_TRUE(results_of<double>(text, fused, true) == found);
    for (const char* segments : {"auto", "2"}) try {
        ASSERT_TRUE(results_of<double>(cat("checkpoint: '", segments, "' ", text), fused) == found)
            << segments;
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("more segments than the"));
      }
    fused.phase = plain.phase = Phase::test;
    const double tested = results_of<double>(text, plain).loss;
    ASSERT_NEAR(results_of<double>(text, fused).loss, tested, 1e-9 * std::abs(tested) + 1e-9);
  }
  EXPECT_GE(fused_somewhere, seeds.count() / 8);
}

}  // namespace
}  // namespace banyan
