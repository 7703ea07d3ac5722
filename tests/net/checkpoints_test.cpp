// Checkpointing: the pure decisions, and that a net's results are bit-identical with it.
#include "banyan/net/checkpoints.hpp"

#include <map>
#include <random>

#include "banyan/device/memory.hpp"
#include "banyan/net/data_sharing.hpp"
#include "banyan/net/memory_plan.hpp"
#include "net/net_test_tools.hpp"

namespace banyan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ReadCheckpoint, KnowsItsWordsAndNumbers) {
  caffe::NetParameter net;
  EXPECT_EQ(read_checkpoint(net, true).segments, 1);
  EXPECT_GT(read_checkpoint(net, true).repeats, 0);
  EXPECT_EQ(read_checkpoint(net, false).repeats, 0);
  const auto reads = [&](const std::string& text) {
    net.set_checkpoint(text);
    return read_checkpoint(net, true);
  };
  EXPECT_EQ(reads("off").segments, 1);
  EXPECT_EQ(reads("off").repeats, 0);
  EXPECT_EQ(reads("normalizations").segments, 1);
  EXPECT_GT(reads("normalizations").repeats, 1e9);
  EXPECT_EQ(reads("auto").segments, 0);
  EXPECT_EQ(reads("1").segments, 1);
  EXPECT_EQ(reads("12").segments, 12);
  EXPECT_EQ(reads("12").repeats, 0);
  for (const char* wrong : {"", "0", "-1", "on", "4x", "99999999"})
    EXPECT_THAT(message_of([&] { reads(wrong); }),
                HasSubstr("\"auto\", \"normalizations\", \"off\" or a number of segments"))
        << wrong;
}

/// A net of `layers` layers in sequence: layer l makes tensor l + 1 from tensor l, all read in backward.
TensorUses chain(int layers) {
  TensorUses uses;
  for (int t = 0; t <= layers; ++t) {
    uses.data_of.push_back(t);
    uses.grad_of.push_back(t);
    uses.keeps_data.push_back(t == layers);
    uses.has_grad.push_back(t > 0);
    uses.data_size.push_back(t == 0 ? 0 : 10);
    uses.grad_size.push_back(10);
  }
  for (int l = 0; l < layers; ++l) {
    LayerUse& use = uses.layers.emplace_back();
    use.inputs = {l};
    use.outputs = {l + 1};
    use.converted_from = {-1};
    use.needs_backward = true;
    use.reads_outputs = false;
    use.propagate = {l > 0};
    use.cost = 1;
  }
  return uses;
}

std::string shown(const Schedule& schedule) {
  std::string text;
  for (const auto& [work, layer] : schedule)
    text +=
        (text.empty() ? "" : " ") + std::string(1, "fcrb"[static_cast<int>(work)]) + std::to_string(layer);
  return text;
}

TEST(CheckpointedSchedule, RunsAgainWhatBackwardReads) {
  const TensorUses uses = chain(6);
  EXPECT_THAT(possible_cuts(uses), ElementsAre(1, 2, 3, 4, 5));
  // The outputs of layers 1 and 3 cross the cuts; that of 5 is not read; the last segment is still in memory.
  EXPECT_EQ(shown(checkpointed_schedule(uses, {2, 4})), "f0 f1 f2 f3 f4 f5 b5 b4 r2 b3 b2 r0 b1 b0");
  EXPECT_EQ(shown(checkpointed_schedule(uses, {})), shown(plain_schedule(6)));
}

TEST(CheckpointedSchedule, KeepsWhatCannotBeMadeAgain) {
  TensorUses uses = chain(6);
  uses.layers[1].repeatable = false;
  EXPECT_EQ(shown(checkpointed_schedule(uses, {4})), "f0 f1 f2 f3 f4 f5 b5 b4 r0 r2 b3 b2 b1 b0");
}

TEST(CheckpointedSchedule, ConvertsAloneWhereThatIsEnough) {
  TensorUses uses = chain(4);
  // Layer 1 reads tensor 5, which is tensor 1 in another layout; tensor 1 is kept.
  uses.layers[1].inputs = {5};
  uses.layers[1].converted_from = {1};
  uses.layers[0].repeatable = false;
  for (auto* list : {&uses.data_of, &uses.grad_of}) list->push_back(5);
  uses.keeps_data.push_back(false);
  uses.has_grad.push_back(true);
  uses.data_size.push_back(10);
  uses.grad_size.push_back(10);
  EXPECT_EQ(shown(checkpointed_schedule(uses, {2})), "f0 f1 f2 f3 b3 b2 c1 b1 b0");
}

