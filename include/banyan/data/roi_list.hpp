// Images with the boxes of their objects, named in a list (FrcnnRoiData of a Faster R-CNN in C++,
// makefile/frcnn).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "banyan/data/item_writer.hpp"
#include "banyan/data/record.hpp"
#include "banyan/ops/random.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {

class RoiSource : public RecordSource {
 public:
  /// The boxes of the image that has the most.
  virtual std::int64_t most_boxes() const = 0;
};

/// Blocks of `# number path`, the number of boxes, and for each box its class (from 1 on), x1, y1, x2, y2 in
/// pixels, both corners belonging to it, and whether it is difficult, which does not count. A record holds
/// the image, and these five numbers of each box as labels. Throws bad_input `file:line: ...`.
std::shared_ptr<RoiSource> open_roi_list(const std::string& path, const std::string& root_folder);

/// Outputs: pixels 3 x H x W; height, width and scale of the image; `rows` x 5 numbers: x1, y1, x2, y2 and
/// class of each box, zeros where there is none. The image is scaled so that its shorter side has one of the
/// lengths `scale` (drawn), unless the longer one would exceed max_size, gets zeros below and to the right up
/// to multiples of `align`, and may be mirrored (drawn). Boxes are cut off at the image's borders.
class RoiWriter : public ItemWriter {
 public:
  RoiWriter(const caffe::RoiDataParameter& settings, const caffe::TransformationParameter& transform,
            bool mirror, std::int64_t rows, const ops::RandomKey& key);
  std::vector<Shape> shapes(const Record& record, std::uint64_t item) const override;
  void write(const Record& record, std::uint64_t item, const ItemPlace& place) const override;

 private:
  double factor(const Record& record, std::uint64_t item) const;

  std::vector<double> scales_;
  std::vector<float> means_;
  double max_size_;
  float pixel_scale_;
  std::int64_t align_, rows_;
  bool mirror_;
  ops::RandomKey key_;
};

}  // namespace banyan::data
