// Nets as pictures: SVG, and graphs for Graphviz.
#pragma once

#include <map>
#include <string>

#include "banyan/net/net.hpp"

namespace banyan {

/// Who places the layers of a picture.
enum class DrawLayout : std::uint8_t {
  automatic,  ///< Graphviz if its program `dot` is installed, else we do
  dot,
  own  ///< the same picture on every machine
};

struct DrawOptions {
  bool plan = false;  ///< with the numbers of steps, places in memory, and the cuts of checkpoints
  DrawLayout layout = DrawLayout::automatic;
  /// Types in the file of layers that something else stands in for (Model::stood_in_for).
  std::map<std::string, std::string> types;
};

/// A complete SVG file. Throws runtime_failure if DrawLayout::dot is asked for and `dot` is missing or fails.
std::string net_svg(const Net& net, const DrawOptions& options);
/// The same as a graph in Graphviz' language.
std::string net_dot(const Net& net, const DrawOptions& options);

}  // namespace banyan
