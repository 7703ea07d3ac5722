// LevelDB folders: reading, writing, and the choice between LevelDB and LMDB.

#include "banyan/data/leveldb.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <set>

#include "banyan/data/lmdb_source.hpp"
#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"

#ifdef BANYAN_WITH_LEVELDB
#include <leveldb/db.h>
#endif

namespace banyan::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

#ifdef BANYAN_WITH_LEVELDB

class Leveldb : public FolderTest {
 protected:
  /// Record i: 1 x 2 x 2 pixels of value i (mod 256), label i. By LevelDB's own interface, as Caffe does it.
  void make(const std::string& name, int records) {
    leveldb::Options options;
    options.create_if_missing = true;
    leveldb::DB* opened = nullptr;
    ASSERT_TRUE(leveldb::DB::Open(options, path(name), &opened).ok());
    const std::unique_ptr<leveldb::DB> database(opened);
    for (int i = records - 1; i >= 0; --i) {
      const std::vector<std::uint8_t> pixels(4, static_cast<std::uint8_t>(i));
      ASSERT_TRUE(
          database->Put({}, key_of(static_cast<std::uint64_t>(i)), raw_datum(1, 2, 2, pixels.data(), i))
              .ok());
    }
  }
  /// The one file with that ending.
  std::string file_in(const std::string& name, const std::string& ending) {
    std::string found;
    for (const auto& entry : std::filesystem::directory_iterator(path(name)))
      if (entry.path().string().ends_with(ending)) {
        EXPECT_EQ(found, "");
        found = entry.path().string();
      }
    EXPECT_NE(found, "") << ending;
    return found;
  }
  /// Changes a byte in its first quarter.
  static void damage(const std::string& file) {
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    const auto at = static_cast<std::streamoff>(std::filesystem::file_size(file) / 4);
    stream.seekg(at);
    const char byte = static_cast<char>(stream.get() ^ 0x55);
    stream.seekp(at);
    stream.put(byte);
    EXPECT_TRUE(stream.flush());
  }
  std::string text(const std::string& source, int batch, const std::string& more = "") {
    return "name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: '" + path(source) +
           "' batch_size: " + std::to_string(batch) + " " + more + " }";
  }
  std::vector<int> labels(const std::string& text, int steps, std::uint64_t from = 0) {
    Replica replica(text);
    if (from > 0) replica.source().seek(from);
    std::vector<int> all;
    for (int i = 0; i < steps; ++i)
      for (const int label : replica.step()) all.push_back(label);
    return all;
  }
};

TEST_F(Leveldb, ServesRecordsInTheOrderOfTheirKeys) {
  make("db", 5);
  EXPECT_EQ(labels(text("db", 3, "backend: LEVELDB"), 3), (std::vector<int>{0, 1, 2, 3, 4, 0, 1, 2, 3}));
}

