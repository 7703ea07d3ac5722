#include "served.hpp"

#include <glog/logging.h>

#include <algorithm>
#include <cstring>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/atomic_file.hpp"
#include "banyan/layers/batch_norm.hpp"
#include "banyan/parallel/wire_uplink.hpp"

namespace banyan {
namespace {

/// How often the log says how the run goes.
constexpr double kReportSeconds = 10;

/// Of the device, in host memory; waits.
void append_bytes(Context& context, const Tensor& tensor, std::vector<char>& to) {
  if (!tensor.defined() || tensor.bytes() == 0) return;
  to.resize(to.size() + tensor.bytes());
  context.stream().copy(to.data() + to.size() - tensor.bytes(), tensor.raw(), tensor.bytes());
  context.synchronize();
}

/// Is it outside of the flat parameters? They travel with every task, the rest with the first one.
bool is_rest(const LearnableParameter& parameter) { return parameter.is_statistic || parameter.offset < 0; }

parallel::ServerLayout layout_of(const Run& run, const Net& net) {
  parallel::ServerLayout layout;
  layout.type = tensor_type(run.options.precision);
  for (const parallel::Bucket& bucket : worker_buckets(run, net)) layout.pieces.push_back(bucket.count);
  std::string alike;
  for (const LearnableParameter& parameter : net.parameters()) {
    alike += cat(parameter.layer, "/", parameter.slot, " ", parameter.offset, " ", parameter.count, "\n");
    if (is_rest(parameter)) layout.rest_bytes += parameter.value.bytes();
  }
  for (const std::int64_t count : layout.pieces) alike += cat(count, " ");
  layout.checksum = io::checksum_of(alike);
  const Tensor& statistics = net.parameter_store().statistics;
  if (statistics.defined()) layout.statistics_bytes = statistics.bytes();
  return layout;
}

/// Batch normalizations whose statistics should be those of all devices.
void warn_of_synchronized(const Net& net, int devices) {
  std::vector<std::string> names;
  for (const auto& layer : net.layers())
    if (const auto* norm = dynamic_cast<const BatchNormalization*>(layer.get()); norm && norm->dialect().sync)
      names.push_back(layer->name());
  if (names.empty()) return;
  LOG(WARNING) << "With a parameter server, batch normalization is synchronized over the " << devices
               << (devices == 1 ? " device" : " devices") << " of each worker, not over all workers: layer "
               << quoted(names[0]) << (names.size() > 1 ? cat(" and ", names.size() - 1, " more") : "");
}

}  // namespace

std::vector<parallel::ParameterRange> exchanged_ranges(const std::vector<LearnableParameter>& parameters) {
  std::vector<parallel::ParameterRange> ranges;
  for (const LearnableParameter& parameter : parameters)
    if (!parameter.is_statistic && parameter.offset >= 0)
      ranges.push_back({parameter.offset, parameter.count, parameter.ready_layer});
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  return ranges;
}

void check_served(const TrainOptions& options) {
  if (!options.parameter_server) return;
  const parallel::UplinkPlace& place = options.parameter_server->uplink->place();
  if (place.processes() < 2)
    bad_input("a parameter server needs at least one worker: start two processes or more (mpirun -np 3 ...)");
  const std::vector<int>& devices = place.devices_of;
  if (devices[0] != 1) runtime_failure("the parameter server has ", devices[0], " devices");
  for (std::size_t process = 2; process < devices.size(); ++process)
    if (devices[process] != devices[1])
      bad_input("process ", process, " has ", devices[process], " devices and process 1 has ", devices[1],
                ": with a parameter server all workers must have as many, because they take batches of one "
                "size");
  if (options.solver.metrics.images > 0)
    bad_input("images of metrics: the train net does not run on a parameter server");
  if (options.solver.snapshot.diff)
    bad_input("snapshot_diff: a parameter server keeps no gradients of an iteration");
}

int devices_of_worker(const Run& run) { return run.options.parameter_server->uplink->place().devices_of[1]; }

std::vector<parallel::Bucket> worker_buckets(const Run& run, const Net& net) {
  const Tensor& values = net.parameter_store().flat_values;
  return parallel::plan_buckets(exchanged_ranges(net.parameters()), values.defined() ? values.count() : 0,
                                size_of(tensor_type(run.options.precision)), devices_of_worker(run),
                                run.options.parameter_server->uplink->place().devices(),
                                run.solver.update.needs_norms());
}

Server::Server(Run& run, const Peers& peers, Net& net, std::int64_t first)
    : run_(run), peers_(peers), net_(net) {
  const ParameterServerOptions& options = *run.options.parameter_server;
  const int workers = options.uplink->place().processes() - 1;
  parallel::ServerRules rules;
  rules.wait_seconds = options.wait_seconds;
  rules.staleness = options.staleness;
  rules.silent_seconds = options.silent_seconds;
  rules.lost_seconds = run.options.watchdog_seconds;
  rules.report_seconds = kReportSeconds;
  // As if all before had been rounds of all workers.
  rules.first_task = first * workers;
  rules.names = options.uplink->share(options.uplink->name());
  server_ = std::make_shared<parallel::ParameterServer>(layout_of(run, net), rules, workers);
  options.uplink->carry(server_);
  warn_of_synchronized(net, devices_of_worker(run));
}

Server::~Server() { end(); }

void Server::end() {
  if (!std::exchange(ended_, true)) server_->end();
}

std::int64_t Server::finished_tasks() const {
  const parallel::ServerCounts counts = server_->counts();
  return counts.applied + counts.dropped;
}

void Server::publish(std::int64_t iterations) {
  host_.clear();
  append_bytes(peers_.context(), net_.flat_values(), host_);
  server_->publish(iterations, host_.data(), [this] {
    std::vector<char> rest;
    for (const LearnableParameter& parameter : net_.parameters())
      if (is_rest(parameter)) append_bytes(peers_.context(), parameter.value, rest);
    return rest;
  });
}

double Server::gather() {
  Activity& activity = peers_.activity();
  activity.enter(Stage::exchange, "differences");
  activity.set_waiting(true);
  const std::vector<parallel::ParameterServer::Difference> round =
      server_->wait_for_round([this] { run_.abort.check(); });
  activity.set_waiting(false);
  activity.enter(Stage::reduce, "differences");
  dispatch_float(net_.flat_gradients().dtype(), "a difference", [&]<class T>() { average<T>(round); });
  double loss = 0;
  for (const auto& difference : round) loss += difference.loss;
  return loss / static_cast<double>(round.size());
}

/// In the order of the processes, so that the same differences give the same bits.
template <class T>
void Server::average(const std::vector<parallel::ParameterServer::Difference>& round) {
  const auto write_mean = [&](auto values_of, Tensor& to) {
    if (!to.defined() || to.count() == 0) return;
    host_.resize(to.bytes());
    T* mean = reinterpret_cast<T*>(host_.data());
    const auto count = static_cast<std::size_t>(to.count());
    std::copy_n(reinterpret_cast<const T*>(values_of(round[0])), count, mean);
    for (std::size_t k = 1; k < round.size(); ++k) {
      const T* values = reinterpret_cast<const T*>(values_of(round[k]));
      for (std::size_t i = 0; i < count; ++i) mean[i] += values[i];
    }
    if (round.size() > 1) {
      const T share = T(1) / static_cast<T>(round.size());
      for (std::size_t i = 0; i < count; ++i) mean[i] *= share;
    }
    peers_.context().stream().copy(to.raw(), host_.data(), host_.size());
    peers_.context().synchronize();
  };
  write_mean([](const auto& difference) { return difference.values; }, net_.flat_gradients());
  write_mean([](const auto& difference) { return difference.statistics; }, net_.statistics());
}

std::shared_ptr<parallel::ServerWorker> make_worker(Run& run, const Net& net) {
  const ParameterServerOptions& options = *run.options.parameter_server;
  options.uplink->share(options.uplink->name());  // the server tells names
  auto worker = std::make_shared<parallel::ServerWorker>(layout_of(run, net), options.compression,
                                                         run.team.devices(), *run.devices[0]);
  options.uplink->carry(worker);
  return worker;
}

void receive_parameters(const parallel::ServerWorker& worker, const Peers& peers, Net& net) {
  Context& context = peers.context();
  Tensor& values = net.flat_values();
  context.stream().copy(values.raw(), worker.values(0), values.bytes());
  const std::vector<char>& rest = worker.rest();
  std::size_t at = 0;
  for (LearnableParameter& parameter : net.parameters()) {
    if (!is_rest(parameter)) continue;
    if (at + parameter.value.bytes() > rest.size()) break;
    context.stream().copy(parameter.value.raw(), rest.data() + at, parameter.value.bytes());
    at += parameter.value.bytes();
  }
  context.synchronize();
}

void take_bucket(const parallel::ServerWorker& worker, Net& net, const parallel::Bucket& bucket, int number,
                 Context& context) {
  Tensor values = net.flat_values().slice(bucket.offset, Shape{bucket.count});
  context.stream().copy(values.raw(), worker.values(number), values.bytes());
}

std::vector<char> statistics_of(Net& net, Context& context) {
  std::vector<char> bytes;
  append_bytes(context, net.statistics(), bytes);
  return bytes;
}

}  // namespace banyan
