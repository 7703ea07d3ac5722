// Permute: axis i of the output is axis order[i] of the input; axes that `order` does not name follow in
// their order (SSD). Transpose: the same with `dim`, which names every axis (branches for reading text).
#include "grid_layer.hpp"

namespace banyan {
namespace {

class PermuteLayer : public GridLayer {
 public:
  /// It reads either layout; its output is contiguous, as what follows (Flatten, Concat) will read it.
  PermuteLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : GridLayer(parameter, options, {.layout = LayoutRule::channels_last}) {}

  void setup(const Blobs& inputs, const Blobs&) override {
    set_order(*inputs[0], parameter_.permute_param().order(), "order");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = inputs[0]->shape;
    if (static_cast<std::size_t>(input.axes()) != order_.size())
      refuse("input ", quoted(inputs[0]->name), " has ", input.axes(), " axes; expected ", order_.size());
    std::vector<std::int64_t> lengths;
    for (const int axis : order_) lengths.push_back(input[axis]);
    set_output(*outputs[0], Shape(lengths));
  }

 protected:
  /// `named` is the setting `field`.
  template <class Axes>
  void set_order(const Blob& input, const Axes& named, const char* field) {
    const int axes = input.shape.axes();
    std::vector<bool> is_named(static_cast<std::size_t>(axes), false);
    for (const std::int64_t axis : named) {
      if (axis < 0 || axis >= axes)
        refuse(field, " names axis ", axis, "; input ", quoted(input.name), " has ", axes, " axes");
      if (is_named[static_cast<std::size_t>(axis)]) refuse(field, " names axis ", axis, " twice");
      is_named[static_cast<std::size_t>(axis)] = true;
      order_.push_back(static_cast<int>(axis));
    }
    for (int axis = 0; axis < axes; ++axis)
      if (!is_named[static_cast<std::size_t>(axis)]) order_.push_back(axis);
  }

 private:
  ops::Grid places(const Blob& input, const Blob& output) const override {
    const std::vector<std::int64_t> from = ops::strides_of(input.shape, input.layout),
                                    to = ops::strides_of(output.shape, output.layout);
    ops::Grid grid;
    for (std::size_t i = 0; i < order_.size(); ++i)
      grid.add(output.shape.dims()[i], from[static_cast<std::size_t>(order_[i])], to[i]);
    return grid;
  }

  std::vector<int> order_;
};

class TransposeLayer : public PermuteLayer {
 public:
  using PermuteLayer::PermuteLayer;

  void setup(const Blobs& inputs, const Blobs&) override {
    const auto& dim = parameter_.transpose_param().dim();
    if (dim.size() != inputs[0]->shape.axes())
      refuse("dim must name every axis of the input; ", quoted(inputs[0]->name), " has ",
             inputs[0]->shape.axes(), " axes, found ", dim.size());
    set_order(*inputs[0], dim, "dim");
  }
};

const RegisterLayer<PermuteLayer> registered_permute("Permute", {"puts the axes into another order",
                                                                 "permute_param",
                                                                 {"order: [0, 2, 3, 1]", "order: [0, 3]"}});
const RegisterLayer<TransposeLayer> registered_transpose("Transpose", {"puts the axes into another order",
                                                                       "transpose_param",
                                                                       {"dim: [0, 3, 1, 2]"}});

}  // namespace
}  // namespace banyan
