// PriorBox: the default boxes of every position of a feature map (SSD), as fractions of the image, and the
// variances of their coordinates: 1 x 2 x (4 numbers per box). Inputs: the feature map and the image.
//
// For each min_size m: a square of m; one of sqrt(m M) if there is a max_size M; then m sqrt(r) x m / sqrt(r)
// for each aspect ratio r other than 1, with `flip` its inverse after it. An image's size is img_size, img_h
// with img_w, or that of the second input; the distance of positions is step, step_h with step_w, or the
// image's size divided by the feature map's. No variance means 0.1, one is that of all four coordinates.
//
// width with height (PriorBoxClustered): these boxes in place of all those.
//
// denser_prior_boxes (TextBoxes++): each box is followed by its copy at the lower edge of the position's row,
// so there are twice as many.
//
// dense_faces (FaceBoxes): all squares are a pixel smaller, and in place of one of 32 there are 16, whose
// centres are 8 pixels apart, from 16 to the left of the position's and above it on, row by row; in place of
// one of 64 there are 4, 16 apart, from 16 on.
#include <cmath>

#include "banyan/layers/layer.hpp"
#include "banyan/ops/prior_boxes.hpp"

namespace banyan {
namespace {

class PriorBoxLayer : public Layer {
 public:
  PriorBoxLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 2, 1, 1},
               .layout = LayoutRule::channels_last,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .differentiable_inputs = 0}) {}

  void read_settings() override {
    const auto& s = settings();
    read_sizes();
    if (s.variance_size() != 0 && s.variance_size() != 1 && s.variance_size() != 4)
      refuse("variance is given ", s.variance_size(), " times; expected once, four times or not at all");
    for (int i = 0; i < 4; ++i) {
      const int given = s.variance_size();
      boxes_.variance[i] = given == 0 ? 0.1 : static_cast<double>(s.variance(given == 1 ? 0 : i));
      if (!(boxes_.variance[i] > 0)) refuse("variances must be positive; found ", boxes_.variance[i]);
    }
    if (s.has_img_size() && (s.has_img_h() || s.has_img_w()))
      refuse("give either img_size or img_h and img_w, not both");
    if (s.has_img_h() != s.has_img_w()) refuse("give both img_h and img_w");
    if (s.has_step() && (s.has_step_h() || s.has_step_w()))
      refuse("give either step or step_h and step_w, not both");
    if (s.has_step_h() != s.has_step_w()) refuse("give both step_h and step_w");
    const auto is_zero = [](bool given, double value) { return given && !(value > 0); };
    if (is_zero(s.has_img_size(), s.img_size()) || is_zero(s.has_img_h(), s.img_h()) ||
        is_zero(s.has_img_w(), s.img_w()))
      refuse("the size of the image must be positive");
    if (is_zero(s.has_step(), s.step()) || is_zero(s.has_step_h(), s.step_h()) ||
        is_zero(s.has_step_w(), s.step_w()))
      refuse("steps must be positive");
    boxes_.offset = s.offset();
    boxes_.clip = s.clip();
    boxes_.denser = s.denser_prior_boxes();
    if (s.dense_faces() && (boxes_.denser || s.max_size_size() > 0 || s.aspect_ratio_size() > 0))
      refuse("dense_faces is for squares of min_size: remove max_size, aspect_ratio and denser_prior_boxes");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const auto& s = settings();
    const Shape &map = inputs[0]->shape, &image = inputs[1]->shape;
    if (map.axes() != 4 || image.axes() != 4)
      refuse("inputs ", quoted(inputs[0]->name), " and ", quoted(inputs[1]->name), " have ", map.axes(),
             " and ", image.axes(), " axes; expected 4 (N, C, H, W) each");
    boxes_.rows = map[2];
    boxes_.columns = map[3];
    const auto size = [&](bool given, double own, int axis) {
      return s.has_img_size() ? static_cast<double>(s.img_size())
             : given          ? own
                              : static_cast<double>(image[axis]);
    };
    boxes_.image_h = size(s.has_img_h(), s.img_h(), 2);
    boxes_.image_w = size(s.has_img_w(), s.img_w(), 3);
    const auto step = [&](bool given, double own, double length, std::int64_t positions) {
      return s.has_step() ? static_cast<double>(s.step())
             : given      ? own
                          : length / static_cast<double>(positions);
    };
    boxes_.step_h = step(s.has_step_h(), s.step_h(), boxes_.image_h, boxes_.rows);
    boxes_.step_w = step(s.has_step_w(), s.step_w(), boxes_.image_w, boxes_.columns);
    set_output(*outputs[0],
               Shape{1, 2, boxes_.rows * boxes_.columns * 4 * count() * (boxes_.denser ? 2 : 1)});
  }

  void forward(Pass& pass, const Blobs&, const Blobs& outputs) override {
    Context& context = *pass.context;
    if (!on_device_.defined()) {
      on_device_ = Tensor(context.device(), Shape{count(), kNumbers}, DType::f64);
      copy_from_host(context, sizes_.data(), on_device_);
    }
    ops::prior_boxes(context, boxes_, on_device_, outputs[0]->data);
  }

  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  const caffe::PriorBoxParameter& settings() const { return parameter_.prior_box_param(); }
  static constexpr std::int64_t kNumbers = 4;  ///< of each box in sizes_
  std::int64_t count() const { return static_cast<std::int64_t>(sizes_.size()) / kNumbers; }

  /// Those other than 1, each once.
  std::vector<double> aspect_ratios() const {
    std::vector<double> ratios{1};
    for (const double ratio : settings().aspect_ratio()) {
      if (!(ratio > 0)) refuse("aspect_ratio must be positive; found ", ratio);
      bool known = false;
      for (const double other : ratios) known = known || std::abs(ratio - other) < 1e-6;
      if (known) continue;
      ratios.push_back(ratio);
      if (settings().flip()) ratios.push_back(1 / ratio);
    }
    ratios.erase(ratios.begin());
    return ratios;
  }

  void add(double width, double height) { sizes_.insert(sizes_.end(), {width, height, 0, 0}); }

  void read_boxes() {
    const auto& s = settings();
    if (s.min_size_size() + s.max_size_size() + s.aspect_ratio_size() > 0 || s.has_flip() || s.dense_faces())
      refuse(
          "width and height give the boxes: remove min_size, max_size, aspect_ratio, flip and dense_faces");
    if (s.width_size() != s.height_size())
      refuse("width is given ", s.width_size(), " times and height ", s.height_size(), "; expected as many");
    for (int i = 0; i < s.width_size(); ++i) {
      if (!(s.width(i) > 0 && s.height(i) > 0))
        refuse("width and height must be positive; found ", s.width(i), " and ", s.height(i));
      add(s.width(i), s.height(i));
    }
  }

  void read_sizes() {
    const auto& s = settings();
    if (s.width_size() + s.height_size() > 0) return read_boxes();
    if (s.min_size_size() == 0) refuse("min_size must be given");
    if (s.max_size_size() > 0 && s.max_size_size() != s.min_size_size())
      refuse("max_size is given ", s.max_size_size(), " times and min_size ", s.min_size_size(),
             "; expected as many or no max_size");
    const std::vector<double> ratios = aspect_ratios();
    for (int i = 0; i < s.min_size_size(); ++i) {
      const double least = s.min_size(i);
      if (!(least > 0)) refuse("min_size must be positive; found ", least);
      const double side = std::trunc(least);  // SSD keeps whole pixels
      if (s.dense_faces()) {
        add_faces(side);
        continue;
      }
      add(side, side);
      if (s.max_size_size() > 0) {
        const double most = s.max_size(i);
        if (!(most >= least)) refuse("max_size ", most, " must be at least min_size ", least);
        add(std::sqrt(side * std::trunc(most)), std::sqrt(side * std::trunc(most)));
      }
      for (const double ratio : ratios) add(side * std::sqrt(ratio), side / std::sqrt(ratio));
    }
  }

  void add_faces(double side) {
    const int places = side == 32 ? 4 : side == 64 ? 2 : 1;
    const double apart = side / 4;
    for (int row = 0; row < places; ++row)
      for (int column = 0; column < places; ++column)
        sizes_.insert(sizes_.end(),
                      {side - 1, side - 1, (column - places / 2) * apart, (row - places / 2) * apart});
  }

  ops::PriorBoxes boxes_;
  std::vector<double> sizes_;  ///< of each box of a position, as ops::prior_boxes takes them
  Tensor on_device_;
};

const RegisterLayer<PriorBoxLayer> registered_prior_box("PriorBox",
                                                        {"default boxes of a feature map (SSD)",
                                                         "prior_box_param",
                                                         {"min_size: 2 max_size: 3 aspect_ratio: 2"},
                                                         nullptr,
                                                         {{4, 5, 5}, {3, 9, 9}}});

}  // namespace
}  // namespace banyan
