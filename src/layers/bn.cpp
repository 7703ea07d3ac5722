// BN and SyncBN (yjxiong, PSPNet): blobs slope, bias, mean, variance, each (1, C, 1, 1). SyncBN is BN with
// synchronization, but without `frozen`. The fillers of slope and bias default to 0, as in those branches.
// Mean and variance start at 0, the variance of a frozen BN at 1.
//
// SegNet (and DeconvNet) writes scale_filler, shift_filler and bn_mode and has blobs slope and bias only:
// LEARN normalizes with the batch, in tests too; INFERENCE computes slope * x + bias, the statistics being
// part of these. A second and a third output show the mean and the variance that LEARN normalizes with (1 x C
// x 1 x 1 each, without eps; no gradient flows through them), from which DeconvNet makes slopes and biases
// for tests. caffe-windows writes the first two with var_eps, the eps of the four blobs above, and decay, the
// weight of the new batch in the running statistics, 1 - momentum. `moving_average: false` leaves mean and
// variance out and normalizes as LEARN does.
#include "banyan/base/log.hpp"
#include "banyan/layers/batch_norm.hpp"

namespace banyan {
namespace {

int bn_group_size(const caffe::LayerParameter& layer) {
  return static_cast<int>(layer.bn_param().sync_group_size());
}

class BnLayer : public BatchNormalization {
 public:
  BnLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : BatchNormalization(parameter, options) {
    if (!shows_statistics()) return;
    traits_.arity.max_outputs = 3;
    traits_.differentiable_outputs = 1;
  }

  /// Old files have only slope and bias.
  std::vector<const io::BlobData*> match_blobs(const io::LayerWeights& source) const override {
    if (source.blobs.size() == 4 && parameters_.size() == 2 && !parameter_.bn_param().moving_average())
      refuse(
          "the file has mean and variance besides slope and bias; the net takes them without "
          "moving_average: false");
    if (source.blobs.size() == 4 && parameters_.size() == 2)
      refuse(
          "the file has mean and variance besides scale and shift, as caffe-windows has; the net takes them "
          "with bn_param { decay: 0.95 }");
    if (source.blobs.size() != 2 || parameters_.size() == 2) return BatchNormalization::match_blobs(source);
    log_warning(cat("layer ", quoted(name()), " (", type(),
                    "): the file has slope and bias only; running statistics keep their values"));
    return {&source.blobs[0], &source.blobs[1], nullptr, nullptr};
  }

  void read_settings() override {
    const auto& s = parameter_.bn_param();
    const bool windows = has_windows_names();
    if (parameter_.top_size() == 2) refuse("has 2 outputs; expected 1, or 3 with mean and variance");
    if (!(s.eps() >= 0)) refuse("eps must not be negative; found ", s.eps());
    if (!(s.var_eps() >= 0)) refuse("var_eps must not be negative; found ", s.var_eps());
    if ((s.has_scale_filler() && s.has_slope_filler()) || (s.has_shift_filler() && s.has_bias_filler()))
      refuse(
          "scale_filler and shift_filler (SegNet) are other names of slope_filler and bias_filler; give one");
    if (windows && (s.has_eps() || s.has_momentum()))
      refuse("var_eps and decay (caffe-windows) take the place of eps and 1 - momentum; give one of each");
    if (!(s.decay() >= 0 && s.decay() <= 1)) refuse("decay must be from 0 to 1; found ", s.decay());
    if (is_segnet() && s.has_momentum())
      refuse(
          "momentum needs stored statistics, which a BN with scale_filler, shift_filler or bn_mode (SegNet) "
          "has not; the other branches' names are slope_filler and bias_filler");
    if (windows && s.has_bn_mode())
      refuse("bn_mode (SegNet) goes with neither var_eps nor decay (caffe-windows)");
    if (s.frozen() && (is_segnet() || !s.moving_average()))
      refuse(
          "frozen needs stored statistics, which a BN with scale_filler, shift_filler, bn_mode or "
          "moving_average: false has not; bn_mode: INFERENCE normalizes nothing");
  }

 protected:
  BatchNormDialect read_dialect(std::int64_t channels) override {
    const auto& s = parameter_.bn_param();
    const bool always_sync = type() == "SyncBN";
    const bool frozen = s.frozen() && !always_sync;
    const bool windows = has_windows_names(), segnet = is_segnet() && !windows;
    BatchNormDialect dialect;
    const Shape shape{1, channels, 1, 1};
    declare(shape, s.has_scale_filler() ? s.scale_filler() : s.slope_filler());
    declare(shape, s.has_shift_filler() ? s.shift_filler() : s.bias_filler());
    dialect.slope = 0;
    dialect.bias = 1;
    if (segnet || !s.moving_average()) {
      const bool normalizes = s.bn_mode() == caffe::BNParameter::LEARN;
      dialect.running = BatchNormDialect::Running::none;
      dialect.stored = normalizes ? BatchNormDialect::Stored::never : BatchNormDialect::Stored::always;
    } else {
      caffe::FillerParameter first_variance;
      first_variance.set_value(frozen ? 1 : 0);
      declare(shape, {}, ParameterKind::statistic);
      declare(shape, first_variance, ParameterKind::statistic);
      dialect.mean = 2;
      dialect.variance = 3;
      dialect.running = BatchNormDialect::Running::average;
      dialect.stored = frozen ? BatchNormDialect::Stored::always : BatchNormDialect::Stored::in_tests;
    }
    for (std::size_t slot = 0; slot < 2 && frozen; ++slot)
      parameters_[slot].forced_mult = parameters_[slot].lr_mult = parameters_[slot].decay_mult = 0;
    dialect.fraction = windows ? 1 - s.decay() : s.momentum();
    dialect.eps = windows ? s.var_eps() : segnet && !s.has_eps() ? kSegNetEps : s.eps();
    dialect.arithmetic = s.variance();
    dialect.sync = always_sync || s.sync();
    dialect.sync_group_size = bn_group_size(parameter_);
    return dialect;
  }

 private:
  static constexpr double kSegNetEps = 1e-9;

  /// caffe-windows'.
  bool has_windows_names() const {
    return parameter_.bn_param().has_var_eps() || parameter_.bn_param().has_decay();
  }

  bool shows_statistics() const {
    const auto& s = parameter_.bn_param();
    return is_segnet() && !has_windows_names() && s.bn_mode() == caffe::BNParameter::LEARN;
  }

  bool is_segnet() const {
    const auto& s = parameter_.bn_param();
    return s.has_scale_filler() || s.has_shift_filler() || s.has_bn_mode();
  }
};

const RegisterLayer<BnLayer> registered_bn(
    "BN", {"batch normalization with slope and bias (yjxiong, PSPNet, SegNet)",
           "bn_param",
           {"", "scale_filler { value: 1 }", "bn_mode: INFERENCE scale_filler { value: 2 }"},
           bn_group_size});
const RegisterLayer<BnLayer> registered_sync(
    "SyncBN", {"BN over the samples of all devices", "bn_param", {""}, bn_group_size});

}  // namespace
}  // namespace banyan
