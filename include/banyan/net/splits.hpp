// Split layers for blobs that several layers read, so that each reader has its own gradient.
#pragma once

#include <string>

#include "proto/banyan.pb.h"

namespace banyan {

/// Caffe's insertion, names included: `<blob>_<producer>_<top index>_split` with tops `..._split_<k>`,
/// directly after the last layer that wrote the blob. A blob with an explicit loss weight counts it as its
/// first use. The net must pass check_connections; a net that has its splits already is returned as it is.
caffe::NetParameter insert_splits(const caffe::NetParameter& net);

}  // namespace banyan
