// What MultiBoxLoss decides on the host: which priors are matched with which ground truth, which negatives
// count, and what the net's numbers are compared with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layers/box_matching.hpp"

namespace banyan {

class MultiBoxTargets {
 public:
  using Settings = caffe::MultiBoxLossParameter;
  /// Throws bad_input; messages, also later ones about data, begin with `where`.
  MultiBoxTargets(const Settings& settings, std::string where);

  bool mines() const { return settings_.mining_type() != Settings::NONE; }
  /// Whether match() needs the predicted locations.
  bool reads_locations() const;

  /// Of a batch with so many items, inputs as those of the layer.
  void match(std::int64_t items, const std::vector<double>& priors, const std::vector<double>& truth,
             std::vector<double> locations, FirstStep first_step);
  /// By position (item, prior): the class of the match, negative() without one.
  std::vector<double> labels() const;
  /// The same, with unused() where mining leaves a position out. `losses`: of each position's confidences
  /// against labels().
  std::vector<double> mined_labels(const std::vector<double>& losses);
  std::int64_t matches() const;
  /// By element of the locations: what it is compared with, kNoTarget where it does not count.
  std::vector<double> location_targets() const;
  /// By element of the locations: what the difference is multiplied by.
  std::vector<double> location_weights() const;

  /// The class of the background, or the number of classes if it has none.
  double negative() const { return negative_; }
  /// No class's number, nor that of negative().
  double unused() const { return static_cast<double>(settings_.num_classes()) + 1; }
  static constexpr int kNoTarget = -(1 << 30);  // exact in f32

 private:
  std::size_t place(std::size_t item, std::size_t prior, std::size_t location) const {
    return ((item * prior_count_ + prior) * locations_ + location) * 4;
  }
  const std::vector<Prior>& priors(std::size_t item) const { return priors_[priors_.size() > 1 ? item : 0]; }
  std::vector<Box> prior_boxes(std::size_t item) const;
  std::vector<Box> predicted(std::size_t item, std::size_t location) const;
  std::vector<Matches> match_item(std::size_t item) const;
  FourNumbers target(std::size_t item, std::size_t location, std::size_t prior) const;
  std::vector<double> location_losses(std::size_t item) const;
  /// body(item, location, prior) for each match.
  template <class Body>
  void for_each_match(const Body& body) const;

  Settings settings_;
  std::string where_;
  std::size_t locations_ = 1;  ///< per prior
  double negative_ = 0;
  BoxCode code_;
  MatchRules matching_;
  MiningRules mining_;

  std::vector<std::vector<Prior>> priors_;  ///< of each item; once for all where there is no first step
  std::size_t prior_count_ = 0;
  FirstStep first_step_;
  std::vector<std::vector<GroundTruth>> truth_;  ///< by item
  std::vector<double> predictions_;
  std::vector<std::vector<Matches>> matches_;  ///< by item and location; none for items without ground truth
};

}  // namespace banyan
