// `trainer report`: what a run measured (docs/metrics.md), as one HTML file that needs nothing else.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace banyan::report {

/// What the page shows of a run, as a JSON object: the lines of FOLDER/metrics.jsonl as columns. Of a run
/// that is still going, or was killed, everything up to the last complete line. Throws bad_input for a folder
/// without metrics and for a damaged line.
std::string read_run(const std::string& folder);
/// The same from the lines of such a file; `folder` is for names and messages.
std::string read_run(std::istream& lines, const std::string& folder);

/// The page that shows runs, each as read_run returns it.
std::string page_of(const std::vector<std::string>& runs);

}  // namespace banyan::report
