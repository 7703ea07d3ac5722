// Resizing images in the ways that SSD's interp_mode names. Internal to the room.
#pragma once

#include "banyan/data/box_geometry.hpp"
#include "banyan/data/image_codec.hpp"
#include "banyan/data/record.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {

/// The pixels of `part`, all of which are inside. The record has 8-bit pixels.
Image cut(const Record& record, const PixelBox& part);

/// Every pixel is the one whose centre is nearest.
void resize_nearest(const Image& from, int height, int width, Image& to);

/// Pixel centres are at half-integers, border pixels repeated. LINEAR is resize_bilinear(). Of the others
/// values are rounded to nearest: CUBIC (a = -0.75) and LANCZOS4 (8 x 8) do not smooth when downscaling; AREA
/// is the mean over a pixel's area.
void resize_image(const Image& from, int height, int width, caffe::ResizeParameter::Interp_mode how,
                  Image& to);
/// By CUBIC, one channel of floats, which are not rounded. `to`: new_height x new_width values.
void resize_cubic(const float* from, int height, int width, int new_height, int new_width, float* to);

}  // namespace banyan::data
