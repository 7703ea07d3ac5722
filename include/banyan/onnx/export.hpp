// Nets as ONNX files (operator set 17), for other programs to run.
#pragma once

#include <string>
#include <vector>

#include "banyan/net/net.hpp"

namespace banyan::onnx {

/// The net as a serialized ONNX model: its Input blobs, with their shapes, become inputs, its outputs
/// outputs, under their names. The net must be of the TEST phase and hold its weights. Values agree
/// with the net's to rounding. Throws bad_input naming a layer that ONNX has no operator for, or a setting
/// that cannot be expressed exactly.
std::string export_net(Net& net);
/// The same to a file, written through an AtomicFile.
void write_net(Net& net, const std::string& path);

/// Types of layers that can be exported, in alphabetical order.
std::vector<std::string> exported_types();

}  // namespace banyan::onnx
