// Replica: test passes. The test_iter batches of a test net are dealt whole to the devices; rank 0 adds the
// results in the order of the batches, so that they do not depend on the number of devices.
#include "replica.hpp"

#include <algorithm>

#include "banyan/base/error.hpp"
#include "banyan/observe/spans.hpp"
#include "banyan/train/log_lines.hpp"
#include "glog/logging.h"

namespace banyan {

void Replica::append_values(Context& context, const Tensor& values, std::vector<double>& to) {
  dispatch_float(values.dtype(), "reading outputs", [&]<class T>() {
    std::vector<T> host(static_cast<std::size_t>(values.count()));
    copy_to_host(context, values, host.data());
    to.insert(to.end(), host.begin(), host.end());
  });
}

/// Every device tests with rank 0's running statistics, as they will be saved.
void Replica::take_test_statistics() {
  Tensor& statistics = net_->statistics();
  if (alone() || !statistics.defined() || statistics.count() == 0) return;
  if (!train_statistics_.defined())
    train_statistics_ = Tensor(device_, statistics.shape(), statistics.dtype());
  context_->stream().copy(train_statistics_.raw(), statistics.raw(), statistics.bytes());
  broadcast_in_pieces(statistics, "statistics");
}

void Replica::return_train_statistics() {
  Tensor& statistics = net_->statistics();
  if (alone() || !statistics.defined() || statistics.count() == 0) return;
  context_->stream().copy(statistics.raw(), train_statistics_.raw(), statistics.bytes());
}

void Replica::test_all(std::int64_t iteration) {
  if (test_nets_.empty()) return;
  activity_.enter(Stage::test);
  const HostSpan span(activity_, SpanKind::test);
  net_->check_results();
  if (first() && progress_) progress_->clear();
  take_test_statistics();
  for (int net = 0; net < static_cast<int>(test_nets_.size()); ++net) test(net, iteration);
  return_train_statistics();
}

void Replica::test(int net, std::int64_t iteration) {
  const int test_iter = run_.solver.test.batches[static_cast<std::size_t>(net)];
  if (first()) LOG(INFO) << log_lines::testing(iteration, net);
  run_.boards[static_cast<std::size_t>(rank_)].test_results.clear();
  run_test_batches(*test_nets_[static_cast<std::size_t>(net)], test_iter);
  meet("test results", iteration);
  std::vector<double> results;
  if (first() || run_.joined()) results = sum_everywhere(test_results_of_process(net, test_iter), "test");
  if (first()) log_test(net, test_iter, results);
  meet("test", iteration);
}

/// One entry of the board for each batch: the net's loss, then its outputs.
void Replica::run_test_batches(Net& net, int test_iter) {
  for (const auto& layer : net.layers())
    if (auto* source = dynamic_cast<data::BatchSource*>(layer.get())) source->begin_test_pass(test_iter);
  Pass pass;
  pass.context = context_.get();
  pass.seed = run_.seed;
  pass.update_statistics = false;
  for (int batch = rank_everywhere(); batch < test_iter; batch += run_.above.devices) {
    activity_.enter(Stage::test);
    pass.draw = batch;
    net.forward(pass);
    std::vector<double>& values = run_.boards[static_cast<std::size_t>(rank_)].test_results.emplace_back();
    append_values(*context_, net.loss(), values);
    for (const Blob* blob : net.outputs()) append_values(*context_, blob->data, values);
    net.check_results();
  }
}

/// Loss and outputs of each batch, one batch after the other; 0 where another process has them.
std::vector<double> Replica::test_results_of_process(int number, int test_iter) const {
  const Net& net = *test_nets_[static_cast<std::size_t>(number)];
  std::size_t width = 1;
  for (const Blob* blob : net.outputs()) width += static_cast<std::size_t>(blob->shape.count());
  std::vector<double> all(width * static_cast<std::size_t>(test_iter), 0);
  for (std::size_t rank = 0; rank < run_.boards.size(); ++rank) {
    int batch = run_.above.first_rank + static_cast<int>(rank);
    for (const std::vector<double>& values : run_.boards[rank].test_results) {
      if (values.size() != width)
        runtime_failure("test net #", number, ": the outputs of batch ", batch, " have ", values.size() - 1,
                        " values, those of the last batch ", width - 1);
      std::copy(values.begin(), values.end(), all.begin() + static_cast<std::ptrdiff_t>(width) * batch);
      batch += run_.above.devices;
    }
  }
  return all;
}

void Replica::log_test(int number, int test_iter, const std::vector<double>& results) {
  const Net& net = *test_nets_[static_cast<std::size_t>(number)];
  std::vector<double> sums(results.size() / static_cast<std::size_t>(test_iter), 0);
  for (std::size_t i = 0; i < results.size(); ++i) sums[i % sums.size()] += results[i];
  if (run_.solver.test.compute_loss) LOG(INFO) << log_lines::test_loss(sums[0] / test_iter);
  std::size_t at = 1;
  int shown = 0;
  for (const Blob* blob : net.outputs())
    for (std::int64_t i = 0; i < blob->shape.count() && at < sums.size(); ++i)
      LOG(INFO) << log_lines::test_output(shown++, blob->name, sums[at++] / test_iter,
                                          net.loss_weight(*blob));
}

}  // namespace banyan
