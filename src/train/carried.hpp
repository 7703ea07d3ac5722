// What layers hand from one pass to the next (Layer::carried), in snapshots.
#pragma once

#include <vector>

#include "banyan/device/context.hpp"
#include "banyan/net/net.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

using CarriedStates = std::vector<caffe::BanyanState::CarriedState>;

/// Those of one device of the run. Waits for the device.
CarriedStates read_carried(const Net& net, Context& context, int device);
/// Gives this device of `devices` its samples' states, whichever number of devices saved them: sample i of a
/// batch is with device i mod N. Those that the snapshot does not hold begin with zeros.
void restore_carried(const Net& net, Context& context, const caffe::BanyanState& saved, int device,
                     int devices);

}  // namespace banyan
