// Types of branches that stand for several layers here, for none, or for a type with another message.
#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/upgrade.hpp"
#include "dense_block.hpp"
#include "free_name.hpp"

namespace banyan::io {
namespace {

using LayerList = google::protobuf::RepeatedPtrField<caffe::LayerParameter>;

/// Of Ristretto, whose layers differ from BVLC's by their quantization_param alone.
std::string without_ristretto(const std::string& type) {
  if (type == "ConvolutionRistretto") return "Convolution";
  if (type == "DeconvolutionRistretto") return "Deconvolution";
  if (type == "FcRistretto") return "InnerProduct";
  if (type == "LRNRistretto") return "LRN";
  return type;
}

bool is_local(const std::string& type) {
  return type == "LocalWeightedConvolution" || type == "LocallyConnected";
}

/// Of branches; the largest of the negated values is the smallest, negated.
bool is_minimum(const caffe::LayerParameter& layer) {
  return layer.type() == "Pooling" && layer.pooling_param().pool() == caffe::PoolingParameter::MIN;
}

/// BVLC's opencl branch writes a maximum Pooling into the LRN before it.
bool pools_after(const caffe::LayerParameter& layer) {
  return without_ristretto(layer.type()) == "LRN" &&
         layer.lrn_param().fuse_type() == caffe::LRNParameter::FUSED_POOL_MAX;
}

/// Branches for descriptors of objects and their poses: a triplet, perhaps a pair beside it (the fourth and
/// fifth inputs), and perhaps labels, which are not read.
bool has_more_than_a_triplet(const caffe::LayerParameter& layer) {
  return layer.type() == "TripletLoss" && layer.bottom_size() >= 4 && layer.bottom_size() <= 6;
}

/// DecoupledNet's has a second output, 1 where the input is positive, else 0.
bool marks_positive(const caffe::LayerParameter& layer) {
  return layer.type() == "ReLU" && layer.bottom_size() == 1 && layer.top_size() == 2;
}

constexpr float kZeroByte = 128;

bool convolves_bytes(const caffe::NetParameter& net) {
  return std::any_of(net.layer().begin(), net.layer().end(), [](const caffe::LayerParameter& layer) {
    return layer.quantization_param().force_u8_input();
  });
}

bool pads_images(const caffe::LayerParameter& layer) {
  return layer.bottom_size() == 0 && layer.top_size() > 0 && layer.transform_param().pad() > 0;
}

bool pads_bytes(const caffe::NetParameter& net) {
  return std::any_of(net.layer().begin(), net.layer().end(), pads_images) && convolves_bytes(net);
}

bool is_dialect(const caffe::LayerParameter& layer) {
  constexpr std::array<std::string_view, 5> kTypes{"ConvolutionReLU", "DenseBlock", "ReLUPooling", "Switch",
                                                   "XCLProgram"};
  const std::string& type = layer.type();
  if (is_minimum(layer) || pools_after(layer) || has_more_than_a_triplet(layer) || marks_positive(layer))
    return true;
  return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end() || is_local(type) ||
         without_ristretto(type) != type;
}

class DialectUpgrade {
 public:
  /// `names`: of layers and blobs, which are taken.
  DialectUpgrade(const std::string& origin, std::set<std::string> names, bool bytes, LayerList& layers)
      : origin_(origin), names_(std::move(names)), bytes_(bytes), layers_(layers) {}

