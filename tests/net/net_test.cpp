// Whole nets: how they run, share and reshape. Real layers, small shapes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "banyan/net/parameter_values.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/tensor/values.hpp"
#include "net/net_test_tools.hpp"
#include "net/small_nets.hpp"

namespace banyan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Net, RunsForwardAndBackward) {
  NetBench bench;
  const auto net = bench.make(conv_net(), f64_options());
  feed<double>(bench, *net, 5);
  net->forward(bench.pass);
  const double loss = loss_of(bench, *net);
  EXPECT_GT(loss, 0.1);
  EXPECT_LT(loss, 10);
  EXPECT_EQ(loss, values_of<double>(bench.context, net->find_blob("loss")->data)[0]);
  std::vector<int> done;
  net->backward(bench.pass, [&](int layer) { done.push_back(layer); });
  EXPECT_THAT(done, ElementsAre(5, 4, 3, 2, 1, 0));
  net->check_results();
  EXPECT_FALSE(net->find_blob("data")->grad.defined());
  EXPECT_FALSE(net->graph().layers[0].needs_backward);
}

TEST(Net, WhatAProgramHasNotFilledIsZero) {
  NetBench bench;
  // So that new memory holds something else.
  for (int i = 0; i < 8; ++i) {
    Tensor used(*bench.device, Shape{2, 1000}, DType::f64);
    ops::fill(bench.context, used, 7);
  }
  const auto net = bench.make(
      "layer { name: 'in' type: 'Input' top: 'x' top: 'y' input_param { shape { dim: 2 dim: 1000 } } }"
      "layer { name: 'sum' type: 'Eltwise' bottom: 'x' bottom: 'y' top: 'sum' }",
      f64_options());
  set_values(bench.context, std::vector<double>(2000, 3), net->find_blob("y")->data);
  for (int pass = 0; pass < 2; ++pass) {
    net->forward(bench.pass);
    EXPECT_THAT(values_of<double>(bench.context, net->find_blob("x")->data), testing::Each(0));
    EXPECT_THAT(values_of<double>(bench.context, net->find_blob("sum")->data), testing::Each(3));
  }
}

TEST(Net, InputsAreZeroInMemoryThatAnotherNetHasLeft) {
  NetBench bench;
  const auto everything_is = [&](Net& net, double value) {
    for (const char* name : {"x", "y", "sum"})
      EXPECT_THAT(values_of<double>(bench.context, net.find_blob(name)->data), testing::Each(value)) << name;
  };
  for (int made = 0; made < 3; ++made) {
    SCOPED_TRACE(made);
    const auto net = bench.make(
        "layer { name: 'in' type: 'Input' top: 'x' top: 'y' input_param { shape { dim: 2 dim: 1200 } } }"
        "layer { name: 'sum' type: 'Eltwise' bottom: 'x' bottom: 'y' top: 'sum' }",
        f64_options());
    for (const std::int64_t batch : {2, 5}) {  // larger: in new memory
      for (const char* name : {"x", "y"}) net->find_blob(name)->shape.set_dim(0, batch);
      net->reshape();
      net->forward(bench.pass);
      everything_is(*net, 0);
      for (const char* name : {"x", "y", "sum"}) ops::fill(bench.context, net->find_blob(name)->data, 7);
      everything_is(*net, 7);
    }
  }
}

TEST(Net, KnowsItsOutputs) {
  NetBench bench;
  const auto net = bench.make(
      conv_net() + "layer { name: 'acc' type: 'Accuracy' bottom: 'ip1' bottom: 'label' top: 'accuracy' }",
      f64_options());
  std::vector<std::string> names;
  for (const Blob* output : net->outputs()) names.push_back(output->name);
  EXPECT_THAT(names, ElementsAre("accuracy", "loss"));
  EXPECT_EQ(net->loss_weight(*net->find_blob("loss")), 1);
  EXPECT_EQ(net->loss_weight(*net->find_blob("accuracy")), 0);
  EXPECT_TRUE(net->output_is_share(*net->find_blob("loss")));
  EXPECT_EQ(net->find_blob("nothing"), nullptr);
}

TEST(Net, ALossWithoutATopCounts) {
  NetBench bench;
  const auto net =
      bench.make(std::string(kSource) + inner_product("ip1", "data", "ip1", 5) +
                     "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip1' bottom: 'label' }",
                 f64_options());
  feed<double>(bench, *net, 5);
  net->forward(bench.pass);
  net->backward(bench.pass);
  EXPECT_GT(loss_of(bench, *net), 0);
  EXPECT_TRUE(net->outputs().empty());
  EXPECT_TRUE(net->graph().layers[1].needs_backward);
}

