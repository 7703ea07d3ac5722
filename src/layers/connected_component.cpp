// ConnectedComponent (BVLC's opencl branch): numbers the parts of maps of labels (N, C, H, W). A part is all
// pixels of one label other than 0 that are joined through pixels of it above, below or beside each other.
// The parts of a map have numbers from its largest label on, plus 1, in the order of their first pixels; 0
// stays 0. It has no gradient. The parts are found on the host.
#include <algorithm>
#include <cmath>
#include <vector>

#include "banyan/layers/layer.hpp"
#include "banyan/tensor/values.hpp"

namespace banyan {
namespace {

class ConnectedComponentLayer : public Layer {
 public:
  ConnectedComponentLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.by_sample = true,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .differentiable_inputs = 0,
               .label_input = 0}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    set_output(*outputs[0], image_shape(*inputs[0]));
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    const Shape& maps = inputs[0]->shape;
    if (maps.count() == 0) return;
    std::vector<double> labels = values_of(*pass.context, inputs[0]->data).values;
    for (double& label : labels) label = std::trunc(label);
    std::vector<double> parts(labels.size(), 0);
    for (std::int64_t map = 0; map < maps[0] * maps[1]; ++map)
      number(maps[2], maps[3], labels.data() + map * maps.count(2), parts.data() + map * maps.count(2));
    set_values(*pass.context, parts, outputs[0]->data);
  }

  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  /// `parts` holds zeros.
  void number(std::int64_t height, std::int64_t width, const double* labels, double* parts) {
    double next = 1 + std::max(0.0, *std::max_element(labels, labels + height * width));
    for (std::int64_t first = 0; first < height * width; ++first) {
      if (labels[first] == 0 || parts[first] != 0) continue;
      const auto join = [&](std::int64_t pixel) {
        if (labels[pixel] != labels[first] || parts[pixel] != 0) return;
        parts[pixel] = next;
        open_.push_back(pixel);
      };
      parts[first] = next;
      open_.assign(1, first);
      while (!open_.empty()) {
        const std::int64_t pixel = open_.back(), column = pixel % width;
        open_.pop_back();
        if (column > 0) join(pixel - 1);
        if (column + 1 < width) join(pixel + 1);
        if (pixel >= width) join(pixel - width);
        if (pixel + width < height * width) join(pixel + width);
      }
      ++next;
    }
  }

  std::vector<std::int64_t> open_;  ///< pixels whose neighbours have not been looked at
};

const RegisterLayer<ConnectedComponentLayer> registered_connected_component(
    "ConnectedComponent", {.about = "numbers the connected parts of maps of labels (BVLC's opencl branch)",
                           .message = "",
                           .inputs = {{1, 5, 5}}});

}  // namespace
}  // namespace banyan
