// Embed: each input value, an integer in [0, input_dim), becomes its row of the weights (input_dim x
// num_output), plus a bias. The output has one axis more than the input.
#include "banyan/layers/index_note.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/ops/elementwise.hpp"
#include "banyan/ops/rows.hpp"

namespace banyan {
namespace {

class EmbedLayer : public Layer {
 public:
  EmbedLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.backward_reads_outputs = false, .differentiable_inputs = 0, .label_input = 0}) {}

  void read_settings() override {
    const auto& settings = parameter_.embed_param();
    require_num_output(settings.has_num_output(), settings.num_output());
    if (settings.input_dim() == 0) refuse("input_dim must be positive");
    declare(Shape{settings.input_dim(), settings.num_output()}, settings.weight_filler());
    if (settings.bias_term()) declare(Shape{settings.num_output()}, settings.bias_filler());
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    std::vector<std::int64_t> dims = inputs[0]->shape.dims();
    dims.push_back(parameter_.embed_param().num_output());
    set_output(*outputs[0], Shape(dims));
    over_ = {inputs[0]->shape.count(), dims.back(), 1};
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    Tensor& y = outputs[0]->data;
    ops::note_outside(context, inputs[0]->data, 1, rows(), note_.on(context));
    ops::gather_rows(context, parameters_[0].value, rows(), inputs[0]->data, y);
    if (parameters_.size() > 1) ops::scale_bias(context, y, none_, parameters_[1].value, over_, {}, y);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>&, const Blobs& inputs) override {
    const Tensor& dy = outputs[0]->grad;
    if (parameters_[0].grad.defined())
      ops::add_to_rows(*pass.context, dy, inputs[0]->data, rows(), parameters_[0].grad);
    if (parameters_.size() > 1 && parameters_[1].grad.defined())
      ops::scale_backward(*pass.context, none_, dy, over_, parameters_[1].grad);
  }

  void check_results(Context& context) override { note_.check(context, name(), rows()); }

 private:
  std::int64_t rows() const { return parameters_[0].shape[0]; }

  ops::Broadcast over_{};
  IndexNote note_;
  Tensor none_;
};

const RegisterLayer<EmbedLayer> registered_embed(
    "Embed", {.about = "learned vectors for integers",
              .message = "embed_param",
              .examples = {"num_output: 3 input_dim: 4 weight_filler { value: 1 }",
                           "num_output: 3 input_dim: 2 bias_term: false"},
              .inputs = {{}}});

}  // namespace
}  // namespace banyan
