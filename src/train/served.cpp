#include "served.hpp"

#include <glog/logging.h>

#include <algorithm>
#include <cstring>
#include <numeric>

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
  if (const int servers = run.options.parameter_server->servers; servers > 1)
    layout.holders = parallel::share_out(layout.pieces, servers);
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

/// Process numbers.
std::vector<int> workers_among(const Run& run) {
  std::vector<int> workers(static_cast<std::size_t>(workers_of(run)));
  std::iota(workers.begin(), workers.end(), run.options.parameter_server->servers);
  return workers;
}

/// The sum of `parts`, in their order, so that the same differences give the same bits, divided by their
/// number.
template <class T>
void write_mean(const std::vector<const char*>& parts, std::vector<char>& to) {
  T* mean = reinterpret_cast<T*>(to.data());
  const std::size_t count = to.size() / sizeof(T);
  std::copy_n(reinterpret_cast<const T*>(parts[0]), count, mean);
  for (std::size_t k = 1; k < parts.size(); ++k) {
    const T* values = reinterpret_cast<const T*>(parts[k]);
    for (std::size_t i = 0; i < count; ++i) mean[i] += values[i];
  }
  if (parts.size() == 1) return;
  const T share = T(1) / static_cast<T>(parts.size());
  for (std::size_t i = 0; i < count; ++i) mean[i] *= share;
}

void write_mean(DType type, const std::vector<const char*>& parts, std::vector<char>& to) {
  dispatch_float(type, "a difference", [&]<class T>() { write_mean<T>(parts, to); });
}

/// The mean of differences of the pieces that `holder` has becomes the net's gradient. `host` is kept.
void set_gradient(Context& context, Net& net, const std::vector<parallel::Bucket>& buckets,
                  const std::vector<std::size_t>& held, const std::vector<const char*>& differences,
                  std::vector<char>& host) {
  Tensor& gradients = net.flat_gradients();
  std::size_t bytes = 0;
  for (const std::size_t piece : held)
    bytes += static_cast<std::size_t>(buckets[piece].count) * size_of(gradients.dtype());
  host.resize(bytes);
  write_mean(gradients.dtype(), differences, host);
  std::size_t at = 0;
  for (const std::size_t piece : held) {
    Tensor to = gradients.slice(buckets[piece].offset, Shape{buckets[piece].count});
    context.stream().copy(to.raw(), host.data() + at, to.bytes());
    at += to.bytes();
  }
  context.synchronize();
}

/// Of the flat parameters, into `host`, which holds all of them; waits.
void copy_values(Context& context, const Net& net, const std::vector<parallel::Bucket>& buckets,
                 const std::vector<std::size_t>& held, std::vector<char>& host) {
  const Tensor& values = net.parameter_store().flat_values;
  host.resize(values.bytes());
  for (const std::size_t piece : held) {
    const Tensor from = values.slice(buckets[piece].offset, Shape{buckets[piece].count});
    context.stream().copy(
        host.data() + static_cast<std::size_t>(buckets[piece].offset) * size_of(values.dtype()), from.raw(),
        from.bytes());
  }
  context.synchronize();
}

