// The outputs of a net as numbers on the host.
#pragma once

#include <vector>

#include "banyan/net/net.hpp"

namespace banyan {

/// Appends all values; waits for the device.
void append_values(Context& context, const Tensor& tensor, std::vector<double>& to);
/// The same for all outputs, one after another.
void append_outputs(Context& context, const Net& net, std::vector<double>& to);

/// How the values of one output are combined over the devices.
struct OutputLayout {
  std::int64_t count = 0;
  bool is_share = false;  ///< shares of a global value, to be summed; else the first device's count
};
std::vector<OutputLayout> layout_of_outputs(const Net& net);
/// `of_devices`: each device's outputs, one after the other. `first_process`: other processes contribute only
/// their shares.
std::vector<double> combine_outputs(const std::vector<OutputLayout>& layout,
                                    const std::vector<const std::vector<double>*>& of_devices,
                                    bool first_process);

}  // namespace banyan
