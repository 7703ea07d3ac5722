// Python: a class of the user's, as pycaffe runs it. On any device: its arrays are on the host, and inputs,
// outputs and gradients are copied. Each device has an object of its own, which sees the device's samples.
//
// Outputs with a loss weight, and those before them, are taken for means over the batch: in training on N
// devices each counts 1 / N, and so do the gradients that backward() makes of it, whether it looks at the
// gradient of its output or not.
//
// An output with the name of an input is the same blob: its array and its gradient are the input's.
//
// A parameter that does not learn (lr_mult: 0) and is not shared is a running statistic: forward() may change
// it in training, on each device for itself.
#include "layers/python_layer.hpp"

#include <algorithm>

#include "banyan/ops/basic.hpp"

namespace banyan {
namespace {

class PythonLayer : public Layer {
 public:
  PythonLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {0, -1, 0, -1},
               .chooses_samples = parameter.python_param().has_max_samples(),
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .repeatable = false}) {
    for (int k = 0; k < parameter_.loss_weight_size(); ++k)
      if (parameter_.loss_weight(k) != 0) traits_.shares = k + 1;
    if (options.net_phase == Phase::train && traits_.shares > 0) share_ = 1.0 / options.devices;
  }

  void read_settings() override {
    check_python_settings(parameter_);
    const caffe::PythonParameter& settings = parameter_.python_param();
    if (settings.has_max_samples() && settings.max_samples() == 0)
      refuse("python_param.max_samples must be at least 1");
  }

