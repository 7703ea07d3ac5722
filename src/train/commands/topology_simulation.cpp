#include "train/commands/topology_simulation.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <set>
#include <sstream>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/atomic_file.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/train/commands.hpp"

namespace banyan {
namespace {

using parallel::LinkClass;
using parallel::SimulatedIteration;
using parallel::SimulatedLayer;

constexpr int kMostDevices = 16, kMostMachines = 128, kMostRows = 8, kMostSpeeds = 6;
constexpr std::uint64_t kMostParameters = std::uint64_t{1} << 33;  // of a net, 32 GiB in f32

LinkClass link_named(const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(LinkClass::memory); ++i) {
    if (name == name_of(static_cast<LinkClass>(i))) return static_cast<LinkClass>(i);
    names.emplace_back(name_of(static_cast<LinkClass>(i)));
  }
  bad_input(where, ": unknown link ", quoted(name), ", expected one of ", join(names, ", "));
}

void require_positive(double value, const std::string& where) {
  if (!(value > 0) || !std::isfinite(value)) bad_input(where, ": expected a number > 0, not ", value);
}

void require_between(double value, double least, double most, const std::string& where) {
  if (!(value >= least && value <= most))
    bad_input(where, ": expected a number from ", least, " to ", most, ", not ", value);
}

void check_levels(const SimulationParameter& machine, const std::string& origin) {
  if (machine.level_size() == 0 && !machine.has_network())
    bad_input(origin, ": no `level`: say how the devices are joined");
  std::set<LinkClass> seen;
  std::uint32_t inner = 1;
  for (int i = 0; i < machine.level_size(); ++i) {
    const auto& level = machine.level(i);
    const std::string where = cat(origin, ": level ", i + 1);
    if (level.devices() <= inner || level.devices() > kMostDevices || level.devices() % inner != 0)
      bad_input(where, ": devices: expected a multiple of the inner level's ", inner,
                ", above it and at most ", kMostDevices, ", not ", level.devices());
    inner = level.devices();
    if (!seen.insert(link_named(level.link(), where)).second)
      bad_input(where, ": an inner level already has link ", quoted(level.link()));
    // What links can have; anything else would ask for millions of chunks.
    require_between(level.gigabytes_per_s(), 0.1, 1e6, where + ": gigabytes_per_s");
    require_between(level.latency_us(), 0.1, 1e6, where + ": latency_us");
  }
}

/// Those of a whole machine.
std::uint32_t most_devices(const SimulationParameter& machine) {
  return machine.level_size() == 0 ? 1 : machine.level(machine.level_size() - 1).devices();
}

parallel::SimulatedMachine machine_of(const SimulationParameter& machine, int devices,
                                      const std::string& origin) {
  parallel::LinkMatrix links(devices, LinkClass::memory);
  std::map<LinkClass, parallel::LinkCost> costs;
  for (int i = machine.level_size() - 1; i >= 0; --i) {  // inner levels overwrite outer ones
    const auto& level = machine.level(i);
    const LinkClass link = link_named(level.link(), origin);
    costs[link] = {level.latency_us() * 1e-6, level.gigabytes_per_s() * 1e9};
    const int group = static_cast<int>(level.devices());
    for (int a = 0; a < devices; ++a)
      for (int b = a + 1; b < devices; ++b)
        if (a / group == b / group) links.set(a, b, link);
  }
  return {links,
          build_tree(links),
          costs,
          machine.add_gigabytes_per_s() * 1e9,
          machine.update_gigabytes_per_s() * 1e9,
          4,
          parallel::largest_chunk(devices, DeviceKind::cuda)};
}

std::string number(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

void check_network(const SimulationParameter::Network& network, const std::string& where) {
  if (network.gigabits_per_s_size() < 1 || network.gigabits_per_s_size() > kMostSpeeds ||
      network.machines_size() > kMostRows)
    bad_input(where, ": expected 1 to ", kMostSpeeds, " values of gigabits_per_s and at most ", kMostRows,
              " of machines");
  for (const double speed : network.gigabits_per_s())
    require_between(speed, 0.01, 1e5, where + ": gigabits_per_s");
  for (const std::uint32_t machines : network.machines())
    require_between(machines, 1, kMostMachines, where + ": machines");
  require_between(network.latency_us(), 0, 1e6, where + ": latency_us");
  require_between(network.message_us(), 0, 1e6, where + ": message_us");
  for (const double rate : {network.host_gigabytes_per_s(), network.sum_gigabytes_per_s()})
    require_between(rate, 0, 1e6, where + ": gigabytes per second");
  if (network.bits() != 16 && network.bits() != 32)
    bad_input(where, ": bits: expected 16 or 32, not ", network.bits());
}

/// Each machine with all devices of the outermost level.
void simulate_network(const SimulationParameter& machine, const std::string& origin,
                      const std::vector<SimulatedLayer>& layers, SimulationReport& report) {
  const SimulationParameter::Network& network = machine.network();
  check_network(network, origin + ": network");
  report.gigabits_per_s = {network.gigabits_per_s().begin(), network.gigabits_per_s().end()};
  report.network = cat("latency ", number(network.latency_us(), 1), " us, ", network.bits(), " bits a value");
  std::set<int> counts(network.machines().begin(), network.machines().end());
  if (counts.empty()) counts = {2, 4, 8, 16, 32, 64};
  parallel::SimulatedMachine modelled = machine_of(machine, static_cast<int>(most_devices(machine)), origin);
  for (const int count : counts) {
    SimulatedMachines& row = report.joined.emplace_back();
    row.machines = count;
    for (const double speed : report.gigabits_per_s) {
      modelled.network = {count,
                          {network.latency_us() * 1e-6, speed * 1e9 / 8},
                          network.message_us() * 1e-6,
                          network.host_gigabytes_per_s() * 1e9,
                          network.sum_gigabytes_per_s() * 1e9,
                          network.bits() / 32.0};
      row.times.push_back(simulate_tree(modelled, layers));
    }
  }
}

std::vector<int> device_counts(const SimulationParameter& machine, const std::string& origin) {
  const std::uint32_t most = most_devices(machine);
  std::vector<int> counts;
  for (const std::uint32_t count : machine.devices()) {
    if (count < 1 || count > most)
      bad_input(origin, ": devices: the outermost level joins ", most, ", so expected 1 to ", most, ", not ",
                count);
    counts.push_back(static_cast<int>(count));
  }
  for (std::uint32_t count = 1; machine.devices_size() == 0 && count <= most; count *= 2)
    counts.push_back(static_cast<int>(count));
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

/// A net's layers share `compute_s`, or take the time of their operations at the given rate. Backward
/// computes two gradients where forward computes one result.
std::vector<SimulatedLayer> layers_of_model(const SimulationParameter& machine, const std::string& origin) {
  if (machine.has_compute_ms() == machine.has_gigaflops())
    bad_input(origin, ": `model` needs either `compute_ms` or `gigaflops`");
  if (machine.has_compute_ms()) require_positive(machine.compute_ms(), origin + ": compute_ms");
  if (machine.has_gigaflops()) require_positive(machine.gigaflops(), origin + ": gigaflops");
  ModelOptions options;
  options.model = machine.model();
  options.device = {DeviceKind::cpu, 0};
  options.phase = Phase::train;
  Model model(options, true);
  Net& net = model.net();
  std::vector<SimulatedLayer> layers(net.layers().size());
  double operations = 0;
  for (int i = 0; i < static_cast<int>(layers.size()); ++i) {
    SimulatedLayer& layer = layers[i];
    layer.forward_s = 2 * net.layers()[i]->forward_flops(net.inputs_of(i), net.outputs_of(i));
    operations += layer.forward_s;
  }
  for (const LearnableParameter& parameter : net.parameters())
    if (!parameter.is_statistic && parameter.lr_mult != 0)
      layers[parameter.ready_layer].parameters += parameter.count;
  if (operations <= 0) bad_input(origin, ": the layers of ", machine.model(), " compute nothing");
  const double seconds_per_operation = machine.has_gigaflops()
                                           ? 1 / (machine.gigaflops() * 1e9)
                                           : machine.compute_ms() * 1e-3 / (3 * operations);
  for (SimulatedLayer& layer : layers) {
    layer.forward_s *= seconds_per_operation;
    layer.backward_s = 2 * layer.forward_s;
  }
  return layers;
}

std::vector<SimulatedLayer> layers_of(const SimulationParameter& machine, const std::string& origin) {
  if (machine.has_model() == (machine.layer_size() > 0))
    bad_input(origin, ": expected either `model` or `layer`s");
  if (machine.has_model()) return layers_of_model(machine, origin);
  std::vector<SimulatedLayer> layers;
  std::uint64_t total = 0;
  for (const auto& layer : machine.layer()) {
    const std::string where = cat(origin, ": layer ", quoted(layer.name()));
    for (const double ms : {layer.forward_ms(), layer.backward_ms()})
      if (!(ms >= 0) || !std::isfinite(ms)) bad_input(where, ": expected a time >= 0 ms, not ", ms);
    total += std::min(layer.parameters(), kMostParameters + 1);
    if (total > kMostParameters)
      bad_input(where, ": parameters: expected at most ", kMostParameters, " in all layers, found more");
    layers.push_back({layer.forward_ms() * 1e-3, layer.backward_ms() * 1e-3,
                      static_cast<std::int64_t>(layer.parameters())});
  }
  return layers;
}

std::string ms(double seconds) { return number(seconds * 1e3, 2); }

std::string compared(double other, double tree) {
  const double percent = 100 * (other / tree - 1);
  if (std::abs(percent) < 1) return "as long as the tree";
  return cat(number(std::abs(percent), 0), " % ", percent > 0 ? "longer" : "less", " than the tree");
}

/// Sums up the largest machine of the report.
std::vector<std::string> words(const SimulationReport& report) {
  const SimulatedRow& row = report.rows.back();
  if (row.devices == 1) return {"One device exchanges nothing."};
  const double efficiency = report.efficiency(row.tree);
  std::vector<std::string> lines = {
      cat(row.devices, " devices would do the work of ", number(efficiency * row.devices, 2), ": ",
          ms(row.tree.total_s), " ms an iteration, ", ms(row.tree.exposed_s()),
          " ms of it exchange and update that backward does not hide."),
      cat("A ring would take ", ms(row.ring.total_s), " ms, ", compared(row.ring.total_s, row.tree.total_s),
          "; Caffe's P2PSync, everything in one piece after backward, ", ms(row.p2p_sync.total_s), " ms, ",
          compared(row.p2p_sync.total_s, row.tree.total_s), ".")};
  if (efficiency < 0.8)
    lines.emplace_back(
        "The links decide: a larger batch per device, iter_size, or faster links would pay more than further "
        "devices.");
  return lines;
}

}  // namespace

SimulationReport simulate_machine(const SimulationParameter& machine, const std::string& origin) {
  check_levels(machine, origin);
  for (const double rate : {machine.update_gigabytes_per_s(), machine.add_gigabytes_per_s()})
    if (!(rate >= 0) || !std::isfinite(rate)) bad_input(origin, ": expected a rate >= 0 GB/s, not ", rate);
  const std::vector<int> counts = device_counts(machine, origin);
  const std::vector<SimulatedLayer> layers = layers_of(machine, origin);
  SimulationReport report;
  report.model = machine.model();
  for (const SimulatedLayer& layer : layers) report.parameters += layer.parameters;
  const SimulatedIteration one = simulate_tree(machine_of(machine, 1, origin), layers);
  require_positive(one.compute_s, origin + ": the layers' times in all");
  report.compute_s = one.compute_s;
  report.update_s = one.exposed_s();
  for (const auto& level : machine.level())
    report.levels.push_back(cat(level.devices(), " devices by ", level.link(), ", ",
                                number(level.gigabytes_per_s(), 1), " GB/s, ", number(level.latency_us(), 1),
                                " us"));
  for (const int count : counts) {
    const auto modelled = machine_of(machine, count, origin);
    report.rows.push_back({count, simulate_tree(modelled, layers), simulate_ring(modelled, layers),
                           simulate_p2p_sync(modelled, layers)});
  }
  if (machine.has_network()) simulate_network(machine, origin, layers, report);
  return report;
}

namespace {

std::string joined_text(const SimulationReport& report) {
  std::ostringstream out;
  const int devices = report.rows.back().devices;
  out << "\nMachines of " << devices << (devices == 1 ? " device" : " devices")
      << " each, network: " << report.network << ".\n\n         ";
  for (const double speed : report.gigabits_per_s) out << std::setw(15) << number(speed, 0) << " Gbit/s";
  out << "\n machines";
  for (std::size_t i = 0; i < report.gigabits_per_s.size(); ++i) out << "        ms  efficiency";
  out << "\n";
  for (const SimulatedMachines& row : report.joined) {
    out << std::setw(9) << row.machines;
    for (const SimulatedIteration& time : row.times)
      out << std::setw(10) << ms(time.total_s) << std::setw(10) << number(100 * report.efficiency(time), 1)
          << " %";
    out << "\n";
  }
  out << "\n";
  return out.str();
}

}  // namespace

std::string simulation_text(const SimulationReport& report) {
  std::ostringstream out;
  out << (report.model.empty() ? "The layers given" : report.model) << ": "
      << number(static_cast<double>(report.parameters) / 1e6, 2) << " M parameters in f32; one device takes "
      << ms(report.compute_s) << " ms forward and backward, " << ms(report.update_s) << " ms update.\n"
      << (report.levels.empty() ? "" : cat("Links: ", join(report.levels, "; "), ".\n")) << "\n"
      << "           tree, overlapped        ring, overlapped        P2PSync\n"
      << "  devices        ms  efficiency        ms  efficiency        ms  efficiency\n";
  for (const SimulatedRow& row : report.rows) {
    out << std::setw(9) << row.devices;
    for (const SimulatedIteration& time : {row.tree, row.ring, row.p2p_sync})
      out << std::setw(10) << ms(time.total_s) << std::setw(10) << number(100 * report.efficiency(time), 1)
          << " %";
    out << "\n";
  }
  out << "\n";
  for (const std::string& line : words(report)) out << line << "\n";
  if (!report.joined.empty()) out << joined_text(report);
  out << "A model: links shared by several pairs, SyncBN's exchanges and input are left out.\n";
  return out.str();
}

std::string simulation_json(const SimulationReport& report) {
  std::ostringstream out;
  out << std::setprecision(9) << "{\"model\": " << json_string(report.model)
      << ", \"parameters\": " << report.parameters << ", \"compute_seconds\": " << report.compute_s
      << ", \"update_seconds\": " << report.update_s << ",\n \"simulated\": [";
  for (std::size_t i = 0; i < report.rows.size(); ++i) {
    const SimulatedRow& row = report.rows[i];
    out << (i > 0 ? "," : "") << "\n  {\"devices\": " << row.devices
        << ", \"tree_seconds\": " << row.tree.total_s << ", \"ring_seconds\": " << row.ring.total_s
        << ", \"p2p_sync_seconds\": " << row.p2p_sync.total_s
        << ", \"tree_exposed_seconds\": " << row.tree.exposed_s()
        << ", \"tree_efficiency\": " << report.efficiency(row.tree) << "}";
  }
  std::vector<std::string> lines;
  for (const std::string& line : words(report)) lines.push_back(json_string(line));
  out << "],\n \"machines\": [";
  for (std::size_t i = 0; i < report.joined.size(); ++i)
    for (std::size_t k = 0; k < report.gigabits_per_s.size(); ++k)
      out << (i + k > 0 ? "," : "") << "\n  {\"machines\": " << report.joined[i].machines
          << ", \"gigabits_per_second\": " << report.gigabits_per_s[k]
          << ", \"seconds\": " << report.joined[i].times[k].total_s
          << ", \"exposed_seconds\": " << report.joined[i].times[k].exposed_s()
          << ", \"efficiency\": " << report.efficiency(report.joined[i].times[k]) << "}";
  out << "],\n \"advice\": [" << join(lines, ", ") << "]}\n";
  return out.str();
}

std::string describe_simulation(const std::string& file, bool json) {
  SimulationParameter machine;
  constexpr std::size_t kMostBytes = std::size_t{16} << 20;
  io::parse_text(io::read_file(file, kMostBytes), file, machine);
  const SimulationReport report = simulate_machine(machine, file);
  return json ? simulation_json(report) : simulation_text(report);
}

}  // namespace banyan
