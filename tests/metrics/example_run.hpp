// Records of a run, for the tests of sinks.
#pragma once

#include "banyan/metrics/record.hpp"

namespace banyan::metrics {

inline Record record(std::int64_t iteration, decltype(Record::what) what) {
  return {iteration, 1700000000.25 + static_cast<double>(iteration), std::move(what)};
}

inline Start example_start() {
  Start start;
  start.version = "1.2.3";
  start.max_iter = 100;
  start.host = "box";
  start.solver = {"solver", "solver.prototxt", "base_lr: 0.1\n"};
  start.nets = {{"train", "net.prototxt", "name: \"net\"\n"}, {"test0", "", "name: \"test\"\n"}};
  start.devices.push_back({"cpu:0", "cpu", "a processor", 2, {0, 1}, 4});
  Start::LayerDescription data, conv, split, relu, loss;
  data = {"data", "Data", {}, {{"data", {4, 3, 8, 8}}, {"label", {4}}}, {}, 0, 0, 1024, 0, false};
  conv = {"conv", "Convolution", {"data"}, {{"conv", {4, 2, 8, 8}}}, {{2, 3, 3, 3}, {2}}, 56, 0,
          2048,   1e4,           false};
  relu = {"relu", "ReLU", {"conv"}, {{"conv", {4, 2, 8, 8}}}, {}, 0, 0, 0, 512, true};
  split = {"conv_split", "Split", {"conv"}, {{"a", {4, 2, 8, 8}}, {"b", {4, 2, 8, 8}}}, {}, 0, 0, 0, 0,
           false};
  loss = {"loss", "SoftmaxWithLoss", {"a", "label", "b"}, {{"loss", {}}}, {}, 0, 0, 4, 512, false};
  start.layers = {data, conv, relu, split, loss};
  start.plan.steps = {{"forward", 0}, {"backward", 1}};
  start.plan.blocks = {{"conv", true, 64, 2048, {{0, 1}, {3, 4}}}};
  return start;
}

inline Train example_train(double loss) {
  Train train;
  train.loss = loss;
  train.rate = 0.1;
  train.outputs = {{"loss", {loss + 1}, 1}, {"top", {0.5, 0.75}, 0}};
  train.devices.push_back({"cpu:0", 1000, 2000, 0.25, 9, {{"compute", 12.5}, {"iteration", 13}}});
  return train;
}

inline Test example_test(double accuracy) {
  Test test;
  test.batches = 3;
  test.loss = 2;
  test.outputs = {{"accuracy", {accuracy}, 0}};
  return test;
}

}  // namespace banyan::metrics