  void take(caffe::LayerParameter& layer) {
    if (bytes_ && pads_images(layer)) return take_padding(layer);
    const std::string type = layer.type();
    if (type == "XCLProgram") {
      warn(layer, ": it loads a program into an FPGA (fpga_caffe), and is left out");
    } else if (type == "DenseBlock") {
      write_out_dense_block(layer, origin_, layers_);
    } else if (has_more_than_a_triplet(layer)) {
      take_triplet(layer);
    } else if (type == "Switch") {
      take_switch(layer);
    } else if (marks_positive(layer)) {
      take_marks(layer);
    } else {
      if (type == "ReLUPooling" && layer.pooling_param().pool() == caffe::PoolingParameter::MIN)
        bad_input(origin_, ": layer ", quoted(layer.name()),
                  " (ReLUPooling): pool: MIN is not supported there; write a ReLU and a Pooling layer");
      layer.set_type(without_ristretto(type));
      if (is_minimum(layer) && layer.bottom_size() == 1 && layer.top_size() == 1) return take_minimum(layer);
      if (pools_after(layer) && layer.top_size() == 1) return take_pooled(layer);
      if (type == "ReLUPooling") add_relu(layer);
      if (type == "ConvolutionReLU") fuse_relu(layer);
      if (is_local(type)) become_local(layer);
      layer.set_type(type == "ConvolutionReLU" ? "Convolution"
                     : type == "ReLUPooling"   ? "Pooling"
                     : is_local(type)          ? "Local"
                                               : without_ristretto(type));
      layers_.Add()->Swap(&layer);
    }
  }

 private:
  template <class... Parts>
  void warn(const caffe::LayerParameter& layer, const Parts&... parts) const {
    log_warning(cat(origin_, ": layer ", quoted(layer.name()), " (", layer.type(), ")", parts...));
  }

  /// Layers of the same name, of which each phase has one, get the same names.
  std::string free(std::string name) const { return free_name(std::move(name), names_); }

  /// A layer where `by` is. An empty top: the layer's name.
  caffe::LayerParameter& add(const caffe::LayerParameter& by, const char* ending, const char* type,
                             const std::string& bottom, const std::string& top = "") {
    caffe::LayerParameter& layer = *layers_.Add();
    layer.set_name(free(by.name() + ending));
    layer.set_type(type);
    layer.add_bottom(bottom);
    layer.add_top(top.empty() ? layer.name() : top);
    *layer.mutable_include() = by.include();
    *layer.mutable_exclude() = by.exclude();
    if (by.has_phase()) layer.set_phase(by.phase());
    return layer;
  }

  /// The output is positive where the input is, unless the slope is negative; then that Caffe, too, looks at
  /// the input after an output in its place.
  void take_marks(caffe::LayerParameter& relu) {
    const caffe::LayerParameter of = relu;
    relu.mutable_top()->RemoveLast();
    if (relu.loss_weight_size() > 1) relu.mutable_loss_weight()->RemoveLast();
    layers_.Add()->Swap(&relu);
    const bool of_input = of.relu_param().negative_slope() < 0;
    caffe::LayerParameter& marks =
        add(of, "_marks", "Threshold", of_input ? of.bottom(0) : of.top(0), of.top(1));
    if (of.loss_weight_size() > 1) marks.add_loss_weight(of.loss_weight(1));
  }

  void take_minimum(caffe::LayerParameter& pooling) {
    caffe::LayerParameter& negated = add(pooling, "_negated", "Power", pooling.bottom(0));
    negated.mutable_power_param()->set_scale(-1);
    const std::string largest = free(pooling.name() + "_maximum");
    caffe::LayerParameter& maximum = *layers_.Add();
    maximum = pooling;
    maximum.set_bottom(0, negated.top(0));
    maximum.set_top(0, largest);
    maximum.mutable_pooling_param()->set_pool(caffe::PoolingParameter::MAX);
    maximum.clear_loss_weight();
    caffe::LayerParameter& minimum = add(pooling, "_minimum", "Power", largest, pooling.top(0));
    minimum.mutable_power_param()->set_scale(-1);
    *minimum.mutable_loss_weight() = pooling.loss_weight();
  }

  void take_pooled(caffe::LayerParameter& lrn) {
    const std::string top = lrn.top(0), between = free(lrn.name() + "_unpooled");
    caffe::PoolingParameter settings;
    settings.Swap(lrn.mutable_lrn_param()->mutable_pooling_param());
    lrn.mutable_lrn_param()->clear_pooling_param();
    lrn.mutable_lrn_param()->clear_fuse_type();
    lrn.set_top(0, between);
    caffe::LayerParameter& kept = *layers_.Add();
    kept = lrn;
    kept.clear_loss_weight();
    caffe::LayerParameter& pooling = add(lrn, "_pooled", "Pooling", between, top);
    pooling.mutable_pooling_param()->Swap(&settings);
    *pooling.mutable_loss_weight() = lrn.loss_weight();
  }

