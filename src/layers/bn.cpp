// BN and SyncBN (yjxiong, PSPNet): blobs slope, bias, mean, variance, each (1, C, 1, 1). SyncBN is BN with
// synchronization, but without `frozen`. The fillers of slope and bias default to 0, as in those branches.
// Mean and variance start at 0, the variance of a frozen BN at 1.
#include "banyan/base/log.hpp"
#include "banyan/layers/batch_norm.hpp"

namespace banyan {
namespace {

int sync_group_size(const caffe::LayerParameter& layer) {
  return static_cast<int>(layer.bn_param().sync_group_size());
}

class BnLayer : public BatchNormalization {
 public:
  using BatchNormalization::BatchNormalization;

  /// Old files have only slope and bias.
  std::vector<const io::BlobData*> match_blobs(const io::LayerWeights& source) const override {
    if (source.blobs.size() != 2) return BatchNormalization::match_blobs(source);
    log_warning(cat("layer ", quoted(name()), " (", type(),
                    "): the file has slope and bias only; running statistics keep their values"));
    return {&source.blobs[0], &source.blobs[1], nullptr, nullptr};
  }

 protected:
  BatchNormDialect read_dialect(std::int64_t channels) override {
    const auto& s = parameter_.bn_param();
    const bool always_sync = type() == "SyncBN";
    const bool frozen = s.frozen() && !always_sync;
    if (!s.moving_average()) refuse("moving_average: false is not supported");
    if (!(s.eps() >= 0)) refuse("eps must not be negative; found ", s.eps());
    BatchNormDialect dialect;
    const Shape shape{1, channels, 1, 1};
    caffe::FillerParameter first_variance;
    first_variance.set_value(frozen ? 1 : 0);
    declare(shape, s.slope_filler());
    declare(shape, s.bias_filler());
    declare(shape, {}, ParameterKind::statistic);
    declare(shape, first_variance, ParameterKind::statistic);
    for (std::size_t slot = 0; slot < 2 && frozen; ++slot)
      parameters_[slot].forced_mult = parameters_[slot].lr_mult = parameters_[slot].decay_mult = 0;
    dialect.slope = 0;
    dialect.bias = 1;
    dialect.mean = 2;
    dialect.variance = 3;
    dialect.running = BatchNormDialect::Running::average;
    dialect.stored = frozen ? BatchNormDialect::Stored::always : BatchNormDialect::Stored::in_tests;
    dialect.fraction = s.momentum();
    dialect.eps = s.eps();
    dialect.arithmetic = s.variance();
    dialect.sync = always_sync || s.sync();
    dialect.sync_group_size = sync_group_size(parameter_);
    return dialect;
  }
};

const RegisterLayer<BnLayer> registered_bn(
    "BN", {"batch normalization with slope and bias (yjxiong, PSPNet)", "bn_param", {""}, sync_group_size});
const RegisterLayer<BnLayer> registered_sync(
    "SyncBN", {"BN over the samples of all devices", "bn_param", {""}, sync_group_size});

}  // namespace
}  // namespace banyan
