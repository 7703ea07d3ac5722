// Tile: the input `tiles` times, one after the other, along one axis.
#include "banyan/layers/layer.hpp"
#include "banyan/ops/rows.hpp"

namespace banyan {
namespace {

class TileLayer : public Layer {
 public:
  TileLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options, {.backward_reads_inputs = false, .backward_reads_outputs = false}) {}

  void read_settings() override {
    if (tiles() < 1) refuse("tiles must be positive; found ", tiles());
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    axis_ = inputs[0]->shape.canonical_axis(parameter_.tile_param().axis());
  }
  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    Shape shape = inputs[0]->shape;
    length_ = shape.count(axis_);
    shape.set_dim(axis_, shape[axis_] * tiles());
    set_output(*outputs[0], shape);
  }
  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    ops::tile_rows(*pass.context, inputs[0]->data, length_, tiles(), outputs[0]->data);
  }
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (propagate[0])
      ops::tile_rows_backward(*pass.context, outputs[0]->grad, length_, tiles(), inputs[0]->grad);
  }

 private:
  std::int64_t tiles() const { return parameter_.tile_param().tiles(); }

  int axis_ = 1;
  std::int64_t length_ = 0;
};

const RegisterLayer<TileLayer> registered_tile("Tile", {"repeats a blob along an axis",
                                                        "tile_param",
                                                        {"tiles: 2", "axis: -1 tiles: 3"}});

}  // namespace
}  // namespace banyan
