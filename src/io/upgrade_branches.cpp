// Spellings of branches that say in one setting what takes a list or a layer of its own here.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/upgrade.hpp"
#include "free_name.hpp"

namespace banyan::io {
namespace {

using Lengths = google::protobuf::RepeatedField<google::protobuf::uint32>;

std::string type_without_depth(const std::string& type) {
  if (type == "Convolution3D" || type == "NdConvolution") return "Convolution";
  if (type == "Deconvolution3D") return "Deconvolution";
  if (type == "Pooling3D" || type == "NdPooling" || type == "PoolingND") return "Pooling";
  return type;
}

template <class Settings>
bool has_depth(const Settings& s) {
  return s.has_kernel_depth() || s.has_temporal_stride() || s.has_temporal_pad() || s.has_kernel_d() ||
         s.has_stride_d() || s.has_pad_d() || s.has_kernel_l() || s.has_stride_l() || s.has_pad_l() ||
         s.has_kernel_shape() || s.has_stride_shape() || s.has_pad_shape();
}

bool has_depth(const caffe::LayerParameter& layer) {
  return type_without_depth(layer.type()) != layer.type() || has_depth(layer.convolution_param()) ||
         has_depth(layer.pooling_param());
}

/// One kind of length with all its names; `depth` is the first axis's, -1 where the file says nothing.
struct Named {
  const char *name, *depth_name;
  Lengths* list;
  bool has_h, has_w;
  std::int64_t h, w, depth, absent;  ///< absent: the length that is not written; -1: there is none
  const caffe::BlobShape* shape;     ///< null: not given
};

class DepthUpgrade {
 public:
  DepthUpgrade(const caffe::LayerParameter& layer, const std::string& origin)
      : begin_(cat(origin, ": layer ", quoted(layer.name()), " (", layer.type(), "): ")) {}

  template <class Settings>
  void run(Settings& s) const {
    if (!has_depth(s)) return;
    const DepthNames names = rename_lengths(s);
    const bool c3d = s.has_kernel_depth() || s.has_temporal_stride() || s.has_temporal_pad();
    const bool other = s.has_kernel_d() || s.has_stride_d() || s.has_pad_d();
    const bool shapes = s.has_kernel_shape() || s.has_stride_shape() || s.has_pad_shape();
    if (c3d + other + shapes > 1)
      refuse("kernel_depth with temporal_stride and temporal_pad, ", names.kernel, " with ", names.stride,
             " and ", names.pad,
             ", and kernel_shape with stride_shape and pad_shape exclude each other; keep one kind");
    if (!s.has_kernel_depth() && !s.has_kernel_d() && !s.has_kernel_shape())
      refuse("strides and pads on the first axis need the kernel's length: kernel_depth, ", names.kernel,
             " or kernel_shape");
    const auto named = [&](const char* in_c3d, const char* in_shapes, const char* otherwise) {
      return c3d ? in_c3d : shapes ? in_shapes : otherwise;
    };
    // C3D's strides and pads in time have defaults; branches with kernel_d disagree about theirs.
    const auto depth = [&](bool has_first, std::int64_t first, bool has_second, std::int64_t second,
                           std::int64_t absent) {
      return has_first ? first : has_second ? second : c3d ? absent : -1;
    };
    write({"kernel_size", named("kernel_depth", "kernel_shape", names.kernel), s.mutable_kernel_size(),
           s.has_kernel_h(), s.has_kernel_w(), s.kernel_h(), s.kernel_w(),
           depth(s.has_kernel_depth(), s.kernel_depth(), s.has_kernel_d(), s.kernel_d(), -1), -1,
           s.has_kernel_shape() ? &s.kernel_shape() : nullptr});
    write({"stride", named("temporal_stride", "stride_shape", names.stride), s.mutable_stride(),
           s.has_stride_h(), s.has_stride_w(), s.stride_h(), s.stride_w(),
           depth(s.has_temporal_stride(), s.temporal_stride(), s.has_stride_d(), s.stride_d(), 1), 1,
           s.has_stride_shape() ? &s.stride_shape() : nullptr});
    write({"pad", named("temporal_pad", "pad_shape", names.pad), s.mutable_pad(), s.has_pad_h(),
           s.has_pad_w(), s.pad_h(), s.pad_w(),
           depth(s.has_temporal_pad(), s.temporal_pad(), s.has_pad_d(), s.pad_d(), 0), 0,
           s.has_pad_shape() ? &s.pad_shape() : nullptr});
    clear(s);
  }