  void setup(const Blobs& inputs, const Blobs& outputs) override {
    if (traits_.chooses_samples && outputs.empty())
      refuse("python_param.max_samples is for layers with outputs");
    program_ = make_python_program(python_options(parameter_, options().phase, dtype(), inputs, outputs));
    program_->set_up(shapes_of(inputs));
    program_->reshape(shapes_of(inputs));  // it may add parameters too
    const std::vector<Shape> shapes = program_->shapes(PythonBlobs::parameters);
    for (std::size_t k = 0; k < shapes.size(); ++k) {
      const caffe::FillerParameter zeros;
      Parameter& parameter = declare(shapes[k], zeros, kind_of(k));
      dispatch_float(dtype(), "Python", [&]<class T>() {
        const T* values =
            static_cast<const T*>(program_->data(PythonBlobs::parameters, k, shapes[k].count()));
        parameter.first_values.assign(values, values + shapes[k].count());
      });
    }
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    std::vector<Shape> shapes = shapes_for(inputs);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      if (traits_.chooses_samples) {
        if (shapes[k].axes() == 0) refuse("with max_samples, every output needs an axis of samples");
        shapes[k].set_dim(0, parameter_.python_param().max_samples());
      }
      set_output(*outputs[k], shapes[k]);
    }
  }

  std::int64_t choose_samples(Pass& pass, const Blobs& inputs) override {
    if (has_no_samples(inputs)) return 0;
    compute(pass, inputs);
    const std::vector<Shape> shapes = program_->shapes(PythonBlobs::outputs);
    const std::int64_t most = parameter_.python_param().max_samples();
    for (const Shape& shape : shapes)
      if (shape.axes() == 0 || shape[0] != shapes[0][0] || shape[0] > most)
        runtime_failure("layer ", quoted(name()), " (Python): after forward() its outputs are ",
                        listed(shapes), "; with max_samples: ", most,
                        " all have the same length of axis 0, at most ", most);
    return shapes[0][0];
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    if (has_no_samples(inputs)) {
      for (Blob* output : outputs) ops::fill(context, output->data, 0);
      return;
    }
    if (!traits_.chooses_samples) compute(pass, inputs);
    const std::vector<Shape> made = program_->shapes(PythonBlobs::outputs);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      if (!(made[k] == outputs[k]->shape))
        runtime_failure(
            "layer ", quoted(name()), " (Python): output ", quoted(outputs[k]->name), " has the shape ",
            made[k].to_string(), " after forward(), and had ", outputs[k]->shape.to_string(),
            " when the net was set up: reshape() must find it from the inputs' shapes. If only the "
            "number of samples changes (axis 0 of all outputs), python_param { max_samples: N } says "
            "how many there can be");
      copy_from_array(context, program_->data(PythonBlobs::outputs, k, made[k].count()), outputs[k]->data);
      if (is_share(k) && share_ != 1) ops::axpby(context, share_, outputs[k]->data, 0, outputs[k]->data);
    }
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    if (has_no_samples(inputs)) {
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (propagate[i]) ops::fill(context, inputs[i]->grad, 0);
      return;
    }
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const Tensor& gradient = outputs[k]->grad;
      void* const array = program_->gradient(PythonBlobs::outputs, k, outputs[k]->shape.count());
      if (gradient.defined() && share_ != 1 && !is_share(k))
        runtime_failure("layer ", quoted(name()),
                        " (Python) makes a loss, and other layers learn from its output ",
                        quoted(outputs[k]->name), ": on several devices it can do one of the two");
      if (gradient.defined())
        copy_to_array(context, gradient, array);
      else
        std::fill_n(static_cast<std::byte*>(array),
                    static_cast<std::size_t>(outputs[k]->shape.count()) * size_of(dtype()), std::byte{});
    }
    program_->backward(propagate);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!propagate[i]) continue;
      copy_from_array(context, program_->gradient(PythonBlobs::inputs, i, inputs[i]->shape.count()),
                      inputs[i]->grad);
      if (share_ != 1) ops::axpby(context, share_, inputs[i]->grad, 0, inputs[i]->grad);
    }
    for (std::size_t k = 0; k < parameters_.size(); ++k) {
      Tensor& gradient = parameters_[k].grad;
      if (!gradient.defined()) continue;
      ensure(context, added_, gradient.shape(), gradient.dtype());
      copy_from_array(context, program_->gradient(PythonBlobs::parameters, k, added_.count()), added_);
      ops::axpby(context, share_, added_, 1, gradient);
    }
  }

 private:
  static std::vector<Shape> shapes_of(const Blobs& blobs) {
    std::vector<Shape> shapes;
    for (const Blob* blob : blobs) shapes.push_back(blob->shape);
    return shapes;
  }
  /// A device without a share of the batch: programs for Caffe never see that.
  static bool has_no_samples(const Blobs& inputs) {
    return std::any_of(inputs.begin(), inputs.end(),
                       [](const Blob* input) { return input->shape.axes() > 0 && input->shape[0] == 0; });
  }
  static std::string listed(const std::vector<Shape>& shapes) {
    std::vector<std::string> texts;
    for (const Shape& shape : shapes) texts.push_back(shape.to_string());
    return join(texts, ", ", " and ");
  }
  bool is_share(std::size_t output) const { return static_cast<int>(output) < traits_.shares; }
  /// As in Caffe, reshape() comes before each forward(), when the inputs have their values.
  void compute(Pass& pass, const Blobs& inputs) {
    Context& context = *pass.context;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      copy_to_array(context, inputs[i]->data,
                    program_->data(PythonBlobs::inputs, i, inputs[i]->shape.count()));
    for (std::size_t k = 0; k < parameters_.size(); ++k)
      copy_to_array(context, parameters_[k].value,
                    program_->data(PythonBlobs::parameters, k, parameters_[k].shape.count()));
    program_->reshape(shapes_of(inputs));
    program_->forward();
    for (std::size_t k = 0; k < parameters_.size() && pass.update_statistics; ++k)
      if (parameters_[k].kind == ParameterKind::statistic)
        copy_from_array(context, program_->data(PythonBlobs::parameters, k, parameters_[k].shape.count()),
                        parameters_[k].value);
  }

  ParameterKind kind_of(std::size_t parameter) const {
    if (static_cast<int>(parameter) >= parameter_.param_size()) return ParameterKind::learnable;
    const caffe::ParamSpec& spec = parameter_.param(static_cast<int>(parameter));
    return spec.lr_mult() == 0 && spec.name().empty() ? ParameterKind::statistic : ParameterKind::learnable;
  }
  /// Of the outputs. Code for Caffe need not expect inputs without samples: for them the shapes before count,
  /// without the samples.
  std::vector<Shape> shapes_for(const Blobs& inputs) {
    if (has_no_samples(inputs) && !last_shapes_.empty()) {
      std::vector<Shape> shapes = last_shapes_;
      for (Shape& shape : shapes)
        if (shape.axes() > 0 && shape[0] == last_samples_) shape.set_dim(0, 0);
      return shapes;
    }
    program_->reshape(shapes_of(inputs));
    last_shapes_ = program_->shapes(PythonBlobs::outputs);
    last_samples_ = inputs.empty() || inputs[0]->shape.axes() == 0 ? -1 : inputs[0]->shape[0];
    return last_shapes_;
  }

  double share_ = 1;  ///< of this device in these outputs
  std::vector<Shape> last_shapes_;
  std::int64_t last_samples_ = -1;
  std::unique_ptr<PythonProgram> program_;
  Tensor added_;
};

std::unique_ptr<Layer> make_python_layer(const caffe::LayerParameter& parameter,
                                         const LayerOptions& options) {
  if (parameter.bottom_size() == 0 && parameter.top_size() > 0) return make_python_source(parameter, options);
  return std::make_unique<PythonLayer>(parameter, options);
}

const bool registered_python = [] {
  register_layer("Python", make_python_layer,
                 {"what a class in Python computes, as pycaffe runs it", "python_param", {}});
  return true;
}();

}  // namespace
}  // namespace banyan
