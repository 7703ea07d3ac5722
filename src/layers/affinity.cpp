// Affinity (BVLC's opencl branch): of one channel of each input (N, C, H, W) an output (N, 2, H, W), how much
// neighbours belong together: the smaller value of each pixel and the one below it, then of each and the one
// to its right; 0 in the last row and column.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/neighbours.hpp"

namespace banyan {
namespace {

class AffinityLayer : public Layer {
 public:
  AffinityLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {1, -1, 1, -1, true}, .by_sample = true, .backward_reads_outputs = false}) {}

  void setup(const Blobs& inputs, const Blobs&) override {
    if (parameter_.affinity_param().offset_size() > static_cast<int>(inputs.size()))
      refuse("offset names ", parameter_.affinity_param().offset_size(), " channels for ", inputs.size(),
             " inputs");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Shape& maps = image_shape(*inputs[i]);
      if (channel(i) >= maps[1])
        refuse("offset ", channel(i), " is no channel of ", quoted(inputs[i]->name), ", which is ",
               maps.to_string());
      set_output(*outputs[i], Shape{maps[0], 2, maps[2], maps[3]});
    }
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      ops::smaller_neighbours(*pass.context, inputs[i]->data, channel(i), outputs[i]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (propagate[i])
        ops::smaller_neighbours_backward(*pass.context, inputs[i]->data, channel(i), outputs[i]->grad,
                                         inputs[i]->grad);
  }

 private:
  std::int64_t channel(std::size_t input) const {
    const caffe::AffinityParameter& s = parameter_.affinity_param();
    const int i = static_cast<int>(input);
    return i < s.offset_size() ? s.offset(i) : 0;
  }
};

const RegisterLayer<AffinityLayer> registered_affinity(
    "Affinity", {.about = "the smaller values of neighbouring pixels (BVLC's opencl branch)",
                 .message = "affinity_param",
                 .examples = {"", "offset: 2"}});

}  // namespace
}  // namespace banyan
