#include "banyan/train/session.hpp"

#include <glog/logging.h>

#include <functional>
#include <optional>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/parallel/crew.hpp"
#include "banyan/train/log_lines.hpp"
#include "replica.hpp"
#include "run.hpp"

namespace banyan {

/// Later members use earlier ones and are destroyed before them.
struct Session::State {
  explicit State(const TrainOptions& options);
  /// Runs body(replica) on every device's thread.
  void on_all(const std::function<void(Replica&)>& body) {
    carry_out([&](int rank) {
      body(*replicas[rank]);
      replicas[rank]->settle();
    });
  }
  void on_one(int device, const std::function<void(Replica&)>& body) {
    carry_out([&](int rank) {
      if (rank == device) body(*replicas[rank]);
    });
  }
  void carry_out(const std::function<void(int)>& order) try {
    crew->carry_out(order);
  } catch (const Error& error) {
    if (run->metrics) run->metrics->failed(error.what());
    throw;
  }

  void check_device(int device) const {
    const int count = static_cast<int>(replicas.size());
    if (device < 0 || device >= count) bad_input("there is no device ", device, ": this process has ", count);
  }

  /// Throws bad_input where a parameter server, or what it serves, cannot do it.
  void refuse_served(const char* what) const {
    if (run->options.parameter_server) bad_input("a session with a parameter server only trains: no ", what);
  }
  /// Before the devices begin. A refusal leaves all as it was, but other processes would wait for this one.
  void alone(const std::function<void()>& check) try { check(); } catch (const Error& error) {
    if (run->options.uplink != nullptr) run->abort.raise(error);
    throw;
  }

  /// To the other processes, if there are any.
  struct Attachment {
    explicit Attachment(Run& run) : uplink(run.options.uplink) {
      if (uplink == nullptr) return;
      parallel::UplinkRun seen;
      for (const auto& activity : run.activities) seen.activities.push_back(activity.get());
      seen.fail = [&run](const Error& error) { run.abort.raise(error); };
      for (const auto& device : run.devices) seen.devices.push_back(device.get());
      uplink->attach(std::move(seen));
    }
    ~Attachment() {
      if (uplink != nullptr) uplink->detach();
    }
    Attachment(const Attachment&) = delete;
    Attachment& operator=(const Attachment&) = delete;
    parallel::Uplink* uplink;
  };

  std::unique_ptr<Run> run;
  bool begun = false;  ///< an iteration was asked for
  std::vector<std::unique_ptr<Replica>> replicas;
  std::optional<OnBoard> on_board;
  std::optional<Attachment> attachment;
  std::unique_ptr<parallel::Crew> crew;
};

Session::State::State(const TrainOptions& options) : run(make_run(options)) {
  if (run->solver.snapshot.before_train) refuse_served("snapshot_before_train");
  const int count = static_cast<int>(options.devices.size());
  for (int rank = 0; rank < count; ++rank) replicas.push_back(std::make_unique<Replica>(*run, rank));
  std::vector<Activity*> activities;
  for (const auto& activity : run->activities) activities.push_back(activity.get());
  LOG(INFO) << log_lines::solving(run->train_net.net.name());
  LOG(INFO) << log_lines::policy(name_of(run->solver.rate.policy));
  on_board.emplace(options.board.get(), std::vector<const Activity*>(activities.begin(), activities.end()));
  attachment.emplace(*run);
  parallel::WatchdogOptions watchdog{options.watchdog_seconds, options.grace_seconds, run->is_worker()};
  if (parallel::Uplink* uplink = options.uplink) {
    watchdog.others = [uplink] { return uplink->others(); };
    watchdog.speaks = [uplink] { return uplink->speaks(); };
    watchdog.before_end = [uplink] { uplink->let_others_speak(); };
  }
  crew = std::make_unique<parallel::Crew>(activities, run->abort, watchdog,
                                          [this](int rank) { replicas[rank]->drain(); });
  on_all([](Replica& replica) { replica.set_up(); });
}

Session::Session(const TrainOptions& options) try : state_(std::make_unique<State>(options)) {
} catch (const Error& error) {
  if (options.uplink != nullptr) options.uplink->abort(error);
  throw;
}

Session::~Session() = default;

std::int64_t Session::iteration() const { return state_->replicas[0]->iteration(); }

std::int64_t Session::samples_per_iteration() const { return state_->run->outcome.samples_per_iteration; }

int Session::devices() const { return static_cast<int>(state_->replicas.size()); }

std::vector<MemoryUse> Session::memory() const {
  std::vector<MemoryUse> use;
  for (const auto& device : state_->run->devices) use.push_back(device->memory());
  return use;
}

/// What comes before the first iteration that the session trains, if there is one.
void Session::begin(std::int64_t count) {
  if (count <= 0 || iteration() >= state_->run->solver.max_iter || std::exchange(state_->begun, true)) return;
  if (state_->run->solver.snapshot.before_train) snapshot();
}

bool Session::step(std::int64_t count) {
  begin(count);
  state_->on_all([count](Replica& replica) { replica.step(count); });
  return !state_->run->outcome.stopped_early;
}

TrainOutcome Session::train() {
  begin(state_->run->solver.max_iter);
  state_->on_all([](Replica& replica) { replica.train(); });
  return state_->run->outcome;
}

std::vector<TestResult> Session::test() {
  state_->refuse_served("test()");
  state_->on_all([](Replica& replica) { replica.test(false); });
  return state_->run->tests;
}

std::string Session::snapshot() {
  state_->refuse_served("snapshot()");
  if (state_->run->process() == 0)
    state_->alone([&] { check_snapshot_prefix(state_->run->snapshots.prefix); });
  state_->on_all([](Replica& replica) { replica.snapshot(); });
  return snapshot_paths(state_->run->snapshots.prefix, iteration(), state_->run->snapshots.format).state;
}

void Session::restore(const std::string& state_path) {
  state_->refuse_served("restore()");
  state_->alone([&] { read_resume(*state_->run, state_path); });
  state_->on_all([](Replica& replica) { replica.restore(); });
  if (state_->run->metrics) state_->run->metrics->restart(iteration(), state_path);
}

Metrics Session::metrics() {
  Metrics metrics;
  state_->on_one(0, [&](Replica& replica) { metrics = replica.metrics(); });
  return metrics;
}

void Session::set_input(const std::string& blob, const std::vector<double>& values, int device,
                        int test_net) {
  state_->check_device(device);
  std::string problem;
  state_->on_one(device, [&](Replica& replica) { problem = replica.write_input(blob, values, test_net); });
  if (!problem.empty()) bad_input(problem);
}

Values Session::blob(const std::string& name, int device) {
  state_->check_device(device);
  Values values;
  std::string problem;
  state_->on_one(device, [&](Replica& replica) { problem = replica.read_blob(name, values); });
  if (!problem.empty()) bad_input(problem);
  return values;
}

Values Session::parameter(const std::string& layer, int index) {
  Values values;
  std::string problem;
  state_->on_one(0, [&](Replica& replica) { problem = replica.read_parameter(layer, index, values); });
  if (!problem.empty()) bad_input(problem);
  return values;
}

void Session::set_parameter(const std::string& layer, int index, const std::vector<double>& values) {
  state_->refuse_served("set_parameter()");
  const auto count = parameter(layer, index).values.size();
  if (values.size() != count)
    bad_input("parameter ", index, " of layer ", quoted(layer), " has ", count, " values, not ",
              values.size());
  state_->on_all([&](Replica& replica) { replica.write_parameter(layer, index, values); });
}

}  // namespace banyan
