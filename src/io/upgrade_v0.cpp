// The oldest format, V0: every setting of every layer type in one flat message, and padding as a separate
// layer.

#include <map>
#include <set>
#include <string>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/upgrade.hpp"
#include "other_types.hpp"

namespace banyan::io {
namespace {

using caffe::V0LayerParameter;
using caffe::V1LayerParameter;

const std::map<std::string, V1LayerParameter::LayerType>& v0_types() {
  static const std::map<std::string, V1LayerParameter::LayerType> types = {
      {"accuracy", V1LayerParameter::ACCURACY},
      {"K1_euclidean_loss", V1LayerParameter::K1_EUCLIDEAN_LOSS},  // Caffe-DeepBinaryCode
      {"K2_euclidean_loss", V1LayerParameter::K2_EUCLIDEAN_LOSS},
      {"bnll", V1LayerParameter::BNLL},
      {"concat", V1LayerParameter::CONCAT},
      {"conv", V1LayerParameter::CONVOLUTION},
      {"data", V1LayerParameter::DATA},
      {"dropout", V1LayerParameter::DROPOUT},
      {"euclidean_loss", V1LayerParameter::EUCLIDEAN_LOSS},
      {"flatten", V1LayerParameter::FLATTEN},
      {"hdf5_data", V1LayerParameter::HDF5_DATA},
      {"hdf5_output", V1LayerParameter::HDF5_OUTPUT},
      {"im2col", V1LayerParameter::IM2COL},
      {"images", V1LayerParameter::IMAGE_DATA},
      {"infogain_loss", V1LayerParameter::INFOGAIN_LOSS},
      {"innerproduct", V1LayerParameter::INNER_PRODUCT},
      {"locally_connected", V1LayerParameter::LOCAL},  // deepface branches
      {"lrn", V1LayerParameter::LRN},
      {"multinomial_logistic_loss", V1LayerParameter::MULTINOMIAL_LOGISTIC_LOSS},
      {"pool", V1LayerParameter::POOLING},
      {"relu", V1LayerParameter::RELU},
      {"sigmoid", V1LayerParameter::SIGMOID},
      {"softmax", V1LayerParameter::SOFTMAX},
      {"softmax_loss", V1LayerParameter::SOFTMAX_LOSS},
      {"softmaxloss", V1LayerParameter::SOFTMAX_LOSS},  // the first months of Caffe
      {"split", V1LayerParameter::SPLIT},
      {"tanh", V1LayerParameter::TANH},
      {"window_data", V1LayerParameter::WINDOW_DATA},
  };
  return types;
}

/// Moves the flat settings of one layer into the messages of V1. A setting that the type does not have is
/// named in `misplaced`.
class LayerUpgrade {
 public:
  LayerUpgrade(const V0LayerParameter& from, V1LayerParameter& to)
      : from_(from), to_(to), type_(from.type()) {}

  void run() {
    learned();
    windows();
    normalization();
    sources();
    images();
    detection();
    if (from_.has_concat_dim()) {
      if (take("concat_dim", {"concat"})) to_.mutable_concat_param()->set_concat_dim(from_.concat_dim());
    }
    if (from_.has_hdf5_output_param() && take("hdf5_output_param", {"hdf5_output"})) {
      *to_.mutable_hdf5_output_param() = from_.hdf5_output_param();
    }
  }
  const std::vector<std::string>& misplaced() const { return misplaced_; }

 private:
  /// Whether this layer's type is one of those that have the setting.
  bool take(const char* setting, const std::set<std::string>& types) {
    if (types.count(type_) > 0) return true;
    misplaced_.push_back(setting);
    return false;
  }

