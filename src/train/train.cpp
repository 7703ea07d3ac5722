#include "banyan/train/train.hpp"

#include <glog/logging.h>

#include <sstream>

#include "banyan/parallel/uplink.hpp"
#include "banyan/train/log_lines.hpp"
#include "banyan/train/session.hpp"
#include "banyan/train/snapshot_files.hpp"
#include "base/start_pages.hpp"

namespace banyan {

void resolve_start(TrainOptions& options) {
  if (options.snapshot == "latest") {
    parallel::Uplink* uplink = options.uplink;
    const std::string prefix = snapshot_prefix_of(options.solver.snapshot, options.solver_path);
    options.snapshot =
        uplink == nullptr || uplink->place().process == 0 ? find_latest_snapshot(prefix).value_or("") : "";
    if (uplink != nullptr) options.snapshot = uplink->share(options.snapshot)[0];
  }
  if (!options.snapshot.empty() || !options.weights.empty()) return;
  for (const std::string& entry : options.solver.weights) {
    std::istringstream list(entry);
    for (std::string file; std::getline(list, file, ',');) {
      const std::size_t first = file.find_first_not_of(" \t");
      if (first != std::string::npos)
        options.weights.push_back(file.substr(first, file.find_last_not_of(" \t") - first + 1));
    }
  }
}

bool keeps_gradients(const TrainOptions& options) {
  const SolverSettings& solver = options.solver;
  const bool together = options.devices.size() > 1 || options.uplink != nullptr || solver.iter_size > 1 ||
                        solver.clip_norm.has_value();
  const bool looks = options.keep_blobs || solver.snapshot.diff || solver.metrics.histograms > 0;
  return together || looks;
}

TrainOutcome run_training(const TrainOptions& options) { return Session(options).train(); }

int train(const TrainOptions& options) {
  const TrainOutcome outcome = [&] {
    Session session(options);
    if (options.is_the_program) drop_start_pages();
    return session.train();
  }();
  LOG(INFO) << log_lines::finished(outcome.stopped_early);
  if (!outcome.stopped_early) LOG(INFO) << log_lines::finished(false);
  return 0;
}

}  // namespace banyan
