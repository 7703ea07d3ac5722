#include "banyan/train/snapshot_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/io/atomic_file.hpp"
#include "banyan/io/binary_proto.hpp"

namespace banyan {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class SnapshotFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("snapshot_files_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    prefix_ = (folder_ / "net").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  SnapshotPaths write(std::int64_t iteration, SnapshotFormat format = SnapshotFormat::binary) {
    caffe::NetParameter model;
    model.set_name("n");
    auto& layer = *model.add_layer();
    layer.set_name("ip");
    layer.set_type("InnerProduct");
    auto& blob = *layer.add_blobs();
    blob.mutable_shape()->add_dim(1);
    blob.add_data(2);
    caffe::SolverState state;
    state.mutable_banyan()->set_seed(7);
    return write_snapshot(prefix_, iteration, model, state, {}, format);
  }

  static std::string refusal(const std::string& state) {
    try {
      read_snapshot(state);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      return error.what();
    }
    ADD_FAILURE() << "nothing was refused";
    return "";
  }

  fs::path folder_;
  std::string prefix_;
};

TEST_F(SnapshotFiles, NamesAreThoseOfCaffe) {
  const auto paths = snapshot_paths("run/lenet", 500);
  EXPECT_EQ(paths.model, "run/lenet_iter_500.caffemodel");
  EXPECT_EQ(paths.state, "run/lenet_iter_500.solverstate");
}

TEST_F(SnapshotFiles, Prefix) {
  SnapshotSettings settings;
  EXPECT_EQ(snapshot_prefix_of(settings, "models/lenet/solver.prototxt"), "models/lenet/solver");
  EXPECT_EQ(snapshot_prefix_of(settings, "solver.prototxt"), "solver");
  settings.prefix = "run/x";
  EXPECT_EQ(snapshot_prefix_of(settings, "models/lenet/solver.prototxt"), "run/x");
  settings.prefix = folder_.string();
  EXPECT_EQ(snapshot_prefix_of(settings, "models/lenet/solver.prototxt"), (folder_ / "solver").string());
}

TEST_F(SnapshotFiles, ProbeMakesTheFolderAndLeavesNothing) {
  check_snapshot_prefix((folder_ / "a/b/net").string());
  EXPECT_TRUE(fs::is_directory(folder_ / "a/b"));
  EXPECT_TRUE(fs::is_empty(folder_ / "a/b"));
  std::ofstream(folder_ / "file") << "x";
  EXPECT_THROW(check_snapshot_prefix((folder_ / "file/net").string()), Error);
}

TEST_F(SnapshotFiles, WriteAndRead) {
  const auto paths = write(30);
  const auto snapshot = read_snapshot(paths.state);
  EXPECT_EQ(snapshot.state.iter(), 30);
  EXPECT_EQ(snapshot.state.banyan().seed(), 7u);
  EXPECT_EQ(snapshot.model_path, paths.model);
}

TEST_F(SnapshotFiles, ModelIsFoundBesideAMovedState) {
  write(30);
  const fs::path elsewhere = folder_ / "elsewhere";
  fs::create_directories(elsewhere);
  for (const char* name : {"net_iter_30.caffemodel", "net_iter_30.solverstate"})
    fs::rename(folder_ / name, elsewhere / name);
  const auto snapshot = read_snapshot((elsewhere / "net_iter_30.solverstate").string());
  EXPECT_EQ(snapshot.model_path, (elsewhere / "net_iter_30.caffemodel").string());
  fs::remove(elsewhere / "net_iter_30.caffemodel");
  EXPECT_THAT(refusal((elsewhere / "net_iter_30.solverstate").string()), HasSubstr("its model is missing"));
}

TEST_F(SnapshotFiles, AnotherModelIsRefused) {
  const auto paths = write(30);
  fs::copy_file(write(20).model, paths.model, fs::copy_options::overwrite_existing);
  EXPECT_EQ(read_snapshot(paths.state).model_path, paths.model);  // the same bytes
  std::ofstream(paths.model, std::ios::app | std::ios::binary) << "\n\x01x";
  EXPECT_THAT(refusal(paths.state), HasSubstr(paths.model + " is another one"));
  EXPECT_EQ(find_latest_snapshot(prefix_), snapshot_paths(prefix_, 20).state);
  // Longer than a protobuf message can be, as a model in HDF5 form may be.
  fs::resize_file(paths.model, (std::uintmax_t{1} << 31) + 1);
  EXPECT_THAT(refusal(paths.state), HasSubstr(paths.model + " is another one"));
  fs::resize_file(paths.model, 3);
  // The right one is next to the moved state, although one with that name exists where it was written.
  const fs::path elsewhere = folder_ / "elsewhere";
  fs::create_directories(elsewhere);
  fs::copy_file(paths.state, elsewhere / "net_iter_30.solverstate");
  fs::copy_file(snapshot_paths(prefix_, 20).model, elsewhere / "net_iter_30.caffemodel");
  EXPECT_EQ(read_snapshot((elsewhere / "net_iter_30.solverstate").string()).model_path,
            (elsewhere / "net_iter_30.caffemodel").string());
}

/// A process that writes a file of each name and stays, or is killed.
class Writer {
 public:
  Writer(const std::vector<std::string>& paths, bool stays) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    child_ = ::fork();
    if (child_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      std::vector<std::unique_ptr<io::AtomicFile>> files;
      for (const std::string& path : paths) files.push_back(std::make_unique<io::AtomicFile>(path));
      for (const auto& file : files) file->write("half");
      if (::write(ready[1], "x", 1) == 1)
        for (;;) ::pause();
      ::_exit(1);
    }
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    for (const int fd : ready) ::close(fd);
    if (!stays) end();
  }
  ~Writer() { end(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  void end() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(std::exchange(child_, -1), nullptr, 0);
  }

 private:
  pid_t child_ = -1;
};

