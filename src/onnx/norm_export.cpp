// Normalizations and Softmax in ONNX.
#include "banyan/base/error.hpp"
#include "banyan/layers/batch_norm.hpp"
#include "banyan/tensor/values.hpp"
#include "layer_export.hpp"

namespace banyan::onnx {
namespace {

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

/// All axes from `first` on.
Attributes over_axes(const LayerExport& layer, std::int64_t first) {
  Integers axes;
  for (std::int64_t axis = first; axis < layer.inputs[0]->shape.axes(); ++axis) axes.push_back(axis);
  return {{"axes", axes}, {"keepdims", std::int64_t{1}}};
}

void export_mvn(const LayerExport& layer) {
  const auto& s = layer.settings().mvn_param();
  const std::int64_t first = s.across_channels() ? 1 : 2;
  if (first >= layer.inputs[0]->shape.axes()) layer.refuse("channels of one value");
  const Attributes axes = over_axes(layer, first);
  const Names difference = {layer.in[0], layer.step("ReduceMean", layer.in, "mean", axes)};
  if (!s.normalize_variance()) {
    layer.node("Sub", difference);
    return;
  }
  const std::string centred = layer.step("Sub", difference, "centred");
  const std::string squares = layer.step("Mul", {centred, centred}, "squares");
  const std::string deviation =
      layer.step("Sqrt", {layer.step("ReduceMean", {squares}, "variance", axes)}, "deviation");
  layer.node("Div", {centred, layer.with_number("Add", deviation, s.eps(), "divisor")});
}

void export_normalize(const LayerExport& layer) {
  const auto& s = layer.settings().norm_param();
  const bool by_channels = layer.settings().has_normalize_param(), scaled = layer.has(0),
             whole = !by_channels && (!scaled || s.across_spatial());
  const Attributes axes =
      whole ? over_axes(layer, 1) : Attributes{{"axes", Integers{1}}, {"keepdims", std::int64_t{1}}};
  const std::string squares = layer.step("ReduceSumSquare", layer.in, "squares", axes);
  const double eps = by_channels ? 1e-6 : s.eps();
  const std::string norm = layer.step("Sqrt", {layer.with_number("Add", squares, eps, "sum")}, "norm");
  if (layer.out.size() > 1) layer.graph.node("Identity", {norm}, {layer.out[1]});
  if (!scaled) {
    layer.node("Div", {layer.in[0], norm});
    return;
  }
  Shape scale;
  if (!s.channel_shared()) {
    scale = Shape(Integers(static_cast<std::size_t>(layer.inputs[0]->shape.axes() - 1), 1));
    scale.set_dim(0, layer.shape(0).count());
  }
  layer.node("Mul", {layer.step("Div", {layer.in[0], norm}, "unit"), layer.parameter(0, scale)});
}

void export_softmax(const LayerExport& layer) {
  layer.node("Softmax", layer.in, {{"axis", layer.axis(layer.settings().softmax_param().axis())}});
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
                      mean = values(dialect.mean, 0), variance = values(dialect.variance, 1 - dialect.eps);
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

const std::vector<ExportRow>& norm_exports() {
  static const std::vector<ExportRow> rows = {
      {"LRN", export_lrn},
      {"MVN", export_mvn},
      {"Normalize", export_normalize},
      {"Softmax", export_softmax},
  };
  return rows;
}

}  // namespace banyan::onnx
