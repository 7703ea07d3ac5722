// Resample (FlowNet): images resized with a kernel (ops/resample.hpp).
#include "banyan/ops/resample.hpp"

#include "sized_layer.hpp"

namespace banyan {
namespace {

class ResampleLayer : public SizedLayer {
 public:
  using SizedLayer::SizedLayer;

  void read_settings() override {
    if (parameter_.resample_param().type() == caffe::ResampleParameter::AREA)
      refuse("type AREA is not supported; NEAREST, LINEAR and CUBIC are");
    using Kernel = ops::Resampling::Kernel;
    const auto& s = parameter_.resample_param();
    how_ = {s.type() == caffe::ResampleParameter::NEAREST ? Kernel::nearest
            : s.type() == caffe::ResampleParameter::CUBIC ? Kernel::cubic
                                                          : Kernel::linear,
            s.antialias()};
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const auto& s = parameter_.resample_param();
    set_size(inputs, outputs, s.height(), s.width(), "height", "width");
    for (const std::size_t axis : {2, 3})
      if (inputs[0]->shape[axis] < 1 || outputs[0]->shape[axis] < 1)
        refuse("there are no pixels: the input is ", inputs[0]->shape.to_string(), ", the result ",
               outputs[0]->shape.to_string());
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::resample(*pass.context, how_, inputs[0]->data, outputs[0]->data);
  }

 private:
  ops::Resampling how_;
};

const RegisterLayer<ResampleLayer> registered_resample(
    "Resample", {.about = "images resized with a kernel (FlowNet)",
                 .message = "resample_param",
                 .examples = {"height: 3 width: 9", "height: 7 width: 2 type: CUBIC",
                              "height: 4 width: 4 type: NEAREST antialias: false"},
                 .inputs = {{4, 5, 6}, {1, 3, 4}}});

}  // namespace
}  // namespace banyan
