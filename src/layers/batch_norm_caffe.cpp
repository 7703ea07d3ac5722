// BatchNorm: blobs mean, variance, factor (C, C, 1); with scale_bias (NVIDIA), or a scale_filler, a
// bias_filler or an engine of Intel's unless use_weight_bias is false, also scale and bias (C each); Intel's
// with bias_term: false have no bias.
//
// BVLC: without use_global_stats, tests use the stored statistics. NVIDIA: tests always use them, training
// never does.
#include "banyan/base/log.hpp"
#include "banyan/layers/batch_norm.hpp"

namespace banyan {
namespace {

int sync_group_size(const caffe::LayerParameter& layer) {
  return static_cast<int>(layer.batch_norm_param().sync_group_size());
}

bool is_nvidias(const caffe::BatchNormParameter& settings) {
  const bool fillers = settings.has_scale_filler() || settings.has_bias_filler();
  return settings.scale_bias() || (fillers && settings.use_weight_bias());
}

bool is_intels(const caffe::BatchNormParameter& settings) {
  const bool intel = settings.engine() == caffe::MKL2017 || settings.engine() == caffe::MKLDNN;
  return intel && settings.use_weight_bias();
}

bool all_are(const io::BlobData& blob, double value) {
  for (std::size_t i = 0; i < blob.count(); ++i)
    if (blob.at(i) != value) return false;
  return true;
}

const io::BlobData& one() {
  static const io::BlobData blob = [] {
    io::BlobData made;
    made.shape = {1};
    made.floats = {1};
    return made;
  }();
  return blob;
}

class CaffeBatchNorm : public BatchNormalization {
 public:
  using BatchNormalization::BatchNormalization;

  /// Blobs in a file:
  ///   3: mean, variance, factor (BVLC);
  ///   5 with 1 element in the third: mean, variance, factor, scale, bias (NVIDIA from 0.16 on, Intel);
  ///   5 with 1 element in the last: scale, bias, mean, variance, reserve (NVIDIA 0.15; the factor is 1);
  ///   4: mean, variance, factor, scale (Intel, bias_term: false).
  /// A file's scale and bias may be dropped only if they have no effect (1 and 0).
  std::vector<const io::BlobData*> match_blobs(const io::LayerWeights& source) const override;
  void read_settings() override;

 protected:
  BatchNormDialect read_dialect(std::int64_t channels) override;

 private:
  const caffe::BatchNormParameter& settings() const { return parameter_.batch_norm_param(); }
  bool is_nvidia() const { return is_nvidias(settings()); }
  void declare_scale_and_bias(BatchNormDialect& dialect, std::int64_t channels);
};

void CaffeBatchNorm::read_settings() {
  const auto& s = settings();
  if (s.relu() || s.fused_relu()) refuse("a fused ReLU is not supported; add a ReLU layer");
  if (s.update_global_stats())
    refuse(
        "update_global_stats is not supported: in PSPNet's Caffe it normalizes by the batch's variance "
        "around a stored mean that stays where it was; use_global_stats alone chooses the statistics");
  if (learns_slopes(s) && !s.bias_term() && !is_intels(s))
    refuse(
        "bias_term: false needs an engine of Intel's: with scale_bias, scale_filler or bias_filler slopes "
        "are "
        "learned together with biases; for slopes alone, write a Scale layer after a BatchNorm that learns "
        "neither");
  if (!(s.eps() >= 0)) refuse("eps must not be negative; found ", s.eps());
  // Multipliers of statistics have no meaning, but NVIDIA's files have them.
  for (int i = 0; i < 3 && i < parameter_.param_size() && !learns_slopes(s); ++i)
    if (parameter_.param(i).lr_mult() != 0)
      refuse("blob ", i, " is a running statistic, which is not learned; its lr_mult must be 0, not ",
             parameter_.param(i).lr_mult());
}

BatchNormDialect CaffeBatchNorm::read_dialect(std::int64_t channels) {
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
  dialect.sync_group_size = sync_group_size(parameter_);
  dialect.part = s.stats_batch_size();
  if (learns_slopes(s)) declare_scale_and_bias(dialect, channels);
  return dialect;
}

void CaffeBatchNorm::declare_scale_and_bias(BatchNormDialect& dialect, std::int64_t channels) {
  caffe::FillerParameter scale;
  scale.set_value(1);
  if (settings().has_filler()) scale = settings().filler();
  if (settings().has_scale_filler()) scale = settings().scale_filler();
  dialect.slope = 3;
  declare(Shape{channels}, scale);
  if (!settings().bias_term()) return;
  dialect.bias = 4;
  declare(Shape{channels}, settings().bias_filler());
  for (std::size_t slot = 3; slot < 5 && is_nvidia(); ++slot)
    parameters_[slot].forced_mult = parameters_[slot].lr_mult = parameters_[slot].decay_mult = 1;
}

std::vector<const io::BlobData*> CaffeBatchNorm::match_blobs(const io::LayerWeights& source) const {
  const std::vector<io::BlobData>& b = source.blobs;
  if (b.empty()) return BatchNormalization::match_blobs(source);
  std::vector<const io::BlobData*> blobs;
  if (b.size() == 3)
    blobs = {&b[0], &b[1], &b[2], nullptr, nullptr};
  else if (b.size() == 4)
    blobs = {&b[0], &b[1], &b[2], &b[3], nullptr};
  else if (b.size() == 5 && b[2].count() == 1)
    blobs = {&b[0], &b[1], &b[2], &b[3], &b[4]};
  else if (b.size() == 5 && b[4].count() == 1)
    blobs = {&b[2], &b[3], &one(), &b[0], &b[1]};
  else
    refuse(
        "the file has ", b.size(),
        " blobs in no known form of BatchNorm (3: mean, variance, factor; 4: with scale; 5: with scale and "
        "bias)");
  const bool has_scale = parameters_.size() > 3, has_bias = parameters_.size() > 4;
  const auto keeps = [&](const char* what) {
    log_info(cat("layer ", quoted(name()), " (", type(), "): the file has ", what));
  };
  if (has_scale && blobs[3] == nullptr)
    keeps(has_bias ? "statistics only; scale and bias keep their values"
                   : "statistics only; the scale keeps its values");
  else if (has_bias && blobs[4] == nullptr)
    keeps("a scale, but no bias, which keeps its values");
  if (!has_scale && blobs[3] != nullptr &&
      !(all_are(*blobs[3], 1) && (blobs[4] == nullptr || all_are(*blobs[4], 0))))
    refuse(
        blobs[4] == nullptr
            ? "the file's BatchNorm has a scale, the net's has none; set batch_norm_param { engine: MKLDNN "
              "bias_term: false }"
            : "the file's BatchNorm has a scale and a bias, the net's has none; set batch_norm_param { "
              "scale_bias: true }");
  if (has_scale && !has_bias && blobs[4] != nullptr && !all_are(*blobs[4], 0))
    refuse("the file's BatchNorm has a bias, which bias_term: false leaves out; remove bias_term");
  blobs.resize(parameters_.size());
  return blobs;
}

const RegisterLayer<CaffeBatchNorm> registered_caffe_batch_norm(
    "BatchNorm", {"batch normalization of BVLC, NVIDIA and Intel",
                  "batch_norm_param",
                  {"", "stats_batch_size: 2"},
                  sync_group_size});

}  // namespace

bool learns_slopes(const caffe::BatchNormParameter& settings) {
  return is_nvidias(settings) || is_intels(settings);
}

}  // namespace banyan
