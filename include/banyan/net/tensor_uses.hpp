// Which tensors each layer of a graph reads and writes, forward and backward: the basis of memory planning
// (lifetimes.hpp, data_sharing.hpp, gradient_sharing.hpp, checkpoints.hpp). Pure.
#pragma once

#include <vector>

#include "banyan/net/activations.hpp"
#include "banyan/net/fusion.hpp"
#include "banyan/net/lifetimes.hpp"

namespace banyan {

/// Numbers blobs first, then the stand-ins in order of layers. Memory is shared where the same bytes are seen
/// in two ways (views, layouts that make no difference) and where a fusion writes one layer's result in place
/// of another's. `kept_by`: see find_fusions. `costs`: LayerUse::cost.
TensorUses find_tensor_uses(const Graph& graph, const Activations& activations,
                            const std::vector<Fusion>& fusions, const std::vector<int>& kept_by,
                            const std::vector<double>& costs);

}  // namespace banyan
