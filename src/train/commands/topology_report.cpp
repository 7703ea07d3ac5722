#include "train/commands/topology_report.hpp"

#include <algorithm>
#include <iomanip>
#include <set>
#include <sstream>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan {
namespace {

using parallel::Access;
using parallel::LinkClass;
using parallel::LinkVerdict;

const std::string& device(const TopologyReport& report, int index) { return report.devices[index]; }

std::string fixed(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

std::string duration(double seconds) {
  if (seconds < 1e-3) return fixed(seconds * 1e6, seconds < 1e-5 ? 2 : 1) + " us";
  if (seconds < 1) return fixed(seconds * 1e3, 2) + " ms";
  return fixed(seconds, 2) + " s";
}

std::string rate(double bytes_per_second) { return fixed(bytes_per_second / 1e9, 2) + " GB/s"; }

std::string size(std::size_t bytes) {
  for (const auto& [unit, name] : {std::pair<std::size_t, const char*>{1u << 20, " MiB"}, {1u << 10, " KiB"}})
    if (bytes >= unit && bytes % unit == 0) return cat(bytes / unit, name);
  if (bytes % 1000000 == 0) return cat(bytes / 1000000, " MB");
  return cat(bytes, " B");
}

/// Columns as wide as their widest cell, left-aligned; from column `numbers` on right-aligned.
std::string table(const std::vector<std::vector<std::string>>& rows, std::size_t numbers) {
  std::vector<std::size_t> widths(rows[0].size());
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string out;
  for (const auto& row : rows) {
    std::string line = " ";
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string gap(widths[c] - row[c].size(), ' ');
      line += " " + (c < numbers ? row[c] + gap : gap + row[c]) + " ";
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

std::string matrix_text(const TopologyReport& report) {
  std::vector<std::vector<std::string>> rows = {{""}};
  rows[0].insert(rows[0].end(), report.devices.begin(), report.devices.end());
  for (int a = 0; a < report.links.devices(); ++a) {
    std::vector<std::string> row = {device(report, a)};
    for (int b = 0; b < report.links.devices(); ++b)
      row.emplace_back(a == b ? "-" : name_of(report.links.at(a, b)));
    rows.push_back(row);
  }
  return table(rows, 1);
}

std::string links_text(const TopologyReport& report) {
  std::vector<std::vector<std::string>> rows = {
      {"from", "to", "class", "data", "way", "bandwidth", "latency"}};
  for (const MeasuredLink& link : report.measured) {
    const bool moved = link.check.verdict != LinkVerdict::stalled;
    rows.push_back({device(report, link.from), device(report, link.to), name_of(link.link),
                    name_of(link.check.verdict), name_of(link.access),
                    moved ? rate(link.speed.bytes_per_second) : "-",
                    moved ? duration(link.speed.latency_seconds) : "-"});
  }
  return table(rows, 5);
}

std::string all_reduce_text(const std::vector<parallel::AllReduceTime>& times) {
  std::vector<std::vector<std::string>> rows = {{"size", "median", "bandwidth", "repeats"}};
  for (const auto& time : times)
    rows.push_back({size(time.bytes), duration(time.seconds_median),
                    rate(static_cast<double>(time.bytes) / time.seconds_median),
                    std::to_string(time.repeats)});
  return table(rows, 0);
}

std::string all_reduce_json(const std::vector<parallel::AllReduceTime>& times) {
  std::ostringstream out;
  out << std::setprecision(9);
  for (const auto& time : times)
    out << (&time == &times[0] ? "" : ",") << "\n  {\"bytes\": " << time.bytes
        << ", \"seconds_median\": " << time.seconds_median << ", \"repeats\": " << time.repeats << "}";
  return out.str();
}

LinkClass slowest_edge(const parallel::Tree& tree, const parallel::LinkMatrix& links) {
  LinkClass slowest = LinkClass::memory;
  for (int node = 0; node < tree.size(); ++node)
    for (const int next : tree.neighbours(node)) slowest = std::min(slowest, links.at(node, next));
  return slowest;
}

/// Links that damage data or are slow.
void advise_on_links(const TopologyReport& report, std::vector<std::string>& advice) {
  for (const MeasuredLink& link : report.measured) {
    const std::string pair = cat("from ", device(report, link.from), " to ", device(report, link.to));
    if (link.check.verdict == LinkVerdict::corrupt)
      advice.push_back(cat("P2P ", pair, " corrupts data (", link.check.what, "): training stages ",
                           "through the host; ", parallel::kLinkHint, "."));
    if (link.check.verdict == LinkVerdict::stalled)
      advice.push_back(cat("P2P ", pair, " does not deliver (", link.check.what,
                           "): training on both would stop at the start; ", parallel::kLinkHint,
                           ", or leave one of the two out."));
    if (!report.on_gpus || link.check.verdict != LinkVerdict::whole) continue;
    const auto back = std::find_if(report.measured.begin(), report.measured.end(), [&](const auto& other) {
      return other.from == link.to && other.to == link.from;
    });
    if (back != report.measured.end() && link.speed.bytes_per_second < 0.6 * back->speed.bytes_per_second)
      advice.push_back(cat("Copies ", pair, " reach ", rate(link.speed.bytes_per_second), ", the other way ",
                           rate(back->speed.bytes_per_second),
                           ": look for another program on the link, or a slot with fewer lanes."));
    constexpr double kEightLanes = 6e9;  // PCIe 3, bytes per second in practice
    const bool pcie = link.link >= LinkClass::phb && link.link <= LinkClass::pix;
    if (pcie && link.from < link.to && link.speed.bytes_per_second < kEightLanes)
      advice.push_back(cat("Copies ", pair, " reach ", rate(link.speed.bytes_per_second),
                           ", less than eight PCIe 3 lanes give: see whether both cards sit in full slots."));
  }
}

void advise_on_devices(const TopologyReport& report, std::vector<std::string>& advice) {
  const int count = report.tree.size();
  std::set<std::string> without;
  int shared = 0;
  for (int a = 0; a < count; ++a)
    for (int b = a + 1; b < count; ++b) {
      if (report.links.at(a, b) == LinkClass::none)
        without.insert(device(report, a) + " and " + device(report, b));
      shared += report.on_gpus && report.links.at(a, b) == LinkClass::memory;
    }
  if (!without.empty())
    advice.push_back(cat("No peer access between ", join({without.begin(), without.end()}, ", "),
                         ": what crosses there goes through host memory",
                         slowest_edge(report.tree, report.links) == LinkClass::none
                             ? "; the tree cannot avoid it."
                             : "; the tree avoids it."));
  if (shared > 0)
    advice.push_back("Replicas on one GPU share its speed: good for tests and for SyncBN, not for speed.");
  if (!report.on_gpus && count * report.threads_per_device > report.cores)
    advice.push_back(cat(count, " devices with ", report.threads_per_device, " thread",
                         report.threads_per_device == 1 ? "" : "s", " each share ", report.cores,
                         " cores: exchanges wait for the scheduler. --cpu=", report.cores,
                         " or fewer would not."));
  const LinkClass chosen = slowest_edge(report.tree, report.links);
  const LinkClass best = slowest_edge(parallel::build_tree(report.links), report.links);
  if (chosen < best)
    advice.push_back(cat("--tree=", report.tree_choice, " crosses a link of class ", name_of(chosen),
                         "; --tree=auto needs none slower than ", name_of(best), "."));
}

}  // namespace

bool TopologyReport::stalled() const {
  return std::any_of(measured.begin(), measured.end(),
                     [](const MeasuredLink& link) { return link.check.verdict == LinkVerdict::stalled; });
}

std::vector<std::string> topology_warnings(const TopologyReport& report) {
  std::vector<std::string> advice;
  advise_on_links(report, advice);
  advise_on_devices(report, advice);
  return advice;
}

std::vector<std::string> topology_advice(const TopologyReport& report) {
  std::vector<std::string> advice = topology_warnings(report);
  if (advice.empty())
    advice.emplace_back(report.tree.size() == 1 ? "One device needs no tree: nothing is exchanged."
                                                : "All data arrived whole, and nothing looks slow.");
  return advice;
}

std::string topology_text(const TopologyReport& report) {
  std::ostringstream out;
  out << "Links (MEM one memory, NV NVLinks, PIX one PCIe switch, PXB several, PHB one host bridge,\n"
         "SYS across host bridges, none through host memory):\n"
      << matrix_text(report) << "\nDevice tree (" << report.tree_choice << "):\n"
      << report.tree.draw(report.devices);
  if (!report.measured.empty())
    out << "\n"
        << (report.edges_only ? "The tree's links" : "Links") << ", measured:\n"
        << links_text(report);
  if (!report.all_reduce.empty())
    out << "\nSum of f32 over all " << report.devices.size() << " devices:\n"
        << all_reduce_text(report.all_reduce);
  out << "\n";
  for (const std::string& line : topology_advice(report)) out << line << "\n";
  return out.str();
}

std::string topology_json(const TopologyReport& report) {
  std::ostringstream out;
  std::vector<std::string> rows, parents;
  for (int a = 0; a < report.links.devices(); ++a) {
    std::vector<std::string> row;
    for (int b = 0; b < report.links.devices(); ++b) row.emplace_back(name_of(report.links.at(a, b)));
    rows.push_back(json_strings(row));
  }
  for (int node = 0; node < report.tree.size(); ++node)
    parents.push_back(std::to_string(report.tree.parent(node, report.tree.root())));
  out << "{\"devices\": " << json_strings(report.devices) << ",\n \"links\": " << json_array(rows)
      << ",\n \"tree\": " << json_string(report.tree_choice) << ", \"parents\": " << json_array(parents);
  out << std::setprecision(9) << ",\n \"measured\": [";
  for (const MeasuredLink& link : report.measured)
    out << (&link == &report.measured[0] ? "" : ",") << "\n  {\"from\": " << link.from
        << ", \"to\": " << link.to << ", \"class\": " << json_string(name_of(link.link))
        << ", \"data\": " << json_string(name_of(link.check.verdict))
        << ", \"way\": " << json_string(name_of(link.access))
        << ", \"bytes_per_second\": " << link.speed.bytes_per_second
        << ", \"latency_seconds\": " << link.speed.latency_seconds << "}";
  out << "],\n \"all_reduce\": [" << all_reduce_json(report.all_reduce)
      << "],\n \"advice\": " << json_strings(topology_advice(report)) << "}\n";
  return out.str();
}

std::string topology_dot(const TopologyReport& report) {
  std::ostringstream out;
  out << "graph devices {\n";
  for (int a = 0; a < report.tree.size(); ++a)
    out << "  " << a << " [label=" << json_string(device(report, a))
        << (a == report.tree.root() ? ", shape=doublecircle" : "") << "];\n";
  for (int a = 0; a < report.tree.size(); ++a)
    for (int b = a + 1; b < report.tree.size(); ++b) {
      const auto& near = report.tree.neighbours(a);
      const bool edge = contains(near, b);
      if (!edge && report.links.at(a, b) == LinkClass::none) continue;
      out << "  " << a << " -- " << b << " [label=" << json_string(name_of(report.links.at(a, b)))
          << (edge ? "" : ", style=dotted") << "];\n";
    }
  out << "}\n";
  return out.str();
}

namespace {

constexpr char kField = '\x1f';  // in no name and no drawing

/// A process's tree as a branch of the picture.
std::string branch(const ProcessTopology& process, bool last) {
  std::string out = (last ? "└── " : "├── ") + process.name + "\n", line;
  std::istringstream lines(process.tree);
  for (bool first = true; std::getline(lines, line); first = false)
    out += (last ? "    " : "│   ") + std::string(first ? "└── " : "    ") + line + "\n";
  return out;
}

double slower_way(const MeasuredNetwork& link) {
  return std::min(link.speed.there_bytes_per_s, link.speed.back_bytes_per_s);
}

}  // namespace

std::string ProcessTopology::pack() const {
  std::string packed = name + kField + tree + kField + json;
  for (const std::string& line : advice) packed += kField + line;
  return packed;
}

ProcessTopology ProcessTopology::unpack(const std::string& packed) {
  ProcessTopology process;
  std::istringstream in(packed);
  std::getline(in, process.name, kField);
  std::getline(in, process.tree, kField);
  std::getline(in, process.json, kField);
  for (std::string line; std::getline(in, line, kField);) process.advice.push_back(line);
  return process;
}

std::vector<std::string> joined_topology_advice(const JoinedTopology& report) {
  std::vector<std::string> advice;
  for (const ProcessTopology& process : report.processes)
    for (const std::string& line : process.advice) advice.push_back(process.name + ": " + line);
  std::vector<double> speeds;
  for (const MeasuredNetwork& link : report.network) speeds.push_back(slower_way(link));
  std::sort(speeds.begin(), speeds.end());
  for (const MeasuredNetwork& link : report.network)
    if (slower_way(link) < 0.5 * speeds[speeds.size() / 2])
      advice.push_back(cat("Messages between ", report.processes[link.from].name, " and ",
                           report.processes[link.to].name, " reach ", rate(slower_way(link)),
                           ", less than half of what is usual here: look for another interface "
                           "(--mca btl_tcp_if_include), or another program on the network."));
  if (advice.empty()) advice.emplace_back("All data arrived whole, and nothing looks slow.");
  return advice;
}

std::string joined_topology_text(const JoinedTopology& report) {
  std::ostringstream out;
  out << report.processes.size() << " processes with " << report.devices << " devices:\n";
  for (const ProcessTopology& process : report.processes)
    out << branch(process, &process == &report.processes.back());
  std::vector<std::vector<std::string>> rows = {{"from", "to", "there", "back", "latency"}};
  for (const MeasuredNetwork& link : report.network)
    rows.push_back({report.processes[link.from].name, report.processes[link.to].name,
                    rate(link.speed.there_bytes_per_s), rate(link.speed.back_bytes_per_s),
                    duration(link.speed.latency_s)});
  out << "\nNetwork between " << (report.all_pairs ? "processes" : "neighbouring processes")
      << ", measured:\n"
      << table(rows, 2) << "\nSum of f32 over all " << report.devices << " devices:\n"
      << all_reduce_text(report.all_reduce) << "\n";
  for (const std::string& line : joined_topology_advice(report)) out << line << "\n";
  return out.str();
}

std::string joined_topology_json(const JoinedTopology& report) {
  std::ostringstream out;
  out << std::setprecision(9) << "{\"processes\": [";
  for (const ProcessTopology& process : report.processes)
    out << (&process == &report.processes[0] ? "" : ",") << "\n {\"name\": " << json_string(process.name)
        << ", \"topology\": " << process.json << "}";
  out << "],\n \"network\": [";
  for (const MeasuredNetwork& link : report.network)
    out << (&link == &report.network[0] ? "" : ",") << "\n  {\"from\": " << link.from
        << ", \"to\": " << link.to << ", \"bytes_per_second\": " << link.speed.there_bytes_per_s
        << ", \"bytes_per_second_back\": " << link.speed.back_bytes_per_s
        << ", \"latency_seconds\": " << link.speed.latency_s << "}";
  out << "],\n \"all_reduce\": [" << all_reduce_json(report.all_reduce)
      << "],\n \"advice\": " << json_strings(joined_topology_advice(report)) << "}\n";
  return out.str();
}

}  // namespace banyan
