#include "banyan/train/train.hpp"

#include <glog/logging.h>

#include "banyan/train/log_lines.hpp"
#include "banyan/train/session.hpp"

namespace banyan {

TrainOutcome run_training(const TrainOptions& options) { return Session(options).train(); }

int train(const TrainOptions& options) {
  const TrainOutcome outcome = run_training(options);
  LOG(INFO) << log_lines::finished(outcome.stopped_early);
  if (!outcome.stopped_early) LOG(INFO) << log_lines::finished(false);
  return 0;
}

}  // namespace banyan
