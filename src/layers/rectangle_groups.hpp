// Groups of similar rectangles, as OpenCV's groupRectangles finds them.
#pragma once

#include <array>
#include <vector>

namespace banyan {

using Rectangle = std::array<int, 4>;  ///< x, y, width, height

struct RectangleGroup {
  Rectangle mean;  ///< rounded
  int members = 0;
};

/// Two rectangles are similar if each of their four sides differs by at most `eps` times the mean of the
/// smaller width and height; groups are what similarity connects, in the order of their first members. Left
/// out are groups of at most `threshold` members, and those inside another one (larger by `eps`) that has
/// more members, and more than three, or that have fewer than three themselves. Without a threshold every
/// rectangle is a group.
std::vector<RectangleGroup> group_rectangles(const std::vector<Rectangle>& rectangles, int threshold,
                                             double eps);

}  // namespace banyan
