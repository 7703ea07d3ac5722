#include "banyan/data/lmdb_source.hpp"

#include <lmdb.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/datum.hpp"
#include "banyan/data/leveldb.hpp"

namespace banyan::data {

namespace {

namespace fs = std::filesystem;

std::atomic<bool> pretend_read_only{false};

/// An open read-only environment. A process must not open a folder with LMDB twice: see environment_of().
class Environment {
 public:
  explicit Environment(const std::string& path) : path_(path) {
    check_folder();
    int error = pretend_read_only ? EACCES : open(kFlags);
    // A folder without write access cannot hold a lock file. Without writers no locks are needed.
    if (error == EACCES || error == EROFS || error == EPERM) error = open(kFlags | MDB_NOLOCK);
    try {
      if (error != 0) fail("cannot open it", error);
      check_length();
      open_database();
    } catch (...) {
      mdb_env_close(env_);
      throw;
    }
  }
  ~Environment() { mdb_env_close(env_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  MDB_env* get() const { return env_; }
  MDB_dbi database() const { return database_; }
  std::uint64_t records() const { return records_; }
  std::string name() const { return "LMDB " + banyan::quoted(path_); }

  [[noreturn]] void fail(const char* doing, int error) const {
    bad_input(name(), ": ", doing, ": ", mdb_strerror(error));
  }

 private:
  static constexpr unsigned kFlags = MDB_RDONLY | MDB_NOTLS;

  void check_folder() const {
    std::error_code ignored;
    if (!fs::exists(path_, ignored)) bad_input(name(), ": there is no such folder");
    if (!fs::is_directory(path_, ignored))
      bad_input(name(), ": expected a folder that holds data.mdb, found a file");
    if (holds_leveldb(path_))
      bad_input(name(), ": the folder holds a LevelDB: write \"backend: LEVELDB\", or leave backend out");
    if (!fs::exists(path_ + "/data.mdb", ignored)) bad_input(name(), ": the folder holds no data.mdb");
  }

  int open(unsigned flags) {
    if (env_ != nullptr) mdb_env_close(env_);  // after a failed open nothing else is allowed
    env_ = nullptr;
    if (const int error = mdb_env_create(&env_); error != 0) fail("cannot create an environment", error);
    mdb_env_set_maxreaders(env_, 1024);
    return mdb_env_open(env_, path_.c_str(), flags, 0644);
  }

  /// Reading a page beyond the end of a truncated file would be a bus error.
  void check_length() const {
    MDB_envinfo info;
    MDB_stat stat;
    mdb_env_info(env_, &info);
    mdb_env_stat(env_, &stat);
    const std::uint64_t needed = (static_cast<std::uint64_t>(info.me_last_pgno) + 1) * stat.ms_psize;
    const std::uint64_t found = fs::file_size(path_ + "/data.mdb");
    if (found < needed)
      bad_input(name(), ": data.mdb is truncated (expected at least ", needed, " bytes, found ", found, ")");
  }

  void open_database() {
    MDB_txn* transaction = nullptr;
    int error = mdb_txn_begin(env_, nullptr, MDB_RDONLY, &transaction);
    // A reader locks the byte of the lock file that has its process ID for a number. In other containers and
    // on other machines there are processes with the same ID.
    if (error == EAGAIN && (error = open(kFlags | MDB_NOLOCK)) == 0)
      error = mdb_txn_begin(env_, nullptr, MDB_RDONLY, &transaction);
    if (error != 0) fail("cannot begin to read", error);
    error = mdb_dbi_open(transaction, nullptr, 0, &database_);
    MDB_stat stat{};
    if (error == 0) error = mdb_stat(transaction, database_, &stat);
    mdb_txn_abort(transaction);
    if (error != 0) fail("cannot open its main database", error);
    records_ = stat.ms_entries;
    if (records_ == 0) bad_input(name(), " has no records");
  }

  std::string path_;
  MDB_env* env_ = nullptr;
  MDB_dbi database_ = 0;
  std::uint64_t records_ = 0;
};

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Environment>> open;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

std::string canonical(const std::string& path) {
  std::error_code error;
  const fs::path result = fs::canonical(path, error);
  return error ? path : result.string();
}

std::shared_ptr<Environment> environment_of(const std::string& path) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::weak_ptr<Environment>& entry = all.open[canonical(path)];
  std::shared_ptr<Environment> environment = entry.lock();
  if (!environment) {
    environment = std::make_shared<Environment>(path);
    entry = environment;
  }
  return environment;
}

/// A snapshot of the database with a cursor. Values point into the map and stay valid while it lives.
class Walk {
 public:
  explicit Walk(std::shared_ptr<const Environment> environment) : environment_(std::move(environment)) {
    if (const int error = mdb_txn_begin(environment_->get(), nullptr, MDB_RDONLY, &transaction_); error != 0)
      environment_->fail("cannot begin to read", error);
    if (const int error = mdb_cursor_open(transaction_, environment_->database(), &cursor_); error != 0) {
      mdb_txn_abort(transaction_);
      environment_->fail("cannot open a cursor", error);
    }
  }
  ~Walk() {
    mdb_cursor_close(cursor_);
    mdb_txn_abort(transaction_);
  }
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  /// Moves to record `position` of those in key order.
  void move_to(std::uint64_t position) {
    if (at_ == kNowhere || position < at_) {
      get(MDB_FIRST);
      at_ = 0;
    }
    for (; at_ < position; ++at_) get(MDB_NEXT);
  }
  bool is_at(std::uint64_t position) const { return at_ == position; }
  const MDB_val& key() const { return key_; }
  const MDB_val& value() const { return value_; }

