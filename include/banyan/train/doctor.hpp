// `trainer doctor`: what may go wrong with a run on this machine, found before it begins.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/train/device_choice.hpp"
#include "banyan/train/train.hpp"

namespace banyan {

enum class FindingKind : std::uint8_t { ok, warning, error };

struct Finding {
  FindingKind kind = FindingKind::ok;
  std::string topic;   ///< what was looked at: memory, gpu:0, layer "data"
  std::string text;    ///< what was found
  std::string remedy;  ///< what to do; empty if it is ok
  std::vector<std::pair<std::string, std::string>> figures;  ///< names and JSON values
};

struct DoctorOptions {
  std::string solver;   ///< its file; empty: only the machine is looked at
  DeviceFlags devices;  ///< as in training; without a solver and flags: all GPUs, else one CPU device
  std::optional<int> level;
  std::vector<std::string> stages;
  io::UnknownFields unknown_fields = io::UnknownFields::refuse;
  std::optional<int> max_iter;                ///< of the solver, whatever it says
  bool all_records = false;                   ///< read every record of the data, not a sample
  int iterations = 0;                         ///< to time; 0: as many as fit into some seconds
  std::function<void(const Finding&)> found;  ///< told of each finding when it is made; may be empty
  /// What training would be told: precision, threads, pinning, sync_bn, tree, snapshot ("latest" is
  /// resolved here), weights, signals; the console shows what is going on. Solver and devices are not used.
  TrainOptions run;
};

struct Diagnosis {
  std::vector<Finding> findings;
  /// A link between GPUs does not answer: the process must end by _exit, because the driver may never release
  /// what is in flight.
  bool stalled = false;
  /// 0: all ok; 1: warnings; 2: errors.
  int exit_code() const;
};

/// Looks at everything, whatever it finds on the way; what fails is a finding.
Diagnosis diagnose(const DoctorOptions& options);
/// A line, and one more for its remedy.
std::string finding_text(const Finding& finding);
/// How many there are of each kind, in a line.
std::string diagnosis_sum(const Diagnosis& diagnosis);
/// All of these lines.
std::string diagnosis_text(const Diagnosis& diagnosis);
std::string diagnosis_json(const Diagnosis& diagnosis);

}  // namespace banyan