  /// What nothing else reads would become an output of the net.
  void silence(const caffe::LayerParameter& by, int first, int last) {
    if (first == last) return;
    caffe::LayerParameter& silence = add(by, "_unread", "Silence", by.bottom(first));
    for (int i = first + 1; i < last; ++i) silence.add_bottom(by.bottom(i));
    silence.clear_top();
  }

  /// Intel's first convolutions of bytes, where 128 stands for 0.
  void take_padding(caffe::LayerParameter& source) {
    const auto pad = static_cast<int>(source.transform_param().pad());
    warn(source, ": transform_param.pad surrounds images by ", pad,
         " pixels of 128 after mean and scale, which are zeros to a convolution with force_u8_input");
    source.mutable_transform_param()->clear_pad();
    const std::string top = source.top(0), inside = free(source.name() + "_inside");
    source.set_top(0, inside);
    const caffe::LayerParameter of = source;
    layers_.Add()->Swap(&source);
    caffe::LayerParameter& centred = add(of, "_centred", "Power", inside);
    centred.mutable_power_param()->set_shift(-kZeroByte);
    caffe::LayerParameter& padded = add(of, "_padded", "Padding", centred.top(0));
    padded.mutable_padding_param()->set_pad_beg(pad);
    padded.mutable_padding_param()->set_pad_end(pad);
    add(of, "_bytes", "Power", padded.top(0), top).mutable_power_param()->set_shift(kZeroByte);
  }

  void take_triplet(caffe::LayerParameter& loss) {
    const int bottoms = loss.bottom_size(), triplet = 3, pair = 5, labels = bottoms < pair ? triplet : pair;
    if (bottoms > labels) warn(loss, ": its last input, ", quoted(loss.bottom(labels)), ", is not read");
    silence(loss, labels, bottoms);
    if (bottoms >= pair) {
      caffe::LayerParameter& pairs = add(loss, "_pairs", "EuclideanLoss", loss.bottom(3));
      pairs.add_bottom(loss.bottom(4));
      *pairs.mutable_loss_weight() = loss.loss_weight();
      for (int i = triplet; i < pair && i < loss.propagate_down_size(); ++i)
        pairs.add_propagate_down(loss.propagate_down(i));
    }
    while (loss.bottom_size() > triplet) loss.mutable_bottom()->RemoveLast();
    while (loss.propagate_down_size() > triplet) loss.mutable_propagate_down()->RemoveLast();
    layers_.Add()->Swap(&loss);
  }

  /// OpenPose's passes its last input on, until its program chooses another.
  void take_switch(caffe::LayerParameter& chosen) {
    const int last = chosen.bottom_size() - 1;
    if (last >= 0)
      warn(chosen, ": its last input, ", quoted(chosen.bottom(last)),
           ", is passed on, as in OpenPose before its program chooses");
    silence(chosen, 0, std::max(last, 0));
    chosen.set_type("Split");
    if (last > 0) chosen.mutable_bottom()->DeleteSubrange(0, last);
    if (chosen.propagate_down_size() > 1)
      chosen.mutable_propagate_down()->ExtractSubrange(0, chosen.propagate_down_size() - 1, nullptr);
    layers_.Add()->Swap(&chosen);
  }

  static void fuse_relu(caffe::LayerParameter& layer) {
    caffe::ConvolutionParameter& settings = *layer.mutable_convolution_param();
    settings.set_relu(true);
    if (layer.has_relu_param()) settings.set_negative_slope(layer.relu_param().negative_slope());
    layer.clear_relu_param();
  }

