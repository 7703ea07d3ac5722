// Writes LMDB folders.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct MDB_env;
struct MDB_txn;

namespace banyan::data {

/// Writes into a folder `<path>.tmp.<pid>` that close() renames to `path`; without close() nothing is left.
/// Commits every 1000 records and doubles the map when it is full, as Caffe's tools do.
class LmdbWriter {
 public:
  /// Throws bad_input if `path` exists (unless `overwrite` and it is an LMDB folder) or its parent does not.
  explicit LmdbWriter(const std::string& path, bool overwrite = false);
  ~LmdbWriter();
  LmdbWriter(const LmdbWriter&) = delete;
  LmdbWriter& operator=(const LmdbWriter&) = delete;

  void put(std::string key, std::string value);
  /// Syncs, and makes the database appear under its name.
  void close();
  std::uint64_t records() const { return records_; }

 private:
  void commit();
  bool try_commit();
  [[noreturn]] void fail(const char* doing, int error);
  void discard() noexcept;

  std::string path_, temporary_;
  bool overwrite_;
  MDB_env* env_ = nullptr;
  std::size_t map_size_;
  std::uint64_t records_ = 0;
  std::vector<std::pair<std::string, std::string>> pending_;
};

}  // namespace banyan::data
