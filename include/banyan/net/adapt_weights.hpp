// Which blob of a weights file fills which parameter of a layer, across the branches of the Caffe family.
// Pure.
#pragma once

#include <vector>

#include "banyan/io/weights.hpp"
#include "banyan/layers/layer.hpp"

namespace banyan {

/// One entry per parameter of `target`; null where the file has nothing and the parameter keeps its value. As
/// a rule the numbers of blobs are equal and blob i fills parameter i. BatchNorm and BN differ:
///   3 blobs: mean, variance, factor (BVLC);
///   5 blobs with 1 element in the third: mean, variance, factor, scale, bias (NVIDIA from 0.16 on, Intel);
///   5 blobs with 1 element in the last: scale, bias, mean, variance, reserve (NVIDIA 0.15; the factor is 1);
///   BN and SyncBN: slope, bias, mean, variance, or an old file's slope and bias alone (statistics keep their
///   values).
/// Scale and bias of a file may be dropped only where they do nothing (1 and 0). Throws bad_input naming
/// layer, blob and both shapes.
std::vector<const io::BlobData*> match_blobs(const io::LayerWeights& source, const Layer& target);

}  // namespace banyan
