// Sink: where a run's records go: files, later a display.
#pragma once

#include <cstdint>
#include <string>

#include "banyan/base/error.hpp"
#include "banyan/metrics/record.hpp"

namespace banyan::metrics {

/// What a folder that already holds a run means.
enum class Existing : std::uint8_t {
  refuse,   ///< an error
  replace,  ///< that run is removed
  resume,   ///< what it tells of the iterations to come is removed, the rest stays
};

[[noreturn]] inline void refuse_existing(const std::string& where) {
  bad_input(where,
            " holds the metrics of another run; continue that run with --snapshot, replace them with "
            "--overwrite, or choose another folder");
}

/// Used by one thread at a time. Records come in the order of iterations.
class Sink {
 public:
  virtual ~Sink() = default;
  /// All of the record or nothing. A runtime failure is reported, and the next record tried.
  virtual void write(const Record& record) = 0;
  /// What was written survives the end of the machine too.
  virtual void sync() {}
};

}  // namespace banyan::metrics
