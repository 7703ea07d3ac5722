// What BoxOutput (MS-CNN) and BoxGroupOutput (Cascade R-CNN) share: boxes are predicted from fields, boxes of
// given sizes around the positions of maps of several scales. Those whose score is at least fg_thr and whose
// sides are at least min_size go through non-maximum suppression, max_nms_num of the best of each image, over
// all maps; max_post_nms_num of them remain.
//
// Outputs: R x 5 (image, x1, y1, x2, y2) and, if asked for, R x 6 with the score. How many there are is known
// only in the pass (LayerTraits::chooses_samples). If no image of the batch has any, there is one row: image
// 0, from (1, 1) to (10, 10); on several devices each looks at its own part of the batch.
#pragma once

#include <cmath>
#include <numeric>

#include "box_layer.hpp"
#include "layers/field_codes.hpp"

namespace banyan {

class FieldOutputLayer : public BoxLayer {
 public:
  FieldOutputLayer(const caffe::LayerParameter& parameter, const LayerOptions& options, const Arity& arity,
                   Corners corners)
      : BoxLayer(parameter, options, arity) {
    traits_.chooses_samples = true;
    suppression_.corners = corners;
  }

  std::int64_t choose_samples(Pass& pass, const Blobs& inputs) override {
    std::vector<Values> maps;
    for (const Blob* input : inputs) maps.push_back(values_of(*pass.context, input->data));
    regions_.clear();
    scored_.clear();
    for (std::int64_t image = 0; image < images_; ++image) {
      const Found found = find(image, maps);
      std::vector<int> order(found.boxes.size());
      std::iota(order.begin(), order.end(), 0);
      for (const int kept : suppress(found.boxes, by_score(std::move(order), found.scores), suppression_)) {
        const Box& box = found.boxes[kept];
        const auto number = static_cast<double>(image);
        regions_.insert(regions_.end(), {number, box.x1, box.y1, box.x2, box.y2});
        scored_.insert(scored_.end(), {number, box.x1, box.y1, box.x2, box.y2, found.scores[kept]});
      }
    }
    if (regions_.empty() && images_ > 0) {
      regions_ = {0, 1, 1, 10, 10};
      scored_.assign(6, 0);
    }
    return std::ssize(regions_) / 5;
  }

  void forward(Pass& pass, const Blobs&, const Blobs& outputs) override {
    set_values(*pass.context, regions_, outputs[0]->data);
    if (outputs.size() > 1) set_values(*pass.context, scored_, outputs[1]->data);
  }

 protected:
  struct Found {
    std::vector<Box> boxes;
    std::vector<double> scores;
  };
  /// The candidates of an image.
  virtual Found find(std::int64_t image, const std::vector<Values>& maps) const = 0;

  /// Of both messages.
  template <class Settings>
  void read(const Settings& settings) {
    least_score_ = settings.fg_thr();
    least_side_ = settings.min_size();
    if (!(settings.iou_thr() >= 0)) refuse("iou_thr must not be negative; found ", settings.iou_thr());
    suppression_.threshold = settings.iou_thr();
    suppression_.shared_with = shared_with(settings.nms_type());
    if (settings.max_nms_num() > 0) suppression_.top_k = settings.max_nms_num();
    if (settings.max_post_nms_num() > 0) suppression_.most = settings.max_post_nms_num();
    codes_.scale = read_bbox_reg();
    codes_.limit(settings.field_xyr(), settings.field_whr(), [this](const auto&... why) { refuse(why...); });
  }
  /// `given`: a positive number for each of `count` things.
  template <class Field>
  std::vector<double> sizes(const char* name, const Field& given, std::int64_t count,
                            const char* things) const {
    if (given.size() != count)
      refuse(name, " is given ", given.size(), " times; expected ", count, ", once for each ", things);
    for (const double value : given)
      if (!(value > 0)) refuse(name, " must be positive; found ", value);
    return {given.begin(), given.end()};
  }

  /// Plans the outputs for `each` boxes of an image.
  void plan(std::int64_t images, std::int64_t each, const Blobs& outputs) {
    images_ = images;
    if (suppression_.top_k >= 0) each = std::min<std::int64_t>(each, suppression_.top_k);
    if (suppression_.most >= 0) each = std::min(each, suppression_.most);
    const std::int64_t rows = images > 0 ? std::max<std::int64_t>(images * each, 1) : 0;
    set_output(*outputs[0], Shape{rows, 5});
    if (outputs.size() > 1) set_output(*outputs[1], Shape{rows, 6});
  }

  struct Sized {
    double x, y, width, height;
  };
  /// What four numbers, `step` apart, say of a field.
  Sized decode(const Field& field, const double* code, std::int64_t step) const {
    const auto [x, y, width, height] = codes_.box(field, code, step);
    return {x - width / 2, y - height / 2, width, height};
  }
  bool is_large(double width, double height) const { return width >= least_side_ && height >= least_side_; }
  /// Not for NaN.
  bool is_likely(double score) const { return score >= least_score_; }

 private:
  FieldCodes codes_;
  Suppression suppression_;
  double least_score_ = 0, least_side_ = 0;
  std::int64_t images_ = 0;
  std::vector<double> regions_, scored_;  ///< the rows of the pass
};

}  // namespace banyan