TEST(Repeats, MakeAgainWhatTookOneSweepBeforeItIsRead) {
  TensorUses uses = chain(6);
  EXPECT_THAT(find_repeats(uses), IsEmpty());
  uses.layers[1].one_sweep = uses.layers[3].one_sweep = uses.layers[5].one_sweep =
      true;  // 5's output is kept
  EXPECT_THAT(find_repeats(uses), ElementsAre(1, 3));
  const Schedule schedule = schedule_with_repeats(uses, {1, 3});
  EXPECT_EQ(shown(schedule), "f0 f1 f2 f3 f4 f5 b5 r3 b4 b3 r1 b2 b1 b0");
  EXPECT_EQ(peak_of(uses, plain_schedule(6)) - peak_of(uses, schedule), 20);
  EXPECT_EQ(repeated_cost(uses, schedule), 2);
}

TEST(Repeats, KeepWhatAnotherIsMadeFrom) {
  TensorUses uses = chain(6);
  uses.layers[1].one_sweep = uses.layers[2].one_sweep = uses.layers[3].one_sweep = true;
  EXPECT_THAT(find_repeats(uses), ElementsAre(1, 3));
}

TEST(Repeats, LeaveWhatOthersChangeOrWhoseInputIsGone) {
  TensorUses uses = chain(6);
  for (LayerUse& layer : uses.layers) layer.one_sweep = true;
  uses.layers[2].outputs = {2};  // in place on the output of layer 1
  uses.layers[3].inputs = {2};
  uses.layers[4].reads_inputs = false;
  EXPECT_THAT(find_repeats(uses), ElementsAre(0));
  uses.layers[2].forward_elsewhere = true;  // layer 1 does its work
  EXPECT_THAT(find_repeats(uses), ElementsAre(1));
}

TEST(PossibleCuts, NotBetweenAWriterAndOneInPlace) {
  TensorUses uses = chain(4);
  uses.layers[2].outputs = {2};  // in place on the output of layer 1
  uses.layers[3].inputs = {2};
  EXPECT_THAT(possible_cuts(uses), ElementsAre(1, 3));
}

TEST(ChooseCuts, TakesAboutTheRootOfAChain) {
  const TensorUses uses = chain(64);
  const std::int64_t without = peak_of(uses, plain_schedule(64));
  const std::vector<int> cuts = choose_cuts(uses, 0);
  // k segments hold k + 64 / k tensors: 16 with k = 8, plus a few in flight.
  EXPECT_GE(cuts.size(), 5u);
  EXPECT_LE(cuts.size(), 14u);
  EXPECT_GE(without, 640);
  EXPECT_LE(peak_of(uses, checkpointed_schedule(uses, cuts)), 200);
  EXPECT_LE(repeated_cost(uses, checkpointed_schedule(uses, cuts)), 60);
}

TEST(ChooseCuts, MakesAsManySegmentsAsAsked) {
  const TensorUses uses = chain(20);
  EXPECT_THAT(choose_cuts(uses, 1), IsEmpty());
  for (const int segments : {2, 3, 5, 20})
    EXPECT_EQ(static_cast<int>(choose_cuts(uses, segments).size()) + 1, segments);
  EXPECT_THAT(message_of([&] { choose_cuts(uses, 21); }), HasSubstr("more segments than the 20"));
}

TEST(ChooseCuts, LeavesAloneWhatGainsNothing) {
  EXPECT_THAT(choose_cuts(chain(1), 0), IsEmpty());
  EXPECT_THAT(choose_cuts(chain(2), 0), IsEmpty());
}

/// Plays a schedule in planned memory: each place holds a number that stands for how its contents were made.
class Player {
 public:
  Player(const TensorUses& uses, const Schedule& schedule) : uses_(uses) {
    TensorSpans spans = find_lifetimes(uses, schedule);
    std::vector<Lifetime> lifetimes;
    place_.assign(uses.data_of.size(), -1);
    for (std::size_t t = 0; t < uses.data_of.size(); ++t) {
      if (spans.data[t].empty()) continue;
      place_[t] = static_cast<int>(lifetimes.size());
      lifetimes.push_back({uses.data_size[t], spans.data[t]});
    }
    plan_ = plan_memory(lifetimes, 1);
    memory_.assign(static_cast<std::size_t>(plan_.total), 0);
    for (const Action& action : schedule) act(action);
    for (std::size_t t = 0; t < uses.data_of.size(); ++t)
      if (uses.keeps_data[t]) kept.push_back(read(static_cast<int>(t)));
  }
  /// What each backward pass read, by layer.
  std::map<int, std::vector<std::uint64_t>> seen;
  std::vector<std::uint64_t> kept;

