// SqueezeDetLoss (Wu et al. 2017, as in SqueezeDet's branch). With A = H W K boxes of an image, whose anchors
// lie around (x + 1) / (W + 1), (y + 1) / (H + 1) of the image, inputs: class probabilities N x A x C,
// confidences N x H x W x K, boxes N x H x W x 4K (shifts of the centre by the anchor's size, logarithms of
// height and width over its own), objects N x 5T: rows x1, y1, x2, y2 in pixels and class, up to one of -1.
//
// Each of an image's n objects chooses the box that overlaps it most, and adds, with o the overlap, d the
// object in the anchor's coordinates, p, c and b the box's values:
//   -lambda_conf / n log(p[class] + epsilon) + lambda_bbox / n |b - d|^2
//   + pos_conf / n (c - o)^2 + neg_conf / (A - n) times the sum of the squares of all other confidences.
// The loss is divided by the images of the whole batch. Gradients are the loss's, o and the choice being
// constants. The image is 416 x 416 pixels, or transform_param's crop_size.
//
// What belongs to what is decided on the host, which waits for the device.
#include <algorithm>
#include <cmath>

#include "banyan/layers/loss.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"
#include "banyan/ops/functions.hpp"
#include "banyan/ops/target_loss.hpp"
#include "banyan/tensor/values.hpp"
#include "layers/boxes.hpp"

namespace banyan {
namespace {

class SqueezeDetLossLayer : public LossLayer {
 public:
  SqueezeDetLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : LossLayer(parameter, options,
                  {.arity = {4, 4, 1, 1},
                   .backward_reads_outputs = false,
                   .differentiable_inputs = 3,
                   .meets = Meets::forward}) {}

