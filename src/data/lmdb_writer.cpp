#include "banyan/data/lmdb_writer.hpp"

#include <lmdb.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan::data {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kRecordsPerCommit = 1000;
constexpr std::size_t kFirstMapSize = std::size_t{16} << 20;

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

bool is_lmdb_folder(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return false;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    const std::string name = entry.path().filename();
    if (name != "data.mdb" && name != "lock.mdb") return false;
  }
  return !error;
}

}  // namespace

LmdbWriter::LmdbWriter(const std::string& path, bool overwrite)
    : path_(without_slashes(path)),
      temporary_(cat(path_, ".tmp.", getpid())),
      overwrite_(overwrite),
      map_size_(kFirstMapSize) {
  std::error_code error;
  if (fs::exists(path_, error)) {
    if (!overwrite_) bad_input(banyan::quoted(path_), " exists; remove it, or pass --overwrite");
    if (!is_lmdb_folder(path_))
      bad_input(banyan::quoted(path_), " is not an LMDB folder and will not be overwritten");
  }
  const fs::path parent = fs::path(path_).parent_path();
  if (!parent.empty() && !fs::is_directory(parent, error))
    bad_input("cannot create ", banyan::quoted(path_), ": there is no folder ",
              banyan::quoted(parent.string()));
  fs::remove_all(temporary_, error);
  if (!fs::create_directory(temporary_, error))
    runtime_failure("cannot create the folder ", banyan::quoted(temporary_), ": ", error.message());
  try {
    if (const int failed = mdb_env_create(&env_); failed != 0) fail("cannot create an environment", failed);
    mdb_env_set_mapsize(env_, map_size_);
    // Synced once, by close(): until then the folder is a temporary one.
    if (const int failed = mdb_env_open(env_, temporary_.c_str(), MDB_NOSYNC | MDB_NOTLS, 0644); failed != 0)
      fail("cannot open it", failed);
  } catch (...) {
    discard();
    throw;
  }
}

LmdbWriter::~LmdbWriter() { discard(); }

void LmdbWriter::discard() noexcept {
  if (env_ != nullptr) mdb_env_close(env_);
  env_ = nullptr;
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

void LmdbWriter::fail(const char* doing, int error) {
  runtime_failure("LMDB ", banyan::quoted(path_), ": ", doing, ": ", mdb_strerror(error));
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
      bad_input("LMDB ", banyan::quoted(path_), ": two records have the key ", banyan::quoted(key));
    }
    if (error == MDB_BAD_VALSIZE) {
      mdb_txn_abort(transaction);
      bad_input("LMDB ", banyan::quoted(path_), ": the key ", banyan::quoted(key), " has ", key.size(),
                " bytes; at most ", mdb_env_get_maxkeysize(env_), " are possible");
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
  std::error_code error;
  if (overwrite_) fs::remove_all(path_, error);
  fs::rename(temporary_, path_, error);
  if (error)
    runtime_failure("cannot rename ", banyan::quoted(temporary_), " to ", banyan::quoted(path_), ": ",
                    error.message());
  temporary_.clear();
}

}  // namespace banyan::data