  void learned() {
    if (type_ == "locally_connected") {
      learned(*to_.mutable_local_param());
    } else if (type_ == "conv") {
      learned(*to_.mutable_convolution_param());
    } else if (type_ == "innerproduct") {
      learned(*to_.mutable_inner_product_param());
    } else {
      for (const auto& [given, setting] : {std::pair{from_.has_num_output(), "num_output"},
                                           {from_.has_biasterm(), "biasterm"},
                                           {from_.has_weight_filler(), "weight_filler"},
                                           {from_.has_bias_filler(), "bias_filler"}}) {
        if (given) misplaced_.push_back(setting);
      }
    }
    if (from_.has_group() && take("group", {"conv"})) {
      to_.mutable_convolution_param()->set_group(from_.group());
    }
  }

  template <class Settings>
  void learned(Settings& settings) const {
    if (from_.has_num_output()) settings.set_num_output(from_.num_output());
    if (from_.has_biasterm()) settings.set_bias_term(from_.biasterm());
    if (from_.has_weight_filler()) *settings.mutable_weight_filler() = from_.weight_filler();
    if (from_.has_bias_filler()) *settings.mutable_bias_filler() = from_.bias_filler();
  }

  void windows() {
    if (type_ == "locally_connected") {
      caffe::LocalParameter& local = *to_.mutable_local_param();
      if (from_.has_pad()) local.set_pad(from_.pad());
      if (from_.has_kernelsize()) local.set_kernel_size(from_.kernelsize());
      if (from_.has_stride()) local.set_stride(from_.stride());
    } else if (type_ == "conv") {
      windows(*to_.mutable_convolution_param());
    } else if (type_ == "pool") {
      windows(*to_.mutable_pooling_param());
    } else {
      for (const auto& [given, setting] : {std::pair{from_.has_pad(), "pad"},
                                           {from_.has_kernelsize(), "kernelsize"},
                                           {from_.has_stride(), "stride"}}) {
        if (given) misplaced_.push_back(setting);
      }
    }
    if (from_.has_pool() && take("pool", {"pool"})) {
      // The two enums have the same names and numbers.
      to_.mutable_pooling_param()->set_pool(static_cast<caffe::PoolingParameter::PoolMethod>(from_.pool()));
    }
  }

  template <class Settings>
  void windows(Settings& settings) const {
    if (from_.has_pad()) settings.add_pad(from_.pad());
    if (from_.has_kernelsize()) settings.add_kernel_size(from_.kernelsize());
    if (from_.has_stride()) settings.add_stride(from_.stride());
  }

  void normalization() {
    if (from_.has_dropout_ratio() && take("dropout_ratio", {"dropout"})) {
      to_.mutable_dropout_param()->set_dropout_ratio(from_.dropout_ratio());
    }
    if (from_.has_local_size() && take("local_size", {"lrn"})) {
      to_.mutable_lrn_param()->set_local_size(from_.local_size());
    }
    if (from_.has_alpha() && take("alpha", {"lrn"})) to_.mutable_lrn_param()->set_alpha(from_.alpha());
    if (from_.has_beta() && take("beta", {"lrn"})) to_.mutable_lrn_param()->set_beta(from_.beta());
    if (from_.has_k() && take("k", {"lrn"})) to_.mutable_lrn_param()->set_k(from_.k());
  }

  void sources() {
    if (from_.has_source() &&
        take("source", {"data", "hdf5_data", "images", "window_data", "infogain_loss"})) {
      const std::string& source = from_.source();
      if (type_ == "data") to_.mutable_data_param()->set_source(source);
      if (type_ == "hdf5_data") to_.mutable_hdf5_data_param()->set_source(source);
      if (type_ == "images") to_.mutable_image_data_param()->set_source(source);
      if (type_ == "window_data") to_.mutable_window_data_param()->set_source(source);
      if (type_ == "infogain_loss") to_.mutable_infogain_loss_param()->set_source(source);
    }
    if (from_.has_batchsize() && take("batchsize", {"data", "hdf5_data", "images", "window_data"})) {
      const auto size = from_.batchsize();
      if (type_ == "data") to_.mutable_data_param()->set_batch_size(size);
      if (type_ == "hdf5_data") to_.mutable_hdf5_data_param()->set_batch_size(size);
      if (type_ == "images") to_.mutable_image_data_param()->set_batch_size(size);
      if (type_ == "window_data") to_.mutable_window_data_param()->set_batch_size(size);
    }
    if (from_.has_rand_skip() && take("rand_skip", {"data", "images"})) {
      if (type_ == "data") to_.mutable_data_param()->set_rand_skip(from_.rand_skip());
      if (type_ == "images") to_.mutable_image_data_param()->set_rand_skip(from_.rand_skip());
    }
  }

