// Boxes: areas and overlaps.
#pragma once

#include <cstdint>

namespace banyan {

struct Box {
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  bool operator==(const Box&) const = default;
};

/// What the corners of a box are.
enum class Corners : std::uint8_t {
  points,  ///< a side is x2 - x1 long (SSD)
  pixels,  ///< the first and the last pixel: x2 - x1 + 1 (Faster R-CNN)
};

/// 0 for a box whose second corner lies before its first.
double area(const Box& box, Corners corners = Corners::points);
/// Intersection over union, in [0, 1]; 0 if either is empty.
double overlap(const Box& a, const Box& b, Corners corners = Corners::points);
/// Cut off at the borders of [0, width] x [0, height].
Box clipped(const Box& box, double width = 1, double height = 1);

}  // namespace banyan