 private:
  static constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

  void get(MDB_cursor_op operation) {
    if (const int error = mdb_cursor_get(cursor_, &key_, &value_, operation); error != 0) {
      at_ = kNowhere;
      environment_->fail("cannot read the next key", error);
    }
  }

  std::shared_ptr<const Environment> environment_;
  MDB_txn* transaction_ = nullptr;
  MDB_cursor* cursor_ = nullptr;
  MDB_val key_{}, value_{};
  std::uint64_t at_ = kNowhere;
};

std::string_view view(const MDB_val& value) {
  return {static_cast<const char*>(value.mv_data), value.mv_size};
}

struct Entry {
  std::string_view key, value;
};

/// The place of every record in the map. Its cursor keeps the snapshot that the entries point into.
class Index {
 public:
  explicit Index(const std::shared_ptr<const Environment>& environment) : walk_(environment) {
    entries_.reserve(environment->records());
    for (std::uint64_t i = 0; i < environment->records(); ++i) {
      walk_.move_to(i);
      entries_.push_back({view(walk_.key()), view(walk_.value())});
    }
  }
  const Entry& operator[](std::uint64_t position) const { return entries_[position]; }

 private:
  Walk walk_;
  std::vector<Entry> entries_;
};

/// Pages of the map that were read count as this process's memory, so that its memory use would appear to
/// grow by the size of the data set. A reader releases them now and then; they stay in the system's page
/// cache. (In random order the kernel may map a lot around each record before that.)
class ReadPages {
 public:
  void note(std::string_view value) {
    const auto begin = reinterpret_cast<std::uintptr_t>(value.data());
    first_ = std::min(first_, begin);
    last_ = std::max(last_, begin + value.size());
    bytes_ += value.size();
    if (bytes_ < kMost) return;
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    first_ -= first_ % page;
    ::madvise(reinterpret_cast<void*>(first_), last_ - first_, MADV_DONTNEED);
    *this = {};
  }

 private:
  static constexpr std::size_t kMost = 16u << 20;
  std::uintptr_t first_ = UINTPTR_MAX, last_ = 0;
  std::size_t bytes_ = 0;
};

std::string describe_record(const Environment& environment, std::uint64_t position, std::string_view key) {
  return cat(environment.name(), ", record ", position, " (counted from 0",
             key.empty() ? "" : cat("; key ", banyan::quoted(key)), ")");
}

class WalkingReader : public RecordReader {
 public:
  WalkingReader(std::shared_ptr<const Environment> environment, const RecordFormat& format)
      : environment_(std::move(environment)), walk_(environment_), format_(format) {}
  void fetch(std::uint64_t position, Record& record) override {
    walk_.move_to(position);
    record.stored = view(walk_.value());
    pages_.note(record.stored);
  }
  void decode(Record& record) override { read_stored(format_, record); }
  std::string_view key() const override { return view(walk_.key()); }
  std::string describe(std::uint64_t position) override {
    return describe_record(*environment_, position, walk_.is_at(position) ? view(walk_.key()) : "");
  }

 private:
  std::shared_ptr<const Environment> environment_;
  Walk walk_;
  ReadPages pages_;
  RecordFormat format_;
};

class IndexReader : public RecordReader {
 public:
  IndexReader(std::shared_ptr<const Environment> environment, std::shared_ptr<const Index> index,
              const RecordFormat& format)
      : environment_(std::move(environment)), index_(std::move(index)), format_(format) {}
  void fetch(std::uint64_t position, Record& record) override {
    record.stored = (*index_)[position].value;
    key_ = (*index_)[position].key;
    pages_.note(record.stored);
  }
  void decode(Record& record) override { read_stored(format_, record); }
  std::string_view key() const override { return key_; }
  std::string describe(std::uint64_t position) override {
    return describe_record(*environment_, position, (*index_)[position].key);
  }

 private:
  std::shared_ptr<const Environment> environment_;
  std::shared_ptr<const Index> index_;
  std::string_view key_;
  ReadPages pages_;
  RecordFormat format_;
};

class LmdbSource : public RecordSource {
 public:
  LmdbSource(std::shared_ptr<const Environment> environment, const LmdbOptions& options)
      : environment_(std::move(environment)), options_(options) {}
  std::uint64_t size() const override { return environment_->records(); }
  std::string name() const override { return environment_->name(); }
  std::unique_ptr<RecordReader> reader() const override {
    const RecordFormat format{options_.color, options_.annotated};
    if (!options_.random_access) return std::make_unique<WalkingReader>(environment_, format);
    std::call_once(indexed_, [this] { index_ = std::make_shared<Index>(environment_); });
    return std::make_unique<IndexReader>(environment_, index_, format);
  }

 private:
  std::shared_ptr<const Environment> environment_;
  LmdbOptions options_;
  mutable std::once_flag indexed_;
  mutable std::shared_ptr<const Index> index_;
};

}  // namespace

std::shared_ptr<RecordSource> open_lmdb(const std::string& path, const LmdbOptions& options) {
  return std::make_shared<LmdbSource>(environment_of(path), options);
}

unsigned lmdb_flags(const std::string& path) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const std::shared_ptr<Environment> environment = all.open[canonical(path)].lock();
  unsigned flags = 0;
  if (environment) mdb_env_get_flags(environment->get(), &flags);
  return flags;
}

void pretend_read_only_folders(bool pretend) { pretend_read_only = pretend; }

}  // namespace banyan::data
