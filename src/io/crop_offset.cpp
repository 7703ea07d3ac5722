#include "banyan/io/crop_offset.hpp"

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan::io {
namespace {

/// On one axis: a place in an output lies at scale * place + offset in what it was made of.
struct AxisMap {
  double scale = 1, offset = 0;
  AxisMap then(const AxisMap& next) const { return {next.scale * scale, next.scale * offset + next.offset}; }
  AxisMap inverse() const { return {1 / scale, -offset / scale}; }
};

/// Rows and columns.
struct PlaneMap {
  AxisMap rows, columns;
  PlaneMap then(const PlaneMap& next) const { return {rows.then(next.rows), columns.then(next.columns)}; }
  PlaneMap inverse() const { return {rows.inverse(), columns.inverse()}; }
};

/// A length that is given once, for each axis, or as _h and _w.
struct Pair {
  double h, w;
};
Pair pair_of(const google::protobuf::RepeatedField<std::uint32_t>& list, bool has_h, std::uint32_t h,
             bool has_w, std::uint32_t w, double absent) {
  Pair pair{absent, absent};
  if (!list.empty()) pair = {double(list.Get(0)), double(list.Get(list.size() > 1 ? 1 : 0))};
  if (has_h) pair.h = h;
  if (has_w) pair.w = w;
  return pair;
}

AxisMap window(double kernel, double stride, double pad, double dilation) {
  return {stride, (dilation * (kernel - 1)) / 2 - pad};
}

/// Of Convolution and Pooling, whose settings have the same names.
template <class Settings>
PlaneMap windows(const Settings& s, Pair dilation) {
  const Pair kernel =
      pair_of(s.kernel_size(), s.has_kernel_h(), s.kernel_h(), s.has_kernel_w(), s.kernel_w(), 1);
  const Pair stride = pair_of(s.stride(), s.has_stride_h(), s.stride_h(), s.has_stride_w(), s.stride_w(), 1);
  const Pair pad = pair_of(s.pad(), s.has_pad_h(), s.pad_h(), s.has_pad_w(), s.pad_w(), 0);
  return {window(kernel.h, stride.h, pad.h, dilation.h), window(kernel.w, stride.w, pad.w, dilation.w)};
}

PlaneMap windows(const caffe::ConvolutionParameter& s) {
  return windows(
      s, pair_of(s.dilation(), s.has_dilation_h(), s.dilation_h(), s.has_dilation_w(), s.dilation_w(), 1));
}

bool keeps_places(const caffe::LayerParameter& layer) {
  static const std::set<std::string> kTypes{
      "AbsVal",    "BN",        "BNLL",    "BatchNorm", "Bias",     "Clip",  "ColorConv", "Concat",
      "Dropout",   "ELU",       "Eltwise", "Exp",       "ExpMax",   "LRN",   "Log",       "MVN",
      "NegSquare", "Normalize", "PReLU",   "Power",     "ReLU",     "Scale", "Sigmoid",   "Softmax",
      "Split",     "SyncBN",    "Swish",   "TanH",      "Threshold"};
  const caffe::SliceParameter& parts = layer.slice_param();
  return kTypes.contains(layer.type()) ||
         (layer.type() == "Slice" && (parts.has_slice_dim() ? parts.slice_dim() == 1 : parts.axis() == 1));
}

class OffsetSearch {
 public:
  OffsetSearch(const caffe::NetParameter& net, int index)
      : net_(net), crop_(net.layer(index)), index_(index) {}

  std::array<std::int64_t, 2> run() const {
    if (crop_.bottom_size() != 2 || crop_.crop_param().axis() != 2)
      refuse("automatic_offset needs two inputs, and cuts rows and columns only (axis: 2)");
    // Every blob on the way of the first input, and where places of that lie in it.
    std::map<std::string, PlaneMap> passed;
    PlaneMap map;
    int at = index_;
    const caffe::LayerParameter* unknown = nullptr;  // the one where the first input's way ends
    for (std::string blob = crop_.bottom(0);;) {
      passed.emplace(blob, map);
      const caffe::LayerParameter* layer = producer(blob, at);
      PlaneMap step;
      if (layer == nullptr || layer->bottom_size() == 0) break;
      if (!step_of(*layer, step)) {
        unknown = layer;
        break;
      }
      map = map.then(step);
      blob = layer->bottom(0);
    }
    map = {};
    at = index_;
    for (std::string blob = crop_.bottom(1);;) {
      if (const auto common = passed.find(blob); common != passed.end())
        return offset(map.then(common->second.inverse()));
      const caffe::LayerParameter* layer = producer(blob, at);
      if (layer == nullptr || layer->bottom_size() == 0) {
        if (unknown != nullptr) refuse_step(*unknown);
        refuse(
            "automatic_offset: its inputs do not come from one blob by layers whose first inputs lead there");
      }
      PlaneMap step;
      if (!step_of(*layer, step)) refuse_step(*layer);
      map = map.then(step);
      blob = layer->bottom(0);
    }
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    bad_input("layer ", quoted(crop_.name()), " (Crop): ", parts...);
  }

  [[noreturn]] void refuse_step(const caffe::LayerParameter& layer) const {
    refuse("automatic_offset: how layer ", quoted(layer.name()), " (", layer.type(),
           ") moves positions is not known; give offset");
  }

  /// The layer before layer `at` that makes the blob, not one that changes it in place; `at` becomes its
  /// number.
  const caffe::LayerParameter* producer(const std::string& blob, int& at) const {
    for (int i = 0; i < at; ++i)
      for (const std::string& top : net_.layer(i).top())
        if (top == blob) {
          at = i;
          return &net_.layer(i);
        }
    return nullptr;
  }

  /// From places in the layer's output to those in its first input. False: not known.
  bool step_of(const caffe::LayerParameter& layer, PlaneMap& step) const {
    const std::string& type = layer.type();
    if (type == "Convolution" || type == "DepthwiseConvolution" || type == "ConvolutionDepthwise")
      step = windows(layer.convolution_param());
    else if (type == "Deconvolution")
      step = windows(layer.convolution_param()).inverse();
    else if (type == "Pooling" && !layer.pooling_param().global_pooling())
      step = windows(layer.pooling_param(), {1, 1});
    else if (type == "Crop" && layer.crop_param().axis() == 2 && !layer.crop_param().automatic_offset() &&
             !layer.crop_param().center_align())
      step = cut(layer.crop_param());
    else
      return keeps_places(layer);
    // A stride of 0, which the layer itself refuses.
    return std::isfinite(step.rows.scale) && std::isfinite(step.columns.scale) && step.rows.scale > 0 &&
           step.columns.scale > 0;
  }

  static PlaneMap cut(const caffe::CropParameter& s) {
    const double rows = s.offset_size() > 0 ? s.offset(0) : 0;
    return {{1, rows}, {1, s.offset_size() > 1 ? double(s.offset(1)) : rows}};
  }

  std::array<std::int64_t, 2> offset(const PlaneMap& to_first) const {
    std::array<std::int64_t, 2> found{};
    constexpr double kMost = std::numeric_limits<std::int32_t>::max();
    for (int axis = 0; axis < 2; ++axis) {
      const AxisMap& map = axis == 0 ? to_first.rows : to_first.columns;
      if (std::abs(map.scale - 1) > 1e-9)
        refuse("automatic_offset: a step in ", quoted(crop_.bottom(1)), " is ", map.scale, " in ",
               quoted(crop_.bottom(0)), "; strides must agree");
      const double whole = std::round(map.offset);
      if (std::abs(map.offset - whole) > 1e-6 || whole < 0 || whole > kMost)
        refuse("automatic_offset: ", quoted(crop_.bottom(1)), " begins at ", map.offset, " in ",
               quoted(crop_.bottom(0)), axis == 0 ? " (rows)" : " (columns)",
               "; a cut must begin at a pixel. Pads and kernels between the two decide it");
      found[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(whole);
    }
    return found;
  }

  const caffe::NetParameter& net_;
  const caffe::LayerParameter& crop_;
  int index_;
};

}  // namespace

std::array<std::int64_t, 2> crop_offset(const caffe::NetParameter& net, int index) {
  return OffsetSearch(net, index).run();
}

}  // namespace banyan::io
