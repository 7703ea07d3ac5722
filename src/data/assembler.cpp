#include "banyan/data/assembler.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan::data {

std::string item_text(const Shape& shape) {
  std::vector<std::string> axes;
  for (const std::int64_t axis : shape.dims()) axes.push_back(std::to_string(axis));
  return axes.empty() ? "one value" : join(axes, " x ");
}

std::vector<Shape> batch_shapes(const ItemWriter& writer, const std::vector<Shape>& item, std::uint64_t items,
                                std::uint64_t rows) {
  std::vector<Shape> shapes;
  for (const Shape& one : item) {
    std::vector<std::int64_t> dims = one.dims();
    dims.insert(dims.begin(), static_cast<std::int64_t>(items));
    shapes.emplace_back(std::move(dims));
  }
  if (const std::int64_t length = writer.row_length(); length > 0)
    shapes.push_back(
        Shape{1, 1, static_cast<std::int64_t>(std::bit_ceil(std::max<std::uint64_t>(rows, 1))), length});
  return shapes;
}

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

void BatchAssembler::begin(HostBatch& batch, const std::vector<Shape>& item) {
  item_ = item;
  rows_.clear();
  const std::vector<Shape> shapes = batch_shapes(*writer_, item, batch.share.count);
  const std::uint64_t items = std::max(batch.share.count, options_.largest_share);
  batch.arrays.resize(shapes.size());
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    HostBatch::Array& array = batch.arrays[k];
    array.shape = shapes[k];
    if (k < item.size())
      memory_->reserve(items * static_cast<std::size_t>(item[k].count()) * size_of(options_.dtype),
                       array.memory, array.capacity);
  }
}

/// After the items.
void BatchAssembler::write_table(HostBatch& batch) const {
  const std::int64_t length = writer_->row_length();
  if (length == 0) return;
  HostBatch::Array& table = batch.arrays.back();
  table.shape = batch_shapes(*writer_, {}, 0, rows_.size() / static_cast<std::uint64_t>(length)).back();
  const auto count = static_cast<std::size_t>(table.shape.count());
  memory_->reserve(count * size_of(options_.dtype), table.memory, table.capacity);
  dispatch_float(options_.dtype, "a data layer", [&]<class T>() {
    T* const to = static_cast<T*>(table.memory.get());
    T* const end = std::transform(rows_.begin(), rows_.end(), to, [](double v) { return static_cast<T>(v); });
    std::fill(end, to + count, T{-1});
  });
}

void BatchAssembler::operator()(HostBatch& batch) {
  const Share& share = batch.share;
  if (share.count == 0) {
    begin(batch, options_.empty_item);
    write_table(batch);
    return;
  }
  if (!reader_) reader_ = source_->reader();
  record_.batch = share.batch;
  for (std::uint64_t i = 0; i < share.count; ++i) {
    const std::uint64_t item = share.item(i);
    const std::uint64_t position = order_->record(dealing_.epoch(item), dealing_.record(item));
    read_record(*reader_, position, record_, item);
    try {
      write(batch, i, item);
    } catch (const Error& error) {
      throw Error(error.kind(), reader_->describe(position) + ": " + error.message());
    }
    if (options_.items) ++*options_.items;
  }
  write_table(batch);
}

/// The record read last becomes entry `index` of the batch.
void BatchAssembler::write(HostBatch& batch, std::uint64_t index, std::uint64_t item) {
  const std::vector<Shape> shapes = writer_->shapes(record_, item);
  if (index == 0) begin(batch, shapes);
  ItemPlace place{options_.dtype, options_.layout, {}, index, &rows_};
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    const HostBatch::Array& array = batch.arrays[k];
    if (shapes[k] != item_[k])
      bad_input("the item is ", item_text(shapes[k]), ", but its batch began with one of ",
                item_text(item_[k]),
                " (images of different sizes need crop_size, new_height and new_width, or batch_size: 1)");
    const std::size_t bytes = static_cast<std::size_t>(item_[k].count()) * size_of(options_.dtype);
    place.outputs.push_back(static_cast<std::byte*>(array.memory.get()) + index * bytes);
  }
  writer_->write(record_, item, place);
}

}  // namespace banyan::data
