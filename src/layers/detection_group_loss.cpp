// DetectionGroupLoss (Cascade R-CNN): the loss of a region proposal network with G fields around each
// position. Inputs: scores NG x C x H x W, of which the first class is the background; codes of boxes NG x 4
// x H x W; what its positions shall find, NG x 6 x H x W (class, centre, width and height, overlap), as
// DetectionData makes it; NG being the fields of the first image, of the second ... See field_loss_layer.hpp.
//
// With batch_size so many positions of each image count: objects, 1 / (1 + bg_multiple) of them at most, and
// positions of class 0 with less overlap than bg_threshold. Without it all objects count, and bg_multiple
// times as many others, min_num_neg at least. Objects are drawn; of the others "random" draws, "bootstrap"
// takes those that look least like background, and "mixture" half of either.
#include "field_loss_layer.hpp"

namespace banyan {
namespace {

class DetectionGroupLossLayer : public FieldLossLayer {
 public:
  DetectionGroupLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : FieldLossLayer(parameter, options, 3) {}

  void read_settings() override {
    const auto& s = settings();
    read(s);
    maps_.read(s.field_w(), s.field_h(), s.stride(), [this](const auto&... why) { refuse(why...); });
    if (s.has_field_xyr() && s.has_field_whr()) limit_codes(s.field_xyr(), s.field_whr());
    if (s.batch_size() < 1 && s.batch_size() != -1)
      refuse("batch_size must be positive, or -1: all objects and their background; found ", s.batch_size());
    if (s.min_num_neg() < 0) refuse("min_num_neg must not be negative; found ", s.min_num_neg());
    const std::string& mining = s.neg_mining_type();
    if (mining != "random" && mining != "bootstrap" && mining != "mixture")
      refuse("neg_mining_type must be \"random\", \"bootstrap\" or \"mixture\"; found ", quoted(mining));
    // Of positions that are all background both have the same order.
    if (s.neg_ranking_type() != "conf_loss" && s.neg_ranking_type() != "conf_prob")
      refuse("neg_ranking_type must be \"conf_loss\" or \"conf_prob\"; found ", quoted(s.neg_ranking_type()));
    if (s.bbox_loss_type() == "Euclidean_L2")
      box_loss_.kind = ops::TargetLoss::Kind::squared;
    else if (s.bbox_loss_type() != "Smooth_L1")
      refuse("bbox_loss_type must be \"Smooth_L1\" or \"Euclidean_L2\"; found ", quoted(s.bbox_loss_type()));
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& map = image_shape(*inputs[0]);
    const std::int64_t channels[] = {classes_, 4, 6};
    for (std::size_t i = 0; i < 3; ++i) {
      const Shape expected{map[0], channels[i], map[2], map[3]};
      if (inputs[i]->shape != expected)
        refuse(quoted(inputs[i]->name), " is ", inputs[i]->shape.to_string(), "; expected ",
               expected.to_string());
    }
    if (map[0] % groups() != 0)
      refuse(quoted(inputs[0]->name), " is ", map.to_string(), "; expected ", groups(),
             " maps of each image, one for each field");
    set_shapes(map[0], map[2], map[3], outputs);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0]) score_gradients(*pass.context, outputs[0]->grad, inputs[0]->grad);
    if (propagate[1])
      write_code_gradients(*pass.context, outputs[0]->grad, inputs[1]->grad, 0, 4 * positions());
  }

 private:
  const caffe::DetectionGroupLossParameter& settings() const {
    return parameter_.detection_group_loss_param();
  }

  void read_parts(Context& context, const Blobs& inputs) override {
    scores_ = inputs[0]->data;
    read_codes(context, inputs[1]->data, 0, 4 * positions());
    likely_background_.clear();
  }

  void choose(Pass& pass, std::int64_t image, std::vector<char>& kept) override {
    std::vector<int> objects, background;
    for (int at = 0; at < static_cast<int>(kept.size()); ++at)
      if (label(image, at) > 0)
        objects.push_back(at);
      else if (may_be_background(image, at))
        background.push_back(at);
    const auto found = std::ssize(objects);
    std::int64_t of_objects = found,
                 of_background = std::max<std::int64_t>(found * std::int64_t{settings().bg_multiple()},
                                                        settings().min_num_neg());
    if (const std::int64_t wanted = settings().batch_size(); wanted > 0) {
      of_objects =
          std::min<std::int64_t>(std::lround(static_cast<double>(wanted) / (1 + bg_multiple_)), found);
      of_background = wanted - of_objects;
    }
    const auto keep = [&](const std::vector<int>& places) {
      for (const int at : places) kept[static_cast<std::size_t>(at)] = 1;
    };
    const ops::RandomKey key = drawing_key(pass);
    keep(drawn(objects, of_objects, key, global_sample(pass, image)));
    of_background = std::min<std::int64_t>(of_background, std::ssize(background));
    const std::string& mining = settings().neg_mining_type();
    const std::int64_t hardest = mining == "random" ? 0
                                 : mining == "bootstrap"
                                     ? of_background
                                     : std::lround(static_cast<double>(of_background) * 0.5);
    if (hardest > 0) {
      keep(least_likely(*pass.context, image, background, hardest));
      std::erase_if(background, [&](int at) { return kept[static_cast<std::size_t>(at)] != 0; });
    }
    keep(drawn(background, of_background - hardest, key, global_sample(pass, image)));
  }

  /// To be background.
  std::vector<int> least_likely(Context& context, std::int64_t image, const std::vector<int>& background,
                                std::int64_t count) {
    if (likely_background_.empty()) likely_background_ = values_of(context, probabilities_).values;
    std::vector<double> unlike;
    for (std::int64_t at = 0; at < groups() * positions(); ++at) {
      const std::int64_t map = image * groups() + at / positions();
      unlike.push_back(
          -likely_background_[static_cast<std::size_t>(map * classes_ * positions() + at % positions())]);
    }
    return best_by_score(background, unlike, static_cast<std::size_t>(count));
  }

  std::vector<double> likely_background_;  ///< the probabilities of all classes
};

const std::string kGroupExample = "cls_num: 4 field_w: 4 field_h: 6 stride: 2 ";
const RegisterLayer<DetectionGroupLossLayer> registered_detection_group_loss(
    "DetectionGroupLoss",
    {.about = "loss of a region proposal network: classes and boxes in fields (Cascade R-CNN)",
     .message = "detection_group_loss_param",
     .examples = {kGroupExample, kGroupExample +
                                     "batch_size: 8 bg_multiple: 1 pos_neg_weighted: true bbox_loss_type: "
                                     "'Euclidean_L2'"},
     .inputs = {{4, 3, 4}, {4, 3, 4}, {6, 3, 4}},
     .further = {"bbox_reg_param"}});

}  // namespace
}  // namespace banyan
