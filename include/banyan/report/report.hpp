// `trainer report`: what a run measured (docs/metrics.md), as one HTML file that needs nothing else; and the
// same page of a run that goes on, for `trainer --serve`.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
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

/// A run whose lines come one by one. Its memory is bounded, as the page is.
class LiveRun {
 public:
  /// `folder`: of --metrics; "" if there is none. `name` heads the page then.
  LiveRun(const std::string& name, const std::string& folder);
  ~LiveRun();
  /// What the folder's file already holds of it, up to the first line that is damaged.
  void take_file();
  /// A line as in metrics.jsonl.
  void take(const std::string& line);
  /// As read_run returns it; "" before the first line that says what runs.
  std::string json() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The page of a run that goes on: it asks `data?after=VERSION`, next to its own address, for a later version
/// of itself, again and again, and is answered by live_data.
std::string live_page_of(const std::string& run, std::int64_t version);
std::string live_data(const std::string& run, std::int64_t version, bool ended);

}  // namespace banyan::report
