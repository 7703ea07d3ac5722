// Input: blobs that the program fills. input_param gives one shape for all outputs or one for each; the
// program may reshape the blobs later. Zeros until then, but where it takes the place of a Python layer that
// reads data (python_layers.cpp): there values must have been put in.
#include "layers/filled_by_program.hpp"

namespace banyan {
namespace {

class InputLayer : public FilledByProgram {
 public:
  InputLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : FilledByProgram(parameter, options, {0, 0, 1, -1}, parameter.has_python_param()) {}

  void setup(const Blobs&, const Blobs& outputs) override {
    const auto& s = parameter_.input_param();
    if (s.num_size() + s.channels_size() + s.height_size() + s.width_size() > 0)
      refuse("num, channels, height and width are for the V1 format (`layers`); give shape");
    const auto& given = s.shape();
    if (given.size() != 0 && given.size() != 1 && static_cast<std::size_t>(given.size()) != outputs.size())
      refuse("expected one shape, or one for each of ", outputs.size(), " outputs; found ", given.size());
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i < outputs.size() && given.size() > 0; ++i) {
      const auto& dims = given.Get(given.size() == 1 ? 0 : static_cast<int>(i)).dim();
      for (const std::int64_t dim : dims)
        if (dim < 0) refuse("shape holds the negative length ", dim);
      shapes.emplace_back(std::vector<std::int64_t>(dims.begin(), dims.end()));
    }
    set_outputs(outputs, shapes);
  }
  void prepare(Pass&, const Blobs& outputs) override {
    if (traits_.needs_values)
      require_values("Python", outputs,
                     "the trainer runs no module that reads its data (docs/from_caffe.md, Layers in Python)");
  }
};

const RegisterLayer<InputLayer> registered_input("Input",
                                                 {"blobs that the program fills", "input_param", {}});

}  // namespace
}  // namespace banyan
