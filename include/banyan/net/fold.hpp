// Folding: in tests, a normalization by stored statistics and the Scale and Bias layers after it map each
// channel on its own. A convolution, deconvolution or inner product before them can do the same with
// different weights.
//
// Only nets whose weights stay are folded: those of a Model in the phase TEST (trainer test, trainer time
// --phase=TEST, classification). The test nets of a training run share the weights of the train net, which
// change between two tests.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "banyan/net/net.hpp"

namespace banyan {

struct FoldedNet {
  struct Weights {
    std::vector<double> weight, bias;  ///< in logical order
  };
  caffe::NetParameter definition;          ///< without the layers that were folded
  std::map<std::string, Weights> weights;  ///< of the layers that absorbed others, by name
  std::vector<std::string> gone;           ///< layers that were folded
};

/// What is left of a test net. Layers are folded if no other layer reads between them and their parameters
/// have their final values. Waits for the device.
FoldedNet fold_normalizations(const Net& net);
/// Fills the parameters of a net made from `folded.definition`, on the same device as `from`, the net that
/// was folded.
void load_folded(Net& to, const Net& from, const FoldedNet& folded);

}  // namespace banyan
