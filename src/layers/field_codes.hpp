// Fields of detectors' maps and the codes of boxes in them (MS-CNN, Cascade R-CNN): what the layers share
// that compare a box with them.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "layers/anchors.hpp"

namespace banyan {

/// `refuse(parts...)` throws.
template <class Refuse>
void check_classes(std::int64_t classes, bool objectness, const Refuse& refuse) {
  if (classes < 2) refuse("cls_num must be at least 2: background and objects; found ", classes);
  if (objectness && classes != 2) refuse("cls_num must be 2 with objectness; found ", classes);
}

/// A box of a given size around a position.
struct Field {
  double x, y;  ///< the centre
  double width, height;
};

/// What four numbers say of a box, seen from a field.
struct FieldCodes {
  ShiftScale scale;
  double farthest = 0, largest = 0;  ///< limits of shifts, and of logarithms of sizes

  template <class Refuse>
  void limit(double field_xyr, double field_whr, const Refuse& refuse) {
    if (!(field_xyr > 0)) refuse("field_xyr must be positive; found ", field_xyr);
    if (!(field_whr >= 1)) refuse("field_whr must be at least 1; found ", field_whr);
    farthest = 1 / field_xyr;
    largest = std::log(field_whr);
  }
  /// Of codes as they are stored, of shifts (0) or sizes (1).
  std::pair<double, double> limits(int part) const {
    const auto i = static_cast<std::size_t>(2 * part);
    const double mean = (scale.mean[i] + scale.mean[i + 1]) / 2,
                 deviation = std::sqrt(scale.deviation[i] * scale.deviation[i + 1]),
                 most = part == 0 ? farthest : largest;
    return {(-most - mean) / deviation, (most - mean) / deviation};
  }

  /// Of a box by centre, width and height.
  BoxShift code(const Field& field, const std::array<double, 4>& box) const {
    constexpr double kLeastSide = 2;
    BoxShift code{(box[0] - field.x) / field.width, (box[1] - field.y) / field.height,
                  std::log(std::max(box[2], kLeastSide) / field.width),
                  std::log(std::max(box[3], kLeastSide) / field.height)};
    for (std::size_t i = 0; i < 4; ++i) code[i] = (code[i] - scale.mean[i]) / scale.deviation[i];
    return code;
  }
  /// Centre, width and height of what four numbers, `step` apart, say within the limits.
  std::array<double, 4> box(const Field& field, const double* code, std::int64_t step) const {
    BoxShift raw;
    for (std::size_t i = 0; i < 4; ++i) {
      const double most = i < 2 ? farthest : largest;
      raw[i] = std::clamp(code[static_cast<std::int64_t>(i) * step] * scale.deviation[i] + scale.mean[i],
                          -most, most);
    }
    return {field.x + raw[0] * field.width, field.y + raw[1] * field.height, std::exp(raw[2]) * field.width,
            std::exp(raw[3]) * field.height};
  }
};

/// The fields of maps of one scale.
struct FieldMaps {
  std::vector<std::pair<double, double>> sizes;  ///< width and height, of each map
  double stride = 0;                             ///< pixels of the image between the positions

  template <class Sides, class Refuse>
  void read(const Sides& widths, const Sides& heights, double between, const Refuse& refuse) {
    if (widths.empty() || widths.size() != heights.size())
      refuse("field_w and field_h must be given equally often, at least once; found ", widths.size(), " and ",
             heights.size());
    stride = between;
    for (int i = 0; i < static_cast<int>(widths.size()); ++i) {
      if (!(widths[i] > 0 && heights[i] > 0 && stride > 0))
        refuse("field_w, field_h and the stride must be positive; found ", widths[i], ", ", heights[i],
               " and ", stride);
      sizes.emplace_back(widths[i], heights[i]);
    }
  }
  Field field(std::int64_t map, std::int64_t row, std::int64_t column) const {
    const auto& [width, height] = sizes[static_cast<std::size_t>(map)];
    return {(static_cast<double>(column) + 0.5) * stride, (static_cast<double>(row) + 0.5) * stride, width,
            height};
  }
};

}  // namespace banyan
