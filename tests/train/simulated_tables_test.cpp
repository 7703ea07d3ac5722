// The simulated times in the documentation are those of the examples in docs/examples.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "banyan/base/text.hpp"
#include "banyan/io/atomic_file.hpp"
#include "banyan/io/prototxt.hpp"
#include "train/commands/topology_simulation.hpp"

namespace banyan {
namespace {

using parallel::SimulatedIteration;
using Row = std::vector<std::string>;

/// Half of the last digit, and a little for processors that round products elsewhere.
constexpr double kMs = 0.06, kPercent = 0.6;

std::string read_document(const std::string& name) {
  return io::read_file(std::string(BANYAN_SOURCE "/docs/") + name, 1 << 20);
}

SimulationParameter example(const std::string& name) {
  SimulationParameter machine;
  io::parse_text(read_document("examples/" + name), name, machine);
  return machine;
}

SimulationReport simulate(SimulationParameter machine) {
  const std::string model = machine.model();
  if (!model.empty()) machine.set_model(std::string(BANYAN_SOURCE "/") + model);
  SimulationReport report = simulate_machine(machine, "example");
  report.model = model;
  return report;
}

/// The text from `begin`, which must be there, to `end`.
std::string part_of(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin);
  EXPECT_NE(from, std::string::npos) << begin;
  return from == std::string::npos ? "" : text.substr(from, text.find(end, from) - from);
}

/// The cells of the Markdown table that begins with `heading`: first those of the heading, then of each row.
std::vector<Row> table_of(const std::string& document, const std::string& heading) {
  std::istringstream lines(part_of(document, "| " + heading + " |", "\n\n"));
  std::vector<Row> rows;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("|--", 0) == 0) continue;
    std::istringstream cells(line);
    Row& row = rows.emplace_back();
    std::string cell;
    std::getline(cells, cell, '|');  // before the first one
    while (std::getline(cells, cell, '|')) {
      const std::size_t first = cell.find_first_not_of(' ');
      row.push_back(cell.substr(first, cell.find_last_not_of(' ') - first + 1));
    }
  }
  EXPECT_GT(rows.size(), 1u) << heading;
  for (const Row& row : rows) EXPECT_EQ(row.size(), rows[0].size()) << heading;
  return rows;
}

std::vector<double> numbers_in(const std::string& text) {
  std::vector<double> numbers;
  for (const char* at = text.c_str(); *at != '\0';) {
    if (std::isdigit(static_cast<unsigned char>(*at)) == 0) {
      ++at;
      continue;
    }
    char* end = nullptr;
    numbers.push_back(std::strtod(at, &end));
    at = end;
  }
  return numbers;
}

/// `text`: a number, or two as a range, which the least and the greatest of `values` are.
void expect_range(const std::string& text, const std::vector<double>& values, double within) {
  const std::vector<double> range = numbers_in(text);
  ASSERT_TRUE(range.size() == 1 || range.size() == 2) << text;
  EXPECT_NEAR(range.front(), *std::min_element(values.begin(), values.end()), within) << text;
  EXPECT_NEAR(range.back(), *std::max_element(values.begin(), values.end()), within) << text;
}

/// "MILLISECONDS (PERCENT %)", each a number or a range.
void expect_cell(const std::string& cell, const SimulationReport& report,
                 const std::vector<SimulatedIteration>& times) {
  const std::size_t bracket = cell.find('(');
  ASSERT_NE(bracket, std::string::npos) << cell;
  std::vector<double> ms, percent;
  for (const SimulatedIteration& time : times) {
    ms.push_back(time.total_s * 1e3);
    percent.push_back(100 * report.efficiency(time));
  }
  expect_range(cell.substr(0, bracket), ms, kMs);
  expect_range(cell.substr(bracket), percent, kPercent);
}

/// The same words, and the same numbers but for the last digit.
void expect_same_text(const std::string& documented, const std::string& text) {
  std::istringstream left(documented), right(text);
  std::string a, b;
  while (left >> a) {
    ASSERT_TRUE(right >> b) << "after " << a;
    char *end_a = nullptr, *end_b = nullptr;
    const double x = std::strtod(a.c_str(), &end_a), y = std::strtod(b.c_str(), &end_b);
    EXPECT_STREQ(end_a, end_b);  // what is not a number
    const std::size_t point = a.find('.');
    const auto digits = point == std::string::npos ? 0 : end_a - a.c_str() - static_cast<long>(point) - 1;
    EXPECT_NEAR(x, y, 1.01 * std::pow(10, -static_cast<double>(digits))) << a;
  }
  EXPECT_FALSE(right >> b) << b;
}

TEST(SimulatedTables, MachinesAndNetworks) {
  const std::vector<Row> rows =
      table_of(read_document("machines.md"),
               "machines | ResNet-50, 25 Gbit/s | 100 to 400 Gbit/s | SSD300, 25 Gbit/s | 100 to 400 Gbit/s");
  const SimulationReport resnet = simulate(example("machines_resnet50.prototxt"));
  const SimulationReport ssd = simulate(example("machines_ssd300.prototxt"));
  ASSERT_EQ(rows.size(), 1 + resnet.joined.size());
  ASSERT_EQ(rows.size(), 1 + ssd.joined.size());
  for (std::size_t r = 1; r < rows.size(); ++r) {
    ASSERT_EQ(rows[r].size(), 5u);
    std::size_t column = 1;
    for (const SimulationReport* report : {&resnet, &ssd}) {
      SCOPED_TRACE(cat(rows[r][0], " machines, column ", column));
      ASSERT_EQ(report->gigabits_per_s, (std::vector<double>{25, 100, 200, 400}));
      const SimulatedMachines& machines = report->joined[r - 1];
      EXPECT_EQ(rows[r][0], std::to_string(machines.machines));
      expect_cell(rows[r][column++], *report, {machines.times[0]});
      expect_cell(rows[r][column++], *report, {machines.times.begin() + 1, machines.times.end()});
    }
  }
}

