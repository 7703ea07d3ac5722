#include "banyan/layers/batch_norm.hpp"

#include <algorithm>

#include "banyan/ops/basic.hpp"
#include "banyan/tensor/values.hpp"

namespace banyan {
void BatchNormalization::setup(const Blobs& inputs, const Blobs&) {
  channels_ = inputs[0]->shape.axes() == 1 ? 1 : inputs[0]->shape[1];
  dialect_ = read_dialect(channels_);
  if (options().sync_batch_norm != SyncBatchNorm::as_written)
    dialect_.sync = options().sync_batch_norm == SyncBatchNorm::on;
  if (dialect_.sync && dialect_.part > 0)
    refuse(
        "statistics of parts of the batch (stats_batch_size) cannot be those of several devices; leave "
        "stats_batch_size out, or synchronization");
  if (dialect_.sync) traits_.meets = Meets::both_ways;
  traits_.by_sample = uses_stored();
  traits_.fuses_affine = dialect_.slope < 0 && dialect_.bias < 0;
  forward_ticket_ = {name().c_str(), "forward"};
  backward_ticket_ = {name().c_str(), "backward"};
}

void BatchNormalization::reshape(const Blobs& inputs, const Blobs& outputs) {
  const Shape& input = inputs[0]->shape;
  if ((input.axes() == 1 ? 1 : input[1]) != channels_)
    refuse("input ", quoted(inputs[0]->name), " of shape ", input.to_string(), " does not have ", channels_,
           " channels on axis 1");
  set_output(*outputs[0], input, inputs[0]->layout);
  for (std::size_t i = 1; i < outputs.size(); ++i)
    set_output(*outputs[i], Shape{1, channels_, 1, 1}, inputs[0]->layout);
}

bool BatchNormalization::uses_stored() const {
  if (dialect_.stored == BatchNormDialect::Stored::in_tests) return options().phase == Phase::test;
  return dialect_.stored == BatchNormDialect::Stored::always;
}

bool BatchNormalization::exchanges(const Pass& pass) const {
  return dialect_.sync && pass.exchange != nullptr && pass.exchange->devices() > 1;
}

const Tensor& BatchNormalization::value_of(int slot) const {
  return slot < 0 ? none_ : parameters_[slot].value;
}

const Tensor& BatchNormalization::slope(const Pass& pass) const {
  return pass.fused.slope != nullptr ? pass.fused.slope->value : value_of(dialect_.slope);
}

const Tensor& BatchNormalization::bias(const Pass& pass) const {
  return pass.fused.bias != nullptr ? pass.fused.bias->value : value_of(dialect_.bias);
}

ops::Affine BatchNormalization::affine(const Pass& pass, const ops::Activation& activation) const {
  return {slope(pass), bias(pass), activation};
}

void BatchNormalization::read_stored_statistics(Context& context, Tensor& mean_inv_std) const {
  ensure(context, mean_inv_std, Shape{2 * channels_}, DType::f64);
  if (dialect_.mean < 0) {
    Tensor mean = mean_inv_std.slice(0, Shape{channels_}),
           inv_std = mean_inv_std.slice(channels_, Shape{channels_});
    ops::fill(context, mean, 0);
    ops::fill(context, inv_std, 1);
    return;
  }
  ops::stored_statistics(context, value_of(dialect_.mean), value_of(dialect_.variance),
                         value_of(dialect_.factor), dialect_.eps, mean_inv_std);
}

Tensor BatchNormalization::Part::of(const Tensor& whole) const {
  const std::int64_t samples = whole.shape().axes() > 0 ? whole.shape()[0] : 0;
  if (!whole.defined() || count == samples) return whole;
  Shape shape = whole.shape();
  const std::int64_t sample = shape.count(1);
  shape.set_dim(0, count);
  return whole.slice(first * sample, shape, whole.layout());
}

/// Into one part, also if there are no samples, or into those that have statistics of their own.
void BatchNormalization::divide(std::int64_t samples) {
  const std::int64_t size =
      dialect_.part > 0 && !from_stored_ ? dialect_.part : std::max<std::int64_t>(samples, 1);
  parts_.resize(static_cast<std::size_t>(std::max<std::int64_t>(1, (samples + size - 1) / size)));
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    parts_[p].first = static_cast<std::int64_t>(p) * size;
    parts_[p].count = std::min(size, samples - parts_[p].first);
  }
}

