// The state machines of a parameter server and its workers on a simulated network: what is applied to what,
// who is waited for, and that no schedule of delays, stopped processes and cut links hangs.
#include "banyan/parallel/parameter_server.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/device/context.hpp"
#include "banyan/parallel/further_server.hpp"
#include "simulated_network.hpp"

namespace banyan::parallel {
namespace {

using testing::HasSubstr;

constexpr double kTick = 0.002, kSilent = 0.2;

ServerLayout small_layout(DType type = DType::f64) {
  ServerLayout layout;
  layout.type = type;
  layout.pieces = {5, 3, 8};
  layout.rest_bytes = 4;
  layout.statistics_bytes = 2 * sizeof(double);
  layout.checksum = 77;
  return layout;
}

/// As the solver does, with a rate of 0.1: the values of some pieces, of which the differences are.
void step_by_mean(const ServerLayout& layout, const std::vector<std::size_t>& held,
                  const std::vector<const char*>& differences, int count, std::vector<double>& values) {
  dispatch_float(layout.type, "test", [&]<class T>() {
    std::size_t at = 0;
    for (const std::size_t piece : held) {
      std::size_t first = 0;
      for (std::size_t before = 0; before < piece; ++before)
        first += static_cast<std::size_t>(layout.pieces[before]);
      for (std::int64_t i = 0; i < layout.pieces[piece]; ++i, ++at) {
        double sum = 0;
        for (const char* difference : differences)
          sum += static_cast<double>(reinterpret_cast<const T*>(difference)[at]);
        values[first + static_cast<std::size_t>(i)] -= 0.1 * sum / count;
      }
    }
  });
}

std::vector<char> bytes_of(const ServerLayout& layout, const std::vector<double>& values) {
  std::vector<char> bytes;
  dispatch_float(layout.type, "test", [&]<class T>() {
    const std::vector<T> typed(values.begin(), values.end());
    const char* first = reinterpret_cast<const char*>(typed.data());
    bytes.assign(first, first + typed.size() * sizeof(T));
  });
  return bytes;
}

/// What a worker computes for a task: a pull towards 1, and something that depends on the task.
double difference_of(double value, std::int64_t task, std::size_t i) {
  return value - 1 + 0.1 * std::sin(static_cast<double>(task * 31) + static_cast<double>(i));
}

/// As an uplink says it.
std::string ended(int process) { return cat("process ", process, " on a host has ended"); }

/// A worker with one device whose pass takes a time.
struct SimulatedWorker {
  SimulatedWorker(TestNetwork& net, int number, const ServerLayout& layout, const Compression& compression,
                  int server = 0)
      : network(net),
        number(number),
        layout(layout),
        device(make_cpu_device(0)),
        context(*device),
        end(std::make_unique<ServerWorker>(layout, ServerWorker::Serving{server}, compression, 1, *device)),
        wire(net, number) {
    for (const std::int64_t count : layout.pieces) messages.emplace_back(*device, Shape{count}, layout.type);
    end->join(wire, [] {});
    wire.on_lost([this](int process) { end->lost(process, ended(process)); });
    end->begin_work();
  }

  /// A moment of the process's life.
  void live() {
    if (!network.runs(number)) return;
    wire.progress();
    end->step(network.now(), {});
    stepped = true;
    if (computing && network.has_data(number) && network.seconds() >= ready_at) finish();
    if (!computing && stepped && !finished) begin();
    end->step(network.now(), {});
  }

  void begin() {
    if (!end->has_task()) return;
    const ServerWorker::Task task = end->task();
    if (task.end) {
      finished = true;
      return;
    }
    if (sent) {
      for (std::size_t piece = 0; piece < messages.size(); ++piece)
        if (!end->done(slot(piece), context)) return;
    }
    if (tasks.empty()) {
      EXPECT_EQ(end->rest().size(), layout.rest_bytes);
    } else {
      EXPECT_EQ(task.number, *next);
    }
    next = task.next;
    tasks.push_back(task.number);
    computing = task;
    ready_at = network.seconds() + network.random(0, slowness);
  }

  void finish() {
    std::size_t i = 0;
    for (std::size_t piece = 0; piece < messages.size(); ++piece) {
      dispatch_float(layout.type, "test", [&]<class T>() {
        const T* values = reinterpret_cast<const T*>(end->values(static_cast<int>(piece)));
        T* message = messages[piece].data<T>();
        for (std::int64_t k = 0; k < messages[piece].count(); ++k, ++i)
          message[k] = static_cast<T>(difference_of(static_cast<double>(values[k]), computing->number, i));
      });
    }
    // Backward finishes buckets in an order of its own.
    std::vector<std::size_t> order(messages.size());
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), network.generator());
    for (const std::size_t piece : order)
      end->begin(slot(piece), messages[piece], UplinkMerge::sum, {}, {}, context, bell);
    std::vector<char> statistics(layout.statistics_bytes, 0);
    end->note_loss(static_cast<double>(computing->number), statistics);
    sent = true;
    computing.reset();
  }
  static int slot(std::size_t piece) { return RootParent::kFirstBucket + static_cast<int>(piece); }

  TestNetwork& network;
  int number;
  ServerLayout layout;
  std::unique_ptr<Device> device;
  Context context;
  AbortState abort;
  Doorbell bell{abort, {}};
  std::vector<Tensor> messages;
  std::unique_ptr<ServerWorker> end;
  SimulatedWire wire;  // goes first: it reads and writes what the others own
  double slowness = 0.02, ready_at = 0;
  bool stepped = false, sent = false, finished = false;
  std::optional<ServerWorker::Task> computing;
  std::optional<std::int64_t> next;
  std::vector<std::int64_t> tasks;
};

