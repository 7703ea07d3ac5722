// Replica: the training loop of one device (FORMAT C.5 gives Caffe's order of events).
#include "replica.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/device/cuda_devices.hpp"
#include "banyan/observe/spans.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/train/log_lines.hpp"
#include "glog/logging.h"

namespace banyan {

namespace {

/// Devices of one model get the same bits from the same kernels.
std::string model_of(const Device& device) {
  return device.kind() == DeviceKind::cuda ? query_cuda_gpu(device.ordinal()).name : "processor";
}

}  // namespace

void Replica::step(std::int64_t count) {
  if (run_.is_worker()) {
    work();
    return;
  }
  if (run_.is_further_server()) {
    serve_further(run_, *peers_, *net_, *updater_);
    return;
  }
  forget_last_loss();
  const std::int64_t left = std::max<std::int64_t>(0, run_.solver.max_iter - done_);
  const std::int64_t end = done_ + std::min(left, count);
  stopped_ = false;
  while (!stopped_ && done_ < end) stopped_ = !iterate(done_);
  if (peers_->first()) run_.outcome.stopped_early = stopped_;
}

void Replica::train() {
  step(run_.solver.max_iter);
  if (server_) server_->end();
  if (!run_.is_worker() && !run_.is_further_server()) finish();
}

Pass Replica::training_pass(std::int64_t iteration, int sub) {
  Pass pass;
  pass.context = context_.get();
  pass.iteration = iteration;
  pass.draw = iteration * run_.solver.iter_size + sub;
  pass.passes = run_.solver.iter_size;
  pass.seed = run_.seed;
  pass.samples = {peers_->rank_everywhere(), peers_->devices()};
  pass.exchange = peers_->exchange();
  return pass;
}

/// One iteration; false: stop after it.
bool Replica::iterate(std::int64_t iteration) {
  activity_.set_iteration(iteration);
  const SolverSettings& solver = run_.solver;
  if (is_turn(iteration, solver.test.interval) && (iteration > 0 || solver.test.initialization)) test(true);
  requests_->poll(iteration);
  Event& end = *ends_[iteration % kRunAhead];
  end.synchronize();  // of iteration - kRunAhead
  note_last_loss(iteration);
  const double rate = rate_->rate(iteration);
  if (meter_) meter_->begin(iteration);
  updater_->begin(lane(), iteration, rate);
  {
    const StreamSpan span(activity_, DeviceTrack::compute, context_->stream(), SpanKind::iteration);
    if (server_)
      gather_differences(iteration);
    else
      forward_backward(iteration);
    exchange_and_update(iteration, rate);
  }
  if (server_) server_->publish(iteration + 1);
  if (meter_) meter_->end(iteration);
  context_->stream().record(end);
  if (iteration == start_ && !server_) compare_kernels();
  // Where nothing is learned there is no exchange that would tell of the others' requests.
  if (!peers_->joined() && !net_->flat_values().defined()) peers_->meet("iteration", iteration);
  const Wishes wishes = requests_->of_everybody(iteration);
  if (server_ && meter_ && display_->is_turn(iteration) && meter_->reads_parameters())
    server_->fetch({parallel::ServerState::values, parallel::ServerState::gradient});
  display_->show(iteration, rate);
  last_rate_ = rate;
  activity_.set_iteration(++done_);
  if (is_turn(done_, solver.snapshot.interval) || wishes.snapshot) snapshot();
  return !wishes.stop;
}

void Replica::forward_backward(std::int64_t iteration) {
  const int subs = run_.solver.iter_size;
  net_->zero_gradients();
  for (int sub = 0; sub < subs; ++sub) {
    const bool last = sub + 1 == subs;
    Pass pass = training_pass(iteration, sub);
    net_->forward(pass);
    ops::axpby(*context_, 1.0 / subs, net_->loss(), sub == 0 ? 0.0 : 1.0, loss_);
    if (meter_) meter_->look_at_loss(pass);
    if (last) {
      push_loss(loss_, iteration);
      if (clipping_) clipping_->begin();
      sync_->start();
    }
    net_->backward(pass, last ? [this](int layer) { sync_->layer_done(layer, context_->stream()); }
                              : std::function<void(int)>());
    // Where reading the notes of layers makes the host wait, only now and then, and before every test, every
    // snapshot and the end: nothing comes of a run whose notes say that it went wrong.
    if (device_.runs_inline() || iteration % Losses::kGatherEvery == 0 || display_->is_turn(iteration))
      net_->check_results();
  }
}

/// The server's forward and backward pass.
void Replica::gather_differences(std::int64_t iteration) {
  const double loss = server_->gather();
  copy_from_host(*context_, &loss, loss_);
  push_loss(loss_, iteration);
  if (clipping_) clipping_->begin();
  sync_->start();
}

/// A worker's loop: what the server says, until it says that there is nothing more.
void Replica::work() {
  for (std::int64_t pass = 0;; ++pass) {
    // One device asks, because the end may come at any time.
    parallel::ServerWorker::Task& task = run_.tasks[static_cast<std::size_t>(pass % 2)];
    if (peers_->first()) task = run_.worker->task();
    peers_->meet("task", pass);
    if (task.end) return;
    if (!inner_) {
      if (pass == 0) announce(task.number, task);
      announce(task.next, task);
    }
    Event& end = *ends_[static_cast<std::size_t>(pass % kRunAhead)];
    end.synchronize();
    work_on(task);
    context_->stream().record(end);
    ++done_;
  }
}

/// The batches of a task will be read in their turn.
void Replica::announce(std::int64_t number, const parallel::ServerWorker::Task& task) {
  const int subs = run_.solver.iter_size;
  for (int sub = 0; sub < subs; ++sub)
    sources_.announce(static_cast<std::uint64_t>((number - task.first) * subs + sub));
}

void Replica::work_on(const parallel::ServerWorker::Task& task) {
  activity_.set_iteration(task.version);
  const StreamSpan span(activity_, DeviceTrack::compute, context_->stream(), SpanKind::iteration);
  if (inner_) {
    inner_->publish(task);
    if (!inner_->gather()) return;
    sync_->start();
    sync_->layer_done(0, context_->stream());
  } else {
    forward_backward(task.number);
    run_.worker->note_loss(losses_->own(task.number),
                           peers_->first() ? statistics_of(*net_, *context_) : std::vector<char>());
  }
  activity_.enter(Stage::exchange, "parameter server");
  sync_->finish(context_->stream());
}

void Replica::exchange_and_update(std::int64_t iteration, double rate) {
  const double factor = clipping_ ? clipping_->finish(iteration) : 1;
  if (server_) server_->update_further(iteration, rate, factor);
  activity_.enter(Stage::update, "parameters");
  sync_->finish(context_->stream());
  if (peers_->first() && losses_->overdue(iteration)) losses_->gather(iteration - 1);
}

/// With other processes, the sum over all devices.
void Replica::push_loss(const Tensor& loss, std::int64_t iteration) {
  losses_->push(requests_->share(loss, iteration), iteration);
}

/// For the policy plateau, of the iteration before `iteration`: before the next rate, and before a snapshot,
/// whose state must be that of a run that goes on. To note a loss again changes nothing.
void Replica::note_last_loss(std::int64_t iteration) {
  if (!rate_->needs_loss() || iteration == start_) return;
  losses_->gather(iteration - 1);
  rate_->note_loss(iteration - 1, losses_->smoothed());
}

/// After the first iteration, in which most kernels were chosen, and before each snapshot: a smaller batch at
/// an epoch's end has shapes of its own. The lists that are chosen from follow from shapes and the model of
/// the GPU, so devices of one model that differ, in whatever process, will not give the same bits in another
/// run: an error. Other models, and versions of libraries since a snapshot, are the user's choice.
void Replica::compare_kernels() {
  DeviceKernels& mine = peers_->board().kernels;
  if (mine.device.empty()) mine = {activity_.device(), model_of(device_), {}};
  mine.kernels = net_->kernel_choices();
  peers_->meet("kernels", done_);
  if (peers_->first()) compare_with_all();
  // What is compared does not change while it is, and processes share nothing while sums are under way.
  peers_->meet("kernels compared", done_);
}

/// On the first device of each process. All get the same texts, so what is wrong is an error in all of them.
void Replica::compare_with_all() {
  KernelComparison of_process, of_all;
  for (const DeviceBoard& board : peers_->boards()) warn_of_kernels(of_process.add(board.kernels));
  if (peers_->joined()) {
    activity_.set_waiting(true);
    const std::vector<std::string> all = peers_->share(pack_kernels(of_process.kept()));
    activity_.set_waiting(false);
    for (const std::string& packed : all)
      for (const DeviceKernels& device : unpack_kernels(packed)) warn_of_kernels(of_all.add(device));
  }
  if (run_.resume)
    warn_of_kernels(kernel_difference("this run", peers_->board().kernels.kernels, "the run that is resumed",
                                      saved_kernels(run_.resume->state.banyan())));
}

void Replica::warn_of_kernels(const std::optional<std::string>& difference) {
  if (difference && peers_->in_first_process() && kernel_warnings_.insert(*difference).second)
    LOG(WARNING) << *difference;
}

void Replica::test(bool may_be_stopped) {
  if (tests_->empty()) return;
  display_->clear();
  std::vector<TestResult> results;
  apart([&] {
    if (server_) server_->fetch({parallel::ServerState::values});
    results = tests_->run(
        done_, may_be_stopped && run_.options.signals != nullptr ? &run_.options.signals->stop : nullptr);
  });
  if (!peers_->first()) return;
  if (meter_)
    for (const TestResult& result : results) run_.metrics->test(done_, record_of(result));
  run_.tests = std::move(results);
}

metrics::Test Replica::record_of(const TestResult& result) const {
  metrics::Test record;
  record.net = result.net;
  record.batches = tests_->batches(result.net);
  record.loss = result.loss;
  record.seconds = result.seconds;
  const Net& net = tests_->net(static_cast<std::size_t>(result.net));
  for (std::size_t k = 0; k < result.outputs.size(); ++k)
    record.outputs.push_back(
        {result.outputs[k].blob, result.outputs[k].values, net.loss_weight(*net.outputs()[k])});
  return record;
}

double Replica::apart(const std::function<void()>& work) {
  if (meter_) return meter_->apart(work);
  work();
  return 0;
}

void Replica::snapshot() {
  forget_last_loss();
  if (server_)
    sources_.count_batches(static_cast<std::uint64_t>(server_->finished_tasks()) *
                           static_cast<std::uint64_t>(run_.solver.iter_size));
  display_->clear();
  if (peers_->first()) {
    losses_->gather(done_ - 1);
    note_last_loss(done_);
  }
  std::optional<SnapshotPaths> paths;
  const double seconds = apart([&] {
    if (server_)
      server_->fetch_all();
    else
      compare_kernels();
    if (peers_->first() && meter_) run_.metrics->catch_up();
    paths = snapshots_->save(done_);
  });
  if (!paths || !meter_) return;
  std::error_code unknown;
  metrics::Snapshot record{paths->model, paths->state, 0, seconds};
  for (const std::string& path : {paths->model, paths->state})
    if (const auto bytes = std::filesystem::file_size(path, unknown); !unknown)
      record.bytes += static_cast<std::int64_t>(bytes);
  run_.metrics->snapshot(done_, record);
}

/// What Caffe does after the last iteration: a snapshot, a last loss and a last test.
void Replica::finish() {
  const SolverSettings& solver = run_.solver;
  activity_.set_iteration(done_);
  display_->clear();
  net_->check_results();
  if (solver.snapshot.after_train && !is_turn(done_, solver.snapshot.interval)) snapshot();
  if (stopped_) return;
  if (display_->logs() && display_->is_turn(done_)) show_last_loss();
  if (is_turn(done_, solver.test.interval)) test(true);
}

void Replica::show_last_loss() {
  if (server_) {
    losses_->gather(done_ - 1);
    LOG(INFO) << log_lines::last_iteration(done_, losses_->smoothed());
    return;
  }
  before_last_loss_.emplace();
  sources_.save(*before_last_loss_);
  losses_->save(*before_last_loss_);
  Pass pass = training_pass(done_, 0);
  pass.update_statistics = false;
  net_->forward(pass);
  net_->check_results();
  push_loss(net_->loss(), done_);
  peers_->meet("last loss", done_);
  if (!peers_->first()) return;
  losses_->gather(done_);
  LOG(INFO) << log_lines::last_iteration(done_, losses_->smoothed());
  if (meter_) meter_->publish_last(done_, losses_->smoothed());
}

/// It was of a batch that no iteration has learned from yet.
void Replica::forget_last_loss() {
  if (!before_last_loss_) return;
  sources_.restore(*before_last_loss_);
  losses_->restore(*before_last_loss_);
  losses_->begin(done_);
  before_last_loss_.reset();
}

void Replica::settle() {
  lane().synchronize();
  context_->synchronize();
  net_->check_results();
}

Metrics Replica::metrics() {
  forget_last_loss();
  losses_->gather(done_ - 1);
  return {done_, losses_->smoothed(), last_rate_};
}

std::string Replica::read_blob(const std::string& name, Values& values) const {
  const Blob* blob = net_->find_blob(name);
  if (blob == nullptr) return cat("the net has no blob ", quoted(name));
  if (!net_->keeps(*blob))
    return cat("blob ", quoted(name), " shares its memory with others, so nothing is left of it");
  values = values_of(*context_, blob->data);
  return "";
}

std::string Replica::write_input(const std::string& name, const std::vector<double>& values,
                                 int test_net) try {
  if (test_net >= static_cast<int>(tests_->size()))
    return cat("there is no test net ", test_net, ": the solver has ", tests_->size());
  Net& net = test_net < 0 ? *net_ : tests_->net(static_cast<std::size_t>(test_net));
  net.set_input(name, values);
  return "";
} catch (const Error& error) {
  if (error.kind() != ErrorKind::bad_input) throw;
  return error.message();
}

const LearnableParameter* Replica::find_parameter(const std::string& layer, int index) const {
  for (const LearnableParameter& parameter : net_->parameters())
    if (parameter.layer == layer && parameter.slot == index) return &parameter;
  return nullptr;
}

std::string Replica::read_parameter(const std::string& layer, int index, Values& values) const {
  const LearnableParameter* parameter = find_parameter(layer, index);
  if (parameter == nullptr) return cat("layer ", quoted(layer), " has no parameter ", index, " of its own");
  values = values_of(*context_, parameter->value);
  return "";
}

void Replica::write_parameter(const std::string& layer, int index, const std::vector<double>& values) {
  Tensor value = find_parameter(layer, index)->value;
  if (peers_->first()) set_values(*context_, values, value);
  peers_->broadcast(value, "a parameter");
  net_->parameters_replaced();
}

}  // namespace banyan
