// Im2col: each channel becomes one for every element of convolution_param's kernel: what that element meets
// at each of the convolution's outputs, 0 in the padding.
#include "banyan/ops/unfold.hpp"
#include "convolution_base.hpp"

namespace banyan {
namespace {

class Im2colLayer : public WindowLayer {
 public:
  Im2colLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : WindowLayer(parameter, options,
                    {.storage = StorageRule::sixteen_bits,
                     .backward_reads_inputs = false,
                     .backward_reads_outputs = false}) {}

  void setup(const Blobs& inputs, const Blobs&) override {
    read_windows(inputs[0]->shape);
    if (geometry_.spatial_axes() > ops::kMostUnfolded)
      refuse("at most ", ops::kMostUnfolded, " spatial axes are supported; input ", quoted(inputs[0]->name),
             " has ", geometry_.spatial_axes());
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    check_axes(*inputs[0]);
    Shape shape = inputs[0]->shape;
    std::int64_t channels = shape[axis_];
    for (const std::int64_t length : geometry_.kernel) channels *= length;
    shape.set_dim(axis_, channels);
    for (int k = 0; k < geometry_.spatial_axes() && !no_spatial_; ++k)
      shape.set_dim(axis_ + 1 + k, convolved_length(k, *inputs[0]));
    set_output(*outputs[0], shape);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Tensor output = seen_by_operator(outputs[0]->data);
    ops::unfold_forward(*pass.context, geometry_, seen_by_operator(inputs[0]->data), output);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    Tensor grad_input = seen_by_operator(inputs[0]->grad);
    ops::unfold_backward(*pass.context, geometry_, seen_by_operator(outputs[0]->grad), grad_input);
  }
};

const RegisterLayer<Im2colLayer> registered_im2col("Im2col", {"the windows of a convolution as channels",
                                                              "convolution_param",
                                                              {"kernel_size: 3 stride: 2 pad: 1"}});

}  // namespace
}  // namespace banyan
