#include "served.hpp"

#include <glog/logging.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "banyan/base/contains.hpp"
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

/// Servers of all kinds come first.
int servers_of(const ParameterServerOptions& options) { return options.servers + options.inner; }

/// The workers below an inner server: neighbouring processes, of which there are about as many everywhere.
std::vector<int> workers_below(const Run& run, int inner) {
  const ParameterServerOptions& options = *run.options.parameter_server;
  std::vector<int> workers;
  for (int k = (inner - 1) * workers_of(run) / options.inner; k < inner * workers_of(run) / options.inner;
       ++k)
    workers.push_back(servers_of(options) + k);
  return workers;
}

/// The server that hands out tasks to this process.
int parent_of(const Run& run) {
  for (int inner = 1; inner <= run.options.parameter_server->inner; ++inner)
    if (contains(workers_below(run, inner), run.process())) return inner;
  return 0;
}

parallel::ServerLayout layout_of(const Run& run, const Net& net) {
  parallel::ServerLayout layout;
  layout.type = tensor_type(run.options.precision);
  for (const parallel::Bucket& bucket : worker_buckets(run, net)) layout.pieces.push_back(bucket.count);
  if (const int servers = run.options.parameter_server->servers; servers > 1)
    layout.holders = parallel::share_out(layout.pieces, servers);
  if (const int parent = parent_of(run); parent > 0) layout.holders.assign(layout.pieces.size(), parent);
  std::string alike;
  for (const LearnableParameter& parameter : net.parameters()) {
    alike += cat(parameter.layer, "/", parameter.slot, " ", parameter.offset, " ", parameter.count, "\n");
    if (is_rest(parameter)) layout.rest_bytes += parameter.value.bytes();
  }
  for (const std::int64_t count : layout.pieces) alike += cat(count, " ");
  layout.checksum = io::checksum_of(alike);
  const Tensor& statistics = net.parameter_store().statistics;
  if (statistics.defined()) layout.statistics_bytes = statistics.bytes();
  layout.check_sizes();
  return layout;
}

/// Processes from `first` on.
std::vector<int> processes_from(int first, int count) {
  std::vector<int> processes(static_cast<std::size_t>(count));
  std::iota(processes.begin(), processes.end(), first);
  return processes;
}

/// Spares included.
std::vector<int> all_workers(const Run& run) {
  const ParameterServerOptions& options = *run.options.parameter_server;
  return processes_from(servers_of(options), workers_of(run) + options.spares);
}

parallel::ServerRules rules_of(const Run& run, std::int64_t first) {
  const ParameterServerOptions& options = *run.options.parameter_server;
  parallel::ServerRules rules;
  rules.wait_seconds = options.wait_seconds;
  rules.staleness = options.staleness;
  rules.silent_seconds = options.silent_seconds;
  rules.lost_seconds = run.options.watchdog_seconds;
  // As if all before had been rounds of all workers.
  rules.first_task = first * workers_of(run);
  rules.spares = options.spares;
  rules.names = run.names;
  rules.process = run.process();
  return rules;
}

/// Both ends of an inner server.
class InnerProtocol : public parallel::WireProtocol {
 public:
  InnerProtocol(std::shared_ptr<parallel::ServerWorker> upwards,
                std::shared_ptr<parallel::ParameterServer> downwards)
      : upwards_(std::move(upwards)), downwards_(std::move(downwards)) {}
  void join(parallel::Wire& wire, std::function<void()> wake) override {
    upwards_->join(wire, wake);
    downwards_->join(wire, wake);
  }
  bool step(Clock::time_point now, const Silence& silence) override {
    const bool up = upwards_->step(now, silence), down = downwards_->step(now, silence);
    upwards_->tell_forsaken(downwards_->forsaken());
    return up || down;
  }
  void lost(int process, const std::string& how) override { downwards_->lost(process, how); }
  int server() const override { return upwards_->server(); }
  bool waits() const override { return upwards_->waits() || downwards_->waits(); }
  bool quiet() const override { return upwards_->quiet() && downwards_->quiet(); }

 private:
  const std::shared_ptr<parallel::ServerWorker> upwards_;
  const std::shared_ptr<parallel::ParameterServer> downwards_;
};

