// Local response normalization.
//   ACROSS_CHANNELS  y = x * (k + alpha / n * sum over n centred channels of x^2)^-beta
//   WITHIN_CHANNEL   y = x * (1 + alpha * average over n x n of x^2)^-beta, padding included, k ignored
// `engine` has no effect: WITHIN_CHANNEL is BVLC's CPU arithmetic even where its cuDNN build does something
// else.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/normalization.hpp"

namespace banyan {
namespace {

class LrnLayer : public Layer {
 public:
  LrnLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.layout = LayoutRule::follows, .storage = StorageRule::sixteen_bits, .by_sample = true}) {}

  void read_settings() override {
    const auto& settings = parameter_.lrn_param();
    if (settings.local_size() % 2 == 0) refuse("local_size must be odd; found ", settings.local_size());
    lrn_.size = settings.local_size();
    lrn_.alpha = settings.alpha();
    lrn_.beta = settings.beta();
    lrn_.within_channel = settings.norm_region() == caffe::LRNParameter::WITHIN_CHANNEL;
    lrn_.k = lrn_.within_channel ? 1 : settings.k();
  }
  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    set_output(*outputs[0], image_shape(*inputs[0]), inputs[0]->layout);
  }
  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    const Tensor& x = inputs[0]->data;
    ensure(*pass.context, scale_, x.shape(), dtype(), x.layout());
    ops::lrn_forward(*pass.context, lrn_, x, scale_, outputs[0]->data);
  }
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::lrn_backward(*pass.context, lrn_, inputs[0]->data, outputs[0]->data, scale_, outputs[0]->grad,
                        inputs[0]->grad);
  }
  double forward_flops(const Blobs& inputs, const Blobs&) const override {
    const double window = static_cast<double>(lrn_.size * (lrn_.within_channel ? lrn_.size : 1));
    return static_cast<double>(inputs[0]->shape.count()) * window;
  }

 private:
  ops::LrnParameters lrn_;
  Tensor scale_;  ///< the parenthesis above, shaped like x; never of 16 bits
};

const RegisterLayer<LrnLayer> registered_lrn("LRN",
                                             {"local response normalization, across or within channels",
                                              "lrn_param",
                                              {"", "norm_region: WITHIN_CHANNEL"}});

}  // namespace
}  // namespace banyan
