#include "layers/other_types.hpp"

#include <algorithm>
#include <array>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan {
namespace {

struct OtherType {
  const char* type;
  const char* whose;
  const char* advice;  // what takes its place
};

constexpr const char* kLmdb = "convert the data to LMDB (convert_imageset) and read it with Data";
constexpr const char* kNone = "nothing takes its place yet";
constexpr const char* kAfterwards = "run it on the net's outputs afterwards";
constexpr const char* kMatlab = "Banyan reads and writes no files of MATLAB";
constexpr const char* kYoloLoss = "SSD's MultiBoxLoss trains such detectors";

constexpr std::array kOthers{
    OtherType{"AccuracyRegression", "a branch of Caffe", kNone},
    OtherType{"AdaptiveBiasChannel", "DeepLab",
              "its bias is searched for per image; BiasChannel adds one that the file gives"},
    OtherType{"BoxData", "YOLO's branches", "AnnotatedData reads boxes"},
    OtherType{"CPMData", "OpenPose", kNone},
    OtherType{"CTCLoss", "branches for reading text", kNone},
    OtherType{"Correlation", "FlowNet", kNone},
    OtherType{"DeformableConvolution", "Deformable R-FCN", kNone},
    OtherType{"DenseCRF", "DeepLab", kAfterwards},
    OtherType{"DenseImageData", "SegNet", kLmdb},
    OtherType{"DetectNetTransformation", "NVIDIA's Caffe", kNone},
    OtherType{"DetectionLoss", "YOLO's branches", kYoloLoss},
    OtherType{"DomainTransform", "DeepLab", kNone},
    OtherType{"DomainTransformForwardOnly", "DeepLab", kAfterwards},
    OtherType{"Filter", "BVLC Caffe",
              "how many samples it passes on depends on the data, and shapes here do not; the ignore_label "
              "of a loss leaves samples out"},
    OtherType{"FlowWarp", "FlowNet", kNone},
    OtherType{"FocalLoss", "a branch of SSD",
              "MultiBoxLoss with mining_type: MAX_NEGATIVE chooses hard examples"},
    OtherType{"ImResize", "OpenPose", "Interp enlarges maps"},
    OtherType{"ImageLabelmapData", "HED", "ImageSegData reads pairs of images"},
    OtherType{"MatRead", "DeepLab", kMatlab},
    OtherType{"MatWrite", "DeepLab", kMatlab},
    OtherType{"MultiStageMeanfield", "CRF-RNN", kAfterwards},
    OtherType{"Nms", "OpenPose", kAfterwards},
    OtherType{
        "Python", "BVLC Caffe",
        "Banyan runs no Python code: only a layer written in C++ (docs/new_layer.md) can take its place"},
    OtherType{"ReLU6", "a branch for MobileNets", "Clip with clip_param { min: 0 max: 6 } computes the same"},
    OtherType{"RegionLoss", "YOLO's branches", kYoloLoss},
    OtherType{
        "Rescale", "a branch for skeletons",
        "ports of it disagree about values outside its receptive field; prepare such labels beforehand"},
    OtherType{"SpatialDropout", "ENet", "Dropout drops single values, not whole channels"},
    OtherType{"SpatialTransformer", "a branch of Caffe", kNone},
    OtherType{"TopK", "a branch of Caffe", "ArgMax with top_k names the largest values"},
    OtherType{"TransformSoftmaxLoss", "a branch of Caffe", kNone},
    OtherType{"UnPooling", "ParseNet", "Unpooling with a mask, or with unpool: FIXED"},
    OtherType{"VolumeData", "C3D", kLmdb},
    OtherType{"WarpCTC", "branches for reading text", kNone},
};

}  // namespace

std::string about_other_type(const caffe::LayerParameter& layer) {
  const auto* const found = std::find_if(kOthers.begin(), kOthers.end(),
                                         [&](const OtherType& other) { return layer.type() == other.type; });
  if (found == kOthers.end()) return "";
  std::string code;
  if (layer.has_python_param())
    code = cat(" (module ", quoted(layer.python_param().module()), ", layer ",
               quoted(layer.python_param().layer()), ")");
  return cat("has the type ", quoted(layer.type()), code, " of ", found->whose,
             ", which Banyan does not have: ", found->advice);
}

std::vector<std::string> other_types() {
  std::vector<std::string> types;
  for (const OtherType& other : kOthers) types.emplace_back(other.type);
  return types;
}

}  // namespace banyan
