// The boxes of a region proposal network (Faster R-CNN), and how one box is predicted from another. Corners
// are the first and the last pixel.
#pragma once

#include <array>
#include <functional>

#include "banyan/ops/random.hpp"
#include "layers/boxes.hpp"

namespace banyan {

/// The anchors of all positions of a feature map; their order is row, column, anchor of the position.
struct AnchorGrid {
  std::vector<Box> base;  ///< of position (0, 0)
  double stride = 16;     ///< pixels of the image from one position to the next
  std::int64_t rows = 0, columns = 0;

  std::int64_t each() const { return static_cast<std::int64_t>(base.size()); }
  std::int64_t positions() const { return rows * columns; }
  std::vector<Box> all() const;
  /// Calls body(index of the anchor, its number at its position, its position) in the order of all().
  void visit(const std::function<void(int, std::int64_t, std::int64_t)>& body) const;
};
/// Around a square of size x size pixels at the origin: for each ratio of height to width a box of whole
/// pixels with about its area, and that times each scale.
std::vector<Box> base_anchors(double size, const std::vector<double>& ratios,
                              const std::vector<double>& scales);

/// Where a box lies seen from another: shifts of the centre in widths and heights of that one, logarithms of
/// the sizes; less `mean`, divided by `deviation`.
using BoxShift = std::array<double, 4>;
struct ShiftScale {
  BoxShift mean{0, 0, 0, 0}, deviation{1, 1, 1, 1};
};
BoxShift encoded(const Box& from, const Box& to, const ShiftScale& scale);
/// The box that encoded() would give this shift, but for the last pixel: its second corner lies one further,
/// as in Faster R-CNN.
Box decoded(const Box& from, const BoxShift& shift, const ShiftScale& scale);

/// `count` of `from` in a random order, all if there are fewer; each number's place depends on the key, the
/// sample of the global batch and the number only.
std::vector<int> drawn(std::vector<int> from, std::int64_t count, const ops::RandomKey& key,
                       std::int64_t sample);

/// For each box the one of `others` that overlaps it most (the first of equal ones); -1 if there are none.
struct Match {
  int index = -1;
  double overlap = 0;
};
std::vector<Match> best_matches(const std::vector<Box>& boxes, const std::vector<Box>& others);

/// bbox_reg_param (MS-CNN, Cascade R-CNN). `refuse(parts...)` throws.
template <class Settings, class Refuse>
ShiftScale read_bbox_scale(const Settings& settings, const Refuse& refuse) {
  for (const int given : {settings.bbox_mean_size(), settings.bbox_std_size()})
    if (given != 0 && given != 4)
      refuse("bbox_reg_param gives a bbox_mean or bbox_std ", given,
             " times; expected four times or not at all");
  ShiftScale scale;
  for (std::size_t i = 0; i < 4; ++i) {
    if (settings.bbox_mean_size() > 0) scale.mean[i] = settings.bbox_mean(static_cast<int>(i));
    if (settings.bbox_std_size() > 0) scale.deviation[i] = settings.bbox_std(static_cast<int>(i));
    if (!(scale.deviation[i] > 0)) refuse("bbox_std must be positive; found ", scale.deviation[i]);
  }
  return scale;
}

}  // namespace banyan