/// A further server, whose solver takes its time, too.
struct SimulatedFurther {
  SimulatedFurther(TestNetwork& net, int number, const ServerLayout& layout, std::vector<std::string> names,
                   const std::vector<int>& workers)
      : network(net),
        number(number),
        layout(layout),
        held(layout.held_by(number)),
        values(static_cast<std::size_t>(layout.count()), 0),
        end(std::make_unique<FurtherServer>(layout, number, std::move(names), workers)),
        wire(net, number) {
    end->join(wire, [] {});
    wire.on_lost([this](int process) { end->lost(process, ended(process)); });
  }
  void live() {
    if (!network.runs(number)) return;
    wire.progress();
    end->step(network.now(), {});
    if (finished || network.seconds() < busy_until) return;
    auto order = end->try_order();
    if (!order) return;
    busy_until = network.seconds() + network.random(0, 0.004);
    using Kind = FurtherServer::Order::Kind;
    if (order->kind == Kind::average) {
      step_by_mean(layout, held, order->differences, static_cast<int>(order->differences.size()), values);
    } else if (order->kind == Kind::start) {
      end->publish(order->version, bytes_of(layout, values).data());
    } else if (order->kind == Kind::update) {
      EXPECT_EQ(order->rate, 0.1);
      end->publish(order->version + 1, bytes_of(layout, values).data());
    } else if (order->kind == Kind::fetch) {
      const std::vector<char> bytes = bytes_of(layout, values);
      std::size_t at = 0;
      for (std::size_t piece = 0; piece < layout.pieces.size(); at += layout.piece_bytes(piece++))
        if (layout.holder(piece) == number)
          end->send_state(order->what, piece, bytes.data() + at, layout.piece_bytes(piece));
    } else {
      finished = true;
    }
  }

  TestNetwork& network;
  int number;
  ServerLayout layout;
  std::vector<std::size_t> held;
  std::vector<double> values;
  std::unique_ptr<FurtherServer> end;
  SimulatedWire wire;  // goes first
  double busy_until = 0;
  bool finished = false;
};

/// An inner server of a tree.
struct SimulatedInner {
  SimulatedInner(TestNetwork& net, int number, const ServerLayout& layout, ServerRules rules,
                 const std::vector<int>& workers, const Compression& compression)
      : network(net),
        number(number),
        layout(layout),
        below(static_cast<int>(workers.size())),
        device(make_cpu_device(0)),
        context(*device),
        upwards(layout, ServerWorker::Serving{}, compression, 1, *device),
        wire(net, number) {
    for (const std::int64_t count : layout.pieces) messages.emplace_back(*device, Shape{count}, layout.type);
    ServerLayout own = layout;
    own.holders.assign(layout.pieces.size(), number);
    rules.process = number;
    rules.inner = true;
    downwards = std::make_unique<ParameterServer>(own, std::move(rules), workers);
    upwards.join(wire, [] {});
    downwards->join(wire, [] {});
    wire.on_lost([this](int process) { downwards->lost(process, ended(process)); });
    upwards.begin_work();
  }
  void live() {
    if (!network.runs(number)) return;
    wire.progress();
    upwards.step(network.now(), {});
    stepped = true;
    downwards->step(network.now(), [this](int process) { return network.absence(process); });
    upwards.tell_forsaken(downwards->forsaken());
    if (!gathering) publish();
    if (gathering) gather();
    upwards.step(network.now(), {});
  }
  void publish() {
    if (finished || !upwards.has_task()) return;
    const ServerWorker::Task task = upwards.task();
    if (task.end) {
      finished = true;
      downwards->end();
      return;
    }
    for (std::size_t piece = 0; sent && piece < messages.size(); ++piece)
      if (!upwards.done(SimulatedWorker::slot(piece), context)) return;
    if (!sent && !published) downwards->give_tasks(task.number, below);
    downwards->give_tasks(task.next, below);
    published = gathering = true;
    downwards->publish(task.version, upwards.values(0), [this] { return upwards.rest(); });
  }
  void gather() {
    if (upwards.task().end) {
      gathering = false;
      return;
    }
    const auto round = downwards->try_round();
    if (!round) return;
    ServerWorker::Sum sum{0, 0, round->front().version};
    double loss = 0;
    std::vector<const char*> differences;
    for (const auto& difference : *round) {
      differences.push_back(difference.values);
      sum.count += difference.count;
      sum.version = std::min(sum.version, difference.version);
      loss += difference.loss;
    }
    const std::int64_t dropped = downwards->counts().dropped;
    sum.dropped = static_cast<int>(dropped - std::exchange(told_dropped, dropped));
    std::size_t at = 0;
    for (Tensor& message : messages)
      dispatch_float(layout.type, "test", [&]<class T>() {
        T* to = message.data<T>();
        for (std::int64_t i = 0; i < message.count(); ++i, ++at) {
          to[i] = 0;
          for (const char* difference : differences) to[i] += reinterpret_cast<const T*>(difference)[at];
        }
      });
    for (std::size_t piece = 0; piece < messages.size(); ++piece)
      upwards.begin(SimulatedWorker::slot(piece), messages[piece], UplinkMerge::sum, {}, {}, context, bell);
    upwards.note_sum(sum, loss, std::vector<char>(layout.statistics_bytes, 0));
    gathering = false;
    sent = true;
  }

  TestNetwork& network;
  int number;
  ServerLayout layout;
  int below;
  std::unique_ptr<Device> device;
  Context context;
  AbortState abort;
  Doorbell bell{abort, {}};
  std::vector<Tensor> messages;
  ServerWorker upwards;
  std::unique_ptr<ParameterServer> downwards;
  SimulatedWire wire;  // goes first
  std::int64_t told_dropped = 0;
  bool stepped = false, published = false, gathering = false, sent = false, finished = false;
};

/// All processes of a run: servers, inner servers of a tree, workers.
struct Simulation {
  Simulation(int workers, ServerRules rules, unsigned seed, double longest = 0.01,
             const Compression& compression = {}, DType type = DType::f64, int servers = 1, int inner = 0)
      : first_worker(servers + inner),
        network(workers + first_worker, longest, seed),
        layout(small_layout(type)) {
    if (servers > 1) layout.holders = share_out(layout.pieces, servers);
    rules.silent_seconds = kSilent;
    std::vector<int> processes, inner_processes;
    for (int process = 0; process < workers + first_worker; ++process) {
      rules.names.push_back(cat("process ", process));
      if (process >= first_worker) processes.push_back(process);
    }
    for (int k = 0; k < inner; ++k) {
      const auto at = [&](int end) { return processes.begin() + end * workers / inner; };
      const std::vector<int> below(at(k), at(k + 1));
      tree.push_back(std::make_unique<SimulatedInner>(network, 1 + k, layout, rules, below, compression));
      inner_processes.push_back(1 + k);
    }
    for (const auto& other : tree) rules.below.push_back(other->below);
    server = std::make_unique<ParameterServer>(layout, rules, inner > 0 ? inner_processes : processes);
    wire = std::make_unique<SimulatedWire>(network, 0);
    server->join(*wire, [] {});
    wire->on_lost([this](int process) { server->lost(process, ended(process)); });
    for (int process = 1; process < servers; ++process)
      further.push_back(std::make_unique<SimulatedFurther>(network, process, layout, rules.names, processes));
    for (const int process : processes) {
      ServerLayout own = layout;
      int parent = 0;
      for (int k = 0, before = 0; k < inner; before += tree[static_cast<std::size_t>(k++)]->below)
        if (process - first_worker >= before) parent = 1 + k;
      if (parent > 0) own.holders.assign(layout.pieces.size(), parent);
      people.push_back(std::make_unique<SimulatedWorker>(network, process, own, compression, parent));
    }
    values.assign(static_cast<std::size_t>(layout.count()), 0);
    expected.push_back(values);
    publish();
  }
  ~Simulation() { wire.reset(); }

