// What image_transform_param of ctensmeyer's Caffe makes of an image.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/data/item_writer.hpp"
#include "banyan/ops/random.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {

/// Throws bad_input for settings that an ImageTransformWriter cannot follow.
void check_image_transforms(const caffe::ImageTransformationParameter& settings, const std::string& layer);

/// Outputs: pixels C x H x W, then each of the record's labels. Each block of the settings applies one of its
/// transformations to 8-bit pixels. Which one, and lengths, are drawn for a batch (by Record::batch); where a
/// crop lies and whether an image is reflected, for an item.
class ImageTransformWriter : public ItemWriter {
 public:
  static constexpr int kLongestSide = 1 << 15, kMostChannels = 4;
  /// `labels`: how many a record has.
  ImageTransformWriter(const caffe::ImageTransformationParameter& settings, std::size_t labels,
                       std::uint64_t seed, const std::string& layer);
  std::vector<Shape> shapes(const Record& record, std::uint64_t item) const override;
  void write(const Record& record, std::uint64_t item, const ItemPlace& place) const override;

 private:
  struct Step;
  std::vector<Step> plan(const Record& record, std::uint64_t item) const;

  caffe::ImageTransformationParameter settings_;
  std::size_t labels_;
  ops::RandomKey batch_key_, item_key_;
};

/// Of `items` images that are not there, as far as the settings tell: their last lengths, the least of those
/// that are drawn, and three channels unless there is a number for each. No axes: they do not.
Shape transformed_images(const caffe::ImageTransformationParameter& settings, std::int64_t items);

}  // namespace banyan::data
