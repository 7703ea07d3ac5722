#include "banyan/data/assembler.hpp"

#include <algorithm>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan::data {

namespace {

/// "3 x 32 x 32"
std::string text_of(const Shape& shape) {
  std::vector<std::string> axes;
  for (const std::int64_t axis : shape.dims()) axes.push_back(std::to_string(axis));
  return axes.empty() ? "one value" : join(axes, " x ");
}

}  // namespace

BatchAssembler::BatchAssembler(std::shared_ptr<HostMemory> memory, const Dealing& dealing,
                               std::shared_ptr<const RecordSource> source,
                               std::shared_ptr<const EpochOrder> order,
                               std::shared_ptr<const ItemWriter> writer, const AssemblerOptions& options)
    : memory_(std::move(memory)),
      dealing_(dealing),
      source_(std::move(source)),
      order_(std::move(order)),
      writer_(std::move(writer)),
      options_(options) {}

void BatchAssembler::begin(HostBatch& batch, const std::vector<Shape>& item) const {
  const std::uint64_t items = std::max(batch.share.count, options_.largest_share);
  batch.arrays.resize(item.size());
  for (std::size_t k = 0; k < item.size(); ++k) {
    HostBatch::Array& array = batch.arrays[k];
    array.item = item[k];
    memory_->reserve(items * static_cast<std::size_t>(item[k].count()) * size_of(options_.dtype),
                     array.memory, array.capacity);
  }
}

void BatchAssembler::operator()(HostBatch& batch) {
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
      write(batch, i, item);
    } catch (const Error& error) {
      throw Error(error.kind(), reader_->describe(position) + ": " + error.message());
    }
    if (options_.items) ++*options_.items;
  }
}

/// The record read last becomes entry `index` of the batch.
void BatchAssembler::write(HostBatch& batch, std::uint64_t index, std::uint64_t item) {
  const std::vector<Shape> shapes = writer_->shapes(record_);
  if (index == 0) begin(batch, shapes);
  ItemPlace place{options_.dtype, options_.layout, {}};
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    const HostBatch::Array& array = batch.arrays[k];
    if (shapes[k] != array.item)
      bad_input("the item is ", text_of(shapes[k]), ", but its batch began with one of ", text_of(array.item),
                " (images of different sizes need crop_size, new_height and new_width, or batch_size: 1)");
    const std::size_t bytes = static_cast<std::size_t>(array.item.count()) * size_of(options_.dtype);
    place.outputs.push_back(static_cast<std::byte*>(array.memory.get()) + index * bytes);
  }
  writer_->write(record_, item, place);
}

}  // namespace banyan::data
