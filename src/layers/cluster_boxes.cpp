// ClusterDetections and ClusterGroundtruth (NVIDIA's DetectNet, there in Python): lists of boxes from grids.
// Inputs: coverage N x C x rows x columns, and boxes N x 4 x rows x columns: left, top, right, bottom from
// the cell's top left corner in pixels. Outputs, one for each class: N x max_boxes x 5, rows of left, top,
// right, bottom and a confidence, rounded to half precision as there; rows of zeros fill them up.
//
// Detections are the boxes of cells whose coverage reaches coverage_threshold, rounded to whole pixels and
// grouped (group_rectangles; before version 0.17.3 NVIDIA's had right and bottom in place of width and
// height); groups lower than min_height are left out, and the confidence is the logarithm of a group's
// members. The boxes of the ground truth are those of all covered cells, with the confidence 0; what is equal
// after rounding is listed once (there, what is equal before it). Of more than max_boxes the first are kept,
// and a warning says so once (there it is an error).
//
// The host does the work, waiting for the device.
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <set>

#include "banyan/base/log.hpp"
#include "banyan/base/number.hpp"
#include "banyan/tensor/half.hpp"
#include "layers/box_layer.hpp"
#include "layers/once_among_replicas.hpp"
#include "layers/rectangle_groups.hpp"

namespace banyan {
namespace {

using ListedBox = std::array<double, 5>;  // corners, confidence

double half_precision(double value) { return from_half(to_half(static_cast<float>(value))); }

/// As a file has it: the float nearest to 0.02 is less, so that boxes of 50 x 50 pixels could not lie one
/// pixel apart.
double decimal_of(float value) {
  char text[32];
  const char* const end = std::to_chars(text, text + sizeof text, value).ptr;
  return number_in<double>({text, end}).value();
}

class BoxClusterLayer : public BoxLayer {
 public:
  BoxClusterLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : BoxLayer(parameter, options, {2, 2, 1, -1}),
        settings_(parameter_.cluster_boxes_param()),
        warning_(cat(options.net_name, "\n", name(), "\n", static_cast<int>(options.net_phase))) {}

  void read_settings() override {
    const auto& s = settings_;
    if (s.stride() == 0) refuse("stride must be positive");
    if (s.image_size_x() < s.stride() || s.image_size_y() < s.stride())
      refuse("an image of ", s.image_size_x(), " x ", s.image_size_y(), " holds no cell of ", s.stride(),
             " pixels");
    if (s.max_boxes() == 0) refuse("max_boxes must be positive");
    constexpr std::uint32_t kMost = 1'000'000'000;
    if (s.rect_threshold() > kMost || s.min_height() > kMost)
      refuse("rect_threshold and min_height must be at most ", kMost, "; found ", s.rect_threshold(), " and ",
             s.min_height());
    if (static_cast<std::uint32_t>(parameter_.top_size()) != s.num_classes())
      refuse("there are ", parameter_.top_size(), " outputs; expected one for each of the ", s.num_classes(),
             " classes");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &coverage = image_shape(*inputs[0]), &boxes = image_shape(*inputs[1]);
    if (coverage[1] != settings_.num_classes())
      refuse(quoted(inputs[0]->name), " has ", coverage[1], " channels; expected ", settings_.num_classes(),
             ", one for each class");
    if (boxes[0] != coverage[0] || boxes[1] != 4 || boxes[2] != coverage[2] || boxes[3] != coverage[3])
      refuse(quoted(inputs[1]->name), " is ", boxes.to_string(), "; expected ", coverage[0], " x 4 x ",
             coverage[2], " x ", coverage[3]);
    for (Blob* output : outputs) set_output(*output, Shape{coverage[0], settings_.max_boxes(), 5});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    const Values coverage = values_of(*pass.context, inputs[0]->data);
    const Values boxes = values_of(*pass.context, inputs[1]->data);
    const auto most = static_cast<std::size_t>(settings_.max_boxes());
    for (std::size_t label = 0; label < outputs.size(); ++label) {
      std::vector<double> rows(static_cast<std::size_t>(outputs[label]->shape.count()), 0.0);
      for (std::int64_t sample = 0; sample < coverage.shape[0]; ++sample) {
        std::vector<ListedBox> found = list(cells(coverage, boxes, sample, static_cast<std::int64_t>(label)));
        if (found.size() > most) {
          if (warning_.is_first())
            log_warning(cat("layer ", quoted(name()), " (", type(), "): an image has ", found.size(),
                            " boxes; only the first ", most, " (max_boxes) are kept, as in all that follow"));
          found.resize(most);
        }
        auto row = rows.begin() + sample * static_cast<std::int64_t>(most) * 5;
        for (const ListedBox& box : found)
          for (const double value : box) *row++ = half_precision(value);
      }
      set_values(*pass.context, rows, outputs[label]->data);
    }
  }

