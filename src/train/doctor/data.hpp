// The data sets of a run's nets.
#pragma once

#include <functional>

#include "banyan/data/record_check.hpp"
#include "nets.hpp"

namespace banyan::doctor {

/// The outputs of a source that layers of the net take for numbers of classes, with how many there are.
std::vector<data::ClassOutput> class_outputs(const BuiltNet& built, const Layer& source);

struct DataNeeds {
  bool all_records = false;
  int threads = 1;
  std::uint64_t usable_memory = 0;
  std::vector<int> test_iter;  ///< of the test nets
  std::function<bool()> stop;
  std::function<void(const std::string&)> show;  ///< told what is going on, now and then; may be empty
};
/// Reads each data set as its layer would.
void examine_data(const Nets& nets, const DataNeeds& needs, Findings& findings);

/// What a check means; `topic`: `train "data"`.
void judge_records(const std::string& topic, const std::string& source, const data::RecordCheck& check,
                   const std::vector<data::ClassOutput>& labels, std::uint64_t batch, Findings& findings);
/// Are batches of one class each? `values`: labels in the order of training.
bool looks_sorted(const std::vector<double>& values, std::uint64_t batch);

}  // namespace banyan::doctor
