// Replica: the training loop of one device (FORMAT C.5 gives Caffe's order of events).
#include "replica.hpp"

#include <algorithm>

#include "banyan/observe/spans.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/train/log_lines.hpp"
#include "glog/logging.h"

namespace banyan {

void Replica::train() {
  peers_->meet("start");
  losses_->begin(start_);
  display_->begin(start_, samples_);
  std::int64_t done = start_;
  bool stopped = false;
  while (done < run_.solver.max_iter && !stopped) stopped = !iterate(done++);
  finish(std::min<std::int64_t>(done, run_.solver.max_iter), stopped);
}

Pass Replica::training_pass(std::int64_t iteration, int sub) {
  Pass pass;
  pass.context = context_.get();
  pass.iteration = iteration;
  pass.draw = iteration * run_.solver.iter_size + sub;
  pass.seed = run_.seed;
  pass.samples = {peers_->rank_everywhere(), peers_->devices()};
  pass.exchange = peers_->exchange();
  return pass;
}

/// One iteration; false: stop after it.
bool Replica::iterate(std::int64_t iteration) {
  activity_.set_iteration(iteration);
  const SolverSettings& solver = run_.solver;
  if (is_turn(iteration, solver.test.interval) && (iteration > 0 || solver.test.initialization))
    test(iteration);
  requests_->poll(iteration);
  Event& end = *ends_[static_cast<std::size_t>(iteration % kRunAhead)];
  end.synchronize();  // of iteration - kRunAhead
  note_last_loss(iteration);
  const double rate = rate_->rate(iteration);
  updater_->begin(lane(), iteration, rate);
  {
    const StreamSpan span(activity_, DeviceTrack::compute, context_->stream(), SpanKind::iteration);
    forward_backward(iteration);
    exchange_and_update(iteration);
  }
  context_->stream().record(end);
  if (iteration == start_) compare_kernels();
  // Where nothing is learned there is no exchange that would tell of the others' requests.
  if (!peers_->joined() && !net_->flat_values().defined()) peers_->meet("iteration", iteration);
  const Wishes wishes = requests_->of_everybody(iteration);
  display_->show(iteration, rate);
  const std::int64_t done = iteration + 1;
  activity_.set_iteration(done);
  if (is_turn(done, solver.snapshot.interval) || wishes.snapshot) snapshot(done);
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

void Replica::exchange_and_update(std::int64_t iteration) {
  if (clipping_) clipping_->finish(iteration);
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

/// After the first iteration, in which all kernels of its shapes were chosen. The lists that are chosen from
/// follow from shapes and the model of the GPU, so what differs is GPUs or versions of libraries.
void Replica::compare_kernels() {
  peers_->board().kernels = net_->kernel_choices();
  peers_->meet("kernels");
  if (!peers_->first()) return;
  const std::vector<DeviceBoard>& boards = peers_->boards();
  const KernelChoices& mine = peers_->board().kernels;
  for (std::size_t other = 1; other < boards.size(); ++other)
    if (const auto difference =
            kernel_difference(device_.name(), mine, run_.devices[other]->name(), boards[other].kernels))
      LOG(WARNING) << *difference;
  if (!run_.resume) return;
  if (const auto difference = kernel_difference("this run", mine, "the run that is resumed",
                                                saved_kernels(run_.resume->state.banyan())))
    LOG(WARNING) << *difference;
}

void Replica::test(std::int64_t iteration) {
  if (tests_->empty()) return;
  display_->clear();
  tests_->run(iteration);
}

void Replica::snapshot(std::int64_t done) {
  display_->clear();
  if (peers_->first()) {
    losses_->gather(done - 1);
    note_last_loss(done);
  }
  snapshots_->save(done);
}

/// What Caffe does after the last iteration: a snapshot, a last loss and a last test.
void Replica::finish(std::int64_t done, bool early) {
  const SolverSettings& solver = run_.solver;
  activity_.set_iteration(done);
  display_->clear();
  net_->check_results();
  if (solver.snapshot.after_train && !is_turn(done, solver.snapshot.interval)) snapshot(done);
  if (early) {
    if (peers_->first()) run_.outcome.stopped_early = true;
    return;
  }
  if (display_->is_turn(done)) show_last_loss(done);
  if (is_turn(done, solver.test.interval)) test(done);
}

void Replica::show_last_loss(std::int64_t done) {
  Pass pass = training_pass(done, 0);
  pass.update_statistics = false;
  net_->forward(pass);
  net_->check_results();
  push_loss(net_->loss(), done);
  peers_->meet("last loss", done);
  if (!peers_->first()) return;
  losses_->gather(done);
  LOG(INFO) << log_lines::last_iteration(done, losses_->smoothed());
}

}  // namespace banyan
