#include "banyan/parallel/links.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>

#include "banyan/device/cuda_devices.hpp"
#include "nvml.hpp"

namespace banyan::parallel {
namespace {

/// The parts of a sysfs path from the host bridge (`pci0000:16`) on.
std::vector<std::string> pci_parts(const std::string& path) {
  std::vector<std::string> parts;
  for (const auto& part : std::filesystem::path(path)) {
    const std::string name = part.string();
    if (!parts.empty() || name.starts_with("pci")) parts.push_back(name);
  }
  return parts;
}

/// The device's folder in the PCI tree; "" if sysfs does not show it.
std::string pci_path(const std::string& bus_id) {
  std::error_code error;
  const auto path = std::filesystem::canonical("/sys/bus/pci/devices/" + bus_id, error);
  return error ? std::string() : path.string();
}

/// All that needs to be known about the GPUs in use, queried once each.
class GpuPlaces {
 public:
  explicit GpuPlaces(const std::vector<int>& ordinals) {
    for (const int ordinal : ordinals)
      if (!index_.contains(ordinal)) {
        index_[ordinal] = bus_ids_.size();
        bus_ids_.push_back(sysfs_bus_id(cuda_pci_bus_id(ordinal)));
      }
    nvlinks_ = read_nvlinks(bus_ids_);
  }
  LinkClass between(int first, int second) const {
    const std::size_t a = index_.at(first), b = index_.at(second);
    const LinkClass nvlink =
        nvlinks_ ? nvlink_class(nvlinks_between((*nvlinks_)[a], (*nvlinks_)[b])) : LinkClass::none;
    if (nvlink != LinkClass::none) return nvlink;
    const std::string from = pci_path(bus_ids_[a]), to = pci_path(bus_ids_[b]);
    return from.empty() || to.empty() ? LinkClass::phb : pci_link(from, to);
  }

 private:
  std::map<int, std::size_t> index_;
  std::vector<std::string> bus_ids_;
  std::optional<std::vector<NvLinks>> nvlinks_;
};

}  // namespace

std::string sysfs_bus_id(const std::string& bus_id) {
  std::string result = bus_id;
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  const std::size_t domain = result.find(':');
  if (domain != std::string::npos && domain > 4 && result.starts_with(std::string(domain - 4, '0')))
    result.erase(0, domain - 4);
  return result;
}

LinkClass pci_link(const std::string& first, const std::string& second) {
  const std::vector<std::string> a = pci_parts(first), b = pci_parts(second);
  if (a == b) return LinkClass::memory;
  const auto [end_a, end_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const auto common = end_a - a.begin();
  if (common == 0) return LinkClass::sys;
  if (common == 1) return LinkClass::phb;
  // Below a switch's upstream port (the common one) a card's path continues with the downstream port and the
  // card; anything longer leads through another switch.
  const auto rest = std::max(a.end() - end_a, b.end() - end_b);
  return rest <= 2 ? LinkClass::pix : LinkClass::pxb;
}

int nvlinks_between(const NvLinks& first, const NvLinks& second) {
  const auto direct = std::count(first.remote.begin(), first.remote.end(), second.bus_id);
  return static_cast<int>(direct) + std::min(first.to_switches, second.to_switches);
}

LinkClass nvlink_class(int links) {
  if (links >= 4) return LinkClass::nvlink4;
  if (links >= 2) return LinkClass::nvlink2;
  return links == 1 ? LinkClass::nvlink1 : LinkClass::none;
}

LinkMatrix discover_links(const std::vector<Device*>& devices) {
  const int count = static_cast<int>(devices.size());
  LinkMatrix links(count, LinkClass::memory);
  std::vector<int> ordinals;
  for (const Device* device : devices)
    if (device->kind() == DeviceKind::cuda) ordinals.push_back(device->ordinal());
  if (ordinals.empty() ||
      std::all_of(ordinals.begin(), ordinals.end(), [&](int o) { return o == ordinals[0]; }))
    return links;
  const GpuPlaces places(ordinals);
  for (int a = 0; a < count; ++a)
    for (int b = a + 1; b < count; ++b) {
      Device& first = *devices[a];
      Device& second = *devices[b];
      if (first.ordinal() == second.ordinal()) continue;
      const bool peers = enable_peer_access(first, second);
      links.set(a, b, peers ? places.between(first.ordinal(), second.ordinal()) : LinkClass::none);
    }
  return links;
}

}  // namespace banyan::parallel
