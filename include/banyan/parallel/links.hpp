// Links of this machine: which class of link joins each pair of devices. The sources are the CUDA driver
// (peer access), NVML if its library is installed (NVLinks) and sysfs (the PCI tree). What is done with their
// answers is pure and tested on recorded machines.
#pragma once

#include <string>
#include <vector>

#include "banyan/device/device.hpp"
#include "banyan/parallel/topology.hpp"

namespace banyan::parallel {

/// CPU devices and replicas on one GPU share memory. GPUs without peer access have no link. Others have the
/// class of their NVLinks, otherwise of their path through the PCI tree; `phb` if the PCI tree is hidden (in
/// some containers).
LinkMatrix discover_links(const std::vector<Device*>& devices);

/// The class of the path between two devices in the PCI tree, given by their folders with all links resolved,
/// such as `/sys/devices/pci0000:16/0000:16:01.0/0000:17:00.0`. Pure. The same folder twice: memory.
LinkClass pci_link(const std::string& first, const std::string& second);

/// "00000000:3B:00.0" or "0000:3B:00.0" as sysfs writes it: "0000:3b:00.0".
std::string sysfs_bus_id(const std::string& bus_id);

/// What NVML reports about one GPU's NVLinks.
struct NvLinks {
  std::string bus_id;               ///< as sysfs_bus_id
  std::vector<std::string> remote;  ///< for every active link to a GPU: that GPU's bus id
  int to_switches = 0;              ///< active links to NVSwitches
};
/// Number of NVLinks from one to the other: direct ones, or through switches that both are linked to. Pure.
int nvlinks_between(const NvLinks& first, const NvLinks& second);
/// For 1, 2 or 3, and more links; none for 0.
LinkClass nvlink_class(int links);

}  // namespace banyan::parallel
