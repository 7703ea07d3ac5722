// The few functions of NVML (libnvidia-ml.so.1, part of the driver) that report NVLinks. Types and numbers
// are those of NVML's stable C interface; the library is loaded at run time, so that the program needs
// neither it nor its header.
#include "nvml.hpp"

#include <dlfcn.h>

#include <cstdio>

namespace banyan::parallel {
namespace {

using Result = int;  // 0: success
using DeviceHandle = void*;

struct PciInfo {  // nvmlPciInfo_t
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

constexpr unsigned kMostLinks = 18;
constexpr int kRemoteSwitch = 2;  // NVML_NVLINK_DEVICE_TYPE_SWITCH

class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    const bool found = find("nvmlInit_v2", init) && find("nvmlShutdown", shutdown) &&
                       find("nvmlDeviceGetHandleByPciBusId_v2", device_by_bus_id) &&
                       find("nvmlDeviceGetNvLinkState", link_state) &&
                       find("nvmlDeviceGetNvLinkRemotePciInfo_v2", remote_pci);
    find("nvmlDeviceGetNvLinkRemoteDeviceType", remote_type);  // newer libraries only
    started_ = found && init() == 0;
  }
  ~Nvml() {
    if (started_) shutdown();
    if (library_ != nullptr) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  bool usable() const { return started_; }

  Result (*init)() = nullptr;
  Result (*shutdown)() = nullptr;
  Result (*device_by_bus_id)(const char*, DeviceHandle*) = nullptr;
  Result (*link_state)(DeviceHandle, unsigned, int*) = nullptr;
  Result (*remote_pci)(DeviceHandle, unsigned, PciInfo*) = nullptr;
  Result (*remote_type)(DeviceHandle, unsigned, int*) = nullptr;

 private:
  template <class Function>
  bool find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    return function != nullptr;
  }
  void* library_;
  bool started_ = false;
};

NvLinks links_of(const Nvml& nvml, DeviceHandle device, const std::string& bus_id) {
  NvLinks links{bus_id, {}, 0};
  for (unsigned link = 0; link < kMostLinks; ++link) {
    int active = 0;
    if (nvml.link_state(device, link, &active) != 0 || active == 0) continue;
    int type = -1;
    if (nvml.remote_type != nullptr && nvml.remote_type(device, link, &type) == 0 && type == kRemoteSwitch) {
      ++links.to_switches;
      continue;
    }
    PciInfo remote{};
    if (nvml.remote_pci(device, link, &remote) != 0) continue;
    char text[32];
    std::snprintf(text, sizeof text, "%04x:%02x:%02x.0", remote.domain & 0xffff, remote.bus & 0xff,
                  remote.device & 0xff);
    links.remote.emplace_back(text);
  }
  return links;
}

}  // namespace

std::optional<std::vector<NvLinks>> read_nvlinks(const std::vector<std::string>& bus_ids) {
  const Nvml nvml;
  if (!nvml.usable()) return std::nullopt;
  std::vector<NvLinks> all;
  for (const std::string& bus_id : bus_ids) {
    DeviceHandle device = nullptr;
    if (nvml.device_by_bus_id(bus_id.c_str(), &device) != 0) return std::nullopt;
    all.push_back(links_of(nvml, device, bus_id));
  }
  return all;
}

}  // namespace banyan::parallel
