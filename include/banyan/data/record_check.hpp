// Can a data set be trained on? Reads its records as a data layer would, and looks at what comes of them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "banyan/data/batch_source.hpp"

namespace banyan::data {

/// An output of a data layer whose values are numbers of classes.
struct ClassOutput {
  std::size_t output = 1;
  std::int64_t classes = 0;
  std::vector<double> ignored;  ///< values that do not count, whatever they are
};

struct RecordCheckOptions {
  std::uint64_t most = 0;  ///< records, spread over the data set; 0: all
  int threads = 1;
  std::vector<ClassOutput> labels;
  std::function<bool()> stop;  ///< asked between records, by several threads
};

struct LabelCheck {
  std::uint64_t values = 0, outside = 0;  ///< ignored ones are not among them
  double least = 0, most = 0;
  std::map<double, std::uint64_t> counts;  ///< of at most kMostCounted values
  std::string first_outside;               ///< the record and its value
  static constexpr std::size_t kMostCounted = 100'000;
};

struct RecordCheck {
  std::uint64_t records = 0;  ///< of the data set
  std::uint64_t looked_at = 0, unusable = 0;
  std::uint64_t bytes = 0;  ///< of those looked at, as they are stored
  std::vector<std::string>
      complaints;                  ///< the first few that cannot be read or used, in the data set's order
  std::vector<Shape> item;         ///< shapes of the first usable one
  std::string other_item;          ///< the first record whose shapes differ, with them; "" if none do
  std::vector<LabelCheck> labels;  ///< as in the options
};

RecordCheck check_records(const InputPipeline& pipeline, const RecordCheckOptions& options);

/// The values of one output (its first element) for the first `items` items in the order of training.
std::vector<double> first_values(const InputPipeline& pipeline, std::size_t output, std::uint64_t items);

}  // namespace banyan::data
