// Data of py-faster-rcnn, Fast R-CNN and R-FCN (RoIDataLayer), of FCN (layers whose names end in
// SegDataLayer), of LRCN (videoRead...) and of DCC (featureDataLayer). Their blobs have the shapes that hold
// what the Python layers read with their own settings.
#include "layers/python_data.hpp"

#include <map>

#include "banyan/base/contains.hpp"
#include "layers/python_program.hpp"
#include "layers/python_settings.hpp"

namespace banyan {
namespace {

using Dims = std::vector<std::int64_t>;

std::int64_t length_of(const caffe::LayerParameter& python, const PythonSetting& setting) {
  const std::string value = setting.list ? std::string() : setting.values[0];
  const bool number =
      !value.empty() && value.size() < 8 && value.find_first_not_of("0123456789") == std::string::npos;
  const std::int64_t length = number ? std::stoll(value) : 0;
  if (length == 0)
    refuse_python(python, "param_str: ", setting.key, " must be a whole number from 1 to 9999999");
  return length;
}

/// Images and boxes of faster_rcnn_end2end.yml, whose sides are rounded up to multiples of 32, as nets with
/// pyramids of maps need them; Fast R-CNN: of config.py's minibatch.
std::map<std::string, Dims> roi_data(const caffe::LayerParameter& python) {
  const bool regions_given = contains(python.top(), std::string("rois"));
  std::map<std::string, std::int64_t> numbers = {{"num_classes", 0}, {"images", regions_given ? 2 : 1},
                                                 {"height", 608},    {"width", 1024},
                                                 {"boxes", 20},      {"regions", 128}};
  numbers.erase(regions_given ? "boxes" : "regions");
  for (const PythonSetting& setting : python_settings(python)) {
    const auto found = numbers.find(setting.key);
    if (found == numbers.end()) {
      std::vector<std::string> known;
      for (const auto& [key, value] : numbers) known.push_back(key);
      refuse_python_key(python, setting.key, known);
    }
    found->second = length_of(python, setting);
  }
  const std::int64_t images = numbers["images"], regions = numbers["regions"];
  std::map<std::string, Dims> shapes = {{"data", {images, 3, numbers["height"], numbers["width"]}}};
  if (!regions_given) {
    shapes["im_info"] = {images, 3};
    shapes["gt_boxes"] = {numbers["boxes"], 5};
    return shapes;
  }
  shapes["rois"] = {regions, 5};
  shapes["labels"] = {regions};
  for (const char* top :
       {"bbox_targets", "bbox_inside_weights", "bbox_outside_weights", "bbox_loss_weights"}) {
    if (contains(python.top(), std::string(top)) && numbers["num_classes"] == 0)
      refuse_python(python, "param_str needs num_classes");
    shapes[top] = {regions, 4 * numbers["num_classes"]};
  }
  return shapes;
}

/// One image, of the size that its data set's images have at most.
std::map<std::string, Dims> segmentation_data(const caffe::LayerParameter& python) {
  const std::string& layer = python.python_param().layer();
  const bool flow = layer == "SIFTFlowSegDataLayer", indoor = layer == "NYUDSegDataLayer";
  const std::int64_t height = flow ? 256 : indoor ? 425 : 500, width = flow ? 256 : indoor ? 560 : 500;
  const Dims image = {1, 3, height, width}, plane = {1, 1, height, width};
  return {{"data", image},  {"color", image}, {"hha", image}, {"depth", plane},
          {"label", plane}, {"sem", plane},   {"geo", plane}};
}

/// 16 frames of 24 videos, in tests of 3.
std::map<std::string, Dims> video_data(Phase phase) {
  const std::int64_t frames = 16 * (phase == Phase::train ? 24 : 3);
  return {{"data", {frames, 3, 227, 227}}, {"label", {frames}}, {"clip_markers", {frames}}};
}

/// Features of images, and the images' numbers. The files of the other keys are not read.
std::map<std::string, Dims> feature_data(const caffe::LayerParameter& python) {
  std::int64_t images = 0, numbers = 0;
  for (const PythonSetting& setting : python_settings(python)) {
    if (setting.key == "batch_size") images = length_of(python, setting);
    if (setting.key == "feature_size") numbers = length_of(python, setting);
  }
  if (images == 0 || numbers == 0) refuse_python(python, "param_str needs batch_size and feature_size");
  return {{"features", {images, numbers}}, {"labels", {images, 1}}};
}

}  // namespace

std::optional<caffe::LayerParameter> python_data(const caffe::LayerParameter& python, Phase phase) {
  const std::string &module = python.python_param().module(), &layer = python.python_param().layer();
  std::map<std::string, Dims> shapes;
  const bool of_regions = contains(python.top(), std::string("im_info")) ||
                          contains(python.top(), std::string("rois"));  // not so R-C3D's, of videos
  if (module == "roi_data_layer.layer" && layer == "RoIDataLayer" && of_regions)
    shapes = roi_data(python);
  else if (layer.ends_with("SegDataLayer") && python.bottom_size() == 0)
    shapes = segmentation_data(python);
  else if (module == "sequence_input_layer" && layer.starts_with("videoRead"))
    shapes = video_data(phase);
  else if (module == "python_data_layers" && layer == "featureDataLayer")
    shapes = feature_data(python);
  else
    return std::nullopt;
  if (module != "roi_data_layer.layer" && why_no_python(module).empty()) return std::nullopt;
  caffe::LayerParameter input = python;
  input.set_type("Input");
  for (const std::string& top : python.top()) {
    const auto shape = shapes.find(top);
    if (shape == shapes.end()) return std::nullopt;
    auto& dims = *input.mutable_input_param()->add_shape();
    for (const std::int64_t dim : shape->second) dims.add_dim(dim);
  }
  return input;
}

}  // namespace banyan
