#include "layers/anchors.hpp"

#include <algorithm>
#include <cmath>

namespace banyan {
namespace {

struct CentredPixels {
  double x, y, width, height;
};
CentredPixels centred(const Box& box) {
  const double width = box.x2 - box.x1 + 1, height = box.y2 - box.y1 + 1;
  return {box.x1 + width / 2, box.y1 + height / 2, width, height};
}

}  // namespace

std::vector<Box> base_anchors(double size, const std::vector<double>& ratios,
                              const std::vector<double>& scales) {
  const double middle = (size - 1) / 2;
  std::vector<Box> anchors;
  for (const double ratio : ratios) {
    const double width = std::nearbyint(std::sqrt(size * size / ratio)),
                 height = std::nearbyint(width * ratio);
    for (const double scale : scales) {
      const double right = (width * scale - 1) / 2, below = (height * scale - 1) / 2;
      anchors.push_back({middle - right, middle - below, middle + right, middle + below});
    }
  }
  return anchors;
}

void AnchorGrid::visit(const std::function<void(int, std::int64_t, std::int64_t)>& body) const {
  int index = 0;
  for (std::int64_t position = 0; position < positions(); ++position)
    for (std::int64_t anchor = 0; anchor < each(); ++anchor) body(index++, anchor, position);
}

std::vector<Box> AnchorGrid::all() const {
  std::vector<Box> boxes;
  boxes.reserve(static_cast<std::size_t>(positions() * each()));
  visit([&](int, std::int64_t anchor, std::int64_t position) {
    const Box& at = base[anchor];
    const double x = static_cast<double>(position % columns) * stride,
                 y = static_cast<double>(position / columns) * stride;
    boxes.push_back({at.x1 + x, at.y1 + y, at.x2 + x, at.y2 + y});
  });
  return boxes;
}

BoxShift encoded(const Box& from, const Box& to, const ShiftScale& scale) {
  const CentredPixels a = centred(from), b = centred(to);
  BoxShift shift{(b.x - a.x) / a.width, (b.y - a.y) / a.height, std::log(b.width / a.width),
                 std::log(b.height / a.height)};
  for (std::size_t i = 0; i < 4; ++i) shift[i] = (shift[i] - scale.mean[i]) / scale.deviation[i];
  return shift;
}

Box decoded(const Box& from, const BoxShift& shift, const ShiftScale& scale) {
  BoxShift raw;
  for (std::size_t i = 0; i < 4; ++i) raw[i] = shift[i] * scale.deviation[i] + scale.mean[i];
  const CentredPixels a = centred(from);
  const double x = a.x + raw[0] * a.width, y = a.y + raw[1] * a.height;
  const double right = std::exp(raw[2]) * a.width / 2, below = std::exp(raw[3]) * a.height / 2;
  return {x - right, y - below, x + right, y + below};
}

std::vector<int> drawn(std::vector<int> from, std::int64_t count, const ops::RandomKey& key,
                       std::int64_t sample) {
  std::vector<std::pair<std::uint32_t, int>> order;
  order.reserve(from.size());
  for (const int number : from)
    order.emplace_back(ops::random_quad(key, sample, number / 4).v[number % 4], number);
  std::sort(order.begin(), order.end());
  from.clear();
  for (const auto& [word, number] : order) {
    if (static_cast<std::int64_t>(from.size()) >= count) break;
    from.push_back(number);
  }
  return from;
}

std::vector<Match> best_matches(const std::vector<Box>& boxes, const std::vector<Box>& others) {
  std::vector<Match> matches(boxes.size());
  if (others.empty()) return matches;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    matches[i].index = 0;
    for (std::size_t j = 0; j < others.size(); ++j) {
      const double shared = overlap(boxes[i], others[j], Corners::pixels);
      if (shared > matches[i].overlap) matches[i] = {static_cast<int>(j), shared};
    }
  }
  return matches;
}

}  // namespace banyan
