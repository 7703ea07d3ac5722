// InnerProduct: y (M x N) = x (M x K) W^T + b; see rows_layer.hpp. W is (N, K), or (K, N) with `transpose:
// true`; b is (N).
#include "rows_layer.hpp"

namespace banyan {
namespace {

class InnerProductLayer : public RowsLayer {
 public:
  InnerProductLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : RowsLayer(parameter, options,
                  {.arity = {1, 3, 1, 1},
                   .storage = parameter.bottom_size() > 1 ? StorageRule::full : StorageRule::sixteen_bits,
                   .backward_reads_outputs = false,
                   .compared_inputs = 1,
                   .overwrites_gradients = true,
                   .fuses_activation = ActivationFusion::forward,
                   .fuses_dropout = true}) {}

  void read_settings() override {
    RowsLayer::read_settings();
    if (parameter_.inner_product_param().has_distance_type())
      refuse("distance_type is a setting of InnerDistance");
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    make_rows(context);
    if (m_ == 0) return;
    Tensor& y = outputs[0]->data;
    ops::gemm(context, {false, !settings_.transpose, m_, n_, k_}, 1, inputs[0]->data, rows(inputs), 0, y);
    const Tensor& added = bias(inputs);
    const ops::Activation& activation = pass.fused.output;
    if (const Dropping& dropping = pass.fused.dropping; dropping.on())
      ops::activate_and_drop(context, y, added, activation, dropping.ratio, dropping.key(pass), pass.samples,
                             y);
    else if (added.defined())
      ops::scale_bias(context, y, none_, added, {m_, n_, 1}, activation, y);
    else
      ops::activate(context, activation, y);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!begin_backward(pass, outputs, propagate, inputs)) return;
    Context& context = *pass.context;
    const Tensor &x = inputs[0]->data, &dy = outputs[0]->grad;
    const bool transpose = settings_.transpose;
    if (const auto [dw, keep] = target(pass, 0, propagate, inputs); dw != nullptr) {
      if (transpose)
        ops::gemm(context, {true, false, k_, n_, m_}, 1, x, dy, keep, *dw);
      else
        ops::gemm(context, {true, false, n_, k_, m_}, 1, dy, x, keep, *dw);
    }
    if (propagate[0])
      ops::gemm(context, {false, transpose, m_, k_, n_}, 1, dy, rows(inputs), 0, inputs[0]->grad);
  }

 private:
  RowSettings row_settings() const override {
    const auto& s = parameter_.inner_product_param();
    return {s.has_num_output(), s.num_output(), s.axis(),          s.bias_term(),
            s.transpose(),      s.normalize(),  s.weight_filler(), s.bias_filler()};
  }
};

const RegisterLayer<InnerProductLayer> registered_inner_product(
    "InnerProduct",
    {"fully connected layer", "inner_product_param", {"num_output: 3 weight_filler { value: 1 }"}});

}  // namespace
}  // namespace banyan