/// Where a server keeps a piece's state.
Tensor state_of(parallel::ServerState what, const parallel::Bucket& bucket, int number, Net& net,
                const Updater& updater) {
  const Shape length{bucket.count};
  switch (what) {
    case parallel::ServerState::values:
      return net.flat_values().slice(bucket.offset, length);
    case parallel::ServerState::gradient:
      return net.flat_gradients().slice(bucket.offset, length);
    case parallel::ServerState::history:
      return updater.histories_of_bucket(number).at(0);
    case parallel::ServerState::history2:
      return updater.histories_of_bucket(number).at(1);
  }
  runtime_failure("a parameter server has no state of this kind");
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

/// Bytes of the parameters that each server updates.
std::string describe_shares(const parallel::ServerLayout& layout) {
  std::string text;
  for (const int server : layout.servers()) {
    std::size_t bytes = 0;
    for (const std::size_t piece : layout.held_by(server)) bytes += layout.piece_bytes(piece);
    text += cat(text.empty() ? "" : ", ", (bytes + 512) / 1024, " KB");
  }
  return cat("The parameters are shared out over ", layout.servers().size(), " servers: ", text);
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
  const int servers = options.parameter_server->servers;
  if (place.processes() <= servers)
    bad_input(
        servers == 1 ? std::string("a parameter server needs") : cat(servers, " parameter servers need"),
        " at least one worker: start ", servers + 1, " processes or more (mpirun -np ", servers + 2, " ...)");
  const std::vector<int>& devices = place.devices_of;
  const auto first = static_cast<std::size_t>(servers);
  for (std::size_t process = 0; process < first; ++process)
    if (devices[process] != 1) runtime_failure("a parameter server has ", devices[process], " devices");
  for (std::size_t process = first + 1; process < devices.size(); ++process)
    if (devices[process] != devices[first])
      bad_input("process ", process, " has ", devices[process], " devices and process ", first, " has ",
                devices[first],
                ": with a parameter server all workers must have as many, because they take batches of one "
                "size");
  if (options.solver.metrics.images > 0)
    bad_input("images of metrics: the train net does not run on a parameter server");
  if (options.solver.snapshot.diff)
    bad_input("snapshot_diff: a parameter server keeps no gradients of an iteration");
  if (servers > 1 && options.solver.metrics.histograms > 0)
    bad_input("histograms of metrics: no process has all parameters of ", servers, " parameter servers");
}

int workers_of(const Run& run) {
  return run.options.uplink->place().processes() - run.options.parameter_server->servers;
}

int devices_of_worker(const Run& run) { return run.options.uplink->place().devices_of.back(); }

std::vector<parallel::Bucket> worker_buckets(const Run& run, const Net& net) {
  // As in synchronous training, but small nets are cut, too: their pieces are shared out over servers.
  constexpr std::int64_t kSmallest = 8 << 10, kLargest = 4 << 20;  // bytes
  const Tensor& values = net.parameter_store().flat_values;
  const std::int64_t total = values.defined() ? values.count() : 0;
  const auto element = static_cast<std::int64_t>(size_of(tensor_type(run.options.precision)));
  const int devices = devices_of_worker(run);
  const std::int64_t wanted =
      std::clamp(total * element / (4 * workers_of(run) * devices), kSmallest, kLargest) / element;
  return parallel::cut_buckets(exchanged_ranges(net.parameters()), total, wanted, devices,
                               run.solver.update.needs_norms());
}

std::vector<parallel::Bucket> server_buckets(const Run& run, const Net& net) {
  constexpr int kDevice = 0, kNobody = -1;
  const parallel::ServerLayout layout = layout_of(run, net);
  std::vector<parallel::Bucket> buckets = worker_buckets(run, net);
  for (std::size_t piece = 0; piece < buckets.size(); ++piece)
    buckets[piece].owner = run.is_server() || layout.holder(piece) == run.process() ? kDevice : kNobody;
  return buckets;
}

Server::Server(Run& run, const Peers& peers, Net& net, Updater& updater, std::int64_t first)
    : run_(run),
      peers_(peers),
      net_(net),
      updater_(updater),
      buckets_(worker_buckets(run, net)),
      layout_(layout_of(run, net)) {
  const ParameterServerOptions& options = *run.options.parameter_server;
  parallel::ServerRules rules;
  rules.wait_seconds = options.wait_seconds;
  rules.staleness = options.staleness;
  rules.silent_seconds = options.silent_seconds;
  rules.lost_seconds = run.options.watchdog_seconds;
  rules.report_seconds = kReportSeconds;
  // As if all before had been rounds of all workers.
  rules.first_task = first * workers_of(run);
  rules.squares = run.solver.clip_norm.has_value();
  rules.names = options.uplink->share(options.uplink->name());
  server_ = std::make_shared<parallel::ParameterServer>(layout_, rules, workers_among(run));
  options.uplink->carry(server_);
  warn_of_synchronized(net, devices_of_worker(run));
  if (options.servers > 1) LOG(INFO) << describe_shares(layout_);
}

Server::~Server() {
  end();
  server_->end_further();
}

void Server::end() {
  if (!std::exchange(ended_, true)) server_->end();
}

std::int64_t Server::finished_tasks() const {
  const parallel::ServerCounts counts = server_->counts();
  return counts.applied + counts.dropped;
}

void Server::publish(std::int64_t iterations) {
  std::vector<std::size_t> pieces = layout_.held_by(0);
  if (!std::exchange(published_, true)) {
    pieces.resize(layout_.pieces.size());
    std::iota(pieces.begin(), pieces.end(), std::size_t{0});
  }
  copy_values(peers_.context(), net_, buckets_, pieces, host_);
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
  std::vector<const char*> values, statistics;
  double loss = 0;
  for (const auto& difference : round) {
    values.push_back(difference.values);
    statistics.push_back(difference.statistics);
    loss += difference.loss;
  }
  set_gradient(peers_.context(), net_, buckets_, layout_.held_by(0), values, host_);
  if (Tensor& to = net_.statistics(); to.defined() && to.count() > 0) {
    host_.resize(to.bytes());
    write_mean(to.dtype(), statistics, host_);
    peers_.context().stream().copy(to.raw(), host_.data(), host_.size());
    peers_.context().synchronize();
  }
  return loss / static_cast<double>(round.size());
}

double Server::sum_of_squares(Context& lane) {
  const std::vector<std::size_t> held = layout_.held_by(0);
  const std::vector<double> mine = updater_.sums_of_squares(lane, {held.begin(), held.end()});
  std::vector<double> all(layout_.pieces.size());
  for (std::size_t k = 0; k < held.size(); ++k) all[held[k]] = mine[k];
  peers_.activity().set_waiting(true);
  server_->wait_for_squares(all, [this] { run_.abort.check(); });
  peers_.activity().set_waiting(false);
  return std::accumulate(all.begin(), all.end(), 0.0);
}

void Server::update_further(std::int64_t iteration, double rate, double factor) {
  server_->update_further(iteration, rate, factor);
}

void Server::fetch(const std::vector<parallel::ServerState>& what) {
  if (layout_.holders.empty()) return;
  Context& context = peers_.context();
  peers_.activity().set_waiting(true);
  server_->fetch(
      what,
      [&](parallel::ServerState state, std::size_t piece, const char* data, std::size_t bytes) {
        Tensor to = state_of(state, buckets_.at(piece), static_cast<int>(piece), net_, updater_);
        if (bytes != to.bytes()) runtime_failure("what another parameter server holds arrived damaged");
        context.stream().copy(to.raw(), data, bytes);
        context.synchronize();
      },
      [this] { run_.abort.check(); });
  peers_.activity().set_waiting(false);
}

void Server::fetch_all() {
  std::vector<parallel::ServerState> what = {parallel::ServerState::values, parallel::ServerState::history};
  if (histories_of(updater_.rule()) == 2) what.push_back(parallel::ServerState::history2);
  fetch(what);
}

void serve_further(Run& run, const Peers& peers, Net& net, Updater& updater) {
  using Kind = parallel::FurtherServer::Order::Kind;
  Context& context = peers.context();
  Activity& activity = peers.activity();
  const std::vector<parallel::Bucket> buckets = worker_buckets(run, net);
  const parallel::ServerLayout layout = layout_of(run, net);
  const std::vector<std::size_t> held = layout.held_by(run.process());
  const std::vector<int> numbers(held.begin(), held.end());
  parallel::WireUplink& uplink = *run.options.parameter_server->uplink;
  const auto server = std::make_shared<parallel::FurtherServer>(
      layout, run.process(), uplink.share(uplink.name()), workers_among(run));
  uplink.carry(server);
  std::vector<char> host;
  const auto publish = [&](std::int64_t version) {
    copy_values(context, net, buckets, held, host);
    server->publish(version, host.data());
  };
  for (;;) {
    activity.enter(Stage::exchange, "orders of the first server");
    activity.set_waiting(true);
    const parallel::FurtherServer::Order order = server->wait_for_order([&run] { run.abort.check(); });
    activity.set_waiting(false);
    switch (order.kind) {
      case Kind::start: {
        std::size_t at = 0;
        for (const std::size_t piece : held) {
          Tensor to = net.flat_values().slice(buckets[piece].offset, Shape{buckets[piece].count});
          context.stream().copy(to.raw(), order.values.data() + at, to.bytes());
          at += to.bytes();
        }
        activity.set_iteration(order.version);
        publish(order.version);
        break;
      }
      case Kind::average:
        activity.enter(Stage::reduce, "differences");
        set_gradient(context, net, buckets, held, order.differences, host);
        if (order.squares) server->tell_squares(updater.sums_of_squares(context, numbers));
        break;
      case Kind::update:
        activity.enter(Stage::update, "parameters");
        updater.begin(context, order.version, order.rate);
        updater.set_gradient_factor(context, order.factor);
        for (const int bucket : numbers) updater.update(context, bucket);
        publish(order.version + 1);
        activity.set_iteration(order.version + 1);
        break;
      case Kind::fetch:
        for (const int bucket : numbers) {
          host.clear();
          append_bytes(context,
                       state_of(order.what, buckets[static_cast<std::size_t>(bucket)], bucket, net, updater),
                       host);
          server->send_state(order.what, static_cast<std::size_t>(bucket), host.data(), host.size());
        }
        break;
      case Kind::end:
        return;
    }
  }
}

std::shared_ptr<parallel::ServerWorker> make_worker(Run& run, const Net& net) {
  const ParameterServerOptions& options = *run.options.parameter_server;
  parallel::ServerWorker::Serving serving;
  serving.lost_seconds = run.options.watchdog_seconds;
  serving.names = options.uplink->share(options.uplink->name());
  auto worker = std::make_shared<parallel::ServerWorker>(layout_of(run, net), serving, options.compression,
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
