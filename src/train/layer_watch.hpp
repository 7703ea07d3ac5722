// Watching every layer of a net: Caffe's debug_info lines, and the search for values that are not finite.
#pragma once

#include <functional>

#include "banyan/net/net.hpp"

namespace banyan {

/// After each layer's forward or backward the host waits for the device. In passes for which `print` is true
/// it logs the mean absolute values of what the layer wrote, and at the end of a backward pass the norms of
/// all parameters and gradients; with `check` it throws a runtime failure that names the layer and counts the
/// values that are not finite. With neither (`print` empty), the net is left alone. `context` is that of the
/// net's passes and outlives them.
void watch_layers(Net& net, Context& context, const std::function<bool()>& print, bool check);

}  // namespace banyan