  void publish() {
    server->publish(version, bytes_of(layout, values).data(),
                    [this] { return std::vector<char>(layout.rest_bytes, 'r'); });
  }

  /// Rate 0.1; as the solver does.
  void update(const std::vector<ParameterServer::Difference>& round) {
    std::vector<const char*> differences;
    int count = 0;
    for (const auto& difference : round) {
      EXPECT_TRUE(applied.insert(difference.task).second) << "task " << difference.task << " twice";
      if (tree.empty()) {
        EXPECT_EQ(difference.loss, static_cast<double>(difference.task));
      }
      differences.push_back(difference.values);
      count += difference.count;
    }
    expect(round);
    step_by_mean(layout, layout.held_by(0), differences, count, values);
    server->update_further(version, 0.1, 1);
    sizes.push_back(round.size());
    ++version;
    publish();
  }

  /// What this round makes of all pieces, without messages.
  void expect(const std::vector<ParameterServer::Difference>& round) {
    std::vector<double> next = expected.back();
    for (std::size_t i = 0; i < next.size(); ++i) {
      double sum = 0;
      for (const auto& difference : round)
        sum += difference_of(expected[static_cast<std::size_t>(difference.version)][i], difference.task, i);
      next[i] -= 0.1 * sum / static_cast<double>(round.size());
    }
    expected.push_back(std::move(next));
  }

  /// No task was left out but of the last round of `workers`, which may not be used; returns how many.
  std::int64_t expect_every_task(int workers) const {
    std::int64_t next = 0;
    for (const std::int64_t task : applied) {
      if (task > server->counts().applied - workers) break;
      EXPECT_EQ(task, next++) << "a task that nobody has computed";
    }
    return next;
  }
  /// After fetch(): those of the last version, but for roundings of numbers around 1.
  void expect_values() const {
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected.back()[i], 1e-13);
  }

  /// With what further servers hold.
  void fetch() {
    server->fetch(
        {ServerState::values},
        [this](ServerState, std::size_t piece, const char* data, std::size_t) {
          std::size_t first = 0;
          for (std::size_t before = 0; before < piece; ++before)
            first += static_cast<std::size_t>(layout.pieces[before]);
          dispatch_float(layout.type, "test", [&]<class T>() {
            for (std::int64_t i = 0; i < layout.pieces[piece]; ++i)
              values[first + static_cast<std::size_t>(i)] =
                  static_cast<double>(reinterpret_cast<const T*>(data)[i]);
          });
        },
        [this] { tick(); });
    server->end_further();
    while (!std::all_of(further.begin(), further.end(), [](const auto& other) { return other->finished; }))
      tick();
  }

  void tick() {
    network.pass(kTick);
    wire->progress();
    server->step(network.now(), [this](int process) { return network.absence(process); });
    // The solver's thread may come for the round later.
    if (!round && version < updates && network.random(0, 1) < 0.4) {
      round = server->try_round();
      if (round) updated_at = network.seconds() + network.random(0, solving);
    }
    if (round && network.seconds() >= updated_at) {
      update(*round);
      round.reset();
    }
    for (const auto& other : further) other->live();
    for (const auto& other : tree) other->live();
    for (const auto& worker : people) worker->live();
  }

  /// To that many updates and the end; false: it takes longer than `seconds`.
  bool run(std::int64_t count, double seconds, const std::function<void()>& meanwhile = {}) {
    updates = count;
    const double begun = network.seconds();
    bool ended = false;
    while (network.seconds() - begun < seconds) {
      tick();
      if (meanwhile) meanwhile();
      if (version == updates && !std::exchange(ended, ended || version == updates)) server->end();
      const bool all = std::all_of(people.begin(), people.end(), [this](const auto& worker) {
        return worker->finished || !network.runs(worker->number) ||
               network.absence(worker->number).longest() > 0;
      });
      if (ended && all) return true;
    }
    return false;
  }

  int first_worker;
  TestNetwork network;
  ServerLayout layout;
  std::unique_ptr<ParameterServer> server;
  std::vector<std::unique_ptr<SimulatedFurther>> further;
  std::vector<std::unique_ptr<SimulatedInner>> tree;
  std::vector<std::unique_ptr<SimulatedWorker>> people;
  std::unique_ptr<SimulatedWire> wire;
  std::vector<double> values;
  std::vector<std::vector<double>> expected;  ///< of each version, without a tree and compression
  std::int64_t version = 0, updates = 0;
  double solving = 0.004, updated_at = 0;
  std::optional<std::vector<ParameterServer::Difference>> round;
  std::set<std::int64_t> applied;
  std::vector<std::size_t> sizes;  ///< of the rounds
};

class ParameterServerTest : public testing::Test {
 protected:
  void SetUp() override {
    said.clear();
    set_log_sink([](Severity, const std::string& text, const std::source_location&) { said += text + "\n"; });
  }
  void TearDown() override { set_log_sink(nullptr); }
  static inline std::string said;
};

/// One after the other, as one process with all workers' batches would.
std::vector<double> trained_alone(int workers, std::int64_t updates, std::size_t count) {
  std::vector<double> values(count, 0);
  for (std::int64_t version = 0; version < updates; ++version)
    for (std::size_t i = 0; i < count; ++i) {
      const double before = values[i];
      double sum = 0;
      for (std::int64_t task = version * workers; task < (version + 1) * workers; ++task)
        sum += difference_of(before, task, i);
      values[i] -= 0.1 * sum / workers;
    }
  return values;
}