  void read_settings() override {
    const auto& s = settings();
    if (s.classes() < 1 || s.anchors_per_grid() < 1)
      refuse("classes and anchors_per_grid must be positive; found ", s.classes(), " and ",
             s.anchors_per_grid());
    if (s.anchor_shapes_size() != 2 * each())
      refuse("anchor_shapes must be the width and height of anchors_per_grid anchors, ", 2 * each(),
             " numbers; found ", s.anchor_shapes_size());
    for (const std::uint32_t side : s.anchor_shapes())
      if (side == 0) refuse("anchor_shapes must be positive");
    if (!(s.epsilon() > 0)) refuse("epsilon must be positive; found ", s.epsilon());
    const auto crop = parameter_.transform_param().crop_size();
    side_ = crop > 0 ? crop : 416;
    logarithm_ = {ops::Function::Kind::logarithm, 1, settings().epsilon(), -1};
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &map = inputs[1]->shape, &boxes = inputs[2]->shape, &scores = inputs[0]->shape,
                &objects = inputs[3]->shape;
    if (map.axes() != 4 || map[3] != each())
      refuse("confidences ", quoted(inputs[1]->name), " are ", map.to_string(), "; expected N x H x W x ",
             each());
    items_ = map[0], rows_ = map[1], columns_ = map[2], boxes_ = map.count(1);
    const auto holds = [&](const Shape& shape, std::int64_t count) {
      return shape.axes() > 0 && shape[0] == items_ && shape.count(1) == count;
    };
    if (!holds(scores, boxes_ * classes()))
      refuse("class probabilities ", quoted(inputs[0]->name), " are ", scores.to_string(), "; expected ",
             items_, " x ", boxes_, " x ", classes());
    if (!holds(boxes, 4 * boxes_))
      refuse("boxes ", quoted(inputs[2]->name), " are ", boxes.to_string(), "; expected ", items_, " x ",
             rows_, " x ", columns_, " x ", 4 * each());
    if (objects.axes() < 2 || objects[0] != items_ || objects.count(1) % 5 != 0)
      refuse("objects ", quoted(inputs[3]->name), " are ", objects.to_string(), "; expected ", items_,
             " x 5T: rows x1, y1, x2, y2, class");
    set_output(*outputs[0], Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override;
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override;

 private:
  using Four = std::array<double, 4>;
  struct Object {
    Box box;
    std::int64_t label;
  };
  /// Of one image: what is compared with what, by how much it counts; sums of squares that are no one's.
  struct Chosen {
    std::vector<double> class_weights, confidences, confidence_weights, boxes, box_weights;
    double rest = 0;
  };

  const caffe::SqueezeDetLossParameter& settings() const { return parameter_.squeezedet_param(); }
  int each() const { return static_cast<int>(settings().anchors_per_grid()); }
  std::int64_t classes() const { return settings().classes(); }

  /// Centre, height and width of an anchor.
  Four anchor(std::int64_t box) const {
    const std::int64_t cell = box / each();
    const int shape = 2 * static_cast<int>(box % each());
    return {static_cast<double>(cell % columns_ + 1) * side_ / static_cast<double>(columns_ + 1),
            static_cast<double>(cell / columns_ + 1) * side_ / static_cast<double>(rows_ + 1),
            static_cast<double>(settings().anchor_shapes(shape + 1)),
            static_cast<double>(settings().anchor_shapes(shape))};
  }
  Box predicted(std::int64_t box, const double* b) const {
    const auto [x, y, height, width] = anchor(box);
    const double at_x = x + width * b[0], at_y = y + height * b[1], half_h = height * std::exp(b[2]) / 2,
                 half_w = width * std::exp(b[3]) / 2;
    return clipped({at_x - half_w, at_y - half_h, at_x + half_w, at_y + half_h}, side_ - 1, side_ - 1);
  }
  Four in_coordinates_of(std::int64_t box, const Box& object) const {
    const auto [x, y, height, width] = anchor(box);
    const double w = object.x2 - object.x1 + 1, h = object.y2 - object.y1 + 1;
    return {(object.x1 + w / 2 - x) / width, (object.y1 + h / 2 - y) / height, std::log(h / height),
            std::log(w / width)};
  }
  std::vector<Object> objects_of(const Values& from, std::int64_t item) const;
  void choose(const std::vector<Object>& objects, const double* boxes, std::int64_t item, Chosen& to) const;
  void write(Context& context, const std::vector<double>& values, const Tensor& like, Tensor& to) const {
    ensure(context, to, like.shape(), dtype());
    set_values(context, values, to);
  }
  ops::Targets confidences(const Blobs& inputs) const {
    return {inputs[1]->data, confidences_, {}, confidence_weights_};
  }
  ops::Targets boxes(const Blobs& inputs) const { return {inputs[2]->data, box_targets_, {}, box_weights_}; }

  static constexpr ops::TargetLoss kSquares{ops::TargetLoss::Kind::squared};

  double side_ = 0;
  ops::Function logarithm_;
  std::int64_t items_ = 0, rows_ = 0, columns_ = 0, boxes_ = 0;
  Tensor class_weights_, confidences_, confidence_weights_, box_targets_, box_weights_, products_, slopes_,
      sum_;
};

/// Those whose box ends before it begins are left out.
std::vector<SqueezeDetLossLayer::Object> SqueezeDetLossLayer::objects_of(const Values& from,
                                                                         std::int64_t item) const {
  std::vector<Object> objects;
  const std::int64_t length = from.shape.count(1);
  for (std::int64_t t = 0; t < length / 5; ++t) {
    const double* row = from.values.data() + item * length + 5 * t;
    if (row[0] == -1) break;
    if (!(row[4] >= 0 && row[4] < static_cast<double>(classes()) && row[4] == std::floor(row[4])))
      refuse("object ", t, " of image ", item, " has the class ", row[4],
             "; expected one from 0 below classes, ", classes());
    if (!std::isfinite(row[0] + row[1] + row[2] + row[3]))
      refuse("the box of object ", t, " of image ", item, " is not finite");
    if (row[2] >= row[0] && row[3] >= row[1])
      objects.push_back({{row[0], row[1], row[2], row[3]}, static_cast<std::int64_t>(row[4])});
  }
  return objects;
}

void SqueezeDetLossLayer::choose(const std::vector<Object>& objects, const double* boxes, std::int64_t item,
                                 Chosen& to) const {
  if (objects.empty()) return;
  const auto& s = settings();
  const auto count = static_cast<double>(objects.size());
  const double positive = s.pos_conf() / count,
               negative = s.neg_conf() / std::max(1.0, static_cast<double>(boxes_) - count);
  std::vector<Box> found;
  for (std::int64_t b = 0; b < boxes_; ++b) found.push_back(predicted(b, boxes + 4 * b));
  std::vector<double> chosen(found.size()), overlaps(found.size()), squares(found.size());
  const std::int64_t first = item * boxes_;
  for (const Object& object : objects) {
    std::int64_t best = 0;
    double most = -1;
    for (std::int64_t b = 0; b < boxes_; ++b)
      if (const double shared = overlap(found[b], object.box); rank_of(shared) > rank_of(most))
        most = shared, best = b;
    chosen[best] += 1;
    overlaps[best] += most;
    squares[best] += most * most;
    to.class_weights[(first + best) * classes() + object.label] += s.lambda_conf() / count;
    // Several objects of one box: sums of squares are those of their mean, and a rest.
    const Four wanted = in_coordinates_of(best, object.box);
    for (std::int64_t k = 0; k < 4; ++k) {
      double &mean = to.boxes[4 * (first + best) + k], &weight = to.box_weights[4 * (first + best) + k];
      const double more = s.lambda_bbox() / count, before = weight;
      weight += more;
      if (weight == 0) continue;
      const double shift = wanted[k] - mean;
      mean += shift * more / weight;
      to.rest += before * more / weight * shift * shift;
    }
  }
  for (std::int64_t b = 0; b < boxes_; ++b) {
    const double weight = positive * chosen[b] + negative * (count - chosen[b]);
    if (weight == 0) continue;
    const double mean = positive * overlaps[b] / weight;
    to.confidences[first + b] = mean;
    to.confidence_weights[first + b] = weight;
    to.rest += positive * squares[b] - weight * mean * mean;
  }
}

void SqueezeDetLossLayer::forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) {
  Context& context = *pass.context;
  const std::vector<double> predictions = values_of(context, inputs[2]->data).values;
  const Values objects = values_of(context, inputs[3]->data);
  const auto all = static_cast<std::size_t>(items_ * boxes_);
  Chosen chosen;
  chosen.class_weights.resize(all * static_cast<std::size_t>(classes()));
  for (auto* one : {&chosen.confidences, &chosen.confidence_weights}) one->resize(all);
  for (auto* one : {&chosen.boxes, &chosen.box_weights}) one->resize(4 * all);
  for (std::int64_t i = 0; i < items_; ++i)
    choose(objects_of(objects, i), predictions.data() + 4 * i * boxes_, i, chosen);
  // What is counted below is half of the squares.
  for (auto* weights : {&chosen.confidence_weights, &chosen.box_weights})
    for (double& weight : *weights) weight *= 2;
  write(context, chosen.class_weights, inputs[0]->data, class_weights_);
  write(context, chosen.confidences, inputs[1]->data, confidences_);
  write(context, chosen.confidence_weights, inputs[1]->data, confidence_weights_);
  write(context, chosen.boxes, inputs[2]->data, box_targets_);
  write(context, chosen.box_weights, inputs[2]->data, box_weights_);

  for (Tensor* two : {&partial_, &sum_}) ensure(context, *two, Shape{2}, DType::f64);
  Tensor loss = partial_.slice(0, Shape{1}), more = sum_.slice(0, Shape{1});
  ops::target_loss_forward(context, confidences(inputs), kSquares, partial_);
  ops::target_loss_forward(context, boxes(inputs), kSquares, sum_);
  ops::axpby(context, 1, more, 1, loss);
  ensure(context, products_, inputs[0]->shape, dtype());
  ops::apply_function(context, inputs[0]->data, logarithm_, products_);
  ops::multiply(context, products_, class_weights_, products_);
  ops::sum(context, products_, more);
  ops::axpby(context, 1, more, 1, loss);
  ops::fill(context, more, chosen.rest);
  ops::axpby(context, 1, more, 1, loss);
  find_divisor(pass, Normalization::batch_size, 0, items_);
  write_loss(pass, *outputs[0]);
}

void SqueezeDetLossLayer::backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                                   const Blobs& inputs) {
  Context& context = *pass.context;
  const Tensor& grad_loss = outputs[0]->grad;
  if (propagate[0]) {
    ensure(context, slopes_, inputs[0]->shape, dtype());
    ops::apply_slope(context, inputs[0]->data, class_weights_, logarithm_, slopes_);
    ops::euclidean_backward(context, slopes_, 1, grad_loss, divisor_, inputs[0]->grad);
  }
  if (propagate[1])
    ops::target_loss_backward(context, confidences(inputs), kSquares, 1, grad_loss, divisor_,
                              inputs[1]->grad);
  if (propagate[2])
    ops::target_loss_backward(context, boxes(inputs), kSquares, 1, grad_loss, divisor_, inputs[2]->grad);
}

// No examples: the first input holds probabilities (tests/layers/squeezedet_test.cpp).
const RegisterLayer<SqueezeDetLossLayer> registered_squeezedet_loss(
    "SqueezeDetLoss", {.about = "loss of boxes, their confidences and classes (Wu et al. 2017)",
                       .message = "squeezedet_param",
                       .examples = {}});

}  // namespace
}  // namespace banyan
