#include "banyan/train/model.hpp"

#include <glog/logging.h>

#include <algorithm>
#include <optional>
#include <set>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/field_data.hpp"
#include "banyan/data/heatmaps.hpp"
#include "banyan/data/labelled_clips.hpp"
#include "banyan/data/poses.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"
#include "banyan/io/weights.hpp"
#include "banyan/net/filter.hpp"
#include "banyan/net/fold.hpp"
#include "banyan/net/fork_settings.hpp"
#include "banyan/net/parameter_values.hpp"
#include "banyan/ops/expanded_convolution.hpp"
#include "banyan/ops/processor.hpp"
#include "banyan/train/device_choice.hpp"
#include "banyan/train/log_lines.hpp"
#include "banyan/train/solver_nets.hpp"
#include "train/made_up_labels.hpp"
#include "train/missing_data.hpp"

namespace banyan {

namespace {

/// What the source would refuse is not hidden by the data that stands in for it.
void warn_of_refusal(const caffe::LayerParameter& layer) {
  try {
    make_layer(layer, {})->read_settings();
  } catch (const Error& error) {
    log_warning(cat("--shape stands in for layer ", quoted(layer.name()), " (", layer.type(),
                    "), which cannot be trained with as it is: ", error.message()));
  }
}

bool has_fixed_rows(const caffe::LayerParameter& source) {
  return source.type() == "AnnotatedData" && source.annotated_data_param().yolo_data_type() == 1;
}
bool makes_table(const caffe::LayerParameter& source) {
  return source.type() == "AnnotatedData" && !has_fixed_rows(source);
}

/// Of blob `top` of FlowNet2's pairs; of the last one, whose channels only a record tells, as many as its
/// encoding is for.
Shape stand_in_slice(const caffe::LayerParameter& source, int top, const Shape& first) {
  const caffe::DataParameter& data = source.data_param();
  const int points = data.slice_point_size();
  if (top > points) return {first[0], 1, 1, 1};  // labels
  std::int64_t channels = first[1];
  if (top < points)
    channels = static_cast<std::int64_t>(data.slice_point(top)) - (top == 0 ? 0 : data.slice_point(top - 1));
  else if (top < data.encoding_size())
    channels = data.encoding(top) == caffe::DataParameter::BOOL1        ? 1
               : data.encoding(top) == caffe::DataParameter::UINT16FLOW ? 2
                                                                        : 3;
  return {first[0], channels, first[2], first[3]};
}

/// Of blob `top` of a source whose first one is `first`: of one value per image; of AnnotatedData's table
/// with one row, or its rows for each image; of a label for each pixel, and the images' sizes, or of
/// SelectSegBinary's numbers of classes; of FrcnnRoiData's image's size and scale, and of one box; of
/// DataHeatmap's maps; of clips with labels.
Shape stand_in_labels(const caffe::LayerParameter& source, int top, const Shape& first,
                      const caffe::NetParameter* net) {
  const std::int64_t items = first.dim(0);
  if (makes_table(source)) return {1, 1, 1, 8};
  if (has_fixed_rows(source)) return {items, 1, 300, 5};
  if (source.type() == "BboxData") return {items, 5};
  if (source.type() == "CustomData" && first.axes() == 4) return stand_in_slice(source, top, first);
  if (data::reads_labelled_clips(source) && first.axes() == 5)
    return {items, std::max<std::int64_t>(source.image_data_param().num_truth_channels(), 1), first[2],
            first[3], first[4]};
  if (source.type() == "FrcnnRoiData") return top == 1 ? Shape{items, 3} : Shape{1, 5};
  if (source.type() == "CPMData" && first.axes() == 4)
    return data::pose_maps(source.cpm_transform_param(), first);
  if (source.type() == "DataHeatmap")
    return data::heatmap_maps(source.heatmap_data_param(), items,
                              std::max<std::int64_t>(joints_of_missing(source, net), 1));
  if (data::makes_field_data(source) && first.axes() == 4)
    return data::field_data_shape(data::field_data_settings(source), first, static_cast<std::size_t>(top));
  if (source.type() == "ImageLabelData" && top == 1 && first.axes() == 4) {
    const auto& labels = source.image_label_data_param().label_slice().dim();
    const auto side = [&](int axis) {
      return labels.empty() ? first[2 + axis] : std::int64_t{labels.Get(std::min(axis, labels.size() - 1))};
    };
    return {items, 1, side(0), side(1)};
  }
  const bool per_pixel = source.type() == "ImageSegData" || source.type() == "WindowSegData" ||
                         source.type() == "SegData" || source.type() == "DenseImageData" ||
                         source.type() == "SelectSegBinary";
  if (per_pixel && top == 1 && first.axes() == 4) {
    const std::int64_t divisor = std::max(1, source.dense_image_data_param().label_divide_factor());
    return {items, 1, first[2] / divisor, first[3] / divisor};
  }
  if (source.type() == "SelectSegBinary" && top == 2)
    return {items, source.window_cls_data_param().label_dim(), 1, 1};
  if (per_pixel && top == 2) return {items, 1, 1, 2};
  const caffe::ImageDataParameter& images = source.image_data_param();
  const std::int64_t labels = images.has_label_size() ? images.label_size() : images.label_dim();
  if (source.type() == "ImageData" && labels > 1) return {items, labels};
  if (const caffe::VideoDataParameter& clips = source.video_data_param();
      clips.use_multiple_label() && top == 1)
    return {items, clips.num_of_labels()};
  return {items};
}

/// Of blobs that a program fills, whose shapes are `own` unless they are in `shapes`: all have as many rows,
/// and images' sizes, as the first image, but those of boxes, which have as many as each other.
std::vector<Shape> stand_in_filled(const caffe::LayerParameter& source, const std::vector<Shape>& own,
                                   const std::map<std::string, Shape>& shapes) {
  const auto is_of_boxes = [&](int k) {
    const std::string& top = source.top(k);
    return source.type() == "Python" &&
           (top == "gt_boxes" || top == "rois" || top == "labels" || top.rfind("bbox_", 0) == 0);
  };
  std::optional<Shape> images, boxes;
  for (int k = 0; k < source.top_size(); ++k) {
    const auto given = shapes.find(source.top(k));
    if (given == shapes.end()) continue;
    std::optional<Shape>& of = is_of_boxes(k) ? boxes : images;
    if (!of || given->second.axes() == 4) of = given->second;
  }
  std::vector<Shape> found;
  for (int k = 0; k < source.top_size(); ++k) {
    std::vector<std::int64_t> dims = own[static_cast<std::size_t>(k)].dims();
    if (const auto& of = is_of_boxes(k) ? boxes : images; of && of->axes() > 0) dims[0] = of->dim(0);
    if (dims.size() == 4 && images && images->axes() == 4)
      std::copy_n(images->dims().begin() + 2, 2, dims.begin() + 2);
    const auto given = shapes.find(source.top(k));
    found.push_back(given != shapes.end() ? given->second : Shape(dims));
  }
  return found;
}

[[noreturn]] void refuse_part(const std::string& given, const caffe::LayerParameter& source, int missing) {
  bad_input("--shape gives the shape of ", quoted(given), ", but not of ", quoted(source.top(missing)),
            ", which layer ", quoted(source.name()), " (", source.type(), ") makes too; give both");
}

/// Of an Input: what is not in `shapes`, where `first` is the first, has the layer's own, with as many rows
/// as that one if it has as many by the layer.
std::vector<Shape> stand_in_inputs(const caffe::LayerParameter& source, int first,
                                   const std::map<std::string, Shape>& shapes) {
  const auto& written = source.input_param().shape();
  const auto own = [&](int k) {
    const int place = written.size() == 1 ? 0 : k;
    if (place >= written.size()) refuse_part(source.top(first), source, k);
    return std::vector<std::int64_t>(written.Get(place).dim().begin(), written.Get(place).dim().end());
  };
  std::vector<Shape> found;
  for (int k = 0; k < source.top_size(); ++k) {
    const auto given = shapes.find(source.top(k));
    if (given != shapes.end()) {
      found.push_back(given->second);
      continue;
    }
    std::vector<std::int64_t> dims = own(k), of_first = own(first);
    const Shape& now = shapes.at(source.top(first));
    if (!dims.empty() && !of_first.empty() && now.axes() > 0 && dims[0] == of_first[0]) dims[0] = now.dim(0);
    found.emplace_back(dims);
  }
  return found;
}

/// A row of blob `top` of RoIDataLayer, FrcnnRoiData or EvalData, whose columns are of different kinds: an
/// image's size and scale; a box in the middle of the image. Empty: any constant does.
std::vector<float> made_up_row(const caffe::LayerParameter& source, const std::string& top,
                               const std::vector<Shape>& shapes) {
  const auto images =
      std::find_if(shapes.begin(), shapes.end(), [](const Shape& shape) { return shape.axes() == 4; });
  const bool rois = source.type() == "FrcnnRoiData";
  const bool of_sizes = source.type() == "EvalData" && source.top_size() > 2 && top == source.top(2);
  if ((source.type() != "Python" && !rois && !of_sizes) || images == shapes.end()) return {};
  const auto height = static_cast<float>((*images)[2]), width = static_cast<float>((*images)[3]);
  const float left = width / 4, upper = height / 4, right = 3 * left, lower = 3 * upper;
  if (of_sizes) return {height, width};
  if (top == "im_info" || (rois && top == source.top(1))) return {height, width, 1};
  if (top == "gt_boxes" || (rois && top == source.top(2))) return {left, upper, right, lower, 1};
  if (top == "rois") return {0, left, upper, right, lower};
  return {};
}

/// Adds blob `top` of `shape` to a DummyData layer.
void add_constant(const std::string& top, const Shape& shape, float value, caffe::LayerParameter& layer) {
  layer.add_top(top);
  auto& dims = *layer.mutable_dummy_data_param()->add_shape();
  for (const std::int64_t dim : shape.dims()) dims.add_dim(dim);
  auto& filler = *layer.mutable_dummy_data_param()->add_data_filler();
  filler.set_type("constant");
  filler.set_value(value);
}

/// Of what a source makes up: a DummyData layer, and, if passes follow, one after it for each blob whose
/// columns are of different kinds.
std::vector<caffe::LayerParameter> made_up_layers(const caffe::NetParameter& net,
                                                  const caffe::LayerParameter& source,
                                                  const std::vector<Shape>& shapes, bool passes) {
  caffe::LayerParameter like;
  like.set_name(source.name());
  *like.mutable_include() = source.include();
  *like.mutable_exclude() = source.exclude();
  std::vector<caffe::LayerParameter> layers = {like};
  layers[0].set_type("DummyData");
  for (int k = 0; k < source.top_size(); ++k) {
    const std::string& top = source.top(k);
    const Shape& shape = shapes[static_cast<std::size_t>(k)];
    const std::vector<float> row = passes ? made_up_row(source, top, shapes) : std::vector<float>();
    if (row.empty() || shape.axes() != 2 || shape[1] != static_cast<std::int64_t>(row.size())) {
      const bool table = makes_table(source) || source.type() == "EvalData";
      const float label = table ? -1.0f : 0.0f;  // a row of -1 is empty
      add_constant(top, shape, k == 0 && !is_read_as_label(net, top) ? 0.5f : label, layers[0]);
      continue;
    }
    caffe::LayerParameter joined = like;
    joined.set_name(cat(source.name(), "/", top));
    joined.set_type("Concat");
    joined.add_top(top);
    for (std::size_t column = 0; column < row.size(); ++column) {
      joined.add_bottom(cat(top, "/", column));
      add_constant(cat(top, "/", column), {shape[0], 1}, row[column], layers[0]);
    }
    layers.push_back(joined);
  }
  return layers;
}

}  // namespace

std::vector<Shape> stand_in_shapes(const caffe::LayerParameter& source,
                                   const std::map<std::string, Shape>& shapes,
                                   const caffe::NetParameter* net) {
  const auto given = [&](const std::string& top) { return shapes.count(top) > 0; };
  const auto first = std::find_if(source.top().begin(), source.top().end(), given);
  std::vector<Shape> found;
  if (first == source.top().end()) return found;
  if (const std::vector<Shape> own = shapes_to_fill(source, Phase::train); !own.empty())
    return stand_in_filled(source, own, shapes);
  if (source.type() == "Input")
    return stand_in_inputs(source, static_cast<int>(first - source.top().begin()), shapes);
  if (first != source.top().begin()) refuse_part(*first, source, 0);
  for (int k = 0; k < source.top_size(); ++k)
    found.push_back(given(source.top(k)) ? shapes.at(source.top(k))
                                         : stand_in_labels(source, k, shapes.at(*first), net));
  return found;
}

std::map<std::string, std::string> make_up_data(caffe::NetParameter& net,
                                                const std::map<std::string, Shape>& shapes, bool passes,
                                                const caffe::NetState* state) {
  std::map<std::string, std::string> replaced;
  std::set<std::string> unused;
  for (const auto& [blob, shape] : shapes) unused.insert(blob);
  google::protobuf::RepeatedPtrField<caffe::LayerParameter> layers;
  for (const auto& layer : net.layer()) {
    const bool source = layer.bottom_size() == 0 && layer.top_size() > 0;
    const bool kept = state == nullptr || keeps(*state, layer);
    if (source && !kept)
      for (const std::string& top : layer.top()) unused.erase(top);
    const std::vector<Shape> tops =
        source && kept ? stand_in_shapes(layer, shapes, &net) : std::vector<Shape>{};
    if (tops.empty()) {
      *layers.Add() = layer;
      continue;
    }
    warn_of_refusal(layer);
    for (const auto& made : made_up_layers(net, layer, tops, passes)) *layers.Add() = made;
    for (const std::string& top : layer.top()) unused.erase(top);
    replaced[layer.name()] = layer.type();
  }
  net.mutable_layer()->Swap(&layers);
  if (!unused.empty())
    bad_input("--shape: no source layer of the net makes the blob ", quoted(*unused.begin()));
  return replaced;
}

Model::Model(const ModelOptions& options, bool shapes_only) {
  caffe::NetParameter parameter = io::read_net_text(options.model, options.unknown_fields);
  io::upgrade_net(parameter, options.model);
  std::map<std::string, Shape> shapes = options.shapes;
  const caffe::NetState state = state_of(parameter, phase_of(options.phase), options.level, options.stages);
  if (options.missing_data) {
    drop_missing_files(parameter, state);
    add_missing_data(parameter, state, !shapes_only, shapes);
  }
  stood_in_for_ = make_up_data(parameter, shapes, !shapes_only, &state);
  device_ = make_device(options.device, options.threads, options.precision);
  device_->make_current();
  context_ = std::make_unique<Context>(*device_);
  activity_ = std::make_unique<Activity>(device_->name());
  NetOptions net;
  net.phase = options.phase;
  net.level = state.level();
  net.stages.assign(state.stage().begin(), state.stage().end());
  net.dtype = tensor_type(options.precision);
  net.shapes_only = shapes_only;
  net.parameters_stay = options.phase == Phase::test;
  if (device_->kind() == DeviceKind::cpu) {
    net.cache = ops::shared_cache(device_->threads());
    net.expansion_bytes = ops::expansion_that_pays();
  }
  net.reuse_memory = !options.keep_blobs;
  net.origin = options.model;
  net_ = std::make_unique<Net>(parameter, net, *context_, *activity_);
  if (shapes_only) return;
  if (options.phase == Phase::test) warn_of_fork_settings(net_->definition());
  fill_parameters(*net_);
  for (const auto& file : options.weights) load_weights(*net_, io::read_weights(file), file);
  if (options.phase == Phase::test && options.fold && !options.keep_blobs) fold(net);
}

void Model::fold(const NetOptions& options) {
  const FoldedNet folded = fold_normalizations(*net_);
  if (folded.gone.empty()) return;
  const std::unique_ptr<Net> plain = std::move(net_);
  plain->release_activations();  // there may be no room for those of two nets
  net_ = std::make_unique<Net>(folded.definition, options, *context_, *activity_);
  load_folded(*net_, *plain, folded);
  LOG(INFO) << "Folded " << folded.gone.size() << " layers into the " << folded.weights.size()
            << " before them (--fold=off runs them).";
}

Pass Model::next_pass() {
  Pass pass;
  pass.context = context_.get();
  pass.iteration = pass.draw = passes_++;
  pass.update_statistics = false;
  return pass;
}

double Model::loss() {
  double loss = 0;
  copy_to_host(*context_, net_->loss(), &loss);
  return loss;
}

}  // namespace banyan