TEST_F(ParameterServerTest, WaitingForAllIsSynchronousTraining) {
  for (const int workers : {1, 2, 5}) {
    std::vector<double> first;
    for (const unsigned seed : {1u, 2u}) {  // other delays
      Simulation simulation(workers, {}, seed);
      ASSERT_TRUE(simulation.run(30, 60));
      const std::vector<double> alone = trained_alone(workers, 30, simulation.values.size());
      // The mean is summed per process here and per task there: some roundings of numbers around 1.
      for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(simulation.values[i], alone[i], 1e-13);
      if (first.empty()) first = simulation.values;
      EXPECT_EQ(simulation.values, first) << "the same bits in every run";
      const ServerCounts counts = simulation.server->counts();
      EXPECT_EQ(counts.dropped, 0);
      EXPECT_EQ(counts.updates, 30);
      EXPECT_EQ(counts.ages, (std::vector<std::int64_t>{30 * workers}));
    }
  }
}

/// Every piece belongs to the version that its task names, whoever holds it, and the sums are the same ones.
TEST_F(ParameterServerTest, SeveralServersGiveTheBitsOfOne) {
  for (const int staleness : {0, 3})
    for (const int workers : {1, 4}) {
      ServerRules rules;
      rules.staleness = staleness;
      Simulation one(workers, rules, 1);
      ASSERT_TRUE(one.run(30, 60));
      for (const int servers : {2, 3}) {
        Simulation several(workers, rules, 1, 0.01, {}, DType::f64, servers);
        ASSERT_TRUE(several.run(30, 60));
        several.fetch();
        EXPECT_EQ(several.values, one.values) << servers << " servers, " << workers << " workers";
        const ServerCounts counts = several.server->counts();
        EXPECT_EQ(counts.received, one.server->counts().received);
        EXPECT_EQ(counts.updates, 30);
      }
    }
}

/// Late differences too are applied to all pieces alike, in the same updates, and were computed with pieces
/// of one version.
TEST_F(ParameterServerTest, SeveralServersAgreeOnWhatIsLate) {
  for (const int servers : {1, 2, 3})
    for (const unsigned seed : {1u, 2u, 3u}) {
      ServerRules rules;
      rules.wait_seconds = 0;
      rules.staleness = 4;
      Simulation simulation(6, rules, seed, 0.01, {}, DType::f64, servers);
      simulation.people[5]->slowness = 0.3;
      ASSERT_TRUE(simulation.run(200, 600));
      simulation.fetch();
      for (std::size_t i = 0; i < simulation.values.size(); ++i)
        EXPECT_NEAR(simulation.values[i], simulation.expected.back()[i], 1e-13);  // the same operations
      EXPECT_GT(simulation.server->counts().ages.size(), 2u);
      EXPECT_GT(simulation.server->counts().dropped, 0);
    }
}

/// An inner server adds up before the first one does: only the order of additions is another one.
TEST_F(ParameterServerTest, ATreeIsAsOneServer) {
  for (const auto& [workers, inner] : {std::pair{2, 1}, std::pair{4, 2}, std::pair{5, 2}, std::pair{7, 3}}) {
    Simulation tree(workers, {}, 1, 0.01, {}, DType::f64, 1, inner);
    ASSERT_TRUE(tree.run(30, 60));
    const std::vector<double> alone = trained_alone(workers, 30, tree.values.size());
    for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(tree.values[i], alone[i], 1e-13);
    const ServerCounts counts = tree.server->counts();
    EXPECT_EQ(counts.applied, 30 * workers);
    EXPECT_EQ(counts.dropped, 0);
    EXPECT_EQ(counts.ages, (std::vector<std::int64_t>{30 * workers}));
    Simulation again(workers, {}, 2, 0.01, {}, DType::f64, 1, inner);
    ASSERT_TRUE(again.run(30, 60));
    EXPECT_EQ(again.values, tree.values) << "the same bits in every run";
  }
}

TEST_F(ParameterServerTest, ATreeKeepsToTheStaleness) {
  for (const int staleness : {0, 2, 6}) {
    ServerRules rules;
    rules.wait_seconds = 0;
    rules.staleness = staleness;
    Simulation simulation(8, rules, 3, 0.01, {}, DType::f64, 1, 2);
    simulation.people[7]->slowness = 0.5;
    ASSERT_TRUE(simulation.run(200, 600));
    const ServerCounts counts = simulation.server->counts();
    EXPECT_LE(counts.ages.size(), static_cast<std::size_t>(staleness) + 1);
    EXPECT_GT(counts.dropped, 0) << "the slow one's";
    EXPECT_GE(counts.applied, 200);
    std::set<std::int64_t> all;
    for (const auto& worker : simulation.people)
      for (const std::int64_t task : worker->tasks) EXPECT_TRUE(all.insert(task).second) << task;
    for (const double value : simulation.values) EXPECT_NEAR(value, 1, 0.2);  // sin has a mean of 0
  }
}

TEST_F(ParameterServerTest, AnInnerServerWithoutWorkersIsTakenOutAndBack) {
  Simulation simulation(4, {}, 5, 0.01, {}, DType::f64, 1, 2);
  int passed = 0;
  bool was_out = false;
  ASSERT_TRUE(simulation.run(200, 60, [&] {
    ++passed;
    for (const int worker : {3, 4}) {
      if (passed == 100) simulation.network.stop(worker, true);
      if (passed == 600) simulation.network.stop(worker, false);
    }
    was_out = was_out || simulation.server->workers_in() == 1;
  }));
  EXPECT_TRUE(was_out);
  EXPECT_EQ(simulation.server->workers_in(), 2);
  EXPECT_EQ(simulation.server->counts().taken_out, 1);
  EXPECT_EQ(simulation.server->counts().taken_back, 1);
}

/// Backward still computes the others then.
TEST(ServerWorker, SendsAPieceAsSoonAsItIsThere) {
  Simulation run(1, {}, 5);
  SimulatedWorker& worker = *run.people[0];
  worker.slowness = 0;
  worker.network.stall(worker.number, true);  // it never finishes by itself
  for (int tick = 0; tick < 1000; ++tick) run.tick();
  ASSERT_TRUE(worker.computing);
  const auto sent_by = [&](const std::function<void()>& deed) {
    const std::size_t before = run.network.messages();
    deed();
    for (int tick = 0; tick < 20; ++tick) run.tick();
    return run.network.messages() - before;
  };
  EXPECT_EQ(sent_by([] {}), 0u);
  for (const std::size_t piece : {2u, 0u, 1u})
    EXPECT_EQ(sent_by([&] {
                worker.end->begin(SimulatedWorker::slot(piece), worker.messages[piece], UplinkMerge::sum, {},
                                  {}, worker.context, worker.bell);
              }),
              1u)
        << piece;
  EXPECT_FALSE(run.server->try_round());  // without the loss it is no difference yet
}

