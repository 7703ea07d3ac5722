// Which axes of the first input a Scale or Bias operand covers.
#pragma once

#include "banyan/layers/layer.hpp"
#include "banyan/ops/elementwise.hpp"

namespace banyan {

/// The operand's axes are the input's axes [axis, axis + axes of the operand).
struct CoveredAxes {
  int axis = 1;
  Shape operand;
};

/// The axes of a parameter: `num_axes` axes from `axis` on; -1: all up to the end; 0: a scalar. Throws
/// bad_input if they exceed the input.
inline CoveredAxes covered_by_parameter(const std::string& layer, const Shape& input, int axis,
                                        int num_axes) {
  if (num_axes < -1) bad_input("layer ", quoted(layer), ": num_axes must be at least -1; found ", num_axes);
  CoveredAxes covered;
  covered.axis = num_axes == 0 ? 0 : input.canonical_axis(axis);
  const int end = num_axes == -1 ? input.axes() : covered.axis + num_axes;
  if (end > input.axes())
    bad_input("layer ", quoted(layer), ": axis ", covered.axis, " + num_axes ", num_axes, " exceed the ",
              input.axes(), " axes of the input");
  covered.operand =
      Shape(std::vector<std::int64_t>(input.dims().begin() + covered.axis, input.dims().begin() + end));
  return covered;
}

/// The axes of a second input. Throws bad_input if its shape differs from the axes that it covers.
inline CoveredAxes covered_by_input(const std::string& layer, const Shape& input, int axis,
                                    const Shape& operand) {
  CoveredAxes covered{operand.axes() == 0 ? 0 : input.canonical_axis(axis), operand};
  bool fits = covered.axis + operand.axes() <= input.axes();
  for (int i = 0; fits && i < operand.axes(); ++i) fits = operand[i] == input[covered.axis + i];
  if (!fits)
    bad_input("layer ", quoted(layer), ": the second input of shape ", operand.to_string(),
              " does not fit the first one of shape ", input.to_string(), " from axis ", covered.axis, " on");
  return covered;
}

/// One value per channel: the input's layout does not matter.
inline bool is_per_channel(const CoveredAxes& covered) {
  return covered.axis == 1 && covered.operand.axes() == 1;
}

/// The same axes as operators see them in memory. Channels-last needs axis 1 and one covered axis.
inline ops::Broadcast broadcast_over(const Blob& input, const CoveredAxes& covered) {
  const Shape& shape = input.shape;
  if (input.layout == Layout::channels_last) return {shape[0] * shape.count(2), shape[1], 1};
  const int end = covered.axis + covered.operand.axes();
  return {shape.count(0, covered.axis), shape.count(covered.axis, end), shape.count(end)};
}

}  // namespace banyan
