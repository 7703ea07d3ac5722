// ItemWriter: how a record becomes one item of a batch, with one entry for each output of the layer.
#pragma once

#include <cstdint>
#include <vector>

#include "banyan/data/record.hpp"
#include "banyan/tensor/tensor.hpp"

namespace banyan::data {

/// Where an item goes: one place for each of its shapes. The first output is in `layout`, the others are
/// contiguous.
struct ItemPlace {
  DType dtype = DType::f32;  ///< f32 or f64
  Layout layout = Layout::contiguous;
  std::vector<void*> outputs;
  std::uint64_t index = 0;              ///< of the item in its device's part of the batch
  std::vector<double>* rows = nullptr;  ///< where to append rows, if row_length() > 0
};

class ItemWriter {
 public:
  virtual ~ItemWriter() = default;
  /// Shapes of the item's entries, without the axis of the batch; a label has no axes. Throws bad_input for a
  /// record that does not fit the settings.
  virtual std::vector<Shape> shapes(const Record& record, std::uint64_t item) const = 0;
  /// Numbers in a row of the table that the items of a batch make together, each with any number of rows. It
  /// is the output after those with shapes; 0: there is none.
  virtual std::int64_t row_length() const { return 0; }
  /// Writes entries of those shapes. What it draws depends on the item's number, not on device, thread or
  /// batch.
  virtual void write(const Record& record, std::uint64_t item, const ItemPlace& place) const = 0;
};

}  // namespace banyan::data
