// InnerDistance (caffe-windows, NormFace): y (M x N) = the distances of the vectors x (M x K) to the rows W
// (N x K), + b; see rows_layer.hpp. L2: sums of squared differences, L1: of their absolute values. Both are
// added up from the differences, not from lengths and products, so small distances are exact. An early
// caffe-windows has the settings in inner_product_param; a late one has no bias, so with the rows as second
// input and without bias_term there is none.
#include "banyan/ops/distance_loss.hpp"
#include "rows_layer.hpp"

namespace banyan {
namespace {

class InnerDistanceLayer : public RowsLayer {
 public:
  InnerDistanceLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : RowsLayer(parameter, options,
                  {.arity = {1, 3, 1, 1},
                   .backward_reads_outputs = false,
                   .compared_inputs = 1,
                   .overwrites_gradients = true}) {}

  void read_settings() override {
    const caffe::InnerDistanceParameter& s = parameter_.inner_distance_param();
    if (parameter_.has_inner_distance_param() && parameter_.has_inner_product_param())
      refuse("give either inner_distance_param or inner_product_param, not both");
    if (s.transpose() || parameter_.inner_product_param().transpose() || s.update_center_only())
      refuse("transpose and update_center_only are not supported");
    if (distance_type() != "L1" && distance_type() != "L2")
      refuse("distance_type ", quoted(distance_type()), " is not known; L1 and L2 are");
    absolute_ = distance_type() == "L1";
    RowsLayer::read_settings();
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    make_rows(context);
    if (m_ == 0) return;
    Tensor& y = outputs[0]->data;
    ops::distances_to_rows(context, inputs[0]->data, rows(inputs), absolute_, k_, y);
    if (const Tensor& added = bias(inputs); added.defined())
      ops::scale_bias(context, y, none_, added, {m_, n_, 1}, {}, y);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!begin_backward(pass, outputs, propagate, inputs)) return;
    Context& context = *pass.context;
    const Tensor &x = inputs[0]->data, &w = rows(inputs), &dy = outputs[0]->grad;
    if (const auto [dw, keep] = target(pass, 0, propagate, inputs); dw != nullptr) {
      if (absolute_)
        ops::absolute_distances_backward(context, w, x, dy, {k_, 1, n_}, keep, *dw);
      else
        rows_gradient(context, x, w, dy, keep, *dw);
    }
    if (!propagate[0]) return;
    Tensor& dx = inputs[0]->grad;
    if (absolute_) return ops::absolute_distances_backward(context, x, w, dy, {k_, n_, 1}, 0, dx);
    // 2 (x times the sum of its row of dy, minus dy W)
    add_up(context, dy, {1, m_, n_});
    ops::scale_bias(context, x, sums_, none_, {1, m_, k_}, {}, dx);
    ops::gemm(context, {false, false, m_, k_, n_}, -2, dy, w, 2, dx);
  }

 private:
  RowSettings row_settings() const override {
    const auto read = [&](const auto& s) {
      const bool bias = s.has_bias_term() ? s.bias_term() : parameter_.bottom_size() != 2;
      return RowSettings{s.has_num_output(), s.num_output(), s.axis(),          bias,
                         s.transpose(),      s.normalize(),  s.weight_filler(), s.bias_filler()};
    };
    return parameter_.has_inner_product_param() ? read(parameter_.inner_product_param())
                                                : read(parameter_.inner_distance_param());
  }
  std::string distance_type() const {
    if (!parameter_.inner_product_param().has_distance_type())
      return parameter_.inner_distance_param().distance_type();
    return parameter_.inner_product_param().distance_type();
  }

  /// sums_ of dy.
  void add_up(Context& context, const Tensor& dy, const ops::Broadcast& over) {
    ensure(context, sums_, Shape{over.dim}, dy.dtype());
    ops::fill(context, sums_, 0);
    ops::scale_backward(context, none_, dy, over, sums_);
  }
  /// 2 (w times the sum of its column of dy, minus dy^T x)
  void rows_gradient(Context& context, const Tensor& x, const Tensor& w, const Tensor& dy, double keep,
                     Tensor& dw) {
    ops::gemm(context, {true, false, n_, k_, m_}, -2, dy, x, keep, dw);
    add_up(context, dy, {m_, n_, 1});
    ensure(context, scaled_, w.shape(), w.dtype());
    ops::scale_bias(context, w, sums_, none_, {1, n_, k_}, {}, scaled_);
    ops::axpby(context, 2, scaled_, 1, dw);
  }

  bool absolute_ = false;
  Tensor sums_, scaled_;
};

const RegisterLayer<InnerDistanceLayer> registered_inner_distance(
    "InnerDistance", {.about = "distances to learned rows, or to those of a second blob (NormFace)",
                      .message = "inner_distance_param",
                      .examples = {"num_output: 3 weight_filler { value: 1 }",
                                   "num_output: 3 distance_type: 'L1' weight_filler { value: 1 }"},
                      .further = {"inner_product_param"}});

}  // namespace
}  // namespace banyan
