// How good a detector is: the average precision of each class over a whole test, from what DetectionEvaluate
// and EvalDetection layers say of each detection (SSD's eval_type: detection).
#pragma once

#include <map>
#include <vector>

#include "banyan/net/net.hpp"
#include "banyan/train/solver_settings.hpp"

namespace banyan {

/// Does such a layer make the blob? Means over batches of what it holds say nothing.
bool holds_detections(const Net& net, const Blob& blob);
/// The blob's values in a batch as rows of DetectionEvaluate: item (-1: of a class), label, score (of a
/// class: the number of its objects), true positives, false positives.
std::vector<double> detection_rows(const Net& net, const Blob& blob, const std::vector<double>& values);

/// The classes' values by label. `rows` of five numbers are those of all batches, in any order; a class that
/// has no object, or none that was found, has 0, as in SSD.
std::map<int, double> average_precisions(const std::vector<double>& rows, AveragePrecision kind);
/// 0 if there is no class.
double mean_of(const std::map<int, double>& precisions);

}  // namespace banyan
