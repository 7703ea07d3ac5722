// A training run small enough to be repeated a thousand times: a synthetic data set in its own folder, a net
// of convolution, SyncBN and inner product, and the options for train(). For the tests of failures.
#pragma once

#include <glog/logging.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/data/datum.hpp"
#include "banyan/data/lmdb_writer.hpp"
#include "banyan/train/solver_settings.hpp"
#include "banyan/train/train.hpp"

namespace banyan {

/// 48 records of 1 x 6 x 6 pixels in 3 classes. Record `damaged` (if >= 0) holds bytes that are not a record.
inline void make_small_lmdb(const std::string& path, int damaged = -1) {
  data::LmdbWriter writer(path);
  for (int i = 0; i < 48; ++i) {
    std::vector<std::uint8_t> pixels(36);
    for (int p = 0; p < 36; ++p) pixels[p] = static_cast<std::uint8_t>((i * 37 + p * p * (i % 3 + 1)) % 251);
    std::string key = std::to_string(i);
    key.insert(0, 8 - key.size(), '0');
    writer.put(key,
               i == damaged ? std::string("\xff\xff\xff") : data::raw_datum(1, 6, 6, pixels.data(), i % 3));
  }
  writer.close();
}

/// Threads of this process; those that a sanitizer starts in addition to the first exist from the first call
/// on.
inline std::ptrdiff_t thread_count() {
  static const bool sanitizer_has_its_threads = (std::thread([] {}).join(), true);
  static_cast<void>(sanitizer_has_its_threads);
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

/// The same, after up to a second in which it may sink to `most`: the kernel cleans up threads after they
/// have been joined, and an emulated stream's thread ends some time after its stream was destroyed. It may
/// also have been counted before a test, so fewer threads than before are no fault.
inline std::ptrdiff_t settled_thread_count(std::ptrdiff_t most) {
  for (int i = 0; i < 100 && thread_count() > most; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return thread_count();
}

class TrainingRun : public ::testing::Test {
 protected:
  void SetUp() override {
    log_level_ = FLAGS_minloglevel;
    FLAGS_minloglevel = google::FATAL;
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(info->test_suite_name()) + "_" + info->name();
    for (char& c : name)
      if (c == '/') c = '_';
    // The child of a death test creates its parent's folder again, which the parent eventually removes.
    ::setenv("BANYAN_TEST_OWNER", std::to_string(::getpid()).c_str(), 0);
    folder_ = ::testing::TempDir() + "banyan_" + name + "_" + ::getenv("BANYAN_TEST_OWNER");
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    make_small_lmdb(path("db"));
  }
  void TearDown() override {
    FLAGS_minloglevel = log_level_;
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  /// Everything after the source layers, whose outputs are the blobs "data" and "label".
  static std::string net_behind_sources() {
    return R"(
      layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
              convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
      layer { name: "bn" type: "SyncBN" bottom: "conv" top: "bn"
              bn_param { slope_filler { type: "constant" value: 1 } bias_filler { type: "constant" } } }
      layer { name: "relu" type: "ReLU" bottom: "bn" top: "bn" }
      layer { name: "ip" type: "InnerProduct" bottom: "bn" top: "ip"
              inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
      layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })";
  }
  std::string lmdb_source(const std::string& name = "db") const {
    return R"(layer { name: "images" type: "Data" top: "data" top: "label"
                      data_param { source: ")" +
           path(name) + R"(" batch_size: 2 backend: LMDB } transform_param { scale: 0.004 } })";
  }

  /// Goes through every stage in every second iteration: tests, clips (so that every device reduces) and
  /// snapshots.
  TrainOptions options(int devices, const std::string& source, const std::string& more = "") const {
    TrainOptions options;
    const std::string text =
        "base_lr: 0.05 lr_policy: 'fixed' momentum: 0.9 random_seed: 7 clip_gradients: 10 " +
        std::string("max_iter: 6 test_iter: 3 test_interval: 3 snapshot: 3 ") + more;
    caffe::SolverParameter solver;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &solver)) << text;
    const std::string net = source + net_behind_sources();
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(net, solver.mutable_net_param())) << net;
    solver.set_snapshot_prefix(path("snapshot"));
    options.solver_path = path("solver.prototxt");
    options.solver = solver_settings(solver, options.solver_path);
    for (int i = 0; i < devices; ++i) options.devices.push_back({DeviceKind::cpu, i});
    options.threads_per_device = 1;
    return options;
  }
  TrainOptions options(int devices) const { return options(devices, lmdb_source()); }

  /// Name, size and time of every file in the folder.
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      if (entry.is_regular_file())
        found[entry.path().filename().string()] =
            cat(entry.file_size(), " ", entry.last_write_time().time_since_epoch().count());
    return found;
  }

  std::string folder_;

 private:
  int log_level_ = 0;
};

}  // namespace banyan