  /// Of the pooling's input, which others may read as it is.
  void add_relu(caffe::LayerParameter& pooling) {
    if (pooling.bottom_size() != 1) return;  // Pooling refuses it
    caffe::LayerParameter& relu = add(pooling, "_relu", "ReLU", pooling.bottom(0));
    if (pooling.has_relu_param()) relu.mutable_relu_param()->Swap(pooling.mutable_relu_param());
    pooling.clear_relu_param();
    pooling.set_bottom(0, relu.top(0));
  }

  void become_local(caffe::LayerParameter& layer) const {
    const bool weighted = layer.type() == "LocalWeightedConvolution";
    const bool of_other =
        weighted ? layer.has_locally_connected_param() : layer.has_local_weighted_convolution_param();
    if (const char* const own = weighted ? "local_weighted_convolution_param" : "locally_connected_param";
        layer.has_local_param() || of_other)
      bad_input(origin_, ": layer ", quoted(layer.name()), " (", layer.type(), "): ",
                layer.has_local_param() ? "local_param belongs to Local"
                : weighted              ? "locally_connected_param belongs to LocallyConnected"
                           : "local_weighted_convolution_param belongs to LocalWeightedConvolution",
                "; ", own, " is its message");
    layer.mutable_local_param()->Swap(weighted ? layer.mutable_local_weighted_convolution_param()
                                               : layer.mutable_locally_connected_param());
    layer.clear_local_weighted_convolution_param();
    layer.clear_locally_connected_param();
    if (weighted) layer.mutable_local_param()->set_shared_bias(true);
  }