void BatchNormalization::forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) {
  Context& context = *pass.context;
  const Tensor& x = inputs[0]->data;
  from_stored_ = uses_stored();
  divide(x.shape()[0]);
  for (Part& part : parts_) {
    ensure(context, part.mean_inv_std, Shape{2 * channels_}, DType::f64);
    if (from_stored_)
      read_stored_statistics(context, part.mean_inv_std);
    else
      batch_statistics(pass, part.of(x), part);
  }
  normalize(pass, inputs, outputs);
}

/// Uses the statistics kept from the forward pass.
void BatchNormalization::recompute(Pass& pass, const Blobs& inputs, const Blobs& outputs) {
  normalize(pass, inputs, outputs);
}

void BatchNormalization::normalize(const Pass& pass, const Blobs& inputs, const Blobs& outputs) {
  Context& context = *pass.context;
  for (const Part& part : parts_) {
    const Tensor x = part.of(inputs[0]->data);
    Tensor y = part.of(outputs[0]->data);
    if (pass.fused.addend == nullptr)
      ops::normalize_forward(context, x, part.mean_inv_std, affine(pass, pass.fused.output), y);
    else
      ops::normalize_and_add(context, x, part.mean_inv_std, affine(pass, pass.fused.sum),
                             part.of(*pass.fused.addend), y);
  }
  if (outputs.size() == 3) show_statistics(context, outputs);
}

/// Mean and variance of the batch, as if it were the first that counts in running ones.
void BatchNormalization::show_statistics(Context& context, const Blobs& outputs) {
  ensure(context, shown_, Shape{2 * channels_}, DType::f64);
  ops::fill(context, shown_, 0);
  const Shape shape{1, channels_, 1, 1};
  Tensor mean = shown_.slice(0, shape), variance = shown_.slice(channels_, shape);
  ops::update_running(context, parts_[0].moments, 0, 1, false, mean, variance);
  ops::copy(context, mean, outputs[1]->data);
  ops::copy(context, variance, outputs[2]->data);
}

void BatchNormalization::batch_statistics(Pass& pass, const Tensor& x, Part& part) {
  Context& context = *pass.context;
  ensure(context, part.moments, Shape{1 + 2 * channels_}, DType::f64);
  ops::batch_moments(context, x, part.moments);
  if (exchanges(pass))
    pass.exchange->all_reduce(context, part.moments, Merge::moments, dialect_.sync_group_size,
                              forward_ticket_);
  const bool unbiased = dialect_.arithmetic == caffe::BatchNormArithmetic::UNBIASED;
  ops::finish_moments(context, part.moments, dialect_.eps, unbiased, part.mean_inv_std);
  const bool keeps = dialect_.running != BatchNormDialect::Running::none;
  if (keeps && options().phase == Phase::train && pass.update_statistics)
    update_running_statistics(context, part.moments);
}

void BatchNormalization::update_running_statistics(Context& context, const Tensor& moments) {
  double keep = dialect_.fraction, add = 1 - dialect_.fraction;
  if (dialect_.running == BatchNormDialect::Running::sums) {
    add = 1;
    update_factor(context, moments, keep, 1);
  } else if (dialect_.running == BatchNormDialect::Running::corrected) {
    // The host waits for the device until the factor is known: only in the first two passes.
    if (known_factor_ == 0) known_factor_ = values_of(context, value_of(dialect_.factor)).values[0];
    if (known_factor_ == 0) {
      keep = 0;
      add = 1;
      update_factor(context, moments, 0, 1);
    } else {
      add *= known_factor_;  // statistics that were stored as sums keep their scale
    }
  }
  ops::update_running(context, moments, keep, add, dialect_.arithmetic != caffe::BatchNormArithmetic::BIASED,
                      parameters_[dialect_.mean].value, parameters_[dialect_.variance].value);
}

