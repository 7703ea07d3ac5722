// What a message costs on a link, and how large the chunks of a pipelined sum should be. The model is the
// usual one, latency plus bytes over bandwidth: it chooses how a sum is cut for speed, never what is added to
// what.
#pragma once

#include <cstddef>

#include "banyan/parallel/device_tree.hpp"

namespace banyan::parallel {

struct LinkCost {
  double latency_s = 0;    ///< of a message without data: hand-over between the threads, launches
  double bytes_per_s = 0;  ///< of a long message
  double seconds(double bytes) const { return latency_s + bytes / bytes_per_s; }
};

/// Seconds until a sum of `message` bytes is back at every device of a tree of `depth` levels of edges, cut
/// into pieces of `chunk` bytes: a pipeline of 2 depth stages (up and down), each of which passes a chunk on
/// while the next one follows.
double pipeline_seconds(std::size_t message, int depth, const LinkCost& link, std::size_t chunk);

/// The chunk, at most `largest` bytes and at least 1, for which pipeline_seconds is smallest. Pure.
std::size_t best_chunk(std::size_t message, int depth, const LinkCost& link, std::size_t largest);

/// Chunks beyond this do not pay whatever the model says: on CPU devices as many as there are devices are in
/// work, in as many copies each, and all should stay in caches; on GPUs they are kept in staging memory.
std::size_t largest_chunk(int devices, DeviceKind kind);

/// best_chunk for a sum of `message` bytes over this tree.
std::size_t chunk_for(const Tree& tree, DeviceKind kind, std::size_t message, const LinkCost& link);

/// Measures the slowest kind of edge of the tree, in some milliseconds: copies, and a token that goes round
/// the devices' doorbells, as many threads waiting as in training. Starts a thread for each member.
LinkCost measure_link_cost(const Tree& tree, const std::vector<Member>& members, SpinPolicy policy);

}  // namespace banyan::parallel