TEST_F(ParameterServerTest, ATreeWithoutAnyWorkerEnds) {
  ServerRules rules;
  rules.lost_seconds = 2;
  Simulation simulation(2, rules, 7, 0.01, {}, DType::f64, 1, 2);
  for (const int worker : {3, 4}) simulation.network.cut(worker, true);
  EXPECT_THROW(simulation.run(10, 60), Error);
  EXPECT_LT(simulation.network.seconds(), 2.5);
}

TEST(ServerLayout, PiecesAreSharedOutBySize) {
  EXPECT_EQ(share_out({5, 3, 8}, 2), (std::vector<int>{1, 1, 0}));
  EXPECT_EQ(share_out({4, 4, 4, 4, 1}, 2), (std::vector<int>{0, 1, 0, 1, 0}));
  EXPECT_EQ(share_out({1, 9}, 1), (std::vector<int>{0, 0}));
  try {
    share_out({7, 7}, 3);
    ADD_FAILURE() << "two pieces for three servers";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_THAT(error.what(), HasSubstr("2 pieces: too few for 3 parameter servers"));
  }
}

TEST_F(ParameterServerTest, ASilentFurtherServerEndsTheRun) {
  ServerRules rules;
  rules.lost_seconds = 2;
  Simulation simulation(2, rules, 7, 0.01, {}, DType::f64, 2);
  simulation.network.stop(1, true);
  try {
    simulation.run(10, 60);
    ADD_FAILURE() << "it went on";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("process 1, a parameter server, has not been heard of for 2"));
  }
  EXPECT_LT(simulation.network.seconds(), 2.1);
}

/// Nobody waits: every update has the differences that are there, and their ages are within the limit.
TEST_F(ParameterServerTest, AsynchronousUpdatesKeepToTheStaleness) {
  for (const int staleness : {0, 1, 4, 8}) {
    ServerRules rules;
    rules.wait_seconds = 0;
    rules.staleness = staleness;
    Simulation simulation(8, rules, 3);
    simulation.people[7]->slowness = 0.5;
    ASSERT_TRUE(simulation.run(200, 600));
    const ServerCounts counts = simulation.server->counts();
    EXPECT_LE(counts.ages.size(), static_cast<std::size_t>(staleness) + 1);
    EXPECT_GT(counts.dropped, 0) << "the slow one's";
    EXPECT_EQ(counts.applied, static_cast<std::int64_t>(simulation.applied.size()));
    EXPECT_LE(counts.applied + counts.dropped, counts.tasks);
    EXPECT_GE(counts.applied + counts.dropped, counts.tasks - 8) << "only those of the end are missing";
    EXPECT_EQ(counts.taken_out, 0);
    for (const double value : simulation.values) EXPECT_NEAR(value, 1, 0.2);  // sin has a mean of 0
  }
}

TEST_F(ParameterServerTest, ARoundWaitsAsLongAsItIsTold) {
  for (const double wait : {0.02, 1.0}) {
    ServerRules rules;
    rules.wait_seconds = wait;
    rules.staleness = 0;
    Simulation simulation(3, rules, 4, 0.001);
    for (const int fast : {0, 1}) simulation.people[static_cast<std::size_t>(fast)]->slowness = 0.004;
    simulation.people[2]->slowness = 0.3;
    ASSERT_TRUE(simulation.run(40, 60));
    const auto of_all = std::count(simulation.sizes.begin(), simulation.sizes.end(), 3u);
    if (wait == 1.0) {
      EXPECT_EQ(of_all, 40);
    } else {
      // The slow one's passes take 0 to 0.3 s: about one in eight is done within the round and 0.02 s.
      EXPECT_LT(of_all, 20);
      EXPECT_GT(simulation.server->counts().dropped, 0);
    }
  }
}

TEST_F(ParameterServerTest, AStoppedWorkerIsTakenOutAndBack) {
  Simulation simulation(3, {}, 5);
  int passed = 0;
  bool was_out = false;
  ASSERT_TRUE(simulation.run(200, 60, [&] {
    ++passed;
    if (passed == 100) simulation.network.stop(2, true);
    if (passed == 600) simulation.network.stop(2, false);
    was_out = was_out || simulation.server->workers_in() == 2;
  }));
  const ServerCounts counts = simulation.server->counts();
  EXPECT_TRUE(was_out);
  EXPECT_EQ(simulation.server->workers_in(), 3);
  EXPECT_EQ(counts.taken_out, 1);
  EXPECT_EQ(counts.taken_back, 1);
  EXPECT_EQ(counts.dropped, 1) << "what it was at when it was stopped";
  EXPECT_EQ(simulation.sizes.back(), 3u);
  EXPECT_EQ(std::count(simulation.sizes.begin(), simulation.sizes.end(), 1u), 0);
}

/// A disk that does not answer, in a process that lives: also below an inner server.
TEST_F(ParameterServerTest, AWorkerWithoutDataIsTakenOutAndBack) {
  for (const int inner : {0, 2}) {
    said.clear();
    Simulation simulation(4, {}, 5, 0.01, {}, DType::f64, 1, inner);
    const int worker = inner + 2;
    const ParameterServer& server = inner > 0 ? *simulation.tree[0]->downwards : *simulation.server;
    int passed = 0, fewest = 4;
    std::int64_t at_first = 0;
    ASSERT_TRUE(simulation.run(200, 60, [&] {
      ++passed;
      if (passed == 100) simulation.network.stall(worker, true);
      if (passed == 500) at_first = simulation.version;
      if (passed == 600) {
        EXPECT_GT(simulation.version, at_first) << "it went on without";
        simulation.network.stall(worker, false);
      }
      fewest = passed > 50 ? std::min(fewest, server.workers_in()) : fewest;
    }));
    EXPECT_EQ(fewest, inner > 0 ? 1 : 3);
    EXPECT_EQ(server.workers_in(), fewest + 1);
    EXPECT_EQ(server.counts().taken_out, 1);
    EXPECT_EQ(server.counts().taken_back, 1);
    EXPECT_THAT(said,
                HasSubstr(cat("process ", worker, " has got nothing from its data for 0.2 s and is taken")));
    EXPECT_THAT(said, HasSubstr(cat("process ", worker, " gets data again and is taken back")));
    EXPECT_THAT(said, testing::Not(HasSubstr("not been heard of")));
  }
}

