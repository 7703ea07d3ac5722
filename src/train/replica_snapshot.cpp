// Replica: snapshots. Owners hand in their pieces of the optimizer's state, rank 0 writes.
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
  ours.set_devices(run_.device_count());
  ours.set_device_kind(device_.kind() == DeviceKind::cpu ? "cpu" : "gpu");
  ours.set_threads_per_device(device_.threads());
  ours.set_tree(run_.tree->to_string());
  ours.set_precision(name_of(run_.options.precision));
  for (const SourceLayer& source : sources_) {
    auto& position = *ours.add_source();
    position.set_net(source.net);
    position.set_layer(source.layer);
    position.set_consumed(source.source->consumed());
  }
  smoothed_.save(ours);
  return state;
}

void Replica::snapshot(std::int64_t iteration) {
  activity_.enter(Stage::snapshot);
  if (first()) {
    if (progress_) progress_->clear();
    gather_losses(iteration - 1);
    run_.history = prepare_history(net_->parameters(), run_.solver.type(), run_.options.precision);
  }
  run_.meeting.meet(rank_, activity_);
  updater_->save(alone() ? *context_ : *lane_, run_.history);
  run_.meeting.meet(rank_, activity_);
  if (first()) {
    caffe::SolverState state = describe_state();
    for (caffe::BlobProto& blob : run_.history) state.add_history()->Swap(&blob);
    run_.history.clear();
    write_snapshot(run_.prefix, iteration, net_->to_proto(run_.solver.snapshot_diff()), std::move(state));
  }
  run_.meeting.meet(rank_, activity_);
  activity_.beat();
}

}  // namespace banyan
