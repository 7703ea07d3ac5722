// Crop: cuts the first input to the lengths of the second, on every axis from `axis` on, beginning at
// `offset`: 0, one for all of these axes, or one for each; with `center_align` at half of what is cut off,
// rounded down.
#include <algorithm>

#include "grid_layer.hpp"

namespace banyan {
namespace {

class CropLayer : public GridLayer {
 public:
  CropLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : GridLayer(parameter, options,
                  {.arity = {2, 2, 1, 1}, .layout = LayoutRule::follows, .differentiable_inputs = 1}) {}

  void read_settings() override {
    if (parameter_.crop_param().center_align() && parameter_.crop_param().offset_size() > 0)
      refuse("center_align and offset exclude each other");
    if (parameter_.crop_param().automatic_offset())
      refuse("automatic_offset becomes an offset when a net is made for a phase (filter_net); give offset");
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    const auto& settings = parameter_.crop_param();
    const int axes = inputs[0]->shape.axes();
    first_ = inputs[0]->shape.canonical_axis(settings.axis());
    const int cropped = axes - first_, given = settings.offset_size();
    if (given > 1 && given != cropped)
      refuse("offset is given ", given, " times; expected once or once for each of the ", cropped,
             " axes from axis ", first_, " on");
    offsets_.assign(static_cast<std::size_t>(axes), 0);
    for (int axis = first_; axis < axes && given > 0; ++axis)
      offsets_[static_cast<std::size_t>(axis)] = settings.offset(given == 1 ? 0 : axis - first_);
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &input = inputs[0]->shape, &wanted = inputs[1]->shape;
    const int axes = static_cast<int>(offsets_.size());
    if (input.axes() != axes || wanted.axes() != axes)
      refuse("inputs ", quoted(inputs[0]->name), " and ", quoted(inputs[1]->name), " have ", input.axes(),
             " and ", wanted.axes(), " axes; expected ", axes, " each");
    Shape shape = input;
    for (int axis = first_; axis < axes; ++axis) {
      std::int64_t& offset = offsets_[static_cast<std::size_t>(axis)];
      if (parameter_.crop_param().center_align())
        offset = std::max<std::int64_t>(0, (input[axis] - wanted[axis]) / 2);
      if (offset + wanted[axis] > input[axis])
        refuse("axis ", axis, ": length ", wanted[axis], " from offset ", offset, " does not fit the length ",
               input[axis], " of ", quoted(inputs[0]->name));
      shape.set_dim(axis, wanted[axis]);
    }
    set_output(*outputs[0], shape, inputs[0]->layout);
  }

 private:
  ops::Grid places(const Blob& input, const Blob& output) const override {
    const std::vector<std::int64_t> from = ops::strides_of(input.shape, input.layout),
                                    to = ops::strides_of(output.shape, output.layout);
    ops::Grid grid;
    for (std::size_t axis = 0; axis < to.size(); ++axis) {
      grid.from_offset += offsets_[axis] * from[axis];
      grid.add(output.shape.dims()[axis], from[axis], to[axis]);
    }
    return grid;
  }

  int first_ = 2;
  std::vector<std::int64_t> offsets_;  ///< one per axis
};

const RegisterLayer<CropLayer> registered_crop("Crop", {"cuts a blob to the lengths of another",
                                                        "crop_param",
                                                        {"axis: 1", "axis: 2 offset: 1 offset: 0",
                                                         "center_align: true"},
                                                        nullptr,
                                                        {{4, 5, 5}, {3, 4, 3}}});

}  // namespace
}  // namespace banyan
