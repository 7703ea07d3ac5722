#include "snapshots.hpp"

#include <glog/logging.h>

#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/io/atomic_file.hpp"
#include "banyan/io/weights.hpp"
#include "banyan/net/parameter_values.hpp"
#include "banyan/observe/spans.hpp"
#include "banyan/train/kernel_differences.hpp"
#include "banyan/train/log_lines.hpp"
#include "io/hdf5_model.hpp"

namespace banyan {

namespace {

/// What decides on names in a snapshot: layers, and their numbers of blobs.
caffe::NetParameter names_of(const Net& net) {
  caffe::NetParameter names;
  for (const auto& layer : net.layers()) {
    caffe::LayerParameter& entry = *names.add_layer();
    entry.set_name(layer->name());
    *entry.mutable_param() = layer->parameter().param();
    for (std::size_t i = 0; i < layer->parameters().size(); ++i) entry.add_blobs();
  }
  return names;
}

}  // namespace

Snapshots::Snapshots(SnapshotPlan& plan, Peers& peers, Context& lane, const SnapshotParts& parts)
    : plan_(plan), peers_(peers), lane_(lane), parts_(parts) {
  if (plan.format == SnapshotFormat::hdf5) io::check_hdf5_names(names_of(parts.net));
  for (const auto& layer : parts.net.layers()) carries_ = carries_ || !layer->carried().empty();
}

caffe::SolverState Snapshots::describe_state() const {
  caffe::SolverState state;
  parts_.rate.save(state);
  caffe::BanyanState& ours = *state.mutable_banyan();
  ours = plan_.run;
  save_kernels(parts_.net.kernel_choices(), ours);
  parts_.sources.save(ours);
  parts_.losses.save(ours);
  return state;
}

/// The first device's own buffer holds partial sums where it owns no bucket; the next iteration clears it.
void Snapshots::take_summed_gradients() {
  if (plan_.gradients.empty()) return;
  Context& context = peers_.context();
  context.stream().copy(parts_.net.flat_gradients().raw(), plan_.gradients.data(), plan_.gradients.size());
  context.synchronize();
  plan_.gradients.clear();
}

std::optional<SnapshotPaths> Snapshots::save(std::int64_t iterations) {
  peers_.activity().enter(Stage::snapshot);
  const HostSpan span(peers_.activity(), SpanKind::snapshot);
  parts_.net.check_results();
  compare_parameters();
  if (peers_.in_first_process()) return save_here(iterations);
  if (carries_) send_carried(iterations);
  return std::nullopt;
}

/// All processes have checked their results, and all have the same parameters: they update their own with the
/// same sums, so that anything else is a fault of a machine, or different programs.
void Snapshots::compare_parameters() const {
  if (!peers_.joined()) return;
  double checksum = 0;
  const Tensor& values = parts_.net.flat_values();
  if (peers_.first() && values.defined()) {
    std::string bytes(values.bytes(), 0);
    peers_.context().stream().copy(bytes.data(), values.raw(), bytes.size());
    peers_.context().synchronize();
    checksum = io::checksum_of(bytes);
  }
  const double first = peers_.sum_processes({peers_.in_first_process() ? checksum : 0}, "snapshot")[0];
  if (peers_.first() && checksum != first)
    runtime_failure(
        "the parameters of this process are no longer those of process 0: the processes run different "
        "programs, or on different processors, or a machine is faulty");
}

/// What only this process knows.
void Snapshots::send_carried(std::int64_t iterations) {
  peers_.board().carried = read_carried(parts_.net, peers_.context(), peers_.rank_everywhere());
  peers_.meet("snapshot parts", iterations);
  if (peers_.first()) gather_carried();
  peers_.meet("snapshot sent", iterations);
}

/// The states that the layers of all devices carry, of all processes.
caffe::BanyanState Snapshots::gather_carried() {
  caffe::BanyanState mine, all;
  for (DeviceBoard& board : peers_.team().boards) {
    for (auto& carried : board.carried) mine.add_carried()->Swap(&carried);
    board.carried.clear();
  }
  if (!carries_) return mine;
  for (const std::string& packed : peers_.share(mine.SerializeAsString())) {
    caffe::BanyanState of_process;
    if (!of_process.ParseFromString(packed))
      runtime_failure("the carried states of another process arrived damaged");
    all.MergeFrom(of_process);
  }
  return all;
}

std::optional<SnapshotPaths> Snapshots::save_here(std::int64_t iterations) {
  std::optional<SnapshotPaths> paths;
  if (peers_.first()) {
    if (plan_.diff && !peers_.alone()) plan_.gradients.resize(parts_.net.flat_gradients().bytes());
    plan_.history =
        prepare_history(parts_.net.parameters(), parts_.updater.rule(), parts_.net.options().dtype);
    plan_.cosines.assign(parts_.updater.follows_cosines() ? parts_.net.parameters().size() : 0, 0);
  }
  peers_.meet("snapshot", iterations);
  parts_.updater.save(lane_, plan_.history);
  if (parts_.updater.follows_cosines()) parts_.updater.save_cosines(lane_, plan_.cosines);
  peers_.board().carried = read_carried(parts_.net, peers_.context(), peers_.rank_everywhere());
  if (!plan_.gradients.empty()) parts_.updater.save_gradients(lane_, plan_.gradients.data());
  peers_.meet("snapshot parts", iterations);
  if (peers_.first()) paths = write(iterations);
  peers_.meet("snapshot written", iterations);
  peers_.activity().beat();
  return paths;
}

SnapshotPaths Snapshots::write(std::int64_t iterations) {
  caffe::SolverState state = describe_state();
  for (caffe::BlobProto& blob : plan_.history) state.add_history()->Swap(&blob);
  plan_.history.clear();
  state.mutable_banyan()->MergeFrom(gather_carried());
  state.mutable_banyan()->mutable_larc_cosine()->Assign(plan_.cosines.begin(), plan_.cosines.end());
  take_summed_gradients();
  return write_snapshot(
      plan_.prefix, iterations, to_proto(parts_.net, plan_.diff), std::move(state),
      [this] { peers_.activity().beat(); }, plan_.format);
}

std::int64_t Snapshots::restore(const SolverSnapshot& saved) {
  const caffe::SolverState& state = saved.state;
  if (peers_.first() && peers_.in_first_process()) {
    load_weights(parts_.net, io::read_weights(saved.model_path), saved.model_path);
    LOG(INFO) << log_lines::restoring_history();
    if (parts_.updater.follows_cosines() && state.banyan().larc_cosine().empty())
      LOG(WARNING) << "The state holds no cosines of larc_turbo: they begin at 0";
  }
  parts_.rate.restore(state);
  parts_.updater.restore(peers_.context(), state, saved.state_path);
  parts_.losses.restore(state.banyan());
  parts_.sources.restore(state.banyan());
  restore_carried(parts_.net, peers_.context(), state.banyan(), peers_.rank_everywhere(), peers_.devices());
  return state.iter();
}

}  // namespace banyan
