#include "layer_watch.hpp"

#include <glog/logging.h>

#include <memory>

#include "banyan/base/error.hpp"
#include "banyan/ops/basic.hpp"

namespace banyan {
namespace {

class LayerWatch {
 public:
  LayerWatch(Net& net, Context& context)
      : net_(net), context_(context), result_(context.device(), Shape{1}, DType::f64) {}

  void check_finite(int layer, bool backward) {
    if (!backward)
      for (const Blob* blob : net_.outputs_of(layer))
        check(layer, blob->data, cat("output \"", blob->name, "\""));
    else
      for (const Parameter& parameter : layer_at(layer).parameters())
        check(layer, parameter.grad, "the parameter gradient");
  }

  void print(int layer, bool backward) {
    const Layer& shown = layer_at(layer);
    const char* direction = backward ? "    [Backward] Layer " : "    [Forward] Layer ";
    for (const Blob* blob : backward ? net_.inputs_of(layer) : net_.outputs_of(layer)) {
      const Tensor& values = backward ? blob->grad : blob->data;
      if (values.defined())
        LOG(INFO) << direction << shown.name() << (backward ? ", bottom blob " : ", top blob ") << blob->name
                  << (backward ? " diff: " : " data: ") << mean_absolute(values);
    }
    for (std::size_t slot = 0; slot < shown.parameters().size(); ++slot) {
      const Tensor& values = backward ? shown.parameters()[slot].grad : shown.parameters()[slot].value;
      if (values.defined())
        LOG(INFO) << direction << shown.name() << ", param blob " << slot
                  << (backward ? " diff: " : " data: ") << mean_absolute(values);
    }
  }

 private:
  const Layer& layer_at(int layer) const { return *net_.layers()[layer]; }

  void check(int layer, const Tensor& values, const std::string& what) {
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
    if (print) watch->print(layer, backward);
    if (check) watch->check_finite(layer, backward);
  });
}

}  // namespace banyan
