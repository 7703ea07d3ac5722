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
    OtherType{"AnnotatedData", "SSD", kLmdb},
    OtherType{"BoxAnnotatorOHEM", "R-FCN", kNone},
    OtherType{"CenterLoss", "a face recognition branch", kNone},
    OtherType{"CosineSimilarity", "a face recognition branch", kNone},
    OtherType{"DetectNetTransformation", "NVIDIA's Caffe", kNone},
    OtherType{"DetectionEvaluate", "SSD", kNone},
    OtherType{"DetectionOutput", "SSD", kNone},
    OtherType{"Filter", "BVLC Caffe", kNone},
    OtherType{"Flip", "a branch of Caffe", kNone},
    OtherType{"LSTM", "BVLC Caffe", kNone},
    OtherType{"LSTMUnit", "BVLC Caffe", kNone},
    OtherType{"MarginInnerProduct", "SphereFace", kNone},
    OtherType{"MultiBoxLoss", "SSD", kNone},
    OtherType{"Proposal", "Faster R-CNN", kNone},
    OtherType{
        "Python", "BVLC Caffe",
        "Banyan runs no Python code: only a layer written in C++ (docs/new_layer.md) can take its place"},
    OtherType{"RNN", "BVLC Caffe", kNone},
    OtherType{"Rescale", "a branch of Caffe", kNone},
    OtherType{"SegData", "yjxiong's Caffe", "ImageSegData reads such lists"},
    OtherType{"SmoothL1LossOHEM", "R-FCN", kNone},
    OtherType{"SoftmaxWithLossOHEM", "R-FCN", kNone},
    OtherType{"Unpooling", "a segmentation branch", kNone},
    OtherType{"VideoData", "yjxiong's Caffe", kLmdb},
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
