// What NVIDIA's DetectNetTransformation does to an image and the boxes of its objects, and the grid of
// targets that its detector learns from the boxes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "banyan/ops/random.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {

/// An object of an image; lengths in pixels.
struct GridObject {
  double x = 0, y = 0, width = 0, height = 0;  ///< top left corner, size
  std::uint32_t kind = 0;                      ///< a number of its class
};

/// Values of channels one after the other (B, G, R), rows from the top.
struct Planes {
  int height = 0, width = 0;
  std::vector<float> values;  ///< 3 x height x width
};

/// Done in this order.
struct ImageChange {
  double hue = 0;             ///< degrees, added to HSV's hue
  double saturation = 1;      ///< HSV's saturation is multiplied by it
  bool flip = false;          ///< left and right
  int height = 0, width = 0;  ///< after scaling
  double rotation = 0;        ///< degrees clockwise; the image grows to hold its corners
  int left = 0, top = 0;      ///< of what is cut out; outside the image there are zeros
};

/// Changes images at random in training. In tests, and that is the only change, they are scaled to the size
/// that the net takes.
class DetectNetChanges {
 public:
  /// Throws bad_input for settings that make no sense. `layer`: its
  /// name, for messages.
  DetectNetChanges(const caffe::DetectNetAugmentationParameter& settings,
                   const caffe::DetectNetGroundTruthParameter& grid, bool training, const std::string& layer);

  /// For an image of this size; it depends on the numbers of key and item only.
  ImageChange draw(int height, int width, const ops::RandomKey& key, std::uint64_t item) const;
  /// Values in [0, 255]. `mean` has the size of the image, or one value per channel; it is subtracted after
  /// the colours have been changed. Cubic interpolation when scaled, linear when rotated. Returns an image of
  /// the size that the net takes.
  Planes change(Planes image, const std::vector<float>& mean, const ImageChange& how) const;
  /// The objects of an image of this size, in what change() returns: perhaps outside. A rotated box keeps its
  /// size and goes with its centre.
  std::vector<GridObject> change(std::vector<GridObject> objects, int height, int width,
                                 const ImageChange& how) const;

 private:
  const caffe::DetectNetAugmentationParameter settings_;
  int height_, width_;
  bool training_;
};

/// Values of every cell: 0 foreground (1 or 0); 1 to 4 the box, left, top, right, bottom from the cell's top
/// left corner in pixels; 5 and 6 one over its width and height; 7 the area of a cell over that of the part
/// of the box that is covered (without obj_norm at least 1); then one channel per class (1 or 0).
class CoverageGrid {
 public:
  /// Throws bad_input for settings that make no sense. `layer`: its
  /// name, for messages.
  CoverageGrid(const caffe::DetectNetGroundTruthParameter& settings, const std::string& layer);
  std::int64_t channels() const { return 8 + classes_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  /// channels x rows x columns values. Objects of classes that are not mapped and those outside are left out;
  /// where several cover a cell, the last one has it.
  void write(const std::vector<GridObject>& objects, double* to) const;

 private:
  const caffe::DetectNetGroundTruthParameter settings_;
  std::map<std::uint32_t, std::uint32_t> channel_of_;  ///< by class
  std::int64_t classes_ = 0, rows_ = 0, columns_ = 0;
};

/// `image` (3 planes) in another size, by cubic interpolation.
Planes resized(const Planes& image, int height, int width);

}  // namespace banyan::data