/// More than one stretch between kept keys (256), in order, from the middle and shuffled.
TEST_F(Leveldb, AnyPositionIsFound) {
  make("db", 700);
  std::vector<int> all = labels(text("db", 100, "shuffle: true"), 7);
  EXPECT_NE(all[0] * 1000 + all[1], 1);
  std::sort(all.begin(), all.end());
  for (int i = 0; i < 700; ++i) ASSERT_EQ(all[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(labels(text("db", 2), 1, 511), (std::vector<int>{511, 512}));
  EXPECT_EQ(labels(text("db", 3), 1, 698), (std::vector<int>{698, 699, 0}));
  // Open without all keys, then read in any order.
  const auto plain = open_leveldb(path("db"));
  const auto reader = open_leveldb(path("db"), {ColorMode::as_stored, true})->reader();
  Record record;
  for (const std::uint64_t position : {699u, 0u, 255u, 256u, 257u, 3u, 512u}) {
    read_record(*reader, position, record);
    EXPECT_EQ(record.label, static_cast<int>(position));
  }
}

TEST_F(Leveldb, AMissingBackendIsWhatTheFolderHolds) {
  make("level", 2);
  make_numbered_lmdb(path("light"), 3);
  EXPECT_EQ(labels(text("level", 3), 1), (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(labels(text("light", 4), 1), (std::vector<int>{0, 1, 2, 0}));
  EXPECT_THAT(bad_input_of([&] { Replica(text("light", 2, "backend: LEVELDB")); }),
              HasSubstr("holds an LMDB"));
  EXPECT_THAT(bad_input_of([&] { Replica(text("level", 2, "backend: LMDB")); }),
              HasSubstr("holds a LevelDB"));
}

TEST_F(Leveldb, RefusesWhatIsNone) {
  EXPECT_THAT(bad_input_of([&] { open_leveldb(path("none")); }), HasSubstr("no such folder"));
  std::filesystem::create_directories(path("empty"));
  EXPECT_THAT(bad_input_of([&] { open_leveldb(path("empty")); }), HasSubstr("no CURRENT"));
  write_file(path("file"), std::string("x"));
  EXPECT_THAT(bad_input_of([&] { open_leveldb(path("file")); }), HasSubstr("found a file"));
  make("no_records", 0);
  EXPECT_THAT(bad_input_of([&] { open_leveldb(path("no_records")); }), HasSubstr("has no records"));
  make("broken", 3);
  write_file(path("broken/CURRENT"), std::string("MANIFEST-999999\n"));
  EXPECT_THAT(bad_input_of([&] { open_leveldb(path("broken")); }), HasSubstr("cannot be opened"));
}

/// Newer records are in the log, older ones in tables. Neither may lose records silently.
TEST_F(Leveldb, DamageIsFoundWhereverItIs) {
  make("log", 1000);
  damage(file_in("log", ".log"));
  EXPECT_THAT(bad_input_of([&] { open_leveldb(path("log")); }), HasSubstr("orruption"));
  EXPECT_THAT(bad_input_of([&] { open_leveldb(path("log")); }), HasSubstr("orruption"));  // and still there
  make("table", 1000);
  open_leveldb(path("table"));  // which makes a table of the log
  damage(file_in("table", ".ldb"));
  EXPECT_THAT(bad_input_of([&] { open_leveldb(path("table")); }), HasSubstr("is damaged"));
}

/// A log that is cut off is taken for one that was not written to its end; a table is not.
TEST_F(Leveldb, AWriterLeavesNothingInTheLog) {
  const auto writer = make_record_writer("leveldb", path("db"), false);
  const std::vector<std::uint8_t> pixels(4, 9);
  for (int i = 0; i < 1000; ++i)
    writer->put(key_of(static_cast<std::uint64_t>(i)), raw_datum(1, 2, 2, pixels.data(), i));
  writer->close();
  EXPECT_EQ(std::filesystem::file_size(file_in("db", ".log")), 0u);
  const std::string table = file_in("db", ".ldb");
  std::filesystem::resize_file(table, std::filesystem::file_size(table) / 2);
  EXPECT_THAT(bad_input_of([&] { open_leveldb(path("db")); }), HasSubstr("is damaged"));
}

TEST_F(Leveldb, ALogThatIsCutOffIsNotTakenForItsRecords) {
  make("db", 2000);  // more than one block
  const std::string log = file_in("db", ".log");
  const auto whole = std::filesystem::file_size(log);
  ASSERT_GT(whole, 65536U);
  for (const auto left : {whole - 1, whole / 2, std::uintmax_t{32768 + 3}}) {
    std::filesystem::resize_file(log, left);
    EXPECT_THAT(bad_input_of([&] { open_leveldb(path("db")); }), HasSubstr("ends within a record")) << left;
  }
  std::filesystem::resize_file(log, 0);
  EXPECT_THAT(bad_input_of([&] { open_leveldb(path("db")); }), HasSubstr("has no records"));
}

/// As somebody who may read but not write; root may always write.
TEST_F(Leveldb, ReadsAFolderThatCannotBeWritten) {
  make("db", 1000);
  namespace fs = std::filesystem;
  const auto names = [&] {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(path("db"))) all.insert(entry.path().filename());
    return all;
  };
  const std::set<std::string> before = names();
  fs::permissions(path("db"), fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write,
                  fs::perm_options::remove);
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::seteuid(kNobody) != 0) ::_exit(2);
    int code = 3;
    try {
      Record record;
      const auto source = open_leveldb(path("db"));
      source->reader()->read(999, record);
      if (source->size() == 1000 && record.label == 999) code = 0;
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    ::_exit(code);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
  EXPECT_EQ(names(), before);
  fs::permissions(path("db"), fs::perms::owner_write, fs::perm_options::add);
}

TEST_F(Leveldb, AnotherProcessIsAnErrorNotAWait) {
  make("db", 2);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto source = open_leveldb(path("db"));
    write_file(path("ready"), std::string("x"));
    while (!std::filesystem::exists(path("end"))) ::usleep(1000);
    ::_exit(0);
  }
  for (int i = 0; i < 5000 && !std::filesystem::exists(path("ready")); ++i) ::usleep(1000);
  EXPECT_THAT(bad_input_of([&] { open_leveldb(path("db")); }), HasSubstr("cannot be opened"));
  write_file(path("end"), std::string("x"));
  ::waitpid(child, nullptr, 0);
  EXPECT_NO_THROW(open_leveldb(path("db")));
}

TEST_F(Leveldb, WrittenRecordsComeBack) {
  const std::vector<std::uint8_t> pixels(4, 9);
  {
    const auto writer = make_record_writer("leveldb", path("db"), false);
    for (int i = 0; i < 2500; ++i)
      writer->put(key_of(static_cast<std::uint64_t>(i)), raw_datum(1, 2, 2, pixels.data(), i));
    EXPECT_FALSE(std::filesystem::exists(path("db")));  // until it is complete
    writer->close();
  }
  EXPECT_EQ(labels(text("db", 2), 1, 2499), (std::vector<int>{2499, 0}));
  EXPECT_THAT(bad_input_of([&] { make_record_writer("leveldb", path("db"), false); }), HasSubstr("exists"));
  {
    const auto writer = make_record_writer("leveldb", path("db"), true);
    writer->put("b", raw_datum(1, 2, 2, pixels.data(), 1));
    EXPECT_THAT(bad_input_of([&] { writer->put("b", ""); }), HasSubstr("two records have the key \"b\""));
  }
  EXPECT_EQ(open_leveldb(path("db"))->size(), 2500u);  // given up: the old one stays
  const auto writer = make_record_writer("leveldb", path("db"), true);
  writer->put("b", raw_datum(1, 2, 2, pixels.data(), 7));
  EXPECT_THAT(bad_input_of([&] { make_record_writer("leveldb", path("db/"), true); }),
              HasSubstr("is being written already"));
  writer->close();
  EXPECT_EQ(open_leveldb(path("db"))->size(), 1u);
  for (const auto& entry : std::filesystem::directory_iterator(path("")))
    EXPECT_EQ(entry.path().filename(), "db");  // nothing is left of the old one
  make_numbered_lmdb(path("light"), 1);
  EXPECT_THAT(bad_input_of([&] { make_record_writer("leveldb", path("light"), true); }),
              HasSubstr("is not a LevelDB folder"));
}

#else

TEST(Leveldb, IsRefusedInABuildWithoutIt) {
  EXPECT_THAT(bad_input_of([] { check_backend("leveldb"); }), HasSubstr("libleveldb-dev"));
}

#endif

}  // namespace
}  // namespace banyan::data
