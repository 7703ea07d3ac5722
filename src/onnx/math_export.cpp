// Layers that compute, in ONNX.
#include <cmath>

#include "banyan/base/error.hpp"
#include "layer_export.hpp"
#include "layers/covered_axes.hpp"

namespace banyan::onnx {
namespace {

/// A list of nodes with one input and one output each, the last of which writes the layer's output.
class Chain {
 public:
  explicit Chain(const LayerExport& layer) : layer_(layer), at_(layer.in[0]) {}

  /// `type` of what there is so far and a number; nothing where that changes no value.
  Chain& with(const std::string& type, double number) {
    if (number != (type == "Add" ? 0 : 1)) append(type, {number});
    return *this;
  }
  Chain& apply(const std::string& type) {
    append(type, {});
    return *this;
  }
  void finish() {
    if (pending_.empty()) apply("Identity");
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      const auto& [type, numbers] = pending_[i];
      Names from = {at_};
      for (const double number : numbers)
        from.push_back(layer_.graph.scalar(layer_.inner(cat(type, "_", i)), number));
      if (i + 1 == pending_.size())
        layer_.node(type, from);
      else
        at_ = layer_.step(type, from, cat("after_", type, "_", i));
    }
  }

 private:
  void append(const std::string& type, std::vector<double> numbers) {
    pending_.emplace_back(type, std::move(numbers));
  }

