// Replica: set-up. Nets, data positions, exchange, initial parameters.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "banyan/base/error.hpp"
#include "banyan/data/shared_batches.hpp"
#include "banyan/io/weights.hpp"
#include "banyan/net/parameter_values.hpp"
#include "banyan/observe/spans.hpp"
#include "banyan/parallel/wire_uplink.hpp"
#include "banyan/train/log_lines.hpp"
#include "glog/logging.h"
#include "layer_watch.hpp"
#include "net/sparsity.hpp"
#include "replica.hpp"
#include "run_description.hpp"

namespace banyan {
namespace {

/// The tree with room for all chunks of all buckets.
void build_gradient_tree(Run& run, const std::vector<parallel::Bucket>& buckets) {
  const std::size_t element = size_of(tensor_type(run.options.precision));
  const auto values = static_cast<std::size_t>(
      buckets.empty() ? 0 : buckets.back().offset + buckets.back().count);  // buckets cover all of them
  run.chunk_bytes =
      parallel::chunk_for(*run.tree, run.members[0].device->kind(), values * element, run.links.slowest);
  run.gradient_tree = std::make_unique<parallel::DeviceTree>(
      *run.tree, run.members, run.abort, run.spin,
      parallel::GradientSync::slots_for(buckets, element, run.chunk_bytes),
      run.worker ? static_cast<parallel::RootParent*>(run.worker.get()) : run.team.uplink);
}

/// Samples that this device takes in one forward pass.
std::int64_t share_of(const Net& net) {
  for (int layer = 0; layer < static_cast<int>(net.layers().size()); ++layer) {
    const Blobs outputs = net.outputs_of(layer);
    if (net.layers()[layer]->traits().source && !outputs.empty() && outputs[0]->shape.axes() > 0)
      return outputs[0]->shape[0];
  }
  return 0;
}

}  // namespace

Replica::Replica(Run& run, int rank)
    : run_(run), rank_(rank), device_(*run.devices[rank]), activity_(*run.activities[rank]) {}

Replica::~Replica() = default;

void Replica::drain() noexcept {
  sources_.stop();
  for (Context* context : {context_.get(), lane_.get()}) try {
      if (context != nullptr) context->synchronize();
    } catch (...) {
      // The error that ended the run has already been reported.
    }
}

std::unique_ptr<Net> Replica::make_net(const SolverNet& definition, const std::string& name) {
  const caffe::NetState& state = definition.net.state();
  NetOptions options;
  options.phase = phase_of(state.phase());
  options.level = state.level();
  options.stages.assign(state.stage().begin(), state.stage().end());
  options.dtype = tensor_type(run_.options.precision);
  options.rank = peers_->rank_everywhere();
  options.devices = peers_->devices();
  // A server's train net is that of a worker's first device.
  if ((run_.is_server() || run_.is_further_server() || run_.is_inner_server()) &&
      options.phase == Phase::train)
    options.devices = devices_of_worker(run_);
  options.seed = run_.seed;
  options.sync_batch_norm = run_.options.sync_bn;
  options.reuse_memory = !run_.options.keep_blobs;
  options.keep_gradients = keeps_gradients(run_.options);
  options.gradients_travel = peers_->joined();
  options.origin = definition.origin;
  const data::SharingScope scope(run_.options.shared_batches, name, &run_);
  return std::make_unique<Net>(definition.net, options, *context_, activity_);
}

void Replica::build_nets() {
  net_ = make_net(run_.train_net, "train");
  std::vector<std::unique_ptr<Net>> tests;
  for (const SolverNet& definition : run_.test_nets) {
    tests.push_back(make_net(definition, cat("test", tests.size())));
    share_parameters(*tests.back(), *net_, true);
  }
  std::function<bool()> print, print_tests;
  if (peers_->first() && run_.solver.debug_info) {
    print = [this] {  // the last loss is shown as the last iteration was
      const std::int64_t shown = std::min<std::int64_t>(done_, run_.solver.max_iter - 1);
      return display_ && display_->logs() && display_->is_turn(shown);
    };
    print_tests = [] { return true; };
  }
  watch_layers(*net_, *context_, print, run_.options.check_nan);
  for (const std::unique_ptr<Net>& test : tests) watch_layers(*test, *context_, print_tests, false);
  sources_.add(*net_, "train");
  for (std::size_t k = 0; k < tests.size(); ++k) sources_.add(*tests[k], cat("test", k));
  tests_ = std::make_unique<TestNets>(run_.solver.test, *peers_, *net_, std::move(tests));
}

void Replica::connect_sources() {
  // Otherwise they would deal each other's records. A parameter server's workers take turns at whole batches.
  if (peers_->first() && peers_->joined() && !run_.options.parameter_server)
    parallel::expect_alike(*run_.options.uplink, sources_.sizes());
  sources_.set_beat([this] { activity_.beat(); });
  sources_.trace_to({run_.options.timeline, rank_});
  if (run_.options.board) sources_.show_on(*run_.options.board, rank_);
  // From here on nothing is added.
  run_.abort.on_raise([this] { sources_.interrupt(); });
}

/// Shares may differ, so every device needs all of them to compute the same rate.
void Replica::set_up_rate() {
  peers_->board().share = share_of(*net_);
  peers_->meet("batch");
  std::int64_t batch = 0;
  for (const DeviceBoard& board : peers_->boards()) batch += board.share;
  if (run_.is_server()) {
    batch *= devices_of_worker(run_);
    if (std::isinf(run_.options.parameter_server->wait_seconds)) batch *= workers_of(run_);
  }
  batch = static_cast<std::int64_t>(peers_->sum_processes({static_cast<double>(batch)}, "batch")[0]);
  samples_ = batch * run_.solver.iter_size;
  if (peers_->first()) run_.outcome.samples_per_iteration = samples_;
  rate_ = std::make_unique<LearningRate>(run_.solver, learning_rate_scale(run_.solver, 1, batch),
                                         peers_->first());
}

void Replica::build_exchange() {
  const Tensor& values = net_->flat_values();
  const bool worker = run_.is_worker();
  for (const LearnableParameter& parameter : net_->parameters())
    if (run_.options.parameter_server && parameter.used != nullptr && parameter.offset >= 0)
      bad_input("layer ", quoted(parameter.layer),
                ": parameters that are normalized or kept within limits are not possible with a parameter "
                "server, which sees their gradients only");
  // A bucket's owner has the same number in every process.
  const std::vector<int>& devices_of = run_.team.place.devices_of;
  const int owners = *std::min_element(devices_of.begin(), devices_of.end());
  const std::int64_t total = values.defined() ? values.count() : 0;
  const std::vector<parallel::ParameterRange> ranges = exchanged_ranges(net_->parameters());
  const std::vector<parallel::Bucket> buckets =
      worker                          ? worker_buckets(run_, *net_)
      : run_.options.parameter_server ? server_buckets(run_, *net_)
      : keeps_gradients(run_.options)
          ? parallel::plan_buckets(
                ranges, total, size_of(tensor_type(run_.options.precision)), owners, peers_->devices(),
                needs_whole_parameters(run_.solver.update, net_->parameters()), run_.team.place.processes())
          : parallel::buckets_by_layer(ranges, total);
  if (!worker)
    updater_ = std::make_unique<Updater>(*context_, run_.solver, net_->parameters(), buckets, rank_, values,
                                         net_->flat_gradients());
  if (!peers_->alone() || worker) {
    if (peers_->first() && worker) carry_worker();
    if (peers_->first()) build_gradient_tree(run_, buckets);
    peers_->meet("gradient tree");
  }
  sync_ = std::make_unique<parallel::GradientSync>(
      run_.gradient_tree.get(), rank_, lane(), buckets, net_->flat_gradients(), values,
      [this](int bucket) { update(bucket); }, run_.chunk_bytes);
  if (run_.solver.clip_norm && !worker)
    clipping_ = std::make_unique<Clipping>(
        *run_.solver.clip_norm, *peers_, *sync_, *updater_,
        [this] { return server_ ? server_->sum_of_squares(lane()) : updater_->sum_of_squares(lane()); },
        lane());
}

/// Both ends of an inner server, or a worker's one.
void Replica::carry_worker() {
  run_.worker = make_worker(run_, *net_);
  if (run_.is_inner_server())
    inner_ = std::make_unique<InnerServer>(run_, *peers_, *net_, run_.worker);
  else
    run_.options.parameter_server->uplink->carry(run_.worker);
}

/// The gradients' sum is complete on this device, the bucket's owner; or has become the server's parameters.
void Replica::update(int bucket) {
  if (run_.worker) {
    take_bucket(*run_.worker, *net_, sync_->buckets()[static_cast<std::size_t>(bucket)], bucket, lane());
    return;
  }
  if (server_ && !server_->holds(bucket)) return;
  activity_.enter(Stage::update, "bucket");
  const StreamSpan span(activity_, lane_ ? DeviceTrack::gradients : DeviceTrack::compute, lane().stream(),
                        SpanKind::update, "bucket", "", bucket);
  updater_->update(lane(), bucket);
}

void Replica::load_initial_state() {
  if (run_.is_worker()) {
    receive_first_task();
    return;
  }
  if (run_.is_further_server()) {
    // Its parameters come from the first server.
    if (run_.resume) updater_->restore(*context_, run_.resume->state, run_.resume->state_path);
    return;
  }
  if (peers_->first() && peers_->in_first_process()) {
    fill_parameters(*net_);
    std::set<int> loaded;
    for (const std::string& file : run_.options.weights) {
      LOG(INFO) << log_lines::finetuning(file);
      loaded.merge(load_weights(*net_, io::read_weights(file), file,
                                run_.solver.ignore_shape_mismatch ? OtherShapes::skip : OtherShapes::refuse));
    }
    if (!run_.resume) {
      warn_of_missing_statistics(*net_);
      disconnect(net_->parameter_store(), loaded, *context_);
    }
  }
  if (run_.resume) start_ = snapshots_->restore(*run_.resume);
  spread_parameters();
}

/// The server's parameters; data from where the run goes on.
void Replica::receive_first_task() {
  if (run_.resume) sources_.restore(run_.resume->state.banyan());
  if (peers_->first()) {
    run_.worker->begin_work();
    activity_.set_waiting(true);
    const bool end = run_.worker->wait_for_first([this] { run_.abort.check(); }).end;
    activity_.set_waiting(false);
    if (!end) receive_parameters(*run_.worker, *peers_, *net_);
  }
  peers_->meet("first task");
  spread_parameters();
}

/// Sends the first device's parameters to all, running statistics included.
void Replica::spread_parameters() {
  for (LearnableParameter& parameter : net_->parameters())
    peers_->broadcast(parameter.value, parameter.layer.c_str());
  net_->parameters_replaced();
}

void Replica::restore() {
  before_last_loss_.reset();
  last_rate_ = 0;
  start_ = snapshots_->restore(*run_.resume);
  spread_parameters();
  begin();
}

/// The next iteration is the first one after start-up or a snapshot.
void Replica::begin() {
  context_->synchronize();
  done_ = start_;
  peers_->meet("start");
  losses_->begin(start_);
  display_->begin(start_, samples_);
  if (meter_) meter_->start(start_, samples_);
}

void Replica::set_up() {
  device_.make_current();
  activity_.enter(Stage::set_up);
  context_ = std::make_unique<Context>(device_, "compute");
  if (!run_.team.alone() || run_.is_worker()) lane_ = std::make_unique<Context>(device_, "gradients");
  peers_ = std::make_unique<Peers>(run_.team, rank_, activity_, *context_);
  loss_ = Tensor(device_, Shape{1}, DType::f64);
  requests_ = std::make_unique<Requests>(*peers_, run_.options.signals);
  build_nets();
  connect_sources();
  set_up_rate();
  losses_ = std::make_unique<Losses>(*peers_, run_.solver.average_loss);
  for (auto& end : ends_) end = device_.create_event();
  build_exchange();
  if (run_.metrics)
    meter_ = std::make_unique<Meter>(
        *run_.metrics, rank_, Meter::Parts{*peers_, *net_, *updater_, sources_, lane()}, run_.interval);
  display_ = std::make_unique<Display>(run_.solver, run_.interval, *peers_, *net_, *losses_,
                                       run_.options.console, run_.options.board.get(), meter_.get());
  if (updater_)
    snapshots_ = std::make_unique<Snapshots>(run_.snapshots, *peers_, lane(),
                                             SnapshotParts{*net_, *updater_, *rate_, *losses_, sources_});
  load_initial_state();
  begin();
  if (run_.is_server()) {
    display_->leave_out_outputs();
    server_ = std::make_unique<Server>(run_, *peers_, *net_, *updater_, start_);
    server_->publish(start_);
  }
  if (!meter_ || !peers_->first()) return;
  if (run_.metrics->watches()) run_.metrics->watch(warning_facts(run_, *net_, sources_, peers_->devices()));
  run_.metrics->start(describe_run(run_, *net_, sources_), parameter_names(*net_));
}

}  // namespace banyan
