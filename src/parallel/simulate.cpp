#include "banyan/parallel/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "parallel/slot_exchange.hpp"

namespace banyan::parallel {
namespace {

double seconds_at(double bytes, double bytes_per_s) { return bytes_per_s > 0 ? bytes / bytes_per_s : 0; }

/// The way of buckets between the machines. These all do the same at the same time, so one of them is
/// followed: what it sends is what it receives. Its thread sends parts of a bucket to the owners of its
/// pieces, adds up those of the pieces that it owns itself, and sends the results; its card sends one message
/// after the other. Both take what comes in the order in which it comes, and work at the same time.
class SimulatedUplink {
 public:
  SimulatedUplink(const SimulatedNetwork& network, std::size_t buckets)
      : network_(network), exchanges_(buckets) {}

  /// The bucket's values are ready for the thread.
  void bring(std::size_t bucket, double bytes, double ready) {
    const std::int64_t machines = network_.machines,
                       pieces = SlotExchange::pieces_of(static_cast<std::size_t>(bytes), network_.machines);
    const double share = static_cast<double>(machines - 1) / static_cast<double>(machines);
    // With fewer pieces than machines, each machine owns a part of one.
    const double messages = share * static_cast<double>(pieces);
    Exchange& exchange = exchanges_[bucket];
    exchange.pieces = std::max<std::int64_t>(1, pieces / machines);
    exchange.messages = std::max(exchange.pieces, static_cast<std::int64_t>(std::ceil(messages)));
    exchange.message_s = messages / static_cast<double>(exchange.messages) * network_.message_s;
    exchange.bytes = share * bytes / static_cast<double>(exchange.messages);
    arrive(ready, What::values, bucket);
  }
  /// When something comes to the thread; infinite if nothing is on its way.
  double next() const {
    return arrivals_.empty() ? std::numeric_limits<double>::infinity() : arrivals_.top().time;
  }
  /// The thread takes what comes next. Returns a bucket whose sum all machines have by then, and when.
  std::optional<std::pair<std::size_t, double>> go_on() {
    const Arrival arrival = arrivals_.top();
    arrivals_.pop();
    Exchange& exchange = exchanges_[arrival.bucket];
    thread_ = std::max(thread_, arrival.time);
    switch (arrival.what) {
      case What::values:
        send(What::header, arrival.bucket, network_.message_s, 0);
        for (std::int64_t m = 0; m < exchange.messages; ++m)
          send(What::part, arrival.bucket, exchange.message_s, exchange.bytes);
        break;
      case What::header:
        thread_ += network_.message_s;
        break;
      case What::part:
        thread_ += exchange.message_s;
        ++exchange.parts;
        while (exchange.summed < exchange.pieces &&
               exchange.parts >= exchange.messages_of(exchange.summed + 1))
          send_result(arrival.bucket);
        break;
      case What::result:
        thread_ += exchange.message_s;
        if (++exchange.results == exchange.messages) return {{arrival.bucket, thread_}};
        break;
    }
    return std::nullopt;
  }

 private:
  enum class What { values, header, part, result };
  struct Arrival {
    double time;
    std::uint64_t number;  ///< of what comes at the same time, the earlier one is first
    What what;
    std::size_t bucket;
    bool operator>(const Arrival& other) const {
      return std::tie(time, number) > std::tie(other.time, other.number);
    }
  };
  struct Exchange {
    std::int64_t pieces = 0, messages = 0;  ///< that the machine owns; of parts and of results, each way
    double message_s = 0, bytes = 0;        ///< of a message: the thread's time, the values before packing
    std::int64_t parts = 0, summed = 0, results = 0;  ///< so far
    /// The first `count` of the machine's pieces have so many.
    std::int64_t messages_of(std::int64_t count) const { return messages * count / pieces; }
  };

  void arrive(double time, What what, std::size_t bucket) { arrivals_.push({time, ++number_, what, bucket}); }
  void send(What what, std::size_t bucket, double message_s, double bytes) {
    thread_ += message_s;
    card_ = std::max(card_, thread_) + seconds_at(bytes * network_.width, network_.cost.bytes_per_s);
    arrive(card_ + network_.cost.latency_s, what, bucket);
  }
  /// A piece's parts are added when the last one is there.
  void send_result(std::size_t bucket) {
    Exchange& exchange = exchanges_[bucket];
    const std::int64_t messages =
        exchange.messages_of(exchange.summed + 1) - exchange.messages_of(exchange.summed);
    thread_ += seconds_at(static_cast<double>(messages) * exchange.bytes, network_.sum_bytes_per_s);
    for (std::int64_t m = 0; m < messages; ++m)
      send(What::result, bucket, exchange.message_s, exchange.bytes);
    ++exchange.summed;
  }

