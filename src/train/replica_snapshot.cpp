// Replica: snapshots. Owners hand in their pieces of the optimizer's state, rank 0 writes.
#include "banyan/net/parameter_values.hpp"
#include "banyan/observe/spans.hpp"
#include "banyan/train/snapshot_files.hpp"
#include "glog/logging.h"
#include "replica.hpp"

namespace banyan {

caffe::SolverState Replica::describe_state() const {
  caffe::SolverState state;
  rate_->save(state);
  caffe::BanyanState& ours = *state.mutable_banyan();
  ours.set_version(BANYAN_VERSION);
  ours.set_seed(run_.seed);
  ours.set_devices(run_.above.devices);
  ours.set_device_kind(device_.kind() == DeviceKind::cpu ? "cpu" : "gpu");
  ours.set_threads_per_device(device_.threads());
  ours.set_tree(run_.tree->to_string());
  ours.set_precision(name_of(run_.options.precision));
  save_kernels(net_->kernel_choices(), ours);
  for (const SourceLayer& source : sources_) {
    auto& position = *ours.add_source();
    position.set_net(source.net);
    position.set_layer(source.layer);
    position.set_consumed(source.source->consumed());
  }
  smoothed_.save(ours);
  return state;
}

/// Rank 0's own buffer holds partial sums where it owns no bucket; the next iteration clears it.
void Replica::take_summed_gradients() {
  if (run_.gradients.empty()) return;
  context_->stream().copy(net_->flat_gradients().raw(), run_.gradients.data(), run_.gradients.size());
  context_->synchronize();
  run_.gradients.clear();
}

void Replica::snapshot(std::int64_t iteration) {
  activity_.enter(Stage::snapshot);
  const HostSpan span(activity_, SpanKind::snapshot);
  net_->check_results();
  sum_everywhere({0}, "snapshot");  // all other processes have checked theirs too
  if (first()) {
    if (progress_) progress_->clear();
    gather_losses(iteration - 1);
    note_last_loss(iteration);
    if (run_.solver.snapshot.diff && !alone()) run_.gradients.resize(net_->flat_gradients().bytes());
    run_.history =
        prepare_history(net_->parameters(), run_.solver.update.rule, tensor_type(run_.options.precision));
  }
  if (run_.above.process != 0) return;  // process 0 has all that others have
  meet("snapshot", iteration);
  Context& lane = alone() ? *context_ : *lane_;
  updater_->save(lane, run_.history);
  if (!run_.gradients.empty()) updater_->save_gradients(lane, run_.gradients.data());
  meet("snapshot parts", iteration);
  if (first()) {
    caffe::SolverState state = describe_state();
    for (caffe::BlobProto& blob : run_.history) state.add_history()->Swap(&blob);
    run_.history.clear();
    take_summed_gradients();
    write_snapshot(run_.prefix, iteration, to_proto(*net_, run_.solver.snapshot.diff), std::move(state),
                   [this] { activity_.beat(); });
  }
  meet("snapshot written", iteration);
  activity_.beat();
}

}  // namespace banyan
