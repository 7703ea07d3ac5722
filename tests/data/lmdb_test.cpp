#include <fcntl.h>
#include <lmdb.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "banyan/data/lmdb_source.hpp"
#include "data/data_test_tools.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {
namespace {

using testing::HasSubstr;

class Lmdb : public FolderTest {};

TEST_F(Lmdb, ReadsBackInKeyOrderAndByPosition) {
  make_numbered_lmdb(path("db"), 2500);  // more than one commit
  for (const bool random_access : {false, true}) {
    const auto source = open_lmdb(path("db"), {ColorMode::as_stored, random_access});
    EXPECT_EQ(source->size(), 2500u);
    const auto reader = source->reader();
    Record record;
    for (const std::uint64_t position : {0, 1, 2, 7, 2499, 3, 2000, 2000}) {
      reader->read(position, record);
      EXPECT_EQ(record.label, static_cast<int>(position));
      EXPECT_EQ(record.bytes[3], position % 256);
      EXPECT_EQ(record.height, 2);
    }
  }
}

TEST_F(Lmdb, SourcesOfOneFolderShareOneEnvironment) {
  make_numbered_lmdb(path("db"), 3);
  const auto first = open_lmdb(path("db")), second = open_lmdb(path("db") + "/../db");
  EXPECT_NE(lmdb_flags(path("db")) & MDB_NOTLS, 0u);
  EXPECT_EQ(lmdb_flags(path("db")) & MDB_NOLOCK, 0u);
  // Two readers on one thread are possible because of MDB_NOTLS.
  const auto a = first->reader(), b = second->reader();
  Record one, two;
  a->read(1, one);
  b->read(2, two);
  EXPECT_EQ(one.label, 1);
  EXPECT_EQ(two.label, 2);
}

TEST_F(Lmdb, PixelsAreReadWhereTheyLie) {
  make_numbered_lmdb(path("db"), 3, 3, 8, 8);
  const auto source = open_lmdb(path("db"));
  const auto a = source->reader(), b = source->reader();
  Record one, two;
  a->read(1, one);
  b->read(1, two);
  EXPECT_EQ(one.stored.data(), two.stored.data()) << "both look into the one map";
  const auto* begin = reinterpret_cast<const std::uint8_t*>(one.stored.data());
  EXPECT_GE(one.bytes, begin);
  EXPECT_LE(one.bytes + 3 * 8 * 8, begin + one.stored.size());
}

TEST_F(Lmdb, ReadsAFolderThatCannotBeWritten) {
  make_numbered_lmdb(path("db"), 3);
  pretend_read_only_folders(true);
  const auto source = open_lmdb(path("db"));
  pretend_read_only_folders(false);
  EXPECT_NE(lmdb_flags(path("db")) & MDB_NOLOCK, 0u);
  Record record;
  source->reader()->read(2, record);
  EXPECT_EQ(record.label, 2);
}

/// On another machine, or in another container, a process may have the same ID.
TEST_F(Lmdb, ReadsBesideAReaderWithTheSameProcessId) {
  make_numbered_lmdb(path("db"), 3);
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  const pid_t parent = ::getpid(), other = ::fork();
  if (other == 0) {
    const int lock_file = ::open((path("db") + "/lock.mdb").c_str(), O_RDWR | O_CREAT, 0644);
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_start = parent;
    lock.l_len = 1;
    const char done = ::fcntl(lock_file, F_SETLK, &lock) == 0 ? 'y' : 'n';
    if (::write(told[1], &done, 1) == 1) ::pause();
    ::_exit(0);
  }
  char done = 0;
  ASSERT_EQ(::read(told[0], &done, 1), 1);
  EXPECT_EQ(done, 'y');
  const auto source = open_lmdb(path("db"));
  EXPECT_NE(lmdb_flags(path("db")) & MDB_NOLOCK, 0u);
  Record record;
  source->reader()->read(2, record);
  EXPECT_EQ(record.label, 2);
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  ::close(told[0]);
  ::close(told[1]);
}

TEST_F(Lmdb, KeysHave1To511Bytes) {
  for (const std::size_t length : {0, 512}) {
    LmdbWriter writer(path("db"));
    writer.put(std::string(length, 'k'), "x");
    EXPECT_THAT(bad_input_of([&] { writer.close(); }), HasSubstr(" bytes; it must have 1 to 511"));
  }
}

TEST_F(Lmdb, RecordsLargerThanTheFirstMap) {
  LmdbWriter writer(path("db"));
  const std::vector<std::uint8_t> pixels(3 * 64 * 64, 9);
  for (std::uint64_t i = 0; i < 3000; ++i)
    writer.put(key_of(i), raw_datum(3, 64, 64, pixels.data(), 1));  // 37 MB
  writer.close();
  EXPECT_EQ(open_lmdb(path("db"))->size(), 3000u);
}

/// The process's file-backed resident memory, in bytes.
std::size_t resident_files() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("RssFile:", 0) == 0) return std::stoul(line.substr(8)) * 1024;
  ADD_FAILURE() << "/proc/self/status has no RssFile";
  return 0;
}