  const SimulatedNetwork& network_;
  std::vector<Exchange> exchanges_;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
  std::uint64_t number_ = 0;
  double thread_ = 0, card_ = 0;  ///< when they are free
};

/// TreeCollective with threads that take no time: the messages alone determine what is enqueued on a device's
/// stream, and in which order. The time of an enqueued message is known, so each message is visited once.
class Replay {
 public:
  Replay(const SimulatedMachine& machine, const std::vector<Bucket>& buckets,
         const std::vector<double>& ready_s, std::size_t chunk_bytes)
      : machine_(machine),
        ready_s_(ready_s),
        devices_(machine.tree.size()),
        uplink_(machine.network, buckets.size()),
        summed_here_(buckets.size(), kNotSent),
        brought_(buckets.size(), false),
        summed_(buckets.size(), kNotSent) {
    std::size_t most = 0;
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      const std::size_t first = chunks_.size();
      const auto bytes = static_cast<std::size_t>(buckets[b].count) * machine.element_bytes;
      const std::size_t pieces = TreeCollective::chunks_of(bytes, chunk_bytes);
      chunks_.insert(chunks_.end(), pieces,
                     {b, buckets[b].owner, static_cast<double>(bytes) / static_cast<double>(pieces)});
      bounds_.push_back({first, chunks_.size()});
      most = std::max(most, chunks_.size() - first);
    }
    window_ = std::max<std::size_t>(4, devices_.size()) * most;
    for (DeviceState& device : devices_) {
      device.chunks.resize(chunks_.size());
      device.summed.resize(buckets.size(), 0);
    }
  }

  double run() {
    std::size_t fruitless = 0;  // sweeps without a step forward
    for (bool finished = false; !finished;) {
      finished = true;
      const std::uint64_t before = steps_;
      for (int node = 0; node < machine_.tree.size(); ++node) finished &= step(node);
      fruitless = steps_ == before ? fruitless + 1 : 0;
      if (fruitless <= std::min(window_, chunks_.size())) continue;
      go_on_above();
      fruitless = 0;  // whatever may be enqueued now comes before what is next above
    }
    double end = 0;
    for (const DeviceState& device : devices_) end = std::max(end, device.clock);
    return end;
  }

 private:
  static constexpr double kNotSent = -1;
  struct Chunk {
    std::size_t bucket;
    int root;
    double bytes;
  };
  struct Way {
    std::size_t added = 0;
    double up = kNotSent, down = kNotSent;  ///< when the message may be read
  };
  struct DeviceState {
    double clock = 0;
    std::vector<Way> chunks;
    std::vector<std::size_t> summed;  ///< chunks of a bucket, at its root
    std::size_t first = 0;            ///< unfinished chunk
    std::size_t next = 0;             ///< to look at
  };
  DeviceState& state(int node) { return devices_[node]; }
  double bytes_of(std::size_t bucket) const {
    double bytes = 0;
    for (std::size_t c = bounds_[bucket].first; c < bounds_[bucket].second; ++c) bytes += chunks_[c].bytes;
    return bytes;
  }

  /// Everybody waits for other machines. Next in time, a bucket comes to the uplink, the uplink goes on, or a
  /// sum arrives.
  void go_on_above() {
    enum class Next { uplink, values, sum } next = Next::uplink;
    std::size_t bucket = 0;
    double time = uplink_.next();
    const auto consider = [&](Next what, std::size_t b, double at) {
      if (at < time) next = what, bucket = b, time = at;
    };
    for (std::size_t b = 0; b < summed_.size(); ++b) {
      if (summed_here_[b] != kNotSent && !brought_[b]) consider(Next::values, b, summed_here_[b]);
      if (summed_[b] != kNotSent && summed_[b] > now_above_) consider(Next::sum, b, summed_[b]);
    }
    if (next == Next::values) {
      brought_[bucket] = true;
      uplink_.bring(bucket, bytes_of(bucket), time);
    } else if (next == Next::sum) {
      now_above_ = time;
    } else if (std::isfinite(time)) {
      if (const auto done = uplink_.go_on()) summed_[done->first] = done->second;
    }
  }

