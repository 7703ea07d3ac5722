// `--tree`: the device tree that the user chooses.
#pragma once

#include <string>

#include "banyan/parallel/topology.hpp"

namespace banyan::parallel {

/// `auto` (best_tree), `pairs` (the fastest links first, build_tree), `direct`, `chain`, `star`, or a file
/// for parse_tree. Throws bad_input for anything else.
Tree choose_tree(const std::string& choice, const LinkMatrix& links);

/// A tree as text: one edge per line, `CHILD PARENT`, or all parents on one line, the root's being -1.
/// Devices are numbered from 0 in the order of --gpu; `#` begins a comment. Throws bad_input with file and
/// line.
Tree parse_tree(const std::string& text, const std::string& file, int devices);

}  // namespace banyan::parallel
