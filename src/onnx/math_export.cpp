// Layers that compute, in ONNX.
#include <cmath>

#include "banyan/base/error.hpp"
#include "banyan/layers/batch_norm.hpp"
#include "banyan/tensor/values.hpp"
#include "layer_export.hpp"
#include "layers/covered_axes.hpp"

namespace banyan::onnx {
namespace {

std::int64_t canonical(const LayerExport& layer, int axis) {
  return layer.inputs[0]->shape.canonical_axis(axis);
}

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
  const CoveredAxes covered = covered_by(layer, s);
  const Names factors = {layer.in[0], operand(layer, 0, covered)};
  if (s.bias_term())
    layer.node("Add", {layer.step("Mul", factors, "scaled"), operand(layer, 1, covered)});
  else
    layer.node("Mul", factors);
}

void export_bias(const LayerExport& layer) {
  layer.node("Add", {layer.in[0], operand(layer, 0, covered_by(layer, layer.settings().bias_param()))});
}

void export_eltwise(const LayerExport& layer) {
  const auto& s = layer.settings().eltwise_param();
  if (s.operation() == caffe::EltwiseParameter::MAX) {
    layer.node("Max", layer.in);
    return;
  }
  Names terms = layer.in;
  if (s.operation() == caffe::EltwiseParameter::SUM) {
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
  const Shape& input = layer.inputs[0]->shape;
  const std::int64_t axis = canonical(layer, s.axis());
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

void export_embed(const LayerExport& layer) {
  const std::string index =
      layer.step("Cast", layer.in, "index", {{"to", std::int64_t{banyan_onnx::TensorProto::INT64}}});
  const Names from = {layer.parameter(0), index};
  if (layer.has(1))
    layer.node("Add", {layer.step("Gather", from, "rows"), layer.parameter(1)});
  else
    layer.node("Gather", from);
}

/// Within channels: the average of squares over a window that never reaches beyond the padding.
void export_lrn(const LayerExport& layer) {
  const auto& s = layer.settings().lrn_param();
  const std::int64_t size = s.local_size(), pad = (size - 1) / 2;
  if (s.norm_region() == caffe::LRNParameter::ACROSS_CHANNELS) {
    layer.node("LRN", layer.in, {{"alpha", s.alpha()}, {"beta", s.beta()}, {"bias", s.k()}, {"size", size}});
    return;
  }
  const std::string squares = layer.step("Mul", {layer.in[0], layer.in[0]}, "squares");
  const std::string average = layer.step("AveragePool", {squares}, "average",
                                         {{"kernel_shape", Integers{size, size}},
                                          {"pads", Integers{pad, pad, pad, pad}},
                                          {"count_include_pad", std::int64_t{1}}});
  const std::string scaled = layer.with_number("Mul", average, s.alpha(), "scaled");
  const std::string sum = layer.with_number("Add", scaled, 1, "sum");
  layer.node("Mul", {layer.in[0], layer.with_number("Pow", sum, -s.beta(), "factor")});
}

void export_reduction(const LayerExport& layer) {
  const auto& s = layer.settings().reduction_param();
  Integers axes;
  for (std::int64_t axis = canonical(layer, s.axis()); axis < layer.inputs[0]->shape.axes(); ++axis)
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

void export_softmax(const LayerExport& layer) {
  layer.node("Softmax", layer.in, {{"axis", canonical(layer, layer.settings().softmax_param().axis())}});
}

}  // namespace

void export_batch_norm(const LayerExport& layer, const Layer* affine) {
  const auto& normalization = dynamic_cast<const BatchNormalization&>(layer.layer);
  if (!normalization.uses_stored()) layer.refuse("statistics of the batch (use_global_stats: false)");
  const Shape& input = layer.inputs[0]->shape;
  if (input.axes() < 2) layer.refuse("an input without channels");
  const BatchNormDialect& dialect = normalization.dialect();
  const auto channels = static_cast<std::size_t>(input[1]);
  const auto values = [&](int slot, double otherwise) {
    return slot < 0 ? std::vector<double>(channels, otherwise) : layer.values(static_cast<std::size_t>(slot));
  };
  std::vector<double> slope = values(dialect.slope, 1), bias = values(dialect.bias, 0),
                      mean = values(dialect.mean, 0), variance = values(dialect.variance, 1);
  const double factor = dialect.factor < 0 ? 1 : values(dialect.factor, 1)[0];
  for (std::vector<double>* statistic : {&mean, &variance})
    for (double& value : *statistic) value = factor == 0 ? 0 : value / factor;
  if (affine != nullptr) {
    const std::vector<Parameter>& parameters = affine->parameters();
    slope = values_of(layer.context, parameters[0].value).values;
    if (parameters.size() > 1) bias = values_of(layer.context, parameters[1].value).values;
  }
  const auto constant = [&](const char* name, const std::vector<double>& values) {
    return layer.graph.constant(layer.inner(name), Shape{input[1]}, values);
  };
  layer.node("BatchNormalization",
             {layer.in[0], constant("slope", slope), constant("bias", bias), constant("mean", mean),
              constant("variance", variance)},
             {{"epsilon", static_cast<float>(dialect.eps)}});
}

const std::vector<ExportRow>& math_exports() {
  static const std::vector<ExportRow> rows = {
      {"AbsVal", [](const LayerExport& layer) { layer.node("Abs", layer.in); }},
      {"BNLL", [](const LayerExport& layer) { layer.node("Softplus", layer.in); }},
      {"Bias", export_bias},
      {"Clip", export_clip},
      {"ELU", export_elu},
      {"Eltwise", export_eltwise},
      {"Embed", export_embed},
      {"Exp", export_exp},
      {"InnerProduct", export_inner_product},
      {"LRN", export_lrn},
      {"Log", export_log},
      {"PReLU", export_prelu},
      {"Power", export_power},
      {"ReLU", export_relu},
      {"Reduction", export_reduction},
      {"Scale", export_scale},
      {"Sigmoid", [](const LayerExport& layer) { layer.node("Sigmoid", layer.in); }},
      {"Softmax", export_softmax},
      {"Swish", export_swish},
      {"TanH", [](const LayerExport& layer) { layer.node("Tanh", layer.in); }},
      {"Threshold", export_threshold},
  };
  return rows;
}

}  // namespace banyan::onnx