TEST_F(SnapshotFiles, WhatKilledWritersLeftIsRemoved) {
  const auto paths = snapshot_paths(prefix_, 30);
  const auto files = [this] {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), {}));
  };
  Writer alive({paths.model, paths.state}, true);
  const Writer gone({paths.model, paths.state}, false);
  ASSERT_EQ(files(), 4u);
  remove_snapshot_leftovers(prefix_);
  EXPECT_EQ(files(), 2u);
  remove_snapshot_leftovers(prefix_);
  EXPECT_EQ(files(), 2u);  // of the living writer
  alive.end();
  remove_snapshot_leftovers(prefix_);
  EXPECT_EQ(files(), 0u);
}

TEST_F(SnapshotFiles, NothingElseIsRemoved) {
  const auto paths = write(30);
  const std::string other = (folder_ / "network").string();
  const Writer gone({snapshot_paths(other, 30).model, prefix_ + ".trace", prefix_ + "_iter_30.caffemodel.h6"},
                    false);
  for (const char* name :
       {"net_iter_30.caffemodel.tmp", "net_iter_30.caffemodel.tmp.12", "net_iter_30.caffemodel.tmp.12.x",
        "net_iter_30.caffemodel.tmp.12.3.gz", "net_iter_x.caffemodel.tmp.12.3", "net_iter_30.caffemodel.old",
        "other_iter_30.caffemodel.previous"})
    std::ofstream(folder_ / name) << "mine";
  fs::create_directories(folder_ / "net_iter_40.caffemodel.tmp.12.3");
  const auto count = [this] { return std::distance(fs::directory_iterator(folder_), {}); };
  const auto before = count();
  remove_snapshot_leftovers(prefix_);
  EXPECT_EQ(count(), before);
  EXPECT_EQ(find_latest_snapshot(prefix_), paths.state);
}

TEST_F(SnapshotFiles, BadStates) {
  EXPECT_THAT(refusal(prefix_ + "_iter_1.solverstate.h5"), HasSubstr("_iter_1.solverstate.h5"));
  EXPECT_THAT(refusal(prefix_ + "_iter_1.solverstate"), HasSubstr("_iter_1.solverstate"));
  std::ofstream(prefix_ + "_bad") << "this is not a message";
  EXPECT_THAT(refusal(prefix_ + "_bad"), HasSubstr("_bad"));
  caffe::SolverState nameless;
  nameless.set_iter(3);
  io::write_binary_proto(prefix_ + "_nameless", nameless);
  EXPECT_THAT(refusal(prefix_ + "_nameless"), HasSubstr("not a solver state"));
}

TEST_F(SnapshotFiles, LatestIsTheHighestReadable) {
  EXPECT_FALSE(find_latest_snapshot(prefix_));
  const auto nine = write(9);
  const auto hundred = write(100);  // comparing names would put 9 last
  EXPECT_EQ(find_latest_snapshot(prefix_), hundred.state);
  fs::resize_file(hundred.model, fs::file_size(hundred.model) - 2);
  EXPECT_EQ(find_latest_snapshot(prefix_), nine.state);
  std::ofstream(prefix_ + "_iter_200.solverstate") << "cut";
  std::ofstream(prefix_ + "_iter_x.solverstate") << "not a number";
  std::ofstream((folder_ / "network_iter_300.solverstate").string()) << "another prefix";
  EXPECT_EQ(find_latest_snapshot(prefix_), nine.state);
  fs::remove(nine.model);
  EXPECT_FALSE(find_latest_snapshot(prefix_));
  EXPECT_FALSE(find_latest_snapshot((folder_ / "missing/net").string()));
}

#ifdef BANYAN_WITH_HDF5
/// After a change of snapshot_format and a run from an earlier iteration, one of them is stale.
TEST_F(SnapshotFiles, OfBothFormsTheNewerIsTheLatest) {
  using namespace std::chrono_literals;
  const auto binary = write(9), hdf5 = write(9, SnapshotFormat::hdf5);
  fs::last_write_time(binary.state, fs::last_write_time(hdf5.state) - 10s);
  EXPECT_EQ(find_latest_snapshot(prefix_), hdf5.state);
  fs::last_write_time(binary.state, fs::last_write_time(hdf5.state) + 10s);
  EXPECT_EQ(find_latest_snapshot(prefix_), binary.state);
}
#endif

TEST_F(SnapshotFiles, ResumeDifferences) {
  caffe::SolverState state;
  caffe::BanyanState now;
  EXPECT_THAT(resume_differences(state, now), testing::ElementsAre(HasSubstr("not written by Banyan")));
  now.set_devices(2);
  now.set_precision("f32");
  *state.mutable_banyan() = now;
  EXPECT_THAT(resume_differences(state, now), testing::IsEmpty());
  now.set_devices(4);
  EXPECT_THAT(resume_differences(state, now), testing::ElementsAre("the number of devices was 2, is 4"));
  now.set_devices(2);
  now.set_seed(3);
  state.mutable_banyan()->set_seed(4);
  EXPECT_THAT(resume_differences(state, now), testing::ElementsAre("the seed was 4, is 3"));
}

}  // namespace
}  // namespace banyan
