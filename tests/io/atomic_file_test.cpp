#include "banyan/io/atomic_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "banyan/io/binary_proto.hpp"
#include "io_test_tools.hpp"

namespace banyan::io {
namespace {

TEST(AtomicFile, AppearsWholeAndOnlyOnCommit) {
  const TemporaryFolder folder;
  const std::string path = folder.file("state");
  put_file(path, "earlier");
  {
    AtomicFile file(path);
    file.write("new ");
    file.write("content");
    EXPECT_EQ(get_file(path), "earlier");
    file.commit();
  }
  EXPECT_EQ(get_file(path), "new content");
  EXPECT_EQ(folder.count(), 1u);
}

TEST(AtomicFile, WithoutCommitNothingChanges) {
  const TemporaryFolder folder;
  const std::string path = folder.file("state");
  put_file(path, "earlier");
  {
    AtomicFile file(path);
    file.write("half");
    EXPECT_EQ(folder.count(), 2u);
  }
  EXPECT_EQ(get_file(path), "earlier");
  EXPECT_EQ(folder.count(), 1u);
}

TEST(AtomicFile, AFullDiskLeavesTheEarlierFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("state");
  put_file(path, "earlier");
  {
    const FileSizeLimit full(10000);
    const std::string error =
        error_of([&] { write_file(path, std::string(20000, 'x')); }, ErrorKind::runtime);
    expect_contains(error, "cannot write \"" + path + "\": File too large");
  }
  EXPECT_EQ(get_file(path), "earlier");
  EXPECT_EQ(folder.count(), 1u);
}

/// Renaming a file over /dev/null, as root can, would be the end of it.
TEST(AtomicFile, DevicesAndPipesAreWrittenInPlace) {
  const TemporaryFolder folder;
  const std::string pipe = folder.file("pipe"), device = folder.file("device"), out = folder.file("out");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  write_file(pipe, "through");
  char got[16] = "";
  EXPECT_EQ(::read(reader, got, sizeof got), 7);
  EXPECT_STREQ(got, "through");
  ::close(reader);
  std::filesystem::create_symlink("/dev/null", device);
  write_file(device, "nowhere");
  EXPECT_TRUE(std::filesystem::is_symlink(device));
  // As /dev/stdout, where it leads to a file: appended, because something may have been printed already.
  const int open_file = ::open(out.c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_EQ(::write(open_file, "before ", 7), 7);
  std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(open_file), folder.file("link"));
  write_file(folder.file("link"), "after");
  ::close(open_file);
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file("link")));
  EXPECT_EQ(get_file(out), "before after");
  EXPECT_EQ(folder.count(), 4u);
  const std::string error =
      error_of([] { write_file("/dev/full", std::string(20000, 'x')); }, ErrorKind::runtime);
  expect_contains(error, "cannot write \"/dev/full\": No space left on device");
}

TEST(AtomicFile, AFullDiskUnderAProtobufStream) {
  const TemporaryFolder folder;
  const std::string path = folder.file("m.caffemodel");
  caffe::BlobProto blob;
  blob.mutable_data()->Resize(5 << 20, 1.5f);  // 20 MiB: many pieces of the stream
  {
    const FileSizeLimit full(3 << 20);
    expect_contains(error_of([&] { write_binary_proto(path, blob); }, ErrorKind::runtime), "File too large");
  }
  EXPECT_EQ(folder.count(), 0u);
  write_binary_proto(path, blob);
  EXPECT_EQ(read_binary_proto<caffe::BlobProto>(path).data_size(), 5 << 20);
}

TEST(AtomicFile, AKilledWriterLeavesTheEarlierFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("state");
  put_file(path, "earlier");
  const pid_t child = ::fork();
  if (child == 0) {
    AtomicFile file(path);
    file.write("half of it");
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(get_file(path), "earlier");
}

TEST(AtomicFile, WhatItLeavesBehindIsToldFromWhatIsBeingWritten) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.tmp.1");
  std::string temporary;
  const auto find_temporary = [&] {
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      if (name_of_temporary(entry.path().string()) == path) temporary = entry.path().string();
  };
  AtomicFile file(path);
  file.write("x");
  find_temporary();
  ASSERT_NE(temporary, "");
  EXPECT_FALSE(remove_abandoned(temporary));
  file.complete();
  EXPECT_FALSE(remove_abandoned(temporary));
  file.commit();
  EXPECT_FALSE(remove_abandoned(temporary));  // it does not exist
  put_file(temporary, "of a process that is gone");
  EXPECT_TRUE(remove_abandoned(temporary));
  EXPECT_EQ(get_file(path), "x");
  EXPECT_EQ(folder.count(), 1u);
  for (const char* name :
       {"a", "a.tmp.", "a.tmp.1", "a.tmp.1.", "a.tmp.1.x", "a.tmp.x.1", "a.tmp.1.2.3", ".tmp.1.2"})
    EXPECT_EQ(name_of_temporary(name), "") << name;
}

TEST(AtomicFile, CompletesBeforeItAppears) {
  const TemporaryFolder folder;
  AtomicFile file(folder.file("a"));
  file.write("123456789");
  file.complete();
  EXPECT_EQ(file.checksum(), 0xcbf43926u);  // the check value of CRC-32
  EXPECT_EQ(checksum_of("123456789"), file.checksum());
  error_of([&] { file.write("x"); }, ErrorKind::runtime);
  EXPECT_FALSE(std::filesystem::exists(folder.file("a")));
  file.commit();
  EXPECT_EQ(get_file(folder.file("a")), "123456789");
}

