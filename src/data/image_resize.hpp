// What resize_param says (SSD, ducha-aiki). Internal to the room.
#pragma once

#include <string>
#include <vector>

#include "banyan/data/box_geometry.hpp"
#include "banyan/data/image_codec.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {

class ItemDraws;

using ResizeList = google::protobuf::RepeatedPtrField<caffe::ResizeParameter>;

/// Throws bad_input for a resize that cannot be followed.
void check_resize(const caffe::ResizeParameter& resize, const std::string& layer);

/// null: there are none. Of several, one that is drawn by its part of the sum of `prob`.
const caffe::ResizeParameter* draw_resize(const ResizeList& choices, ItemDraws& draws);
/// One of interp_mode.
caffe::ResizeParameter::Interp_mode draw_interpolation(const caffe::ResizeParameter& resize,
                                                       ItemDraws& draws);

/// Where an image lies in a larger one, and what is around it.
struct Frame {
  int height = 0, width = 0, top = 0, left = 0;
  caffe::ResizeParameter::Pad_mode border = caffe::ResizeParameter::CONSTANT;
  std::vector<float> values;  ///< CONSTANT: one, or one per channel; none: 0
};
Image framed(const Image& image, const Frame& frame);

/// Makes `image` what `to`, which is resized() of it, says. Throws bad_input if pad_value does not fit the
/// channels.
void resize_and_pad(const caffe::ResizeParameter& resize, const Resized& to,
                    caffe::ResizeParameter::Interp_mode how, Image& image, Image& scratch);

}  // namespace banyan::data
