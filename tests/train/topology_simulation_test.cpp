#include "train/commands/topology_simulation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/base/error.hpp"
#include "banyan/io/atomic_file.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/train/commands.hpp"

namespace banyan {
namespace {

using testing::HasSubstr;

SimulationReport simulate_text(const std::string& text) {
  SimulationParameter machine;
  io::parse_text(text, "box.prototxt", machine);
  return simulate_machine(machine, "box.prototxt");
}

const std::string kLevels =
    "level { devices: 2 link: 'PIX' gigabytes_per_s: 12 } "
    "level { devices: 4 link: 'PHB' gigabytes_per_s: 8 latency_us: 20 } ";
const std::string kLayers =
    "layer { name: 'a' forward_ms: 10 backward_ms: 20 parameters: 1000000 } "
    "layer { name: 'b' forward_ms: 10 backward_ms: 20 parameters: 9000000 } ";

TEST(TopologySimulation, ComparesNumbersOfDevices) {
  const SimulationReport report = simulate_text(kLevels + kLayers);
  ASSERT_EQ(report.rows.size(), 3u);  // 1, 2, 4
  EXPECT_EQ(report.parameters, 10'000'000);
  EXPECT_NEAR(report.compute_s, 0.060, 1e-12);
  EXPECT_DOUBLE_EQ(report.efficiency(report.rows[0].tree), 1);
  for (std::size_t i = 1; i < 3; ++i) {
    const SimulatedRow& row = report.rows[i];
    EXPECT_EQ(row.devices, 2 << (i - 1));
    EXPECT_LT(report.efficiency(row.tree), 1);
    EXPECT_GT(report.efficiency(row.tree), 0.9);  // 4 MB are left when backward ends: less than 2 ms
    EXPECT_LT(row.tree.total_s, row.p2p_sync.total_s);
  }
  const std::string text = simulation_text(report);
  EXPECT_THAT(text, HasSubstr("10.00 M parameters in f32; one device takes 60.00 ms"));
  EXPECT_THAT(text, HasSubstr("2 devices by PIX, 12.0 GB/s, 10.0 us; 4 devices by PHB, 8.0 GB/s, 20.0 us."));
  EXPECT_THAT(text,
              HasSubstr("        1     60.00     100.0 %     60.00     100.0 %     60.00     100.0 %\n"));
  EXPECT_THAT(text, HasSubstr("4 devices would do the work of 3."));
  const std::string json = simulation_json(report);
  EXPECT_THAT(json,
              HasSubstr("\"simulated\": [\n  {\"devices\": 1, \"tree_seconds\": 0.06, \"ring_seconds\""));
  EXPECT_THAT(json, HasSubstr("\"advice\": [\"4 devices would"));
}

TEST(TopologySimulation, ComparesMachinesAndNetworks) {
  const SimulationReport report =
      simulate_text(kLevels + kLayers + "network { machines: [2, 16] gigabits_per_s: [10, 100] bits: 16 }");
  ASSERT_EQ(report.joined.size(), 2u);
  for (const SimulatedMachines& row : report.joined) {
    ASSERT_EQ(row.times.size(), 2u);
    EXPECT_GT(row.times[0].total_s, row.times[1].total_s);
    // As with one machine, but for other buckets.
    EXPECT_GE(row.times[1].total_s, 0.99 * report.rows.back().tree.total_s);
  }
  // 20 MB out and in through 1.25 GB/s: 30 ms with 16 machines, nearly all of it while backward runs.
  EXPECT_LT(report.joined[1].times[0].total_s, 0.09);
  const std::string text = simulation_text(report);
  EXPECT_THAT(text, HasSubstr("Machines of 4 devices each, network: latency 30.0 us, 16 bits a value."));
  EXPECT_THAT(text, HasSubstr("10 Gbit/s"));
  EXPECT_THAT(simulation_json(report), HasSubstr("\"machines\": 16, \"gigabits_per_second\": 100, "));
  // One device each needs no links.
  const auto single = simulate_text(kLayers + "network { machines: 2 gigabits_per_s: 10 }");
  EXPECT_THAT(simulation_text(single), HasSubstr("Machines of 1 device each"));
}

TEST(TopologySimulation, SlowLinksAreSaidToDecide) {
  const auto report = simulate_text("level { devices: 2 link: 'SYS' gigabytes_per_s: 0.5 } " + kLayers);
  EXPECT_THAT(simulation_text(report), HasSubstr("The links decide"));
}

TEST(TopologySimulation, TheExampleOfTheDocumentation) {
  const std::string file = BANYAN_SOURCE "/docs/examples/four_pcie_cards.prototxt";
  SimulationParameter example;
  io::parse_text(io::read_file(file, 1 << 20), file, example);
  example.set_model(std::string(BANYAN_SOURCE "/") + example.model());
  const SimulationReport report = simulate_machine(example, file);
  ASSERT_EQ(report.rows.size(), 3u);
  EXPECT_NEAR(static_cast<double>(report.parameters), 25.56e6, 0.1e6);  // ResNet-50
  // 16 images at 4.1 G multiply-adds, forward and twice that backward, at 1e13 operations per second: 39 ms.
  EXPECT_NEAR(report.compute_s, 0.039, 0.003);
  EXPECT_GT(report.efficiency(report.rows[2].tree), 0.5);
}

TEST(TopologySimulation, AModelsTimeIsSharedOut) {
  const auto report =
      simulate_text(kLevels + "compute_ms: 250 model: '" BANYAN_SOURCE "/models/resnet50/train.prototxt'");
  EXPECT_NEAR(report.compute_s, 0.250, 1e-9);
}

void expect_refused(const std::string& text, const std::string& message) {
  try {
    simulate_text(text);
    FAIL() << "accepted: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_THAT(error.what(), HasSubstr(message));
  }
}

TEST(TopologySimulation, RefusesWhatItCannotMean) {
  expect_refused(kLayers, "box.prototxt: no `level`");
  expect_refused(kLevels, "either `model` or `layer`s");
  expect_refused("level { devices: 2 link: 'PIX' gigabytes_per_s: 1e-40 } " + kLayers,
                 "level 1: gigabytes_per_s: expected a number from 0.1 to 1e+06, not 1e-40");
  expect_refused("level { devices: 2 link: 'PIX' gigabytes_per_s: 1 latency_us: 0 } " + kLayers,
                 "level 1: latency_us: expected a number from 0.1");
  expect_refused(kLevels + kLayers + "devices: 8", "devices: the outermost level joins 4");
  expect_refused(kLevels + kLayers + "devices: 0", "expected 1 to 4, not 0");
  expect_refused(kLevels + kLayers + "devices: 2147483648", "expected 1 to 4, not 2147483648");
  expect_refused("level { devices: 2 link: 'PCI' gigabytes_per_s: 1 } " + kLayers, "unknown link \"PCI\"");
  expect_refused("level { devices: 2 link: 'PIX' } " + kLayers, "level 1: gigabytes_per_s");
  expect_refused("level { devices: 32 link: 'PIX' gigabytes_per_s: 1 } " + kLayers, "at most 16, not 32");
  expect_refused(kLevels + "level { devices: 6 link: 'SYS' gigabytes_per_s: 1 } " + kLayers,
                 "level 3: devices");
  expect_refused(kLevels + "level { devices: 8 link: 'PIX' gigabytes_per_s: 1 } " + kLayers,
                 "level 3: an inner level already has link \"PIX\"");
  expect_refused(kLevels + "layer { name: 'a' forward_ms: -1 }", "layer \"a\": expected a time >= 0 ms");
  expect_refused(kLevels + "layer { name: 'a' parameters: 5 }", "expected a number > 0, not 0");
  expect_refused(kLevels + "layer { name: 'a' forward_ms: 1 backward_ms: 1 parameters: 8589934593 }",
                 "expected at most 8589934592 in all layers");
  expect_refused(kLevels + "model: 'x.prototxt'", "either `compute_ms` or `gigaflops`");
  expect_refused(kLevels + kLayers + "network { }", "network: expected 1 to 6 values of gigabits_per_s");
  expect_refused(kLevels + kLayers + "network { gigabits_per_s: 0 }", "network: gigabits_per_s: expected");
  expect_refused(kLevels + kLayers + "network { gigabits_per_s: 1 machines: 1000 }", "network: machines");
  expect_refused(kLevels + kLayers + "network { gigabits_per_s: 1 bits: 8 }", "expected 16 or 32, not 8");
  expect_refused(kLevels + kLayers + "layr { }", "box.prototxt:1:");
  EXPECT_THROW(describe_simulation("/nonexistent/box.prototxt", false), Error);
}

}  // namespace
}  // namespace banyan
