// Replica: the training loop of one device (FORMAT C.5 gives Caffe's order of events).
#include "replica.hpp"

#include <algorithm>
#include <cmath>

#include "banyan/base/error.hpp"
#include "banyan/observe/spans.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/train/log_lines.hpp"
#include "glog/logging.h"

namespace banyan {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

void Replica::train() {
  displayed_ = gathered_ = start_;
  displayed_at_ = Clock::now();
  if (first()) progress_ = std::make_unique<Progress>(run_.console, run_.solver.max_iter);
  std::int64_t iteration = start_;
  while (iteration < run_.solver.max_iter && iterate(iteration)) ++iteration;
  finish_run(std::min<std::int64_t>(early_ ? iteration + 1 : iteration, run_.solver.max_iter));
}

Pass Replica::training_pass(std::int64_t iteration, int sub) {
  Pass pass;
  pass.context = context_.get();
  pass.iteration = iteration;
  pass.draw = iteration * run_.solver.iter_size + sub;
  pass.seed = run_.seed;
  pass.samples = {rank_everywhere(), run_.above.devices};
  pass.exchange = exchange_.get();
  return pass;
}

/// One iteration; false: stop after it.
bool Replica::iterate(std::int64_t iteration) {
  activity_.set_iteration(iteration);
  const SolverSettings& solver = run_.solver;
  if (is_turn(iteration, solver.test.interval) && (iteration > 0 || solver.test.initialization))
    test_all(iteration);
  poll(iteration);
  Event& end = *ends_[static_cast<std::size_t>(iteration % kRunAhead)];
  end.synchronize();  // of iteration - kRunAhead
  note_last_loss(iteration);
  current_rate_ = rate_->rate(iteration);
  updater_->begin(iteration, current_rate_);
  {
    const StreamSpan span(activity_, DeviceTrack::compute, context_->stream(), SpanKind::iteration);
    forward_backward(iteration);
    exchange_and_update(iteration);
  }
  context_->stream().record(end);
  if (iteration == start_) compare_kernels();
  const Wishes wishes = everybodys_wishes(iteration);
  display(iteration);
  const std::int64_t done = iteration + 1;
  activity_.set_iteration(done);
  if (is_turn(done, solver.snapshot.interval) || wishes.snapshot) snapshot(done);
  early_ = wishes.stop;
  return !early_;
}

/// Rank 0 reads what the user asks for. The others read it after this iteration's exchange, which comes after
/// this write.
void Replica::poll(std::int64_t iteration) {
  if (!first()) return;
  Wishes wishes;
  if (SignalFlags* signals = run_.options.signals) {
    wishes.snapshot = signals->snapshot.exchange(false);
    wishes.stop = signals->stop.load();
  }
  run_.wishes[static_cast<std::size_t>(iteration % 2)] = wishes;
}

/// After the iteration's exchange of gradients, or, where nothing is learned, a meeting. Of other processes
/// the report knows; reading it makes the host wait.
Wishes Replica::everybodys_wishes(std::int64_t iteration) {
  if (!run_.joined()) {
    if (!net_->flat_values().defined()) meet("iteration", iteration);
    return wishes_of(iteration);
  }
  double report[3];
  copy_to_host(*context_, report_, report);
  return {report[1] > 0, report[2] > 0};
}

/// With other processes, the sum over all devices, which goes along with what each process wishes.
void Replica::push_loss(const Tensor& loss, std::int64_t iteration) {
  if (!run_.joined()) return losses_->push(*context_, loss, iteration);
  const Wishes mine = first() ? wishes_of(iteration) : Wishes{};
  const double asks[2] = {mine.stop ? 1.0 : 0.0, mine.snapshot ? 1.0 : 0.0};
  Tensor total = report_.slice(0, Shape{1}), wishes = report_.slice(1, Shape{2});
  copy_from_host(*context_, asks, wishes);
  ops::axpby(*context_, 1.0, loss, 0.0, total);
  exchange_->all_reduce(*context_, report_, Merge::sum, 0, Ticket{"loss", "report"});
  losses_->push(*context_, total, iteration);
}

/// Sums what rank 0 of every process brings; `values` has the same length on all devices. One process: as is.
std::vector<double> Replica::sum_everywhere(std::vector<double> values, const char* what) {
  if (!run_.joined() || values.empty()) return values;
  if (!first()) std::fill(values.begin(), values.end(), 0.0);
  Tensor message(device_, Shape{static_cast<std::int64_t>(values.size())}, DType::f64);
  copy_from_host(*context_, values.data(), message);
  exchange_->all_reduce(*context_, message, Merge::sum, 0, Ticket{what, "report"});
  copy_to_host(*context_, message, values.data());
  return values;
}

void Replica::forward_backward(std::int64_t iteration) {
  const int subs = run_.solver.iter_size;
  net_->zero_gradients();
  for (int sub = 0; sub < subs; ++sub) {
    const bool last = sub + 1 == subs;
    Pass pass = training_pass(iteration, sub);
    net_->forward(pass);
    ops::axpby(*context_, 1.0 / subs, net_->loss(), sub == 0 ? 0.0 : 1.0, scalar_);
    if (last) {
      push_loss(scalar_, iteration);
      if (run_.solver.clip_norm) sync_->hold();
      sync_->start();
    }
    net_->backward(pass, last ? [this](int layer) { sync_->layer_done(layer, context_->stream()); }
                              : std::function<void(int)>());
    // Else now and then, and before every test, every snapshot and the end: nothing comes of a run whose
    // notes say that it went wrong.
    if (runs_inline() || iteration % kGatherEvery == 0 || is_displayed(iteration)) net_->check_results();
  }
}

void Replica::exchange_and_update(std::int64_t iteration) {
  if (run_.solver.clip_norm) {
    activity_.enter(Stage::reduce, "gradients");
    sync_->finish_reduction();
    updater_->set_gradient_factor(clip_factor(iteration));
    sync_->release();
  }
  activity_.enter(Stage::update, "parameters");
  sync_->finish(context_->stream());
  if (iteration - gathered_ >= kGatherEvery && first()) gather_losses(iteration - 1);
}

/// Clips by the global norm of the summed gradients, before 1 / iter_size and weight decay. The host waits
/// for the device here.
double Replica::clip_factor(std::int64_t iteration) {
  Context& lane = alone() ? *context_ : *lane_;
  DeviceBoard& mine = run_.boards[static_cast<std::size_t>(rank_)];
  mine.gradient_squares = updater_->sum_of_squares(lane);
  meet("norm", iteration);
  double squares = 0;
  for (const DeviceBoard& board : run_.boards) squares += board.gradient_squares;
  meet("norm read", iteration);
  // Processes with other numbers of devices add the same squares in another order: all take process 0's sum.
  squares = sum_everywhere({run_.above.process == 0 ? squares : 0}, "norm")[0];
  const double norm = std::sqrt(squares), threshold = *run_.solver.clip_norm;
  if (!(norm > threshold)) return 1;
  if (first()) LOG(INFO) << log_lines::clipping(norm, threshold, threshold / norm);
  return threshold / norm;
}

/// After the first iteration, in which all kernels of its shapes were chosen. The lists that are chosen from
/// follow from shapes and the model of the GPU, so what differs is GPUs or versions of libraries.
void Replica::compare_kernels() {
  run_.boards[static_cast<std::size_t>(rank_)].kernels = net_->kernel_choices();
  meet("kernels");
  if (!first()) return;
  const KernelChoices& mine = run_.boards[0].kernels;
  for (std::size_t other = 1; other < run_.boards.size(); ++other)
    if (const auto difference =
            kernel_difference(device_.name(), mine, run_.devices[other]->name(), run_.boards[other].kernels))
      LOG(WARNING) << *difference;
  if (!run_.resume) return;
  if (const auto difference = kernel_difference("this run", mine, "the run that is resumed",
                                                saved_kernels(run_.resume->state.banyan())))
    LOG(WARNING) << *difference;
}

/// Rank 0: the global losses up to and with `through`. Every device has pushed them (this device has
/// completed that iteration's exchange).
void Replica::gather_losses(std::int64_t through) {
  for (; gathered_ <= through; ++gathered_) {
    double loss = 0;
    if (run_.joined())
      loss = losses_->get(gathered_);
    else
      for (Replica* replica : run_.replicas) loss += replica->losses_->get(gathered_);
    smoothed_.add(loss);
  }
}

/// For the policy plateau, of the iteration before `iteration`: before the next rate, and before a snapshot,
/// whose state must be that of a run that goes on. To note a loss again changes nothing.
void Replica::note_last_loss(std::int64_t iteration) {
  if (!rate_->needs_loss() || iteration == start_) return;
  gather_losses(iteration - 1);
  rate_->note_loss(iteration - 1, smoothed_.value());
}

void Replica::publish_outputs() {
  std::vector<double>& values = run_.boards[static_cast<std::size_t>(rank_)].outputs;
  values.clear();
  for (const Blob* blob : net_->outputs()) append_values(*context_, blob->data, values);
}

void Replica::display(std::int64_t iteration) {
  const int every = run_.solver.display;
  const bool shown = is_displayed(iteration);
  std::vector<double> outputs;
  if (shown) {
    publish_outputs();
    meet("outputs", iteration);
    if (first() || run_.joined()) outputs = sum_everywhere(outputs_of_process(), "outputs");
  }
  if (first() && shown) {
    gather_losses(iteration);
    const Clock::time_point now = Clock::now();
    LOG(INFO) << log_lines::iteration(iteration, iteration - displayed_, seconds_between(displayed_at_, now),
                                      every, smoothed_.value());
    displayed_ = iteration;
    displayed_at_ = now;
    print_outputs(outputs);
    LOG(INFO) << log_lines::rate(iteration, current_rate_);
  }
  if (shown) meet("display", iteration);
  if (first() && progress_->active())
    progress_->update(iteration + 1, (iteration + 1 - start_) * samples_per_iteration_, smoothed_.value(),
                      current_rate_);
}

/// Outputs that are shares of a global value are summed over the devices; of others, rank 0's are shown.
std::vector<double> Replica::outputs_of_process() const {
  const std::vector<DeviceBoard>& boards = run_.boards;
  std::vector<double> values = boards[0].outputs;
  std::size_t at = 0;
  for (const Blob* blob : net_->outputs()) {
    const bool is_share = net_->output_is_share(*blob);
    for (std::int64_t i = 0; i < blob->shape.count() && at < values.size(); ++i, ++at) {
      if (is_share)
        for (std::size_t other = 1; other < boards.size(); ++other)
          values[at] += boards[other].outputs.at(at);
      else if (run_.above.process != 0)
        values[at] = 0;
    }
  }
  return values;
}

void Replica::print_outputs(const std::vector<double>& values) {
  std::size_t at = 0;
  int number = 0;
  for (const Blob* blob : net_->outputs())
    for (std::int64_t i = 0; i < blob->shape.count(); ++i, ++at)
      LOG(INFO) << log_lines::train_output(number++, blob->name, values.at(at), net_->loss_weight(*blob));
}

/// What Caffe does after the last iteration: a snapshot, a last loss and a last test.
void Replica::finish_run(std::int64_t done) {
  const SolverSettings& solver = run_.solver;
  activity_.set_iteration(done);
  if (first()) progress_->clear();
  net_->check_results();
  if (solver.snapshot.after_train && !is_turn(done, solver.snapshot.interval)) snapshot(done);
  if (early_) {
    if (first()) run_.outcome.stopped_early = true;
    return;
  }
  if (is_turn(done, solver.display)) {
    Pass pass = training_pass(done, 0);
    pass.update_statistics = false;
    net_->forward(pass);
    net_->check_results();
    push_loss(net_->loss(), done);
    meet("last loss", done);
    if (first()) {
      gather_losses(done);
      LOG(INFO) << log_lines::last_iteration(done, smoothed_.value());
    }
  }
  if (is_turn(done, solver.test.interval)) test_all(done);
}

void Replica::check_finite(int layer, bool backward) {
  const auto check = [&](const Tensor& values, const std::string& what) {
    if (!values.defined()) return;
    double bad = 0;
    ops::count_not_finite(*context_, values, scalar_check_);
    copy_to_host(*context_, scalar_check_, &bad);
    if (bad > 0)
      runtime_failure(what, " of layer \"", net_->layers()[static_cast<std::size_t>(layer)]->name(),
                      "\" has ", bad, " of ", values.count(), " values that are not finite");
  };
  if (!backward)
    for (const Blob* blob : net_->outputs_of(layer)) check(blob->data, cat("output \"", blob->name, "\""));
  else
    for (const Parameter& parameter : net_->layers()[static_cast<std::size_t>(layer)]->parameters())
      check(parameter.grad, "the parameter gradient");
}

double Replica::mean_absolute(const Tensor& values) {
  double total = 0;
  ops::absolute_sum(*context_, values, scalar_check_);
  copy_to_host(*context_, scalar_check_, &total);
  return values.count() > 0 ? total / static_cast<double>(values.count()) : 0;
}

void Replica::print_debug(int layer, bool backward) {
  const Layer& shown = *net_->layers()[static_cast<std::size_t>(layer)];
  const char* direction = backward ? "    [Backward] Layer " : "    [Forward] Layer ";
  for (const Blob* blob : backward ? net_->inputs_of(layer) : net_->outputs_of(layer)) {
    const Tensor& values = backward ? blob->grad : blob->data;
    if (values.defined())
      LOG(INFO) << direction << shown.name() << (backward ? ", bottom blob " : ", top blob ") << blob->name
                << (backward ? " diff: " : " data: ") << mean_absolute(values);
  }
  for (std::size_t slot = 0; slot < shown.parameters().size(); ++slot) {
    const Tensor& values = backward ? shown.parameters()[slot].grad : shown.parameters()[slot].value;
    if (values.defined())
      LOG(INFO) << direction << shown.name() << ", param blob " << slot << (backward ? " diff: " : " data: ")
                << mean_absolute(values);
  }
}

}  // namespace banyan
