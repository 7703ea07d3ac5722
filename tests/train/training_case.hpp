// Whole training runs on a small synthetic data set, for the promises: the results of train() for a solver, a
// net and a number of devices.
#pragma once

#include <glog/logging.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "banyan/data/datum.hpp"
#include "banyan/data/lmdb_writer.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"
#include "banyan/io/weights.hpp"
#include "banyan/train/snapshot_files.hpp"
#include "banyan/train/solver_settings.hpp"
#include "banyan/train/train.hpp"
#include "relative_distance.hpp"
#include "train/run_devices.hpp"

namespace banyan {

/// For a TrainingCase: momentum, weight decay and a constant rate.
inline const char* const kFixedSolver =
    "base_lr: 0.05 momentum: 0.9 weight_decay: 0.001 lr_policy: 'fixed' random_seed: 3 display: 0 ";

/// `records` images, 3 x 12 x 12, of 5 classes that differ in their means; record i is made from number
/// order[i].
inline void write_images(const std::string& path, const std::vector<int>& order) {
  data::LmdbWriter writer(path);
  for (std::size_t position = 0; position < order.size(); ++position) {
    const int number = order[position], label = number * 7 % 5;
    std::vector<std::uint8_t> pixels(3 * 12 * 12);
    std::uint32_t state = static_cast<std::uint32_t>(number) * 2654435761u + 1;
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      state = state * 1664525u + 1013904223u;
      pixels[i] = static_cast<std::uint8_t>((state >> 25) +
                                            static_cast<std::uint32_t>(label) * 20 * (i / 144 + 1) % 128);
    }
    char key[32];
    std::snprintf(key, sizeof key, "%08zu", position);
    writer.put(key, data::raw_datum(3, 12, 12, pixels.data(), label));
  }
  writer.close();
}

/// A fresh folder with a data set of 50 images.
class TrainingFolder {
 public:
  explicit TrainingFolder(std::vector<int> order = {}) {
    static int next = 0;
    path_ = testing::TempDir() + "banyan_train_" + std::to_string(100000000 + ::getpid()) + "_" +
            std::to_string(1000 + next++);  // always the same length
    std::filesystem::remove_all(path_);     // of a process that was killed and had this number too
    std::filesystem::create_directories(path_);
    if (order.empty())
      for (int i = 0; i < 50; ++i) order.push_back(i);
    write_images(path_ + "/images", order);
  }
  ~TrainingFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Trained {
  caffe::SolverState state;
  io::ModelWeights weights;
  std::string model_bytes;
  std::vector<double> losses() const {
    return {state.banyan().smoothed_losses().begin(), state.banyan().smoothed_losses().end()};
  }
  /// All values of all blobs, concatenated.
  std::vector<double> values() const {
    std::vector<double> all;
    for (const auto& layer : weights.layers)
      for (const auto& blob : layer.blobs)
        for (std::size_t i = 0; i < blob.count(); ++i) all.push_back(blob.at(i));
    return all;
  }
};

struct TrainingCase {
  std::string solver;  ///< text; net, max_iter and prefix are added
  std::string net;     ///< text; DATA stands for the path of the LMDB
  int iterations = 20;
  RunPrecision precision = RunPrecision::f64;
  std::string tree = "auto";
};

inline TrainOptions options_of(const TrainingCase& of, const TrainingFolder& folder,
                               const std::vector<DeviceChoice>& devices) {
  std::string net = of.net;
  for (std::size_t at; (at = net.find("DATA")) != std::string::npos;)
    net.replace(at, 4, folder.path() + "/images");
  TrainOptions options;
  caffe::SolverParameter solver = io::parse_solver_text(of.solver, "solver");
  *solver.mutable_net_param() = io::parse_net_text(net, "net");
  solver.set_max_iter(of.iterations);
  if (!solver.has_average_loss()) solver.set_average_loss(of.iterations);
  solver.set_snapshot_prefix(folder.path() + "/out");
  options.solver_path = folder.path() + "/solver.prototxt";
  options.solver = solver_settings(solver, options.solver_path);
  options.devices = devices;
  options.precision = of.precision;
  options.tree = of.tree;
  options.threads_per_device = 1;
  return options;
}

inline TrainOptions options_of(const TrainingCase& of, const TrainingFolder& folder, int devices) {
  return options_of(of, folder, cpu_devices(devices));
}

/// For tests/bench/same_bytes.py: appends to the file BANYAN_RECORD a line with the running test's name, the
/// number of the training run in it, and checksums of model and state.
inline void record_trained(const std::string& model, const std::string& state) {
  const char* file = std::getenv("BANYAN_RECORD");
  if (file == nullptr) return;
  static std::map<std::string, int> runs;
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = std::string(test->test_suite_name()) + "." + test->name();
  std::ofstream(file, std::ios::app) << name << " " << runs[name]++ << " " << std::hash<std::string>()(model)
                                     << " " << std::hash<std::string>()(state) << "\n";
}

inline Trained read_trained(const TrainingFolder& folder, int iteration) {
  const SnapshotPaths paths = snapshot_paths(folder.path() + "/out", iteration);
  Trained result;
  result.state = read_snapshot(paths.state).state;
  result.weights = io::read_weights(paths.model);
  std::ifstream file(paths.model, std::ios::binary);
  result.model_bytes.assign(std::istreambuf_iterator<char>(file), {});
  // The model names its data set, which is in a different folder each time.
  for (std::size_t at; (at = result.model_bytes.find(folder.path())) != std::string::npos;)
    result.model_bytes.replace(at, folder.path().size(), "");
  caffe::SolverState state = result.state;
  state.clear_learned_net();                       // names the folder
  state.mutable_banyan()->clear_model_checksum();  // of a model that names the folder
  record_trained(result.model_bytes, state.SerializeAsString());
  return result;
}

inline Trained train_case(const TrainingCase& of, const std::vector<DeviceChoice>& devices,
                          const TrainingFolder& folder) {
  FLAGS_minloglevel = 2;
  EXPECT_EQ(train(options_of(of, folder, devices)), 0);
  return read_trained(folder, of.iterations);
}
inline Trained train_case(const TrainingCase& of, int devices, const TrainingFolder& folder) {
  return train_case(of, cpu_devices(devices), folder);
}
inline Trained train_case(const TrainingCase& of, const std::vector<DeviceChoice>& devices) {
  const TrainingFolder folder;
  return train_case(of, devices, folder);
}
inline Trained train_case(const TrainingCase& of, int devices) {
  return train_case(of, cpu_devices(devices));
}

/// max |a - b| / max(1, |a|).
inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]) / std::max(1.0, std::abs(a[i]));
    largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
  }
  return largest;
}

}  // namespace banyan