 private:
  void act(const Action& action) {
    const LayerUse& layer = uses_.layers[action.layer];
    if (action.work == Work::backward) {
      if (!layer.needs_backward) return;
      for (const int input : layer.inputs)
        if (layer.reads_inputs) seen[action.layer].push_back(read(input));
      for (const int output : layer.outputs)
        if (layer.reads_outputs) seen[action.layer].push_back(read(output));
      return;
    }
    for (std::size_t k = 0; k < layer.inputs.size(); ++k)
      if (layer.converted_from[k] >= 0) write(layer.inputs[k], read(layer.converted_from[k]) + 1);
    if (action.work == Work::convert || layer.view) return;
    ASSERT_TRUE(action.work == Work::forward || layer.repeatable);
    std::uint64_t made = static_cast<std::uint64_t>(action.layer) + 1;
    for (const int input : layer.inputs) made = made * 6364136223846793005u + read(input);
    for (const int output : layer.outputs) write(output, made = made * 31 + 7);
  }
  int slot(int tensor) const { return place_[owner_of(uses_.data_of, tensor)]; }
  std::size_t size(int tensor) const {
    return static_cast<std::size_t>(uses_.data_size[owner_of(uses_.data_of, tensor)]);
  }
  std::uint64_t* begin(int tensor) { return memory_.data() + plan_.offsets[slot(tensor)]; }
  std::uint64_t read(int tensor) {
    const std::uint64_t value = *begin(tensor);
    for (std::size_t i = 0; i < size(tensor); ++i) EXPECT_EQ(begin(tensor)[i], value) << "half overwritten";
    return value;
  }
  void write(int tensor, std::uint64_t value) { std::fill_n(begin(tensor), size(tensor), value); }

  const TensorUses& uses_;
  MemoryPlan plan_;
  std::vector<int> place_;
  std::vector<std::uint64_t> memory_;
};

/// A net with branches, skips, in-place layers, views, conversions and layers that must not run twice.
TensorUses random_net(std::mt19937& random) {
  TensorUses uses;
  const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto tensor = [&] {
    const int t = static_cast<int>(uses.data_of.size());
    uses.data_of.push_back(t);
    uses.grad_of.push_back(t);
    uses.keeps_data.push_back(draw(12) == 0);
    uses.has_grad.push_back(false);
    uses.data_size.push_back(1 + draw(9));
    uses.grad_size.push_back(0);
    return t;
  };
  std::vector<int> open;  // tensors that may be read; a layer that works in place must be the only reader
  const int layers = 4 + draw(24);
  for (int l = 0; l < layers; ++l) {
    LayerUse& use = uses.layers.emplace_back();
    use.needs_backward = draw(6) > 0;
    use.reads_inputs = draw(2) == 0;
    use.reads_outputs = draw(2) == 0;
    use.repeatable = draw(8) > 0;
    use.cost = 1 + draw(5);
    const int kind = open.empty() ? 0 : draw(6);
    if (kind == 1) {  // in place: takes a tensor that no layer has read
      const int target = open.back();
      open.pop_back();
      bool alone = uses.data_of[target] == target;
      for (std::size_t other = 0; other + 1 < uses.layers.size(); ++other) {
        const LayerUse& before = uses.layers[other];
        for (const int input : before.inputs) alone = alone && input != target;
        for (const int output : before.outputs) alone = alone && !(output == target && before.reads_outputs);
        for (const int from : before.converted_from) alone = alone && from != target;
      }
      use.inputs = {target};
      use.outputs = {alone ? target : tensor()};
      use.reads_inputs = use.reads_inputs && !alone;
    } else if (kind == 2) {  // view
      use.inputs = {open[static_cast<std::size_t>(draw(static_cast<int>(open.size())))]};
      use.outputs = {tensor(), tensor()};
      use.view = true;
      use.reads_inputs = use.reads_outputs = false;
      for (const int output : use.outputs) uses.data_of[output] = use.inputs[0];
    } else {
      for (int i = 0; !open.empty() && i < 1 + draw(3); ++i)
        use.inputs.push_back(open[static_cast<std::size_t>(draw(static_cast<int>(open.size())))]);
      for (int i = 0; i < 1 + (draw(4) == 0); ++i) use.outputs.push_back(tensor());
    }
    use.converted_from.assign(use.inputs.size(), -1);
    use.propagate.assign(use.inputs.size(), false);
    if (kind > 3 && use.outputs.size() == 1 && draw(2) == 0) {
      use.in_place = true;
      use.reads_inputs = false;
      uses.data_size[use.outputs[0]] = uses.data_size[owner_of(uses.data_of, use.inputs[0])];
    }
    if (kind == 3 && !use.inputs.empty()) {
      use.converted_from[0] = use.inputs[0];
      use.inputs[0] = tensor();
      uses.keeps_data.back() = false;
    }
    if (kind != 2)
      for (const int output : use.outputs) open.push_back(output);
    else
      open.insert(open.begin(), use.outputs.begin(), use.outputs.end());
  }
  return uses;
}

