// Heads of detectors, as text: what a net predicts for the boxes of a map.
#pragma once

#include <string>

#include "banyan/base/text.hpp"

namespace banyan {

/// A convolution NAME of a map, and NAME_flat: its numbers, those of a box together (N x numbers).
inline std::string box_head(const std::string& name, const std::string& map, int outputs) {
  return cat("layer { name: '", name, "' type: 'Convolution' bottom: '", map, "' top: '", name,
             "' convolution_param { num_output: ", outputs,
             " kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } } layer { name: '", name,
             "_rows' type: 'Permute' bottom: '", name, "' top: '", name,
             "_rows' permute_param { order: [0, 2, 3, 1] } } layer { name: '", name,
             "_flat' type: 'Flatten' bottom: '", name, "_rows' top: '", name, "_flat' } ");
}

/// NAME_softmax_flat of NAME_flat: probabilities of so many classes of each box. `more`: of all its layers.
inline std::string box_softmax(const std::string& name, int classes, const std::string& more = "") {
  return cat("layer { name: '", name, "_classes' type: 'Reshape' bottom: '", name, "_flat' top: '", name,
             "_classes' reshape_param { shape { dim: 0 dim: -1 dim: ", classes, " } } ", more,
             " } layer { name: '", name, "_softmax' type: 'Softmax' bottom: '", name, "_classes' top: '",
             name, "_softmax' softmax_param { axis: 2 } ", more, " } layer { name: '", name,
             "_softmax_flat' type: 'Flatten' bottom: '", name, "_softmax' top: '", name, "_softmax_flat' ",
             more, " } ");
}

/// Of RefineDet's first step for a map with two boxes at each place: its inputs of the second.
inline std::string first_step_of_two_boxes(const std::string& map) {
  return box_head("first_loc", map, 8) + box_head("first_conf", map, 4) + box_softmax("first_conf", 2);
}
constexpr const char* kOfFirstStep = " bottom: 'first_conf_softmax_flat' bottom: 'first_loc_flat' ";

}  // namespace banyan
