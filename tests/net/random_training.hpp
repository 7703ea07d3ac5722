// Random nets in use, and in training.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "banyan/train/session.hpp"
#include "net/net_test_tools.hpp"
#include "net/wide_random_net.hpp"
#include "train/training_case.hpp"

namespace banyan {

template <class T>
void feed_all(NetBench& bench, Net& net, const WideRandomNet& drawn, int batch) {
  for (const std::string& name : drawn.fed()) {
    const std::vector<double> values = WideRandomNet::values(name, batch);
    copy_from_host(bench.context, std::vector<T>(values.begin(), values.end()).data(),
                   net.find_blob(name)->data);
  }
}

struct NamedValues {
  std::string name;
  std::vector<double> values;
};

/// Losses, gradients and statistics after two passes whose gradients add up, as with iter_size 2.
template <class T>
std::vector<NamedValues> two_passes(NetBench& bench, Net& net, const WideRandomNet& drawn, int batch,
                                    Phase phase) {
  const bool trains = phase == Phase::train;
  bench.pass.update_statistics = true;
  feed_all<T>(bench, net, drawn, batch);
  net.zero_gradients();
  std::vector<NamedValues> results;
  const auto append = [&](const std::string& name, const Tensor& tensor) {
    const std::vector<T> values = values_of<T>(bench.context, tensor);
    results.push_back({name, {values.begin(), values.end()}});
  };
  for (int pass = 0; pass < 2; ++pass) {
    bench.pass.draw = pass;
    net.forward(bench.pass);
    results.push_back({"loss", {loss_of(bench, net)}});
    if (trains) net.backward(bench.pass);
  }
  for (const LearnableParameter& parameter : net.parameters())
    if (trains && parameter.grad.defined())
      append(cat("gradient of ", parameter.layer, " blob ", parameter.slot), parameter.grad);
  if (net.statistics().defined()) append("statistics", net.statistics());
  net.check_results();
  return results;
}

class RandomTrainingFolder {
 public:
  RandomTrainingFolder() : path_(cat(testing::TempDir(), "banyan_random_layers_", ::getpid())) {
    std::filesystem::create_directories(path_);
  }
  RandomTrainingFolder(const RandomTrainingFolder&) = delete;
  RandomTrainingFolder& operator=(const RandomTrainingFolder&) = delete;
  ~RandomTrainingFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// `batch`: of each device.
inline TrainOptions random_training(const WideRandomNet& net, const std::vector<DeviceChoice>& devices,
                                    int batch, RunPrecision precision, const RandomTrainingFolder& folder) {
  TrainOptions options;
  caffe::SolverParameter solver = io::parse_solver_text(
      "base_lr: 0.01 momentum: 0.9 lr_policy: 'fixed' random_seed: 3 display: 0 max_iter: 100", "solver");
  *solver.mutable_net_param() = net_of(net.text(batch, true));
  solver.set_snapshot_prefix(folder.path() + "/out");
  options.solver_path = folder.path() + "/solver.prototxt";
  options.solver = solver_settings(solver, options.solver_path);
  options.devices = devices;
  options.precision = precision;
  options.threads_per_device = 1;
  options.sync_bn = SyncBatchNorm::on;
  options.pinning = Pinning::off;
  return options;
}

/// `devices`: how many divide the net's batch in the run that this one is compared with. Samples are dealt to
/// them in turn.
inline void feed_all(Session& session, const WideRandomNet& net, int batch, int devices) {
  const int own = session.devices();
  for (const std::string& name : net.fed())
    for (int device = 0; device < own; ++device)
      session.set_input(name, WideRandomNet::values(name, batch, {device, own, devices / own}), device);
}

inline std::vector<double> trained_values(const Session& session, const RandomTrainingFolder& folder) {
  std::vector<double> all;
  for (const auto& layer :
       io::read_weights(snapshot_paths(folder.path() + "/out", session.iteration()).model).layers)
    for (const auto& blob : layer.blobs)
      for (std::size_t i = 0; i < blob.count(); ++i) all.push_back(blob.at(i));
  return all;
}

struct Learned {
  std::vector<double> losses, values;
};
/// Of three iterations with `batch` samples in all; `most`: the number of devices in the run that this one is
/// compared with.
inline Learned learned_by(const WideRandomNet& net, const std::vector<DeviceChoice>& devices, int batch,
                          int most, const RandomTrainingFolder& folder) {
  const int share = batch / static_cast<int>(devices.size());
  Session session(random_training(net, devices, share, RunPrecision::f64, folder));
  feed_all(session, net, share, most);
  Learned learned;
  for (int i = 0; i < 3; ++i) {
    session.step(1);
    learned.losses.push_back(session.metrics().loss);
  }
  session.snapshot();
  learned.values = trained_values(session, folder);
  return learned;
}

/// Two devices, or three, of those that `devices` gives, and one CPU device with their batches.
inline void expect_to_learn_as_one_device(
    unsigned usual, const std::function<std::vector<DeviceChoice>(int number)>& devices) {
  const RandomTrainingFolder folder;
  const Seeds seeds = random_seeds(usual);
  unsigned compared = 0;
  for (unsigned seed = seeds.first; seed < seeds.end; ++seed) {
    const WideRandomNet net(seed);
    const int number = 2 + static_cast<int>(seed % 2), batch = 2 * number;
    SCOPED_TRACE(cat("seed ", seed, ", ", number, " devices:\n", net.text(batch / number, true)));
    try {
      const Learned one = learned_by(net, cpu_devices(1), batch, number, folder),
                    several = learned_by(net, devices(number), batch, number, folder);
      EXPECT_LE(largest_difference(one.losses, several.losses), 1e-8);
      // A net that diverges amplifies rounding without limit.
      if (one.losses.back() > 1e6) continue;
      ++compared;
      EXPECT_LE(largest_difference(one.values, several.values), 1e-8);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  EXPECT_GE(compared, seeds.count() * 9 / 10);
}

}  // namespace banyan