TEST(CheckpointedSchedule, GivesBackwardWhatForwardMadeInAnyNet) {
  std::mt19937 random(3);
  int saved = 0, shared = 0;
  for (int round = 0; round < 300; ++round) {
    TensorUses uses = random_net(random);
    const Player plain(uses, plain_schedule(static_cast<int>(uses.layers.size())));
    const auto before = uses.data_of;
    if (round % 2 == 0) share_data(uses);
    shared += uses.data_of != before;
    const Player in_place(uses, plain_schedule(static_cast<int>(uses.layers.size())));
    ASSERT_EQ(in_place.seen, plain.seen) << "round " << round;
    ASSERT_EQ(in_place.kept, plain.kept) << "round " << round;
    const std::vector<int> possible = possible_cuts(uses);
    for (const int keep : {1, 2, 3, 7}) {
      std::vector<int> cuts;
      for (const int cut : possible)
        if (static_cast<int>(random() % 8) < keep) cuts.push_back(cut);
      const Schedule schedule = checkpointed_schedule(uses, cuts);
      const Player played(uses, schedule);
      ASSERT_EQ(played.seen, plain.seen) << "round " << round << ": " << shown(schedule);
      ASSERT_EQ(played.kept, plain.kept) << "round " << round << ": " << shown(schedule);
    }
    saved += choose_cuts(uses, 0).empty() ? 0 : 1;
  }
  EXPECT_GT(saved, 10);
  EXPECT_GT(shared, 10);
}

std::string layer(const std::string& name, const std::string& type, const std::string& bottoms,
                  const std::string& top, const std::string& more = "") {
  std::string text = "layer { name: '" + name + "' type: '" + type + "' ";
  std::istringstream list(bottoms);
  for (std::string bottom; list >> bottom;) text += "bottom: '" + bottom + "' ";
  std::istringstream tops(top);
  for (std::string one; tops >> one;) text += "top: '" + one + "' ";
  return text + more + " } ";
}
std::string convolution(const std::string& name, const std::string& bottom, int outputs, int kernel = 3) {
  return layer(name, "Convolution", bottom, name,
               "convolution_param { num_output: " + std::to_string(outputs) +
                   " kernel_size: " + std::to_string(kernel) + " pad: " + std::to_string(kernel / 2) +
                   " weight_filler { type: 'msra' } }");
}
std::string product(const std::string& name, const std::string& bottom, const std::string& more = "") {
  return layer(name, "InnerProduct", bottom, name,
               more + "inner_product_param { num_output: 5 weight_filler { type: 'xavier' } }");
}