 private:
  /// As the file has them.
  struct DepthNames {
    const char *kernel, *stride, *pad;
  };

  /// Pseudo-3D ResNet's names become the usual ones.
  template <class Settings>
  DepthNames rename_lengths(Settings& s) const {
    if ((s.has_kernel_l() && s.has_kernel_d()) || (s.has_stride_l() && s.has_stride_d()) ||
        (s.has_pad_l() && s.has_pad_d()))
      refuse(
          "kernel_l, stride_l and pad_l are other names of kernel_d, stride_d and pad_d; give one of the "
          "two");
    // One that is missing is named as the others are.
    const bool any = s.has_kernel_l() || s.has_stride_l() || s.has_pad_l();
    const DepthNames names{any && !s.has_kernel_d() ? "kernel_l" : "kernel_d",
                           any && !s.has_stride_d() ? "stride_l" : "stride_d",
                           any && !s.has_pad_d() ? "pad_l" : "pad_d"};
    if (s.has_kernel_l()) s.set_kernel_d(s.kernel_l());
    if (s.has_stride_l()) s.set_stride_d(s.stride_l());
    if (s.has_pad_l()) s.set_pad_d(s.pad_l());
    s.clear_kernel_l();
    s.clear_stride_l();
    s.clear_pad_l();
    return names;
  }

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    bad_input(begin_, parts...);
  }

  void write(const Named& field) const {
    Lengths& list = *field.list;
    if (field.shape != nullptr) {
      if (!list.empty() || field.has_h || field.has_w)
        refuse("give ", field.name, " either as a list or as a shape, not both");
      for (const std::int64_t length : field.shape->dim()) {
        if (length < 0) refuse("a length of ", field.name, " is negative: ", length);
        list.Add(static_cast<unsigned>(length));
      }
      return;
    }
    const bool rest = !list.empty() || field.has_h || field.has_w;
    if (field.depth < 0) {
      if (rest) refuse(field.name, " needs ", field.depth_name, " beside it");
      return;
    }
    if (list.size() > 1 || (!list.empty() && (field.has_h || field.has_w)))
      refuse(field.depth_name, " goes with one ", field.name,
             " for the other two axes, or with its _h and _w");
    const std::int64_t other = list.empty() ? field.absent : list.Get(0);
    const std::int64_t h = field.has_h ? field.h : other, w = field.has_w ? field.w : other;
    if (h < 0 || w < 0)
      refuse(field.depth_name, " needs ", field.name, ", the lengths on the other two axes");
    list.Clear();
    for (const std::int64_t length : {field.depth, h, w}) list.Add(static_cast<unsigned>(length));
  }

  template <class Settings>
  static void clear(Settings& s) {
    s.clear_kernel_depth();
    s.clear_temporal_stride();
    s.clear_temporal_pad();
    s.clear_kernel_d();
    s.clear_stride_d();
    s.clear_pad_d();
    s.clear_kernel_shape();
    s.clear_stride_shape();
    s.clear_pad_shape();
    s.clear_kernel_h();
    s.clear_kernel_w();
    s.clear_stride_h();
    s.clear_stride_w();
    s.clear_pad_h();
    s.clear_pad_w();
  }

