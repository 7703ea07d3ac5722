// ScaleRoute (Cascade R-CNN): the regions (R x 5: image, x1, y1, x2, y2) whose size, the root of their area,
// is at least low_scale and below high_scale, and what further inputs say of them (R x any): output i holds
// those of input i. If there are none, the one whose size is nearest to the middle of the two. On several
// devices each looks at its own part of the batch.
//
// How many they are is known only in the pass (LayerTraits::chooses_samples).
#include <cmath>
#include <limits>

#include "banyan/base/box.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/ops/rows.hpp"
#include "banyan/tensor/values.hpp"

namespace banyan {
namespace {

class ScaleRouteLayer : public Layer {
 public:
  ScaleRouteLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {1, -1, 1, -1, true},
               .chooses_samples = true,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .repeatable = false,
               .differentiable_inputs = 0}) {}

  void read_settings() override {
    const auto& s = parameter_.scale_route_param();
    if (s.has_low_scale() && !(s.low_scale() > 0))
      refuse("low_scale must be positive; found ", s.low_scale());
    low_ = s.low_scale();
    high_ = s.has_high_scale() ? s.high_scale() : std::numeric_limits<double>::infinity();
    if (!(low_ < high_)) refuse("high_scale ", high_, " must be above low_scale ", low_);
    constexpr double kMiddle = 256;
    middle_ = s.has_low_scale() && s.has_high_scale() ? std::sqrt(low_ * high_)
              : s.has_low_scale()                     ? low_
              : s.has_high_scale()                    ? high_
                                                      : kMiddle;
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& regions = inputs[0]->shape;
    if (regions.axes() < 2 || regions.count(1) != 5)
      refuse(quoted(inputs[0]->name), " is ", regions.to_string(), "; expected R x 5: image, x1, y1, x2, y2");
    regions_ = regions[0];
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Shape& shape = inputs[i]->shape;
      if (shape.axes() < 1 || shape[0] != regions_)
        refuse(quoted(inputs[i]->name), " is ", shape.to_string(), "; expected ", regions_,
               " rows, one for each region");
      set_output(*outputs[i], shape);
    }
  }

  std::int64_t choose_samples(Pass& pass, const Blobs& inputs) override {
    const std::vector<double> rows = values_of(*pass.context, inputs[0]->data).values;
    std::vector<double> chosen;
    double nearest = std::numeric_limits<double>::infinity();
    std::int64_t nearest_region = 0;
    for (std::int64_t i = 0; i < regions_; ++i) {
      const double* const row = rows.data() + 5 * i;
      const double size = std::sqrt(area({row[1], row[2], row[3], row[4]}, Corners::pixels));
      if (size >= low_ && size < high_) chosen.push_back(static_cast<double>(i));
      const double distance = std::abs(std::log2(size / middle_));
      if (distance < nearest) nearest = distance, nearest_region = i;
    }
    if (chosen.empty() && regions_ > 0) chosen.push_back(static_cast<double>(nearest_region));
    ensure(*pass.context, chosen_, Shape{std::ssize(chosen)}, dtype());
    set_values(*pass.context, chosen, chosen_);
    return std::ssize(chosen);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    for (std::size_t i = 0; i < outputs.size(); ++i)
      ops::gather_rows(*pass.context, inputs[i]->data, regions_, chosen_, outputs[i]->data);
  }

  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  double low_ = 0, high_ = 0, middle_ = 0;
  std::int64_t regions_ = 0;
  Tensor chosen_;  ///< the numbers of the regions
};

const RegisterLayer<ScaleRouteLayer> registered_scale_route(
    "ScaleRoute", {.about = "the regions of some sizes (Cascade R-CNN)",
                   .message = "scale_route_param",
                   .examples = {"low_scale: 1.5 high_scale: 3", ""},
                   .inputs = {{5}}});

}  // namespace
}  // namespace banyan
