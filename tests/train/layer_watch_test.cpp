#include "train/layer_watch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/base/error.hpp"
#include "train/part_bench.hpp"

namespace banyan {
namespace {

/// 2 x 1 values `in`, times a weight, against targets of 0.
std::string net_with(const std::string& in, const std::string& weight, const std::string& loss_weight) {
  return R"(layer { name: "in" type: "DummyData" top: "in" top: "target" dummy_data_param {
              shape { dim: 2 dim: 1 } shape { dim: 2 dim: 1 } data_filler { value: )" +
         in + R"( } data_filler { value: 0 } } }
            layer { name: "ip" type: "InnerProduct" bottom: "in" top: "out" inner_product_param {
              num_output: 1 bias_term: false weight_filler { type: "constant" value: )" +
         weight + R"( } } }
            layer { name: "loss" type: "EuclideanLoss" bottom: "out" bottom: "target" top: "loss"
                    loss_weight: )" +
         loss_weight + " }";
}

std::string failure_of(const std::string& in, const std::string& weight, const std::string& loss_weight) {
  PartBench bench;
  const auto net = bench.net(net_with(in, weight, loss_weight), Phase::train, DType::f32);
  watch_layers(*net, bench.context, false, true);
  Pass pass = bench.pass();
  try {
    net->zero_gradients();
    net->forward(pass);
    net->backward(pass);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(LayerWatch, NamesTheLayerWhoseResultsAreNotFinite) {
  EXPECT_THAT(failure_of("2", "inf", "1"),
              testing::HasSubstr("output \"out\" of layer \"ip\" has 2 of 2 values that are not finite"));
  // 1e15 squared is still finite in f32; times 1e10 it is not.
  EXPECT_THAT(failure_of("1e15", "1", "1e10"),
              testing::HasSubstr("the parameter gradient of layer \"ip\" has 1 of 1 values"));
  EXPECT_THAT(failure_of("1e15", "1", "1"), testing::IsEmpty());
}

TEST(LayerWatch, PrintsMeanAbsoluteValues) {
  PartBench bench;
  const auto net = bench.net(net_with("2", "-3", "1"));
  watch_layers(*net, bench.context, true, false);
  Pass pass = bench.pass();
  const LoggedLines log;
  net->zero_gradients();
  net->forward(pass);
  net->backward(pass);
  EXPECT_THAT(log.lines, testing::IsSupersetOf({"    [Forward] Layer in, top blob in data: 2",
                                                "    [Forward] Layer ip, top blob out data: 6",
                                                "    [Forward] Layer ip, param blob 0 data: 3",
                                                "    [Backward] Layer loss, bottom blob out diff: 3",
                                                "    [Backward] Layer ip, param blob 0 diff: 12"}));
}

}  // namespace
}  // namespace banyan
