// FrcnnOutput (Cascade R-CNN): what a detector's head finds. Inputs: probabilities R x C (class 0: the
// background), shifts R x 4C (without cls_aware R x 8, of which the last four are those of every class), the
// regions R x 5 or R x 6 (image, x1, y1, x2, y2) and each image's height and width, N x 2.
//
// Of each class the boxes with a probability of at least conf_thr, cut off at the image's borders, go through
// non-maximum suppression; max_det_num of an image remain, in the order of their classes, then probabilities.
// Output: N (1 + K) x 7, rows of image, x1, y1, x2, y2, class, probability; of each image first one that
// holds the image and then -1, then what was found. K is max_det_num, or without it as many as can remain;
// rows left over are like the first (Cascade R-CNN has none, and takes one image at a time).
//
// save_output_param writes files as DetectionOutput does.
#include "box_layer.hpp"
#include "layers/detection_files.hpp"

namespace banyan {
namespace {

class FrcnnOutputLayer : public BoxLayer {
 public:
  FrcnnOutputLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : BoxLayer(parameter, options, {4, 4, 1, 1}), settings_(parameter_.frcnn_output_param()) {}

  void read_settings() override {
    scale_ = read_bbox_reg();
    if (!(settings_.iou_thr() >= 0)) refuse("iou_thr must not be negative; found ", settings_.iou_thr());
    suppression_.threshold = settings_.iou_thr();
    suppression_.corners = Corners::pixels;
    suppression_.shared_with = shared_with(settings_.nms_type());
    if (settings_.max_det_num() == 0) refuse("max_det_num must be positive, or -1 for all");
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    files_ =
        open_detection_files(*this, settings_.save_output_param(),
                             inputs[0]->shape.axes() < 2 ? 1 : static_cast<int>(inputs[0]->shape.count(1)), 0,
                             options().rank, options().devices);
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &likely = inputs[0]->shape, &shifts = inputs[1]->shape, &rois = inputs[2]->shape,
                &sizes = inputs[3]->shape;
    const auto shown = [&](int i) {
      return cat(quoted(inputs[i]->name), " is ", inputs[i]->shape.to_string());
    };
    if (likely.axes() < 2 || likely.count(1) < 2)
      refuse(shown(0), "; expected R x C, the probabilities of at least 2 classes");
    const std::int64_t regions = likely[0], numbers = by_class() ? 4 * likely.count(1) : 8;
    if (shifts.axes() < 2 || shifts[0] != regions || shifts.count(1) != numbers)
      refuse(shown(1), "; expected ", regions, " x ", numbers,
             by_class() ? ", four numbers for each class" : ", as cls_aware: false says");
    if (rois.axes() < 2 || rois[0] != regions || (rois.count(1) != 5 && rois.count(1) != 6))
      refuse(shown(2), "; expected ", regions, " x 5 or x 6: image, x1, y1, x2, y2");
    if (sizes.axes() < 2 || sizes.count(1) != 2)
      refuse(shown(3), "; expected N x 2: height and width of each image");
    each_ = 1 + (settings_.max_det_num() > 0 ? settings_.max_det_num() : regions * (likely.count(1) - 1));
    set_output(*outputs[0], Shape{sizes[0] * each_, 7});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    const auto values = [&](std::size_t i) { return values_of(*pass.context, inputs[i]->data); };
    const Values likely = values(0), shifts = values(1), sizes = values(3);
    const std::vector<std::vector<Region>> regions = regions_of(values(2), sizes.shape[0]);
    std::vector<double> rows;
    for (std::int64_t image = 0; image < sizes.shape[0]; ++image) {
      const double height = sizes.values[static_cast<std::size_t>(2 * image)],
                   width = sizes.values[static_cast<std::size_t>(2 * image + 1)];
      std::vector<Detection> found =
          detect(regions[static_cast<std::size_t>(image)], likely, shifts, height, width);
      const auto number = static_cast<double>(image);
      const auto fill = [&] { rows.insert(rows.end(), {number, -1, -1, -1, -1, -1, -1}); };
      fill();
      for (const auto& [label, score, box, prior] : found)
        rows.insert(rows.end(), {number, box.x1, box.y1, box.x2, box.y2, static_cast<double>(label), score});
      for (std::int64_t left = 1 + std::ssize(found); left < each_; ++left) fill();
      if (!files_) continue;
      for (Detection& one : found)
        one.box = {one.box.x1 / width, one.box.y1 / height, one.box.x2 / width, one.box.y2 / height};
      files_->add(pass.draw * sizes.shape[0] + image, found);
    }
    set_values(*pass.context, rows, outputs[0]->data);
  }

