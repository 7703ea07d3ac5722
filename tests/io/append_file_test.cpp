#include "banyan/io/append_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "io_test_tools.hpp"

namespace banyan::io {
namespace {

TEST(AppendFile, GrowsByRecordsAndGoesOnAfterEarlierOnes) {
  const TemporaryFolder folder;
  const std::string path = folder.file("log");
  {
    AppendFile file(path);
    EXPECT_EQ(file.size(), 0);
    file.append("one\n");
    file.append("two\n");
    EXPECT_EQ(get_file(path), "one\ntwo\n");  // without waiting for anything
    file.sync();
  }
  AppendFile file(path);
  EXPECT_EQ(file.size(), 8);
  file.append("three\n");
  file.cut(4);
  file.append("2\n");
  EXPECT_EQ(get_file(path), "one\n2\n");
  EXPECT_EQ(file.size(), 6);
}

TEST(AppendFile, AFullDiskLeavesWholeRecordsAndCanBeTriedAgain) {
  const TemporaryFolder folder;
  const std::string path = folder.file("log");
  AppendFile file(path);
  file.append("one\n");
  {
    const FileSizeLimit limit(10);
    const std::string message = error_of([&] { file.append("too long for the disk\n"); }, ErrorKind::runtime);
    expect_contains(message, "cannot write");
    expect_contains(message, path);
    EXPECT_EQ(get_file(path), "one\n");
    file.append("two\n");  // for this there is room
    error_of([&] { file.append("three\n"); }, ErrorKind::runtime);
  }
  file.append("three\n");
  EXPECT_EQ(get_file(path), "one\ntwo\nthree\n");
}

/// After a failure that left a part of a record behind.
TEST(AppendFile, RemovesWhatIsNotItsOwn) {
  const TemporaryFolder folder;
  const std::string path = folder.file("log");
  AppendFile file(path);
  file.append("one\n");
  std::ofstream(path, std::ios::app) << "tw";
  file.append("three\n");
  EXPECT_EQ(get_file(path), "one\nthree\n");
}

TEST(AppendFile, BelongsToOneWriter) {
  const TemporaryFolder folder;
  const std::string path = folder.file("log");
  {
    const AppendFile file(path);
    expect_contains(error_of([&] { AppendFile another(path); }, ErrorKind::runtime),
                    "is being written by another run");
  }
  AppendFile another(path);
}

TEST(AppendFile, SaysWhyItCannotBeOpened) {
  const TemporaryFolder folder;
  expect_contains(error_of([&] { AppendFile file(folder.file("no/log")); }, ErrorKind::runtime),
                  "No such file or directory");
  expect_contains(error_of([&] { AppendFile file(folder.path()); }, ErrorKind::runtime), "cannot open");
}

}  // namespace
}  // namespace banyan::io
