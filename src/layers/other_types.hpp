// Types of the Caffe family that are not here.
#pragma once

#include <string>
#include <vector>

#include "proto/banyan.pb.h"

namespace banyan {

/// Whose type it is and what takes its place, as the end of a sentence about the layer; "" for a type that
/// nobody knows.
std::string about_other_type(const caffe::LayerParameter& layer);
/// Their names, in alphabetical order.
std::vector<std::string> other_types();

}  // namespace banyan
