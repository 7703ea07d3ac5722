// Drawing one of several by weight. Internal to the room.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace banyan::data {

/// Which of the weights a number in [0, 1) falls on; never on one of 0.
inline std::size_t weighted_choice(const std::vector<double>& weights, double drawn) {
  double sum = 0;
  for (const double weight : weights) sum += weight;
  double left = drawn * sum;
  std::size_t chosen = 0;
  for (std::size_t k = 0; k < weights.size(); ++k) {
    if (weights[k] == 0) continue;
    chosen = k;
    left -= weights[k];
    if (left < 0) break;
  }
  return chosen;
}

/// What is wrong with weights that are given for `count` things; "" if nothing is.
template <class Weights>
std::string complaint_about_weights(const Weights& weights, int count) {
  if (weights.empty()) return "";
  if (weights.size() != count)
    return "has " + std::to_string(weights.size()) + " numbers; expected none, or " + std::to_string(count);
  double sum = 0;
  for (const float weight : weights) {
    if (!(weight >= 0 && std::isfinite(weight))) return "must not be negative or infinite";
    sum += weight;
  }
  return sum > 0 ? "" : "must not all be 0";
}

}  // namespace banyan::data
