// TensorBoard's event files (docs/metrics.md).
#pragma once

#include <memory>
#include <string>

#include "banyan/io/append_file.hpp"
#include "banyan/metrics/sink.hpp"

namespace banyan::metrics {

/// Each part of a run, after the start and after each resuming, has a file of its own in the folder, as
/// TensorBoard expects while it watches; the names sort in the order of the parts.
class EventFiles : public Sink {
 public:
  /// For a run whose next iteration is `iteration`. Files of other programs are left alone. With
  /// Existing::refuse throws bad_input if there are some of ours.
  EventFiles(const std::string& folder, std::int64_t iteration, Existing existing);
  ~EventFiles() override;
  void write(const Record& record) override;
  void sync() override;
  const std::string& path() const;

 private:
  std::unique_ptr<io::AppendFile> file_;
  bool has_graph_ = false;  ///< TensorBoard shows one for a run
};

}  // namespace banyan::metrics