TEST(Net, WeightsSeveralLosses) {
  NetBench bench;
  const auto single = bench.make(
      std::string(kSource) + inner_product("ip1", "data", "ip1", 5) + softmax_loss("ip1"), f64_options());
  feed<double>(bench, *single, 5);
  single->forward(bench.pass);
  single->backward(bench.pass);
  // The same loss twice, with weights 0.5 and 2; another layer reads the first too.
  const auto twice = bench.make(std::string(kSource) + inner_product("ip1", "data", "ip1", 5) +
                                    "layer { name: 'l1' type: 'SoftmaxWithLoss' bottom: 'ip1' bottom: "
                                    "'label' top: 'l1' loss_weight: 0.5 }"
                                    "layer { name: 'l2' type: 'SoftmaxWithLoss' bottom: 'ip1' bottom: "
                                    "'label' top: 'l2' loss_weight: 2 }"
                                    "layer { name: 's' type: 'Silence' bottom: 'l1' }",
                                f64_options());
  feed<double>(bench, *twice, 5);
  twice->forward(bench.pass);
  twice->backward(bench.pass);
  EXPECT_NEAR(loss_of(bench, *twice), 2.5 * loss_of(bench, *single), 1e-12);  // one rounding per product
  const auto one = values_of<double>(bench.context, single->flat_gradients());
  const auto two = values_of<double>(bench.context, twice->flat_gradients());
  ASSERT_EQ(one.size(), two.size());
  for (std::size_t i = 0; i < one.size(); ++i) ASSERT_NEAR(two[i], 2.5 * one[i], 1e-12);
}

/// They take the whole of their pages, but are as many as without.
TEST(Net, GradientsThatOtherProcessesCopyAreInHugePages) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  NetBench bench;
  const auto bytes_of = [&](const std::string& text, bool travel) {
    NetOptions options = f64_options();
    options.gradients_travel = travel;
    const std::size_t before = bench.device->memory().in_use;
    const auto net = bench.make(text, options);
    EXPECT_TRUE(!travel || reinterpret_cast<std::uintptr_t>(net->flat_gradients().raw()) % kHugePage == 0);
    return std::pair(net->flat_gradients().bytes(), bench.device->memory().in_use - before);
  };
  for (const int outputs :
       {5, 200'000}) {  // 48 and 1.6 million bytes of weights; the latter with biases: 6.4
    const std::string text = std::string(kSource) + inner_product("ip1", "data", "ip1", outputs);
    const auto [kept, use_kept] = bytes_of(text, false);
    const auto [copied, use_copied] = bytes_of(text, true);
    EXPECT_EQ(kept, copied);
    const std::size_t pages = (copied + kHugePage - 1) / kHugePage;
    EXPECT_EQ(use_copied - use_kept, pages * kHugePage - kept);
  }
}

TEST(Net, AWeightedBlobThatIsReadFurtherDownGetsBothGradients) {
  NetBench bench;
  const std::string head = std::string(kSource) + inner_product("ip1", "data", "ip1", 5);
  const auto plain = bench.make(head + softmax_loss("ip1"), f64_options());
  // ip1 itself counts as a loss (every gradient 3), through a Split.
  const auto split = bench.make(
      std::string(kSource) + inner_product("ip1", "data", "ip1", 5, "loss_weight: 3") + softmax_loss("ip1"),
      f64_options());
  // The loss, weighted by default, is read by another weighted layer: no Split, both gradients on one blob.
  const auto chain = bench.make(
      head + softmax_loss("ip1") + "layer { name: 'r' type: 'ReLU' bottom: 'loss' top: 'r' loss_weight: 2 }",
      f64_options());
  const auto bias_gradient = [&](Net& net) {
    feed<double>(bench, net, 5);
    net.forward(bench.pass);
    net.backward(bench.pass);
    return values_of<double>(bench.context, net.parameters()[1].grad);
  };
  const auto base = bias_gradient(*plain), summed = bias_gradient(*split), tripled = bias_gradient(*chain);
  for (std::size_t i = 0; i < base.size(); ++i) {
    EXPECT_NEAR(summed[i], base[i] + 3 * 4, 1e-12);  // 4 samples
    EXPECT_NEAR(tripled[i], 3 * base[i], 1e-14);
  }
  EXPECT_NEAR(loss_of(bench, *chain), 3 * loss_of(bench, *plain), 1e-14 * 10);
}

