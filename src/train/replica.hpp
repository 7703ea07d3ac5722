// Replica: one device's part of a session: the loop, and the parts that it uses. Constructed empty, so that
// what it owns outlives every thread that may still read it after a failure; everything else runs on the
// device's own thread. What all devices do together is called on all of them.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "banyan/net/net.hpp"
#include "banyan/parallel/gradient_sync.hpp"
#include "banyan/train/learning_rate.hpp"
#include "banyan/train/session.hpp"
#include "banyan/train/updater.hpp"
#include "clipping.hpp"
#include "display.hpp"
#include "losses.hpp"
#include "meter.hpp"
#include "peers.hpp"
#include "requests.hpp"
#include "run.hpp"
#include "served.hpp"
#include "snapshots.hpp"
#include "sources.hpp"
#include "test_nets.hpp"

namespace banyan {

class Replica {
 public:
  Replica(Run& run, int rank);
  ~Replica();

  void set_up();
  /// Iterations done. May be called on any thread while no iteration runs.
  std::int64_t iteration() const { return done_; }
  // As the session's functions of the same names; called on all devices.
  void step(std::int64_t count);
  void train();
  /// `may_be_stopped`: by a request to stop.
  void test(bool may_be_stopped);
  void snapshot();
  void restore();
  void write_parameter(const std::string& layer, int index, const std::vector<double>& values);
  /// Waits for the device's work and checks what the layers noted about their results.
  void settle();
  // Called on one device: the first one unless stated otherwise.
  Metrics metrics();
  /// On any device. Returns why it cannot be read, or "".
  std::string read_blob(const std::string& name, Values& values) const;
  /// As Session::set_input; returns what is wrong, or nothing.
  std::string write_input(const std::string& name, const std::vector<double>& values, int test_net);
  std::string read_parameter(const std::string& layer, int index, Values& values) const;

  /// At the end of the device's thread: stops reading and waits for what is still enqueued, even if it fails.
  void drain() noexcept;

 private:
  /// Iterations that the host may enqueue ahead of its device: enough that a GPU never waits for work, few
  /// enough that a failed run is drained in time.
  static constexpr std::int64_t kRunAhead = 2;

  // Set-up.
  std::unique_ptr<Net> make_net(const SolverNet& definition, const std::string& name);
  void build_nets();
  void connect_sources();
  void set_up_rate();
  void build_exchange();
  void carry_worker();
  void load_initial_state();
  void receive_first_task();
  void spread_parameters();
  void begin();
  /// The context of the gradients' sums and updates.
  Context& lane() const { return lane_ ? *lane_ : *context_; }
  void update(int bucket);

  // The loop.
  bool iterate(std::int64_t iteration);
  Pass training_pass(std::int64_t iteration, int sub);
  void forward_backward(std::int64_t iteration);
  void exchange_and_update(std::int64_t iteration, double rate);
  void gather_differences(std::int64_t iteration);
  void work();
  void announce(std::int64_t number, const parallel::ServerWorker::Task& task);
  void work_on(const parallel::ServerWorker::Task& task);

  void push_loss(const Tensor& loss, std::int64_t iteration);
  void note_last_loss(std::int64_t iteration);
  void compare_kernels();
  void compare_with_all();
  void warn_of_kernels(const std::optional<std::string>& difference);
  void finish();
  void show_last_loss();
  metrics::Test record_of(const TestResult& result) const;
  /// Work that is no training, whose time is not that of iterations. Returns its seconds.
  double apart(const std::function<void()>& work);
  void forget_last_loss();
  const LearnableParameter* find_parameter(const std::string& layer, int index) const;

  Run& run_;
  int rank_;
  Device& device_;
  Activity& activity_;
  std::unique_ptr<Context> context_, lane_;  ///< lane_: nullptr for one device in all
  std::unique_ptr<Peers> peers_;
  std::unique_ptr<Net> net_;
  std::unique_ptr<TestNets> tests_;
  Sources sources_;
  std::unique_ptr<LearningRate> rate_;
  std::unique_ptr<Updater> updater_;  ///< nullptr: a server updates
  std::unique_ptr<parallel::GradientSync> sync_;
  std::unique_ptr<Clipping> clipping_;  ///< nullptr: gradients are not clipped
  std::unique_ptr<Losses> losses_;
  std::unique_ptr<Requests> requests_;
  std::unique_ptr<Meter> meter_;  ///< nullptr: no metrics
  std::unique_ptr<Display> display_;
  std::unique_ptr<Snapshots> snapshots_;                ///< nullptr: a server takes them
  std::unique_ptr<Server> server_;                      ///< of the device of the first parameter server
  std::unique_ptr<InnerServer> inner_;                  ///< of the device of an inner parameter server
  std::optional<caffe::BanyanState> before_last_loss_;  ///< positions and losses before show_last_loss()
  std::array<std::unique_ptr<Event>, kRunAhead> ends_;  ///< of iteration i at i % kRunAhead
  Tensor loss_;                                         ///< of the iteration, over its passes: f64 (1)
  std::int64_t start_ = 0, done_ = 0;                   ///< iterations before this session; iterations done
  bool stopped_ = false;                                ///< by a request, in the last step()
  std::set<std::string> kernel_warnings_;               ///< said already
  double last_rate_ = 0;                                ///< of the last iteration
  std::int64_t samples_ = 0;                            ///< of all devices in an iteration
};

}  // namespace banyan
