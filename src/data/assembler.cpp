#include "banyan/data/assembler.hpp"

#include <algorithm>
#include <utility>

#include "banyan/base/error.hpp"

namespace banyan::data {

BatchAssembler::BatchAssembler(std::shared_ptr<HostMemory> memory, const Dealing& dealing,
                               std::shared_ptr<const RecordSource> source,
                               std::shared_ptr<const EpochOrder> order,
                               std::shared_ptr<const Augmenter> augmenter, const AssemblerOptions& options)
    : memory_(std::move(memory)),
      dealing_(dealing),
      source_(std::move(source)),
      order_(std::move(order)),
      augmenter_(std::move(augmenter)),
      options_(options) {}

void BatchAssembler::operator()(HostBatch& batch) {
  dispatch_float(options_.dtype, "a data layer", [&]<class T>() { fill<T>(batch); });
}

void BatchAssembler::begin(HostBatch& batch, const ItemShape& item) const {
  batch.item = item;
  const std::uint64_t items = std::max(batch.share.count, options_.largest_share);
  const std::size_t element = size_of(options_.dtype);
  memory_->reserve(items * static_cast<std::size_t>(item.count()) * element, batch.data, batch.data_bytes);
  memory_->reserve(items * element, batch.labels, batch.label_bytes);
}

template <class T>
void BatchAssembler::fill(HostBatch& batch) {
  const Share& share = batch.share;
  if (share.count == 0) {
    begin(batch, options_.empty_item);
    return;
  }
  if (!reader_) reader_ = source_->reader();
  for (std::uint64_t i = 0; i < share.count; ++i) {
    const std::uint64_t item = share.item(i);
    const std::uint64_t position = order_->record(dealing_.epoch(item), dealing_.record(item));
    read_record(*reader_, position, record_);
    try {
      const ItemShape shape = augmenter_->output_shape(record_);
      if (i == 0) begin(batch, shape);
      if (shape != batch.item)
        bad_input("the item is ", shape.to_string(), ", but its batch began with one of ",
                  batch.item.to_string(),
                  " (images of different sizes need crop_size, new_height and new_width, or batch_size: 1)");
      augmenter_->apply(record_, item, options_.layout,
                        static_cast<T*>(batch.data.get()) + static_cast<std::int64_t>(i) * shape.count());
    } catch (const Error& error) {
      throw Error(error.kind(), reader_->describe(position) + ": " + error.message());
    }
    static_cast<T*>(batch.labels.get())[i] = static_cast<T>(record_.label);
    if (options_.items) ++*options_.items;
  }
}

}  // namespace banyan::data