TEST(Net, PlacesParametersInOrderOfReadiness) {
  NetBench bench;
  const auto net = bench.make(conv_net(), f64_options());
  const auto& parameters = net->parameters();
  ASSERT_EQ(parameters.size(), 4u);
  EXPECT_EQ(parameters[0].layer, "conv1");
  EXPECT_EQ(parameters[2].layer, "ip1");
  EXPECT_EQ(parameters[2].offset, 0);                  // ip1 is ready first
  EXPECT_EQ(parameters[3].offset, 5 * 4 * 3 * 3 + 4);  // padded to 64 bytes
  EXPECT_EQ(parameters[0].offset, 184 + 8);
  for (const LearnableParameter& p : parameters) {
    EXPECT_EQ(p.offset % 8, 0);
    EXPECT_EQ(p.value.raw(), net->flat_values().slice(p.offset, Shape{1}).raw());
    EXPECT_EQ(p.grad.raw(), net->flat_gradients().slice(p.offset, Shape{1}).raw());
  }
}

TEST(Net, KeepsFrozenParametersOutOfTheExchange) {
  NetBench bench;
  const auto net = bench.make(
      std::string(kSource) +
          inner_product("ip1", "data", "ip1", 6, "param { lr_mult: 0 } param { lr_mult: 2 decay_mult: 0 }") +
          inner_product("ip2", "ip1", "ip2", 5, "param { lr_mult: 0 } param { lr_mult: 0 }") +
          softmax_loss("ip2"),
      f64_options());
  EXPECT_EQ(net->flat_values().count(), 8);
  EXPECT_EQ(net->parameters()[0].offset, -1);
  EXPECT_FALSE(net->parameters()[0].grad.defined());
  EXPECT_TRUE(net->parameters()[0].value.defined());
  EXPECT_EQ(net->parameters()[1].lr_mult, 2);
  EXPECT_EQ(net->parameters()[1].decay_mult, 0);
  EXPECT_TRUE(net->graph().layers[1].needs_backward);
  EXPECT_TRUE(net->graph().layers[2].needs_backward);  // its input needs it
  feed<double>(bench, *net, 5);
  net->forward(bench.pass);
  net->backward(bench.pass);
}

TEST(Net, StatisticsLieInABufferOfTheirOwn) {
  NetBench bench;
  const auto net = bench.make(
      std::string(kSource) +
          "layer { name: 'bn1' type: 'BatchNorm' bottom: 'data' top: 'bn1' }"
          "layer { name: 'bn2' type: 'BN' bottom: 'bn1' top: 'bn2' bn_param { slope_filler { value: 1 } } }" +
          inner_product("ip", "bn2", "ip", 5) + softmax_loss("ip"),
      f64_options());
  EXPECT_EQ(net->statistics().count(),
            5 * 8);  // mean, variance, factor of bn1; mean, variance of bn2; padded to 8
  int statistics = 0;
  for (const LearnableParameter& p : net->parameters()) {
    statistics += p.is_statistic;
    EXPECT_EQ(p.grad.defined(), !p.is_statistic);
  }
  EXPECT_EQ(statistics, 5);
  EXPECT_EQ(values_of<double>(bench.context, net->parameters()[3].value), (std::vector<double>{1, 1, 1}));
}

TEST(Net, SharedWeightsAddTheirGradients) {
  NetBench bench;
  const std::string shared = "param { name: 'w' } param { name: 'b' lr_mult: 2 }";
  const auto build = [&](const std::string& more) {
    return std::string(kSource) + inner_product("ip0", "data", "h0", 6) +
           inner_product("ip1", "h0", "h1", 6, more) + inner_product("ip2", "h1", "h2", 6, more) +
           softmax_loss("h2");
  };
  const auto net = bench.make(build(shared), f64_options());
  ASSERT_EQ(net->parameters().size(), 4u);
  EXPECT_EQ(net->parameters()[2].layer, "ip1");
  EXPECT_EQ(net->parameters()[2].ready_layer, 2);
  EXPECT_EQ(net->parameters()[3].lr_mult, 2);
  const auto apart = bench.make(build(""), f64_options());
  for (int slot = 0; slot < 2; ++slot) {  // give the other net's ip2 the shared values
    const auto values = values_of<double>(bench.context, net->parameters()[2 + slot].value);
    copy_from_host(bench.context, values.data(), apart->parameters()[4 + slot].value);
  }
  for (Net* each : {net.get(), apart.get()}) {
    feed<double>(bench, *each, 6);
    each->forward(bench.pass);
    each->backward(bench.pass);
  }
  EXPECT_EQ(loss_of(bench, *net), loss_of(bench, *apart));
  const auto sum = values_of<double>(bench.context, net->parameters()[2].grad);
  const auto first = values_of<double>(bench.context, apart->parameters()[2].grad);
  const auto second = values_of<double>(bench.context, apart->parameters()[4].grad);
  for (std::size_t i = 0; i < sum.size(); ++i) ASSERT_NEAR(sum[i], first[i] + second[i], 1e-14);
}

