// Unpooling (DeconvNet): each axis becomes unpool_h (unpool_w, or unpool_size) long, or as long as the input
// of a pooling with these windows can be: stride * (length - 1) + kernel - 2 pad.
//
// MAX puts each pixel where the second input, a Pooling layer's second output, says. FIXED takes no second
// input and puts each pixel in the middle of its window, the upper or left one of two. All others are 0.
//
// AVE, without a second input and padding, divides each pixel among those of its window as far as that lies
// in the output, TILE gives all of it to each of them; where windows overlap, they are added.
#include <algorithm>
#include <string>
#include <vector>

#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"
#include "banyan/ops/grid.hpp"
#include "banyan/ops/pooling.hpp"
#include "banyan/tensor/values.hpp"
#include "unpool_layer.hpp"

namespace banyan {
namespace {

class UnpoolingLayer : public UnpoolLayer {
 public:
  UnpoolingLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : UnpoolLayer(parameter, options, 1),
        fixed_(parameter.unpooling_param().unpool() == caffe::UnpoolingParameter::FIXED),
        tiles_(parameter.unpooling_param().unpool() == caffe::UnpoolingParameter::TILE),
        spreads_(tiles_ || parameter.unpooling_param().unpool() == caffe::UnpoolingParameter::AVE) {}

  void read_settings() override {
    const auto& s = settings();
    const std::string& method = caffe::UnpoolingParameter::UnpoolMethod_Name(s.unpool());
    if (s.unpool() == caffe::UnpoolingParameter::STOCHASTIC)
      refuse(
          "unpool STOCHASTIC is not supported: no branch computes it; known methods: MAX, AVE, TILE, FIXED");
    const int bottoms = parameter_.bottom_size();
    if (!by_window() && bottoms != 2) refuse("unpool MAX needs a second input, the mask of a Pooling layer");
    if (by_window() && bottoms != 1) refuse("unpool ", method, " takes one input; found ", bottoms);
    read("kernel", s.has_kernel_size(), s.kernel_size(), s.has_kernel_h(), s.kernel_h(), s.has_kernel_w(),
         s.kernel_w(), kernel_);
    read("stride", s.has_stride(), s.stride(), s.has_stride_h(), s.stride_h(), s.has_stride_w(), s.stride_w(),
         stride_);
    read("pad", s.has_pad(), s.pad(), s.has_pad_h(), s.pad_h(), s.has_pad_w(), s.pad_w(), pad_);
    read("unpool", s.has_unpool_size(), s.unpool_size(), s.has_unpool_h(), s.unpool_h(), s.has_unpool_w(),
         s.unpool_w(), size_);
    const bool sized = s.has_unpool_size() || s.has_unpool_h();
    for (int axis = 0; axis < 2; ++axis) {
      if (kernel_[axis] < 1 && (by_window() || !sized)) refuse("kernel_size must be given and positive");
      if (size_[axis] < 1 && sized) refuse("unpool_size must be positive");
      if (stride_[axis] < 1) refuse("stride must be positive");
      if (pad_[axis] != 0 && pad_[axis] >= kernel_[axis]) refuse("pad must be smaller than the kernel");
      if (pad_[axis] != 0 && spreads_) refuse("unpool ", method, " takes no pad; found ", pad_[axis]);
    }
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    UnpoolLayer::reshape(inputs, outputs);
    for (int axis = 0; axis < 2 && fixed_; ++axis) {
      const std::int64_t last = first(axis) + (inputs[0]->shape[axis + 2] - 1) * stride_[axis],
                         length = outputs[0]->shape[axis + 2];
      if (first(axis) < 0 || last >= length)
        refuse("the middles of the windows reach from ", first(axis), " to ", last, " along an axis of ",
               length, " pixels; use a smaller pad or a larger output");
    }
    if (!spreads_) return;
    for (int axis = 0; axis < 2; ++axis)
      if (const std::int64_t last = (inputs[0]->shape[axis + 2] - 1) * stride_[axis],
          length = outputs[0]->shape[axis + 2];
          last >= length)
        refuse("the last window would begin at ", last, " of an axis of ", length,
               " pixels; use a larger output");
    sizes_known_ = false;
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    if (spreads_) return spread(*pass.context, *inputs[0], *outputs[0]);
    if (!fixed_) return UnpoolLayer::forward(pass, inputs, outputs);
    ops::fill(*pass.context, outputs[0]->data, 0);
    ops::copy_grid(*pass.context, inputs[0]->data, outputs[0]->data, places(*inputs[0], *outputs[0]));
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (spreads_) {
      if (propagate[0]) gather(*pass.context, *outputs[0], *inputs[0]);
      return;
    }
    if (!fixed_) return UnpoolLayer::backward(pass, outputs, propagate, inputs);
    if (propagate[0])
      ops::copy_grid(*pass.context, outputs[0]->grad, inputs[0]->grad,
                     places(*inputs[0], *outputs[0]).reversed());
  }

