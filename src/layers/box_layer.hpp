// What the layers share that decide about boxes. They work on the host, with one copy of each input and
// output, and have no gradients; what is wrong in their data is reported with the pass's results.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

#include "banyan/base/text.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/tensor/values.hpp"
#include "layers/anchors.hpp"

namespace banyan {

class BoxLayer : public Layer {
 public:
  BoxLayer(const caffe::LayerParameter& parameter, const LayerOptions& options, const Arity& arity)
      : Layer(parameter, options,
              {.arity = arity,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .repeatable = false,
               .differentiable_inputs = 0}) {}

  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

  void check_results(Context&) override {
    if (!problem_.empty()) refuse(std::exchange(problem_, {}));
  }

 protected:
  /// Keeps the first for check_results().
  template <class... Parts>
  void note(const Parts&... parts) {
    if (problem_.empty()) problem_ = cat(parts...);
  }

  /// A field that may be given never, once, or four times.
  template <class Field>
  BoxShift four(const char* name, const Field& given, const BoxShift& absent) const {
    if (given.empty()) return absent;
    if (given.size() != 1 && given.size() != 4)
      refuse(name, " is given ", given.size(), " times; expected once, four times or not at all");
    BoxShift all;
    for (int i = 0; i < 4; ++i) all[static_cast<std::size_t>(i)] = given[given.size() == 1 ? 0 : i];
    return all;
  }
  template <class Settings>
  ShiftScale read_scale(const Settings& settings, const BoxShift& absent_std) const {
    const ShiftScale scale{four("bbox_mean", settings.bbox_mean(), {0, 0, 0, 0}),
                           four("bbox_std", settings.bbox_std(), absent_std)};
    for (const double deviation : scale.deviation)
      if (!(deviation > 0)) refuse("bbox_std must be positive; found ", deviation);
    return scale;
  }
  /// bbox_reg_param (MS-CNN, Cascade R-CNN).
  ShiftScale read_bbox_reg() const {
    return read_bbox_scale(parameter_.bbox_reg_param(), [this](const auto&... parts) { refuse(parts...); });
  }
  template <class Settings>
  AnchorGrid given_anchors(const Settings& settings) const {
    const auto& corners = settings.anchor();
    if (corners.size() % 4 != 0)
      refuse("anchor is given ", corners.size(), " times; expected four for each box");
    if (!settings.ratio().empty() || !settings.scale().empty())
      refuse("give either anchor or ratio and scale, not both");
    AnchorGrid anchors{.base = {}, .stride = static_cast<double>(settings.feat_stride())};
    for (int i = 0; i < corners.size(); i += 4) {
      anchors.base.push_back({corners[i], corners[i + 1], corners[i + 2], corners[i + 3]});
      const double size = area(anchors.base.back(), Corners::pixels);
      if (!(size > 0) || !std::isfinite(size))
        refuse("anchor ", i / 4, " from ", corners[i], ", ", corners[i + 1], " to ", corners[i + 2], ", ",
               corners[i + 3], " is empty or without end");
    }
    return anchors;
  }
  template <class Settings>
  AnchorGrid read_anchors(const Settings& settings) const {
    if (settings.feat_stride() == 0) refuse("feat_stride must be positive");
    if (settings.base_size() == 0) refuse("base_size must be positive");
    if (!settings.anchor().empty()) return given_anchors(settings);
    const auto read = [&](const char* name, const auto& given, std::vector<double> absent) {
      if (given.empty()) return absent;
      for (const double value : given)
        if (!(value > 0)) refuse(name, " must be positive; found ", value);
      return std::vector<double>(given.begin(), given.end());
    };
    AnchorGrid anchors{
        .base = base_anchors(settings.base_size(), read("ratio", settings.ratio(), {0.5, 1, 2}),
                             read("scale", settings.scale(), {8, 16, 32})),
        .stride = static_cast<double>(settings.feat_stride())};
    for (const Box& box : anchors.base)
      if (!(area(box, Corners::pixels) > 0))
        refuse("base_size ", settings.base_size(),
               " is too small for the ratios and scales: an anchor is empty");
    return anchors;
  }
  /// nms_type.
  SharedWith shared_with(const std::string& kind) const {
    if (kind != "IOU" && kind != "IOMU" && kind != "IOFU")
      refuse("nms_type must be \"IOU\", \"IOMU\" or \"IOFU\"; found ", quoted(kind));
    return kind == "IOU" ? SharedWith::both : kind == "IOMU" ? SharedWith::smaller : SharedWith::kept;
  }
  void check_fraction(const char* name, double value) const {
    if (!(value >= 0 && value <= 1)) refuse(name, " must be from 0 to 1; found ", value);
  }

