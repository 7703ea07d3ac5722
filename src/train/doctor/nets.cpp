#include "nets.hpp"

#include <algorithm>
#include <filesystem>
#include <map>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/video.hpp"
#include "banyan/net/filter.hpp"
#include "banyan/train/device_choice.hpp"
#include "banyan/train/model.hpp"
#include "train/missing_data.hpp"

namespace banyan::doctor {
namespace {

constexpr const char* kNetRemedy = "trainer check FILE and trainer summary --model=NET show more";

std::string name_of(int test) { return test < 0 ? std::string("train net") : cat("test net #", test); }

/// The first source's first axis.
std::int64_t batch_of(const Net& net) {
  for (int layer = 0; layer < static_cast<int>(net.layers().size()); ++layer) {
    const Blobs outputs = net.outputs_of(layer);
    if (net.layers()[static_cast<std::size_t>(layer)]->traits().source && !outputs.empty() &&
        outputs[0]->shape.axes() > 0)
      return outputs[0]->shape[0];
  }
  return 0;
}

/// Shapes of the sources' outputs with another batch: where the first axis is the batch it changes.
std::map<std::string, Shape> shapes_with(const BuiltNet& built, std::int64_t batch) {
  std::map<std::string, Shape> shapes;
  for (int layer = 0; layer < static_cast<int>(built.net->layers().size()); ++layer) {
    const Layer& source = *built.net->layers()[static_cast<std::size_t>(layer)];
    const Blobs outputs = built.net->outputs_of(layer);
    for (int k = 0; source.traits().source && k < source.parameter().top_size(); ++k) {
      std::vector<std::int64_t> dims = outputs[static_cast<std::size_t>(k)]->shape.dims();
      if (!dims.empty() && dims[0] == built.batch) dims[0] = batch;
      shapes[source.parameter().top(k)] = Shape(dims);
    }
  }
  return shapes;
}

/// Whether all sources of the net exist; an error for each that does not.
bool has_sources(const std::string& name, const caffe::NetParameter& net, Findings& findings) {
  bool all = true;
  const caffe::NetParameter kept = filter_net(net, net.state());
  for (const caffe::LayerParameter& layer : kept.layer()) {
    if (layer.bottom_size() > 0 || layer.top_size() == 0) continue;
    const std::string source = missing_source(layer);
    if (source.empty()) continue;
    all = false;
    const bool camera = data::reads_camera(layer);
    std::string remedy =
        camera ? "read a file: video_type: VIDEO with video_file" : "make it, or correct source";
    if (!camera && source[0] != '/') {
      std::error_code ignored;
      remedy += cat("; it is relative to the folder where the run starts, here ",
                    std::filesystem::current_path(ignored).string());
    }
    findings.fail(cat(name, " ", quoted(layer.name())), cat(layer.type(), ": ", why_no_source(layer, source)),
                  remedy);
  }
  return all;
}

}  // namespace

Nets::Nets(const TrainOptions& options, Findings& findings) : options_(options) {
  device_ = make_device(options.devices.at(0), options.threads_per_device, options.precision);
  device_->make_current();
  context_ = std::make_unique<Context>(*device_);
  std::optional<SolverNet> training;
  std::vector<SolverNet> tests;
  complete_ = findings.attempt("train net", kNetRemedy,
                               [&] { training = train_net_of(options.solver, options.solver_path); });
  if (!complete_) return;
  complete_ = findings.attempt("test nets", kNetRemedy,
                               [&] { tests = test_nets_of(options.solver, options.solver_path); });
  bool sources = has_sources("train", training->net, findings);
  for (int number = 0; number < static_cast<int>(tests.size()); ++number)
    sources = has_sources(name_of(number), tests[static_cast<std::size_t>(number)].net, findings) && sources;
  if (!sources ||
      !findings.attempt("train net", kNetRemedy, [&] { add(-1, std::move(*training), findings); })) {
    complete_ = false;
    return;
  }
  for (int number = 0; number < static_cast<int>(tests.size()); ++number)
    if (!findings.attempt(name_of(number), kNetRemedy,
                          [&] { add(number, std::move(tests[static_cast<std::size_t>(number)]), findings); }))
      complete_ = false;
}

std::unique_ptr<Net> Nets::build(const caffe::NetParameter& net, const std::string& origin,
                                 Activity& activity) const {
  NetOptions how;
  how.phase = phase_of(net.state().phase());
  how.level = net.state().level();
  how.stages.assign(net.state().stage().begin(), net.state().stage().end());
  how.dtype = tensor_type(options_.precision);
  how.devices = static_cast<int>(options_.devices.size());
  how.sync_batch_norm = options_.sync_bn;
  how.keep_gradients = keeps_gradients(options_);
  how.shapes_only = true;
  how.origin = origin;
  return std::make_unique<Net>(net, how, *context_, activity);
}

void Nets::add(int test, SolverNet definition, Findings& findings) {
  const std::string name = name_of(test);
  BuiltNet built{name, std::move(definition), std::make_unique<Activity>(device_->name()), nullptr, 0, test};
  built.net = build(built.definition.net, built.definition.origin, *built.activity);
  built.batch = batch_of(*built.net);
  std::int64_t parameters = 0;
  for (const LearnableParameter& parameter : built.net->parameters()) parameters += parameter.count;
  std::string of_zeros, of_nothing;
  for (const auto& layer : built.net->layers())
    if (layer->traits().filled_by_user)
      (layer->traits().needs_values ? of_nothing : of_zeros) = layer->name();
  const std::string text =
      cat(quoted(built.net->name()), ": ", count_text(built.net->layers().size(), "layer"), ", ",
          count_text(static_cast<std::uint64_t>(parameters), "parameter"), ", batch ", built.batch,
          built.net->options().phase == Phase::train ? " per device" : "");
  const Figures figures = {{"layers", cat(built.net->layers().size())},
                           {"parameters", cat(parameters)},
                           {"batch", cat(built.batch)}};
  if (!of_nothing.empty() || !of_zeros.empty())
    findings.warn(name,
                  of_nothing.empty()
                      ? cat(text, "; layer ", quoted(of_zeros), " holds zeros: the trainer fills none")
                      : cat(text, "; layer ", quoted(of_nothing),
                            " is filled by a program: the trainer refuses to run without its values"),
                  "read a data set, or train from a program of your own (Session::set_input)", figures);
  else
    findings.ok(name, text, figures);
  nets_.push_back(std::move(built));
}

std::int64_t Nets::fixed_bytes() const {
  const auto element = static_cast<std::int64_t>(size_of(tensor_type(options_.precision)));
  const auto devices = static_cast<std::int64_t>(options_.devices.size());
  std::int64_t all = 0, learning = 0;
  for (const LearnableParameter& parameter : train().net->parameters()) {
    all += parameter.count;
    if (parameter.learns()) learning += parameter.count;
  }
  // Each device keeps the history of its own buckets.
  const std::int64_t history = histories_of(options_.solver.update.rule) * learning / devices;
  const std::int64_t gradients = keeps_gradients(options_) ? learning : 0;  // else in the plan
  return element * (all + gradients + history);
}

std::int64_t Nets::activation_bytes() const {
  std::int64_t bytes = 0;
  for (const BuiltNet& built : nets_) bytes += built.net->plan().bytes;
  return bytes;
}

std::int64_t Nets::train_bytes_with(std::int64_t batch) const {
  caffe::NetParameter net = train().definition.net;
  make_up_data(net, shapes_with(train(), batch), false);
  Activity activity(device_->name());
  return build(net, train().definition.origin, activity)->plan().bytes;
}

std::optional<std::int64_t> Nets::largest_batch(std::int64_t bytes, double more, std::string& why) const {
  const std::int64_t own = train().batch;
  if (own <= 0) {
    why = "the net has no layer that makes batches";
    return std::nullopt;
  }
  const std::int64_t others = fixed_bytes() + activation_bytes() - train().net->plan().bytes;
  const auto fits = [&](std::int64_t batch) {
    return static_cast<double>(others + train_bytes_with(batch)) + more * static_cast<double>(batch) <=
           static_cast<double>(bytes);
  };
  try {
    // Activations grow nearly evenly with the batch: the line through two plans tells where the limit is, and
    // a plan there corrects it.
    constexpr double kMost = 1e9;
    const std::int64_t once = train_bytes_with(own);
    const double room = static_cast<double>(bytes - others - once) - more * static_cast<double>(own);
    std::int64_t batch = 2 * own;
    for (int round = 0; round < 3 && batch != own; ++round) {
      const double slope =
          static_cast<double>(train_bytes_with(batch) - once) / static_cast<double>(batch - own) + more;
      const double estimate = slope > 0 ? static_cast<double>(own) + room / slope : kMost;
      batch = static_cast<std::int64_t>(std::clamp(estimate, 0.0, kMost));
    }
    while (batch > 0 && !fits(batch)) batch -= std::max<std::int64_t>(1, batch / 64);
    return std::max<std::int64_t>(batch, 0);
  } catch (const Error& error) {
    why = error.message();
    return std::nullopt;
  }
}

}  // namespace banyan::doctor
