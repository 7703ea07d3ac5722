#include "dense_block.hpp"

#include <algorithm>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan::io {
namespace {

/// Kinds of blobs of which a block has one for each convolution, in their order.
enum DenseBlob : int { kFilter, kSlope, kDenseBias, kMean, kDenseVariance, kDenseKinds };

class DenseWriter {
 public:
  DenseWriter(const caffe::LayerParameter& block,
              google::protobuf::RepeatedPtrField<caffe::LayerParameter>& layers)
      : block_(block), s_(block.denseblock_param()), count_(s_.numtransition()), layers_(layers) {}

  void run() {
    std::string joined = block_.bottom(0);
    for (number_ = 1; number_ <= count_; ++number_) {
      std::string blob = joined;
      normalize("bn", "scale", "relu", blob, true);
      if (s_.use_bc()) {
        convolve("conv_1x1", 4 * s_.growthrate(), 1, blob);
        normalize("bn_1x1", "scale_1x1", "relu_1x1", blob, false);
      }
      convolve("conv", s_.growthrate(), 3, blob);
      if (s_.use_dropout() && s_.dropout_amount() > 0)
        add("drop", "Dropout", blob, blob).mutable_dropout_param()->set_dropout_ratio(s_.dropout_amount());
      caffe::LayerParameter& join =
          add("concat", "Concat", joined,
              number_ == count_ ? block_.top(0) : dense_layer_name(block_.name(), "concat", number_));
      join.add_bottom(blob);
      joined = join.top(0);
    }
  }

 private:
  caffe::LayerParameter& add(const char* what, const char* type, const std::string& bottom,
                             const std::string& top) {
    caffe::LayerParameter& layer = *layers_.Add();
    layer.set_name(dense_layer_name(block_.name(), what, number_));
    layer.set_type(type);
    layer.add_bottom(bottom);
    layer.add_top(top);
    *layer.mutable_include() = block_.include();
    *layer.mutable_exclude() = block_.exclude();
    if (block_.has_phase()) layer.set_phase(block_.phase());
    return layer;
  }
  caffe::LayerParameter& make(const char* what, const char* type, std::string& blob) {
    const std::string bottom = std::exchange(blob, dense_layer_name(block_.name(), what, number_));
    return add(what, type, bottom, blob);
  }
  /// What the block's `param` says of one of its blobs.
  void copy_spec(DenseBlob kind, caffe::LayerParameter& layer) const {
    if (const int at = kind * count_ + number_ - 1; !s_.use_bc() && at < block_.param_size())
      *layer.add_param() = block_.param(at);
  }

  void normalize(const char* norm, const char* scale, const char* relu, std::string& blob, bool first) {
    make(norm, "BatchNorm", blob);
    caffe::LayerParameter& slopes = add(scale, "Scale", blob, blob);
    caffe::ScaleParameter& settings = *slopes.mutable_scale_param();
    if (s_.has_bn_scaler_filler()) *settings.mutable_filler() = s_.bn_scaler_filler();
    settings.set_bias_term(true);
    if (s_.has_bn_bias_filler()) *settings.mutable_bias_filler() = s_.bn_bias_filler();
    if (first) {
      copy_spec(kSlope, slopes);
      copy_spec(kDenseBias, slopes);
    }
    add(relu, "ReLU", blob, blob);
  }

  void convolve(const char* what, int outputs, int kernel, std::string& blob) {
    caffe::LayerParameter& layer = make(what, "Convolution", blob);
    caffe::ConvolutionParameter& settings = *layer.mutable_convolution_param();
    settings.set_num_output(static_cast<unsigned>(outputs));
    settings.set_bias_term(false);
    settings.add_kernel_size(static_cast<unsigned>(kernel));
    if (kernel > 1) settings.add_pad(static_cast<unsigned>(kernel / 2));
    if (s_.has_filter_filler()) *settings.mutable_weight_filler() = s_.filter_filler();
    if (kernel > 1) copy_spec(kFilter, layer);
  }

