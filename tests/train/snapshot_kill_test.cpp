// A snapshot that replaces an earlier one of the same name: whenever the writer is killed, resuming finds a
// state with the model it was written with.
#include <fcntl.h>
#include <glog/logging.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "banyan/base/error.hpp"
#include "banyan/io/atomic_file.hpp"
#include "banyan/io/binary_proto.hpp"
#include "banyan/io/weights.hpp"
#include "banyan/train/snapshot_files.hpp"
#include "io/hdf5_model.hpp"

namespace {

int steps_to_live = -1;  // negative: forever

void step() {
  if (steps_to_live >= 0 && steps_to_live-- == 0) ::raise(SIGKILL);
}

}  // namespace

// Replace the C library's functions in this program and the libraries it loads.
#define BANYAN_STAND_IN extern "C" __attribute__((visibility("default")))
BANYAN_STAND_IN int rename(const char* from, const char* to) noexcept {
  step();
  return ::renameat(AT_FDCWD, from, AT_FDCWD, to);
}
BANYAN_STAND_IN int link(const char* from, const char* to) noexcept {
  step();
  return ::linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}
BANYAN_STAND_IN int unlink(const char* path) noexcept {
  step();
  return ::unlinkat(AT_FDCWD, path, 0);
}
BANYAN_STAND_IN int remove(const char* path) noexcept {
  step();
  return ::unlinkat(AT_FDCWD, path, std::filesystem::is_directory(path) ? AT_REMOVEDIR : 0);
}

namespace banyan {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kKilledAt = 30;

class KilledSnapshot : public testing::TestWithParam<SnapshotFormat> {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("killed_snapshot_" + std::to_string(::getpid()));
    prefix_ = (folder_ / "net").string();
    paths_ = snapshot_paths(prefix_, kKilledAt, GetParam());
    log_level_ = FLAGS_minloglevel;
    FLAGS_minloglevel = google::FATAL;
  }
  void TearDown() override {
    FLAGS_minloglevel = log_level_;
    fs::remove_all(folder_);
  }
  void start_again() const {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  static caffe::NetParameter model(int number) {
    caffe::NetParameter net;
    auto& layer = *net.add_layer();
    layer.set_name("ip");
    layer.set_type("InnerProduct");
    auto& blob = *layer.add_blobs();
    blob.mutable_shape()->add_dim(1);
    blob.add_data(static_cast<float>(number));
    return net;
  }
  /// Model and state both hold `number`.
  void write(int number) const {
    caffe::SolverState state;
    state.set_current_step(number);
    write_snapshot(prefix_, kKilledAt, model(number), state, step, GetParam());
  }
  void write_as_caffe(int number) const {
    caffe::SolverState state;
    state.set_current_step(number);
    state.set_iter(kKilledAt);
    state.set_learned_net(paths_.model);
    if (GetParam() == SnapshotFormat::hdf5) {
      io::write_file(paths_.model, io::hdf5_model(model(number), paths_.model));
      io::write_file(paths_.state, io::hdf5_state(state, paths_.state));
      return;
    }
    io::write_binary_proto(paths_.model, model(number));
    io::write_binary_proto(paths_.state, state);
  }
  /// False if the writer was killed before it took its `steps`-th step.
  bool write_for(int steps, int number) const {
    const pid_t child = ::fork();
    if (child == 0) {
      steps_to_live = steps;
      write(number);
      ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) || WTERMSIG(status) == SIGKILL);
    return WIFEXITED(status);
  }
  /// The number of the pair found; 0: none.
  int found() const {
    const auto latest = find_latest_snapshot(prefix_);
    if (!latest) return 0;
    const SolverSnapshot snapshot = read_snapshot(*latest);
    const int number = snapshot.state.current_step();
    EXPECT_EQ(io::read_weights(snapshot.model_path).layers.at(0).blobs.at(0).at(0), number);
    return number;
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  fs::path folder_;
  std::string prefix_;
  SnapshotPaths paths_;

 private:
  int log_level_ = 0;
};

TEST_P(KilledSnapshot, LeavesTheEarlierPairOrTheNewOne) {
  bool replaced = false;
  int steps = 0;
  for (; !replaced; ++steps) {
    SCOPED_TRACE(steps);
    bool replaced_again = false;
    for (int again = 0; !replaced_again; ++again) {  // leftovers are replaced, with as many kills
      SCOPED_TRACE(again);
      start_again();
      write(1);
      replaced = write_for(steps, 2);
      const int second = found();
      EXPECT_TRUE(replaced ? second == 2 : second == 1 || second == 2) << second;
      replaced_again = write_for(again, 3);
      const int third = found();
      EXPECT_TRUE(replaced_again ? third == 3 : third == second || third == 3) << third;
      remove_snapshot_leftovers(prefix_);
      EXPECT_EQ(found(), third);
      write(4);
      EXPECT_EQ(found(), 4);
      EXPECT_EQ(files(), 2u);
      if (HasFailure()) return;
    }
  }
  EXPECT_GE(steps, 8);  // otherwise too few calls were intercepted
}

INSTANTIATE_TEST_SUITE_P(Binary, KilledSnapshot, testing::Values(SnapshotFormat::binary));
#ifdef BANYAN_WITH_HDF5
INSTANTIATE_TEST_SUITE_P(Hdf5, KilledSnapshot, testing::Values(SnapshotFormat::hdf5));
#endif

/// A state without a checksum cannot be kept next to another model: then none is found, never a mixed pair.
TEST_P(KilledSnapshot, LeavesACaffePairOrNoneOrTheNewOne) {
  bool replaced = false;
  for (int steps = 0; !replaced; ++steps) {
    SCOPED_TRACE(steps);
    start_again();
    write_as_caffe(1);
    EXPECT_EQ(found(), 1);
    replaced = write_for(steps, 2);
    if (const int number = found(); replaced) {
      EXPECT_EQ(number, 2);
    }
    write(3);
    EXPECT_EQ(found(), 3);
  }
}

}  // namespace
}  // namespace banyan