/// Each of two layers that share their parameters can leave their gradient to the other.
TEST(Net, LayersMayAddNothingToAGradient) {
  NetBench bench;
  const std::string cut = "param { name: 'w' param_propagate_down: false } param { name: 'b' ",
                    kept = "param { name: 'w' } param { name: 'b' ";
  const auto build = [&](const std::string& first, const std::string& second) {
    return std::string(kSource) + inner_product("ip0", "data", "h0", 6) +
           inner_product("ip1", "h0", "h1", 6, first) + inner_product("ip2", "h1", "h2", 6, second) +
           softmax_loss("h2");
  };
  const auto gradients_of = [&](const std::string& text, bool fuse) {
    NetOptions options = f64_options();
    options.fuse = fuse;
    const auto net = bench.make(text, options);
    EXPECT_EQ(net->parameters().size(), 4u);
    feed<double>(bench, *net, 6);
    std::vector<std::vector<double>> found;
    for (int pass = 0; pass < 2; ++pass) {
      net->zero_gradients();
      net->forward(bench.pass);
      net->backward(bench.pass);
    }
    for (const LearnableParameter& parameter : net->parameters())
      found.push_back(parameter.grad.defined() ? values_of<double>(bench.context, parameter.grad)
                                               : std::vector<double>{});
    return found;
  };
  for (const bool fuse : {true, false}) {
    const auto both = gradients_of(build(kept + "}", kept + "}"), fuse);
    const auto of_second = gradients_of(build(cut + "}", kept + "}"), fuse);
    const auto of_first = gradients_of(build(kept + "}", cut + "}"), fuse);
    EXPECT_EQ(of_second[0], both[0]);  // what flows on is the same
    EXPECT_EQ(of_first[3], both[3]);
    for (std::size_t i = 0; i < both[2].size(); ++i)
      ASSERT_NEAR(both[2][i], of_first[2][i] + of_second[2][i], 1e-14);
    EXPECT_NE(of_first[2], both[2]);
    EXPECT_NE(of_second[2], both[2]);
    const auto none = gradients_of(build(cut + "}", cut + "}"), fuse);
    EXPECT_TRUE(none[2].empty());
    EXPECT_EQ(none[0], both[0]);
  }
}

TEST(Net, PermissiveSharingComparesCounts) {
  NetBench bench;
  const std::string net_text = std::string(kSource) +
                               "layer { name: 'p' type: 'Parameter' top: 'p' param { name: 'w' } "
                               "parameter_param { shape { dim: 2 dim: 3 } } }"
                               "layer { name: 'q' type: 'Parameter' top: 'q' param { name: 'w' share_mode: "
                               "PERMISSIVE } parameter_param { shape { dim: 6 } } }";
  const auto net = bench.make(net_text, f64_options());
  ASSERT_EQ(net->parameters().size(), 1u);
  EXPECT_TRUE(net->layers()[2]->parameters()[0].value.same_memory(net->parameters()[0].value));
  EXPECT_EQ(net->layers()[2]->parameters()[0].value.shape(), (Shape{6}));
}

TEST(Net, FollowsTheBatchSize) {
  NetBench bench;
  const auto net = bench.make(conv_net(), f64_options());
  const auto loss_for = [&](std::int64_t batch) {
    net->find_blob("data")->shape = Shape{batch, 3, 8, 8};
    net->find_blob("label")->shape = Shape{batch};
    net->reshape();
    feed<double>(bench, *net, 5);
    net->zero_gradients();
    net->forward(bench.pass);
    net->backward(bench.pass);
    return loss_of(bench, *net);
  };
  const double four = loss_for(4);
  EXPECT_EQ(net->find_blob("ip1")->shape, (Shape{4, 5}));
  loss_for(9);
  EXPECT_EQ(net->find_blob("pool1")->shape, (Shape{9, 4, 3, 3}));
  EXPECT_EQ(loss_for(0), 0);
  for (const double g : values_of<double>(bench.context, net->flat_gradients())) ASSERT_EQ(g, 0);
  EXPECT_EQ(loss_for(4), four);
}

