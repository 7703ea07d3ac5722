// Where a Crop must begin so that its two inputs agree in position, as branches before BVLC's Crop found it.
#pragma once

#include <array>
#include <cstdint>

#include "proto/banyan.pb.h"

namespace banyan::io {

/// Row and column of the first input of layer `index`, a Crop, at which the first row and column of the
/// second lie: by kernels, dilations, strides and pads of the layers through which both come from one blob,
/// along the first input of each. Windows of a convolution or pooling lie with their middles on what they
/// read. Throws bad_input if there is no such blob, if a layer between moves positions in another way, or if
/// the inputs differ in scale or by parts of a pixel. `net` is
/// upgraded, and has the layers of one phase.
std::array<std::int64_t, 2> crop_offset(const caffe::NetParameter& net, int index);

}  // namespace banyan::io
