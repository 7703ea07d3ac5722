#pragma once

#include <string>

#include "draw/picture.hpp"
#include "draw/scene.hpp"

namespace banyan::draw {

/// A complete SVG file that is readable on light and dark pages.
std::string to_svg(const Picture& picture, const Scene& scene);

}  // namespace banyan::draw