TEST(Net, GivesALayerMemoryOfItsOwnWhereInPlaceWouldBeWrong) {
  NetBench bench;
  const auto build = [&](const std::string& second) {
    return std::string(kSource) + inner_product("ip1", "data", "x", 6) +
           "layer { name: 'sig' type: 'Sigmoid' bottom: 'x' top: 'x' }"
           "layer { name: 'tan' type: 'TanH' bottom: 'x' top: '" +
           second + "' }" + inner_product("ip2", second, "y", 5) + softmax_loss("y");
  };
  // TanH in place would overwrite what Sigmoid's backward pass reads.
  const auto in_place = bench.make(build("x"), f64_options());
  const auto apart = bench.make(build("z"), f64_options());
  for (Net* each : {in_place.get(), apart.get()}) {
    feed<double>(bench, *each, 5);
    each->forward(bench.pass);
    each->backward(bench.pass);
  }
  const auto overwrites = [](const Net& net, int layer) {
    return net.outputs_of(layer)[0]->data.same_memory(net.inputs_of(layer)[0]->data);
  };
  for (const Net* each : {in_place.get(), apart.get()}) {
    EXPECT_TRUE(overwrites(*each, 2));
    EXPECT_FALSE(overwrites(*each, 3));
    EXPECT_TRUE(each->outputs_of(2)[0]->grad.same_memory(each->inputs_of(2)[0]->grad));
  }
  EXPECT_EQ(values_of<double>(bench.context, in_place->flat_gradients()),
            values_of<double>(bench.context, apart->flat_gradients()));
  NetOptions test = f64_options();
  test.phase = Phase::test;
  const auto testing = bench.make(build("x"), test);
  EXPECT_TRUE(overwrites(*testing, 3));
}

TEST(Net, ForceBackwardGivesTheDataAGradient) {
  NetBench bench;
  const auto net = bench.make("force_backward: true " + conv_net(), f64_options());
  feed<double>(bench, *net, 5);
  net->forward(bench.pass);
  net->backward(bench.pass);
  // The loss must follow the gradient of the data: central difference, truncation about h^2.
  constexpr double kStep = 1e-5;
  Tensor& data = net->find_blob("data")->data;
  const auto gradient = values_of<double>(bench.context, net->find_blob("data")->grad);
  auto values = values_of<double>(bench.context, data);
  for (const std::size_t i : {0u, 100u, 333u}) {
    const auto loss_at = [&](double shift) {
      values[i] += shift;
      copy_from_host(bench.context, values.data(), data);
      values[i] -= shift;
      net->forward(bench.pass);
      return loss_of(bench, *net);
    };
    EXPECT_NEAR(gradient[i], (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep), 1e-7);
  }
  EXPECT_FALSE(net->find_blob("label")->grad.defined());
}

TEST(Net, MayStartWithAnEmptyBatch) {
  NetBench bench;
  const auto net = bench.make(
      "layer { name: 'in' type: 'Input' top: 'data' top: 'label' input_param { shape { dim: 0 dim: 6 } shape "
      "{ dim: 0 } } }" +
          inner_product("ip1", "data", "ip1", 5) + softmax_loss("ip1"),
      f64_options());
  net->forward(bench.pass);
  net->backward(bench.pass);
  EXPECT_EQ(loss_of(bench, *net), 0);
  bench
      .make("layer { name: 'in' type: 'Input' top: 'data' input_param { shape { dim: 2 } } }", f64_options())
      ->forward(bench.pass);
}

TEST(Net, TestNetsHaveNoGradients) {
  NetBench bench;
  NetOptions options = f64_options();
  options.phase = Phase::test;
  const auto net = bench.make(conv_net(), options);
  EXPECT_FALSE(net->flat_gradients().defined());
  EXPECT_FALSE(net->find_blob("conv1")->grad.defined());
  feed<double>(bench, *net, 5);
  net->forward(bench.pass);
  EXPECT_THROW(net->backward(bench.pass), Error);
}