  /// The next chunk of the device's window: threads go through their windows concurrently.
  bool step(int node) {
    DeviceState& mine = state(node);
    if (mine.next < mine.first || mine.next >= std::min(chunks_.size(), mine.first + window_))
      mine.next = mine.first;
    if (mine.first == chunks_.size()) return true;
    if (mine.chunks[mine.next].down == kNotSent) advance(node, mine.next);
    ++mine.next;
    while (mine.first < chunks_.size() && mine.chunks[mine.first].down != kNotSent) ++mine.first;
    return mine.first == chunks_.size();
  }

  void advance(int node, std::size_t c) {
    const Chunk& chunk = chunks_[c];
    DeviceState& mine = state(node);
    Way& way = mine.chunks[c];
    const int parent = machine_.tree.parent(node, chunk.root);
    if (way.up == kNotSent && !add_children(node, c)) return;
    if (parent < 0 && way.down == kNotSent) leave_root(node, chunk.bucket);
    if (parent >= 0 && state(parent).chunks[c].down != kNotSent) {
      mine.clock = std::max(mine.clock, state(parent).chunks[c].down);
      mine.clock += machine_.link(node, parent).seconds(chunk.bytes);
      way.down = mine.clock;
      ++steps_;
    }
  }

  bool add_children(int node, std::size_t c) {
    const Chunk& chunk = chunks_[c];
    DeviceState& mine = state(node);
    Way& way = mine.chunks[c];
    const double ready = ready_s_[chunk.bucket];
    const std::vector<int> children = machine_.tree.children(node, chunk.root);
    for (; way.added < children.size(); ++way.added) {
      const int child = children[way.added];
      const double sent = state(child).chunks[c].up;
      if (sent == kNotSent) return false;
      mine.clock = std::max({mine.clock, sent, ready});
      mine.clock +=
          machine_.link(node, child).seconds(chunk.bytes) + seconds_at(chunk.bytes, machine_.add_bytes_per_s);
    }
    way.up = children.empty() ? ready : mine.clock;
    ++steps_;
    if (machine_.tree.parent(node, chunk.root) < 0) ++mine.summed[chunk.bucket];
    return true;
  }

  /// The update and the way down start when the bucket's last chunk is summed, on all machines.
  void leave_root(int node, std::size_t bucket) {
    DeviceState& mine = state(node);
    const auto [first, end] = bounds_[bucket];
    if (mine.summed[bucket] < end - first) return;
    mine.clock = std::max(mine.clock, ready_s_[bucket]);
    if (machine_.network.machines > 1) {
      const double copied = seconds_at(bytes_of(bucket), machine_.network.host_bytes_per_s);
      if (summed_here_[bucket] == kNotSent) {
        summed_here_[bucket] = mine.clock += copied;
        ++steps_;
      }
      const double summed = summed_[bucket];
      if (summed == kNotSent || summed > now_above_) return;
      mine.clock = std::max(mine.clock, summed) + copied;
    }
    ++steps_;
    for (std::size_t c = first; c < end; ++c)
      mine.clock += seconds_at(chunks_[c].bytes, machine_.update_bytes_per_s);
    for (std::size_t c = first; c < end; ++c) mine.chunks[c].down = mine.clock;
  }

  const SimulatedMachine& machine_;
  const std::vector<double>& ready_s_;
  std::vector<Chunk> chunks_;
  std::vector<std::pair<std::size_t, std::size_t>> bounds_;  ///< of each bucket's chunks
  std::size_t window_ = 0;
  std::vector<DeviceState> devices_;
  SimulatedUplink uplink_;
  std::vector<double> summed_here_;  ///< when buckets are summed on this machine
  std::vector<bool> brought_;        ///< to the uplink
  std::vector<double> summed_;       ///< when all machines have the sums
  double now_above_ = 0;             ///< what is summed on all machines by now has arrived
  std::uint64_t steps_ = 0;
};

/// Seconds from the beginning of forward until backward has done layer i; [0]: all.
std::vector<double> ends_of_backward(const std::vector<SimulatedLayer>& layers) {
  double now = 0;
  for (const SimulatedLayer& layer : layers) now += layer.forward_s;
  std::vector<double> ends(layers.size() + 1, now);
  for (std::size_t i = layers.size(); i-- > 0;) ends[i] = now += layers[i].backward_s;
  return ends;
}

/// In the order in which backward finishes them.
std::vector<ParameterRange> ranges_of(const std::vector<SimulatedLayer>& layers, std::int64_t& total) {
  std::vector<ParameterRange> ranges;
  total = 0;
  for (std::size_t i = layers.size(); i-- > 0;) {
    if (layers[i].parameters == 0) continue;
    ranges.push_back({total, layers[i].parameters, static_cast<int>(i)});
    total += layers[i].parameters;
  }
  return ranges;
}

/// One device: compute, then the update.
SimulatedIteration alone(const SimulatedMachine& machine, double compute, std::int64_t parameters) {
  const double bytes = static_cast<double>(parameters) * static_cast<double>(machine.element_bytes);
  return {compute + seconds_at(bytes, machine.update_bytes_per_s), compute};
}

}  // namespace

