// Nets of a few layers for tests, as text. Inputs: data (4, 3, 8, 8) and label (4).
#pragma once

#include <string>

namespace banyan {

inline const char* const kSource =
    "layer { name: 'in' type: 'Input' top: 'data' top: 'label' input_param { shape { dim: 4 dim: 3 dim: 8 "
    "dim: 8 } shape { dim: 4 } } } ";
inline std::string inner_product(const std::string& name, const std::string& bottom, const std::string& top,
                                 int outputs, const std::string& more = "") {
  return "layer { name: '" + name + "' type: 'InnerProduct' bottom: '" + bottom + "' top: '" + top + "' " +
         more + " inner_product_param { num_output: " + std::to_string(outputs) +
         " weight_filler { type: 'xavier' } bias_filler { type: 'uniform' } } } ";
}
inline std::string softmax_loss(const std::string& bottom) {
  return "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: '" + bottom +
         "' bottom: 'label' top: 'loss' } ";
}
inline std::string conv_net() {
  return std::string("name: 'small' ") + kSource +
         "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' convolution_param { "
         "num_output: 4 "
         "kernel_size: 3 weight_filler { type: 'xavier' } } }"
         "layer { name: 'relu1' type: 'ReLU' bottom: 'conv1' top: 'conv1' }"
         "layer { name: 'pool1' type: 'Pooling' bottom: 'conv1' top: 'pool1' pooling_param { kernel_size: 2 "
         "stride: 2 } }" +
         inner_product("ip1", "pool1", "ip1", 5) + softmax_loss("ip1");
}

}  // namespace banyan
