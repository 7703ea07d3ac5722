// CTC by its definition: every path, one after the other.
#pragma once

#include <cmath>
#include <vector>

namespace banyan::ctc_paths {

using Labels = std::vector<int>;
using Values = std::vector<double>;

/// What is left of a path.
inline Labels labels_of(const Labels& path, int blank, bool merge = true) {
  Labels labels;
  int before = -1;
  for (const int c : path) {
    if (c != blank && !(merge && c == before)) labels.push_back(c);
    before = c;
  }
  return labels;
}

/// The next path; false after the last one.
inline bool advance(Labels& path, int classes) {
  for (int& c : path) {
    if (++c < classes) return true;
    c = 0;
  }
  return false;
}

struct Sum {
  double likelihood = 0;
  Values gradient;  ///< of minus its logarithm, T x C; the softmax where there is no path
};

/// Over all paths with these labels; scores: T x C.
inline Sum sum_over_paths(const Values& scores, int steps, int classes, const Labels& labels, int blank,
                          bool merge = true) {
  const auto at = [classes](int t, int c) { return static_cast<std::size_t>(t * classes + c); };
  Values p(scores.size()), through(scores.size());
  for (int t = 0; t < steps; ++t) {
    double sum = 0;
    for (int c = 0; c < classes; ++c) sum += std::exp(scores[at(t, c)]);
    for (int c = 0; c < classes; ++c) p[at(t, c)] = std::exp(scores[at(t, c)]) / sum;
  }
  Sum found;
  Labels path(static_cast<std::size_t>(steps), 0);
  do {
    if (labels_of(path, blank, merge) != labels) continue;
    double product = 1;
    for (int t = 0; t < steps; ++t) product *= p[at(t, path[static_cast<std::size_t>(t)])];
    found.likelihood += product;
    for (int t = 0; t < steps; ++t) through[at(t, path[static_cast<std::size_t>(t)])] += product;
  } while (advance(path, classes));
  for (std::size_t i = 0; i < p.size(); ++i)
    found.gradient.push_back(p[i] - (found.likelihood > 0 ? through[i] / found.likelihood : 0));
  return found;
}

}  // namespace banyan::ctc_paths
