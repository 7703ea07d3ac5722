#include "banyan/net/layout_plan.hpp"

#include <algorithm>

namespace banyan {

bool layout_matters(const Shape& shape) {
  return shape.axes() >= 3 && shape.dim(1) > 1 && shape.count(2) > 1;
}

std::vector<LayoutChoice> choose_layouts(LayoutRule rule, const std::vector<LayoutInput>& inputs) {
  const bool any_channels_last = std::any_of(inputs.begin(), inputs.end(), [](const LayoutInput& input) {
    return input.layout == Layout::channels_last && input.shape->axes() >= 3;
  });
  std::vector<LayoutChoice> choices;
  for (const LayoutInput& input : inputs) {
    Layout wanted = input.layout;
    if (rule == LayoutRule::contiguous) wanted = Layout::contiguous;
    if (rule == LayoutRule::follows && any_channels_last && input.shape->axes() >= 3)
      wanted = Layout::channels_last;
    Conversion conversion = Conversion::none;
    if (wanted != input.layout)
      conversion = layout_matters(*input.shape) ? Conversion::copy : Conversion::relabel;
    choices.push_back({wanted, conversion});
  }
  return choices;
}

DType choose_type(StorageRule rule, DType full, std::optional<DType> storage,
                  const std::vector<DType>& inputs) {
  if (!storage || rule == StorageRule::full) return full;
  const bool all = std::all_of(inputs.begin(), inputs.end(), [&](DType type) { return type == *storage; });
  return rule == StorageRule::sixteen_bits || all ? *storage : full;
}

}  // namespace banyan
