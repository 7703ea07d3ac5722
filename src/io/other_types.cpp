#include "other_types.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/upgrade.hpp"

namespace banyan::io {
namespace {

constexpr const char* kLmdb = "convert the data to LMDB (convert_imageset) and read it with Data";
constexpr const char* kMatlab = "Banyan reads and writes no files of MATLAB";
constexpr const char* kOneNet =
    "it divides a net among machines; remove it: here every device holds the whole net";
constexpr const char* kUndescribed =
    "no description says what it computes; only a layer written in C++ (docs/new_layer.md) can take its "
    "place";
constexpr const char* kYoloLoss = "SSD's MultiBoxLoss trains such detectors";

constexpr std::array kOthers{
    OtherType{"AdaptiveBiasChannel", "DeepLab",
              "its bias is searched for per image; BiasChannel adds one that the file gives"},
    OtherType{"ApplyDeformation", "U-Net's Caffe",
              "deform images and labels beforehand and read them with HDF5Data"},
    OtherType{
        "BoxFeatures", "branches for instance segmentation",
        "it repeats an image's scores for each detected box, 0 outside of it; no operator makes as many "
        "maps as there are boxes"},
    OtherType{"CTCDecoder", "a branch for reading text",
              "it searches several paths, or names a class for each time step; CTCGreedyDecoder gives the "
              "labels of "
              "the best path, of scores with time steps x sequences x classes"},
    OtherType{"ConvLSTM", "branches for videos",
              "no operator has convolutions inside of a recurrent layer; LSTM takes vectors, as InnerProduct "
              "or a global Pooling makes of maps"},
    OtherType{"CreateDeformation", "U-Net's Caffe",
              "deform images and labels beforehand and read them with HDF5Data"},
    OtherType{
        "DeformConv", "branches of Caffe",
        "DeformableConvolution takes its offsets as a second input; write a Convolution that makes them"},
    OtherType{
        "DomainTransform", "DeepLab",
        "its filter passes over one pixel after the other, for which there is no operator; train without "
        "it and refine the outputs afterwards"},
    OtherType{"DomainTransformForwardOnly", "DeepLab",
              "it refines finished scores; run it on the net's outputs afterwards"},
    OtherType{"DriveData", "VPGNet",
              "it makes maps of labels from records of its own; make them beforehand and read images and "
              "maps with HDF5Data"},
    OtherType{"Hotspot", "caffe-windows",
              "it draws maps of points from their coordinates; draw them beforehand and read them with "
              "HDF5Data"},
    OtherType{"ImResize", "OpenPose", "Interp enlarges maps"},
    OtherType{"ImageSegUniformSizeData", "caffe-public",
              "ImageSegData reads pairs of images; new_height and new_width, or a crop, give all of them one "
              "size"},
    OtherType{"InterClass", "sphereface-plus",
              "it moves the rows of another layer's weights apart, for which there is no loss; without it "
              "MarginInnerProduct trains as SphereFace does"},
    OtherType{"LS", "a branch for extreme learning machines",
              "it solves least squares for all weights at once, which is no training by gradients; an "
              "InnerProduct with EuclideanLoss comes to the same solution"},
    OtherType{"LSTM_2D", "caffe-public",
              "no operator goes over rows and columns of maps; LSTM goes along one axis"},
    OtherType{"MOE", "BVLC's opencl branch",
              "it holds whole nets as experts; write them as layers, weighted by a Softmax with Scale and "
              "Eltwise"},
    OtherType{"MTCNNData", "branches for MTCNN",
              "prepare labels, boxes and landmarks beforehand and read them with HDF5Data"},
    OtherType{"MTCNNEuclideanLoss", "branches for MTCNN", "EuclideanLoss of the samples that Filter chooses"},
    OtherType{"MatRead", "DeepLab", kMatlab},
    OtherType{"MnActivation", "Intel's Caffe", kOneNet},
    OtherType{"MnParamGradCompress", "Intel's Caffe",
              "it compresses gradients between machines; remove it: here they are exchanged as they are"},
    OtherType{"Module", "a Faster R-CNN with feature pyramids",
              "it loads programs of its own; AnchorTarget, Proposal and ProposalTarget do the same for one "
              "map, and BoxGroupOutput makes regions of several"},
    OtherType{"MultiBoxFocalLoss", "branches of SSD",
              "MultiBoxLoss with mining_type: MAX_NEGATIVE chooses hard examples"},
    OtherType{"Nms", "OpenPose",
              "it looks for peaks in finished maps; do so on the net's outputs afterwards"},
    OtherType{"Noise", "BVLC's opencl branch and caffe-windows",
              "a DummyData layer with a gaussian data_filler, added by Eltwise, is noise"},
    OtherType{
        "OPData", "OpenPose",
        "it mixes several sets of records, on backgrounds of another; CPMData reads one set, of people with "
        "the joints of COCO or MPI"},
    OtherType{
        "PerClassAccuracy", "branches of Caffe",
        "they disagree about what it shows, and so do versions of one of them; a second top of Accuracy "
        "shows the accuracy of each class"},
    OtherType{"RBMInnerProduct", "branches for Boltzmann machines",
              "they are not trained by the gradient of a loss; an autoencoder of InnerProduct, Sigmoid and "
              "SigmoidCrossEntropyLoss is"},
    OtherType{"RemoteData", "Intel's Caffe",
              "it asks another machine for its data; every machine reads its own here, as with Data"},
    OtherType{
        "SibData", "yjxiong's Caffe",
        "no description says which records it puts together; Data reads the same LMDB record by record"},
    OtherType{"TransformSoftmaxLoss", "a branch of Caffe", kUndescribed},
    OtherType{"UnPooling", "ParseNet", "Unpooling with a mask, or with unpool: FIXED"},
    OtherType{"VolumeData", "C3D", kLmdb},
    OtherType{
        "WarpCTC", "branches for reading text",
        "no description says how it reads labels; WarpCTCLoss, CtcLoss and CTCLoss compute CTC, each with "
        "its branch's form of the labels"},
    OtherType{"WassersteinLoss", "branches of Caffe", kUndescribed},
    OtherType{
        "WeightedEuclideanLoss", "branches of Caffe",
        "branches disagree about what its weights multiply and what it divides by; EuclideanLoss of both "
        "blobs, each multiplied by the roots of the weights (Power with power: 0.5, Eltwise with "
        "operation: PROD), weighs the squares"},
};

/// `CamelCase` and `V1_CASE` become `v1case`.
std::string without_case(std::string_view type) {
  std::string plain;
  for (const char c : type)
    if (c != '_') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return plain;
}

/// With their settings.
std::map<std::string, std::vector<std::string>>& layer_types() {
  static std::map<std::string, std::vector<std::string>> types;
  return types;
}

/// transform_param, which layers of their kind share.
bool transforms_data(std::string_view type) {
  constexpr std::array<std::string_view, 6> kWithout{"CPMData",   "CustomData", "DocData",
                                                     "DummyData", "HDF5Data",   "MemoryData"};
  return (type.ends_with("Data") && !contains(kWithout, type)) || type == "SelectSegBinary";
}

/// loss_param.
bool is_loss(std::string_view type) {
  return type.find("Loss") != std::string_view::npos || type == "Yolov3";
}

}  // namespace

std::span<const OtherType> other_types() { return kOthers; }

std::string about_other_type(const std::string& type) {
  const auto* const found = std::find_if(kOthers.begin(), kOthers.end(),
                                         [&](const OtherType& other) { return type == other.type; });
  if (found == kOthers.end()) return "";
  return cat("has the type ", quoted(type), " of ", found->whose,
             ", which Banyan does not have: ", found->advice);
}

std::string namesake_of_v1_type(const std::string& type) {
  for (const OtherType& other : kOthers)
    if (without_case(type) == without_case(other.type)) return "";
  const auto* names = caffe::V1LayerParameter::LayerType_descriptor();
  const auto is_known = [&](const auto& matches) {
    for (int i = 0; i < names->value_count(); ++i)
      if (matches(names->value(i)->name())) return true;
    return false;
  };
  if (is_known([&](const std::string& name) { return without_case(name) == without_case(type); })) return "";
  for (const auto& [known, settings] : layer_types())
    if (without_case(type) == without_case(known) &&
        !is_known([&](const std::string& name) { return current_type_name(name) == known; }))
      return known;
  return "";
}

std::string about_other_v1_type(const std::string& type) {
  for (const OtherType& other : kOthers)
    if (without_case(type) == without_case(other.type)) return about_other_type(other.type);
  const std::string known = namesake_of_v1_type(type);
  if (known.empty()) return "";
  return cat(
      "has the type ", quoted(known),
      ", for which `layers` has no name here; write the net in the current format, with layer { type: ",
      quoted(known), " }");
}

std::string about_missing_type(const std::string& type) {
  if (type.empty()) return "has no type; trainer layers lists all types";
  if (const std::string other = about_other_type(type); !other.empty()) return other;
  if (may_be_layer_type(type)) return "";
  return cat("has the unknown type ", quoted(type), did_you_mean_type(type),
             "; trainer layers lists all types");
}

/// SoftmaxLoss is what V1 calls SoftmaxWithLoss, and a loss's name is often written without `Loss`, or a type
/// like its class in the source.
std::string did_you_mean_type(const std::string& type) {
  const auto* old = caffe::V1LayerParameter::LayerType_descriptor();
  for (int i = 0; i < old->value_count(); ++i)
    if (const std::string now = current_type_name(old->value(i)->name());
        without_case(type) == without_case(old->value(i)->name()) && layer_types().contains(now))
      return cat(" (did you mean ", quoted(now), "?)");
  if (layer_types().contains(type + "Loss")) return cat(" (did you mean ", quoted(type + "Loss"), "?)");
  constexpr std::string_view kOfClass = "Layer";
  if (type.ends_with(kOfClass))
    if (const std::string without = type.substr(0, type.size() - kOfClass.size());
        layer_types().contains(without))
      return cat(" (did you mean ", quoted(without), "?)");
  std::vector<std::string> known;
  for (const auto& [name, settings] : layer_types()) known.push_back(name);
  return did_you_mean(type, known);
}

void add_layer_type(const std::string& type, std::vector<std::string> settings) {
  layer_types()[type] = std::move(settings);
}

bool may_be_layer_type(const std::string& type) {
  return layer_types().empty() || layer_types().contains(type);
}

bool may_be_setting_of(const std::string& type, const std::string& field) {
  const auto found = layer_types().find(type);
  if (found == layer_types().end() || !field.ends_with("_param")) return true;
  return contains(found->second, field) || (field == "transform_param" && transforms_data(type)) ||
         (field == "loss_param" && is_loss(type));
}

}  // namespace banyan::io
