// Images with maps of what a detector's fields shall find: ImageGtData (MS-CNN), DetectionData (Cascade
// R-CNN); and without maps, for tests: EvalData (Cascade R-CNN).
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "banyan/data/field_labels.hpp"
#include "banyan/data/item_writer.hpp"
#include "banyan/ops/random.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {

/// How an image becomes an item.
struct FieldDataSettings {
  std::string field;  ///< the message, for messages
  FieldRules rules;
  int resize_height = 0, resize_width = 0;  ///< 0: no such size is given
  double resize_ratio = 0;
  int short_size = 0, long_size = 0;
  int crop_height = 0, crop_width = 0, crop_short = 0, crop_long = 0;
  bool pads = true;                           ///< images that are smaller than the crop
  double scale_probability = 0;               ///< of drawing how large an image is
  bool octaves = false;                       ///< MS-CNN: in half octaves
  double least_size = 0, largest_size = 0;    ///< that the drawn object may get
  double least_ratio = 0, largest_ratio = 0;  ///< or between which the factor is drawn
  double least_aspect = 0, largest_aspect = 0;
  double least_width = 0, least_height = 0;  ///< of boxes that are not ignored
  bool mirror = false, difficult = false;
  float scale = 1;
  std::vector<float> means;  ///< none, one, or three
  caffe::DistortionParameter distortion;
  bool boxes = false;  ///< the last output is the table of boxes
  /// EvalData: whole images, their sides rounded to multiples of 32, and these two numbers before the table.
  bool whole = false;
};
/// Is it a layer of these types?
bool makes_field_data(const caffe::LayerParameter& layer);
/// Throws bad_input for settings that make no sense.
FieldDataSettings field_data_settings(const caffe::LayerParameter& layer);
/// Height and width of a result, of a wide image where that matters; 0: that of the image.
std::array<int, 2> field_data_size(const FieldDataSettings& settings);

/// Outputs: pixels 3 x H x W, the maps of field_labels(), height and width of whole images, and the table of
/// boxes, rows (item of the batch, x1, y1, x2, y2, label, ignored, and in Cascade R-CNN's form difficult).
/// The image is distorted, mirrored, resized, perhaps scaled again, and cut or padded with 0 to the size of
/// the result, around one of its boxes, which is drawn. Draws depend on the key and the item's number only.
class FieldDataWriter : public ItemWriter {
 public:
  /// `leader`: the number in the list of the image that the item's batch begins with: its orientation is that
  /// of all of them.
  FieldDataWriter(const FieldDataSettings& settings, std::shared_ptr<const BoxList> list,
                  std::function<std::uint64_t(std::uint64_t item)> leader, const ops::RandomKey& key);
  std::vector<Shape> shapes(const Record& record, std::uint64_t item) const override;
  std::int64_t row_length() const override { return settings_.boxes ? settings_.difficult ? 8 : 7 : 0; }
  void write(const Record& record, std::uint64_t item, const ItemPlace& place) const override;

 private:
  struct Size {
    int height = 0, width = 0;
    bool operator==(const Size&) const = default;
  };
  struct Factors {
    double x = 1, y = 1;
  };
  struct Change;
  Size resized(int height, int width) const;
  Size resized_whole(int height, int width) const;
  Size result_of(std::uint64_t item) const;
  Change plan(const Record& record, std::uint64_t item) const;
  Factors in_octaves(const Box& object, const std::array<double, 4>& numbers) const;
  Factors factors(const Box* object, double wanted, const std::array<double, 4>& numbers) const;
  Image pixels(const Record& record, const Change& change) const;

  FieldDataSettings settings_;
  std::shared_ptr<const BoxList> list_;
  std::function<std::uint64_t(std::uint64_t)> leader_;
  ops::RandomKey key_;
};
/// Of blob `k` of a layer's, whose first one is `images` (N x 3 x H x W), without boxes.
Shape field_data_shape(const FieldDataSettings& settings, const Shape& images, std::size_t k);

}  // namespace banyan::data