  const LayerExport& layer_;
  std::string at_;
  std::vector<std::pair<std::string, std::vector<double>>> pending_;
};

/// -1 stands for e.
double logarithm_of(double base) { return base == -1 ? 1 : std::log(base); }

void export_power(const LayerExport& layer) {
  const auto& s = layer.settings().power_param();
  if (s.power() != 0 && s.scale() != 0) {
    Chain(layer).with("Mul", s.scale()).with("Add", s.shift()).with("Pow", s.power()).finish();
    return;
  }
  const double value = s.power() == 0 ? 1 : std::pow(static_cast<double>(s.shift()), s.power());
  layer.node("Expand", {layer.graph.scalar(layer.inner("value"), value),
                        layer.graph.integers(layer.inner("shape"), layer.outputs[0]->shape.dims())});
}

void export_exp(const LayerExport& layer) {
  const auto& s = layer.settings().exp_param();
  const double base = logarithm_of(s.base());
  Chain(layer).with("Mul", base * s.scale()).with("Add", base * s.shift()).apply("Exp").finish();
}

void export_log(const LayerExport& layer) {
  const auto& s = layer.settings().log_param();
  Chain(layer)
      .with("Mul", s.scale())
      .with("Add", s.shift())
      .apply("Log")
      .with("Mul", 1 / logarithm_of(s.base()))
      .finish();
}

void export_relu(const LayerExport& layer) {
  const float slope = layer.settings().relu_param().negative_slope();
  if (slope == 0)
    layer.node("Relu", layer.in);
  else
    layer.node("LeakyRelu", layer.in, {{"alpha", slope}});
}

/// As in tests, where negative values have one slope.
void export_insanity(const LayerExport& layer) {
  const double lb = layer.settings().insanity_param().lb(), ub = layer.settings().insanity_param().ub();
  layer.node("LeakyRelu", layer.in, {{"alpha", static_cast<float>(std::log(ub / lb) / (ub - lb))}});
}

void export_crelu(const LayerExport& layer) {
  const auto& s = layer.settings().crelu_param();
  const auto rectified = [&](const std::string& x, const std::string& name) {
    return s.negative_slope() == 0 ? layer.step("Relu", {x}, name)
                                   : layer.step("LeakyRelu", {x}, name, {{"alpha", s.negative_slope()}});
  };
  const std::string negative = layer.step("Neg", layer.in, "negated");
  layer.node("Concat", {rectified(layer.in[0], "positive"), rectified(negative, "negative")},
             {{"axis", static_cast<std::int64_t>(s.concat_axis())}});
}

void export_elu(const LayerExport& layer) {
  const auto& s = layer.settings().elu_param();
  if (s.lambda() == 1)
    layer.node("Elu", layer.in, {{"alpha", s.alpha()}});
  else
    layer.node("Selu", layer.in, {{"alpha", s.alpha()}, {"gamma", s.lambda()}});
}

void export_prelu(const LayerExport& layer) {
  Shape slope{1};
  if (!layer.settings().prelu_param().channel_shared()) {
    slope = Shape(Integers(static_cast<std::size_t>(layer.inputs[0]->shape.axes() - 1), 1));
    slope.set_dim(0, layer.shape(0).count());
  }
  layer.node("PRelu", {layer.in[0], layer.parameter(0, slope)});
}

void export_swish(const LayerExport& layer) {
  const double beta = layer.settings().swish_param().beta();
  const std::string scaled = beta == 1 ? layer.in[0] : layer.with_number("Mul", layer.in[0], beta, "scaled");
  layer.node("Mul", {layer.in[0], layer.step("Sigmoid", {scaled}, "sigmoid")});
}

/// Mish itself is in later sets of operators only.
void export_mish(const LayerExport& layer) {
  const std::string softplus = layer.step("Softplus", layer.in, "softplus");
  layer.node("Mul", {layer.in[0], layer.step("Tanh", {softplus}, "tanh")});
}

void export_clip(const LayerExport& layer) {
  const auto& s = layer.settings().clip_param();
  layer.node("Clip", {layer.in[0], layer.graph.scalar(layer.inner("min"), s.min()),
                      layer.graph.scalar(layer.inner("max"), s.max())});
}

void export_threshold(const LayerExport& layer) {
  const double threshold = layer.settings().threshold_param().threshold();
  layer.node("Cast", {layer.with_number("Greater", layer.in[0], threshold, "above")},
             {{"to", std::int64_t{banyan_onnx::TensorProto::FLOAT}}});
}

/// A second input or a parameter, with axes of length 1 after those that it covers.
std::string operand(const LayerExport& layer, std::size_t slot, const CoveredAxes& covered) {
  Integers lengths = covered.operand.dims();
  const int after = layer.inputs[0]->shape.axes() - covered.axis - covered.operand.axes();
  if (covered.operand.axes() > 0) lengths.resize(lengths.size() + static_cast<std::size_t>(after), 1);
  if (layer.in.size() == 1 || slot > 0) return layer.parameter(slot - (layer.in.size() - 1), Shape(lengths));
  if (lengths == covered.operand.dims()) return layer.in[1];
  return layer.step("Reshape", {layer.in[1], layer.graph.integers(layer.inner("operand"), lengths)},
                    "spread");
}

template <class Settings>
CoveredAxes covered_by(const LayerExport& layer, const Settings& s) {
  const Shape& input = layer.inputs[0]->shape;
  return layer.in.size() > 1 ? covered_by_input(layer.layer.name(), input, s.axis(), layer.inputs[1]->shape)
                             : covered_by_parameter(layer.layer.name(), input, s.axis(), s.num_axes());
}

void export_scale(const LayerExport& layer) {
  const auto& s = layer.settings().scale_param();
  if (s.has_min_value() || s.has_max_value()) layer.refuse("min_value or max_value");
  const CoveredAxes covered = covered_by(layer, s);
  const Names factors = {layer.in[0], operand(layer, 0, covered)};
  if (s.bias_term())
    layer.node("Add", {layer.step("Mul", factors, "scaled"), operand(layer, 1, covered)});
  else
    layer.node("Mul", factors);
}

/// Inputs a, x, b: a x + b.
void export_axpy(const LayerExport& layer) {
  const Shape& x = layer.inputs[1]->shape;
  Integers factor(static_cast<std::size_t>(x.axes()), 1);
  factor[0] = x[0];
  factor[1] = x[1];
  const std::string a =
      layer.step("Reshape", {layer.in[0], layer.graph.integers(layer.inner("factors"), factor)}, "spread");
  layer.node("Add", {layer.step("Mul", {a, layer.in[1]}, "product"), layer.in[2]});
}

void export_bias(const LayerExport& layer) {
  layer.node("Add", {layer.in[0], operand(layer, 0, covered_by(layer, layer.settings().bias_param()))});
}

void export_eltwise(const LayerExport& layer) {
  const auto& s = layer.settings().eltwise_param();
  const Shape& first = layer.inputs[0]->shape;
  Names terms = layer.in;
  for (std::size_t i = 1; i < terms.size(); ++i) {
    const int axes = layer.inputs[i]->shape.axes();
    if (axes == first.axes()) continue;  // else ones at the end, which would be spread
    Integers lengths = first.dims();
    if (!lengths.empty() && axes > 0) lengths[0] = 0;  // copies the length: another batch size stays possible
    terms[i] = layer.reshaped(terms[i], lengths, cat("input_", i));
  }
  if (s.operation() == caffe::EltwiseParameter::MAX) {
    layer.node("Max", terms);
    return;
  }
  if (s.operation() != caffe::EltwiseParameter::PROD) {
    for (int i = 0; i < s.coeff_size(); ++i)
      if (s.coeff(i) != 1) terms[i] = layer.with_number("Mul", terms[i], s.coeff(i), cat("term_", i));
    layer.node("Sum", terms);
    return;
  }
  std::string product = terms[0];
  for (std::size_t i = 1; i + 1 < terms.size(); ++i)
    product = layer.step("Mul", {product, terms[i]}, cat("product_", i));
  layer.node("Mul", {product, terms.back()});
}

void export_inner_product(const LayerExport& layer) {
  const auto& s = layer.settings().inner_product_param();
  if (s.normalize()) layer.refuse("normalize");
  if (layer.inputs.size() > 1) layer.refuse("weights as second input");
  const Shape& input = layer.inputs[0]->shape;
  const std::int64_t axis = layer.axis(s.axis());
  std::string from = layer.in[0];
  if (axis != 1 || input.axes() != 2) from = layer.step("Flatten", {from}, "rows", {{"axis", axis}});
  Names factors = {from, layer.parameter(0)};
  if (layer.has(1)) factors.push_back(layer.parameter(1));
  const Attributes attributes = {{"transB", std::int64_t{!s.transpose()}}};
  if (axis == 1)
    layer.node("Gemm", factors, attributes);
  else
    layer.node("Reshape", {layer.step("Gemm", factors, "products", attributes),
                           layer.graph.integers(layer.inner("shape"), layer.outputs[0]->shape.dims())});
}

/// Of equal values the later one counts.
void export_argmax(const LayerExport& layer) {
  const auto& s = layer.settings().argmax_param();
  if (s.top_k() != 1 || s.out_max_val()) layer.refuse("top_k or out_max_val");
  std::string from = layer.in[0];
  if (!s.has_axis())
    from = layer.step("Reshape", {from, layer.graph.integers(layer.inner("sample"), {0, -1})}, "samples");
  const std::string place =
      layer.step("ArgMax", {from}, "place",
                 {{"axis", s.has_axis() ? layer.axis(s.axis()) : 1}, {"select_last_index", std::int64_t{1}}});
  layer.reshape(
      layer.step("Cast", {place}, "number", {{"to", std::int64_t{banyan_onnx::TensorProto::FLOAT}}}));
}

void export_embed(const LayerExport& layer) {
  const std::string index =
      layer.step("Cast", layer.in, "index", {{"to", std::int64_t{banyan_onnx::TensorProto::INT64}}});
  const Names from = {layer.parameter(0), index};
  if (layer.has(1))
    layer.node("Add", {layer.step("Gather", from, "rows"), layer.parameter(1)});
  else
    layer.node("Gather", from);
}

void export_reduction(const LayerExport& layer) {
  const auto& s = layer.settings().reduction_param();
  Integers axes;
  for (std::int64_t axis = layer.axis(s.axis()); axis < layer.inputs[0]->shape.axes(); ++axis)
    axes.push_back(axis);
  const bool sum = s.operation() == caffe::ReductionParameter::SUM;
  const char* type = sum                                                 ? "ReduceSum"
                     : s.operation() == caffe::ReductionParameter::ASUM  ? "ReduceL1"
                     : s.operation() == caffe::ReductionParameter::SUMSQ ? "ReduceSumSquare"
                                                                         : "ReduceMean";
  Names from = layer.in;
  Attributes attributes = {{"keepdims", std::int64_t{0}}};
  if (sum)
    from.push_back(layer.graph.integers(layer.inner("axes"), axes));
  else
    attributes.push_back({"axes", axes});
  if (s.coeff() == 1) {
    layer.node(type, from, attributes);
    return;
  }
  const std::string reduced = layer.step(type, from, "reduced", attributes);
  layer.node("Mul", {reduced, layer.graph.scalar(layer.inner("coeff"), s.coeff())});
}

}  // namespace

