// The nets of a run, built without storage: do they, what do they need, and how large may a batch be?
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/net/net.hpp"
#include "banyan/train/solver_nets.hpp"
#include "banyan/train/train.hpp"
#include "diagnosis.hpp"

namespace banyan::doctor {

/// As rank 0 of the run would build it.
struct BuiltNet {
  std::string name;  ///< "train net", "test net #0"
  SolverNet definition;
  std::unique_ptr<Activity> activity;
  std::unique_ptr<Net> net;
  std::int64_t batch = 0;  ///< samples of one device
  int test = -1;           ///< its number among the test nets; -1: the train net
};

class Nets {
 public:
  /// Reads and builds them, a finding for each; what does not build is missing.
  Nets(const TrainOptions& options, Findings& findings);

  bool complete() const { return complete_; }
  const std::vector<BuiltNet>& all() const { return nets_; }
  const BuiltNet& train() const { return nets_.front(); }

  /// Bytes that one device needs for parameters, gradients that stay, and the optimizer's history.
  std::int64_t fixed_bytes() const;
  /// Bytes of one device for the activations of all nets; what was measured beyond the plan comes on top.
  std::int64_t activation_bytes() const;
  /// Samples per device of the train net for which all of it, with `more` bytes per sample, fits into
  /// `bytes`; 0: none. Nothing, and why, where the net cannot be built with other batches.
  std::optional<std::int64_t> largest_batch(std::int64_t bytes, double more, std::string& why) const;

 private:
  std::unique_ptr<Net> build(const caffe::NetParameter& net, const std::string& origin,
                             Activity& activity) const;
  void add(int test, SolverNet definition, Findings& findings);
  std::int64_t train_bytes_with(std::int64_t batch) const;

  const TrainOptions& options_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Context> context_;
  std::vector<BuiltNet> nets_;
  bool complete_ = true;
};

}  // namespace banyan::doctor
