// What DetectionLoss (MS-CNN) and DetectionGroupLoss (Cascade R-CNN) share. Scores of classes (M x C x H x
// W), codes of boxes (M x 4 x H x W), and what positions shall find (M x 6 x H x W, as DetectionData makes
// it), M being images, or fields of images. Positions of objects and some of the background are chosen; with
// n of them and p objects in the batch of all devices the loss is
//
//   sum of w (-log softmax(scores)[class]) / n + lambda * sum of f(code - code of the box) / 4 p,
//
// f being the smooth L1 loss or half the square, w 1 without weights. Codes are compared within limits, but
// the gradient passes as if there were none.
//
// Which positions count is decided on the host, which waits for the device; losses and gradients are computed
// on the device.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "banyan/layers/loss.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/class_loss.hpp"
#include "banyan/ops/functions.hpp"
#include "banyan/ops/rows.hpp"
#include "banyan/ops/target_loss.hpp"
#include "banyan/tensor/values.hpp"
#include "layers/anchors.hpp"
#include "layers/field_codes.hpp"

namespace banyan {

class FieldLossLayer : public LossLayer {
 public:
  FieldLossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options, int inputs)
      : LossLayer(parameter, options,
                  {.arity = {inputs, inputs, 1, 1},
                   .backward_reads_inputs = false,
                   .backward_reads_outputs = false,
                   .differentiable_inputs = inputs - 1,
                   .meets = Meets::forward}) {}

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    read_parts(context, inputs);
    ensure(context, probabilities_, scores_.shape(), dtype());
    ops::softmax_forward(context, scores_, over_, probabilities_);
    truth_ = values_of(context, inputs.back()->data).values;
    decide(pass);
    ensure(context, partial_, Shape{2}, DType::f64);
    ensure(context, box_partial_, Shape{2}, DType::f64);
    ensure(context, divisor_, Shape{1}, DType::f64);
    ops::fill(context, divisor_, 1);
    ensure(context, losses_, labels_.shape(), dtype());
    ops::position_losses(context, probabilities_, labels_, over_, unused(), false, losses_);
    ops::multiply(context, losses_, weights_, losses_);
    Tensor sum = partial_.slice(0, Shape{1});
    ops::sum(context, losses_, sum);
    ops::target_loss_forward(context, boxes(), box_loss_, box_partial_);
    ops::axpby(context, lambda_ / box_count_, box_partial_.slice(0, Shape{1}), 1, sum);
    write_loss(pass, *outputs[0]);
  }

  void check_results(Context&) override {
    if (!problem_.empty()) refuse(std::exchange(problem_, {}));
  }

 protected:
  /// Chooses what counts of an image.
  virtual void choose(Pass& pass, std::int64_t image, std::vector<char>& kept) = 0;
  /// Sets scores_ and codes_.
  virtual void read_parts(Context& context, const Blobs& inputs) = 0;

  std::int64_t positions() const { return over_.inner; }
  std::int64_t groups() const { return std::ssize(maps_.sizes); }
  std::int64_t images() const { return over_.outer / groups(); }
  /// Position `at` of an image's maps, one after the other.
  double truth(std::int64_t image, std::int64_t which, std::int64_t at) const {
    const std::int64_t map = image * groups() + at / positions();
    return truth_[static_cast<std::size_t>((map * 6 + which) * positions() + at % positions())];
  }
  /// 0: background.
  std::int64_t label(std::int64_t image, std::int64_t at) const {
    const double value = truth(image, 0, at);
    return !(value >= 1) ? 0 : objectness_ ? 1 : static_cast<std::int64_t>(std::min(value, 1e9));
  }
  bool may_be_background(std::int64_t image, std::int64_t at) const {
    return label(image, at) == 0 && static_cast<float>(truth(image, 5, at)) < bg_threshold_;
  }
  ops::RandomKey drawing_key(const Pass& pass) const {
    return {pass.seed, ops::stream_of(name().c_str()), static_cast<std::uint64_t>(pass.draw)};
  }
  static std::int64_t global_sample(const Pass& pass, std::int64_t image) {
    return pass.samples.first + image * pass.samples.stride;
  }

  /// Of both messages.
  template <class Settings>
  void read(const Settings& s) {
    const auto complain = [this](const auto&... why) { refuse(why...); };
    check_no_loss_param();
    classes_ = s.cls_num();
    objectness_ = s.objectness();
    check_classes(classes_, objectness_, complain);
    bg_threshold_ = s.bg_threshold();
    bg_multiple_ = s.bg_multiple();
    weighs_ = s.pos_neg_weighted();
    lambda_ = s.lambda();
    if (!(lambda_ >= 0)) refuse("lambda must not be negative; found ", lambda_);
    codes_of_.scale = read_bbox_scale(parameter_.bbox_reg_param(), complain);
  }
  void limit_codes(double field_xyr, double field_whr) {
    const auto complain = [this](const auto&... why) { refuse(why...); };
    codes_of_.limit(field_xyr, field_whr, complain);
    limited_ = true;
  }
  void set_shapes(std::int64_t maps, std::int64_t rows, std::int64_t columns, const Blobs& outputs) {
    over_ = {maps, classes_, rows * columns};
    columns_ = columns;
    set_output(*outputs[0], Shape{});
  }

  /// `codes`: M maps, `stride` apart, of which the codes begin at `offset`. In codes_ the shifts of all maps
  /// come before their sizes, which have other limits.
  void read_codes(Context& context, const Tensor& from, std::int64_t offset, std::int64_t stride) {
    const std::int64_t half = 2 * positions();
    ensure(context, codes_, Shape{2, over_.outer, half}, dtype());
    for (const std::int64_t part : {0, 1}) {
      ops::copy_blocks(context, from, codes_,
                       {over_.outer, half, offset + part * half, stride, part * over_.outer * half, half});
      if (!limited_) continue;
      Tensor limited = codes_.slice(part * over_.outer * half, Shape{over_.outer, half});
      const auto [low, high] = codes_of_.limits(static_cast<int>(part));
      ops::apply_function(context, limited, {ops::Function::Kind::clip, low, high}, limited);
    }
  }
  void write_code_gradients(Context& context, const Tensor& grad_loss, Tensor& to, std::int64_t offset,
                            std::int64_t stride) {
    const std::int64_t half = 2 * positions();
    ensure(context, code_gradients_, codes_.shape(), dtype());
    ensure(context, box_divisor_, Shape{1}, DType::f64);
    ops::fill(context, box_divisor_, box_count_);
    ops::target_loss_backward(context, boxes(), box_loss_, lambda_, grad_loss, box_divisor_, code_gradients_);
    for (const std::int64_t part : {0, 1})
      ops::copy_blocks(context, code_gradients_, to,
                       {over_.outer, half, part * over_.outer * half, half, offset + part * half, stride});
  }
  void score_gradients(Context& context, const Tensor& grad_loss, Tensor& dx) {
    ops::softmax_loss_backward(context, probabilities_, labels_, over_, unused(), grad_loss, divisor_, dx);
    ensure(context, tiled_, scores_.shape(), dtype());
    ops::tile_rows(context, weights_, positions(), over_.channels, tiled_);
    ops::multiply(context, dx, tiled_, dx);
  }

  FieldMaps maps_;
  FieldCodes codes_of_;
  ops::Channels over_{};  ///< maps x classes x positions
  std::int64_t classes_ = 0;
  bool objectness_ = false, weighs_ = false, weighs_overlap_ = false;
  bool keeps_background_weight_ = false;  ///< MS-CNN: where a batch has no objects
  float bg_threshold_ = 0;
  double bg_multiple_ = 0, lambda_ = 1;
  ops::TargetLoss box_loss_{ops::TargetLoss::Kind::smooth_absolute, 1, {true, kNoTarget}};
  Tensor scores_, codes_, probabilities_;

 private:
  static constexpr int kNoTarget = -(1 << 30);  // exact in f32
  ops::IgnoreLabel unused() const { return {true, static_cast<int>(classes_)}; }
  ops::Targets boxes() const { return {codes_, box_targets_, {}, {}}; }

  void check_no_loss_param() const {
    const auto& loss = parameter_.loss_param();
    if (loss.has_ignore_label() || loss.has_normalization() || loss.has_normalize())
      refuse("ignore_label, normalization and normalize of loss_param have no meaning here");
  }

  /// Of the batch of all devices: chosen positions, weights of objects and of the background, objects.
  struct Sums {
    double chosen = 0, objects_weigh = 0, background_weighs = 0, objects = 0;
  };
  Sums summed(Pass& pass, Sums own) {
    if (pass.exchange == nullptr || pass.exchange->devices() == 1) return own;
    Context& context = *pass.context;
    ensure(context, sums_, Shape{4}, DType::f64);
    std::vector<double> values{own.chosen, own.objects_weigh, own.background_weighs, own.objects};
    copy_from_host(context, values.data(), sums_);
    sum_over_devices(pass, sums_, {name().c_str(), "chosen"});
    copy_to_host(context, sums_, values.data());
    return {values[0], values[1], values[2], values[3]};
  }

  void decide(Pass& pass) {
    const std::int64_t each = groups() * positions();
    const auto all = static_cast<std::size_t>(images() * each);
    std::vector<double> labels(all, static_cast<double>(unused().label)), weights(all, 0),
        targets(4 * all, kNoTarget);
    Sums sums;
    for (std::int64_t image = 0; image < images(); ++image) {
      std::vector<char> kept(static_cast<std::size_t>(each), 0);
      if (are_labels_right(image, each)) choose(pass, image, kept);
      for (std::int64_t at = 0; at < each; ++at) {
        if (kept[static_cast<std::size_t>(at)] == 0) continue;
        const auto place = static_cast<std::size_t>(image * each + at);
        const bool object = label(image, at) > 0;
        labels[place] = static_cast<double>(label(image, at));
        weights[place] = object && weighs_overlap_ ? truth(image, 5, at) : 1;
        sums.chosen += 1;
        sums.objects += object ? 1 : 0;
        (object ? sums.objects_weigh : sums.background_weighs) += weights[place];
        if (object) write_target(image, at, targets);
      }
    }
    sums = summed(pass, sums);
    box_count_ = std::max(4 * sums.objects, 1.0);
    double of_objects = 1, of_background = 1;
    if (weighs_) {
      const double share = 1 / (1 + bg_multiple_);
      if (sums.objects_weigh != 0) of_objects = share * sums.chosen / sums.objects_weigh;
      if (sums.background_weighs != 0 && !(keeps_background_weight_ && sums.objects_weigh == 0))
        of_background = (1 - share) * sums.chosen / sums.background_weighs;
    }
    for (std::size_t i = 0; i < all; ++i)
      weights[i] *= (labels[i] == 0 ? of_background : of_objects) / std::max(sums.chosen, 1.0);
    Context& context = *pass.context;
    for (auto& [values, to] : {std::pair{&labels, &labels_}, {&weights, &weights_}}) {
      ensure(context, *to, Shape{over_.outer, positions()}, dtype());
      set_values(context, *values, *to);
    }
    ensure(context, box_targets_, Shape{2, over_.outer, 2 * positions()}, dtype());
    set_values(context, targets, box_targets_);
  }

  bool are_labels_right(std::int64_t image, std::int64_t each) {
    for (std::int64_t at = 0; at < each; ++at) {
      const double value = truth(image, 0, at);
      if (value >= 0 && std::isfinite(value) && label(image, at) < classes_) continue;
      if (problem_.empty())
        problem_ = cat("position ", at % positions(), " of sample ", image, " has the class ", value,
                       "; there are ", classes_, " classes, 0 to ", classes_ - 1);
      return false;
    }
    return true;
  }

  void write_target(std::int64_t image, std::int64_t at, std::vector<double>& targets) const {
    const std::int64_t map = image * groups() + at / positions(), position = at % positions();
    std::array<double, 4> box;
    for (std::int64_t k = 0; k < 4; ++k) box[static_cast<std::size_t>(k)] = truth(image, 1 + k, at);
    const Field field = maps_.field(at / positions(), position / columns_, position % columns_);
    const BoxShift code = codes_of_.code(field, box);
    for (std::int64_t k = 0; k < 4; ++k)
      targets[static_cast<std::size_t>(((k / 2 * over_.outer + map) * 2 + k % 2) * positions() + position)] =
          code[static_cast<std::size_t>(k)];
  }

  std::int64_t columns_ = 0;
  bool limited_ = false;
  double box_count_ = 1;  ///< numbers of objects' boxes, of all devices
  std::vector<double> truth_;
  std::string problem_;
  Tensor labels_, weights_, tiled_, losses_, box_targets_, box_partial_, box_divisor_, code_gradients_, sums_;
};

}  // namespace banyan
