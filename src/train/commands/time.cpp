// `trainer time`: layers and passes on one device; on multiple devices, or with --updates, whole training
// iterations, with exchanges, sums and updates. Times come from a timeline in both cases.
#include <glog/logging.h>

#include "banyan/base/error.hpp"
#include "banyan/data/batch_source.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"
#include "banyan/observe/spans.hpp"
#include "banyan/train/commands.hpp"
#include "banyan/train/log_lines.hpp"
#include "banyan/train/solver_nets.hpp"
#include "train/commands/time_report.hpp"
#include "train/missing_data.hpp"

namespace banyan {

namespace {

/// In the first iterations buffers are allocated and libraries choose their algorithms.
constexpr int kWarmUp = 2;

bool stop_asked(const TimeOptions& options) {
  return options.signals != nullptr && options.signals->stop.load();
}

void log_beginning(int iterations) {
  LOG(INFO) << "*** Benchmark begins ***";
  LOG(INFO) << "Testing for " << iterations << " iterations.";
}

void log_report(const TimeReport& report, Phase phase, bool whole_iterations) {
  const bool trains = phase == Phase::train;
  const double n = report.iterations;
  double forward = 0, backward = 0;
  LOG(INFO) << "Average time per layer: ";
  for (const LayerTime& layer : report.layers) {
    LOG(INFO) << log_lines::layer_time(layer.layer, "forward", layer.forward);
    if (trains) LOG(INFO) << log_lines::layer_time(layer.layer, "backward", layer.backward);
    forward += layer.forward;
    backward += layer.backward;
  }
  LOG(INFO) << log_lines::total_time("Average Forward pass", forward);
  if (trains) {
    LOG(INFO) << log_lines::total_time("Average Backward pass", backward);
    LOG(INFO) << log_lines::total_time("Average Forward-Backward", report.elapsed / n);
  }
  LOG(INFO) << log_lines::total_time("Total Time", report.elapsed);
  const auto samples = static_cast<double>(report.samples_per_iteration);
  LOG(INFO) << "Samples per second: " << samples * n / report.elapsed * 1000 << " (batch "
            << report.samples_per_iteration << ")";
  if (whole_iterations)
    for (const std::string& line : share_lines(report)) LOG(INFO) << line;
  LOG(INFO) << "*** Benchmark ends ***";
}

/// Samples in one pass: the length of the first axis of the first layer's first output.
std::int64_t batch_of(Net& net) {
  if (net.layers().empty() || net.outputs_of(0).empty() || net.outputs_of(0)[0]->shape.axes() == 0) return 0;
  return net.outputs_of(0)[0]->shape[0];
}

/// One forward pass and, in training, one backward pass.
void run_once(Model& model, Phase phase, int iteration) {
  model.activity().set_iteration(iteration);
  Pass pass = model.next_pass();
  model.net().zero_gradients();
  model.context().synchronize();
  {
    const StreamSpan span(model.activity(), DeviceTrack::compute, model.context().stream(),
                          SpanKind::iteration);
    model.net().forward(pass);
    if (phase == Phase::train) model.net().backward(pass);
  }
  model.context().synchronize();
}

TimeReport time_passes(const TimeOptions& options, Timeline& timeline) {
  ModelOptions of_model = options.model;
  of_model.missing_data = true;
  of_model.device = options.devices.at(0);
  const Phase phase = of_model.phase;
  Model model(of_model);
  model.activity().trace_to(timeline.add_device(model.device().name()));
  for (auto& layer : model.net().layers())
    if (auto* source = dynamic_cast<data::BatchSource*>(layer.get())) source->trace_to({options.timeline, 0});
  LOG(INFO) << "Performing Forward";
  for (int i = 0; i < kWarmUp; ++i) run_once(model, phase, i);
  LOG(INFO) << "Initial loss: " << model.loss();
  log_beginning(options.model.iterations);
  for (int i = 0; i < options.model.iterations && !stop_asked(options); ++i)
    run_once(model, phase, kWarmUp + i);
  TimeReport report = report_times(timeline, kWarmUp);
  report.samples_per_iteration = batch_of(model.net());
  return report;
}

/// A solver whose updates do all the work and leave the parameters nearly unchanged.
SolverSettings solver_for(const ModelOptions& options) {
  caffe::SolverParameter solver;
  caffe::NetParameter& net = *solver.mutable_train_net_param();
  net = io::read_net_text(options.model, options.unknown_fields);
  io::upgrade_net(net, options.model);
  *net.mutable_state() = state_of(net, caffe::TRAIN, options.level, options.stages);
  std::map<std::string, Shape> shapes = options.shapes;
  drop_missing_files(net, net.state());
  add_missing_data(net, net.state(), true, shapes);
  make_up_data(net, shapes, true, &net.state());
  solver.set_base_lr(1e-6f);
  solver.set_lr_policy("fixed");
  solver.set_momentum(0.9f);
  solver.set_weight_decay(1e-4f);
  solver.set_random_seed(1);
  solver.set_max_iter(kWarmUp + options.iterations);
  solver.set_snapshot_before_train(false);
  solver.set_snapshot_after_train(false);
  return solver_settings(solver, options.model);
}

TimeReport time_training(const TimeOptions& options) {
  if (options.model.phase != Phase::train) {
    if (options.updates) bad_input("--phase=TEST and --updates exclude each other: a test updates nothing");
    bad_input("--phase=TEST is timed on one device: test batches are dealt whole, devices exchange nothing");
  }
  TrainOptions training;
  training.solver = solver_for(options.model);
  training.solver_path = options.model.model;
  training.devices = options.devices;
  training.weights = options.model.weights;
  training.sync_bn = options.sync_bn;
  training.precision = options.model.precision;
  training.threads_per_device = options.model.threads;
  training.tree = options.tree;
  training.pinning = options.pinning;
  training.signals = options.signals;
  training.timeline = options.timeline;
  log_beginning(options.model.iterations);
  const TrainOutcome outcome = run_training(training);
  TimeReport report = report_times(*options.timeline, kWarmUp);
  report.samples_per_iteration = outcome.samples_per_iteration;
  return report;
}

/// Every iteration, as the first device saw it.
void log_iterations(const Timeline& timeline, Phase phase) {
  const auto shares = measure_overlap(spans_of(timeline));
  for (const IterationShares& one : shares[0])
    if (one.iteration >= kWarmUp)
      LOG(INFO) << "Iteration: " << one.iteration - kWarmUp + 1
                << (phase == Phase::train ? " forward-backward time: " : " forward time: ") << one.total
                << " ms.";
}

}  // namespace

std::string time_model(const TimeOptions& asked) {
  TimeOptions options = asked;
  if (!options.timeline) options.timeline = std::make_shared<Timeline>();
  const bool whole_iterations = options.updates || options.devices.size() > 1;
  const TimeReport report =
      whole_iterations ? time_training(options) : time_passes(options, *options.timeline);
  if (report.iterations == 0) {
    LOG(INFO) << "Stopped before an iteration was timed.";
    return "";
  }
  log_iterations(*options.timeline, options.model.phase);
  log_report(report, options.model.phase, whole_iterations);
  LOG_IF(WARNING, report.iterations < options.model.iterations && !stop_asked(options))
      << "Only the first " << report.iterations << " iterations are in these figures: the timeline is full";
  return options.json ? time_json(report) : "";
}

}  // namespace banyan