TEST(Net, SharesParametersWithATestNet) {
  NetBench bench;
  NetOptions train = f64_options(), test = f64_options();
  test.phase = Phase::test;
  test.seed = 99;
  const std::string text =
      std::string(kSource) + "layer { name: 'bn' type: 'BatchNorm' bottom: 'data' top: 'bn' }" +
      inner_product("ip1", "bn", "ip1", 5) + softmax_loss("ip1") +
      "layer { name: 'only_test' type: 'Silence' bottom: 'ip1' include { phase: TEST } }";
  const auto trained = bench.make(text, train);
  const auto tested = bench.make(text, test);
  share_parameters(*tested, *trained, false);
  EXPECT_TRUE(tested->parameters()[3].value.same_memory(trained->parameters()[3].value));
  EXPECT_FALSE(tested->parameters()[0].value.same_memory(trained->parameters()[0].value));
  EXPECT_FALSE(tested->flat_values().defined());
  EXPECT_EQ(tested->statistics().count(), trained->statistics().count());
  share_parameters(*tested, *trained, true);
  EXPECT_TRUE(tested->parameters()[0].value.same_memory(trained->parameters()[0].value));
  EXPECT_FALSE(tested->statistics().defined());
  const auto other =
      bench.make(std::string(kSource) + inner_product("ip1", "data", "ip1", 4) + softmax_loss("ip1"), test);
  EXPECT_THAT(message_of([&] { share_parameters(*other, *trained, true); }),
              HasSubstr("blob 0 of layer \"ip1\" has shape 4 192 (768) in one net and 5 192 (960)"));
}

TEST(Net, ReusesMemory) {
  NetBench bench;
  NetOptions separate = f64_options(), shared = f64_options();
  separate.reuse_memory = false;
  const auto a = bench.make(conv_net(), separate), b = bench.make(conv_net(), shared);
  EXPECT_EQ(a->plan().bytes, a->plan().unshared_bytes);
  EXPECT_LT(b->plan().bytes, b->plan().unshared_bytes);
  for (Net* each : {a.get(), b.get()}) {
    feed<double>(bench, *each, 5);
    each->forward(bench.pass);
    each->backward(bench.pass);
  }
  EXPECT_EQ(loss_of(bench, *a), loss_of(bench, *b));
  EXPECT_EQ(values_of<double>(bench.context, a->flat_gradients()),
            values_of<double>(bench.context, b->flat_gradients()));
}

TEST(Net, RunsOnAnAsynchronousStream) {
  std::vector<std::vector<double>> gradients;
  for (const bool asynchronous : {false, true}) {
    CpuDeviceOptions options;
    options.asynchronous = asynchronous;
    options.max_delay_us = 20;
    NetBench bench(options);
    const auto net = bench.make(conv_net(), f64_options());
    for (const std::int64_t batch : {4, 2, 7}) {  // reshapes while earlier work is still running
      net->find_blob("data")->shape = Shape{batch, 3, 8, 8};
      net->find_blob("label")->shape = Shape{batch};
      net->reshape();
      feed<double>(bench, *net, 5);
      net->forward(bench.pass);
      net->backward(bench.pass);
    }
    gradients.push_back(values_of<double>(bench.context, net->flat_gradients()));
  }
  EXPECT_EQ(gradients[0], gradients[1]);
}

TEST(Net, NamesThePlaceOfAFailure) {
  NetBench bench;
  const auto net = bench.make(conv_net(), f64_options());
  feed<double>(bench, *net, 5);
  bench.activity.set_iteration(37);
  install_fault_injector([](const Activity&, Stage stage, const char* layer) {
    if (stage == Stage::backward && std::string(layer) == "pool1") throw std::runtime_error("injected");
  });
  net->forward(bench.pass);
  std::string message;
  try {
    net->backward(bench.pass);
  } catch (const Error& error) {
    message = error.what();
    EXPECT_EQ(error.kind(), ErrorKind::runtime);
  }
  install_fault_injector(nullptr);
  EXPECT_THAT(message, HasSubstr("injected"));
  EXPECT_THAT(message, HasSubstr("while running layer \"pool1\" backward on cpu:0, iteration 37"));
}

