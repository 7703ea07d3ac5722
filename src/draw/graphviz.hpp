#pragma once

#include <string>
#include <vector>

#include "draw/picture.hpp"
#include "draw/scene.hpp"

namespace banyan::draw {

/// The picture in Graphviz' language.
std::string to_dot(const Picture& picture);

/// Is the program `dot` in the PATH?
bool have_graphviz();
/// Lays out with `dot`. Throws runtime_failure if that fails or takes more than a minute.
std::vector<Drawing> lay_out_with_graphviz(const std::vector<Plot>& plots);

// Its parts, for tests.
std::string layout_request(const Plot& plot);
/// Reads what `dot -Tplain` prints about one graph. Throws runtime_failure.
Drawing read_plain(const std::string& text, const Plot& plot);

}  // namespace banyan::draw
