// Sources: the layers of a device's nets that provide data, as the run sees them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/data/batch_source.hpp"
#include "banyan/metrics/record.hpp"
#include "banyan/net/net.hpp"
#include "banyan/observe/run_board.hpp"
#include "early_warnings.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

class Sources {
 public:
  /// Adds those of a net, under its name in snapshots.
  void add(const Net& net, const std::string& name);
  /// Sets what is called as long as records arrive for a device that waits for them.
  void set_beat(const std::function<void()>& beat);
  void trace_to(const Tracing& tracing);
  /// How many batches are ready for the train net, as device `rank`'s.
  void show_on(RunBoard& board, int rank) const;
  /// Ends waits for data. On any thread, once nothing more is added.
  void interrupt();
  /// Ends reading, at the end of a run.
  void stop();
  /// Where somebody else deals the train net's batches (data::BatchSource).
  void announce(std::uint64_t number);
  /// The train net's sources stand `batches` batches after where they stood when this was first called.
  void count_batches(std::uint64_t batches);
  void save(caffe::BanyanState& state) const;
  /// Continues where the sources of the same names stood, the k-th of a name where the k-th did; others begin
  /// again.
  void restore(const caffe::BanyanState& state);
  /// What several processes compare: the numbers of records.
  std::vector<std::pair<std::string, std::string>> sizes() const;
  /// The data sets, once every device's nets are made.
  std::vector<metrics::Start::DataSet> describe() const;
  /// The same for early warnings; `test_iter`: of each test net.
  std::vector<WarningFacts::Source> facts(const std::vector<int>& test_iter) const;
  /// Passes through the data set of the train net's first source so far, with fractions; nothing without one.
  std::optional<double> epoch() const;

 private:
  struct Entry {
    std::string net, layer;
    data::BatchSource* source;
    std::uint64_t records = 0, batch = 0;
    int threads = 1;
    bool takes_threads = false;
    std::optional<std::uint64_t> counted_from = std::nullopt;
  };
  static bool trains(const Entry& entry) { return entry.net == "train"; }
  std::vector<Entry> entries_;
};

}  // namespace banyan
