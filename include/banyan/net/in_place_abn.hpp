// Which batch normalizations keep only the output of the activation after them: In-Place ABN (Rota Bulo,
// Porzi, Kontschieder 2018). Pure.
//
// Batch normalization's backward pass needs its input, and the layer after the activation needs the
// activation's output: two tensors are kept (three where the activation needs its own input). If the
// activation is invertible, its output is enough, and normalization and activation work in place in their
// input's memory.
#pragma once

#include <string>
#include <vector>

#include "banyan/net/graph.hpp"

namespace banyan {

struct InPlaceAbn {
  int norm = 0;         ///< layers
  int activation = -1;  ///< -1: the normalization keeps its input
  std::string reason;   ///< why it does so
};

/// One for each batch normalization with a backward pass of its own, that is, not only for the Scale that it
/// runs. `converts`, `affines`: see find_fusions.
std::vector<InPlaceAbn> find_in_place_abn(const Graph& graph, const std::vector<bool>& converts,
                                          const std::vector<int>& affines);

}  // namespace banyan
