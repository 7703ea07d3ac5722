#include "average_precision.hpp"

#include <algorithm>
#include <cstddef>

namespace banyan {
namespace {

constexpr std::size_t kRowLength = 5;  // item, label, score, true positives, false positives

struct JudgedDetection {
  double score;
  bool right;
};

/// Precision and recall with the first i + 1 detections.
struct Point {
  double precision, recall;
};

std::vector<Point> curve_of(std::vector<JudgedDetection> detections, double objects) {
  std::stable_sort(detections.begin(), detections.end(),
                   [](const JudgedDetection& a, const JudgedDetection& b) { return a.score > b.score; });
  std::vector<Point> curve;
  double right = 0;
  for (const JudgedDetection& detection : detections) {
    right += detection.right ? 1 : 0;
    curve.push_back({right / static_cast<double>(curve.size() + 1), right / objects});
  }
  return curve;
}

/// Each precision becomes the best that any recall from there on has.
void take_best(std::vector<Point>& curve) {
  for (std::size_t i = curve.size(); i-- > 1;)
    curve[i - 1].precision = std::max(curve[i - 1].precision, curve[i].precision);
}

double area_under(const std::vector<Point>& curve) {
  double area = 0, before = 0;
  for (const Point& point : curve) {
    area += point.precision * (point.recall - before);
    before = point.recall;
  }
  return area;
}

double precision_of(std::vector<Point> curve, AveragePrecision kind) {
  if (kind != AveragePrecision::integral) take_best(curve);
  if (kind == AveragePrecision::integral || kind == AveragePrecision::max_integral) return area_under(curve);
  const int steps = kind == AveragePrecision::eleven_points ? 10 : 100;
  double sum = 0;
  for (int step = 0; step <= steps; ++step) {
    const auto reached = std::find_if(curve.begin(), curve.end(), [&](const Point& point) {
      return point.recall * steps >= step - 1e-9;  // 0.3 of three objects in ten is reached
    });
    if (reached != curve.end()) sum += reached->precision;
  }
  return sum / (steps + 1);
}

const Layer* maker_of(const Net& net, const Blob& blob) {
  const Graph& graph = net.graph();
  const auto found = graph.by_name.find(blob.name);
  if (found == graph.by_name.end()) return nullptr;
  return net.layers()[static_cast<std::size_t>(graph.blobs[found->second].producer)].get();
}

}  // namespace

bool holds_detections(const Net& net, const Blob& blob) {
  const Layer* const layer = maker_of(net, blob);
  return layer != nullptr && (layer->type() == "DetectionEvaluate" || layer->type() == "EvalDetection");
}

std::vector<double> detection_rows(const Net& net, const Blob& blob, const std::vector<double>& values) {
  const Layer* const layer = maker_of(net, blob);
  if (layer == nullptr || layer->type() != "EvalDetection") return values;
  const auto classes = static_cast<std::size_t>(layer->parameter().eval_detection_param().num_class()),
             width = static_cast<std::size_t>(blob.shape.count(1));
  std::vector<double> rows;
  for (std::size_t item = 0; item * width < values.size(); ++item) {
    const double* const own = values.data() + item * width;
    for (std::size_t label = 0; label < classes; ++label)
      rows.insert(rows.end(), {-1, static_cast<double>(label), own[label], -1, -1});
    for (std::size_t at = classes; at + 4 <= width; at += 4)
      rows.insert(rows.end(), {static_cast<double>(item), own[at], own[at + 1], own[at + 2], own[at + 3]});
  }
  return rows;
}

std::map<int, double> average_precisions(const std::vector<double>& rows, AveragePrecision kind) {
  std::map<int, double> objects;
  std::map<int, std::vector<JudgedDetection>> detections;
  for (std::size_t at = 0; at + kRowLength <= rows.size(); at += kRowLength) {
    const double* row = rows.data() + at;
    const int label = static_cast<int>(row[1]);
    if (label < 0) continue;  // no row of a class or a detection
    if (row[0] < 0)
      objects[label] += row[2];
    else if (row[3] > 0 || row[4] > 0)  // else it found a difficult object, which does not count
      detections[label].push_back({row[2], row[3] > 0});
  }
  std::map<int, double> precisions;
  for (const auto& [label, count] : objects)
    precisions[label] = count > 0 ? precision_of(curve_of(detections[label], count), kind) : 0;
  return precisions;
}

double mean_of(const std::map<int, double>& precisions) {
  double sum = 0;
  for (const auto& [label, value] : precisions) sum += value;
  return precisions.empty() ? 0 : sum / static_cast<double>(precisions.size());
}

}  // namespace banyan
