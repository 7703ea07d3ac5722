#include "banyan/parallel/simulate.hpp"

#include <algorithm>
#include <numeric>

#include "parallel/slot_exchange.hpp"

namespace banyan::parallel {
namespace {

double seconds_at(double bytes, double bytes_per_s) { return bytes_per_s > 0 ? bytes / bytes_per_s : 0; }

/// The way of buckets from one machine to the others and back. What is sent leaves in the order in which it
/// is ready: the parts of a bucket, for the owners of its pieces, and as soon as these have all parts, the
/// results. Card and thread work at the same time.
class Card {
 public:
  explicit Card(const SimulatedNetwork& network) : network_(network) {}
  /// When a bucket's parts that are ready at `start` are with their owners, or its results with everybody.
  double send(double bytes, double start) {
    const double others = network_.machines - 1, share = others / network_.machines;
    const auto pieces =
        static_cast<double>(SlotExchange::pieces_of(static_cast<std::size_t>(bytes), network_.machines));
    // Half of the time for sums, and for the header that goes to a neighbour, is counted each way.
    const double messages = 2 * share * pieces + 1;
    const double card = seconds_at(share * bytes * network_.width, network_.cost.bytes_per_s);
    const double thread =
        messages * network_.message_s + seconds_at(share * bytes / 2, network_.sum_bytes_per_s);
    free_ = std::max(free_, start) + std::max(card, thread);
    return free_ + network_.cost.latency_s;
  }

 private:
  const SimulatedNetwork& network_;
  double free_ = 0;
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
        card_(machine.network),
        summed_here_(buckets.size(), kNotSent),
        above_(buckets.size()) {
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
  /// A bucket between the machines.
  struct Above {
    double parts = kNotSent;   ///< when the owners of its pieces have all parts
    double summed = kNotSent;  ///< when all machines have the sum
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

  /// Everybody waits for other machines. Next in time, the card takes a bucket's parts or results, or a sum
  /// arrives.
  void go_on_above() {
    enum class Next { nothing, parts, results, sum } next = Next::nothing;
    std::size_t bucket = 0;
    double time = 0;
    const auto consider = [&](Next what, std::size_t b, double at) {
      if (next == Next::nothing || at < time) next = what, bucket = b, time = at;
    };
    for (std::size_t b = 0; b < above_.size(); ++b) {
      const Above& above = above_[b];
      if (above.summed != kNotSent) {
        if (above.summed > now_above_) consider(Next::sum, b, above.summed);
      } else if (above.parts != kNotSent) {
        consider(Next::results, b, above.parts);
      } else if (summed_here_[b] != kNotSent) {
        consider(Next::parts, b, summed_here_[b]);
      }
    }
    const double bytes = bytes_of(bucket);
    if (next == Next::parts) above_[bucket].parts = card_.send(bytes, time);
    if (next == Next::results) above_[bucket].summed = card_.send(bytes, time);
    if (next == Next::sum) now_above_ = time;
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
      const double summed = above_[bucket].summed;
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
  Card card_;
  std::vector<double> summed_here_;  ///< when buckets are summed on this machine
  std::vector<Above> above_;
  double now_above_ = 0;  ///< what is summed on all machines by now has arrived
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
