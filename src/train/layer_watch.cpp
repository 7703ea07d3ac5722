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
    if (print && is_last(step)) print_norms();
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

  bool is_last(const PlanStep& step) const {
    const std::vector<PlanStep>& steps = net_.plan().steps;
    const auto last = std::find_if(steps.rbegin(), steps.rend(),
                                   [](const auto& s) { return s.work == Work::backward && s.runs_layer; });
    return &*last == &step;
  }

  /// Of all parameters and of their gradients so far.
  void print_norms() {
    double sums[2] = {}, squares[2] = {};
    for (const LearnableParameter& owner : net_.parameters()) {
      const Tensor* of[] = {&owner.value, &owner.grad};
      for (int k = 0; k < 2; ++k) {
        if (!of[k]->defined()) continue;
        ops::absolute_sum(context_, *of[k], result_);
        sums[k] += result();
        ops::sum_of_squares(context_, *of[k], result_);
        squares[k] += result();
      }
    }
    LOG(ERROR) << "    [Backward] All net params (data, diff): L1 norm = (" << sums[0] << ", " << sums[1]
               << "); L2 norm = (" << std::sqrt(squares[0]) << ", " << std::sqrt(squares[1]) << ")";
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
      const Tensor& values = backward ? parameters[slot].grad : parameters[slot].value;
      if (values.defined())
        LOG(INFO) << line_start(layer, backward) << ", param blob " << slot
                  << (backward ? " diff: " : " data: ") << mean_absolute(values);
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
};

}  // namespace

void watch_layers(Net& net, Context& context, bool print, bool check) {
  if (!print && !check) return;
  const auto watch = std::make_shared<LayerWatch>(net, context);
  net.observe_layers({}, [watch, print, check](int layer, bool backward) {
    if (backward)
      watch->backward_done(layer, print, check);
    else
      watch->forward_done(layer, print, check);
  });
}

}  // namespace banyan
