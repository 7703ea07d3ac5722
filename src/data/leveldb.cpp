#include "banyan/data/leveldb.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/datum.hpp"
#include "data/leveldb_files.hpp"
#include "data/new_folder.hpp"

#ifdef BANYAN_WITH_LEVELDB
#include <leveldb/db.h>
#include <leveldb/options.h>
#include <leveldb/write_batch.h>
#endif

namespace banyan::data {

namespace {

namespace fs = std::filesystem;

std::string name_of(const std::string& path) { return "LevelDB " + banyan::quoted(path); }

void check_folder(const std::string& path) {
  std::error_code ignored;
  const std::string name = name_of(path);
  if (!fs::exists(path, ignored)) bad_input(name, ": there is no such folder");
  if (!fs::is_directory(path, ignored))
    bad_input(name, ": expected a folder that holds CURRENT, found a file");
  if (fs::exists(path + "/data.mdb", ignored))
    bad_input(name, ": the folder holds an LMDB: write \"backend: LMDB\", or leave backend out");
  if (!holds_leveldb(path)) bad_input(name, ": the folder holds no CURRENT");
}

}  // namespace

bool holds_leveldb(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path + "/CURRENT", ignored);
}

#ifdef BANYAN_WITH_LEVELDB

bool has_leveldb() { return true; }

namespace {

/// An open database with the keys of some records, by which any is found.
class Database {
 public:
  /// Keeps every key, or one of each kStride.
  Database(const std::string& path, bool all_keys) : path_(path), stride_(all_keys ? 1 : kStride) {
    check_folder(path);
    if (const std::string log = cut_off_log(path); !log.empty())
      bad_input(name(), ": its log ", log,
                " ends within a record: the folder was written or copied in part, and records are missing");
    leveldb::Options options;
    options.create_if_missing = false;
    options.max_open_files = 100;
    options.paranoid_checks = true;  // else records in a damaged log are dropped without a word, for good
    if (!can_write_in(path)) links_ = std::make_unique<LinkFolder>(path);
    leveldb::DB* opened = nullptr;
    const std::string& folder = links_ ? links_->path() : path;
    if (const leveldb::Status status = leveldb::DB::Open(options, folder, &opened); !status.ok())
      bad_input(name(), " cannot be opened: ", status.ToString());
    database_.reset(opened);
    const auto walk = iterator();
    for (walk->SeekToFirst(); walk->Valid(); walk->Next(), ++records_)
      if (records_ % stride_ == 0) keys_.push_back(walk->key().ToString());
    if (!walk->status().ok()) bad_input(name(), " is damaged: ", walk->status().ToString());
    if (records_ == 0) bad_input(name(), " has no records");
  }

  std::uint64_t records() const { return records_; }
  std::uint64_t stride() const { return stride_; }
  const std::string& key(std::uint64_t index) const { return keys_[index]; }
  std::string name() const { return name_of(path_); }
  std::unique_ptr<leveldb::Iterator> iterator() const {
    leveldb::ReadOptions options;
    options.verify_checksums = true;
    options.fill_cache = false;
    return std::unique_ptr<leveldb::Iterator>(database_->NewIterator(options));
  }

 private:
  static constexpr std::uint64_t kStride = 256;
  std::string path_;
  std::uint64_t stride_, records_ = 0;
  std::unique_ptr<LinkFolder> links_;  // of a folder without write access; outlives the database
  std::unique_ptr<leveldb::DB> database_;
  std::vector<std::string> keys_;
};

std::shared_ptr<const Database> database_of(const std::string& path, bool all_keys) {
  struct Registry {
    std::mutex mutex;
    std::map<std::string, std::weak_ptr<const Database>> open;
  };
  static Registry registry;
  std::error_code error;
  const fs::path canonical = fs::canonical(path, error);
  const std::lock_guard lock(registry.mutex);
  auto& entry = registry.open[error ? path : canonical.string()];
  auto database = entry.lock();
  if (!database) {
    database = std::make_shared<const Database>(path, all_keys);
    entry = database;
  }
  return database;
}

class Reader : public RecordReader {
 public:
  Reader(std::shared_ptr<const Database> database, const RecordFormat& format)
      : database_(std::move(database)), iterator_(database_->iterator()), format_(format) {}