  std::string begin_;
};

bool has_deeplab_holes(const caffe::ConvolutionParameter& s) {
  return s.has_hole() || s.has_hole_h() || s.has_hole_w();
}

bool has_kernel_strides(const caffe::ConvolutionParameter& s) {
  return s.kstride_size() > 0 || s.has_kstride_h() || s.has_kstride_w() || s.has_kstride_d();
}

bool has_holes(const caffe::LayerParameter& layer) {
  return has_deeplab_holes(layer.convolution_param()) || has_kernel_strides(layer.convolution_param());
}

/// BVLC's opencl branch writes layers of finished nets as one; only those of a convolution and a ReLU, and of
/// an LRN and a maximum Pooling, have a translation.
void refuse_fusion(const caffe::LayerParameter& layer, const std::string& origin) {
  using Convolution = caffe::ConvolutionParameter;
  const Convolution& conv = layer.convolution_param();
  const auto refuse = [&](const auto&... why) {
    bad_input(origin, ": layer ", quoted(layer.name()), " (", layer.type(), "): ", why...);
  };
  if (conv.fuse_type() != Convolution::UNFUSED && conv.fuse_type() != Convolution::FUSED_CONV_RELU)
    refuse("fuse_type: ", Convolution::FuseType_Name(conv.fuse_type()),
           " (BVLC's opencl branch) is not supported; write the layers that it stands for after the "
           "Convolution");
  if (conv.has_eltwise_param() || (conv.has_relu_param() && conv.fuse_type() == Convolution::UNFUSED))
    refuse(
        "settings of another layer in convolution_param belong to a fuse_type of BVLC's opencl branch; "
        "write a layer with them");
  if (layer.lrn_param().has_pooling_param())
    refuse(
        "pooling_param in lrn_param belongs to fuse_type: FUSED_POOL_MAX; write a Pooling layer after the "
        "LRN");
}

struct FusedRelu {
  bool on = false;
  float slope = 0;
};

FusedRelu fused_relu(const caffe::ConvolutionParameter& settings) {
  if (settings.fuse_type() == caffe::ConvolutionParameter::FUSED_CONV_RELU)
    return {true, settings.relu_param().negative_slope()};
  return {settings.relu(), settings.negative_slope()};
}

FusedRelu fused_relu(const caffe::LayerParameter& layer) {
  const std::string& type = layer.type();
  if (type == "Convolution" || type == "DepthwiseConvolution" || type == "ConvolutionDepthwise")
    return fused_relu(layer.convolution_param());
  if (type == "Eltwise") return {layer.eltwise_param().relu(), layer.eltwise_param().negative_slope()};
  if (type == "BatchNorm")
    return {layer.batch_norm_param().relu() || layer.batch_norm_param().fused_relu(), 0};
  return {};
}

void clear_fused_relu(caffe::LayerParameter& layer) {
  if (layer.has_convolution_param()) {
    layer.mutable_convolution_param()->clear_relu();
    layer.mutable_convolution_param()->clear_negative_slope();
    layer.mutable_convolution_param()->clear_fuse_type();
    layer.mutable_convolution_param()->clear_relu_param();
  }
  if (layer.has_eltwise_param()) {
    layer.mutable_eltwise_param()->clear_relu();
    layer.mutable_eltwise_param()->clear_negative_slope();
  }
  if (layer.has_batch_norm_param()) {
    layer.mutable_batch_norm_param()->clear_relu();
    layer.mutable_batch_norm_param()->clear_fused_relu();
  }
}

/// The ReLU of output `top` of `layer`, with a name that is not `taken`.
caffe::LayerParameter relu_after(const caffe::LayerParameter& layer, int top, float slope,
                                 const std::set<std::string>& taken) {
  caffe::LayerParameter relu;
  relu.set_name(
      free_name(layer.top_size() == 1 ? cat(layer.name(), "_relu") : cat(layer.name(), "_relu", top), taken));
  relu.set_type("ReLU");
  relu.add_bottom(layer.top(top));
  relu.add_top(layer.top(top));
  if (slope != 0) relu.mutable_relu_param()->set_negative_slope(slope);
  *relu.mutable_include() = layer.include();
  *relu.mutable_exclude() = layer.exclude();
  return relu;
}

}  // namespace

bool needs_depth_upgrade(const caffe::NetParameter& net) {
  return std::any_of(net.layer().begin(), net.layer().end(),
                     [](const caffe::LayerParameter& layer) { return has_depth(layer); });
}

caffe::NetParameter upgrade_depth(caffe::NetParameter net, const std::string& origin) {
  for (caffe::LayerParameter& layer : *net.mutable_layer()) {
    const DepthUpgrade upgrade(layer, origin);
    if (layer.has_convolution_param()) upgrade.run(*layer.mutable_convolution_param());
    if (layer.has_pooling_param()) upgrade.run(*layer.mutable_pooling_param());
    layer.set_type(type_without_depth(layer.type()));
  }
  return net;
}