/// The sum of `parts`, in their order, so that the same differences give the same bits, divided by `divisor`.
template <class T>
void write_mean(const std::vector<const char*>& parts, int divisor, std::vector<char>& to) {
  T* mean = reinterpret_cast<T*>(to.data());
  const std::size_t count = to.size() / sizeof(T);
  std::copy_n(reinterpret_cast<const T*>(parts[0]), count, mean);
  for (std::size_t k = 1; k < parts.size(); ++k) {
    const T* values = reinterpret_cast<const T*>(parts[k]);
    for (std::size_t i = 0; i < count; ++i) mean[i] += values[i];
  }
  if (divisor == 1) return;
  const T share = T(1) / static_cast<T>(divisor);
  for (std::size_t i = 0; i < count; ++i) mean[i] *= share;
}

void write_mean(DType type, const std::vector<const char*>& parts, int divisor, std::vector<char>& to) {
  dispatch_float(type, "a difference", [&]<class T>() { write_mean<T>(parts, divisor, to); });
}

/// The sum of differences of the pieces `held`, divided by `divisor`, becomes the net's gradient.
void set_gradient(Context& context, Net& net, const std::vector<parallel::Bucket>& buckets,
                  const std::vector<std::size_t>& held, const std::vector<const char*>& differences,
                  int divisor, std::vector<char>& host) {
  Tensor& gradients = net.flat_gradients();
  std::size_t bytes = 0;
  for (const std::size_t piece : held)
    bytes += static_cast<std::size_t>(buckets[piece].count) * size_of(gradients.dtype());
  host.resize(bytes);
  write_mean(gradients.dtype(), differences, divisor, host);
  std::size_t at = 0;
  for (const std::size_t piece : held) {
    Tensor to = gradients.slice(buckets[piece].offset, Shape{buckets[piece].count});
    context.stream().copy(to.raw(), host.data() + at, to.bytes());
    at += to.bytes();
  }
  context.synchronize();
}

/// A round's differences.
struct Gathered {
  explicit Gathered(const std::vector<parallel::ParameterServer::Difference>& round) {
    for (const auto& difference : round) {
      values.push_back(difference.values);
      statistics.push_back(difference.statistics);
      loss += difference.loss;
      count += difference.count;
      oldest = std::min(oldest, difference.version);
    }
  }
  std::vector<const char*> values, statistics;
  double loss = 0;  ///< sum
  int count = 0;    ///< of workers
  std::int64_t oldest = std::numeric_limits<std::int64_t>::max();
};

std::vector<char> rest_of(Net& net, Context& context) {
  std::vector<char> rest;
  for (const LearnableParameter& parameter : net.parameters())
    if (is_rest(parameter)) append_bytes(context, parameter.value, rest);
  return rest;
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
    case parallel::ServerState::cosines:
      return updater.cosines_of_bucket(number);
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
  const int servers = options.parameter_server->servers, inner = options.parameter_server->inner;
  const int spares = options.parameter_server->spares;
  if (servers > 1 && inner > 0) bad_input("several parameter servers and a tree of them exclude each other");
  if (spares > 0 && inner > 0) bad_input("spare workers and a tree of parameter servers exclude each other");
  if (inner > 0 && place.processes() < 1 + 2 * inner)
    bad_input("a tree with ", inner, inner == 1 ? " inner parameter server" : " inner parameter servers",
              " needs a worker for each: start ", 1 + 2 * inner, " processes or more");
  if (place.processes() <= servers + spares)
    bad_input(
        servers == 1 ? std::string("a parameter server needs") : cat(servers, " parameter servers need"),
        " at least one worker", spares > 0 ? cat(" besides ", spares, " spare") : std::string(), ": start ",
        servers + spares + 1, " processes or more (mpirun -np ", servers + spares + 2, " ...)");
  const std::vector<int>& devices = place.devices_of;
  const auto first = static_cast<std::size_t>(servers_of(*options.parameter_server));
  for (std::size_t process = 0; process < first; ++process)
    if (devices[process] != 1) runtime_failure("a parameter server has ", devices[process], " devices");
  // A worker that has ended since has none.
  const auto one = std::find_if(devices.begin() + static_cast<std::ptrdiff_t>(first), devices.end(),
                                [](int count) { return count > 0; });
  for (auto other = one; other != devices.end(); ++other)
    if (*other != *one && *other > 0)
      bad_input("process ", other - devices.begin(), " has ", *other, " devices and process ",
                one - devices.begin(), " has ", *one,
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
  const ParameterServerOptions& options = *run.options.parameter_server;
  return run.options.uplink->place().processes() - servers_of(options) - options.spares;
}

int devices_of_worker(const Run& run) {
  const std::vector<int>& devices = run.options.uplink->place().devices_of;
  return std::max(
      1, *std::max_element(devices.begin() + servers_of(*run.options.parameter_server), devices.end()));
}

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
                               needs_whole_parameters(run.solver.update, net.parameters()));
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
  parallel::ServerRules rules = rules_of(run, first);
  rules.report_seconds = kReportSeconds;
  rules.squares = run.solver.clip_norm.has_value();
  for (int inner = 1; inner <= options.inner; ++inner)
    rules.below.push_back(static_cast<int>(workers_below(run, inner).size()));
  server_ = std::make_shared<parallel::ParameterServer>(
      layout_, rules, options.inner > 0 ? processes_from(options.servers, options.inner) : all_workers(run));
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
  server_->publish(iterations, host_.data(), [this] { return rest_of(net_, peers_.context()); });
}

