// Filter: the samples (axis 0) of its inputs for which the last input, the selector, is not 0, in their
// order. Output i holds those of input i. The selector has one value for each sample: N, N x 1, N x 1 x 1 ...
//
// How many samples pass is known only in the pass. The net is planned for all of them; in each pass the
// layers after this one get their shapes again (Net::reshape_after).
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/rows.hpp"
#include "banyan/tensor/values.hpp"

namespace banyan {
namespace {

class FilterLayer : public Layer {
 public:
  FilterLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, -1, 1, -1},
               .chooses_samples = true,
               .layout = LayoutRule::follows,
               .backward_reads_inputs = false,
               .backward_reads_outputs = false}) {}

  void setup(const Blobs& inputs, const Blobs& outputs) override {
    const int selector = static_cast<int>(inputs.size()) - 1;
    if (static_cast<int>(outputs.size()) != selector)
      refuse("expected one output for each input but the last, which selects samples; found ", inputs.size(),
             " inputs and ", outputs.size(), " outputs");
    if (selector < parameter_.propagate_down_size() && parameter_.propagate_down(selector))
      refuse("propagate_down asks for the gradient of the selector ", quoted(inputs.back()->name),
             ", which has none");
    traits_.differentiable_inputs = selector;
  }

  /// As if all samples passed.
  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& selector = inputs.back()->shape;
    if (selector.axes() < 1 || selector.count(1) != 1)
      refuse("the selector ", quoted(inputs.back()->name), " is ", selector.to_string(),
             "; expected one value for each sample: N or N x 1");
    samples_ = selector[0];
    // Numbers of samples are values of the run's type.
    if (dtype() == DType::f32 && samples_ > (std::int64_t{1} << 24))
      refuse("cannot number ", samples_, " samples in f32; at most ", std::int64_t{1} << 24);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Shape& shape = inputs[i]->shape;
      if (shape.axes() < 1 || shape[0] != samples_)
        refuse("input ", quoted(inputs[i]->name), " is ", shape.to_string(), "; expected ", samples_,
               " samples, as many as the selector ", quoted(inputs.back()->name), " has");
      set_output(*outputs[i], shape, inputs[i]->layout);
    }
  }

  std::int64_t choose_samples(Pass& pass, const Blobs& inputs) override {
    Context& context = *pass.context;
    std::vector<double> chosen, places;
    for (const double value : values_of(context, inputs.back()->data).values) {
      const bool passes = value != 0;
      if (passes) chosen.push_back(static_cast<double>(places.size()));
      places.push_back(passes ? static_cast<double>(chosen.size()) - 1 : -1);
    }
    ensure(context, chosen_, Shape{std::ssize(chosen)}, dtype());
    ensure(context, places_, Shape{std::ssize(places)}, dtype());
    set_values(context, chosen, chosen_);
    set_values(context, places, places_);
    return std::ssize(chosen);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    for (std::size_t i = 0; i < outputs.size(); ++i)
      ops::gather_rows(*pass.context, inputs[i]->data, samples_, chosen_, outputs[i]->data);
  }

  /// Samples that did not pass have no place among those that did: zeros.
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!propagate[i]) continue;
      if (outputs[i]->grad.defined())
        ops::gather_rows(*pass.context, outputs[i]->grad, chosen_.count(), places_, inputs[i]->grad);
      else  // a side output that no loss depends on
        ops::fill(*pass.context, inputs[i]->grad, 0);
    }
  }

 private:
  std::int64_t samples_ = 0;
  Tensor chosen_;  ///< the numbers of the samples that pass
  Tensor places_;  ///< of each sample: its place among them, or -1
};

const RegisterLayer<FilterLayer> registered_filter(
    "Filter", {.about = "passes on the samples that the last input selects",
               .message = "",
               .inputs = {{4, 5, 5}, {3}, {1}}});

}  // namespace
}  // namespace banyan
