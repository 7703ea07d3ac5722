#include "banyan/layers/loss.hpp"

#include <array>

#include "banyan/ops/basic.hpp"

namespace banyan {

void sum_over_devices(Pass& pass, Tensor& values, const Ticket& ticket) {
  if (pass.exchange != nullptr && pass.exchange->devices() > 1)
    pass.exchange->all_reduce(*pass.context, values, Merge::sum, 0, ticket);
}

Tensor& LabelNote::on(Context& context) {
  if (!noted_.defined()) {
    noted_ = Tensor(context.device(), Shape{3}, DType::f64);
    ops::fill(context, noted_, 0);
  }
  return noted_;
}

void LabelNote::check(Context& context, const std::string& layer, const ops::Channels& over,
                      const char* settings) {
  if (!noted_.defined()) return;
  std::array<double, 3> found{};
  copy_to_host(context, noted_, found.data());
  const auto [sample, position, label] = found;
  if (sample == 0) return;
  ops::fill(context, noted_, 0);
  bad_input("layer ", quoted(layer), ": label ", label, " of sample ", static_cast<std::int64_t>(sample) - 1,
            over.inner > 1 ? cat(", position ", position, ",") : std::string(),
            " is out of range: there are ", over.channels, " classes, 0 to ", over.channels - 1,
            settings != nullptr ? cat("; ", settings, " { ignore_label: ", label, " } leaves such labels out")
                                : std::string());
}

LossLayer::LossLayer(const caffe::LayerParameter& parameter, const LayerOptions& options, LayerTraits traits,
                     bool takes_class_weights)
    : Layer(parameter, options, std::move(traits)) {
  traits_.loss = true;
  traits_.repeatable = false;
  traits_.shares = 1;
  traits_.differentiable_outputs = 1;
  if (!takes_class_weights && parameter_.loss_param().weight_by_label_freqs())
    refuse("weight_by_label_freqs (SegNet) is a setting of SoftmaxWithLoss only");
  if (parameter_.loss_param().has_class_balance() && parameter_.type() != "SigmoidCrossEntropyLoss")
    refuse("class_balance is a setting of SigmoidCrossEntropyLoss only");
}

LossLayer::Normalization LossLayer::read_normalization(Normalization absent) const {
  const auto& loss = parameter_.loss_param();
  if (!loss.has_normalization()) {
    if (!loss.has_normalize()) return absent;
    return loss.normalize() ? Normalization::valid : Normalization::batch_size;
  }
  switch (loss.normalization()) {
    case caffe::LossParameter::FULL:
      return Normalization::full;
    case caffe::LossParameter::BATCH_SIZE:
      return Normalization::batch_size;
    case caffe::LossParameter::NONE:
      return Normalization::none;
    case caffe::LossParameter::PRE_FIXED:
      return Normalization::fixed;
    default:
      return Normalization::valid;
  }
}

void LossLayer::find_divisor(Pass& pass, Normalization normalization, std::int64_t positions,
                             std::int64_t samples) {
  Context& context = *pass.context;
  ensure(context, divisor_, Shape{1}, DType::f64);
  switch (normalization) {
    case Normalization::none:
      return ops::fill(context, divisor_, 1);
    case Normalization::fixed:
      return ops::fill(context, divisor_, parameter_.loss_param().pre_fixed_normalizer());
    case Normalization::valid:
      ops::copy(context, partial_.slice(1, Shape{1}), divisor_);
      break;
    case Normalization::full:
      ops::fill(context, divisor_, static_cast<double>(positions));
      break;
    case Normalization::batch_size:
      ops::fill(context, divisor_, static_cast<double>(samples));
      break;
  }
  sum_over_devices(pass, divisor_, {name().c_str(), "divisor"});
}

void LossLayer::write_loss(Pass& pass, Blob& loss) {
  ops::quotient(*pass.context, partial_, divisor_, {0, 0, 1}, loss.data);
}

void LossLayer::write_exact_loss(Pass& pass, Blob& loss) {
  ops::quotient(*pass.context, partial_, divisor_, {0, 0, 0}, loss.data);
}

const Tensor& LossLayer::exact_scale(Pass& pass, const Blob& loss) {
  Context& context = *pass.context;
  ensure(context, gradient_, Shape{1}, DType::f64);
  ensure(context, exact_scale_, Shape{1}, dtype());
  ops::copy(context, loss.grad.reshaped(Shape{1}), gradient_);
  ops::quotient(context, gradient_, divisor_, {0, 0, 0}, exact_scale_);
  return exact_scale_;
}

}  // namespace banyan
