#include "data/pose_drawing.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace banyan::data {
namespace {

constexpr double kLeastExponent = 4.6052;  // e to the power of minus this is 0.01
constexpr double kLimbWidth = 1;           // to each side, in cells

/// 17 joints of COCO: nose, eyes, ears, shoulders, elbows, wrists, hips, knees, ankles, each left one first.
Skeleton coco() {
  Skeleton skeleton;
  skeleton.least_joints = 17;
  // Nose, neck, right arm, left arm, right leg, left leg, eyes, ears (right ones first).
  for (const int joint : {0, 5, 6, 8, 10, 5, 7, 9, 12, 14, 16, 11, 13, 15, 2, 1, 4, 3})
    skeleton.sources.push_back({joint, joint});
  skeleton.sources[1] = {5, 6};
  skeleton.sides = {{2, 5}, {3, 6}, {4, 7}, {8, 11}, {9, 12}, {10, 13}, {14, 15}, {16, 17}};
  skeleton.limbs = {{1, 8}, {8, 9}, {9, 10}, {1, 11}, {11, 12}, {12, 13}, {1, 2},  {2, 3},   {3, 4},  {2, 16},
                    {1, 5}, {5, 6}, {6, 7},  {5, 17}, {1, 0},   {0, 14},  {0, 15}, {14, 16}, {15, 17}};
  return skeleton;
}

/// 16 joints of MPI: right leg from the ankle, left leg from the hip, pelvis, thorax, neck, head, right arm
/// from the wrist, left arm from the shoulder.
Skeleton mpi(bool single) {
  Skeleton skeleton;
  skeleton.least_joints = 16;
  // Head, neck, right arm, left arm, right leg, left leg.
  for (const int joint : {9, 8, 12, 11, 10, 13, 14, 15, 2, 1, 0, 3, 4, 5})
    skeleton.sources.push_back({joint, joint});
  skeleton.sides = {{2, 5}, {3, 6}, {4, 7}, {8, 11}, {9, 12}, {10, 13}};
  if (single) return skeleton;
  skeleton.sources.push_back({7, 6});  // the middle of the body
  skeleton.limbs = {{0, 1},  {1, 2},  {2, 3}, {3, 4},  {1, 5},   {5, 6},   {6, 7},
                    {1, 14}, {14, 8}, {8, 9}, {9, 10}, {14, 11}, {11, 12}, {12, 13}};
  return skeleton;
}

/// The direction of a limb, in the cells that are near to it; where several people's limbs meet, the last
/// one's.
void draw_limb(const PosePoint& from, const PosePoint& to, const PoseGrid& grid, float* xs, float* ys) {
  const double x1 = from.x / grid.stride, y1 = from.y / grid.stride, x2 = to.x / grid.stride,
               y2 = to.y / grid.stride;
  const double length = std::hypot(x2 - x1, y2 - y1);
  if (!(length > 0)) return;
  const double x = (x2 - x1) / length, y = (y2 - y1) / length;
  const auto span = [](double a, double b, int cells) {
    const auto cell = [&](double at) {
      return static_cast<int>(std::clamp(std::round(at), 0.0, static_cast<double>(cells)));
    };
    return std::pair{cell(std::min(a, b) - kLimbWidth), cell(std::max(a, b) + kLimbWidth)};
  };
  const auto [left, right] = span(x1, x2, grid.width);
  const auto [top, bottom] = span(y1, y2, grid.height);
  for (int row = top; row < bottom; ++row)
    for (int column = left; column < right; ++column) {
      if (std::abs((column - x1) * y - (row - y1) * x) > kLimbWidth) continue;
      const std::ptrdiff_t at = std::ptrdiff_t{row} * grid.width + column;
      xs[at] = static_cast<float>(x);
      ys[at] = static_cast<float>(y);
    }
}

/// `joints` maps of Gaussians and, after them, 1 less the largest.
void draw_joints(int joints, const Pose* people, std::size_t count, const PoseGrid& grid, double sigma,
                 float* maps) {
  const std::ptrdiff_t cells = grid.cells();
  for (int joint = 0; joint < joints; ++joint)
    for (std::size_t k = 0; k < count; ++k)
      if (const PoseJoint& found = people[k][static_cast<std::size_t>(joint)]; found.drawn)
        draw_gaussian(found.at, grid, sigma, maps + joint * cells);
  for (std::ptrdiff_t cell = 0; cell < cells; ++cell) {
    float largest = 0;
    for (int joint = 0; joint < joints; ++joint) largest = std::max(largest, maps[joint * cells + cell]);
    maps[joints * cells + cell] = 1 - largest;
  }
}

}  // namespace

