// Which ground truth each of SSD's boxes is trained towards, and which boxes the loss counts.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "layers/detection_boxes.hpp"

namespace banyan {

struct Matches {
  static constexpr int kNone = -1, kLeftOut = -2;
  std::vector<int> truth;        ///< per box: the number of its ground truth; kNone; kLeftOut
  std::vector<double> overlaps;  ///< with it; of other boxes their largest
};

struct MatchRules {
  bool each_box = true;  ///< more than one box per ground truth
  double threshold = 0.5;
  bool ignore_crossing = false;  ///< leaves out boxes that cross the image's border
  /// Leaves out boxes that overlap a difficult ground truth, unless they overlap another one more and are
  /// its best box: caffe-jacinto's.
  bool ignore_difficult = false;
};
/// The pair that overlaps most is matched first, then the best of what is left, until every ground truth has
/// a box or overlaps none. With `each_box`, each of the other boxes then gets the ground truth that it
/// overlaps most, if by `threshold` at least. `label` >= 0: only ground truth of that label.
Matches match_boxes(const std::vector<Box>& boxes, const std::vector<GroundTruth>& truth, int label,
                    const MatchRules& rules);

struct MiningRules {
  caffe::MultiBoxLossParameter::MiningType type = caffe::MultiBoxLossParameter::MAX_NEGATIVE;
  float negatives_per_match = 3;           ///< MAX_NEGATIVE: how many,
  double most_overlap = 0.5;               ///< of the boxes below this overlap
  int samples = 64;                        ///< HARD_EXAMPLE
  std::optional<Suppression> suppression;  ///< among the candidates, by their losses
};
/// The unmatched boxes that count: those with the largest losses. With HARD_EXAMPLE they are drawn from all
/// boxes, and matched boxes that are not among them lose their match. Boxes that `may` does not hold for are
/// never drawn.
std::vector<int> mine(const std::vector<double>& losses, const std::vector<Box>& boxes,
                      const MiningRules& rules, const std::function<bool(std::size_t)>& may,
                      Matches& matches);

}  // namespace banyan