  void fetch(std::uint64_t position, Record& record) override {
    const std::uint64_t stride = database_->stride();
    if (!iterator_->Valid() || position < at_ || position - at_ > stride) {
      at_ = position / stride * stride;
      iterator_->Seek(database_->key(position / stride));
    }
    for (; iterator_->Valid() && at_ < position; ++at_) iterator_->Next();
    if (!iterator_->Valid())
      bad_input("cannot read it: ", iterator_->status().ok() ? "it is gone" : iterator_->status().ToString());
    record.stored = {iterator_->value().data(), iterator_->value().size()};
  }
  void decode(Record& record) override { read_stored(format_, record); }
  std::string_view key() const override { return {iterator_->key().data(), iterator_->key().size()}; }
  std::string describe(std::uint64_t position) override {
    const std::string key = iterator_->Valid() ? iterator_->key().ToString() : "";
    return cat(database_->name(), ", record ", position, " (counted from 0; key ", banyan::quoted(key), ")");
  }

 private:
  std::shared_ptr<const Database> database_;
  std::unique_ptr<leveldb::Iterator> iterator_;
  std::uint64_t at_ = 0;  // where the iterator is, if it is valid
  RecordFormat format_;
};

class Source : public RecordSource {
 public:
  Source(const std::string& path, const LeveldbOptions& options)
      : database_(database_of(path, options.random_access)), format_{options.color, options.annotated} {}
  std::uint64_t size() const override { return database_->records(); }
  std::string name() const override { return database_->name(); }
  std::unique_ptr<RecordReader> reader() const override {
    return std::make_unique<Reader>(database_, format_);
  }

 private:
  std::shared_ptr<const Database> database_;
  RecordFormat format_;
};

bool belongs_to_leveldb(const std::string& file) {
  return file == "CURRENT" || file == "LOCK" || file == "LOG" || file == "LOG.old" ||
         file.starts_with("MANIFEST-") || file.ends_with(".ldb") || file.ends_with(".sst") ||
         file.ends_with(".log");
}

class Writer : public RecordWriter {
 public:
  Writer(const std::string& path, bool overwrite)
      : folder_(path, overwrite, "a LevelDB", belongs_to_leveldb) {
    open(true);
  }

  void put(std::string key, std::string value) override {
    std::string present;
    if (!pending_keys_.emplace(key, true).second || database_->Get({}, key, &present).ok())
      bad_input(name_of(folder_.path()), ": two records have the key ", banyan::quoted(key));
    batch_.Put(key, value);
    ++records_;
    if (pending_keys_.size() >= kRecordsPerCommit) commit(false);
  }
  void close() override {
    commit(true);
    database_.reset();
    // Opening moves the last records from the log, where nobody would miss them, to a table.
    open(false);
    database_.reset();
    folder_.commit();
  }
  std::uint64_t records() const override { return records_; }

 private:
  static constexpr std::size_t kRecordsPerCommit = 1000;

  void open(bool create) {
    leveldb::Options options;
    options.create_if_missing = options.error_if_exists = create;
    options.paranoid_checks = true;
    // Records are compressed images or pixels; larger pieces make fewer files.
    options.write_buffer_size = std::size_t{64} << 20;
    leveldb::DB* opened = nullptr;
    check(leveldb::DB::Open(options, folder_.temporary(), &opened),
          create ? "cannot create it" : "cannot complete it");
    database_.reset(opened);
  }
  void commit(bool sync) {
    leveldb::WriteOptions options;
    options.sync = sync;
    check(database_->Write(options, &batch_), "cannot write");
    batch_.Clear();
    pending_keys_.clear();
  }
  void check(const leveldb::Status& status, const char* doing) const {
    if (!status.ok()) runtime_failure(name_of(folder_.path()), ": ", doing, ": ", status.ToString());
  }

  NewFolder folder_;  // outlives the database
  std::unique_ptr<leveldb::DB> database_;
  leveldb::WriteBatch batch_;
  std::map<std::string, bool> pending_keys_;
  std::uint64_t records_ = 0;
};

}  // namespace

std::shared_ptr<RecordSource> open_leveldb(const std::string& path, const LeveldbOptions& options) {
  return std::make_shared<Source>(path, options);
}

std::unique_ptr<RecordWriter> make_leveldb_writer(const std::string& path, bool overwrite) {
  return std::make_unique<Writer>(path, overwrite);
}

#else

bool has_leveldb() { return false; }

std::shared_ptr<RecordSource> open_leveldb(const std::string& path, const LeveldbOptions&) {
  check_folder(path);
  bad_input(name_of(path), ": this build of Banyan lacks LevelDB: install libleveldb-dev and build again");
}

std::unique_ptr<RecordWriter> make_leveldb_writer(const std::string&, bool) {
  check_backend("leveldb");
  return nullptr;
}

#endif

}  // namespace banyan::data
