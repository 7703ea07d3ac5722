#include "banyan/base/box.hpp"

#include <algorithm>

namespace banyan {
namespace {

double side(double from, double to, Corners corners) {
  return std::max(0.0, to - from + (corners == Corners::pixels ? 1 : 0));
}

}  // namespace

double area(const Box& box, Corners corners) {
  return side(box.x1, box.x2, corners) * side(box.y1, box.y2, corners);
}

double overlap(const Box& a, const Box& b, Corners corners) {
  const Box both{std::max(a.x1, b.x1), std::max(a.y1, b.y1), std::min(a.x2, b.x2), std::min(a.y2, b.y2)};
  const double shared = area(both, corners);
  return shared > 0 ? shared / (area(a, corners) + area(b, corners) - shared) : 0;
}

Box clipped(const Box& box, double width, double height) {
  return {std::clamp(box.x1, 0.0, width), std::clamp(box.y1, 0.0, height), std::clamp(box.x2, 0.0, width),
          std::clamp(box.y2, 0.0, height)};
}

}  // namespace banyan
