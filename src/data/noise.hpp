// SSD's noise_param: changes of whole images, before a part is cut out. Internal to the room.
#pragma once

#include <string>

#include "banyan/data/image_codec.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {

class ItemDraws;

/// Throws bad_input for values that make no sense.
void check_noise(const caffe::NoiseParameter& settings, const std::string& layer);
/// Do the settings name a change?
bool has_noise(const caffe::NoiseParameter& settings);
/// With the probability `prob`, where that is given, makes the changes that the settings name, in SSD's
/// order. Throws bad_input if they do not fit the image's channels.
void add_noise(const caffe::NoiseParameter& settings, ItemDraws& draws, Image& image);

}  // namespace banyan::data
