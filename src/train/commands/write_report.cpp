#include <glog/logging.h>

#include "banyan/io/atomic_file.hpp"
#include "banyan/report/report.hpp"
#include "banyan/train/commands.hpp"

namespace banyan {

void write_report(const std::vector<std::string>& folders, const std::string& out) {
  std::vector<std::string> runs;
  for (const std::string& folder : folders) runs.push_back(report::read_run(folder));
  const std::string path = out.empty() ? folders.at(0) + "/report.html" : out;
  io::write_file(path, report::page_of(runs));
  LOG(INFO) << "Wrote " << path;
}

}  // namespace banyan
