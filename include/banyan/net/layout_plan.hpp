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

/// An input as it comes: its shape and layout.
struct LayoutInput {
  const Shape* shape = nullptr;
  Layout layout = Layout::contiguous;
};
struct LayoutChoice {
  Layout layout = Layout::contiguous;  ///< what the layer shall get
  Conversion conversion = Conversion::none;
};

/// Do a net's images lie channels-last where nothing else is asked for? On CPU devices in f32, for which
/// oneDNN's kernels are made. Not on GPUs: in f32 without TF32 cuDNN is sure to have kernels for contiguous
/// images alone. That stands until both orders have been timed on hardware.
bool channels_last_by_default(DeviceKind kind, DType dtype);
/// True where the two layouts differ in memory: at least 3 axes, more than one channel, more than one
/// position.
bool layout_matters(const Shape& shape);
/// Contiguous layers get contiguous inputs; followers with inputs of both layouts get all of 3 and more axes
/// channels-last; others take what comes.
std::vector<LayoutChoice> choose_layouts(LayoutRule rule, const std::vector<LayoutInput>& inputs);

/// The type of a layer's activations. `full`: the run's type; `storage`: the layer's of 16 bits, if it may
/// have one; `inputs`: as they come.
DType choose_type(StorageRule rule, DType full, std::optional<DType> storage,
                  const std::vector<DType>& inputs);

}  // namespace banyan