 private:
  struct Region {
    std::int64_t row;
    Box box;
  };

  bool by_class() const { return parameter_.bbox_reg_param().cls_aware(); }

  /// By image.
  std::vector<std::vector<Region>> regions_of(const Values& rois, std::int64_t images) {
    std::vector<std::vector<Region>> regions(static_cast<std::size_t>(images));
    for (std::int64_t i = 0; i < rois.shape[0]; ++i) {
      const double* const row = rois.values.data() + rois.shape.count(1) * i;
      if (!(row[0] >= 0 && row[0] < static_cast<double>(images)) || row[0] != std::floor(row[0]) ||
          !(row[3] >= row[1]) || !(row[4] >= row[2]))
        note("region ", i, " is image ", row[0], ", ", row[1], ", ", row[2], ", ", row[3], ", ", row[4],
             "; expected one of ", images, " images and a box that ends after it begins");
      else
        regions[static_cast<std::size_t>(row[0])].push_back({i, {row[1], row[2], row[3], row[4]}});
    }
    return regions;
  }

  /// In an image, by class and falling probability.
  std::vector<Detection> detect(const std::vector<Region>& regions, const Values& likely,
                                const Values& shifts, double height, double width) const {
    const std::int64_t classes = likely.shape.count(1), numbers = shifts.shape.count(1);
    std::vector<Detection> found;
    for (std::int64_t label = 1; label < classes; ++label) {
      std::vector<Box> boxes;
      std::vector<double> scores;
      std::vector<int> candidates;
      for (const Region& region : regions) {
        const double score = likely.values[static_cast<std::size_t>(region.row * classes + label)];
        if (!(score >= settings_.conf_thr())) continue;
        const double* const code = shifts.values.data() + region.row * numbers + 4 * (by_class() ? label : 1);
        const Box box = decoded(region.box, {code[0], code[1], code[2], code[3]}, scale_);
        candidates.push_back(static_cast<int>(boxes.size()));
        // decoded() gives the pixel after the last.
        boxes.push_back({std::max(box.x1, 0.0), std::max(box.y1, 0.0), std::min(box.x2 - 1, width),
                         std::min(box.y2 - 1, height)});
        scores.push_back(score);
      }
      for (const int k : suppress(boxes, by_score(std::move(candidates), scores), suppression_))
        found.push_back({static_cast<int>(label), scores[static_cast<std::size_t>(k)],
                         boxes[static_cast<std::size_t>(k)]});
    }
    keep_best(found, settings_.max_det_num());
    return found;
  }

  const caffe::FrcnnOutputParameter& settings_;
  ShiftScale scale_;
  Suppression suppression_;
  std::int64_t each_ = 1;  ///< rows of an image
  std::optional<DetectionFiles> files_;
};

const RegisterLayer<FrcnnOutputLayer> registered_frcnn_output(
    "FrcnnOutput", {.about = "what a detector's head finds, after non-maximum suppression (Cascade R-CNN)",
                    .message = "frcnn_output_param",
                    .examples = {"conf_thr: -1 max_det_num: 3", "conf_thr: -1 iou_thr: 0.1"},
                    .inputs = {{4}, {16}, {5}, {2}},
                    .further = {"bbox_reg_param"}});

}  // namespace
}  // namespace banyan
