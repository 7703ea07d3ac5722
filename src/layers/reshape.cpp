// Reshape: replaces `num_axes` axes from `axis` on by `shape`, over the same memory. In `shape`, 0 copies the
// input's axis at that position, and one -1 is inferred from the count.
#include <algorithm>

#include "banyan/layers/layer.hpp"

namespace banyan {
namespace {

class ReshapeLayer : public Layer {
 public:
  ReshapeLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.storage = StorageRule::follows,
               .view = View::data_and_gradient,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false}) {}

  void read_settings() override {
    const auto& dims = parameter_.reshape_param().shape().dim();
    if (std::count(dims.begin(), dims.end(), -1) > 1) refuse("shape may hold one -1 only");
    for (const std::int64_t dim : dims)
      if (dim < -1) refuse("shape holds ", dim, "; expected a length, 0 (copy) or -1 (infer)");
    if (parameter_.reshape_param().num_axes() < -1) refuse("num_axes must be at least -1");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = inputs[0]->shape;
    const auto [from, to] = replaced_axes(input);
    std::vector<std::int64_t> dims(input.dims().begin(), input.dims().begin() + from);
    for (const std::int64_t dim : replacement(input, from, to)) dims.push_back(dim);
    dims.insert(dims.end(), input.dims().begin() + to, input.dims().end());
    const Shape shape(dims);
    if (shape.count() != input.count())
      refuse("input ", quoted(inputs[0]->name), " of shape ", input.to_string(), " cannot become ",
             shape.to_string());
    set_output(*outputs[0], shape);
  }
  void forward(Pass&, const Blobs&, const Blobs&) override {}
  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  /// Axes [first, second) are replaced; axis -1 inserts after the last one.
  std::pair<int, int> replaced_axes(const Shape& input) const {
    const auto& settings = parameter_.reshape_param();
    const int from = settings.axis() >= 0 ? settings.axis() : input.axes() + settings.axis() + 1;
    if (from < 0 || from > input.axes())
      refuse("axis ", settings.axis(), " is out of range for an input of ", input.axes(), " axes");
    const int to = settings.num_axes() == -1 ? input.axes() : from + settings.num_axes();
    if (to > input.axes())
      refuse("axis + num_axes is ", to, ", more than the ", input.axes(), " axes of the input");
    return {from, to};
  }

  std::vector<std::int64_t> replacement(const Shape& input, int from, int to) const {
    const auto& wanted = parameter_.reshape_param().shape().dim();
    std::vector<std::int64_t> dims(wanted.begin(), wanted.end());
    // Copied axes cancel out of the quotient that gives the inferred length, so an empty batch divides
    // nothing by 0.
    std::vector<bool> copied(static_cast<std::size_t>(input.axes()), false);
    std::int64_t known = 1;
    for (int i = 0; i < static_cast<int>(dims.size()); ++i) {
      std::int64_t& dim = dims[i];
      if (dim == 0) {
        if (from + i >= input.axes())
          refuse("shape copies (0) axis ", from + i, " of an input of ", input.axes());
        dim = input[from + i];
        if (from + i < to) {
          copied[from + i] = true;
          continue;
        }
      }
      if (dim >= 0) known *= dim;
    }
    const auto inferred = std::find(dims.begin(), dims.end(), -1);
    if (inferred == dims.end()) return dims;
    std::int64_t replaced = 1;
    for (int i = from; i < to; ++i)
      if (!copied[i]) replaced *= input[i];
    if (known == 0 || replaced % known != 0)
      refuse("the -1 in shape would stand for ", replaced, " / ", known, " values");
    *inferred = replaced / known;
    return dims;
  }
};

const RegisterLayer<ReshapeLayer> registered_reshape("Reshape", {"gives a blob another shape",
                                                                 "reshape_param",
                                                                 {"shape { dim: 0 dim: -1 }"}});

}  // namespace
}  // namespace banyan
