// BatchNorm: blobs mean, variance, factor (C, C, 1); with scale_bias (NVIDIA), a scale_filler or a
// bias_filler, or Intel's engines unless use_weight_bias is false, also scale and bias (C each).
//
// BVLC: use_global_stats absent means tests use the stored statistics. NVIDIA's form: tests always use them,
// training never does.
#include "banyan/layers/batch_norm.hpp"

namespace banyan {
namespace {

class CaffeBatchNorm : public BatchNormalization {
 public:
  using BatchNormalization::BatchNormalization;

 protected:
  BatchNormDialect read_dialect(std::int64_t channels) override;

 private:
  const caffe::BatchNormParameter& settings() const { return parameter_.batch_norm_param(); }
  void refuse_unsupported() const;
  bool is_nvidia() const {
    return settings().scale_bias() || settings().has_scale_filler() || settings().has_bias_filler();
  }
  bool is_intel() const {
    return (settings().engine() == caffe::BatchNormParameter::MKL2017 ||
            settings().engine() == caffe::BatchNormParameter::MKLDNN) &&
           settings().use_weight_bias();
  }
  void declare_scale_and_bias(BatchNormDialect& dialect, std::int64_t channels);
};

void CaffeBatchNorm::refuse_unsupported() const {
  const auto& s = settings();
  if (s.relu() || s.fused_relu()) refuse("a fused ReLU is not supported; add a ReLU layer");
  if (s.update_global_stats()) refuse("update_global_stats is not supported");
  if (s.stats_batch_size() != 0) refuse("stats_batch_size is not supported");
  if (is_intel() && !s.bias_term()) refuse("bias_term: false is not supported");
  if (!(s.eps() >= 0)) refuse("eps must not be negative; found ", s.eps());
  // Multipliers of statistics have no meaning; NVIDIA's files carry them all the same.
  for (int i = 0; i < 3 && i < parameter_.param_size() && !is_nvidia() && !is_intel(); ++i)
    if (parameter_.param(i).lr_mult() != 0)
      refuse("blob ", i, " is a running statistic, which is not learned; its lr_mult must be 0, not ",
             parameter_.param(i).lr_mult());
}

BatchNormDialect CaffeBatchNorm::read_dialect(std::int64_t channels) {
  refuse_unsupported();
  const auto& s = settings();
  BatchNormDialect dialect;
  const caffe::FillerParameter zero;
  declare(Shape{channels}, zero, ParameterKind::statistic);
  declare(Shape{channels}, zero, ParameterKind::statistic);
  declare(Shape{1}, zero, ParameterKind::statistic);
  dialect.mean = 0;
  dialect.variance = 1;
  dialect.factor = 2;
  dialect.running = is_nvidia() ? BatchNormDialect::Running::corrected : BatchNormDialect::Running::sums;
  if (s.has_use_global_stats() && !is_nvidia())
    dialect.stored =
        s.use_global_stats() ? BatchNormDialect::Stored::always : BatchNormDialect::Stored::never;
  dialect.fraction = s.moving_average_fraction();
  dialect.eps = s.eps();
  dialect.arithmetic = s.variance();
  dialect.sync = s.sync();
  dialect.sync_group_size = static_cast<int>(s.sync_group_size());
  if (is_nvidia() || is_intel()) declare_scale_and_bias(dialect, channels);
  return dialect;
}

void CaffeBatchNorm::declare_scale_and_bias(BatchNormDialect& dialect, std::int64_t channels) {
  caffe::FillerParameter scale;
  scale.set_value(1);
  if (settings().has_scale_filler()) scale = settings().scale_filler();
  if (is_intel() && settings().has_filler()) scale = settings().filler();
  dialect.slope = 3;
  dialect.bias = 4;
  declare(Shape{channels}, scale);
  declare(Shape{channels}, settings().bias_filler());
  for (std::size_t slot = 3; slot < 5 && is_nvidia(); ++slot)
    parameters_[slot].forced_mult = parameters_[slot].lr_mult = parameters_[slot].decay_mult = 1;
}

const RegisterLayer<CaffeBatchNorm> registered("BatchNorm", {"batch normalization of BVLC, NVIDIA and Intel",
                                                             "batch_norm_param"});

}  // namespace
}  // namespace banyan
