// Layers that only move values, in ONNX.
#include "banyan/base/contains.hpp"
#include "layer_export.hpp"

namespace banyan::onnx {
namespace {

void export_concat(const LayerExport& layer) {
  const auto& s = layer.settings().concat_param();
  const int axis = s.has_concat_dim() ? static_cast<int>(s.concat_dim()) : s.axis();
  layer.node("Concat", layer.in, {{"axis", layer.axis(axis)}});
}

void export_slice(const LayerExport& layer) {
  const auto& s = layer.settings().slice_param();
  const int axis =
      layer.inputs[0]->shape.canonical_axis(s.has_slice_dim() ? static_cast<int>(s.slice_dim()) : s.axis());
  Integers lengths;
  for (const Blob* output : layer.outputs) lengths.push_back(output->shape[axis]);
  layer.graph.node("Split", {layer.in[0], layer.graph.integers(layer.inner("lengths"), lengths)}, layer.out,
                   {{"axis", std::int64_t{axis}}});
}

void export_crop(const LayerExport& layer) {
  const auto& s = layer.settings().crop_param();
  const Shape &input = layer.inputs[0]->shape, &output = layer.outputs[0]->shape;
  Integers axes, starts, ends;
  for (int axis = input.canonical_axis(s.axis()); axis < input.axes(); ++axis) {
    const auto given = static_cast<int>(axes.size());
    const std::int64_t offset = s.center_align()       ? (input[axis] - output[axis]) / 2
                                : s.offset_size() == 0 ? 0
                                                       : s.offset(s.offset_size() == 1 ? 0 : given);
    axes.push_back(axis);
    starts.push_back(offset);
    ends.push_back(offset + output[axis]);
  }
  layer.node("Slice", {layer.in[0], layer.graph.integers(layer.inner("starts"), starts),
                       layer.graph.integers(layer.inner("ends"), ends),
                       layer.graph.integers(layer.inner("axes"), axes)});
}

void export_padding(const LayerExport& layer) {
  const std::int64_t begin = layer.settings().padding_param().pad_beg(),
                     end = layer.settings().padding_param().pad_end();
  layer.node("Pad",
             {layer.in[0], layer.graph.integers(layer.inner("pads"), {0, 0, begin, begin, 0, 0, end, end})});
}

/// Axes that are not named follow.
template <class Named>
void export_order(const LayerExport& layer, const Named& named) {
  Integers axes(named.begin(), named.end());
  for (std::int64_t axis = 0; axis < layer.inputs[0]->shape.axes(); ++axis)
    if (!contains(named, axis)) axes.push_back(axis);
  layer.node("Transpose", layer.in, {{"perm", axes}});
}

/// Channels as group x each become each x group.
void export_shuffle(const LayerExport& layer) {
  const Shape& input = layer.inputs[0]->shape;
  const std::int64_t group = layer.settings().shuffle_channel_param().group();
  const std::string split =
      layer.step("Reshape",
                 {layer.in[0],
                  layer.graph.integers(layer.inner("groups"), {0, group, input[1] / group, input.count(2)})},
                 "split");
  layer.reshape(layer.step("Transpose", {split}, "shuffled", {{"perm", Integers{0, 2, 1, 3}}}));
}

void export_tile(const LayerExport& layer) {
  const auto& s = layer.settings().tile_param();
  const Shape& input = layer.inputs[0]->shape;
  Integers repeats(static_cast<std::size_t>(input.axes()), 1);
  repeats[static_cast<std::size_t>(input.canonical_axis(s.axis()))] = s.tiles();
  layer.node("Tile", {layer.in[0], layer.graph.integers(layer.inner("repeats"), repeats)});
}

void export_unchanged(const LayerExport& layer) { layer.node("Identity", layer.in); }

void export_view(const LayerExport& layer) { layer.reshape(layer.in[0]); }

}  // namespace

const std::vector<ExportRow>& move_exports() {
  static const std::vector<ExportRow> rows = {
      {"Concat", export_concat},
      {"Crop", export_crop},
      {"Dropout", export_unchanged},
      {"Flatten", export_view},
      {"GradientReversal", export_unchanged},
      {"GradientScaler", export_unchanged},
      {"Padding", export_padding},
      {"Parameter", [](const LayerExport& layer) { layer.node("Identity", {layer.parameter(0)}); }},
      {"Permute",
       [](const LayerExport& layer) { export_order(layer, layer.settings().permute_param().order()); }},
      {"Reshape", export_view},
      {"ShuffleChannel", export_shuffle},
      {"Slice", export_slice},
      {"SpatialDropout", export_unchanged},
      {"Tile", export_tile},
      {"Transpose",
       [](const LayerExport& layer) { export_order(layer, layer.settings().transpose_param().dim()); }},
  };
  return rows;
}

}  // namespace banyan::onnx
