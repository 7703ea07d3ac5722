#include "layers/multibox_targets.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "banyan/base/error.hpp"

namespace banyan {

MultiBoxTargets::MultiBoxTargets(const Settings& s, std::string where)
    : settings_(s), where_(std::move(where)) {
  const auto require = [&](bool fine, const auto&... parts) {
    if (!fine) bad_input(where_, parts...);
  };
  const std::int64_t classes = s.num_classes(), background = s.background_label_id();
  require(classes > 0, "num_classes must be given");
  require(s.conf_loss_type() == Settings::LOGISTIC || background < classes, "background_label_id ",
          background, " must be below num_classes ", classes, " for SOFTMAX");
  require(!s.map_object_to_agnostic() || classes == (background < classes ? 2 : 1),
          "map_object_to_agnostic needs num_classes 2, or 1 if the background is not among them; found ",
          classes);
  require(!s.has_do_neg_mining() || s.do_neg_mining() == mines(),
          "do_neg_mining (old) contradicts mining_type ", Settings::MiningType_Name(s.mining_type()));
  require(!mines() || s.share_location(), "mining needs share_location; mining_type: NONE does not");
  require(s.overlap_threshold() >= 0 && s.overlap_threshold() <= 1,
          "overlap_threshold must be from 0 to 1; found ", s.overlap_threshold());
  require(s.neg_pos_ratio() >= 0 && std::isfinite(s.neg_pos_ratio()),
          "neg_pos_ratio must not be negative and must be finite; found ", s.neg_pos_ratio());
  require(s.mining_type() != Settings::HARD_EXAMPLE || s.sample_size() > 0,
          "sample_size must be positive; found ", s.sample_size());
  require(std::isfinite(s.loc_weight()), "loc_weight must be finite; found ", s.loc_weight());
  locations_ = s.share_location() ? 1 : s.num_classes();
  negative_ = static_cast<double>(std::min(background, classes));
  code_ = {s.code_type(), !s.encode_variance_in_target()};
  matching_ = {s.match_type() == Settings::PER_PREDICTION, s.overlap_threshold(),
               s.ignore_cross_boundary_bbox(), s.ignore_difficult_gt()};
  mining_ = {s.mining_type(), s.neg_pos_ratio(), s.neg_overlap(), s.sample_size(), {}};
  if (!s.has_nms_param()) return;
  const Suppression suppression = read_suppression(s.nms_param(), where_);
  if (suppression.threshold > 0) mining_.suppression = suppression;
}

bool MultiBoxTargets::reads_locations() const {
  return !settings_.use_prior_for_matching() || settings_.mining_type() == Settings::HARD_EXAMPLE ||
         (mines() && mining_.suppression && !settings_.use_prior_for_nms());
}

void MultiBoxTargets::match(std::int64_t items, const std::vector<double>& priors,
                            const std::vector<double>& truth, std::vector<double> locations,
                            FirstStep first_step) {
  const std::vector<Prior> given = read_priors(priors, settings_.code_type(), where_);
  prior_count_ = given.size();
  first_step_ = std::move(first_step);
  priors_.clear();
  for (std::size_t item = 0; item < (first_step_.moves_boxes() ? static_cast<std::size_t>(items) : 1); ++item)
    priors_.push_back(first_step_.refine(given, code_, item));
  predictions_ = std::move(locations);
  // RefineDet's first step only tells objects from the background.
  const bool agnostic = settings_.map_object_to_agnostic() ||
                        (settings_.has_objectness_score() && settings_.num_classes() == 2 && negative_ == 0);
  constexpr unsigned kMost = std::numeric_limits<int>::max();
  const int background = static_cast<int>(std::min(settings_.background_label_id(), kMost));
  truth_ = read_ground_truth(
      truth, {where_, static_cast<int>(items), static_cast<int>(agnostic ? kMost : settings_.num_classes()),
              background, settings_.use_difficult_gt()});
  if (agnostic)
    for (std::vector<GroundTruth>& item : truth_)
      for (GroundTruth& object : item) object.label = negative_ == 0 ? 1 : 0;
  matches_.clear();
  for (std::size_t item = 0; item < truth_.size(); ++item) matches_.push_back(match_item(item));
}

std::vector<Box> MultiBoxTargets::prior_boxes(std::size_t item) const {
  std::vector<Box> boxes;
  for (const Prior& prior : priors(item)) boxes.push_back(prior.box);
  return boxes;
}

std::vector<Box> MultiBoxTargets::predicted(std::size_t item, std::size_t location) const {
  std::vector<Box> boxes;
  for (std::size_t p = 0; p < prior_count_; ++p)
    boxes.push_back(code_.decode(priors(item)[p], &predictions_[place(item, p, location)]));
  return boxes;
}

std::vector<Matches> MultiBoxTargets::match_item(std::size_t item) const {
  const std::vector<GroundTruth>& truth = truth_[item];
  if (truth.empty()) return {};
  const bool by_prior = settings_.use_prior_for_matching();
  Matches of_all;
  if (by_prior) of_all = match_boxes(prior_boxes(item), truth, -1, matching_);
  if (by_prior && settings_.share_location()) return {of_all};
  std::vector<Matches> matches;
  for (std::size_t location = 0; location < locations_; ++location) {
    const int label = settings_.share_location() ? -1 : static_cast<int>(location);
    if (static_cast<double>(label) == negative_) {  // the background is nowhere
      matches.emplace_back().truth.assign(prior_count_, Matches::kNone);
    } else if (!by_prior) {
      matches.push_back(match_boxes(predicted(item, location), truth, label, matching_));
    } else {
      Matches& own = matches.emplace_back(of_all);
      for (int& object : own.truth)
        if (object < 0 || truth[object].label != label) object = Matches::kNone;
    }
  }
  return matches;
}

template <class Body>
void MultiBoxTargets::for_each_match(const Body& body) const {
  for (std::size_t item = 0; item < matches_.size(); ++item)
    for (std::size_t location = 0; location < matches_[item].size(); ++location)
      for (std::size_t p = 0; p < prior_count_; ++p)
        if (matches_[item][location].truth[p] >= 0) body(item, location, p);
}

std::int64_t MultiBoxTargets::matches() const {
  std::int64_t count = 0;
  for_each_match([&](auto...) { ++count; });
  return count;
}

std::vector<double> MultiBoxTargets::labels() const {
  std::vector<double> labels(truth_.size() * prior_count_, negative_);
  for_each_match([&](std::size_t item, std::size_t location, std::size_t p) {
    labels[item * prior_count_ + p] = truth_[item][matches_[item][location].truth[p]].label;
  });
  return labels;
}

std::vector<double> MultiBoxTargets::mined_labels(const std::vector<double>& losses) {
  std::vector<bool> counts(truth_.size() * prior_count_, false);
  for (std::size_t item = 0; item < matches_.size(); ++item) {
    if (matches_[item].empty()) continue;
    const auto first = losses.begin() + static_cast<std::ptrdiff_t>(item * prior_count_);
    std::vector<double> of_item(first, first + static_cast<std::ptrdiff_t>(prior_count_));
    if (settings_.mining_type() == Settings::HARD_EXAMPLE) {
      const std::vector<double> more = location_losses(item);
      for (std::size_t p = 0; p < prior_count_; ++p) of_item[p] += more[p];
    }
    const bool by_prediction = mining_.suppression && !settings_.use_prior_for_nms();
    const auto may = [&](std::size_t p) {
      return first_step_.chooses(item * prior_count_ + p, settings_.objectness_score());
    };
    for (const int p : banyan::mine(of_item, by_prediction ? predicted(item, 0) : prior_boxes(item), mining_,
                                    may, matches_[item][0]))
      counts[item * prior_count_ + p] = true;
  }
  for_each_match(
      [&](std::size_t item, std::size_t, std::size_t p) { counts[item * prior_count_ + p] = true; });
  std::vector<double> all = labels();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!counts[i]) all[i] = unused();
  return all;
}

