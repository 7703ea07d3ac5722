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

constexpr std::array kOthers{
    OtherType{"AbsVal", "BVLC Caffe", kNone},
    OtherType{"AnnotatedData", "SSD", kLmdb},
    OtherType{"ArgMax", "BVLC Caffe", "compute it from the scores after the run"},
    OtherType{"Axpy", "SENet", "Scale with two bottoms (axis: 0), then Eltwise"},
    OtherType{"BNLL", "BVLC Caffe", kNone},
    OtherType{"BatchReduction", "yjxiong's Caffe", kNone},
    OtherType{"BatchReindex", "BVLC Caffe", kNone},
    OtherType{"BoxAnnotatorOHEM", "R-FCN", kNone},
    OtherType{"CenterLoss", "a face recognition branch", kNone},
    OtherType{"Clip", "BVLC Caffe", kNone},
    OtherType{"ContrastiveLoss", "BVLC Caffe", kNone},
    OtherType{"ConvolutionDepthwise", "a MobileNet branch",
              "Convolution with group = its number of channels"},
    OtherType{"CosineSimilarity", "a face recognition branch", kNone},
    OtherType{"Crop", "BVLC Caffe", kNone},
    OtherType{"Deconvolution", "BVLC Caffe", kNone},
    OtherType{"DepthwiseConvolution", "a MobileNet branch",
              "Convolution with group = its number of channels"},
    OtherType{"DetectNetTransformation", "NVIDIA's Caffe", kNone},
    OtherType{"DetectionEvaluate", "SSD", kNone},
    OtherType{"DetectionOutput", "SSD", kNone},
    OtherType{"Embed", "BVLC Caffe", kNone},
    OtherType{"Exp", "BVLC Caffe", kNone},
    OtherType{"Filter", "BVLC Caffe", kNone},
    OtherType{"Flip", "a branch of Caffe", kNone},
    OtherType{"Gather", "yjxiong's Caffe", kNone},
    OtherType{"HDF5Data", "BVLC Caffe", kLmdb},
    OtherType{"HDF5Output", "BVLC Caffe", kNone},
    OtherType{"HingeLoss", "BVLC Caffe", kNone},
    OtherType{"Im2col", "BVLC Caffe", kNone},
    OtherType{"InfogainLoss", "BVLC Caffe", kNone},
    OtherType{"Interp", "PSPNet", kNone},
    OtherType{"L1Loss", "NVIDIA's Caffe", kNone},
    OtherType{"LSTM", "BVLC Caffe", kNone},
    OtherType{"LSTMUnit", "BVLC Caffe", kNone},
    OtherType{"Log", "BVLC Caffe", kNone},
    OtherType{"MVN", "BVLC Caffe", kNone},
    OtherType{"MarginInnerProduct", "SphereFace", kNone},
    OtherType{"MemoryData", "BVLC Caffe", "Input, which a program fills"},
    OtherType{"MultiBoxLoss", "SSD", kNone},
    OtherType{"MultinomialLogisticLoss", "BVLC Caffe", "SoftmaxWithLoss, if its input is a Softmax"},
    OtherType{"Normalize", "SSD", kNone},
    OtherType{"PReLU", "BVLC Caffe", kNone},
    OtherType{"PSROIPooling", "R-FCN", kNone},
    OtherType{"Permute", "SSD", kNone},
    OtherType{"Power", "BVLC Caffe", kNone},
    OtherType{"PriorBox", "SSD", kNone},
    OtherType{"Proposal", "Faster R-CNN", kNone},
    OtherType{
        "Python", "BVLC Caffe",
        "Banyan runs no Python code: only a layer written in C++ (docs/new_layer.md) can take its place"},
    OtherType{"RNN", "BVLC Caffe", kNone},
    OtherType{"ROIAlign", "Mask R-CNN", kNone},
    OtherType{"ROIPooling", "Fast R-CNN", kNone},
    OtherType{"Reduction", "BVLC Caffe", kNone},
    OtherType{"Reorg", "YOLO", kNone},
    OtherType{"Rescale", "a branch of Caffe", kNone},
    OtherType{"SPP", "BVLC Caffe", kNone},
    OtherType{"Scatter", "yjxiong's Caffe", kNone},
    OtherType{"SegData", "yjxiong's Caffe", kNone},
    OtherType{"ShuffleChannel", "ShuffleNet", kNone},
    OtherType{"SigmoidCrossEntropyLoss", "BVLC Caffe", kNone},
    OtherType{"SmoothL1Loss", "Fast R-CNN", kNone},
    OtherType{"SmoothL1LossOHEM", "R-FCN", kNone},
    OtherType{"SoftmaxWithLossOHEM", "R-FCN", kNone},
    OtherType{"Threshold", "BVLC Caffe", kNone},
    OtherType{"Tile", "BVLC Caffe", kNone},
    OtherType{"TripletLoss", "a face recognition branch", kNone},
    OtherType{"Unpooling", "a segmentation branch", kNone},
    OtherType{"Upsample", "SegNet", kNone},
    OtherType{"VideoData", "yjxiong's Caffe", kLmdb},
    OtherType{"WindowData", "BVLC Caffe", kLmdb},
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
