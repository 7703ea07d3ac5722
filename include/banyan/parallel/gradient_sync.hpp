// GradientSync: gradients up, parameters down, while backward runs (Caffe's P2PSync, cut into buckets).
//
// All exchanged gradients of a device are in one flat buffer, in the order in which backward finishes them.
// The buffer is cut into buckets; a bucket is ready on a device when backward has passed the lowest layer
// that touches it (the bucket's ready_layer), because until then some layer still adds to its gradients or
// reads its weights. Then it climbs the tree to its owner, which updates the parameters and sends them down.
// Buckets have different owners, so that update work and optimizer state are spread over the devices and
// exist once per process. Only sizes determine buckets and owners; chunks follow from measured speed, which
// changes no bit of a sum or an update.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "banyan/parallel/tree_collective.hpp"

namespace banyan::parallel {

/// A parameter's place in the flat buffers, in elements.
struct ParameterRange {
  std::int64_t offset, count;
  int ready_layer;
};

struct Bucket {
  std::int64_t offset, count;
  int ready_layer;  ///< lowest of its parameters
  int owner;        ///< rank that sums, updates and keeps the optimizer's state
};

/// Pure. `ranges` ascend in offset and descend in ready_layer; the buckets cover [0, total) in that order.
/// Large parameters are cut; owners are chosen so that each of the first `devices` owns about the same number
/// of elements. One device: one bucket. `everywhere` counts the devices of other processes too (0: there are
/// none): the cuts must be the same in all of them. `whole`: no parameter is cut, its owner has all of it.
/// `processes`: with many, buckets are larger, because each is cut again for all of them.
std::vector<Bucket> plan_buckets(const std::vector<ParameterRange>& ranges, std::int64_t total,
                                 std::size_t element_bytes, int devices, int everywhere = 0,
                                 bool whole = false, int processes = 1);

/// The same with about `wanted` elements in a bucket.
std::vector<Bucket> cut_buckets(const std::vector<ParameterRange>& ranges, std::int64_t total,
                                std::int64_t wanted, int devices, bool whole);

class GradientSync {
 public:
  /// `update(bucket)` runs on the owner, on `lane`'s stream, when the bucket's sum is complete. `tree` needs
  /// slots_for() slots and may be nullptr for one device in one process.
  GradientSync(DeviceTree* tree, int rank, Context& lane, const std::vector<Bucket>& buckets,
               const Tensor& gradients, const Tensor& values, std::function<void(int bucket)> update,
               std::size_t chunk_bytes);
  static int slots_for(const std::vector<Bucket>& buckets, std::size_t element_bytes,
                       std::size_t chunk_bytes);

  /// Before the backward pass whose gradients are exchanged.
  void start();
  /// Backward has passed `layer` (all higher ones too); `compute` is the stream it runs on.
  void layer_done(int layer, Stream& compute);
  /// Holds updates back until release(): for decisions over all gradients (clipping).
  void hold();
  /// After hold(): returns when every sum owned here is complete.
  void finish_reduction();
  void release();
  /// Completes the exchange; `compute` continues when the parameters are there.
  void finish(Stream& compute);
  const std::vector<Bucket>& buckets() const { return buckets_; }
  int rank() const { return rank_; }

 private:
  int rank_;
  Context& lane_;
  std::vector<Bucket> buckets_;
  std::function<void(int)> update_;
  std::unique_ptr<TreeCollective> collective_;  ///< nullptr: one device
  std::unique_ptr<Event> handover_;
  std::size_t next_ = 0;  ///< first bucket that is not ready
};

}  // namespace banyan::parallel
