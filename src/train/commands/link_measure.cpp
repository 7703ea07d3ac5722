#include "link_measure.hpp"

#include "banyan/device/device.hpp"
#include "base/another_thread.hpp"

namespace banyan {
namespace {

using parallel::Access;
using parallel::LinkVerdict;

/// With more devices only the tree's links are measured: the number of pairs grows quadratically.
constexpr int kAllPairs = 8;

/// Verifies the way that the hardware offers, then measures the way that training would take.
MeasuredLink measure(Device& owner, Device& reader, int from, int to, parallel::LinkClass link) {
  MeasuredLink measured{from, to, link, parallel::usual_access(owner, reader), {}, {}};
  measured.check = parallel::verify_link(owner, reader, measured.access);
  if (measured.check.verdict == LinkVerdict::stalled) return measured;
  if (measured.check.verdict == LinkVerdict::corrupt) measured.access = Access::staged;
  measured.speed = parallel::measure_link(owner, reader, measured.access);
  return measured;
}

}  // namespace

void measure_links(const std::vector<Device*>& devices, TopologyReport& report) {
  const int count = report.tree.size();
  report.edges_only = count > kAllPairs;
  for (int from = 0; from < count; ++from)
    for (int to = 0; to < count; ++to) {
      const bool edge = report.tree.parent(from, report.tree.root()) == to ||
                        report.tree.parent(to, report.tree.root()) == from;
      if (from == to || (report.edges_only && !edge)) continue;
      report.measured.push_back(on_another_thread([&] {
        return measure(*devices[static_cast<std::size_t>(from)], *devices[static_cast<std::size_t>(to)], from,
                       to, report.links.at(from, to));
      }));
      if (report.stalled()) return;
    }
}

}  // namespace banyan