 private:
  const caffe::UnpoolingParameter& settings() const { return parameter_.unpooling_param(); }

  void read(const char* what, bool has, std::int64_t both, bool has_h, std::int64_t h, bool has_w,
            std::int64_t w, std::int64_t (&to)[2]) const {
    if (has_h != has_w || (has && has_h)) refuse("give either one ", what, " size or both its _h and _w");
    to[0] = has_h ? h : both;
    to[1] = has_h ? w : both;
  }

  std::int64_t output_length(int axis, std::int64_t length) const override {
    return size_[axis] > 0 ? size_[axis] : (length - 1) * stride_[axis] + kernel_[axis] - 2 * pad_[axis];
  }
  /// Where the first pixel goes.
  std::int64_t first(int axis) const { return (kernel_[axis] - 1) / 2 - pad_[axis]; }

  ops::Grid places(const Blob& input, const Blob& output) const {
    const std::vector<std::int64_t> from = ops::strides_of(input.shape, input.layout),
                                    to = ops::strides_of(output.shape, output.layout);
    ops::Grid grid;
    for (std::size_t axis = 0; axis < 4; ++axis) {
      const bool spatial = axis >= 2;
      if (spatial) grid.to_offset += first(static_cast<int>(axis) - 2) * to[axis];
      grid.add(input.shape.dims()[axis], from[axis], spatial ? to[axis] * stride_[axis - 2] : to[axis]);
    }
    return grid;
  }

  /// By the windows' places alone.
  bool by_window() const { return fixed_ || spreads_; }

  /// Of the average pooling whose gradient AVE is.
  ops::PoolingGeometry pooling() const {
    return {ops::PoolingMethod::average, kernel_[0], kernel_[1], stride_[0], stride_[1], 0, 0, true};
  }

  void spread(Context& context, const Blob& input, Blob& output) {
    const Tensor none;
    if (!tiles_) return ops::pooling_backward(context, pooling(), input.data, none, output.data);
    ensure(context, scaled_, input.shape, dtype(), input.layout);
    times_sizes(context, input, output, input.data, scaled_);
    ops::pooling_backward(context, pooling(), scaled_, none, output.data);
  }

  void gather(Context& context, const Blob& output, Blob& input) {
    Tensor none;
    ops::pooling_forward(context, pooling(), output.grad, false, {}, {}, input.grad, none);
    if (tiles_) times_sizes(context, input, output, input.grad, input.grad);
  }

  /// y = x times the number of pixels of each window that lie in the output.
  void times_sizes(Context& context, const Blob& input, const Blob& output, const Tensor& x, Tensor& y) {
    const Shape& from = input.shape;
    if (!sizes_known_) {
      const auto inside = [&](int axis, std::int64_t place) {
        const std::int64_t begin = place * stride_[axis];
        return std::min(kernel_[axis], output.shape[axis + 2] - begin);
      };
      std::vector<double> sizes;
      for (std::int64_t h = 0; h < from[2]; ++h)
        for (std::int64_t w = 0; w < from[3]; ++w)
          sizes.push_back(static_cast<double>(inside(0, h) * inside(1, w)));
      ensure(context, sizes_, Shape{from[2] * from[3]}, dtype());
      set_values(context, sizes, sizes_);
      sizes_known_ = true;
    }
    const bool last = input.layout == Layout::channels_last;
    const ops::Broadcast over{last ? from[0] : from[0] * from[1], from[2] * from[3], last ? from[1] : 1};
    ops::scale_bias(context, x, sizes_, {}, over, {}, y);
  }

  bool fixed_, tiles_, spreads_;
  std::int64_t kernel_[2] = {0, 0}, stride_[2] = {1, 1}, pad_[2] = {0, 0}, size_[2] = {0, 0};
  Tensor sizes_, scaled_;  ///< TILE: of the windows; the input times these
  bool sizes_known_ = false;
};

const RegisterLayer<UnpoolingLayer> registered_unpooling(
    "Unpooling", {"puts pixels where maximum pooling took them from, or into windows (DeconvNet)",
                  "unpooling_param",
                  {"kernel_size: 2 stride: 2"},
                  nullptr,
                  {{4, 5, 5}, {4, 5, 5}}});

}  // namespace
}  // namespace banyan