  /// Gives the grid the size of a map with `numbers` channels per anchor.
  void fit(AnchorGrid& anchors, const Blob& map, std::int64_t numbers) const {
    if (map.shape.axes() != 4 || map.shape[1] != numbers * anchors.each())
      refuse(quoted(map.name), " is ", map.shape.to_string(), "; expected 4 axes and ", numbers, " x ",
             anchors.each(), " channels, as there are ", anchors.each(),
             " anchors; if they are others, write base_size, ratio and scale, or anchor, into the settings");
    anchors.rows = map.shape[2];
    anchors.columns = map.shape[3];
  }

  /// What a row of im_info says: height and width of the image in pixels, and its scale.
  struct ImageInfo {
    double height, width, scale_h, scale_w;
  };
  /// Three numbers per image, or more: then the third is the scale of the height, the fourth of the width.
  void check_infos(const Blob& infos, std::int64_t images) const {
    if (infos.shape.axes() < 2 || infos.shape[0] != images || infos.shape.count(1) < 3)
      refuse(quoted(infos.name), " is ", infos.shape.to_string(), "; expected ", images,
             " x 3: height, width and scale of each image");
  }
  static ImageInfo info_of(const Values& infos, std::int64_t image) {
    const std::int64_t length = infos.shape.count(1);
    const double* row = infos.values.data() + image * length;
    return {row[0], row[1], row[2], row[length > 3 ? 3 : 2]};
  }

  /// Rows of x1, y1, x2, y2, class: G x 5 for one image, N x G x 5 for N. A class below 1 marks a row that is
  /// not used.
  struct TrueBoxes {
    std::vector<Box> boxes;
    std::vector<double> classes;
  };
  /// The number of images whose boxes these are.
  std::int64_t images_of_boxes(const Blob& boxes) const {
    const Shape& shape = boxes.shape;
    if (shape.axes() == 3 && shape[2] == 5) return shape[0];
    if (shape.axes() < 2 || shape.count(1) != 5)
      refuse(quoted(boxes.name), " is ", shape.to_string(),
             "; expected G x 5 for one image or N x G x 5: x1, y1, x2, y2, class");
    return 1;
  }
  TrueBoxes true_boxes(const Values& all, std::int64_t images, std::int64_t image) {
    TrueBoxes found;
    const std::int64_t rows = all.shape.count() / 5 / images;
    for (std::int64_t i = image * rows; i < (image + 1) * rows; ++i) {
      const double* row = all.values.data() + 5 * i;
      if (!(row[4] >= 1)) continue;
      const bool finite = std::all_of(row, row + 4, [](double corner) { return std::isfinite(corner); });
      if (!finite || row[2] < row[0] || row[3] < row[1]) {
        note("true box ", i, " goes from ", row[0], ", ", row[1], " to ", row[2], ", ", row[3],
             finite ? ": it ends before it begins" : ": expected finite corners");
        continue;
      }
      found.boxes.push_back({row[0], row[1], row[2], row[3]});
      found.classes.push_back(row[4]);
    }
    return found;
  }

  ops::RandomKey drawing_key(const Pass& pass) const {
    return {pass.seed, ops::stream_of(name().c_str()), static_cast<std::uint64_t>(pass.draw)};
  }
  static std::int64_t global_sample(const Pass& pass, std::int64_t image) {
    return pass.samples.first + image * pass.samples.stride;
  }

 private:
  std::string problem_;
};

}  // namespace banyan