/// Its tasks are computed by others, so that all batches are trained on.
TEST_F(ParameterServerTest, WithoutAWorkerThatHasEndedTheRunGoesOn) {
  for (const int servers : {1, 2}) {
    said.clear();
    Simulation simulation(3, {}, 5, 0.01, {}, DType::f64, servers);
    const int victim = servers + 1;
    int passed = 0;
    ASSERT_TRUE(simulation.run(200, 60, [&] {
      if (++passed == 100) simulation.network.kill(victim);
    }));
    simulation.fetch();
    const ServerCounts counts = simulation.server->counts();
    EXPECT_EQ(counts.updates, 200);
    EXPECT_EQ(counts.taken_out, 1);
    EXPECT_EQ(counts.taken_back, 0);
    EXPECT_EQ(simulation.server->workers_in(), 2);
    EXPECT_EQ(simulation.sizes.front(), 3u);
    EXPECT_EQ(simulation.sizes.back(), 2u);
    EXPECT_THAT(said, HasSubstr(cat("Parameter server: ", ended(victim), "; it is taken out\n")));
    EXPECT_THAT(said, testing::Not(HasSubstr("not been heard of")));
    EXPECT_GT(simulation.expect_every_task(2), 400);
    simulation.expect_values();
  }
}

ServerRules with_spares(int spares) {
  ServerRules rules;
  rules.spares = spares;
  return rules;
}

TEST_F(ParameterServerTest, SparesChangeNothingWhileAllWorkersTrain) {
  Simulation plain(3, {}, 5), with(5, with_spares(2), 5);
  ASSERT_TRUE(plain.run(30, 60));
  ASSERT_TRUE(with.run(30, 60));
  EXPECT_EQ(with.values, plain.values);
  EXPECT_EQ(with.server->workers_in(), 3);
  EXPECT_TRUE(with.people[3]->tasks.empty() && with.people[4]->tasks.empty());
}

/// The tasks of the one that has ended are computed, too, and updates have as many differences as before.
TEST_F(ParameterServerTest, ASpareTakesThePlaceOfAWorkerThatHasEnded) {
  for (const int servers : {1, 2}) {
    said.clear();
    Simulation simulation(4, with_spares(1), 5, 0.01, {}, DType::f64, servers);
    const int victim = servers + 1, spare = servers + 3;
    int passed = 0;
    ASSERT_TRUE(simulation.run(200, 60, [&] {
      if (++passed == 100) simulation.network.kill(victim);
    }));
    simulation.fetch();
    const ServerCounts counts = simulation.server->counts();
    EXPECT_EQ(counts.taken_out, 1);
    EXPECT_EQ(counts.joined, 1);
    EXPECT_EQ(simulation.server->workers_in(), 3);
    EXPECT_LE(std::count(simulation.sizes.begin(), simulation.sizes.end(), 2u), 1) << "the round of its end";
    EXPECT_EQ(simulation.sizes.back(), 3u);
    EXPECT_THAT(said,
                HasSubstr(cat("process ", spare, ", a spare worker, takes the place of one that is out\n")));
    EXPECT_THAT(describe(counts), HasSubstr("replaced by spare ones 1 times"));
    EXPECT_GT(simulation.expect_every_task(3), 500);
    simulation.expect_values();
  }
}

/// One that comes back is a spare, and gets a place again when there is one.
TEST_F(ParameterServerTest, AWorkerWhosePlaceIsTakenComesBackAsASpare) {
  Simulation simulation(4, with_spares(1), 5);
  int passed = 0;
  std::size_t before = 0;
  ASSERT_TRUE(simulation.run(300, 60, [&] {
    ++passed;
    if (passed == 100) simulation.network.stop(1, true);
    if (passed == 400) simulation.network.stop(1, false);
    if (passed == 500) before = simulation.people[0]->tasks.size();
    if (passed == 700) {
      EXPECT_EQ(simulation.people[0]->tasks.size(), before);
      EXPECT_EQ(simulation.server->workers_in(), 3);
      simulation.network.kill(2);
    }
  }));
  EXPECT_GT(passed, 700);
  EXPECT_GT(simulation.people[0]->tasks.size(), before);
  EXPECT_EQ(simulation.server->workers_in(), 3);
  EXPECT_EQ(simulation.server->counts().joined, 2);
  EXPECT_EQ(simulation.server->counts().taken_back, 1);
  EXPECT_EQ(simulation.sizes.back(), 3u);
}

/// Whether it is stopped before the run begins or later; it gets the place when it is heard of again.
TEST_F(ParameterServerTest, ASilentSpareHoldsNobodyUpAndTakesNoPlace) {
  for (const int stopped_at : {1, 100}) {
    Simulation simulation(3, with_spares(1), 5);
    int passed = 0;
    std::int64_t before = 0;
    ASSERT_TRUE(simulation.run(300, 60, [&] {
      ++passed;
      if (passed == stopped_at) simulation.network.stop(3, true);
      if (passed == 300) {
        simulation.network.kill(1);
        before = simulation.version;
        EXPECT_GT(before, 5);
      }
      if (passed == 600) {
        EXPECT_EQ(simulation.server->workers_in(), 1);
        EXPECT_GT(simulation.version, before + 5);
        simulation.network.stop(3, false);
      }
    }));
    EXPECT_GT(passed, 600);
    EXPECT_EQ(simulation.server->workers_in(), 2);
    EXPECT_EQ(simulation.sizes.back(), 2u);
  }
}

/// All have ended but the spares.
TEST_F(ParameterServerTest, SparesGoOnByThemselves) {
  for (int tick = 0; tick < 60; ++tick) {
    Simulation simulation(3, with_spares(2), 7);
    int passed = 0;
    ASSERT_TRUE(simulation.run(20, 60, [&] {
      if (passed == tick) simulation.network.kill(1);
      if (passed++ == 2 * tick) simulation.network.kill(2);
    })) << tick;
    EXPECT_EQ(simulation.server->counts().updates, 20);
    EXPECT_EQ(simulation.server->workers_in(), 1);
  }
}

