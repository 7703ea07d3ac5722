// Which colour each type of layer has, and its settings in a few words.
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <map>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "draw/picture.hpp"

namespace banyan::draw {
namespace {

const std::map<std::string, Kind>& kinds() {
  static const std::map<std::string, Kind> kinds = [] {
    const std::pair<Kind, std::vector<const char*>> lists[] = {
        {Kind::data,
         {"AnnotatedData",
          "BboxData",
          "CPMData",
          "ContinuationIndicator",
          "CustomData",
          "Data",
          "DataHeatmap",
          "DenseImageData",
          "DetectionData",
          "DocData",
          "DummyData",
          "EvalData",
          "FrcnnRoiData",
          "HDF5Data",
          "ImageData",
          "ImageGtData",
          "ImageLabelData",
          "ImageSegData",
          "Input",
          "MemoryData",
          "Parameter",
          "SegData",
          "SelectSegBinary",
          "SequenceData",
          "VideoData",
          "VideoSegmentationData",
          "VideoWithVoxelTruthData",
          "WindowData",
          "WindowSegData"}},
        {Kind::linear,
         {"Bias",
          "BiasChannel",
          "ChannelScale",
          "Convolution",
          "ConvolutionDepthwise",
          "Deconvolution",
          "DeformableConvolution",
          "DepthwiseConvolution",
          "Embed",
          "GlobalLSEMargin",
          "InnerDistance",
          "InnerProduct",
          "LabelSpecificAdd",
          "LabelSpecificRescale",
          "LabeledMatching",
          "LargeMarginInnerProduct",
          "Local",
          "MarginInnerProduct",
          "Scale",
          "UnlabeledMatching"}},
        {Kind::normalization, {"BN", "BatchNorm", "GroupNorm", "LRN", "MVN", "Normalize", "SyncBN"}},
        {Kind::activation, {"AbsVal",        "BNLL",
                            "CReLU",         "Clip",
                            "Dropout",       "ELU",
                            "Exp",           "ExpMax",
                            "GuidedDropout", "HardSwish",
                            "Insanity",      "Log",
                            "MinReLU",       "Mish",
                            "NegSquare",     "PReLU",
                            "Power",         "Quantize",
                            "ReLU",          "Rescale",
                            "ScaleTanH",     "Sigmoid",
                            "SignedSqrt",    "Softmax",
                            "Sparsify",      "SpatialDropout",
                            "Swish",         "SymmetricRectify",
                            "TanH",          "Threshold",
                            "TopK"}},
        {Kind::pooling,
         {"BilinearInterpolation", "Downsample", "FlowTransformer", "FlowWarp", "GRIDPooling", "Interp",
          "MaskResize", "Pooling", "Remap", "Resample", "Resize", "SPP", "SpatialTransformer", "Unpooling",
          "Upsample", "Warp"}},
        {Kind::joining,
         {"Affinity",
          "Axpy",
          "BatchReduction",
          "BatchReindex",
          "ChannelNorm",
          "ChannelSelect",
          "CompactBilinear",
          "Concat",
          "ConnectedComponent",
          "Correlation",
          "CosineSimilarity",
          "Crop",
          "CrossCorrelation",
          "Eltwise",
          "Filter",
          "Gather",
          "MIL",
          "MaskPooling",
          "MergeCrop",
          "MultiStageMeanfield",
          "DenseCRF",
          "OuterProduct",
          "RandBI",
          "Reduction",
          "Scatter",
          "Slice",
          "SpatialProduct",
          "Split",
          "Tile"}},
        {Kind::shaping,
         {"ColorConv", "DataAugmentation", "Flatten", "Flip", "FlowAugmentation",
          "GenerateAugmentationParameters", "GradientReversal", "Grid", "GradientScaler", "Im2col", "Padding",
          "Permute", "Reorg", "Reshape", "Reverse", "ShuffleChannel", "Silence", "Tiling", "Transpose"}},
        {Kind::recurrent, {"LSTM", "LSTMUnit", "Lstm", "RNN"}},
        {Kind::boxes,
         {"AnchorBoxes",
          "AnchorTarget",
          "BatchProposalTarget",
          "BoxAnnotatorOHEM",
          "BoxGroupOutput",
          "BoxOutput",
          "ClusterDetections",
          "ClusterGroundtruth",
          "DecodeBBox",
          "DeformablePSROIPooling",
          "DetectNetTransformation",
          "DetectionOutput",
          "FrcnnOutput",
          "PSROIPooling",
          "PriorBox",
          "Proposal",
          "ProposalTarget",
          "ROIAlign",
          "ROIPooling",
          "ROIWarping",
          "ScaleRoute",
          "TextProposal",
          "YoloDetectionOutput",
          "Yolov3DetectionOutput"}},
        {Kind::loss,
         {"CTCLoss",
          "CenterCosLoss",
          "CORALLoss",
          "CenterLoss",
          "CharbonnierLoss",
          "ContrastiveLoss",
          "CosineLoss",
          "CtcLoss",
          "DetectionGroupLoss",
          "DetectionLoss",
          "DiceCoefLoss",
          "DoubleMarginContrastiveLoss",
          "EntropyLoss",
          "EuclideanLoss",
          "EuclideanLossHeatmap",
          "FocalLoss",
          "GeneralContrastiveLoss",
          "GeneralTripletLoss",
          "HashingLoss",
          "HingeLoss",
          "InfogainLoss",
          "JMMDLoss",
          "K1_EuclideanLoss",
          "K2_EuclideanLoss",
          "L1Loss",
          "LiftedStructSimilaritySoftmaxLoss",
          "LpqLoss",
          "MMDLoss",
          "MalisLoss",
          "MultiBoxLoss",
          "MultinomialLogisticLoss",
          "OverlapSoftmaxWithLoss",
          "RankHardLoss",
          "RegionLoss",
          "PairwiseLoss",
          "QuantizationLoss",
          "SigmoidCrossEntropyLoss",
          "SmoothL1Loss",
          "SmoothL1LossOHEM",
          "SoftmaxCrossEntropyLoss",
          "SoftmaxFocalLoss",
          "SoftmaxWithFocalLoss",
          "SoftmaxWithLoss",
          "SoftmaxWithLossOHEM",
          "SSIMLoss",
          "SqueezeDetLoss",
          "TripletLoss",
          "WarpCTCLoss",
          "WeightedSoftmaxWithLoss",
          "XCovLoss",
          "Yolov3"}},
        {Kind::measure,
         {"Accuracy", "AccuracyRegression", "ArgMax", "BboxAccuracy", "CTCGreedyDecoder", "ConfusionMatrix",
          "DetectionAccuracy", "DetectionEvaluate", "DetectionGroupAccuracy", "EvalDetection", "FLOWriter",
          "HDF5Output", "LabelsequenceAccuracy", "PrecisionRecall", "ScoreDetections", "SegAccuracy",
          "UniqueLabel"}}};
    std::map<std::string, Kind> by_type;
    for (const auto& [kind, types] : lists)
      for (const char* type : types) by_type[type] = kind;
    return by_type;
  }();
  return kinds;
}

template <class Numbers>
std::string sides(const Numbers& lengths) {
  std::vector<std::string> texts;
  for (const auto length : lengths) texts.push_back(std::to_string(length));
  return join(texts, "x");
}

/// Lengths given once for all axes, one by one, or as height and width; "" if all are `usual`.
template <class Message>
std::string window_text(const Message& message, const char* word, const char* list, const char* height,
                        const char* width, std::uint32_t usual) {
  const auto& descriptor = *message.GetDescriptor();
  const auto& reflection = *message.GetReflection();
  std::vector<std::uint32_t> lengths;
  const auto* listed = descriptor.FindFieldByName(list);
  for (int i = 0; i < reflection.FieldSize(message, listed); ++i)
    lengths.push_back(reflection.GetRepeatedUInt32(message, listed, i));
  const auto *high = descriptor.FindFieldByName(height), *wide = descriptor.FindFieldByName(width);
  if (reflection.HasField(message, high) || reflection.HasField(message, wide))
    lengths = {reflection.GetUInt32(message, high), reflection.GetUInt32(message, wide)};
  if (std::all_of(lengths.begin(), lengths.end(), [&](auto length) { return length == usual; })) return "";
  const bool same = std::all_of(lengths.begin(), lengths.end(), [&](auto l) { return l == lengths[0]; });
  return cat(word, same ? std::to_string(lengths[0]) : sides(lengths));
}

void add(std::vector<std::string>& parts, const std::string& text) {
  if (!text.empty()) parts.push_back(text);
}

std::string convolution_text(const Layer& layer) {
  const auto& settings = layer.parameter().convolution_param();
  std::vector<std::string> parts;
  if (settings.num_output() > 0) parts.push_back(std::to_string(settings.num_output()));
  if (!layer.parameters().empty()) {
    std::vector<std::int64_t> kernel = layer.parameters()[0].shape.dims();
    kernel.erase(kernel.begin(), kernel.begin() + std::min<std::ptrdiff_t>(2, std::ssize(kernel)));
    add(parts, sides(kernel));
  }
  add(parts, window_text(settings, "stride ", "stride", "stride_h", "stride_w", 1));
  add(parts, window_text(settings, "pad ", "pad", "pad_h", "pad_w", 0));
  add(parts, window_text(settings, "dilation ", "dilation", "dilation_h", "dilation_w", 1));
  if (settings.group() > 1) parts.push_back(cat("group ", settings.group()));
  return join(parts, ", ");
}

std::string pooling_text(const caffe::PoolingParameter& settings) {
  const char* const methods[] = {"max", "average", "stochastic"};
  std::string method = methods[settings.pool()];
  if (settings.global_pooling()) return method + " of all";
  std::string kernel = window_text(settings, "", "kernel_size", "kernel_h", "kernel_w", 0);
  if (!kernel.empty() && kernel.find('x') == std::string::npos) kernel += "x" + kernel;
  std::vector<std::string> parts{kernel.empty() ? method : method + " " + kernel};
  add(parts, window_text(settings, "stride ", "stride", "stride_h", "stride_w", 1));
  add(parts, window_text(settings, "pad ", "pad", "pad_h", "pad_w", 0));
  return join(parts, ", ");
}

/// `field: value` of what the file sets, without fillers and nested messages but shapes.
std::string set_fields(const google::protobuf::Message& message) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  std::vector<std::string> parts;
  for (const auto* field : fields) {
    if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE || field->name() == "engine")
      continue;
    std::vector<std::string> values;
    std::string value;
    const auto read = [&](int index) {
      google::protobuf::TextFormat::PrintFieldValueToString(message, field, index, &value);
      return value;
    };
    if (!field->is_repeated())
      values.push_back(read(-1));
    else
      for (int i = 0; i < message.GetReflection()->FieldSize(message, field); ++i) values.push_back(read(i));
    parts.push_back(field->name() + " " + join(values, " "));
  }
  return join(parts, ", ");
}

}  // namespace

