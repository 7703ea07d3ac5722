// Made scenes for SSD's layers, and MultiBoxLoss by its definition: loops that follow the paper's text.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "layers/bench.hpp"

namespace banyan::testing {

using Four = std::array<double, 4>;  ///< x1, y1, x2, y2, or a code

inline double naive_overlap(const Four& a, const Four& b) {
  const double w = std::min(a[2], b[2]) - std::max(a[0], b[0]),
               h = std::min(a[3], b[3]) - std::max(a[1], b[1]);
  if (w <= 0 || h <= 0) return 0;
  return w * h / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - w * h);
}

struct Object {
  int item, label;
  Four box;
  bool difficult = false;
};

/// A batch with priors on a grid of 3 x 3 in two sizes, some across the border, and objects near them.
struct Scene {
  int items = 3, classes = 4, boxes = 1;  ///< boxes: per prior
  std::vector<Four> priors;
  Four variances{0.1, 0.15, 0.2, 0.25};
  std::vector<Object> objects;
  Values locations, confidences;
  Values first_confidences, first_locations;  ///< of RefineDet's first step, if there is one

  explicit Scene(unsigned seed, int items_ = 3, int classes_ = 4, bool share_location = true)
      : items(items_), classes(classes_), boxes(share_location ? 1 : classes_) {
    std::mt19937 random(seed);
    const auto draw = [&](double from, double to) {
      return from + (to - from) * static_cast<double>(random() % 10007) / 10007;
    };
    for (int y = 0; y < 3; ++y)
      for (int x = 0; x < 3; ++x)
        for (const double side : {0.32, 0.45}) {
          const double cx = (x + 0.5) / 3, cy = (y + 0.5) / 3;
          priors.push_back({cx - side / 2, cy - side / 3, cx + side / 2, cy + side / 3});
        }
    for (int item = 0; item < items; ++item) {
      if (item == 1) continue;  // an image without objects
      for (int i = 0; i < 3; ++i) {
        const Four& near = priors[random() % priors.size()];
        Four box;
        for (std::size_t k = 0; k < 4; ++k) box[k] = near[k] + draw(-0.06, 0.06);
        objects.push_back({item,
                           1 + static_cast<int>(random() % static_cast<unsigned>(std::max(1, classes - 1))),
                           box, i == 2});
      }
    }
    std::shuffle(objects.begin(), objects.end(), random);
    const auto count = static_cast<std::int64_t>(priors.size()) * items;
    locations = spread_values(count * boxes * 4, seed + 1, 1.5);
    confidences = spread_values(count * classes, seed + 2, 2);
  }

  /// Inputs of RefineDet's second step.
  void add_first_step(bool moves_boxes, unsigned seed) {
    const std::int64_t count = prior_count() * items;
    first_confidences = spread_values(2 * count, seed);
    for (double& confidence : first_confidences) confidence = std::abs(confidence);
    if (moves_boxes) first_locations = spread_values(4 * count, seed + 1, 1);
  }

  std::int64_t prior_count() const { return static_cast<std::int64_t>(priors.size()); }
  Values prior_values() const {
    Values values;
    for (const Four& prior : priors) values.insert(values.end(), prior.begin(), prior.end());
    for (std::size_t p = 0; p < priors.size(); ++p)
      values.insert(values.end(), variances.begin(), variances.end());
    return values;
  }
  /// Rows of the objects in [first, end), numbered from there, and two empty ones.
  Values truth_values(int first, int end) const {
    Values rows{-1, -1, -1, -1, -1, -1, -1, -1};
    for (const Object& o : objects)
      if (o.item >= first && o.item < end)
        rows.insert(rows.end(), {static_cast<double>(o.item - first), static_cast<double>(o.label), 7,
                                 o.box[0], o.box[1], o.box[2], o.box[3], o.difficult ? 1.0 : 0.0});
    rows.insert(rows.end(), {-1, -1, -1, -1, -1, -1, -1, -1});
    return rows;
  }
  std::vector<Shape> shapes(int first, int end) const {
    std::vector<Shape> all{Shape{end - first, prior_count() * boxes * 4},
                           Shape{end - first, prior_count() * classes}, Shape{1, 2, prior_count() * 4},
                           Shape{1, 1, static_cast<std::int64_t>(truth_values(first, end).size()) / 8, 8}};
    if (!first_confidences.empty()) all.push_back(Shape{end - first, prior_count() * 2});
    if (!first_locations.empty()) all.push_back(Shape{end - first, prior_count() * 4});
    return all;
  }
  std::vector<Shape> shapes() const { return shapes(0, items); }
  void feed(Bench& bench, int first, int end) const {
    const auto part = [&](const Values& all) {
      const auto each = static_cast<std::ptrdiff_t>(all.size()) / std::max(1, items);
      return Values(all.begin() + each * first, all.begin() + each * end);
    };
    bench.set_input(0, part(locations));
    bench.set_input(1, part(confidences));
    bench.set_input(2, prior_values());
    bench.set_input(3, truth_values(first, end));
    if (!first_confidences.empty()) bench.set_input(4, part(first_confidences));
    if (!first_locations.empty()) bench.set_input(5, part(first_locations));
  }
  void feed(Bench& bench) const { feed(bench, 0, items); }
};

