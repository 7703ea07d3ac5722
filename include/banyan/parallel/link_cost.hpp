// What a message costs on a link, and how large the chunks of a pipelined sum should be. The model is the
// usual one, latency plus bytes over bandwidth: it decides how a sum is cut for speed, never what is added to
// what.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "banyan/parallel/device_tree.hpp"

namespace banyan::parallel {

struct LinkCost {
  double latency_s = 0;    ///< of an empty message: handover between the threads, launches
  double bytes_per_s = 0;  ///< of a long message
  double seconds(double bytes) const { return latency_s + bytes / bytes_per_s; }
};

/// Seconds until a sum of `message` bytes is back at every device of a tree of `depth` levels of edges, cut
/// into chunks of `chunk` bytes: a pipeline of 2 depth stages (up and down), each of which forwards a chunk
/// while the next one follows.
double pipeline_seconds(std::size_t message, int depth, const LinkCost& link, std::size_t chunk);

/// The chunk, at most `largest` bytes and at least 1, for which pipeline_seconds is smallest. Pure.
std::size_t best_chunk(std::size_t message, int depth, const LinkCost& link, std::size_t largest);

/// Larger chunks do not pay off, whatever the model says: on CPU devices as many chunks as there are devices
/// are in progress, in as many copies each, and all should stay in the caches; on GPUs they are kept in
/// staging memory.
std::size_t largest_chunk(int devices, DeviceKind kind);

/// best_chunk for a sum of `message` bytes over this tree.
std::size_t chunk_for(const Tree& tree, DeviceKind kind, std::size_t message, const LinkCost& link);

/// The greatest latency and the least bandwidth of the tree's edges, not necessarily of the same edge. `edge`
/// gives the cost of the edge between two nodes, reader < owner; it is called once per edge. Without edges:
/// latency 0 and infinite bandwidth. Pure if `edge` is.
LinkCost slowest_link(const Tree& tree, const std::function<LinkCost(int reader, int owner)>& edge);

struct MeasuredLinks {
  LinkCost slowest;  ///< with the handover between threads
  struct Edge {
    int reader = 0, owner = 0;  ///< reader < owner
    LinkCost copies;
  };
  std::vector<Edge> edges;
};
/// slowest_link() of measured edges, in a few milliseconds: copies (one edge stands for all between CPU
/// devices), and the time in which a token goes from one device's thread to the next, with as many threads
/// waiting as in training. Starts a thread per member.
MeasuredLinks measure_link_cost(const Tree& tree, const std::vector<Member>& members, SpinPolicy policy);

}  // namespace banyan::parallel