/// Of a match.
FourNumbers MultiBoxTargets::target(std::size_t item, std::size_t location, std::size_t p) const {
  const Prior& prior = priors(item)[p];
  FourNumbers code = code_.encode(prior, truth_[item][matches_[item][location].truth[p]].box);
  if (!settings_.bp_inside()) return code;
  const Box box = settings_.use_prior_for_matching()
                      ? prior.box
                      : code_.decode(prior, &predictions_[place(item, p, location)]);
  const FourNumbers corners{box.x1, box.y1, box.x2, box.y2};
  for (std::size_t k = 0; k < 4; ++k)
    if (!(corners[k] >= 0 && corners[k] <= 1)) code[k] = kNoTarget;
  return code;
}

/// Of the matched priors, 0 for the others.
std::vector<double> MultiBoxTargets::location_losses(std::size_t item) const {
  std::vector<double> losses(prior_count_, 0);
  for (std::size_t p = 0; p < prior_count_; ++p) {
    if (matches_[item][0].truth[p] < 0) continue;
    const FourNumbers wanted = target(item, 0, p);
    for (std::size_t k = 0; k < 4; ++k) {
      if (wanted[k] == kNoTarget) continue;
      const double weight = settings_.encode_variance_in_target() ? 1 / priors(item)[p].variances[k] : 1;
      const double d = std::abs(weight * (predictions_[place(item, p, 0) + k] - wanted[k]));
      losses[p] += d < 1 || settings_.loc_loss_type() == Settings::L2 ? d * d / 2 : d - 0.5;
    }
  }
  return losses;
}

std::vector<double> MultiBoxTargets::location_targets() const {
  std::vector<double> targets(place(truth_.size(), 0, 0), kNoTarget);
  for_each_match([&](std::size_t item, std::size_t location, std::size_t p) {
    const FourNumbers wanted = target(item, location, p);
    std::copy(wanted.begin(), wanted.end(),
              targets.begin() + static_cast<std::ptrdiff_t>(place(item, p, location)));
  });
  return targets;
}

std::vector<double> MultiBoxTargets::location_weights() const {
  std::vector<double> weights;
  for (std::size_t i = 0; i < truth_.size(); ++i)
    for (const Prior& prior : priors(i))
      for (std::size_t location = 0; location < locations_; ++location)
        for (const double variance : prior.variances) weights.push_back(1 / variance);
  return weights;
}

}  // namespace banyan
