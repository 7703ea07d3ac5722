// Flatten: joins the axes [axis, end_axis] into one. The output shares the input's memory.
#include "banyan/layers/layer.hpp"

namespace banyan {
namespace {

class FlattenLayer : public Layer {
 public:
  FlattenLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.storage = StorageRule::follows,
               .view = View::data_and_gradient,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = inputs[0]->shape;
    const int from = input.canonical_axis(parameter_.flatten_param().axis());
    const int to = input.canonical_axis(parameter_.flatten_param().end_axis());
    if (to < from) refuse("end_axis ", to, " lies before axis ", from);
    std::vector<std::int64_t> dims(input.dims().begin(), input.dims().begin() + from);
    dims.push_back(input.count(from, to + 1));
    dims.insert(dims.end(), input.dims().begin() + to + 1, input.dims().end());
    set_output(*outputs[0], Shape(dims));
  }
  void forward(Pass&, const Blobs&, const Blobs&) override {}
  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}
};

const RegisterLayer<FlattenLayer> registered_flatten("Flatten", {"joins axes into one", "flatten_param"});

}  // namespace
}  // namespace banyan
