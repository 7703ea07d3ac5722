// `trainer topology --simulate=FILE`: predicted iterations of a machine that is not available.
#pragma once

#include <string>
#include <vector>

#include "banyan/parallel/simulate.hpp"
#include "proto/simulation.pb.h"

namespace banyan {

struct SimulatedRow {
  int devices = 1;
  parallel::SimulatedIteration tree, ring, p2p_sync;
};

/// Machines with all their devices.
struct SimulatedMachines {
  int machines = 1;
  std::vector<parallel::SimulatedIteration> times;  ///< for each speed of the network
};

struct SimulationReport {
  std::string model;  ///< its file, or "" where the layers are given
  std::int64_t parameters = 0;
  double compute_s = 0, update_s = 0;  ///< one device, forward and backward; its update
  std::vector<std::string> levels;     ///< in words
  std::vector<SimulatedRow> rows;      ///< by devices
  std::string network;                 ///< in words; "" if there is none
  std::vector<double> gigabits_per_s;
  std::vector<SimulatedMachines> joined;
  /// One device's time divided by this one: 1 if each device does as much as one alone.
  double efficiency(const parallel::SimulatedIteration& time) const {
    return (compute_s + update_s) / time.total_s;
  }
};

/// Checks the description (bad_input names `origin` and the field) and simulates it.
SimulationReport simulate_machine(const SimulationParameter& machine, const std::string& origin);
std::string simulation_text(const SimulationReport& report);
std::string simulation_json(const SimulationReport& report);

}  // namespace banyan
