// Which inputs of a layer must be converted between contiguous and channels-last memory or between types.
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "banyan/layers/layer.hpp"

namespace banyan {

enum class Conversion : std::uint8_t {
  none,
  relabel,  ///< same bytes in both layouts: only the label changes
  copy,     ///< the memory order or the type changes
};

/// An input as it arrives: its shape and layout.
struct LayoutInput {
  const Shape* shape = nullptr;
  Layout layout = Layout::contiguous;
};
struct LayoutChoice {
  Layout layout = Layout::contiguous;  ///< what the layer is to get
  Conversion conversion = Conversion::none;
};

/// True if the two layouts differ in memory: at least 3 axes, more than one channel, more than one position.
bool layout_matters(const Shape& shape);
/// Contiguous layers get contiguous inputs; followers whose inputs come in both layouts get all inputs of 3
/// or more axes channels-last; others take what comes.
std::vector<LayoutChoice> choose_layouts(LayoutRule rule, const std::vector<LayoutInput>& inputs);

/// The type of a layer's activations. `full`: the run's type; `storage`: the layer's 16-bit type, if it may
/// use one; `inputs`: the inputs' types as they arrive.
DType choose_type(StorageRule rule, DType full, std::optional<DType> storage,
                  const std::vector<DType>& inputs);

}  // namespace banyan
