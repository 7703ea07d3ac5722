// Images with labels for a part of their pixels (ImageLabelData of caffe-dilation and caffe-jacinto).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "banyan/data/item_writer.hpp"
#include "banyan/data/record.hpp"
#include "banyan/ops/random.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {

/// Record i holds image i and, as its label_image, image i of labels, which have one channel. Both have 8-bit
/// pixels. Throws bad_input if there are not as many of both.
std::shared_ptr<RecordSource> pair_sources(std::shared_ptr<RecordSource> images,
                                           std::shared_ptr<RecordSource> labels);

/// Outputs: pixels C x H x W, labels 1 x h x w. Image and labels are scaled by a number that is drawn, the
/// image CUBIC or, if it becomes smaller, AREA, the labels to the nearest pixel. The image is padded by
/// label_slice's offset on each side, and evenly up to the crop; labels outside of it are 255. Both are cut
/// at the same place (in training at random, else in the middle) and mirrored together. label_slice chooses
/// labels of the crop.
class LabelSliceWriter : public ItemWriter {
 public:
  /// Throws bad_input for settings that do not fit; `layer` is whose they are.
  LabelSliceWriter(const caffe::ImageLabelDataParameter& settings,
                   const caffe::TransformationParameter& transform, bool random_crop,
                   const ops::RandomKey& key, const std::string& layer);
  std::vector<Shape> shapes(const Record& record, std::uint64_t item) const override;
  void write(const Record& record, std::uint64_t item, const ItemPlace& place) const override;

 private:
  /// Of rows or columns.
  struct Labels {
    int dim = 0, stride = 1, offset = 0;  ///< dim 0: all
  };
  int cut_length(int stored, const Labels& labels) const {
    return crop_ > 0 ? crop_ : stored + 2 * labels.offset;
  }

  Labels rows_, columns_;
  std::vector<float> means_;  ///< none, one, or one per channel
  float scale_probability_ = 0, least_scale_ = 1, largest_scale_ = 1;
  int crop_;
  bool mirror_, reflects_, random_crop_;
  float scale_;
  ops::RandomKey key_;
};

}  // namespace banyan::data