std::optional<Skeleton> skeleton_of(const caffe::CPMTransformationParameter& settings) {
  const auto parts = static_cast<int>(std::min<std::uint32_t>(settings.num_parts(), kMostJoints + 1));
  static const std::array<Skeleton, 3> known{coco(), mpi(false), mpi(true)};
  for (const Skeleton& skeleton : known)
    if (settings.transform_body_joint() && skeleton.parts() == parts) return skeleton;
  if (settings.transform_body_joint() || parts < 1 || parts > kMostJoints) return {};
  for (const Skeleton& skeleton : known)
    if (!skeleton.limbs.empty() && skeleton.parts() == parts) return {};
  Skeleton as_stored;
  as_stored.least_joints = parts;
  for (int joint = 0; joint < parts; ++joint) as_stored.sources.push_back({joint, joint});
  return as_stored;
}

Pose drawn_joints(const Skeleton& skeleton, const Pose& stored) {
  Pose pose;
  for (const auto& [a, b] : skeleton.sources) {
    const PoseJoint &first = stored[static_cast<std::size_t>(a)],
                    &second = stored[static_cast<std::size_t>(b)];
    pose.push_back(
        {{(first.at.x + second.at.x) / 2, (first.at.y + second.at.y) / 2}, first.drawn && second.drawn});
  }
  return pose;
}

void exchange_sides(const Skeleton& skeleton, Pose& pose) {
  for (const auto& [right, left] : skeleton.sides)
    std::swap(pose[static_cast<std::size_t>(right)], pose[static_cast<std::size_t>(left)]);
}

void draw_gaussian(const PosePoint& centre, const PoseGrid& grid, double sigma, float* map) {
  const double first = (grid.stride - 1) / 2.0;  // the middle of the first cell
  for (int row = 0; row < grid.height; ++row) {
    const double y = first + double{1} * row * grid.stride - centre.y;
    for (int column = 0; column < grid.width; ++column) {
      const double x = first + double{1} * column * grid.stride - centre.x;
      const double exponent = (x * x + y * y) / (2 * sigma * sigma);
      if (exponent > kLeastExponent) continue;
      float& value = map[std::ptrdiff_t{row} * grid.width + column];
      value = std::min(value + static_cast<float>(std::exp(-exponent)), 1.0f);
    }
  }
}

void draw_poses(const Skeleton& skeleton, const std::vector<Pose>& people, const PoseGrid& grid, double sigma,
                const std::vector<float>& weights, std::vector<float>& maps) {
  const std::ptrdiff_t cells = grid.cells();
  float* next = maps.data();
  if (skeleton.limbs.empty()) {
    draw_joints(skeleton.joints(), people.data(), std::min<std::size_t>(people.size(), 1), grid, sigma, next);
    next += (skeleton.joints() + 1) * cells;
  } else {
    for (int part = 0; part <= skeleton.parts(); ++part)
      next = std::copy(weights.begin(), weights.end(), next);
    for (const auto& [from, to] : skeleton.limbs) {
      for (const Pose& pose : people) {
        const PoseJoint &a = pose[static_cast<std::size_t>(from)], &b = pose[static_cast<std::size_t>(to)];
        if (a.drawn && b.drawn) draw_limb(a.at, b.at, grid, next, next + cells);
      }
      next += 2 * cells;
    }
  }
  draw_joints(skeleton.joints(), people.data(), people.size(), grid, sigma, next);
}

}  // namespace banyan::data