const std::vector<ExportRow>& math_exports() {
  static const std::vector<ExportRow> rows = {
      {"ArgMax", export_argmax},
      {"Axpy", export_axpy},
      {"AbsVal", [](const LayerExport& layer) { layer.node("Abs", layer.in); }},
      {"BNLL", [](const LayerExport& layer) { layer.node("Softplus", layer.in); }},
      {"Bias", export_bias},
      {"Clip", export_clip},
      {"ELU", export_elu},
      {"Eltwise", export_eltwise},
      {"Embed", export_embed},
      {"Exp", export_exp},
      {"InnerProduct", export_inner_product},
      {"Insanity", export_insanity},
      {"Log", export_log},
      {"PReLU", export_prelu},
      {"Power", export_power},
      {"ReLU", export_relu},
      {"Reduction", export_reduction},
      {"Scale", export_scale},
      {"Sigmoid", [](const LayerExport& layer) { layer.node("Sigmoid", layer.in); }},
      {"Swish", export_swish},
      {"HardSwish", [](const LayerExport& layer) { layer.node("HardSwish", layer.in); }},
      {"Mish", export_mish},
      {"CReLU", export_crelu},
      {"TanH", [](const LayerExport& layer) { layer.node("Tanh", layer.in); }},
      {"Threshold", export_threshold},
  };
  return rows;
}

}  // namespace banyan::onnx
