// Input: blobs that the program fills. input_param gives one shape for all outputs or one for each; the
// program may reshape the blobs later.
#include "banyan/layers/layer.hpp"

namespace banyan {
namespace {

class InputLayer : public Layer {
 public:
  InputLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {0, 0, 1, -1},
               .source = true,
               .filled_by_user = true,
               .backward_reads_outputs = false,
               .repeatable = false}) {}

  void setup(const Blobs&, const Blobs& outputs) override {
    const auto& shapes = parameter_.input_param().shape();
    if (shapes.size() != 0 && shapes.size() != 1 && static_cast<std::size_t>(shapes.size()) != outputs.size())
      refuse("expected one shape, or one for each of ", outputs.size(), " outputs; found ", shapes.size());
    for (std::size_t i = 0; i < outputs.size() && shapes.size() > 0; ++i) {
      const auto& dims = shapes.Get(shapes.size() == 1 ? 0 : static_cast<int>(i)).dim();
      for (const std::int64_t dim : dims)
        if (dim < 0) refuse("shape holds the negative length ", dim);
      set_output(*outputs[i], Shape(std::vector<std::int64_t>(dims.begin(), dims.end())));
    }
  }
  void reshape(const Blobs&, const Blobs&) override {}
  void forward(Pass&, const Blobs&, const Blobs&) override {}
  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}
};

const RegisterLayer<InputLayer> registered_input("Input",
                                                 {"blobs that the program fills", "input_param", {}});

}  // namespace
}  // namespace banyan
