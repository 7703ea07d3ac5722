// convert_leveldb: records between LevelDB and LMDB.
#include <unistd.h>

#include <utility>

#include "banyan/data/leveldb.hpp"
#include "banyan/data/lmdb_source.hpp"
#include "banyan/data/lmdb_writer.hpp"
#include "tools/program_test.hpp"

namespace banyan::tools {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using Records = std::vector<std::pair<std::string, std::string>>;

/// More than a LevelDB's reader skips at once; keys and records with any bytes, in the order of the keys.
Records some_records() {
  Records records;
  for (int i = 0; i < 600; ++i) {
    std::string key = std::to_string(1000 + i) + "_\"a\\b\"";
    key.push_back('\0');
    key.push_back(static_cast<char>(i % 256));
    std::string value(static_cast<std::size_t>(i % 50), static_cast<char>(i));
    records.emplace_back(key, value + "x");
  }
  return records;
}

Records records_in(const data::RecordSource& source) {
  Records records;
  const auto reader = source.reader();
  data::Record record;
  for (std::uint64_t i = 0; i < source.size(); ++i) {
    reader->fetch(i, record);
    records.emplace_back(reader->key(), record.stored);
  }
  return records;
}

class ConvertLeveldb : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    data::LmdbWriter writer(path("light"));
    for (const auto& [key, value] : some_records()) writer.put(key, value);
    writer.close();
  }
};

TEST_F(ConvertLeveldb, ThereAndBackWithKeys) {
  if (!data::has_leveldb()) GTEST_SKIP() << "built without LevelDB";
  expect_done("convert_leveldb light level");
  EXPECT_EQ(records_in(*data::open_leveldb(path("level"))), some_records());
  expect_done("convert_leveldb level back");
  EXPECT_EQ(records_in(*data::open_lmdb(path("back"))), some_records());
  expect_done("convert_leveldb level copy --backend=leveldb");
  EXPECT_EQ(records_in(*data::open_leveldb(path("copy"))), some_records());
}

TEST_F(ConvertLeveldb, RandomAccessKnowsTheKeysToo) {
  const auto reader = data::open_lmdb(path("light"), {data::ColorMode::as_stored, true})->reader();
  data::Record record;
  reader->fetch(300, record);
  EXPECT_EQ(reader->key(), some_records()[300].first);
}

TEST_F(ConvertLeveldb, KeepsWhatExists) {
  if (!data::has_leveldb()) GTEST_SKIP() << "built without LevelDB";
  expect_done("convert_leveldb light level");
  expect_bad_input("convert_leveldb light level", "\"level\" exists; remove it, or pass --overwrite");
  expect_done("convert_leveldb light level --overwrite");
  expect_bad_input("convert_leveldb level light", "\"light\" exists");
  expect_bad_input("convert_leveldb light light --overwrite", "IN and OUT are the same folder");
  write("file", "");
  expect_bad_input("convert_leveldb light file --overwrite", "\"file\"");
}

TEST_F(ConvertLeveldb, AnEmptyKeyFitsNoLmdb) {
  if (!data::has_leveldb()) GTEST_SKIP() << "built without LevelDB";
  const auto writer = data::make_record_writer("leveldb", path("level"), false);
  writer->put("", "x");
  writer->close();
  expect_bad_input("convert_leveldb level out", "the key \"\" has 0 bytes; it must have 1 to 511");
}

TEST_F(ConvertLeveldb, ADamagedRecordIsNamed) {
  // In all branch pages the second child becomes a page that is not there. A page: its number (8 bytes), 2
  // bytes, flags (2), two lengths (2 each), places of its nodes (2 each); a node of a branch begins with the
  // lower bits of the child's number.
  std::string file = read("light/data.mdb");
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto number = [&](std::size_t at) {
    return static_cast<std::size_t>(static_cast<unsigned char>(file[at])) +
           (static_cast<std::size_t>(static_cast<unsigned char>(file[at + 1])) << 8);
  };
  int branches = 0;
  for (std::size_t at = 0; at + page <= file.size(); at += page) {
    if (number(at + 10) != 1) continue;
    file.replace(at + number(at + 18), 4, 4, '\xff');
    ++branches;
  }
  ASSERT_GT(branches, 0);
  write("light/data.mdb", file);
  const Result result = run("convert_leveldb light out --backend=lmdb");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.output,
              ContainsRegex("LMDB \"light\", record [1-9][0-9]* \\(counted from 0\\): .*cannot read"));
  EXPECT_FALSE(std::filesystem::exists(path("out")));
}

TEST_F(ConvertLeveldb, RefusesWrongArguments) {
  const Result help = run("convert_leveldb --help");
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.output,
              AllOf(HasSubstr("Usage: convert_leveldb"), HasSubstr("--backend"), HasSubstr("Exit codes: ")));
  expect_bad_input("convert_leveldb", "expected IN OUT");
  expect_bad_input("convert_leveldb light a b", "found 3 arguments");
  expect_bad_input("convert_leveldb light out --backend=rocksdb", "expected lmdb or leveldb");
  expect_bad_input("convert_leveldb none out --backend=lmdb", "there is no such folder");
  expect_bad_input("convert_leveldb none out", "IN, \"none\": there is no such folder");
  if (!data::has_leveldb())
    expect_bad_input("convert_leveldb light out", "lacks LevelDB: install libleveldb-dev");
  EXPECT_FALSE(std::filesystem::exists(path("out")));
}

}  // namespace
}  // namespace banyan::tools
