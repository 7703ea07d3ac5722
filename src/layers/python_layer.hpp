// What the layers in Python with inputs (python_layer.cpp) and without (python_source.cpp) have in common.
// Internal to the room.
#pragma once

#include "layers/python_program.hpp"

namespace banyan {

/// Both wait for the device. The array has the type of the tensor.
inline void copy_to_array(Context& context, const Tensor& from, void* to) {
  if (from.count() == 0) return;
  dispatch_float(from.dtype(), "a layer in Python",
                 [&]<class T>() { copy_to_host(context, from, static_cast<T*>(to)); });
}
inline void copy_from_array(Context& context, const void* from, Tensor& to) {
  if (to.count() == 0) return;
  dispatch_float(to.dtype(), "a layer in Python",
                 [&]<class T>() { copy_from_host(context, static_cast<const T*>(from), to); });
}

inline PythonProgramOptions python_options(const caffe::LayerParameter& layer, Phase phase, DType dtype,
                                           const Blobs& inputs, const Blobs& outputs) {
  PythonProgramOptions options;
  options.name = layer.name();
  options.module = layer.python_param().module();
  options.layer = layer.python_param().layer();
  options.settings = layer.python_param().param_str();
  options.phase = phase;
  options.dtype = dtype;
  options.inputs = inputs.size();
  options.outputs.assign(outputs.size(), -1);
  for (int k = 0; k < layer.top_size(); ++k)
    for (int i = 0; i < layer.bottom_size(); ++i)
      if (layer.top(k) == layer.bottom(i)) options.outputs.at(static_cast<std::size_t>(k)) = i;
  return options;
}

/// Throws bad_input if the layer does not say what to run.
inline void check_python_settings(const caffe::LayerParameter& layer) {
  for (const auto& [field, value] : {std::pair{"module", &layer.python_param().module()},
                                     std::pair{"layer", &layer.python_param().layer()}})
    if (value->empty())
      bad_input("layer ", quoted(layer.name()), " (Python): python_param.", field, " is missing");
}

/// One that no inputs go into (a `Python` layer that brings data).
std::unique_ptr<Layer> make_python_source(const caffe::LayerParameter& parameter,
                                          const LayerOptions& options);

}  // namespace banyan
