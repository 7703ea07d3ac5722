#include "train/commands/topology_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/device/cores.hpp"
#include "banyan/device/device.hpp"
#include "banyan/train/commands.hpp"
#include "train/commands/link_measure.hpp"

namespace banyan {
namespace {

using parallel::Access;
using parallel::LinkClass;
using parallel::LinkMatrix;
using parallel::LinkVerdict;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

/// Three GPUs; 0 and 1 share a switch; no problems.
TopologyReport three_gpus() {
  LinkMatrix links(3, LinkClass::phb);
  links.set(0, 1, LinkClass::pix);
  TopologyReport report{{"gpu:0", "gpu:1", "gpu:2"}, true,  1,  16, links, "auto",
                        parallel::build_tree(links), false, {}, {}};
  for (int from = 0; from < 3; ++from)
    for (int to = 0; to < 3; ++to)
      if (from != to)
        report.measured.push_back({from, to, links.at(from, to), Access::in_place, {}, {12.5e9, 8.25e-6}});
  report.all_reduce = {{2048, 12.34e-6, 1000}, {4 << 20, 1.5e-3, 100}, {100'000'000, 0.0321, 7}};
  return report;
}

MeasuredLink& link(TopologyReport& report, int from, int to) {
  for (MeasuredLink& measured : report.measured)
    if (measured.from == from && measured.to == to) return measured;
  throw std::out_of_range("no such link");
}

TEST(TopologyReport, Text) {
  const std::string text = topology_text(three_gpus());
  EXPECT_THAT(text, HasSubstr("         gpu:0  gpu:1  gpu:2\n"
                              "  gpu:0      -    PIX    PHB\n"
                              "  gpu:1    PIX      -    PHB\n"
                              "  gpu:2    PHB    PHB      -\n"));
  EXPECT_THAT(text, HasSubstr("Device tree (auto):\ngpu:0\n├── gpu:1\n└── gpu:2\n"));
  EXPECT_THAT(text, HasSubstr("  gpu:0  gpu:2  PHB    whole  in place  12.50 GB/s  8.25 us\n"));
  EXPECT_THAT(text, HasSubstr("   2 KiB   12.3 us  0.17 GB/s     1000\n"
                              "   4 MiB   1.50 ms  2.80 GB/s      100\n"
                              "  100 MB  32.10 ms  3.12 GB/s        7\n"))
      << text;
  EXPECT_THAT(text, HasSubstr("\nAll data arrived whole, and nothing looks slow.\n"));
}

TEST(TopologyReport, Json) {
  const std::string json = topology_json(three_gpus());
  EXPECT_THAT(json, HasSubstr("\"devices\": [\"gpu:0\", \"gpu:1\", \"gpu:2\"]"));
  EXPECT_THAT(json, HasSubstr("\"parents\": [-1, 0, 0]"));
  EXPECT_THAT(json, HasSubstr("\"all_reduce\": [\n  {\"bytes\": 2048, \"seconds_median\": 1.234e-05, "
                              "\"repeats\": 1000},\n"));
  EXPECT_THAT(json,
              HasSubstr("{\"from\": 0, \"to\": 2, \"class\": \"PHB\", \"data\": \"whole\", \"way\": \"in "
                        "place\", \"bytes_per_second\": 1.25e+10, \"latency_seconds\": 8.25e-06}"));
  EXPECT_THAT(json, HasSubstr("\"advice\": [\"All data arrived whole, and nothing looks slow.\"]"));
}

TEST(TopologyReport, Dot) {
  EXPECT_EQ(topology_dot(three_gpus()),
            "graph devices {\n"
            "  0 [label=\"gpu:0\", shape=doublecircle];\n"
            "  1 [label=\"gpu:1\"];\n"
            "  2 [label=\"gpu:2\"];\n"
            "  0 -- 1 [label=\"PIX\"];\n"
            "  0 -- 2 [label=\"PHB\"];\n"
            "  1 -- 2 [label=\"PHB\", style=dotted];\n"
            "}\n");
}

TEST(TopologyAdvice, DamagedData) {
  TopologyReport report = three_gpus();
  link(report, 0, 2).check = {LinkVerdict::corrupt, "5 of 9 words differ"};
  link(report, 0, 2).access = Access::staged;
  EXPECT_THAT(topology_advice(report),
              ElementsAre("P2P from gpu:0 to gpu:2 corrupts data (5 of 9 words differ): training stages "
                          "through the host; check the IOMMU and ACS settings of BIOS and kernel."));
  EXPECT_THAT(topology_text(report), HasSubstr("PHB    CORRUPT  staged through the host"));
  EXPECT_FALSE(report.stalled());
}

TEST(TopologyAdvice, DataThatDoNotArrive) {
  TopologyReport report = three_gpus();
  link(report, 1, 2).check = {LinkVerdict::stalled, "not done after 10 s"};
  EXPECT_TRUE(report.stalled());
  EXPECT_THAT(topology_advice(report),
              Contains(HasSubstr("P2P from gpu:1 to gpu:2 does not deliver (not done")));
}

TEST(TopologyAdvice, OneWaySlower) {
  TopologyReport report = three_gpus();
  link(report, 2, 0).speed.bytes_per_second = 7e9;
  EXPECT_THAT(topology_advice(report),
              ElementsAre(HasSubstr("Copies from gpu:2 to gpu:0 reach 7.00 GB/s, the other way 12.50 GB/s")));
}

TEST(TopologyAdvice, FewLanes) {
  TopologyReport report = three_gpus();
  link(report, 0, 1).speed.bytes_per_second = link(report, 1, 0).speed.bytes_per_second = 3e9;
  EXPECT_THAT(topology_advice(report), ElementsAre(HasSubstr("less than eight PCIe 3 lanes give")));
}

TEST(TopologyAdvice, NoPeerAccess) {
  TopologyReport report = three_gpus();
  report.links.set(1, 2, LinkClass::none);
  EXPECT_THAT(topology_advice(report),
              ElementsAre(HasSubstr("between gpu:1 and gpu:2: what crosses there goes "
                                    "through host memory; the tree avoids it.")));
  report.links.set(0, 2, LinkClass::none);
  EXPECT_THAT(topology_advice(report), ElementsAre(HasSubstr("the tree cannot avoid it.")));
}

TEST(TopologyAdvice, ATreeThatIsSlowerThanItMust) {
  TopologyReport report = three_gpus();
  report.links.set(1, 2, LinkClass::sys);
  report.tree_choice = "chain";
  report.tree = parallel::chain_tree(3);
  EXPECT_THAT(topology_advice(report),
              ElementsAre("--tree=chain crosses a link of class SYS; --tree=auto needs "
                          "none slower than PHB."));
}

TEST(TopologyAdvice, MoreThreadsThanCores) {
  TopologyReport report{{"cpu:0", "cpu:1"},      false, 2,  2, LinkMatrix(2, LinkClass::memory), "auto",
                        parallel::chain_tree(2), false, {}, {}};
  EXPECT_THAT(topology_advice(report), ElementsAre(HasSubstr("2 devices with 2 threads each share 2 cores")));
}

TEST(TopologyCommand, DrawsTheGraphOfTheTreeThatIsAskedFor) {
  TopologyOptions options;
  options.devices = {{DeviceKind::cpu, 0}, {DeviceKind::cpu, 1}, {DeviceKind::cpu, 2}};
  options.tree = "chain";
  options.dot = true;
  EXPECT_THAT(describe_topology(options), HasSubstr("1 -- 2 [label=\"MEM\"]"));
}

/// What is measured next asks how many cores there are.
TEST(TopologyCommand, MeasuringLinksLeavesTheCallerItsCores) {
  const std::vector<int> before = allowed_cores();
  if (before.size() < 2) GTEST_SKIP() << "one core";
  CpuDeviceOptions bound;
  bound.threads = 1;
  bound.cores = {before[0]};
  const auto first = make_cpu_device(0, bound), second = make_cpu_device(1, bound);
  TopologyReport report{{"cpu:0", "cpu:1"},      false, 1,  2, LinkMatrix(2, LinkClass::memory), "auto",
                        parallel::chain_tree(2), false, {}, {}};
  measure_links({first.get(), second.get()}, report);
  EXPECT_EQ(report.measured.size(), 2U);
  EXPECT_EQ(allowed_cores(), before);
}

TEST(TopologyCommand, OneDeviceNeedsNoTree) {
  TopologyOptions options;
  options.devices = {{DeviceKind::cpu, 0}};
  EXPECT_THAT(describe_topology(options), HasSubstr("One device needs no tree"));
}

}  // namespace
}  // namespace banyan