// The parts of a map that were read count as resident, so reading a data set would seem to need memory for
// all of it.
TEST_F(Lmdb, ReadingDoesNotHoldTheDataSet) {
  const std::size_t size = 128 << 10;
  {
    LmdbWriter writer(path("large"));
    const std::vector<std::uint8_t> pixels(size, 7);
    for (int i = 0; i < 800; ++i) {  // 100 MiB
      writer.put(key_of(static_cast<std::uint64_t>(i)),
                 raw_datum(1, 1, static_cast<int>(size), pixels.data(), i));
    }
    writer.close();
  }
  const auto source = open_lmdb(path("large"));
  const auto reader = source->reader();
  const std::size_t before = resident_files();
  Record record;
  unsigned sum = 0;
  std::size_t most = 0;
  for (int i = 0; i < 1600; ++i) {
    reader->read(static_cast<std::uint64_t>(i % 800), record);
    for (std::size_t k = 0; k < size; k += 512) sum += record.bytes[k];
    if (i % 50 == 0) most = std::max(most, resident_files());
  }
  EXPECT_EQ(sum, 1600u * 256 * 7);
  EXPECT_LT(most - std::min(most, before), 40u << 20);  // 16, and what the kernel maps ahead
}

TEST_F(Lmdb, MissingForeignEmptyAndTruncatedFolders) {
  EXPECT_THAT(bad_input_of([&] { open_lmdb(path("none")); }), HasSubstr("no such folder"));
  write_file(path("file"), std::string("x"));
  EXPECT_THAT(bad_input_of([&] { open_lmdb(path("file")); }), HasSubstr("found a file"));
  std::filesystem::create_directory(path("empty_folder"));
  EXPECT_THAT(bad_input_of([&] { open_lmdb(path("empty_folder")); }), HasSubstr("no data.mdb"));
  std::filesystem::create_directory(path("foreign"));
  write_file(path("foreign/data.mdb"), std::string(8192, 'x'));
  EXPECT_THAT(bad_input_of([&] { open_lmdb(path("foreign")); }), HasSubstr("cannot open it"));
  std::filesystem::create_directory(path("level"));
  write_file(path("level/CURRENT"), std::string("MANIFEST-000001\n"));
  EXPECT_THAT(bad_input_of([&] { open_lmdb(path("level")); }), HasSubstr("LevelDB"));
  LmdbWriter(path("without_records")).close();
  EXPECT_THAT(bad_input_of([&] { open_lmdb(path("without_records")); }), HasSubstr("no records"));
  make_numbered_lmdb(path("cut"), 3000);
  std::filesystem::resize_file(path("cut/data.mdb"), std::filesystem::file_size(path("cut/data.mdb")) / 2);
  EXPECT_THAT(bad_input_of([&] { open_lmdb(path("cut")); }), HasSubstr("truncated"));
}

TEST_F(Lmdb, BrokenRecordsAreNamed) {
  LmdbWriter writer(path("db"));
  const std::uint8_t pixels[4] = {1, 2, 3, 4};
  const std::vector<std::uint8_t> jpeg = encode_image(gradient_image(3, 32, 32), "jpg");
  writer.put("00", raw_datum(1, 2, 2, pixels, 0));
  writer.put("01", std::string("\x22\xff\x7f not a datum"));  // a length beyond the end
  writer.put("02", raw_datum(1, 2, 2, pixels, 0).replace(1, 1, std::string(1, '\3')));  // says 3 channels
  writer.put("03", encoded_datum({reinterpret_cast<const char*>(jpeg.data()), jpeg.size() / 2}, 0));
  writer.put("04", std::string());
  writer.put("05", encoded_datum("GIF89a...", 0));
  writer.close();
  const auto reader = open_lmdb(path("db"))->reader();
  Record record;
  const auto message = [&](std::uint64_t position) {
    return bad_input_of([&] { read_record(*reader, position, record); });
  };
  read_record(*reader, 0, record);
  EXPECT_THAT(message(1), testing::AllOf(HasSubstr("record 1 "), HasSubstr("key \"01\""),
                                         HasSubstr(path("db")), HasSubstr("not a Datum")));
  EXPECT_THAT(message(2),
              testing::AllOf(HasSubstr("record 2 "), HasSubstr("3 x 2 x 2 = 12 values, but holds 4")));
  EXPECT_THAT(message(3), testing::AllOf(HasSubstr("record 3 "), HasSubstr("damaged JPEG")));
  EXPECT_THAT(message(4),
              testing::AllOf(HasSubstr("record 4 "), HasSubstr("neither an encoded image nor a size")));
  EXPECT_THAT(message(5), HasSubstr("expected a JPEG, PNG"));
  read_record(*reader, 0, record);  // and the reader still works
  EXPECT_EQ(record.bytes[3], 4);
}

