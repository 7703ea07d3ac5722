// DetectionLoss (MS-CNN): the loss of one map of a detector. Inputs: N x (C + 4) x H x W, scores of C
// classes, the first of which is the background, then codes of boxes; what its positions shall find, N x 6 x
// H x W (class, centre, width and height, overlap), as ImageGtData makes it. See field_loss_layer.hpp.
//
// All objects count. Of the positions of class 0 with less overlap than bg_threshold count, in each image,
// bg_multiple for each object: "random", as many draws from all positions (at least 4 for each class of
// objects), of which some meet other positions or the same again; "bootstrap", for each class those with its
// highest scores (at least 4); "mixture", half of either; else all of them. With iou_weighted objects weigh
// as much as they overlap, with pos_neg_weighted all objects 1 / (1 + bg_multiple) and the background the
// rest.
#include "field_loss_layer.hpp"

namespace banyan {
namespace {

class DetectionLossLayer : public FieldLossLayer {
 public:
  DetectionLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : FieldLossLayer(parameter, options, 2) {}

  void read_settings() override {
    const auto& s = settings();
    if (s.coord_num() != 4) refuse("coord_num must be 4; found ", s.coord_num());
    read(s);
    maps_.read(std::vector{s.field_w()}, std::vector{s.field_h()}, s.downsample_rate(),
               [this](const auto&... why) { refuse(why...); });
    limit_codes(s.field_xyr(), s.field_whr());
    weighs_overlap_ = s.iou_weighted();
    keeps_background_weight_ = true;
    if (!s.bb_smooth()) box_loss_.kind = ops::TargetLoss::Kind::squared;
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& map = image_shape(*inputs[0]);
    const std::int64_t channels = settings().cls_num() + std::int64_t{4};
    if (map[1] != channels)
      refuse(quoted(inputs[0]->name), " is ", map.to_string(), "; expected ", channels,
             " channels, the scores of ", settings().cls_num(), " classes and four numbers of a box");
    const Shape truth{map[0], 6, map[2], map[3]};
    if (inputs[1]->shape != truth)
      refuse(quoted(inputs[1]->name), " is ", inputs[1]->shape.to_string(), "; expected ", truth.to_string());
    set_shapes(map[0], map[2], map[3], outputs);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    Context& context = *pass.context;
    Tensor& dx = inputs[0]->grad;
    const std::int64_t scores = classes_ * positions(), sample = scores + 4 * positions();
    ensure(context, score_gradients_, scores_.shape(), dtype());
    score_gradients(context, outputs[0]->grad, score_gradients_);
    ops::copy_blocks(context, score_gradients_, dx, {over_.outer, scores, 0, scores, 0, sample});
    write_code_gradients(context, outputs[0]->grad, dx, scores, sample);
  }

 private:
  const caffe::DetectionLossParameter& settings() const { return parameter_.detection_loss_param(); }

  void read_parts(Context& context, const Blobs& inputs) override {
    const std::int64_t scores = classes_ * positions(), sample = scores + 4 * positions();
    ensure(context, scores_, Shape{over_.outer, classes_, positions()}, dtype());
    ops::copy_blocks(context, inputs[0]->data, scores_, {over_.outer, scores, 0, sample, 0, scores});
    read_codes(context, inputs[0]->data, scores, sample);
    host_scores_.clear();
  }

  void choose(Pass& pass, std::int64_t image, std::vector<char>& kept) override {
    std::vector<int> background;
    std::vector<std::int64_t> objects(static_cast<std::size_t>(classes_), 0);
    std::int64_t all_objects = 0;
    for (std::int64_t at = 0; at < positions(); ++at) {
      if (may_be_background(image, at)) background.push_back(static_cast<int>(at));
      const std::int64_t own = label(image, at);
      if (own == 0) continue;
      kept[static_cast<std::size_t>(at)] = 1;
      ++objects[static_cast<std::size_t>(own)];
      ++all_objects;
    }
    const std::string& mode = settings().sample_mode();
    const bool draws = mode == "random" || mode == "mixture",
               ranks = mode == "bootstrap" || mode == "mixture";
    const double share = draws && ranks ? 0.5 : 1;
    const auto wanted = [&](std::int64_t found, std::int64_t least) {
      return std::max(static_cast<std::int64_t>(static_cast<double>(found) * bg_multiple_ * share), least);
    };
    if (draws) draw(pass, image, wanted(all_objects, 4 * (classes_ - 1)), kept);
    for (std::int64_t c = 1; ranks && c < classes_; ++c)
      rank(*pass.context, image, c, background, wanted(objects[static_cast<std::size_t>(c)], 4), kept);
    if (!draws && !ranks)
      for (const int at : background) kept[static_cast<std::size_t>(at)] = 1;
  }

  void draw(Pass& pass, std::int64_t image, std::int64_t times, std::vector<char>& kept) const {
    const ops::RandomKey key = drawing_key(pass);
    const std::int64_t sample = global_sample(pass, image);
    for (std::int64_t n = 0; n < times; ++n) {
      const auto at = static_cast<std::int64_t>(ops::random_quad(key, sample, n / 4).v[n % 4]) % positions();
      if (may_be_background(image, at)) kept[static_cast<std::size_t>(at)] = 1;
    }
  }

  void rank(Context& context, std::int64_t image, std::int64_t c, const std::vector<int>& background,
            std::int64_t count, std::vector<char>& kept) {
    if (host_scores_.empty()) host_scores_ = values_of(context, scores_).values;
    const auto first = host_scores_.begin() + (image * classes_ + c) * positions();
    const std::vector<double> of_class(first, first + positions());
    for (const int at : best_by_score(background, of_class, static_cast<std::size_t>(count)))
      kept[static_cast<std::size_t>(at)] = 1;
  }

  std::vector<double> host_scores_;
  Tensor score_gradients_;
};

const RegisterLayer<DetectionLossLayer> registered_detection_loss(
    "DetectionLoss",
    {.about = "loss of a detector's map: classes and boxes in fields (MS-CNN)",
     .message = "detection_loss_param",
     .examples =
         {"cls_num: 4 field_w: 4 field_h: 6 downsample_rate: 2 field_xyr: 0.1 field_whr: 1000",
          "cls_num: 4 field_w: 4 field_h: 6 downsample_rate: 2 field_xyr: 0.1 field_whr: 1000 bb_smooth: "
          "false sample_mode: 'all' bg_threshold: 5 iou_weighted: true pos_neg_weighted: true"},
     .inputs = {{8, 3, 4}, {6, 3, 4}},
     .further = {"bbox_reg_param"}});

}  // namespace
}  // namespace banyan
