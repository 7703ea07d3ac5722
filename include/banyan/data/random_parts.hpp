// Which part of an image training sees: the random crops of yjxiong's Caffe (TSN).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/data/augmenter.hpp"
#include "banyan/data/box_geometry.hpp"
#include "banyan/data/item_writer.hpp"
#include "banyan/ops/random.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {

class ItemDraws;

/// A number, drawn evenly between two.
struct RandomFactor {
  double least = 1, most = 1;
  bool changes() const { return least != 1 || most != 1; }
};

/// The length of an image's shorter side, drawn from shortest to longest, and how the image comes to it.
/// NVIDIA's lets the longer side be `aspect` times as long (unless that is 1), and multiplies both by factors
/// of their own.
struct RandomSide {
  std::int64_t shortest = 0, longest = 0;  ///< 0: the length that it has
  RandomFactor aspect, height, width;
  bool enlarges = true;  ///< false: sides grow only as far as the crop needs
  caffe::ResizeParameter::Interp_mode smaller = caffe::ResizeParameter::LINEAR,
                                      larger = caffe::ResizeParameter::LINEAR;
};

/// Parts within limits of area and aspect: of a square of the drawn area, one side is multiplied by a number
/// from `least_change` to 1 / `least_change` and the other is divided by it; which one is drawn too.
struct RandomAspect {
  double least_area = 0, most_area = 1, least_change = 1;
  std::uint32_t attempts = 0;
  caffe::ResizeParameter::Interp_mode how = caffe::ResizeParameter::LINEAR;
};

/// Heights and widths that multi_scale draws from: the shorter side of the image times pairs of `ratios` that
/// are at most `max_distort` places apart; within 2 pixels of `crop`, crop itself.
std::vector<std::pair<int, int>> scaled_crops(int height, int width, int crop,
                                              const std::vector<float>& ratios, int max_distort);
/// Tops and lefts that fix_crop draws from: corners and centre, with `more` also the middles of the sides and
/// those between centre and corners.
std::vector<std::pair<int, int>> fixed_places(int height, int width, int crop_height, int crop_width,
                                              bool more);

/// Draws a part of crop_size; with multi_scale of another size and shape; with original_image anything from
/// original_min_scale (0.08) of the image's area to all of it, 3/4 to 4/3 as wide as high, at any place, and
/// the centre 7/8 as long as the shorter side if ten draws do not fit into the image; with NVIDIA's
/// img_rand_resize, rand_resize_ratio and stretches, or Intel's random_resize_param, what is crop_size large
/// once the image has its random size; with Intel's random_aspect_ratio_param a part of a RandomAspect, and a
/// square as long as the shorter side, at any place, if no draw fits.
class RandomParts {
 public:
  explicit RandomParts(const caffe::TransformationParameter& settings);
  /// Do parts have any size? They are resized to crop_size then.
  bool resizes() const { return multi_scale_ || whole_ || aspect_.has_value() || scales(); }
  bool any() const { return resizes() || fixed_; }
  /// Do images get a random size? Tests then see the centre() of one of medium size.
  bool scales() const { return side_.has_value(); }
  /// For an image that is at least as large as crop_size, unless resizes().
  PixelBox draw(int height, int width, ItemDraws& draws) const;
  /// Where scales().
  PixelBox centre(int height, int width) const;
  /// To crop_size.
  void resize(Image& part, Image& scratch) const;

 private:
  /// Of a part that is crop_size large where the whole image has the random size; without draws that of
  /// tests.
  PixelBox size_of(int height, int width, ItemDraws* draws) const;

  int crop_, max_distort_;
  bool multi_scale_, fixed_, more_places_, whole_;
  float least_area_;
  std::vector<float> ratios_;
  std::optional<RandomSide> side_;
  std::optional<RandomAspect> aspect_;
};

/// Throws bad_input for values that RandomParts cannot follow.
void check_random_parts(const caffe::TransformationParameter& settings, const std::string& layer);

/// Throws bad_input unless a PartWriter can follow the settings; reads no file. `random`: training.
void check_part_transform(const caffe::TransformationParameter& settings, const std::string& layer,
                          bool random = true);

/// An Augmenter whose images are first resized as resize_param or short_edge says, then cut by RandomParts
/// and distorted in their colours (SSD's distort_param, AlexNet's lighting_noise), both in training only;
/// SSD's noise_param comes before the cut, and colours are then distorted before it; with is_flow the even
/// channels v of mirrored images become 255 - v, with Intel's flow the third one does. With NVIDIA's random
/// sizes the middle of a mean image, as large as the part, is subtracted from it. In training `eigs` adds a
/// number to all pixels of a channel: the matrix times normal numbers of deviation 0.1.
class PartWriter : public ItemWriter {
 public:
  /// As for an Augmenter; `random`: training.
  PartWriter(const caffe::TransformationParameter& settings, bool random, std::uint64_t seed,
             std::uint32_t stream, const std::string& layer);
  std::vector<Shape> shapes(const Record& record, std::uint64_t item) const override;
  void write(const Record& record, std::uint64_t item, const ItemPlace& place) const override;

 private:
  using Resize = caffe::ResizeParameter;
  /// What is drawn for an item: maybe no resize.
  std::pair<std::optional<Resize>, Resize::Interp_mode> resize_of(std::uint64_t item) const;
  std::vector<Shape> shapes_after(const Record& record, std::uint64_t item) const;
  /// distort_param and lighting_noise.
  void change_colours(ItemDraws& draws, Image& image) const;
  void write_after(const Record& record, std::uint64_t item, const ItemPlace& place) const;
  /// Sign of the channels of a mirrored image.
  bool turns(std::size_t channel) const { return flow_ ? channel % 2 == 0 : channel == 2; }
  bool cuts() const { return random_ ? parts_.any() : parts_.scales(); }
  void write_changed(const Record& record, std::uint64_t item, const ItemPlace& place) const;
  void add_eigs(const Shape& image, std::uint64_t item, const ItemPlace& place) const;

  Augmenter augmenter_;
  RandomParts parts_;
  caffe::DistortionParameter distortion_;
  caffe::NoiseParameter noise_;
  bool noisy_, distorts_, random_;
  bool flow_;        ///< every second channel changes its sign
  bool third_flow_;  ///< the third does
  float lighting_;
  int crop_;
  google::protobuf::RepeatedPtrField<Resize> resizes_;  ///< of several each image takes one
  std::vector<int> short_edge_;  ///< the least and the greatest length; none: images keep theirs
  std::vector<float> eigs_;      ///< in training; row by row
  double scale_;
  ops::RandomKey key_, resize_key_, noise_key_, eigs_key_;
};

}  // namespace banyan::data