double Server::gather() {
  Activity& activity = peers_.activity();
  activity.enter(Stage::exchange, "differences");
  activity.set_waiting(true);
  const std::vector<parallel::ParameterServer::Difference> round =
      server_->wait_for_round([this] { run_.abort.check(); });
  activity.set_waiting(false);
  activity.enter(Stage::reduce, "differences");
  const Gathered gathered(round);
  set_gradient(peers_.context(), net_, buckets_, layout_.held_by(0), gathered.values, gathered.count, host_);
  if (Tensor& to = net_.statistics(); to.defined() && to.count() > 0) {
    host_.resize(to.bytes());
    write_mean(to.dtype(), gathered.statistics, gathered.count, host_);
    peers_.context().stream().copy(to.raw(), host_.data(), host_.size());
    peers_.context().synchronize();
  }
  return gathered.loss / gathered.count;
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
  if (updater_.follows_cosines()) what.push_back(parallel::ServerState::cosines);
  fetch(what);
}

InnerServer::InnerServer(Run& run, const Peers& peers, Net& net,
                         std::shared_ptr<parallel::ServerWorker> upwards)
    : run_(run),
      peers_(peers),
      net_(net),
      buckets_(worker_buckets(run, net)),
      workers_(static_cast<int>(workers_below(run, run.process()).size())),
      upwards_(std::move(upwards)) {
  parallel::ServerLayout layout = layout_of(run, net);
  layout.holders.assign(layout.pieces.size(), run.process());
  parallel::ServerRules rules = rules_of(run, run.resume ? run.resume->state.iter() : 0);
  rules.inner = true;
  downwards_ = std::make_shared<parallel::ParameterServer>(std::move(layout), std::move(rules),
                                                           workers_below(run, run.process()));
  run.options.parameter_server->uplink->carry(std::make_shared<InnerProtocol>(upwards_, downwards_));
}

InnerServer::~InnerServer() { downwards_->end(); }

void InnerServer::publish(const parallel::ServerWorker::Task& task) {
  if (!std::exchange(published_, true)) downwards_->give_tasks(task.number, workers_);
  downwards_->give_tasks(task.next, workers_);
  host_.clear();
  append_bytes(peers_.context(), net_.flat_values(), host_);
  downwards_->publish(task.version, host_.data(), [this] { return rest_of(net_, peers_.context()); });
}

bool InnerServer::gather() {
  Activity& activity = peers_.activity();
  activity.enter(Stage::exchange, "differences");
  activity.set_waiting(true);
  const std::vector<parallel::ParameterServer::Difference> round = downwards_->wait_for_round([this] {
    run_.abort.check();
    if (upwards_->task().end) downwards_->end();
  });
  activity.set_waiting(false);
  if (round.empty()) return false;
  activity.enter(Stage::reduce, "differences");
  const Gathered gathered(round);
  constexpr int kSum = 1;  // the server above divides
  std::vector<std::size_t> all(buckets_.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  set_gradient(peers_.context(), net_, buckets_, all, gathered.values, kSum, host_);
  std::vector<char> statistics(net_.statistics().defined() ? net_.statistics().bytes() : 0);
  if (!statistics.empty()) write_mean(net_.statistics().dtype(), gathered.statistics, kSum, statistics);
  const std::int64_t dropped = downwards_->counts().dropped;
  upwards_->note_sum(
      {gathered.count, static_cast<int>(dropped - std::exchange(dropped_, dropped)), gathered.oldest},
      gathered.loss, std::move(statistics));
  return true;
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
  const auto server =
      std::make_shared<parallel::FurtherServer>(layout, run.process(), run.names, all_workers(run));
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
        set_gradient(context, net, buckets, held, order.differences,
                     static_cast<int>(order.differences.size()), host);
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
  serving.first = parent_of(run);
  serving.names = run.names;
  return std::make_shared<parallel::ServerWorker>(layout_of(run, net), serving, options.compression,
                                                  run.team.devices(), *run.devices[0]);
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
