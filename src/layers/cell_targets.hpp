// What YOLO's losses compare the boxes of a map's cells with. Pure functions on the host.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "banyan/base/box.hpp"

namespace banyan {

/// An object; its box by centre and size, as fractions of the image.
struct CellObject {
  std::int64_t label = 0;
  double x = 0, y = 0, width = 0, height = 0;
};

struct CellRules {
  std::int64_t classes = 0;
  std::vector<std::array<double, 2>> sizes;  ///< widths and heights, in cells
  std::vector<std::size_t> own;              ///< of these: those of the boxes of a cell
  /// Where a box overlaps an object by more than this, its objectness is of no concern.
  double threshold = 0;
  double objectness = 1, no_object = 1, coordinates = 1, class_weight = 1;  ///< weights
  bool small_boxes_weigh_more = true;    ///< coordinates are also weighed by 2 - the object's area
  bool exclusive = false;                ///< the classes
  bool overlap_is_objectness = false;    ///< what objectness is to be: the overlap, else 1
  bool matches_predicted_sizes = false;  ///< else the sizes of `sizes`
  double own_place = 0;  ///< weight of boxes that are to keep the cell's centre and their size
};

/// Of one image whose map has the channels of ops::CellBoxes for each of `own`, after the sigmoids: which
/// values are compared with what (`targets`), by which weight; both begin as zeros.
struct CellTargets {
  double *targets, *weights;
};
void write_cell_targets(const CellRules& rules, std::int64_t rows, std::int64_t columns,
                        const double* predicted, const std::vector<CellObject>& objects,
                        const CellTargets& to);

/// Where box `size` of a cell is, as fractions of the image; values of the box are `stride` apart.
Box cell_box(const std::array<double, 2>& size, std::int64_t cell, std::int64_t rows, std::int64_t columns,
             const double* values, std::int64_t stride);

}  // namespace banyan
