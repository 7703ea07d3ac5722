// RandBI (PixelNet): the channels of some maps, one map's after the other, at the points of a list, bilinear
// between pixels. Inputs: maps (N, C, H, W), and points (P, 3): the image's number in this device's batch,
// row and column in pixels of the image. A map's pixel is compression_rate of them long and wide. The points
// have no gradient.
#include "banyan/layers/index_note.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/ops/points.hpp"

namespace banyan {
namespace {

class RandBiLayer : public Layer {
 public:
  RandBiLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, -1, 1, 1}, .layout = LayoutRule::follows, .backward_reads_outputs = false}) {
    traits_.constant_input = parameter.bottom_size() - 1;
  }

  void read_settings() override {
    for (const std::uint32_t rate : settings().compression_rate())
      if (rate == 0) refuse("compression_rate must be positive; found 0");
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    const auto maps = static_cast<int>(inputs.size()) - 1;
    if (settings().compression_rate_size() != maps)
      refuse("expected a compression_rate for each of the ", maps, " maps; found ",
             settings().compression_rate_size());
    notes_.resize(inputs.size() - 1);
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& points = inputs.back()->shape;
    if (points.axes() != 2 || points[1] != 3)
      refuse("the points ", quoted(inputs.back()->name), " have the shape ", points.to_string(),
             "; expected P x 3: image, row, column");
    std::int64_t channels = 0;
    for (std::size_t i = 0; i + 1 < inputs.size(); ++i) channels += image_shape(*inputs[i])[1];
    maps_.assign(inputs.begin(), inputs.end() - 1);
    set_output(*outputs[0], Shape{points[0], channels});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Tensor& points = inputs.back()->data;
    std::int64_t first = 0;
    for (std::size_t i = 0; i + 1 < inputs.size(); ++i) {
      ops::note_points(context, inputs[i]->data, points, scale(i), notes_[i].on(context));
      ops::read_points(context, inputs[i]->data, points, scale(i), first, outputs[0]->data);
      first += inputs[i]->shape[1];
    }
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    std::int64_t first = 0;
    for (std::size_t i = 0; i + 1 < inputs.size(); ++i) {
      if (propagate[i]) {
        ops::fill(context, inputs[i]->grad, 0);
        ops::add_at_points(context, outputs[0]->grad, inputs.back()->data, scale(i), first, inputs[i]->grad);
      }
      first += inputs[i]->shape[1];
    }
  }

  void check_results(Context& context) override {
    for (std::size_t i = 0; i < notes_.size(); ++i)
      notes_[i].check(context, [&](const IndexNote::Found& found) {
        refuse("point ", found.number, ", of image ", found.value, ", is in no pixel of ",
               quoted(maps_[i]->name), ", which is ", maps_[i]->shape.to_string());
      });
  }

  double forward_flops(const Blobs&, const Blobs& outputs) const override {
    return 4 * static_cast<double>(outputs[0]->shape.count());
  }

 private:
  const caffe::RandCompParameter& settings() const { return parameter_.rand_comp_param(); }
  ops::PointScale scale(std::size_t map) const {
    const double rate = settings().compression_rate(static_cast<int>(map));
    return {rate, settings().pad() ? (rate - 1) / 2 : 0};
  }

  Blobs maps_;
  std::vector<IndexNote> notes_;  ///< of each map
};

const RegisterLayer<RandBiLayer> registered_rand_bi(
    "RandBI", {.about = "channels of maps at points of the image (PixelNet)",
               .message = "rand_comp_param",
               .examples = {"compression_rate: 1", "compression_rate: 2 pad: true"},
               .inputs = {{4, 5, 5}, {3}}});

}  // namespace
}  // namespace banyan
