// Split layers for blobs that several layers read, so that each reader has its own gradient.
#pragma once

#include <string>

#include "proto/banyan.pb.h"

namespace banyan {

/// Inserts splits as Caffe does, names included: `<blob>_<producer>_<top index>_split` with tops
/// `..._split_<k>`, directly after the last layer that wrote the blob. An explicit loss weight counts as a
/// blob's first use. The net must pass check_connections; a net that already has its splits is returned
/// unchanged.
caffe::NetParameter insert_splits(const caffe::NetParameter& net);

}  // namespace banyan
