// Replica: one device's part of a training run. Constructed empty, so that what it owns outlives every thread
// that may still read it after a failure; set_up() and train() run on the device's own thread.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include "banyan/data/batch_source.hpp"
#include "banyan/net/net.hpp"
#include "banyan/parallel/gradient_sync.hpp"
#include "banyan/train/learning_rate.hpp"
#include "banyan/train/smoothed_loss.hpp"
#include "banyan/train/updater.hpp"
#include "loss_ring.hpp"
#include "run.hpp"

namespace banyan {

class Replica {
 public:
  /// Rank 0 reads losses this often at the latest.
  static constexpr std::int64_t kGatherEvery = 32;

  Replica(Run& run, int rank);
  ~Replica();

  void set_up();
  /// From the starting iteration to the end of the run.
  void train();
  /// On the device's thread, at its end: stops reading, and waits for what is still enqueued, whatever
  /// becomes of it.
  void drain() noexcept;

 private:
  /// Iterations that the host may enqueue ahead of its device: enough that a GPU never waits for work, few
  /// enough that a run which failed is drained in time.
  static constexpr std::int64_t kRunAhead = 2;
  struct SourceLayer {
    std::string net, layer;
    data::BatchSource* source;
  };
  bool first() const { return rank_ == 0; }
  bool alone() const { return run_.device_count() == 1 && !run_.joined(); }
  /// Then the host never waits for its device, also not to read the notes of layers. So on CPU devices,
  /// unless a test asks for streams like a GPU's.
  bool runs_inline() const { return device_.kind() == DeviceKind::cpu && !run_.options.cpu.asynchronous; }
  int rank_everywhere() const { return run_.above.first_rank + rank_; }
  NetOptions net_options(const SolverNet& net) const;
  void build_nets();
  void collect_sources();
  void build_exchange();
  void load_initial_state();
  void restore_state();
  void share_initial_parameters();
  void update(Context& lane, int bucket);
  void broadcast_in_pieces(Tensor& values, const char* what);
  std::vector<double> sum_everywhere(std::vector<double> values, const char* what);
  void push_loss(const Tensor& loss, std::int64_t iteration);
  Wishes everybodys_wishes(std::int64_t iteration);
  void interrupt_sources();
  void observe_layers();
  void check_finite(int layer, bool backward);
  void print_debug(int layer, bool backward);
  double mean_absolute(const Tensor& values);
  std::int64_t share() const;
  /// All devices of this process are there for the same.
  void meet(const char* what, std::int64_t number = 0) {
    run_.meeting.meet(rank_, activity_, {what, number});
  }
  void set_up_rate();
  static void append_values(Context& context, const Tensor& values, std::vector<double>& to);

  bool iterate(std::int64_t iteration);
  Pass training_pass(std::int64_t iteration, int sub);
  void forward_backward(std::int64_t iteration);
  void exchange_and_update(std::int64_t iteration);
  double clip_factor(std::int64_t iteration);
  void compare_kernels();
  void poll(std::int64_t iteration);
  Wishes wishes_of(std::int64_t iteration) const {
    return run_.wishes[static_cast<std::size_t>(iteration % 2)];
  }
  void gather_losses(std::int64_t through);
  void note_last_loss(std::int64_t iteration);
  void publish_outputs();
  bool is_displayed(std::int64_t iteration) const { return is_turn(iteration, run_.solver.display); }
  void display(std::int64_t iteration);
  std::vector<double> outputs_of_process() const;
  void print_outputs(const std::vector<double>& values);
  void finish_run(std::int64_t iteration);

  void test_all(std::int64_t iteration);
  void test(int net, std::int64_t iteration);
  void run_test_batches(Net& net, int test_iter);
  std::vector<double> test_results_of_process(int net, int test_iter) const;
  void log_test(int net, int test_iter, const std::vector<double>& results);
  void take_test_statistics();
  void return_train_statistics();

  void snapshot(std::int64_t iteration);
  void take_summed_gradients();
  caffe::SolverState describe_state() const;

  Run& run_;
  int rank_;
  Device& device_;
  Activity& activity_;
  std::unique_ptr<Context> context_, lane_;
  std::unique_ptr<parallel::StatisticsExchange> exchange_;
  std::unique_ptr<Net> net_;
  std::vector<std::unique_ptr<Net>> test_nets_;
  std::vector<SourceLayer> sources_;
  std::unique_ptr<Updater> updater_;
  std::unique_ptr<parallel::GradientSync> sync_;
  std::unique_ptr<LossRing> losses_;
  std::array<std::unique_ptr<Event>, kRunAhead> ends_;  ///< of iteration i at i % kRunAhead
  std::unique_ptr<LearningRate> rate_;
  SmoothedLoss smoothed_;
  Tensor scalar_, scalar_check_, train_statistics_;
  Tensor report_;  ///< f64 (3), only with other processes: loss, wish to stop, wish for a snapshot
  double current_rate_ = 0;
  std::int64_t start_ = 0, gathered_ = 0;
  std::int64_t displayed_ = 0, samples_per_iteration_ = 0;
  std::chrono::steady_clock::time_point displayed_at_;
  std::unique_ptr<Progress> progress_;
  bool early_ = false;
};

}  // namespace banyan
