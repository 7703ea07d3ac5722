// Images with an image of labels each, one label per pixel (PSPNet, DeepLab).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "banyan/data/item_writer.hpp"
#include "banyan/data/record.hpp"
#include "banyan/ops/random.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {

struct SegmentationOptions {
  std::string root_folder;   ///< prepended to each path as is
  std::string label_list;    ///< PIXEL: the images of labels are named here, a line of its own for each
  std::string label_folder;  ///< with label_list: root_folder of the images of labels
  int new_height = 0,
      new_width = 0;  ///< resize if both are positive: images bilinearly, labels to the nearest
  ColorMode color = ColorMode::bgr;
  /// What the second word of a line is. PIXEL: an image of labels (ColorMode::labels), of the size of the
  /// image. IMAGE: the label of all pixels. NONE: there is none, and all pixels have ignore_label.
  caffe::ImageDataParameter::LabelType labels = caffe::ImageDataParameter::PIXEL;
  int ignore_label = 255;
  bool gray_labels = false;  ///< PIXEL: colours of an image of labels become gray
  int label_divisor = 1;     ///< PIXEL: sides of an image are so many times those of its labels, rounded down
  bool label_sizes = false;  ///< PIXEL: images of labels that are resized may have any size
  /// Lines end with x1, y1, x2, y2 in pixels, of which both corners belong to the window that takes the place
  /// of the image and its labels; outside of the image, pixels are 0 and labels ignore_label.
  bool windows = false;
  /// With windows: so many numbers from 0 to 255 follow, which Record::labels holds. A label of a pixel from
  /// class_base + 1 on becomes the number in its place, or 0 if there is none; ignore_label stays.
  int class_numbers = 0;
  std::int64_t class_base = 0;
};

/// A list with a line per image. Throws bad_input `file:line: ...`. Records hold image and label_image.
std::shared_ptr<RecordSource> open_segmentation_list(const std::string& path,
                                                     const SegmentationOptions& options);

/// Outputs: pixels C x H x W; labels 1 x H x W; height and width of the image, 1 x 1 x 2. Image and labels
/// are scaled by one of scale_factors (drawn), get mean_value and ignore_label below and to the right up to
/// the crop, are cut at the same place (in training at random, else in the middle) and mirrored together.
/// Without a crop they are cut to multiples of `stride`, at most `upper_...`. Smaller labels (label_divisor)
/// are only mirrored.
class SegmentationWriter : public ItemWriter {
 public:
  struct Options {
    int ignore_label = 255;
    caffe::ImageDataParameter::LabelValues label_values = caffe::ImageDataParameter::STORED;
    bool pads = true;          ///< else an image that is smaller than the crop is an error
    bool random_crop = false;  ///< training
    bool balance = false;   ///< draw again, up to 10 times, while one label covers more than 80 % of the part
    int label_divisor = 1;  ///< more than 1: nothing may be scaled or cut
    int class_numbers = 0;  ///< positive: the third output holds those of the record, so many x 1 x 1
  };
  /// `channels`: of the images.
  SegmentationWriter(const caffe::TransformationParameter& settings, int channels, const Options& options,
                     const ops::RandomKey& key);
  std::vector<Shape> shapes(const Record& record, std::uint64_t item) const override;
  void write(const Record& record, std::uint64_t item, const ItemPlace& place) const override;

 private:
  Options options_;
  std::vector<float> scale_factors_, means_;  // one mean per channel
  int crop_height_, crop_width_, stride_, upper_height_, upper_width_;
  bool mirror_;
  float scale_;
  ops::RandomKey key_;
};

/// Throws bad_input for settings that a SegmentationWriter cannot follow; `own`: those that the layer has
/// beside the common ones.
void check_segmentation_transform(const caffe::TransformationParameter& settings, int channels,
                                  const std::vector<std::string>& own, const std::string& layer);

}  // namespace banyan::data
