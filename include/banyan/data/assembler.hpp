// BatchAssembler: reads, decodes and writes the items of a share into a host batch.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "banyan/data/dealing.hpp"
#include "banyan/data/epoch_order.hpp"
#include "banyan/data/item_writer.hpp"
#include "banyan/data/prefetcher.hpp"
#include "banyan/data/record.hpp"

namespace banyan::data {

struct AssemblerOptions {
  DType dtype = DType::f32;                                     ///< f32 or f64
  Layout layout = Layout::contiguous;                           ///< of the first output
  std::vector<Shape> empty_item;                                ///< shapes in a share without items
  std::uint64_t largest_share = 1;                              ///< items; buffers are made for this many
  std::shared_ptr<std::atomic<std::uint64_t>> items = nullptr;  ///< counts the items done
};

class BatchAssembler {
 public:
  BatchAssembler(std::shared_ptr<HostMemory> memory, const Dealing& dealing,
                 std::shared_ptr<const RecordSource> source, std::shared_ptr<const EpochOrder> order,
                 std::shared_ptr<const ItemWriter> writer, const AssemblerOptions& options);
  /// Fills `batch` with the items of `batch.share`. All items must have the shape of the first; errors name
  /// the record.
  void operator()(HostBatch& batch);

 private:
  void begin(HostBatch& batch, const std::vector<Shape>& item) const;
  void write(HostBatch& batch, std::uint64_t index, std::uint64_t item);

  std::shared_ptr<HostMemory> memory_;
  Dealing dealing_;
  std::shared_ptr<const RecordSource> source_;
  std::shared_ptr<const EpochOrder> order_;
  std::shared_ptr<const ItemWriter> writer_;
  AssemblerOptions options_;
  std::unique_ptr<RecordReader> reader_;  // opened at first use
  Record record_;
};

}  // namespace banyan::data