  const caffe::LayerParameter& block_;
  const caffe::DenseBlockParameter& s_;
  const int count_;
  google::protobuf::RepeatedPtrField<caffe::LayerParameter>& layers_;
  int number_ = 1;
};

/// How many convolutions the block has, 0 if its blobs are not those of one without use_BC: the channels that
/// its convolutions read grow.
std::size_t convolutions(const LayerWeights& block) {
  const std::vector<BlobData>& blobs = block.blobs;
  if (block.type != "DenseBlock" || blobs.size() % kDenseKinds != 1 || blobs.back().count() != 1) return 0;
  const std::size_t count = blobs.size() / kDenseKinds;
  for (std::size_t i = 0; i < count; ++i)
    if (blobs[i].shape.size() != 4 || (i > 0 && blobs[i].shape[1] <= blobs[i - 1].shape[1])) return 0;
  return count;
}

}  // namespace

std::string dense_layer_name(const std::string& block, const char* what, int number) {
  return cat(block, "/", what, number);
}

void write_out_dense_block(const caffe::LayerParameter& block, const std::string& origin,
                           google::protobuf::RepeatedPtrField<caffe::LayerParameter>& layers) {
  const caffe::DenseBlockParameter& s = block.denseblock_param();
  const auto refuse = [&](const auto&... why) {
    bad_input(origin, ": layer ", quoted(block.name()), " (DenseBlock): ", why...);
  };
  constexpr int kMost = 10000;
  if (block.bottom_size() != 1 || block.top_size() != 1)
    refuse("expected 1 input and 1 output; found ", block.bottom_size(), " and ", block.top_size());
  if (s.numtransition() < 1 || s.numtransition() > kMost || s.growthrate() < 1 || s.growthrate() > kMost)
    refuse("numTransition and growthRate must be in [1, ", kMost, "]; found ", s.numtransition(), " and ",
           s.growthrate());
  if (block.loss_weight_size() + block.propagate_down_size() > 0)
    refuse("loss_weight and propagate_down are for layers that it stands for: write these out");
  if (const int blobs = kDenseKinds * static_cast<int>(s.numtransition()) + 1;
      !s.use_bc() && block.param_size() > blobs)
    refuse("has ", block.param_size(), " `param` entries but only ", blobs, " blobs");
  if (s.use_bc() && (s.use_dropout() || block.param_size() > 0))
    refuse(
        s.use_dropout() ? "where use_dropout drops with use_BC" : "which blob a `param` is for with use_BC",
        " is not known; write out the block's layers, BatchNorm, Scale, ReLU, Convolution, Dropout and "
        "Concat");
  DenseWriter(block, layers).run();
}

void split_dense_blocks(ModelWeights& weights) {
  if (std::all_of(weights.layers.begin(), weights.layers.end(),
                  [](const LayerWeights& layer) { return convolutions(layer) == 0; }))
    return;
  std::vector<LayerWeights> layers;
  for (LayerWeights& layer : weights.layers) {
    const std::size_t count = convolutions(layer);
    if (count == 0) {
      layers.push_back(std::move(layer));
      continue;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const auto add = [&](const char* what, const char* type, std::vector<BlobData> blobs) {
        layers.push_back(
            {dense_layer_name(layer.name, what, static_cast<int>(i) + 1), type, std::move(blobs)});
      };
      const auto blob = [&](DenseBlob kind) {
        BlobData taken = std::move(layer.blobs[static_cast<std::size_t>(kind) * count + i]);
        if (kind != kFilter) taken.shape = {static_cast<std::int64_t>(taken.count())};
        return taken;
      };
      add("bn", "BatchNorm", {blob(kMean), blob(kDenseVariance), layer.blobs.back()});
      add("scale", "Scale", {blob(kSlope), blob(kDenseBias)});
      add("conv", "Convolution", {blob(kFilter)});
    }
  }
  weights.layers = std::move(layers);
}

}  // namespace banyan::io