const char* name_of(Kind kind) {
  const char* const names[kKinds] = {"data",    "weights", "normalization", "activation",
                                     "pooling", "joining", "shape",         "recurrent",
                                     "boxes",   "loss",    "measure",       "other"};
  return names[static_cast<int>(kind)];
}

const Colour& colour_of(Kind kind) {
  static constexpr Colour kColours[kKinds] = {
      {"#64748b", "#eef2f6", "#94a3b8", "#252d39"},  // data
      {"#2563eb", "#e3edfd", "#6ea0fa", "#1a2a4c"},  // linear
      {"#7c3aed", "#efe8fd", "#a98bfa", "#2c2250"},  // normalization
      {"#c2740a", "#fdf1d8", "#e9b04a", "#3b2d14"},  // activation
      {"#15934a", "#ddf6e5", "#58c98a", "#15351f"},  // pooling
      {"#0e8a83", "#d5f3f0", "#45c8bf", "#10332f"},  // joining
      {"#5b6472", "#f3f4f6", "#a3acb9", "#2a2f38"},  // shaping
      {"#c92a80", "#fce5f1", "#f184b9", "#431a31"},  // recurrent
      {"#d4570c", "#fdeadb", "#f59a5b", "#3f2413"},  // boxes
      {"#d32222", "#fde3e3", "#f58080", "#431c1e"},  // loss
      {"#a02bb5", "#f8e6fb", "#d88be6", "#3a1c42"},  // measure
      {"#475569", "#e9edf2", "#9aa7b8", "#272e39"},  // other
  };
  return kColours[static_cast<int>(kind)];
}

Kind kind_of(const std::string& type) {
  const auto found = kinds().find(type);
  return found == kinds().end() ? Kind::other : found->second;
}

std::string settings_of(const Layer& layer) {
  const caffe::LayerParameter& parameter = layer.parameter();
  if (parameter.has_convolution_param()) return convolution_text(layer);
  if (parameter.has_pooling_param()) return pooling_text(parameter.pooling_param());
  if (parameter.has_inner_product_param())
    return std::to_string(parameter.inner_product_param().num_output());
  if (parameter.has_eltwise_param() || layer.type() == "Eltwise") {
    const char* const operations[] = {"product", "sum", "maximum", "stochastic sum"};
    return operations[parameter.eltwise_param().operation()];
  }
  for (const std::string& field : layer_info(layer.type()).messages()) {
    const auto* descriptor = parameter.GetDescriptor()->FindFieldByName(field);
    if (descriptor != nullptr && parameter.GetReflection()->HasField(parameter, descriptor))
      return set_fields(parameter.GetReflection()->GetMessage(parameter, descriptor));
  }
  return "";
}

}  // namespace banyan::draw
