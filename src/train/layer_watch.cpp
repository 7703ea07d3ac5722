#include "layer_watch.hpp"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/ops/basic.hpp"

namespace banyan {
namespace {

class LayerWatch {
 public:
  LayerWatch(Net& net, Context& context)
      : net_(net), context_(context), result_(context.device(), Shape{1}, DType::f64) {}

  void forward_done(int layer, bool print, bool check) {
    if (print) {
      for (const Blob* blob : net_.outputs_of(layer)) print_blob(layer, false, *blob);
      print_parameters(layer, false);
    }
    if (!check) return;
    for (const Blob* blob : net_.outputs_of(layer))
      check_finite(layer, blob->data, cat("output \"", blob->name, "\""));
  }

  /// A Scale whose backward pass a normalization runs has nothing to show until that one's step, where the
  /// gradients of both are computed.
  void backward_done(int layer, bool print, bool check) {
    const PlanStep& step = backward_step(layer);
    if (step.runs_layer) look_at_gradients(step, print, check);
    if (print) sum_parameters(step);
  }

 private:
  void look_at_gradients(const PlanStep& step, bool print, bool check) {
    const int layer = step.layer;
    if (print)
      for (const Blob* blob : net_.inputs_of(layer)) print_blob(layer, true, *blob);
    for (const int shown : {layer, step.affine}) {
      if (shown < 0) continue;
      if (print) print_parameters(shown, true);
      if (!check) continue;
      for (const Parameter& parameter : layer_at(shown).parameters())
        check_finite(shown, parameter.grad, "the parameter gradient");
    }
  }

  const Layer& layer_at(int layer) const { return *net_.layers()[layer]; }

  const PlanStep& backward_step(int layer) const {
    const Plan& plan = net_.plan();
    return *std::find_if(
        plan.steps.begin() + static_cast<std::ptrdiff_t>(plan.backward), plan.steps.end(),
        [&](const PlanStep& step) { return step.work == Work::backward && step.layer == layer; });
  }

  /// Parameters count before the first of them is updated, gradients when they are complete: both may be over
  /// at the end of the pass.
  void sum_parameters(const PlanStep& step) {
    const std::vector<PlanStep>& steps = net_.plan().steps;
    const auto runs = [](const PlanStep& s) { return s.work == Work::backward && s.runs_layer; };
    const bool first = &*std::find_if(steps.begin(), steps.end(), runs) == &step,
               last = &*std::find_if(steps.rbegin(), steps.rend(), runs) == &step;
    if (first) {
      values_ = gradients_ = {};
      for (const LearnableParameter& owner : net_.parameters()) add(values_, owner.value);
    }
    for (const LearnableParameter& owner : net_.parameters())
      if (owner.ready_layer == step.layer) add(gradients_, owner.grad);
    if (last)
      LOG(ERROR) << "    [Backward] All net params (data, diff): L1 norm = (" << values_.sum << ", "
                 << gradients_.sum << "); L2 norm = (" << std::sqrt(values_.squares) << ", "
                 << std::sqrt(gradients_.squares) << ")";
  }

  struct Sums {
    double sum = 0, squares = 0;
  };
  void add(Sums& sums, const Tensor& values) {
    if (!values.defined()) return;
    ops::absolute_sum(context_, values, result_);
    sums.sum += result();
    ops::sum_of_squares(context_, values, result_);
    sums.squares += result();
  }

  void print_blob(int layer, bool backward, const Blob& blob) {
    const Tensor& values = backward ? blob.grad : blob.data;
    if (values.defined())
      LOG(INFO) << line_start(layer, backward) << (backward ? ", bottom blob " : ", top blob ") << blob.name
                << (backward ? " diff: " : " data: ") << mean_absolute(values);
  }

  void print_parameters(int layer, bool backward) {
    const std::vector<Parameter>& parameters = layer_at(layer).parameters();
    for (std::size_t slot = 0; slot < parameters.size(); ++slot) {
      const Parameter& parameter = parameters[slot];
      const Tensor& values = backward ? parameter.grad : parameter.value;
      // Caffe's statistics have gradients, of zeros, unless their lr_mult is 0 in the file.
      if (values.defined() || (parameter.kind == ParameterKind::statistic && parameter.lr_mult != 0))
        LOG(INFO) << line_start(layer, backward) << ", param blob " << slot
                  << (backward ? " diff: " : " data: ") << (values.defined() ? mean_absolute(values) : 0);
    }
  }

  std::string line_start(int layer, bool backward) const {
    return cat(backward ? "    [Backward] Layer " : "    [Forward] Layer ", layer_at(layer).name());
  }

  void check_finite(int layer, const Tensor& values, const std::string& what) {
    if (!values.defined()) return;
    ops::count_not_finite(context_, values, result_);
    const double bad = result();
    if (bad > 0)
      runtime_failure(what, " of layer \"", layer_at(layer).name(), "\" has ", bad, " of ", values.count(),
                      " values that are not finite");
  }

  double mean_absolute(const Tensor& values) {
    ops::absolute_sum(context_, values, result_);
    const double total = result();
    return values.count() > 0 ? total / static_cast<double>(values.count()) : 0;
  }

  double result() {
    double value = 0;
    copy_to_host(context_, result_, &value);
    return value;
  }

  Net& net_;
  Context& context_;
  Tensor result_;
  Sums values_, gradients_;  ///< of all parameters, in the current backward pass
};

}  // namespace

void watch_layers(Net& net, Context& context, const std::function<bool()>& print, bool check) {
  if (!print && !check) return;
  const auto watch = std::make_shared<LayerWatch>(net, context);
  net.observe_layers({}, [watch, print, check](int layer, bool backward) {
    const bool prints = print && print();
    if (backward)
      watch->backward_done(layer, prints, check);
    else
      watch->forward_done(layer, prints, check);
  });
}

}  // namespace banyan