  void images() {
    // These four are accepted on every type.
    if (from_.has_scale()) to_.mutable_transform_param()->set_scale(from_.scale());
    if (from_.has_meanfile()) to_.mutable_transform_param()->set_mean_file(from_.meanfile());
    if (from_.has_cropsize()) to_.mutable_transform_param()->set_crop_size(from_.cropsize());
    if (from_.has_mirror()) to_.mutable_transform_param()->set_mirror(from_.mirror());
    if (from_.has_shuffle_images() && take("shuffle_images", {"images"})) {
      to_.mutable_image_data_param()->set_shuffle(from_.shuffle_images());
    }
    if (from_.has_new_height() && take("new_height", {"images"})) {
      to_.mutable_image_data_param()->set_new_height(static_cast<unsigned>(from_.new_height()));
    }
    if (from_.has_new_width() && take("new_width", {"images"})) {
      to_.mutable_image_data_param()->set_new_width(static_cast<unsigned>(from_.new_width()));
    }
    if (from_.has_new_num()) misplaced_.push_back("new_num");
    if (from_.has_new_channels()) misplaced_.push_back("new_channels");
    if (from_.has_datum_dims()) misplaced_.push_back("datum_dims");
  }

  void detection() {
    const std::set<std::string> types = {"window_data"};
    if (from_.has_det_fg_threshold() && take("det_fg_threshold", types)) {
      to_.mutable_window_data_param()->set_fg_threshold(from_.det_fg_threshold());
    }
    if (from_.has_det_bg_threshold() && take("det_bg_threshold", types)) {
      to_.mutable_window_data_param()->set_bg_threshold(from_.det_bg_threshold());
    }
    if (from_.has_det_fg_fraction() && take("det_fg_fraction", types)) {
      to_.mutable_window_data_param()->set_fg_fraction(from_.det_fg_fraction());
    }
    if (from_.has_det_context_pad() && take("det_context_pad", types)) {
      to_.mutable_window_data_param()->set_context_pad(from_.det_context_pad());
    }
    if (from_.has_det_crop_mode() && take("det_crop_mode", types)) {
      to_.mutable_window_data_param()->set_crop_mode(from_.det_crop_mode());
    }
  }

