// TestNets: the test passes of a run. The test_iter batches of a test net are dealt whole to the devices; the
// first device adds the results in the order of the batches, so that they do not depend on the number of
// devices.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "banyan/net/net.hpp"
#include "banyan/train/session.hpp"
#include "banyan/train/solver_settings.hpp"
#include "peers.hpp"

namespace banyan {

/// Loss and outputs of each batch, `width` values, one batch after the other; 0 where another process has
/// them. Device r of this process, number `place.first_rank` + r in all, served every `place.devices`-th
/// batch. Runtime failure for a batch with a different number of values; `net` is the number in its message.
std::vector<double> order_test_results(const std::vector<DeviceBoard>& boards,
                                       const parallel::UplinkPlace& place, std::size_t width, int batches,
                                       int net);
/// Sums over the batches: `width` values.
std::vector<double> sum_test_results(const std::vector<double>& results, std::size_t width);

class TestNets {
 public:
  /// `nets` share the parameters of `trained`.
  TestNets(const TestSettings& settings, Peers& peers, Net& trained, std::vector<std::unique_ptr<Net>> nets);
  bool empty() const { return nets_.empty(); }
  std::size_t size() const { return nets_.size(); }
  Net& net(std::size_t number) { return *nets_[number]; }
  int batches(int number) const { return settings_.batches[static_cast<std::size_t>(number)]; }
  /// Tests all nets after that many iterations. The first device logs and returns the results. All devices
  /// meet. Once `stop` (nullptr: never) is true, tests end after the batch under way, without a result.
  std::vector<TestResult> run(std::int64_t iteration, const std::atomic<bool>* stop = nullptr);

 private:
  void take_statistics();
  void return_statistics();
  bool statistics_differ() const;
  std::vector<double> test(int number, std::int64_t iteration, const std::atomic<bool>* stop);
  void run_batches(Net& net, int batches, const std::atomic<bool>* stop);
  std::vector<double> results_of_process(int number) const;
  TestResult means_of(int number, const std::vector<double>& results) const;
  void log(int number, const TestResult& result) const;

  TestSettings settings_;
  Peers& peers_;
  Net& trained_;
  std::vector<std::unique_ptr<Net>> nets_;
  Tensor own_statistics_;  ///< the device's, during a test
};

}  // namespace banyan
