// The members of each kind of line in metrics.jsonl, as docs/metrics.md describes them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace banyan::report {

using Json = nlohmann::ordered_json;

/// "" if the line is as described, or what is wrong with it. Lines of unknown kinds and unknown members are
/// fine.
std::string problem_in(const Json& line);

}  // namespace banyan::report