 protected:
  /// Is the cell's box one of the class?
  virtual bool counts(double coverage) const = 0;
  virtual std::vector<ListedBox> list(const std::vector<ListedBox>& cells) const = 0;
  const caffe::ClusterBoxesParameter& settings() const { return settings_; }

 private:
  /// Boxes of the cells that count, row by row.
  std::vector<ListedBox> cells(const Values& coverage, const Values& boxes, std::int64_t sample,
                               std::int64_t label) const {
    const std::int64_t rows = coverage.shape[2], columns = coverage.shape[3], plane = rows * columns;
    const std::int64_t grid_rows = settings_.image_size_y() / settings_.stride(),
                       grid_columns = settings_.image_size_x() / settings_.stride();
    const auto height = static_cast<double>(settings_.image_size_y() / grid_rows),
               width = static_cast<double>(settings_.image_size_x() / grid_columns);
    const double* covered = coverage.values.data() + (sample * coverage.shape[1] + label) * plane;
    const double* corner = boxes.values.data() + sample * 4 * plane;
    std::vector<ListedBox> found;
    for (std::int64_t y = 0; y < std::min(rows, grid_rows); ++y)
      for (std::int64_t x = 0; x < std::min(columns, grid_columns); ++x) {
        const std::int64_t at = y * columns + x;
        if (!counts(covered[at])) continue;
        const double left = static_cast<double>(x) * width, top = static_cast<double>(y) * height;
        found.push_back({corner[at] + left, corner[plane + at] + top, corner[2 * plane + at] + left,
                         corner[3 * plane + at] + top, 0});
      }
    return found;
  }

  const caffe::ClusterBoxesParameter& settings_;
  OnceAmongReplicas warning_;
};

class ClusterDetectionsLayer : public BoxClusterLayer {
 public:
  using BoxClusterLayer::BoxClusterLayer;

 protected:
  bool counts(double coverage) const override { return coverage >= settings().coverage_threshold(); }

  std::vector<ListedBox> list(const std::vector<ListedBox>& cells) const override {
    // Far outside of any image; keeps sums of corners exact.
    const auto whole = [](double value) {
      return std::isnan(value) ? 0 : static_cast<int>(std::nearbyint(std::clamp(value, -1e9, 1e9)));
    };
    std::vector<Rectangle> rectangles;
    bool anything = false;
    for (const ListedBox& box : cells) {
      rectangles.push_back({whole(box[0]), whole(box[1]), whole(box[2] - box[0]), whole(box[3] - box[1])});
      anything = anything || std::any_of(box.begin(), box.end(), [](double value) { return value != 0; });
    }
    std::vector<ListedBox> found;
    if (!anything) return found;
    for (const auto& [mean, members] : group_rectangles(
             rectangles, static_cast<int>(settings().rect_threshold()), decimal_of(settings().rect_eps())))
      if (mean[3] >= static_cast<int>(settings().min_height())) {
        const double x = mean[0], y = mean[1];
        found.push_back({x, y, x + mean[2], y + mean[3], std::log(static_cast<double>(members))});
      }
    return found;
  }
};

class ClusterGroundtruthLayer : public BoxClusterLayer {
 public:
  using BoxClusterLayer::BoxClusterLayer;

 protected:
  bool counts(double coverage) const override { return coverage > 0; }

  std::vector<ListedBox> list(const std::vector<ListedBox>& cells) const override {
    std::set<std::array<std::uint64_t, std::tuple_size_v<ListedBox>>>
        known;  // what is no number has bits too
    std::vector<ListedBox> found;
    for (ListedBox box : cells) {
      decltype(known)::value_type bits;
      for (std::size_t i = 0; i < box.size(); ++i) {
        box[i] = half_precision(box[i]) + 0.0;  // one zero
        bits[i] = std::bit_cast<std::uint64_t>(box[i]);
      }
      if (known.insert(bits).second) found.push_back(box);
    }
    return found;
  }
};

const RegisterLayer<ClusterDetectionsLayer> registered_cluster_detections(
    "ClusterDetections",
    {.about = "lists of boxes from grids (DetectNet)",
     .message = "cluster_boxes_param",
     .examples = {"image_size_x: 64 image_size_y: 48 coverage_threshold: 2 rect_threshold: "
                  "1 rect_eps: 0.2 max_boxes: 8 num_classes: 2"},
     .inputs = {{2, 3, 4}, {4, 3, 4}}});
const RegisterLayer<ClusterGroundtruthLayer> registered_cluster_groundtruth(
    "ClusterGroundtruth", {.about = "lists of true boxes from grids (DetectNet)",
                           .message = "cluster_boxes_param",
                           .examples = {"image_size_x: 64 image_size_y: 48 max_boxes: 16 num_classes: 2"},
                           .inputs = {{2, 3, 4}, {4, 3, 4}}});

}  // namespace
}  // namespace banyan
