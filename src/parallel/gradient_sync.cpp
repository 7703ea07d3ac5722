#include "banyan/parallel/gradient_sync.hpp"

#include <algorithm>
#include <utility>

namespace banyan::parallel {
namespace {

/// Small enough that the levels of the tree overlap and owners share the work, large enough that a bucket's
/// handshake (microseconds) is negligible compared with its transfer. Between processes that is a piece for
/// each of them, and a header, so buckets are larger there. With many processes they are so large that these
/// messages take about as long as the additions at most, even where a message costs two microseconds, as by
/// TCP; a small net keeps four buckets all the same: with fewer, nothing would travel while backward runs.
std::int64_t bucket_elements(std::int64_t total, std::size_t element_bytes, int devices, int processes) {
  constexpr std::int64_t kSmallest = 64 << 10, kSmallestBetween = 256 << 10, kLargest = 4 << 20;  // bytes
  constexpr int kFew = 4;
  const std::int64_t all = total * static_cast<std::int64_t>(element_bytes);
  const std::int64_t smallest = processes == 1 ? kSmallest : kSmallestBetween;
  const std::int64_t most = std::clamp(all / 4, smallest, kLargest);
  const std::int64_t least = processes <= kFew ? smallest : std::min(2 * kSmallest * (processes - 1), most);
  return std::clamp(all / (4 * devices), least, kLargest) / static_cast<std::int64_t>(element_bytes);
}

}  // namespace

std::vector<Bucket> plan_buckets(const std::vector<ParameterRange>& ranges, std::int64_t total,
                                 std::size_t element_bytes, int devices, int everywhere, bool whole,
                                 int processes) {
  everywhere = std::max(everywhere, devices);
  return cut_buckets(ranges, total,
                     everywhere == 1 ? total : bucket_elements(total, element_bytes, everywhere, processes),
                     devices, whole);
}

std::vector<Bucket> cut_buckets(const std::vector<ParameterRange>& ranges, std::int64_t total,
                                std::int64_t wanted, int devices, bool whole) {
  std::vector<Bucket> buckets;
  if (total == 0) return buckets;
  Bucket open{0, 0, 0, 0};
  const auto close = [&](std::int64_t end) {
    open.count = end - open.offset;
    if (open.count > 0) buckets.push_back(open);
    open.offset = end;
  };
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const std::int64_t end =
        i + 1 < ranges.size() ? ranges[i + 1].offset : total;  // padding belongs to the range before it
    open.ready_layer = ranges[i].ready_layer;
    while (!whole && end - open.offset > wanted + wanted / 2) close(open.offset + wanted);
    if (end - open.offset >= wanted) close(end);
  }
  if (!ranges.empty()) close(total);
  std::vector<std::int64_t> load(devices, 0);
  for (Bucket& bucket : buckets) {
    const auto lightest = std::min_element(load.begin(), load.end());
    bucket.owner = static_cast<int>(lightest - load.begin());
    *lightest += bucket.count;
  }
  return buckets;
}

std::vector<Bucket> buckets_by_layer(const std::vector<ParameterRange>& ranges, std::int64_t total) {
  std::vector<Bucket> buckets;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (buckets.empty() || buckets.back().ready_layer != ranges[i].ready_layer)
      buckets.push_back({ranges[i].offset, 0, ranges[i].ready_layer, 0});
    const std::int64_t end = i + 1 < ranges.size() ? ranges[i + 1].offset : total;
    buckets.back().count = end - buckets.back().offset;
  }
  return buckets;
}

GradientSync::GradientSync(DeviceTree* tree, int rank, Context& lane, const std::vector<Bucket>& buckets,
                           const Tensor& gradients, const Tensor& values, std::function<void(int)> update,
                           std::size_t chunk_bytes)
    : rank_(rank),
      lane_(lane),
      buckets_(buckets),
      update_(std::move(update)),
      handover_(lane.device().create_event()) {
  if (tree == nullptr || tree->is_alone()) return;
  std::vector<Segment> segments;
  // One wave per bucket: a bucket must not wait for one that backward finishes later.
  for (const Bucket& bucket : buckets_)
    segments.push_back({bucket.owner, static_cast<int>(segments.size()),
                        gradients.slice(bucket.offset, Shape{bucket.count}),
                        values.slice(bucket.offset, Shape{bucket.count})});
  collective_ =
      std::make_unique<TreeCollective>(*tree, rank, lane, std::move(segments), update_, chunk_bytes);
}

int GradientSync::slots_for(const std::vector<Bucket>& buckets, std::size_t element_bytes,
                            std::size_t chunk_bytes) {
  std::vector<std::size_t> bytes;
  for (const Bucket& bucket : buckets)
    bytes.push_back(static_cast<std::size_t>(bucket.count) * element_bytes);
  return TreeCollective::slots_for(bytes, chunk_bytes);
}

void GradientSync::start() {
  next_ = 0;
  if (collective_) collective_->start();
}

void GradientSync::layer_done(int layer, Stream& compute) {
  if (held_) return;
  for (; next_ < buckets_.size() && buckets_[next_].ready_layer >= layer; ++next_) {
    if (collective_)
      collective_->make_ready(static_cast<int>(next_), compute);
    else
      update_(static_cast<int>(next_));
  }
  if (collective_ && next_ > 0) collective_->progress();
}

void GradientSync::hold() {
  if (collective_)
    collective_->hold_roots();
  else
    held_ = true;
}

void GradientSync::finish_reduction() {
  if (collective_) collective_->finish_reduction();
}

void GradientSync::release() {
  held_ = false;
  if (collective_) collective_->release_roots();
}

void GradientSync::finish(Stream& compute) {
  if (!collective_) {
    for (; next_ < buckets_.size(); ++next_) update_(static_cast<int>(next_));
    return;
  }
  collective_->finish();
  lane_.stream().record(*handover_);
  compute.wait(*handover_);
}

}  // namespace banyan::parallel
