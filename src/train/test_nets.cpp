#include "test_nets.hpp"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "average_precision.hpp"
#include "banyan/base/error.hpp"
#include "banyan/data/batch_source.hpp"
#include "banyan/observe/spans.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/train/log_lines.hpp"
#include "outputs.hpp"

namespace banyan {
namespace {

/// The loss and all outputs.
std::size_t width_of(const Net& net) {
  std::size_t width = 1;
  for (const Blob* blob : net.outputs()) width += static_cast<std::size_t>(blob->shape.count());
  return width;
}

}  // namespace

std::vector<double> order_test_results(const std::vector<DeviceBoard>& boards,
                                       const parallel::UplinkPlace& place, std::size_t width, int batches,
                                       int net) {
  std::vector<double> all(width * static_cast<std::size_t>(batches), 0);
  for (std::size_t rank = 0; rank < boards.size(); ++rank) {
    int batch = place.first_rank() + static_cast<int>(rank);
    for (const std::vector<double>& values : boards[rank].test_results) {
      if (values.size() != width)
        runtime_failure("test net #", net, ": the outputs of batch ", batch, " have ", values.size() - 1,
                        " values, those of the last batch ", width - 1);
      std::copy(values.begin(), values.end(), all.begin() + static_cast<std::ptrdiff_t>(width) * batch);
      batch += place.devices();
    }
  }
  return all;
}

std::vector<double> sum_test_results(const std::vector<double>& results, std::size_t width) {
  std::vector<double> sums(width, 0);
  for (std::size_t i = 0; i < results.size(); ++i) sums[i % width] += results[i];
  return sums;
}

TestNets::TestNets(const TestSettings& settings, Peers& peers, Net& trained,
                   std::vector<std::unique_ptr<Net>> nets)
    : settings_(settings), peers_(peers), trained_(trained), nets_(std::move(nets)) {}

/// Every device tests with the first one's running statistics, as they will be saved.
void TestNets::take_statistics() {
  if (!statistics_differ()) return;
  Tensor& statistics = trained_.statistics();
  if (!own_statistics_.defined())
    own_statistics_ = Tensor(peers_.context().device(), statistics.shape(), statistics.dtype());
  peers_.context().stream().copy(own_statistics_.raw(), statistics.raw(), statistics.bytes());
  peers_.broadcast(statistics, "statistics");
}

void TestNets::return_statistics() {
  if (!statistics_differ()) return;
  Tensor& statistics = trained_.statistics();
  peers_.context().stream().copy(statistics.raw(), own_statistics_.raw(), statistics.bytes());
}

bool TestNets::statistics_differ() const {
  const Tensor& statistics = trained_.statistics();
  return !peers_.alone() && statistics.defined() && statistics.count() > 0;
}

std::vector<TestResult> TestNets::run(std::int64_t iteration, const std::atomic<bool>* stop) {
  peers_.activity().enter(Stage::test);
  const HostSpan span(peers_.activity(), SpanKind::test);
  trained_.check_results();
  take_statistics();
  std::vector<TestResult> results;
  for (int number = 0; number < static_cast<int>(nets_.size()); ++number) {
    const std::int64_t begun = steady_nanoseconds();
    const std::vector<double> of_batches = test(number, iteration, stop);
    if (!peers_.first()) continue;
    if (of_batches.empty()) {
      LOG(INFO) << log_lines::test_interrupted();
      continue;
    }
    TestResult& result = results.emplace_back(means_of(number, of_batches));
    result.net = number;
    result.seconds = static_cast<double>(steady_nanoseconds() - begun) / 1e9;
    log(number, result);
  }
  return_statistics();
  return results;
}

/// What the batches gave, where it was gathered; nothing if some device was interrupted.
std::vector<double> TestNets::test(int number, std::int64_t iteration, const std::atomic<bool>* stop) {
  Net& net = *nets_[number];
  const int batches = settings_.batches[number];
  if (peers_.first()) LOG(INFO) << log_lines::testing(iteration, number);
  run_batches(net, batches, stop);
  peers_.meet("test results", iteration);
  std::vector<double> results;
  if (peers_.gathers()) {
    results = peers_.sum_processes(results_of_process(number), "test");
    const bool interrupted = results.back() > 0;
    results.pop_back();
    if (interrupted) results.clear();
  }
  peers_.meet("test", iteration);
  return results;
}

/// Those of all batches, 0 for those of other processes, and last the number of devices that were
/// interrupted.
std::vector<double> TestNets::results_of_process(int number) const {
  const int batches = settings_.batches[number];
  const std::size_t width = width_of(*nets_[number]);
  const std::vector<DeviceBoard>& boards = peers_.boards();
  const parallel::UplinkPlace& place = peers_.team().place;
  int interrupted = 0;
  for (int rank = 0; rank < static_cast<int>(boards.size()); ++rank)
    if (boards[rank].test_results.size() <
        data::batches_served(static_cast<std::uint64_t>(batches), place.first_rank() + rank, place.devices()))
      ++interrupted;
  if (interrupted > 0 && !peers_.joined()) return {static_cast<double>(interrupted)};
  std::vector<double> results = interrupted > 0
                                    ? std::vector<double>(width * static_cast<std::size_t>(batches), 0)
                                    : order_test_results(boards, place, width, batches, number);
  results.push_back(interrupted);
  return results;
}

/// One entry of the board for each batch: the net's loss, then its outputs.
void TestNets::run_batches(Net& net, int batches, const std::atomic<bool>* stop) {
  std::vector<std::vector<double>>& results = peers_.board().test_results;
  results.clear();
  for (const auto& layer : net.layers()) {
    if (auto* source = dynamic_cast<data::TestPassSource*>(layer.get())) source->begin_test_pass(batches);
    for (Tensor* state : layer->carried())
      if (state->defined()) ops::fill(peers_.context(), *state, 0);  // every test is the same
  }
  Pass pass;
  pass.context = &peers_.context();
  pass.seed = net.options().seed;
  pass.update_statistics = false;
  for (int batch = peers_.rank_everywhere(); batch < batches; batch += peers_.devices()) {
    if (stop != nullptr && *stop) break;
    peers_.activity().enter(Stage::test);
    pass.draw = batch;
    net.forward(pass);
    std::vector<double>& values = results.emplace_back();
    append_values(peers_.context(), net.loss(), values);
    append_outputs(peers_.context(), net, values);
    net.check_results();
  }
  for (const auto& layer : net.layers())
    if (auto* source = dynamic_cast<data::TestPassSource*>(layer.get())) source->end_test_pass();
}

TestResult TestNets::means_of(int number, const std::vector<double>& results) const {
  const Net& net = *nets_[number];
  const int batches = settings_.batches[number];
  const std::vector<double> sums = sum_test_results(results, width_of(net));
  TestResult means;
  means.loss = sums[0] / batches;
  std::size_t at = 1;
  for (const Blob* blob : net.outputs()) {
    std::vector<double>& values = means.outputs.emplace_back(TestResult::Output{blob->name, {}}).values;
    const auto count = static_cast<std::size_t>(blob->shape.count());
    if (holds_detections(net, *blob)) {
      std::vector<double> rows;
      for (std::size_t batch = at; batch < results.size(); batch += sums.size()) {
        const auto first = results.begin() + static_cast<std::ptrdiff_t>(batch);
        const std::vector<double> own =
            detection_rows(net, *blob, {first, first + static_cast<std::ptrdiff_t>(count)});
        rows.insert(rows.end(), own.begin(), own.end());
      }
      const std::map<int, double> precisions = average_precisions(rows, settings_.precision);
      for (const auto& [label, precision] : precisions)
        LOG_IF(INFO, settings_.per_class) << log_lines::class_result(label, precision);
      values = {mean_of(precisions)};
    } else {
      for (std::size_t i = at; i < at + count; ++i) values.push_back(sums[i] / batches);
    }
    at += count;
  }
  return means;
}

void TestNets::log(int number, const TestResult& result) const {
  const Net& net = *nets_[number];
  if (settings_.compute_loss) LOG(INFO) << log_lines::test_loss(result.loss);
  int shown = 0;
  for (std::size_t k = 0; k < result.outputs.size(); ++k)
    for (const double value : result.outputs[k].values)
      LOG(INFO) << log_lines::test_output(shown++, result.outputs[k].blob, value,
                                          net.loss_weight(*net.outputs()[k]));
}

}  // namespace banyan
