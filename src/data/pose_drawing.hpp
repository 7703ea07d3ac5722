// Joints of people: which ones a record's become, and the maps that are drawn of them. Internal to the room.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "banyan/data/poses.hpp"

namespace banyan::data {

constexpr int kMostJoints = 1024;  ///< of a person in the records

/// What the value of num_parts stands for; without transform_body_joint so many joints as the records have
/// them, which mirroring does not exchange.
struct Skeleton {
  int least_joints = 0;                     ///< of a person in the records
  std::vector<std::array<int, 2>> sources;  ///< each joint is the middle of these two of the record's
  std::vector<std::array<int, 2>> sides;    ///< joints on the right with those on the left
  std::vector<std::array<int, 2>> limbs;    ///< from one joint to another; none: single persons
  int joints() const { return static_cast<int>(sources.size()); }
  int parts() const { return joints() + 2 * static_cast<int>(limbs.size()); }
};
/// Nothing: there is none.
std::optional<Skeleton> skeleton_of(const caffe::CPMTransformationParameter& settings);

/// The joints that are drawn, of those of a record.
Pose drawn_joints(const Skeleton& skeleton, const Pose& stored);
/// After mirroring, who was on the right is on the left.
void exchange_sides(const Skeleton& skeleton, Pose& pose);

/// A turn around a point of an image, counter-clockwise as one sees it.
struct PoseTurn {
  double x = 0, y = 0, cosine = 1, sine = 0;
  PosePoint forth(const PosePoint& p) const {
    return {x + cosine * (p.x - x) + sine * (p.y - y), y - sine * (p.x - x) + cosine * (p.y - y)};
  }
  PosePoint back(const PosePoint& p) const {
    return {x + cosine * (p.x - x) - sine * (p.y - y), y + sine * (p.x - x) + cosine * (p.y - y)};
  }
};

/// Rows of cells of `stride` x `stride` pixels.
struct PoseGrid {
  int height = 0, width = 0, stride = 1;
  std::ptrdiff_t cells() const { return std::ptrdiff_t{height} * width; }
};

/// Maps of zeros get what PoseWriter says of the second output; `weights` is of the grid's size, 1 for each
/// cell, and needed for limbs only.
void draw_poses(const Skeleton& skeleton, const std::vector<Pose>& people, const PoseGrid& grid, double sigma,
                const std::vector<float>& weights, std::vector<float>& maps);
/// Adds a Gaussian of height 1 around `centre` to the map; sums end at 1, and values below about 0.01 are
/// left out.
void draw_gaussian(const PosePoint& centre, const PoseGrid& grid, double sigma, float* map);

}  // namespace banyan::data
