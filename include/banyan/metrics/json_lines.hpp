// metrics.jsonl (docs/metrics.md).
#pragma once

#include <memory>
#include <string>

#include "banyan/io/append_file.hpp"
#include "banyan/metrics/sink.hpp"

namespace banyan::metrics {

/// A record as a line without its newline; "" for what the file does not hold (pictures).
std::string json_line(const Record& record);

class JsonLines : public Sink {
 public:
  /// For a run whose next iteration is `iteration`. Throws bad_input for a file that holds something else,
  /// and, unless `existing` allows it, one that holds a run.
  JsonLines(const std::string& path, std::int64_t iteration, Existing existing);
  void write(const Record& record) override;
  void sync() override { file_.sync(); }

 private:
  io::AppendFile file_;
};

}  // namespace banyan::metrics