TEST(AtomicFile, FoldersThatCannotBeWritten) {
  const TemporaryFolder folder;
  expect_contains(error_of([&] { AtomicFile file(folder.file("missing/state")); }, ErrorKind::runtime),
                  "No such file or directory");
  // With a folder in the file's place the rename fails, and the temporary file is removed.
  ASSERT_EQ(::mkdir(folder.file("state").c_str(), 0755), 0);
  expect_contains(error_of([&] { write_file(folder.file("state"), "x"); }, ErrorKind::runtime),
                  "cannot rename");
  EXPECT_EQ(folder.count(), 1u);
}

TEST(AtomicFile, ReadOnlyFolder) {
  const TemporaryFolder folder;
  put_file(folder.file("state"), "earlier");
  ASSERT_EQ(::chmod(folder.path().c_str(), 0555), 0);
  // Root may write anywhere, so a child process without that right makes the attempt.
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) ::_exit(3);
    try {
      write_file(folder.file("state"), "new");
    } catch (const Error& error) {
      const bool said = std::string(error.what()).find("Permission denied") != std::string::npos;
      ::_exit(said && error.kind() == ErrorKind::runtime ? 0 : 1);
    }
    ::_exit(2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ::chmod(folder.path().c_str(), 0755);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 3) GTEST_SKIP() << "cannot act as an ordinary user here";
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(get_file(folder.file("state")), "earlier");
  EXPECT_EQ(folder.count(), 1u);
}

TEST(AtomicFile, ManyBytes) {
  const TemporaryFolder folder;
  const std::string content(3000001, 'z');
  write_file(folder.file("a"), content);
  EXPECT_EQ(read_file(folder.file("a"), content.size()), content);
}

/// More than one piece.
TEST(AtomicFile, ChecksumOfAFile) {
  const TemporaryFolder folder;
  std::string content(3000001, 'z');
  content[2000000] = 'a';
  put_file(folder.file("a"), content);
  EXPECT_EQ(checksum_of_file(folder.file("a")), checksum_of(content));
  put_file(folder.file("e"), "");
  EXPECT_EQ(checksum_of_file(folder.file("e")), 0u);
  expect_contains(error_of([&] { checksum_of_file(folder.file("no")); }), "No such file or directory");
  expect_contains(error_of([&] { checksum_of_file(folder.path()); }), "cannot read");
}

TEST(AtomicFile, NothingIsWrittenAfterCommit) {
  const TemporaryFolder folder;
  AtomicFile file(folder.file("a"));
  file.commit();
  error_of([&] { file.write("x"); }, ErrorKind::runtime);
  error_of([&] { file.commit(); }, ErrorKind::runtime);
  EXPECT_EQ(get_file(folder.file("a")), "");
}

TEST(ReadFile, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  expect_contains(error_of([&] { read_file(folder.file("no"), 10); }), "No such file or directory");
  expect_contains(error_of([&] { read_file(folder.path(), 10); }), "found a folder");
  put_file(folder.file("a"), "12345678901");
  expect_contains(error_of([&] { read_file(folder.file("a"), 10); }), "at most 10 bytes");
  EXPECT_EQ(read_file(folder.file("a"), 11), "12345678901");
  put_file(folder.file("e"), "");
  EXPECT_EQ(read_file(folder.file("e"), 0), "");
}

TEST(ReadFile, AnEndlessDeviceStopsAtTheBound) {
  expect_contains(error_of([] { read_file("/dev/zero", 100000); }), "too large");
}

TEST(BinaryProto, RoundTripOfASolverState) {
  const TemporaryFolder folder;
  caffe::SolverState state;
  state.set_iter(7);
  state.mutable_banyan()->set_seed(~std::uint64_t{0});
  state.mutable_banyan()->add_smoothed_losses(0.1);
  auto* source = state.mutable_banyan()->add_source();
  source->set_layer("data");
  source->set_consumed(640);
  write_binary_proto(folder.file("s.solverstate"), state);
  const auto again = read_binary_proto<caffe::SolverState>(folder.file("s.solverstate"));
  EXPECT_EQ(again.SerializeAsString(), state.SerializeAsString());
  EXPECT_EQ(again.banyan().source(0).consumed(), 640u);
}

TEST(BinaryProto, DamagedEmptyAndForeignFiles) {
  const TemporaryFolder folder;
  const std::string path = folder.file("s.solverstate");
  const auto error = [&] { return error_of([&] { read_binary_proto<caffe::SolverState>(path); }); };
  put_file(path, "");
  expect_contains(error(), "is empty: expected a solver state (.solverstate)");
  put_file(path, "not a message at all");
  expect_contains(error(), "damaged or another kind of file");
  // Nets parse as a solver state with nothing but unknown fields, or with a layer for learned_net.
  put_file(path, Wire().bytes(1, "net").message(100, Wire().bytes(1, "conv")).data());
  expect_contains(error(), "damaged or another kind of file");
  put_file(path, Wire().bytes(1, "net").message(2, Wire().bytes(4, "conv")).data());
  expect_contains(error(), "damaged or another kind of file");
  put_file(path, "\x89HDF\r\n\x1a\n");
  expect_contains(error(), "HDF5");
}

}  // namespace
}  // namespace banyan::io