/// factor = keep * factor + add, unless no device had a sample, which only the device knows. So the factor is
/// updated as the running mean of an extra channel whose mean is always 1.
void BatchNormalization::update_factor(Context& context, const Tensor& moments, double keep, double add) {
  Tensor& factor = parameters_[dialect_.factor].value;
  if (!factor_moments_.defined()) {
    ensure(context, factor_moments_, Shape{3}, DType::f64);
    ops::fill(context, factor_moments_, 0);
    Tensor mean = factor_moments_.slice(1, Shape{1});
    ops::fill(context, mean, 1);
    ensure(context, factor_variance_, Shape{1}, factor.dtype());
    ops::fill(context, factor_variance_, 0);
  }
  Tensor count = factor_moments_.slice(0, Shape{1});
  ops::copy(context, moments.slice(0, Shape{1}), count);
  ops::update_running(context, factor_moments_, keep, add, false, factor, factor_variance_);
}

/// A kept output has its activation undone in place: nothing else needs it any more.
BatchNormalization::Normalized BatchNormalization::normalized(const Pass& pass, const Blobs& outputs,
                                                              const Blobs& inputs, const Part& part,
                                                              bool wants_sums) {
  Context& context = *pass.context;
  if (pass.fused.kept_output == nullptr) {
    ops::Affine ended = affine(pass, pass.fused.output);
    if (ended.activation.kind == ops::Activation::Kind::elu) ended.output = part.of(outputs[0]->data);
    return {part.of(inputs[0]->data), part.mean_inv_std, ended};
  }
  Tensor y = part.of(*pass.fused.kept_output);
  if (!wants_sums) return {y, part.mean_inv_std, {slope(pass), none_}};  // y is not read
  ops::invert_activation(context, y, pass.fused.kept_activation, y);
  ensure(context, of_output_, Shape{2 * channels_}, DType::f64);
  ensure(context, slope_of_output_, Shape{channels_}, y.dtype());
  if (!unusable_.defined()) {
    ensure(context, unusable_, Shape{channels_}, DType::f64);
    ops::fill(context, unusable_, 0);
  }
  ops::output_statistics(context, slope(pass), bias(pass), part.mean_inv_std, of_output_, slope_of_output_,
                         unusable_);
  return {y, of_output_, {slope_of_output_, none_}};
}

void BatchNormalization::backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                                  const Blobs& inputs) {
  Context& context = *pass.context;
  Tensor no_slope, no_bias;
  const auto gradient = [&](Parameter* fused, int slot, Tensor& none) -> Tensor& {
    if (fused != nullptr) return fused->grad;
    return slot < 0 ? none : parameters_[slot].grad;
  };
  Tensor& grad_slope = gradient(pass.fused.slope, dialect_.slope, no_slope);
  Tensor& grad_bias = gradient(pass.fused.bias, dialect_.bias, no_bias);
  const bool wants_affine = grad_slope.defined() || grad_bias.defined();
  const bool wants_sums = wants_affine || (propagate[0] && !from_stored_);
  for (const Part& part : parts_) {
    const Tensor dy = part.of(outputs[0]->grad);
    const Normalized from = normalized(pass, outputs, inputs, part, wants_sums);
    if (wants_sums) {
      ensure(context, sums_, Shape{2 * channels_}, DType::f64);
      ops::normalize_backward_sums(context, from.x, dy, from.mean_inv_std, from.affine, sums_);
    }
    // Before the exchange: gradients of slope and bias are summed over the devices like all others.
    if (wants_affine) ops::add_affine_gradients(context, sums_, grad_slope, grad_bias);
    if (!propagate[0]) continue;
    if (!from_stored_ && exchanges(pass))
      pass.exchange->all_reduce(context, sums_, Merge::sum, dialect_.sync_group_size, backward_ticket_);
    Tensor dx = part.of(inputs[0]->grad);
    ops::normalize_backward(context, from.x, dy, from.mean_inv_std, from.affine, from_stored_ ? none_ : sums_,
                            part.moments, dx);
  }
}

void BatchNormalization::check_results(Context& context) {
  if (!unusable_.defined()) return;
  std::vector<double> unusable(static_cast<std::size_t>(channels_));
  copy_to_host(context, unusable_, unusable.data());
  const auto found = std::find(unusable.begin(), unusable.end(), 1.0);
  if (found != unusable.end())
    runtime_failure("layer ", quoted(name()), " (", type(), "): the slope of channel ",
                    found - unusable.begin(),
                    " is 0, or so small against the bias that the output does not determine the normalized"
                    " values, which in_place_abn needs; train this net with in_place_abn: false");
}

double BatchNormalization::forward_flops(const Blobs& inputs, const Blobs&) const {
  return static_cast<double>(inputs[0]->shape.count());
}

}  // namespace banyan
