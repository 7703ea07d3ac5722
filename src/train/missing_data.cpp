#include "train/missing_data.hpp"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <filesystem>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/augmenter.hpp"
#include "banyan/data/clips.hpp"
#include "banyan/data/field_data.hpp"
#include "banyan/data/heatmaps.hpp"
#include "banyan/data/image_transforms.hpp"
#include "banyan/data/labelled_clips.hpp"
#include "banyan/data/poses.hpp"
#include "banyan/data/video.hpp"
#include "banyan/net/connections.hpp"
#include "banyan/net/filter.hpp"
#include "banyan/train/model.hpp"

namespace banyan {
namespace {

std::int64_t number_in(const google::protobuf::Message& message, const char* name) {
  const auto* field = message.GetDescriptor()->FindFieldByName(name);
  if (field == nullptr || field->is_repeated()) return 0;
  const auto* reflection = message.GetReflection();
  switch (field->cpp_type()) {
    case google::protobuf::FieldDescriptor::CPPTYPE_UINT32:
      return reflection->GetUInt32(message, field);
    case google::protobuf::FieldDescriptor::CPPTYPE_INT32:
      return reflection->GetInt32(message, field);
    default:
      return 0;
  }
}

/// Of images that cannot be looked at.
std::int64_t channels_of(const caffe::LayerParameter& parameter) {
  const caffe::TransformationParameter& transform = parameter.transform_param();
  if (parameter.type() == "VideoData") {
    const caffe::VideoDataParameter& video = parameter.video_data_param();
    const bool flow = video.modality() == caffe::VideoDataParameter::FLOW;
    const std::int64_t frame = flow ? 2 : video.grayscale() ? 1 : 3;
    return frame * video.num_segments() * video.new_length();
  }
  if (parameter.type() == "SequenceData") {
    const caffe::SequenceDataParameter& video = parameter.sequence_data_param();
    const std::int64_t frame = video.modality() == caffe::SequenceDataParameter::FLOW ? 2 : 3;
    return frame * video.num_shots() * video.num_segments() * video.num_frames();
  }
  if (transform.mean_value_size() > 1) return transform.mean_value_size();
  const bool gray = transform.force_gray() || !parameter.image_data_param().is_color() ||
                    !parameter.dense_image_data_param().is_color();
  return gray ? 1 : 3;
}

/// As many as nets of C3D see at once.
constexpr std::int64_t kFramesOfC3d = 16;

/// The first of several databases that does not exist, or the first of all.
std::string first_missing(const caffe::DocDataParameter& databases) {
  std::error_code ignored;
  for (const std::string& source : databases.sources())
    if (!std::filesystem::exists(source, ignored)) return source;
  return databases.sources(0);
}

/// An image whose sides have the lengths of the settings.
Shape shape_of_roi_image(const caffe::RoiDataParameter& how) {
  const std::int64_t align = std::max<std::int64_t>(how.align(), 1);
  const auto side = [&](float length) {
    return (static_cast<std::int64_t>(std::clamp(length, 1.0f, 32768.0f)) + align - 1) / align * align;
  };
  const float shorter = how.scale().empty() ? 600 : *std::max_element(how.scale().begin(), how.scale().end());
  return {1, 3, side(std::min(shorter, how.max_size())), side(how.max_size())};
}

}  // namespace

std::string source_of(const caffe::LayerParameter& layer, const google::protobuf::Message*& settings) {
  if (data::reads_camera(layer)) {
    settings = &layer.video_data_param();
    return cat("camera ", layer.video_data_param().device_id());
  }
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  layer.GetReflection()->ListFields(layer, &fields);
  for (const auto* field : fields) {
    if (field->is_repeated() || field->message_type() == nullptr) continue;
    const auto& message = layer.GetReflection()->GetMessage(layer, field);
    const auto* const kind = message.GetDescriptor();
    if (kind == caffe::DocDataParameter::descriptor() && layer.doc_data_param().sources_size() > 0) {
      settings = &message;
      return first_missing(layer.doc_data_param());
    }
    const bool two = kind == caffe::ImageLabelDataParameter::descriptor();
    const bool shots = kind == caffe::SequenceDataParameter::descriptor();
    const bool file =
        kind == caffe::VideoDataParameter::descriptor() && layer.video_data_param().has_video_file();
    const auto* source = kind->FindFieldByName(two     ? "image_list_path"
                                               : shots ? "video_source"
                                               : file  ? "video_file"
                                                       : "source");
    if (source == nullptr || source->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_STRING ||
        source->is_repeated() || !message.GetReflection()->HasField(message, source))
      continue;
    settings = &message;
    return message.GetReflection()->GetString(message, source);
  }
  return "";
}

std::string missing_source(const caffe::LayerParameter& layer) {
  const google::protobuf::Message* settings = nullptr;
  const std::string source = source_of(layer, settings);
  if (data::reads_camera(layer)) return source;
  std::error_code ignored;
  const std::string& second = layer.has_sequence_data_param()
                                  ? layer.sequence_data_param().shot_source()
                                  : layer.image_label_data_param().label_list_path();
  if (std::filesystem::exists(source, ignored) && !second.empty() &&
      !std::filesystem::exists(second, ignored))
    return second;
  return std::filesystem::exists(source, ignored) ? "" : source;
}

std::string why_no_source(const caffe::LayerParameter& layer, const std::string& source,
                          const std::string& here) {
  if (data::reads_camera(layer)) return source + " cannot be read: cameras are not supported";
  return cat(quoted(source), " does not exist", here);
}

std::int64_t joints_of_missing(const caffe::LayerParameter& layer, const caffe::NetParameter* net) {
  const std::int64_t chosen = data::chosen_joints(layer.heatmap_data_param());
  if (chosen > 0 || net == nullptr || layer.top_size() < 2) return chosen;
  for (const caffe::LayerParameter& loss : net->layer()) {
    const bool compares = loss.type() == "EuclideanLossHeatmap" || loss.type() == "EuclideanLoss";
    if (!compares || loss.bottom_size() < 2 || loss.bottom(1) != layer.top(1)) continue;
    for (const caffe::LayerParameter& maker : net->layer())
      if (contains(maker.top(), loss.bottom(0)) && maker.convolution_param().num_output() > 0)
        return maker.convolution_param().num_output();
  }
  return 0;
}

Shape shape_of_missing(const caffe::LayerParameter& layer) {
  const google::protobuf::Message* settings = nullptr;
  if (source_of(layer, settings).empty()) return {};
  const caffe::TransformationParameter& transform = layer.transform_param();
  if (layer.type() == "FrcnnRoiData") return shape_of_roi_image(layer.roi_data_param());
  if (layer.type() == "CPMData")
    return data::pose_images(layer.cpm_transform_param(), number_in(*settings, "batch_size"));
  if (layer.type() == "DataHeatmap") return data::heatmap_images(layer.heatmap_data_param());
  if (layer.type() == "DocData")
    return data::transformed_images(layer.image_transform_param(), number_in(*settings, "batch_size"));
  data::CropSize crop = data::crop_of(transform);
  if (const caffe::DenseImageDataParameter& dense = layer.dense_image_data_param(); dense.crop_height() > 0)
    crop = {static_cast<int>(dense.crop_height()), static_cast<int>(dense.crop_width())};
  // Of AnnotatedData, Data and ImageData; of several, the first.
  const caffe::ResizeParameter resize =
      transform.resize_param_size() > 0 ? transform.resize_param(0) : caffe::ResizeParameter();
  const bool resizes = transform.resize_param_size() > 0 &&
                       (transform.resize_param_size() > 1 || resize.prob() > 0) &&
                       resize.resize_mode() != caffe::ResizeParameter::FIT_SMALL_SIZE;
  const auto side = [&](std::int64_t cut, std::int64_t resized, const char* of_files) {
    return cut != 0 ? cut : resizes ? resized : number_in(*settings, of_files);
  };
  std::int64_t height = side(crop.height, resize.height(), "new_height"),
               width = side(crop.width, resize.width(), "new_width");
  if (data::makes_field_data(layer)) {
    const auto size = data::field_data_size(data::field_data_settings(layer));
    height = size[0], width = size[1];
  }
  const bool frames = layer.video_data_param().has_video_file() || data::reads_camera(layer);
  const std::int64_t batch = frames ? layer.data_param().batch_size() : number_in(*settings, "batch_size");
  if (height == 0 || width == 0 || batch == 0) return {};
  if (data::lists_clips(layer)) return {batch, 3, number_in(*settings, "new_length"), height, width};
  if (data::reads_labelled_clips(layer)) return {batch, 3, kFramesOfC3d, height, width};
  return {batch, frames ? 3 : channels_of(layer), height, width};
}

std::vector<Shape> shapes_to_fill(const caffe::LayerParameter& layer, Phase phase) {
  std::vector<Shape> shapes;
  if (layer.type() != "MemoryData" && layer.type() != "Python") return shapes;
  try {
    LayerOptions options;
    options.phase = phase;
    if (layer.has_phase()) options.phase = phase_of(layer.phase());
    const std::unique_ptr<Layer> made = make_layer(layer, options);
    if (!made->traits().filled_by_user) return shapes;
    check_arity(layer, made->traits().arity, layer.top_size());
    std::vector<Blob> blobs(static_cast<std::size_t>(layer.top_size()));
    Blobs outputs;
    for (Blob& blob : blobs) outputs.push_back(&blob);
    made->read_settings();
    made->setup({}, outputs);
    for (const Blob& blob : blobs) shapes.push_back(blob.shape);
  } catch (const Error&) {  // the net's complaint
    shapes.clear();
  }
  return shapes;
}

void drop_missing_files(caffe::NetParameter& net, const MissingFile& tell) {
  for (caffe::LayerParameter& layer : *net.mutable_layer()) {
    const auto missing = [&](const std::string& path) {
      std::error_code why;
      if (path.empty() || std::filesystem::exists(path, why)) return false;
      tell(layer, path, why);
      return true;
    };
    const caffe::SaveOutputParameter& save = layer.detection_output_param().save_output_param();
    if (missing(save.label_map_file()) || missing(save.name_size_file()))
      layer.mutable_detection_output_param()->clear_save_output_param();
    const caffe::SaveOutputParameter& of_frcnn = layer.frcnn_output_param().save_output_param();
    if (missing(of_frcnn.label_map_file()) || missing(of_frcnn.name_size_file()))
      layer.mutable_frcnn_output_param()->clear_save_output_param();
    if (missing(layer.detection_evaluate_param().name_size_file())) {
      layer.mutable_detection_evaluate_param()->clear_name_size_file();
      layer.mutable_detection_evaluate_param()->clear_resize_param();
    }
  }
}

void drop_missing_files(caffe::NetParameter& net, const caffe::NetState& state) {
  drop_missing_files(
      net, [&](const caffe::LayerParameter& layer, const std::string& path, const std::error_code& why) {
        if (!keeps(state, layer)) return;
        log_warning(cat("layer ", quoted(layer.name()), " (", layer.type(), "): ", quoted(path),
                        why ? cat(" cannot be looked at (", why.message(), ")") : " does not exist",
                        "; it runs without, and saves nothing"));
      });
}

void add_missing_data(const caffe::NetParameter& net, const caffe::NetState& state, bool passes,
                      std::map<std::string, Shape>& shapes) {
  const caffe::NetParameter kept = filter_net(net, state);
  const Phase phase = phase_of(state.phase());
  for (const caffe::LayerParameter& layer : kept.layer()) {
    if (layer.bottom_size() > 0 || layer.top_size() == 0 || !stand_in_shapes(layer, shapes, &kept).empty())
      continue;
    if (const auto filled = passes ? shapes_to_fill(layer, phase) : std::vector<Shape>{}; !filled.empty()) {
      log_warning(cat("layer ", quoted(layer.name()), " (", layer.type(),
                      "): a program fills its blobs; constant values ", "take their place, for ",
                      quoted(layer.top(0)), " of the shape ", filled[0].to_string(),
                      " (--shape gives another)"));
      for (int k = 0; k < layer.top_size(); ++k) shapes[layer.top(k)] = filled[static_cast<std::size_t>(k)];
      continue;
    }
    const std::string source = missing_source(layer);
    const Shape shape = shape_of_missing(layer);
    if (source.empty()) continue;
    if (shape.axes() == 0) {
      log_warning(cat("layer ", quoted(layer.name()), " (", layer.type(), "): ", why_no_source(layer, source),
                      ", and its settings give no shape; --shape=", layer.top(0),
                      ":N,C,H,W runs without it"));
      continue;
    }
    log_warning(cat("layer ", quoted(layer.name()), " (", layer.type(), "): ", why_no_source(layer, source),
                    "; constant values take its place, of the shape ", shape.to_string(),
                    " that its settings give (--shape gives another)"));
    shapes[layer.top(0)] = shape;
  }
}

}  // namespace banyan