/// Before it has said that it can compute, or while the first update is made.
TEST_F(ParameterServerTest, AWorkerMayEndBeforeItHasBegun) {
  for (int tick = 0; tick < 40; ++tick) {
    Simulation simulation(3, {}, 5);
    int passed = 0;
    ASSERT_TRUE(simulation.run(20, 60, [&] {
      if (passed++ == tick) simulation.network.kill(2);
    }));
    EXPECT_EQ(simulation.server->counts().updates, 20);
    EXPECT_EQ(simulation.server->workers_in(), 2);
  }
}

TEST_F(ParameterServerTest, WhenAllWorkersHaveEndedTheRunEnds) {
  Simulation simulation(2, {}, 7);
  int passed = 0;
  try {
    simulation.run(1000, 60, [&] {
      ++passed;
      if (passed == 100) simulation.network.kill(2);
      if (passed == 200) simulation.network.kill(1);
    });
    ADD_FAILURE() << "it went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::runtime);
    EXPECT_THAT(error.what(),
                HasSubstr("all workers of the parameter server have ended; the last one: " + ended(1)));
  }
  EXPECT_LT(simulation.network.seconds(), 0.5);
}

/// An inner server goes on with the rest of its workers, and the root without it when none is left.
TEST_F(ParameterServerTest, ATreeGoesOnWithoutWorkersThatHaveEnded) {
  Simulation simulation(4, {}, 5, 0.01, {}, DType::f64, 1, 2);
  int passed = 0;
  ASSERT_TRUE(simulation.run(200, 60, [&] {
    ++passed;
    if (passed == 100) simulation.network.kill(3);
    if (passed == 300) {
      EXPECT_EQ(simulation.tree[0]->downwards->workers_in(), 1);
      EXPECT_EQ(simulation.server->workers_in(), 2);
    }
    if (passed == 400) simulation.network.kill(4);
  }));
  EXPECT_EQ(simulation.tree[0]->downwards->counts().taken_out, 2);
  EXPECT_EQ(simulation.server->workers_in(), 1);
  EXPECT_EQ(simulation.server->counts().updates, 200);
}

TEST_F(ParameterServerTest, WithoutDataForAnyWorkerTheRunEnds) {
  ServerRules rules;
  rules.lost_seconds = 2;
  Simulation simulation(2, rules, 7);
  for (const int process : {1, 2}) simulation.network.stall(process, true);
  try {
    simulation.run(10, 60);
    ADD_FAILURE() << "it went on";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("has not heard of any worker that gets anything from its data for 2"));
  }
  EXPECT_LT(simulation.network.seconds(), 2.1);
}

TEST_F(ParameterServerTest, NoTwoWorkersGetTheSameTask) {
  ServerRules rules;
  rules.wait_seconds = 0;
  rules.staleness = 3;
  rules.first_task = 1000;
  Simulation simulation(4, rules, 6);
  ASSERT_TRUE(simulation.run(100, 60));
  std::set<std::int64_t> all;
  for (const auto& worker : simulation.people)
    for (const std::int64_t task : worker->tasks) EXPECT_TRUE(all.insert(task).second) << task;
  EXPECT_EQ(*all.begin(), 1000);
}

TEST_F(ParameterServerTest, WithoutAnyWorkerTheRunEnds) {
  ServerRules rules;
  rules.lost_seconds = 2;
  Simulation simulation(2, rules, 7);
  for (const int process : {1, 2}) simulation.network.cut(process, true);
  try {
    simulation.run(10, 60);
    ADD_FAILURE() << "it went on";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("has not heard of any worker for 2"));
  }
  EXPECT_LT(simulation.network.seconds(), 2.1);
}

TEST_F(ParameterServerTest, AWorkerWithAnotherNetIsRefused) {
  Simulation simulation(1, {}, 8);
  ServerLayout other = small_layout();
  other.checksum = 78;
  simulation.people[0] = std::make_unique<SimulatedWorker>(simulation.network, 1, other, Compression{});
  try {
    simulation.run(1, 60);
    ADD_FAILURE() << "it was not noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_THAT(error.what(), HasSubstr("other parameters than the server's"));
    EXPECT_THAT(error.what(), HasSubstr("listened to process 1"));
  }
}

/// Error feedback: what is not sent now is sent later, so the values get where they would get.
TEST_F(ParameterServerTest, CompressedDifferencesTrainToo) {
  for (const Compression& compression : {Compression{DType::bf16, 1}, Compression{DType::f16, 1},
                                         Compression{std::nullopt, 0.25}, Compression{DType::bf16, 0.25}}) {
    Simulation simulation(3, {}, 9, 0.01, compression, DType::f32);
    ASSERT_TRUE(simulation.run(300, 600));
    for (const double value : simulation.values) EXPECT_NEAR(value, 1, 0.2);
    EXPECT_GT(simulation.server->counts().received, 0u);
  }
}

/// A thousand random schedules: no hang, nothing applied twice, nothing too old.
TEST_F(ParameterServerTest, NoScheduleOfFaultsHangs) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr unsigned kSchedules = 300;  // each takes five times as long
#else
  constexpr unsigned kSchedules = 1000;
#endif
  for (unsigned seed = 1; seed <= kSchedules; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
    const int workers = 1 + pick(5);
    ServerRules rules;
    rules.wait_seconds =
        std::vector<double>{ServerRules::kForEver, 0, 0.01, 0.1}[static_cast<std::size_t>(pick(3))];
    rules.staleness = pick(8);
    const Compression compression{std::nullopt, pick(2) == 0 ? 0.3 : 1};
    int servers = 1 + pick(2), inner = 0;
    if (servers == 1 && pick(1) == 0) inner = 1 + pick(std::min(workers, 3) - 1);
    const int first = servers + inner;
    rules.spares = inner > 0 ? 0 : pick(std::min(workers, 3) - 1);
    Simulation simulation(workers, rules, seed, 0.001 * (1 + pick(30)), compression, DType::f64, servers,
                          inner);
    for (const auto& worker : simulation.people) worker->slowness = 0.005 * (1 + pick(20));
    enum class Kind : std::uint8_t { stop, cut, stall };
    struct Fault {
      int process;
      Kind kind;
      double begins, ends;
    };
    std::vector<Fault> faults;
    std::map<int, double> kills;  // of workers: when
    for (int k = pick(4); k > 0; --k) {
      const double begins = 0.01 * pick(100);
      // Some for ever, but never of a server or the first worker: a run needs them.
      const int process = 1 + pick(first + workers - 2);
      const bool for_ever = process > first && pick(3) == 0;
      if (process > first && pick(3) == 0) kills[process] = begins;
      const Kind kind = process >= first && pick(3) == 0 ? Kind::stall
                        : pick(1) == 0                   ? Kind::cut
                                                         : Kind::stop;
      faults.push_back({process, kind, begins, for_ever ? 1e9 : begins + 0.01 * (1 + pick(60))});
    }
    const bool ended = simulation.run(30, 120, [&] {
      const double now = simulation.network.seconds();
      for (int process = 1; process < first + workers; ++process) {
        std::set<Kind> kinds;
        for (const Fault& fault : faults)
          if (fault.process == process && now >= fault.begins && now < fault.ends) kinds.insert(fault.kind);
        const auto kill = kills.find(process);
        if (kill != kills.end() && now >= kill->second && !simulation.network.killed(process))
          simulation.network.kill(process);
        if (simulation.network.killed(process)) continue;
        simulation.network.stop(process, kinds.contains(Kind::stop));
        simulation.network.cut(process, kinds.contains(Kind::cut));
        simulation.network.stall(process, kinds.contains(Kind::stall));
      }
    });
    const ServerCounts counts = simulation.server->counts();
    ASSERT_TRUE(ended) << "seed " << seed << ": " << describe(counts);
    ASSERT_EQ(simulation.version, 30) << "seed " << seed;
    ASSERT_LE(counts.ages.size(), static_cast<std::size_t>(rules.staleness) + 1) << "seed " << seed;
    if (inner == 0) {
      ASSERT_EQ(counts.applied, static_cast<std::int64_t>(simulation.applied.size())) << "seed " << seed;
    }
  }
}

