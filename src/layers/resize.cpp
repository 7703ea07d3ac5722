// Resize (appearance flow): maps resized by linear interpolation, corners on corners, to height x width, by
// scale or to the size of a second input, whose values do not count; smoothed first along axes that become
// shorter (ops/smooth_resize.hpp). `crop` pixels are left out on each side.
#include <algorithm>
#include <vector>

#include "banyan/layers/layer.hpp"
#include "banyan/ops/smooth_resize.hpp"

namespace banyan {
namespace {

class ResizeLayer : public Layer {
 public:
  ResizeLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {1, 2, 1, 1},
               .layout = LayoutRule::follows,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .differentiable_inputs = 1}) {}

  void read_settings() override {
    const auto& s = settings();
    if (s.is_pyramid_test() || s.has_out_height_scale() || s.has_out_width_scale())
      refuse(
          "is_pyramid_test, out_height_scale and out_width_scale are another branch's; give scale_y and "
          "scale_x");
    for (const auto& [scale, field] : {std::pair{s.has_scale() ? s.scale() : 1, "scale"},
                                       {s.has_scale_x() ? s.scale_x() : 1, "scale_x"},
                                       {s.has_scale_y() ? s.scale_y() : 1, "scale_y"}})
      if (!(scale > 0 && scale <= kMost)) refuse(field, " must be in (0, ", kMost, "]; found ", scale);
    for (const double crop : {crop_of(s.has_crop_y(), s.crop_y()), crop_of(s.has_crop_x(), s.crop_x())})
      if (!(crop >= 0 && crop <= kMost)) refuse("crop must be from 0 to ", kMost, "; found ", crop);
    const bool tall = s.has_scale() || s.has_scale_y(), wide = s.has_scale() || s.has_scale_x();
    if (tall && s.has_height()) refuse("give either height or a scale");
    if (wide && s.has_width()) refuse("give either width or a scale");
    if (s.height() == 1 || s.width() == 1 || s.height() > kMost || s.width() > kMost)
      refuse("height and width must be from 2 to ", kMost, ", or 0 for no change; found ", s.height(),
             " and ", s.width());
  }
  void setup(const Blobs& inputs, const Blobs&) override {
    const auto& s = settings();
    if (inputs.size() < 2 && !s.has_scale() &&
        !((s.has_height() || s.has_scale_y()) && (s.has_width() || s.has_scale_x())))
      refuse("give height and width, scale, or a second input of the wanted size");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const auto& s = settings();
    const Shape& input = image_shape(*inputs[0]);
    const Shape* const like = inputs.size() > 1 ? &image_shape(*inputs[1]) : nullptr;
    std::vector<std::int64_t> output = input.dims();
    const auto along = [&](int axis, const Given& given) {
      ops::SmoothAxis found;
      found.crop = given.crop;
      const double last = static_cast<double>(input[axis]) - 2 * given.crop - 1;
      if (!(last > 0))
        refuse("nothing can be resized along axis ", axis, " of ", quoted(inputs[0]->name),
               ": fewer than 2 pixels of ", input[axis], " are left");
      const std::int64_t wanted = like != nullptr ? (*like)[axis] : given.size;
      if (given.scale > 0)
        found.scale = given.scale;
      else if (given.has_size && given.size == 0)
        found.scale = 1;
      else
        found.scale = static_cast<double>((given.has_size ? given.size : wanted) - 1) / last;
      if (!(found.scale > 0)) refuse("axis ", axis, " of the result must have 2 pixels at least");
      output[static_cast<std::size_t>(axis)] =
          like != nullptr ? wanted : rounded_in_single(found.scale * last) + 1;
      return found;
    };
    rows_ = along(2, {s.has_height(), s.height(), scale_of(s.has_scale_y(), s.scale_y()),
                      crop_of(s.has_crop_y(), s.crop_y())});
    columns_ = along(3, {s.has_width(), s.width(), scale_of(s.has_scale_x(), s.scale_x()),
                         crop_of(s.has_crop_x(), s.crop_x())});
    set_output(*outputs[0], Shape(output), inputs[0]->layout);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::smooth_resize(*pass.context, rows_, columns_, inputs[0]->data, outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::smooth_resize_backward(*pass.context, rows_, columns_, outputs[0]->grad, inputs[0]->grad);
  }

  double forward_flops(const Blobs&, const Blobs& outputs) const override {
    const auto window = [](double scale) { return 2 / std::max(std::min(scale, 1.0), 0.01); };
    return window(rows_.scale) * window(columns_.scale) * static_cast<double>(outputs[0]->shape.count());
  }

 private:
  static constexpr std::uint32_t kMost = 10000;

  /// What the settings say of one axis.
  struct Given {
    bool has_size;
    std::int64_t size;
    double scale;  ///< 0: none
    double crop;
  };
  /// As the branch rounds: 0.7 * 5, a little below 3.5 in f64, is 4.
  static std::int64_t rounded_in_single(double length) {
    return static_cast<std::int64_t>(static_cast<float>(length) + 0.5);
  }
  const caffe::MapResizeParameter& settings() const { return parameter_.resize_param(); }
  double scale_of(bool given, float scale) const {
    return given ? scale : settings().has_scale() ? settings().scale() : 0;
  }
  double crop_of(bool given, float crop) const { return given ? crop : settings().crop(); }

  ops::SmoothAxis rows_, columns_;
};

const RegisterLayer<ResizeLayer> registered_resize(
    "Resize", {.about = "maps resized, smoothed where they become smaller",
               .message = "resize_param",
               .examples = {"height: 3 width: 9", "scale: 0.6", "height: 2 scale_x: 1.5 crop: 0.5"},
               .inputs = {{4, 5, 5}}});

}  // namespace
}  // namespace banyan