bool needs_hole_upgrade(const caffe::NetParameter& net) {
  return std::any_of(net.layer().begin(), net.layer().end(), has_holes);
}

caffe::NetParameter upgrade_holes(caffe::NetParameter net, const std::string& origin) {
  for (caffe::LayerParameter& layer : *net.mutable_layer()) {
    if (!has_holes(layer)) continue;
    caffe::ConvolutionParameter& s = *layer.mutable_convolution_param();
    const auto refuse = [&](const char* why) {
      bad_input(origin, ": layer ", quoted(layer.name()), " (", layer.type(), "): ", why);
    };
    const bool deeplab = has_deeplab_holes(s), kernel = has_kernel_strides(s);
    if (deeplab + kernel + (s.dilation_size() > 0 || s.has_dilation_h() || s.has_dilation_w()) > 1)
      refuse(kernel ? "kstride is an older name of dilation (BVLC's opencl branch); give one name"
                    : "hole is DeepLab's name of dilation; give one of the two");
    if (s.has_hole() && (s.has_hole_h() || s.has_hole_w()))
      refuse("give either hole or its _h and _w forms, not both");
    if (s.kstride_size() > 0 && (s.has_kstride_h() || s.has_kstride_w()))
      refuse("give either kstride or its _h and _w forms, not both");
    if (s.has_kstride_d() && s.kstride_size() > 1)
      refuse("kstride_d goes with one kstride for the other two axes, or with its _h and _w");
    if (s.has_hole()) s.add_dilation(s.hole());
    if (s.has_hole_h()) s.set_dilation_h(s.hole_h());
    if (s.has_hole_w()) s.set_dilation_w(s.hole_w());
    if (s.has_kstride_d()) {
      const unsigned other = s.kstride_size() > 0 ? s.kstride(0) : 1;
      s.add_dilation(s.kstride_d());
      s.add_dilation(s.has_kstride_h() ? s.kstride_h() : other);
      s.add_dilation(s.has_kstride_w() ? s.kstride_w() : other);
    } else {
      s.mutable_dilation()->MergeFrom(s.kstride());
      if (s.has_kstride_h()) s.set_dilation_h(s.kstride_h());
      if (s.has_kstride_w()) s.set_dilation_w(s.kstride_w());
    }
    s.clear_kstride();
    s.clear_kstride_h();
    s.clear_kstride_w();
    s.clear_kstride_d();
    s.clear_hole();
    s.clear_hole_h();
    s.clear_hole_w();
  }
  return net;
}

void refuse_fusions(const caffe::NetParameter& net, const std::string& origin) {
  for (const caffe::LayerParameter& layer : net.layer()) refuse_fusion(layer, origin);
}

bool needs_fused_relu_upgrade(const caffe::NetParameter& net) {
  return std::any_of(net.layer().begin(), net.layer().end(),
                     [](const caffe::LayerParameter& layer) { return fused_relu(layer).on; });
}

caffe::NetParameter upgrade_fused_relu(caffe::NetParameter net) {
  google::protobuf::RepeatedPtrField<caffe::LayerParameter> layers;
  layers.Swap(net.mutable_layer());
  std::set<std::string> names;
  for (const caffe::LayerParameter& layer : layers) names.insert(layer.name());
  for (caffe::LayerParameter& layer : layers) {
    const FusedRelu relu = fused_relu(layer);
    if (relu.on) clear_fused_relu(layer);
    caffe::LayerParameter& kept = *net.add_layer();
    kept.Swap(&layer);
    for (int top = 0; relu.on && top < kept.top_size(); ++top)
      *net.add_layer() = relu_after(kept, top, relu.slope, names);
  }
  return net;
}

bool needs_bn_stats_upgrade(const caffe::NetParameter& net) { return net.has_bn_stats_batch_size(); }

caffe::NetParameter upgrade_bn_stats(caffe::NetParameter net) {
  for (caffe::LayerParameter& layer : *net.mutable_layer())
    if (layer.type() == "BatchNorm" && !layer.batch_norm_param().has_stats_batch_size())
      layer.mutable_batch_norm_param()->set_stats_batch_size(net.bn_stats_batch_size());
  net.clear_bn_stats_batch_size();
  return net;
}

}  // namespace banyan::io
