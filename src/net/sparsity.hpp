// What a layer's `param` entries and its connectivity_mode say about groups of weights (SSL: Wen et al. 2016,
// as in wenwei202/caffe).
#pragma once

#include <optional>
#include <set>
#include <string>

#include "banyan/net/parameters.hpp"

namespace banyan {

/// Of the layer's parameter `slot`. Throws bad_input naming the layer, the field and its value.
Sparsity sparsity_of(const Layer& layer, int slot);
/// Its own regularization_type: L1 or L2.
std::optional<bool> own_l1(const Layer& layer, int slot);
/// What a sharer must say as the owner does, "" if it says nothing.
std::string sparsity_text(const Layer& layer, int slot);

/// At the start of a run, after the store's parameters `loaded` got weights: those of layers with a
/// connectivity_mode that are near 0, or are in rows or columns of such, become 0. From then on updates leave
/// them so.
void disconnect(ParameterStore& store, const std::set<int>& loaded, Context& context);

}  // namespace banyan