inline Four naive_encode(const caffe::MultiBoxLossParameter& s, const Four& p, const Four& b,
                         const Four& variance) {
  const double w = p[2] - p[0], h = p[3] - p[1];
  Four code{b[0] - p[0], b[1] - p[1], b[2] - p[2], b[3] - p[3]};
  if (s.code_type() == caffe::PriorBoxParameter::CORNER_SIZE)
    code = {code[0] / w, code[1] / h, code[2] / w, code[3] / h};
  if (s.code_type() == caffe::PriorBoxParameter::CENTER_SIZE)
    code = {(b[0] + b[2] - p[0] - p[2]) / 2 / w, (b[1] + b[3] - p[1] - p[3]) / 2 / h,
            std::log((b[2] - b[0]) / w), std::log((b[3] - b[1]) / h)};
  for (std::size_t k = 0; !s.encode_variance_in_target() && k < 4; ++k) code[k] /= variance[k];
  return code;
}

inline Four naive_decode(const caffe::MultiBoxLossParameter& s, const Four& p, const double* code,
                         const Four& variance) {
  const double w = p[2] - p[0], h = p[3] - p[1];
  Four c;
  for (std::size_t k = 0; k < 4; ++k) c[k] = code[k] * (s.encode_variance_in_target() ? 1 : variance[k]);
  switch (s.code_type()) {
    case caffe::PriorBoxParameter::CORNER_SIZE:
      return {p[0] + c[0] * w, p[1] + c[1] * h, p[2] + c[2] * w, p[3] + c[3] * h};
    case caffe::PriorBoxParameter::CENTER_SIZE: {
      const double cx = (p[0] + p[2]) / 2 + c[0] * w, cy = (p[1] + p[3]) / 2 + c[1] * h;
      return {cx - w * std::exp(c[2]) / 2, cy - h * std::exp(c[3]) / 2, cx + w * std::exp(c[2]) / 2,
              cy + h * std::exp(c[3]) / 2};
    }
    default:
      return {p[0] + c[0], p[1] + c[1], p[2] + c[2], p[3] + c[3]};
  }
}

/// An item's priors, where the first step has moved them.
inline std::vector<Four> naive_priors(const Scene& scene, const caffe::MultiBoxLossParameter& s, int item) {
  std::vector<Four> own = scene.priors;
  for (std::size_t p = 0; !scene.first_locations.empty() && p < own.size(); ++p)
    own[p] = naive_decode(s, scene.priors[p],
                          &scene.first_locations[(static_cast<std::size_t>(item) * own.size() + p) * 4],
                          scene.variances);
  return own;
}

inline bool is_inside(double coordinate) { return coordinate >= 0 && coordinate <= 1; }