/// Every kind of layer that trains, residual and inception branches, in-place layers, shared weights, a loss
/// in the middle, two at the end, a pooling mask as output, silenced blobs.
std::string every_kind() {
  const std::string in_place = "dropout_param { dropout_ratio: 0.3 }";
  return "layer { name: 'in' type: 'Input' top: 'data' top: 'label' input_param { shape { dim: 4 dim: 3 dim: "
         "12 dim: "
         "12 } shape { dim: 4 } } } " +
         convolution("conv1", "data", 8) +
         layer("bn1", "SyncBN", "conv1", "bn1", "bn_param { slope_filler { value: 1 } }") +
         layer("relu1", "ReLU", "bn1", "bn1") +
         layer("pool1", "Pooling", "bn1", "pool1", "pooling_param { kernel_size: 2 stride: 2 }") +
         layer("norm1", "LRN", "pool1", "norm1", "lrn_param { local_size: 3 alpha: 0.1 }") +
         // inception
         convolution("a1", "norm1", 4, 1) + layer("a1_relu", "ReLU", "a1", "a1") +
         convolution("b1", "norm1", 4, 1) + convolution("b3", "b1", 6) + layer("b3_elu", "TanH", "b3", "b3") +
         layer("p", "Pooling", "norm1", "p", "pooling_param { pool: AVE kernel_size: 3 pad: 1 }") +
         layer("cat", "Concat", "a1 b3 p", "cat") + layer("drop1", "Dropout", "cat", "cat", in_place) +
         // a loss in the middle
         product("aux", "cat") +
         layer("aux_loss", "SoftmaxWithLoss", "aux label", "aux_loss", "loss_weight: 0.3") +
         // residual, with a layer that reads its input and one that reads its output
         convolution("r1", "cat", 18) + layer("r_bn", "BatchNorm", "r1", "r_bn", "batch_norm_param { }") +
         layer("r_scale", "Scale", "r_bn", "r_bn", "scale_param { bias_term: true }") +
         layer("r_sig", "Sigmoid", "r_bn", "r_sig") + layer("sum", "Eltwise", "r_sig cat", "sum") +
         layer("sum_relu", "ReLU", "sum", "sum", "relu_param { negative_slope: 0.1 }") +
         layer("parts", "Slice", "sum", "left right", "slice_param { axis: 1 }") +
         layer("largest", "Eltwise", "left right", "largest", "eltwise_param { operation: MAX }") +
         layer("times", "Eltwise", "left right", "times", "eltwise_param { operation: PROD }") +
         layer("random", "Pooling", "largest", "random",
               "pooling_param { pool: STOCHASTIC kernel_size: 2 stride: 2 }") +
         layer("masked", "Pooling", "times", "masked mask", "pooling_param { kernel_size: 2 stride: 2 }") +
         layer("quiet", "Silence", "mask", "") +
         // heads: views, shared weights
         layer("flat1", "Flatten", "random", "flat1") +
         layer("flat2", "Reshape", "masked", "flat2", "reshape_param { shape { dim: 0 dim: -1 } }") +
         product("ip1", "flat1", "param { name: 'w' } param { name: 'b' } ") +
         product("ip2", "flat2", "param { name: 'w' } param { name: 'b' } ") +
         layer("bias", "Bias", "ip2", "bias") + layer("drop2", "Dropout", "bias", "drop2") +
         layer("probability", "Softmax", "ip1", "probability") +
         layer("distance", "EuclideanLoss", "probability drop2", "distance", "loss_weight: 0.5") +
         layer("accuracy", "Accuracy", "ip1 label", "accuracy") +
         layer("loss", "SoftmaxWithLoss", "ip1 label", "loss") + layer("loose", "TanH", "ip1", "loose");
}

struct Results {
  std::vector<double> losses, gradients, parameters, statistics, outputs;
  bool operator==(const Results&) const = default;
};

/// Three iterations of plain descent, each with two passes whose gradients add up.
template <class T>
Results descend(const std::string& checkpoint, bool asynchronous = false) {
  CpuDeviceOptions device;
  device.asynchronous = asynchronous;
  device.max_delay_us = 20;
  NetBench bench(device);
  NetOptions options = f64_options();
  options.dtype = DTypeOf<T>::value;
  const auto net = bench.make("checkpoint: '" + checkpoint + "' " + every_kind(), options);
  bench.pass.update_statistics = true;
  Results results;
  const auto add = [&](std::vector<double>& to, const Tensor& tensor) {
    for (const T value : values_of<T>(bench.context, tensor)) to.push_back(value);
  };
  for (int iteration = 0; iteration < 3; ++iteration) {
    net->zero_gradients();
    for (int sub = 0; sub < 2; ++sub) {
      bench.pass.draw = iteration * 2 + sub;
      Tensor& data = net->find_blob("data")->data;
      copy_from_host(bench.context, wavy<T>(data.count(), iteration * 2 + sub).data(), data);
      copy_from_host(bench.context, std::vector<T>{0, 1, 2, 4}.data(), net->find_blob("label")->data);
      net->forward(bench.pass);
      net->backward(bench.pass);
      results.losses.push_back(loss_of(bench, *net));
      for (const Blob* output : net->outputs()) add(results.outputs, output->data);
    }
    add(results.gradients, net->flat_gradients());
    std::vector<T> values = values_of<T>(bench.context, net->flat_values());
    const std::vector<T> gradients = values_of<T>(bench.context, net->flat_gradients());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= gradients[i] / 1024;
    copy_from_host(bench.context, values.data(), net->flat_values());
  }
  add(results.parameters, net->flat_values());
  add(results.statistics, net->statistics());
  return results;
}

