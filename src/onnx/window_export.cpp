// Convolutions, pooling, its reversal and Interp in ONNX. A window's settings are read as the layers read
// them; what the layers refuse does not occur here.
#include <google/protobuf/repeated_field.h>

#include <algorithm>

#include "layer_export.hpp"

namespace banyan::onnx {
namespace {

using Field = google::protobuf::RepeatedField<google::protobuf::uint32>;

/// `repeated` once or once per axis, or the _h and _w forms, or `absent`.
Integers per_axis(const Field& repeated, bool has_h_or_w, std::int64_t h, std::int64_t w, std::size_t axes,
                  std::int64_t absent) {
  if (has_h_or_w) return {h, w};
  Integers lengths(axes, absent);
  for (std::size_t i = 0; i < axes && !repeated.empty(); ++i)
    lengths[i] = repeated.Get(repeated.size() == 1 ? 0 : static_cast<int>(i));
  return lengths;
}

Integers twice(Integers pad) {
  Integers both = pad;
  both.insert(both.end(), pad.begin(), pad.end());
  return both;
}

void export_convolution(const LayerExport& layer, const char* type, std::int64_t group) {
  const auto& s = layer.settings().convolution_param();
  const auto axes = static_cast<std::size_t>(layer.inputs[0]->shape.axes());
  if (axes < 3 || layer.inputs[0]->shape.canonical_axis(s.axis()) != 1)
    layer.refuse("an input without spatial axes, or an axis other than 1");
  const std::size_t spatial = axes - 2;
  const auto& weight = layer.shape(0).dims();
  const Attributes attributes = {
      {"kernel_shape", Integers(weight.begin() + 2, weight.end())},
      {"strides",
       per_axis(s.stride(), s.has_stride_h() || s.has_stride_w(), s.has_stride_h() ? s.stride_h() : 1,
                s.has_stride_w() ? s.stride_w() : 1, spatial, 1)},
      {"pads", twice(per_axis(s.pad(), s.has_pad_h() || s.has_pad_w(), s.pad_h(), s.pad_w(), spatial, 0))},
      {"dilations", per_axis(s.dilation(), s.has_dilation_h() || s.has_dilation_w(),
                             s.has_dilation_h() ? s.dilation_h() : 1, s.has_dilation_w() ? s.dilation_w() : 1,
                             spatial, 1)},
      {"group", group}};
  const std::string weights = layer.parameter(0), bias = layer.parameter(1);
  for (std::size_t i = 0; i < layer.in.size(); ++i) {
    Names from = {layer.in[i], weights};
    if (!bias.empty()) from.push_back(bias);
    layer.graph.node(type, from, {layer.out[i]}, attributes);
  }
}

struct Windows {
  Integers kernel, stride, pad;
  Integers overhang;  ///< how far the last window reaches beyond the input, padding not included
};

Windows windows_of(const LayerExport& layer) {
  const auto& s = layer.settings().pooling_param();
  const Shape &input = layer.inputs[0]->shape, &output = layer.outputs[0]->shape;
  const auto axes = static_cast<std::size_t>(input.axes() - 2);
  Windows windows;
  windows.kernel = s.global_pooling()
                       ? Integers(input.dims().begin() + 2, input.dims().end())
                       : per_axis(s.kernel_size(), s.has_kernel_h(), s.kernel_h(), s.kernel_w(), axes, 1);
  windows.stride = per_axis(s.stride(), s.has_stride_h(), s.stride_h(), s.stride_w(), axes, 1);
  windows.pad = per_axis(s.pad(), s.has_pad_h(), s.pad_h(), s.pad_w(), axes, 0);
  for (std::size_t i = 0; i < axes; ++i) {
    const int axis = static_cast<int>(i) + 2;
    const std::int64_t begin = (output[axis] - 1) * windows.stride[i] - windows.pad[i];
    if (begin >= input[axis])
      layer.refuse("along axis ", axis, " the last window of ", windows.kernel[i], " begins at ", begin,
                   ", outside of the ", input[axis], " values");
    windows.overhang.push_back(std::max<std::int64_t>(begin + windows.kernel[i] - input[axis], 0));
  }
  return windows;
}

Integers joined(Integers begin, const Integers& end) {
  begin.insert(begin.end(), end.begin(), end.end());
  return begin;
}

/// Caffe's padded averages divide by the window within the padding: what reaches beyond it does not count.
/// ONNX counts all of the padding or none of it. So if a window reaches beyond, the padding becomes zeros of
/// the input, and the rest padding that does not count. With avg_include_pad: false nothing outside counts.
void export_average(const LayerExport& layer, const Windows& windows, Attributes attributes) {
  bool padded = false, beyond = false;
  const bool within = !layer.settings().pooling_param().avg_include_pad();
  Integers rest, with_batch(2, 0), zeros(windows.pad.size(), 0);
  for (std::size_t i = 0; i < windows.pad.size(); ++i) {
    padded |= windows.pad[i] > 0;
    beyond |= windows.overhang[i] > windows.pad[i];
    rest.push_back(std::max<std::int64_t>(windows.overhang[i] - windows.pad[i], 0));
    with_batch.push_back(windows.pad[i]);
  }
  std::string from = layer.in[0];
  const bool counted = padded && !beyond && !within;
  if (padded && beyond && !within)
    from = layer.step("Pad", {from, layer.graph.integers(layer.inner("pads"), twice(with_batch))}, "padded");
  attributes.push_back({"pads", counted || within ? joined(windows.pad, windows.overhang)
                                : padded          ? joined(zeros, rest)
                                                  : joined(zeros, windows.overhang)});
  attributes.push_back({"count_include_pad", std::int64_t{counted}});
  layer.node("AveragePool", {from}, attributes);
}

/// The second output holds positions in the plane, ONNX's those in the whole input. (Of equal maxima ONNX
/// Runtime takes the first, as Pooling does; ONNX says nothing of them.)
void export_maximum_and_position(const LayerExport& layer, const Windows& windows,
                                 const Attributes& attributes) {
  const Shape &input = layer.inputs[0]->shape, &output = layer.outputs[0]->shape;
  bool overlap = false;
  for (std::size_t i = 0; i < windows.kernel.size(); ++i)
    overlap |= windows.kernel[i] > windows.stride[i] && output[static_cast<int>(i) + 2] > 1;
  if (!overlap) layer.distinct_positions.insert(layer.out[1]);
  const std::string place = layer.graph.unique(layer.inner("place"));
  layer.graph.node("MaxPool", layer.in, {layer.out[0], place}, attributes);
  const std::string in_plane = layer.step(
      "Mod", {place, layer.graph.integers(layer.inner("plane"), {input.count(2)})}, "place_in_plane");
  layer.graph.node("Cast", {in_plane}, {layer.out[1]},
                   {{"to", std::int64_t{banyan_onnx::TensorProto::FLOAT}}});
}

void export_pooling(const LayerExport& layer) {
  const auto& s = layer.settings().pooling_param();
  const bool average = s.pool() == caffe::PoolingParameter::AVE;
  if (!average && s.pool() != caffe::PoolingParameter::MAX) layer.refuse("STOCHASTIC pooling");
  if (s.global_pooling() && layer.out.size() == 1) {
    layer.node(average ? "GlobalAveragePool" : "GlobalMaxPool", layer.in);
    return;
  }
  const Windows windows = windows_of(layer);
  Attributes attributes = {{"kernel_shape", windows.kernel}, {"strides", windows.stride}};
  if (average) {
    export_average(layer, windows, attributes);
    return;
  }
  attributes.push_back({"pads", joined(windows.pad, windows.overhang)});
  if (layer.out.size() > 1)
    export_maximum_and_position(layer, windows, attributes);
  else
    layer.node("MaxPool", layer.in, attributes);
}

/// Each pixel to the position in the plane that the second input holds, zeros elsewhere. Where several pixels
/// have one position the last one stays; which one ScatterElements keeps is undefined.
void export_unpooling(const LayerExport& layer) {
  if (!layer.distinct_positions.contains(layer.in[1]))
    layer.refuse("positions that several pixels may have: the mask ", quoted(layer.inputs[1]->name),
                 " is no second output of a Pooling layer whose windows do not overlap");
  const Shape &input = layer.inputs[0]->shape, &output = layer.outputs[0]->shape;
  const Integers planes = {input[0], input[1], input.count(2)};
  const std::string place = layer.step("Cast", {layer.reshaped(layer.in[1], planes, "place")}, "index",
                                       {{"to", std::int64_t{banyan_onnx::TensorProto::INT64}}});
  const std::string zeros =
      layer.step("Expand",
                 {layer.graph.scalar(layer.inner("zero"), 0),
                  layer.graph.integers(layer.inner("planes"), {output[0], output[1], output.count(2)})},
                 "zeros");
  const std::string spread =
      layer.step("ScatterElements", {zeros, place, layer.reshaped(layer.in[0], planes, "pixels")}, "spread",
                 {{"axis", std::int64_t{2}}});
  layer.node("Reshape", {spread, layer.graph.integers(layer.inner("shape"), output.dims())});
}

void export_upsample(const LayerExport& layer) {
  if (layer.in.size() > 1) return export_unpooling(layer);
  layer.node(
      "Resize",
      {layer.in[0], "", "", layer.graph.integers(layer.inner("sizes"), layer.outputs[0]->shape.dims())},
      {{"mode", std::string("nearest")},
       {"coordinate_transformation_mode", std::string("asymmetric")},
       {"nearest_mode", std::string("floor")}});
}

void resize_with_aligned_corners(const LayerExport& layer, const std::string& from) {
  layer.node(
      "Resize", {from, "", "", layer.graph.integers(layer.inner("sizes"), layer.outputs[0]->shape.dims())},
      {{"mode", std::string("linear")}, {"coordinate_transformation_mode", std::string("align_corners")}});
}

void export_interp(const LayerExport& layer) {
  const auto& s = layer.settings().interp_param();
  std::string from = layer.in[0];
  if (s.pad_beg() != 0 || s.pad_end() != 0) {
    const Shape& input = layer.inputs[0]->shape;
    from = layer.step(
        "Slice",
        {from, layer.graph.integers(layer.inner("starts"), {-s.pad_beg(), -s.pad_beg()}),
         layer.graph.integers(layer.inner("ends"), {input[2] + s.pad_end(), input[3] + s.pad_end()}),
         layer.graph.integers(layer.inner("axes"), {2, 3})},
        "cut");
  }
  resize_with_aligned_corners(layer, from);
}

}  // namespace

const std::vector<ExportRow>& window_exports() {
  static const ExportFunction depthwise = [](const LayerExport& layer) {
    export_convolution(layer, "Conv", layer.inputs[0]->shape[1]);
  };
  static const std::vector<ExportRow> rows = {
      {"Convolution",
       [](const LayerExport& layer) {
         export_convolution(layer, "Conv", layer.settings().convolution_param().group());
       }},
      {"ConvolutionDepthwise", depthwise},
      {"DepthwiseConvolution", depthwise},
      {"Deconvolution",
       [](const LayerExport& layer) {
         export_convolution(layer, "ConvTranspose", layer.settings().convolution_param().group());
       }},
      {"BilinearInterpolation",
       [](const LayerExport& layer) { resize_with_aligned_corners(layer, layer.in[0]); }},
      {"Interp", export_interp},
      {"Pooling", export_pooling},
      {"Unpooling",
       [](const LayerExport& layer) {
         if (layer.in.size() == 1)
           layer.refuse("unpool " + caffe::UnpoolingParameter::UnpoolMethod_Name(
                                        layer.settings().unpooling_param().unpool()));
         export_unpooling(layer);
       }},
      {"Upsample", export_upsample},
  };
  return rows;
}

}  // namespace banyan::onnx