/// Matches of boxes with objects (-1: none, -2: left out), and for each box its largest overlap.
struct NaiveMatches {
  std::vector<int> object;
  Values overlap;
};
inline NaiveMatches naive_match(const std::vector<Four>& boxes, const std::vector<Object>& objects, int label,
                                const caffe::MultiBoxLossParameter& s) {
  NaiveMatches found{std::vector<int>(boxes.size(), -1), Values(boxes.size(), 0)};
  const auto shared = [&](std::size_t b, std::size_t o) {
    return label >= 0 && objects[o].label != label ? 0 : naive_overlap(boxes[b], objects[o].box);
  };
  for (std::size_t b = 0; b < boxes.size(); ++b) {
    if (s.ignore_cross_boundary_bbox() && !std::all_of(boxes[b].begin(), boxes[b].end(), is_inside))
      found.object[b] = -2;
    for (std::size_t o = 0; o < objects.size(); ++o)
      found.overlap[b] = std::max(found.overlap[b], shared(b, o));
  }
  std::vector<bool> taken(objects.size(), false);
  while (true) {
    double most = 1e-6;
    std::size_t box = 0, object = 0;
    for (std::size_t b = 0; b < boxes.size(); ++b)
      for (std::size_t o = 0; o < objects.size(); ++o)
        if (found.object[b] == -1 && !taken[o] && shared(b, o) > most)
          most = shared(b, o), box = b, object = o;
    if (most == 1e-6) break;
    const bool ignored = s.ignore_difficult_gt() && objects[object].difficult;
    found.object[box] = ignored ? -2 : static_cast<int>(object);
    taken[object] = !ignored;
  }
  for (std::size_t b = 0; b < boxes.size() && s.match_type() == caffe::MultiBoxLossParameter::PER_PREDICTION;
       ++b) {
    if (found.object[b] != -1) continue;
    double most = s.overlap_threshold();
    for (std::size_t o = 0; o < objects.size(); ++o)
      if (shared(b, o) > most) most = shared(b, o), found.object[b] = static_cast<int>(o);
  }
  return found;
}

/// The best box hides others, then the best of what is left, and so on; tiny boxes are left out first (SSD).
inline std::vector<int> naive_suppress(const std::vector<Four>& boxes, std::vector<int> order,
                                       double threshold) {
  std::erase_if(order, [&](int b) {
    const Four& box = boxes[static_cast<std::size_t>(b)];
    return std::max(0.0, box[2] - box[0]) * std::max(0.0, box[3] - box[1]) < 1e-5;
  });
  std::vector<int> kept;
  while (!order.empty()) {
    const int best = order.front();
    kept.push_back(best);
    order.erase(order.begin());
    std::erase_if(order, [&](int other) {
      return naive_overlap(boxes[static_cast<std::size_t>(best)], boxes[static_cast<std::size_t>(other)]) >
             threshold;
    });
  }
  return kept;
}

struct NaiveLoss {
  double sum = 0;
  int matches = 0;
};

