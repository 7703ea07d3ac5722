#include "banyan/data/lmdb_writer.hpp"

#include <lmdb.h>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "data/new_folder.hpp"

namespace banyan::data {

namespace {

constexpr std::size_t kRecordsPerCommit = 1000;
constexpr std::size_t kFirstMapSize = std::size_t{16} << 20;

bool belongs_to_lmdb(const std::string& file) { return file == "data.mdb" || file == "lock.mdb"; }

}  // namespace

LmdbWriter::LmdbWriter(const std::string& path, bool overwrite)
    : folder_(std::make_unique<NewFolder>(path, overwrite, "an LMDB", belongs_to_lmdb)),
      map_size_(kFirstMapSize) {
  try {
    if (const int failed = mdb_env_create(&env_); failed != 0) fail("cannot create an environment", failed);
    mdb_env_set_mapsize(env_, map_size_);
    // Synced once, by close(): until then the folder is a temporary one.
    if (const int failed = mdb_env_open(env_, folder_->temporary().c_str(), MDB_NOSYNC | MDB_NOTLS, 0644);
        failed != 0)
      fail("cannot open it", failed);
  } catch (...) {
    mdb_env_close(env_);
    throw;
  }
}

LmdbWriter::~LmdbWriter() { mdb_env_close(env_); }

void LmdbWriter::fail(const char* doing, int error) {
  runtime_failure("LMDB ", banyan::quoted(folder_->path()), ": ", doing, ": ", mdb_strerror(error));
}

void LmdbWriter::put(std::string key, std::string value) {
  pending_.emplace_back(std::move(key), std::move(value));
  ++records_;
  if (pending_.size() >= kRecordsPerCommit) commit();
}

void LmdbWriter::commit() {
  while (!try_commit()) {
    map_size_ *= 2;
    if (const int error = mdb_env_set_mapsize(env_, map_size_); error != 0)
      fail("cannot grow the map", error);
  }
  pending_.clear();
}

/// False if the map is too small for what is pending.
bool LmdbWriter::try_commit() {
  MDB_txn* transaction = nullptr;
  if (const int error = mdb_txn_begin(env_, nullptr, 0, &transaction); error != 0)
    fail("cannot begin to write", error);
  MDB_dbi database = 0;
  int error = mdb_dbi_open(transaction, nullptr, 0, &database);
  for (const auto& [key, value] : pending_) {
    if (error != 0) break;
    MDB_val k{key.size(), const_cast<char*>(key.data())};
    MDB_val v{value.size(), const_cast<char*>(value.data())};
    error = mdb_put(transaction, database, &k, &v, MDB_NOOVERWRITE);
    if (error == MDB_KEYEXIST) {
      mdb_txn_abort(transaction);
      bad_input("LMDB ", banyan::quoted(folder_->path()), ": two records have the key ", banyan::quoted(key));
    }
    if (error == MDB_BAD_VALSIZE) {
      mdb_txn_abort(transaction);
      bad_input("LMDB ", banyan::quoted(folder_->path()), ": the key ", banyan::quoted(key), " has ",
                key.size(), " bytes; it must have 1 to ", mdb_env_get_maxkeysize(env_));
    }
  }
  if (error == 0) {
    error = mdb_txn_commit(transaction);
  } else {
    mdb_txn_abort(transaction);
  }
  if (error == MDB_MAP_FULL) return false;
  if (error != 0) fail("cannot write", error);
  return true;
}

void LmdbWriter::close() {
  commit();
  if (const int error = mdb_env_sync(env_, 1); error != 0) fail("cannot sync", error);
  mdb_env_close(env_);
  env_ = nullptr;
  folder_->commit();
}

}  // namespace banyan::data
