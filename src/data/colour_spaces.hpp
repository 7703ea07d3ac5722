// From B, G, R to other spaces of colours, in 8 bits per value as OpenCV has them. Internal to the room.
#pragma once

#include "banyan/data/image_codec.hpp"

namespace banyan::data {

/// Three channels each. The same bytes as OpenCV's (4 and later):
/// all three are the luma of BT.601, in parts of 2^15, not 2^14 as in images that are decoded as gray;
void decolorize(Image& image);
/// luma and its differences to red and blue, Y, Cr, Cb, of BT.601;
void ycrcb_from_bgr(Image& image);
void bgr_from_ycrcb(Image& image);
/// hue in units of 2 degrees, saturation and value.
void hsv_from_bgr(Image& image);
/// CIE L*a*b* of sRGB's colours and white (D65): 255 / 100 L, a + 128, b + 128, rounded. OpenCV's, from
/// tables, is at most 1 away.
void lab_from_bgr(Image& image);

}  // namespace banyan::data
