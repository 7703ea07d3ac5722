// Augmenter: transform_param. Turns a record's pixels into the values of one batch item: pad -> crop ->
// mirror -> (pixel - mean) * scale, written directly into the batch in its layout.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "banyan/data/item_writer.hpp"
#include "banyan/ops/random.hpp"
#include "banyan/tensor/tensor.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {

struct ItemShape {
  int channels = 0, height = 0, width = 0;
  bool operator==(const ItemShape&) const = default;
  std::int64_t count() const { return std::int64_t{channels} * height * width; }
  std::string to_string() const;  ///< "3 x 32 x 32"
};

/// Throws bad_input for contradictory or unsupported settings; reads no file. `layer` is for messages.
void check_transform(const caffe::TransformationParameter& settings, const std::string& layer);
/// Is it the same without this field? So it is where a file writes the value that an absent field has.
bool changes_nothing(const caffe::TransformationParameter& settings,
                     const google::protobuf::FieldDescriptor& field);

/// What is cut out: crop_size, or crop_h and crop_w before it; 0 x 0: nothing is.
struct CropSize {
  int height = 0, width = 0;
};
CropSize crop_of(const caffe::TransformationParameter& settings);
/// The longest side that is given of a rectangle to cut out, by either of its names; 0: none is.
std::uint32_t rectangle_side(const caffe::TransformationParameter& settings);

struct MeanImage {
  ItemShape shape;
  std::vector<float> values;  ///< C x H x W
};
/// Reads a mean_file. Throws bad_input; `layer` is for messages.
MeanImage read_mean_image(const std::string& path, const std::string& layer);

/// As in Caffe: crop_size (SSD, NVIDIA, Intel: crop_h x crop_w) is cut at random in training (`random_crop`)
/// and from the centre in tests; mirror has probability 1/2 in both phases and is drawn first; mean_file has
/// the size of the uncropped image and is read at the crop's offset; mean_value has one value or one per
/// channel. `pad` (ours) adds that many zero pixels on every side before the crop: they become (0 - mean) *
/// scale, with the nearest pixel of a mean image as their mean. An item's draws depend only on (seed, stream,
/// item number), not on device, thread or batch.
class Augmenter : public ItemWriter {
 public:
  /// Reads the mean file. Throws bad_input for contradictory or unsupported settings. `layer` is for
  /// messages.
  Augmenter(const caffe::TransformationParameter& settings, bool random_crop, std::uint64_t seed,
            std::uint32_t stream, const std::string& layer);

  struct Window {
    int top, left;  ///< of the crop, in the image without padding: negative inside the padding
    bool mirror;
  };
  /// What is cut out of `record` for the item with this number, `shape` large.
  Window draw(const Record& record, const ItemShape& shape, std::uint64_t item) const;

  /// Of a mean image only the middle, side x side large, is subtracted from then on. Throws bad_input if it
  /// is smaller.
  void cut_mean(int side, const std::string& layer);

  /// Shape of the item that `record` gives. Throws bad_input if crop or mean do not fit.
  ItemShape output_shape(const Record& record) const;

  /// Pixels C x H x W, and the label or labels.
  std::vector<Shape> shapes(const Record& record, std::uint64_t item) const override;
  void write(const Record& record, std::uint64_t item, const ItemPlace& place) const override;

  /// Writes output_shape(record).count() elements (T = float or double) in memory order of `layout`.
  template <class T>
  void apply(const Record& record, std::uint64_t item, Layout layout, T* output) const;

 private:
  /// Handles the part inside the image with vectorized loops; false if there are none for such an image.
  template <class T, class Pixel>
  bool write_rows(const Record& record, const Pixel* pixels, const Window& window, const ItemShape& shape,
                  Layout layout, std::ptrdiff_t from, std::ptrdiff_t to, T* output) const;
  template <class T, class Pixel>
  void write_pixels(const Record& record, const Pixel* pixels, const Window& window, const ItemShape& shape,
                    Layout layout, T* output) const;

  std::string mean_file_;
  int pad_;
  CropSize crop_;
  bool random_crop_, mirror_;
  float scale_;
  ops::RandomKey key_;
  std::vector<float> mean_values_;
  ItemShape mean_shape_;
  std::vector<float> mean_image_;  // C x H x W
};

}  // namespace banyan::data
