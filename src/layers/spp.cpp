// SPP, spatial pyramid pooling (He et al. 2014): level l of pyramid_height pools the image to 2^l x 2^l
// values per channel; the values of all levels follow each other in one vector per sample. Windows have
// ceil(length / 2^l) pixels and do not overlap; what they exceed the image by is padding, half of it (rounded
// up) before.
//
// With pyramid_type (dillerch's branch) levels are as in the paper: windows begin every floor(length / n)
// pixels and have ceil(length / n), so they overlap, and if the length is much less than a multiple of n
// there are more than n. SPP_NET4 has n = 1, 2, 3, 4, SPP_NET6 1, 2, 3, 6, and CUSTOM the powers of two.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/pooling.hpp"

namespace banyan {
namespace {

class SppLayer : public Layer {
 public:
  SppLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options, {.backward_reads_inputs = false, .backward_reads_outputs = false}) {}

  void read_settings() override {
    const caffe::SPPParameter::PyramidType type = settings().pyramid_type();
    if (type != caffe::SPPParameter::CUSTOM) {
      if (settings().has_pyramid_height())
        refuse("pyramid_height is for pyramid_type: CUSTOM; remove one of them");
      levels_.resize(4);
      for (std::size_t l = 0; l < 4; ++l) levels_[l].bins = static_cast<std::int64_t>(l) + 1;
      if (type == caffe::SPPParameter::SPP_NET6) levels_[3].bins = 6;
      return;
    }
    const std::int64_t height = settings().pyramid_height();
    if (height < 1 || height > 30) refuse("pyramid_height must be from 1 to 30; found ", height);
    levels_.resize(static_cast<std::size_t>(height));
    for (std::size_t l = 0; l < levels_.size(); ++l) levels_[l].bins = std::int64_t{1} << l;
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = image_shape(*inputs[0]);
    length_ = 0;
    for (std::size_t l = 0; l < levels_.size(); ++l) {
      Level& level = levels_[l];
      level.geometry = geometry(l, level.bins, input);
      level.pooled = pooled(level, input);
      level.offset = length_;
      length_ += level.pooled.count(1);
    }
    // One level is pooling and nothing else.
    set_output(*outputs[0], levels_.size() == 1 ? Shape{input[0], length_, 1, 1} : Shape{input[0], length_});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    if (outputs[0]->shape.count() == 0) return;
    Context& context = *pass.context;
    for (std::size_t l = 0; l < levels_.size(); ++l) {
      Level& level = levels_[l];
      ensure(context, level.values, level.pooled, dtype());
      if (level.geometry.method != ops::PoolingMethod::average)
        ensure(context, level.mask, level.pooled, DType::i32);
      ops::PassKey key = random_key(pass);
      key.stream = ops::stream_of(cat(name(), "/", l).c_str());
      ops::pooling_forward(context, level.geometry, inputs[0]->data, options().phase == Phase::train, key,
                           pass.samples, level.values, level.mask);
      const std::int64_t count = level.pooled.count(1);
      ops::copy_blocks(context, level.values, outputs[0]->data,
                       {level.pooled[0], count, 0, count, level.offset, length_});
    }
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0] || outputs[0]->shape.count() == 0) return;
    Context& context = *pass.context;
    Tensor& dx = inputs[0]->grad;
    for (Level& level : levels_) {
      const bool first = &level == &levels_.front();
      ensure(context, level.values, level.pooled, dtype());
      if (!first) ensure(context, addend_, dx.shape(), dtype());
      const std::int64_t count = level.pooled.count(1);
      ops::copy_blocks(context, outputs[0]->grad, level.values,
                       {level.pooled[0], count, level.offset, length_, 0, count});
      ops::pooling_backward(context, level.geometry, level.values, level.mask, first ? dx : addend_);
      if (!first) ops::axpby(context, 1, addend_, 1, dx);
    }
  }

 private:
  struct Level {
    std::int64_t bins = 1;
    ops::PoolingGeometry geometry;
    Shape pooled;
    std::int64_t offset = 0;  ///< of its values in a sample's
    Tensor values, mask;
  };

  const caffe::SPPParameter& settings() const { return parameter_.spp_param(); }

  Shape pooled(const Level& level, const Shape& input) const {
    if (!settings().has_pyramid_type()) return {input[0], input[1], level.bins, level.bins};
    const ops::PoolingGeometry& g = level.geometry;
    return {input[0], input[1], (input[2] - g.kernel_h + g.stride_h - 1) / g.stride_h + 1,
            (input[3] - g.kernel_w + g.stride_w - 1) / g.stride_w + 1};
  }

  ops::PoolingGeometry geometry(std::size_t level, std::int64_t bins, const Shape& input) const {
    ops::PoolingGeometry g;
    g.method = settings().pool() == caffe::SPPParameter::MAX   ? ops::PoolingMethod::maximum
               : settings().pool() == caffe::SPPParameter::AVE ? ops::PoolingMethod::average
                                                               : ops::PoolingMethod::stochastic;
    const std::int64_t h = input[2], w = input[3];
    if (settings().has_pyramid_type()) {
      if (bins > h || bins > w)
        refuse("level ", level, " of the pyramid, ", bins, " x ", bins, " windows, does not fit an image of ",
               h, " x ", w);
      g.kernel_h = (h + bins - 1) / bins, g.kernel_w = (w + bins - 1) / bins;
      g.stride_h = h / bins, g.stride_w = w / bins;
      return g;
    }
    g.kernel_h = g.stride_h = (h + bins - 1) / bins;
    g.kernel_w = g.stride_w = (w + bins - 1) / bins;
    g.pad_h = (g.kernel_h * bins - h + 1) / 2;
    g.pad_w = (g.kernel_w * bins - w + 1) / 2;
    if (g.pad_h >= g.kernel_h || g.pad_w >= g.kernel_w)
      refuse("level ", level, " of the pyramid, ", bins, " x ", bins, " windows, does not fit an image of ",
             h, " x ", w);
    if (g.method == ops::PoolingMethod::stochastic && (g.pad_h > 0 || g.pad_w > 0))
      refuse("STOCHASTIC pooling needs an image that ", bins, " x ", bins, " windows divide; found ", h,
             " x ", w);
    return g;
  }

  std::vector<Level> levels_;
  std::int64_t length_ = 0;  ///< of a sample's output
  Tensor addend_;
};

const RegisterLayer<SppLayer> registered_spp("SPP", {"pools images of any size to a vector of one length",
                                                     "spp_param",
                                                     {"pyramid_height: 2", "pyramid_height: 2 pool: AVE",
                                                      "pyramid_height: 2 pyramid_type: CUSTOM"}});

}  // namespace
}  // namespace banyan
