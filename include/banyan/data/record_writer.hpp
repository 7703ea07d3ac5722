// RecordWriter: makes a database of records, as the conversion tools do.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace banyan::data {

class RecordWriter {
 public:
  virtual ~RecordWriter() = default;
  /// Keys must differ; they are the order of the records.
  virtual void put(std::string key, std::string value) = 0;
  /// Syncs, and makes the database appear under its name. Without it nothing is left.
  virtual void close() = 0;
  virtual std::uint64_t records() const = 0;
};

/// Caffe's --backend: "lmdb" or "leveldb"; bad_input for another, or for a LevelDB in a build without it.
void check_backend(const std::string& backend);
/// Throws bad_input if `path` exists (unless `overwrite` and it is a database of that kind) or its parent
/// does not.
std::unique_ptr<RecordWriter> make_record_writer(const std::string& backend, const std::string& path,
                                                 bool overwrite);

}  // namespace banyan::data
