// Where boxes are after an image was cut, enlarged, resized or mirrored, and which parts of an image SSD's
// samplers accept. Pure functions; boxes are fractions of the image unless said otherwise.
#pragma once

#include <array>
#include <vector>

#include "banyan/data/record.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {

/// `box` where `view`, in the same coordinates, is all that is seen: the view becomes [0, 1] x [0, 1].
Box seen_through(const Box& view, const Box& box);
Box mirrored(const Box& box);
/// The part of `box` that lies in `other`, in [0, 1]; 0 if `box` is empty.
double coverage(const Box& box, const Box& other);

/// Does an object remain in `view`? CENTER: its centre is inside. MIN_OVERLAP: more than emit_overlap of it.
bool is_emitted(const caffe::EmitConstraint& constraint, const Box& view, const Box& object);
/// The objects as seen through `view`, cut off at its borders, without those that have no area there or that
/// `constraint` (may be null) drops.
void look_through(const Box& view, const caffe::EmitConstraint* constraint, std::vector<ObjectBox>& objects);

/// A part of the image by four numbers in [0, 1): scale, aspect ratio, and the place of its first corner.
Box sample_box(const caffe::Sampler& sampler, const std::array<double, 4>& numbers);
/// Without constraints always; else one object must satisfy all of them.
bool is_accepted(const caffe::SampleConstraint& constraint, const Box& sample,
                 const std::vector<ObjectBox>& objects);

/// A part of an image in pixels; it may reach beyond the image.
struct PixelBox {
  int top = 0, left = 0, height = 0, width = 0;
  bool operator==(const PixelBox&) const = default;
};
/// The pixels of a part of an image of that size: one at least in each direction.
PixelBox pixels_of(const Box& part, int height, int width);
/// What `part` is as a fraction of an image of that size.
Box fractions_of(const PixelBox& part, int height, int width);

/// What a resize makes of an image: it is resized to `inner`'s size, which is at `inner`'s place in an image
/// of `height` x `width` pixels.
struct Resized {
  int height = 0, width = 0;
  PixelBox inner;
};
Resized resized(const caffe::ResizeParameter& settings, int height, int width);

}  // namespace banyan::data