/// MPI counts in int, and the wire in kMostBytes.
TEST(ServerLayout, WhatDoesNotFitIntoAMessageIsRefused) {
  ServerLayout layout = small_layout(DType::f32);
  constexpr std::int64_t kMost =
      (std::int64_t{1} << 28) - (1 << 14);  // 2^30 bytes without the coding's 64 Ki
  layout.pieces = {5, kMost, 8};
  layout.rest_bytes = 4 * kMost;
  layout.check_sizes();
  const auto refusal = [](const ServerLayout& of) {
    try {
      of.check_sizes();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  ServerLayout wide = layout;
  wide.type = DType::f64;
  EXPECT_THAT(refusal(wide), HasSubstr("one of the net's parameters has 2147352576 bytes"));
  layout.rest_bytes += 4;
  EXPECT_THAT(refusal(layout), HasSubstr("the parameters that are not learned have 1073676292 bytes"));
}

TEST(DifferenceCoding, TheLargestValuesAreSentAndTheRestLater) {
  DifferenceEncoder encoder(5, DType::f32, {std::nullopt, 0.4});
  const auto send = [&](const std::vector<float>& values) {
    std::vector<char> encoded;
    encoder.encode(reinterpret_cast<const char*>(values.data()), encoded);
    EXPECT_LE(encoded.size(), encoder.most_bytes());
    std::vector<float> decoded(values.size());
    decode_difference(encoded.data(), encoded.size(), 5, DType::f32, reinterpret_cast<char*>(decoded.data()));
    return decoded;
  };
  EXPECT_EQ(send({1, -4, 0.5F, 3, 2}), (std::vector<float>{0, -4, 0, 3, 0}));
  EXPECT_EQ(send({1, 0, 0.5F, 0, 0.5F}), (std::vector<float>{2, 0, 0, 0, 2.5F}));
  EXPECT_EQ(send({0, 0, 0, 0, 0}), (std::vector<float>{0, 0, 1, 0, 0}));
}

/// A server's buffers hold all values, and not many positions besides.
TEST(DifferenceCoding, AShareIsNeverLongerThanAllValues) {
  constexpr std::int64_t kCount = 10'000;
  constexpr std::size_t kPrefix = 16;
  std::vector<float> values(kCount, 1), decoded(kCount);
  for (const auto& narrow : {std::optional<DType>(), std::optional<DType>(DType::bf16)})
    for (const double top : {0.01, 0.3, 0.34, 0.5, 0.7, 0.99}) {
      DifferenceEncoder encoder(kCount, DType::f32, {narrow, top});
      std::vector<char> encoded;
      encoder.encode(reinterpret_cast<const char*>(values.data()), encoded);
      EXPECT_LE(encoded.size(), encoder.most_bytes());
      EXPECT_LE(encoded.size(), kPrefix + kCount * (narrow ? 2 : 4)) << top;
      decode_difference(encoded.data(), encoded.size(), kCount, DType::f32,
                        reinterpret_cast<char*>(decoded.data()));
      const auto sent = std::count(decoded.begin(), decoded.end(), 1.0F);
      EXPECT_GE(sent, static_cast<std::ptrdiff_t>(top * kCount)) << top;
    }
}

TEST(DifferenceCoding, WhatIsNotANumberIsSent) {
  DifferenceEncoder encoder(4, DType::f64, {std::nullopt, 0.25});
  const std::vector<double> values = {1, 2, NAN, 3};
  std::vector<char> encoded;
  encoder.encode(reinterpret_cast<const char*>(values.data()), encoded);
  std::vector<double> decoded(4);
  decode_difference(encoded.data(), encoded.size(), 4, DType::f64, reinterpret_cast<char*>(decoded.data()));
  EXPECT_TRUE(std::isnan(decoded[2]));
  EXPECT_EQ(decoded[3], 0);
}

TEST(DifferenceCoding, DamagedOnesAreRefused) {
  DifferenceEncoder encoder(6, DType::f32, {std::nullopt, 0.3});
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  std::vector<char> encoded;
  encoder.encode(reinterpret_cast<const char*>(values.data()), encoded);
  std::vector<float> decoded(6);
  char* to = reinterpret_cast<char*>(decoded.data());
  EXPECT_THROW(decode_difference(encoded.data(), encoded.size() - 1, 6, DType::f32, to), Error);
  EXPECT_THROW(decode_difference(encoded.data(), 3, 6, DType::f32, to), Error);
  EXPECT_THROW(decode_difference(encoded.data(), encoded.size(), 2, DType::f32, to), Error);
  EXPECT_THROW(decode_difference(encoded.data(), encoded.size(), 6, DType::f64, to), Error);
  std::uint32_t beyond = 6;
  std::memcpy(encoded.data() + 16, &beyond, sizeof beyond);
  EXPECT_THROW(decode_difference(encoded.data(), encoded.size(), 6, DType::f32, to), Error);
}

}  // namespace
}  // namespace banyan::parallel