/// Rows like "`message_us: 2`": the example with another value.
TEST(SimulatedTables, OtherInputs) {
  const std::vector<Row> rows =
      table_of(read_document("machines.md"),
               "ResNet-50, 100 Gbit/s, with | 2 machines | 8 machines | 16 machines | 32 machines | 64 "
               "machines");
  for (std::size_t r = 1; r < rows.size(); ++r) {
    SimulationParameter machine = example("machines_resnet50.prototxt");
    SimulationParameter::Network& network = *machine.mutable_network();
    network.clear_gigabits_per_s();
    network.add_gigabits_per_s(100);
    network.clear_machines();
    for (std::size_t c = 1; c < rows[0].size(); ++c)
      network.add_machines(static_cast<std::uint32_t>(numbers_in(rows[0][c]).at(0)));
    const std::string& label = rows[r][0];
    SCOPED_TRACE(label);
    if (const std::size_t colon = label.find(": "); colon != std::string::npos) {
      const auto* field = network.GetDescriptor()->FindFieldByName(label.substr(1, colon - 1));
      ASSERT_NE(field, nullptr);
      const double value = numbers_in(label).at(0);
      EXPECT_NE(network.GetReflection()->GetDouble(network, field), value);
      network.GetReflection()->SetDouble(&network, field, value);
    } else {
      EXPECT_EQ(label, "these values");
    }
    const SimulationReport report = simulate(machine);
    ASSERT_EQ(report.joined.size() + 1, rows[r].size());
    for (std::size_t c = 1; c < rows[r].size(); ++c)
      expect_cell(rows[r][c], report, report.joined[c - 1].times);
  }
}

/// Milliseconds with a message of 0.7 and of 2 us; rows like "64 KiB for each other machine" and "1024 KiB".
TEST(SimulatedTables, OtherBuckets) {
  const std::vector<Row> rows =
      table_of(read_document("machines.md"),
               "SSD300, 100 Gbit/s, buckets of | 8 machines | 16 machines | 32 machines | 64 machines");
  const SimulationParameter given = example("machines_ssd300.prototxt");
  ASSERT_EQ(given.level_size(), 1);
  ASSERT_EQ(given.level(0).link(), "NV4+");
  parallel::LinkMatrix links(8, parallel::LinkClass::nvlink4);
  parallel::SimulatedMachine machine{
      links,
      build_tree(links),
      {{parallel::LinkClass::nvlink4,
        {given.level(0).latency_us() * 1e-6, given.level(0).gigabytes_per_s() * 1e9}}},
      given.add_gigabytes_per_s() * 1e9,
      given.update_gigabytes_per_s() * 1e9};
  machine.largest_chunk = parallel::largest_chunk(8, DeviceKind::cuda);
  std::vector<parallel::SimulatedLayer> layers;
  for (const auto& layer : given.layer())
    layers.push_back({layer.forward_ms() * 1e-3, layer.backward_ms() * 1e-3,
                      static_cast<std::int64_t>(layer.parameters())});
  const SimulationParameter::Network& network = given.network();
  for (std::size_t r = 1; r < rows.size(); ++r)
    for (std::size_t c = 1; c < rows[r].size(); ++c) {
      SCOPED_TRACE(cat(rows[r][0], ", ", rows[0][c]));
      const int machines = static_cast<int>(numbers_in(rows[0][c]).at(0));
      const bool planned = rows[r][0] == "as training cuts them";
      const bool for_each = rows[r][0].find("for each other machine") != std::string::npos;
      machine.bucket_bytes = planned ? 0
                                     : static_cast<std::size_t>(numbers_in(rows[r][0]).at(0)) * 1024 *
                                           static_cast<std::size_t>(for_each ? machines - 1 : 1);
      const std::vector<double> documented = numbers_in(rows[r][c]);
      ASSERT_EQ(documented.size(), 2u);
      for (const bool slow : {false, true}) {
        machine.network = {machines,
                           {network.latency_us() * 1e-6, 100e9 / 8},
                           (slow ? 2 : network.message_us()) * 1e-6,
                           network.host_gigabytes_per_s() * 1e9,
                           network.sum_gigabytes_per_s() * 1e9};
        const double ms = simulate_tree(machine, layers).total_s * 1e3;
        EXPECT_NEAR(documented[slow ? 1 : 0], ms, kMs);
      }
    }
}

TEST(SimulatedTables, ExamplesAndWhatTheyPrint) {
  const std::string document = read_document("topology.md");
  EXPECT_THAT(document, testing::HasSubstr(read_document("examples/four_pcie_cards.prototxt")));
  expect_same_text(part_of(document, "models/resnet50/train.prototxt: ", "```"),
                   simulation_text(simulate(example("four_pcie_cards.prototxt"))));
  const std::string joined = "machines_resnet50.prototxt";
  EXPECT_THAT(document, testing::HasSubstr(part_of(read_document("examples/" + joined), "network {", "}\n")));
  expect_same_text(part_of(document, "Machines of 8 devices each", "```"),
                   part_of(simulation_text(simulate(example(joined))), "Machines of 8 devices", "A model: "));
}

}  // namespace
}  // namespace banyan
