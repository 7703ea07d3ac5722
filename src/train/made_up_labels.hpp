// Which of the blobs that --shape makes up are labels.
#pragma once

#include <string>

#include "proto/banyan.pb.h"

namespace banyan {

/// Does a layer read the blob as numbers of classes or rows (LayerTraits::label_input), or what layers with
/// gradients make of it, such as a part, or an image of labels in another size? Or do no gradients flow to it
/// at all? Of layers in Python nobody knows; what they read besides may be labels.
bool is_read_as_label(const caffe::NetParameter& net, const std::string& blob);

}  // namespace banyan
