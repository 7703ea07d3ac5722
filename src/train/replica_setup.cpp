// Replica: set-up. Nets, data positions, exchange, initial parameters.
#include <algorithm>
#include <set>

#include "banyan/base/error.hpp"
#include "banyan/io/weights.hpp"
#include "banyan/net/parameter_values.hpp"
#include "banyan/observe/spans.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/train/log_lines.hpp"
#include "glog/logging.h"
#include "replica.hpp"

namespace banyan {
namespace {

/// Losses are read late, so that a GPU's host need not wait for it in every iteration.
constexpr std::int64_t kLossSlack = 64;
static_assert(kLossSlack > Replica::kGatherEvery,
              "a loss is read before its place in the ring is used again");
/// Values that travel at once when parameters are handed out at the start; bounds the lane's buffer, which
/// stays: no more than the smallest bucket.
constexpr std::int64_t kBroadcastPiece = 1 << 14;

std::vector<parallel::ParameterRange> exchanged_ranges(const std::vector<LearnableParameter>& parameters) {
  std::vector<parallel::ParameterRange> ranges;
  for (const LearnableParameter& parameter : parameters)
    if (!parameter.is_statistic && parameter.offset >= 0)
      ranges.push_back({parameter.offset, parameter.count, parameter.ready_layer});
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  return ranges;
}

/// The tree with room for all chunks of all buckets.
void build_gradient_tree(Run& run, const std::vector<parallel::Bucket>& buckets) {
  const std::size_t element = size_of(tensor_type(run.options.precision));
  const auto values = static_cast<std::size_t>(
      buckets.empty() ? 0 : buckets.back().offset + buckets.back().count);  // buckets cover all of them
  run.chunk_bytes =
      parallel::chunk_for(*run.tree, run.members[0].device->kind(), values * element, run.link_cost);
  run.gradient_tree = std::make_unique<parallel::DeviceTree>(
      *run.tree, run.members, run.abort, run.spin,
      parallel::GradientSync::slots_for(buckets, element, run.chunk_bytes), run.options.uplink);
}

}  // namespace

Replica::Replica(Run& run, int rank)
    : run_(run),
      rank_(rank),
      device_(*run.devices[static_cast<std::size_t>(rank)]),
      activity_(*run.activities[static_cast<std::size_t>(rank)]),
      smoothed_(run.solver.average_loss) {}

Replica::~Replica() = default;

void Replica::interrupt_sources() {
  for (const SourceLayer& source : sources_) source.source->interrupt();
}

void Replica::drain() noexcept {
  for (const SourceLayer& source : sources_) source.source->stop();
  for (Context* context : {context_.get(), lane_.get()}) try {
      if (context != nullptr) context->synchronize();
    } catch (...) {
      // Work that failed behind the error that ended the run is no news.
    }
}

NetOptions Replica::net_options(const SolverNet& net) const {
  NetOptions options;
  options.phase = net.net.state().phase() == caffe::TRAIN ? Phase::train : Phase::test;
  options.level = net.net.state().level();
  options.stages.assign(net.net.state().stage().begin(), net.net.state().stage().end());
  options.dtype = tensor_type(run_.options.precision);
  options.rank = rank_everywhere();
  options.devices = run_.above.devices;
  options.seed = run_.seed;
  options.sync_batch_norm = run_.options.sync_bn;
  options.origin = net.origin;
  return options;
}

void Replica::build_nets() {
  net_ = std::make_unique<Net>(run_.train_net.net, net_options(run_.train_net), *context_, activity_);
  for (const SolverNet& definition : run_.test_nets) {
    test_nets_.push_back(
        std::make_unique<Net>(definition.net, net_options(definition), *context_, activity_));
    share_parameters(*test_nets_.back(), *net_, true);
  }
  observe_layers();
}

void Replica::observe_layers() {
  const bool prints = first() && run_.solver.debug_info, checks = run_.options.check_nan;
  if (!prints && !checks) return;
  net_->observe_layers({}, [this, prints, checks](int layer, bool backward) {
    if (prints) print_debug(layer, backward);
    if (checks) check_finite(layer, backward);
  });
}

void Replica::collect_sources() {
  const auto collect = [this](const Net& net, const std::string& name) {
    for (const auto& layer : net.layers())
      if (auto* source = dynamic_cast<data::BatchSource*>(layer.get()))
        sources_.push_back({name, layer->name(), source});
  };
  collect(*net_, "train");
  for (std::size_t k = 0; k < test_nets_.size(); ++k) collect(*test_nets_[k], cat("test", k));
  for (const SourceLayer& source : sources_) source.source->set_beat([this] { activity_.beat(); });
  for (const SourceLayer& source : sources_) source.source->trace_to({run_.options.timeline, rank_});
  // From here on the list does not change.
  run_.abort.on_raise([this] { interrupt_sources(); });
}

void Replica::build_exchange() {
  const Tensor& values = net_->flat_values();
  const std::vector<parallel::Bucket> buckets = parallel::plan_buckets(
      exchanged_ranges(net_->parameters()), values.defined() ? values.count() : 0,
      size_of(tensor_type(run_.options.precision)), run_.device_count(), run_.above.devices);
  Context& lane = alone() ? *context_ : *lane_;
  updater_ = std::make_unique<Updater>(*context_, run_.solver, net_->parameters(), buckets, rank_, values,
                                       net_->flat_gradients());
  if (!alone()) {
    if (first()) build_gradient_tree(run_, buckets);
    meet("gradient tree");
  }
  sync_ = std::make_unique<parallel::GradientSync>(
      run_.gradient_tree.get(), rank_, lane, buckets, net_->flat_gradients(), values,
      [this, &lane](int bucket) { update(lane, bucket); }, run_.chunk_bytes);
}

/// The gradients' sum is complete on this device, the bucket's owner.
void Replica::update(Context& lane, int bucket) {
  activity_.enter(Stage::update, "bucket");
  const StreamSpan span(activity_, alone() ? DeviceTrack::compute : DeviceTrack::gradients, lane.stream(),
                        SpanKind::update, "bucket", "", bucket);
  updater_->update(lane, bucket);
}

void Replica::broadcast_in_pieces(Tensor& values, const char* what) {
  for (std::int64_t at = 0; at < values.count(); at += kBroadcastPiece) {
    Tensor piece = values.slice(at, Shape{std::min(kBroadcastPiece, values.count() - at)});
    exchange_->broadcast(*context_, piece, Ticket{what, "start"});
  }
}

void Replica::share_initial_parameters() {
  if (alone()) return;
  for (LearnableParameter& parameter : net_->parameters())
    broadcast_in_pieces(parameter.value, parameter.layer.c_str());
}

void Replica::load_initial_state() {
  if (first()) {
    fill_parameters(*net_);
    for (const std::string& file : run_.options.weights) {
      LOG(INFO) << log_lines::finetuning(file);
      load_weights(*net_, io::read_weights(file), file);
    }
  }
  if (run_.resume) restore_state();
  share_initial_parameters();
}

void Replica::restore_state() {
  const SolverSnapshot& saved = *run_.resume;
  const caffe::SolverState& state = saved.state;
  if (first()) {
    load_weights(*net_, io::read_weights(saved.model_path), saved.model_path);
    LOG(INFO) << log_lines::restoring_history();
  }
  start_ = state.iter();
  rate_->restore(state);
  updater_->restore(*context_, state, saved.state_path);
  smoothed_.restore(state.banyan());
  for (const auto& position : state.banyan().source())
    for (const SourceLayer& source : sources_)
      if (source.net == position.net() && source.layer == position.layer())
        source.source->seek(position.consumed());
}

/// Samples that this device takes in one forward pass.
std::int64_t Replica::share() const {
  for (int layer = 0; layer < static_cast<int>(net_->layers().size()); ++layer) {
    const Blobs outputs = net_->outputs_of(layer);
    if (net_->layers()[static_cast<std::size_t>(layer)]->traits().source && !outputs.empty() &&
        outputs[0]->shape.axes() > 0)
      return outputs[0]->shape[0];
  }
  return 0;
}

/// Shares may differ, so every device needs all of them to come to the same rate.
void Replica::set_up_rate() {
  run_.boards[static_cast<std::size_t>(rank_)].share = share();
  meet("batch");
  std::int64_t batch = 0;
  for (const DeviceBoard& board : run_.boards) batch += board.share;
  batch = static_cast<std::int64_t>(sum_everywhere({static_cast<double>(batch)}, "batch")[0]);
  samples_per_iteration_ = batch * run_.solver.iter_size;
  if (first()) run_.outcome.samples_per_iteration = samples_per_iteration_;
  rate_ = std::make_unique<LearningRate>(run_.solver, learning_rate_scale(run_.solver, 1, batch), first());
}

void Replica::set_up() {
  device_.make_current();
  activity_.enter(Stage::set_up);
  context_ = std::make_unique<Context>(device_, "compute");
  if (!alone()) {
    lane_ = std::make_unique<Context>(device_, "gradients");
    exchange_ = std::make_unique<parallel::StatisticsExchange>(*run_.statistics_trees, rank_);
  }
  scalar_ = Tensor(device_, Shape{1}, DType::f64);
  scalar_check_ = Tensor(device_, Shape{1}, DType::f64);
  if (run_.joined()) report_ = Tensor(device_, Shape{3}, DType::f64);
  build_nets();
  collect_sources();
  set_up_rate();
  losses_ = std::make_unique<LossRing>(device_, run_.solver.average_loss + kLossSlack);
  for (auto& end : ends_) end = device_.create_event();
  build_exchange();
  load_initial_state();
  context_->synchronize();
}

}  // namespace banyan
