// What makes a pixel of its neighbours, or of the whole image: the bytes that OpenCV makes. Internal to the
// room.
#pragma once

#include "banyan/data/image_codec.hpp"

namespace banyan::data {

/// Any number of channels, each by itself. A Gaussian of 7 x 7 pixels and a standard deviation of 1.5, in
/// parts of 256; beyond the border the image is mirrored.
void blur(Image& image);
/// Each value becomes the least of the pixel and its four neighbours.
void erode(Image& image);

/// The first channel only; the others stay. All values become equally common, as far as possible.
void equalize(Image& image);
/// The same for each of 8 x 8 tiles, none of which raises the contrast more than four times (CLAHE); between
/// the tiles' centres there is a gradual transition.
void equalize_tiles(Image& image);

}  // namespace banyan::data