TEST(Net, ReportsABadLabel) {
  NetBench bench;
  const auto net = bench.make(conv_net(), f64_options());
  feed<double>(bench, *net, 5);
  const std::vector<double> labels{0, 1, 7, 2};
  copy_from_host(bench.context, labels.data(), net->find_blob("label")->data);
  net->forward(bench.pass);
  const auto message = message_of([&] { net->check_results(); });
  EXPECT_THAT(message, HasSubstr("found in layer \"loss\" (SoftmaxWithLoss) on cpu:0"));
}

TEST(Net, ImagesLieChannelsLastInF32) {
  NetBench bench;
  const auto layout = [&](const NetOptions& wanted, DType dtype) {
    NetOptions options = wanted;
    options.shapes_only = true;
    options.dtype = dtype;
    return Net(net_of(conv_net()), options, bench.context, bench.activity).find_blob("pool1")->layout;
  };
  NetOptions contiguous;
  contiguous.channels_last = false;
  EXPECT_EQ(layout({}, DType::f32), Layout::channels_last);
  EXPECT_EQ(layout({}, DType::f64), Layout::contiguous);
  EXPECT_EQ(layout(contiguous, DType::f32), Layout::contiguous);
}

/// A layer's `phase` defaults to the net's. In a train net, TEST makes Dropout pass values through and batch
/// normalization use the stored statistics (mean 0, factor 0: everything is divided by sqrt(eps)).
TEST(Net, ALayerWorksInItsOwnPhase) {
  const auto dropout = [](const std::string& phase) {
    return std::string(kSource) + inner_product("ip", "data", "ip", 40) +
           "layer { name: 'drop' type: 'Dropout' bottom: 'ip' top: 'dropped' " + phase + "}" +
           softmax_loss("dropped");
  };
  const auto zeros = [&](const std::string& text, Phase phase) {
    NetBench bench;
    NetOptions options = f64_options();
    options.phase = phase;
    options.reuse_memory = false;
    const auto net = bench.make(text, options);
    feed<double>(bench, *net, 5);
    net->forward(bench.pass);
    const auto dropped = values_of<double>(bench.context, net->find_blob("dropped")->data);
    EXPECT_GT(std::count_if(dropped.begin(), dropped.end(), [](double v) { return v != 0; }), 40);
    return std::count(dropped.begin(), dropped.end(), 0.0);
  };
  EXPECT_GT(zeros(dropout(""), Phase::train), 40);
  EXPECT_EQ(zeros(dropout("phase: TEST"), Phase::train), 0);
  EXPECT_EQ(zeros(dropout(""), Phase::test), 0);
  EXPECT_GT(zeros(dropout("phase: TRAIN"), Phase::test), 40);

  const auto mean = [&](const std::string& phase) {
    NetBench bench;
    NetOptions options = f64_options();
    options.reuse_memory = false;
    const auto net =
        bench.make(std::string(kSource) + "layer { name: 'bn' type: 'BatchNorm' bottom: 'data' top: 'bn' " +
                       phase + "}" + inner_product("ip", "bn", "ip", 5) + softmax_loss("ip"),
                   options);
    feed<double>(bench, *net, 5);
    net->forward(bench.pass);
    net->backward(bench.pass);
    const auto values = values_of<double>(bench.context, net->find_blob("bn")->data);
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  };
  EXPECT_NEAR(mean(""), 0, 1e-12);
  EXPECT_GT(std::abs(mean("phase: TEST")), 1e-3);
}

TEST(Net, TellsObserversAboutEveryLayer) {
  NetBench bench;
  const auto net = bench.make(conv_net(), f64_options());
  feed<double>(bench, *net, 5);
  std::string seen;
  net->observe_layers(
      [&](int layer, bool backward) { seen += (backward ? "b" : "f") + std::to_string(layer); },
      [&](int, bool) { seen += "."; });
  net->forward(bench.pass);
  net->backward(bench.pass);
  EXPECT_EQ(seen, "f0.f1.f2.f3.f4.f5.b5.b4.b3.b2.b1.");
}

TEST(Net, FillsByIdentity) {
  NetBench bench;
  NetOptions single = f64_options();
  single.dtype = DType::f32;
  const auto a = bench.make(conv_net(), f64_options());
  const auto b = bench.make(conv_net(), single);
  const auto wide = values_of<double>(bench.context, a->parameters()[2].value);
  const auto narrow = values_of<float>(bench.context, b->parameters()[2].value);
  for (std::size_t i = 0; i < wide.size(); ++i) ASSERT_EQ(narrow[i], static_cast<float>(wide[i]));
}

}  // namespace
}  // namespace banyan
