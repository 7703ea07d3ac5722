// SpatialTransformer (Jaderberg et al. 2015): the first input, maps N x C x H x W, sampled on a grid of
// output_H x output_W points that an affine transformation moves; bilinear between pixels, 0 outside of the
// map. The second input holds the numbers of each image's transformation (theta_1_1 to theta_2_3) that the
// file does not give: (theta_1_1, theta_1_2, theta_1_3) make the row of a point, from a row, a column and 1,
// the others its column. Rows and columns go from -1 to 1.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/transformation.hpp"

namespace banyan {
namespace {

class SpatialTransformerLayer : public Layer {
 public:
  SpatialTransformerLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 2, 1, 1},
               .layout = LayoutRule::follows,
               .by_sample = true,
               .backward_reads_outputs = false}) {
    const auto& s = settings();
    const struct {
      bool given;
      double number;
    } fixed[] = {{s.has_theta_1_1(), s.theta_1_1()}, {s.has_theta_1_2(), s.theta_1_2()},
                 {s.has_theta_1_3(), s.theta_1_3()}, {s.has_theta_2_1(), s.theta_2_1()},
                 {s.has_theta_2_2(), s.theta_2_2()}, {s.has_theta_2_3(), s.theta_2_3()}};
    how_.given = 0;
    for (int k = 0; k < 6; ++k) {
      how_.numbers[k] = fixed[k].number;
      how_.places[k] = fixed[k].given ? -1 : static_cast<std::int32_t>(how_.given++);
    }
  }

  void read_settings() override {
    const auto& s = settings();
    if (s.transform_type() != "affine")
      refuse("transform_type ", quoted(s.transform_type()), " is not supported; \"affine\" is");
    if (s.sampler_type() != "bilinear")
      refuse("sampler_type ", quoted(s.sampler_type()), " is not supported; \"bilinear\" is");
    if ((s.has_output_h() && s.output_h() < 1) || (s.has_output_w() && s.output_w() < 1))
      refuse("output_H and output_W must be positive");
    if (how_.given == 0)
      refuse("all of theta_1_1 to theta_2_3 are given: nothing is left for the second input");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &maps = image_shape(*inputs[0]), &theta = inputs[1]->shape;
    if (maps.count(2) < 1) refuse("input ", quoted(inputs[0]->name), " has no pixels");
    if (theta.axes() < 2 || theta[0] != maps[0] || theta.count(1) != how_.given)
      refuse("the transformations ", quoted(inputs[1]->name), " have the shape ", theta.to_string(),
             "; expected ", how_.given, " numbers for each of ", maps[0], " samples: ", 6 - how_.given,
             " of theta_1_1 to theta_2_3 are given");
    const auto& s = settings();
    set_output(*outputs[0],
               Shape{maps[0], maps[1], s.has_output_h() ? s.output_h() : maps[2],
                     s.has_output_w() ? s.output_w() : maps[3]},
               inputs[0]->layout);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::transform_forward(*pass.context, how_, inputs[0]->data, inputs[1]->data, outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    const Tensor &dy = outputs[0]->grad, &theta = inputs[1]->data;
    if (propagate[0] && settings().to_compute_du())
      ops::transform_backward(context, how_, dy, theta, inputs[0]->grad);
    else if (propagate[0])
      ops::fill(context, inputs[0]->grad, 0);
    if (propagate[1])
      ops::transform_theta_backward(context, how_, inputs[0]->data, theta, dy, inputs[1]->grad);
  }

  double forward_flops(const Blobs&, const Blobs& outputs) const override {
    return 4 * static_cast<double>(outputs[0]->shape.count());
  }

 private:
  const caffe::SpatialTransformerParameter& settings() const { return parameter_.st_param(); }

  ops::Transformation how_;
};

const RegisterLayer<SpatialTransformerLayer> registered_spatial_transformer(
    "SpatialTransformer", {.about = "maps sampled along affine transformations (Jaderberg et al. 2015)",
                           .message = "st_param",
                           .examples = {"", "output_H: 3 output_W: 7"},
                           .inputs = {{4, 5, 7}, {6}}});

}  // namespace
}  // namespace banyan