double simulate_buckets(const SimulatedMachine& machine, const std::vector<Bucket>& buckets,
                        const std::vector<double>& ready_s, std::size_t chunk_bytes) {
  return Replay(machine, buckets, ready_s, chunk_bytes).run();
}

SimulatedIteration simulate_tree(const SimulatedMachine& machine, const std::vector<SimulatedLayer>& layers) {
  const std::vector<double> ends = ends_of_backward(layers);
  std::int64_t total = 0;
  const auto ranges = ranges_of(layers, total);
  if (machine.devices_everywhere() == 1 || total == 0) return alone(machine, ends[0], total);
  const auto buckets = machine.bucket_bytes > 0
                           ? cut_buckets(ranges, total,
                                         static_cast<std::int64_t>(std::max<std::size_t>(
                                             1, machine.bucket_bytes / machine.element_bytes)),
                                         machine.tree.size(), false)
                           : plan_buckets(ranges, total, machine.element_bytes, machine.tree.size(),
                                          machine.devices_everywhere(), false, machine.network.machines);
  std::vector<double> ready;
  for (const Bucket& bucket : buckets) ready.push_back(ends[bucket.ready_layer]);
  const LinkCost slowest =
      slowest_link(machine.tree, [&](int a, int b) -> LinkCost { return machine.link(a, b); });
  // One device has no edges, and nothing to cut for.
  const std::size_t chunk = machine.tree.size() == 1
                                ? static_cast<std::size_t>(total) * machine.element_bytes
                                : best_chunk(static_cast<std::size_t>(total) * machine.element_bytes,
                                             machine.tree.greatest_depth(), slowest, machine.largest_chunk);
  return {std::max(ends[0], simulate_buckets(machine, buckets, ready, chunk)), ends[0]};
}

SimulatedIteration simulate_p2p_sync(const SimulatedMachine& machine,
                                     const std::vector<SimulatedLayer>& layers) {
  const std::vector<double> ends = ends_of_backward(layers);
  std::int64_t total = 0;
  ranges_of(layers, total);
  if (machine.tree.size() == 1 || total == 0) return alone(machine, ends[0], total);
  const auto bytes = static_cast<std::size_t>(total) * machine.element_bytes;
  return {simulate_buckets(machine, {{0, total, 0, 0}}, {ends[0]}, bytes), ends[0]};
}

/// 2 (N - 1) steps per bucket: in each, every device fetches an N-th from its left neighbour, which must have
/// done the previous step; in the first half it adds.
SimulatedIteration simulate_ring(const SimulatedMachine& machine, const std::vector<SimulatedLayer>& layers,
                                 std::size_t bucket_bytes) {
  const std::vector<double> ends = ends_of_backward(layers);
  std::int64_t total = 0;
  const auto ranges = ranges_of(layers, total);
  const auto devices = static_cast<std::size_t>(machine.links.devices());
  if (devices == 1 || total == 0) return alone(machine, ends[0], total);
  std::vector<double> clocks(devices, 0);
  double open = 0;
  for (std::size_t r = 0; r < ranges.size(); ++r) {
    open += static_cast<double>(ranges[r].count) * static_cast<double>(machine.element_bytes);
    if (open < static_cast<double>(bucket_bytes) && r + 1 < ranges.size()) continue;
    for (double& clock : clocks) clock = std::max(clock, ends[ranges[r].ready_layer]);
    const double piece = std::exchange(open, 0.0) / static_cast<double>(devices);
    for (std::size_t step = 0; step < 2 * (devices - 1); ++step) {
      const std::vector<double> before = clocks;
      for (std::size_t d = 0; d < devices; ++d) {
        const std::size_t left = (d + devices - 1) % devices;
        clocks[d] = std::max(before[d], before[left]) +
                    machine.link(static_cast<int>(d), static_cast<int>(left)).seconds(piece) +
                    (step + 1 < devices ? seconds_at(piece, machine.add_bytes_per_s) : 0);
      }
    }
  }
  const double summed = std::max(ends[0], *std::max_element(clocks.begin(), clocks.end()));
  return {alone(machine, summed, total).total_s, ends[0]};
}

}  // namespace banyan::parallel