template <class T>
class CheckpointedNet : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(CheckpointedNet, Types);

TYPED_TEST(CheckpointedNet, ChangesNoBit) {
  const Results plain = descend<TypeParam>("off");
  for (const double loss : plain.losses) ASSERT_TRUE(loss > 0 && loss < 100) << loss;
  for (const char* checkpoint : {"auto", "normalizations", "2", "3", "5", "9", "14"})
    EXPECT_TRUE(descend<TypeParam>(checkpoint) == plain) << checkpoint;
  EXPECT_TRUE(descend<TypeParam>("5", true) == plain) << "asynchronous";
}

std::string deep_chain(const std::string& checkpoint) {
  std::string text =
      "checkpoint: '" + checkpoint +
      "' layer { name: 'in' type: 'Input' top: 'data' top: 'label' input_param { shape { dim: 4 "
      "dim: 8 dim: 16 dim: 16 } shape { dim: 4 } } } ";
  std::string bottom = "data";
  for (int i = 0; i < 36; ++i) {
    const std::string name = "c" + std::to_string(i);
    text += convolution(name, bottom, 8) + layer(name + "_t", "TanH", name, name);
    bottom = name;
  }
  return text + product("ip", bottom) + layer("loss", "SoftmaxWithLoss", "ip label", "loss");
}

TEST(CheckpointedNet, HoldsWhatThePlanSays) {
  std::map<std::string, std::size_t> peaks;
  std::map<std::string, std::int64_t> planned;
  for (const char* checkpoint : {"off", "auto", "6"}) {
    reset_peak_of_all_devices();
    const std::size_t before = memory_of_all_devices().in_use;
    NetBench bench;
    const auto net = bench.make(deep_chain(checkpoint), f64_options());
    feed<double>(bench, *net, 5);
    net->forward(bench.pass);
    net->backward(bench.pass);
    peaks[checkpoint] = memory_of_all_devices().peak - before;
    planned[checkpoint] = net->plan().bytes;
    EXPECT_EQ(net->plan().bytes_without_cuts, planned["off"]);
  }
  EXPECT_LT(planned["auto"] * 2, planned["off"]);
  EXPECT_LE(planned["auto"], planned["6"]);
  for (const char* checkpoint : {"auto", "6"})
    EXPECT_EQ(static_cast<std::int64_t>(peaks["off"] - peaks[checkpoint]),
              planned["off"] - planned[checkpoint]);
}

TEST(CheckpointedNet, ShowsObserversEachLayerOnce) {
  NetBench bench;
  const auto net = bench.make(deep_chain("4"), f64_options());
  EXPECT_EQ(net->plan().cuts.size(), 3u);
  feed<double>(bench, *net, 5);
  std::map<std::pair<int, bool>, int> seen;
  net->observe_layers({}, [&](int layer, bool backward) { ++seen[{layer, backward}]; });
  net->forward(bench.pass);
  net->backward(bench.pass);
  EXPECT_EQ(seen.size(), 2 * net->layers().size() - 1);  // the source has no backward pass
  for (const auto& [what, times] : seen) EXPECT_EQ(times, 1);
}

TEST(CheckpointedNet, StaysCutWhereItWasWhenShapesChange) {
  std::vector<std::vector<double>> gradients;
  for (const char* checkpoint : {"off", "auto"}) {
    NetBench bench;
    const auto net = bench.make(deep_chain(checkpoint), f64_options());
    const std::vector<int> cuts = net->plan().cuts;
    for (const std::int64_t batch : {2, 6, 0, 4}) {
      net->find_blob("data")->shape = Shape{batch, 8, 16, 16};
      net->find_blob("label")->shape = Shape{batch};
      net->reshape();
      feed<double>(bench, *net, 5);
      net->forward(bench.pass);
      net->backward(bench.pass);
      EXPECT_EQ(net->plan().cuts, cuts);
    }
    gradients.push_back(values_of<double>(bench.context, net->flat_gradients()));
  }
  EXPECT_EQ(gradients[0], gradients[1]);
}

TEST(CheckpointedNet, TestsAreNotCut) {
  NetBench bench;
  NetOptions options = f64_options();
  options.phase = Phase::test;
  EXPECT_THAT(bench.make(deep_chain("auto"), options)->plan().cuts, IsEmpty());
}

}  // namespace
}  // namespace banyan