  const V0LayerParameter& from_;
  V1LayerParameter& to_;
  const std::string& type_;
  std::vector<std::string> misplaced_;
};

V1LayerParameter upgrade_layer(const V1LayerParameter& outer, const std::string& origin) {
  V1LayerParameter layer = outer;
  if (!outer.has_layer()) return layer;
  layer.clear_layer();
  const V0LayerParameter& inner = outer.layer();
  if (inner.has_name()) layer.set_name(inner.name());
  V1LayerParameter::LayerType type;
  if (!v0_layer_type(inner.type(), type)) {
    if (const std::string other = about_other_type(inner.type()); !other.empty())
      bad_input(origin, ": layer ", quoted(inner.name()), " ", other);
    std::vector<std::string> known;
    for (const auto& [name, value] : v0_types()) known.push_back(name);
    bad_input(origin, ": layer ", quoted(inner.name()), " has the unknown V0 type ", quoted(inner.type()),
              did_you_mean(inner.type(), known));
  }
  layer.set_type(type);
  *layer.mutable_blobs() = inner.blobs();
  *layer.mutable_blobs_lr() = inner.blobs_lr();
  *layer.mutable_weight_decay() = inner.weight_decay();
  LayerUpgrade upgrade(inner, layer);
  upgrade.run();
  for (const std::string& setting : upgrade.misplaced()) {
    log_error(cat(origin, ": layer \"", inner.name(), "\" of V0 type \"", inner.type(), "\" cannot have ",
                  setting, "; it is dropped"));
  }
  return layer;
}

/// memory_data (2013): an image that a program gives, which is an input of the net.
void input_of_memory(const V1LayerParameter& outer, caffe::NetParameter& net, const std::string& origin) {
  const V0LayerParameter& layer = outer.layer();
  const caffe::DatumDims& dims = layer.datum_dims();
  if (outer.bottom_size() > 0 || outer.top_size() != 1 || dims.channels() < 1 || dims.height() < 1 ||
      dims.width() < 1) {
    bad_input(origin, ": memory_data layer ", quoted(layer.name()),
              " needs one top, no bottom, and channels, height and width of datum_dims above 0");
  }
  net.add_input(outer.top(0));
  for (const int dim : {1, dims.channels(), dims.height(), dims.width()}) net.add_input_dim(dim);
}

/// The net without its `padding` layers: each one's pad is written into the layers that read it, which then
/// read what the padding layer read.
caffe::NetParameter fold_padding(caffe::NetParameter net, const std::string& origin) {
  caffe::NetParameter folded = net;
  folded.clear_layers();
  std::map<std::string, const V1LayerParameter*> producers;  // of a blob, up to the current layer
  for (const V1LayerParameter& original : net.layers()) {
    const bool padding = original.layer().type() == "padding";
    if (padding && (original.bottom_size() != 1 || original.top_size() != 1)) {
      bad_input(origin, ": padding layer ", quoted(original.layer().name()), " needs one bottom and one top");
    }
    if (!padding) {
      V1LayerParameter* layer = folded.add_layers();
      *layer = original;
      for (int b = 0; b < original.bottom_size(); ++b) {
        const auto producer = producers.find(original.bottom(b));
        if (producer == producers.end() || producer->second->layer().type() != "padding") continue;
        const std::string& type = original.layer().type();
        if (type != "conv" && type != "pool") {
          bad_input(origin, ": layer ", quoted(original.layer().name()), " of type ", quoted(type),
                    " reads a padding layer; only conv and pool can");
        }
        layer->mutable_layer()->set_pad(producer->second->layer().pad());
        layer->set_bottom(b, producer->second->bottom(0));
      }
    }
    for (const std::string& top : original.top()) producers[top] = &original;
  }
  return folded;
}

}  // namespace

bool v0_layer_type(const std::string& v0_type, V1LayerParameter::LayerType& type) {
  const auto found = v0_types().find(v0_type);
  if (found == v0_types().end()) return false;
  type = found->second;
  return true;
}

bool needs_v0_upgrade(const caffe::NetParameter& net) {
  for (const V1LayerParameter& layer : net.layers()) {
    if (layer.has_layer()) return true;
  }
  return false;
}

caffe::NetParameter upgrade_v0(caffe::NetParameter net, const std::string& origin) {
  if (!needs_v0_upgrade(net)) return net;
  const caffe::NetParameter folded = fold_padding(std::move(net), origin);
  caffe::NetParameter upgraded;
  if (folded.has_name()) upgraded.set_name(folded.name());
  *upgraded.mutable_input() = folded.input();
  upgraded.mutable_bottom()->CopyFrom(folded.bottom());
  *upgraded.mutable_input_dim() = folded.input_dim();
  if (folded.has_force_backward()) upgraded.set_force_backward(folded.force_backward());
  // Kept so that the next step can refuse a file that mixes the formats.
  *upgraded.mutable_layer() = folded.layer();
  for (const V1LayerParameter& layer : folded.layers()) {
    if (layer.layer().type() == "memory_data") {
      input_of_memory(layer, upgraded, origin);
    } else {
      *upgraded.add_layers() = upgrade_layer(layer, origin);
    }
  }
  return upgraded;
}

}  // namespace banyan::io
