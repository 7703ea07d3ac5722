// Images of people, with their joints, as the records of OpenPose and of convolutional pose machines hold
// them, and the maps that CPMData draws of the joints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/data/item_writer.hpp"
#include "banyan/ops/random.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {

/// In pixels; the first one's centre is 0.
struct PosePoint {
  double x = 0, y = 0;
};
struct PoseJoint {
  PosePoint at;
  bool drawn = false;  ///< it is known and inside of the image
};
using Pose = std::vector<PoseJoint>;  ///< of a person

struct PoseRecord {
  PosePoint position;        ///< of the person whom the record is about
  double size = 1;           ///< of that person
  std::vector<Pose> people;  ///< that person first
};

/// Reads what a record holds after its three colours: a plane of 8-bit values, in whose rows are numbers.
/// `joints`: of a person. Throws bad_input.
PoseRecord read_pose_record(const Record& record, int joints);

/// Throws bad_input for settings that a PoseWriter cannot follow. `layer` is for messages.
void check_poses(const caffe::CPMTransformationParameter& settings, const std::string& layer);

/// Outputs: pixels C x H x W, (value - 128) / 256 and, after the three colours, 0, or for single persons a
/// Gaussian at the person's position; maps 2 (num_parts + 1) x H / stride x W / stride. With limbs: num_parts
/// + 1 weights, which are the record's mask; x and y of each limb's direction; a Gaussian at each joint of
/// anyone; 1 less the largest of these. For single persons: the Gaussians of that person's joints, 1 less the
/// largest, and the same of everyone's joints.
///
/// In training the image is scaled, turned, cut around the person and mirrored; in tests it stays as it is.
/// An item's draws depend only on the key and its number.
class PoseWriter : public ItemWriter {
 public:
  PoseWriter(const caffe::CPMTransformationParameter& settings, bool training, const ops::RandomKey& key);
  std::vector<Shape> shapes(const Record& record, std::uint64_t item) const override;
  void write(const Record& record, std::uint64_t item, const ItemPlace& place) const override;

 private:
  struct Change;
  Change draw(const PoseRecord& person, const Record& record, std::uint64_t item) const;
  Image pixels(const Record& record, const Change& change) const;

  caffe::CPMTransformationParameter settings_;
  bool training_;
  ops::RandomKey key_;
};

/// Of the pixels of `items` in training, as the records that are usual give them.
Shape pose_images(const caffe::CPMTransformationParameter& settings, std::int64_t items);
/// Of the maps of images of this shape.
Shape pose_maps(const caffe::CPMTransformationParameter& settings, const Shape& images);

}  // namespace banyan::data