/// Before the division.
inline NaiveLoss naive_multibox_loss(const Scene& scene, const caffe::MultiBoxLossParameter& s) {
  using S = caffe::MultiBoxLossParameter;
  const auto priors = static_cast<std::size_t>(scene.prior_count()),
             classes = static_cast<std::size_t>(scene.classes), boxes = static_cast<std::size_t>(scene.boxes);
  const int background = static_cast<int>(s.background_label_id());
  NaiveLoss result;
  for (int item = 0; item < scene.items; ++item) {
    std::vector<Object> objects;
    for (const Object& o : scene.objects)
      if (o.item == item && (s.use_difficult_gt() || !o.difficult)) objects.push_back(o);
    const std::vector<Four> own = naive_priors(scene, s, item);
    const auto first = static_cast<std::size_t>(item) * priors;
    const auto rated = [&](std::size_t p) {
      return scene.first_confidences.empty() ||
             scene.first_confidences[2 * (first + p) + 1] >= static_cast<double>(s.objectness_score());
    };
    const auto location = [&](std::size_t p, std::size_t b) {
      return &scene.locations[((first + p) * boxes + b) * 4];
    };
    const auto decoded = [&](std::size_t p, std::size_t b) {
      return naive_decode(s, own[p], location(p, b), scene.variances);
    };
    std::vector<NaiveMatches> matches;
    for (std::size_t b = 0; b < boxes; ++b) {
      std::vector<Four> candidates = own;
      for (std::size_t p = 0; !s.use_prior_for_matching() && p < priors; ++p) candidates[p] = decoded(p, b);
      const int label = scene.boxes == 1 ? -1 : static_cast<int>(b);
      matches.push_back(naive_match(candidates, objects, s.use_prior_for_matching() ? -1 : label, s));
      for (int& object : matches.back().object)
        if (label >= 0 && object >= 0 &&
            (objects[static_cast<std::size_t>(object)].label != label || label == background))
          object = -1;
    }
    const auto label_of = [&](int object) {
      const bool first_step = s.has_objectness_score() && scene.classes == 2;
      return s.map_object_to_agnostic() || first_step ? background + 1
                                                      : objects[static_cast<std::size_t>(object)].label;
    };
    const auto location_loss = [&](std::size_t p, std::size_t b) {
      const int object = matches[b].object[p];
      if (object < 0) return 0.0;
      const Four wanted =
          naive_encode(s, own[p], objects[static_cast<std::size_t>(object)].box, scene.variances);
      const Four seen = s.use_prior_for_matching() ? own[p] : decoded(p, b);
      double sum = 0;
      for (std::size_t k = 0; k < 4; ++k) {
        if (s.bp_inside() && !is_inside(seen[k])) continue;
        const double d =
            (location(p, b)[k] - wanted[k]) / (s.encode_variance_in_target() ? scene.variances[k] : 1);
        sum += s.loc_loss_type() == S::L2 || std::abs(d) < 1 ? d * d / 2 : std::abs(d) - 0.5;
      }
      return sum;
    };
    const auto confidence_loss = [&](std::size_t p, int label) {
      const double* x = &scene.confidences[(first + p) * classes];
      double sum = 0, all = 0;
      for (std::size_t c = 0; c < classes; ++c) {
        const bool hit = static_cast<int>(c) == label;
        sum += std::log1p(std::exp(hit ? -x[c] : x[c]));
        all += std::exp(x[c]);
      }
      return s.conf_loss_type() == S::LOGISTIC ? sum : std::log(all) - x[static_cast<std::size_t>(label)];
    };
    std::vector<int> labels(priors, background);
    for (const NaiveMatches& m : matches)
      for (std::size_t p = 0; p < priors; ++p)
        if (m.object[p] >= 0) labels[p] = label_of(m.object[p]);
    std::vector<bool> counts(priors, s.mining_type() == S::NONE);
    if (s.mining_type() != S::NONE && !objects.empty()) {
      const bool hard = s.mining_type() == S::HARD_EXAMPLE;
      NaiveMatches& m = matches[0];
      Values losses;
      std::vector<Four> candidates;
      for (std::size_t p = 0; p < priors; ++p) {
        losses.push_back(confidence_loss(p, labels[p]) + (hard ? location_loss(p, 0) : 0));
        candidates.push_back(s.use_prior_for_nms() ? own[p] : decoded(p, 0));
      }
      std::vector<int> order;
      int matched = 0;
      for (std::size_t p = 0; p < priors; ++p) {
        matched += m.object[p] >= 0 ? 1 : 0;
        if (rated(p) && (hard || (m.object[p] == -1 && m.overlap[p] < s.neg_overlap())))
          order.push_back(static_cast<int>(p));
      }
      std::sort(order.begin(), order.end(), [&](int a, int b) {
        return losses[static_cast<std::size_t>(a)] > losses[static_cast<std::size_t>(b)];
      });
      const std::size_t wanted = std::min(
          order.size(),
          static_cast<std::size_t>(
              hard ? s.sample_size() : static_cast<int>(static_cast<double>(matched) * s.neg_pos_ratio())));
      if (s.has_nms_param()) order = naive_suppress(candidates, order, s.nms_param().nms_threshold());
      order.resize(std::min(wanted, order.size()));
      for (std::size_t p = 0; p < priors; ++p) {
        const bool chosen = std::count(order.begin(), order.end(), static_cast<int>(p)) > 0;
        if (hard && !chosen && m.object[p] >= 0)
          m.object[p] = -1;
        else
          counts[p] = m.object[p] >= 0 || (chosen && m.object[p] == -1);
      }
    }
    for (std::size_t p = 0; p < priors; ++p) {
      if (counts[p]) result.sum += confidence_loss(p, labels[p]);
      for (std::size_t b = 0; b < boxes; ++b) {
        result.sum += s.loc_weight() * location_loss(p, b);
        result.matches += matches[b].object[p] >= 0 ? 1 : 0;
      }
    }
  }
  return result;
}

}  // namespace banyan::testing