  const std::string& origin_;
  std::set<std::string> names_;
  bool bytes_;  ///< the net has a convolution of bytes
  LayerList& layers_;
};

/// A PriorBox of FaceBoxes, whose program has the numbers in it: 16 boxes of 32, 4 of 64 and one more at each
/// position, for which the layers beside it predict 21 boxes.
bool has_dense_faces(const caffe::NetParameter& net, const caffe::LayerParameter& layer) {
  const caffe::PriorBoxParameter& s = layer.prior_box_param();
  if (layer.type() != "PriorBox" || s.has_dense_faces() || s.min_size_size() != 3 || s.max_size_size() > 0 ||
      s.aspect_ratio_size() > 0 || layer.bottom_size() == 0 || s.min_size(0) != 32 || s.min_size(1) != 64)
    return false;
  return std::any_of(net.layer().begin(), net.layer().end(), [&](const caffe::LayerParameter& other) {
    return other.type() == "Convolution" && other.bottom_size() == 1 && other.bottom(0) == layer.bottom(0) &&
           other.convolution_param().num_output() == 4 * 21;
  });
}

/// LiteFlowNet's Warp reads places, which its nets make of a flow and a Grid; PWC-Net's, which has no Grid,
/// reads the flow.
bool warps_places(const caffe::NetParameter& net) {
  const auto has = [&](const auto& is) { return std::any_of(net.layer().begin(), net.layer().end(), is); };
  return has([](const caffe::LayerParameter& layer) { return layer.type() == "Grid"; }) &&
         has([](const caffe::LayerParameter& layer) {
           return layer.type() == "Warp" && !layer.flow_warp_param().has_coordinates();
         });
}

/// In PixelNet's Caffe, whose nets have a RandBI, a Normalize has a fixed scale unless it says otherwise.
bool has_fixed_scale(const caffe::LayerParameter& layer) {
  return layer.type() == "Normalize" && layer.has_norm_param() && !layer.norm_param().has_fix_scale();
}
bool fixes_scales(const caffe::NetParameter& net) {
  return std::any_of(net.layer().begin(), net.layer().end(), has_fixed_scale) &&
         std::any_of(net.layer().begin(), net.layer().end(),
                     [](const caffe::LayerParameter& layer) { return layer.type() == "RandBI"; });
}

/// The layers that make the places that layer `reader` reads, a Remap, one after the other in place or in
/// different phases; without those whose storage is given.
std::vector<int> makers_of_places(const caffe::NetParameter& net, int reader) {
  const caffe::LayerParameter& remap = net.layer(reader);
  std::vector<int> makers;
  if (remap.type() != "Remap" || remap.bottom_size() < 2) return makers;
  for (int i = 0; i < reader; ++i) {
    const caffe::LayerParameter& layer = net.layer(i);
    if (std::find(layer.top().begin(), layer.top().end(), remap.bottom(1)) != layer.top().end() &&
        !layer.has_storage())
      makers.push_back(i);
  }
  return makers;
}
bool remaps(const caffe::NetParameter& net) {
  for (int i = 0; i < net.layer_size(); ++i)
    if (!makers_of_places(net, i).empty()) return true;
  return false;
}

const caffe::LayerParameter* find_dense_faces(const caffe::NetParameter& net) {
  for (const caffe::LayerParameter& layer : net.layer())
    if (has_dense_faces(net, layer)) return &layer;
  return nullptr;
}

}  // namespace

bool is_read_as_another(const std::string& type) {
  caffe::NetParameter net;
  net.add_layer()->set_type(type);
  return needs_branch_type_upgrade(net) || needs_dialect_upgrade(net) || needs_depth_upgrade(net) ||
         needs_trt_upgrade(net);
}

bool needs_dialect_upgrade(const caffe::NetParameter& net) {
  return warps_places(net) || remaps(net) || fixes_scales(net) ||
         std::any_of(net.layer().begin(), net.layer().end(), is_dialect) || pads_bytes(net) ||
         find_dense_faces(net) != nullptr;
}

caffe::NetParameter upgrade_dialects(caffe::NetParameter net, const std::string& origin) {
  if (const caffe::LayerParameter* faces = find_dense_faces(net)) {
    log_warning(
        cat(origin, ": layer ", quoted(faces->name()),
            " (PriorBox): 21 boxes at each position are predicted, as in FaceBoxes; every PriorBox is "
            "read as its one, prior_box_param { dense_faces: true }"));
    for (caffe::LayerParameter& layer : *net.mutable_layer())
      if (layer.type() == "PriorBox" && !layer.prior_box_param().has_dense_faces())
        layer.mutable_prior_box_param()->set_dense_faces(true);
  }
  if (warps_places(net)) {
    log_info(origin + ": with its Grid layers, as in LiteFlowNet, a Warp reads places, not a flow");
    std::set<std::string> grids;
    for (caffe::LayerParameter& layer : *net.mutable_layer()) {
      if (layer.type() == "Grid") grids.insert(layer.top().begin(), layer.top().end());
      if (layer.type() == "Warp" && !layer.flow_warp_param().has_coordinates())
        layer.mutable_flow_warp_param()->set_coordinates(true);
      // 16 bits would round columns from 256 on.
      const bool adds = std::any_of(layer.bottom().begin(), layer.bottom().end(),
                                    [&](const std::string& bottom) { return grids.contains(bottom); });
      if (adds && !layer.has_storage()) layer.set_storage(caffe::NetParameter::FULL);
    }
  }
  // 16 bits would round columns from 256 on.
  for (int i = 0; i < net.layer_size(); ++i)
    for (const int maker : makers_of_places(net, i))
      net.mutable_layer(maker)->set_storage(caffe::NetParameter::FULL);
  if (fixes_scales(net)) {
    log_info(origin +
             ": with its RandBI layers, as in PixelNet, a Normalize has a scale that does not learn");
    for (caffe::LayerParameter& layer : *net.mutable_layer())
      if (has_fixed_scale(layer)) layer.mutable_norm_param()->set_fix_scale(true);
  }
  const bool bytes = convolves_bytes(net);
  LayerList layers;
  layers.Swap(net.mutable_layer());
  std::set<std::string> names(net.input().begin(), net.input().end());
  names.insert(net.bottom().begin(), net.bottom().end());
  for (const caffe::LayerParameter& layer : layers) {
    names.insert(layer.name());
    names.insert(layer.top().begin(), layer.top().end());
  }
  DialectUpgrade upgrade(origin, std::move(names), bytes, *net.mutable_layer());
  for (caffe::LayerParameter& layer : layers) upgrade.take(layer);
  return net;
}

}  // namespace banyan::io
