// Writes LMDB folders.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "banyan/data/record_writer.hpp"

struct MDB_env;
struct MDB_txn;

namespace banyan::data {

class NewFolder;

/// Writes into a folder `<path>.tmp.<pid>` that close() renames to `path`; without close() nothing is left.
/// Commits every 1000 records and doubles the map when it is full, as Caffe's tools do.
class LmdbWriter : public RecordWriter {
 public:
  /// Throws bad_input if `path` exists (unless `overwrite` and it is an LMDB folder) or its parent does not.
  explicit LmdbWriter(const std::string& path, bool overwrite = false);
  ~LmdbWriter() override;
  LmdbWriter(const LmdbWriter&) = delete;
  LmdbWriter& operator=(const LmdbWriter&) = delete;

  void put(std::string key, std::string value) override;
  void close() override;
  std::uint64_t records() const override { return records_; }

 private:
  void commit();
  bool try_commit();
  [[noreturn]] void fail(const char* doing, int error);

  std::unique_ptr<NewFolder> folder_;
  MDB_env* env_ = nullptr;
  std::size_t map_size_;
  std::uint64_t records_ = 0;
  std::vector<std::pair<std::string, std::string>> pending_;
};

}  // namespace banyan::data
