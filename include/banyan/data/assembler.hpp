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

/// Shapes of a batch of `items` such items, with a table of at least `rows` rows if the writer makes one:
/// 1 x 1 x rows x length. The rows are a power of two, and one at least: batches whose tables differ little
/// have the same shape, so that nets are seldom planned again. Rows without contents are -1.
std::vector<Shape> batch_shapes(const ItemWriter& writer, const std::vector<Shape>& item, std::uint64_t items,
                                std::uint64_t rows = 0);

/// "3 x 32 x 32"; "one value" without axes.
std::string item_text(const Shape& shape);

class BatchAssembler {
 public:
  BatchAssembler(std::shared_ptr<HostMemory> memory, const Dealing& dealing,
                 std::shared_ptr<const RecordSource> source, std::shared_ptr<const EpochOrder> order,
                 std::shared_ptr<const ItemWriter> writer, const AssemblerOptions& options);
  /// Fills `batch` with the items of `batch.share`. All items must have the shape of the first; errors name
  /// the record.
  void operator()(HostBatch& batch);

 private:
  void begin(HostBatch& batch, const std::vector<Shape>& item);
  void write_table(HostBatch& batch) const;
  void write(HostBatch& batch, std::uint64_t index, std::uint64_t item);

  std::shared_ptr<HostMemory> memory_;
  Dealing dealing_;
  std::shared_ptr<const RecordSource> source_;
  std::shared_ptr<const EpochOrder> order_;
  std::shared_ptr<const ItemWriter> writer_;
  AssemblerOptions options_;
  std::unique_ptr<RecordReader> reader_;  // opened at first use
  Record record_;
  std::vector<Shape> item_;   // shapes of the batch's first item
  std::vector<double> rows_;  // of the batch's table
};

}  // namespace banyan::data
