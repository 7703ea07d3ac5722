// What the positions of detectors' maps shall find: boxes in fields (MS-CNN, Cascade R-CNN).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "banyan/data/box_list.hpp"

namespace banyan::data {

/// A map: a box of width x height around the middle of each square of stride x stride pixels.
struct FieldMap {
  double stride = 16, width = 0, height = 0;
};
struct FieldRules {
  std::vector<FieldMap> maps;
  Corners corners = Corners::pixels;  ///< points: MS-CNN's rules, pixels: those of Cascade R-CNN
  float fg_threshold = 0.5F;          ///< a field that overlaps a box more than this shall find it
  float ignore_threshold = 0.4F;      ///< a field of which so much lies in regions is neither
  float own_threshold = 0.2F;         ///< a box that no field finds gets one if one overlaps it so much
  /// Fields that reach so many of their half sides out of the image are neither; or those of which less than
  /// `margin_overlap` lies inside.
  std::optional<float> margin, margin_overlap;
};
/// A result of height x width pixels, in which the image is rows x columns large, from (left, top) on.
struct FieldFrame {
  int height = 0, width = 0, top = 0, left = 0, rows = 0, columns = 0;
};
/// Rows and columns of a map.
struct FieldGrid {
  std::int64_t rows = 0, columns = 0;
};
FieldGrid grid_of(const FieldMap& map, int height, int width);

/// For each map 6 x rows x columns: class, centre, width and height of the box that a position shall find
/// (class 0 and no box: none), and how much its field overlaps the nearest box; 1 in fields that are neither.
/// An ignored box has the class 0.
std::vector<std::vector<double>> field_labels(const FieldRules& rules, const FieldFrame& frame,
                                              const std::vector<ListedBox>& boxes,
                                              const std::vector<Box>& regions);

}  // namespace banyan::data