TEST(Datum, AgreesWithProtobuf) {
  caffe::Datum datum;
  datum.set_channels(2);
  datum.set_height(1);
  datum.set_width(2);
  datum.set_label(-3);
  for (const float value : {0.5f, -1.0f, 2.0f, 1e9f}) datum.add_float_data(value);
  datum.set_record_id(77);
  Record record;
  const std::string bytes = datum.SerializeAsString();
  read_datum(bytes, ColorMode::as_stored, record);
  EXPECT_EQ(record.label, -3);
  ASSERT_EQ(record.bytes, nullptr);
  EXPECT_EQ(record.floats[1], -1.0f);
  EXPECT_EQ(record.floats[3], 1e9f);
  EXPECT_EQ(record.channels, 2);
}

/// Protobuf's last value of a field counts, but branches have several labels in a Datum.
TEST(Datum, SeveralLabelsAreKept) {
  const std::string one = raw_datum(1, 1, 1, std::array<std::uint8_t, 1>{9}.data(), 7);
  Record record;
  for (const std::string& two : {one + "\x28\x02", one + std::string("\x2a\x01\x02", 3)}) {
    read_datum(two, ColorMode::as_stored, record);
    EXPECT_THAT(record.labels, testing::ElementsAre(7, 2));
  }
  read_datum(one, ColorMode::as_stored, record);
  EXPECT_TRUE(record.labels.empty());
  EXPECT_EQ(record.label, 7);
}

TEST(Datum, EveryPrefixParsesOrIsAnError) {
  const std::uint8_t pixels[6] = {1, 2, 3, 4, 5, 6};
  const std::string whole = raw_datum(1, 2, 3, pixels, 300);
  DatumView view;
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    try {
      parse_datum(std::string_view(whole).substr(0, length), view);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    }
  }
  EXPECT_EQ(view.label, 300);
}

TEST_F(Lmdb, WriterLeavesNothingBehindAndOverwritesOnlyWhenAsked) {
  { LmdbWriter abandoned(path("db")); }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  make_numbered_lmdb(path("db"), 2);
  EXPECT_THAT(bad_input_of([&] { LmdbWriter writer(path("db")); }), HasSubstr("exists"));
  LmdbWriter writer(path("db") + "/", true);
  const std::uint8_t pixel = 1;
  writer.put("k", raw_datum(1, 1, 1, &pixel, 0));
  EXPECT_EQ(open_lmdb(path("db"))->size(), 2u);  // the old one, until close
  writer.close();
  EXPECT_EQ(open_lmdb(path("db"))->size(), 1u);
  EXPECT_THAT(bad_input_of([&] { LmdbWriter(path("no/such/db")); }), HasSubstr("there is no folder"));
  write_file(path("db/other"), std::string("x"));
  EXPECT_THAT(bad_input_of([&] { LmdbWriter(path("db"), true); }), HasSubstr("will not be overwritten"));
}

/// Their writers were killed: nobody holds the lock on them.
TEST_F(Lmdb, WriterRemovesWhatKilledOnesLeft) {
  namespace fs = std::filesystem;
  make_numbered_lmdb(path("db.tmp.4194305"), 2);
  make_numbered_lmdb(path("db.tmp.4194306"), 2);
  make_numbered_lmdb(path("db.tmp.4194307"), 2);
  write_file(path("db.tmp.4194307/mine"), std::string("x"));
  make_numbered_lmdb(path("db.tmp.1x"), 2);
  make_numbered_lmdb(path("other.tmp.4194305"), 2);
  const int running = ::open(path("db.tmp.4194306").c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(running, LOCK_EX), 0);
  LmdbWriter writer(path("db"));
  EXPECT_FALSE(fs::exists(path("db.tmp.4194305")));
  for (const char* kept : {"db.tmp.4194306", "db.tmp.4194307", "db.tmp.1x", "other.tmp.4194305"})
    EXPECT_TRUE(fs::exists(path(kept))) << kept;
  // What is being written is nobody's to remove.
  const int other = ::open(path("db.tmp." + std::to_string(::getpid())).c_str(), O_RDONLY | O_DIRECTORY);
  EXPECT_NE(::flock(other, LOCK_EX | LOCK_NB), 0);
  ::close(other);
  ::close(running);
}

TEST_F(Lmdb, WriterRefusesAKeyTwice) {
  LmdbWriter writer(path("db"));
  writer.put("a", "1");
  writer.put("a", "2");
  EXPECT_THAT(bad_input_of([&] { writer.close(); }), HasSubstr("two records have the key \"a\""));
}

}  // namespace
}  // namespace banyan::data
