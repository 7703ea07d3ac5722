#include "layers/rectangle_groups.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

namespace banyan {
namespace {

/// Doubles hold the sums of two corners exactly.
bool similar(const Rectangle& a, const Rectangle& b, double eps) {
  const double most = eps * (double(std::min(a[2], b[2])) + std::min(a[3], b[3])) * 0.5;
  const auto near = [&](double x, double y) { return std::abs(x - y) <= most; };
  return near(a[0], b[0]) && near(a[1], b[1]) && near(double(a[0]) + a[2], double(b[0]) + b[2]) &&
         near(double(a[1]) + a[3], double(b[1]) + b[3]);
}

/// Numbers of groups, in the order of their first members; rectangles that similarity connects share one.
std::vector<int> connected(const std::vector<Rectangle>& rectangles, double eps) {
  std::vector<int> root(rectangles.size());
  std::iota(root.begin(), root.end(), 0);
  const auto find = [&root](int i) {
    while (root[i] != i) i = root[i] = root[root[i]];
    return i;
  };
  const int count = static_cast<int>(rectangles.size());
  for (int i = 0; i < count; ++i)
    for (int j = 0; j < i; ++j)
      if (similar(rectangles[i], rectangles[j], eps)) {
        const int a = find(i), b = find(j);
        root[std::max(a, b)] = std::min(a, b);  // so a root is a group's first member
      }
  std::vector<int> group(rectangles.size());
  int groups = 0;
  for (int i = 0; i < count; ++i) group[i] = root[i] == i ? groups++ : group[find(i)];
  return group;
}

int nearest_integer(double value) { return static_cast<int>(std::nearbyint(value)); }

bool is_inside(const Rectangle& inner, const Rectangle& outer, double eps) {
  const double dx = std::nearbyint(outer[2] * eps), dy = std::nearbyint(outer[3] * eps);
  return inner[0] >= outer[0] - dx && inner[1] >= outer[1] - dy &&
         double(inner[0]) + inner[2] <= double(outer[0]) + outer[2] + dx &&
         double(inner[1]) + inner[3] <= double(outer[1]) + outer[3] + dy;
}

}  // namespace

std::vector<RectangleGroup> group_rectangles(const std::vector<Rectangle>& rectangles, int threshold,
                                             double eps) {
  std::vector<RectangleGroup> all;
  if (threshold <= 0) {
    for (const Rectangle& rectangle : rectangles) all.push_back({rectangle, 1});
    return all;
  }
  const std::vector<int> group = connected(rectangles, eps);
  std::vector<std::array<double, 4>> sums;
  for (std::size_t i = 0; i < rectangles.size(); ++i) {
    const auto at = static_cast<std::size_t>(group[i]);
    if (at == sums.size()) {
      sums.push_back({});
      all.emplace_back();
    }
    for (std::size_t k = 0; k < 4; ++k) sums[at][k] += rectangles[i][k];
    ++all[at].members;
  }
  for (std::size_t at = 0; at < all.size(); ++at) {
    const float share = 1.0f / static_cast<float>(all[at].members);  // OpenCV multiplies, and in f32
    for (std::size_t k = 0; k < 4; ++k)
      all[at].mean[k] = nearest_integer(static_cast<float>(sums[at][k]) * share);
  }
  std::vector<RectangleGroup> kept;
  for (const RectangleGroup& one : all) {
    const auto holds = [&](const RectangleGroup& other) {
      return &other != &one && other.members > threshold && is_inside(one.mean, other.mean, eps) &&
             (other.members > std::max(3, one.members) || one.members < 3);
    };
    if (one.members > threshold && std::none_of(all.begin(), all.end(), holds)) kept.push_back(one);
  }
  return kept;
}

}  // namespace banyan
