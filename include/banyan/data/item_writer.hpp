// ItemWriter: how a record becomes one item of a batch, with one entry for each output of the layer.
#pragma once

#include <cstdint>
#include <vector>

#include "banyan/data/record.hpp"
#include "banyan/tensor/tensor.hpp"

namespace banyan::data {

/// Where an item goes: one place per output. The first output is in `layout`, the others are contiguous.
struct ItemPlace {
  DType dtype = DType::f32;  ///< f32 or f64
  Layout layout = Layout::contiguous;
  std::vector<void*> outputs;
};

class ItemWriter {
 public:
  virtual ~ItemWriter() = default;
  /// Shapes of the item's entries, without the axis of the batch; a label has no axes. Throws bad_input for a
  /// record that does not fit the settings.
  virtual std::vector<Shape> shapes(const Record& record) const = 0;
  /// Writes entries of those shapes. What it draws depends on the item's number, not on device, thread or
  /// batch.
  virtual void write(const Record& record, std::uint64_t item, const ItemPlace& place) const = 0;
};

}  // namespace banyan::data
